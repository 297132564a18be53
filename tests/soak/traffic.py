"""What the soak sends: an endless mix of requests, each with what a right answer to it is."""

import dataclasses
import json
import random

CONTEXT = 256  # tokens of the model's longest sequence
MODEL = "soak-model"

WORDS = ("once upon a time there was little girl named lily she loved to play with her dog in the park one day they "
         "saw big red ball and a small blue bird tom wanted it but mom said no so he went home happy sun tree cat").split()
NUM_PREFIX_GROUPS = 36
NUM_REPEATED = 400

# Of a hundred requests.
ABORTED = 10
INVALID = 5
HURRIED = 1
REPEATED = 30

STATUS_KINDS = {
    "no JSON": (400, b'{"prompt": '),
    "not an object": (400, b"[1, 2]"),
    "no UTF-8": (400, b'{"prompt": "\xff"}'),
    "an unknown field": (400, {"prompt": "x", "maximum_tokens": 3}),
    "a wrong type": (400, {"prompt": "x", "max_tokens": "three"}),
    "a wrong range": (400, {"prompt": "x", "temperature": 9}),
    "no prompt": (400, {"max_tokens": 3}),
    "too many choices": (400, {"prompt": "x", "n": 1000}),
    "too long a prompt": (400, {"prompt": [5] * (CONTEXT + 1)}),
    "too many tokens": (400, {"prompt": "x", "max_tokens": CONTEXT}),
    "a token out of the vocabulary": (400, {"prompt": [5, 100_000]}),
    "another model": (404, {"prompt": "x", "model": "gpt"}),
    "a stream with a bad option": (400, {"prompt": "x", "stream": True, "stream_options": {"include": True}}),
}


@dataclasses.dataclass
class Request:
    path: str
    body: object  # a dictionary, or bytes as they are
    method: str = "POST"
    kind: str = "valid"  # or "invalid", "aborted", "hurried"
    status: int = 200  # of an invalid one
    patience: float = 0.0  # of an aborted one: the share of its answer that is read
    repeated: int | None = None  # which request of the repeated ones it is
    num_prompts: int = 1

    @property
    def n(self):
        return self.body.get("n", 1)

    @property
    def num_choices(self):
        return self.num_prompts * self.n

    @property
    def is_chat(self):
        return self.path == "/v1/chat/completions"

    @property
    def is_stream(self):
        return bool(self.body.get("stream"))

    def data(self):
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return (f"{self.method} {self.path} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body


class Traffic:
    """Requests drawn from a seed."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.prefixes = [self.words(15, 45) for _ in range(NUM_PREFIX_GROUPS)]
        self.repeated = [self.valid() for _ in range(NUM_REPEATED)]

    def next(self):
        ticket = self.draw.random() * 100
        if ticket < INVALID:
            return self.invalid()
        if ticket < INVALID + REPEATED:
            return self.again(self.draw.randrange(NUM_REPEATED))
        request = self.valid()
        if ticket < INVALID + REPEATED + ABORTED:
            request.kind = "aborted"
            request.body["max_tokens"] = self.draw.randint(20, 100)
            request.patience = self.draw.choice([0.0, 0.0, self.draw.random()])
        elif ticket < INVALID + REPEATED + ABORTED + HURRIED:
            request.kind = "hurried"
            request.body["timeout_s"] = self.draw.choice([0.001, 0.01, 0.1])
        return request

    def words(self, least, most):
        return " ".join(self.draw.choice(WORDS) for _ in range(self.draw.randint(least, most)))

    def prompt(self):
        text = self.words(1, 25)
        if self.draw.random() < 0.5:
            return self.draw.choice(self.prefixes) + " " + text
        if self.draw.random() < 0.2:
            return [self.draw.randint(3, 500) for _ in range(self.draw.randint(1, 60))]
        return text

    def valid(self):
        draw = self.draw
        # Mostly short: what is soaked is the beginning and the end of requests. The long ones outgrow what was free when
        # they were admitted, and are preempted.
        max_tokens = draw.randint(50, 100) if draw.random() < 0.15 else min(1 + int(draw.expovariate(1 / 8)), 50)
        body = {"max_tokens": max_tokens, "seed": draw.randrange(1 << 40), "temperature": draw.choice([0, 0, 0.8, 1.3])}
        request = Request("/v1/completions", body)
        if draw.random() < 0.25:
            request.path = "/v1/chat/completions"
            prefix = [{"role": "system", "content": draw.choice(self.prefixes)}] if draw.random() < 0.5 else []
            body["messages"] = prefix + [{"role": "user", "content": self.words(1, 20)}]
        elif draw.random() < 0.06:
            request.num_prompts = draw.randint(2, 4)
            body["prompt"] = [self.words(1, 20) for _ in range(request.num_prompts)]
        else:
            body["prompt"] = self.prompt()
        self.add_options(request)
        return request

    def add_options(self, request):
        draw, body = self.draw, request.body
        if draw.random() < 0.15:
            body["n"] = draw.randint(2, 4)
        if draw.random() < 0.20:
            body["stop"] = draw.choice([["."], [" the", "zzz"], ["a", "e"], ["Lily", ", "]])
        if draw.random() < 0.15:
            if request.is_chat:
                body.update(logprobs=True, top_logprobs=draw.randint(0, 5))
            else:
                body["logprobs"] = draw.randint(0, 5)
        if draw.random() < 0.03 and not request.is_chat:
            body["echo"] = True
        if draw.random() < 0.10:
            body["cache_salt"] = f"salt {draw.randrange(8)}"
        if body["max_tokens"] > 50 or draw.random() < 0.30:
            body["ignore_eos"] = True
        if draw.random() < 0.05:
            body.update(presence_penalty=0.5, logit_bias={"300": -100})
        if draw.random() < 0.05:
            body["min_tokens"] = 1
        if draw.random() < 0.5:
            body["stream"] = True
            if draw.random() < 0.3:
                body["stream_options"] = {"include_usage": True}
        elif draw.random() < 0.02:
            body["prompt_logprobs"] = 1

    def again(self, index):
        """A request that was sent before, perhaps as a stream or with another salt: the answer must be the same."""
        origin = self.repeated[index]
        body = {key: value for key, value in origin.body.items()
                if key not in ("stream", "stream_options", "cache_salt", "prompt_logprobs")}
        if self.draw.random() < 0.5:
            body["stream"] = True
        if self.draw.random() < 0.2:
            body["cache_salt"] = f"salt {self.draw.randrange(8)}"
        return dataclasses.replace(origin, body=body, repeated=index)

    def invalid(self):
        kind = self.draw.randrange(len(STATUS_KINDS) + 3)
        if kind == 0:
            return Request("/v1/chat/completions", {"messages": []}, kind="invalid", status=400)
        if kind == 1:
            return Request("/v1/nothing", {}, kind="invalid", status=404)
        if kind == 2:
            return Request("/v1/completions", b"", method="DELETE", kind="invalid", status=405)
        status, body = list(STATUS_KINDS.values())[kind - 3]
        return Request("/v1/completions", body, kind="invalid", status=status)
