"""Writes tests/golden/checkpoint/tiny-llama.gguf with the gguf package, and what its tensors hold.

A one-layer llama with a tensor of each type that millrace reads. The JSON beside it gives, for each
tensor under Hugging Face's name, its shape and the 64-bit FNV-1a hash of its float32 values as
`gguf.quants.dequantize` gives them, with the rows of q and k put back into Hugging Face's order.

    python tools/goldens/checkpoint_gguf.py      (gguf 0.19.0, numpy)
"""

import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "checkpoint"
HIDDEN, INTER, HEADS, KV_HEADS, VOCAB = 64, 96, 4, 2, 40
HEAD_DIM = HIDDEN // HEADS


def fnv1a(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{value:016x}"


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Hugging Face's rows (head, half, index) to the format's (head, index, half)."""
    dim = weight.shape[0] // heads
    return weight.reshape(heads, 2, dim // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def deinterleave(weight: np.ndarray, heads: int) -> np.ndarray:
    dim = weight.shape[0] // heads
    return weight.reshape(heads, dim // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def finish(writer: gguf.GGUFWriter, expected: dict, name: str, generator: str) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    document = {"generator": generator, "gguf": "0.19.0", "tensors": expected}
    (OUT / name).write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    rng = np.random.default_rng(20240607)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def norm() -> np.ndarray:
        return rng.uniform(0.9, 1.1, HIDDEN).astype(np.float32)

    # The smallest and largest numbers of float16 beside ordinary ones.
    gate = matrix(INTER, HIDDEN)
    gate[0, :8] = [6e-8, -6e-8, 6.1e-5, 6.09e-5, 65504, -65504, 0.0, -0.0]
    layer, hf_layer = "blk.0.", "model.layers.0."
    tensors = [
        ("token_embd.weight", "model.embed_tokens.weight", matrix(VOCAB, HIDDEN), T.Q8_0, 0),
        (layer + "attn_norm.weight", hf_layer + "input_layernorm.weight", norm(), T.F32, 0),
        (layer + "attn_q.weight", hf_layer + "self_attn.q_proj.weight", matrix(HIDDEN, HIDDEN), T.Q4_1, HEADS),
        (layer + "attn_k.weight", hf_layer + "self_attn.k_proj.weight", matrix(KV_HEADS * HEAD_DIM, HIDDEN), T.Q4_0, KV_HEADS),
        (layer + "attn_v.weight", hf_layer + "self_attn.v_proj.weight", matrix(KV_HEADS * HEAD_DIM, HIDDEN), T.Q4_1, 0),
        (layer + "attn_output.weight", hf_layer + "self_attn.o_proj.weight", matrix(HIDDEN, HIDDEN), T.BF16, 0),
        (layer + "ffn_norm.weight", hf_layer + "post_attention_layernorm.weight", norm(), T.F32, 0),
        (layer + "ffn_gate.weight", hf_layer + "mlp.gate_proj.weight", gate, T.F16, 0),
        (layer + "ffn_up.weight", hf_layer + "mlp.up_proj.weight", matrix(INTER, HIDDEN), T.F32, 0),
        (layer + "ffn_down.weight", hf_layer + "mlp.down_proj.weight", matrix(HIDDEN, INTER), T.Q4_0, 0),
        ("output_norm.weight", "model.norm.weight", norm(), T.F32, 0),
    ]

    writer = gguf.GGUFWriter(OUT / "tiny-llama.gguf", "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INTER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([f"t{i}".encode() for i in range(VOCAB)])
    writer.add_token_types([3 if i < 3 else 1 for i in range(VOCAB)])
    writer.add_token_merges(["t 1", "t 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template("{{ messages[0]['content'] }}")

    expected = {}
    for name, hf_name, values, kind, heads in tensors:
        stored = interleave(values, heads) if heads else values
        packed = gguf.quants.quantize(stored, kind)
        read = gguf.quants.dequantize(packed, kind).astype(np.float32).reshape(values.shape)
        if heads:
            read = deinterleave(read, heads)
        if kind == T.F32:
            assert np.array_equal(read, values)
        writer.add_tensor(name, packed, raw_dtype=kind)
        expected[hf_name] = {"shape": list(values.shape), "fnv1a": fnv1a(read.tobytes())}
    finish(writer, expected, "tiny-llama.json", "tools/goldens/checkpoint_gguf.py")


if __name__ == "__main__":
    main()
