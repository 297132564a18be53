#!/usr/bin/env python3
"""Clients that leave, requests that run out of time, and more work than there is room for.

    cancel_test.py BINARY [--sanitized] [unittest arguments]
"""

import json
import pathlib
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from good_streams import GoodStreams, text_of  # noqa: E402
from http_peer import request_bytes  # noqa: E402
from server_process import MODEL, Server, Setting, chat, completion, eventually, main  # noqa: E402

LONG = 3000  # tokens; at 1000 a second, far longer than a test waits for a cancellation
# A cancelled request should be gone within a step and 100 ms. What is asserted is what no busy machine misses.
GONE_S = 5


def events_of(response):
    return [event if event == "[DONE]" else json.loads(event) for event in response.events()]


class Leaving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def use_server(self, server):
        """Instead of that of all tests, for one of them."""
        self.server = self.enterContext(server)

    def open(self, path="/v1/completions", **fields):
        """A connection with a long request on it."""
        body = completion(max_tokens=LONG, **fields) if path == "/v1/completions" else chat(max_tokens=LONG, **fields)
        peer = self.server.peer()
        peer.send(request_bytes("POST", path, body))
        return peer

    def wait_until_running(self, count=1):
        eventually(lambda: self.server.metric("vllm:num_requests_running") >= count, what=f"{count} running")

    def leave_and_measure(self, name, peers, how):
        start = time.monotonic()
        for peer in peers:
            getattr(peer, how)()
        self.server.wait_until_idle(GONE_S)
        print(f"  {name}, {how}: idle after {(time.monotonic() - start) * 1000:.0f} ms")
        for peer in peers:
            peer.close()

    def test_a_client_that_leaves_frees_what_it_held_at_once(self):
        shapes = {
            "while it waits for a whole answer": {},
            "in the middle of a stream": {"stream": True},
            "with eight choices": {"n": 8, "stream": True},
            "with a list of prompts": {"prompt": ["a", "b", "c"], "n": 2},
        }
        for name, fields in shapes.items():
            for how in ("close", "reset", "half_close"):
                with self.subTest(name, how=how):
                    peer = self.open(**fields)
                    self.wait_until_running()
                    if fields.get("stream"):
                        next(peer.events())
                    self.leave_and_measure(name, [peer], how)

    def test_a_client_that_leaves_a_chat_frees_it(self):
        for how in ("close", "reset"):
            peer = self.open("/v1/chat/completions", stream=True)
            next(peer.events())
            self.leave_and_measure("a chat", [peer], how)

    def test_a_client_that_leaves_in_its_request_is_forgotten(self):
        data = request_bytes("POST", "/v1/completions", completion(max_tokens=LONG))
        fds = self.server.num_fds()
        for size in (1, 20, data.index(b"\r\n\r\n") + 4, len(data) - 1):
            for how in ("close", "reset", "half_close"):
                peer = self.server.peer()
                peer.send(data[:size])
                getattr(peer, how)()
                peer.close()
        self.server.wait_until_idle(GONE_S)
        eventually(lambda: self.server.num_fds() <= fds, what="all descriptors closed")

    def test_texts_of_clients_that_have_left_hold_up_nobody(self):
        # All of them were tokenized, one after the other, before anybody else's.
        body = {"model": MODEL, "prompt": "Once upon a time " * 1_000_000}
        for path in ("/tokenize", "/v1/completions"):
            self.use_server(Server("--text-threads", 1))
            start = time.monotonic()
            self.server.request("POST", path, body)
            alone = time.monotonic() - start
            gone = [self.server.peer() for _ in range(12)]
            for peer in gone:
                peer.send(request_bytes("POST", path, body))
            start = time.monotonic()
            for peer in gone:
                peer.close()
            self.assertEqual(self.server.request("POST", "/tokenize", {"model": MODEL, "prompt": "x"}).status, 200)
            waited = time.monotonic() - start
            print(f"  {path}: {alone:.2f} s alone; after 12 that have left a small one waits {waited:.2f} s")
            self.assertLess(waited, 4 * alone + 1)

    def test_a_client_that_leaves_while_it_waits_in_the_queue_frees_its_place(self):
        self.use_server(Server("--max-num-seqs", 2))
        running = [self.open(stream=True, seed=i) for i in range(2)]
        for peer in running:
            next(peer.events())
        waiting = [self.open(stream=True, seed=10 + i) for i in range(6)]
        eventually(lambda: self.server.metric("vllm:num_requests_waiting") == 6, what="six waiting")
        start = time.monotonic()
        for peer in waiting:
            peer.close()
        eventually(lambda: self.server.metric("vllm:num_requests_waiting") == 0, GONE_S, "an empty queue")
        print(f"  six in the queue: gone after {(time.monotonic() - start) * 1000:.0f} ms")
        self.assertEqual(self.server.metric("vllm:num_requests_running"), 2)
        self.leave_and_measure("those that ran", running, "reset")

    def test_a_storm_of_clients_that_leave_at_any_time_leaves_nothing_behind(self):
        draw = random.Random(7)
        rounds, width = (4, 20) if Setting.is_sanitized else (20, 50)
        # Slow enough for Python to read beside; still no request would end by itself.
        self.use_server(Server("--max-num-seqs", 1000, tokens_per_second=100))
        fds, rss = self.server.num_fds(), None
        with GoodStreams(self.server, count=20, max_tokens=50):
            for _ in range(rounds):
                peers = []
                for i in range(width):
                    is_stream = draw.random() < 0.7
                    peers.append((is_stream, self.open(stream=is_stream, n=draw.randint(1, 4), seed=i)))
                draw.shuffle(peers)
                for is_stream, peer in peers:
                    if is_stream and draw.random() < 0.2:
                        peer.socket.recv(draw.randint(1, 4000))
                    getattr(peer, draw.choice(("close", "reset")))()
                rss = rss or self.server.rss_bytes()  # after the first round, which warms up
            growth = self.server.rss_bytes() - rss
        print(f"  {rounds * width} clients left; memory grew by {growth / 1e6:.1f} MB")
        self.server.wait_until_idle(GONE_S)
        if not Setting.is_sanitized:
            self.assertLess(growth, 32 << 20)
        eventually(lambda: self.server.num_fds() <= fds + 4, what="the descriptors of before")

    def test_a_request_can_be_aborted_from_another_connection(self):
        with self.server.peer() as peer:
            peer.send(request_bytes("POST", "/v1/completions", completion(max_tokens=LONG, stream=True),
                                    {"X-Request-Id": "abort-me"}))
            events = peer.events()
            next(events)
            aborted = self.server.request("POST", "/abort_request", {"rid": "abort-me"})
            self.assertEqual(aborted.status, 200, aborted)
            rest = list(events)
        self.assertEqual(rest[-1], "[DONE]")
        self.server.wait_until_idle(GONE_S)
        self.assertTrue(any('"finish_reason":"abort"' in event for event in rest), rest[-3:])

    def test_requests_of_one_id_are_all_served_and_never_mixed_up(self):
        expected = {seed: text_of(self.server.complete(seed=seed, max_tokens=50, stream=True).events())
                    for seed in range(10)}
        for _ in range(2 if Setting.is_sanitized else 10):
            peers = []
            for seed in expected:
                peer = self.server.peer()
                body = completion(seed=seed, max_tokens=50, stream=True)
                peer.send(request_bytes("POST", "/v1/completions", body, {"X-Request-Id": "the-same"}))
                left = self.server.peer()
                left.send(request_bytes("POST", "/v1/completions", body, {"X-Request-Id": "the-same"}))
                left.reset()
                peers.append((seed, peer))
            for seed, peer in peers:
                with peer:
                    response = peer.read_response()
                self.assertEqual(response.headers["x-request-id"], "the-same")
                self.assertEqual(text_of(response.events()), expected[seed])
        self.server.wait_until_idle(GONE_S)


class RunningOutOfTime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max-num-seqs", 1))

    def test_a_whole_answer_that_takes_too_long_is_504(self):
        for fields, headers in (({"timeout_s": 0.3}, {}), ({}, {"X-Request-Timeout": "0.3"}),
                                ({"timeout_s": 60}, {"X-Request-Timeout": "0.3"})):
            response = self.server.request("POST", "/v1/completions", completion(max_tokens=LONG, **fields), headers)
            self.assertEqual(response.status, 504, response)
            self.assertEqual(response.error()["code"], "deadline_exceeded")
            self.server.wait_until_idle(GONE_S)

    def test_a_stream_that_takes_too_long_ends_with_an_error_event(self):
        events = events_of(self.server.complete(max_tokens=LONG, stream=True, timeout_s=0.3))
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[-2]["error"]["code"], "deadline_exceeded")
        self.assertGreater(len(events), 2)
        self.assertFalse(any("error" in event for event in events[:-2]))
        self.server.wait_until_idle(GONE_S)

    def test_time_that_is_over_before_a_request_is_read_is_504(self):
        # Large bodies are read one after another, and short ones meanwhile.
        large = {"model": MODEL, "prompt": "Once upon a time " * 1_000_000}
        with Server("--text-threads", 1) as server, server.peer() as ahead:
            for fields, headers in (({}, {"X-Request-Timeout": "0.01"}), ({"timeout_s": 0.01}, {})):
                ahead.send(request_bytes("POST", "/tokenize", large))
                time.sleep(0.05)  # it is being read, or tokenized
                body = json.dumps(completion(**fields)).encode() + b" " * 300_000
                response = server.request("POST", "/v1/completions", body, headers)
                self.assertEqual((response.status, response.error()["code"]), (504, "deadline_exceeded"), response)
                self.assertEqual(server.complete(prompt="Once upon a time " * 200).status, 200)
                self.assertEqual(ahead.read_response().status, 200)

    def test_a_request_whose_time_runs_out_in_the_queue_is_504_even_as_a_stream(self):
        with self.server.peer() as running:
            running.send(request_bytes("POST", "/v1/completions", completion(max_tokens=LONG, stream=True)))
            next(running.events())
            response = self.server.complete(max_tokens=4, stream=True, timeout_s=0.2)
            self.assertEqual(response.status, 504, response)
            self.assertEqual(response.error()["code"], "deadline_exceeded")
            self.assertEqual(self.server.metric("vllm:num_requests_running"), 1)
        self.server.wait_until_idle(GONE_S)


class TooMuch(unittest.TestCase):
    def test_a_full_queue_refuses_at_once_and_says_when_to_come_again(self):
        with Server("--max-num-seqs", 2, "--max-num-live-seqs", 4) as server:
            peers = []
            for i in range(4):
                peer = server.peer()
                peer.send(request_bytes("POST", "/v1/completions", completion(max_tokens=LONG, stream=True, seed=i)))
                peers.append(peer)
            eventually(lambda: server.num_live() == 4, what="four live")
            for fields in ({}, {"stream": True}):
                response = server.complete(**fields)
                self.assertEqual(response.status, 503, response)
                self.assertIn("retry-after", response.headers)
                self.assertEqual(response.error()["type"], "server_error")
            self.assertEqual(server.request("GET", "/health").status, 200)
            self.assertEqual(server.request("POST", "/tokenize", {"prompt": "a"}).status, 200)
            for peer in peers:
                peer.close()
            server.wait_until_idle(GONE_S)
            self.assertEqual(server.complete().status, 200)

    def test_more_connections_than_allowed_are_refused_except_for_probes(self):
        with Server("--max-connections", 3) as server:
            held = [server.peer() for _ in range(3)]
            for peer in held:
                self.assertEqual(peer.request("GET", "/health").status, 200)
            for _ in range(20):
                response = server.complete()
                self.assertEqual((response.status, response.error()["code"]), (503, "too_many_connections"), response)
                self.assertIn("retry-after", response.headers)
                self.assertEqual(server.request("GET", "/health").status, 200)
            held.pop().close()
            eventually(lambda: server.complete().status == 200, what="a place")
            for peer in held:
                peer.close()

    def test_more_choices_than_ever_fit_are_refused_for_good(self):
        with Server("--max-num-live-seqs", 4) as server:
            response = server.complete(n=5)
            self.assertEqual((response.status, response.error()["param"]), (400, "n"), response)

    def test_answers_are_the_same_when_kv_blocks_run_out(self):
        # The real engine, with made-up weights: 66 KiB hold 128 tokens of this model (2 layers, 2 heads of 16 numbers,
        # float32; a hidden state for each 16 tokens), which is one of these 16 sequences and a little.
        flags = ("--max-num-seqs", 16, "--max-model-len", 120, "--threads", 1)
        body = completion(prompt=["a" * 20, "b" * 30], n=8, max_tokens=60, temperature=1.0)
        with Server(*flags, engine="cpu") as roomy:
            expected = roomy.request("POST", "/v1/completions", body).json()["choices"]
            self.assertEqual(roomy.metric("vllm:num_preemptions_total"), 0)
        self.assertEqual(len({choice["text"] for choice in expected}), 16)
        with Server(*flags, "--kv-cache-memory-bytes", "66K", engine="cpu") as tight:
            self.assertEqual(tight.request("POST", "/v1/completions", body).json()["choices"], expected)
            streamed = {}
            response = tight.request("POST", "/v1/completions", {**body, "stream": True})
            for event in events_of(response)[:-1]:
                for choice in event["choices"]:
                    streamed[choice["index"]] = streamed.get(choice["index"], "") + choice["text"]
            self.assertEqual([streamed[i] for i in range(16)], [choice["text"] for choice in expected])
            preemptions = tight.metric("vllm:num_preemptions_total")
            print(f"  {preemptions:.0f} preemptions")
            self.assertGreater(preemptions, 0)
            tight.wait_until_idle(GONE_S)
            response = tight.complete(prompt="a" * 119, max_tokens=2)
            self.assertEqual((response.status, response.error()["code"]), (400, "context_length_exceeded"), response)

    def test_probes_answer_while_the_server_is_busy(self):
        with Server("--max-num-seqs", 256, tokens_per_second=100) as server:
            done = threading.Event()
            times = []

            def probe():
                with server.peer() as peer:
                    while not done.is_set():
                        start = time.monotonic()
                        for path in ("/health", "/livez", "/readyz"):
                            response = peer.request("GET", path)
                            assert response.status == 200, response
                        times.append((time.monotonic() - start) / 3)

            prober = threading.Thread(target=probe, daemon=True)
            with GoodStreams(server, count=20 if Setting.is_sanitized else 100, max_tokens=200):
                prober.start()
                time.sleep(3)
                done.set()
                prober.join()
            times.sort()
            self.assertTrue(times)
            print(f"  {len(times)} rounds of probes: p50 {times[len(times) // 2] * 1000:.1f} ms, "
                  f"p99 {times[len(times) * 99 // 100] * 1000:.1f} ms, longest {times[-1] * 1000:.1f} ms")


if __name__ == "__main__":
    main()
