#!/usr/bin/env python3
"""Peers that send or read slowly, or not at all: they are cut, and nobody waits for them.

    slow_peers_test.py BINARY [--sanitized] [unittest arguments]
"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from good_streams import GoodStreams  # noqa: E402
from http_peer import request_bytes  # noqa: E402
from server_process import Server, Setting, completion, eventually, main  # noqa: E402

HEADER_TIMEOUT_S = 10  # src/http/limits.h
TOKENS = 15_000  # as a stream some megabytes: more than all buffers on the way


class SlowPeers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max-num-seqs", 256, tokens_per_second=2000, context=16_384))

    def test_a_client_that_does_not_read_is_cut_and_its_request_cancelled(self):
        count = 3 if Setting.is_sanitized else 10
        rss = self.server.rss_bytes()
        with GoodStreams(self.server, count=20, max_tokens=1000):
            peers = []
            for i in range(count):
                peer = self.server.peer(receive_buffer_bytes=4096)
                peer.send(request_bytes("POST", "/v1/completions",
                                        completion(max_tokens=TOKENS, seed=i, stream=True, logprobs=2)))
                peers.append(peer)
            start = time.monotonic()
            cut = "millrace_http_streams_cut_total"
            eventually(lambda: self.server.metric(cut) >= count, what="all slow readers cut")
            print(f"  {count} slow readers cut after {time.monotonic() - start:.2f} s")
            if not Setting.is_sanitized:
                self.assertLess(self.server.rss_bytes() - rss, (count * 2 << 20) + (64 << 20))
            for peer in peers:
                self.assertTrue(peer.is_closed_by_server())
                self.assertNotIn(b"[DONE]", peer.received)
                peer.close()
        self.server.wait_until_idle()

    def test_a_reader_that_is_only_a_little_slow_gets_everything(self):
        expected = self.server.complete(max_tokens=400, stream=True, seed=3).events()
        with self.server.peer(receive_buffer_bytes=16384) as peer:
            peer.send(request_bytes("POST", "/v1/completions", completion(max_tokens=400, stream=True, seed=3)))
            time.sleep(1)  # all of it waits in buffers
            response = peer.read_response()
        self.assertEqual(len(response.events()), len(expected))
        self.assertEqual(response.events()[-1], "[DONE]")

    def test_senders_of_a_byte_now_and_then_are_closed_and_cost_nobody_anything(self):
        count = 50 if Setting.is_sanitized else 300
        fds = self.server.num_fds()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nX-Slow: "
        with GoodStreams(self.server, count=20, max_tokens=1000):
            peers = [self.server.peer() for _ in range(count)]
            for peer in peers:
                peer.send(head)
            start = time.monotonic()
            while time.monotonic() - start < HEADER_TIMEOUT_S + 2:
                for peer in peers:
                    peer.send(b"x")
                self.assertEqual(self.server.request("GET", "/health").status, 200)
                time.sleep(0.5)
            eventually(lambda: self.server.num_fds() <= fds + 25, what="the slow senders' connections closed")
            print(f"  {count} slow senders gone after {time.monotonic() - start:.1f} s")
            for peer in peers:
                self.assertTrue(peer.is_closed_by_server())
                peer.close()
        self.server.wait_until_idle()

    def test_a_stream_whose_client_vanished_without_a_word_ends_with_its_buffer(self):
        # No FIN, no RST: the socket stays open here and is never read, as behind a dead network.
        peer = self.server.peer(receive_buffer_bytes=4096)
        body = completion(max_tokens=TOKENS, stream=True)
        peer.send(request_bytes("POST", "/v1/completions", body))
        seconds = self.server.wait_until_idle()
        print(f"  over after {seconds:.2f} s")
        peer.close()


if __name__ == "__main__":
    main()
