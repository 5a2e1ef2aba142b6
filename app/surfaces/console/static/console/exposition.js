// Reading Prometheus' text format, and what happened between two readings.

/** -> Map of "name" to [{labels, value}]. */
export function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    if (!families.has(match[1])) families.set(match[1], []);
    families.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return families;
}

const sum = (samples) => samples.reduce((total, { value }) => total + value, 0);

/** The sum of all series of a name that have the labels; undefined where the name is not there. */
export function valueOf(families, name, labels = {}) {
  const series = families.get(name);
  if (!series) return undefined;
  return sum(series.filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value)));
}

/** The growth of a histogram, over all labels -> [{upTo, count}], not cumulative; upTo of the last is Infinity. */
export function growthOf(before, after, name) {
  const cumulative = new Map();
  const add = (families, sign) => {
    for (const { labels, value } of families?.get(`${name}_bucket`) ?? []) {
      const upTo = labels.le === "+Inf" ? Infinity : Number(labels.le);
      cumulative.set(upTo, (cumulative.get(upTo) ?? 0) + sign * value);
    }
  };
  add(after, 1);
  add(before, -1);
  let former = 0;
  return [...cumulative]
    .sort(([a], [b]) => a - b)
    .map(([upTo, count]) => {
      const own = count - former;
      former = count;
      return { upTo, count: own };
    });
}

/** The quantile of `growthOf`, linear inside its bucket; null where nothing was counted. */
export function quantile(buckets, share) {
  const total = buckets.reduce((all, { count }) => all + count, 0);
  if (!total) return null;
  let left = share * total;
  let from = 0;
  for (const { upTo, count } of buckets) {
    if (count >= left && count > 0) return upTo === Infinity ? from : from + ((upTo - from) * left) / count;
    left -= count;
    if (upTo !== Infinity) from = upTo;
  }
  return from;
}
