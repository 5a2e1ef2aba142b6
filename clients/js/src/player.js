// Playing audio that is still arriving, and writing WAV files.

/** Plays pieces of audio one after another, without a gap where they come in time. Times are seconds. */
export class Player {
  /** onChange: called when it starts, pauses, ends or gets audio. */
  constructor(sampleRate, onChange = () => {}) {
    this.sampleRate = sampleRate;
    this.pieces = []; // Float32Array each
    this.numSamples = 0;
    this.isComplete = false; // no more audio comes
    this.firstSoundAt = null; // performance.now() at which the first sound is heard
    this._onChange = onChange;
    this._context = null;
    this._scheduled = []; // {source, at, offset, duration}
    this._nextAt = 0; // of the context's clock
    this._position = 0; // while nothing is scheduled
    this._isStopped = false;
  }

  /** In the handler of a click: browsers allow sound only there. */
  open() {
    // At the rate of the audio: resampling piece by piece would click at their borders.
    this._context ??= new AudioContext({ sampleRate: this.sampleRate, latencyHint: "interactive" });
    this._context.resume();
  }

  get duration() {
    return this.numSamples / this.sampleRate;
  }

  get isPlaying() {
    return this._scheduled.length > 0 && this._context.state === "running";
  }

  /** What is heard now. */
  get position() {
    if (!this._scheduled.length) return this._position;
    const latency = this._context.outputLatency || this._context.baseLatency || 0;
    const now = Math.max(0, this._context.currentTime - latency);
    let heard = this._scheduled[0].offset;
    for (const { at, offset, duration } of this._scheduled) {
      if (now >= at) heard = offset + Math.min(duration, now - at);
    }
    return heard;
  }

  push(samples) {
    if (!samples.length) return;
    const offset = this.duration;
    this.pieces.push(samples);
    this.numSamples += samples.length;
    if (!this._isStopped) this._schedule(samples, offset);
    this._onChange();
  }

  /** All audio has been pushed. */
  complete() {
    this.isComplete = true;
    this._onChange();
  }

  async toggle() {
    this.open();
    if (this._scheduled.length && this._context.state === "running") await this._context.suspend();
    else if (this._scheduled.length) await this._context.resume();
    else this.seek(this._position >= this.duration - 0.02 ? 0 : this._position);
    this._onChange();
  }

  seek(position) {
    if (!this.numSamples) return;
    this.open();
    this._silence();
    this._isStopped = false;
    const first = Math.min(this.numSamples - 1, Math.max(0, Math.round(position * this.sampleRate)));
    this._schedule(this.samples().subarray(first), first / this.sampleRate);
    this._onChange();
  }

  /** Silent at once; what was pushed can be played again. */
  stop() {
    this._position = this.position;
    this._isStopped = true;
    this._silence();
    this._onChange();
  }

  async close() {
    this.stop();
    const context = this._context;
    this._context = null;
    if (context) await context.close();
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

  _schedule(samples, offset) {
    const context = this._context;
    const buffer = context.createBuffer(1, samples.length, this.sampleRate);
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(context.destination);
    const at = Math.max(this._nextAt, context.currentTime);
    source.start(at);
    if (this.firstSoundAt === null) this._noteFirstSound(samples, at);
    this._nextAt = at + buffer.duration;
    const entry = { source, at, offset, duration: buffer.duration };
    this._scheduled.push(entry);
    source.onended = () => {
      const index = this._scheduled.indexOf(entry);
      if (index < 0) return;
      this._scheduled.splice(index, 1);
      this._position = offset + buffer.duration;
      if (!this._scheduled.length) this._onChange();
    };
  }

  _noteFirstSound(samples, at) {
    const index = samples.findIndex((sample) => Math.abs(sample) > 0.005); // -46 dB
    if (index < 0) return;
    const wait = at - this._context.currentTime + index / this.sampleRate + (this._context.outputLatency || 0);
    this.firstSoundAt = performance.now() + 1000 * wait;
  }

  _silence() {
    for (const { source } of this._scheduled) {
      source.onended = null;
      source.stop();
    }
    this._scheduled = [];
    this._nextAt = 0;
  }
}

/** Turns bytes of 16-bit PCM, cut anywhere, into samples. */
export class PcmReader {
  constructor() {
    this._rest = new Uint8Array(0);
  }

  read(bytes) {
    const joined = new Uint8Array(this._rest.length + bytes.length);
    joined.set(this._rest);
    joined.set(bytes, this._rest.length);
    const num = joined.length >> 1;
    this._rest = joined.slice(2 * num);
    const view = new DataView(joined.buffer, 0, 2 * num);
    return Float32Array.from({ length: num }, (_, i) => view.getInt16(2 * i, true) / 32768);
  }
}

export function encodeWav(samples, sampleRate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const write = (at, text) => [...text].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
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
