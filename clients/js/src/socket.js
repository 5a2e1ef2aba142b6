// The WebSocket that all speeches of a client share, opened when it is needed and anew when it was lost.

import { FirstwordError } from "./errors.js";

/** @typedef {import("./speech.js").Speech} Speech */

const KEPT_MS = 60_000; // after `done`, in which the server still answers a `cancel`
const BEAT_MS = 5000; // between pings, while a speech is awaited
const MAX_SILENT_BEATS = 4; // behind them the network is gone, which a browser notices after minutes

export class Socket {
  #address;
  #WebSocket;
  #reason;
  /** @type {Promise<WebSocket> | null} */
  #connection = null;
  /** @type {WebSocket | null} */
  #open = null;
  /** @type {WebSocket | null} */
  #opening = null;
  /** @type {Map<string, {speech: Speech, endedAt: number}>} */
  #speeches = new Map();
  #numContexts = 0;

  /**
   * @param {(speaker: string) => URL} address with the key of the moment, for the speech that opens the connection
   * @param {typeof WebSocket} webSocket
   * @param {() => Promise<Error>} reason why the server took no connection: a browser does not tell
   */
  constructor(address, webSocket, reason) {
    this.#address = address;
    this.#WebSocket = webSocket;
    this.#reason = reason;
  }

  get isOpen() {
    return this.#open !== null;
  }

  /**
   * Connect if need be; return the name of a new context, whose messages the speech will receive.
   * @param {Speech} speech
   * @param {string} speaker its own
   */
  async openContext(speech, speaker) {
    const connection = (this.#connection ??= this.#connect(speaker));
    try {
      await connection;
    } catch (error) {
      if (this.#connection === connection) this.#connection = null;
      throw error;
    }
    for (const [name, { endedAt }] of this.#speeches) if (performance.now() > endedAt + KEPT_MS) this.#speeches.delete(name);
    const name = `speech-${++this.#numContexts}`;
    this.#speeches.set(name, { speech, endedAt: speech.hasEnded ? performance.now() : Infinity });
    return name;
  }

  /**
   * Where the connection is lost nothing is sent; each speech hears of that by itself.
   * @param {object} message
   */
  send(message) {
    this.#open?.send(JSON.stringify(message));
  }

  close() {
    (this.#open ?? this.#opening)?.close();
  }

  /**
   * @param {string} speaker
   * @returns {Promise<WebSocket>}
   */
  #connect(speaker) {
    return new Promise((resolve, reject) => {
      const socket = new this.#WebSocket(this.#address(speaker));
      this.#opening = socket;
      socket.binaryType = "arraybuffer";
      let numSilentBeats = 0;
      let numUnsent = 0; // bytes, at the last beat
      /** @type {ReturnType<typeof setInterval> | undefined} */
      let beating;
      const beat = () => {
        const isAwaited = [...this.#speeches.values()].some(({ speech }) => !speech.hasEnded);
        // No ping overtakes a recording that is still going out.
        if (!isAwaited || socket.bufferedAmount < numUnsent) numSilentBeats = 0;
        else if (++numSilentBeats <= MAX_SILENT_BEATS) socket.send('{"type":"ping"}');
        else {
          end(`the server was silent for ${(MAX_SILENT_BEATS * BEAT_MS) / 1000} s`);
          socket.close();
        }
        numUnsent = socket.bufferedAmount;
      };
      socket.onopen = () => {
        this.#opening = null;
        this.#open = socket;
        beating = setInterval(beat, BEAT_MS);
        resolve(socket);
      };
      /** @type {Record<string, any> | null} */
      let announced = null; // the message `audio` whose bytes come next
      /** @type {Error | null} */
      let refusal = null; // of the whole connection
      socket.onmessage = ({ data }) => {
        numSilentBeats = 0;
        if (typeof data !== "string") return this.#hand({ ...announced, data: new Uint8Array(data) });
        const message = JSON.parse(data);
        if (message.type === "audio") announced = message;
        else if (message.type === "error" && message.context === null) {
          refusal = new FirstwordError(message.error.message, message.error.code, message.error.param);
        } else this.#hand(message);
      };
      let isOver = false;
      const end = async (reason = "") => {
        if (isOver) return;
        isOver = true;
        clearInterval(beating);
        const wasOpen = this.#open === socket;
        this.#open = null;
        this.#opening = null;
        this.#connection = null;
        if (!wasOpen) return reject(await this.#reason());
        const lost = [...this.#speeches.values()];
        this.#speeches.clear();
        for (const { speech } of lost) speech.lose(refusal, reason);
      };
      socket.onclose = ({ reason }) => end(reason);
      socket.onerror = () => socket.readyState !== socket.OPEN && end(); // not every runtime closes what it could not open
    });
  }

  /** @param {Record<string, any>} message */
  #hand(message) {
    const entry = this.#speeches.get(message.context ?? "");
    if (!entry) return;
    entry.speech.receive(message);
    if (entry.speech.hasEnded && entry.endedAt === Infinity) entry.endedAt = performance.now();
  }
}
