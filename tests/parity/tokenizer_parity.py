"""Compares millrace's tokenizer with Hugging Face `tokenizers`, string by string.

Usage: python tests/parity/tokenizer_parity.py MILLRACE ROOT [ROOT...] [--strings N] [--seed S]

MILLRACE is the millrace binary; every tokenizer.json below each ROOT is compared, over N seeded
strings each: their ids (`millrace tokenize DIR --jsonl`), the text of those ids, and the text of
random ids (`millrace detokenize DIR --jsonl [--skip-special-tokens]`).
Needs: the PyPI package `tokenizers` (written against 0.23.3). Exit code 0: no difference.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys

import tokenizers

SHOWN_PER_CHECK = 5

WORDS = (
    "the of and to in is that it was for on are with as I his they be at one have this from "
    "don't can't we'll they've I'm you're he'd it's DON'T Can'T WE'LL THEY'VE i'M YOU'RE "
    "rock'n'roll o'clock 'tis ''s don\u2019t we\u2019ll 'S 'T 'RE 'Ve '\u017f I'\u017f "
    "transformer tokenization antidisestablishmentarianism Donaudampfschiff straße naïve façade"
).split()
CODE = [
    "def f(x: int) -> str:\n    return f'{x!r}'\n",
    "for (int i = 0; i < n; ++i) {\n\t\ta[i] += b[i] * 0x1F;\r\n\t}\r\n",
    "#include <vector>\n\nint main() { return 0; }\n",
    "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
    '<div class="a">&nbsp;</div><!-- c -->',
    "\\frac{\\partial f}{\\partial x} = \\sum_{i=0}^{\\infty} a_i",
    "https://example.com/a/b?c=d&e=%20f#g",
    "user@example.com",
    '{"k": [1, 2.5e-3, null]}',
    "$ ls -la | grep '^d' && echo \"$HOME\" > /dev/null 2>&1",
    "a/b\\c",
    "x**2//3",
    "....",
    "---",
]
EMOJI = [
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f1e9\U0001f1ea",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u2764\ufe0f",
    "\U0001f44d\U0001f3fd",
    "1\ufe0f\u20e3",
    "\U0001f9d1\U0001f3ff\u200d\U0001f680",
]
SPACES = [
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    " \n",
    "\n ",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\u2028",
    "\u2029",
    "\u0085",
    "\u200b",
    "\u180e",
    "\u1680",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1f",
    "\ufeff",
    "\u202f",
    "\u205f",
    "        ",
    "\t\t\t",
]
SCRIPTS = {
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F)],
    "hebrew": [(0x591, 0x5F4)],
    "arabic": [(0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)],
    "devanagari": [(0x900, 0x97F)],
    "bengali": [(0x980, 0x9FF)],
    "tamil": [(0xB80, 0xBFF)],
    "thai": [(0xE00, 0xE7F)],
    "tibetan": [(0xF00, 0xFFF)],
    "myanmar": [(0x1000, 0x109F)],
    "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97C)],
    "kana": [(0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF00, 0xFFEF)],
    "han": [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)],
    "marks": [(0x300, 0x36F), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x41, 0x5A)],
    "symbols": [(0x2000, 0x2BFF), (0x1F300, 0x1FAFF), (0x1D400, 0x1D7FF)],
    "digits": [
        (0x30, 0x39),
        (0x660, 0x669),
        (0x966, 0x96F),
        (0xFF10, 0xFF19),
        (0x2150, 0x218B),
        (0xB2, 0xB9),
        (0x1D7CE, 0x1D7FF),
        (0x11DE0, 0x11DE9),
        (0x16FF4, 0x16FF6),
    ],
    "new": [(0x10000, 0x1FFFF), (0x30000, 0x323AF), (0xE0000, 0xE01EF)],
}


class Generator:
    def __init__(self, seed, added_tokens):
        self.random = random.Random(seed)
        self.added_tokens = added_tokens

    def character(self):
        while True:
            c = self.random.randrange(0x110000)
            if not 0xD800 <= c < 0xE000:
                return chr(c)

    def script(self):
        ranges = self.random.choice(list(SCRIPTS.values()))
        return "".join(
            chr(self.random.randint(*self.random.choice(ranges)))
            for _ in range(self.random.randint(1, 12))
        )

    def digits(self):
        return "".join(self.random.choice("0123456789") for _ in range(self.random.randint(1, 9)))

    def ascii(self):
        return "".join(chr(self.random.randrange(128)) for _ in range(self.random.randint(1, 10)))

    def added(self):
        if not self.added_tokens:
            return ""
        token = self.random.choice(self.added_tokens)
        if self.random.random() < 0.2:
            cut = self.random.randint(0, len(token))
            token = token[:cut] + self.random.choice(["", " ", "<", "|"]) + token[cut:]
        return token

    def word(self):
        word = self.random.choice(WORDS)
        return word + self.random.choice(["", "", ",", ".", "!", "?", ";", ":", "...", "'", '"'])

    def piece(self):
        kind = self.random.random()
        if kind < 0.30:
            return " " + self.word() if self.random.random() < 0.7 else self.word()
        if kind < 0.45:
            return self.script()
        if kind < 0.57:
            return "".join(self.random.choice(SPACES) for _ in range(self.random.randint(1, 4)))
        if kind < 0.63:
            return self.digits()
        if kind < 0.70:
            return self.random.choice(CODE)
        if kind < 0.76:
            return self.random.choice(EMOJI)
        if kind < 0.84:
            return self.added()
        if kind < 0.90:
            return self.ascii()
        return self.character()

    def text(self):
        num_pieces = self.random.choice((0, 1, 1, 2, 3, 4, 6, 8, 12, 20))
        return "".join(self.piece() for _ in range(num_pieces))


def long_texts(generator):
    """A megabyte each: of everything, and of one word without a break."""
    mixed, size = [], 0
    while size < 1_000_000:
        mixed.append(generator.text())
        size += len(mixed[-1].encode())
    letters = "".join(generator.random.choice("abcdefghij") for _ in range(1_000_000))
    return ["".join(mixed), letters, " " * 100_000, "\n" * 100_000, "a" * 100_000]


def every_code_point():
    """Each code point between letters, so that its classes and its normalization show."""
    assigned = [*range(0x32400), *range(0xE0000, 0xE0200), 0xF0000, 0x10FFFF]
    scalars = [chr(c) for c in assigned if not 0xD800 <= c < 0xE000]
    for template in ("%s", "a%s", "a%sb", " %s1", "'%s", "e\u0301%s\u0323"):
        for begin in range(0, len(scalars), 512):
            yield "\n".join(template % c for c in scalars[begin : begin + 512])


def run_lines(command, lines):
    data = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=data.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def compare(self, what, inputs, expected, actual):
        if len(actual) != len(expected):
            print(f"  {what}: {len(actual)} lines out for {len(expected)} in")
            self.failed += len(expected)
            return
        shown = 0
        for given, want, got in zip(inputs, expected, actual):
            if want == got:
                self.passed += 1
                continue
            self.failed += 1
            shown += 1
            if shown <= SHOWN_PER_CHECK:
                print(
                    f"  {what} of {str(given)[:300]!r}\n    expected {str(want)[:300]!r}"
                    f"\n    found    {str(got)[:300]!r}"
                )


def compare_tokenizer(binary, folder, num_strings, seed, tally):
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    added = [t.content for t in reference.get_added_tokens_decoder().values()]
    generator = Generator(f"{seed}/{folder.name}", added)
    texts = [""] + list(every_code_point()) + long_texts(generator)
    texts += [generator.text() for _ in range(num_strings)]
    ids = [reference.encode(text).ids for text in texts]
    tally.compare("ids", texts, ids, run_lines([binary, "tokenize", folder, "--jsonl"], texts))

    id_end = max(reference.get_vocab().values()) + 1
    lists = ids + [
        [generator.random.randrange(id_end) for _ in range(generator.random.randrange(20))]
        for _ in range(num_strings // 4)
    ]
    for skip, flags in ((False, []), (True, ["--skip-special-tokens"])):
        expected = reference.decode_batch(lists, skip_special_tokens=skip)
        actual = run_lines([binary, "detokenize", folder, "--jsonl"] + flags, lists)
        tally.compare(f"text (skip_special_tokens={skip})", lists, expected, actual)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("millrace")
    parser.add_argument("root", nargs="+", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folders = sorted(p.parent for root in args.root for p in root.rglob("tokenizer.json"))
    if not folders:
        print(f"skipped: no tokenizer.json below {', '.join(map(str, args.root))}")
        return 77
    total = Tally()
    for folder in folders:
        tally = Tally()
        print(folder, flush=True)
        compare_tokenizer(args.millrace, folder, args.strings, args.seed, tally)
        print(f"  {tally.passed} passed, {tally.failed} failed", flush=True)
        total.passed += tally.passed
        total.failed += tally.failed
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
