"""Random tiny checkpoints and their logits: tests/data/tiny/<name>/.

Weights are scaled so that attention is far from uniform and logits reach 5 to 20.
"""

import json
import shutil

import numpy as np
import safetensors.torch
import torch

import hf_llama
import llama_f64
from common import DATA, HF_VERSIONS, max_abs, significant, write_json, write_tensors
from tiny_specs import SPECS

OUT = DATA / "tiny"
MAX_ROWS = 48  # rows of logits that are stored for a longer forward
TORCH_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def random_weights(config, rng, embed_std):
    """HF names -> float32 arrays."""
    dim, ffn = config["hidden_size"], config["intermediate_size"]
    d = llama_f64.head_dim(config)
    q_dim = config["num_attention_heads"] * d
    kv_dim = (config.get("num_key_value_heads") or config["num_attention_heads"]) * d
    tied = config["tie_word_embeddings"]

    def matrix(rows, columns, gain):
        return rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)

    weights = {"model.embed_tokens.weight": matrix(config["vocab_size"], dim, 3 if tied else embed_std * np.sqrt(dim))}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights |= {
            prefix + "input_layernorm.weight": rng.uniform(0.5, 1.5, dim),
            prefix + "self_attn.q_proj.weight": matrix(q_dim, dim, 1.5),
            prefix + "self_attn.k_proj.weight": matrix(kv_dim, dim, 1.5),
            prefix + "self_attn.v_proj.weight": matrix(kv_dim, dim, 1.0),
            prefix + "self_attn.o_proj.weight": matrix(dim, q_dim, 1.5),
            prefix + "post_attention_layernorm.weight": rng.uniform(0.5, 1.5, dim),
            prefix + "mlp.gate_proj.weight": matrix(ffn, dim, 1.5),
            prefix + "mlp.up_proj.weight": matrix(ffn, dim, 1.0),
            prefix + "mlp.down_proj.weight": matrix(dim, ffn, 1.0),
        }
    weights["model.norm.weight"] = rng.uniform(0.5, 1.5, dim)
    if not tied:
        weights["lm_head.weight"] = matrix(config["vocab_size"], dim, 3)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def stored_tensors(weights, spec):
    """The checkpoint's tensors in its types, with extra tensors that a loader must ignore."""

    def kind(name):
        if spec["dtype"] == "MIXED":
            return torch.float32 if "norm" in name else torch.bfloat16
        return TORCH_TYPES[spec["dtype"]]

    tensors = {name: torch.from_numpy(value).to(kind(name)) for name, value in weights.items()}
    if spec.get("extras"):
        inverse = llama_f64.plain_frequencies(10000.0, llama_f64.head_dim(spec["config"])).astype(np.float32)
        for layer in range(spec["config"]["num_hidden_layers"]):
            tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = torch.from_numpy(inverse.copy())
    return tensors


def save_checkpoint(folder, tensors, shards):
    meta = {"format": "pt"}
    if shards == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata=meta)
        return
    names = sorted(tensors)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[shard::shards]}
        safetensors.torch.save_file(part, folder / file, metadata=meta)
        weight_map |= {name: file for name in part}
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def kept_rows(n, prompt_len):
    """All rows of a short forward. For a long one: its ends, rows around tile boundary 256 and around the prompt's end,
    and some between."""
    if n <= MAX_ROWS:
        return np.arange(n)
    marks = {0, 1, n - 2, n - 1, 255, 256, 257}
    if prompt_len < n:
        marks |= set(range(prompt_len - 2, n))
    marks |= set(np.linspace(0, n - 1, MAX_ROWS - min(len(marks), MAX_ROWS - 8)).astype(int).tolist())
    return np.array(sorted(row for row in marks if 0 <= row < n))


def errors(config, weights, ids, logits, prompt_len):
    """Largest error of the fp32 logits against float64, relative to the largest logit; with exact and fp32 angles."""
    scale = max_abs(logits)
    exact = llama_f64.forward(config, weights, ids, prompt_len)
    rounded = llama_f64.forward(config, weights, ids, prompt_len, fp32_angles=True)
    return significant(max_abs(logits - exact) / scale), significant(max_abs(logits - rounded) / scale)


def make(name, spec, seed):
    config, n = spec["config"], spec["n"]
    prompt_len = spec.get("prompt_len", n)
    rng = np.random.default_rng(seed)
    weights = random_weights(config, rng, spec.get("embed_std", 1.0))
    ids = rng.integers(0, config["vocab_size"], n)
    tensors = stored_tensors(weights, spec)
    weights = {key: tensors[key].float().numpy() for key in weights}

    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_checkpoint(folder, tensors, spec.get("shards", 1))

    model = hf_llama.load(folder)
    logits = hf_llama.forward(model, ids)
    rows = kept_rows(n, prompt_len)
    golden = {"ids": ids, "rows": rows, "logits": logits[rows]}
    error, error_fp32_angles = errors(config, weights, ids, logits, n)
    record = {
        "what": spec["what"],
        "n": n,
        "prompt_len": prompt_len,
        "max_abs_logit": significant(max_abs(logits), 6),
        "hf_error_vs_f64": error,
        "hf_error_vs_f64_fp32_angles": error_fp32_angles,
    }
    if prompt_len < n:
        steps = hf_llama.forward_in_steps(model, ids, prompt_len)
        golden["logits_steps"] = steps[rows]
        record["max_abs_logit_steps"] = significant(max_abs(steps), 6)
        record["hf_error_vs_f64_steps"], _ = errors(config, weights, ids, steps, prompt_len)
        record["steps_differ_by"] = significant(max_abs(steps - logits))
    record["versions"] = HF_VERSIONS
    record["how"] = "tests/reference/tiny_models.py: transformers, fp32, eager attention, one pass over all ids"
    if prompt_len < n:
        record["how"] += "; logits_steps: a pass over prompt_len ids, then one id at a time with a KV cache"
    write_tensors(folder / "golden.safetensors", golden)
    write_json(folder / "golden.json", record)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(
        f"{name:24s} {size / 1024:6.0f} KiB  |logit| {record['max_abs_logit']:<8} fp32 error {error:.1e} "
        f"(fp32 angles {error_fp32_angles:.1e}) steps {record.get('hf_error_vs_f64_steps', '-')}"
    )


def main():
    for seed, (name, spec) in enumerate(SPECS.items(), start=1):
        make(name, spec, seed)


if __name__ == "__main__":
    main()
