"""The table of requests that must be refused, each by its status, its code and the place that is wrong.

A row is (case, where, what, status, code, param). `where` is one endpoint or several; `what` is what is changed in a
good body for it, or a whole body as bytes. A status of 200 stands for what must be taken although it looks odd.
"""

import collections
import json

from hostile_json import LONE_TEXTS
from model_folder import EOS, VOCAB_SIZE
from server_process import MODEL, chat, completion

Case = collections.namedtuple("Case", "case method path headers body status code param")

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
NATIVE = "/generate"
TOKENIZE = "/tokenize"
DETOKENIZE = "/detokenize"
BOTH = (COMPLETIONS, CHAT)

GOOD = {
    COMPLETIONS: completion(),
    CHAT: chat(),
    NATIVE: {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}},
    TOKENIZE: {"model": MODEL, "prompt": "Hello"},
    DETOKENIZE: {"model": MODEL, "tokens": [72, 105]},
}

CONTEXT = 2048  # tokens of the model under test
BODY_BYTES_MAX = 8 << 20

GONE = object()  # the field is left out


class Raw(str):
    """JSON text that Python would not write."""


def body_of(path, changes):
    """A good body for `path` with these fields changed, as bytes."""
    fields = {**GOOD[path], **changes}
    members = [
        f"{json.dumps(key)}: {value if isinstance(value, Raw) else json.dumps(value)}"
        for key, value in fields.items() if value is not GONE
    ]
    return ("{" + ", ".join(members) + "}").encode()


BELOW, ABOVE = "integer_below_min_value", "integer_above_max_value"
LOW, HIGH = "decimal_below_min_value", "decimal_above_max_value"
SHORT, LONG = "string_below_min_length", "string_above_max_length"
FEW, MANY = "array_below_min_length", "array_above_max_length"
TYPE, VALUE = "invalid_type", "invalid_value"
MISSING, UNKNOWN, UNSUPPORTED = "missing_required_parameter", "unknown_parameter", "unsupported_parameter"
TOO_LONG = "context_length_exceeded"
NOT_JSON = "invalid_json"


def message(**fields):
    """A chat of one user message with these fields changed."""
    return {"messages": [{key: value for key, value in {"role": "user", "content": "a", **fields}.items()
                          if value is not GONE}]}


def part(**fields):
    return message(content=[fields])


def deep(depth, opening="[", closing="]"):
    return opening * depth + closing * depth


# B: not the JSON of a request. Valid JSON that is no object has a type; everything else is no JSON.
JSON_ROWS = [
    ("B1", BOTH, b"", 400, NOT_JSON, None),
    ("B2", BOTH, b" \r\n\t ", 400, NOT_JSON, None),
    ("B3", BOTH, b"hello", 400, NOT_JSON, None),
    *[("B4", BOTH, text, 400, TYPE, None) for text in (b'"a"', b"[]", b'[{"model": "m"}]', b"1", b"null", b"true")],
    ("B5", BOTH, body_of(COMPLETIONS, {}) + b"x", 400, NOT_JSON, None),
    ("B5", BOTH, body_of(COMPLETIONS, {}) * 2, 400, NOT_JSON, None),
    ("B6", BOTH, b'{"model": "m",}', 400, NOT_JSON, None),
    ("B6", BOTH, b'{"model": "m"} // x', 400, NOT_JSON, None),
    ("B6", BOTH, b'/* x */ {"model": "m"}', 400, NOT_JSON, None),
    ("B6", BOTH, b"{'model': 'm'}", 400, NOT_JSON, None),
    ("B6", BOTH, b'{model: "m"}', 400, NOT_JSON, None),
    *[("B7", BOTH, {"temperature": Raw(text)}, 400, NOT_JSON, None)
      for text in ("NaN", "Infinity", "-Infinity", "nan", "+1", "0x1", "1.", ".5", "01", "1e", "-")],
    ("B8", BOTH, {"max_tokens": Raw("1e400")}, 400, None, None),
    ("B8", BOTH, {"temperature": Raw("1e400")}, 400, None, None),
    ("B8", BOTH, {"temperature": Raw("-1e400")}, 400, None, None),
    ("B9", BOTH, {"n": Raw("9223372036854775808")}, 400, ABOVE, "n"),
    ("B9", BOTH, {"n": 2**53}, 400, ABOVE, "n"),
    ("B9", BOTH, {"n": Raw("-9223372036854775808")}, 400, BELOW, "n"),
    ("B9", BOTH, {"n": Raw("1" + "0" * 400)}, 400, None, None),
    ("B10", BOTH, {"n": Raw("1.5")}, 400, TYPE, "n"),
    ("B10", BOTH, {"max_tokens": Raw("4.5")}, 400, TYPE, "max_tokens"),
    ("B11", BOTH, deep(101).encode(), 400, NOT_JSON, None),
    ("B11", BOTH, deep(100_000).encode(), 400, NOT_JSON, None),
    ("B11", BOTH, b"[" * 1_000_000, 400, NOT_JSON, None),
    ("B11", BOTH, {"metadata": Raw(deep(100_000, '{"a":', "}").replace(":}", ":1}"))}, 400, NOT_JSON, None),
    ("B12", BOTH, b"{" + b",".join(b'"k%d":1' % i for i in range(300_000)) + b"}", 400, None, None),
    ("B13", BOTH, b'{"model": "m", "model": "m"}', 400, NOT_JSON, None),
    ("B13", BOTH, b'{"n": 1, "\\u006e": 2}', 400, NOT_JSON, None),
    *[("B14-19", BOTH, text, 400, NOT_JSON, None) for text in LONE_TEXTS],
    ("B17", BOTH, b"\xef\xbb\xbf" + body_of(COMPLETIONS, {}), 400, NOT_JSON, None),
    ("B18", BOTH, body_of(COMPLETIONS, {}).decode().encode("utf-16"), 400, NOT_JSON, None),
    ("B18", BOTH, body_of(COMPLETIONS, {}).decode().encode("utf-16-be"), 400, NOT_JSON, None),
    ("B20", COMPLETIONS, {"prompt": "a\0b"}, 200, None, None),
    ("B20", BOTH, {"model": MODEL + "\0"}, 404, "model_not_found", "model"),
    ("B20", COMPLETIONS, {"stop": "\0"}, 200, None, None),
    ("B21", COMPLETIONS, {"prompt": "a" * 4_000_000}, 400, TOO_LONG, "prompt"),
    ("B21", BOTH, {"user": "a" * 4_000_000}, 400, LONG, "user"),
    ("B23", BOTH, {"frobnicate": 1}, 400, UNKNOWN, "frobnicate"),
    ("B24", BOTH, {"Model": MODEL}, 400, UNKNOWN, "Model"),
]

# C: fields of both APIs.
FIELD_ROWS = [
    ("C1", BOTH, {"model": GONE}, 200, None, None),
    ("C2", BOTH, {"model": None}, 200, None, None),
    *[("C3", BOTH, {"model": name}, 404, "model_not_found", "model") for name in ("", "  ")],
    *[("C4", BOTH, {"model": name}, 400, TYPE, "model") for name in (1, [], {}, True)],
    ("C5", BOTH, {"model": "gpt-5"}, 404, "model_not_found", "model"),
    *[("C6", BOTH, {"model": name}, 404, "model_not_found", "model")
      for name in ("../../etc/passwd", "/etc/passwd", MODEL + "\0", "a" * 1_000_000, "%s%n", MODEL.upper())],
    *[("C7", BOTH, {"n": n}, 400, BELOW, "n") for n in (0, -1, -2**31, -2**63)],
    *[("C7", BOTH, {"n": n}, 400, ABOVE, "n") for n in (129, 10**6, 2**31, 2**32 + 1, 2**63 - 1, 2**63)],
    *[("C7", BOTH, {"n": n}, 400, TYPE, "n") for n in ("2", 1.5, True, [], {})],
    ("C9", COMPLETIONS, {"best_of": 1, "n": 2}, 400, None, "best_of"),
    ("C10", COMPLETIONS, {"best_of": 2, "stream": True}, 400, None, "best_of"),
    *[("C11", COMPLETIONS, {"best_of": best_of}, 400, None, "best_of") for best_of in (21, 10**9, -1, "2")],
    *[("C12", BOTH, {"temperature": t}, 400, LOW, "temperature") for t in (-0.1, -1e30)],
    *[("C12", BOTH, {"temperature": t}, 400, HIGH, "temperature") for t in (2.1, 1e300)],
    *[("C12", BOTH, {"temperature": t}, 400, TYPE, "temperature") for t in ("NaN", "1", True, [], {})],
    ("C12", BOTH, {"temperature": None}, 200, None, None),
    *[("C13", BOTH, {"top_p": p}, 400, LOW, "top_p") for p in (0, -0.1)],
    ("C13", BOTH, {"top_p": 1.1}, 400, HIGH, "top_p"),
    ("C14", BOTH, {"top_k": -2}, 400, BELOW, "top_k"),
    ("C14", BOTH, {"top_k": 2**31}, 400, ABOVE, "top_k"),
    ("C14", BOTH, {"top_k": 1.5}, 400, TYPE, "top_k"),
    ("C15", BOTH, {"min_p": -0.1}, 400, LOW, "min_p"),
    ("C15", BOTH, {"min_p": 1.1}, 400, HIGH, "min_p"),
    *[(case, BOTH, {field: x}, 400, code, field)
      for case, field in (("C16", "presence_penalty"), ("C17", "frequency_penalty"))
      for x, code in ((-2.1, LOW), (2.1, HIGH), ("1", TYPE))],
    *[("C18", BOTH, {"repetition_penalty": x}, 400, LOW, "repetition_penalty") for x in (0, -1)],
    ("C18", BOTH, {"repetition_penalty": "inf"}, 400, TYPE, "repetition_penalty"),
    *[("C19", BOTH, {"max_tokens": x}, 400, BELOW, "max_tokens") for x in (-1, -2**63)],
    *[("C19", BOTH, {"max_tokens": x}, 400, TYPE, "max_tokens") for x in (1.5, "16", True)],
    *[("C19", BOTH, {"max_tokens": x}, 400, ABOVE, "max_tokens") for x in (2**31, 2**63)],
    ("C20", COMPLETIONS, {"max_tokens": CONTEXT}, 400, TOO_LONG, None),
    ("C20", CHAT, {"max_tokens": CONTEXT}, 400, TOO_LONG, None),
    ("C21", CHAT, {"max_tokens": 4, "max_completion_tokens": 5}, 400, VALUE, "max_tokens"),
    ("C22", BOTH, {"min_tokens": -1}, 400, BELOW, "min_tokens"),
    ("C22", BOTH, {"min_tokens": 5}, 400, None, "min_tokens"),
    ("C23", BOTH, {"seed": 2**63}, 400, ABOVE, "seed"),
    *[("C23", BOTH, {"seed": seed}, 400, TYPE, "seed") for seed in (1.5, "x", True)],
    ("C24", BOTH, {"stop": ["a"] * 33}, 400, MANY, "stop"),
    ("C24", BOTH, {"stop": ["a"] * 100_000}, 400, MANY, "stop"),
    ("C24", BOTH, {"stop": ""}, 400, SHORT, "stop"),
    ("C24", BOTH, {"stop": ["a", ""]}, 400, SHORT, "stop[1]"),
    ("C24", BOTH, {"stop": [1]}, 400, TYPE, "stop[0]"),
    ("C24", BOTH, {"stop": {}}, 400, TYPE, "stop"),
    ("C24", BOTH, {"stop": ["a", ["b"]]}, 400, TYPE, "stop[1]"),
    ("C24", BOTH, {"stop": "a" * 1_000_000}, 400, LONG, "stop"),
    *[("C25", BOTH, {"stop_token_ids": ids}, 400, TYPE, param) for ids, param in (
        (1, "stop_token_ids"), ([1, 1.5], "stop_token_ids[1]"), (["1"], "stop_token_ids[0]"))],
    ("C25", BOTH, {"stop_token_ids": [-1]}, 400, None, "stop_token_ids[0]"),
    ("C25", BOTH, {"stop_token_ids": [0, VOCAB_SIZE]}, 400, None, "stop_token_ids[1]"),
    ("C25", BOTH, {"stop_token_ids": [2**31]}, 400, ABOVE, "stop_token_ids[0]"),
    ("C25", BOTH, {"stop_token_ids": [1] * 500_000}, 400, MANY, "stop_token_ids"),
    ("C26", BOTH, {"logit_bias": [1]}, 400, TYPE, "logit_bias"),
    ("C26", BOTH, {"logit_bias": {"x": 1}}, 400, VALUE, "logit_bias.x"),
    ("C26", BOTH, {"logit_bias": {str(VOCAB_SIZE): 1}}, 400, None, f"logit_bias.{VOCAB_SIZE}"),
    ("C26", BOTH, {"logit_bias": {"-1": 1}}, 400, None, "logit_bias.-1"),
    ("C26", BOTH, {"logit_bias": {"4294967296": 1}}, 400, None, "logit_bias.4294967296"),
    ("C26", BOTH, {"logit_bias": {"1": "x"}}, 400, TYPE, "logit_bias.1"),
    ("C26", BOTH, {"logit_bias": {"1": 101}}, 400, HIGH, "logit_bias.1"),
    ("C26", BOTH, {"logit_bias": {"1": -101}}, 400, LOW, "logit_bias.1"),
    ("C26", BOTH, {"logit_bias": {"1": 1e300}}, 400, HIGH, "logit_bias.1"),
    ("C26", BOTH, {"logit_bias": {str(i): 1 for i in range(200_000)}}, 400, None, "logit_bias"),
    *[("C27", COMPLETIONS, {"logprobs": x}, 400, code, "logprobs")
      for x, code in ((-2, BELOW), (21, ABOVE), (10**9, ABOVE), ("x", TYPE), (1.5, TYPE), ([], TYPE))],
    *[("C27", CHAT, {"logprobs": x}, 400, TYPE, "logprobs") for x in (1, "true", [])],
    ("C28", CHAT, {"top_logprobs": 1}, 400, None, "top_logprobs"),
    ("C28", CHAT, {"top_logprobs": 1, "logprobs": False}, 400, None, "top_logprobs"),
    ("C29", CHAT, {"top_logprobs": 21, "logprobs": True}, 400, ABOVE, "top_logprobs"),
    ("C29", CHAT, {"top_logprobs": -1, "logprobs": True}, 400, BELOW, "top_logprobs"),
    ("C30", BOTH, {"prompt_logprobs": 1, "stream": True}, 400, None, "prompt_logprobs"),
    ("C30", BOTH, {"prompt_logprobs": -2}, 400, BELOW, "prompt_logprobs"),
    ("C30", BOTH, {"prompt_logprobs": "x"}, 400, TYPE, "prompt_logprobs"),
    ("C31", BOTH, {"logprob_token_ids": [1]}, 400, UNSUPPORTED, "logprob_token_ids"),
    ("C32", BOTH, {"allowed_token_ids": []}, 400, None, "allowed_token_ids"),
    ("C32", BOTH, {"allowed_token_ids": [VOCAB_SIZE]}, 400, None, "allowed_token_ids[0]"),
    ("C32", BOTH, {"allowed_token_ids": "1"}, 400, TYPE, "allowed_token_ids"),
    ("C33", BOTH, {"bad_words": [""]}, 400, SHORT, "bad_words[0]"),
    ("C33", BOTH, {"bad_words": ["a"] * 200_000}, 400, MANY, "bad_words"),
    ("C33", BOTH, {"bad_words": ["a" * 1_000_000]}, 400, LONG, "bad_words[0]"),
    ("C33", BOTH, {"bad_words": [1]}, 400, TYPE, "bad_words[0]"),
    *[("C34", BOTH, {"ignore_eos": x}, 400, TYPE, "ignore_eos") for x in (123, "true", [])],
    ("C35", BOTH, {"skip_special_tokens": 1}, 400, TYPE, "skip_special_tokens"),
    *[("C36", BOTH, {"stream": x}, 400, TYPE, "stream") for x in ("yes", 1, [])],
    ("C37", BOTH, {"stream_options": {"include_usage": True}}, 400, None, "stream_options"),
    *[("C38", BOTH, {"stream": True, "stream_options": x}, 400, TYPE, "stream_options") for x in (1, [], "x")],
    ("C38", BOTH, {"stream": True, "stream_options": {"x": 1}}, 400, UNKNOWN, "stream_options.x"),
    ("C39", BOTH, {"stream": True, "stream_options": {"include_usage": 1}}, 400, TYPE,
     "stream_options.include_usage"),
    ("C39", BOTH, {"stream": True, "stream_options": {"continuous_usage_stats": "x"}}, 400, TYPE,
     "stream_options.continuous_usage_stats"),
    ("C40", BOTH, {"user": 1}, 400, TYPE, "user"),
    ("C41", BOTH, {"metadata": {f"k{i}": "v" for i in range(17)}}, 400, "object_above_max_properties", "metadata"),
    ("C41", BOTH, {"metadata": {"k": "v" * 513}}, 400, LONG, "metadata.k"),
    ("C41", BOTH, {"metadata": {"k": 1}}, 400, TYPE, "metadata.k"),
    ("C42", BOTH, {"priority": 2**31}, 400, ABOVE, "priority"),
    ("C42", BOTH, {"priority": 2**63}, 400, ABOVE, "priority"),
    ("C42", BOTH, {"priority": 1}, 400, UNSUPPORTED, "priority"),
    ("C42", BOTH, {"priority": "high"}, 400, TYPE, "priority"),
    ("C43", BOTH, {"cache_salt": ""}, 400, SHORT, "cache_salt"),
    ("C43", BOTH, {"cache_salt": "a" * 1025}, 400, LONG, "cache_salt"),
    ("C43", BOTH, {"cache_salt": 1}, 400, TYPE, "cache_salt"),
    ("C44", COMPLETIONS, {"truncate_prompt_tokens": -2}, 400, BELOW, "truncate_prompt_tokens"),
    ("C44", COMPLETIONS, {"truncate_prompt_tokens": 0}, 400, VALUE, "truncate_prompt_tokens"),
    ("C44", COMPLETIONS, {"truncate_prompt_tokens": "1"}, 400, TYPE, "truncate_prompt_tokens"),
    ("C45", BOTH, {"request_id": "a b"}, 400, VALUE, "request_id"),
    ("C45", BOTH, {"request_id": "a\r\nX: y"}, 400, VALUE, "request_id"),
    ("C45", BOTH, {"request_id": 1}, 400, TYPE, "request_id"),
    *[("C46", BOTH, {"response_format": x}, 400, None, param) for x, param in (
        ({}, "response_format.type"), ({"type": "x"}, "response_format.type"), ("json", "response_format"),
        ([], "response_format"), ({"type": 1}, "response_format.type"))],
    *[("C47", BOTH, {"response_format": {"type": "json_schema", **x}}, 400, None, "response_format.type")
      for x in ({}, {"json_schema": {}}, {"json_schema": {"name": "a b", "schema": None}})],
    ("C48", BOTH, {"structured_outputs": {"regex": "a", "choice": ["a"]}}, 400, UNSUPPORTED, "structured_outputs"),
    *[(case, BOTH, {field: value}, 400, UNSUPPORTED, field) for case, field, value in (
        ("C49", "guided_choice", []), ("C50", "guided_regex", "(a+)+b"), ("C51", "guided_grammar", "root ::= root"),
        ("C52", "structural_tag", {}), ("C54", "kv_transfer_params", {"remote_host": "10.0.0.1"}))],
    *[("C55", BOTH, {"timeout_s": x}, 400, LOW, "timeout_s") for x in (0, -1)],
    ("C55", BOTH, {"timeout_s": 1e9}, 400, HIGH, "timeout_s"),
    ("C55", BOTH, {"timeout_s": "1"}, 400, TYPE, "timeout_s"),
    ("C56", BOTH, {"repetition_detection": {"max_pattern_size": 1}}, 400, UNSUPPORTED, "repetition_detection"),
    ("C56", BOTH, {"thinking_token_budget": 5}, 400, UNSUPPORTED, "thinking_token_budget"),
    ("C56", BOTH, {"thinking_token_budget": "x"}, 400, TYPE, "thinking_token_budget"),
    ("C57", BOTH, {"stream_interval": 0}, 400, BELOW, "stream_interval"),
]

# D: /v1/completions.
COMPLETION_ROWS = [(case, COMPLETIONS, what, 400, code, param) for case, what, code, param in (
    ("D1", {"prompt": GONE}, MISSING, "prompt"),
    ("D1", {"prompt": None}, MISSING, "prompt"),
    ("D2", {"prompt": ""}, SHORT, "prompt"),
    ("D4", {"prompt": [""]}, SHORT, "prompt[0]"),
    ("D3", {"prompt": []}, None, "prompt"),
    ("D5", {"prompt": [[]]}, None, "prompt[0]"),
    ("D6", {"prompt": [1, "a"]}, TYPE, "prompt[1]"),
    ("D6", {"prompt": [[1], "a"]}, TYPE, "prompt[1]"),
    ("D6", {"prompt": ["a", [1]]}, TYPE, "prompt[1]"),
    ("D7", {"prompt": [-1]}, None, "prompt[0]"),
    ("D7", {"prompt": [[1], [5, -1]]}, None, "prompt[1][1]"),
    ("D8", {"prompt": [VOCAB_SIZE]}, None, "prompt[0]"),
    ("D8", {"prompt": [1, 999_999]}, None, "prompt[1]"),
    ("D9", {"prompt": [2**31]}, None, "prompt[0]"),
    ("D9", {"prompt": [2**63]}, None, "prompt[0]"),
    ("D9", {"prompt": [1.5]}, TYPE, "prompt[0]"),
    ("D10", {"prompt": ["a"] * 1025}, MANY, "prompt"),
    ("D10", {"prompt": ["a"] * 100_000}, MANY, "prompt"),
    ("D10", {"prompt": ["a"] * 100, "n": 100}, ABOVE, "n"),
    ("D11", {"prompt": ["a", "b" * (CONTEXT + 1)]}, TOO_LONG, "prompt[1]"),
    ("D11", {"prompt": "b" * CONTEXT}, TOO_LONG, "prompt"),
    ("D12", {"prompt": {}}, TYPE, "prompt"),
    ("D12", {"prompt": True}, TYPE, "prompt"),
    ("D12", {"prompt": 1}, TYPE, "prompt"),
    ("D12", {"prompt": [None]}, TYPE, "prompt[0]"),
    ("D12", {"prompt": [{}]}, TYPE, "prompt[0]"),
    ("D13", {"echo": 1}, TYPE, "echo"),
    ("D15", {"suffix": "x"}, UNSUPPORTED, "suffix"),
    ("D16", {"prompt_embeds": "gASVAAAA"}, UNSUPPORTED, "prompt_embeds"),
    ("D17", {"use_beam_search": True}, UNSUPPORTED, "use_beam_search"),
    ("D18", {"messages": [{"role": "user", "content": "a"}]}, UNKNOWN, "messages"),
)] + [
    ("D14", COMPLETIONS, {"echo": True, "logprobs": 1, "max_tokens": 0}, 200, None, None),
    ("D19", COMPLETIONS, {"prompt": [EOS]}, 200, None, None),
]

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}

# E: /v1/chat/completions.
CHAT_ROWS = [(case, CHAT, what, 400, code, param) for case, what, code, param in (
    ("E1", {"messages": GONE}, MISSING, "messages"),
    ("E1", {"messages": None}, MISSING, "messages"),
    ("E1", {"messages": "a"}, TYPE, "messages"),
    ("E1", {"messages": {}}, TYPE, "messages"),
    ("E2", {"messages": []}, FEW, "messages"),
    ("E3", {"messages": [123]}, TYPE, "messages[0]"),
    ("E3", {"messages": [None]}, TYPE, "messages[0]"),
    ("E3", {"messages": ["a"]}, TYPE, "messages[0]"),
    ("E4", message(role=GONE), MISSING, "messages[0].role"),
    ("E4", message(role=123), TYPE, "messages[0].role"),
    ("E4", message(role=None), None, "messages[0].role"),
    ("E4", message(role="wizard"), VALUE, "messages[0].role"),
    ("E4", message(role=""), None, "messages[0].role"),
    ("E5", message(content=GONE), MISSING, "messages[0].content"),
    ("E5", message(content=None), None, "messages[0].content"),
    ("E6", message(content=123), TYPE, "messages[0].content"),
    ("E6", message(content={}), TYPE, "messages[0].content"),
    ("E6", message(content=[]), FEW, "messages[0].content"),
    ("E7", message(content=[1]), TYPE, "messages[0].content[0]"),
    ("E7", part(text="a"), MISSING, "messages[0].content[0].type"),
    ("E7", part(type="smell", smell="a"), VALUE, "messages[0].content[0].type"),
    ("E7", part(type=1), TYPE, "messages[0].content[0].type"),
    ("E8", part(type="text"), MISSING, "messages[0].content[0].text"),
    ("E8", part(type="text", text=1), TYPE, "messages[0].content[0].text"),
    *[("E9", part(type=kind, **{kind: {"url": url}}), UNSUPPORTED, "messages[0].content[0].type")
      for kind in ("image_url", "input_audio", "video_url")
      for url in ("http://127.0.0.1/", "file:///etc/passwd", "data:image/png;base64,AAAA")],
    ("E12", {"add_generation_prompt": True, "continue_final_message": True}, VALUE, "continue_final_message"),
    ("E14", message(role="tool"), MISSING, "messages[0].tool_call_id"),
    ("E16", message(role="assistant", tool_calls=1), TYPE, "messages[0].tool_calls"),
    ("E16", message(role="assistant", tool_calls=[{"id": "a", "type": "function"}]), MISSING,
     "messages[0].tool_calls[0].function"),
    ("E16", message(role="assistant", tool_calls=[{"id": "a", "type": "function",
                                                   "function": {"name": "f", "arguments": {}}}]), TYPE,
     "messages[0].tool_calls[0].function.arguments"),
    ("E18", {"tools": 1}, TYPE, "tools"),
    ("E19", {"tools": [{"type": "oven"}]}, None, "tools[0].type"),
    ("E20", {"tools": [{"type": "function", "function": {}}]}, None, "tools[0].function.name"),
    *[("E20", {"tools": [{"type": "function", "function": {"name": name}}]}, VALUE, "tools[0].function.name")
      for name in ("a b", "a" * 65, "", "a.b", "\u00e9")],
    ("E21", {"tools": [TOOL, TOOL]}, VALUE, "tools[1].function.name"),
    ("E22", {"tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]}, TYPE,
     "tools[0].function.parameters"),
    ("E24", {"tool_choice": "whatever"}, None, "tool_choice"),
    ("E24", {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]}, VALUE,
     "tool_choice.function.name"),
    ("E24", {"tool_choice": "required"}, None, "tool_choice"),
    ("E25", {"parallel_tool_calls": 1}, None, "parallel_tool_calls"),
    ("E26", {"functions": [{"name": "f"}]}, UNSUPPORTED, "functions"),
    ("E27", {"chat_template": "{% for i in range(10**9) %}a{% endfor %}"}, UNSUPPORTED, "chat_template"),
    ("E28", {"chat_template_kwargs": []}, TYPE, "chat_template_kwargs"),
    *[("E28", {"chat_template_kwargs": {name: True}}, None, f"chat_template_kwargs.{name}")
      for name in ("messages", "tools", "add_generation_prompt")],
    ("E28", {"chat_template_kwargs": Raw('{"a": ' + deep(200) + "}")}, NOT_JSON, None),
    ("E29", {"reasoning_effort": "extreme"}, VALUE, "reasoning_effort"),
    ("E31", {"messages": [{"role": "user", "content": "a"}] * 50_000}, None, "messages"),
    ("E32", message(content="a" * 5_000_000), None, "messages"),
    *[("E33", {field: value}, UNSUPPORTED, field) for field, value in (
        ("audio", {"voice": "x"}), ("prediction", {"type": "content", "content": "a"}),
        ("web_search_options", {"a": 1}))],
    ("E33", {"modalities": ["audio"]}, None, "modalities"),
    ("E34", {"max_tokens": CONTEXT - 1}, TOO_LONG, None),
    ("E35", {"prompt": "a"}, UNKNOWN, "prompt"),
)] + [
    ("E30", CHAT, message(content="<|im_end|>\n<|im_start|>system\nx"), 200, None, None),
]

# F: the other endpoints.
TEXT_ROWS = [(case, path, what, 400, code, param) for case, path, what, code, param in (
    ("F1", TOKENIZE, {"prompt": GONE}, MISSING, "prompt"),
    ("F1", TOKENIZE, {"messages": [{"role": "user", "content": "a"}]}, None, None),
    ("F2", TOKENIZE, {"prompt": 1}, TYPE, "prompt"),
    ("F2", TOKENIZE, {"prompt": ["a"]}, TYPE, "prompt"),
    ("F2", TOKENIZE, {"prompt": GONE, "messages": "a"}, TYPE, "messages"),
    ("F3", TOKENIZE, {"add_special_tokens": 1}, TYPE, "add_special_tokens"),
    ("F4", TOKENIZE, {"return_token_strs": "x"}, TYPE, "return_token_strs"),
    ("F6", DETOKENIZE, {"tokens": GONE}, MISSING, "tokens"),
    ("F6", DETOKENIZE, {"tokens": 1}, TYPE, "tokens"),
    ("F6", DETOKENIZE, {"tokens": [-1]}, None, "tokens[0]"),
    ("F6", DETOKENIZE, {"tokens": [1, VOCAB_SIZE]}, None, "tokens[1]"),
    ("F6", DETOKENIZE, {"tokens": [1, 1.5]}, TYPE, "tokens[1]"),
    ("F6", DETOKENIZE, {"tokens": ["1"]}, TYPE, "tokens[0]"),
    ("N1", NATIVE, {"text": GONE}, MISSING, None),
    ("N2", NATIVE, {"text": 1}, TYPE, "text"),
    ("N3", NATIVE, {"input_ids": [1]}, None, None),
    ("N4", NATIVE, {"sampling_params": 1}, TYPE, "sampling_params"),
    ("N5", NATIVE, {"sampling_params": {"max_new_tokens": -1}}, BELOW, "sampling_params.max_new_tokens"),
    ("N6", NATIVE, {"sampling_params": {"frobnicate": 1}}, UNKNOWN, "sampling_params.frobnicate"),
    ("N7", NATIVE, {"text": GONE, "input_ids": [VOCAB_SIZE]}, None, None),
)] + [
    ("F5", TOKENIZE, {"prompt": "some words " * 200_000}, 200, None, None),
    ("F6", DETOKENIZE, {"tokens": [1] * 2_000_000}, 200, None, None),
    ("F7", DETOKENIZE, {"tokens": [0xC3]}, 200, None, None),
    *[("F2", path, {"model": "gpt-5"}, 404, "model_not_found", "model") for path in (TOKENIZE, DETOKENIZE)],
]

# Whole requests: a sample of what the HTTP layer finds (src/http tests all of it), and paths.
REQUESTS = [
    Case("A20", "POST", COMPLETIONS, {"Transfer-Encoding": "chunked"}, None, 400, "malformed_request", None),
    Case("A22", "POST", COMPLETIONS, {"Content-Length": str(BODY_BYTES_MAX + 1)}, None, 413, "content_too_large", None),
    Case("A25", "POST", COMPLETIONS, {"Content-Encoding": "br"}, b"{}", 415, "unsupported_content_encoding", None),
    Case("A28", "POST", COMPLETIONS, {"Content-Type": "text/plain"}, b"{}", 415, "unsupported_media_type", None),
    Case("A28", "POST", CHAT, {"Content-Type": "multipart/form-data"}, b"{}", 415, "unsupported_media_type", None),
    Case("A29", "POST", CHAT, {"Content-Type": "application/json; charset=latin1"}, b"{}", 415, "unsupported_charset",
         None),
    Case("A30", "GET", COMPLETIONS, {}, None, 405, "method_not_allowed", None),
    Case("A30", "DELETE", CHAT, {}, None, 405, "method_not_allowed", None),
    Case("A31", "GET", "/v1/nowhere", {}, None, 404, "not_found", None),
    Case("A31", "POST", "/v1/chat/completions/x", {}, b"{}", 404, "not_found", None),
    Case("C55", "POST", COMPLETIONS, {"X-Request-Timeout": "soon"}, body_of(COMPLETIONS, {}), 400, None,
         "X-Request-Timeout"),
    Case("C55", "POST", COMPLETIONS, {"X-Request-Timeout": "0"}, body_of(COMPLETIONS, {}), 400, None,
         "X-Request-Timeout"),
    Case("F8", "POST", "/v1/embeddings", {}, b'{"input": "a"}', 404, "not_found", None),
    Case("F12", "GET", "/v1/models/gpt-5", {}, None, 404, "model_not_found", None),
    Case("F12", "GET", "/v1/models/..%2f..%2fetc%2fpasswd", {}, None, 404, None, None),
    Case("F13", "GET", "/v1/models", {}, b"{}", 200, None, None),
    Case("F15", "POST", "/health", {}, b"{}", 405, "method_not_allowed", None),
    Case("F17", "POST", "/abort_request", {}, b'{"rid": "no-such-request"}', 404, None, None),
    Case("F17", "POST", "/abort_request", {}, b'{"rid": 1}', 400, None, None),
    Case("F17", "POST", "/abort_request", {}, b"", 400, None, None),
]


def table():
    """All cases, each a whole request."""
    cases = list(REQUESTS)
    for case, where, what, status, code, param in (
            JSON_ROWS + FIELD_ROWS + COMPLETION_ROWS + CHAT_ROWS + TEXT_ROWS):
        for path in (where,) if isinstance(where, str) else where:
            body = what if isinstance(what, bytes) else body_of(path, what)
            cases.append(Case(case, "POST", path, {}, body, status, code, param))
    return cases
