// The page Listen: a blind ABX test of the watermark, on pairs that the server speaks or that are picked.

import { Player } from "/assets/client/index.js";

import { call } from "./api.js";
import { $, h, showTrouble } from "./dom.js";
import { fillSpeakers, getCapabilities, onVoices } from "./voices.js";

const MAX_DIFFERENCE_S = 0.05; // in length, beyond which two files are not of the same speech
const MAX_DIFFERENCE_DB = 0.5; // in level, beyond which the louder one is told by its loudness
const END_S = 0.02; // before the end it counts as ended
const FILES_HZ = 48_000;
const LETTERS = ["a", "b", "x"];
const FIELDS = { text: "listen-text", speaker: "listen-speaker", strength: "listen-strength" };

let test = null; // {pairOf, numTrials, answers: [{x, said}], next, aborter}; next: the promise of the coming pair
let players = null; // of the trial that runs: {a, b, x}
let playing = null; // its letter, while one of them is heard
let heard = new Set(); // letters, in this trial
let xIs = null; // "a" or "b"

export function start() {
  onVoices((capabilities, speakers) => fillSpeakers($("listen-speaker"), speakers, capabilities.default_speaker));
  $("listen-note").append(
    "Each pair has a key of its own. To mark all that this server says set ",
    h("code", {}, "FIRSTWORD_PROVENANCE=watermark"),
    "; it then speaks no more pairs, since nothing leaves it unmarked: listen before, or to two files.",
  );
  $("listen-source").onchange = () => {
    const isSpoken = $("listen-source").value === "server";
    $("listen-spoken").hidden = !isSpoken;
    $("listen-files").hidden = isSpoken;
  };
  $("listen-form").onsubmit = (event) => {
    event.preventDefault();
    begin();
  };
  for (const letter of LETTERS) $(`listen-${letter}`).onclick = () => hear(letter);
  for (const said of ["a", "b"]) $(`listen-is-${said}`).onclick = () => answer(said);
  $("listen-stop").onclick = async () => {
    await end();
    $("listen-go").focus(); // what had it is hidden
  };
  addEventListener("hashchange", () => playing && hear(playing));
  $("listen-trial").onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const id = { a: "a", b: "b", x: "x", ArrowLeft: "is-a", ArrowRight: "is-b" }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!id && !(event.repeat && event.key === "Enter")) return;
    event.preventDefault();
    if (event.repeat) return; // a key that is held acts once
    $(`listen-${id}`).click(); // nothing where it is disabled
  };
}

/** How often guessing gets that many or more of so many right. */
export function chanceOf(numRight, numTrials) {
  let chance = 0;
  let ways = 1; // to get `right` of them right, of 2 ** numTrials
  for (let right = 0; right <= numTrials; right++) {
    if (right >= numRight) chance += ways / 2 ** numTrials;
    ways = (ways * (numTrials - right)) / (right + 1);
  }
  return chance;
}

const isHeads = () => crypto.getRandomValues(new Uint8Array(1))[0] % 2 === 1;

async function begin() {
  showTrouble(null);
  await end();
  $("listen-result").hidden = true;
  const aborter = new AbortController();
  try {
    const pairOf = $("listen-source").value === "server" ? spokenPairs(aborter.signal) : await pickedPair();
    test?.aborter.abort(); // of a second Begin, while the files were read
    test = { pairOf, numTrials: Number($("listen-trials").value), answers: [], next: null, aborter };
  } catch (error) {
    return showTrouble(error, { at: error.at });
  }
  $("listen-trial").hidden = false;
  await nextTrial();
}

/** -> a function that gives the pair of a trial: {unmarked, marked, sampleRate}, each Float32Array. signal: ends its requests. */
function spokenPairs(signal) {
  const texts = $("listen-text").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!texts.length) throw Object.assign(new Error("There is no sentence. Write one a line."), { at: $("listen-text") });
  const given = { speaker: $("listen-speaker").value, strength: Number($("listen-strength").value) };
  const sampleRate = getCapabilities().default_sample_rate;
  return async (trial) => {
    const body = JSON.stringify({ text: texts[trial % texts.length], ...given });
    const response = await call("/v1/provenance/pair", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
    const pair = await response.json();
    const decoded = async (file) => decode(Uint8Array.from(atob(file), (byte) => byte.charCodeAt(0)).buffer, sampleRate);
    return { unmarked: await decoded(pair.unmarked), marked: await decoded(pair.marked), sampleRate };
  };
}

async function pickedPair() {
  const [unmarked, marked] = await Promise.all(["listen-unmarked", "listen-marked"].map((id) => picked($(id))));
  const [first, second] = [unmarked, marked].map(({ length }) => length / FILES_HZ);
  if (Math.abs(first - second) > MAX_DIFFERENCE_S) {
    const text = `The files last ${first.toFixed(2)} s and ${second.toFixed(2)} s. Choose two of the same speech, with the same beginning and end.`;
    throw Object.assign(new Error(text), { at: $("listen-marked") });
  }
  const louder = levelOf(marked) - levelOf(unmarked);
  if (!(Math.abs(louder) <= MAX_DIFFERENCE_DB)) { // nor where one is silent
    const text = Number.isFinite(louder)
      ? `The second file is ${Math.abs(louder).toFixed(1)} dB ${louder > 0 ? "louder" : "softer"} than the first. Bring both to one level, or loudness tells them apart.`
      : "One of the files is silent. Choose two of the same speech.";
    throw Object.assign(new Error(text), { at: $("listen-marked") });
  }
  return async () => ({ unmarked, marked, sampleRate: FILES_HZ });
}

/** samples -> the root of their mean square, in dB. */
const levelOf = (samples) => 10 * Math.log10(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);

async function picked(input) {
  const file = input.files[0];
  if (!file) throw Object.assign(new Error("Choose both files."), { at: input });
  try {
    return await decode(await file.arrayBuffer(), FILES_HZ);
  } catch {
    throw Object.assign(new Error(`${file.name} cannot be played by this browser. Choose a WAV, FLAC or MP3.`), { at: input });
  }
}

const decode = async (bytes, sampleRate) => (await new OfflineAudioContext(1, 1, sampleRate).decodeAudioData(bytes)).getChannelData(0);

async function nextTrial() {
  const mine = test;
  const number = mine.answers.length;
  $("listen-number").textContent = `Trial ${number + 1} of ${mine.numTrials}`;
  $("listen-status").textContent = "The pair is being made …";
  $("listen-number").focus();
  await closePlayers();
  let pair;
  try {
    pair = await (mine.next ?? mine.pairOf(number));
  } catch (error) {
    if (test !== mine) return;
    await end();
    return showTrouble(error, { at: $(FIELDS[error.param]) });
  }
  if (test !== mine) return;
  mine.next = number + 1 < mine.numTrials ? mine.pairOf(number + 1) : null;
  mine.next?.catch(() => {}); // said when its trial comes
  const sides = isHeads() ? [pair.unmarked, pair.marked] : [pair.marked, pair.unmarked];
  xIs = isHeads() ? "a" : "b";
  heard = new Set();
  const [a, b] = sides;
  players = Object.fromEntries(Object.entries({ a, b, x: xIs === "a" ? a : b }).map(([letter, samples]) => [letter, playerOf(letter, samples, pair.sampleRate)]));
  for (const letter of LETTERS) $(`listen-${letter}`).disabled = false;
  $("listen-status").textContent = "Hear all three, as often as you like. Changing goes on at the same place.";
  $("listen-a").focus();
}

/** A player that holds its audio and waits. */
function playerOf(letter, samples, sampleRate) {
  const player = new Player(sampleRate, () => {
    if (playing === letter && player.position >= player.duration - END_S) showPlaying(null);
  });
  player.stop();
  player.push(samples);
  player.complete();
  return player;
}

function showPlaying(letter) {
  playing = letter;
  for (const other of LETTERS) $(`listen-${other}`).setAttribute("aria-pressed", other === letter);
}

/** Play one of the three from where another is, or stop it. */
function hear(letter) {
  const former = playing;
  const position = former ? players[former].position : 0;
  showPlaying(null);
  if (former) players[former].stop();
  if (former === letter) return;
  showPlaying(letter);
  players[letter].seek(position);
  heard.add(letter);
  for (const said of ["a", "b"]) $(`listen-is-${said}`).disabled = heard.size < LETTERS.length;
}

async function answer(said) {
  test.answers.push({ x: xIs, said });
  if (test.answers.length < test.numTrials) return nextTrial();
  const { answers } = test;
  await end();
  showResult(answers);
}

function showResult(answers) {
  const numRight = answers.filter(({ x, said }) => x === said).length;
  const chance = chanceOf(numRight, answers.length);
  const percent = chance < 0.001 ? "less than 0.1" : (100 * chance).toFixed(1);
  const isHeard = chance < 0.05;
  $("listen-score").textContent = `${numRight} of ${answers.length} right`;
  $("listen-chance").textContent =
    `By guessing alone as many or more are right in ${percent} % of such tests. ` +
    (isHeard ? "You probably hear a difference." : "That is no sign that you hear a difference; it does not show that nobody can.");
  $("listen-answers").replaceChildren(...answers.map(({ x, said }) => h("li", {}, `X was ${x.toUpperCase()}: ${x === said ? "right" : "wrong"}`)));
  $("listen-result").hidden = false;
  $("listen-score").focus();
}

async function end() {
  test?.aborter.abort(); // the coming pair holds a slot of the server
  test = null;
  $("listen-trial").hidden = true;
  await closePlayers();
}

/** The buttons wait from here on, before anything is awaited, until there are players again. */
async function closePlayers() {
  for (const id of [...LETTERS, "is-a", "is-b"]) $(`listen-${id}`).disabled = true;
  const former = players;
  players = null;
  showPlaying(null);
  for (const player of Object.values(former ?? {})) await player.close();
}
