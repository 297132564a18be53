// Reads Prometheus' text format, as far as the panel needs it.

// One scrape: samples summed over all labels but a bucket's bound.
export class Scrape {
  constructor(text) {
    this.values = new Map();   // name -> sum
    this.buckets = new Map();  // name without "_bucket" -> Map of upper bound -> cumulative count
    for (const line of text.split("\n")) {
      const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)/.exec(line);
      if (!match) continue;  // comments, empty lines
      const [, name, labels = "", number] = match;
      const bound = /(?:^|,)\s*le="([^"]*)"/.exec(labels);
      if (bound && name.endsWith("_bucket")) {
        const histogram = name.slice(0, -"_bucket".length);
        if (!this.buckets.has(histogram)) this.buckets.set(histogram, new Map());
        add(this.buckets.get(histogram), toNumber(bound[1]), toNumber(number));
      } else {
        add(this.values, name, toNumber(number));
      }
    }
  }

  value(name) {
    return this.values.get(name);
  }
}

function add(map, key, number) {
  map.set(key, (map.get(key) ?? 0) + number);
}

function toNumber(text) {
  if (/^\+?inf$/i.test(text)) return Infinity;
  return Number(text);
}

// The quantile of what a histogram observed between two scrapes, linear within its bucket as Prometheus'
// histogram_quantile(); undefined if it observed nothing.
export function quantile(q, name, older, newer) {
  const now = newer.buckets.get(name);
  if (!now) return undefined;
  const before = older.buckets.get(name);
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound) => now.get(bound) - (before?.get(bound) ?? 0));
  const total = counts[counts.length - 1];
  if (!(total > 0)) return undefined;
  const rank = q * total;
  const index = counts.findIndex((count) => count >= rank);
  const lower = index === 0 ? 0 : bounds[index - 1];
  if (bounds[index] === Infinity) return lower;
  const below = index === 0 ? 0 : counts[index - 1];
  return lower + (bounds[index] - lower) * ((rank - below) / (counts[index] - below));
}
