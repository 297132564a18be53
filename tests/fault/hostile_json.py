"""Texts that are no JSON, texts that look as if they were none, and good ones spoiled a little."""

import random

# In the place of a request's body: broken inside a string.
LONE_TEXTS = [
    b'{"prompt": "\\ud800"}', b'{"prompt": "\\udc00\\ud800"}', b'{"prompt": "\\ud800\\u0041"}',
    b'{"prompt": "\\ud83d"}', b'{"prompt": "\xff"}', b'{"prompt": "\xc3"}', b'{"prompt": "\xc0\x80"}',
    b'{"prompt": "\xe0\x80\xaf"}', b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\xf4\x90\x80\x80"}',
    b'{"prompt": "\xf8\x88\x80\x80\x80"}', b'{"prompt": "a\nb"}', b'{"prompt": "a\tb"}', b'{"prompt": "a\x00b"}',
    b'{"prompt": "\x1f"}', b'{"prompt": "\\x41"}', b'{"prompt": "\\u00g0"}', b'{"prompt": "\\u12"}',
    b'{"prompt": "\\"}', b'{"prompt": "\\a"}', b'{"prompt": "', b'{"\xff": 1}',
]

# No JSON by RFC 8259, whatever stands around it.
INVALID = [
    b"[", b"]", b"{", b"}", b"[}", b"{]", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1,,2]", b"[,]", b"[1 2]", b"[1]]",
    b"[[1]", b'["a"', b'["a', b"[a]", b"['a']", b'["a" "b"]', b'["a":1]', b"[1:2]", b"[-]", b"[+1]", b"[--1]",
    b"[- 1]", b"[.1]", b"[1.]", b"[1.e1]", b"[1e]", b"[1e+]", b"[1E-]", b"[1ee1]", b"[1e1.5]", b"[01]", b"[-01]",
    b"[00]", b"[0x1]", b"[1_000]", b"[1a]", b"[1 000]", b"[0e]", b"[0.1.2]", b"[Infinity]", b"[-Infinity]", b"[NaN]",
    b"[-NaN]", b"[Inf]", b"[1#INF]", b"[\xef\xbc\x91]", b"[tru]", b"[True]", b"[TRUE]", b"[nul]", b"[nulll]",
    b"[fals]", b"[truefalse]", b"[undefined]", b"{1:1}", b"{a:1}", b"{'a':1}", b'{"a"}', b'{"a":}', b'{"a":1,}',
    b'{"a":1,,"b":2}', b'{,"a":1}', b'{"a" 1}', b'{"a"::1}', b'{"a":1 "b":2}', b'{"a":1;"b":2}', b'{"a",1}',
    b'{"a":1}}', b'{"a":1}#', b'{"a":1}/**/', b'{"a":1}//', b'{:1}', b'{null:1}', b'{[]:1}', b'{"a":"b}', b'{"a":1',
    b'{"a":[}', b'{"a":{]', b'{"a":1}\x00', b'\x00{"a":1}', b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xef\xbb\xbf{}",
    b"\xc2\xa0[]", b"\xe2\x80\xa8[]", b"[\x0b]", b"[\x0c1]", b"[1]\x0c", b'["\x00"]', b'["\x1f"]', b'["\n"]',
    b'["\r"]', b'["\t"]', b'["\\"]', b'["\\x00"]', b'["\\u"]', b'["\\u0"]', b'["\\u00"]', b'["\\u000"]',
    b'["\\u00G0"]', b'["\\U0041"]', b'["\\a"]', b'["\\0"]', b'["\\\'"]', b'["\\ "]', b'["\\\xe2\x82\xac"]',
    b'["\xff"]', b'["\x80"]', b'["\xc0\xaf"]', b'["\xe0\xff"]', b'["\xf0\x80\x80\x80"]', b'["\xed\xbf\xbf"]',
    b'["\xfc\x83\xbf\xbf\xbf\xbf"]', b'["\xe2\x82"]', b"*", b"<a/>", b"abc", b"--1", b"1 1", b"\"", b"'", b"\\",
    b"#!", b"{}{}", b"[][]", b"1,2", b"{\"a\":1}[]", b"[" * 5000, b"{\"a\":" * 5000, b"[" * 50_000 + b"]" * 50_000,
    b'[""', b"[1\n,", b'[1,"', b"{\"a\":1\xff}", b"\xe5[]", b"[\xe5]", b"[1\xe5]", b"[1e1\xe5]",
]

# JSON, though no request: a value of the wrong type, or an object without what a request needs.
VALID = [
    b"[]", b"[ ]", b"\t\r\n []", b"[] \n", b"[1]", b"[-0]", b"[0]", b"[-1]", b"[1.5]", b"[1e5]", b"[1E5]", b"[1e+5]",
    b"[1e-5]", b"[-0.0]", b"[0e1]", b"[0E+1]", b"[123.456e78]", b"[0.1e-7]", b"[1E-300]", b"[true]", b"[false]",
    b"[null]", b'[""]', b'["a"]', b'["\\""]', b'["\\\\"]', b'["\\/"]', b'["\\b\\f\\n\\r\\t"]', b'["\\u0041"]',
    b'["\\u00e9"]', b'["\\u0000"]', b'["\\ud83d\\ude00"]', b'["\\uD834\\uDD1E"]', b'["\xc3\xa9"]',
    b'["\xe2\x82\xac"]', b'["\xf0\x9f\x98\x80"]', b'["\xef\xbf\xbf"]', b'["\xf4\x8f\xbf\xbf"]', b'["\x7f"]',
    b'["\xe2\x80\xa8"]', b'["\xef\xbb\xbf"]', b'["/*a*/"]', b"[[],[[]]]", b"[" * 99 + b"]" * 99, b"{}", b"{ }",
    b'{"a":1}', b'{"a":{"b":[]}}', b'{"":0}', b'{"a\\u0000b":1}', b'{"a":1,"b":2,"c":[1,2,3]}', b'{"\xc3\xa9":1}',
    b'"a"', b'""', b"1", b"-1", b"0.5", b"1e10", b"true", b"false", b"null", b" 1 ",
    b'{"a":"' + b"x" * 10_000 + b'"}', b"[" + b"1," * 10_000 + b"1]", b"[18446744073709551615]",
    b"[-9223372036854775808]", b"[0.3333333333333333333333333333333333]",
]

# RFC 8259 leaves open what is made of these; they are refused one way or the other, and hurt nobody.
OPEN = [
    b"[1e999]", b"[-1e999]", b"[1" + b"0" * 1000 + b"]", b"[0." + b"1" * 1000 + b"]", b"[1e-999]",
    b"[18446744073709551616]", b"[-9223372036854775809]", b"[1e" + b"9" * 100 + b"]", b'{"a":1,"a":2}',
    b'{"a":1,"\\u0061":2}', b'["\\ud800"]', b'["\\udc00"]', b'["\\ud800\\ud800"]', b'["\\ud800x"]',
    b"[" * 100 + b"]" * 100, b"[" * 101 + b"]" * 101, b"[" * 500 + b"]" * 500, b'{"a":' * 200 + b"1" + b"}" * 200,
    b"[1.7976931348623159e308]", b"[5e-324]", b"[-0e-999]",
]


def truncations(body):
    """The body without its end, cut at every byte."""
    return [body[:size] for size in range(len(body))]


def mutants(body, count, seed):
    """The body with a few bytes flipped, taken away, doubled, or replaced by what parsers trip over."""
    draw = random.Random(seed)
    tokens = [b"null", b"-1", b"1e400", b"[]", b"{}", b'"', b"\\ud800", b"9" * 30, b"\x00", b"\xff", b",", b":", b"true"]
    for _ in range(count):
        spoiled = bytearray(body)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(spoiled))
            kind = draw.randrange(4)
            if kind == 0:
                spoiled[at] ^= 1 << draw.randrange(8)
            elif kind == 1:
                del spoiled[at:at + draw.randint(1, 8)]
            elif kind == 2:
                spoiled[at:at] = spoiled[at:at + draw.randint(1, 8)]
            else:
                spoiled[at:at + draw.randint(0, 4)] = draw.choice(tokens)
            if not spoiled:
                break
        yield bytes(spoiled)
