// Hands on what the microphone gives, 50 ms at a time.

class RecorderProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this._buffer = new Float32Array(Math.round(sampleRate / 20));
    this._filled = 0;
  }

  process([[channel]]) {
    if (!channel) return true;
    for (const sample of channel) {
      this._buffer[this._filled++] = sample;
      if (this._filled === this._buffer.length) {
        this.port.postMessage(this._buffer.slice());
        this._filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", RecorderProcessor);
