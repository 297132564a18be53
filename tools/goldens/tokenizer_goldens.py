"""Writes the goldens of the tokenizer, answered by Hugging Face `tokenizers`.

tests/golden/tokenizer_models.jsonl: tricky strings through the tokenizers of published models.
    First line {"versions", "texts"}; then one line a model: {"model", "ids", "texts", "skipped"},
    where "texts" and "skipped" are the decoded ids without and with skip_special_tokens, null where
    they equal the input.
tests/golden/tokenizer_components.jsonl: small hand-made tokenizers, one a line, that differ in one
    component from a base: {"name", "tokenizer", "ids", "decoded", "skipped"}; the first line holds
    {"versions", "vocabularies", "texts"}, and a "vocab" that is a number is one of those. A decoded
    text is null where it equals the input; "skipped" is null where it equals "decoded".

Usage: python tools/goldens/tokenizer_goldens.py ROOT   (ROOT holds tokenizers/* and models/*)
"""

import importlib.util
import json
import pathlib
import sys

import tokenizers

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = SOURCE / "tests" / "golden"
MODELS = [
    "tokenizers/qwen2.5",
    "tokenizers/qwen3",
    "tokenizers/llama3.1",
    "tokenizers/smollm2",
    "models/stories260k",
]

TRICKY = [
    "",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\n\n\n",
    " \n ",
    "\t\tx",
    "a",
    "Hello, world!",
    " Hello",
    "Hello ",
    "it's IT'S i'Ll we'VE 'tis don't DON'T",
    "it\u2019s",
    "x'\u017f y'\u017f",
    "'",
    "''",
    "'s's",
    "s'",
    "1 12 123 1234 12345 1,234.56",
    "\u00b2\u00bd\u0664\u0665\u0666\uff11\uff12",
    "x1y22z333",
    "caf\u00e9 cafe\u0301 \u1e9b\u0323 \u0073\u0323\u0307 \u212b \ufb01 \uac00 \u1100\u1161\u11a8",
    "e\u0301\u0323 q\u0307\u0323 \u0344 \u0958 \u2126 \U0001d15e \u09c7\u09be \u0b92\u0bd7",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea 1\ufe0f\u20e3 \u2764\ufe0f",
    "\u00a0x\u3000y\u2003z\u0085w\u180ev\u200bu\ufefft",
    "a\u2028b\u2029c\x0bd\x0ce\x1cf",
    "\x00\x01\x7f\x80",
    "\ufffd\ufffe\U0010ffff\U000e0041",
    "def f(x):\n    return x  # no\n\n\n    y",
    "<|im_start|>user\nhi<|im_end|>\n",
    "<|endoftext|>",
    "a<|im_end|>b",
    "<|im_start|",
    "|im_end|>",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|>",
    "<think>\nx\n</think>",
    '<tool_call>{"a": 1}</tool_call>',
    "<s>a</s>",
    "<s> a </s> b",
    "<unk>",
    "<0x41><0x0A>",
    "\u2581a \u2581",
    "https://example.com/?q=1&r=%20#x",
    "a" * 60,
    "ab" * 40,
    "\u00e9" * 30,
    " " * 40,
    "\n" * 20,
    "!" * 50,
    "   leading",
    "trailing   ",
    "a  b   c    d",
    "x \n y \r\n z \r w",
    "\r\r\n\n",
    " \t \n\t ",
    "\n x",
    "\n  x",
    "$100 \u20ac200 100% #tag @user a_b a-b a/b",
    "...!?,;:",
    "\u2026\u2014\u201cq\u201d",
    "A\u030a",
    "I\u0307\u0130",
]

BYTES = [f"<0x{b:02X}>" for b in range(256)]


def base_tokenizer(**changes):
    """A vocabulary of a few characters and merges, with bytes to fall back on."""
    tokens = ["<unk>", "<s>", "</s>"] + BYTES
    tokens += list("abcdeghlortwABC019 ,.!'\u2581\u00e9\u00df")
    merges = [
        "l o",
        "lo w",
        "h e",
        "\u2581 t",
        "\u2581t he",
        "\u2581 lo",
        "  a",
        "a b",
        "b c",
        "ab c",
    ]
    merges = [m for m in merges if len(m.split(" ")) == 2]
    tokens += [m.replace(" ", "") for m in merges]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {t: i for i, t in enumerate(dict.fromkeys(tokens))},
            "merges": merges,
        },
    }
    model = changes.pop("model", {})
    tokenizer["model"].update(model)
    tokenizer.update(changes)
    return tokenizer


def byte_level_tokenizer(**changes):
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = ["l o", "lo w", "\u0120 t", "h e", "\u0120t he", "\u00c3 \u00a9"]
    tokens = alphabet + [m.replace(" ", "") for m in merges]
    model = {"unk_token": None, "merges": merges, "vocab": {t: i for i, t in enumerate(tokens)}}
    model.update(changes.pop("model", {}))
    return base_tokenizer(model=model, **changes)


def added(content, id, **flags):
    token = {
        "id": id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": False,
    }
    token.update(flags)
    return token


COMPONENT_TEXTS = [
    "",
    " ",
    "the low",
    " the  low ",
    "abc,abc!!  aBC",
    "low\u00e9 \u00df \u4f60",
    "a1b22c \u0664\u0665",
    "\tthe\nlow\r\n",
    "\u2581the \u2581",
    "<s>low</s> the",
    "x<s> y </s>z",
    " <s>  the",
    "the[X]low [X] the",
    "e\u0301a\u212b\ufb01",
    "ABC the LOW \u0130",
    "the.low,the",
    "  ",
    "\u00e9",
    "\u4f60\u597d",
    "'s abc's 'S",
    "a\u3000b\u00a0c",
    "\u4f60x\u597d",
    "_a_b the\u2014low\u00a1",
]


def components():
    sequence = lambda kind, name, *steps: {"type": "Sequence", name: list(steps)}
    replace = lambda p, c, k="String": {"type": "Replace", "pattern": {k: p}, "content": c}
    split = lambda p, b, i=False, k="Regex": {
        "type": "Split",
        "pattern": {k: p},
        "behavior": b,
        "invert": i,
    }
    metaspace = lambda s, sp=True: {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": s,
        "split": sp,
    }
    yield "base", base_tokenizer()
    for flags in (
        {"fuse_unk": True},
        {"byte_fallback": True},
        {"byte_fallback": True, "fuse_unk": True},
        {"ignore_merges": True},
        {"unk_token": None},
        {"unk_token": None, "byte_fallback": True},
    ):
        yield f"model {flags}", base_tokenizer(model=flags)
    pairs = [["l", "o"], ["lo", "w"], ["h", "e"]]
    yield "merges as pairs", base_tokenizer(model={"merges": pairs})
    decorated = {
        t: i
        for i, t in enumerate(
            [
                "<unk>",
                "l",
                "##o",
                "##w",
                "##w</w>",
                "lo",
                "low</w>",
                "t",
                "##h",
                "##e</w>",
                "a</w>",
                " ",
                "## ",
            ]
        )
    }
    yield "prefix and suffix", base_tokenizer(
        model={
            "continuing_subword_prefix": "##",
            "end_of_word_suffix": "</w>",
            "vocab": decorated,
            "merges": ["l ##o", "lo ##w</w>"],
        }
    )
    yield "prefix, byte level", base_tokenizer(
        model={"continuing_subword_prefix": "##", "vocab": decorated, "merges": ["l ##o"]},
        pre_tokenizer={
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
    )

    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield f"normalizer {form}", base_tokenizer(
            normalizer={"type": form}, model={"byte_fallback": True}
        )
    for left in (True, False):
        for right in (True, False):
            yield f"normalizer Strip {left} {right}", base_tokenizer(
                normalizer={"type": "Strip", "strip_left": left, "strip_right": right}
            )
    for name, step in {
        "Prepend": {"type": "Prepend", "prepend": "\u2581"},
        "Replace": replace(" ", "\u2581"),
        "Replace regex": replace(r"\s+", " ", "Regex"),
        "Replace nothing": replace("x", ""),
    }.items():
        yield f"normalizer {name}", base_tokenizer(normalizer=step, model={"byte_fallback": True})
    llama = sequence(
        "n", "normalizers", {"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581")
    )

    for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for i in (False, True):
            yield f"Split {b} {i}", base_tokenizer(pre_tokenizer=split(r"[ab,]|\s+", b, i))
        yield f"Punctuation {b}", base_tokenizer(
            pre_tokenizer={"type": "Punctuation", "behavior": b}
        )
    yield "Split literal", base_tokenizer(pre_tokenizer=split("a", "Isolated", False, "String"))
    yield "Split empty matches", base_tokenizer(pre_tokenizer=split("x*", "Isolated"))
    for scheme in ("always", "first", "never"):
        for sp in (True, False):
            step = metaspace(scheme, sp)
            yield f"Metaspace {scheme} {sp}", base_tokenizer(
                pre_tokenizer=step, decoder=step, added_tokens=[added("<s>", 1, special=True)]
            )
    yield "Metaspace first after Strip", base_tokenizer(
        normalizer={"type": "Strip", "strip_left": True, "strip_right": False},
        pre_tokenizer=metaspace("first"),
    )
    yield "Metaspace first after Replace", base_tokenizer(
        normalizer=replace("x", "a"),
        pre_tokenizer=sequence(
            "p", "pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first")
        ),
    )
    for step in (
        {"type": "Digits", "individual_digits": True},
        {"type": "Digits", "individual_digits": False},
        {"type": "Whitespace"},
        {"type": "WhitespaceSplit"},
    ):
        yield f"pre-tokenizer {step}", base_tokenizer(pre_tokenizer=step)
    byte_level = lambda space, regex: {
        "type": "ByteLevel",
        "add_prefix_space": space,
        "trim_offsets": True,
        "use_regex": regex,
    }
    for space in (True, False):
        for regex in (True, False):
            yield f"ByteLevel {space} {regex}", byte_level_tokenizer(
                pre_tokenizer=byte_level(space, regex),
                decoder=byte_level(True, True),
                added_tokens=[added("<s>", 300, special=True)],
            )
    yield "ByteLevel, then Split", byte_level_tokenizer(
        pre_tokenizer=sequence(
            "p", "pretokenizers", byte_level(True, False), split("\u0120", "MergedWithNext")
        ),
        decoder=byte_level(True, True),
    )
    yield "ByteLevel with holes", base_tokenizer(
        pre_tokenizer=byte_level(False, True),
        decoder=byte_level(True, True),
        model={"byte_fallback": True},
    )
    yield "ByteLevel twice", byte_level_tokenizer(
        pre_tokenizer=sequence(
            "p", "pretokenizers", byte_level(False, False), byte_level(False, True)
        )
    )

    x = 400
    for flags in (
        {},
        {"special": True},
        {"lstrip": True},
        {"rstrip": True},
        {"lstrip": True, "rstrip": True},
        {"single_word": True},
        {"normalized": True},
        {"normalized": True, "special": True},
    ):
        tokens = [added("[X]", x, **flags), added("the", x + 1, **flags), added("<s>", 1, **flags)]
        yield f"added {flags}", base_tokenizer(added_tokens=tokens)
        yield f"added {flags}, normalized", base_tokenizer(
            added_tokens=tokens, normalizer=llama, model={"byte_fallback": True}
        )
    yield "added, overlapping", base_tokenizer(
        added_tokens=[
            added("ab", x),
            added("abc", x + 1),
            added("bc,", x + 2),
            added(" t", x + 3),
            added("  ", x + 4),
        ]
    )

    template = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [2, 2], "tokens": ["</s>", "</s>"]},
        },
    }
    specials = [added("<s>", 1, special=True), added("</s>", 2, special=True)]
    yield "template", base_tokenizer(post_processor=template, added_tokens=specials)
    yield "template in a sequence", base_tokenizer(
        post_processor={"type": "Sequence", "processors": [byte_level(True, True), template]},
        added_tokens=specials,
    )

    fuse, fallback = {"type": "Fuse"}, {"type": "ByteFallback"}
    strip = lambda start, stop, c=" ": {"type": "Strip", "content": c, "start": start, "stop": stop}
    to_space = replace("\u2581", " ")
    for name, steps in {
        "Fuse": [fuse],
        "ByteFallback": [fallback],
        "Fallback Fuse": [fallback, fuse],
        "Llama": [to_space, fallback, fuse, strip(1, 0)],
        "no Fuse": [to_space, fallback, strip(1, 0, "a")],
        "Fuse Strip 2": [to_space, fallback, fuse, strip(2, 0)],
        "Replace after Fuse": [fuse, replace("ab", "X")],
        "Replace regex after Fuse": [fuse, replace("[ab]+", "X", "Regex")],
        "Replace regex": [replace("[ab]+", "X", "Regex"), fuse],
        "Metaspace after Fuse": [fuse, metaspace("always")],
        "Fallback after Fuse": [fuse, fallback],
        "ByteLevel after Fuse": [fuse, byte_level(True, True)],
        "empty": [],
        "ByteLevel Replace": [byte_level(True, True), replace("the", "THE")],
    }.items():
        yield f"decoder {name}", base_tokenizer(
            decoder={"type": "Sequence", "decoders": steps},
            normalizer=llama,
            model={"byte_fallback": True},
            added_tokens=specials,
        )


def texts_for_models(root):
    path = SOURCE / "tests" / "parity" / "tokenizer_parity.py"
    spec = importlib.util.spec_from_file_location("tokenizer_parity", path)
    parity = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parity)
    specials = [
        "<|im_start|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<think>",
        "<s>",
        "</s>",
        "<|endoftext|>",
    ]
    generator = parity.Generator("goldens", specials)
    return TRICKY + [text for text in (generator.text() for _ in range(180)) if 0 < len(text) < 50]


def write_models(root):
    texts = texts_for_models(root)
    with open(GOLDEN / "tokenizer_models.jsonl", "w") as file:
        header = {"versions": {"tokenizers": tokenizers.__version__}, "texts": texts}
        file.write(json.dumps(header) + "\n")
        for model in MODELS:
            reference = tokenizers.Tokenizer.from_file(str(root / model / "tokenizer.json"))
            ids = [reference.encode(text).ids for text in texts]
            decoded = [
                [
                    None if out == text else out
                    for out, text in zip(
                        (reference.decode(i, skip_special_tokens=skip) for i in ids), texts
                    )
                ]
                for skip in (False, True)
            ]
            line = {"model": model, "ids": ids, "texts": decoded[0], "skipped": decoded[1]}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def write_components():
    with open(GOLDEN / "tokenizer_components.jsonl", "w") as file:
        vocabularies = [make()["model"]["vocab"] for make in (base_tokenizer, byte_level_tokenizer)]
        header = {
            "versions": {"tokenizers": tokenizers.__version__},
            "vocabularies": vocabularies,
            "texts": COMPONENT_TEXTS,
        }
        file.write(json.dumps(header, separators=(",", ":")) + "\n")
        for name, tokenizer in components():
            # Added tokens that the vocabulary lacks get the next free id from the reference.
            known = tokenizer["model"]["vocab"]
            next_id = max(known.values()) + 1
            for token in tokenizer["added_tokens"]:
                token["id"] = known.get(token["content"], next_id)
                next_id += token["content"] not in known
            reference = tokenizers.Tokenizer.from_str(json.dumps(tokenizer))
            ids = [reference.encode(text).ids for text in COMPONENT_TEXTS]
            decoded = [reference.decode(i, skip_special_tokens=False) for i in ids]
            skipped = [reference.decode(i, skip_special_tokens=True) for i in ids]
            if known in vocabularies:
                tokenizer["model"]["vocab"] = vocabularies.index(known)
            for part in (tokenizer, tokenizer["model"]):
                for key in [key for key, value in part.items() if value is None or value is False]:
                    del part[key]
            decoded = [None if out == text else out for out, text in zip(decoded, COMPONENT_TEXTS)]
            skipped = [None if out == text else out for out, text in zip(skipped, COMPONENT_TEXTS)]
            line = {
                "name": name,
                "tokenizer": tokenizer,
                "ids": ids,
                "decoded": decoded,
                "skipped": None if skipped == decoded else skipped,
            }
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write_models(pathlib.Path(sys.argv[1]))
    write_components()
