#!/usr/bin/env python3
"""Makes docs/benchmarks/cpu.md of what bench/cpu.sh measured.

usage: cpu_table.py RESULTS.jsonl > cpu.md
       cpu_table.py --self-test

A figure is the mean over the rounds with its standard deviation; a ratio is the median over the rounds of ours by the best
rival's (the one with the highest mean at the same bits) in the same round.
"""
import json
import statistics
import sys

ORDER = ["millrace", "llama.cpp", "ik_llama.cpp", "OpenVINO", "vLLM", "vllm.cpp"]


def read_rows(text):
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def of_type(rows, kind):
    return [row for row in rows if row["type"] == kind]


def spread(values):
    if not values:
        return "-"
    digits = 1 if statistics.mean(values) < 1000 else 0
    text = f"{statistics.mean(values):.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):.{digits}f}"


def by_round(rows, engine, key="tokens_per_s"):
    return {row["round"]: row[key] for row in rows if row["engine"] == engine and key in row}


def ratio_to_best(rows, engines, key="tokens_per_s", higher_is_better=True):
    """(ratio, name of the best rival); none where there is nothing to compare."""
    ours = by_round(rows, "millrace", key)
    rivals = {name: by_round(rows, name, key) for name in engines if name != "millrace"}
    means = {name: statistics.mean(values.values()) for name, values in rivals.items() if values}
    if not ours or not means:
        return None, None
    best = (max if higher_is_better else min)(means, key=means.get)
    ratios = [ours[number] / rivals[best][number] for number in ours if number in rivals[best]]
    return (statistics.median(ratios) if ratios else None), best


def ratio_text(rows, engines, **options):
    ratio, best = ratio_to_best(rows, engines, **options)
    return "-" if ratio is None else f"**{ratio:.2f}** ({best})"


def case_name(case):
    phase, batch_size, context_len, _, num_tokens = case
    name = f"prefill {num_tokens}" if phase == "prefill" else f"decode B={batch_size}"
    return name + (f", context {context_len}" if context_len else "")


def model_table(rows, engines):
    cases = []
    for row in rows:
        case = (row["phase"], row["batch_size"], row["context_len"], row["format"], row["num_tokens"])
        if case not in cases:
            cases.append(case)
    lines = ["| case | weights | " + " | ".join(engines) + " | ours / best rival | ours: share of | read GB/s |",
             "|---" * (len(engines) + 5) + "|"]
    for case in cases:
        of_case = [row for row in rows
                   if (row["phase"], row["batch_size"], row["context_len"], row["format"], row["num_tokens"]) == case]
        figures = [spread(list(by_round(of_case, name).values())) for name in engines]
        shares = list(by_round(of_case, "millrace", "limit_share").values())
        limit = next((row["limit"] for row in of_case if "limit" in row), "")
        reads = [row["read_gb_per_s"] for row in of_case if "read_gb_per_s" in row]
        reads_text = f"{min(reads):.0f}-{max(reads):.0f}" if reads else "-"
        share = f"{limit} {statistics.mean(shares):.0%}" if shares else "-"
        lines.append(f"| {case_name(case)} | {case[3]} | " + " | ".join(figures) +
                     f" | {ratio_text(of_case, engines)} | {share} | {reads_text} |")
    return lines


def serving_table(rows, engines):
    engines = [name for name in engines if any(row["engine"] == name for row in rows)]
    lines = ["| | " + " | ".join(engines) + " | ours / best rival |", "|---" * (len(engines) + 2) + "|"]
    for key, name, higher_is_better in (("output_throughput", "output tokens/s", True), ("p99_itl_ms", "p99 ITL, ms", False),
                                        ("mean_ttft_ms", "mean TTFT, ms", False)):
        figures = [spread(list(by_round(rows, engine, key).values())) for engine in engines]
        lines.append(f"| {name} | " + " | ".join(figures) +
                     f" | {ratio_text(rows, engines, key=key, higher_is_better=higher_is_better)} |")
    return lines


def grid_table(rows, engines):
    """A line for each B/I/H/O; E2E and TTFT in milliseconds, the ratio of E2E."""
    engines = [name for name in engines if any(row["engine"] == name for row in rows)]
    lines = ["| B/I/H/O | " + " | ".join(f"{name}: E2E, ms | TTFT, ms" for name in engines) + " | ours / best rival |",
             "|---" * (2 * len(engines) + 2) + "|"]
    misses = []
    for point, of_point in grid_points(rows).items():
        figures = [spread(list(by_round(of_point, name, key).values())) for name in engines for key in ("mean_e2e_ms", "mean_ttft_ms")]
        point_name = "/".join(map(str, point))
        lines.append(f"| {point_name} | " + " | ".join(figures) +
                     f" | {ratio_text(of_point, engines, key='mean_e2e_ms', higher_is_better=False)} |")
        misses += [(name, point_name, rate) for name in engines if (rate := missed_hits(of_point, name)) is not None]
    if misses:
        words = ", ".join(f"{name} {rate:.0%} of the prompt at {point}" for name, point, rate in misses)
        lines += ["", f"The cache held less than H: {words}."]
    return lines


def grid_points(rows):
    points = {}
    for row in rows:
        if "error" not in row:
            points.setdefault((row["batch_size"], row["input_len"], row["hit_len"], row["output_len"]), []).append(row)
    return points


def missed_hits(rows, engine):
    """The share of prompts that came from the cache, where that is less than nine tenths of what was meant to."""
    rates = list(by_round(rows, engine, "prefix_hit_rate").values())
    wanted = rows[0]["hit_len"] / rows[0]["input_len"]
    return statistics.mean(rates) if rates and statistics.mean(rates) < 0.9 * wanted else None


def limits_table(rows):
    peaks = {}
    for row in rows:
        for name, value in row.get("peaks_tflop_per_s", {}).items():
            peaks.setdefault(name, []).append(value)
    reads = [row["read_gb_per_s"] for row in rows if "peaks_tflop_per_s" in row]
    lines = ["| limit | lowest | median | highest |", "|---|---|---|---|"]
    if reads:
        lines.append(f"| memory read, GB/s | {min(reads):.1f} | {statistics.median(reads):.1f} | {max(reads):.1f} |")
    for name, values in peaks.items():
        lines.append(f"| {name}, Tflop/s | {min(values):.3f} | {statistics.median(values):.3f} | {max(values):.3f} |")
    return lines


def failures(rows):
    """A line for each engine and reason, with the cases."""
    cases = {}
    for row in rows:
        if "error" in row:
            words = (f"{row['format']} {row['phase']} B={row['batch_size']}" +
                     (f" context {row['context_len']}" if row["context_len"] else "")
                     if row["type"] == "figure" else row["type"])
            cases.setdefault((row["engine"], row.get("model", ""), row["error"]), []).append(words)
    return [f"- {engine}{', ' + model if model else ''} ({', '.join(words)}): {error}" for (engine, model, error), words in cases.items()]


def document(rows):
    facts = of_type(rows, "facts")[0]
    figures, serving, grid = (of_type(rows, kind) for kind in ("figure", "serving", "grid"))
    # A server says its name before its version.
    versions = {row["engine"]: row["version"].split()[-1] for row in grid if row.get("version")}
    versions |= {row["engine"]: row["version"] for row in of_type(rows, "version")}
    engines = [name for name in ORDER if any(row["engine"] == name for row in figures + serving + grid)]
    missing = [name for name in ORDER if name not in engines]
    lines = [f"# The CPU engine beside its rivals, {facts['started'].split()[0]}", "",
             f"Made by `{facts['command']}` on {facts['started']} UTC: every engine in turn, {facts['rounds']} rounds, "
             f"{facts['threads']} threads. tokens/s are means ± standard deviations over the rounds; a ratio is the median "
             "over the rounds of ours by the best rival's at the same bits in the same round.", "",
             f"Machine: {facts['machine']}. Commit: {facts['commit']}. Load before: {facts['load']}.", "",
             "Versions: " + "; ".join(f"{name} {versions.get(name, '')}".strip() for name in engines) + ".", ""]
    lines += [f"Not installed, so not measured: {', '.join(missing)}.", ""] if missing else []
    if figures:
        lines += ["What the machine could do meanwhile, measured before every figure (`millrace bench limits`):", "",
                  *limits_table(figures), ""]
    for model in dict.fromkeys(row["model"] for row in figures):
        lines += [f"## {model}", "", *model_table([row for row in figures if row["model"] == model], engines), ""]
    if serving:
        lines += ["## Serving over HTTP", "", facts["serving"], "", *serving_table(serving, engines), ""]
    if grid:
        lines += ["## The published grid over HTTP", "", facts["grid"], "", *grid_table(grid, engines), ""]
    failed = failures(figures + serving + grid)
    lines += ["## What failed", "", *failed, ""] if failed else []
    lines += ["## Commands", "", *(f"- {name}: `{text}`" for name, text in facts["commands"].items()), ""]
    return "\n".join(lines)


def self_test():
    def figure(engine, number, speed, **more):
        return {"type": "figure", "model": "m", "round": number, "engine": engine, "phase": "decode", "batch_size": 4,
                "context_len": 0, "format": "int8", "num_tokens": 64, "tokens_per_s": speed, **more}

    rows = [figure("millrace", 0, 100.0, limit_share=0.9, limit="bandwidth", read_gb_per_s=40.0),
            figure("vLLM", 0, 50.0), figure("llama.cpp", 0, 60.0),
            figure("millrace", 1, 80.0, limit_share=0.8, limit="bandwidth", read_gb_per_s=30.0),
            figure("vLLM", 1, 20.0), figure("llama.cpp", 1, 40.0),
            figure("millrace", 2, 90.0, limit_share=0.7, limit="bandwidth"), figure("llama.cpp", 2, 45.0)]
    engines = ["millrace", "llama.cpp", "vLLM"]
    ratio, best = ratio_to_best(rows, engines)
    assert best == "llama.cpp" and abs(ratio - 2.0) < 1e-9, "median of 1.67, 2, 2"
    lines = model_table(rows, engines)
    assert len(lines) == 3 and len({line.count("|") for line in lines}) == 1, lines
    assert lines[2] == ("| decode B=4 | int8 | 90.0 ± 10.0 | 48.3 ± 10.4 | 35.0 ± 21.2 | **2.00** (llama.cpp) | "
                        "bandwidth 80% | 30-40 |"), lines[2]
    # The same round counts, not the same place in the list.
    swung = [figure("millrace", 1, 10.0), figure("vLLM", 0, 100.0), figure("vLLM", 1, 5.0)]
    assert ratio_to_best(swung, engines) == (2.0, "vLLM")
    assert ratio_to_best([figure("millrace", 0, 10.0)], engines) == (None, None)
    assert ratio_text([figure("vLLM", 0, 10.0)], engines) == "-"

    serving = [{"type": "serving", "round": 0, "engine": name, "output_throughput": speed, "p99_itl_ms": itl,
                "mean_ttft_ms": 5.0} for name, speed, itl in (("millrace", 300.0, 10.0), ("vLLM", 200.0, 20.0))]
    lines = serving_table(serving, engines)
    assert lines[2].endswith("| **1.50** (vLLM) |") and lines[3].endswith("| **0.50** (vLLM) |"), lines

    def point(engine, number, e2e, **more):
        return {"type": "grid", "round": number, "engine": engine, "batch_size": 4, "input_len": 256, "hit_len": 128,
                "output_len": 8, "mean_e2e_ms": e2e, "mean_ttft_ms": 5.0, "version": f"{engine} 7", **more}

    grid = [point("millrace", 0, 100.0, prefix_hit_rate=0.5), point("vLLM", 0, 200.0, prefix_hit_rate=0.25),
            point("llama.cpp", 0, 350.0), point("millrace", 1, 100.0), point("vLLM", 1, 400.0, prefix_hit_rate=0.25),
            {"type": "grid", "engine": "llama.cpp", "error": "no answer"}]
    lines = grid_table(grid, engines)
    assert lines[2] == ("| 4/256/128/8 | 100.0 ± 0.0 | 5.0 ± 0.0 | 350.0 | 5.0 | 300.0 ± 141.4 | 5.0 ± 0.0 | "
                        "**0.38** (vLLM) |"), (lines[2], "median of 0.5 and 0.25")
    assert len({line.count("|") for line in lines[:3]}) == 1, lines
    assert lines[4] == "The cache held less than H: vLLM 25% of the prompt at 4/256/128/8."

    facts = {"type": "facts", "started": "2026-11-21 17:00", "command": "bench/cpu.sh", "rounds": 3, "threads": 2,
             "machine": "two cores", "commit": "abc", "load": "0.1", "serving": "16 streams", "grid": "by bench grid",
             "commands": {"vLLM": "vllm x"}}
    limited = figure("millrace", 0, 1.0, read_gb_per_s=50.0, peaks_tflop_per_s={"vfmadd zmm": 0.5})
    failed = figure("OpenVINO", 0, 1.0, error="out of memory")
    del failed["tokens_per_s"]
    text = document([facts, *rows, limited, failed, *serving, *grid, {"type": "version", "engine": "vLLM", "version": "0.32"}])
    for words in ("# The CPU engine beside its rivals, 2026-11-21", "vLLM 0.32", "llama.cpp 7;", "- llama.cpp (grid): no answer",
                  "not measured: ik_llama.cpp, vllm.cpp.",
                  "| memory read, GB/s | 50.0 | 50.0 | 50.0 |", "| vfmadd zmm, Tflop/s | 0.500 |", "16 streams", "by bench grid",
                  "- OpenVINO, m (int8 decode B=4): out of memory", "- vLLM: `vllm x`", "\n## m\n"):
        assert words in text, (words, text)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        with open(sys.argv[1], encoding="utf-8") as results:
            print(document(read_rows(results.read())), end="")
