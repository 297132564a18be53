#!/usr/bin/env python3
"""`millrace run-batch` as a person uses it: whole runs, killed runs, stopped runs.

    run_batch_test.py BINARY [unittest arguments]

Needs no module beyond the standard library. What needs a model that is not on the machine is skipped.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = ""
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORIES = ROOT.parent / "shared" / "data" / "models" / "stories260k"
PATIENCE_S = 120


def request(custom_id, **body):
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}


def mixed_requests(count, seed):
    """Greedy and sampled, of all lengths, with several prompts, choices, stop strings, logprobs; some are refused."""
    draw = random.Random(seed)
    prompts = ["Once upon a time", "The dog", "One day, Lily", "Tom had a red ball and"]
    requests = []
    for number in range(count):
        body = {"prompt": draw.choice(prompts), "max_tokens": draw.randint(1, 80), "temperature": draw.choice([0, 0, 1])}
        if number % 5 == 1:
            body["n"] = draw.randint(2, 3)
        if number % 7 == 2:
            body["stop"] = ["park", "."]
        if number % 11 == 3:
            body["logprobs"] = 2
        if number % 13 == 4:
            body["prompt"] = draw.sample(prompts, 2)
        if number % 17 == 5:
            body["temperature"] = 9
        requests.append(request(f"request-{number}", **body))
    return requests


def write_lines(path, requests):
    path.write_text("".join(json.dumps(one) + "\n" for one in requests))


def read_answers(path):
    """The answers by custom_id; raises if a line is no JSON, or one is there twice."""
    answers = {}
    text = path.read_text()
    assert text == "" or text.endswith("\n"), text[-100:]
    for line in text.splitlines():
        answer = json.loads(line)
        assert set(answer) == {"id", "custom_id", "response", "error"}, line
        name = answer["custom_id"] or answer["id"]
        assert name not in answers, f"{name} is there twice"
        answers[name] = answer
    return answers


def said(answer):
    """What of an answer depends on the request alone."""
    if answer["response"] is None:
        return answer["error"]
    body = answer["response"]["body"]
    usage = body.get("usage", {})  # what a cache held is not a matter of the request
    return (answer["response"]["status_code"], body.get("choices"), body.get("error"), usage.get("prompt_tokens"),
            usage.get("completion_tokens"))


@unittest.skipUnless(STORIES.exists(), "../shared/data/models/stories260k is missing")
class RunBatch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-batch-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.input = self.folder / "requests.jsonl"
        self.output = self.folder / "results.jsonl"

    def command(self, *flags):
        return [BINARY, "run-batch", "-i", str(self.input), "-o", str(self.output), "--model", str(STORIES),
                "--threads", "1", *map(str, flags)]

    def run_batch(self, *flags, **options):
        return subprocess.run(self.command(*flags), capture_output=True, text=True, timeout=PATIENCE_S, **options)

    def test_every_request_is_answered_in_openais_shape(self):
        requests = mixed_requests(60, seed=1)
        write_lines(self.input, requests)
        done = self.run_batch()
        self.assertEqual(done.returncode, 3, done.stderr)
        answers = read_answers(self.output)
        self.assertEqual(set(answers), {one["custom_id"] for one in requests})
        for number, one in enumerate(requests, 1):
            answer = answers[one["custom_id"]]
            self.assertEqual(answer["id"], f"batch_req_{number}")
            self.assertIsNone(answer["error"])
            response = answer["response"]
            self.assertEqual(set(response), {"status_code", "request_id", "body"})
            if one["body"]["temperature"] == 9:
                self.assertEqual(response["status_code"], 400)
                self.assertEqual(response["body"]["error"]["param"], "temperature")
                continue
            self.assertEqual(response["status_code"], 200)
            self.assertEqual(response["body"]["object"], "text_completion")
            prompts = one["body"]["prompt"] if isinstance(one["body"]["prompt"], list) else [one["body"]["prompt"]]
            self.assertEqual(len(response["body"]["choices"]), len(prompts) * one["body"].get("n", 1))
        self.assertIn("56 answered, 4 failed", done.stderr)
        self.assertNotIn("\r", done.stderr)

    def test_a_run_that_is_killed_again_and_again_says_the_same_as_one_that_is_not(self):
        requests = mixed_requests(400, seed=2)
        write_lines(self.input, requests)
        self.run_batch()
        expected = {name: said(answer) for name, answer in read_answers(self.output).items()}
        self.assertEqual(len(expected), 400)
        self.output.unlink()
        draw = random.Random(3)
        num_kills, done = 0, None
        while done is None:
            process = subprocess.Popen(self.command("--max-num-seqs", "8"), stderr=subprocess.DEVNULL)
            # After a number of bytes rather than a time: the slower the machine, the later.
            size = self.output.stat().st_size if self.output.exists() else 0
            enough = size + draw.randint(0, 30_000)
            deadline = time.monotonic() + PATIENCE_S
            while process.poll() is None and (self.output.stat().st_size if self.output.exists() else 0) <= enough:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(draw.random() * 0.004)
            if process.poll() is None:
                process.kill()
                num_kills += 1
            elif process.returncode != -signal.SIGKILL:
                done = process.returncode
            process.wait()
            # As if the kill had come in the middle of a write.
            with self.output.open("r+b") as output:
                data = output.read()
                if data.endswith(b"\n") and done is None:
                    output.truncate(len(data) - draw.randint(1, min(len(data), 60)))
        self.assertEqual(done, 3)
        print(f"  killed {num_kills} times")
        self.assertGreater(num_kills, 3)
        found = {name: said(answer) for name, answer in read_answers(self.output).items()}
        self.assertEqual(found, expected)

    def test_signals_stop_it_with_a_whole_file(self):
        write_lines(self.input, [request(f"r{i}", prompt="Once", max_tokens=300, ignore_eos=True) for i in range(2000)])
        for stop in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(self.command(), stderr=subprocess.PIPE, text=True)
            before = self.output.stat().st_size if self.output.exists() else 0
            while not self.output.exists() or self.output.stat().st_size <= before:
                self.assertIsNone(process.poll())
                time.sleep(0.005)
            process.send_signal(stop)
            _, errors = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 130, errors)
            self.assertIn("run the same command again", errors)
            self.assertLess(len(read_answers(self.output)), 2000)

    def test_pipes_are_answered_while_they_are_open(self):
        process = subprocess.Popen([BINARY, "run-batch", "-i", "-", "-o", "-", str(STORIES)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            for number in range(3):
                process.stdin.write(json.dumps(request(str(number), prompt="Once", max_tokens=3)) + "\n")
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline())["custom_id"], str(number))
            process.stdin.close()
            self.assertEqual(process.stdout.read(), "")
            self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_wrong_command_line_is_one_line_and_exit_code_2(self):
        write_lines(self.input, [])
        for arguments, hint in [
            (["-o", "x"], "--input-file"),
            (["-i", "x"], "--output-file"),
            (["-i", self.input, "-o", self.input], "same file"),
            (["-i", self.input, "-o", self.output, "--overwrit"], "did you mean '--overwrite'"),
            (["-i", self.input, "-o", self.output, "one", "--model", "two"], "--model"),
            (["-i", self.input, "-o", self.output, "--max-logprobs", "-1"], "--max-logprobs"),
        ]:
            done = subprocess.run([BINARY, "run-batch", *map(str, arguments)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(hint, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_failure_is_one_line_and_exit_code_1(self):
        done = self.run_batch()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        write_lines(self.input, [request("a", prompt="Once")])
        self.output.write_text("not an answer\n")
        done = self.run_batch()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("--overwrite", done.stderr)
        self.assertEqual(self.output.read_text(), "not an answer\n")
        done = self.run_batch("--overwrite")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(read_answers(self.output)), {"a"})
        self.output = pathlib.Path("/dev/full")
        done = self.run_batch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)

    def test_failed_requests_are_kept_or_done_again(self):
        write_lines(self.input, [request("a", prompt="Once", temperature=9), request("b", prompt="Once")])
        self.assertEqual(self.run_batch().returncode, 3)
        write_lines(self.input, [request("a", prompt="Once"), request("b", prompt="Once")])
        self.assertEqual(self.run_batch().returncode, 3)
        done = self.run_batch("--retry-failed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 answered, 0 failed, 1 had an answer already", done.stderr)
        self.assertEqual(set(read_answers(self.output)), {"a", "b"})

    def test_flags_come_from_the_environment_and_a_file_too(self):
        write_lines(self.input, [request("a", prompt="Once", max_tokens=2, model="mine")])
        config = self.folder / "config.yaml"
        config.write_text("served-model-name: mine\n")
        done = subprocess.run([BINARY, "run-batch", "--config", str(config)], capture_output=True, text=True,
                              env={**os.environ, "MILLRACE_INPUT_FILE": str(self.input), "MILLRACE_MODEL": str(STORIES),
                                   "MILLRACE_OUTPUT_FILE": str(self.output)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_answers(self.output)["a"]["response"]["body"]["model"], "mine")


class DefaultModel(unittest.TestCase):
    def test_chats_are_answered(self):
        if subprocess.run([BINARY, "tokenize", "--text", "a"], capture_output=True).returncode != 0:
            self.skipTest("the default model is missing: ./dev setup fetches it")
        line = {"custom_id": "paris", "method": "POST", "url": "/v1/chat/completions",
                "body": {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0,
                         "max_tokens": 20}}
        done = subprocess.run([BINARY, "run-batch", "-i", "-", "-o", "-"], input=json.dumps(line), capture_output=True,
                              text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        body = json.loads(done.stdout)["response"]["body"]
        self.assertEqual(body["object"], "chat.completion")
        self.assertIn("Paris", body["choices"][0]["message"]["content"])


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
