// What the server can do and who can speak: asked once, shared by the pages; choosing and hearing a speaker.

import { Player } from "/assets/client/index.js";

import { client, getJson, withKey } from "./api.js";
import { h, icon } from "./dom.js";

const SAMPLES = {
  en: "Good morning. The train to the coast leaves at half past seven.",
  zh: "早上好。去海边的火车七点半出发。",
};

let capabilities = null;
let speakers = null;
const listeners = new Set();

/** Call with (capabilities, speakers) now and after each change. */
export function onVoices(listener) {
  listeners.add(listener);
  if (speakers) listener(capabilities, speakers);
}

export async function loadVoices() {
  [capabilities, speakers] = await Promise.all([getJson("/v1/capabilities"), getJson("/speakers")]);
  speakers = speakers.speakers;
  for (const listener of listeners) listener(capabilities, speakers);
}

export const getCapabilities = () => capabilities;

/** A speaker in a few words: "woman, clear and even, American"; "" where nobody has described it. */
export function wordsFor({ description, kind, language }) {
  if (!description) return kind === "registered" ? ["from a recording", language].filter(Boolean).join(", ") : "";
  const { sex, age, manner, accent } = description;
  const grown = sex === "female" ? "woman" : "man";
  const who = { child: "child", young: `young ${grown}`, old: `old ${grown}` }[age] ?? grown;
  return `${who}, ${manner}, ${accent}`;
}

/** The language of a speaker, without its region; "" where nobody has said. */
const languageOf = ({ description }) => description?.language.split("-")[0] ?? "";
const languageOfName = (name) => languageOf(speakers?.find((speaker) => speaker.name === name) ?? {});
const sampleFor = (name) => SAMPLES[languageOfName(name)] ?? SAMPLES.en;

/** Choose the default speaker of a language on its card, unless the one that is chosen may speak it. */
export function chooseFor(box, language) {
  const own = languageOfName(box.querySelector("input:checked")?.value);
  if (!own || own === language) return;
  const name = capabilities.default_speakers[language] ?? capabilities.default_speaker;
  for (const card of box.querySelectorAll("input")) card.checked = card.value === name;
}

/** Fill a select, and keep what is chosen where it is still there. */
export function fillSpeakers(select, given, defaultSpeaker) {
  const chosen = select.value;
  const usable = given.filter((speaker) => !speaker.damaged);
  select.replaceChildren(
    ...usable.map((speaker) => h("option", { value: speaker.name }, [speaker.name, wordsFor(speaker)].filter(Boolean).join(" · "))),
  );
  select.value = usable.some((speaker) => speaker.name === chosen) ? chosen : defaultSpeaker;
}

/** Fill a box with a card for each speaker, one of which is chosen; onTrouble: called with what went wrong in hearing one. */
export function fillCards(box, name, given, defaultSpeaker, onTrouble) {
  const chosen = box.querySelector("input:checked")?.value;
  const isFirst = (speaker) => Number(speaker.name === defaultSpeaker);
  const usual = languageOfName(defaultSpeaker);
  const isOther = (speaker) => Number(!["", usual].includes(languageOf(speaker)));
  const usable = given.filter((speaker) => !speaker.damaged).sort((a, b) => isFirst(b) - isFirst(a) || isOther(a) - isOther(b));
  const checked = usable.some((speaker) => speaker.name === chosen) ? chosen : defaultSpeaker;
  box.replaceChildren(
    ...usable.map((speaker) => {
      const id = `${name}-${speaker.name}`;
      const choice = h("input", { type: "radio", className: "visually-hidden", name, id, value: speaker.name, checked: speaker.name === checked });
      const hear = h("button", { type: "button", className: "play", "aria-label": `Hear ${speaker.name}` }, icon("play"));
      hear.onclick = () => hearSpeaker(hear, speaker.name).catch(onTrouble);
      const about = wordsFor(speaker) || speaker.kind.replace("builtin", "built in");
      return h("div", { className: "voice" }, choice, h("label", { htmlFor: id }, h("b", {}, speaker.name), h("span", {}, about)), hear);
    }),
  );
}

/** Languages that can be asked for: those of the checkpoint, with the accents that it has. */
export function languagesOf({ languages, accents = [] }) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const named = (tag) => new Option(`${names.of(tag)} (${tag})`, tag);
  const own = languages.map(named);
  if (accents.includes("british")) own.push(new Option("British English (en-GB)", "en-GB"));
  return [new Option("Found in the text", ""), ...own];
}

let player = null;
let playing = null; // the button of what is heard

/** Say a sentence in a speaker's voice, or stop. */
export async function hearSpeaker(button, name) {
  if (playing === button && player?.isPlaying) return player.stop();
  const mine = await newPlayer(button, capabilities.default_sample_rate);
  const { audio } = await withKey(() => client.stream(sampleFor(name), { speaker: name, seed: 1 }));
  await mine.play(audio);
}

/** Play samples, or stop. */
export async function hearSamples(button, samples, sampleRate) {
  if (playing === button && player?.isPlaying) return player.stop();
  const mine = await newPlayer(button, sampleRate);
  mine.push(samples);
  mine.complete();
}

export const silence = () => player?.close();

async function newPlayer(button, sampleRate) {
  const former = player;
  const mine = new Player(sampleRate, () => {
    if (button.classList.contains("play")) button.replaceChildren(icon(mine.isPlaying ? "stop" : "play"));
    else button.textContent = mine.isPlaying ? "Stop" : "Play it";
  });
  player = mine;
  playing = button;
  mine.open();
  await former?.close();
  return mine;
}
