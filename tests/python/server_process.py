"""Starts, watches and stops `millrace serve`: for every test that needs one."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from http_peer import PATIENCE_S, Peer
from model_folder import write_model_folder

MODEL = "test-model"  # under which a Server serves
START_PATIENCE_S = 2 * PATIENCE_S  # it may have a real model to load


class Setting:
    """What the command line of a test program says: its binary, and whether that is slowed down by a sanitizer."""

    binary = ""
    is_sanitized = False


def main():
    """As unittest.main(), after BINARY and --sanitized are taken from the command line."""
    Setting.binary = os.path.abspath(sys.argv.pop(1))
    if "--sanitized" in sys.argv:
        sys.argv.remove("--sanitized")
        Setting.is_sanitized = True
    unittest.main(verbosity=2)


def eventually(condition, patience_s=PATIENCE_S, what="a condition"):
    """Waits until `condition` returns something true, and returns it."""
    deadline = time.monotonic() + patience_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {patience_s} s")
        time.sleep(0.01)


class ServerProcess:
    """A server with these flags, on a free port or on the Unix socket `uds`. In a `with`, it must end well.

    `env` adds to the environment; `popen` are arguments of subprocess.Popen. Without `uds`, its standard error is for
    us to read.
    """

    def __init__(self, binary, *flags, uds=None, env=None, popen=None):
        where = ["--uds", uds] if uds else ["--host", "127.0.0.1", "--port", "0"]
        self.command = [str(word) for word in (binary, "serve", *flags, *where)]
        self.address = str(uds) if uds else None
        self.lines = []  # of standard error
        self.reader = None
        self.headers = {}  # of every request
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
                   **(popen or {})}
        self.process = subprocess.Popen(self.command, env={**os.environ, **(env or {})}, **options)
        try:
            self._wait_until_it_serves()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    @property
    def url(self):
        return "http://{}:{}".format(*self.address)

    def _wait_until_it_serves(self):
        if self.process.stderr is not None:
            self.reader = threading.Thread(target=self._read_lines, args=(self.process.stderr,), daemon=True)
            self.reader.start()
        if self.address is None:
            pattern = re.compile(r"\bserving on http://127\.0\.0\.1:(\d+)")
            found = eventually(lambda: self._find_line(pattern) or self._exit_line(), START_PATIENCE_S,
                               "the line with the address")
            self.address = ("127.0.0.1", int(found.group(1)))
        eventually(self._is_ready, START_PATIENCE_S, "/readyz")

    def _read_lines(self, pipe):
        for line in pipe:
            self.lines.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))

    def _find_line(self, pattern):
        return next((match for line in list(self.lines) if (match := pattern.search(line))), None)

    def _exit_line(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server exited with {self.process.returncode}: {self.lines}")
        return None

    def _is_ready(self):
        self._exit_line()
        with contextlib.suppress(ConnectionError, FileNotFoundError):
            with self.peer() as peer:
                return peer.request("GET", "/readyz", headers=self.headers).status == 200
        return False

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                    raise AssertionError(f"the server does not stop; its log: {self.lines[-20:]}") from None
            elif kind is None and self.process.returncode != 0:
                raise AssertionError(f"the server exited with {self.process.returncode}: {self.lines[-20:]}")
        finally:
            if self.reader is not None:
                self.reader.join(PATIENCE_S)
                self.process.stderr.close()

    def stop(self, signal_number=signal.SIGTERM):
        """Stops it and returns its exit code."""
        self.process.send_signal(signal_number)
        return self.wait()

    def wait(self):
        code = self.process.wait(PATIENCE_S)
        if self.reader is not None:
            self.reader.join(PATIENCE_S)
        return code

    def peer(self, **options):
        return Peer(self.address, **options)

    def request(self, method, path, body=None, headers=None):
        """One request on a connection of its own."""
        with self.peer() as peer:
            return peer.request(method, path, body, {**self.headers, "Connection": "close", **(headers or {})})

    # What it uses.

    def metrics(self):
        """The value of each sample of /metrics, by its name with its labels."""
        response = self.request("GET", "/metrics")
        assert response.status == 200, response
        samples = {}
        for line in response.body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def metric(self, name):
        """The sum over all labels."""
        values = [value for sample, value in self.metrics().items() if sample.split("{")[0] == name]
        assert values, f"/metrics has no {name}"
        return sum(values)

    def wait_until_metric(self, name, value):
        eventually(lambda: self.metric(name) == value, what=f"{name} = {value}")

    def num_live(self):
        """Who runs or waits, of one answer of /metrics: between two, somebody might go from one to the other."""
        return sum(value for sample, value in self.metrics().items()
                   if sample.split("{")[0] in ("vllm:num_requests_running", "vllm:num_requests_waiting"))

    def is_idle(self):
        metrics = self.metrics()
        busy = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
        sums = [sum(value for sample, value in metrics.items() if sample.split("{")[0] == name) for name in busy]
        assert any(sample.startswith(busy[0]) for sample in metrics), "no vllm:num_requests_running"
        assert any(sample.startswith(busy[2]) for sample in metrics), "no vllm:kv_cache_usage_perc"
        return not any(sums)

    def wait_until_idle(self, patience_s=PATIENCE_S):
        """Until nothing runs or waits and every KV block is free; returns how long that took, in seconds."""
        start = time.monotonic()
        eventually(self.is_idle, patience_s, "idleness")
        return time.monotonic() - start

    def rss_bytes(self):
        return self._status_bytes("VmRSS")

    def peak_rss_bytes(self):
        return self._status_bytes("VmHWM")

    def _status_bytes(self, name):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(name + r":\s+(\d+) kB", status).group(1)) * 1024

    def num_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_alive(self):
        return self.process.poll() is None and self.request("GET", "/health").status == 200


class Server(ServerProcess):
    """One that a test program's command line names, with a null engine and a model that is made for it.

    `flags` go behind those. With another `engine`, the made model has made-up weights; a `model` has its own.
    """

    def __init__(self, *flags, tokens_per_second=1000, context=4096, engine="null", model=None, uds=False, **options):
        self.folder = tempfile.TemporaryDirectory(prefix="millrace-server-")
        place = pathlib.Path(self.folder.name)
        engine_flags = ["--engine", engine]
        if engine == "null":
            engine_flags += ["--null-tokens-per-second", tokens_per_second]
        elif model is None:
            engine_flags += ["--load-format", "dummy"]
        model = model or write_model_folder(place / "model", context)
        super().__init__(Setting.binary, model, "--served-model-name", MODEL, *engine_flags, *flags,
                         uds=place / "socket" if uds else None, **options)

    def __exit__(self, *exception):
        try:
            super().__exit__(*exception)
        finally:
            self.folder.cleanup()

    def complete(self, **fields):
        return self.request("POST", "/v1/completions", completion(**fields))


def completion(**fields):
    """The body of a good completion request, with these fields changed; None takes a field away."""
    body = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 4, "seed": 1, "ignore_eos": True, **fields}
    return {key: value for key, value in body.items() if value is not None}


def chat(**fields):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "seed": 1,
            "ignore_eos": True, **fields}
    return {key: value for key, value in body.items() if value is not None}
