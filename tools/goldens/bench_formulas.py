#!/usr/bin/env python3
"""One event log of a benchmark, and what other tools' own code makes of it, for src/results.

    bench_formulas.py record OUT      the log: OUT/record.jsonl; and OUT/plain.json, OUT/statistics.json (numpy, scipy)
    bench_formulas.py vllm OUT        OUT/vllm.json,     by vllm.benchmarks.serve.calculate_metrics
    bench_formulas.py sglang OUT      OUT/sglang.json,   by sglang.bench_serving.calculate_metrics
    bench_formulas.py guidellm OUT    OUT/guidellm.json, by guidellm.schemas (request and distribution statistics)
    bench_formulas.py aiperf OUT      OUT/aiperf.json,   by aiperf.metrics

Each but the first reads OUT/record.jsonl, and runs where its tool is installed. Made with vllm 0.32.0+cpu, sglang
0.4.6.post5, guidellm 0.8.1, aiperf 0.13.0, numpy 2.3.5 and scipy 1.17.1. OUT is tests/golden/bench.

plain.json holds what no package computes today: our own formulas, guidellm 0.1.0's, the published grid's, and the
peaks of today's vLLM and SGLang.
"""

import importlib.util
import json
import pathlib
import random
import sys
import types

RANKS = [0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9]


# ---- the log ------------------------------------------------------------------------------------


def make_request(rng, index, start_ns, phase):
    scheduled = start_ns
    admitted = scheduled + rng.randrange(0, 40_000_000)
    sent = admitted + rng.randrange(20_000, 900_000)
    at = sent + rng.randrange(30_000_000, 400_000_000)
    chunks = [[at, 0]]  # a role alone
    num_chunks = rng.choice([1, 2, 3, 5, 8, 13, 21, 34])
    for _ in range(num_chunks):
        at += rng.randrange(1_000_000, 90_000_000)
        chunks.append([at, rng.choice([1, 1, 1, 2, 3, 4])])
    last_token = at
    if rng.random() < 0.5:  # a finish reason alone
        at += rng.randrange(1_000, 9_000_000)
        chunks.append([at, 0])
    num_output = sum(n for _, n in chunks)
    num_prompt = rng.randrange(20, 900)
    return {
        "index": index, "phase": phase, "slot": index % 6, "session": index, "turn": 0,
        "scheduled_ns": scheduled, "admitted_ns": admitted, "sent_ns": sent,
        "first_chunk_ns": chunks[0][0], "first_text_ns": chunks[1][0], "first_token_ns": chunks[1][0],
        "last_token_ns": last_token, "last_chunk_ns": at, "ended_ns": at + rng.randrange(1_000, 5_000_000),
        "num_prompt_tokens_planned": num_prompt - rng.choice([0, 0, 7]), "num_output_tokens_planned": num_output,
        "num_prompt_tokens": num_prompt, "num_cached_tokens": rng.randrange(0, 16),
        "num_output_tokens": num_output, "output_source": "usage_deltas", "outcome": "completed",
        "http_status": 200, "finish_reason": "length", "chunks": chunks,
    }


def make_record():
    rng = random.Random(20260601)
    requests = []
    start = -900_000_000
    for index in range(2):
        requests.append(make_request(rng, index, start, "warmup"))
    start = 0
    for index in range(2, 74):
        request = make_request(rng, index, start, "measured")
        start += rng.randrange(1_000_000, 150_000_000)
        if index in (20, 41):
            for key in ("first_text_ns", "first_token_ns", "last_token_ns"):
                del request[key]
            request.update(outcome="failed", failure="closed", error="connection closed", chunks=[], num_output_tokens=0)
        requests.append(request)
    measured = [r for r in requests if r["phase"] == "measured"]
    first = min(r["admitted_ns"] for r in measured)
    finished = max(r["ended_ns"] for r in measured)
    # Two that were under way when the point ended, one of them without a token.
    for index, token in ((74, True), (75, False)):
        request = make_request(rng, index, finished - 600_000_000, "measured")
        request["chunks"] = [c for c in request["chunks"] if c[0] < finished] if token else []
        for key in ("first_chunk_ns", "first_text_ns", "first_token_ns", "last_token_ns", "last_chunk_ns"):
            del request[key]
        if token:
            with_tokens = [c for c in request["chunks"] if c[1]]
            request["first_chunk_ns"] = request["chunks"][0][0]
            request["last_chunk_ns"] = request["chunks"][-1][0]
            request["first_text_ns"] = request["first_token_ns"] = with_tokens[0][0]
            request["last_token_ns"] = with_tokens[-1][0]
        request.update(outcome="unfinished", finish_reason="", ended_ns=finished)
        request["num_output_tokens"] = sum(n for _, n in request["chunks"])
        requests.append(request)
    point = {
        "type": "point", "started_unix_ns": 1_764_000_000_000_000_000, "first_dispatch_ns": first, "finished_ns": finished,
        "stop_reason": "max_seconds",
        "plan": {
            "name": "golden", "endpoint": "/v1/chat/completions", "num_prompts": 74, "price_per_hour": 2.5,
            "dataset": {"name": "random", "seed": 3},
            "load": {"kind": "gamma", "request_rate": 13.0, "max_concurrency": 6},
            "goals": {"ttft_ms": 300.0, "tpot_ms": 30.0, "e2e_ms": 900.0},
        },
    }
    return point, requests


def write_record(out, point, requests):
    lines = [json.dumps(point)]
    for request in requests:
        request = dict(request, type="request")
        before = request["sent_ns"]
        gaps = []
        for at, tokens in request["chunks"]:
            gaps.append([at - before, tokens])
            before = at
        request["chunks"] = gaps
        lines.append(json.dumps(request, separators=(",", ":")))
    lines.append(json.dumps({"type": "end", "num_requests": len(requests)}))
    (out / "record.jsonl").write_text("\n".join(lines) + "\n")


def read_record(out):
    lines = [json.loads(line) for line in (out / "record.jsonl").read_text().splitlines()]
    requests = lines[1:-1]
    for request in requests:
        at = request["sent_ns"]
        for chunk in request["chunks"]:
            at += chunk[0]
            chunk[0] = at
    return lines[0], requests


def measured(requests):
    return [r for r in requests if r["phase"] == "measured"]


def completed(requests):
    return [r for r in measured(requests) if r["outcome"] == "completed"]


def duration_s(point):
    return (point["finished_ns"] - point["first_dispatch_ns"]) / 1e9


def duration_from_zero_s(point):
    # vLLM's clock starts before its schedule, and so does ours where there is one.
    return point["finished_ns"] / 1e9


def write(path, value):
    path.write_text(json.dumps(value, indent=1, default=float) + "\n")


# ---- the tools' own code ------------------------------------------------------------------------


def vllm(out):
    from vllm.benchmarks import serve
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput

    point, requests = read_record(out)
    outputs = []
    for r in measured(requests):
        if r["outcome"] == "unfinished":
            continue  # vLLM's client waits for all
        o = RequestFuncOutput()
        o.success = r["outcome"] == "completed"
        o.start_time = r["admitted_ns"] / 1e9
        if o.success:
            times = [c[0] for c in r["chunks"]]
            o.ttft = (times[0] - r["admitted_ns"]) / 1e9
            o.itl = [(b - a) / 1e9 for a, b in zip(times, times[1:])]
            o.latency = (times[-1] - r["admitted_ns"]) / 1e9
            o.output_tokens = r["num_output_tokens"]
            o.prompt_len = r["num_prompt_tokens"]
        outputs.append(o)
    goals = point["plan"]["goals"]
    metrics, _ = serve.calculate_metrics(
        [], outputs, duration_from_zero_s(point), None, RANKS,
        {"ttft": goals["ttft_ms"], "tpot": goals["tpot_ms"], "e2el": goals["e2e_ms"]},
    )
    write(out / "vllm.json", vars(metrics))


def sglang(out):
    # Alone: the package around it wants a GPU's libraries.
    folder = importlib.util.find_spec("sglang").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("bench_serving", f"{folder}/bench_serving.py")
    bench_serving = importlib.util.module_from_spec(spec)
    sys.modules["bench_serving"] = bench_serving
    spec.loader.exec_module(bench_serving)

    point, requests = read_record(out)
    inputs, outputs = [], []
    for r in measured(requests):
        if r["outcome"] == "unfinished":
            continue
        o = bench_serving.RequestFuncOutput()
        o.success = r["outcome"] == "completed"
        inputs.append(types.SimpleNamespace(prompt_len=r["num_prompt_tokens_planned"]))
        if o.success:
            times = [c[0] for c in r["chunks"] if c[1]]  # those with text
            o.ttft = (times[0] - r["admitted_ns"]) / 1e9
            o.itl = [(b - a) / 1e9 for a, b in zip(times, times[1:])]
            o.latency = (r["ended_ns"] - r["admitted_ns"]) / 1e9
            o.output_len = r["num_output_tokens"]
        outputs.append(o)
    tokenizer = types.SimpleNamespace(encode=lambda text, add_special_tokens: [])
    metrics, _ = bench_serving.calculate_metrics(inputs, outputs, duration_s(point), tokenizer, "sglang-oai-chat")
    write(out / "sglang.json", vars(metrics))


def guidellm(out):
    from guidellm.schemas.base.info import RequestInfo
    from guidellm.schemas.base.request import UsageMetrics
    from guidellm.schemas.base.request_stats import GenerativeRequestStats
    from guidellm.schemas.base.statistics import StatusDistributionSummary

    point, requests = read_record(out)
    stats = []
    for r in completed(requests):
        info = RequestInfo()
        t = info.timings
        t.request_start = r["admitted_ns"] / 1e9
        t.resolve_end = t.request_end = r["ended_ns"] / 1e9
        t.first_token_iteration = r["first_text_ns"] / 1e9
        t.last_token_iteration = r["last_token_ns"] / 1e9
        t.token_iterations = sum(1 for c in r["chunks"] if c[1])
        stats.append(GenerativeRequestStats(
            request_id=str(r["index"]), info=info, input_metrics=UsageMetrics(text_tokens=r["num_prompt_tokens"]),
            output_metrics=UsageMetrics(text_tokens=r["num_output_tokens"]),
        ))
    start, end = point["first_dispatch_ns"] / 1e9, point["finished_ns"] / 1e9

    def values(function):
        return StatusDistributionSummary.from_values_function(function, stats, [], []).successful.model_dump()

    def rate(function):
        return StatusDistributionSummary.rate_distribution_from_timings_function(
            function, stats, [], [], start_time=start, end_time=end).successful.mean

    write(out / "guidellm.json", {
        "request_latency": values(lambda r: r.request_latency or 0.0),
        "prompt_token_count": values(lambda r: r.prompt_tokens or 0.0),
        "output_token_count": values(lambda r: r.output_tokens or 0.0),
        "time_to_first_token_ms": values(lambda r: r.time_to_first_token_ms or 0.0),
        "time_per_output_token_ms": values(lambda r: (r.time_per_output_token_ms or 0.0, r.output_tokens or 0.0)),
        "inter_token_latency_ms": values(lambda r: (r.inter_token_latency_ms or 0.0, (r.output_tokens or 1.0) - 1.0)),
        "requests_per_second": rate(lambda r: r.request_end_time),
        "output_tokens_per_second": rate(lambda r: r.output_tokens_timings),
        "prompt_tokens_per_second": rate(lambda r: r.prompt_tokens_timing),
    })


def aiperf(out):
    import numpy as np
    from aiperf.metrics.metric_dicts import MetricRecordDict, metric_result_from_array
    from aiperf.metrics.types.inter_chunk_latency_metric import InterChunkLatencyMetric
    from aiperf.metrics.types.inter_token_latency_metric import InterTokenLatencyMetric
    from aiperf.metrics.types.output_sequence_length_metric import OutputSequenceLengthMetric
    from aiperf.metrics.types.request_latency_metric import RequestLatencyMetric
    from aiperf.metrics.types.ttft_metric import TTFTMetric

    point, requests = read_record(out)
    found = {"ttft": [], "request_latency": [], "inter_token_latency": [], "inter_chunk_latency": []}
    for r in completed(requests):
        responses = [types.SimpleNamespace(perf_ns=c[0]) for c in r["chunks"] if c[1]]
        record = types.SimpleNamespace(
            start_perf_ns=r["admitted_ns"], request=types.SimpleNamespace(start_perf_ns=r["admitted_ns"]),
            content_responses=responses, token_counts=None)
        of = MetricRecordDict()
        of[OutputSequenceLengthMetric.tag] = r["num_output_tokens"]
        of[TTFTMetric.tag] = TTFTMetric()._parse_record(record, of)
        of[RequestLatencyMetric.tag] = RequestLatencyMetric()._parse_record(record, of)
        found["ttft"].append(of[TTFTMetric.tag])
        found["request_latency"].append(of[RequestLatencyMetric.tag])
        if r["num_output_tokens"] > 1:
            found["inter_token_latency"].append(InterTokenLatencyMetric()._parse_record(record, of))
        if len(responses) > 1:
            found["inter_chunk_latency"] += InterChunkLatencyMetric()._parse_record(record, of)
    results = {}
    for name, values in found.items():
        array = np.array(values, dtype=np.float64) / 1e6
        results[name] = metric_result_from_array(name, name, "ms", array, float(array.sum())).model_dump(mode="json")
    write(out / "aiperf.json", results)


# ---- what no package computes -------------------------------------------------------------------


def describe(np, values):
    values = np.array(values, dtype=np.float64)
    return {
        "count": len(values), "mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max(),
        "percentiles": [float(np.percentile(values, rank)) for rank in RANKS],
    }


def survival_percentile(values, rank):
    """The product-limit estimate, by its definition. values: (time, is_censored)."""
    surviving = 1.0
    for time in sorted({t for t, censored in values if not censored}):
        at_risk = sum(1 for t, _ in values if t >= time)
        ended = sum(1 for t, censored in values if t == time and not censored)
        surviving *= 1 - ended / at_risk
        if 1 - surviving >= rank / 100 - 1e-12:
            return time
    return None


def ours(np, point, requests):
    served = [r for r in measured(requests) if r["outcome"] != "failed"]
    ttft, e2e, scheduled, itl, icl, tpot = [], [], [], [], [], []
    for r in served:
        is_open = r["outcome"] == "unfinished"
        first = r.get("first_token_ns")
        last = r["ended_ns"] if is_open else r["last_token_ns"]
        ttft.append(((first if first else last) / 1e6 - r["sent_ns"] / 1e6, first is None))
        e2e.append(((last - r["sent_ns"]) / 1e6, is_open))
        scheduled.append(((last - r["scheduled_ns"]) / 1e6, is_open))
        with_tokens = [c for c in r["chunks"] if c[1]]
        for (before, _), (at, tokens) in zip(with_tokens, with_tokens[1:]):
            icl.append((at - before) / 1e6)
            itl += [(at - before) / 1e6 / tokens] * tokens
        if not is_open and r["num_output_tokens"] > with_tokens[0][1]:
            tpot.append((last - first) / 1e6 / (r["num_output_tokens"] - with_tokens[0][1]))
    buckets = {}
    for r in served:
        for at, tokens in r["chunks"]:
            second = (at - point["first_dispatch_ns"]) // 1_000_000_000
            buckets[second] = buckets.get(second, 0) + tokens
    return {
        "tpot": describe(np, tpot), "itl": describe(np, itl), "icl": describe(np, icl),
        "ttft_percentiles": [survival_percentile(ttft, rank) for rank in RANKS],
        "e2e_percentiles": [survival_percentile(e2e, rank) for rank in RANKS],
        "e2e_scheduled_percentiles": [survival_percentile(scheduled, rank) for rank in RANKS],
        "output_throughput": sum(r["num_output_tokens"] for r in served) / duration_from_zero_s(point),
        "peak_output_throughput": max(buckets.values()),
        "peak_concurrency": peak_of([(r["sent_ns"], r["ended_ns"]) for r in measured(requests)]),
    }


def peak_of(spans):
    return max(sum(1 for begin, end in spans if begin <= at < end) for at, _ in spans)


def by_second(spans):
    origin = min(begin for begin, _ in spans)
    seconds = {}
    for begin, end in spans:
        for second in range((begin - origin) // 10**9, (end - origin) // 10**9 + 1):
            seconds[second] = seconds.get(second, 0) + 1
    return max(seconds.values())


def best_second(starts, times):
    origin = min(starts)
    seconds = {}
    for at in times:
        seconds[(at - origin) // 10**9] = seconds.get((at - origin) // 10**9, 0) + 1
    return max(seconds.values())


def guidellm01(np, point, requests):
    done = sorted(completed(requests), key=lambda r: r["ended_ns"])
    duration = (done[-1]["ended_ns"] - done[0]["admitted_ns"]) / 1e9
    itl = []
    for r in done:
        times = [c[0] for c in r["chunks"] if c[1]]
        itl += [(b - a) / 1e6 for a, b in zip(times, times[1:])]
    return {
        "duration": duration,
        "requests_per_second": len(done) / duration,
        "output_throughput": sum(r["num_output_tokens"] for r in done) / duration,
        "ttft": describe(np, [(r["first_text_ns"] - r["admitted_ns"]) / 1e6 for r in done]),
        "itl": describe(np, itl),
        "e2e": describe(np, [(r["ended_ns"] - r["admitted_ns"]) / 1e6 for r in done]),
    }


def grid(np, requests):
    slots = {}
    for r in sorted(completed(requests), key=lambda r: r["ended_ns"]):
        slots.setdefault(r["slot"], []).append(r)
    rps = tps = 0.0
    ttft, e2e = [], []
    for samples in slots.values():
        n = len(samples)
        time = (samples[n - 2]["ended_ns"] - samples[0]["ended_ns"]) / 1e9
        kept = samples[1:-1]
        rps += (n - 2) / time
        tps += sum(r["num_prompt_tokens"] + r["num_output_tokens"] for r in kept) / time
        ttft.append(np.mean([(r["first_text_ns"] - r["admitted_ns"]) / 1e6 for r in kept]))
        e2e.append(np.mean([(r["ended_ns"] - r["admitted_ns"]) / 1e6 for r in kept]))
    return {"rps": rps, "tps": tps, "ttft_ms": np.mean(ttft), "e2e_ms": np.mean(e2e)}


def plain(out):
    import numpy as np

    point, requests = read_record(out)
    done = completed(requests)
    with_text = [c[0] for r in done for c in r["chunks"] if c[1]]
    write(out / "plain.json", {
        "ours": ours(np, point, requests),
        "guidellm01": guidellm01(np, point, requests),
        "grid": grid(np, requests),
        "vllm_peak_concurrency": peak_of([(r["admitted_ns"], r["last_chunk_ns"]) for r in done]),
        "sglang_peak_concurrency": by_second([(r["admitted_ns"], r["ended_ns"]) for r in done]),
        "sglang_peak_output_throughput": best_second([r["admitted_ns"] for r in done], with_text),
    })


def statistics(out):
    import numpy as np
    import scipy.special
    import scipy.stats

    rng = np.random.default_rng(7)
    samples = []
    for size in (1, 2, 3, 10, 101, 1000):
        values = rng.lognormal(3, 1, size).tolist()
        samples.append({"values": values if size <= 101 else None, "seed_size": size, **describe(np, values)})
    x = np.arange(30.0)
    y = 5 + 0.03 * x + rng.normal(0, 1, 30)
    line = scipy.stats.linregress(x, y)
    a, b = rng.normal(100, 5, 12), rng.normal(97, 5, 12)
    paired = scipy.stats.ttest_rel(a, b)
    low, high = paired.confidence_interval(0.95)
    write(out / "statistics.json", {
        "samples": [s for s in samples if s["values"]],
        "student_t": [[t, df, 2 * scipy.stats.t.sf(t, df)] for t in (0.0, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0) for df in (1, 2, 5, 30, 500, 1e6)],
        "student_t_quantile": [[c, df, scipy.stats.t.ppf((1 + c) / 2, df)] for c in (0.5, 0.9, 0.95, 0.99, 0.999) for df in (1, 2, 5, 30, 500)],
        "incomplete_beta": [[p, q, v, scipy.special.betainc(p, q, v)] for p in (0.5, 1, 3, 50) for q in (0.5, 2, 80) for v in (0.01, 0.3, 0.7, 0.99)],
        "slope": {"x": x.tolist(), "y": y.tolist(), "slope": line.slope, "intercept": line.intercept, "p": line.pvalue},
        "paired": {"a": a.tolist(), "b": b.tolist(), "p": paired.pvalue, "low": low, "high": high, "p_permutation": float(
            scipy.stats.permutation_test((a - b,), lambda d: np.abs(np.mean(d)), permutation_type="samples",
                                         n_resamples=1 << 13, alternative="greater").pvalue)},
    })


def main():
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "record":
        write_record(out, *make_record())
        plain(out)
        statistics(out)
    else:
        {"vllm": vllm, "sglang": sglang, "guidellm": guidellm, "aiperf": aiperf}[sys.argv[1]](out)


if __name__ == "__main__":
    main()
