"""Blocks that llama.cpp's quantisers make of chosen values, and the tensor types that llama-quantize chooses.

The library of llama-cpp-python is called: ggml_quantize_chunk for blocks, llama_model_quantize for whole files.
"""

import ctypes
import itertools
import pathlib
import tempfile

import gguf
import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

from common import DATA, significant, versions, write_json, write_tensors

EXACT = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
SEARCHED = ["IQ4_NL", "IQ4_XS", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
ELEMENTS = 1024  # of each kind of values

FILE_TYPES = {
    "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14,
    "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30,
}  # fmt: skip
# family, layers, dim, feed-forward columns, heads, KV heads, tied embeddings
SHAPES = [
    ("llama", 17, 256, 512, 4, 4, False),
    ("llama", 16, 256, 512, 8, 2, True),
    ("llama", 9, 64, 288, 4, 1, True),
    ("phi3", 8, 256, 512, 4, 2, False),
    ("llama", 80, 256, 256, 4, 1, False),
    ("qwen2", 80, 256, 256, 4, 4, False),
]
VOCAB = 512
KINDS = ["token_embd", "output", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def values():
    """Values by kind, F32."""
    rng = np.random.default_rng(36)
    n = ELEMENTS
    sparse = rng.standard_normal(n)
    sparse[rng.random(n) < 0.5] = 0
    zeros = np.zeros(n)
    zeros[::7] = -0.0
    bf16 = (rng.standard_normal(n).astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    return {
        "normal": rng.standard_normal(n) * 0.02,
        "laplace": rng.laplace(size=n) * 0.02,
        "heavy": rng.standard_t(3, size=n) * 0.01,
        "sparse": sparse,
        "zeros": zeros,
        "positive": rng.random(n),
        "negative": -rng.random(n) - 1,
        "constant": np.full(n, 0.7),
        "bf16": bf16 * 0.05,
        "small": rng.standard_normal(n) * 1e-6,
    }


def quantised(kind, x):
    """llama.cpp's blocks of `x`, without an importance matrix."""
    lib = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    quantise = lib.ggml_quantize_chunk
    quantise.restype = ctypes.c_size_t
    quantise.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    out = np.zeros((len(x) // elements, size), np.uint8)
    quantise(GGMLQuantizationType[kind].value, x.ctypes.data, out.ctypes.data, 0, len(x) // 256, 256, None)
    return out


def blocks():
    tensors, errors = {}, {}
    for name, x in values().items():
        x = np.ascontiguousarray(x, np.float32)
        tensors[f"{name}.values"] = x
        for kind in EXACT:
            tensors[f"{name}.{kind}"] = quantised(kind, x)
        for kind in SEARCHED:
            off = dequantize(quantised(kind, x), GGMLQuantizationType[kind]).reshape(-1) - x
            errors[f"{name}.{kind}"] = significant(float(np.sum(off.astype(np.float64) ** 2)), 6)
    return tensors, errors


def write_model(path, family, layers, dim, ffn, heads, kv, tied):
    w = gguf.GGUFWriter(path, family)
    head_dim = dim // heads
    w.add_block_count(layers)
    w.add_embedding_length(dim)
    w.add_feed_forward_length(ffn)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_context_length(64)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(head_dim)
    w.add_vocab_size(VOCAB)
    if family == "phi3":
        w.add_sliding_window(0)
    w.add_tokenizer_model("llama")
    plain = [f"a{i}" for i in range(VOCAB - 259)]
    w.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + plain)
    w.add_token_scores([0.0] * VOCAB)
    w.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(plain))
    rng = np.random.default_rng(0)

    def add(name, *shape):
        data = np.ones(shape, np.float32) if len(shape) == 1 else rng.standard_normal(shape).astype(np.float16)
        w.add_tensor(f"{name}.weight", data)

    add("token_embd", VOCAB, dim)
    add("output_norm", dim)
    if not tied:
        add("output", VOCAB, dim)
    for layer in range(layers):
        block = f"blk.{layer}."
        add(block + "attn_norm", dim)
        add(block + "ffn_norm", dim)
        if family == "phi3":
            add(block + "attn_qkv", dim + 2 * head_dim * kv, dim)
            add(block + "ffn_up", 2 * ffn, dim)
        else:
            if family == "qwen2":
                for name, rows in (("attn_q", dim), ("attn_k", head_dim * kv), ("attn_v", head_dim * kv)):
                    w.add_tensor(f"{block}{name}.bias", np.zeros(rows, np.float32))
            add(block + "attn_q", dim, dim)
            add(block + "attn_k", head_dim * kv, dim)
            add(block + "attn_v", head_dim * kv, dim)
            add(block + "ffn_gate", ffn, dim)
            add(block + "ffn_up", ffn, dim)
        add(block + "attn_output", dim, dim)
        add(block + "ffn_down", dim, ffn)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def chosen(folder, source, number):
    """By kind of tensor: the types of all layers, as runs ("Q4_K*3 Q6_K*1")."""
    target = folder / "quantised.gguf"
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = number
    params.nthread = 2
    assert llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) == 0
    types = {t.name: t.tensor_type.name for t in gguf.GGUFReader(target).tensors}
    result = {}
    for kind in KINDS:
        names = [n for n in (f"{kind}.weight", *(f"blk.{i}.{kind}.weight" for i in range(99))) if n in types]
        runs = [(k, len(list(g))) for k, g in itertools.groupby(types[n] for n in names)]
        if runs:
            result[kind] = " ".join(f"{k}*{n}" for k, n in runs)
    return result


def main():
    llama_cpp.llama_backend_init()
    tensors, errors = blocks()
    write_tensors(DATA / "gguf" / "quantised.safetensors", tensors)
    files = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for shape in SHAPES:
            write_model(folder / "source.gguf", *shape)
            types = {kind: chosen(folder, folder / "source.gguf", number) for kind, number in FILE_TYPES.items()}
            files.append({"shape": shape, "types": types})
    golden = {"versions": versions("llama-cpp-python", "gguf"), "squared_errors": errors}
    golden |= {f"file_types_{i}": f for i, f in enumerate(files)}
    write_json(DATA / "gguf" / "quantised.json", golden)


if __name__ == "__main__":
    main()
