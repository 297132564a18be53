"""Writes src/text/unicode_tables.cpp: code point classes as Hugging Face `tokenizers` sees them.

The library mixes several sources of Unicode data (Oniguruma, Rust's core, the regex crate, an old
normalization crate), each of its own Unicode version. So the classes are not taken from a Unicode
file: every code point is put through the library, and the answer is the table. Code points whose
normalization differs between the library and utf8proc (they are younger than the library's data)
are listed as inert: they neither decompose, compose nor reorder.

Usage: python tools/goldens/tokenizer_unicode.py > src/text/unicode_tables.cpp
Needs: tokenizers, and the libutf8proc.so.2 that millrace links.
"""

import ctypes
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, CODE_POINTS))
LETTER, NUMBER, SPACE, MARK, NUMERIC, WORD, PUNCTUATION, NFC_SAFE = (1 << i for i in range(8))

utf8proc = ctypes.CDLL("libutf8proc.so.2")
utf8proc.utf8proc_map.restype = ctypes.c_ssize_t
utf8proc.utf8proc_get_property.restype = ctypes.c_void_p
utf8proc.utf8proc_unicode_version.restype = ctypes.c_char_p
libc = ctypes.CDLL(None)
STABLE, COMPAT, COMPOSE, DECOMPOSE = 2, 4, 8, 16
FORMS = {
    "NFC": STABLE | COMPOSE,
    "NFD": STABLE | DECOMPOSE,
    "NFKC": STABLE | COMPOSE | COMPAT,
    "NFKD": STABLE | DECOMPOSE | COMPAT,
}
REFERENCE = {form: getattr(normalizers, form)() for form in FORMS}


def normalized(form, text):
    data, out = text.encode(), ctypes.c_void_p()
    size = utf8proc.utf8proc_map(data, ctypes.c_ssize_t(len(data)), ctypes.byref(out), FORMS[form])
    assert size >= 0
    result = ctypes.string_at(out, size).decode()
    libc.free(out)
    return result


def combining_class(code_point):
    property_address = utf8proc.utf8proc_get_property(code_point)
    return (ctypes.c_int16 * 2).from_address(property_address)[1]


def runs_matching(regex):
    """Code points of which `regex+` finds runs."""
    splitter = pre_tokenizers.Split(Regex(regex), "removed", invert=True)
    return {c for _, (a, b) in splitter.pre_tokenize_str(TEXT) for c in CODE_POINTS[a:b]}


def separated(pre_tokenizer, neighbour):
    """Code points that `pre_tokenizer` splits from `neighbour`."""
    text = "".join(neighbour + c for c in TEXT)
    pieces = pre_tokenizer.pre_tokenize_str(text)
    return {ord(c) for piece, _ in pieces for c in piece if neighbour not in piece}


def composing_pairs():
    firsts, seconds = set(), set()
    for c in CODE_POINTS:
        decomposed = normalized("NFD", chr(c))
        if len(decomposed) > 1:
            firsts.update(decomposed[:-1])
            seconds.update(decomposed[1:])
    seconds -= {chr(c) for c in range(0xAC00, 0xD7A4)}
    return firsts, seconds


def inert_code_points(firsts, seconds):
    inert = set()
    for form in FORMS:
        for template in ("%s", "a\u0345%s", "a%s\u0334", "e%s\u0323", "a%s\u0327\u0301"):
            for c in CODE_POINTS:
                text = template % chr(c)
                if normalized(form, text) != REFERENCE[form].normalize_str(text):
                    inert.add(c)
    for a in firsts:
        for b in seconds:
            if normalized("NFC", a + b) != REFERENCE["NFC"].normalize_str(a + b):
                inert.update((ord(a), ord(b)))
    return inert


def lowercase_exceptions(lower):
    """Code points that utf8proc lowers otherwise than the library, with the library's answer."""
    return [
        (c, lower(chr(c)))
        for c in CODE_POINTS
        if lower(chr(c)) != chr(utf8proc.utf8proc_tolower(c))
    ]


def ranges(code_points):
    result = []
    for c in sorted(code_points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def lines(items, width=96):
    row, rows = "", []
    for item in items:
        if row and len(row) + len(item) + 2 > width:
            rows.append(row)
            row = ""
        row += (" " if row else "") + item + ","
    return rows + [row]


def main():
    firsts, seconds = composing_pairs()
    inert = inert_code_points(firsts, seconds)
    classes = {c: 0 for c in CODE_POINTS}
    spaces = runs_matching(r"\s+")
    # Rust's idea of white space has to be the same; the table holds one bit for both.
    without = pre_tokenizers.WhitespaceSplit().pre_tokenize_str(TEXT)
    assert spaces == set(CODE_POINTS) - {c for _, (a, b) in without for c in CODE_POINTS[a:b]}
    members = {
        LETTER: runs_matching(r"\p{L}+"),
        NUMBER: runs_matching(r"\p{N}+"),
        SPACE: spaces,
        MARK: runs_matching(r"\p{M}+"),
        NUMERIC: separated(pre_tokenizers.Digits(individual_digits=True), "a"),
        WORD: separated(pre_tokenizers.Whitespace(), "!"),
        PUNCTUATION: separated(pre_tokenizers.Punctuation("isolated"), "a"),
        NFC_SAFE: {
            c
            for c in CODE_POINTS
            if c in inert
            or (
                combining_class(c) == 0
                and normalized("NFC", chr(c)) == chr(c)
                and chr(c) not in seconds
                and not 0x1160 <= c <= 0x11FF  # Hangul vowels and final consonants compose
            )
        },
    }
    for bit, found in members.items():
        for c in found:
            classes[c] |= bit
    runs, previous = [], None
    for c in range(0x110000):
        value = classes.get(c, 0)
        if value != previous:
            runs.append((c, value))
            previous = value

    version = utf8proc.utf8proc_unicode_version().decode()
    print("// Code point classes; generated by tools/goldens/tokenizer_unicode.py from tokenizers")
    print(f"// {tokenizers.__version__} and utf8proc for Unicode {version}. Do not edit.")
    print('#include "text/unicode_tables.h"\n\nnamespace millrace::unicode_tables {\n')
    print("// clang-format off")
    print("namespace {\n")
    print("constexpr uint32_t kClassRunData[] = {")
    print("\n".join(lines(f"0x{c << 8 | v:x}" for c, v in runs)))
    print("};\n\nconstexpr InertRange kInertData[] = {")
    print("\n".join(lines(f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(inert))))
    print("};\n\nconstexpr LowercaseException kLowercaseData[] = {")
    exceptions = lowercase_exceptions(normalizers.Lowercase().normalize_str)
    pairs = [(c, [ord(x) for x in text] + [0]) for c, text in exceptions]
    print("\n".join(lines(f"{{0x{c:x}, 0x{t[0]:x}, 0x{t[1]:x}}}" for c, t in pairs)))
    print("};\n\n}  // namespace\n// clang-format on\n")
    print("std::span<const uint32_t> class_runs() { return kClassRunData; }")
    print("std::span<const InertRange> inert_ranges() { return kInertData; }")
    print("std::span<const LowercaseException> lowercase_exceptions() { return kLowercaseData; }")
    print("\n}  // namespace millrace::unicode_tables")


if __name__ == "__main__":
    main()
