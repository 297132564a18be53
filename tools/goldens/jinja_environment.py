"""The oracle: real jinja2 with the settings that Hugging Face transformers gives chat templates.

Written after transformers' `utils/chat_template_utils.py` (5.23) and jinja2 3.1.6.
"""

import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Every template gets this moment as its local time.
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks the assistant's text, and shows it as it is."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_show"), [], [], body).set_lineno(lineno)

    def _show(self, caller):
        return caller()


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            TemplateNamespace._check_name(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        TemplateNamespace._check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check_name(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(
                f"Chat templates cannot store underscore-prefixed attributes on a namespace, but got {name!r}. "
                "Please rename the attribute."
            )


TemplateNamespace.__module__ = "transformers.utils.chat_template_utils"  # part of some messages


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = TemplateNamespace
    return env


def prepare_messages(messages):
    """What apply_chat_template does to messages: nulls are dropped, reasoning gets all its names."""
    prepared = []
    for message in messages:
        message = {key: value for key, value in message.items() if value is not None}
        names = ("reasoning_content", "thinking", "reasoning")
        reasoning = next((message[key] for key in names if message.get(key) is not None), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        prepared.append(message)
    return prepared


def special_tokens(config):
    """The special tokens of a tokenizer_config.json as template variables."""
    tokens = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if value is not None:
            tokens[name] = value
    return tokens


def render(source, variables):
    """{"text": ...} or {"error": message, "kind": exception's name}."""
    try:
        return {"text": environment().from_string(source).render(**variables)}
    except RecursionError as error:
        return {"error": str(error), "kind": "RecursionError"}
    except Exception as error:  # every kind of failure is an answer here
        return {"error": str(error), "kind": type(error).__name__}


def render_chat(template, tokens, conversation):
    """`template`: compiled. Conversation: messages, tools, add_generation_prompt, chat_template_kwargs."""
    messages = conversation.get("messages")
    try:
        if not messages:
            raise ValueError("empty conversation")
        return {
            "text": template.render(
                messages=prepare_messages(messages),
                tools=conversation.get("tools"),
                documents=conversation.get("documents"),
                add_generation_prompt=conversation.get("add_generation_prompt", False),
                **{**tokens, **(conversation.get("chat_template_kwargs") or {})},
            )
        }
    except Exception as error:
        return {"error": str(error), "kind": type(error).__name__}
