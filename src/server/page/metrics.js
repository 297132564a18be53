// The live panel: reads /metrics every second while anyone can see it.
import { getText } from "./api.js";
import { milliseconds } from "./answer.js";
import { element } from "./element.js";
import { Scrape, quantile } from "./prometheus.js";
import { Sparkline } from "./sparkline.js";

const EVERY_MS = 1000;
const TIMEOUT_MS = 5000;
const NUM_POINTS = 60;
// A counter: only a restart lowers it.
const RESTART_TELLER = "vllm:prompt_tokens_total";

const count = (value) => value.toFixed(0);
const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
const latency = (seconds) => milliseconds(1000 * seconds);

// Each tile: `read` gives the value of a sample, or undefined, from it, the one before and the oldest kept.
// `topMin` keeps a sparkline of small values from looking dramatic.
const TILES = [
  { label: "Generation, tokens/s", wide: true, show: rate, topMin: 10, read: perSecond("vllm:generation_tokens_total") },
  { label: "Running", show: count, topMin: 1, read: gauge("vllm:num_requests_running") },
  { label: "Waiting", show: count, topMin: 1, read: gauge("vllm:num_requests_waiting") },
  { label: "KV cache", show: percent, topMin: 1, read: gauge("vllm:kv_cache_usage_perc") },
  { label: "Prompt, tokens/s", show: rate, topMin: 10, read: perSecond("vllm:prompt_tokens_total") },
  ...latencyTiles("TTFT", "vllm:time_to_first_token_seconds"),
  ...latencyTiles("ITL", "vllm:inter_token_latency_seconds"),
];

function gauge(name) {
  return ({ now }) => now.scrape.value(name);
}

function perSecond(name) {
  return ({ now, before }) => {
    if (!before || now.scrape.value(name) === undefined) return undefined;
    const seconds = (now.time - before.time) / 1000;
    return (now.scrape.value(name) - (before.scrape.value(name) ?? 0)) / seconds;
  };
}

// Over the samples that are kept: the last minute.
function latencyTiles(label, name) {
  return [0.5, 0.9].map((q) => ({
    label: `${label} p${100 * q}`,
    show: latency,
    topMin: 0.001,
    read: ({ now, oldest }) => quantile(q, name, oldest.scrape, now.scrape),
  }));
}

class Tile {
  constructor({ label, wide = false, show, topMin, read }) {
    Object.assign(this, { show, read });
    this.values = [];
    this.number = element("dd", { textContent: "–" });
    this.sparkline = new Sparkline(NUM_POINTS, topMin);
    const list = element("dl", {}, [element("dt", { textContent: label }), this.number]);
    this.box = element("div", { className: wide ? "tile wide" : "tile" }, [list, this.sparkline.svg]);
  }

  update(context) {
    const value = this.read(context);
    this.number.textContent = value === undefined ? "–" : this.show(value);
    this.values.push(value);
    if (this.values.length > NUM_POINTS) this.values.shift();
    this.sparkline.draw(this.values);
  }

  clear() {
    this.values = [];
    this.number.textContent = "–";
    this.sparkline.draw([]);
  }
}

export class MetricsPanel {
  // `isShown()`: whether the panel is open; a hidden page is seen here.
  constructor({ box, state, isShown }) {
    Object.assign(this, { state, isShown });
    this.samples = [];
    this.tiles = TILES.map((tile) => new Tile(tile));
    box.append(...this.tiles.map((tile) => tile.box));
    document.addEventListener("visibilitychange", () => this.wake());
    this.wake();
  }

  // Polls from now on, if it can be seen; call it when that has changed.
  wake() {
    clearTimeout(this.timer);
    if (!this.isPolling && !document.hidden && this.isShown()) this.poll();
  }

  async poll() {
    this.isPolling = true;
    let isRefused = false;
    const begin = performance.now();
    try {
      this.take(new Scrape(await getText("metrics", AbortSignal.timeout(TIMEOUT_MS))));
      this.say("live", "live");
    } catch (error) {
      isRefused = error.status === 401;  // then nothing helps but wake() with a new key
      this.say("lost", isRefused ? "needs the API key" : error.status ? `HTTP ${error.status}` : "not reachable");
    }
    this.isPolling = false;
    if (isRefused || document.hidden || !this.isShown()) return;
    this.timer = setTimeout(() => this.wake(), Math.max(0, begin + EVERY_MS - performance.now()));
  }

  take(scrape) {
    const now = { time: performance.now(), scrape };
    let before = this.samples.at(-1);
    const isRestarted = before && scrape.value(RESTART_TELLER) < before.scrape.value(RESTART_TELLER);
    // After a pause the old samples say nothing about the last minute.
    const isStale = before && now.time - before.time > 5 * EVERY_MS;
    if (isRestarted || isStale) {
      this.samples = [];
      before = undefined;
      for (const tile of this.tiles) tile.clear();
    }
    this.samples.push(now);
    if (this.samples.length > NUM_POINTS) this.samples.shift();
    for (const tile of this.tiles) tile.update({ now, before, oldest: this.samples[0] });
  }

  say(name, text) {
    if (this.state.textContent === text) return;  // a status that is set again is read out again
    this.state.className = `state ${name}`;
    this.state.textContent = text;
  }
}
