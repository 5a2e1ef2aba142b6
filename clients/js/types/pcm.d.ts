export type Word = {
    text: string;
    startMs: number;
    endMs: number;
    charStart: number;
    charEnd: number;
};
export type Audio = {
    bytes: Uint8Array;
    samples: Float32Array<ArrayBuffer>;
    startMs: number;
    durationMs: number;
    words: Word[];
};
export type SentWord = {
    text: string;
    start_ms: number;
    end_ms: number;
    char_start: number;
    char_end: number;
};
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
export declare class PcmReader {
    #private;
    /** @param {Uint8Array} bytes */
    read(bytes: Uint8Array): Float32Array<ArrayBuffer>;
}
/**
 * A WAV file of samples within ±1.
 * @param {Float32Array} samples
 * @param {number} sampleRate
 */
export declare function encodeWav(samples: Float32Array, sampleRate: number): Blob;
/**
 * The server counts characters as Unicode code points, JavaScript in UTF-16 units.
 * @param {string} text all that was sent
 * @param {SentWord[]} words
 * @returns {Word[]}
 */
export declare function wordsOf(text: string, words: SentWord[]): Word[];
/**
 * The bytes of a base64 text.
 * @param {string} text
 */
export declare const fromBase64: (text: string) => Uint8Array<ArrayBuffer>;
