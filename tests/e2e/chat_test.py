#!/usr/bin/env python3
"""`millrace chat` from the outside: piped and in a terminal, with a model of its own and with a server.

    tests/e2e/chat_test.py MILLRACE

Needs nothing but Python; the model is ../shared/data/models/stories260k. The server is one of this file, which
answers whatever the test wants.
"""

import http.server
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY = ""
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORIES = ROOT.parent / "shared" / "data" / "models" / "stories260k"
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
PATIENCE_S = 60


def chat(*arguments, stdin="", env=None):
    return subprocess.run([BINARY, "chat", *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, timeout=PATIENCE_S)


class Server(http.server.ThreadingHTTPServer):
    """Answers a chat with its question, word by word; one with "forever" does not end by itself."""

    daemon_threads = True

    def __init__(self, key=""):
        super().__init__(("127.0.0.1", 0), Handler)
        self.key = key
        self.bodies = []
        self.num_gone = 0  # clients that left in the middle of an answer
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def is_refused(self):
        if not self.server.key or self.headers.get("Authorization") == f"Bearer {self.server.key}":
            return False
        self.answer(401, {"error": {"message": "the API key is wrong", "type": "invalid_request_error"}})
        return True

    def do_GET(self):
        if not self.is_refused():
            self.answer(200, {"object": "list", "data": [{"id": "echo-1"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.is_refused():
            return
        self.server.bodies.append(body)
        question = body["messages"][-1]["content"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        try:
            for word in question.split():
                self.send({"choices": [{"index": 0, "delta": {"content": word + " "}}]})
            while "forever" in question:
                self.send({"choices": [{"index": 0, "delta": {"content": "on "}}]})
                time.sleep(0.01)
            self.send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self.send({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(question.split())}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.server.num_gone += 1

    def send(self, chunk):
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()


class Terminal:
    """The binary on a terminal of its own."""

    def __init__(self, *arguments):
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.execv(BINARY, [BINARY, "chat", *map(str, arguments)])
        self.seen = ""

    def expect(self, pattern):
        """Waits until what is new on the screen matches, and takes it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (match := re.search(pattern, self.seen)):
            if not self.read(deadline):
                raise AssertionError(f"{pattern!r} did not come, but {self.seen[-500:]!r}")
        self.seen = self.seen[match.end():]
        return match

    def read(self, deadline):
        if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux's word for the end of a terminal
            data = b""
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def type(self, text):
        os.write(self.fd, text.encode())

    def exit_code(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.read(deadline):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        os.close(self.fd)  # hangs up, which ends a child that is still there
        if exception[0]:
            os.waitpid(self.child, 0)


class WithServer(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def test_each_line_is_a_turn_of_one_conversation(self):
        done = chat("--url", self.server.url, "--system", "Be brief.", "--temperature", "0.5", "--seed", "7",
                    stdin="héllo 日本\n\nagain")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "héllo 日本 \nagain \n")
        last = self.server.bodies[-1]
        self.assertEqual([message["role"] for message in last["messages"]], ["system", "user", "assistant", "user"])
        self.assertEqual(last["messages"][2]["content"], "héllo 日本 ")
        self.assertEqual((last["model"], last["temperature"], last["seed"], last["stream"]), ("echo-1", 0.5, 7, True))

    def test_commands_work_in_a_pipe_too(self):
        done = chat("--url", self.server.url + "/v1", "--model-name", "other", stdin="a b\n/reset\nc\n/stats\n/exit\nd\n")
        self.assertEqual(done.stdout.splitlines()[:2], ["a b ", "c "])
        self.assertIn("other: 2 answers, 14 tokens in, 3 tokens out", done.stdout)
        self.assertEqual(len(self.server.bodies), 2)
        self.assertEqual(self.server.bodies[-1]["messages"], [{"role": "user", "content": "c"}])

    def test_a_wrong_key_is_one_line(self):
        server = Server(key="secret")
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        done = chat("--url", server.url, "--api-key", "wrong", stdin="x\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"millrace chat: {server.url}: the API key is wrong (HTTP 401)\n")
        done = chat("--url", server.url, stdin="x\n", env={"MILLRACE_API_KEY": "secret"})
        self.assertEqual(done.stdout, "x \n")

    def test_a_wrong_command_line_is_one_line_and_exit_code_2(self):
        for arguments in (["--url", "localhost:8000"], ["model.gguf", "--url", self.server.url], ["--model-name", "x"],
                          ["--n", "2"]):
            done = chat(*arguments, stdin="x\n")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_no_server_and_no_output_are_failures(self):
        done = chat("--url", "http://127.0.0.1:1", stdin="x\n")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        done = subprocess.run(f"echo x | '{BINARY}' chat --url {self.server.url} > /dev/full", shell=True, capture_output=True,
                              text=True, timeout=PATIENCE_S)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)

    def test_ctrl_c_stops_an_answer_and_twice_leaves(self):
        with Terminal("--url", self.server.url) as terminal:
            terminal.expect("echo-1; /help lists")
            terminal.expect("> ")
            terminal.type("go on forever\n")
            terminal.expect("on on on")
            terminal.type("\x03")
            terminal.expect(r"stopped; TTFT .*tokens/s")
            terminal.expect("> ")
            terminal.type("hello\n")
            terminal.expect(r"\nhello")
            terminal.expect(r"2m.*TTFT .* 1 tokens")
            terminal.expect("> ")
            terminal.type("half a line\x03")
            terminal.expect("leaves")
            terminal.expect("> ")
            terminal.type("\x03")
            self.assertEqual(terminal.exit_code(), 0)
        spoken = self.server.bodies[-1]["messages"]
        self.assertTrue(spoken[1]["content"].startswith("go on forever on on"), spoken)

    def test_ctrl_d_leaves_and_a_character_is_erased_whole(self):
        with Terminal("--url", self.server.url) as terminal:
            terminal.expect("> ")
            terminal.type("nai\u00ef\x7f\x7f\u00efve\n")
            terminal.expect(r"\r\nna\u00efve ")
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.exit_code(), 0)


@unittest.skipUnless(STORIES.exists(), "../shared/data/models/stories260k is missing")
class WithModel(unittest.TestCase):
    def setUp(self):
        file = tempfile.NamedTemporaryFile("w", suffix=".jinja")
        self.addCleanup(file.close)
        file.write(TEMPLATE)
        file.flush()
        self.template = file.name

    def chat(self, *arguments, stdin):
        return chat(STORIES, "--chat-template", self.template, "--temperature", "0", *arguments, stdin=stdin)

    def test_the_answer_is_what_generate_says(self):
        done = self.chat("--max-tokens", "20", stdin="Once upon a time\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        plain = subprocess.run([BINARY, "generate", STORIES, "--chat-template", self.template, "--temperature", "0", "--max-tokens", "20",
                                "--prompt", "Once upon a time"], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.stdout, plain.stdout)

    def test_the_conversation_is_part_of_the_prompt(self):
        first, second = self.chat("--max-tokens", "9", stdin="Once\nThe dog\n").stdout.splitlines()
        (alone,) = self.chat("--max-tokens", "9", stdin="The dog\n").stdout.splitlines()
        (after_reset,) = self.chat("--max-tokens", "9", stdin="Once\n/reset\nThe dog\n").stdout.splitlines()[1:]
        self.assertNotEqual(second, alone)
        self.assertEqual(after_reset, alone)

    def test_an_answer_without_a_limit_ends_where_the_model_does(self):
        done = self.chat("--ignore-eos", "--generation-config", "none", stdin="Once upon a time\n/stats\n")
        tokens_in, tokens_out = map(int, re.search(r"(\d+) tokens in, (\d+) tokens out", done.stdout).groups())
        self.assertEqual(tokens_in + tokens_out, 512)

    def test_a_conversation_that_no_longer_fits_is_one_line(self):
        done = self.chat("--ignore-eos", "--generation-config", "none", stdin="Once upon a time\nmore\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("512", done.stderr.splitlines()[-1])

    def test_a_model_without_a_template_says_so(self):
        done = chat(STORIES, stdin="x\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--chat-template", done.stderr)


class WithDummy(unittest.TestCase):
    def test_ctrl_c_stops_an_answer(self):
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                  "vocab_size": 300, "max_position_embeddings": 65536}
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            template = pathlib.Path(folder, "template.jinja")
            template.write_text(TEMPLATE)
            with Terminal(folder, "--load-format", "dummy", "--chat-template", template, "--ignore-eos") as terminal:
                terminal.expect(r"> .*\x1b\[0m")
                terminal.type("x\n")
                terminal.expect(r"x\r\n[\s\S]{20}")
                terminal.type("\x03")
                terminal.expect("stopped; TTFT")
                terminal.type("/exit\n")
                self.assertEqual(terminal.exit_code(), 0)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(argv=sys.argv)
