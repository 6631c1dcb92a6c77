"""GGUF tensors of every supported type, and blocks at the edges of each type with their values.

K and IQ quants, for which the gguf package has no quantiser, have random blocks. All bits are valid content, and random bits
use every bit of the packed scales, which rounded weights rarely do.
"""

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize, quantize

from common import DATA, write_tensors

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# Written after the others, so that their blocks remain the same.
LATER_TYPES = ["IQ4_NL", "MXFP4", "Q2_K", "Q3_K", "IQ4_XS"]
EDGE_BLOCKS = 12
FLOAT16_AT = {
    "Q8_0": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "MXFP4": [],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "IQ4_XS": [0],
}


def set_float16(blocks, offset, values):
    """Sets the two bytes at `offset` of every block."""
    blocks[:, offset : offset + 2] = np.asarray(values, np.float16).reshape(-1, 1).view(np.uint8)


def random_k_blocks(kind, rows, columns, std, rng):
    """Rows of random blocks [rows, bytes] whose values have mean about 0 and standard deviation `std`."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    count = rows * columns // elements
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)

    def scale_blocks(scale):
        if kind in ("Q6_K", "Q3_K", "IQ4_XS", "IQ4_NL"):
            set_float16(blocks, FLOAT16_AT[kind][0], scale)
        elif kind == "Q2_K":  # dmin centres the values, as below
            set_float16(blocks, 80, scale)
            set_float16(blocks, 82, scale * 1.5)
        else:  # values are d * sc * q - dmin * m, with sc and m distributed alike: dmin = d * mean(q) centres them
            set_float16(blocks, 0, scale)
            set_float16(blocks, 2, scale * (7.5 if kind == "Q4_K" else 15.5))

    scale_blocks(np.full(count, 2.0**-6))
    unit = np.std(dequantize(blocks, GGMLQuantizationType[kind])) / 2.0**-6
    scale_blocks(rng.uniform(0.8, 1.2, count) * std / unit)
    return blocks.reshape(rows, -1)


def store(values, kind, rng):
    """float32 [rows, columns] as GGUF type `kind`: (raw bytes [rows, bytes], float32 values a reader must return)."""
    if kind.endswith("_K") or kind.startswith("IQ"):
        raw = random_k_blocks(kind, *values.shape, float(np.std(values)), rng)
    else:
        raw = quantize(values, GGMLQuantizationType[kind]).view(np.uint8)
    return raw, dequantize(raw, GGMLQuantizationType[kind]).reshape(values.shape)


def edge_blocks(kind, rng):
    """Raw blocks: random bits, all bits clear, all bits set, and scales of zero, both signs, subnormal and largest
    float16."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    if kind in ("F32", "F16", "BF16"):
        special = {
            "F32": np.array(
                [0, -0.0, 1, -1, 1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 0.1, 1 / 3], np.float32
            ),
            "F16": np.array([0, -0.0, 1, -1, 6e-8, 6.1035e-5, 65504, -65504, 0.1, 1 / 3], np.float16),
            "BF16": np.array([0, 0x8000, 0x3F80, 0xBF80, 1, 0x0080, 0x7F7F, 0xFF7F, 0x3DCD, 0x3EAB], np.uint16),
        }[kind]
        return special.view(np.uint8)
    blocks = rng.integers(0, 256, (EDGE_BLOCKS, size), dtype=np.uint8)
    blocks[0], blocks[1] = 0, 255
    scales = [1.0, 0.5, 0.0, -0.25, 6e-8, 3e-5, 2.0, -1.0, 0.1, 1 / 3, 1e-3, 100.0]
    for at in FLOAT16_AT[kind]:
        set_float16(blocks, at, np.roll(scales, at))
    if kind == "MXFP4":
        blocks[:, 0] = [0, 1, 2, 127, 126, 128, 3, 120, 252, 100, 200, 130]  # exponents; 255 is a NaN
    return blocks.reshape(-1)


def main():
    """blocks.safetensors: <TYPE>.raw U8 and <TYPE>.values F32."""
    rng = np.random.default_rng(101)
    golden = {}
    for kind in TYPES + LATER_TYPES:
        raw = edge_blocks(kind, rng)
        golden[f"{kind}.raw"] = raw
        golden[f"{kind}.values"] = dequantize(raw, GGMLQuantizationType[kind]).astype(np.float32)
        assert np.all(np.isfinite(golden[f"{kind}.values"])), kind
    write_tensors(DATA / "gguf" / "blocks.safetensors", golden)
    print(f"blocks.safetensors: {', '.join(TYPES + LATER_TYPES)}")


if __name__ == "__main__":
    main()
