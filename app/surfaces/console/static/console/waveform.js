// A waveform with a playhead, drawn while its audio arrives; the button to play and pause; the clock.

import { h, icon } from "./dom.js";

const BIN_S = 0.01;
const BAR = 3; // CSS pixels, with 1 to the next
const MIN_SHOWN_S = 4; // a short beginning does not fill the whole width

export class PlayerView {
  /** box: gets the elements. Shows one Player at a time. */
  constructor(box, label) {
    this._player = null;
    this._peaks = [];
    this._numRead = 0;
    this._frame = 0;
    this._button = h("button", { type: "button", className: "play", disabled: true, "aria-label": "Play" }, icon("play"));
    this._canvas = h("canvas", { "aria-hidden": "true" });
    this._wave = h(
      "div",
      { className: "wave", tabIndex: 0, role: "slider", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0 },
      this._canvas,
    );
    this._clock = h("span", { className: "clock", "aria-hidden": "true" }, "0.0 / 0.0 s");
    box.append(this._button, this._wave, this._clock);
    this._button.onclick = () => this._player?.toggle();
    this._wave.onclick = (event) => {
      const { left, width } = this._wave.getBoundingClientRect();
      this._seek(((event.clientX - left) / width) * this._shown());
    };
    this._wave.onkeydown = (event) => this._onKey(event);
    new ResizeObserver(() => this._draw()).observe(this._wave);
    document.addEventListener("theme-changed", () => this._draw());
    this._draw();
  }

  /** Show a player from here on; its onChange must call `changed`. */
  show(player) {
    this._player = player;
    this._peaks = [];
    this._numRead = 0;
    this.changed();
  }

  changed() {
    const player = this._player;
    this._readPeaks();
    const isPlaying = player.isPlaying;
    this._button.disabled = !player.numSamples;
    this._button.setAttribute("aria-label", isPlaying ? "Pause" : "Play");
    this._button.replaceChildren(icon(isPlaying ? "pause" : "play"));
    this._wave.setAttribute("aria-valuemax", player.duration.toFixed(1));
    this._draw();
    if (!this._frame) this._frame = requestAnimationFrame(() => this._animate());
  }

  _animate() {
    this._frame = 0;
    this._draw();
    this.onFrame?.(this._player.position);
    if (this._player.isPlaying) this._frame = requestAnimationFrame(() => this._animate());
  }

  _readPeaks() {
    const size = Math.round(BIN_S * this._player.sampleRate);
    let at = 0;
    for (const piece of this._player.pieces) {
      for (let i = Math.max(0, this._numRead - at); i < piece.length; i++) {
        const bin = Math.floor((at + i) / size);
        this._peaks[bin] = Math.max(this._peaks[bin] ?? 0, Math.abs(piece[i]));
      }
      at += piece.length;
    }
    this._numRead = at;
  }

  _shown() {
    const duration = this._player?.duration ?? 0;
    return this._player?.isComplete ? Math.max(duration, 0.1) : Math.max(MIN_SHOWN_S, duration * 1.08);
  }

  _seek(position) {
    if (this._player?.numSamples) this._player.seek(Math.max(0, Math.min(position, this._player.duration)));
  }

  _onKey(event) {
    if (!this._player?.numSamples) return;
    const position = this._player.position;
    const to = { ArrowLeft: position - 1, ArrowRight: position + 1, Home: 0, End: this._player.duration - 0.1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this._seek(to);
  }

  _draw() {
    const { width, height } = this._wave.getBoundingClientRect();
    if (!width) return;
    const scale = devicePixelRatio || 1;
    this._canvas.width = Math.round(width * scale);
    this._canvas.height = Math.round(height * scale);
    const paint = this._canvas.getContext("2d");
    paint.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const [played, ahead, line] = [color("--accent"), color("--wave"), color("--line")];
    const position = this._player?.position ?? 0;
    const loudest = this._peaks.reduce((most, peak) => Math.max(most, peak), 0.25);
    const secondsPerPixel = this._shown() / width;
    for (let x = 0; x + BAR <= width; x += BAR + 1) {
      const from = Math.floor((x * secondsPerPixel) / BIN_S);
      const to = Math.max(from + 1, Math.floor(((x + BAR + 1) * secondsPerPixel) / BIN_S));
      if (from >= this._peaks.length) {
        paint.fillStyle = line;
        paint.fillRect(x, height / 2 - 1, BAR, 2);
        continue;
      }
      const peak = Math.max(...this._peaks.slice(from, to).map((value) => value ?? 0));
      const size = Math.max(2, (peak / loudest) ** 0.8 * (height - 4));
      paint.fillStyle = x * secondsPerPixel < position ? played : ahead;
      paint.beginPath();
      paint.roundRect(x, (height - size) / 2, BAR, size, BAR / 2);
      paint.fill();
    }
    if (this._player?.numSamples) {
      const x = Math.min(width - 2, position / secondsPerPixel);
      paint.fillStyle = color("--text");
      paint.fillRect(x, 0, 1.5, height);
      const [now, all] = [position.toFixed(1), this._player.duration.toFixed(1)];
      this._clock.textContent = `${now} / ${all} s`;
      this._wave.setAttribute("aria-valuenow", now);
      this._wave.setAttribute("aria-valuetext", `${now} of ${all} seconds`);
    }
  }
}
