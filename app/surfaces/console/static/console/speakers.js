// The page Speakers: who there is, and adding one from a recording.

import { encodeWav } from "/assets/client/index.js";

import { call, client, getJson, withKey } from "./api.js";
import { $, ask, formatS, h, icon, save, showTrouble } from "./dom.js";
import { Recorder } from "./recorder.js";
import { describe, draw, inspect } from "./recording.js";
import { getCapabilities, hearSamples, hearSpeaker, loadVoices, onVoices, silence, wordsFor } from "./voices.js";

const SENTENCES = [
  "The quick brown fox jumps over the lazy dog, while a bright yellow bird is watching from the old garden wall.",
  "On Sunday morning we walked along the river, bought fresh bread, and talked about the journey we had planned.",
  "Please leave the blue chairs where they are; three of my friends would like to join us after the show.",
];
const MAX_RECORDING_S = 30;

let recorder = null;
let isSwitching = false; // the recorder
let recording = null; // {blob, name, samples, sampleRate, found}
let sentenceIndex = 0;
let listed = [];

export function start() {
  onVoices((_, speakers) => showList(speakers));
  $("speakers-reload").onclick = () => attempt("", reload);
  $("speakers-import").onchange = (event) => importFile(event.target);
  $("enrol-sentence").textContent = SENTENCES[0];
  $("enrol-other").onclick = () => {
    sentenceIndex = (sentenceIndex + 1) % SENTENCES.length;
    $("enrol-sentence").textContent = SENTENCES[sentenceIndex];
  };
  $("enrol-record").onclick = () => attempt("", switchRecording, $("enrol-drop"));
  $("enrol-file").onchange = ({ target }) => {
    if (target.files[0]) attempt("", () => takeFile(target.files[0]), $("enrol-drop"));
    target.value = "";
  };
  startDropping();
  $("enrol-play").onclick = () => attempt("", () => hearSamples($("enrol-play"), recording.samples, recording.sampleRate), $("enrol-drop"));
  $("enrol-form").onsubmit = (event) => {
    event.preventDefault();
    enrol();
  };
  new ResizeObserver(drawRecording).observe($("enrol-canvas"));
  document.addEventListener("theme-changed", drawRecording);
}

/** at: where an error is said: the row of a speaker, a field of the form. */
async function attempt(status, action, at = $("speakers-status")) {
  showTrouble(null);
  $("speakers-status").textContent = status;
  try {
    await action();
  } catch (error) {
    showTrouble(error, { at: document.contains(at) ? at : $("speakers-status") });
    $("speakers-status").textContent = "";
  }
}

const reload = () => loadVoices();
const path = ({ name, ...speaker }, ...more) => ["/speakers", encodeURIComponent(name), ...more].join("/") + ofOwner(speaker);

/** Administrators see private speakers of all owners, among which a name may be several times. */
const ofOwner = ({ owner, access }) => (owner && access === "private" ? `?owner=${encodeURIComponent(owner)}` : "");

function showList(speakers) {
  listed = speakers;
  const isDefault = (speaker) => speaker.name === getCapabilities()?.default_speaker;
  const isBuiltIn = ({ kind }) => Number(kind !== "registered"); // behind one's own
  const sorted = [...speakers].sort((a, b) => isBuiltIn(a) - isBuiltIn(b));
  $("speakers-list").replaceChildren(...sorted.map((speaker) => itemOf(speaker, isDefault(speaker))));
}

function itemOf(speaker, isDefault) {
  const { name, kind, quality, damaged } = speaker;
  const trying = (action) => attempt("", action, $("speakers-list").querySelector(`[data-name="${CSS.escape(name)}"]`));
  const badge = (text, type = "") => h("span", { className: `badge ${type}` }, text);
  const ofRecording = [formatS(speaker.duration_s), speaker.language, speaker.transcript && `“${speaker.transcript}”`];
  const button = (text, action, label = `${text} ${name}`) =>
    h("button", { type: "button", "aria-label": label, onclick: action }, text);
  const isOwn = kind === "registered";
  const hear = h("button", { type: "button", className: "play", "aria-label": `Hear ${name}`, disabled: damaged }, icon("play"));
  hear.onclick = () => trying(() => hearSpeaker(hear, name));
  const notes = quality?.warnings.length ? h("ul", { className: "warnings" }, ...quality.warnings.map((text) => h("li", {}, text))) : null;
  const measured = quality && `${quality.snr_db.toFixed(0)} dB above the noise, ${Math.round(100 * quality.speech_ratio)} % speech`;
  return h(
    "li",
    { data: { name } },
    hear,
    h(
      "div",
      {},
      h(
        "div",
        { className: "name" },
        name,
        isDefault ? badge("default", "good") : null,
        badge(isOwn ? "registered" : "built in"),
        damaged ? badge("damaged", "bad") : null,
        speaker.cached ? null : badge("not in memory"),
        quality?.warnings.length ? badge("could be better", "warn") : null,
      ),
      h("div", { className: "about" }, speaker.description ? wordsFor(speaker) : [...ofRecording, measured].filter(Boolean).join(" · ")),
      notes,
    ),
    h(
      "div",
      { className: "row-actions" },
      isOwn && !damaged ? button("Transcript", () => trying(() => correct(speaker)), `Correct the transcript of ${name}`) : null,
      speaker.yours && !damaged ? button("Rename", () => trying(() => rename(speaker))) : null,
      isOwn && !damaged ? button("Export", () => trying(() => exportSpeaker(speaker))) : null,
      isOwn ? button("Delete", () => trying(() => remove(speaker))) : null,
    ),
  );
}

async function correct(speaker) {
  const text = "What is said in the recording, word for word.";
  const corrected = await ask({ title: `Transcript of ${speaker.name}`, text, label: "Transcript", initial: speaker.transcript });
  if (corrected === null) return;
  await change(speaker, { transcript: corrected });
}

async function change(speaker, fields) {
  await call(path(speaker), {
    method: "PATCH",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(fields),
  });
  await reload();
}

async function rename(speaker) {
  const { name } = speaker;
  const given = (await ask({ title: `Rename ${name}`, text: "Letters, digits, _ and -.", label: "New name", initial: name, ok: "Rename" }))?.trim();
  if (given === undefined || given === name) return;
  const taken = listed.find((one) => one.name === given);
  if (taken) throw new Error(`There is a speaker ${given} already${taken.owner ? `, of ${taken.owner}` : ""}; choose another name.`);
  await change(speaker, { name: given });
  $("speakers-status").textContent = `${name} is called ${given} now.`;
}

async function exportSpeaker(speaker) {
  save(await (await call(path(speaker, "export"))).blob(), `${speaker.name}.safetensors`);
}

async function remove(speaker) {
  const { name } = speaker;
  const text = "Its recording is deleted from the server. Export it first if it may be needed again.";
  if ((await ask({ title: `Delete ${name}?`, text, ok: "Delete", isDangerous: true })) === null) return;
  await call(path(speaker), { method: "DELETE" });
  await reload();
  $("speakers-status").textContent = `${name} is deleted.`;
}

function importFile(input) {
  const file = input.files[0];
  input.value = "";
  if (!file) return;
  attempt(`Importing ${file.name} …`, async () => {
    const { name } = await importBundle(file);
    await reload();
    $("speakers-status").textContent = `${name} is imported.`;
  });
}

async function importBundle(bundle) {
  const form = new FormData();
  form.append("bundle", bundle, "bundle.safetensors");
  return getJson("/speakers/import", { method: "POST", body: form });
}

async function switchRecording() {
  if (isSwitching) return;
  isSwitching = true;
  try {
    await (recorder ? stopRecording() : startRecording());
  } finally {
    isSwitching = false;
  }
}

async function startRecording() {
  await silence();
  const mine = new Recorder((db, seconds) => {
    const meter = $("enrol-meter");
    const shown = Math.max(-60, Math.min(0, db));
    meter.setAttribute("aria-valuenow", Math.round(shown));
    meter.dataset.level = db > -6 ? "loud" : "";
    meter.firstElementChild.style.width = `${100 * (1 + shown / 60)}%`;
    $("enrol-time").textContent = `${seconds.toFixed(1)} s`;
    if (seconds >= MAX_RECORDING_S && recorder === mine) attempt("", switchRecording, $("enrol-drop"));
  });
  await mine.start();
  recorder = mine;
  $("enrol-record").setAttribute("aria-pressed", "true");
  $("enrol-record").lastElementChild.textContent = "Stop";
}

async function stopRecording() {
  const finished = recorder;
  recorder = null;
  const samples = await finished.stop();
  $("enrol-record").setAttribute("aria-pressed", "false");
  $("enrol-record").lastElementChild.textContent = "Record again";
  $("enrol-meter").firstElementChild.style.width = "0";
  if (!samples.length) throw new Error("The microphone gave nothing. Record again, or choose a file.");
  if (!$("enrol-transcript").value) $("enrol-transcript").value = $("enrol-sentence").textContent;
  takeRecording(encodeWav(samples, finished.sampleRate), "recording.wav", samples, finished.sampleRate);
}

function startDropping() {
  const area = $("enrol-drop");
  area.ondragover = (event) => {
    event.preventDefault();
    area.classList.add("over");
  };
  area.ondragleave = () => area.classList.remove("over");
  area.ondrop = (event) => {
    event.preventDefault();
    area.classList.remove("over");
    const file = event.dataTransfer.files[0];
    if (file) attempt("", () => takeFile(file), $("enrol-drop"));
  };
}

async function takeFile(file) {
  const context = new AudioContext();
  try {
    const decoded = await context.decodeAudioData(await file.arrayBuffer());
    takeRecording(file, file.name, decoded.getChannelData(0), decoded.sampleRate);
  } catch {
    throw new Error(`${file.name} is no audio that this browser can read. Choose a wav, flac, mp3, ogg or m4a file.`);
  } finally {
    await context.close();
  }
}

function takeRecording(blob, name, samples, sampleRate) {
  recording = { blob, name, samples, sampleRate, found: inspect(samples, sampleRate) };
  $("enrol-recording").hidden = false;
  $("enrol-report").textContent = describe(recording.found);
  $("enrol-go").disabled = false;
  $("enrol-status").textContent = "";
  drawRecording();
}

function drawRecording() {
  if (recording && $("enrol-canvas").clientWidth) draw($("enrol-canvas"), recording.found);
}

const FIELDS = { name: "enrol-name", language: "enrol-language", transcript: "enrol-transcript" };

async function enrol() {
  const fields = { transcript: $("enrol-transcript").value };
  if ($("enrol-language").value) fields.language = $("enrol-language").value;
  const file = new File([recording.blob], recording.name);
  showTrouble(null);
  $("enrol-go").disabled = true;
  $("enrol-status").textContent = "Computing …";
  try {
    const { name, quality } = await withKey(() => client.register($("enrol-name").value, file, fields));
    await reload();
    const verdict = quality.warnings.length ? "It could be better; see the list." : "The recording is good.";
    $("enrol-status").textContent = `${name} can speak now. ${verdict}`;
  } catch (error) {
    $("enrol-status").textContent = "";
    const field = error.code === "speaker_exists" ? "enrol-name" : (FIELDS[error.param] ?? "enrol-drop");
    showTrouble(error, { at: $(field) });
  } finally {
    $("enrol-go").disabled = false;
  }
}
