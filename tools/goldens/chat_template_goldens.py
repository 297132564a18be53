#!/usr/bin/env python3
"""Writes tests/golden/chat_templates/{snippets,chats}.json with real jinja2.

    python3 tools/goldens/chat_template_goldens.py TOKENIZERS_FOLDER

TOKENIZERS_FOLDER has one folder for each model (qwen2.5, qwen3, llama3.1, smollm2) with its
tokenizer_config.json. The goldens hold what the templates write, not the templates.
"""

import json
import pathlib
import platform
import sys

import jinja2

import jinja_environment as oracle
from chat_conversations import conversations
from jinja_snippets import CASES, CONTEXT

MODELS = ["llama3.1", "qwen2.5", "qwen3", "smollm2"]
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "chat_templates"


def template_of(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    jinja_file = folder / "chat_template.jinja"
    source = jinja_file.read_text() if jinja_file.exists() else config["chat_template"]
    return oracle.environment().from_string(source), oracle.special_tokens(config)


def write(name, content):
    versions = {"jinja2": jinja2.__version__, "python": platform.python_version()}
    OUT.mkdir(parents=True, exist_ok=True)
    document = {"versions": versions, "now": oracle.NOW.isoformat(), **content}
    text = json.dumps(document, ensure_ascii=False, indent=0).replace("\u2028", "\\u2028")
    (OUT / name).write_text(text + "\n")
    print(OUT / name, len(text), "bytes")


def main():
    root = pathlib.Path(sys.argv[1])
    snippets = [{"template": case, **oracle.render(case, CONTEXT)} for case in CASES]
    write("snippets.json", {"context": CONTEXT, "snippets": snippets})
    chats = conversations()
    expected = {}
    for model in MODELS:
        template, tokens = template_of(root / model)
        expected[model] = [oracle.render_chat(template, tokens, chat) for chat in chats]
    write("chats.json", {"chats": chats, "expected": expected})


if __name__ == "__main__":
    main()
