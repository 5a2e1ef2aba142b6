// 16-bit PCM as bytes, samples and WAV files; words of a text in its own units.

/**
 * When a word sounds, in milliseconds of the audio, and where it stands in the text.
 * @typedef {{text: string, startMs: number, endMs: number, charStart: number, charEnd: number}} Word
 */

/**
 * A piece of audio. `samples` is empty where another format than pcm was asked for; `bytes` is what came.
 * @typedef {{bytes: Uint8Array, samples: Float32Array<ArrayBuffer>, startMs: number, durationMs: number, words: Word[]}} Audio
 */

/** @typedef {{text: string, start_ms: number, end_ms: number, char_start: number, char_end: number}} SentWord */

/** Turns bytes of 16-bit PCM, cut anywhere, into samples. */
export class PcmReader {
  #rest = new Uint8Array(0);

  /** @param {Uint8Array} bytes */
  read(bytes) {
    const joined = new Uint8Array(this.#rest.length + bytes.length);
    joined.set(this.#rest);
    joined.set(bytes, this.#rest.length);
    const num = joined.length >> 1;
    this.#rest = joined.slice(2 * num);
    const view = new DataView(joined.buffer, 0, 2 * num);
    return Float32Array.from({ length: num }, (_, i) => view.getInt16(2 * i, true) / 32768);
  }
}

/**
 * A WAV file of samples within ±1.
 * @param {Float32Array} samples
 * @param {number} sampleRate
 */
export function encodeWav(samples, sampleRate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const write = (/** @type {number} */ at, /** @type {string} */ text) =>
    [...text].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, 2 * sampleRate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([view], { type: "audio/wav" });
}

/**
 * The server counts characters as Unicode code points, JavaScript in UTF-16 units.
 * @param {string} text all that was sent
 * @param {SentWord[]} words
 * @returns {Word[]}
 */
export function wordsOf(text, words) {
  const isPlain = !/[\ud800-\udfff]/.test(text);
  const units = (/** @type {number} */ position) => (isPlain ? position : [...text].slice(0, position).join("").length);
  return words.map((word) => ({
    text: word.text,
    startMs: word.start_ms,
    endMs: word.end_ms,
    charStart: units(word.char_start),
    charEnd: units(word.char_end),
  }));
}

/**
 * The bytes of a base64 text.
 * @param {string} text
 */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
