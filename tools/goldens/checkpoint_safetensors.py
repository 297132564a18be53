"""Writes tests/golden/checkpoint/tiny.safetensors with the safetensors package, and what it holds.

The JSON beside it gives each tensor's shape and the 64-bit FNV-1a hash of its values as float32.

    python tools/goldens/checkpoint_safetensors.py      (safetensors 0.8.0, torch 2.15.0)
"""

import json
from pathlib import Path

import safetensors
import torch
from checkpoint_gguf import fnv1a
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "checkpoint"


def main() -> None:
    generator = torch.Generator().manual_seed(7)

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    tensors = {
        "f32": matrix(3, 5),
        "f16": matrix(4, 7).to(torch.float16),
        "bf16": matrix(6, 2, 2).to(torch.bfloat16),
        "vector": matrix(9),
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 4),
        "i32": torch.arange(5, dtype=torch.int32),
        "fp8": matrix(2, 4).to(torch.float8_e4m3fn),
        "flags": torch.tensor([True, False]),
    }
    save_file(tensors, OUT / "tiny.safetensors", metadata={"format": "pt"})
    expected = {
        name: {"shape": list(t.shape), "fnv1a": fnv1a(t.float().numpy().tobytes())}
        for name, t in tensors.items()
        if t.dtype in (torch.float32, torch.float16, torch.bfloat16)
    }
    document = {
        "generator": "tools/goldens/checkpoint_safetensors.py",
        "safetensors": safetensors.__version__,
        "tensors": expected,
    }
    (OUT / "tiny.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
