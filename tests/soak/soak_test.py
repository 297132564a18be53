#!/usr/bin/env python3
"""A long mix of requests through HTTP against the real server with a tiny real model: every answer is right, and in
the end nothing is left: no block, no descriptor, no thread, no memory.

    soak_test.py BINARY [--requests N] [--seed S] [--sanitized]

The KV pool is so small that sequences are preempted all the time. Skipped (77) without ../shared/data/models.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

import traffic  # noqa: E402
from client import Soak, WrongAnswer  # noqa: E402
from server_process import Server, Setting, eventually  # noqa: E402

STORIES = ROOT.parent / "shared" / "data" / "models" / "stories260k"
NUM_CONNECTIONS = 32
KV_BYTES = "500K"  # 25 blocks: some three sequences of middling length
RSS_SLOPE_MAX_BYTES = 1024  # per thousand requests
NUM_REQUESTS_FOR_SLOPE = 20_000  # fewer say nothing of a slope
# Parts of the run: first more connections than later, so that what follows reaches no new height in any thread's heap;
# and then a while in which nothing is measured.
CROWDED = 0.2
WARM_UP = 0.4

# The model has no template, since it was not trained on chats.
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"


def num_threads(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


class Audit:
    """What the server holds while nothing is under way, against what it held at first."""

    def __init__(self, server, soak):
        self.server = server
        self.soak = soak
        self.num_fds = server.num_fds()
        self.num_threads = num_threads(server)
        self.rss = []  # (requests, bytes)

    def check(self, num_requests):
        server = self.server
        eventually(self.is_at_rest, what="rest: " + str(server.metrics()))
        state, = server.request("GET", "/server_info").json()["internal_states"]
        assert (state["num_running_reqs"], state["num_queue_reqs"]) == (0, 0), state
        usage = server.metric("vllm:kv_cache_usage_perc")
        assert 0 <= usage <= 1, usage
        # Blocks that are kept for prompts to come are given back on demand, and then every one is free.
        assert server.request("POST", "/reset_prefix_cache").status == 200
        eventually(lambda: server.metric("vllm:kv_cache_usage_perc") == 0, what="every block free")
        # Fewer are no leak: at first the connection that asked whether the server was ready may not have been closed.
        eventually(lambda: server.num_fds() <= self.num_fds, what=f"{self.num_fds} descriptors, not {server.num_fds()}")
        assert num_threads(server) == self.num_threads, (num_threads(server), self.num_threads)
        self.check_ends()
        self.rss.append((num_requests, server.rss_bytes()))
        print(f"  {num_requests} requests: {server.num_fds()} descriptors, {num_threads(server)} threads, "
              f"{usage:.3f} of the blocks cached, {server.rss_bytes() / 1e6:.2f} MB, "
              f"{server.metric('vllm:num_preemptions_total'):.0f} preemptions", flush=True)

    def is_at_rest(self):
        return self.server.num_live() == 0

    def check_ends(self):
        """Each choice that the server accepted has ended once."""
        num_ends = self.server.metric("vllm:request_success_total")
        soak = self.soak
        assert soak.num_choices_ended <= num_ends <= soak.num_choices_at_most, \
            (soak.num_choices_ended, num_ends, soak.num_choices_at_most)

    def rss_slope(self):
        """Bytes for each thousand requests after the warm-up: the median over all pairs of audits (Theil and Sen), which
        one outlier does not move."""
        later = [(requests, size) for requests, size in self.rss if requests >= WARM_UP * self.rss[-1][0]]
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) * 1000 for i, a in enumerate(later) for b in later[i + 1:]]
        return statistics.median(slopes)


def run_soak(num_requests, seed):
    num_audits = 40 if num_requests >= NUM_REQUESTS_FOR_SLOPE else 3
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(TEMPLATE)
        template.flush()
        flags = ["--served-model-name", traffic.MODEL, "--chat-template", template.name, "--kv-cache-memory-bytes",
                 KV_BYTES, "--max-model-len", traffic.CONTEXT, "--threads", "1", "--io-threads", "1", "--text-threads", "1"]
        with Server(*flags, engine="cpu", model=STORIES) as server:
            soak = Soak(server.address, traffic.Traffic(seed))
            audit = Audit(server, soak)
            start = time.monotonic()
            for number in range(1, num_audits + 1):
                done = num_requests * (number - 1) // num_audits
                is_crowded = number <= CROWDED * num_audits
                soak.run(num_requests * number // num_audits - done, NUM_CONNECTIONS * (2 if is_crowded else 1))
                audit.check(num_requests * number // num_audits)
            seconds = time.monotonic() - start
            print(f"  {num_requests} requests in {seconds:.1f} s ({num_requests / seconds:.0f}/s): {soak.num_sent}, "
                  f"{soak.num_compared} compared with an earlier answer")
            assert server.metric("vllm:num_preemptions_total") > 0, "the pool was large enough for all"
            assert soak.num_compared > 0
            check_rss(audit, num_requests)


def check_rss(audit, num_requests):
    if Setting.is_sanitized or num_requests < NUM_REQUESTS_FOR_SLOPE:
        return
    slope = audit.rss_slope()
    print(f"  resident memory: {slope:.0f} bytes for each 1000 requests")
    assert slope < RSS_SLOPE_MAX_BYTES, f"the memory grows by {slope:.0f} bytes for each 1000 requests: {audit.rss}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sanitized", action="store_true")
    arguments = parser.parse_args()
    if not STORIES.exists():
        print("skipped: ../shared/data/models/stories260k is missing")
        return 77
    Setting.binary = os.path.abspath(arguments.binary)
    Setting.is_sanitized = arguments.sanitized
    print(f"  seed {arguments.seed}")
    try:
        run_soak(arguments.requests, arguments.seed)
    except ExceptionGroup as group:
        wrong, others = group.split(WrongAnswer)
        if others is not None:
            raise
        for error in wrong.exceptions:
            print(f"WRONG: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
