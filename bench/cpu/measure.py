#!/usr/bin/env python3
"""Measures millrace and its rivals on one machine, in turn, and keeps every figure as a line of JSON.

usage: measure.py PLAN OUTPUT     (bench/cpu.sh writes the plan)

A case is one phase, batch size and format. In each round every engine runs the case once, one after the other; what the
machine can do is measured before each. Engines that take long to load stay loaded between the rounds, and sleep.
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

from llama_speed import Llama
from serving import measure_serving
from vllm_cpp_speed import VllmCpp

LIMITS_OF_RUN = ["bench", "limits", "--repetitions", "2", "--json"]


def quantization_of(format_name):
    """The formats of llama-quantize, and what arrives in 4 bits, stay as they are stored."""
    if re.match("i?q[0-9]", format_name) or format_name == "uint4":
        return "stored"
    return {"bf16": "none"}.get(format_name, format_name)


class Millrace:
    def __init__(self, binary, models, threads):
        self.binary, self.models, self.threads = binary, models, threads

    def has(self, format_name):
        return format_name in self.models

    def version(self):
        said = subprocess.run([self.binary, "--version"], capture_output=True, text=True).stdout
        return said.splitlines()[0].removeprefix("millrace ")  # what it was built for follows

    def command(self, case):
        lengths = {"prefill": (case["num_tokens"], 0), "decode": (0, case["num_tokens"])}[case["phase"]]
        return [self.binary, "bench", "engine", self.models[case["format"]], "--dtype", "bfloat16", "--prompt-len", str(lengths[0]),
                "--output-len", str(lengths[1]), "--batch-size", str(case["batch_size"]), "--context-len",
                str(case["context_len"]), "--threads", str(self.threads), "--repetitions", "1", "--json",
                "--quantization", quantization_of(case["format"])]

    def run(self, case, log):
        done = subprocess.run(self.command(case), capture_output=True, text=True, timeout=1800)
        log.write(f"$ {' '.join(self.command(case))}\n{done.stdout}\n{done.stderr}\n")
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
        row = json.loads(done.stdout)
        return {key: row[key] for key in ("tokens_per_s", "limit_share", "limit", "read_gb_per_s", "peak_tflop_per_s",
                                          "isa", "weight_bytes")}


class Programs:
    """An engine that is run anew for each figure."""

    def __init__(self, engine):
        self.engine = engine

    def version(self):
        return self.engine.version()

    def has(self, format_name):
        return format_name in self.engine.models

    def run(self, case, log):
        return {"tokens_per_s": self.engine.measure(case, log)}


class Worker:
    """An engine in a process of its own, loaded when its first case of a format comes."""

    def __init__(self, entry, threads, log):
        self.entry, self.threads, self.log = entry, threads, log
        self.process = None
        self.format = None
        self.said_version = "unknown"

    def version(self):
        return self.said_version

    def stop(self):
        if self.process is None:
            return
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def start(self, format_name):
        self.stop()
        self.format = format_name
        here = pathlib.Path(__file__).resolve().parent
        self.process = subprocess.Popen(
            [self.entry["python"], here / self.entry["program"], self.entry["models"][format_name], str(self.threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.said_version = self.answer()["version"]

    def has(self, format_name):
        return format_name in self.entry["models"]

    def run(self, case, _):
        if self.process is None or self.process.poll() is not None or self.format != case["format"]:
            self.start(case["format"])
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return {"tokens_per_s": self.answer()["tokens_per_s"]}


def make_engine(entry, threads, log):
    if entry["kind"] == "llama":
        return Programs(Llama(entry["name"], entry["build"], entry["models"], threads, entry["flags"], entry["batched_flags"]))
    if entry["kind"] == "vllm.cpp":
        return Programs(VllmCpp(entry["name"], entry["build"], entry["models"], threads))
    return Worker(entry, threads, log)


def make_engines(plan, model, log):
    engines = {"millrace": Millrace(plan["millrace"], model["ours"], plan["threads"])}
    for entry in model["rivals"]:
        engines[entry["name"]] = make_engine(entry, plan["threads"], log)
    return engines


def read_limits(plan):
    said = subprocess.run([plan["millrace"], *LIMITS_OF_RUN, "--threads", str(plan["threads"])], capture_output=True,
                          text=True, check=True).stdout
    limits = json.loads(said)
    return {"read_gb_per_s": limits["read_gb_per_s"]["mean"],
            "peaks_tflop_per_s": {name: peak["highest"] for name, peak in limits["peak_tflop_per_s"].items()}}


class Recorder:
    def __init__(self, path):
        self.file = open(path, "w")

    def write(self, **row):
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


def measure_model(plan, model, recorder, log):
    engines = make_engines(plan, model, log)
    given_up = set()
    for format_name in plan["formats"]:
        cases = [case for case in model["cases"] if case["format"] == format_name]
        for number in range(plan["rounds"]):
            for case in cases:
                for name, engine in engines.items():
                    key = (name, format_name, case["phase"], case["batch_size"], case["context_len"])
                    # Not every rival can be asked for a context of made-up tokens: ours is compared with its limit.
                    if key in given_up or not engine.has(format_name) or (case["context_len"] and name != "millrace"):
                        continue
                    row = {"type": "figure", "model": model["name"], "round": number, "engine": name, **case}
                    limits = read_limits(plan)
                    try:
                        row |= limits | engine.run(case | {"seed": number}, log)
                    except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                        given_up.add(key)
                        recorder.write(**row, error=str(error))
                        print(f"{name}, {format_name}, {case['phase']} {case['batch_size']}: {error}", file=sys.stderr)
                        continue
                    recorder.write(**row)
                    print(f"{model['name']} {format_name} {case['phase']} B={case['batch_size']} round {number}: {name} "
                          f"{row['tokens_per_s']:.1f} tokens/s", file=sys.stderr, flush=True)
    for name, engine in engines.items():
        recorder.write(type="version", engine=name, version=engine.version())
        if isinstance(engine, Worker):
            engine.stop()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by which servers are stopped, too
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    recorder = Recorder(sys.argv[2])
    recorder.write(type="facts", started=time.strftime("%Y-%m-%d %H:%M", time.gmtime()), **plan["facts"])
    with open(plan["log"], "a") as log:
        for model in plan["models"]:
            measure_model(plan, model, recorder, log)
        measure_serving(plan, recorder, log)


main()
