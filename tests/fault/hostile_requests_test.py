#!/usr/bin/env python3
"""What clients may send by mistake or in malice: each is refused by its name, and nobody else notices.

    hostile_requests_test.py BINARY [--sanitized] [unittest arguments]
"""

import collections
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import hostile_json  # noqa: E402
from good_streams import GoodStreams  # noqa: E402
from hostile_requests import BODY_BYTES_MAX, CHAT, COMPLETIONS, CONTEXT, GOOD, NATIVE, body_of, table  # noqa: E402
from http_peer import ConnectionEnd, request_bytes  # noqa: E402
from server_process import Server, Setting, main  # noqa: E402

# How much the server may grow over three passes of the table when it has had one before: what malloc keeps of bodies of
# megabytes. A pass sends 55 MB of them.
RSS_GROWTH_BYTES_MAX = 100 << 20


class GoodRequests:
    """Good requests behind the bad ones: asked at once, read some cases later, so that nobody waits for tokens."""

    OPEN_MAX = 16

    def __init__(self, server):
        self.server = server
        self.open = collections.deque()
        self.expected = {path: self._answer(self._ask(path)) for path in (COMPLETIONS, CHAT, NATIVE)}
        self.num_asked = 0

    def _ask(self, path):
        peer = self.server.peer()
        peer.send(request_bytes("POST", path, GOOD[path], {"Connection": "close"}))
        return peer

    def _answer(self, peer):
        with peer:
            response = peer.read_response()
        assert response.status == 200, f"a good request got {response}"
        body = response.json()
        return body["choices"] if "choices" in body else body["text"]

    def ask(self, after):
        path = tuple(self.expected)[self.num_asked % len(self.expected)]
        self.num_asked += 1
        self.open.append((after, path, self._ask(path)))
        while len(self.open) > self.OPEN_MAX:
            self.check_one()

    def check_one(self):
        after, path, peer = self.open.popleft()
        answer = self._answer(peer)
        # Without a seed the native one is drawn anew each time; that it answers is what counts.
        assert path == NATIVE or answer == self.expected[path], f"after {after}: {answer}, {self.expected[path]}"

    def check_all(self):
        while self.open:
            self.check_one()


class Variation:
    """One way to send each case of the table."""

    def __init__(self, name, is_chunked=False, is_streamed=False, is_second=False):
        self.name = name
        self.is_chunked = is_chunked
        self.is_streamed = is_streamed
        self.is_second = is_second

    def request(self, case):
        """The case as this variation sends it, as bytes; None where it makes no difference to another one."""
        body = case.body
        if self.is_streamed:
            spoiled = body is None or case.path not in (COMPLETIONS, CHAT, NATIVE) or not body.startswith(b'{"')
            if spoiled or b'"stream"' in body or case.case in ("C30", "C37"):  # of which streams are a part
                return None
            body = b'{"stream": true, ' + body[1:]
        if self.is_chunked and (body is None or "Content-Length" in case.headers):
            return None
        data = request_bytes(case.method, case.path, body, case.headers, self.is_chunked)
        # A chunked body that is announced and does not come as one.
        return data + b"no chunk\r\n" if case.case == "A20" else data


VARIATIONS = (Variation("alone"), Variation("with stream:true", is_streamed=True),
              Variation("chunked", is_chunked=True), Variation("second on its connection", is_second=True))


class HostileRequests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Few tokens a second: a hundred streams beside, read by Python, must leave time for the table.
        flags = ("--max-body-bytes", BODY_BYTES_MAX, "--max-num-seqs", 256)
        cls.server = cls.enterClassContext(Server(*flags, tokens_per_second=40, context=CONTEXT))
        cls.cases = table()

    def setUp(self):
        self.failures = []

    def check(self, case, variation, response):
        """Notes what is wrong with the answer to a case."""
        if response.status != case.status:
            self.failures.append(f"{self.name(case, variation)}: expected {case.status}, got {response}")
        elif case.status != 200:
            self.check_error(case, variation, response)
        elif variation.is_streamed and response.events()[-1:] != ["[DONE]"]:
            self.failures.append(f"{self.name(case, variation)}: the stream does not end: {response}")

    def check_error(self, case, variation, response):
        try:
            error = response.error()
        except (ValueError, KeyError, AssertionError, TypeError) as wrong:
            self.failures.append(f"{self.name(case, variation)}: not an OpenAI error: {wrong!r} {response}")
            return
        problems = []
        if case.code is not None and error["code"] != case.code:
            problems.append(f"code {error['code']!r}, expected {case.code!r}")
        if case.param is not None and error["param"] != case.param:
            problems.append(f"param {error['param']!r}, expected {case.param!r}")
        if not isinstance(error["code"], str) or not error["type"]:
            problems.append("code or type is missing")
        if not re.fullmatch(r"\S.{10,700}", error["message"]):
            problems.append("the message is not one short line")
        if problems:
            self.failures.append(f"{self.name(case, variation)}: {'; '.join(problems)}; message: {error['message']}")

    @staticmethod
    def name(case, variation):
        return f"{case.case} {variation.name} {case.method} {case.path} {case.headers} {(case.body or b'')[:120]!r}"

    def run_case(self, case, variation):
        data = variation.request(case)
        if data is None:
            return False
        try:
            with self.server.peer() as peer:
                if variation.is_second:
                    first = peer.request("GET", "/v1/models")
                    assert first.status == 200, first
                peer.send(data)
                self.check(case, variation, peer.read_response())
        except (ConnectionEnd, ConnectionError, TimeoutError) as error:
            self.failures.append(f"{self.name(case, variation)}: no answer: {error!r}")
        return True

    def run_table(self, good, variation):
        count = 0
        for case in self.cases:
            if self.run_case(case, variation):
                count += 1
                good.ask(after=case.case)
        good.check_all()
        return count

    def report(self):
        if self.failures:
            self.fail(f"{len(self.failures)} wrong:\n" + "\n".join(self.failures[:400]))

    def test_every_case_is_refused_and_hurts_nobody(self):
        pid, fds = self.server.process.pid, self.server.num_fds()
        good = GoodRequests(self.server)
        count, start = 0, time.monotonic()
        with GoodStreams(self.server, count=20 if Setting.is_sanitized else 100):
            sizes = []
            for variation in VARIATIONS:
                count += self.run_table(good, variation)
                sizes.append(self.server.rss_bytes())
            print("  memory after each pass:", *(f"{size / 1e6:.0f} MB" for size in sizes))
            if not Setting.is_sanitized:
                self.assertLess(sizes[-1] - sizes[0], RSS_GROWTH_BYTES_MAX)
        print(f"  {count} requests of {len(self.cases)} cases in {time.monotonic() - start:.1f} s")
        self.report()
        self.server.wait_until_idle()
        self.assertEqual((self.server.process.pid, self.server.is_alive()), (pid, True))
        self.assertLessEqual(self.server.num_fds(), fds + 8)

    def ask_with_body(self, path, body, codes):
        """Asks with a body that must be refused with 400 and one of these codes (None: any)."""
        with self.server.peer() as peer:
            response = peer.request("POST", path, body)
        try:
            code = response.error()["code"] if response.status == 400 else None
        except (ValueError, KeyError, AssertionError, TypeError):
            code = None
        if code is None or (codes is not None and code not in codes):
            self.failures.append(f"{path} {body[:120]!r}: {response}")

    def test_bodies_that_are_no_requests_are_told_from_bodies_that_are_no_json(self):
        no_json = [*hostile_json.INVALID, *hostile_json.LONE_TEXTS]
        for path in (COMPLETIONS, CHAT, NATIVE):
            no_json += hostile_json.truncations(body_of(path, {}))
        for i, body in enumerate(no_json):
            self.ask_with_body((COMPLETIONS, CHAT, NATIVE)[i % 3], body, {"invalid_json"})
        for path in (COMPLETIONS, CHAT, NATIVE):
            for body in hostile_json.VALID:
                self.ask_with_body(path, body, {"invalid_type", "missing_required_parameter", "unknown_parameter"})
            for body in hostile_json.OPEN:
                self.ask_with_body(path, body, None)
        print(f"  {len(no_json) + 3 * len(hostile_json.VALID + hostile_json.OPEN)} bodies")
        self.report()
        self.assertTrue(self.server.is_alive())

    def test_spoiled_good_bodies_get_an_answer_of_their_own_making(self):
        count, statuses = 60 if Setting.is_sanitized else 400, collections.Counter()
        for path in (COMPLETIONS, CHAT, NATIVE):
            good = body_of(path, {"stream": True})
            for i, body in enumerate(hostile_json.mutants(good, count, seed=1)):
                with self.server.peer() as peer:
                    peer.send(request_bytes("POST", path, body))
                    status = peer.read_head().status  # the rest of a stream is not worth the wait
                statuses[status] += 1
                self.assertIn(status, (200, 400, 404), f"{path}, mutant {i}: {body!r}")
        print(f"  {dict(statuses)}")
        self.server.wait_until_idle()
        self.assertTrue(self.server.is_alive())


if __name__ == "__main__":
    main()
