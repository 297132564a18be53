#!/usr/bin/env python3
"""clang-tidy on source files, all processors at once; a file that passed before, and has not changed since, is passed over.

    tools/tidy.py BUILD_FOLDER FILE...

What a file is: what clang's preprocessor makes of it, comments (of which clang-tidy reads some) and headers included; and the checks
asked for, and the version. What passed is kept as empty files in the user's cache folder (fetch_packages.py), 60 days long.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

import fetch_packages

DAYS_KEPT = 60


def commands_of(build_folder: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """By file, the compiler's arguments for it, without the compiler, ccache before it and the output."""
    commands = {}
    for entry in json.loads((build_folder / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        compiler = max(i for i, word in enumerate(words) if os.path.basename(word) in ("c++", "g++", "clang++"))
        arguments = words[compiler + 1:words.index("-o")]
        commands[pathlib.Path(entry["file"]).resolve()] = arguments
    return commands


def digest_of(file: pathlib.Path, arguments: list[str], base: bytes) -> str | None:
    """Names the file's content; None where clang cannot even preprocess it, which clang-tidy then reports."""
    text = subprocess.run(["clang++", *arguments, "-w", "-E", "-P", "-C", str(file)], capture_output=True)
    if text.returncode != 0:
        return None
    return hashlib.sha256(base + str(file.name).encode() + text.stdout).hexdigest()


def check(file: pathlib.Path, arguments: list[str], build_folder: pathlib.Path, passed: pathlib.Path, base: bytes) -> str:
    """What clang-tidy finds, "" for nothing."""
    digest = digest_of(file, arguments, base)
    if digest and (passed / digest).exists():
        (passed / digest).touch()
        return ""
    result = subprocess.run(["clang-tidy", "-p", str(build_folder), "--quiet", str(file)], capture_output=True, text=True)
    if result.returncode != 0:
        return result.stdout or result.stderr
    if digest:
        (passed / digest).touch()
    return ""


def main() -> int:
    build_folder, *names = map(pathlib.Path, sys.argv[1:])
    passed = fetch_packages.cache_folder() / "tidy"
    passed.mkdir(parents=True, exist_ok=True)
    base = subprocess.check_output(["clang-tidy", "--version"]) + pathlib.Path(".clang-tidy").read_bytes()
    commands = commands_of(build_folder)
    found = False
    files = [name.resolve() for name in names]
    for file in files:
        if file not in commands:
            print(f"tidy: {build_folder} does not build {file}; configure it again", file=sys.stderr)
            return 2
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text in pool.map(lambda file: check(file, commands[file], build_folder, passed, base), files):
            if text:
                found = True
                print(text, flush=True)
    for file in passed.iterdir():
        if file.stat().st_mtime < time.time() - DAYS_KEPT * 86400:
            file.unlink(missing_ok=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
