#!/usr/bin/env python3
"""Encoding speed beside Hugging Face's: the same English text through both, turn by turn, on one core.

    build/venv/bin/python tools/tokenizer_speed.py build/release/millrace TOKENIZER_FOLDER [--rounds N]

The text is Debian's licences, 20 MB in chunks of some 4 KB. millrace is timed as a whole process, JSON lines in and out,
less the same process without input; Hugging Face's tokenizers in this process, the calls of encode() alone.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402


def chunks(num_bytes):
    text = "\n\n".join(path.read_text(errors="replace") for path in sorted(pathlib.Path("/usr/share/common-licenses").iterdir()) if path.is_file())
    pieces = [text[i : i + 4096] for i in range(0, len(text), 4096)]
    return [pieces[i % len(pieces)] for i in range(num_bytes // 4096)]


def seconds_of_millrace(binary, folder, stdin):
    begin = time.perf_counter()
    subprocess.run(["taskset", "-c", "0", binary, "tokenize", folder, "--jsonl"], input=stdin, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("millrace")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    oracle = tokenizers.Tokenizer.from_file(f"{options.folder}/tokenizer.json")
    texts = chunks(20_000_000)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    stdin = "\n".join(map(json.dumps, texts)).encode()
    ours, theirs = [], []
    for _ in range(options.rounds):
        start_up = seconds_of_millrace(options.millrace, options.folder, b"")
        ours.append(megabytes / (seconds_of_millrace(options.millrace, options.folder, stdin) - start_up))
        begin = time.perf_counter()
        for text in texts[: len(texts) // 4]:
            oracle.encode(text)
        theirs.append(megabytes / 4 / (time.perf_counter() - begin))
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(f"{pathlib.Path(options.folder).name}: millrace {mine:.1f} MB/s (JSON in and out included), "
          f"tokenizers {tokenizers.__version__} {other:.1f} MB/s, ratio {mine / other:.1f}; all rounds "
          f"{[round(x, 1) for x in ours]} and {[round(x, 1) for x in theirs]}")


if __name__ == "__main__":
    main()
