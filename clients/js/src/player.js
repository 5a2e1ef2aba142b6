// Playing audio that is still arriving; in browsers.

/** Plays pieces of audio one after another, without a gap where they come in time. Times are seconds. */
export class Player {
  numSamples = 0;
  isComplete = false; // no more audio comes
  /** @type {Float32Array<ArrayBuffer>[]} */
  pieces = [];
  /** @type {number | null} */
  firstSoundAt = null; // performance.now() at which the first sound is heard
  #onChange;
  /** @type {AudioContext | null} */
  #opened = null;
  /** @type {{source: AudioBufferSourceNode, at: number, offset: number, duration: number}[]} */
  #scheduled = [];
  #nextAt = 0; // of the context's clock
  #position = 0; // while nothing is scheduled
  #isStopped = false;

  /**
   * @param {number} [sampleRate] of the audio, in Hz; `play` takes that of its speech
   * @param {() => void} [onChange] called when it starts, pauses, ends or gets audio
   */
  constructor(sampleRate = 24_000, onChange = () => {}) {
    this.sampleRate = sampleRate;
    this.#onChange = onChange;
  }

  /** In the handler of a click: browsers allow sound only there. */
  open() {
    this._context.resume();
  }

  /** At the rate of the audio, where it is known by then: resampling piece by piece may click at their borders. */
  get _context() {
    return (this.#opened ??= new AudioContext({ sampleRate: this.sampleRate, latencyHint: "interactive" }));
  }

  /**
   * Play a speech while it comes; return once all of it has come, which is before it is played.
   * @param {AsyncIterable<import("./pcm.js").Audio> & {sampleRate?: number | null}} speech
   */
  async play(speech) {
    try {
      for await (const { samples } of speech) {
        if (!this.numSamples) this.sampleRate = speech.sampleRate ?? this.sampleRate;
        this.push(samples);
      }
    } finally {
      this.complete();
    }
  }

  /** How much the listener has heard, in milliseconds: for `speech.interrupt(player.playedMs)`. */
  get playedMs() {
    return 1000 * this.position;
  }

  get duration() {
    return this.numSamples / this.sampleRate;
  }

  get isPlaying() {
    return this.#scheduled.length > 0 && this._context.state === "running";
  }

  /** What is heard now, in seconds, with the latency of the output taken off. */
  get position() {
    if (!this.#scheduled.length) return this.#position;
    const now = Math.max(0, this._context.currentTime - this.#latency);
    let heard = this.#scheduled[0]?.offset ?? 0;
    for (const { at, offset, duration } of this.#scheduled) {
      if (now >= at) heard = offset + Math.min(duration, now - at);
    }
    return heard;
  }

  get #latency() {
    return this._context.outputLatency || this._context.baseLatency || 0;
  }

  /** @param {Float32Array<ArrayBuffer>} samples */
  push(samples) {
    if (!samples.length) return;
    const offset = this.duration;
    this.pieces.push(samples);
    this.numSamples += samples.length;
    if (!this.#isStopped) this.#schedule(samples, offset);
    this.#onChange();
  }

  /** All audio has been pushed. */
  complete() {
    this.isComplete = true;
    this.#onChange();
  }

  async toggle() {
    this.open();
    if (this.#scheduled.length && this._context.state === "running") await this._context.suspend();
    else if (this.#scheduled.length) await this._context.resume();
    else this.seek(this.#position >= this.duration - 0.02 ? 0 : this.#position);
    this.#onChange();
  }

  /** @param {number} position in seconds */
  seek(position) {
    if (!this.numSamples) return;
    this.open();
    this.#silence();
    this.#isStopped = false;
    const first = Math.min(this.numSamples - 1, Math.max(0, Math.round(position * this.sampleRate)));
    this.#schedule(this.samples().subarray(first), first / this.sampleRate);
    this.#onChange();
  }

  /** Silent at once; what was pushed can be played again. */
  stop() {
    this.#position = this.position;
    this.#isStopped = true;
    this.#silence();
    this.#onChange();
  }

  async close() {
    this.stop();
    const context = this.#opened;
    this.#opened = null;
    await context?.close();
  }

  samples() {
    if (this.pieces.length > 1) {
      const whole = new Float32Array(this.numSamples);
      let at = 0;
      for (const piece of this.pieces) {
        whole.set(piece, at);
        at += piece.length;
      }
      this.pieces = [whole];
    }
    return this.pieces[0] ?? new Float32Array(0);
  }

  /**
   * @param {Float32Array<ArrayBuffer>} samples
   * @param {number} offset in the audio, in seconds
   */
  #schedule(samples, offset) {
    const context = this._context;
    const buffer = context.createBuffer(1, samples.length, this.sampleRate);
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(context.destination);
    const at = Math.max(this.#nextAt, context.currentTime);
    source.start(at);
    if (this.firstSoundAt === null) this.#noteFirstSound(samples, at);
    this.#nextAt = at + buffer.duration;
    const entry = { source, at, offset, duration: buffer.duration };
    this.#scheduled.push(entry);
    const drop = () => {
      const index = this.#scheduled.indexOf(entry);
      if (index < 0) return;
      this.#scheduled.splice(index, 1);
      this.#position = offset + buffer.duration;
      if (!this.#scheduled.length) this.#onChange();
    };
    source.onended = () => setTimeout(drop, 1000 * this.#latency); // until then it is still heard
  }

  /**
   * @param {Float32Array} samples
   * @param {number} at of the context's clock
   */
  #noteFirstSound(samples, at) {
    const index = samples.findIndex((sample) => Math.abs(sample) > 0.005); // -46 dB
    if (index < 0) return;
    const wait = at - this._context.currentTime + index / this.sampleRate + (this._context.outputLatency || 0);
    this.firstSoundAt = performance.now() + 1000 * wait;
  }

  #silence() {
    for (const { source } of this.#scheduled) {
      source.onended = null;
      source.stop();
    }
    this.#scheduled = [];
    this.#nextAt = 0;
  }
}
