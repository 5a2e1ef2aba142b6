// Recording from the microphone, as the samples themselves, with its level.

export class Recorder {
  /** onLevel(db, seconds): called about 20 times a second. */
  constructor(onLevel) {
    this._onLevel = onLevel;
    this._pieces = [];
    this._numSamples = 0;
  }

  /** Raises Error with what to do where there is no microphone or it may not be used. */
  async start() {
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new Error("Browsers allow the microphone on https:// and on localhost alone. Open the console there, or choose a file.");
    }
    try {
      // As it sounds: what makes calls clearer changes a voice.
      const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
      this._stream = await navigator.mediaDevices.getUserMedia({ audio });
    } catch (error) {
      const isDenied = error.name === "NotAllowedError";
      throw new Error(
        isDenied
          ? "The microphone may not be used. Allow it in the browser's address bar, or choose a file."
          : "No microphone was found. Plug one in, or choose a file.",
      );
    }
    this._context = new AudioContext();
    try {
      await this._context.audioWorklet.addModule("/assets/console/recorder-worklet.js");
    } catch {
      await this.stop();
      throw new Error("The server does not answer, so that nothing can be recorded. Try again, or choose a file.");
    }
    this.sampleRate = this._context.sampleRate;
    this._node = new AudioWorkletNode(this._context, "recorder", { numberOfOutputs: 0 });
    this._node.port.onmessage = ({ data }) => {
      this._pieces.push(data);
      this._numSamples += data.length;
      const power = data.reduce((sum, sample) => sum + sample * sample, 0) / data.length;
      this._onLevel(10 * Math.log10(power + 1e-9), this._numSamples / this.sampleRate);
    };
    this._context.createMediaStreamSource(this._stream).connect(this._node);
  }

  /** Return the samples. */
  async stop() {
    for (const track of this._stream.getTracks()) track.stop();
    await this._context.close();
    const samples = new Float32Array(this._numSamples);
    let at = 0;
    for (const piece of this._pieces) {
      samples.set(piece, at);
      at += piece.length;
    }
    return samples;
  }
}
