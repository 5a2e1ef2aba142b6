import { Speech } from "./speech.js";
export type Audio = import("./pcm.js").Audio;
export type Text = import("./speech.js").Text;
export type Settings = {
    apiKey?: string | (() => string);
    fetch?: typeof fetch;
    WebSocket?: typeof WebSocket;
};
/** @typedef {import("./pcm.js").Audio} Audio */
/** @typedef {import("./speech.js").Text} Text */
/**
 * apiKey: or what returns the one of the moment. fetch, WebSocket: other ones than the runtime's.
 * @typedef {{apiKey?: string | (() => string), fetch?: typeof fetch, WebSocket?: typeof WebSocket}} Settings
 */
/** Its methods throw FirstwordError. Options of speech are those of docs/api.md by their names. */
export declare class Client {
    #private;
    /**
     * @param {string} [url] left out in a page: the server that the page is from
     * @param {Settings} [settings]
     */
    constructor(url?: string, settings?: Settings);
    /**
     * Speak a text, whole or in pieces as they are written.
     * @param {Text} text
     * @param {Record<string, unknown>} [options]
     */
    speak(text: Text, options?: Record<string, unknown>): Speech;
    /**
     * Open a speech that you write to: `write`, `flush`, `end`.
     * @param {Record<string, unknown>} [options]
     */
    open(options?: Record<string, unknown>): Speech;
    /**
     * Speak a whole text over POST /tts, where no WebSocket gets through.
     * @param {string} text
     * @param {Record<string, unknown>} [options]
     * @param {AbortSignal} [signal] stops it
     * @returns {Promise<{warnings: string, audio: AsyncGenerator<Audio, void, void>}>} once the first audio is there
     */
    stream(text: string, options?: Record<string, unknown>, signal?: AbortSignal): Promise<{
        warnings: string;
        audio: AsyncGenerator<Audio, void, void>;
    }>;
    /**
     * Return a whole text as a file: wav, pcm, mp3, opus, flac, aac.
     * @param {string} text
     * @param {Record<string, unknown>} [options]
     */
    render(text: string, options?: Record<string, unknown>): Promise<Blob>;
    /**
     * The speakers that the key may use.
     * @returns {Promise<Record<string, any>[]>}
     */
    speakers(): Promise<Record<string, any>[]>;
    /**
     * Register a speaker from a recording of 1 to 30 s.
     * @param {string} name
     * @param {Blob} recording
     * @param {Record<string, string>} [fields] transcript, language, access
     * @returns {Promise<Record<string, any>>}
     */
    register(name: string, recording: Blob, fields?: Record<string, string>): Promise<Record<string, any>>;
    /** @param {string} name */
    deleteSpeaker(name: string): Promise<void>;
    /** Close the WebSocket; the next speech opens another one. */
    close(): void;
    /**
     * Any other call; the response is a success.
     * @param {string} path
     * @param {RequestInit} [options]
     */
    request(path: string, options?: RequestInit): Promise<Response>;
}
