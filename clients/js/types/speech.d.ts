export type Audio = import("./pcm.js").Audio;
export type Text = string | Iterable<string | null | undefined> | AsyncIterable<string | null | undefined>;
export type Interrupted = {
    spokenText: string;
    remainingText: string;
    audioMsSent: number;
};
/** A text that is being spoken: an async iterable of `Audio`. Leaving its loop early stops the server. */
export declare class Speech {
    #private;
    /** @type {number | null} */
    sampleRate: number | null;
    /** @type {string[]} */
    warnings: string[];
    /** @type {Record<string, any> | null} */
    stats: Record<string, any> | null;
    hasEnded: boolean;
    /**
     * @param {import("./socket.js").Socket} socket
     * @param {Record<string, unknown>} options of `start`: docs/api.md
     */
    constructor(socket: import("./socket.js").Socket, options: Record<string, unknown>);
    /** All that was written. */
    get text(): string;
    /**
     * Add to the text: any piece, a word or half of one.
     * @param {string} text
     */
    write(text: string): void;
    /** Speak what has come. */
    flush(): void;
    /** No more text comes. */
    end(): void;
    /**
     * Write pieces as they come, until the speech has ended; then end.
     * @param {Text} text
     */
    writeAll(text: Text): Promise<void>;
    /**
     * Stop at once; tell what was heard. All may have been sent by then, and a part of it played.
     * @param {number} [playedMs] how much; left out: all that was sent
     * @returns {Promise<Interrupted>}
     */
    interrupt(playedMs?: number): Promise<Interrupted>;
    /** @returns {AsyncGenerator<Audio, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<Audio, void, void>;
    /**
     * For the socket: a message of this speech.
     * @param {Record<string, any>} message
     */
    receive(message: Record<string, any>): void;
    /**
     * For the socket: the connection is gone.
     * @param {Error | null} refusal what the server had said of it
     * @param {string} reason of the close
     */
    lose(refusal: Error | null, reason: string): void;
}
