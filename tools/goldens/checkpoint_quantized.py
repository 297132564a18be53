"""Writes tests/golden/checkpoint/quantized/: a small checkpoint in each layout of quantized weights.

Each case is a directory of a config.json with the quantization_config that its library writes, a
model.safetensors of two quantized modules and a norm, and an expected.json. The latter gives, for each
tensor that the checkpoint stands for, its shape and the 64-bit FNV-1a hash of its values as float32: of
a quantized weight, code minus zero times scale, rounded once. Codes are random and cover their range.

The libraries pack the codes and read them back: autoawq, gptqmodel and compressed-tensors. Of the
checkpoints with quant_method fp8, whose codes are stored as they are, compressed-tensors is the reader.

    pip install torch==2.15.0 transformers==5.24.0 safetensors==0.8.0 gguf==0.19.0 numpy
    BUILD_CUDA_EXT=0 pip install --no-build-isolation autoawq==0.2.9 gptqmodel==7.7.0 \\
        compressed-tensors==0.20.0
    CUDA_VISIBLE_DEVICES= python tools/goldens/checkpoint_quantized.py
"""

import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from awq.models._config import AwqConfig
from awq.modules.linear.gemm import WQLinear_GEMM
from awq.utils.packing_utils import dequantize_gemm
from checkpoint_gguf import fnv1a
from compressed_tensors.compressors import BaseCompressor, ModelCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.compressors.pack_quantized import pack_to_int32, unpack_from_int32
from compressed_tensors.entrypoints.convert.converters import FP8BlockDequantizer
from compressed_tensors.quantization import (
    QuantizationArgs,
    QuantizationConfig,
    QuantizationScheme,
    QuantizationStatus,
)
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
from gptqmodel import QuantizeConfig
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module, convert_gptq_v2_to_v1_format_module
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "checkpoint" / "quantized"
DOWN, UP = "model.layers.0.mlp.down_proj", "model.layers.0.mlp.up_proj"
Tensors = dict[str, torch.Tensor]
rng = np.random.default_rng(20261127)


def scales(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(0.001, 0.05, shape).astype(np.float32)).to(dtype)


def codes(bits: int, *shape: int) -> torch.Tensor:
    """Random ones, with the least and the greatest among them."""
    values = rng.integers(0, 2**bits, shape)
    values.flat[:2] = 0, 2**bits - 1
    return torch.from_numpy(values)


def fp8_codes(rows: int, columns: int) -> torch.Tensor:
    """All 254 that are numbers, in a random order."""
    finite = np.array([i for i in range(256) if i & 0x7F != 0x7F], dtype=np.uint8)
    values = rng.permutation(np.resize(finite, rows * columns)).reshape(rows, columns)
    return torch.from_numpy(values).view(torch.float8_e4m3fn)


def shuffled_groups(columns: int, size: int) -> torch.Tensor:
    return torch.from_numpy(rng.permutation(np.arange(columns) // size).astype(np.int32))


def linear(weight: torch.Tensor, bias: bool) -> torch.nn.Linear:
    layer = torch.nn.Linear(*reversed(weight.shape), bias=bias)
    layer.weight.data = weight
    if bias:
        layer.bias.data.zero_()
    return layer


def write(case: str, config: dict, library: str, tensors: Tensors, expected: Tensors) -> None:
    columns = expected[DOWN + ".weight"].shape[1]
    norm = torch.from_numpy(rng.uniform(0.9, 1.1, columns)).to(torch.bfloat16)
    tensors = {"model.norm.weight": norm, **tensors}
    expected = {"model.norm.weight": norm, **expected}
    assert all(not t.is_floating_point() or t.float().isfinite().all() for t in tensors.values())

    (OUT / case).mkdir(parents=True)
    (OUT / case / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    stored = {name: t.contiguous() for name, t in tensors.items()}
    save_file(stored, OUT / case / "model.safetensors", metadata={"format": "pt"})
    document = {
        "generator": "tools/goldens/checkpoint_quantized.py",
        library: version(library),
        "tensors": {
            name: {"shape": list(t.shape), "fnv1a": fnv1a(t.float().contiguous().numpy().tobytes())}
            for name, t in expected.items()
        },
    }
    (OUT / case / "expected.json").write_text(json.dumps(document, indent=1) + "\n")


def awq() -> None:
    group = 64
    tensors, expected = {}, {}
    # from_linear packs only multiples of 32 rows; a word holds 8, so that some can be left out after it.
    for module, rows, kept, columns in [(DOWN, 64, 64, 256), (UP, 64, 40, 128)]:
        q, z = codes(4, rows, columns), codes(4, columns // group, rows)
        s = scales(columns // group, rows)
        z_wide, s_wide = (t.T.repeat_interleave(group, 1) for t in (z, s.float()))
        weight = (q - z_wide) * s_wide
        packed = WQLinear_GEMM.from_linear(linear(weight, False), 4, group, scales=s.float(), zeros=z)
        qweight, qzeros = packed.qweight[:, : kept // 8], packed.qzeros[:, : kept // 8]
        s = packed.scales[:, :kept]
        read = dequantize_gemm(qweight, qzeros, s.float(), 4, group).T
        assert torch.equal(read, weight[:kept])
        tensors |= {f"{module}.qweight": qweight, f"{module}.qzeros": qzeros, f"{module}.scales": s}
        expected[f"{module}.weight"] = read
    config = AwqConfig(zero_point=True, q_group_size=group, w_bit=4, version="GEMM").to_transformers_dict()
    write("awq", config, "autoawq", tensors, expected)


def gptqmodel_config(quantize: QuantizeConfig) -> dict:
    """As gptqmodel's writer has it, but for the name of a temporary directory."""
    quantize.meta_set_versionable(key="quantizer", value=[f"gptqmodel:{version('gptqmodel')}"])
    quantize.meta_set(key="uri", value="https://github.com/modelcloud/gptqmodel")
    for key in ["damp_percent", "damp_auto_increment", "static_groups", "true_sequential", "mse", "gptaq"]:
        quantize.meta_set(key=key, value=getattr(quantize, key, None))
    quantize.meta_set(key="act_group_aware", value=getattr(quantize, "act_group_aware", None))
    config = quantize.to_dict()
    del config["meta"]["offload_to_disk_path"]
    return config


def gptq(
    case: str, bits: int, group: int, modules: list, sym=False, act=False, form="gptq", by_autogptq=False
) -> None:
    quantize = QuantizeConfig(bits=bits, group_size=group, desc_act=act, sym=sym, format=form)
    tensors, expected = {}, {}
    for module, rows, columns in modules:
        size = columns if group == -1 else group
        groups = columns // size
        q, s = codes(bits, rows, columns), scales(rows, groups)
        z = torch.full((rows, groups), 2 ** (bits - 1)) if sym else codes(bits, rows, groups)
        g_idx = shuffled_groups(columns, size) if act else torch.arange(columns, dtype=torch.int32) // size
        weight = (q - z[:, g_idx]) * s.float()[:, g_idx]

        def kernel() -> TorchLinear:
            return TorchLinear(bits, group, sym, act, columns, rows, bias=by_autogptq).eval()

        packed = kernel()
        packed.pack_original(linear(weight, by_autogptq), s.float(), z, g_idx)
        if form == "gptq":
            convert_gptq_v2_to_v1_format_module(packed, quantize)
        stored = packed.state_dict()
        reader = kernel()
        reader.load_state_dict(stored)
        if form == "gptq":
            convert_gptq_v1_to_v2_format_module(reader, bits, torch.int32)
        reader.scales = reader.scales.float()
        read = reader.dequantize_weight().T
        assert torch.equal(read, weight)
        tensors |= {f"{module}.{name}": t for name, t in stored.items()}
        expected[f"{module}.weight"] = read
        if by_autogptq:
            expected[f"{module}.bias"] = stored["bias"]
    config = gptqmodel_config(quantize)
    if by_autogptq:  # as auto-gptq wrote it
        config = {
            "bits": bits,
            "group_size": group,
            "damp_percent": 0.01,
            "desc_act": act,
            "static_groups": False,
            "sym": sym,
            "true_sequential": True,
            "model_name_or_path": None,
            "model_file_base_name": "model",
            "quant_method": "gptq",
            "checkpoint_format": "gptq",
        }
    write(case, config, "gptqmodel", tensors, expected)


def fp8_block() -> None:
    block, tensors = 128, {}
    for module, rows, columns, dtype in [(DOWN, 200, 320, torch.bfloat16), (UP, 136, 200, torch.float32)]:
        tensors[f"{module}.weight"] = fp8_codes(rows, columns)
        tensors[f"{module}.weight_scale_inv"] = scales(-(-rows // block), -(-columns // block), dtype=dtype)
    read = FP8BlockDequantizer(targets=[DOWN, UP], dtype=torch.float32).process(dict(tensors))
    expected = {f"{module}.weight": read[f"{module}.weight"] for module in (DOWN, UP)}
    config = {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "modules_to_not_convert": ["lm_head"],
        "quant_method": "fp8",
        "weight_block_size": [block, block],
    }
    write("fp8_block", config, "compressed-tensors", tensors, expected)


def fp8_tensor() -> None:
    """As AutoFP8 wrote them. Other writers have scales of one element: the second module has such ones."""
    args = QuantizationArgs(num_bits=8, type="float", strategy="tensor", symmetric=True)
    tensors, expected = {}, {}
    for module, rows, columns, shape in [(DOWN, 72, 136, ()), (UP, 40, 96, (1,))]:
        weight, s = fp8_codes(rows, columns), scales(*shape, dtype=torch.float32)
        tensors |= {f"{module}.weight": weight, f"{module}.weight_scale": s}
        tensors[f"{module}.input_scale"] = scales(*shape, dtype=torch.float32)
        expected[f"{module}.weight"] = dequantize(weight, s, None, args)
    config = {"activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"}
    write("fp8_tensor", config, "compressed-tensors", tensors, expected)


def compressed_config(scheme: QuantizationScheme) -> dict:
    config = QuantizationConfig(
        config_groups={"group_0": scheme},
        format=scheme.format.value,
        quantization_status=QuantizationStatus.COMPRESSED,
        ignore=["lm_head"],
    )
    with tempfile.TemporaryDirectory() as directory:
        ModelCompressor(quantization_config=config).update_config(directory)
        return json.loads((Path(directory) / "config.json").read_text())["quantization_config"]


def compressed(case: str, scheme: QuantizationScheme, modules: list, act=False) -> None:
    args = scheme.weights
    scheme.format = infer_module_format(torch.nn.Linear, scheme)
    compressor = BaseCompressor.get_value_from_registry(scheme.format.value)
    tensors, expected = {}, {}
    for module, rows, columns in modules:
        height, width = args.block_structure or (1, args.group_size or columns)
        groups = -(-columns // width)
        s = scales(-(-rows // height), groups, dtype=torch.bfloat16)
        g_idx = shuffled_groups(columns, width) if act else torch.arange(columns) // width
        s_wide = s.float().repeat_interleave(height, 0)[:rows, g_idx]
        state = {"weight_scale": s}
        if args.type == "float":
            q = fp8_codes(rows, columns)
            state["weight"] = q.float() * s_wide
        else:
            q, z = codes(args.num_bits, rows, columns), torch.full((rows, groups), 2 ** (args.num_bits - 1))
            if not args.symmetric:
                z = codes(args.num_bits, rows, groups)
                state["weight_zero_point"] = (z - 2 ** (args.num_bits - 1)).to(torch.int8)
            state["weight"] = (q - z[:, g_idx]) * s_wide
        weight = state["weight"]

        # compressed-tensors 0.20.0 has no weight_g_idx. As 0.12.2 has it, the codes keep the order of the
        # columns; sorted by their group, they are what a checkpoint without it has.
        order = torch.argsort(g_idx, stable=True)
        stored = compressor.compress({**state, "weight": weight[:, order]}, scheme)
        if act:
            back = torch.argsort(order)
            q = unpack_from_int32(stored["weight_packed"], args.num_bits, weight.shape)[:, back]
            stored |= {"weight_packed": pack_to_int32(q, args.num_bits), "weight_g_idx": g_idx}
            q = unpack_from_int32(stored["weight_packed"], args.num_bits, weight.shape)[:, order]
            read = dequantize(q, s.float(), None, args)[:, back]
        else:
            read = compressor.decompress({**stored, "weight_scale": s.float()}, scheme)["weight"]
        assert torch.equal(read, weight)
        tensors |= {f"{module}.{name}": t for name, t in stored.items()}
        expected[f"{module}.weight"] = read
    config = compressed_config(scheme)
    if act:  # as compressed-tensors 0.12.2 wrote it
        weights = config["config_groups"]["group_0"]["weights"]
        weights |= {"actorder": "group", "block_structure": None, "observer": "minmax", "observer_kwargs": {}}
        del config["moe_sparsity_config"]
        config["version"] = "0.12.2"
    write(case, config, "compressed-tensors", tensors, expected)


def preset(name: str, **weights) -> QuantizationScheme:
    scheme = preset_name_to_scheme(name, ["Linear"])
    scheme.weights = QuantizationArgs(**{**scheme.weights.model_dump(), **weights})
    return scheme


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    awq()
    gptq("gptq", 4, 64, [(DOWN, 48, 256), (UP, 40, 128)], sym=True, by_autogptq=True)
    gptq("gptq_act_order", 4, 64, [(DOWN, 72, 256), (UP, 40, 192)], act=True)
    gptq("gptq_v2", 8, -1, [(DOWN, 48, 256), (UP, 36, 160)], form="gptq_v2")
    gptq("gptq_3bit", 3, 32, [(DOWN, 64, 256), (UP, 96, 128)])
    gptq("gptq_2bit", 2, 32, [(DOWN, 48, 256), (UP, 112, 128)])
    fp8_block()
    fp8_tensor()
    compressed("ct_int4", preset("W4A16", group_size=64), [(DOWN, 48, 256), (UP, 40, 128)])
    compressed("ct_int4_zeros", preset("W4A16_ASYM", group_size=64), [(DOWN, 48, 256), (UP, 44, 128)])
    compressed("ct_int4_act_order", preset("W4A16", group_size=64), [(DOWN, 48, 256), (UP, 40, 192)], True)
    compressed("ct_int8", preset("W8A8"), [(DOWN, 48, 256), (UP, 40, 100)])
    compressed("ct_fp8", preset("FP8_DYNAMIC"), [(DOWN, 48, 256), (UP, 40, 100)])
    compressed("ct_fp8_block", preset("FP8_BLOCK"), [(DOWN, 200, 256), (UP, 136, 128)])
    channel = {"strategy": "channel", "group_size": None}
    compressed("ct_int8_packed", preset("W8A16", **channel), [(DOWN, 48, 256), (UP, 40, 100)])


if __name__ == "__main__":
    main()
