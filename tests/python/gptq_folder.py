"""A model folder as GPTQ's tools write it: the float32 matrices of another one's layers rounded to 4 bits, to nearest, in
groups of neighbouring inputs, each with a zero point. Standard library alone.
"""

import json
import pathlib
import shutil
import struct

GROUP = 64


def read_tensors(path):
    """Name -> (shape, floats) of a safetensors file of float32 tensors."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        assert tensor["dtype"] == "F32", name
        begin, end = tensor["data_offsets"]
        tensors[name] = (tensor["shape"], struct.unpack_from(f"<{(end - begin) // 4}f", data, 8 + size + begin))
    return tensors


def write_tensors(path, tensors):
    """Writes a safetensors file of name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def packed(fields, length):
    """4-bit fields, eight to a word, the first lowest; `length` words."""
    words = [0] * length
    for i, field in enumerate(fields):
        words[i // 8] |= field << 4 * (i % 8)
    return words


def rounded(rows, columns, values):
    """qweight, qzeros (less one, as version 1 stores them), scales and g_idx of a matrix, as GPTQ names and packs them."""
    groups = -(-columns // GROUP)
    codes = [[0] * columns for _ in range(rows)]
    zeros = [[0] * rows for _ in range(groups)]
    scales = [[0.0] * rows for _ in range(groups)]
    for n in range(rows):
        for g in range(groups):
            span = range(g * GROUP, min((g + 1) * GROUP, columns))
            weights = [values[n * columns + k] for k in span]
            least, most = min(0.0, *weights), max(0.0, *weights)
            (scale,) = struct.unpack("<e", struct.pack("<e", max((most - least) / 15, 1e-4)))
            zero = min(max(round(-least / scale), 1), 15)  # 0 would borrow
            scales[g][n], zeros[g][n] = scale, zero - 1
            for k, weight in zip(span, weights):
                codes[n][k] = min(max(round(weight / scale) + zero, 0), 15)
    words = [packed(row, -(-columns // 8)) for row in codes]
    qweight = [words[n][i] for i in range(-(-columns // 8)) for n in range(rows)]
    qzeros = [word for group in zeros for word in packed(group, -(-rows // 8))]
    flat_scales = [scale for group in scales for scale in group]
    return {
        "qweight": ("I32", [-(-columns // 8), rows], struct.pack(f"<{len(qweight)}I", *qweight)),
        "qzeros": ("I32", [groups, -(-rows // 8)], struct.pack(f"<{len(qzeros)}I", *qzeros)),
        "scales": ("F16", [groups, rows], struct.pack(f"<{len(flat_scales)}e", *flat_scales)),
        "g_idx": ("I32", [columns], struct.pack(f"<{columns}i", *(k // GROUP for k in range(columns)))),
    }


def write_gptq_folder(model, folder):
    """`folder`: `model`, a directory of float32 weights, in 4 bits."""
    model, folder = pathlib.Path(model), pathlib.Path(folder)
    shutil.copytree(model, folder)
    stored = {}
    for name, (shape, values) in read_tensors(model / "model.safetensors").items():
        if len(shape) == 2 and ".layers." in name:
            for part, tensor in rounded(*shape, values).items():
                stored[name.removesuffix("weight") + part] = tensor
        else:
            stored[name] = ("F32", shape, struct.pack(f"<{len(values)}f", *values))
    (folder / "model.safetensors").unlink()
    write_tensors(folder / "model.safetensors", stored)
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False,
                                     "checkpoint_format": "gptq"}
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config))
