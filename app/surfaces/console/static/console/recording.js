// What is in a recording, by the server's own rules, and a drawing of it.

// As models/frontend/features.py cuts: frames of 20 ms within 40 dB of the loudest and above -60 dBFS are speech,
// and 100 ms before the first and behind the last stay.
const FRAME_S = 0.02;
const RANGE_DB = 40;
const SILENCE_DB = -60;
const MARGIN_S = 0.1;
const FULL_SCALE = 0.999;

/** -> {frames: [{db, peak, isClipped}], start_s, stop_s, duration_s}; start and stop of what is used. */
export function inspect(samples, sampleRate) {
  const size = Math.round(FRAME_S * sampleRate);
  const frames = [];
  for (let at = 0; at < samples.length; at += size) {
    const frame = samples.subarray(at, at + size);
    let [sum, squares, peak] = [0, 0, 0];
    for (const sample of frame) {
      sum += sample;
      squares += sample * sample;
      peak = Math.max(peak, Math.abs(sample));
    }
    const power = squares / frame.length - (sum / frame.length) ** 2;
    frames.push({ db: 10 * Math.log10(Math.max(power, 1e-20)), peak, isClipped: peak >= FULL_SCALE });
  }
  const loudest = frames.reduce((most, { db }) => Math.max(most, db), -200);
  const isSpeech = ({ db }) => db >= Math.max(loudest - RANGE_DB, SILENCE_DB);
  const duration = samples.length / sampleRate;
  const first = frames.findIndex(isSpeech);
  if (first < 0) return { frames, start: 0, stop: 0, duration, isSilent: true };
  const start = Math.max(0, first * FRAME_S - MARGIN_S);
  const stop = Math.min(duration, (frames.findLastIndex(isSpeech) + 1) * FRAME_S + MARGIN_S);
  return { frames, start, stop, duration, isSilent: false };
}

export function draw(canvas, { frames, start, stop, duration }) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const paint = canvas.getContext("2d");
  paint.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const toX = (s) => (s / duration) * width;
  paint.fillStyle = color("--accent-soft");
  paint.fillRect(toX(start), 0, toX(stop - start), height);
  for (let x = 0; x < width; x += 3) {
    const from = Math.floor((x / width) * frames.length);
    const shown = frames.slice(from, Math.max(from + 1, Math.floor(((x + 3) / width) * frames.length)));
    const peak = Math.max(...shown.map((frame) => frame.peak));
    const isUsed = x >= toX(start) && x <= toX(stop);
    const isClipped = shown.some((frame) => frame.isClipped);
    paint.fillStyle = color(isClipped ? "--bad" : isUsed ? "--accent" : "--wave");
    const size = Math.max(2, Math.sqrt(peak) * (height - 8));
    paint.fillRect(x, (height - size) / 2, 2, size);
  }
}

/** What to know before it is sent. */
export function describe({ frames, start, stop, duration, isSilent }) {
  if (isSilent) return "The recording is silent. Is it the right microphone?";
  const clipped = frames.filter((frame) => frame.isClipped).length;
  const used = stop - start;
  const notes = [`${used.toFixed(1)} s of ${duration.toFixed(1)} s are used`];
  if (used < 1) notes.push("at least 1 s is needed");
  else if (used < 3) notes.push("3 to 10 s give a closer likeness");
  if (used > 30) notes.push("at most 30 s are taken");
  notes.push(clipped ? `${clipped} places are clipped: record it softer` : "nothing is clipped");
  return `${notes.join("; ")}.`;
}
