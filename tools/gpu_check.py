#!/usr/bin/env python3
"""Runs what was built for a CUDA device and prints a short table last; `./dev gpu-check` builds it first.

    tools/gpu_check.py BUILD_FOLDER LOG_FOLDER
    tools/gpu_check.py --self-test

Each program's whole output is in LOG_FOLDER. Exit code 1: a test failed, a program did not end well, or there is no CUDA device, in
which case nothing else is run and the table says so.
"""

import contextlib
import dataclasses
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# What runs on the device: GoogleTest programs, and the one that measures.
TESTS = ["cuda_native_test"]
LIMITS = "cuda_limits"
SECONDS_MAX = 240  # a kernel that hangs shall not take the whole check with it


@dataclasses.dataclass(frozen=True)
class Run:
    program: str
    output: str
    ending: str  # "" for a good one
    seconds: float


def run(folder: pathlib.Path, program: str, logs: pathlib.Path) -> Run:
    start = time.monotonic()
    log = logs / f"{program}.log"
    with log.open("w") as file:
        try:
            # A test of what aborts starts its program anew: a forked process has no device.
            arguments = ["--gtest_death_test_style=threadsafe"] if program in TESTS else []
            code = subprocess.run([folder / program, *arguments], stdout=file, stderr=subprocess.STDOUT, timeout=SECONDS_MAX).returncode
            ending = "" if code == 0 else f"signal {-code}" if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            ending = f"stopped after {SECONDS_MAX} s"
        except OSError as error:
            ending = f"did not start: {error.strerror}"
    return Run(program, log.read_text(errors="replace"), ending, time.monotonic() - start)


def counts(output: str) -> tuple[int, int]:
    """Tests that passed and failed, from the lines of each: a program that crashes prints no summary."""
    passed = len(re.findall(r"^\[       OK \] ", output, re.MULTILINE))
    failed = len(set(re.findall(r"^\[  FAILED  \] (\S+) \(\d+ ms\)", output, re.MULTILINE)))
    return passed, failed


def last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def row(done: Run) -> str:
    passed, failed = counts(done.output)
    note = "" if not done.ending or (failed and done.ending == "exit code 1") else f"  {done.ending}: {last_line(done.output)}"
    return f"{done.program:<22} {passed:>6} {failed:>6} {done.seconds:>8.1f}{note}"


def is_good(done: Run) -> bool:
    return not done.ending and counts(done.output)[0] > 0


def table(tests: list[Run], limits: Run) -> str:
    lines = [f"{'test program':<22} {'passed':>6} {'failed':>6} {'seconds':>8}", *map(row, tests)]
    lines += ["", limits.output.strip()] if not limits.ending else ["", f"{limits.program}: {limits.ending}: {last_line(limits.output)}"]
    return "\n".join(lines)


def check(build: pathlib.Path, logs: pathlib.Path) -> int:
    logs.mkdir(parents=True, exist_ok=True)
    limits = run(build, LIMITS, logs)
    missing = re.search(r"no CUDA device: .*", limits.output)
    if missing:
        print(f"{missing.group(0)}\nbuilt and not run: {', '.join([*TESTS, LIMITS])}")
        return 1
    tests = [run(build, program, logs) for program in TESTS]
    print(table(tests, limits))
    return 0 if not limits.ending and all(map(is_good, tests)) else 1


def self_test() -> None:
    passing = "[       OK ] A.B (1 ms)\n[       OK ] A.C (0 ms)\n"
    failing = "[       OK ] A.B (1 ms)\n[  FAILED  ] A.C (2 ms)\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.C\n"
    assert counts(passing) == (2, 0) and counts(failing) == (1, 1)
    assert is_good(Run("a", passing, "", 1.0))
    assert not is_good(Run("a", "", "", 1.0)), "a program without a test shows nothing"
    assert not is_good(Run("a", failing, "exit code 1", 1.0))
    crashed = Run("a", "[       OK ] A.B (1 ms)\nCUDA device failed: x\n", "signal 6", 1.0)
    assert row(crashed) == f"{'a':<22} {1:>6} {0:>6} {1.0:>8.1f}  signal 6: CUDA device failed: x"
    measured = Run("l", "device  X\ncopy 1\n", "", 1.0)
    assert table([Run("a", passing, "", 1.0)], measured).endswith("device  X\ncopy 1")

    def program(folder: pathlib.Path, name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as printed:
        folder = pathlib.Path(name)
        program(folder, LIMITS, "echo 'cuda_limits: no CUDA device: none is there' >&2; exit 1")
        assert check(folder, folder / "logs") == 1
        assert printed.getvalue() == "no CUDA device: none is there\nbuilt and not run: cuda_native_test, cuda_limits\n"
        program(folder, LIMITS, "echo 'device X'")
        program(folder, TESTS[0], "echo '[       OK ] A.B (1 ms)'")
        assert check(folder, folder / "logs") == 0
        program(folder, TESTS[0], "echo '[       OK ] A.B (1 ms)'; kill -ABRT $$")
        assert check(folder, folder / "logs") == 1
        (folder / TESTS[0]).unlink()
        assert check(folder, folder / "logs") == 1
    print("12 passed, 0 failed")


def main(arguments: list[str]) -> None:
    if arguments == ["--self-test"]:
        self_test()
    elif len(arguments) == 2:
        sys.exit(check(pathlib.Path(arguments[0]), pathlib.Path(arguments[1])))
    else:
        sys.exit("usage: gpu_check.py BUILD_FOLDER LOG_FOLDER")


if __name__ == "__main__":
    main(sys.argv[1:])
