// The page Converse: text goes out word by word over the WebSocket, its audio comes back meanwhile.

import { Player } from "/assets/client/index.js";

import { client, getJson, hintFor, sentence } from "./api.js";
import { $, formatMs, formatS, h, showTrouble } from "./dom.js";
import { fillSpeakers, getCapabilities, languagesOf, onVoices } from "./voices.js";
import { PlayerView } from "./waveform.js";

const USUAL_CHARACTERS_PER_S = 14; // of speech, until this turn's own pace is known
const FINISHED = /^(.*[\s、。！？，；：]|.*[\u3040-\u30ff\u4e00-\u9fff])/su; // up to the last finished word

let view;
let turn = null; // the latest one
let numTurns = 0;
let writer = 0; // timer of the demo writer

export function start() {
  view = new PlayerView($("converse-player"), "Position in the conversation's audio");
  view.onFrame = () => turn && showTurn();
  onVoices((capabilities, speakers) => {
    fillSpeakers($("converse-speaker"), speakers, capabilities.default_speaker);
    const language = $("converse-language").value;
    $("converse-language").replaceChildren(...languagesOf(capabilities));
    $("converse-language").value = language;
    const continuous = $("converse-mode").querySelector('[value="continuous"]');
    continuous.disabled = !capabilities.continuous_text;
    if (!capabilities.continuous_text) $("converse-mode").value = "segments";
  });
  $("converse-input").addEventListener("input", (event) => !event.isComposing && sendFinishedWords());
  $("converse-input").addEventListener("compositionend", sendFinishedWords);
  $("converse-form").onsubmit = (event) => {
    event.preventDefault();
    finish();
  };
  $("converse-interrupt").onclick = interrupt;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("page-converse").hidden && !$("converse-interrupt").disabled) interrupt();
  });
  $("converse-write").onclick = () => (writer ? stopWriter() : startWriter());
  for (const name of ["speed", "rate"]) {
    const show = () => ($(`converse-${name}-value`).textContent = $(`converse-${name}`).value + (name === "speed" ? "×" : ""));
    $(`converse-${name}`).addEventListener("input", show);
  }
  document.addEventListener("key-changed", () => client.close());
  showControls();
}

function sendFinishedWords() {
  const input = $("converse-input");
  const finished = FINISHED.exec(input.value)?.[0];
  if (!finished) return;
  input.value = input.value.slice(finished.length);
  write(finished);
}

function finish() {
  const rest = $("converse-input").value;
  $("converse-input").value = "";
  stopWriter();
  if (rest.trim()) write(rest);
  if (turn?.state === "writing") {
    turn.state = "finishing";
    turn.speech.end();
  }
  showControls();
}

function startWriter() {
  const words = $("converse-demo").value.match(/\s*\S+/g) ?? [];
  if (!words.length) return;
  if (turn && turn.state !== "ended") interrupt();
  let next = 0;
  const step = () => {
    write(words[next++]);
    if (next < words.length) writer = setTimeout(step, 1000 / Number($("converse-rate").value));
    else finish();
  };
  $("converse-write").textContent = "Stop writing";
  writer = 1;
  step();
}

function stopWriter() {
  clearTimeout(writer);
  writer = 0;
  $("converse-write").textContent = "Let it write";
}

/** Speak more text, in a new turn where none takes text. */
function write(text) {
  if (turn?.state !== "writing") beginTurn();
  turn.text += text;
  for (const [word] of text.matchAll(/\s*\S+\s*$|\s*\S+|\s+$/g)) {
    const element = h("span", { className: "word sent" }, word);
    turn.words.push({ element, end: (turn.words.at(-1)?.end ?? 0) + word.length });
    turn.box.append(element);
  }
  $("converse-text").scrollTop = $("converse-text").scrollHeight;
  turn.firstTextAt ??= performance.now();
  turn.speech.write(text);
  showControls();
}

function beginTurn() {
  showTrouble(null);
  turn?.player.close();
  const player = new Player(getCapabilities()?.default_sample_rate ?? 24000, () => player === turn?.player && changed());
  const options = { speaker: $("converse-speaker").value, mode: $("converse-mode").value, timestamps: "word" };
  if ($("converse-speed").value !== "1") options.speed = Number($("converse-speed").value);
  if ($("converse-language").value) options.language = $("converse-language").value;
  turn = {
    speech: client.open(options),
    state: "writing", // then "finishing", "ended"
    text: "",
    words: [], // {element, end}: end in characters of the text
    times: [], // of the words
    box: h("p", { className: "turn" }),
    player,
    firstTextAt: null,
    isDone: false, // all audio has come
    isInterrupted: false,
    spokenChars: null, // of all its audio; known at the end
    heardChars: null, // until it was interrupted, as the server says
  };
  $("converse-text").append(turn.box);
  player.open();
  view.show(player);
  for (const id of ["first", "played", "ahead", "cancel"]) $(`converse-${id}`).textContent = "–";
  receive(turn);
}

/** Play the audio of a turn as it comes, to its end. */
async function receive(mine) {
  let numWarnings = 0;
  try {
    for await (const { samples, words, startMs } of mine.speech) {
      mine.times.push(...words);
      mine.player.push(samples);
      if (startMs === 0 && mine.player.firstSoundAt !== null) {
        $("converse-first").textContent = formatMs(mine.player.firstSoundAt - mine.firstTextAt);
      }
      for (; numWarnings < mine.speech.warnings.length; numWarnings++) {
        showTrouble(sentence(mine.speech.warnings[numWarnings]), { isWarning: true });
      }
    }
    if (mine.isInterrupted) return;
    mine.isDone = true;
    mine.spokenChars = mine.text.length;
    mine.player.complete();
  } catch (error) {
    if (mine !== turn) return;
    failTurn();
    if (error.status === 401) await getJson("/v1/capabilities").catch(() => {}); // which asks for a key
    const text = error.code === "connection_lost" ? `${sentence(error.message)} Write again to open a new one.` : sentence(error.message);
    showTrouble(error.status === 401 ? "A conversation needs a key. Set it above and write again." : text, {
      hint: hintFor(error, getCapabilities()),
    });
  }
}

/** Silent at once; the server tells what had been heard, even where it had sent all of it. */
async function interrupt() {
  stopWriter();
  $("converse-input").value = "";
  const mine = turn;
  if (!mine || mine.state === "ended") return;
  mine.player.stop();
  mine.state = "ended";
  mine.isInterrupted = true;
  const interruptedAt = performance.now();
  const answered = mine.speech.interrupt(Math.round(mine.player.playedMs));
  showControls();
  showTurn();
  const { spokenText, remainingText } = await answered;
  if (mine !== turn) return;
  mine.player.complete();
  if (spokenText || remainingText) {
    mine.heardChars = spokenText.length;
    $("converse-cancel").textContent = formatMs(performance.now() - interruptedAt);
  } // else the server said nothing, and what was heard stays an estimate
  showTurn();
}

function failTurn() {
  stopWriter();
  turn.player.stop();
  turn.player.complete();
  endTurn();
}

function endTurn() {
  turn.state = "ended";
  showControls();
  showTurn();
}

function changed() {
  view.changed();
  const { player } = turn;
  // Played to the end of a text that was spoken whole.
  if (turn.isDone && turn.state !== "ended" && !player.isPlaying && player.position >= player.duration - 0.05) endTurn();
  showTurn();
}

/** How many characters have been heard, and the word that sounds. Exact where the server sent word times. */
function heardOf({ times, text, player, spokenChars, heardChars }) {
  const ms = 1000 * player.position;
  if (times.length) {
    const now = times.findLast((word) => word.startMs <= ms);
    const isOver = now && now.endMs <= ms;
    return { heard: now ? (isOver ? now.charEnd : now.charStart) : 0, now: now && !isOver ? now.charEnd : null };
  }
  const speed = Number($("converse-speed").value);
  if (heardChars !== null) return { heard: heardChars, now: null };
  if (spokenChars !== null && player.duration) return { heard: (spokenChars * player.position) / player.duration, now: null };
  return { heard: Math.min(text.length - 1, player.position * speed * USUAL_CHARACTERS_PER_S), now: null };
}

function showTurn() {
  const { heard, now: sounding } = heardOf(turn);
  const now = turn.player.isPlaying ? sounding : null;
  const isInterrupted = turn.state === "ended" && (turn.isInterrupted || !turn.isDone);
  const isOver = turn.isDone && turn.state === "ended" && !turn.isInterrupted && turn.player.position >= turn.player.duration - 0.05;
  for (const { element, end } of turn.words) {
    const isHeard = isOver || end <= heard + 1;
    element.className = `word ${isHeard ? "heard" : isInterrupted || (turn.isDone && turn.state === "ended") ? "dropped" : "sent"}`;
    element.classList.toggle("now", now !== null && end >= now && end - element.textContent.length < now);
  }
  // Only where audio is over and no word had a time: before that nobody knows.
  $("converse-exact").hidden = turn.times.length > 0 || !turn.isDone;
  const { position, duration } = turn.player;
  $("converse-played").textContent = formatS(position);
  $("converse-ahead").textContent = turn.state === "ended" ? "–" : formatS(Math.max(0, duration - position));
}

function showControls() {
  const state = turn?.state ?? "ended";
  $("converse-interrupt").disabled = state === "ended";
  $("converse-send").disabled = state === "finishing";
  $("converse-input").disabled = state === "finishing" || writer !== 0;
  $("converse-status").textContent = {
    writing: "Open: it speaks what has come and waits for more.",
    finishing: "All text has been sent; the rest is being spoken.",
    ended: turn ? (turn.isDone && !turn.isInterrupted ? "Spoken to its end." : "Stopped.") : "Nothing is open yet.",
  }[state];
}
