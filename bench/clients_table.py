#!/usr/bin/env python3
"""Reads what bench/clients.sh left of each client's run and prints one table for each load.

usage: clients_table.py FOLDER TRUTH...
FOLDER has one folder a run, named LOAD.ROUND.TOOL, with the result in the tool's own form. A figure is the mean over
the rounds; the last column says how far the rounds are apart. TRUTH: LOAD=TTFT_MS,ITL_MS,TOKENS[,CONCURRENCY] of a
server whose times are known.
"""
import json
import pathlib
import sys

COLUMNS = ["TTFT mean", "TTFT median", "TPOT mean", "TPOT median", "ITL mean", "ITL median", "E2E mean", "E2E median",
           "req/s", "out tok/s", "input tok", "requests"]


def vllm_form(result):
    """What vLLM writes; `millrace bench serve --save-result` writes the same keys."""
    figures = [result[f"{kind}_{name}_ms"] for name in ("ttft", "tpot", "itl", "e2el") for kind in ("mean", "median")]
    return figures + [result["request_throughput"], result["output_throughput"],
                      result["total_input_tokens"] / result["completed"], result["completed"]]


def read_vllm(folder):
    return vllm_form(json.loads((folder / "result.json").read_text()))


def read_sglang(folder):
    result = json.loads((folder / "result.jsonl").read_text().splitlines()[-1])
    figures = [result[f"{kind}_{name}_ms"] for name in ("ttft", "tpot", "itl", "e2e_latency")
               for kind in ("mean", "median")]
    return figures + [result["request_throughput"], result["output_throughput"],
                      result["total_input_tokens"] / result["completed"], result["completed"]]


def read_guidellm(folder):
    metrics = json.loads((folder / "benchmarks.json").read_text())["benchmarks"][0]["metrics"]

    def of(name, scale=1.0):
        return [metrics[name]["successful"][kind] * scale for kind in ("mean", "median")]

    return (of("time_to_first_token_ms") + of("time_per_output_token_ms") + of("inter_token_latency_ms") +
            of("request_latency", 1000.0) +
            [of("requests_per_second")[0], of("output_tokens_per_second")[0], of("prompt_token_count")[0],
             metrics["request_totals"]["successful"]])


def read_aiperf(folder):
    result = json.loads((folder / "artifacts" / "profile_export_aiperf.json").read_text())

    def of(name):
        return [result[name]["avg"], result[name]["p50"]]

    return (of("time_to_first_token") + [None, None] + of("inter_token_latency") + of("request_latency") +
            [result["request_throughput"]["avg"], result["output_token_throughput"]["avg"],
             result["input_sequence_length"]["avg"], result["request_count"]["avg"]])


READERS = {"vllm": read_vllm, "sglang": read_sglang, "guidellm": read_guidellm, "aiperf": read_aiperf,
           "millrace": read_vllm}


def truth_row(text):
    values = [float(value) for value in text.split(",")]
    ttft, itl, tokens = values[:3]
    e2e = ttft + (tokens - 1) * itl
    rate = values[3] * 1000.0 / e2e if len(values) > 3 else None
    return [ttft, ttft, itl, itl, itl, itl, e2e, e2e, rate, rate and rate * tokens, None, None]


def shown(value):
    return "-" if value is None else f"{value:.2f}" if value < 1000 else f"{value:.1f}"


def print_table(load, runs, truth):
    print(f"\n### {load}\n")
    print("| client | " + " | ".join(COLUMNS) + " | rounds' E2E means |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    if truth:
        print("| **truth** | " + " | ".join(shown(value) for value in truth_row(truth)) + " | |")
    for tool in READERS:
        rounds = [runs[key] for key in sorted(runs) if key[1] == tool]
        if not rounds:
            continue
        means = [None if column[0] is None else sum(column) / len(column) for column in zip(*rounds)]
        spread = ", ".join(shown(figures[6]) for figures in rounds)
        print(f"| {tool} | " + " | ".join(shown(value) for value in means) + f" | {spread} |")


def main():
    truths = dict(text.split("=", 1) for text in sys.argv[2:])
    loads = {}
    for folder in sorted(pathlib.Path(sys.argv[1]).glob("*.*.*")):
        load, number, tool = folder.name.split(".")
        try:
            loads.setdefault(load, {})[(int(number), tool)] = READERS[tool](folder)
        except (OSError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            print(f"clients_table.py: {folder.name} has no result: {error!r}", file=sys.stderr)
    for load, runs in loads.items():
        print_table(load, runs, truths.get(load))


main()
