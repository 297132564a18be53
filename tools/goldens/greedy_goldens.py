#!/usr/bin/env python3
"""Greedy continuations by Hugging Face transformers, for tests/invariance/greedy_test.cpp.

    greedy_goldens.py SHARED_DATA SMOLLM2_GGUF OUT

Writes OUT/stories260k.json (20 prompts of 200 tokens) and OUT/smollm2.json (20 chats of 60 tokens). Each
entry has the prompt's ids, the ids that transformers chose (float32, eager attention), and at each place the gap
between its two best logprobs: an engine may differ only where that gap is small. Made with transformers 5.23.0,
torch 2.15.0 (CPU), gguf 0.19.0.
"""

import json
import pathlib
import sys

import torch
import transformers

STORY_PROMPTS = [
    "Once upon a time", "One day", "The little dog", "Lily and Tom", "There was a big", "In the park",
    "Mom said", "The cat sat", "A boy named Tim", "It was a sunny day", "The bird flew", "She was very happy",
    "He wanted to play", "The old man", "Once there was a girl", "Sara likes to", "The sun", "Ben and Mia",
    "A long time ago", "The red ball",
]
CHATS = [
    "What is the capital of France?", "Name three colors.", "Write a haiku about the sea.", "How many legs does a spider have?",
    "Who wrote Romeo and Juliet?", "Explain gravity to a child.", "What is 2 + 2?", "Give me a recipe for pancakes.",
    "What is the largest planet?", "Translate 'good morning' to Spanish.", "Why is the sky blue?", "List the days of the week.",
    "What does a compiler do?", "Tell me a joke.", "What is the boiling point of water?", "Describe a forest in autumn.",
    "Who was Albert Einstein?", "How do I learn to swim?", "What is photosynthesis?", "Write a short story about a robot.",
]


@torch.no_grad()
def continue_greedily(model, prompt_ids, num_tokens, eos_ids):
    ids, gaps = [], []
    past, step = None, torch.tensor([prompt_ids])
    while len(ids) < num_tokens:
        out = model(step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        best = torch.log_softmax(out.logits[0, -1].float(), -1).topk(2)
        ids.append(int(best.indices[0]))
        gaps.append(round(float(best.values[0] - best.values[1]), 4))
        if ids[-1] in eos_ids:
            break
        step = torch.tensor([[ids[-1]]])
    return ids, gaps


def write(path, model, prompts, num_tokens, eos_ids, decode):
    entries = []
    for text, prompt_ids in prompts:
        ids, gaps = continue_greedily(model, prompt_ids, num_tokens, eos_ids)
        entries.append({"prompt": text, "prompt_token_ids": prompt_ids, "token_ids": ids, "gaps": gaps, "text": decode(ids)})
        print(path.name, len(entries), repr(entries[-1]["text"][:70]), flush=True)
    path.write_text(json.dumps(entries, indent=None, ensure_ascii=True).replace("}, {", "},\n{") + "\n")


def main():
    data, gguf, out = (pathlib.Path(argument) for argument in sys.argv[1:4])
    torch.set_num_threads(1)
    load = lambda path, **more: transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", **more).eval()

    stories = data / "models" / "stories260k"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(stories / "tokenizer.json"))
    prompts = [(text, tokenizer(text)["input_ids"]) for text in STORY_PROMPTS]
    write(out / "stories260k.json", load(stories), prompts, 200, {1, 2}, lambda ids: tokenizer.decode(ids, skip_special_tokens=True))

    folder = data / "tokenizers" / "smollm2"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder) if (folder / "config.json").exists() else \
        transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    tokenizer.chat_template = (folder / "chat_template.jinja").read_text()
    chats = []
    for text in CHATS:
        rendered = tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
        chats.append((text, tokenizer(rendered, add_special_tokens=False)["input_ids"]))
    end = {tokenizer.convert_tokens_to_ids("<|im_end|>")}
    write(out / "smollm2.json", load(gguf.parent, gguf_file=gguf.name), chats, 60, end,
          lambda ids: tokenizer.decode(ids, skip_special_tokens=True))


if __name__ == "__main__":
    main()
