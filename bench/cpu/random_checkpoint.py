#!/usr/bin/env python3
"""Writes a Hugging Face checkpoint with random bfloat16 weights, for engines that want a real one.

usage: random_checkpoint.py CONFIG TOKENIZER OUTPUT [--seed N] [--gptq]
       random_checkpoint.py --self-test

CONFIG: a folder with config.json (Llama, Qwen2 or Qwen3, with or without experts); TOKENIZER: a folder with tokenizer.json and
tokenizer_config.json. OUTPUT gets both, and model.safetensors. Magnitudes lie between 2^-7 and 2^-5, about one over the
root of a row's length, so that activations stay finite; speed does not depend on the values. --gptq: the matrices of the
layers in 4 bits, as GPTQ's tools write them: groups of 128 inputs, symmetric. Needs only the standard library.
"""
import argparse
import json
import pathlib
import random
import shutil
import struct
import sys
import tempfile

CHUNK = 1 << 24

# The upper byte of a bfloat16 is the sign and seven bits of the exponent, the lower one the eighth and the mantissa: a
# random byte's last bit becomes the sign, 0x3C or 0xBC makes magnitudes from 2^-7 to 2^-5 of a random lower byte.
UPPER = bytes(0xBC if byte & 1 else 0x3C for byte in range(256))
ONE = b"\x80\x3f"

GPTQ_GROUP = 128
GPTQ_CONFIG = {"quant_method": "gptq", "bits": 4, "group_size": GPTQ_GROUP, "desc_act": False, "sym": True,
               "checkpoint_format": "gptq"}
GPTQ_SCALE = struct.pack("<e", 2**-8)  # of codes from -8 to 7
ELEMENT_BYTES = {"BF16": 2, "F16": 2, "I32": 4}


def shapes(config):
    """(name, shape) of every tensor, in the order of the forward pass."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    head_dim = config.get("head_dim") or hidden // heads
    family = config["model_type"]
    if family not in ("llama", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe"):
        raise SystemExit(f"random_checkpoint.py: model_type is {family}, expected llama, qwen2(_moe) or qwen3(_moe)")
    yield "model.embed_tokens.weight", (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,)
        for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            yield f"{prefix}self_attn.{name}_proj.weight", (rows * head_dim, hidden)
            if family.startswith("qwen2"):
                yield f"{prefix}self_attn.{name}_proj.bias", (rows * head_dim,)
        if family.startswith("qwen3"):
            yield prefix + "self_attn.q_norm.weight", (head_dim,)
            yield prefix + "self_attn.k_norm.weight", (head_dim,)
        yield prefix + "self_attn.o_proj.weight", (hidden, heads * head_dim)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield from feed_forward(prefix + "mlp.", layer, config)
    yield "model.norm.weight", (hidden,)
    if not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", (vocab, hidden)


def network(prefix, hidden, width):
    for name in ("gate", "up"):
        yield f"{prefix}{name}_proj.weight", (width, hidden)
    yield prefix + "down_proj.weight", (hidden, width)


def feed_forward(prefix, layer, config):
    hidden = config["hidden_size"]
    num_experts = config.get("num_experts") or config.get("num_local_experts") or 0
    is_sparse = num_experts and (layer + 1) % config.get("decoder_sparse_step", 1) == 0
    if not is_sparse or layer in (config.get("mlp_only_layers") or []):
        yield from network(prefix, hidden, config["intermediate_size"])
        return
    yield prefix + "gate.weight", (num_experts, hidden)
    for expert in range(num_experts):
        yield from network(f"{prefix}experts.{expert}.", hidden, config["moe_intermediate_size"])
    if config.get("shared_expert_intermediate_size"):
        yield from network(prefix + "shared_expert.", hidden, config["shared_expert_intermediate_size"])
        yield prefix + "shared_expert_gate.weight", (1, hidden)


def count(shape):
    total = 1
    for size in shape:
        total *= size
    return total


def stored(config, is_gptq):
    """(name, dtype, shape) of every tensor as it is written."""
    for name, shape in shapes(config):
        is_of_layer = ".layers." in name and len(shape) == 2
        is_router = name.endswith(".mlp.gate.weight") or name.endswith("shared_expert_gate.weight")
        if not is_gptq or not is_of_layer or is_router:
            yield name, "BF16", shape
            continue
        rows, columns = shape
        if rows % 8 or columns % GPTQ_GROUP:
            raise SystemExit(f"random_checkpoint.py: {name} is {rows} x {columns}: GPTQ wants inputs in groups of {GPTQ_GROUP}")
        module, groups = name.removesuffix("weight"), columns // GPTQ_GROUP
        yield module + "qweight", "I32", (columns // 8, rows)
        yield module + "qzeros", "I32", (groups, rows // 8)
        yield module + "scales", "F16", (groups, rows)
        yield module + "g_idx", "I32", (columns,)


def write_values(file, name, shape, source):
    if name.endswith("norm.weight"):
        file.write(ONE * count(shape))
        return
    if name.endswith(".qzeros"):
        file.write(b"\x77" * 4 * count(shape))  # 8, less one
        return
    if name.endswith(".scales"):
        file.write(GPTQ_SCALE * count(shape))
        return
    if name.endswith(".g_idx"):
        file.write(struct.pack(f"<{shape[0]}i", *(i // GPTQ_GROUP for i in range(shape[0]))))
        return
    if name.endswith(".qweight"):
        for _ in range(shape[0]):
            file.write(source.randbytes(4 * shape[1]))
        return
    left = count(shape)
    while left:
        size = min(left, CHUNK)
        values = bytearray(2 * size)
        values[0::2] = source.randbytes(size)
        values[1::2] = source.randbytes(size).translate(UPPER)
        file.write(values)
        left -= size


def write_safetensors(path, config, seed, is_gptq=False):
    tensors = list(stored(config, is_gptq))
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape in tensors:
        end = offset + ELEMENT_BYTES[dtype] * count(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    source = random.Random(seed)
    partial = path.with_suffix(".partial")  # so that what stands under the name is whole
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, _, shape in tensors:
            write_values(file, name, shape, source)
    partial.replace(path)


def write_checkpoint(config_folder, tokenizer_folder, output, seed, is_gptq=False):
    output.mkdir(parents=True, exist_ok=True)
    config = json.loads((config_folder / "config.json").read_text())
    config["torch_dtype"] = "bfloat16"
    if is_gptq:
        config["quantization_config"] = GPTQ_CONFIG
    (output / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for file in tokenizer_folder.iterdir():
        if file.is_file() and file.name != "config.json":
            shutil.copyfile(file, output / file.name)
    write_safetensors(output / "model.safetensors", config, seed, is_gptq)


def test_experts():
    config = {"model_type": "qwen2_moe", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
              "num_attention_heads": 2, "vocab_size": 30, "num_experts": 3, "moe_intermediate_size": 5,
              "shared_expert_intermediate_size": 7, "mlp_only_layers": [0]}
    tensors = dict(shapes(config))
    assert len(tensors) == 1 + 2 * (2 + 6 + 1) + 3 + (1 + 3 * 3 + 3 + 1) + 2, len(tensors)
    assert tensors["model.layers.0.mlp.up_proj.weight"] == (12, 8)
    assert tensors["model.layers.1.mlp.experts.2.down_proj.weight"] == (8, 5)
    assert tensors["model.layers.1.mlp.shared_expert_gate.weight"] == (1, 8)


def test_gptq():
    config = {"model_type": "qwen2_moe", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1,
              "num_attention_heads": 2, "vocab_size": 30, "num_experts": 2, "moe_intermediate_size": 128}
    tensors = {name: (dtype, shape) for name, dtype, shape in stored(config, True)}
    assert tensors["model.layers.0.mlp.gate.weight"] == ("BF16", (2, 128))
    assert tensors["model.layers.0.mlp.experts.1.down_proj.qweight"] == ("I32", (16, 128))
    assert tensors["model.layers.0.mlp.experts.1.down_proj.qzeros"] == ("I32", (1, 16))
    assert tensors["model.layers.0.self_attn.q_proj.g_idx"] == ("I32", (128,))
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "model.safetensors"
        write_safetensors(path, config, 1, is_gptq=True)
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        del header["__metadata__"]
        assert set(header) == set(tensors)
        assert max(tensor["data_offsets"][1] for tensor in header.values()) == len(data) - 8 - size


def self_test():
    test_experts()
    test_gptq()
    config = {"model_type": "qwen2", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
              "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 30, "tie_word_embeddings": True}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "from").mkdir()
        (folder / "from" / "config.json").write_text(json.dumps(config))
        (folder / "from" / "tokenizer.json").write_text("{}")
        write_checkpoint(folder / "from", folder / "from", folder / "to", 1)
        data = (folder / "to" / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        del header["__metadata__"]
        assert len(header) == 1 + 2 * (2 + 6 + 1 + 3) + 1, len(header)
        ends = sorted(tensor["data_offsets"] for tensor in header.values())
        assert ends[0][0] == 0 and all(a[1] == b[0] for a, b in zip(ends, ends[1:]))
        assert ends[-1][1] == len(data) - 8 - size
        for tensor_name, tensor in header.items():
            begin, end = (8 + size + at for at in tensor["data_offsets"])
            assert end - begin == 2 * count(tensor["shape"])
            for (bits,) in struct.iter_unpack("<H", data[begin:end]):
                value = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
                assert value == 1.0 if tensor_name.endswith("norm.weight") else 2**-7 <= abs(value) < 2**-5, value
        assert json.loads((folder / "to" / "config.json").read_text())["torch_dtype"] == "bfloat16"
        assert (folder / "to" / "tokenizer.json").exists()
        write_checkpoint(folder / "from", folder / "from", folder / "again", 1)
        assert data == (folder / "again" / "model.safetensors").read_bytes()
    print("1 passed, 0 failed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gptq", action="store_true")
    arguments = parser.parse_args()
    write_checkpoint(arguments.config, arguments.tokenizer, arguments.output, arguments.seed, arguments.gptq)


main()
