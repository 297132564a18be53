"""Writes tests/golden/models/<case>.json: logits of Hugging Face's transformers for tiny models.

No weights are stored. Every element is a pure function of its tensor's name and index, computed
here with numpy and in the C++ test with src/base/rng.h, so that a case is a configuration, some
prompts and the logits at some positions. They are stored three times, all with eager attention:
"float32"; "bfloat16_weights", the weights rounded to bfloat16 and the arithmetic in float32, which
is what millrace computes; "bfloat16", the arithmetic rounded as well, which is what users of
transformers see.

    python tools/goldens/model_goldens.py tests/golden/models [CASE...]
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

SEED = 20261121

LLAMA31 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


# name: (model type, settings, [(prompt length, positions whose logits are stored)])
CASES = {
    "llama-mha": (
        "llama",
        dict(hidden_size=32, intermediate_size=45, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, vocab_size=101, rms_norm_eps=1e-5, tie_word_embeddings=False,
             rope_parameters=rope(10000.0)),
        [(1, [0]), (37, [0, 15, 16, 36]), (50, [49])],
    ),
    "llama-odd-heads": (
        "llama",
        dict(hidden_size=24, intermediate_size=67, num_hidden_layers=3, num_attention_heads=3,
             num_key_value_heads=1, head_dim=10, vocab_size=77, rms_norm_eps=1e-6,
             tie_word_embeddings=True, rope_parameters=rope(500.0)),
        [(19, [0, 7, 18]), (70, [31, 32, 69])],
    ),
    "llama-wide-heads": (
        "llama",
        dict(hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, head_dim=80, vocab_size=90, rms_norm_eps=1e-5,
             tie_word_embeddings=False, rope_parameters=rope(10000.0)),
        [(33, [0, 16, 32])],
    ),
    "llama-biases": (
        "llama",
        dict(hidden_size=40, intermediate_size=35, num_hidden_layers=2, num_attention_heads=5,
             num_key_value_heads=5, vocab_size=65, rms_norm_eps=1e-5, tie_word_embeddings=False,
             attention_bias=True, mlp_bias=True, rope_parameters=rope(10000.0)),
        [(20, [0, 11, 19])],
    ),
    "llama31-rope": (
        "llama",
        dict(hidden_size=32, intermediate_size=51, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, vocab_size=83, rms_norm_eps=1e-5,
             tie_word_embeddings=False, max_position_embeddings=1024, rope_parameters=LLAMA31),
        [(768, [0, 63, 64, 300, 511, 705, 767])],
    ),
    "qwen2": (
        "qwen2",
        dict(hidden_size=56, intermediate_size=99, num_hidden_layers=2, num_attention_heads=7,
             num_key_value_heads=1, vocab_size=119, rms_norm_eps=1e-6, tie_word_embeddings=True,
             rope_parameters=rope(1000000.0)),
        [(9, [0, 8]), (65, [17, 63, 64])],
    ),
    "qwen3": (
        "qwen3",
        dict(hidden_size=48, intermediate_size=71, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=1, head_dim=32, vocab_size=111, rms_norm_eps=1e-6,
             tie_word_embeddings=False, rope_parameters=rope(1000000.0)),
        [(12, [0, 11]), (80, [31, 47, 79])],
    ),
    "qwen3-tied": (
        "qwen3",
        dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8,
             num_key_value_heads=2, head_dim=16, vocab_size=128, rms_norm_eps=1e-6,
             tie_word_embeddings=True, rope_parameters=rope(10000.0)),
        [(40, [0, 20, 39])],
    ),
    # One expert's width fills no panel of 16, the other's more than one; layer 0 is dense.
    "qwen3-moe": (
        "qwen3_moe",
        dict(hidden_size=48, intermediate_size=61, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, vocab_size=97, rms_norm_eps=1e-6,
             tie_word_embeddings=False, num_local_experts=7, num_experts_per_tok=3,
             moe_intermediate_size=21, norm_topk_prob=True, mlp_only_layers=[0],
             decoder_sparse_step=1, rope_parameters=rope(1000000.0)),
        [(5, [0, 4]), (23, [1, 11, 22])],
    ),
    "qwen2-moe": (
        "qwen2_moe",
        dict(hidden_size=40, intermediate_size=64, num_hidden_layers=2, num_attention_heads=5,
             num_key_value_heads=1, vocab_size=105, rms_norm_eps=1e-6, tie_word_embeddings=False,
             num_experts=16, num_experts_per_tok=2, moe_intermediate_size=33,
             shared_expert_intermediate_size=50, norm_topk_prob=False, mlp_only_layers=[],
             decoder_sparse_step=1, qkv_bias=True, rope_parameters=rope(1000000.0)),
        [(6, [0, 5]), (19, [2, 10, 18])],
    ),
}


def mix64(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def random_bits(key, counters):
    """random_bits of src/base/rng.h for one key and many counters."""
    with np.errstate(over="ignore"):
        keyed = mix64(np.array([key], dtype=np.uint64))
        return mix64(keyed ^ mix64(counters + np.uint64(0x632BE59BD9B4E019)))


def random_unit(key, size):
    bits = random_bits(key, np.arange(size, dtype=np.uint64))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def weight(name, shape):
    """Uniform around 0, around 1 for norms. Matrices keep about the scale of what they multiply;
    those that write to the residual stream are smaller, so that rounding does not run wild."""
    if len(shape) == 2:
        gain = 0.5 if "o_proj" in name or "down_proj" in name else 1.0
        offset, scale = 0.0, 1.0 if "embed_tokens" in name else gain * math.sqrt(3.0 / shape[1])
    elif name.endswith(".bias"):
        offset, scale = 0.0, 0.5
    else:
        offset, scale = 1.0, 0.25
    unit = random_unit(fnv1a(name) ^ SEED, int(np.prod(shape)))
    return (offset + scale * (2.0 * unit - 1.0)).astype(np.float32).reshape(shape)


def tensor(name, shape):
    """A parameter of transformers: weights of experts, which it keeps in one, one by one."""
    if len(shape) != 3:
        return weight(name, shape)
    prefix, _, kept = name.rpartition(".")
    num_experts, rows, width = shape
    parts = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}[kept]
    return np.stack([
        np.concatenate([
            weight(f"{prefix}.{expert}.{part}.weight", (rows // len(parts), width))
            for part in parts
        ])
        for expert in range(num_experts)
    ])


def make_model(model_type, settings):
    settings = {"max_position_embeddings": 512, **settings}
    config = transformers.AutoConfig.for_model(model_type, **settings)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager"
    )
    model = model.eval().to(torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(tensor(name, tuple(parameter.shape))))
    return config, model


def convert(model, dtype):
    """Parameters alone: the rotary frequencies stay float32, as in a model that was loaded so."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)


def logits_of(model, prompt, positions):
    with torch.no_grad():
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0]
    return logits[positions].float().numpy()


def as_json(rows):
    """Shortest decimals that give back the same float32."""
    return [[float(str(np.float32(x))) for x in row] for row in rows]


def make_case(name):
    model_type, settings, prompts = CASES[name]
    config, model = make_model(model_type, settings)
    stated = config.to_dict()
    kept = ["model_type", "hidden_act", "max_position_embeddings", "rope_parameters", *settings]
    case = {
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "seed": SEED,
        "config": {key: stated[key] for key in dict.fromkeys(kept)},
        "prompts": [],
    }
    for index, (length, positions) in enumerate(prompts):
        bits = random_bits(SEED + index, np.arange(length, dtype=np.uint64))
        tokens = [int(b) % config.vocab_size for b in bits]
        case["prompts"].append({
            "token_ids": tokens,
            "positions": positions,
            "float32": as_json(logits_of(model, tokens, positions)),
        })
    convert(model, torch.bfloat16)
    for prompt in case["prompts"]:
        prompt["bfloat16"] = as_json(logits_of(model, prompt["token_ids"], prompt["positions"]))
    convert(model, torch.float32)
    for prompt in case["prompts"]:
        logits = logits_of(model, prompt["token_ids"], prompt["positions"])
        prompt["bfloat16_weights"] = as_json(logits)
        a, b = np.array(prompt["bfloat16"]), np.array(prompt["bfloat16_weights"])
        error = np.abs(a - b).max(1) / np.abs(b).max(1)
        print(f"{name}: largest logit {np.abs(b).max():.2f}, bfloat16 differs by {error.max():.4f}")
    return case


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or CASES:
        text = json.dumps(make_case(name), separators=(",", ":"))
        # A line for each prompt and each kind of logits keeps differences readable.
        for key in ("config", "prompts", "token_ids", "float32", "bfloat16", "bfloat16_weights"):
            text = text.replace(f'"{key}":', f'\n"{key}":')
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
