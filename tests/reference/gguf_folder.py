#!/usr/bin/env python3
"""Converts a GGUF of a Llama without scaled positions to a Hugging Face folder of float32, for bounded_f64.py.

  gguf_folder.py IN.gguf FOLDER       requires gguf and numpy"""

import json
import os
import struct
import sys

import gguf
import numpy as np

OF_BLOCK = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def config_of(reader):
    def field(name):
        return reader.fields[f"llama.{name}"].contents()

    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float32",
            "hidden_size": field("embedding_length"), "intermediate_size": field("feed_forward_length"),
            "num_hidden_layers": field("block_count"), "num_attention_heads": field("attention.head_count"),
            "num_key_value_heads": field("attention.head_count_kv"), "max_position_embeddings": field("context_length"),
            "rms_norm_eps": field("attention.layer_norm_rms_epsilon"), "rope_theta": field("rope.freq_base"),
            "vocab_size": int(next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1]),
            "tie_word_embeddings": all(t.name != "output.weight" for t in reader.tensors), "bos_token_id": 1, "eos_token_id": 2}


def weights_of(reader, config):
    """(HF name, float32 values), rows of queries and keys in rotate-half order."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for tensor in reader.tensors:
        *block, part, _ = tensor.name.split(".")
        values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        if part in heads:
            rows, columns = values.shape
            values = values.reshape(heads[part], rows // heads[part] // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        name = f"model.layers.{block[1]}.{OF_BLOCK[part]}" if block else NAMES[part]
        yield name + ".weight", np.ascontiguousarray(values, "<f4")


def main(source, folder):
    reader = gguf.GGUFReader(source)
    config = config_of(reader)
    header, at, values = {}, 0, []
    for name, value in weights_of(reader, config):
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
        values.append(value)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in values:
            file.write(value)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
