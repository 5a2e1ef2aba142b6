// The page Speak: one text over POST /tts, heard while it arrives and measured.

import { encodeWav, FirstwordError, Player } from "/assets/client/index.js";

import { client, getKey, hintFor, sentence, withKey } from "./api.js";
import { $, formatMs, formatS, h, save, showTrouble } from "./dom.js";
import { keep, startHistory } from "./history.js";
import { sampleOf } from "./samples.js";
import { TimedText } from "./timed.js";
import { chooseFor, fillCards, getCapabilities, languagesOf, onVoices } from "./voices.js";
import { PlayerView } from "./waveform.js";

// The server makes up to 10 s ahead of its listener and then waits for it: what comes later measures the waiting.
const RTF_AUDIO_S = 8;
const TEXTS = {
  Story: "The lighthouse had been dark for eleven years. Then, on a Tuesday in March, somebody switched it on, and nobody in the village would say who.",
  News: "Good evening. The new bridge opened at 9:30 this morning; 12,400 cars crossed it before noon, and the mayor paid the first $2.50 herself.",
  Assistant: "Sure! I found two trains: one leaves at 7:05, the other at 8:20 from platform 3. Shall I book the early one for you?",
  中文: "灯塔已经黑了十一年。三月的一个星期二，有人把它点亮了，村里却没有人肯说是谁。",
  "中文 + English": "会议改到下午3:30，用Zoom开。别忘了把presentation发给我，谢谢！",
  "With a pause": "Three. [pause:0.6s] Two. [pause:0.6s] One. [pause:1s] [rate:0.85]And here is the first word.",
};
const MARKS = { Pause: "[pause:0.5s]", Slower: "[rate:0.85]", Faster: "[rate:1.2]", "Other voice": "[voice:NAME]" };
const FIELDS = { text: "speak-text", language: "speak-language", instruct: "speak-instruct", seed: "speak-seed", lexicon: "speak-lexicon" };

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
    fillCards($("speak-speakers"), "speaker", speakers, capabilities.default_speaker, (error) => showTrouble(error, { at: $("speak-speakers") }));
    const [language, format] = [$("speak-language").value, $("speak-format").value];
    $("speak-language").replaceChildren(...languagesOf(capabilities));
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
    if (!$("speak-go").disabled) speak();
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
  startTexts();
  startTabs();
  startHistory($("speak-history"), setBody);
  document.addEventListener("key-changed", showRequest);
}

const newSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

/** Samples to click, marks to put in, and a file that is read into the text. */
function startTexts() {
  const text = $("speak-text");
  const put = (value, from, to) => {
    text.setRangeText(value, from, to, "end");
    text.focus();
    showRequest();
  };
  const chip = (label, onclick) => h("button", { type: "button", className: "chip", onclick }, label);
  onVoices(({ languages }) => {
    const spoken = Object.entries(TEXTS).filter(([, value]) => languages.includes(languageOfText(value)));
    const show = (value) => {
      chooseFor($("speak-speakers"), languageOfText(value));
      put(value, 0, text.value.length);
    };
    $("speak-samples").replaceChildren(...spoken.map(([label, value]) => chip(label, () => show(value))));
  });
  $("speak-marks").append(...Object.entries(MARKS).map(([label, mark]) => chip(label, () => put(markOf(mark), text.selectionStart, text.selectionEnd))));
  const read = async (file) => {
    if (!file) return;
    try {
      put(await file.text(), 0, text.value.length);
    } catch {
      showTrouble(`${file.name} cannot be read. Choose a file of plain text that is still where it was.`, { at: text });
    }
  };
  $("speak-open").onchange = ({ target }) => {
    read(target.files[0]);
    target.value = "";
  };
  text.ondragover = (event) => event.dataTransfer.types.includes("Files") && event.preventDefault();
  text.ondrop = (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  };
}

const languageOfText = (text) => (/\p{Script=Han}/u.test(text) ? "zh" : "en");

/** Another voice is one that is not chosen. */
function markOf(mark) {
  const others = [...document.querySelectorAll('#speak-speakers input:not(:checked)')].map((input) => input.value);
  return mark.replace("NAME", others[0] ?? "NAME");
}

/** The request that the fields describe. */
function bodyOf() {
  const form = $("speak-form").elements;
  const body = { text: form.text.value, speaker: form.speaker?.value ?? "", format: form.format.value || "mp3" };
  if (form.language.value) body.language = form.language.value;
  if (form.speed.value !== "1") body.speed = Number(form.speed.value);
  if (form.instruct.value && !form.instruct.disabled) body.instruct = form.instruct.value;
  if (form.seed.value) body.seed = Number(form.seed.value);
  const lexicon = lexiconOf(form.lexicon.value);
  if (Object.keys(lexicon).length) body.lexicon = lexicon;
  return body;
}

/** Lines such as "Nguyen = win". */
function lexiconOf(lines) {
  const pairs = lines.split("\n").map((line) => line.split("=").map((part) => part.trim()));
  return Object.fromEntries(pairs.filter(([word, said]) => word && said));
}

/** Put a former request into the fields. */
function setBody(body) {
  const form = $("speak-form").elements;
  form.text.value = body.text;
  if (form.speaker) form.speaker.value = body.speaker;
  form.language.value = body.language ?? "";
  form.speed.value = body.speed ?? 1;
  form.instruct.value = body.instruct ?? "";
  form.seed.value = body.seed;
  form.lexicon.value = Object.entries(body.lexicon ?? {}).map((pair) => pair.join(" = ")).join("\n");
  showRequest();
}

function showRequest() {
  const body = bodyOf();
  const max = getCapabilities()?.limits.max_text_chars;
  const num = [...body.text].length;
  const isOver = num > max;
  $("speak-count").textContent = max ? `${num} of ${max} characters` : "";
  $("speak-count").classList.toggle("over", isOver);
  $("speak-long").hidden = !isOver;
  $("speak-go").disabled = isOver || !body.text.trim();
  $("speak-speed-value").textContent = `${Number($("speak-speed").value)}×`;
  $("speak-file").textContent = `Save as ${body.format.toUpperCase()}`;
  $("speak-file").hidden = body.format === "wav";
  $("speak-code").textContent = sampleOf(kind, body, location.origin, Boolean(getKey()));
}

async function speak() {
  stop();
  showTrouble(null);
  player?.close();
  const capabilities = getCapabilities();
  // A seed even where none is asked for: a file in another format then holds the same speech.
  const body = { ...bodyOf(), seed: bodyOf().seed ?? newSeed() };
  spoken = body;
  const mine = new Player(capabilities?.default_sample_rate ?? 24000, () => changed(mine));
  player = mine;
  mine.open();
  view.show(mine);
  timed = new TimedText($("speak-words"), body.text);
  const controller = new AbortController();
  abort = controller;
  for (const id of ["ttfb", "sound", "length", "rtf"]) $(`speak-${id}`).textContent = "–";
  $("speak-stop").disabled = false;
  $("speak-wav").disabled = $("speak-file").disabled = true;
  $("speak-status").textContent = "Waiting for the first sound …";
  const startedAt = performance.now();
  const { text, ...options } = body;
  try {
    const { warnings, audio } = await withKey(() => client.stream(text, options, controller.signal));
    if (warnings) showTrouble(sentence(warnings), { isWarning: true });
    await receive(audio, mine, startedAt);
    $("speak-status").textContent = `Spoken by ${body.speaker} with seed ${body.seed}.`;
  } catch (error) {
    if (player !== mine) return; // another was begun
    if (error.name === "AbortError") $("speak-status").textContent = "Stopped.";
    else {
      $("speak-status").textContent = "Nothing more came.";
      // Any other error came while the body was read.
      const isAnswer = error instanceof FirstwordError && (error.status || error.code === "unreachable");
      showTrouble(isAnswer ? error : "The server broke off before the end of the text. Try again.", {
        at: $(FIELDS[error.param]),
        hint: hintFor(error, capabilities),
      });
    }
  } finally {
    mine.complete();
    if (abort === controller) abort = null;
    if (mine.numSamples) keep(body, mine);
    if (player === mine) $("speak-wav").disabled = $("speak-file").disabled = !mine.numSamples;
    changed(mine);
  }
}

async function receive(audio, mine, startedAt) {
  let isFirst = true;
  let rtf = null;
  for await (const { samples, words } of audio) {
    const elapsed = performance.now() - startedAt;
    if (isFirst) $("speak-ttfb").textContent = formatMs(elapsed);
    isFirst = false;
    mine.push(samples);
    timed.add(words);
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
    const { text, ...options } = spoken;
    save(await withKey(() => client.render(text, { ...options, format })), `speech.${format}`);
  } catch (error) {
    showTrouble(error, { at: $("speak-status"), hint: hintFor(error, getCapabilities()) });
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
