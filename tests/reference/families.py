"""Tiny models of the families beyond Llama, as folders and as GGUF, and their logits: tests/data/tiny/, tests/data/gguf/.

Each is a case in which a reader of the files could go wrong: a window that counts or does not, a missing key, biases,
fused matrices, a part of a head that rotates. The names of the files' tensors are those of the model class in
transformers; llama.cpp's converter is followed for GGUF."""

import json
import shutil

import gguf
import numpy as np
import torch

import hf_llama
import llama_f64
from common import DATA, HF_VERSIONS, max_abs, significant, write_json, write_tensors
from gguf_models import VOCAB as GGUF_VOCAB
from gguf_models import add_sizes, add_vocabulary, gguf_name, permutation
from tiny_models import kept_rows, random_weights, save_checkpoint
from tiny_specs import shape


def family(kind, hf_class, *args, **rest):
    config = shape(*args, **rest)
    return dict(config, model_type=kind, architectures=[hf_class])


def qwen2(*args, **rest):
    return family("qwen2", "Qwen2ForCausalLM", *args, **rest)


def qwen3(*args, **rest):
    return family("qwen3", "Qwen3ForCausalLM", *args, **rest)


def phi3(*args, **rest):
    return family("phi3", "Phi3ForCausalLM", *args, pad_token_id=0, **rest)


SHORT = [1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.55, 1.7, 1.9, 2.1, 2.3, 2.6]
LONG = [1.1, 1.3, 1.7, 2.2, 3.0, 4.1, 5.7, 8.0, 11.0, 15.0, 21.0, 30.0]
LONGROPE = dict(rope_theta=10000.0, original_max_position_embeddings=64, partial_rotary_factor=0.75,
                rope_scaling={"type": "longrope", "short_factor": SHORT, "long_factor": LONG})  # fmt: skip

# name: (what it is, config, ids)
FOLDERS = {
    "qwen2-tied": ("q, k and v biases, tied embeddings, a window that does not count, theta 1e6, vocabulary padded",
                   qwen2(72, 9, 3, 96, tied=True, positions=512, rope_theta=1e6, use_sliding_window=False,
                         sliding_window=16, max_window_layers=1), 48),
    "qwen2-window": ("layers from max_window_layers on see 24 tokens; past a tile of 256",
                     qwen2(64, 4, 2, 96, positions=512, rope_theta=10000.0, use_sliding_window=True, sliding_window=24,
                           max_window_layers=1, num_hidden_layers=3), 300),
    "qwen2-types": ("layer_types decides which layers see 40 tokens, not max_window_layers; transformers 5 spelling",
                    qwen2(64, 4, 2, 96, positions=512, use_sliding_window=True, sliding_window=40, max_window_layers=0,
                          layer_types=["sliding_attention", "full_attention"],
                          rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), 100),
    "qwen2-yarn": ("YaRN over 64 positions, bf16",
                   qwen2(64, 4, 1, 64, positions=256, rope_theta=1e6, eos_token_id=None, torch_dtype="bfloat16",
                         rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}), 110),
    "qwen3-norms": ("RMSNorm of query and key heads; head_dim 32 is not hidden / heads; eps 1e-2 counts",
                    qwen3(64, 4, 2, 96, head_dim=32, eps=1e-2, positions=512, rope_theta=1e6), 64),
    "qwen3-head-dim": ("no head_dim: it is 128; attention_bias adds q, k, v and o; tied",
                       qwen3(64, 2, 1, 64, tied=True, positions=512, rope_theta=10000.0, attention_bias=True), 48),
    "llama-bias": ("attention_bias: q, k, v and o have biases; 5 heads, 1 KV head",
                   shape(80, 5, 1, 72, positions=512, rope_theta=10000.0, attention_bias=True, mlp_bias=False), 48),
    "mistral-window": ("every layer sees 32 tokens; past a tile of 256",
                       family("mistral", "MistralForCausalLM", 64, 4, 2, 96, positions=512, rope_theta=10000.0,
                              sliding_window=32), 300),
    "phi3-short": ("fused matrices, 24 of 32 elements of a head rotate, longrope below the original context",
                   phi3(128, 4, 2, 96, positions=256, **LONGROPE), 60),
    "phi3-long": ("as phi3-short, beyond the original context of 64: long factors for all rows",
                  phi3(128, 4, 2, 96, positions=256, **LONGROPE), 200),
    "phi3-plain": ("no num_key_value_heads, no rope scaling, every layer sees 30 tokens",
                   phi3(64, 4, None, 96, positions=512, rope_theta=10000.0, sliding_window=30), 64),
}  # fmt: skip

# name: (config, type of the matrices, ids)
FILES = {
    "qwen2": (dict(qwen2(64, 4, 2, 96, vocab=GGUF_VOCAB, tied=True), rope_theta=1e6), "F16", 32),
    "qwen2_q8_0": (dict(qwen2(64, 4, 2, 96, vocab=GGUF_VOCAB), rope_theta=1e6), "Q8_0", 32),
    "qwen3": (dict(qwen3(64, 4, 2, 96, vocab=GGUF_VOCAB, head_dim=32), rope_theta=1e6), "F16", 32),
    "llama_bias": (dict(shape(64, 4, 2, 96, vocab=GGUF_VOCAB, attention_bias=True), rope_theta=10000.0), "F16", 32),
    "phi3": (dict(phi3(128, 4, 2, 96, vocab=GGUF_VOCAB, positions=256, **LONGROPE), sliding_window=40),
             "F16", 100),
    "phi3_q4_0": (phi3(128, 4, 2, 96, vocab=GGUF_VOCAB, positions=256, **LONGROPE), "Q4_0", 60),
}  # fmt: skip


def family_weights(config, rng):
    """HF names -> float32 arrays: Llama's, with biases, inner norms and fused matrices as the family has them."""
    kind, d = config["model_type"], llama_f64.head_dim(config)
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    weights = random_weights(dict(config, head_dim=d), rng, 1.0)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.self_attn."
        rows = {"q": heads * d, "k": kv_heads * d, "v": kv_heads * d}
        if kind == "qwen2" or config.get("attention_bias"):
            for part, n in rows.items():
                weights[f"{at}{part}_proj.bias"] = rng.standard_normal(n)
        if config.get("attention_bias"):
            weights[f"{at}o_proj.bias"] = rng.standard_normal(config["hidden_size"])
        if kind == "qwen3":
            for part in "qk":
                weights[f"{at}{part}_norm.weight"] = rng.uniform(0.5, 2.5, d)
        if kind == "phi3":
            weights[at + "qkv_proj.weight"] = np.concatenate([weights.pop(f"{at}{part}_proj.weight") for part in "qkv"])
            mlp = f"model.layers.{layer}.mlp."
            weights[mlp + "gate_up_proj.weight"] = np.concatenate([weights.pop(mlp + f"{part}_proj.weight") for part in ("gate", "up")])
    return {name: np.asarray(value, np.float32) for name, value in weights.items()}


def check(name, config, weights, ids, logits):
    error = max_abs(logits - llama_f64.forward(config, weights, ids)) / max_abs(logits)
    print(f"{name:24s} |logit| {significant(max_abs(logits), 6):<8} fp32 error {error:.1e}")
    assert error < 2e-4, name
    return significant(error)


def make_folder(name, seed):
    what, config, n = FOLDERS[name]
    rng = np.random.default_rng(seed)
    bf16 = config.get("torch_dtype") == "bfloat16"
    weights = family_weights(config, rng)
    tensors = {key: torch.from_numpy(value).to(torch.bfloat16 if bf16 else torch.float16) for key, value in weights.items()}
    weights = {key: value.float().numpy() for key, value in tensors.items()}
    ids = rng.integers(0, config["vocab_size"], n)
    folder = DATA / "tiny" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_checkpoint(folder, tensors, 1)
    logits = hf_llama.forward(hf_llama.load(folder), ids)
    rows = kept_rows(n, n)
    write_tensors(folder / "golden.safetensors", {"ids": ids, "rows": rows, "logits": logits[rows]})
    write_json(folder / "golden.json", {
        "what": what, "n": n, "prompt_len": n, "max_abs_logit": significant(max_abs(logits), 6),
        "hf_error_vs_f64": check(name, config, weights, ids, logits), "versions": HF_VERSIONS,
        "how": "tests/reference/families.py: transformers, fp32, eager attention, one pass over all ids"})  # fmt: skip


def add_metadata(writer, config):
    writer.add_name("tiny random " + config["model_type"])
    add_sizes(writer, config)
    writer.add_vocab_size(config["vocab_size"])
    if config["model_type"] in ("llama", "phi3"):
        writer.add_rope_dimension_count(llama_f64.rotary_dim(config))
    if config["model_type"] == "phi3":
        writer.add_sliding_window(config.get("sliding_window", 0))
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
        _, scale = llama_f64.frequencies(config, 1)
        writer.add_rope_scaling_attn_factors(scale)
    add_vocabulary(writer)


def make_file(name, seed):
    config, kind, n = FILES[name]
    rng = np.random.default_rng(seed)
    path = DATA / "gguf" / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, config["model_type"])
    add_metadata(writer, config)
    if config["model_type"] == "phi3":
        writer.add_tensor("rope_factors_long.weight", np.array(LONG, np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(SHORT, np.float32))
    weights = {}
    for key, value in family_weights(config, rng).items():
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(key.split(".")[-2])
        pairs = config["model_type"] == "llama" and heads
        order = permutation(len(value), config[heads]) if pairs else np.arange(len(value))
        stored = value[order]
        if value.ndim == 1:
            writer.add_tensor(gguf_name(key), stored)
        elif kind == "F16":
            stored = stored.astype(np.float16)
            writer.add_tensor(gguf_name(key), stored)
        else:
            quantised = gguf.quants.quantize(stored, gguf.GGMLQuantizationType[kind])
            writer.add_tensor(gguf_name(key), quantised, raw_dtype=gguf.GGMLQuantizationType[kind])
            stored = gguf.quants.dequantize(quantised, gguf.GGMLQuantizationType[kind])
        weights[key] = stored[np.argsort(order)].astype(np.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ids = rng.integers(0, config["vocab_size"], n)
    logits = hf_llama.forward(hf_llama.from_weights(config, weights), ids)
    check(name, config, weights, ids, logits)
    rows = kept_rows(n, n)
    write_tensors(path.with_suffix(".golden.safetensors"), {"ids": ids, "rows": rows, "logits": logits[rows]})


def main():
    for seed, name in enumerate(FOLDERS, start=901):
        make_folder(name, seed)
    for seed, name in enumerate(FILES, start=951):
        make_file(name, seed)


if __name__ == "__main__":
    main()
