"""vllm.cpp: runs its vllm-bench and reads what it prints.

It has no Qwen2ForCausalLM, and reads GGUF files of Qwen3.5 alone. A Qwen2 is its LlamaForCausalLM but for the biases of q, k
and v, less than a thousandth of the work: --as-llama writes a folder by which it reads the same weights as such.
usage: vllm_cpp_speed.py --as-llama CHECKPOINT OUTPUT
       vllm_cpp_speed.py --self-test; else imported by measure.py
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def as_llama(checkpoint, output):
    """A folder with links to what is in CHECKPOINT, and a config.json of which a qwen2 has become a llama without biases."""
    output.mkdir(parents=True)
    for file in checkpoint.iterdir():
        if file.name != "config.json":
            (output / file.name).symlink_to(file.resolve())
    config = json.loads((checkpoint / "config.json").read_text())
    if config["model_type"] == "qwen2":
        config |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": False}
    (output / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def value(text, label):
    """The number behind a label of vllm-bench's report: 'Mean TPOT (ms):      27.10'."""
    found = re.findall(rf"^{re.escape(label)} +([0-9.]+) *$", text, re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"vllm-bench printed '{label}' {len(found)} times")
    return float(found[0])


def prefill_speed(text):
    """Of one prompt, and not warmed up: weights are copied as they are loaded, and a second prompt takes as long as the first.
    Its prompts are words, a token longer at times than was asked for."""
    return value(text, "Total input tokens:") / (value(text, "Mean TTFT (ms):") / 1000)


def decode_speed(text, batch_size):
    """All prompts are computed in the first step, so that the time per token after it is that of a step of the batch."""
    return batch_size / (value(text, "Mean TPOT (ms):") / 1000)


class VllmCpp:
    """One build, with the model of each format."""

    def __init__(self, name, build, models, threads):
        self.name = name
        self.build = pathlib.Path(build)
        self.models = models  # by format
        self.threads = threads

    def version(self):
        """As the build has it, and the commit where its source is a checkout."""
        header = self.build / "include" / "vllm" / "version.h"
        numbers = re.findall(r"#define VLLM_CPP_VERSION_\w+ (\d+)", header.read_text()) if header.is_file() else []
        cache = self.build / "CMakeCache.txt"
        source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.MULTILINE) if cache.is_file() else None
        said = subprocess.run(["git", "-C", source[1], "rev-parse", "--short", "HEAD"], capture_output=True,
                              text=True).stdout.strip() if source and pathlib.Path(source[1], ".git").exists() else ""
        return " ".join(filter(None, [".".join(numbers), f"({said})" if said else ""])) or "unknown"

    def command(self, case):
        # A few tokens of prompt before a decode, as in worker.py; the first token of the answer comes of the prompt.
        lengths = (case["num_tokens"], 1) if case["phase"] == "prefill" else (4, case["num_tokens"] + 1)
        return [self.build / "examples" / "vllm-bench", "--model", self.models[case["format"]], "--seed", case["seed"],
                "--num-prompts", case["batch_size"], "--concurrency", case["batch_size"], "--input-len", lengths[0],
                "--output-len", lengths[1]]

    def measure(self, case, log):
        command = [str(word) for word in self.command(case)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800,
                              env=os.environ | {"VLLM_CPP_CPU_THREADS": str(self.threads)})
        log.write(f"$ {' '.join(command)}\n{done.stdout}\n{done.stderr}\n")
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        return prefill_speed(done.stdout) if case["phase"] == "prefill" else decode_speed(done.stdout, case["batch_size"])


REPORT = """
============= vllm.cpp Benchmark Result =============
Successful requests:                       1
Total input tokens:                        513
Total generated tokens:                    65
Total token throughput (tok/s):            99.00
-------- Time to First Token --------
Mean TTFT (ms):                            2000.00
Median TTFT (ms):                          2000.00
-------- Time per Output Token (excl. 1st token) --------
Mean TPOT (ms):                            40.00
====================================================
"""


def self_test():
    assert prefill_speed(REPORT) == 256.5
    assert decode_speed(REPORT, 4) == 100.0
    for wrong in ("Mean ITL (ms):", "TTFT (ms):", "Total input tokens"):
        try:
            value(REPORT, wrong)
        except ValueError:
            continue
        raise AssertionError(f"there is no '{wrong}'")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "from").mkdir()
        (folder / "from" / "model.safetensors").write_bytes(b"weights")
        for family, read_as, class_name in (("qwen2", "llama", "LlamaForCausalLM"), ("qwen3", "qwen3", "Qwen3ForCausalLM")):
            config = {"model_type": family, "architectures": [class_name.replace("Llama", "Qwen2")], "hidden_size": 8}
            (folder / "from" / "config.json").write_text(json.dumps(config))
            as_llama(folder / "from", folder / family)
            read = json.loads((folder / family / "config.json").read_text())
            assert (read["model_type"], read["architectures"], read["hidden_size"]) == (read_as, [class_name], 8), read
            assert (folder / family / "model.safetensors").read_bytes() == b"weights"
        build = folder / "build"
        (build / "include" / "vllm").mkdir(parents=True)
        engine = VllmCpp("vllm.cpp", build, {"bf16": "model"}, 2)
        assert engine.version() == "unknown"
        (build / "include" / "vllm" / "version.h").write_text(
            "#define VLLM_CPP_VERSION_MAJOR 0\n#define VLLM_CPP_VERSION_MINOR 2\n#define VLLM_CPP_VERSION_PATCH 1\n")
        assert engine.version() == "0.2.1"
        case = {"format": "bf16", "phase": "decode", "batch_size": 4, "num_tokens": 64, "seed": 1}
        words = [str(word) for word in engine.command(case)]  # 64 steps after the token that the prompt gives
        assert words[words.index("--output-len") + 1] == "65" and words[words.index("--concurrency") + 1] == "4", words
    print("1 passed, 0 failed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 4 and sys.argv[1] == "--as-llama":
        as_llama(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        raise SystemExit("usage: vllm_cpp_speed.py --as-llama CHECKPOINT OUTPUT | --self-test")
