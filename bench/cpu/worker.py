"""The loop of an engine's process that stays loaded: cases come in on stdin, tokens per second go out on stdout, a line of
JSON each. Imported by the programs that run inside the rivals' own environments. usage: worker.py --self-test
"""
import json
import os
import random
import sys
import time


def serve(load):
    """`load` makes the engine: a pair of its version and a function generate(prompts, num_tokens) that computes exactly so
    many tokens after each of the prompts (lists of token ids)."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        version, generate = load()
    except Exception as error:  # noqa: BLE001 - of a library, of any kind: said, and the end
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        raise
    print(json.dumps({"version": version}), file=answers, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            answer = {"tokens_per_s": measure(generate, case)}
        except Exception as error:  # noqa: BLE001
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def measure(generate, case, clock=time.perf_counter):
    """Prefill: from the prompts to one token each. Decode: what num_tokens more tokens take than one, after a prompt of a
    few tokens, so that neither the prompt nor the call itself is in the figure."""
    source = random.Random(case["seed"])

    def prompts(length):
        return [[source.randrange(1000, 40000) for _ in range(length)] for _ in range(case["batch_size"])]

    def seconds(length, num_tokens):
        some = prompts(length)
        start = clock()
        generate(some, num_tokens)
        return clock() - start

    if case["phase"] == "prefill":
        generate(prompts(case["num_tokens"]), 1)  # memory and kernels of this shape
        return case["batch_size"] * case["num_tokens"] / seconds(case["num_tokens"], 1)
    generate(prompts(4), 2)
    one = seconds(4, 1)
    more = seconds(4, case["num_tokens"] + 1)
    return case["batch_size"] * case["num_tokens"] / (more - one)


def self_test():
    asked, now = [], [0.0]

    def generate(prompts, num_tokens):
        asked.append((len(prompts), len(prompts[0]), num_tokens))
        assert len({tuple(prompt) for prompt in prompts}) == len(prompts), "no two prompts are the same"
        now[0] += 0.25 + 0.5 * num_tokens

    def speed(phase, batch_size, num_tokens):
        asked.clear()
        case = {"phase": phase, "batch_size": batch_size, "num_tokens": num_tokens, "seed": 1}
        return measure(generate, case, lambda: now[0])

    assert speed("decode", 4, 50) == 8.0, "four tokens each half second: the call's own time is not in it"
    assert asked == [(4, 4, 2), (4, 4, 1), (4, 4, 51)], asked
    assert speed("prefill", 1, 512) == 512 / 0.75
    assert asked == [(1, 512, 1), (1, 512, 1)], asked
    print("1 passed, 0 failed")


if __name__ == "__main__" and sys.argv[1:] == ["--self-test"]:
    self_test()
