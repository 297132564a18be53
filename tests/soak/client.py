"""Many connections that send the traffic of a soak and check every answer. One thread, asyncio."""

import asyncio
import json

from traffic import Request

ANSWER_TIMEOUT_S = 120  # nothing takes so long unless it hangs
READ_BYTES = 1 << 16


class WrongAnswer(Exception):
    pass


class Connection:
    """One HTTP connection; opened when it is needed, and again after it was closed."""

    def __init__(self, address):
        self.address = address
        self.reader = self.writer = None

    async def send(self, data):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(*self.address, limit=1 << 22)
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head[9:12])
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        return status, fields

    async def read_body(self, fields):
        if "content-length" in fields:
            return await self.reader.readexactly(int(fields["content-length"]))
        pieces = []
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            piece = await self.reader.readexactly(size + 2)
            if size == 0:
                return b"".join(pieces)
            pieces.append(piece[:-2])

    async def answer(self):
        status, fields = await self.read_head()
        body = await self.read_body(fields)
        if fields.get("connection") == "close":
            await self.close()
        return status, body

    async def abort(self):
        """As a client that dies: what was not read is answered with a reset."""
        if self.writer is not None:
            self.writer.transport.abort()
            self.reader = self.writer = None

    async def close(self):
        if self.writer is not None:
            self.writer.close()
            try:
                await self.writer.wait_closed()
            except ConnectionError:
                pass
            self.reader = self.writer = None


def events_of(body):
    """The events of a whole stream, without the last, which must be [DONE]."""
    events = [event[6:] for event in body.split(b"\n\n") if event.startswith(b"data: ")]
    if not events or events[-1] != b"[DONE]" or not body.endswith(b"data: [DONE]\n\n"):
        raise WrongAnswer(f"a stream without [DONE] at its end: {body[-200:]!r}")
    return [json.loads(event) for event in events[:-1]]


def said_in_stream(request, body):
    """(text, finish reason) of each choice; raises unless each ends exactly once, and in order."""
    texts = [""] * request.num_choices
    reasons = [None] * request.num_choices
    for event in events_of(body):
        if "error" in event:
            return event["error"]
        for choice in event["choices"]:
            index = choice["index"]
            if reasons[index] is not None:
                raise WrongAnswer(f"choice {index} goes on after its end")
            texts[index] += (choice["delta"].get("content") or "") if request.is_chat else choice["text"]
            reasons[index] = choice["finish_reason"]
    return list(zip(texts, reasons))


def check_whole(request, answer):
    """What cannot be seen in a stream."""
    usage = answer["usage"]
    if usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
        raise WrongAnswer(f"the usage does not add up: {usage}")
    if usage["completion_tokens"] > request.num_choices * request.body["max_tokens"]:
        raise WrongAnswer(f"more tokens than were asked for: {usage}")
    for choice in answer["choices"]:
        has_logprobs = choice.get("logprobs") is not None
        logprobs = request.body.get("logprobs")
        wants_logprobs = logprobs is not None and logprobs is not False  # 0 asks for the chosen token's
        if has_logprobs != wants_logprobs:
            raise WrongAnswer(f"logprobs: {has_logprobs}, asked for: {wants_logprobs}")


def said_whole(request, body):
    answer = json.loads(body)
    check_whole(request, answer)
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    return [((choice["message"]["content"] or "") if request.is_chat else choice["text"], choice["finish_reason"])
            for choice in choices]


class Soak:
    """Sends requests of `traffic` and counts what became of them."""

    def __init__(self, address, traffic):
        self.address = address
        self.traffic = traffic
        self.first_answers = {}  # of the repeated requests
        self.num_sent = {"valid": 0, "invalid": 0, "aborted": 0, "hurried": 0}
        self.num_choices_ended = 0  # of the requests that were answered
        self.num_choices_at_most = 0  # and of those that were aborted or ran out of time
        self.num_compared = 0
        self.num_left = 0

    def run(self, count, num_connections):
        """Returns when `count` more requests are over and every connection is closed."""
        asyncio.run(self.run_all(count, num_connections))

    async def run_all(self, count, num_connections):
        self.num_left = count
        async with asyncio.TaskGroup() as tasks:
            for _ in range(num_connections):
                tasks.create_task(self.work())

    async def work(self):
        connection = Connection(self.address)
        try:
            while self.num_left > 0:
                self.num_left -= 1
                request = self.traffic.next()
                self.num_sent[request.kind] += 1
                try:
                    await asyncio.wait_for(self.one(connection, request), ANSWER_TIMEOUT_S)
                except Exception as error:
                    raise WrongAnswer(f"{request}: {error!r}") from error
        finally:
            await connection.close()

    async def one(self, connection, request: Request):
        await connection.send(request.data())
        if request.kind == "aborted":
            self.num_choices_at_most += request.num_choices
            return await self.leave(connection, request)
        status, body = await connection.answer()
        if request.kind == "invalid":
            return self.check_refusal(request, status, body)
        if request.kind == "hurried":
            self.num_choices_at_most += request.num_choices
            return self.check_hurried(request, status, body)
        if status != 200:
            raise WrongAnswer(f"{status} {body[:500]!r}")
        said = said_in_stream(request, body) if request.is_stream else said_whole(request, body)
        self.check_said(request, said)
        self.num_choices_ended += request.num_choices
        self.num_choices_at_most += request.num_choices

    async def leave(self, connection, request):
        """Reads a part of the answer, or nothing, and is gone."""
        if request.patience > 0:
            await asyncio.sleep(request.patience * 0.02)
            if request.is_stream:
                await connection.reader.read(int(request.patience * 4000) + 1)
        await connection.abort()

    def check_refusal(self, request, status, body):
        if status != request.status or not json.loads(body)["error"]["message"]:
            raise WrongAnswer(f"{status} instead of {request.status}: {body[:500]!r}")

    def check_hurried(self, request, status, body):
        """In time, or too late and said so."""
        if status == 504:
            return
        said = said_in_stream(request, body) if request.is_stream else said_whole(request, body)
        if isinstance(said, dict):
            if said["code"] != "deadline_exceeded":
                raise WrongAnswer(f"{said}")
            return
        self.check_said(request, said)

    def check_said(self, request, said):
        if isinstance(said, dict):
            raise WrongAnswer(f"an error: {said}")
        if len(said) != request.num_choices or any(reason not in ("stop", "length") for _, reason in said):
            raise WrongAnswer(f"{said}")
        if request.repeated is None:
            return
        expected = self.first_answers.setdefault(request.repeated, said)
        self.num_compared += 1
        if said != expected:
            raise WrongAnswer(f"not what the same request was answered before: {said} instead of {expected}")
