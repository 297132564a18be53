#!/usr/bin/env python3
"""Two servers, one of which guesses tokens: the same answers, event for event, and what is counted of the guesses.

    speculation_test.py BINARY [--sanitized] [unittest arguments]
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from http_peer import request_bytes  # noqa: E402
from server_process import Server, chat, completion, main  # noqa: E402

CONFIG = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
FLAGS = ("--max-model-len", 1024, "--max-num-seqs", 8)
LETTERS = list(range(ord("a"), ord("f") + 1))  # all that the made-up model may say: a text that repeats itself
COUNTER = "vllm:spec_decode_num_{}_total"


def body(**fields):
    return completion(**{"prompt": "abcabcabcabcab", "max_tokens": 80, "allowed_token_ids": LETTERS, "temperature": 0,
                         "logprobs": 2, **fields})


BODIES = [
    body(),
    body(temperature=0.8, seed=5, n=3),
    body(temperature=0.8, seed=6, frequency_penalty=0.3, presence_penalty=0.2, repetition_penalty=1.1),
    body(temperature=0.5, seed=7, stop=["ab", "fa"]),
    body(temperature=0.5, seed=8, stop=["cc"], include_stop_str_in_output=True, min_tokens=20),
    body(temperature=0.9, seed=9, stop_token_ids=[LETTERS[2]], min_tokens=10),
    body(prompt=["abab", "a", "fedcbafedcba"], prompt_logprobs=1, echo=True, max_tokens=17),
    body(prompt="abc" * 40, max_tokens=1),
]


class SpeculationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = cls.enterClassContext(Server(*FLAGS, engine="cpu"))
        cls.guessing = cls.enterClassContext(
            Server(*FLAGS, engine="cpu", env={"MILLRACE_SPECULATIVE_CONFIG": json.dumps(CONFIG)}))

    def counts(self):
        self.guessing.wait_until_idle()  # a step is counted after its events
        names = ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos")
        return [self.guessing.metric(COUNTER.format(name)) for name in names]

    def answer(self, server, fields):
        response = server.request("POST", "/v1/completions", fields)
        self.assertEqual(response.status, 200, response)
        answer = response.json()
        return answer["choices"], {key: answer["usage"][key] for key in ("prompt_tokens", "completion_tokens")}

    def test_every_answer_is_the_same(self):
        before = self.counts()
        for fields in BODIES:
            with self.subTest(fields=fields):
                self.assertEqual(self.answer(self.guessing, fields), self.answer(self.plain, fields))
        _, draft_tokens, accepted, accepted_per_pos = (now - then for now, then in zip(self.counts(), before))
        self.assertGreater(accepted, 50, "hardly a guess was right: nothing was tested")
        self.assertGreater(draft_tokens, accepted)
        self.assertEqual(accepted_per_pos, accepted)

    def test_a_stream_has_the_same_tokens_and_ends_the_same_way(self):
        messages = [{"role": "user", "content": "abcdef abcdef abcdef"}]
        for more in ({}, {"temperature": 0.7, "seed": 3, "n": 2}, {"stop": "ba"}):
            fields = chat(**{"messages": messages, "max_tokens": 60, "allowed_token_ids": LETTERS, "temperature": 0,
                             "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, **more})
            streams = []
            for server in (self.guessing, self.plain):
                response = server.request("POST", "/v1/chat/completions", fields)
                self.assertEqual(response.status, 200, response)
                deltas = {}
                for event in response.events():
                    if event == "[DONE]":
                        continue
                    chunk = json.loads(event)
                    for choice in chunk["choices"]:
                        deltas.setdefault(choice["index"], []).append(
                            (choice["delta"], choice.get("logprobs"), choice["finish_reason"]))
                streams.append((deltas, chunk["usage"]["completion_tokens"]))
            self.assertEqual(*streams)

    def test_the_tokens_of_a_step_are_one_gap_and_each_right_guess_saves_a_step(self):
        with Server(*FLAGS, "--speculative-config", json.dumps(CONFIG), engine="cpu") as server:
            _, usage = self.answer(server, body())
            server.wait_until_idle()  # a step is counted after its events
            accepted = server.metric(COUNTER.format("accepted_tokens"))
            self.assertGreater(accepted, 20)
            num_steps = usage["completion_tokens"] - accepted
            self.assertEqual(server.metric("vllm:inter_token_latency_seconds_count"), num_steps - 1)
            self.assertEqual(server.metric("vllm:iteration_tokens_total_count"), num_steps)
            self.assertEqual(server.metric("vllm:generation_tokens_total"), usage["completion_tokens"])
            info = server.request("GET", "/server_info").json()
            self.assertEqual((info["speculative_algorithm"], info["speculative_num_draft_tokens"]), ("NGRAM", 4))
            state = info["internal_states"][0]
            self.assertEqual(state["spec_num_accepted_tokens"], accepted)
            self.assertGreater(state["avg_spec_accept_length"], 1)
        self.assertFalse([name for name in self.plain.metrics() if "spec_decode" in name])
        self.assertIsNone(self.plain.request("GET", "/server_info").json()["speculative_algorithm"])

    def test_a_client_that_leaves_leaves_nothing_behind(self):
        for _ in range(5):
            with self.guessing.peer() as peer:
                fields = body(stream=True, max_tokens=900, n=4, temperature=0.6, logprobs=None)
                peer.send(request_bytes("POST", "/v1/completions", fields))
                peer.read_head()
        self.guessing.wait_until_idle()


if __name__ == "__main__":
    main()
