#!/usr/bin/env python3
"""What a format of weights and activations costs in quality, simulated in float32 before a kernel is written.

    simulate.py SMOLLM2_GGUF ANSWERS [--only REGEX] [--chats N] [--threads N]

ANSWERS is tests/golden/greedy/smollm2.json: 20 chats with their greedy answers. The base has bfloat16 weights and
bfloat16 inputs of every matrix; a format replaces both in the matrices it names. One line a format: weight bits,
mean, 99th percentile and largest KL(base || format) over the answers' tokens, how many of them would have been
chosen otherwise, the perplexity of the answers, and the first words after "What is the capital of France?".
Made with transformers 5.23.0, torch 2.15.0 (CPU), gguf 0.19.0, numpy 2.
"""

import argparse
import dataclasses
import functools
import json
import math
import pathlib
import re
import time

import torch
import transformers

KINDS = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "o_proj": "o", "gate_proj": "gate_up", "up_proj": "gate_up",
         "down_proj": "down", "lm_head": "head"}


@dataclasses.dataclass(frozen=True)
class Format:
    """How one kind of matrix is kept and multiplied."""

    weights: str = "bf16"  # bf16, int8, int4 (linear), code4 (16-entry codebook), q4_K
    group: int = 0  # inputs that share a weight scale; 0: the whole row
    scale: str = "f16"  # of a group: f16, or u8 times a float of the row
    rotation: int = 0  # inputs of a block of the Hadamard transform; 0: none, -1: the largest power of two that divides K
    signs: bool = False  # pseudo-random signs before the transform
    activations: str = "bf16"  # f32, bf16, int8, two (two int8 terms)
    activation_group: int = 64  # 0: the whole row
    smooth: str = ""  # inputs divided and weights multiplied by s, s^2 = sqrt(E x^2 / E w^2) before the rotation;
    # E x^2 from "chats" (others than those measured), "random" tokens, or without data the squares of the "norm" before


@functools.cache
def hadamard_matrix(size):
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < size:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)), 0)
    return matrix / math.sqrt(size)


def hadamard(x, size):
    """Orthonormal Walsh-Hadamard transform of each block of `size` along the last dimension."""
    return (x.reshape(-1, size) @ hadamard_matrix(size)).reshape(x.shape)


def rotate(x, fmt):
    if fmt.rotation == 0:
        return x
    columns = x.shape[-1]
    if fmt.signs:
        generator = torch.Generator().manual_seed(columns)
        x = x * (torch.randint(0, 2, (columns,), generator=generator) * 2.0 - 1.0)
    return hadamard(x, columns & -columns if fmt.rotation < 0 else fmt.rotation)


def grouped(x, group):
    return x.reshape(*x.shape[:-1], -1, group or x.shape[-1])


def round_bf16(x):
    return x.to(torch.bfloat16).float()


def round_activations(x, fmt):
    if fmt.activations == "f32":
        return x
    if fmt.activations == "bf16":
        return round_bf16(x)
    groups = grouped(x, fmt.activation_group)
    scale = (groups.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-30)
    if fmt.activations == "int8":
        return (torch.round(groups / scale) * scale).reshape(x.shape)
    return (torch.round(groups / scale * 256) / 256 * scale).reshape(x.shape)


def keep_scales(scales, kind):
    """scales [rows, groups, 1] as they are stored."""
    if kind == "f16":
        return scales.to(torch.float16).float()
    if kind == "f32":
        return scales
    levels = 127 if (scales < 0).any() else 255
    unit = scales.abs().amax(1, keepdim=True) / levels
    return torch.where(scales < 0, -1.0, 1.0) * torch.round(scales.abs() / unit).clamp_min(1) * unit


def nearest(groups, codebook):
    """The codebook's entry for each value."""
    middles = (codebook[1:] + codebook[:-1]) / 2
    return codebook[torch.bucketize(groups, middles)]


def fit_to_codebook(groups, codebook, scale_kind, num_steps=8):
    """Dequantized groups: for each the scale of the smallest squared error among some candidates of both signs, then
    least squares for the entries it chose."""
    peak = groups.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    best_error = torch.full_like(peak, math.inf)
    best_scale = torch.ones_like(peak)
    for end in (codebook[-1] - codebook[0]) / 2 * torch.ones(1):
        for step in range(num_steps):
            scale = peak / end * (0.72 + 0.36 * step / (num_steps - 1))
            chosen = nearest(groups / scale, codebook)
            scale = (groups * chosen).sum(-1, keepdim=True) / (chosen * chosen).sum(-1, keepdim=True).clamp_min(1e-30)
            error = (groups - scale * chosen).square().sum(-1, keepdim=True)
            better = error < best_error
            best_error = torch.where(better, error, best_error)
            best_scale = torch.where(better, scale, best_scale)
    scale = keep_scales(best_scale, scale_kind)
    return nearest(groups / scale, codebook) * scale


def gaussian_codebook(group, signs=(1.0,)):
    """Lloyd's algorithm on Gaussian groups with the scale search above: 16 integers in -127 .. 127."""
    values = torch.randn(4096, group or 512, generator=torch.Generator().manual_seed(1))
    codebook = torch.linspace(-1, 1 if len(signs) == 1 else 0.9, 16)
    for _ in range(12):
        peak = values.abs().amax(-1, keepdim=True)
        best_error, best_chosen, best_scale = torch.full_like(peak, math.inf), None, None
        for sign in signs:
            for step in range(8):
                scale = sign * peak * (0.72 + 0.36 * step / 7)
                index = torch.bucketize(values / scale, (codebook[1:] + codebook[:-1]) / 2)
                chosen = codebook[index]
                scale = (values * chosen).sum(-1, keepdim=True) / (chosen * chosen).sum(-1, keepdim=True)
                error = (values - scale * chosen).square().sum(-1, keepdim=True)
                better = error < best_error
                best_chosen = index if best_chosen is None else torch.where(better, index, best_chosen)
                best_scale = scale if best_scale is None else torch.where(better, scale, best_scale)
                best_error = torch.where(better, error, best_error)
        # Entry = least squares over its members: sum(s x) / sum(s^2).
        top = torch.zeros(16).index_add_(0, best_chosen.flatten(), (best_scale * values).flatten())
        bottom = torch.zeros(16).index_add_(0, best_chosen.flatten(), best_scale.square().expand_as(values).flatten())
        codebook = (top / bottom.clamp_min(1e-30)).sort().values
        codebook = codebook / codebook.abs().max()
    mse = (best_error / values.shape[1]).mean().item()
    return torch.round(codebook * 127), mse


def integer_codebook(most, group=64):
    """Of gaussian_codebook() in fewer integers, -most .. most, and both signs alike: its entries at the size that rounds
    them best, then each moved by one where that helps."""
    values = torch.randn(1, 8000 * group, generator=torch.Generator().manual_seed(2)).reshape(500, 16, group)

    def error(codebook):
        return (values - fit_to_codebook(values, codebook, "u8")).square().mean().item()

    exact = gaussian_codebook(group)[0] / 127
    half = (exact[8:] - exact[:8].flip(0)) / 2
    halves = [torch.round(half * size / 4) for size in range(3 * most, 4 * most + 1)]
    sized = [torch.cat((-upper.flip(0), upper)) for upper in halves]
    sized = [codebook for codebook in sized if codebook.unique().numel() == 16]
    best = min(sized, key=error)
    least = error(best)
    improved = True
    while improved:
        improved = False
        for entry in range(8):
            for step in (-1, 1):
                moved = best.clone()
                moved[entry] += step
                moved[15 - entry] -= step
                if moved.abs().max() > most or moved.unique().numel() < 16:
                    continue
                found = error(moved)
                if found < least:
                    best, least, improved = moved, found, True
    return best, least


def quantize_q4_k(w):
    """As llama.cpp's q4_K: 32 weights share a 6-bit scale and a 6-bit minimum, super-blocks of 256 (of 192 where K is
    no multiple of 256) share their float16 units; scales found by a search with weights |x| + rms."""
    super_block = 256 if w.shape[1] % 256 == 0 else 192
    groups = grouped(w, 32)
    low = groups.amin(-1, keepdim=True).clamp_max(0)
    high = groups.amax(-1, keepdim=True)
    importance = groups.square().mean(-1, keepdim=True).sqrt() + groups.abs()
    best = torch.full_like(low, math.inf)
    best_scale, best_low = (high - low) / 15, low
    for step in range(-1, 21):
        inverse = (15 if step < 0 else 14 + 0.1 * step) / (high - low).clamp_min(1e-30)
        index = torch.round(inverse * (groups - low)).clamp(0, 15)
        sum_w, sum_l, sum_ll = importance.sum(-1, True), (importance * index).sum(-1, True), (importance * index * index).sum(-1, True)
        sum_x, sum_xl = (importance * groups).sum(-1, True), (importance * groups * index).sum(-1, True)
        det = sum_w * sum_ll - sum_l * sum_l
        scale = (sum_w * sum_xl - sum_x * sum_l) / det.clamp_min(1e-30)
        least = (sum_ll * sum_x - sum_l * sum_xl) / det.clamp_min(1e-30)
        scale, least = torch.where(least > 0, sum_xl / sum_ll.clamp_min(1e-30), scale), least.clamp_max(0)
        error = (importance * (scale * index + least - groups).square()).sum(-1, True)
        better = (error < best) & (det > 0)
        best, best_scale, best_low = torch.where(better, error, best), torch.where(better, scale, best_scale), torch.where(better, least, best_low)

    def six_bits(values):
        blocks = values.reshape(w.shape[0], -1, super_block // 32)
        unit = (blocks.amax(-1, keepdim=True) / 63).to(torch.float16).float().clamp_min(1e-8)
        return (torch.round(blocks / unit).clamp(0, 63) * unit).reshape(values.shape)

    scale, least = six_bits(best_scale), -six_bits(-best_low)
    index = torch.round((groups - least) / scale.clamp_min(1e-30)).clamp(0, 15)
    return (scale * index + least).reshape(w.shape), 4 + 12 / 32 + 32 / super_block


CODEBOOKS = {}


def quantize_weights(w, fmt):
    """(dequantized, bits a weight); `w` is rotated already."""
    if fmt.weights == "bf16":
        return w, 16.0
    if fmt.weights == "q4_K":
        return quantize_q4_k(w)
    groups = grouped(w, fmt.group)
    scale_bits = {"f16": 16, "f32": 32, "u8": 8}[fmt.scale] / groups.shape[-1] + (32 / w.shape[1] if fmt.scale == "u8" else 0)
    if fmt.weights == "int8":
        peak = groups.abs().amax(-1, keepdim=True).clamp_min(1e-30)
        scale = peak / 127
        if fmt.scale == "u8":  # rounded up, so that nothing is clipped
            unit = scale.amax(1, keepdim=True) / 255
            scale = torch.ceil(scale / unit * (1 - 1e-6)) * unit
        elif fmt.scale == "f16":
            scale = scale.to(torch.float16).float()
        return (torch.round(groups / scale).clamp(-127, 127) * scale).reshape(w.shape), 8 + scale_bits
    if fmt.weights == "int4":
        codebook = torch.arange(-8.0, 8.0)
    else:
        if groups.shape[-1] not in CODEBOOKS:
            CODEBOOKS[groups.shape[-1]] = gaussian_codebook(groups.shape[-1])
        codebook = CODEBOOKS[groups.shape[-1]][0]
    return fit_to_codebook(groups, codebook, fmt.scale).reshape(w.shape), 4 + scale_bits


class Linear(torch.nn.Module):
    def __init__(self, weight, fmt, last, moments):
        super().__init__()
        self.fmt = fmt
        self.divisor = None
        if fmt.smooth:
            self.divisor = (moments[fmt.smooth] / weight.square().mean(0)).clamp_min(1e-12).pow(0.25)
            weight = weight * self.divisor
        # The last format's weights again where only activations differ: searching for scales takes a minute.
        if last and dataclasses.replace(last.fmt, activations="", activation_group=0) == dataclasses.replace(fmt, activations="", activation_group=0):
            self.weight, self.bits, self.error = last.weight, last.bits, last.error
            return
        rotated = rotate(weight, fmt)
        self.weight, self.bits = quantize_weights(rotated, fmt)
        self.error = ((self.weight - rotated).square().sum() / rotated.square().sum()).item()

    def forward(self, x):
        if self.divisor is not None:
            x = x / self.divisor
        return round_activations(rotate(x, self.fmt), self.fmt) @ self.weight.T


def spread(fmt, **others):
    """One format for all kinds, save those named."""
    return {kind: others.get(kind, fmt) for kind in set(KINDS.values())}


def formats():
    bf16 = Format()
    r64 = Format(rotation=64, activations="int8")
    replace = dataclasses.replace
    found = {"f32 activations": spread(Format(activations="f32"))}
    for group in (32, 64, 0):
        found[f"a8 g{group} H64"] = spread(replace(r64, activation_group=group))
        found[f"a8 g{group} Hmax"] = spread(replace(r64, rotation=-1, activation_group=group))
    found["a8 g64 H64 signs"] = spread(replace(r64, signs=True))
    for kind in ("qkv", "o", "gate_up", "down", "head"):
        found[f"a8 g64 H64, {kind} only"] = spread(bf16, **{kind: r64})
        found[f"a8 g64 H64, {kind} two terms"] = spread(r64, **{kind: replace(r64, activations="two")})
    w8 = replace(r64, weights="int8", activations="bf16")
    for group, scale in ((0, "f32"), (128, "f16"), (64, "f16"), (64, "u8"), (32, "u8")):
        if group == 128:
            continue  # 576 is no multiple of it
        found[f"w8 g{group} {scale} H64 a16"] = spread(replace(w8, group=group, scale=scale))
    for kind in ("qkv", "o", "gate_up", "down", "head"):
        found[f"w8 row H64 a16, {kind} only"] = spread(bf16, **{kind: replace(w8, scale="f32")})
    for group, scale in ((0, "f32"), (64, "u8"), (32, "u8")):
        for activation_group in (64, 32):
            base = replace(w8, group=group, scale=scale, activations="int8", activation_group=activation_group)
            found[f"w8 g{group} {scale} a8 g{activation_group} H64"] = spread(base)
            found[f"w8 g{group} {scale} a8 g{activation_group} H64, head two terms"] = spread(base, head=replace(base, activations="two"))
    for source in ("chats", "random", "norm"):
        base = Format(weights="int8", group=64, scale="u8", rotation=64, smooth=source)
        found[f"smooth {source} w8 g64 a16"] = spread(base)
        found[f"smooth {source} w8 g64 a8 g64"] = spread(replace(base, activations="int8"))
        base = replace(base, group=0, scale="f32")
        found[f"smooth {source} w8 row a8 g64"] = spread(replace(base, activations="int8"))
    for weights in ("int4", "code4"):
        for group, scale in ((0, "f32"), (64, "f16"), (64, "u8"), (32, "f16"), (32, "u8")):
            base = Format(weights=weights, group=group, scale=scale, rotation=64)
            head = Format(weights="int8", group=64, scale="u8", rotation=64)
            found[f"{weights} g{group} {scale} H64 a16, head int8"] = spread(base, head=head)
    base = Format(weights="code4", group=32, scale="u8")
    found["code4 g32 u8 unrotated a16, head int8"] = spread(base, head=Format(weights="int8", group=64, scale="u8", rotation=64))
    found["q4_K a16, head int8"] = spread(Format(weights="q4_K"), head=Format(weights="int8", group=64, scale="u8", rotation=64))
    found["q4_K H64 a16, head int8"] = spread(Format(weights="q4_K", rotation=64), head=Format(weights="int8", group=64, scale="u8", rotation=64))
    found["q4_K a8 g256, head int8"] = spread(Format(weights="q4_K", activations="int8", activation_group=192), head=Format(weights="int8", group=64, scale="u8", activations="int8", activation_group=32))
    found["q8_0 a8 g32"] = spread(Format(weights="int8", group=32, scale="f16", activations="int8", activation_group=32))
    for group in (64, 32):
        base = Format(weights="code4", group=group, scale="u8", rotation=64, activations="int8", activation_group=64)
        head = Format(weights="int8", group=64, scale="u8", rotation=64, activations="int8", activation_group=64)
        found[f"code4 g{group} u8 a8 g64 H64, head int8"] = spread(base, head=head)
    return found


class Simulation:
    def __init__(self, gguf, answers, num_chats):
        gguf = pathlib.Path(gguf)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32).eval()
        self.chats = json.loads(pathlib.Path(answers).read_text())[:num_chats]
        self.places = {name: module for name, module in self.model.model.named_modules() if isinstance(module, torch.nn.Linear)}
        self.weights = {name: round_bf16(module.weight.data) for name, module in self.places.items()}
        self.weights["lm_head"] = round_bf16(self.model.lm_head.weight.data)
        embedding = self.model.model.embed_tokens
        embedding.weight = torch.nn.Parameter(round_bf16(embedding.weight.data), requires_grad=False)
        self.base = None
        self.made = {}
        self.moments = {}
        others = [chat["prompt_token_ids"] + chat["token_ids"] for chat in json.loads(pathlib.Path(answers).read_text())[-4:]]
        self.collect_moments("chats", others)
        generator = torch.Generator().manual_seed(3)
        self.collect_moments("random", [[1] + torch.randint(17, 49000, (127,), generator=generator).tolist()])

    @torch.no_grad()
    def collect_moments(self, source, sequences):
        """E x^2 of each matrix's inputs, the same for matrices that share them or whose inputs must be scaled alike."""
        sums = {}

        def add(name):
            return lambda module, inputs: sums.__setitem__(name, sums.get(name, 0) + inputs[0].reshape(-1, inputs[0].shape[-1]).square().sum(0))

        hooks = [module.register_forward_pre_hook(add(name)) for name, module in self.places.items()]
        hooks.append(self.model.lm_head.register_forward_pre_hook(add("lm_head")))
        for tokens in sequences:
            self.model(torch.tensor([tokens]))
        for hook in hooks:
            hook.remove()
        heads, kv_heads, size = self.model.config.num_attention_heads, self.model.config.num_key_value_heads, self.model.config.head_dim
        for name, moments in sums.items():
            if name.endswith("o_proj"):  # folded into v, which query heads share
                moments = moments.reshape(kv_heads, heads // kv_heads, size).mean(1, keepdim=True).expand(-1, heads // kv_heads, -1).reshape(-1)
            self.moments.setdefault(name, {})[source] = moments.clamp_min(1e-12)
            self.moments[name]["norm"] = self.norm_before(name, moments)

    def norm_before(self, name, moments):
        layer = ".".join(name.split(".")[:2])
        norm = {"qkv": "input_layernorm", "gate_up": "post_attention_layernorm"}.get(KINDS[name.rsplit(".", 1)[-1]])
        if name == "lm_head":
            return self.model.model.norm.weight.data.square()
        return self.model.model.get_submodule(f"{layer}.{norm}").weight.data.square() if norm else torch.ones_like(moments)

    def apply(self, kinds):
        self.head = None
        bits = size = 0
        errors = []
        for name, weight in self.weights.items():
            kind = KINDS[name.rsplit(".", 1)[-1]]
            layer = Linear(weight, kinds[kind], self.made.get(name), self.moments.get(name))
            self.made[name] = layer
            bits += layer.bits * weight.numel()
            size += weight.numel()
            errors.append(layer.error)
            if name == "lm_head":
                self.head = layer
            else:
                parent, _, last = name.rpartition(".")
                setattr(self.model.model.get_submodule(parent), last, layer)
        return bits / size, sum(errors) / len(errors)

    @torch.no_grad()
    def logprobs(self, chat):
        prompt, answer = chat["prompt_token_ids"], chat["token_ids"]
        hidden = self.model.model(torch.tensor([prompt + answer[:-1]])).last_hidden_state[0, len(prompt) - 1:]
        return torch.log_softmax(self.head(hidden), -1)

    @torch.no_grad()
    def measure(self):
        kls, changed, losses = [], 0, []
        found = [self.logprobs(chat) for chat in self.chats]
        if self.base is None:
            self.base = found
        for chat, base, logprobs in zip(self.chats, self.base, found):
            kls.append((base.exp() * (base - logprobs)).sum(-1))
            changed += int((base.argmax(-1) != logprobs.argmax(-1)).sum())
            losses.append(-logprobs.gather(1, torch.tensor(chat["token_ids"])[:, None])[:, 0])
        kls, losses = torch.cat(kls), torch.cat(losses)
        return kls, changed, losses.mean().exp().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gguf")
    parser.add_argument("answers")
    parser.add_argument("--only", default="")
    parser.add_argument("--chats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    simulation = Simulation(options.gguf, options.answers, options.chats)
    simulation.apply(spread(Format()))
    _, _, perplexity = simulation.measure()
    print(f"base: {sum(len(base) for base in simulation.base)} tokens, perplexity {perplexity:.4f}", flush=True)
    print("| format | bits | weight error | mean KL | p99 KL | max KL | changed | perplexity |\n|---|---|---|---|---|---|---|---|")
    for name, kinds in formats().items():
        if not re.search(options.only, name):
            continue
        start = time.monotonic()
        bits, error = simulation.apply(kinds)
        kls, changed, perplexity = simulation.measure()
        print(f"| {name} | {bits:.3f} | {error:.2e} | {kls.mean():.6f} | {kls.quantile(0.99):.5f} | {kls.max():.4f} | {changed} | {perplexity:.4f} |"
              f" {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
