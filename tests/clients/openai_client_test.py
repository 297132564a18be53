#!/usr/bin/env python3
"""The official `openai` Python client against `millrace serve`.

    openai_client_test.py BINARY [unittest arguments]

Needs the `openai` module and the default model (./dev setup installs both); exits with 77 where either is missing.
The client parses every answer into its own pydantic types, so an answer that is not OpenAI's fails here.
"""

import asyncio
import concurrent.futures
import pathlib
import subprocess
import sys
import threading
import time
import unittest

try:
    import openai
    from openai.types import Completion, Model
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
except ImportError:
    print("skipped: no module openai (./dev setup)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from server_process import ServerProcess  # noqa: E402

BINARY = ""
MODEL = "smollm2"
KEY = "the-key"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
STORY = "Once upon a time"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"

servers = {}


def server(name):
    """One server for each way of being started, shared by all tests."""
    flags = {
        "model": ["--api-key", KEY],
        # As fast as it can, slow enough to be cut, and with room for one alone.
        "null": ["--engine", "null", "--null-tokens-per-second", "1000000000"],
        "slow": ["--engine", "null", "--null-tokens-per-second", "20"],
        "single": ["--engine", "null", "--null-tokens-per-second", "20", "--max-num-live-seqs", "1"],
    }
    if name not in servers:
        servers[name] = unittest.enterModuleContext(ServerProcess(BINARY, "--served-model-name", MODEL, *flags[name]))
    return servers[name]


def client(name, **options):
    return openai.OpenAI(base_url=server(name).url + "/v1", **{"api_key": KEY, "max_retries": 0, **options})


def async_client(name, **options):
    return openai.AsyncOpenAI(base_url=server(name).url + "/v1", **{"api_key": KEY, "max_retries": 0, **options})


def text_of(chunks, index=0):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices if choice.index == index)


class Chats(unittest.TestCase):
    def setUp(self):
        self.client = client("model")

    def chat(self, **fields):
        return self.client.chat.completions.create(
            **{"model": MODEL, "messages": QUESTION, "temperature": 0, "max_completion_tokens": 12, **fields})

    def test_an_answer_is_a_chat_completion(self):
        before = int(time.time())
        answer = self.chat()
        self.assertIsInstance(answer, ChatCompletion)
        self.assertTrue(answer.id.startswith("chatcmpl-"), answer.id)
        self.assertEqual((answer.object, answer.model), ("chat.completion", MODEL))
        self.assertTrue(before <= answer.created <= time.time() + 1)
        (choice,) = answer.choices
        self.assertEqual((choice.index, choice.message.role), (0, "assistant"))
        self.assertIn("Paris", choice.message.content)
        self.assertIsNone(choice.message.tool_calls)
        self.assertIsNone(choice.logprobs)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        usage = answer.usage
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertTrue(0 < usage.completion_tokens <= 12)

    def test_every_answer_has_an_id_of_its_own(self):
        self.assertEqual(len({self.chat(max_completion_tokens=1).id for _ in range(4)}), 4)

    def test_max_completion_tokens_and_max_tokens_end_an_answer(self):
        for field in ("max_completion_tokens", "max_tokens"):
            answer = self.client.chat.completions.create(model=MODEL, messages=QUESTION, **{field: 3})
            self.assertEqual(answer.usage.completion_tokens, 3)
            self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_a_model_that_ends_by_itself_stops(self):
        answer = self.chat(max_completion_tokens=200)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertNotIn("<|im_end|>", answer.choices[0].message.content)

    def test_parts_of_type_text_are_their_text(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
        self.assertEqual(self.chat(messages=parts).choices[0].message.content, self.chat().choices[0].message.content)

    def test_roles_and_history_reach_the_model(self):
        pirate = [{"role": "system", "content": "You are a pirate called Blackbeard."},
                  {"role": "user", "content": "What is your name?"}]
        self.assertIn("Blackbeard", self.chat(messages=pirate).choices[0].message.content)
        history = [*QUESTION, {"role": "assistant", "content": "The capital of France is Paris."},
                   {"role": "user", "content": "What is the capital of Italy?"}]
        answer = self.chat(messages=history)
        self.assertGreater(answer.usage.prompt_tokens, self.chat().usage.prompt_tokens)
        self.assertIn("Rome", answer.choices[0].message.content)

    def test_a_stream_says_what_the_whole_answer_says(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True))
        for chunk in chunks:
            self.assertIsInstance(chunk, ChatCompletionChunk)
            self.assertEqual((chunk.object, chunk.id, chunk.model), ("chat.completion.chunk", chunks[0].id, MODEL))
            self.assertEqual(chunk.created, chunks[0].created)
            self.assertEqual(len(chunk.choices), 1)
            self.assertIsNone(chunk.usage)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([c.choices[0].delta.role for c in chunks[1:]], [None] * (len(chunks) - 1))
        self.assertEqual(text_of(chunks), whole.choices[0].message.content)
        reasons = [chunk.choices[0].finish_reason for chunk in chunks]
        self.assertEqual(reasons, [None] * (len(chunks) - 1) + [whole.choices[0].finish_reason])

    def test_include_usage_is_one_more_chunk_without_choices(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage, self.chat().usage)
        self.assertTrue(all(chunk.usage is None and chunk.choices for chunk in chunks[:-1]))

    def test_continuous_usage_stats_count_up_to_the_usage(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
        counts = [chunk.usage.completion_tokens for chunk in chunks]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], self.chat().usage.completion_tokens)

    def test_continuous_usage_stats_know_from_the_start_what_was_cached(self):
        asked = {"messages": [{"role": "user", "content": "Tell it again. " * 20}], "max_completion_tokens": 3}
        self.chat(**asked)
        chunks = self.chat(**asked, stream=True,
                           stream_options={"include_usage": True, "continuous_usage_stats": True})
        (cached,) = {chunk.usage.prompt_tokens_details.cached_tokens for chunk in chunks}
        self.assertGreater(cached, 0)

    def test_logprobs_stand_for_every_token_with_its_bytes(self):
        answer = self.chat(logprobs=True, top_logprobs=3, max_completion_tokens=5)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), answer.usage.completion_tokens)
        for token in content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(bytes(token.bytes).decode(), token.token)
            top = [other.logprob for other in token.top_logprobs]
            self.assertEqual((len(top), top), (3, sorted(top, reverse=True)))
            self.assertEqual(token.logprob, top[0])  # greedy
        self.assertEqual(b"".join(bytes(t.bytes) for t in content).decode(), answer.choices[0].message.content)

    def test_streamed_logprobs_are_those_of_the_whole_answer(self):
        fields = {"logprobs": True, "top_logprobs": 2, "max_completion_tokens": 5}
        whole = self.chat(**fields).choices[0].logprobs.content
        chunks = self.chat(stream=True, **fields)
        self.assertEqual([t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content], whole)

    def test_logprobs_without_top_logprobs_have_no_others(self):
        content = self.chat(logprobs=True, max_completion_tokens=2).choices[0].logprobs.content
        self.assertEqual([token.top_logprobs for token in content], [[], []])

    def test_n_choices_are_those_of_their_seeds_streamed_or_not(self):
        fields = {"n": 3, "temperature": 1.0, "seed": 7, "max_completion_tokens": 8}
        whole = self.chat(**fields)
        self.assertEqual([choice.index for choice in whole.choices], [0, 1, 2])
        texts = [choice.message.content for choice in whole.choices]
        self.assertGreater(len(set(texts)), 1)
        chunks = list(self.chat(stream=True, **fields))
        self.assertEqual([text_of(chunks, index) for index in range(3)], texts)
        ends = [c.choices[0].index for c in chunks if c.choices[0].finish_reason]
        self.assertEqual(sorted(ends), [0, 1, 2])
        self.assertNotEqual([c.message.content for c in self.chat(**{**fields, "seed": 8}).choices], texts)

    def test_a_stop_string_ends_a_stream_before_any_of_it_shows(self):
        whole = self.chat().choices[0].message.content
        stop = whole[4:9]
        for answer in (self.chat(stop=stop), self.chat(stop=["never said", stop])):
            self.assertEqual(answer.choices[0].message.content, whole[:whole.index(stop)])
            self.assertEqual(answer.choices[0].finish_reason, "stop")
        chunks = list(self.chat(stop=stop, stream=True))
        self.assertEqual(text_of(chunks), whole[:whole.index(stop)])
        self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")

    def test_the_clients_stream_helper_puts_the_answer_together(self):
        with self.client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0, max_completion_tokens=12,
                                                 stream_options={"include_usage": True}) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        whole = self.chat()
        self.assertEqual(kinds.count("content.done"), 1)
        self.assertEqual(final.choices[0].message.content, whole.choices[0].message.content)
        self.assertEqual(final.usage, whole.usage)

    def test_fields_for_the_clients_own_bookkeeping_change_nothing(self):
        answer = self.chat(user="someone", metadata={"a": "b"}, store=False, service_tier="auto", parallel_tool_calls=True)
        self.assertEqual(answer.choices[0].message.content, self.chat().choices[0].message.content)

    def test_vllms_fields_come_through_extra_body(self):
        answer = self.chat(extra_body={"ignore_eos": True, "min_tokens": 30, "top_k": 1}, max_completion_tokens=30)
        self.assertEqual((answer.usage.completion_tokens, answer.choices[0].finish_reason), (30, "length"))


class Completions(unittest.TestCase):
    def setUp(self):
        self.client = client("model")

    def complete(self, **fields):
        return self.client.completions.create(
            **{"model": MODEL, "prompt": STORY, "temperature": 0, "max_tokens": 8, **fields})

    def test_an_answer_is_a_completion(self):
        answer = self.complete()
        self.assertIsInstance(answer, Completion)
        self.assertTrue(answer.id.startswith("cmpl-"), answer.id)
        self.assertEqual((answer.object, answer.model), ("text_completion", MODEL))
        self.assertEqual((answer.choices[0].index, answer.choices[0].finish_reason), (0, "length"))
        self.assertEqual(answer.usage.completion_tokens, 8)

    def test_sixteen_tokens_are_the_default(self):
        answer = self.client.completions.create(model=MODEL, prompt=STORY, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 16)

    def test_a_stream_says_what_the_whole_answer_says(self):
        whole = self.complete()
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertTrue(all(isinstance(chunk, Completion) for chunk in chunks))
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks[:-1]), whole.choices[0].text)
        self.assertEqual([c.choices[0].finish_reason for c in chunks[:-1]][-1], "length")
        self.assertEqual((chunks[-1].choices, chunks[-1].usage), ([], whole.usage))

    def test_lists_of_prompts_and_of_token_ids_are_answered_in_order(self):
        texts = [STORY, "The sea is"]
        alone = [self.complete(prompt=text).choices[0].text for text in texts]
        ids = [self.token_ids(text) for text in texts]
        for prompts in (texts, ids):
            answer = self.complete(prompt=prompts)
            self.assertEqual([choice.index for choice in answer.choices], [0, 1])
            self.assertEqual([choice.text for choice in answer.choices], alone)
            self.assertEqual(answer.usage.prompt_tokens, sum(map(len, ids)))
        self.assertEqual(self.complete(prompt=ids[0]).choices[0].text, alone[0])

    def token_ids(self, text):
        answer = self.client.with_options(base_url=server("model").url).post(
            "/tokenize", body={"model": MODEL, "prompt": text}, cast_to=object)
        return answer["tokens"]

    def test_n_choices_of_two_prompts_are_numbered_through(self):
        answer = self.complete(prompt=[STORY, "The sea is"], n=2, temperature=1.0, seed=1)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertEqual(answer.usage.completion_tokens, 32)

    def test_echo_puts_the_prompt_in_front(self):
        whole = self.complete()
        echoed = self.complete(echo=True)
        self.assertEqual(echoed.choices[0].text, STORY + whole.choices[0].text)
        self.assertEqual(echoed.usage, whole.usage)
        chunks = self.complete(echo=True, stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), echoed.choices[0].text)

    def test_echo_with_logprobs_tells_of_the_prompt_too(self):
        answer = self.complete(echo=True, logprobs=1, max_tokens=2)
        logprobs = answer.choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), answer.choices[0].text)
        self.assertEqual(len(logprobs.tokens), answer.usage.total_tokens)
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in logprobs.token_logprobs[1:]))

    def test_a_prompt_can_be_scored_alone(self):
        answer = self.complete(echo=True, logprobs=0, max_tokens=0)
        self.assertEqual((answer.choices[0].text, answer.usage.completion_tokens), (STORY, 0))
        self.assertEqual(len(answer.choices[0].logprobs.token_logprobs), answer.usage.prompt_tokens)

    def test_logprobs_have_four_lists_of_one_length(self):
        answer = self.complete(logprobs=2)
        logprobs = answer.choices[0].logprobs
        self.assertEqual([len(logprobs.tokens), len(logprobs.token_logprobs), len(logprobs.top_logprobs),
                          len(logprobs.text_offset)], [8] * 4)
        self.assertEqual("".join(logprobs.tokens), answer.choices[0].text)
        offset = 0
        for token, logprob, top, at in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs,
                                           logprobs.text_offset):
            self.assertEqual((at, top[token], len(top)), (offset, logprob, 2))
            offset += len(token)

    def test_zero_logprobs_are_those_of_the_chosen_tokens(self):
        zero = self.complete(logprobs=0).choices[0].logprobs
        self.assertEqual(zero.token_logprobs, self.complete(logprobs=2).choices[0].logprobs.token_logprobs)

    def test_streamed_logprobs_are_those_of_the_whole_answer(self):
        whole = self.complete(logprobs=1).choices[0].logprobs
        chunks = [chunk.choices[0].logprobs for chunk in self.complete(logprobs=1, stream=True)]
        for field in ("tokens", "token_logprobs", "text_offset"):
            streamed = [value for chunk in chunks if chunk for value in getattr(chunk, field)]
            self.assertEqual(streamed, getattr(whole, field), field)

    def test_a_stop_string_is_cut_off(self):
        whole = self.complete().choices[0].text
        stop = whole[6:10]
        answer = self.complete(stop=[stop])
        self.assertEqual((answer.choices[0].text, answer.choices[0].finish_reason),
                         (whole[:whole.index(stop)], "stop"))

    def test_logit_bias_forces_a_token(self):
        (token,) = self.token_ids(" sea")
        answer = self.complete(logit_bias={str(token): 100}, max_tokens=3)
        self.assertEqual(answer.choices[0].text, " sea sea sea")


class Models(unittest.TestCase):
    def test_the_served_model_is_listed_and_found(self):
        models = client("model").models
        (listed,) = models.list().data
        self.assertIsInstance(listed, Model)
        self.assertEqual((listed.id, listed.object), (MODEL, "model"))
        self.assertTrue(listed.owned_by)
        self.assertEqual(models.retrieve(MODEL), listed)

    def test_another_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            client("model").models.retrieve("gpt-9")
        self.assertEqual(caught.exception.code, "model_not_found")


class Errors(unittest.TestCase):
    def refused(self, error_type, name="null", **fields):
        with self.assertRaises(error_type) as caught:
            client(name).chat.completions.create(**{"model": MODEL, "messages": QUESTION, "max_tokens": 4, **fields})
        error = caught.exception
        self.assertTrue(error.message and error.type and error.code, error.body)
        self.assertTrue(error.request_id)
        return error

    def test_a_wrong_field_is_a_bad_request_that_names_it(self):
        for fields, param in [
            ({"temperature": -1}, "temperature"),
            ({"top_p": 2}, "top_p"),
            ({"max_tokens": -3}, "max_tokens"),
            ({"n": 0}, "n"),
            ({"n": "two"}, "n"),
            ({"logit_bias": {"abc": 1}}, "logit_bias.abc"),
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "user"}]}, "messages[0].content"),
            ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
            ({"top_logprobs": 3}, "top_logprobs"),
            ({"extra_body": {"temperatur": 1}}, "temperatur"),
            ({"stream_options": {"include_usage": True}}, "stream_options"),
            ({"stop": ["a"] * 5000}, "stop"),
        ]:
            with self.subTest(fields=str(fields)[:60]):
                error = self.refused(openai.BadRequestError, **fields)
                self.assertEqual((error.param, error.type), (param, "invalid_request_error"))

    def test_what_is_not_offered_is_refused_by_name(self):
        for fields, param in [
            ({"extra_body": {"suffix": "x"}}, "suffix"),
            ({"modalities": ["audio"]}, "modalities"),
            ({"extra_body": {"use_beam_search": True}}, "use_beam_search"),
        ]:
            with self.subTest(fields=str(fields)[:60]):
                self.assertEqual(self.refused(openai.BadRequestError, **fields).param, param)
        with self.assertRaises(openai.BadRequestError) as caught:
            client("null").completions.create(model=MODEL, prompt="x", suffix="y")
        self.assertEqual(caught.exception.param, "suffix")

    def test_a_prompt_that_is_too_long_says_so_by_its_code(self):
        error = self.refused(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 20000}])
        self.assertEqual(error.code, "context_length_exceeded")

    def test_an_unknown_model_is_not_found(self):
        error = self.refused(openai.NotFoundError, model="gpt-9")
        self.assertEqual((error.code, error.param), ("model_not_found", "model"))

    def test_an_unknown_path_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            client("null").get("/no/such/path", cast_to=object)
        self.assertTrue(caught.exception.message)
        with self.assertRaises(openai.NotFoundError):
            client("null").embeddings.create(model=MODEL, input="x")

    def test_a_wrong_method_is_its_own_status(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            client("null").get("/chat/completions", cast_to=object)
        self.assertEqual(caught.exception.status_code, 405)

    def test_a_wrong_key_is_an_authentication_error(self):
        for key in ("wrong", KEY + "x", KEY[:-1]):
            with self.assertRaises(openai.AuthenticationError) as caught:
                client("model", api_key=key).models.list()
            self.assertEqual((caught.exception.status_code, caught.exception.code), (401, "invalid_api_key"))

    def test_an_overloaded_server_says_when_to_come_back(self):
        with client("single").completions.create(model=MODEL, prompt="x", max_tokens=1000, stream=True,
                                                 extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
            error = self.refused(openai.InternalServerError, name="single")
        self.assertEqual((error.status_code, error.type), (503, "server_error"))
        self.assertGreaterEqual(int(error.response.headers["retry-after"]), 1)

    def test_a_refused_stream_is_an_error_before_the_stream(self):
        with self.assertRaises(openai.BadRequestError):
            client("null").chat.completions.create(model=MODEL, messages=QUESTION, temperature=9, stream=True)


class Life(unittest.TestCase):
    def idle(self, name):
        server(name).wait_until_metric(RUNNING, 0)
        server(name).wait_until_metric(WAITING, 0)

    def test_a_retry_succeeds_once_there_is_room(self):
        self.idle("single")
        stream = client("single").completions.create(model=MODEL, prompt="x", max_tokens=1000, stream=True,
                                                     extra_body={"ignore_eos": True})
        next(iter(stream))
        closer = threading.Timer(1.5, stream.close)
        closer.start()
        raw = client("single", max_retries=8).completions.with_raw_response.create(model=MODEL, prompt="x", max_tokens=2)
        closer.join()
        self.assertGreaterEqual(raw.retries_taken, 1)
        self.assertEqual(raw.parse().usage.completion_tokens, 2)

    def test_closing_a_stream_frees_the_engine(self):
        self.idle("slow")
        stream = client("slow").chat.completions.create(model=MODEL, messages=QUESTION, stream=True, max_tokens=4000,
                                                        extra_body={"ignore_eos": True})
        next(iter(stream))
        server("slow").wait_until_metric(RUNNING, 1)
        stream.close()
        self.idle("slow")

    def test_a_client_that_gives_up_frees_the_engine(self):
        def give_up():
            with self.assertRaises(openai.APITimeoutError):
                client("slow", timeout=2).chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=4000,
                                                                  extra_body={"ignore_eos": True})

        self.idle("slow")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            call = pool.submit(give_up)
            server("slow").wait_until_metric(RUNNING, 1)
            call.result()
        self.idle("slow")

    def test_a_cancelled_task_frees_the_engine(self):
        async def cancel():
            async with async_client("slow") as using:
                task = asyncio.create_task(using.completions.create(model=MODEL, prompt="x", max_tokens=4000,
                                                                    extra_body={"ignore_eos": True}))
                await asyncio.to_thread(server("slow").wait_until_metric, RUNNING, 1)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        self.idle("slow")
        asyncio.run(cancel())
        self.idle("slow")

    def test_a_hundred_requests_share_a_connection(self):
        using = client("null")
        for _ in range(100):
            self.assertEqual(using.completions.create(model=MODEL, prompt="x", max_tokens=3).usage.completion_tokens, 3)

    def test_every_answer_has_a_request_id(self):
        raw = client("null").chat.completions.with_raw_response.create(model=MODEL, messages=QUESTION, max_tokens=2)
        self.assertEqual(raw.status_code, 200)
        self.assertTrue(raw.headers["x-request-id"])
        self.assertEqual(raw.headers["content-type"].split(";")[0], "application/json")
        answer = raw.parse()
        self.assertIsInstance(answer, ChatCompletion)
        self.assertEqual(answer._request_id, raw.headers["x-request-id"])
        with client("null").completions.with_streaming_response.create(
                model=MODEL, prompt="x", max_tokens=2, stream=True) as streamed:
            self.assertTrue(streamed.headers["x-request-id"])
            self.assertEqual(streamed.headers["content-type"].split(";")[0], "text/event-stream")
            lines = [line for line in streamed.iter_lines() if line]
        self.assertEqual(lines[-1], "data: [DONE]")

    def test_a_long_stream_arrives_whole(self):
        chunks = list(client("null").completions.create(
            model=MODEL, prompt="x", max_tokens=2000, stream=True, extra_body={"ignore_eos": True},
            stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].usage.completion_tokens, 2000)
        self.assertEqual(sum(bool(c.choices and c.choices[0].finish_reason) for c in chunks), 1)


class Determinism(unittest.TestCase):
    PROMPTS = ["The sea is", "Once upon a time", "A list of colours:", "def add(a, b):", "Dear Sir or Madam,",
               "The recipe needs", "In the year 1900", "My favourite animal is"]

    async def stream(self, using, prompt, seed):
        stream = await using.completions.create(model=MODEL, prompt=prompt, max_tokens=16, temperature=0.9, seed=seed,
                                                logprobs=1, stream=True)
        tokens = []
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].logprobs:
                tokens += zip(chunk.choices[0].logprobs.tokens, chunk.choices[0].logprobs.token_logprobs)
        return tokens

    def test_eight_streams_at_once_are_those_of_each_alone(self):
        async def run():
            async with async_client("model") as using:
                alone = [await self.stream(using, prompt, seed) for seed, prompt in enumerate(self.PROMPTS)]
                together = await asyncio.gather(
                    *(self.stream(using, prompt, seed) for seed, prompt in enumerate(self.PROMPTS)))
            return alone, together

        alone, together = asyncio.run(run())
        self.assertTrue(all(len(tokens) > 0 for tokens in alone))
        self.assertEqual(together, alone)

    def test_an_async_chat_streams_like_a_sync_one(self):
        fields = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_completion_tokens": 12, "stream": True}

        async def run():
            async with async_client("model") as using:
                return [chunk async for chunk in await using.chat.completions.create(**fields)]

        self.assertEqual(text_of(asyncio.run(run())), text_of(client("model").chat.completions.create(**fields)))


def has_default_model():
    return subprocess.run([BINARY, "tokenize", "--text", "a"], capture_output=True).returncode == 0


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    if not has_default_model():
        print("skipped: no default model (./dev setup)")
        sys.exit(77)
    unittest.main(verbosity=1)
