// One speech: its text on the way to the server, its audio on the way back.

import { ConnectionLost, FirstwordError } from "./errors.js";
import { PcmReader, wordsOf } from "./pcm.js";

/** @typedef {import("./pcm.js").Audio} Audio */
/** @typedef {string | Iterable<string | null | undefined> | AsyncIterable<string | null | undefined>} Text */

/**
 * What the listener had heard, to the word where word times were asked for, and what was left to say.
 * @typedef {{spokenText: string, remainingText: string, audioMsSent: number}} Interrupted
 */

const NOTHING = Object.freeze({ spokenText: "", remainingText: "", audioMsSent: 0 }); // known of what was heard
const ANSWER_MS = 5000; // within which a `cancel` is answered
const MAX_RESTARTS = 3; // of a speech that does not sound yet
const RESTART_MS = 250; // before the first; more before each later one

/** A text that is being spoken: an async iterable of `Audio`. Leaving its loop early stops the server. */
export class Speech {
  /** @type {number | null} */
  sampleRate = null; // from the first audio on
  /** @type {string[]} */
  warnings = [];
  /** @type {Record<string, any> | null} */
  stats = null; // what the server measured, once all audio has come
  hasEnded = false;
  #socket;
  #speaker;
  /** @type {string | null} */
  #context = null; // null: not begun at the server
  /** @type {Record<string, any>[]} */
  #said; // to be said again, should the connection break before it sounds
  #text = "";
  #half = ""; // of a character, whose other half comes with the next piece
  #reader;
  #hasAudio = false;
  #numRestarts = 0;
  #hasAllText = false;
  /** @type {(Audio | Error)[]} */
  #queue = [];
  #wake = () => {};
  /** @type {Promise<Interrupted> | null} */
  #interruption = null;
  /** @type {(said: Interrupted) => void} */
  #answer = () => {};

  /**
   * @param {import("./socket.js").Socket} socket
   * @param {Record<string, unknown>} options of `start`: docs/api.md
   */
  constructor(socket, options) {
    this.#socket = socket;
    this.#speaker = String(options.speaker ?? "");
    this.#said = [{ type: "start", ...options }];
    this.#reader = (options.format ?? "pcm") === "pcm" ? new PcmReader() : null;
    this.#begin();
  }

  /** All that was written. */
  get text() {
    return this.#text;
  }

  /**
   * Add to the text: any piece, a word or half of one.
   * @param {string} text
   */
  write(text) {
    if (typeof text !== "string") throw new TypeError(`a piece of text has to be a string, not ${typeof text}`);
    if (this.#hasAllText) throw new Error("the text has ended; begin another speech");
    this.#text += text;
    const whole = this.#half + text;
    this.#half = /[\ud800-\udbff]$/.exec(whole)?.[0] ?? "";
    const piece = whole.slice(0, whole.length - this.#half.length).replace(/\p{Surrogate}/gu, "\ufffd");
    if (piece) this.#say({ type: "text", text: piece });
  }

  /** Speak what has come. */
  flush() {
    if (!this.#hasAllText) this.#say({ type: "flush" });
  }

  /** No more text comes. */
  end() {
    if (this.#hasAllText) return;
    this.#hasAllText = true;
    this.#say({ type: "end" });
  }

  /**
   * Write pieces as they come, until the speech has ended; then end.
   * @param {Text} text
   */
  async writeAll(text) {
    try {
      if (typeof text === "string") this.write(text);
      else {
        for await (const piece of text) {
          if (this.hasEnded) break;
          if (piece !== null && piece !== undefined) this.write(piece);
        }
      }
      this.end();
    } catch (error) {
      this.#end(error instanceof Error ? error : new Error(String(error)));
      this.#send({ type: "cancel" });
    }
  }

  /**
   * Stop at once; tell what was heard. All may have been sent by then, and a part of it played.
   * @param {number} [playedMs] how much; left out: all that was sent
   * @returns {Promise<Interrupted>}
   */
  interrupt(playedMs) {
    if (this.#interruption) return this.#interruption;
    if ((this.hasEnded && !this.stats) || !this.#context || !this.#socket.isOpen) {
      this.#end();
      return Promise.resolve(NOTHING);
    }
    this.#interruption = new Promise((resolve) => {
      const waiting = setTimeout(() => resolve(NOTHING), ANSWER_MS); // over a minute behind the last audio it says no more
      this.#answer = (said) => {
        clearTimeout(waiting);
        resolve(said);
      };
    });
    this.#queue = [];
    this.#send(playedMs === undefined ? { type: "cancel" } : { type: "cancel", played_ms: Math.max(0, playedMs) });
    this.#end();
    return this.#interruption;
  }

  /** @returns {AsyncGenerator<Audio, void, void>} */
  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        const next = this.#queue.shift();
        if (next instanceof Error) throw next;
        if (next) yield next;
        else if (this.hasEnded) break;
        else await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
      }
    } finally {
      if (!this.hasEnded) this.interrupt();
    }
  }

  /**
   * For the socket: a message of this speech.
   * @param {Record<string, any>} message
   */
  receive(message) {
    switch (message.type) {
      case "started":
        this.sampleRate = message.sample_rate;
        break;
      case "audio":
        this.#hasAudio = true;
        if (!this.#interruption) this.#push(this.#audio(message));
        break;
      case "warning":
        this.warnings.push(message.message);
        break;
      case "done":
        this.stats = message.stats;
        this.#end();
        break;
      case "cancelled":
        this.#answer({
          spokenText: message.spoken_text,
          remainingText: message.remaining_text,
          audioMsSent: message.audio_ms_sent,
        });
        this.#end();
        break;
      case "error": {
        const error = new FirstwordError(message.error.message, message.error.code, message.error.param);
        if (message.fatal) {
          this.#answer(NOTHING);
          this.#end(error);
        } else this.#push(error);
      }
    }
  }

  /**
   * For the socket: the connection is gone.
   * @param {Error | null} refusal what the server had said of it
   * @param {string} reason of the close
   */
  lose(refusal, reason) {
    this.#context = null; // the next connection does not know it
    this.#answer(NOTHING);
    if (this.hasEnded) return;
    if (refusal) this.#end(refusal);
    else if (this.#hasAudio || this.#numRestarts === MAX_RESTARTS) {
      const when = this.#hasAudio ? "while the speech was coming" : `${MAX_RESTARTS + 1} times before the speech began`;
      this.#end(new ConnectionLost(`the connection broke ${when}${reason ? `: ${reason}` : ""}`));
    } else setTimeout(() => this.hasEnded || this.#begin(), RESTART_MS * ++this.#numRestarts);
  }

  async #begin() {
    try {
      const context = await this.#socket.openContext(this, this.#speaker);
      if (this.hasEnded) return;
      this.#context = context;
      for (const message of this.#said) this.#send(message);
    } catch (error) {
      this.#end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /**
   * Text behind the end of a speech would begin another one at the server.
   * @param {Record<string, any>} message
   */
  #say(message) {
    if (this.hasEnded) return;
    this.#said.push(message);
    this.#send(message);
  }

  /** @param {Record<string, any>} message */
  #send(message) {
    if (this.#context) this.#socket.send({ ...message, context: this.#context });
  }

  /** @param {Audio | Error} item */
  #push(item) {
    this.#queue.push(item);
    this.#wake();
  }

  /** @param {Error} [error] */
  #end(error) {
    if (this.hasEnded) return;
    this.hasEnded = true;
    if (error) this.#queue.push(error);
    this.#wake();
  }

  /**
   * @param {Record<string, any>} message
   * @returns {Audio}
   */
  #audio(message) {
    return {
      bytes: message.data,
      samples: this.#reader?.read(message.data) ?? new Float32Array(0),
      startMs: message.start_ms,
      durationMs: message.duration_ms,
      words: wordsOf(this.#text, message.words ?? []),
    };
  }
}
