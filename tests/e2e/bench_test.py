#!/usr/bin/env python3
"""`millrace bench` as a person uses it, against `millrace bench mock`: every command, and bad input.

    bench_test.py BINARY [unittest arguments]

Needs no module beyond the standard library and no model.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from model_folder import write_model_folder  # noqa: E402

BINARY = ""
PATIENCE_S = 120
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("MILLRACE_") and name != "OPENAI_API_KEY"}
SHORT = ("--input-len", "16", "--output-len", "8", "--no-calibration")


class Mock:
    """A mock server on a free port."""

    def __init__(self, *flags):
        self.process = subprocess.Popen([BINARY, "bench", "mock", "--port", "0", *flags], env=ENVIRONMENT,
                                        stderr=subprocess.PIPE, text=True)
        self.url = re.search(r"http://[\d.]+:\d+", self.process.stderr.readline())[0]

    def __enter__(self):
        return self

    def wait_for(self, number, metric="vllm:request_success_total"):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with urllib.request.urlopen(self.url + "/metrics") as answer:
                if int(re.search(rf"^{metric}\S* (\d+)", answer.read().decode(), re.M)[1]) >= number:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{metric} of the mock has not reached {number} within {PATIENCE_S} s")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=PATIENCE_S)


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *arguments, code=0):
        done = subprocess.run([BINARY, "bench", *map(str, arguments)], env=ENVIRONMENT, capture_output=True, text=True,
                              cwd=self.folder, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refused(self, *arguments, code=1, says=""):
        done = self.bench(*arguments, code=code)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, r"^millrace bench( \w+)?: ")
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")

    def records(self, name):
        lines = [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        return [line for line in lines if line["type"] == "request" and line["phase"] == "measured"]


class CommandsTest(BenchTest):
    def test_serve_and_every_report(self):
        with Mock("--ttft-ms", "5", "--itl-ms", "1") as mock:
            done = self.bench("serve", "--base-url", mock.url, *SHORT, "--num-prompts", 20, "--max-concurrency", 4,
                              "--save-detailed", "--result-filename", "v.json", "--output-file", "s.jsonl",
                              "--records", "r.jsonl", "--html", "r.html")
            self.assertRegex(done.stdout, r"Successful requests: +20 ")
            self.assertIn("Time per Output Token (excl. 1st token)", done.stdout)
            sglang = self.bench("serve", "--backend", "sglang", "--base-url", mock.url, *SHORT, "--num-prompts", 8)
            self.assertRegex(sglang.stdout, r"Backend: +sglang ")
            self.assertIn("Max ITL (ms)", sglang.stdout)
        saved = json.loads((self.folder / "v.json").read_text())
        self.assertEqual((saved["completed"], saved["total_input_tokens"], saved["total_output_tokens"]), (20, 320, 160))
        self.assertEqual([len(saved[key]) for key in ("ttfts", "itls", "generated_texts", "errors")], [20] * 4)
        self.assertGreaterEqual(saved["mean_ttft_ms"], 5)
        line = json.loads((self.folder / "s.jsonl").read_text())
        self.assertEqual((line["completed"], line["max_concurrency"], line["random_output_len"]), (20, 4, 8))
        self.assertEqual(len(self.records("r.jsonl")), 20)
        page = (self.folder / "r.html").read_text()
        self.assertFalse(re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?https?:", page))
        for shape, holds in (("grid", "B/I/H/O"), ("guidellm", "Inter Token Latency"), ("concurrency", "ISL:OSL=16:8"),
                             ("plotly", "Plotly.newPlot"), ("sglang", "Serving Benchmark Result"),
                             ("markdown", "Verdict"), ("csv", "name,framework"), ("html", "<!doctype html>")):
            self.assertIn(holds, self.bench("report", "--in", "r.jsonl", "--shape", shape).stdout, shape)
        self.assertIn("1 rows", self.bench("import", "v.json").stdout)

    def test_what_is_passed_on_holds_no_secrets(self):
        with Mock("--api-key", "SEKRET1") as mock:
            self.bench("rate", "--framework", "a=" + mock.url, "--api-key", "SEKRET1", "--header=X-Tok=SEKRET2",
                       "--request-rate", "inf", "--inf-prompts", 4, "--input-len", 16, "--output-len", 4,
                       "--no-calibration", "--records", "r.jsonl", "--html", "r.html", "-o", "r.md", "--jsonl", "p.jsonl")
        for name in ("r.jsonl", "r.html", "r.md", "p.jsonl"):
            self.assertNotIn("SEKRET", (self.folder / name).read_text(), name)
        for name in ("r.jsonl", "r.html"):
            self.assertIn("X-Tok=***", (self.folder / name).read_text(), name)

    def test_concurrency_and_grid(self):
        with Mock("--ttft-ms", "2") as mock:
            done = self.bench("concurrency", "--base-url", mock.url, "--isl-osl", "16:8,8:4", "--max-concurrency", "1,2",
                              "--no-calibration")
            self.assertIn("ISL:OSL=16:8", done.stdout)
            self.assertIn("ISL:OSL=8:4", done.stdout)
            done = self.bench("grid", "--base-url", mock.url, "--b", "1,2", "--iho", "16/8/4", "--no-calibration")
            self.assertIn("|1/16/8/4 ", done.stdout)
            self.assertIn("|2/16/8/4 ", done.stdout)

    def test_rate_and_compare_two_servers(self):
        with Mock("--ttft-ms", "5", "--itl-ms", "5") as fast, Mock("--ttft-ms", "25", "--itl-ms", "7") as slow:
            both = ("--framework", "slow=" + slow.url, "--framework", "fast=" + fast.url)
            done = self.bench("rate", *both, "--input-len", 16, "--output-len", 8, "--request-rate", "20,inf",
                              "--seconds-per-rate", 1, "--inf-prompts", 8, "--no-calibration", "--jsonl", "p.jsonl")
            self.assertIn("Plotly.newPlot", done.stdout)
            self.assertTrue((self.folder / "p.jsonl").read_text())
            done = self.bench("rate", *both, "--input-len", 16, "--output-len", 8, "--request-rate", "inf",
                              "--inf-prompts", 4, "--rounds", 6, "--no-calibration")
            self.assertRegex(done.stdout, r"\d% \+/- \d+\.\d\d% \*")
            done = self.bench("compare", *both, *SHORT, "--num-prompts", 6, "--max-concurrency", 2, "--rounds", 8)
            for name in ("mean TTFT", "mean E2E"):
                line = next(line for line in done.stdout.splitlines() if name in line)
                self.assertIn("| fast |", line)
                self.assertIn("| significant", line)

    def test_a_server_that_fails_requests_is_not_faster(self):
        with (Mock("--ttft-ms", "20", "--itl-ms", "5") as good,
              Mock("--ttft-ms", "2", "--itl-ms", "5", "--fails-every", "2") as broken):
            both = ("--framework", "good=" + good.url, "--framework", "broken=" + broken.url)
            done = self.bench("compare", *both, *SHORT, "--num-prompts", 6, "--max-concurrency", 2, "--rounds", 6)
            page = self.bench("rate", *both, *SHORT, "--request-rate", "inf", "--inf-prompts", 6).stdout
        line = next(line for line in done.stdout.splitlines() if "mean TTFT" in line)
        self.assertIn("| N/A (invalid rounds) |", line)
        self.assertIn("> broken, round 1 invalid: 3 of 6 requests", done.stdout)
        self.assertIn('["N/A (invalid rounds)"], ["N/A"]', page)

    def test_sweep(self):
        with Mock("--ttft-ms", "10", "--max-concurrency", "8") as mock:
            done = self.bench("sweep", "--base-url", mock.url, "--data", "prompt_tokens=16,generated_tokens=8",
                              "--sweep-size", 4, "--max-seconds", 1, "--no-calibration")
        rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if " req/sec |" in line]
        self.assertEqual(len(rows), 4, done.stdout)
        self.assertLessEqual({"synchronous", "throughput"}, set(rows))

    def test_capacity(self):
        # An answer takes 102 ms, and a fifth request waits for one: 60 or 162 ms to its first token, 50 ms from the goal.
        # Long enough that a machine may stand still once (0.4 s was seen) and nine of ten requests meet it all the same.
        with Mock("--ttft-ms", "60", "--itl-ms", "6", "--max-concurrency", "4") as mock:
            done = self.bench("capacity", "--by", "concurrency", "--goodput", "ttft:110", "--percentile", 90,
                              "--seconds", 3, "--base-url", mock.url, *SHORT)
        self.assertIn("capacity: 4 requests at once", done.stdout)

    def test_capacity_counts_no_row_that_is_invalid(self):
        search = ("capacity", "--by", "concurrency", "--max-load", 2, "--seconds", 0.5, "--input-len", 8, "--output-len", 20)
        with Mock("--output-share", "0.3", "--ttft-ms", "100") as mock:
            done = self.bench(*search, "--base-url", mock.url, "--goodput", "ttft:1e6", "--no-calibration", "--strict", code=4)
        self.assertRegex(done.stdout, r"(?m)^capacity: none of the measured loads keeps to the goals; "
                                      r"concurrency 1 is invalid: output_length, .*\(30.0 %\)")
        with Mock("--ttft-ms", "0.1", "--itl-ms", "0.1") as mock:
            done = self.bench(*search, "--base-url", mock.url, "--goodput", "ttft:1e6")
        self.assertRegex(done.stdout, r"(?m)^capacity: not found; concurrency 1 says nothing of the server: (client_|sched)")

    def test_all_of_a_file_is_measured(self):
        lines = [json.dumps({"prompt": f"line {i}", "output_tokens": 4}) for i in range(10)]
        (self.folder / "ten.jsonl").write_text("\n".join(lines))
        with Mock() as mock:
            self.bench("serve", "--base-url", mock.url, "--dataset-name", "custom", "--dataset-path", "ten.jsonl",
                       "--max-concurrency", 4, "--no-calibration", "--records", "r.jsonl")
        self.assertEqual(len(self.records("r.jsonl")), 10)
        point = json.loads((self.folder / "r.jsonl").read_text().splitlines()[0])
        self.assertEqual(point["plan"]["num_prompts"], 10)

    def test_every_prompt_of_each_group_is_measured(self):
        groups = ("--dataset-name", "generated-shared-prefix", "--gsp-num-groups", 2, "--gsp-prompts-per-group", 3,
                  "--gsp-system-prompt-len", 16, "--gsp-question-len", 8, "--gsp-output-len", 4, "--no-calibration")
        with Mock() as mock:
            self.bench("serve", "--base-url", mock.url, *groups, "--records", "r.jsonl")
            self.refused("serve", "--base-url", mock.url, *groups, "--num-prompts", 7, code=2,
                         says="--num-prompts is 7: the dataset has 6 (--gsp-num-groups times --gsp-prompts-per-group)")
        self.assertEqual(len(self.records("r.jsonl")), 6)

    def test_calibrate(self):
        self.assertIn("| concurrency 2 |", self.bench("calibrate", "--max-concurrency", 2, "--seconds", 0.3).stdout)


class EngineTest(BenchTest):
    KEYS = ["phase", "batch_size", "context_len", "tokens_per_s", "tokens_per_s_std", "read_gb_per_s",
            "peak_tflop_per_s", "limit_share", "quantization"]

    def setUp(self):
        super().setUp()
        write_model_folder(self.folder / "tiny")
        self.tiny = ("engine", "tiny", "--load-format", "dummy", "--threads", 2)

    def test_every_case_is_a_line_of_json(self):
        done = self.bench(*self.tiny, "--prompt-len", 20, "--output-len", 3, "--batch-size", "1,3", "--context-len",
                          "0,700", "--repetitions", 2, "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(line["phase"], line["context_len"], line["batch_size"]) for line in lines],
                         [(phase, context, batch) for phase in ("prefill", "decode") for context in (0, 700)
                          for batch in (1, 3)])
        for line in lines:
            self.assertEqual(list(line)[:len(self.KEYS)], self.KEYS)
            for key in ("tokens_per_s", "read_gb_per_s", "peak_tflop_per_s", "limit_share", "step_ms", "weight_bytes"):
                self.assertGreater(line[key], 0.0, key)
            self.assertGreaterEqual(line["tokens_per_s_std"], 0.0)
            self.assertIn(line["limit"], ("bandwidth", "compute"))
            self.assertEqual((line["quantization"], line["dtype"], line["threads"], line["repetitions"], line["model"]),
                             ("none", "float32", 2, 2, "tiny"))
        self.assertEqual(lines[4]["kv_bytes"] * 3, lines[5]["kv_bytes"], "each sequence has a cache of its own")
        self.assertEqual(lines[4]["weight_bytes"], lines[5]["weight_bytes"], "weights are read once a step")
        self.assertGreater(lines[6]["kv_bytes"], 100 * lines[4]["kv_bytes"])

    def test_table_with_each_instruction_set(self):
        for isa in ("auto", "reference"):
            done = self.bench(*self.tiny, "--prompt-len", 5, "--output-len", 2, "--b", 2, "--dtype", "bfloat16",
                              "--isa", isa, "--repetitions", 1)
            rows = [line.split("|")[1:4] for line in done.stdout.splitlines() if line.startswith("|")]
            self.assertEqual([[cell.strip() for cell in row] for row in rows[2:]],
                             [["prefill", "2", "0"], ["decode", "2", "0"]])
            self.assertIn("tiny: bfloat16, 2 threads, ", done.stdout)
            self.assertIn("M parameters", done.stderr)

    def test_peak_is_of_the_instructions_that_multiply(self):
        for quantization, peaks in (("none", ("vfmadd ymm",)), ("int8", ("vpmaddwd + vpaddd ymm",)),
                                    ("int4", ("vpmaddubsw + vpmaddwd ymm", "vpdpbusd ymm"))):
            done = self.bench(*self.tiny, "--prompt-len", 5, "--output-len", 0, "--b", 1, "--isa", "avx2",
                              "--quantization", quantization, "--repetitions", 1, "--json")
            self.assertIn(json.loads(done.stdout)["peak_instruction"], peaks, quantization)

    def test_one_phase_alone(self):
        for flags, phase in ((("--output-len", 0), "prefill"), (("--prompt-len", 0), "decode")):
            done = self.bench(*self.tiny, *flags, "--b", 1, "--repetitions", 1, "--json")
            self.assertEqual([json.loads(line)["phase"] for line in done.stdout.splitlines()], [phase])

    def test_what_cannot_be_measured_is_one_line(self):
        for flags in (("--batch-size", "0"), ("--batch-size", "70000"), ("--context-len", "-1"), ("--prompt-len", "-1"),
                      ("--quantization", "int3"), ("--dtype", "x"), ("--isa", "avx1024"), ("--repetitions", "0"),
                      ("--load-format", "x"), ("--context-len", "4096")):
            self.refused(*self.tiny, *flags, code=2, says=flags[0])
        self.refused(*self.tiny, "--prompt-len", 0, "--output-len", 0, code=2, says="--output-len")
        self.refused("engine", "nowhere/at/all", says="nowhere/at/all")
        self.refused(*self.tiny, "--context-len", 3000, "--kv-cache-memory-bytes", "2M", says="KV cache")

    def test_interrupted(self):
        run = subprocess.Popen([BINARY, "bench", *map(str, self.tiny), "--repetitions", "100000", "--b", "1", "--json"],
                               cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.stderr.readline()  # the model is loaded
        time.sleep(1.5)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 130, err)
        self.assertTrue(all(json.loads(line)["repetitions"] >= 1 for line in out.splitlines()), out)


class BadInputTest(BenchTest):
    def serve(self, mock, *more, code=0):
        return self.bench("serve", "--base-url", mock.url, *SHORT, "--max-concurrency", 2, *more, code=code)

    def test_strict_says_what_cannot_be_trusted(self):
        for flags, code in ((("--output-share", "0.8"), "output_length"), (("--prefix-hit-rate", "0.5"), "prefix_hits")):
            with Mock(*flags) as mock:
                self.serve(mock, "--num-prompts", 20, "--records", code, "--strict", code=4)
            self.assertIn(code, self.bench("import", code).stdout)

    def test_failing_streams(self):
        for flag, kind in (("--malformed-every", "malformed"), ("--breaks-every", "closed"), ("--fails-every", "status")):
            with Mock(flag, "4") as mock:
                done = self.serve(mock, "--num-prompts", 20, "--records", kind)
            self.assertRegex(done.stderr, r"of 20 requests \([\d.]+ %\) failed: \d " + kind)
            self.assertEqual(len(self.records(kind)), 20)

    def test_nothing_completed_is_no_success(self):
        with Mock("--fails-every", "1") as mock:
            done = self.serve(mock, "--num-prompts", 5, code=1)
        self.assertRegex(done.stdout, r"Successful requests: +0 ")
        self.assertIn("no request completed", done.stderr.splitlines()[-1])

    def test_a_server_that_dies(self):
        with Mock("--dies-after", "10") as mock:
            done = self.serve(mock, "--num-prompts", 500, "--records", "r.jsonl", "--strict", code=4)
        self.assertEqual(len(re.findall("for example: cannot connect to", done.stderr)), 1, done.stderr)
        whole = [request for request in self.records("r.jsonl") if request["outcome"] == "completed"]
        self.assertTrue(5 <= len(whole) <= 9, len(whole))

    def test_what_was_measured_is_written_though_the_server_dies(self):
        with Mock("--dies-after", "60") as mock:
            done = self.bench("concurrency", "--base-url", mock.url, "--isl-osl", "16:4", "--max-concurrency", "1,2,4,8",
                              "--no-calibration", "--no-server-metrics", "--ready-check-timeout-sec", 1,
                              "-o", "c.md", "--html", "c.html", code=1)
        self.assertRegex(done.stderr.splitlines()[-1], r"^millrace bench concurrency: .*connect")
        self.assertIn("ISL:OSL=16:4", (self.folder / "c.md").read_text())
        self.assertIn("<!doctype html>", (self.folder / "c.html").read_text())

    def test_an_output_that_cannot_be_written_keeps_no_other_from_it(self):
        with Mock() as mock:
            done = self.serve(mock, "--num-prompts", 5, "--records", "/dev/full", "--html", "r.html", "--output-file",
                              "s.jsonl", code=1)
        self.assertIn("/dev/full", done.stderr.splitlines()[-1])
        self.assertRegex(done.stdout, r"Successful requests: +5 ")
        self.assertTrue((self.folder / "r.html").exists() and (self.folder / "s.jsonl").exists())

    def test_a_report_that_cannot_be_written_leaves_the_old_one(self):
        with Mock() as mock:
            self.serve(mock, "--num-prompts", 5, "--records", "r.jsonl")
        (self.folder / "page.html").write_text("precious")
        command = f"ulimit -f 8; trap '' XFSZ; '{BINARY}' bench report --in r.jsonl --shape html -o page.html"
        done = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, cwd=self.folder,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^millrace bench report: cannot write to 'page.html': ")
        self.assertEqual((self.folder / "page.html").read_text(), "precious")
        self.assertEqual(len(list(self.folder.glob("page*"))), 1)

    def test_interrupted(self):
        with Mock("--ttft-ms", "20") as mock:
            run = subprocess.Popen([BINARY, "bench", "serve", "--base-url", mock.url, *SHORT, "--num-prompts", "9000",
                                    "--max-concurrency", "2", "--records", "r.jsonl"], cwd=self.folder, env=ENVIRONMENT,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            mock.wait_for(30)  # more than warm-up takes
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=PATIENCE_S)[1]
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("interrupted before the end", said)
        self.assertTrue(self.records("r.jsonl"))

    def test_capacity_that_is_interrupted_says_so(self):
        with Mock("--ttft-ms", "20") as mock:
            run = subprocess.Popen([BINARY, "bench", "capacity", "--base-url", mock.url, *SHORT, "--by", "concurrency",
                                    "--goodput", "ttft:1e6", "--seconds", "900"], cwd=self.folder, env=ENVIRONMENT,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            mock.wait_for(30)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("capacity: not found; interrupted\n", out)

    def test_interrupted_twice_against_a_server_that_hangs(self):
        with Mock("--itl-ms", "600000") as mock:
            run = subprocess.Popen([BINARY, "bench", "serve", "--base-url", mock.url, *SHORT, "--num-prompts", "8",
                                    "--max-concurrency", "2", "--num-warmups", "0", "--grace-sec", "600"],
                                   cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
            mock.wait_for(2, "vllm:num_requests_running")
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.stderr.readline(),
                             "stopping: waiting up to 600 s for 2 requests; Ctrl-C again cuts them\n")
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=PATIENCE_S)[1]
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("2 of 2 requests (100.00 %) were under way at the end", said)

    def test_one_line_each(self):
        (self.folder / "bad.jsonl").write_text('{"prompt": "a", "output_tokens": 3}\noops\n')
        self.refused("serve", "--base-url", "http://127.0.0.1:1", "--ready-check-timeout-sec", 0.2, says="127.0.0.1:1")
        with Mock() as mock:  # it once was not looked at
            self.refused("serve", "--base-url", mock.url, "--dataset-name", "custom", "--dataset-path", "bad.jsonl",
                         "--tokenizer", "no/tokenizer", code=2, says="no/tokenizer")
        with Mock("--api-key", "right") as mock:
            at = ("serve", "--base-url", mock.url, "--api-key")
            self.refused(*at, "wrong", says="key")
            self.refused(*at, "right", "--model", "nope", says="it has mock")
            self.refused(*at, "right", "--dataset-name", "custom", "--dataset-path", "bad.jsonl", says="bad.jsonl:2")
        for flags in (("--max-seconds", "x"), ("--max-seconds", "-1"), ("--num-prompts", "0"), ("--nope",),
                      ("--backend", "x"), ("--goodput", "x:1"), ("--extra-body", "["), ("--base-url", "nonsense"),
                      ("--max-concurrency", "0"), ("--records", "no/folder/x"), ("--request-rate", "-1"),
                      ("--output-file", "no/folder/x"), ("--html", "."), ("--result-filename", "a/b", "--save-result"),
                      ("--result-dir", "bad.jsonl/x", "--save-result"), ("--temperature", "nan"), ("--seed", "-1"),
                      ("--price-per-hour", "-3"), ("--burstiness", "3"), ("--output", "x", "--html", "./x"),
                      ("--burstiness", "3", "--dataset-name", "mooncake", "--dataset-path", "bad.jsonl"),
                      ("--no-nonce", "--dataset-name", "custom", "--dataset-path", "bad.jsonl"),
                      ("--output-file", "x", "--records", "x"), ("--request-rate", "1", "--request-rate", "2")):
            self.refused("serve", *flags, code=2, says=flags[0])
        with Mock() as mock:
            for flags in (("--think-time", "1"), ("--range-ratio-mode", "vllm")):
                self.refused("serve", "--base-url", mock.url, *flags, code=2, says=flags[0])
        one = ("--framework", "a=http://127.0.0.1:1")
        for flags in (("--inf-prompts", "-5"), ("--inf-prompts", "5", "--request-rate", "1"), ("--seconds-per-rate", "0"),
                      ("--burstiness", "3", "--request-rate", "inf"), ("--jsonl", "x", "--records", "x"),
                      ("--seconds-per-rate", "1", "--request-rate", "inf")):
            self.refused("rate", *one, *flags, code=2, says=flags[0])
        for flags in (("--max-concurrency", "2", "--max-concurrency", "3"), ("--isl-osl", "1:1", "--isl-osl", "2:2")):
            self.refused("concurrency", *flags, code=2, says=flags[0])
        self.refused("sweep", "--rate-type", "constant", "--rate", 5, "--rate", 7, code=2, says="--rate")
        self.refused("grid", "--n", "0", code=2, says="--n")
        for flags in (("--all-tables",), ("--keep-typos",), ("--title", "x"), ("--output", "bad.jsonl")):
            self.refused("report", "--in", "bad.jsonl", "--shape", "csv", *flags, code=2, says=flags[0])
        self.refused("import", "bad.jsonl", "--html", "./bad.jsonl", code=2, says="--html")
        self.refused("sweep", "--json", "no/folder/x", code=2, says="--json")
        self.refused("rate", "--framework", "a=http://127.0.0.1:1", "--jsonl", "no/x", code=2, says="--jsonl")
        goals = ("--goodput", "ttft:5")
        for refused, command in (("--max-concurrency", ("sweep", "--rate-type", "constant", "--rate", 4)),
                                 ("--strategy-type", ("sweep", "--rate-type", "synchronous")),
                                 ("--sweep-size", ("sweep", "--rate-type", "throughput")),
                                 ("--rampup-sec", ("sweep",)), ("--num-prompts", ("grid",)),
                                 ("--num-prompts", ("rate", "--framework", "a=http://127.0.0.1:1")),
                                 ("--max-seconds", ("capacity", *goals)), ("--max-seconds", ("grid", "--in-process", "x")),
                                 ("--output-details", ("serve",)), ("--ramp-up-end-rps", ("serve",)),
                                 ("--result-filename", ("serve",))):
            value = () if refused == "--output-details" else ("poisson",) if refused == "--strategy-type" else (2,)
            self.refused(*command, refused, *value, code=2, says=refused)
        self.refused("sweep", "--rate-type", "concurrent", "--rate", 2.7, code=2, says="--rate is 2.7")
        for command in (("compare",), ("capacity",), ("sweep", "--rate-type", "x"), ("grid", "--iho", "1/2/3"),
                        ("rate", "--framework", "x"), ("report",), ("srve",)):
            self.refused(*command, code=2)


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
