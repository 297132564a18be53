"""Well-behaved streams that run beside what a test does to the server, and must not notice it."""

import json
import selectors
import threading
import time

from http_peer import PATIENCE_S, request_bytes
from server_process import completion


def decode_chunks(data):
    """The body of a chunked message; raises ValueError unless it is whole."""
    body = b""
    while True:
        line, mark, data = data.partition(b"\r\n")
        size = int(line, 16)
        if not mark or len(data) < size + 2:
            raise ValueError("cut")
        if size == 0:
            return body
        body += data[:size]
        data = data[size + 2:]


def text_of(events):
    """What a stream of completion chunks says in all: (text, finish reason). Raises unless it ends as it should."""
    if not events or events[-1] != "[DONE]":
        raise ValueError(f"no [DONE] at the end, but {events[-1:]}")
    text, reason = "", None
    for event in events[:-1]:
        chunk = json.loads(event)
        if "error" in chunk:
            raise ValueError(f"an error in the stream: {chunk}")
        for choice in chunk["choices"]:
            text += choice["text"]
            reason = choice["finish_reason"] or reason
    if reason is None:
        raise ValueError("no finish reason")
    return text, reason


class GoodStreams:
    """`count` streams at a time, each begun again when it ends (unless `once`); all texts are compared with those of a
    quiet run.

        with GoodStreams(server) as streams:
            ...  # to the server, whatever it is
        # here everything has been compared
    """

    def __init__(self, server, count=100, max_tokens=40, once=False):
        self.server = server
        self.count = count
        self.max_tokens = max_tokens
        self.once = once
        self.problems = []
        self.open = {}  # what has come of each stream under way
        self.num_compared = 0
        self.longest_gap_s = 0.0
        self.is_stopping = threading.Event()
        self.expected = self._quiet_run()

    def _request(self, index):
        body = completion(prompt=f"stream {index}", seed=index, max_tokens=self.max_tokens, stream=True)
        return request_bytes("POST", "/v1/completions", body, {**self.server.headers, "Connection": "close"})

    def _quiet_run(self):
        texts = {}
        self._run(lambda index, text: texts.setdefault(index, text), once=True)
        if self.problems:
            raise AssertionError(f"without any disturbance: {self.problems[:3]}")
        assert len(set(texts.values())) > self.count // 2, "the streams all say the same: nothing could be noticed"
        return texts

    def __enter__(self):
        self.thread = threading.Thread(target=self._run, args=(self._compare, self.once), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.is_stopping.set()
        self.thread.join(PATIENCE_S)
        if kind is not None:
            return
        if self.thread.is_alive():
            ends = {index: b"".join(state["data"])[-80:] for index, state in list(self.open.items())[:3]}
            raise AssertionError(f"{len(self.open)} good streams do not end; so far they end in {ends}")
        if self.problems:
            raise AssertionError(f"{len(self.problems)} good streams were disturbed: {self.problems[:3]}")
        assert self.num_compared >= self.count, f"only {self.num_compared} streams ended"
        print(f"  {self.num_compared} good streams beside, unchanged; longest gap {self.longest_gap_s * 1000:.0f} ms")

    def _compare(self, index, text):
        self.num_compared += 1
        if text != self.expected[index]:
            self.problems.append(f"stream {index}: {text!r}, expected {self.expected[index]!r}")

    def _run(self, take, once):
        """One thread for all: `take` gets the number and the text of each stream that ends."""
        try:
            with selectors.DefaultSelector() as selector:
                for index in range(self.count):
                    self._open(selector, index)
                while selector.get_map():
                    for key, _ in selector.select(PATIENCE_S) or self._give_up(selector):
                        self._read(selector, key, take, once)
        except Exception as error:  # of a thread: told where the test looks
            self.problems.append(repr(error))

    def _give_up(self, selector):
        raise AssertionError(f"{len(selector.get_map())} streams say nothing for {PATIENCE_S} s")

    def _open(self, selector, index):
        connection = self.server.peer().socket
        connection.sendall(self._request(index))
        connection.setblocking(False)
        self.open[index] = {"index": index, "data": [], "last": None}
        selector.register(connection, selectors.EVENT_READ, self.open[index])

    def _read(self, selector, key, take, once):
        state = key.data
        now = time.monotonic()
        if state["last"] is not None:
            self.longest_gap_s = max(self.longest_gap_s, now - state["last"])
        state["last"] = now
        try:
            data = key.fileobj.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError as error:
            data = b""
            self.problems.append(f"stream {state['index']}: {error!r}")
        if data:
            state["data"].append(data)
            return
        selector.unregister(key.fileobj)
        key.fileobj.close()
        del self.open[state["index"]]
        self._end(b"".join(state["data"]), state["index"], take)
        if not once and not self.is_stopping.is_set():
            self._open(selector, state["index"])

    def _end(self, data, index, take):
        try:
            head, _, rest = data.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise ValueError(f"{data[:300]!r}")
            body = decode_chunks(rest).decode()
            take(index, text_of([line[6:] for line in body.split("\n") if line.startswith("data: ")]))
        except (ValueError, KeyError) as error:
            self.problems.append(f"stream {index}: {error!r}")
