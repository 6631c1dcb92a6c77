#!/usr/bin/env python3
"""Writes a model of random weights in the shape of a config.json, for timing only.

    random_model.py CONFIG.json FOLDER [--set KEY=VALUE]... [--seed N]

Writes an HF folder with f16 weights; --set changes keys of the config, for instance hidden_size=512. Requires numpy.
"""

import argparse
import json
import pathlib
import struct

import numpy as np


def tensors(config: dict) -> list[tuple[str, tuple[int, ...]]]:
    dim, ffn, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or dim // heads
    kv = config.get("num_key_value_heads", heads) * head_dim
    all_of = [("model.embed_tokens.weight", (config["vocab_size"], dim)), ("model.norm.weight", (dim,))]
    if not config.get("tie_word_embeddings"):
        all_of.append(("lm_head.weight", (config["vocab_size"], dim)))
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        all_of += [
            (p + "input_layernorm.weight", (dim,)),
            (p + "post_attention_layernorm.weight", (dim,)),
            (p + "self_attn.q_proj.weight", (heads * head_dim, dim)),
            (p + "self_attn.k_proj.weight", (kv, dim)),
            (p + "self_attn.v_proj.weight", (kv, dim)),
            (p + "self_attn.o_proj.weight", (dim, heads * head_dim)),
            (p + "mlp.gate_proj.weight", (ffn, dim)),
            (p + "mlp.up_proj.weight", (ffn, dim)),
            (p + "mlp.down_proj.weight", (dim, ffn)),
        ]
    return all_of


def write(folder: pathlib.Path, config: dict, seed: int) -> None:
    rng = np.random.default_rng(seed)
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    shapes = tensors(config)
    for name, shape in shapes:
        end = offset + 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for _, shape in shapes:
            ones = len(shape) == 1
            values = np.ones(shape) if ones else rng.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[1])
            out.write(values.astype(np.float16).tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    config = json.loads(args.config.read_text())
    for pair in args.set:
        key, value = pair.split("=", 1)
        config[key] = json.loads(value)
    write(args.folder, config, args.seed)


if __name__ == "__main__":
    main()
