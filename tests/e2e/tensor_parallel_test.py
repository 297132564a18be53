#!/usr/bin/env python3
"""Servers whose model is shared by processes: the answers of one process, and how the processes end.

    tensor_parallel_test.py BINARY [--sanitized] [unittest arguments]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from http_peer import PATIENCE_S  # noqa: E402
from model_folder import write_model_folder  # noqa: E402
from server_process import Server, Setting, completion, eventually, main  # noqa: E402

# In float32 sums in another order change a logit by a millionth of it.
FLAGS = ("--max-model-len", 1024, "--max-num-seqs", 8, "--dtype", "float32", "--threads", 2)

BODIES = [
    completion(max_tokens=60, temperature=0),
    completion(max_tokens=60, temperature=0),  # its prefix is there by now
    completion(prompt="x" * 500, max_tokens=20, temperature=0),  # a prompt in chunks
    completion(max_tokens=40, temperature=0.8, seed=5, n=3),
    completion(prompt=["abab", "a", "fedcbafedcba"], max_tokens=17, temperature=0.7),
]


def shared_server(num_processes):
    return Server(*FLAGS, "--tensor-parallel-size", num_processes, engine="cpu")


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid):
    """Also where nobody has asked for its exit code yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until_gone(pids):
    eventually(lambda: all(map(is_gone, pids)), what=f"the end of {pids}")


class AnswersTest(unittest.TestCase):
    def answers(self, num_processes):
        with shared_server(num_processes) as server:
            self.assertEqual(len(children_of(server.process.pid)), num_processes - 1)
            responses = [server.request("POST", "/v1/completions", body) for body in BODIES]
            for response in responses:
                self.assertEqual(response.status, 200, response)
            server.wait_until_idle()
            return [[(choice["index"], choice["text"], choice["finish_reason"]) for choice in response.json()["choices"]]
                    for response in responses]

    def test_every_answer_is_that_of_one_process(self):
        alone = self.answers(1)
        self.assertEqual(self.answers(2), alone)
        self.assertEqual(self.answers(4), alone)  # two KV heads, each had by two

    def assert_same(self, command, *arguments, stdin="", read=None):
        """That a command prints the same, or writes what `read` reads, with one process and with two."""
        with tempfile.TemporaryDirectory() as folder:
            model = write_model_folder(pathlib.Path(folder) / "model")
            found = []
            for size in ("1", "2"):
                line = [Setting.binary, command, model, "--load-format", "dummy", "--dtype", "float32",
                        "--max-model-len", "256", *arguments, "--tensor-parallel-size", size]
                result = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                found.append(read(result.stdout) if read else result.stdout)
        self.assertTrue(found[0])
        self.assertEqual(found[1], found[0])

    def test_generate_gives_the_answer_of_one_process(self):
        self.assert_same("generate", "--prompt", "Once", "--raw", "--max-tokens", "50", "--temperature", "0")

    def test_chat_gives_the_answers_of_one_process(self):
        self.assert_same("chat", "--max-tokens", "30", "--temperature", "0", stdin="Once\nand twice\n")

    def test_run_batch_gives_the_answers_of_one_process(self):
        bodies = [{"prompt": "abcdef"[:1 + number], "max_tokens": 20, "temperature": number % 2} for number in range(6)]
        lines = [json.dumps({"custom_id": str(number), "method": "POST", "url": "/v1/completions", "body": body})
                 for number, body in enumerate(bodies)]

        def said(output):
            answers = [json.loads(line) for line in output.splitlines()]
            self.assertEqual({answer["response"]["status_code"] for answer in answers}, {200})
            return {answer["custom_id"]: answer["response"]["body"]["choices"] for answer in answers}

        self.assert_same("run-batch", "-i", "-", "-o", "-", stdin="\n".join(lines) + "\n", read=said)


class EndTest(unittest.TestCase):
    def test_a_batch_that_is_stopped_ends_all_of_them(self):
        def line(number, max_tokens):
            body = {"prompt": "a", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
            return json.dumps({"custom_id": str(number), "method": "POST", "url": "/v1/completions", "body": body}) + "\n"

        with tempfile.TemporaryDirectory() as folder:
            model = write_model_folder(pathlib.Path(folder) / "model")
            requests, answers = (pathlib.Path(folder) / name for name in ("requests.jsonl", "answers.jsonl"))
            requests.write_text(line(0, 1) + "".join(line(1 + number, 3000) for number in range(200)))
            batch = subprocess.Popen([Setting.binary, "run-batch", model, "--load-format", "dummy", "-i", requests,
                                      "-o", answers, "--tensor-parallel-size", "2"], stderr=subprocess.PIPE, text=True)
            with batch:
                eventually(lambda: answers.exists() and answers.read_text(), what="the first answer")
                followers = children_of(batch.pid)
                self.assertEqual(len(followers), 1)
                for pid in (*followers, batch.pid):  # as a terminal does
                    os.kill(pid, signal.SIGINT)
                self.assertEqual(batch.wait(PATIENCE_S), 130)
            wait_until_gone(followers)
            self.assertEqual(len(answers.read_text().splitlines()), 1, "the long ones have no answer")

    def test_a_signal_ends_all_of_them(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with shared_server(2) as server:
                followers = children_of(server.process.pid)
                for pid in followers:  # as a terminal or a supervisor does, which tells all processes
                    os.kill(pid, number)
                self.assertEqual(server.complete().status, 200)
                self.assertEqual(server.stop(number), 0)
                wait_until_gone(followers)

    def test_the_others_end_with_the_first(self):
        with shared_server(3 + 1) as server:
            followers = children_of(server.process.pid)
            self.assertEqual(server.stop(signal.SIGKILL), -signal.SIGKILL)
            wait_until_gone(followers)
            server.process.returncode = 0  # as it should be

    def test_an_idle_server_that_loses_a_process_ends_with_one_line(self):
        with shared_server(2) as server:
            os.kill(children_of(server.process.pid)[0], signal.SIGKILL)
            self.assertEqual(server.wait(), 1)
            self.assertEqual(server.lines[-1], "rank 1 of 2 was killed by signal 9: the others cannot go on")
            server.process.returncode = 0

    def test_what_cannot_be_split_is_one_line(self):
        commands = {"serve": ["--port", "0", "--log-level", "error"], "generate": ["--prompt", "x"], "chat": [],
                    "run-batch": ["-i", "-", "-o", "-"]}
        with tempfile.TemporaryDirectory() as folder:
            model = write_model_folder(pathlib.Path(folder) / "model")
            for command, arguments in commands.items():
                with self.subTest(command):
                    line = [Setting.binary, command, model, "--load-format", "dummy", *arguments,
                            "--tensor-parallel-size", "3"]
                    result = subprocess.run(line, input="", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                    self.assertEqual(result.returncode, 1)
                    self.assertEqual(result.stderr, f"millrace {command}: 4 attention heads cannot be split over 3 "
                                                    "processes: expected a multiple\n")


if __name__ == "__main__":
    main()
