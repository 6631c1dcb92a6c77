#!/usr/bin/env python3
"""Writes a GGUF file with random weights in the shape and the types of a known model, for measurements of speed.

  random_gguf.py tinyllama|llama3-8b Q8_0|Q4_K_M FILE

Q4_K_M is llama.cpp's mixture: attn_v, ffn_down of half of the layers and the output matrix are Q6_K. The file has no
tokenizer: give prompts as ids. Requires gguf (tests/reference/requirements.txt)."""

import sys

import gguf
import numpy as np

SHAPES = {  # dim, layers, heads, KV heads, feed-forward columns, vocabulary, context, rope theta
    "tinyllama": (2048, 22, 32, 4, 5632, 32000, 8192, 10000.0),
    "llama3-8b": (4096, 32, 32, 8, 14336, 128256, 8192, 500000.0),
}
SCALES = {"Q8_0": (34, 32, (0,)), "Q4_K": (144, 256, (0, 2)), "Q6_K": (210, 256, (208,))}  # bytes, elements, f16 scales


def blocks(rows, cols, kind, rng):
    """Random codes, with scales that give weights of about 1 / sqrt(cols)."""
    size, elements, scales = SCALES[kind]
    unit = {"Q8_0": 74, "Q4_K": 290, "Q6_K": 1400}[kind]  # root mean square of codes and scales of groups
    some = min(rows, 256)  # rows are repeated: speed does not depend on values
    data = rng.integers(0, 256, (some, cols // elements, size), np.uint8)
    for at in scales:
        data[..., at : at + 2] = np.frombuffer(np.float16(1 / unit / np.sqrt(cols)).tobytes(), np.uint8)
    return np.resize(data.reshape(some, -1), (rows, cols // elements * size))


def main(shape, mixture, path):
    dim, layers, heads, kv_heads, ffn, vocab, context, theta = SHAPES[shape]
    rng = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "llama", use_temp_file=True)
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(dim)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    writer.add_rope_dimension_count(dim // heads)
    writer.add_tokenizer_model("no_vocab")

    def matrix(name, rows, cols, more=False):
        kind = mixture if mixture == "Q8_0" else "Q6_K" if more else "Q4_K"
        writer.add_tensor(f"{name}.weight", blocks(rows, cols, kind, rng), raw_dtype=gguf.GGMLQuantizationType[kind])

    def norm(name):
        writer.add_tensor(f"{name}.weight", np.ones(dim, np.float32))

    matrix("token_embd", vocab, dim)
    norm("output_norm")
    matrix("output", vocab, dim, more=True)
    for layer in range(layers):
        more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        at = f"blk.{layer}."
        norm(at + "attn_norm")
        matrix(at + "attn_q", dim, dim)
        matrix(at + "attn_k", dim * kv_heads // heads, dim)
        matrix(at + "attn_v", dim * kv_heads // heads, dim, more)
        matrix(at + "attn_output", dim, dim)
        norm(at + "ffn_norm")
        matrix(at + "ffn_gate", ffn, dim)
        matrix(at + "ffn_up", ffn, dim)
        matrix(at + "ffn_down", dim, ffn, more)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES or sys.argv[2] not in ("Q8_0", "Q4_K_M"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
