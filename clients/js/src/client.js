// The client of one server: speech over one WebSocket, everything else over HTTP.

import { ConnectionLost, FirstwordError } from "./errors.js";
import { fromBase64, PcmReader, wordsOf } from "./pcm.js";
import { Socket } from "./socket.js";
import { Speech } from "./speech.js";

/** @typedef {import("./pcm.js").Audio} Audio */
/** @typedef {import("./speech.js").Text} Text */

/**
 * apiKey: or what returns the one of the moment. fetch, WebSocket: other ones than the runtime's.
 * @typedef {{apiKey?: string | (() => string), fetch?: typeof fetch, WebSocket?: typeof WebSocket}} Settings
 */

/** Its methods throw FirstwordError. Options of speech are those of docs/api.md by their names. */
export class Client {
  #url;
  #key;
  #fetch;
  #socket;

  /**
   * @param {string} [url] left out in a page: the server that the page is from
   * @param {Settings} [settings]
   */
  constructor(url = globalThis.location?.origin ?? "http://127.0.0.1:8000", settings = {}) {
    const { apiKey = "" } = settings;
    this.#url = url.replace(/\/+$/, "");
    this.#key = typeof apiKey === "string" ? () => apiKey : apiKey;
    this.#fetch = settings.fetch ?? ((path, options) => globalThis.fetch(path, options));
    const webSocket = settings.WebSocket ?? globalThis.WebSocket;
    this.#socket = new Socket((speaker) => this.#socketAddress(speaker), webSocket, () => this.#refusal());
  }

  /**
   * Speak a text, whole or in pieces as they are written.
   * @param {Text} text
   * @param {Record<string, unknown>} [options]
   */
  speak(text, options = {}) {
    const isText = typeof text === "string" || (text !== null && typeof text === "object" && (Symbol.iterator in text || Symbol.asyncIterator in text));
    if (!isText) throw new TypeError(`text has to be a string or an iterable of strings, not ${text === null ? "null" : typeof text}`);
    const speech = this.open(options);
    speech.writeAll(text);
    return speech;
  }

  /**
   * Open a speech that you write to: `write`, `flush`, `end`.
   * @param {Record<string, unknown>} [options]
   */
  open(options = {}) {
    return new Speech(this.#socket, options);
  }

  /**
   * Speak a whole text over POST /tts, where no WebSocket gets through.
   * @param {string} text
   * @param {Record<string, unknown>} [options]
   * @param {AbortSignal} [signal] stops it
   * @returns {Promise<{warnings: string, audio: AsyncGenerator<Audio, void, void>}>} once the first audio is there
   */
  async stream(text, options = {}, signal) {
    const response = await this.#post({ text, ...options, format: "pcm", timestamps: "word" }, signal);
    const warnings = response.headers.get("X-Firstword-Warnings") ?? "";
    return { warnings, audio: audioOf(text, /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body)) };
  }

  /**
   * Return a whole text as a file: wav, pcm, mp3, opus, flac, aac.
   * @param {string} text
   * @param {Record<string, unknown>} [options]
   */
  async render(text, options = {}) {
    return (await this.#post({ text, ...options, stream: false })).blob().catch(lost);
  }

  /**
   * The speakers that the key may use.
   * @returns {Promise<Record<string, any>[]>}
   */
  async speakers() {
    return (await (await this.request("/speakers")).json()).speakers;
  }

  /**
   * Register a speaker from a recording of 1 to 30 s.
   * @param {string} name
   * @param {Blob} recording
   * @param {Record<string, string>} [fields] transcript, language, access
   * @returns {Promise<Record<string, any>>}
   */
  async register(name, recording, fields = {}) {
    const form = new FormData();
    for (const [field, value] of Object.entries({ name, ...fields })) form.append(field, value);
    form.append("audio", recording, recording instanceof File ? recording.name : "recording");
    return (await this.request("/speakers", { method: "POST", body: form })).json();
  }

  /** @param {string} name */
  async deleteSpeaker(name) {
    await this.request(`/speakers/${encodeURIComponent(name)}`, { method: "DELETE" });
  }

  /** Close the WebSocket; the next speech opens another one. */
  close() {
    this.#socket.close();
  }

  /**
   * Any other call; the response is a success.
   * @param {string} path
   * @param {RequestInit} [options]
   */
  async request(path, options = {}) {
    const headers = new Headers(options.headers);
    if (this.#key()) headers.set("Authorization", `Bearer ${this.#key()}`);
    let response;
    try {
      response = await this.#fetch(new URL(this.#url + path), { ...options, headers });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // aborted, or of another `fetch`
      throw new FirstwordError("the server does not answer; is it running, and is this computer online?", "unreachable");
    }
    if (!response.ok) throw await FirstwordError.of(response);
    return response;
  }

  /**
   * @param {Record<string, unknown>} body
   * @param {AbortSignal} [signal]
   */
  #post(body, signal) {
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/json" };
    if (body.speaker) headers["X-Speaker"] = encodeURIComponent(String(body.speaker));
    return this.request("/tts", { method: "POST", headers, body: JSON.stringify(body), ...(signal && { signal }) });
  }

  /** @param {string} speaker by whom a proxy chooses the server */
  #socketAddress(speaker) {
    const address = new URL(`${this.#url.replace(/^http/, "ws")}/tts/stream`);
    if (this.#key()) address.searchParams.set("api_key", this.#key()); // a browser sends no headers
    if (speaker) address.searchParams.set("speaker", speaker);
    return address;
  }

  /** @returns {Promise<Error>} */
  async #refusal() {
    try {
      await this.request("/v1/capabilities");
      return new FirstwordError("the server took no WebSocket; does a proxy between pass them?", "refused");
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }
}

/**
 * @param {string} text
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body lines of JSON
 * @returns {AsyncGenerator<Audio, void, void>}
 */
async function* audioOf(text, body) {
  const pcm = new PcmReader();
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let line = ""; // as far as it came
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(lost);
      if (done) return;
      const parts = (line + value).split("\n");
      line = parts.pop() ?? "";
      for (const part of parts) {
        const { audio, words, start_ms: startMs, duration_ms: durationMs, error } = JSON.parse(part);
        if (error) throw new FirstwordError(error.message, error.code, error.param);
        if (audio === undefined) continue;
        const bytes = fromBase64(audio);
        yield { bytes, samples: pcm.read(bytes), startMs, durationMs, words: wordsOf(text, words ?? []) };
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * @param {unknown} error of reading an answer
 * @returns {never}
 */
function lost(error) {
  if (!(error instanceof TypeError)) throw error; // aborted
  throw new ConnectionLost("the connection broke while the speech was coming");
}
