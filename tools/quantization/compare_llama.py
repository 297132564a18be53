#!/usr/bin/env python3
"""Quality of int8 and int4 beside llama.cpp's formats, by llama.cpp's own perplexity tool.

    compare_llama.py --llama-cpp BUILD/bin [--shuffle] [--pad] [--text FILE] [--only REGEX] [--work DIR] [--reuse]

Both engines get one bfloat16 GGUF file and one text, and each is compared with itself in bfloat16: KL divergence over
the tokens of the second half of every 512, mean and 99th percentile, and how often the likeliest token is the same. The
text is made here unless --text names one: the prompts of tests/quality/prompts.txt with the model's greedy answers.
llama.cpp's importance matrix and our calibration read the same text (quality_tool calibration-text).

--shuffle: the default model is made from a Q4_1 file. Its weights are sixteen levels in every 32, which llama.cpp's
formats of 32 weights meet again at the same places: they are given back what was stored, which says nothing about
them. So the residual stream's channels, those between gate and down, and those of each head of v are put into another
order, as any training might have had them: the same function, and blocks of weights that were never rounded together.

--pad: q4_K is for rows of whole 256 weights, and where there are none (most of SmolLM2's have 576) llama-quantize takes
a larger format. So the model gets channels of zeros, 768 instead of 576, and three heads and a KV head of zeros, which
compute nothing: the same function, whose every matrix q4_K can take.

Needs build/release/millrace and build/release/quality_tool, llama-quantize, llama-perplexity and llama-imatrix, and the
Python modules gguf and numpy. Made with gguf 0.19.0.
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys

import gguf
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTEXT = 512
ANSWER_TOKENS = 64

# As llama-quantize spells them; those after / with an importance matrix.
LLAMA_FORMATS = ["Q8_0", "Q4_K_M", "Q4_K_M/imatrix", "Q4_K_S", "Q4_K_S/imatrix", "Q4_K pure", "Q4_K pure/imatrix",
                 "IQ4_NL", "IQ4_NL/imatrix", "Q4_1", "Q4_1/imatrix", "Q4_0", "Q4_0/imatrix"]
OUR_FORMATS = ["int8", "int8/calibrated", "int4", "int4/calibrated"]


def run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nsaid {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


class Shuffle:
    """The order of channels; the identity where nothing is shuffled."""

    def __init__(self, reader: gguf.GGUFReader, is_wanted: bool):
        def of(name: str) -> int:
            return int(reader.fields[f"llama.{name}"].contents())

        random = numpy.random.default_rng(7)

        def order(size: int) -> numpy.ndarray:
            return random.permutation(size) if is_wanted else numpy.arange(size)

        heads, kv_heads = of("attention.head_count"), of("attention.head_count_kv")
        self.hidden = order(of("embedding_length"))
        head_dim = len(self.hidden) // heads
        self.inner = [order(of("feed_forward_length")) for _ in range(of("block_count"))]
        self.value, self.attention = [], []
        for _ in self.inner:
            of_head = [order(head_dim) for _ in range(kv_heads)]
            self.value.append(numpy.concatenate([h * head_dim + of_head[h] for h in range(kv_heads)]))
            self.attention.append(
                numpy.concatenate([h * head_dim + of_head[h * kv_heads // heads] for h in range(heads)]))

    def apply(self, name: str, values: numpy.ndarray) -> numpy.ndarray:
        if name.endswith("norm.weight"):
            return values[self.hidden]
        if name == "token_embd.weight":
            return values[:, self.hidden]
        layer = int(name.split(".")[1])
        kind = name.split(".")[2]
        rows = {"attn_v": self.value[layer], "attn_output": self.hidden, "ffn_gate": self.inner[layer],
                "ffn_up": self.inner[layer], "ffn_down": self.hidden}.get(kind, numpy.arange(values.shape[0]))
        columns = {"attn_output": self.attention[layer], "ffn_down": self.inner[layer]}.get(kind, self.hidden)
        return values[rows][:, columns]


class Padding:
    """Zeros up to whole 256 inputs of every matrix, where is_wanted: as many channels as inputs of attention_out."""

    def __init__(self, reader: gguf.GGUFReader, is_wanted: bool):
        def of(name: str) -> int:
            return int(reader.fields[f"llama.{name}"].contents())

        self.hidden, heads, kv_heads = of("embedding_length"), of("attention.head_count"), of("attention.head_count_kv")
        head_dim = self.hidden // heads
        per_kv_head = heads // kv_heads * head_dim
        kv_heads_new = kv_heads
        while is_wanted and kv_heads_new * per_kv_head % 256:
            kv_heads_new += 1
        self.wide = kv_heads_new * per_kv_head
        assert not is_wanted or of("feed_forward_length") % 256 == 0
        self.kv_wide = kv_heads_new * head_dim
        epsilon = float(reader.fields["llama.attention.layer_norm_rms_epsilon"].contents())
        self.metadata = {
            "llama.embedding_length": self.wide,
            "llama.attention.head_count": self.wide // head_dim,
            "llama.attention.head_count_kv": kv_heads_new,
            # A norm divides by the root of the mean over all channels.
            "llama.attention.layer_norm_rms_epsilon": epsilon * self.hidden / self.wide,
        }

    def apply(self, name: str, values: numpy.ndarray) -> numpy.ndarray:
        if name.endswith("norm.weight"):
            return numpy.pad(values * numpy.sqrt(self.hidden / self.wide), (0, self.wide - self.hidden))
        kind = name.split(".")[-2]
        rows = {"attn_q": self.wide, "attn_k": self.kv_wide, "attn_v": self.kv_wide, "attn_output": self.wide,
                "ffn_down": self.wide}.get(kind, values.shape[0])
        columns = values.shape[1] if kind == "ffn_down" else self.wide
        return numpy.pad(values, ((0, rows - values.shape[0]), (0, columns - values.shape[1])))


def write_bfloat16(model: pathlib.Path, path: pathlib.Path, is_shuffled: bool, is_padded: bool) -> None:
    reader = gguf.GGUFReader(model)
    shuffle = Shuffle(reader, is_shuffled)
    padding = Padding(reader, is_padded)
    writer = gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        item_kind = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, padding.metadata.get(field.name, field.contents()), kind, item_kind)
    for tensor in reader.tensors:
        values = shuffle.apply(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
        values = padding.apply(tensor.name, values)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values.astype(numpy.float32))
            continue
        packed = gguf.quantize(numpy.ascontiguousarray(values), gguf.GGMLQuantizationType.BF16)
        writer.add_tensor(tensor.name, packed, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def greedy_text(millrace: pathlib.Path, model: pathlib.Path, work: pathlib.Path) -> str:
    """Each prompt, and below it what the model answers."""
    prompts = (ROOT / "tests/quality/prompts.txt").read_text().splitlines()
    questions = work / "prompts.jsonl"
    questions.write_text("".join(json.dumps({"messages": [{"role": "user", "content": p}]}) + "\n" for p in prompts))
    answers = subprocess.run([millrace, "generate", model, "--input", questions, "--max-tokens", str(ANSWER_TOKENS),
                              "--temperature", "0", "--json"], capture_output=True, text=True, check=True).stdout
    texts = [json.loads(line) for line in answers.splitlines()]
    assert len(texts) == len(prompts)
    return "\n".join(f"{prompt}\n{answer['text']}\n" for prompt, answer in zip(prompts, texts))


def tokens_of_base(path: pathlib.Path) -> list[list[int]]:
    """The pieces that llama-perplexity read, as its file of the base's logprobs has them."""
    with path.open("rb") as file:
        assert file.read(8) == b"_logits_"
        context, _, num_pieces = struct.unpack("<Iii", file.read(12))
        ids = numpy.frombuffer(file.read(4 * context * num_pieces), dtype="<i4")
    return ids.reshape(num_pieces, context).tolist()


def check_tokens(millrace: pathlib.Path, model: pathlib.Path, text: str, pieces: list[list[int]]) -> None:
    ours = subprocess.run([millrace, "tokenize", model, "--jsonl"], input=json.dumps(text) + "\n", capture_output=True,
                          text=True, check=True).stdout
    ours = json.loads(ours)
    theirs = [token for piece in pieces for token in piece]
    if ours[:len(theirs)] != theirs:
        at = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
        sys.exit(f"token {at} of the text: llama.cpp says {theirs[at]}, millrace {ours[at]}")
    print(f"{len(theirs)} tokens in {len(pieces)} pieces; both tokenizers agree", file=sys.stderr)


def bits_of(path: pathlib.Path) -> tuple[float, float, str]:
    """Bits a weight of the layers' matrices and of the head, and the types of the former."""
    layers, head, kinds = [0, 0], [0, 0], {}
    for tensor in gguf.GGUFReader(path).tensors:
        if len(tensor.shape) < 2:
            continue
        place = head if tensor.name == "token_embd.weight" else layers
        place[0] += int(tensor.n_bytes) * 8
        place[1] += int(tensor.n_elements)
        if place is layers:
            kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + int(tensor.n_elements)
    types = ", ".join(f"{kind} {100 * count / layers[1]:.0f} %" for kind, count in sorted(kinds.items()))
    return layers[0] / layers[1], head[0] / head[1], types


def found(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if not match:
        sys.exit(f"llama-perplexity did not say {pattern}:\n{text[-2000:]}")
    return float(match.group(1))


def row(name: str, bits: str, head: str, kl: float, error: float, p99: float, same: float, perplexity: float) -> str:
    return f"| {name} | {bits} | {head} | {kl:.5f} ± {error:.5f} | {p99:.4f} | {100 * same:.1f} % | {perplexity:.3f} |"


class Comparison:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.work: pathlib.Path = options.work
        self.work.mkdir(parents=True, exist_ok=True)
        self.millrace = ROOT / "build/release/millrace"
        self.tool = ROOT / "build/release/quality_tool"
        self.base = self.work / "base.gguf"
        self.text = self.work / "text.txt"
        self.pieces = self.work / "pieces.json"
        self.logprobs = self.work / "logprobs"
        self.imatrix = self.work / "imatrix.gguf"

    def llama(self, program: str, *arguments: object) -> str:
        return run(self.options.llama_cpp / f"llama-{program}", *arguments)

    def prepare(self) -> None:
        write_bfloat16(self.options.model, self.base, self.options.shuffle, self.options.pad)
        text = self.options.text.read_text() if self.options.text else greedy_text(self.millrace, self.base, self.work)
        self.text.write_text(text)
        said = self.llama("perplexity", "-m", self.base, "-f", self.text, "-c", CONTEXT,
                          "--save-all-logits", self.logprobs)
        pieces = tokens_of_base(self.logprobs)
        check_tokens(self.millrace, self.base, text, pieces)
        self.pieces.write_text(json.dumps(pieces))
        print(f"llama.cpp, bfloat16: perplexity {found(r'Final estimate: PPL = ([0-9.]+)', said)}", file=sys.stderr)
        calibration = self.work / "calibration.txt"
        said = subprocess.run([self.tool, "calibration-text", self.base], capture_output=True, text=True, check=True)
        calibration.write_text(said.stdout)
        self.llama("imatrix", "-m", self.base, "-f", calibration, "-c", CONTEXT, "--parse-special", "-o", self.imatrix)

    def of_llama(self, name: str) -> str:
        kind, _, with_imatrix = name.partition("/")
        kind, _, pure = kind.partition(" ")
        path = self.work / "quantized.gguf"
        flags = ["--imatrix", self.imatrix] if with_imatrix else []
        if pure:  # all of one type, but the head, which is ours too in 8 bits
            flags += ["--pure", "--token-embedding-type", "q8_0"]
        self.llama("quantize", *flags, self.base, path, kind)
        said = self.llama("perplexity", "-m", path, "-c", CONTEXT,
                          "--kl-divergence", "--kl-divergence-base", self.logprobs)
        bits, head, types = bits_of(path)
        label = f"llama.cpp {kind}{' alone' if pure else ''}{', imatrix' if with_imatrix else ''} ({types})"
        path.unlink()
        return row(label, f"{bits:.2f}", f"{head:.2f}", found(r"Mean    KLD:\s+([-0-9.]+)", said),
                   found(r"Mean    KLD:\s+[-0-9.]+ ±\s+([0-9.]+)", said), found(r"99.0%\s+KLD:\s+([0-9.]+)", said),
                   found(r"Same top p:\s+([0-9.]+)", said) / 100, found(r"Mean PPL\(Q\)\s+:\s+([0-9.]+)", said))

    def of_ours(self, name: str) -> str:
        kind, _, calibrated = name.partition("/")
        model = kind
        if calibrated:
            model = self.work / kind
            if model.exists():
                run("rm", "-r", model)
            run(self.millrace, "quantize", self.base, "--to", kind, "-o", model)
        said = json.loads(run(self.tool, "compare", self.base, self.pieces, model))
        layers = said["bits_of_layers"], said["bits_of_head"]
        return row(f"millrace {kind}{', calibrated' if calibrated else ''}", f"{layers[0]:.2f}", f"{layers[1]:.2f}",
                   said["mean_kl"], said["mean_kl_error"], said["p99_kl"], said["same_top"], said["perplexity"])

    def run(self) -> None:
        if not (self.options.reuse and self.imatrix.exists()):
            self.prepare()
        print("| format | bits, layers | bits, head | mean KL | p99 KL | same argmax | perplexity |")
        print("|---|---|---|---|---|---|---|")
        for names, measure in ((OUR_FORMATS, self.of_ours), (LLAMA_FORMATS, self.of_llama)):
            for name in names:
                if re.search(self.options.only, name):
                    print(measure(name), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path, required=True, help="the folder of llama.cpp's programs")
    parser.add_argument("--model", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache/millrace/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--shuffle", action="store_true", help="with channels in another order")
    parser.add_argument("--pad", action="store_true", help="with zeros, so that every matrix can be q4_K")
    parser.add_argument("--text", type=pathlib.Path, help="a text of 1024 tokens at least")
    parser.add_argument("--only", default="", help="formats whose name matches")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/compare_llama", help="where files are kept")
    parser.add_argument("--reuse", action="store_true", help="take model, text and importance matrix that are there")
    Comparison(parser.parse_args()).run()


if __name__ == "__main__":
    main()
