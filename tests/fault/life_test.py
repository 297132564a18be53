#!/usr/bin/env python3
"""The server's life: how it stops, and what it survives without being asked to.

    life_test.py BINARY [--sanitized] [unittest arguments]
"""

import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from good_streams import GoodStreams, text_of  # noqa: E402
from http_peer import ConnectionEnd, request_bytes  # noqa: E402
from model_folder import write_model_folder  # noqa: E402
from server_process import Server, Setting, completion, eventually, main  # noqa: E402


def begin_stream(server, **fields):
    """A connection on which a stream has begun, and the events that are still to come."""
    peer = server.peer()
    peer.send(request_bytes("POST", "/v1/completions", completion(stream=True, **fields)))
    events = peer.events()
    return peer, [next(events)], events


class Stopping(unittest.TestCase):
    def test_a_drain_lets_streams_finish_and_takes_nothing_new(self):
        with Server("--shutdown-timeout", 30, "--enable-log-requests") as server:
            expected = text_of(server.complete(max_tokens=1500, stream=True).events())
            peer, first, events = begin_stream(server, max_tokens=1500)
            waiting = server.peer()
            waiting.send(request_bytes("POST", "/v1/completions", completion(max_tokens=1500)))
            eventually(lambda: server.metric("vllm:num_requests_running") == 2, what="both running")
            start = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            eventually(lambda: server.request("GET", "/readyz").status == 503, what="/readyz says 503")
            print(f"  /readyz says so after {(time.monotonic() - start) * 1000:.0f} ms")
            self.assertEqual(server.request("GET", "/livez").status, 200)
            refused = server.complete()
            self.assertEqual(refused.status, 503, refused)
            self.assertIn("retry-after", refused.headers)
            self.assertEqual(refused.error()["type"], "server_error")
            eventually(lambda: [line for line in server.lines if "code=server_stopping" in line],
                       what="the refusal's line")
            self.assertEqual(text_of(first + list(events)), expected)
            whole = waiting.read_response()
            self.assertEqual((whole.status, whole.json()["choices"][0]["text"]), (200, expected[0]))
            peer.close()
            waiting.close()
            self.assertEqual(server.wait(), 0)
            print(f"  stopped after {time.monotonic() - start:.2f} s")

    def test_an_idle_server_stops_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server("--shutdown-timeout", 30) as server, server.peer() as idle, server.peer():
                self.assertEqual(idle.request("GET", "/health").status, 200)
                start = time.monotonic()
                self.assertEqual(server.stop(number), 0)
                print(f"  {number.name}: stopped after {(time.monotonic() - start) * 1000:.0f} ms")
                self.assertTrue(idle.is_closed_by_server())

    def test_half_a_request_does_not_hold_up_the_end(self):
        with Server("--shutdown-timeout", 30) as server, server.peer() as half, server.peer() as body:
            half.send(b"GET / HTTP/1.1\r\nHos")
            body.send(request_bytes("POST", "/v1/completions", completion())[:-1])
            start = time.monotonic()
            self.assertEqual(server.stop(), 0)
            print(f"  stopped after {time.monotonic() - start:.2f} s")

    def check_cut(self, server, stop):
        """Streams and whole answers that the server's end cuts short; `stop` is what ends it."""
        peer, first, events = begin_stream(server, max_tokens=3000, n=2)
        waiting = server.peer()
        waiting.send(request_bytes("POST", "/v1/completions", completion(max_tokens=3000)))
        eventually(lambda: server.metric("vllm:num_requests_running") >= 2, what="both running")
        start = time.monotonic()
        stop()
        events = first + list(events)
        self.assertEqual(events[-1], "[DONE]")
        error = json.loads(events[-2])["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(error["type"], "server_error")
        whole = waiting.read_response()
        self.assertEqual(whole.status, 503, whole)
        self.assertEqual(whole.error()["code"], error["code"])
        peer.close()
        waiting.close()
        self.assertEqual(server.wait(), 0)
        print(f"  stopped after {time.monotonic() - start:.2f} s; the streams were told '{error['message']}'")

    def test_without_time_to_drain_streams_get_an_error_event_and_their_end(self):
        with Server("--shutdown-timeout", 0) as server:
            self.check_cut(server, lambda: server.process.send_signal(signal.SIGTERM))

    def test_when_the_time_to_drain_is_over_streams_get_an_error_event(self):
        with Server("--shutdown-timeout", 0.5) as server:
            self.check_cut(server, lambda: server.process.send_signal(signal.SIGTERM))

    def test_a_second_signal_ends_the_drain(self):
        with Server("--shutdown-timeout", 600) as server:
            def twice():
                server.process.send_signal(signal.SIGTERM)
                eventually(lambda: server.request("GET", "/readyz").status == 503, what="the drain")
                server.process.send_signal(signal.SIGTERM)
            self.check_cut(server, twice)

    def test_a_client_that_does_not_read_does_not_hold_up_the_end(self):
        with Server("--shutdown-timeout", 1, tokens_per_second=20000) as server:
            with server.peer(receive_buffer_bytes=4096) as peer:
                peer.send(request_bytes("POST", "/v1/completions", completion(max_tokens=3000, stream=True)))
                eventually(lambda: server.metric("vllm:generation_tokens_total") > 500, what="tokens")
                start = time.monotonic()
                self.assertEqual(server.stop(), 0)
                print(f"  stopped after {time.monotonic() - start:.2f} s")


class Starting(unittest.TestCase):
    def start(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            model = write_model_folder(pathlib.Path(folder, "model"))
            return subprocess.run([Setting.binary, "serve", model, "--engine", "null", *map(str, flags)],
                                  capture_output=True, text=True, timeout=60)

    def test_a_port_that_is_taken_is_one_line_and_exit_code_1(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.start("--port", port)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(str(port), done.stderr.splitlines()[-1])

    def test_what_cannot_work_is_refused_by_its_flag(self):
        for flags, hint in ((("--port", 70000), "--port"), (("--log-file", "/no/such/folder/log"), "log"),
                            (("--ssl-certfile", "/x"), "--ssl-keyfile"), (("--shutdown-timeout", -1), "--shutdown"),
                            (("--uds", "/no/such/folder/socket"), "/no/such/folder/socket")):
            done = self.start("--port", 0, *flags)
            self.assertIn(done.returncode, (1, 2), done)
            self.assertIn(hint, done.stderr, flags)


    def test_a_signal_while_the_model_loads_ends_the_server(self):
        # Signals waited until the model was there, which may take minutes.
        model = pathlib.Path(__file__).resolve().parents[2] / "configs" / "Qwen2-0.5B"
        for number in (signal.SIGTERM, signal.SIGINT):
            with tempfile.TemporaryDirectory() as folder:
                uds = pathlib.Path(folder, "socket")
                process = subprocess.Popen([Setting.binary, "serve", model, "--load-format", "dummy", "--uds", uds],
                                           stderr=subprocess.PIPE, text=True)
                with process:
                    next(line for line in process.stderr if "listening on" in line)
                    start = time.monotonic()
                    process.send_signal(number)
                    lines = process.stderr.read()
                print(f"  {number.name}: stopped after {(time.monotonic() - start) * 1000:.0f} ms")
                self.assertEqual(process.returncode, 0, lines)
                self.assertIn("stopped while loading", lines)
                self.assertNotIn("serving on", lines)
                self.assertFalse(uds.exists())


class Descriptors(unittest.TestCase):
    LIMIT = 64

    def test_running_out_of_descriptors_hurts_neither_streams_nor_probes(self):
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.LIMIT, self.LIMIT))}
        with (Server(popen=limits, tokens_per_second=400) as server,
              GoodStreams(server, count=5, max_tokens=1600, once=True)):
            crowd = []
            eventually(lambda: server.metric("vllm:num_requests_running") == 5, what="all streams running")
            try:
                for _ in range(2 * self.LIMIT):
                    crowd.append(socket.create_connection(server.address))
                eventually(lambda: server.num_fds() >= self.LIMIT - 4, what="no descriptors left")
                in_use, times = server.num_fds(), []
                for _ in range(20):
                    start = time.monotonic()
                    self.assertEqual(server.request("GET", "/health").status, 200)
                    times.append(time.monotonic() - start)
                print(f"  {in_use} of {self.LIMIT} descriptors in use, {len(crowd)} silent connections: /health after "
                      f"{times[0] * 1000:.0f} ms behind them, then {max(times[1:]) * 1000:.0f} ms at most")
            finally:
                for connection in crowd:
                    connection.close()
            eventually(lambda: server.complete().status == 200, what="a good request after the crowd")


class Output(unittest.TestCase):
    """Where nobody reads what the server writes."""

    def check_serves(self, server):
        for i in range(50):
            self.assertEqual(server.complete(seed=i).status, 200)
            self.assertEqual(server.complete(n=0).status, 400)
        with GoodStreams(server, count=5):
            time.sleep(0.2)
        self.assertEqual(server.stop(), 0)

    def test_a_closed_pipe_does_not_end_the_server(self):
        reader, writer = os.pipe()
        with Server("--enable-log-requests", "--log-level", "debug", uds=True,
                    popen={"stdout": writer, "stderr": writer}) as server:
            os.close(writer)
            os.close(reader)
            self.check_serves(server)

    def test_a_pipe_that_nobody_reads_does_not_hold_up_the_server(self):
        reader, writer = os.pipe()
        with Server("--enable-log-requests", "--log-level", "debug", uds=True,
                    popen={"stdout": writer, "stderr": writer}) as server:
            os.close(writer)
            for i in range(1000):  # some lines each: more than the 64 KiB of a pipe
                self.assertEqual(server.complete(max_tokens=1, user="u" * 100).status, 200)
            self.check_serves(server)
        os.close(reader)

    def test_a_full_disk_under_the_log_does_not_end_the_server(self):
        with Server("--enable-log-requests", "--log-file", "/dev/full", uds=True, popen={"stderr": None}) as server:
            self.check_serves(server)

    def test_closed_standard_streams_are_not_mistaken_for_sockets(self):
        # Descriptors 0 to 2 are free: a socket that got one of them would be sent the log.
        def close_all():
            for fd in range(3):
                os.close(fd)

        with Server("--enable-log-requests", "--log-level", "debug", uds=True,
                    popen={"preexec_fn": close_all, "stdin": None, "stdout": None, "stderr": None}) as server:
            self.check_serves(server)


class Stalled(unittest.TestCase):
    def test_an_engine_that_stands_still_is_told_by_the_probes_and_in_the_log(self):
        with Server("--null-stall-s", 2, "--engine-stall-timeout", 0.3) as server:
            peer, first, events = begin_stream(server, max_tokens=300)  # it stands still after 100 steps
            start = time.monotonic()
            eventually(lambda: server.request("GET", "/livez").status == 503, what="/livez says 503")
            print(f"  told after {time.monotonic() - start:.2f} s")
            for path in ("/readyz", "/health"):
                self.assertEqual(server.request("GET", path).status, 503)
            self.assertEqual(server.request("GET", "/metrics").status, 200)
            text_of(first + list(events))  # nothing is lost
            peer.close()
            for path in ("/livez", "/readyz", "/health"):
                eventually(lambda: server.request("GET", path).status == 200, what=path)
            for level in (" ERROR ", " WARNING "):
                eventually(lambda: any(level in line for line in server.lines),
                           what="a line on its standing still, and one on its going on")


if __name__ == "__main__":
    main()
