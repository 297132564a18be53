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

# What runs on the device: GoogleTest programs, the one that measures its limits, and models of made-up weights.
TESTS = ["cuda_native_test"]
LIMITS = "cuda_limits"
MILLRACE = "millrace"
MODELS = ["Qwen2-0.5B", "Qwen2-7B"]
SPEED_FLAGS = ["--device", "cuda", "--load-format", "dummy", "--dtype", "bfloat16", "--prompt-len", "1024", "--output-len", "32",
               "--batch-size", "1,8", "--repetitions", "3"]
SECONDS_MAX = 240  # a kernel that hangs shall not take the whole check with it


@dataclasses.dataclass(frozen=True)
class Run:
    program: str  # or what it ran
    output: str
    ending: str  # "" for a good one
    seconds: float


def run(folder: pathlib.Path, program: str, logs: pathlib.Path, arguments: tuple[str, ...] = (), name: str = "") -> Run:
    start = time.monotonic()
    log = logs / f"{name or program}.log"
    with log.open("w") as file:
        try:
            command = [folder / program, *arguments]
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=SECONDS_MAX).returncode
            ending = "" if code == 0 else f"signal {-code}" if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            ending = f"stopped after {SECONDS_MAX} s"
        except OSError as error:
            ending = f"did not start: {error.strerror}"
    return Run(name or program, log.read_text(errors="replace"), ending, time.monotonic() - start)


def test(folder: pathlib.Path, program: str, logs: pathlib.Path) -> Run:
    # A test of what aborts starts its program anew: a forked process has no device.
    return run(folder, program, logs, ("--gtest_death_test_style=threadsafe",))


def measure(folder: pathlib.Path, model: str, logs: pathlib.Path) -> Run:
    config = pathlib.Path(__file__).resolve().parent.parent / "configs" / model
    return run(folder, MILLRACE, logs, ("bench", "engine", str(config), *SPEED_FLAGS), model)


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


def speeds(done: Run) -> list[str]:
    """The table that `millrace bench engine` printed, under the model's name."""
    if done.ending:
        return [f"{done.program}: {done.ending}: {last_line(done.output)}"]
    return [done.program, *(line for line in done.output.splitlines() if line.startswith("|"))]


def is_good(done: Run) -> bool:
    return not done.ending and counts(done.output)[0] > 0


def table(tests: list[Run], limits: Run, models: list[Run]) -> str:
    lines = [f"{'test program':<22} {'passed':>6} {'failed':>6} {'seconds':>8}", *map(row, tests)]
    lines += ["", limits.output.strip()] if not limits.ending else ["", f"{limits.program}: {limits.ending}: {last_line(limits.output)}"]
    for done in models:
        lines += ["", *speeds(done)]
    return "\n".join(lines)


def check(build: pathlib.Path, logs: pathlib.Path) -> int:
    logs.mkdir(parents=True, exist_ok=True)
    limits = run(build, LIMITS, logs)
    missing = re.search(r"no CUDA device: .*", limits.output)
    if missing:
        print(f"{missing.group(0)}\nbuilt and not run: {', '.join([*TESTS, LIMITS, MILLRACE])}")
        return 1
    tests = [test(build, program, logs) for program in TESTS]
    models = [measure(build, model, logs) for model in MODELS]
    print(table(tests, limits, models))
    return 0 if all(map(is_good, tests)) and not any(done.ending for done in [limits, *models]) else 1


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
    speed = Run("M", "M: bfloat16\n\n| phase |\n| decode |\nGPU memory\n", "", 1.0)
    printed_table = table([Run("a", passing, "", 1.0)], measured, [speed])
    assert printed_table.endswith("device  X\ncopy 1\n\nM\n| phase |\n| decode |")
    assert speeds(Run("M", "no memory\n", "exit code 1", 1.0)) == ["M: exit code 1: no memory"]

    def program(folder: pathlib.Path, name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as printed:
        folder = pathlib.Path(name)
        program(folder, LIMITS, "echo 'cuda_limits: no CUDA device: none is there' >&2; exit 1")
        assert check(folder, folder / "logs") == 1
        assert printed.getvalue() == "no CUDA device: none is there\nbuilt and not run: cuda_native_test, cuda_limits, millrace\n"
        program(folder, LIMITS, "echo 'device X'")
        program(folder, TESTS[0], '[ "$1" = --gtest_death_test_style=threadsafe ] && echo "[       OK ] A.B (1 ms)"')
        program(folder, MILLRACE, 'echo "| $1 $2 $(basename "$3") |"')
        assert check(folder, folder / "logs") == 0
        assert printed.getvalue().endswith("Qwen2-0.5B\n| bench engine Qwen2-0.5B |\n\nQwen2-7B\n| bench engine Qwen2-7B |\n")
        program(folder, MILLRACE, "exit 1")
        assert check(folder, folder / "logs") == 1
        program(folder, MILLRACE, "echo '| |'")
        program(folder, TESTS[0], "echo '[       OK ] A.B (1 ms)'; kill -ABRT $$")
        assert check(folder, folder / "logs") == 1
        (folder / TESTS[0]).unlink()
        assert check(folder, folder / "logs") == 1
    print("14 passed, 0 failed")


def main(arguments: list[str]) -> None:
    if arguments == ["--self-test"]:
        self_test()
    elif len(arguments) == 2:
        sys.exit(check(pathlib.Path(arguments[0]), pathlib.Path(arguments[1])))
    else:
        sys.exit("usage: gpu_check.py BUILD_FOLDER LOG_FOLDER")


if __name__ == "__main__":
    main(sys.argv[1:])
