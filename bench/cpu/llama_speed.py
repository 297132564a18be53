"""llama.cpp and ik_llama.cpp: runs llama-bench or llama-batched-bench and reads what they print.

Both print tables whose columns differ between versions, so columns are found by their names.
usage: llama_speed.py --self-test; else imported by measure.py
"""
import pathlib
import subprocess
import sys
import tempfile


def table_rows(text):
    """The rows of markdown tables as dictionaries, with the cells as they stand."""
    rows, names = [], None
    for line in text.splitlines():
        if not line.lstrip().startswith("|"):
            names = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if names is None:
            names = cells
        elif not all(set(cell) <= set("-: ") for cell in cells):
            rows.append(dict(zip(names, cells)))
    return rows


def prefill_or_decode(text):
    """Tokens per second of the one test that llama-bench ran, from its markdown: '74.31 ± 0.80'."""
    rows = [row for row in table_rows(text) if "t/s" in row]
    if len(rows) != 1:
        raise ValueError(f"llama-bench printed {len(rows)} rows")
    return float(rows[0]["t/s"].split("±")[0])


def batched_decode(text, batch_size):
    rows = [row for row in table_rows(text) if row.get("B") == str(batch_size)]
    if len(rows) != 1:
        raise ValueError(f"llama-batched-bench printed {len(rows)} rows for a batch of {batch_size}")
    return float(rows[0]["S_TG t/s"])


class Llama:
    """One of the two, with the GGUF file of each format."""

    def __init__(self, name, build, models, threads, more_flags, batched_flags):
        self.name = name
        self.build = pathlib.Path(build)
        self.models = models  # by format
        self.threads = threads
        self.more_flags = more_flags  # of llama-bench
        self.batched_flags = batched_flags  # of llama-batched-bench, which spells some of them otherwise

    @staticmethod
    def find(build, program):
        for folder in (pathlib.Path(build), pathlib.Path(build) / "bin"):
            if (folder / program).is_file():
                return folder / program
        return None

    def version(self):
        said = subprocess.run([self.find(self.build, "llama-cli") or self.find(self.build, "llama-bench"), "--version"],
                              capture_output=True, text=True, cwd=tempfile.gettempdir())  # where it may write its log
        for line in (said.stdout + said.stderr).splitlines():
            if line.startswith("version:"):
                return line.removeprefix("version:").strip()
        return "unknown"

    def command(self, case):
        model = self.models[case["format"]]
        if case["phase"] == "prefill" or case["batch_size"] == 1:
            lengths = ["-p", case["num_tokens"], "-n", 0] if case["phase"] == "prefill" else ["-p", 0, "-n", case["num_tokens"]]
            return [self.find(self.build, "llama-bench"), "-m", model, "-t", self.threads, "-r", 1, *lengths,
                    *self.more_flags]
        # Prompts of a few tokens, because it wants some; only the decode's speed is read.
        return [self.find(self.build, "llama-batched-bench"), "-m", model, "-t", self.threads, "-c",
                case["batch_size"] * (case["num_tokens"] + 64), "-npp", 16, "-ntg", case["num_tokens"], "-npl",
                case["batch_size"], *self.batched_flags]

    def measure(self, case, log):
        command = [str(word) for word in self.command(case)]
        # ik_llama.cpp leaves a llama.log where it runs.
        folder = pathlib.Path(self.models[case["format"]]).parent
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
        log.write(f"$ {' '.join(command)}\n{done.stdout}\n{done.stderr}\n")
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        if "llama-batched-bench" in command[0]:
            return batched_decode(f"{done.stdout}\n{done.stderr}", case["batch_size"])  # ik_llama.cpp prints to stderr
        return prefill_or_decode(done.stdout)


def self_test():
    bench = """load_backend: loaded
| model            |       size |     params | backend    | threads | fa |            test |                  t/s |
| ---------------- | ---------: | ---------: | ---------- | ------: | -: | --------------: | -------------------: |
| qwen2 1B BF16    | 942.43 MiB |   494.03 M | CPU        |       2 |  1 |            tg64 |         37.31 ± 0.80 |

build: 1234 (5678)
"""
    assert prefill_or_decode(bench) == 37.31
    batched = """main: n_kv_max = 640
|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|    16 |     64 |    4 |    320 |    0.150 |   426.67 |    2.000 |   128.00 |    2.150 |   148.84 |
|    16 |     64 |    8 |    640 |    0.300 |   426.67 |    4.000 |   130.50 |    4.300 |   148.84 |
"""
    assert batched_decode(batched, 4) == 128.0 and batched_decode(batched, 8) == 130.5
    for wrong in (lambda: batched_decode(batched, 2), lambda: prefill_or_decode("nothing")):
        try:
            wrong()
        except ValueError:
            continue
        raise AssertionError("a table without the row is an error")
    print("1 passed, 0 failed")


if __name__ == "__main__" and sys.argv[1:] == ["--self-test"]:
    self_test()
