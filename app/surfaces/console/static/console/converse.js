// The page Converse: text goes out word by word over the WebSocket, its audio comes back meanwhile.

import { ApiError, getJson, sentence, socketUrl } from "./api.js";
import { PcmReader, Player } from "./audio.js";
import { $, formatMs, formatS, h, showTrouble } from "./dom.js";
import { inUnits } from "./timed.js";
import { fillSpeakers, getCapabilities, onVoices } from "./voices.js";
import { PlayerView } from "./waveform.js";

const USUAL_CHARACTERS_PER_S = 14; // of speech, until this turn's own pace is known
const FINISHED = /^(.*[\s、。！？，；：]|.*[\u3040-\u30ff\u4e00-\u9fff])/su; // up to the last finished word

let view;
let socket = null;
let turn = null; // the latest one
let numTurns = 0;
let writer = 0; // timer of the demo writer

export function start() {
  view = new PlayerView($("converse-player"), "Position in the conversation's audio");
  view.onFrame = () => turn && showTurn();
  onVoices((capabilities, speakers) => {
    fillSpeakers($("converse-speaker"), speakers, capabilities.default_speaker);
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
  document.addEventListener("key-changed", () => socket?.close());
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
    send({ type: "end", context: turn.id });
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
  send({ type: "text", context: turn.id, text });
  showControls();
}

function beginTurn() {
  showTrouble(null);
  turn?.player.close();
  const player = new Player(getCapabilities()?.default_sample_rate ?? 24000, () => player === turn?.player && changed());
  turn = {
    id: `turn-${++numTurns}`,
    state: "writing", // then "finishing", "ended"
    text: "",
    words: [], // {element, end}: end in characters of the text
    times: [], // of the words, where the server sends them
    box: h("p", { className: "turn" }),
    player,
    pcm: new PcmReader(),
    firstTextAt: null,
    cancelledAt: null,
    spokenChars: null, // of all its audio; known at the end
    heardChars: null, // until it was interrupted, as the server says
  };
  $("converse-text").append(turn.box);
  player.open();
  view.show(player);
  for (const id of ["first", "played", "ahead", "cancel"]) $(`converse-${id}`).textContent = "–";
  const start = { type: "start", context: turn.id, speaker: $("converse-speaker").value, mode: $("converse-mode").value, timestamps: "word" };
  if ($("converse-speed").value !== "1") start.speed = Number($("converse-speed").value);
  send(start);
}

/** Silent at once; the server learns of it and tells what it had spoken. */
function interrupt() {
  stopWriter();
  $("converse-input").value = "";
  if (!turn || turn.state === "ended") return;
  turn.player.stop();
  if (turn.isDone) return endTurn(); // all audio had come: there is nothing to stop at the server
  turn.cancelledAt = performance.now();
  turn.state = "ended";
  send({ type: "cancel", context: turn.id, played_ms: Math.round(1000 * turn.player.position) });
  showControls();
  showTurn();
}

function send(message) {
  const isUsable = socket && socket.readyState <= WebSocket.OPEN;
  if (!isUsable) socket = connect();
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  else socket.waiting.push(JSON.stringify(message));
}

function connect() {
  const opened = new WebSocket(socketUrl());
  opened.binaryType = "arraybuffer";
  opened.waiting = [];
  opened.onopen = () => {
    for (const message of opened.waiting) opened.send(message);
    opened.waiting = null;
  };
  let announced = null; // the message `audio` whose bytes come next
  opened.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) return receiveAudio(announced, new Uint8Array(data));
    const message = JSON.parse(data);
    if (message.type === "audio") announced = message;
    else receive(message);
  };
  opened.onclose = async (event) => {
    if (opened !== socket) return;
    socket = null;
    if (!turn || turn.isDone || turn.state === "ended") return;
    failTurn();
    if (opened.waiting === null) {
      return showTrouble(`The server closed the conversation${event.reason ? `: ${event.reason}` : ""}. Write again to open a new one.`);
    }
    try {
      await getJson("/v1/capabilities"); // a refused upgrade has no reason in a browser; this asks for a key too
      showTrouble("The conversation could not be opened. Write again.");
    } catch (error) {
      showTrouble(error instanceof ApiError && error.status === 401 ? "A conversation needs a key. Set it above and write again." : error);
    }
  };
  return opened;
}

function receiveAudio({ context, words = [], start_ms: startMs }, bytes) {
  if (context !== turn?.id || turn.cancelledAt !== null) return;
  turn.times.push(...inUnits(turn.text, words));
  turn.player.push(turn.pcm.read(bytes));
  if (startMs === 0 && turn.player.firstSoundAt !== null) {
    $("converse-first").textContent = formatMs(turn.player.firstSoundAt - turn.firstTextAt);
  }
}

function receive(message) {
  if (message.type === "error") {
    showTrouble(sentence(message.error.message));
    if (message.fatal && message.context === turn?.id) failTurn();
    return;
  }
  if (message.context !== turn?.id) return;
  if (message.type === "warning") showTrouble(sentence(message.message));
  else if (message.type === "done") {
    turn.isDone = true;
    turn.spokenChars = turn.text.length;
    turn.player.complete();
  } else if (message.type === "cancelled") {
    turn.heardChars = message.spoken_text.length;
    $("converse-cancel").textContent = formatMs(performance.now() - turn.cancelledAt);
    turn.player.complete();
    endTurn();
  }
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
    const now = times.findLast((word) => word.start_ms <= ms);
    const isOver = now && now.end_ms <= ms;
    return { heard: now ? (isOver ? now.char_end : now.char_start) : 0, now: now && !isOver ? now.char_end : null };
  }
  const speed = Number($("converse-speed").value);
  if (heardChars !== null) return { heard: heardChars, now: null };
  if (spokenChars !== null && player.duration) return { heard: (spokenChars * player.position) / player.duration, now: null };
  return { heard: Math.min(text.length - 1, player.position * speed * USUAL_CHARACTERS_PER_S), now: null };
}

function showTurn() {
  const { heard, now: sounding } = heardOf(turn);
  const now = turn.player.isPlaying ? sounding : null;
  const isInterrupted = turn.state === "ended" && !turn.isDone;
  const isOver = turn.isDone && turn.state === "ended" && turn.player.position >= turn.player.duration - 0.05;
  for (const { element, end } of turn.words) {
    const isHeard = isOver || end <= heard + 1;
    element.className = `word ${isHeard ? "heard" : isInterrupted || (turn.isDone && turn.state === "ended") ? "dropped" : "sent"}`;
    element.classList.toggle("now", now !== null && end >= now && end - element.textContent.length < now);
  }
  $("converse-exact").hidden = turn.times.length > 0;
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
    ended: turn ? (turn.isDone ? "Spoken to its end." : "Stopped.") : "Nothing is open yet.",
  }[state];
}
