#!/usr/bin/env python3
"""Compares `millrace template MODEL --jsonl` with jinja2 over random chats.

    python3 tests/parity/template_parity.py MILLRACE TOKENIZERS_FOLDER [--chats N] [--seed S] [--model NAME]...

Needs jinja2 >= 3.1.6 from PyPI. TOKENIZERS_FOLDER has one folder for each model, with its
tokenizer_config.json and perhaps a chat_template.jinja. Each model gets N chats, made from the seed.
One request a line goes in, {"messages", "tools", "add_generation_prompt", "chat_template_kwargs"};
one answer a line comes out, {"text"} or {"error"}. Both sides must give the same text, or both an
error. Exits with 1 when any answer differs.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "goldens"))
import jinja_environment as oracle  # noqa: E402

WORDS = [
    "Hello", "world", "Grüße", "世界", "👋🏽", "<|im_end|>", "<|im_start|>system", "<|eot_id|>", "</think>", "<think>",
    "<tool_response>", "</tool_response>", "{{ x }}", "{% if %}", "it's", '"quoted"', "\\", "\t", "\n", "\n\n", "  ",
    "\r\n", "\u00a0", "\u200b", "\u2028", "\x7f", "<b>&amp;</b>", "null", "0", "",
]  # fmt: skip


def words(rng, count_max):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, count_max)))


def data(rng, depth=0):
    """A random JSON value."""
    kind = rng.randint(0, 8 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind == 2:
        return rng.choice([0, 1, -1, 42, 2**53 + 1, -(2**63), rng.randint(-(10**9), 10**9)])
    if kind == 3:
        return rng.choice([0.0, -0.0, 0.1, 1e-7, 1e16, 123456.789, 1e22, 1.5e300, rng.uniform(-1e6, 1e6)])
    if kind in (4, 5):
        return words(rng, 4)
    if kind == 6:
        return [data(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {f"k{i} {rng.choice(WORDS)}": data(rng, depth + 1) for i in range(rng.randint(0, 3))}


def content(rng):
    """Mostly text; sometimes what a template may not expect."""
    roll = rng.random()
    if roll < 0.86:
        return words(rng, 8)
    if roll < 0.92:
        return None
    if roll < 0.97:
        return [{"type": "text", "text": words(rng, 4)} for _ in range(rng.randint(0, 2))]
    return data(rng)


def tool_call(rng):
    arguments = {f"a{i}": data(rng) for i in range(rng.randint(0, 3))}
    function = {"name": rng.choice(["get_weather", "add", "ünï"]), "arguments": arguments}
    if rng.random() < 0.2:
        function["arguments"] = json.dumps(arguments)
    if rng.random() < 0.2:
        return function
    return {"id": f"call_{rng.randint(0, 99)}", "type": "function", "function": function}


def message(rng):
    role = rng.choices(["user", "assistant", "tool", "system", "developer"], [40, 35, 15, 8, 2])[0]
    result = {"role": role, "content": content(rng)}
    if role == "assistant" and rng.random() < 0.4:
        result["tool_calls"] = [tool_call(rng) for _ in range(rng.randint(0, 3))]
    if role == "assistant" and rng.random() < 0.3:
        result[rng.choice(["reasoning_content", "reasoning", "thinking"])] = rng.choice([words(rng, 5), None])
    if role == "tool" and rng.random() < 0.5:
        result["tool_call_id"] = "call_1"
    if rng.random() < 0.03:
        del result["content"]
    return result


def chat(rng):
    messages = [message(rng) for _ in range(rng.randint(0 if rng.random() < 0.05 else 1, 8))]
    if messages and rng.random() < 0.4:
        messages.insert(0, {"role": "system", "content": content(rng)})
    result = {"messages": messages, "add_generation_prompt": rng.random() < 0.7}
    if rng.random() < 0.4:
        parameters = {"type": "object", "properties": {"x": data(rng)}}
        result["tools"] = [
            {"type": "function", "function": {"name": f"tool{i}", "description": words(rng, 5), "parameters": parameters}}
            for i in range(rng.randint(0, 3))
        ]
    if rng.random() < 0.4:
        result["chat_template_kwargs"] = {"enable_thinking": rng.choice([True, False, None])}
    return result


def load(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    file = folder / "chat_template.jinja"
    source = file.read_text() if file.exists() else config["chat_template"]
    return oracle.environment().from_string(source), oracle.special_tokens(config)


def answers(millrace, folder, chats):
    lines = "".join(json.dumps(chat) + "\n" for chat in chats)
    done = subprocess.run(
        [millrace, "template", str(folder), "--jsonl"], input=lines, capture_output=True, text=True, encoding="utf-8"
    )
    # Not splitlines(): it also splits at U+2028, which JSON leaves as it is.
    result = [json.loads(line) for line in done.stdout.split("\n") if line]
    if done.returncode != 0 or len(result) != len(chats):
        sys.exit(f"{folder}: {len(result)} answers to {len(chats)} chats, exit {done.returncode}: {done.stderr[-500:]}")
    return result


def compare(millrace, folder, num_chats, seed):
    template, tokens = load(folder)
    rng = random.Random(f"{seed} {folder.name}")
    chats = [chat(rng) for _ in range(num_chats)]
    num_failed = num_texts = 0
    for given, answer in zip(chats, answers(millrace, folder, chats)):
        expected = oracle.render_chat(template, tokens, given)
        num_texts += "text" in expected
        if ("error" in answer) == ("error" in expected) and answer.get("text") == expected.get("text"):
            continue
        num_failed += 1
        if num_failed <= 3:
            print(f"{folder.name}:\n  chat     {json.dumps(given)}\n  jinja2   {expected}\n  millrace {answer}")
    print(f"{folder.name}: {num_chats - num_failed} of {num_chats} chats equal, {num_texts} of them with a text")
    return num_failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("millrace")
    parser.add_argument("tokenizers", type=pathlib.Path)
    parser.add_argument("--chats", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", action="append")
    options = parser.parse_args()
    if not options.tokenizers.is_dir():
        print(f"skipped: {options.tokenizers} is missing")
        sys.exit(77)
    folders = [folder for folder in sorted(options.tokenizers.iterdir()) if (folder / "tokenizer_config.json").exists()]
    folders = [folder for folder in folders if not options.model or folder.name in options.model]
    num_failed = sum(compare(options.millrace, folder, options.chats, options.seed) for folder in folders)
    total = len(folders) * options.chats
    print(f"{total - num_failed} passed, {num_failed} failed")
    sys.exit(1 if num_failed or not total else 0)


if __name__ == "__main__":
    main()
