// The page Speak: one text over POST /tts, heard while it arrives and measured.

import { ApiError, getKey, postJson, sentence } from "./api.js";
import { encodeWav, PcmReader, Player } from "./audio.js";
import { $, formatMs, formatS, save, showTrouble } from "./dom.js";
import { sampleOf } from "./samples.js";
import { fromBase64, TimedText } from "./timed.js";
import { fillSpeakers, getCapabilities, onVoices } from "./voices.js";
import { PlayerView } from "./waveform.js";

// The server makes up to 10 s ahead of its listener and then waits for it: what comes later measures the waiting.
const RTF_AUDIO_S = 8;

let view;
let player = null;
let abort = null; // of the request that runs
let spoken = null; // the body of the last request
let timed = null; // its text
let kind = "curl";

export function start() {
  view = new PlayerView($("speak-player"), "Position in the audio");
  view.onFrame = () => timed?.show(player.position, player.isPlaying);
  onVoices((capabilities, speakers) => {
    fillSpeakers($("speak-speaker"), speakers, capabilities.default_speaker);
    const languages = [new Option("Found in the text", ""), ...capabilities.languages.map((tag) => new Option(tag, tag))];
    const [language, format] = [$("speak-language").value, $("speak-format").value];
    $("speak-language").replaceChildren(...languages);
    $("speak-language").value = language;
    $("speak-format").replaceChildren(...capabilities.formats.map((name) => new Option(name, name)));
    $("speak-format").value = format || "mp3";
    $("speak-instruct").disabled = !capabilities.instruct;
    $("speak-instruct-hint").hidden = capabilities.instruct;
    $("speak-speed").min = capabilities.limits.min_speed;
    $("speak-speed").max = capabilities.limits.max_speed;
    showRequest();
  });
  $("speak-form").addEventListener("input", showRequest);
  $("speak-form").onsubmit = (event) => {
    event.preventDefault();
    speak();
  };
  $("speak-text").onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("speak-form").requestSubmit();
  };
  $("speak-stop").onclick = stop;
  $("speak-new-seed").onclick = () => {
    $("speak-seed").value = newSeed();
    showRequest();
  };
  $("speak-wav").onclick = () => save(encodeWav(player.samples(), player.sampleRate), "speech.wav");
  $("speak-file").onclick = saveFile;
  $("speak-copy").onclick = copySample;
  startTabs();
  document.addEventListener("key-changed", showRequest);
}

const newSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

/** The request that the fields describe. */
function bodyOf() {
  const form = $("speak-form").elements;
  const body = { text: form.text.value, speaker: form.speaker.value, format: form.format.value || "mp3" };
  if (form.language.value) body.language = form.language.value;
  if (form.speed.value !== "1") body.speed = Number(form.speed.value);
  if (form.instruct.value && !form.instruct.disabled) body.instruct = form.instruct.value;
  if (form.seed.value) body.seed = Number(form.seed.value);
  return body;
}

function showRequest() {
  const body = bodyOf();
  const max = getCapabilities()?.limits.max_text_chars;
  const num = [...body.text].length;
  $("speak-count").textContent = max ? `${num} of ${max} characters` : "";
  $("speak-speed-value").textContent = `${Number($("speak-speed").value)}×`;
  $("speak-file").textContent = `Save as ${body.format.toUpperCase()}`;
  $("speak-file").hidden = body.format === "wav";
  $("speak-code").textContent = sampleOf(kind, body, location.origin, Boolean(getKey()));
}

async function speak() {
  stop();
  showTrouble(null);
  await player?.close();
  const capabilities = getCapabilities();
  // A seed even where none is asked for: a file in another format then holds the same speech.
  spoken = { ...bodyOf(), seed: bodyOf().seed ?? newSeed() };
  const mine = new Player(capabilities?.default_sample_rate ?? 24000, () => changed(mine));
  player = mine;
  mine.open();
  view.show(mine);
  timed = new TimedText($("speak-words"), spoken.text);
  const controller = new AbortController();
  abort = controller;
  for (const id of ["ttfb", "sound", "length", "rtf"]) $(`speak-${id}`).textContent = "–";
  $("speak-stop").disabled = false;
  $("speak-wav").disabled = $("speak-file").disabled = true;
  $("speak-status").textContent = "Waiting for the first sound …";
  const startedAt = performance.now();
  try {
    const response = await postJson("/tts", { ...spoken, format: "pcm", timestamps: "word" }, { signal: controller.signal });
    await receive(response, mine, startedAt);
    const warnings = response.headers.get("X-Firstword-Warnings");
    if (warnings) showTrouble(sentence(warnings));
    $("speak-status").textContent = `Spoken by ${spoken.speaker} with seed ${spoken.seed}.`;
  } catch (error) {
    if (error.name === "AbortError") $("speak-status").textContent = "Stopped.";
    else {
      $("speak-status").textContent = "Nothing more came.";
      // Any other error came while the body was read.
      showTrouble(error instanceof ApiError ? error : "The server broke off before the end of the text. Try again.");
    }
  } finally {
    mine.complete();
    if (abort === controller) abort = null;
    if (player === mine) $("speak-wav").disabled = $("speak-file").disabled = !mine.numSamples;
    changed(mine);
  }
}

async function receive(response, mine, startedAt) {
  const pcm = new PcmReader();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let isFirst = true;
  let rtf = null;
  let line = ""; // as far as it came
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (line + value).split("\n");
    line = parts.pop();
    const answers = parts.map((part) => JSON.parse(part));
    const failed = answers.find((answer) => answer.error);
    if (failed) throw new Error(failed.error.message);
    const chunks = answers.filter((answer) => answer.audio !== undefined);
    if (!chunks.length) continue;
    const elapsed = performance.now() - startedAt;
    if (isFirst) $("speak-ttfb").textContent = formatMs(elapsed);
    isFirst = false;
    for (const { audio, words } of chunks) {
      mine.push(pcm.read(fromBase64(audio)));
      timed.add(words);
    }
    if (mine.firstSoundAt !== null) $("speak-sound").textContent = formatMs(mine.firstSoundAt - startedAt);
    if (mine.duration && (rtf === null || mine.duration <= RTF_AUDIO_S)) rtf = elapsed / 1000 / mine.duration;
    $("speak-length").textContent = formatS(mine.duration);
    $("speak-rtf").textContent = rtf === null ? "–" : rtf.toFixed(2);
    $("speak-status").textContent = "Playing while the rest is made …";
  }
}

function changed(mine) {
  if (mine !== player) return;
  view.changed();
  $("speak-stop").disabled = abort === null && !mine.isPlaying;
}

function stop() {
  abort?.abort();
  abort = null;
  player?.stop();
}

async function saveFile() {
  const format = $("speak-format").value;
  $("speak-file").disabled = true;
  try {
    const response = await postJson("/tts", { ...spoken, format, stream: false });
    save(await response.blob(), `speech.${format}`);
  } catch (error) {
    showTrouble(error);
  } finally {
    $("speak-file").disabled = false;
  }
}

async function copySample() {
  try {
    await navigator.clipboard.writeText($("speak-code").textContent);
    $("speak-copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("speak-code")); // the page is not secure: the user copies it
    $("speak-copy").textContent = "Selected";
  }
  setTimeout(() => ($("speak-copy").textContent = "Copy"), 1500);
}

function startTabs() {
  const tabs = [...$("speak-code-tabs").children];
  const choose = (tab) => {
    kind = tab.dataset.kind;
    for (const other of tabs) {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
    }
    $("speak-code").setAttribute("aria-labelledby", tab.id);
    showRequest();
  };
  tabs.forEach((tab, i) => {
    tab.onclick = () => choose(tab);
    tab.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    };
  });
}
