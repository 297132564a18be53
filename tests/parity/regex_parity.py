#!/usr/bin/env python3
"""Compares the regular expressions of tokenizer.json with Hugging Face's tokenizers, which reads them by Oniguruma.

    python3 tests/parity/regex_parity.py MILLRACE

Needs tokenizers from PyPI. A tokenizer whose pre-tokenizer removes what a pattern finds, and whose tokens are single
characters, shows what was found. Classes are compared over the characters that this Python's Unicode has assigned; other
syntax over a text each: the same is found, or millrace refuses the pattern. Exits with 1 where it is otherwise.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

try:
    from tokenizers import Tokenizer
except ImportError:
    print("tokenizers is missing: pip install tokenizers")
    sys.exit(77)

# Blocks of characters that are all alike: one of 97 stands for them.
ALIKE = ((0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0x17000, 0x18CFF), (0x20000, 0x3134F), (0xF0000, 0x10FFFF))


def is_compared(code):
    if unicodedata.category(chr(code)) in ("Cn", "Cs"):  # unassigned; surrogates, which are no characters of a text
        return False
    return code % 97 == 0 or not any(first <= code <= last for first, last in ALIKE)


ASSIGNED = "".join(chr(code) for code in range(sys.maxunicode + 1) if is_compared(code))

CLASSES = [
    r"\w", r"\W", r"[\w]", r"[^\w]", r"[\W]", r"[^\W\p{N}]", r"\s", r"\S", r"[\s]", r"\d", r"\D", r"\p{Han}",
    r"\P{Latin}", r"\p{^Greek}", r"[\p{Arabic}\p{Hiragana}]", r"\p{L}", r"\p{Lu}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}",
    r"\p{Z}", r"[[:alpha:]]", r"[[:alnum:]]", r"[[:digit:]]", r"[[:lower:]]", r"[[:upper:]]", r"[[:punct:]]",
    r"[[:space:]]", r"[[:word:]]", r"[[:blank:]]", r"[[:cntrl:]]", r"[[:xdigit:]]", r"[[:ascii:]]", r"[[:^alpha:]]",
]  # fmt: skip

# Letters to the newer Unicode of theirs alone.
NEWER = {*range(0x363, 0x370), 0xC04, 0xF82, 0xF83, *range(0x1DD3, 0x1DE7), 0x11080, 0x11081, 0x10FC,
         *range(0xA7F2, 0xA7F5), 0xAB69}  # fmt: skip

SYNTAX = [
    (r"\b.", "हि न a-b ² a²b ½"), (r"\B.", "abि c"), (r"\w+", "हिन्दी, e\u0301"), (r"[^\W_]+", "aि_-"),
    (r"\d+(?=(?:\d{3})*\b)", "1\ufe0f 12"), (r"^a{,2}$", "aa\na{,2}"), (r"a{,}", "aa{,}"), (r"a{2,3}?", "aaaaa"),
    (r"a{2}?", "aaaa"), (r"a{1,2}+b", "aab aaaab"), (r"x{2}+", "xxxx"), (r"a++b", "aab"), (r"\v", "\x0b\na\u2028"),
    (r"\V", "\x0ba"), (r"\h", "a g"), (r"\R", "a\r\nb\u2028"), (r"\X", "e\u0301a"), (r"[a-c[x-z]]+", "abxyz]["),
    (r"[a-z&&[^b]]", "abc"), (r"[]a]+", "a]b"), (r"[^]b]", "a]b"), (r"[a-]", "a-b"), (r"[\d-a]", "1-a"), (r"\[[\[{}]+", "[[{}"),
    (r"\Qa.b\E", "a.bQE"), (r"(?#c)a", "aca"), (r"a(?#\))+", "aa"), (r"(?x)a b", "ab a b"), (r"a (?x: b )", "a b"),
    (r"(?i:'S|x)y?+", "'sX"), (r"a(?i)b|c", "aBC"), (r"(?m:.)", "a\nb"), (r"(?-m)^a", "a\na"), (r"(?|a|b)", "ab"),
    (r"(?R)?a", "aa"), (r"(?U)a+", "aaa"), (r"(*UTF)a", "a"), (r"(a)\g1", "aag1"), (r"(?<n>a)\k<n>", "aab"), (r"(a)|b\1", "ab"),
    (r"(?<!a|bc)d", "ad bcd d"), (r"(?<=a)b", "abb"), (r"\x{61}+\x41\o{102}", "aAB"), (r"\cA", "\x01a"), (r"\e", "\x1be"),
    (r"\Aa", "aa"), (r"a\z", "aa\n"), (r"a\Z", "aa\n"), (r"a$", "a\nba"), (r"^a", "a\na"), (r".", "\n\ra\u2028\u0085"),
    (r" ?[^(\s|[.,!?])]+", "hello world. foo"), (r"\pL", "aL"), (r"[[:print:]]", "a\u200b\x01"), (r"(?i)k", "kK"),
    (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
     "It's 'ſ a12 \n"),
]  # fmt: skip


def document(pattern, text):
    vocabulary = {character: i for i, character in enumerate(sorted(set(text)))}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": False},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }


def left_by_theirs(text):
    """Ids of what stays; none: they refuse the pattern."""
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception:  # theirs is no narrower
        return None
    return lambda content: tokenizer.encode(content).ids


def left_by_ours(millrace, folder, content):
    """Ids of what stays, and the error where the pattern is refused."""
    done = subprocess.run(
        [millrace, "tokenize", folder, "--jsonl"], input=json.dumps(content), capture_output=True, text=True, check=False
    )
    return (json.loads(done.stdout), "") if done.returncode == 0 else (None, done.stderr.strip())


def compare(millrace, pattern, content, may_refuse):
    """What differs, in a line; empty: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(document(pattern, content))
        pathlib.Path(folder, "tokenizer.json").write_text(text)
        ours, error = left_by_ours(millrace, folder, content)
        encode = left_by_theirs(text)
    if ours is None:
        return "" if encode is None or (may_refuse and "which is not offered" in error) else f"refused: {error}"
    if encode is None:
        return "theirs refuse it"
    theirs = encode(content)
    if ours == theirs:
        return ""
    characters = sorted(set(content))
    differing = [characters[i] for i in sorted(set(ours) ^ set(theirs)) if ord(characters[i]) not in NEWER]
    if not differing and not may_refuse:
        return ""
    return f"{len(differing)} characters: " + " ".join(f"U+{ord(c):04X}" for c in differing[:8])


def main():
    millrace = sys.argv[1]
    cases = [(pattern, ASSIGNED, False) for pattern in CLASSES] + [(*case, True) for case in SYNTAX]
    failures = 0
    for pattern, content, may_refuse in cases:
        difference = compare(millrace, pattern, content, may_refuse)
        if difference:
            failures += 1
            print(f"{pattern!r}: {difference}")
    print(f"{len(cases) - failures} of {len(cases)} patterns find the same ({len(ASSIGNED):,} characters)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
