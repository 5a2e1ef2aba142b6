/** Plays pieces of audio one after another, without a gap where they come in time. Times are seconds. */
export declare class Player {
    #private;
    sampleRate: number;
    numSamples: number;
    isComplete: boolean;
    /** @type {Float32Array<ArrayBuffer>[]} */
    pieces: Float32Array<ArrayBuffer>[];
    /** @type {number | null} */
    firstSoundAt: number | null;
    /**
     * @param {number} [sampleRate] of the audio, in Hz; `play` takes that of its speech
     * @param {() => void} [onChange] called when it starts, pauses, ends or gets audio
     */
    constructor(sampleRate?: number, onChange?: () => void);
    /** In the handler of a click: browsers allow sound only there. */
    open(): void;
    /** At the rate of the audio, where it is known by then: resampling piece by piece may click at their borders. */
    get _context(): AudioContext;
    /**
     * Play a speech while it comes; return once all of it has come, which is before it is played.
     * @param {AsyncIterable<import("./pcm.js").Audio> & {sampleRate?: number | null}} speech
     */
    play(speech: AsyncIterable<import("./pcm.js").Audio> & {
        sampleRate?: number | null;
    }): Promise<void>;
    /** How much the listener has heard, in milliseconds: for `speech.interrupt(player.playedMs)`. */
    get playedMs(): number;
    get duration(): number;
    get isPlaying(): boolean;
    /** What is heard now, in seconds, with the latency of the output taken off. */
    get position(): number;
    /** @param {Float32Array<ArrayBuffer>} samples */
    push(samples: Float32Array<ArrayBuffer>): void;
    /** All audio has been pushed. */
    complete(): void;
    toggle(): Promise<void>;
    /** @param {number} position in seconds */
    seek(position: number): void;
    /** Silent at once; what was pushed can be played again. */
    stop(): void;
    close(): Promise<void>;
    samples(): Float32Array<ArrayBuffer>;
}
