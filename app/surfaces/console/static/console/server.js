// The page Server: readings of /readyz and /metrics, every two seconds while it is shown.

import { call, getJson } from "./api.js";
import { $, formatBytes, formatMs, formatS, h, showTrouble, svg } from "./dom.js";
import { growthOf, parse, quantile, valueOf } from "./exposition.js";
import { onVoices } from "./voices.js";

const NO_STREAM = "Nobody has spoken since the server was started.";
const EVERY_MS = 2000;
const KEPT_MS = 5 * 60_000; // the minutes that the page shows
const STAGES = {
  normalize: "Text",
  speaker: "Speaker",
  llm_first_hop: "Language model",
  flow: "Flow",
  vocoder: "Vocoder",
  encode: "Encoding",
};

let readings = []; // {at, families}, oldest first
let timer = 0;
let isReading = false; // also while a key is asked for
let hasMetrics = true;
let isSinceStart = true; // what is shown; else the minutes since the page was opened

export function start() {
  document.addEventListener("key-changed", () => (hasMetrics = true));
  onVoices((capabilities) => {
    const { limits } = capabilities;
    facts($("server-facts"), {
      Checkpoint: capabilities.checkpoint,
      "Language model on": capabilities.backend,
      Languages: capabilities.languages.join(", ") || "any",
      "Default speaker": capabilities.default_speaker,
      "Text while it is written": capabilities.continuous_text ? "one running utterance" : "sentence by sentence",
      Instructions: capabilities.instruct ? "taken" : "not taken",
      Formats: capabilities.formats.join(", "),
    });
    facts($("server-limits"), {
      "Streams at once": limits.max_streams,
      "Text of one stream": `${limits.max_text_chars} characters`,
      "A recording": formatBytes(limits.max_upload_bytes),
      "A request's body": formatBytes(limits.max_json_bytes),
      "A WebSocket's message": formatBytes(limits.max_message_bytes),
      "Contexts of a WebSocket": limits.max_contexts,
      "Idle before a close": `${limits.idle_timeout_s} s`,
      Speed: `${limits.min_speed} to ${limits.max_speed}`,
    });
  });
}

export function show() {
  clearTimeout(timer);
  read();
}

export function hide() {
  clearTimeout(timer);
  timer = 0;
}

function facts(list, given) {
  list.replaceChildren(...Object.entries(given).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
}

async function read() {
  timer = setTimeout(read, EVERY_MS);
  if (isReading) return;
  isReading = true;
  try {
    const ready = await fetch("/readyz", { cache: "no-store" }).then((response) => response.json());
    if (hasMetrics) {
      const families = parse(await (await call("/metrics")).text());
      if (readings.length && startOf(families) !== startOf(readings.at(-1).families)) readings = []; // all began anew
      readings.push({ at: Date.now(), families });
      readings = readings.filter(({ at }) => at >= Date.now() - KEPT_MS);
    }
    render(ready);
  } catch (error) {
    if (error.status === 404 || error.code === "missing_scope") {
      hasMetrics = false;
      const reason = error.status === 404 ? "The metrics of this server are on a port of their own" : "This key may not read the metrics";
      $("server-sub").textContent = `${reason}; here are the server's readiness and limits.`;
      $("server-metrics").hidden = true;
    } else {
      hide();
      showTrouble(error);
    }
  } finally {
    isReading = false;
  }
}

const startOf = (families) => valueOf(families, "process_start_time_seconds");

function render(ready) {
  const latest = readings.at(-1)?.families ?? new Map();
  const first = firstOf(latest);
  const value = (name, labels) => valueOf(latest, name, labels);
  const [hits, misses] = [value("tts_speaker_cache_hits_total") ?? 0, value("tts_speaker_cache_misses_total") ?? 0];
  const memory = value("process_resident_memory_bytes");
  const running = value("tts_requests_in_flight") - value("tts_queue_depth") - value("tts_file_queue_depth");
  tiles([
    [ready.ready ? "Ready" : "Not ready", ready.ready ? "warm and admitting" : ready.reason, ready.ready ? "good" : "bad"],
    [`${running || 0} / ${value("tts_max_streams") ?? "–"}`, `streams now / at once${ready.max_streams_from ? `, by ${ready.max_streams_from}` : ""}`],
    [value("tts_queue_depth") ?? "–", "requests waiting"],
    [value("tts_ws_connections") ?? "–", "open WebSockets"],
    [hits + misses ? `${Math.round((100 * hits) / (hits + misses))} %` : "–", "speakers found in memory"],
    [memory === undefined ? "–" : formatBytes(memory), "memory"],
  ]);
  const ttfb = growthOf(first, latest, "tts_time_to_first_byte_seconds");
  histogram($("server-ttfb"), ttfb, (s) => formatMs(1000 * s), "Streams by their time to the first byte");
  $("server-ttfb-hint").textContent = summary(ttfb, (s) => formatMs(1000 * s));
  const rtf = growthOf(first, latest, "tts_real_time_factor");
  histogram($("server-rtf"), rtf, (x) => String(+x.toFixed(2)), "Streams by their real-time factor", 1);
  $("server-rtf-hint").textContent = summary(rtf, (x) => x.toFixed(2));
  streams();
  stages(first, latest);
}

/** The reading from which growth is shown: the first, or the server's start where nobody has spoken since. */
function firstOf(latest) {
  const first = readings[0]?.families;
  const count = (families) => valueOf(families, "tts_real_time_factor_count") ?? 0;
  isSinceStart = !first || count(latest) === count(first);
  return isSinceStart ? undefined : first;
}

const period = () => (isSinceStart ? "since the server was started" : `in the last ${minutes()}`);

function tiles(given) {
  $("server-tiles").replaceChildren(
    ...given.map(([value, label, state = ""]) => h("div", { className: "tile", data: { state } }, h("b", {}, String(value)), h("span", {}, label))),
  );
}

function minutes() {
  const s = (readings.at(-1).at - readings[0].at) / 1000;
  return s < 90 ? `${Math.round(s)} s` : `${Math.round(s / 60)} min`;
}

function summary(buckets, format) {
  const num = buckets.reduce((all, { count }) => all + count, 0);
  if (!num) return readings.length ? NO_STREAM : "";
  return `${num} stream${num === 1 ? "" : "s"} ${period()}: median ${format(quantile(buckets, 0.5))}, 95 % within ${format(quantile(buckets, 0.95))}`;
}

const HEIGHT = 150;
const LABEL_WIDTH = 56; // that none covers its neighbor

function histogram(box, buckets, format, label, mark = null) {
  const used = buckets.filter(({ count }) => count > 0);
  if (!used.length) return box.replaceChildren(h("p", { className: "empty" }, NO_STREAM));
  const from = Math.max(0, buckets.indexOf(used[0]) - 1);
  const shown = buckets.slice(from, Math.max(buckets.indexOf(used.at(-1)) + 2, from + 6));
  const most = Math.max(...shown.map(({ count }) => count));
  const width = box.clientWidth;
  const step = width / shown.length;
  const every = Math.ceil(LABEL_WIDTH / step);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${label}: ${used.map(({ upTo, count }) => `${count} up to ${upTo === Infinity ? "more" : format(upTo)}`).join(", ")}` });
  chart.append(svg("line", { class: "base", x1: 0, x2: width, y1: HEIGHT - 22, y2: HEIGHT - 22 }));
  shown.forEach(({ upTo, count }, i) => {
    const height = (count / most) * (HEIGHT - 44);
    if (count) {
      chart.append(svg("rect", { class: "bar", x: i * step + 3, y: HEIGHT - 22 - height, width: step - 6, height, rx: 3 }));
      chart.append(svg("text", { x: (i + 0.5) * step, y: HEIGHT - 28 - height, "text-anchor": "middle" }, String(count)));
    }
    const border = upTo === Infinity ? "more" : format(upTo);
    if ((shown.length - 1 - i) % every === 0) chart.append(svg("text", { x: (i + 1) * step - 2, y: HEIGHT - 6, "text-anchor": "end" }, border));
    if (upTo === mark) chart.append(svg("line", { class: "mark", x1: (i + 1) * step, x2: (i + 1) * step, y1: 6, y2: HEIGHT - 22 }));
  });
  box.replaceChildren(chart);
}

function streams() {
  if (readings.length < 2) return $("server-streams").replaceChildren(h("p", { className: "empty" }, "Two readings make a line."));
  const width = $("server-streams").clientWidth;
  const values = readings.map(({ families }) => valueOf(families, "tts_requests_in_flight") ?? 0);
  const limit = valueOf(readings.at(-1).families, "tts_max_streams") ?? 1;
  const top = Math.max(1, limit, ...values) * 1.15;
  const [from, to] = [readings[0].at, readings.at(-1).at];
  const x = (at) => 24 + ((at - from) / (to - from)) * (width - 24);
  const y = (value) => HEIGHT - 22 - (value / top) * (HEIGHT - 34);
  // Steps: what was read holds until the next reading.
  const points = readings.flatMap(({ at }, i) => (i ? [[x(at), y(values[i - 1])], [x(at), y(values[i])]] : [[x(at), y(values[i])]]));
  const line = points.map((point) => point.join(",")).join(" ");
  $("server-streams").replaceChildren(
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `Streams over the last ${minutes()}, now ${values.at(-1)} of ${limit}` },
      svg("polygon", { class: "area", points: `24,${y(0)} ${line} ${width},${y(0)}` }),
      svg("line", { class: "base", x1: 24, x2: width, y1: y(0), y2: y(0) }),
      svg("line", { class: "limit", x1: 24, x2: width, y1: y(limit), y2: y(limit) }),
      svg("polyline", { class: "line", points: line }),
      svg("text", { x: 16, y: y(limit) + 4, "text-anchor": "end" }, String(limit)),
      svg("text", { x: 16, y: y(0) + 4, "text-anchor": "end" }, "0"),
      svg("text", { x: 24, y: HEIGHT - 6 }, `${minutes()} ago`),
      svg("text", { x: width, y: HEIGHT - 6, "text-anchor": "end" }, "now"),
    ),
  );
  const refused = valueOf(readings.at(-1).families, "tts_rejected_total") - valueOf(readings[0].families, "tts_rejected_total");
  $("server-streams-hint").textContent = `Dashed: how many run at once. ${refused} refused in the last ${minutes()}`;
}

function stages(first, latest) {
  const spent = Object.keys(STAGES).map((stage) => {
    const at = (families) => (families ? (valueOf(families, "tts_stage_seconds_sum", { stage }) ?? 0) : 0);
    return [stage, at(latest) - at(first)];
  });
  const all = spent.reduce((total, [, s]) => total + s, 0);
  $("server-stages-hint").textContent = all ? `${formatS(all)} of stage time ${period()}; the language model until its first audio` : "";
  if (!all) return $("server-stages").replaceChildren(h("p", { className: "empty" }, NO_STREAM));
  const bar = h("div", { className: "shares", "aria-hidden": "true" });
  const list = h("ul", { className: "share-list" });
  spent.forEach(([stage, s], i) => {
    const part = h("span", { className: `s${i + 1}` });
    part.style.flexGrow = s / all;
    bar.append(part);
    const percent = (100 * s) / all;
    const shown = percent > 0 && percent < 1 ? "< 1 %" : `${Math.round(percent)} %`;
    list.append(h("li", {}, h("span", { className: `swatch s${i + 1}` }), STAGES[stage], h("b", {}, shown)));
  });
  $("server-stages").replaceChildren(bar, list);
}
