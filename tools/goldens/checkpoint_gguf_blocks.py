"""Writes tests/golden/checkpoint/blocks.gguf: a tensor of each block format, and the experts of a layer.

Block formats that the gguf package cannot make have random bytes, but for their float16 scales: every
code, scale and minimum that a block can hold is as good as another. Beside it, as for tiny-llama.gguf, a
JSON with the hash of the values that `gguf.quants.dequantize` gives, by the names of Hugging Face: of
experts, one for each.

    python tools/goldens/checkpoint_gguf_blocks.py      (gguf 0.19.0, numpy)
"""

import gguf
import numpy as np
from checkpoint_gguf import OUT, finish, fnv1a
from gguf import GGMLQuantizationType as T

# Where the float16 scales of a block stand.
SCALES = {
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q8_0: [0],
    T.IQ4_NL: [0],
    T.Q2_K: [80, 82],
    T.Q3_K: [108],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
    T.IQ4_XS: [0],
}
ROWS, COLUMNS, EXPERTS = 3, 512, 3


def random_blocks(rng: np.random.Generator, kind: T, shape: tuple[int, ...]) -> np.ndarray:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // elements, size), dtype=np.uint8)
    for place in SCALES[kind]:
        scales = rng.normal(0, 0.02, blocks.shape[:-1]).astype(np.float16)
        blocks[..., place : place + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def main() -> None:
    rng = np.random.default_rng(20261126)
    writer = gguf.GGUFWriter(OUT / "blocks.gguf", "qwen2moe")
    expected = {}

    def expect(name: str, values: np.ndarray) -> None:
        expected[name] = {"shape": list(values.shape), "fnv1a": fnv1a(values.astype(np.float32).tobytes())}

    for kind in SCALES:
        packed = random_blocks(rng, kind, (ROWS, COLUMNS))
        writer.add_tensor(kind.name, packed, raw_dtype=kind)
        expect(kind.name, gguf.quants.dequantize(packed, kind))
    parts = {"gate": T.Q4_K, "up": T.IQ4_XS, "down": T.Q6_K}
    for part, kind in parts.items():
        packed = random_blocks(rng, kind, (EXPERTS, ROWS, COLUMNS))
        writer.add_tensor(f"blk.1.ffn_{part}_exps.weight", packed, raw_dtype=kind)
        for i in range(EXPERTS):
            values = gguf.quants.dequantize(packed[i], kind)
            expect(f"model.layers.1.mlp.experts.{i}.{part}_proj.weight", values)
        packed = random_blocks(rng, kind, (ROWS, COLUMNS))
        writer.add_tensor(f"blk.1.ffn_{part}_shexp.weight", packed, raw_dtype=kind)
        expect(f"model.layers.1.mlp.shared_expert.{part}_proj.weight", gguf.quants.dequantize(packed, kind))
    router = rng.normal(0, 1, (EXPERTS, COLUMNS)).astype(np.float32)
    writer.add_tensor("blk.1.ffn_gate_inp.weight", router)
    expect("model.layers.1.mlp.gate.weight", router)
    writer.add_tensor("blk.1.ffn_gate_inp_shexp.weight", router[0])
    expect("model.layers.1.mlp.shared_expert_gate.weight", router[:1])

    finish(writer, expected, "blocks.json", "tools/goldens/checkpoint_gguf_blocks.py")


if __name__ == "__main__":
    main()
