"""Tiny models with int4 and FP8 matrices in safetensors, one for each layout, and their logits: tests/data/packed/.

Codes, zero points and scales are drawn first; values follow from them, and the goldens are transformers' logits in fp32
of these values. Layouts are those of AutoGPTQ, AutoAWQ, compressed-tensors (packed by that library) and the FP8
checkpoints of transformers and vLLM.
"""

import json

import numpy as np
import safetensors.torch
import torch
from compressed_tensors.compressors.quantized_compressors.pack_quantized import pack_to_int32

import hf_llama
from common import DATA, HF_VERSIONS, max_abs, significant, versions, write_json, write_tensors
from tiny_models import random_weights
from tiny_specs import shape

OUT = DATA / "packed"
VOCAB = 96
CONFIG = dict(shape(64, 4, 2, 96, vocab=VOCAB, tied=False), rope_theta=10000.0)
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the row of each nibble

WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "actorder": None, "dynamic": False}


def compressed(fmt="pack-quantized", **weights):
    group = {"targets": ["Linear"], "weights": {**WEIGHTS, **weights}, "input_activations": None}
    return {"quant_method": "compressed-tensors", "format": fmt, "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


# name: (quantization_config, group, type of scales); FP8: (quantization_config, kind of scales, their type)
MODELS = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False}, 32, torch.float16),
    "gptq_v2": ({"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True, "checkpoint_format": "gptq_v2"}, 0, torch.bfloat16),
    "gptq_biases": ({"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False, "checkpoint_format": "gptq_v2"}, 64, torch.float16),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, 32, torch.float16),
    "compressed": (compressed(), 32, torch.bfloat16),
    "compressed_zeros": (compressed(symmetric=False, strategy="channel", group_size=None), 0, torch.float16),
    "fp8_tensor": ({"quant_method": "fp8", "activation_scheme": "static"}, "tensor", torch.float32),
    "fp8_channel": (compressed("float-quantized", num_bits=8, type="float", strategy="channel", group_size=None), "channel", torch.bfloat16),
    "fp8_block": ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [40, 64]}, "block", torch.float32),
}


def nibbles(columns):
    """Eight columns of codes to one int32 each."""
    words = np.zeros(columns.shape[:-1], np.uint32)
    for i in range(8):
        words |= columns[..., i].astype(np.uint32) << np.uint32(4 * i)
    return torch.from_numpy(words.view(np.int32))


def by_eights(values):
    return values.reshape(*values.shape[:-1], -1, 8)


def int4(value, name, group, scale_type, rng):
    """The parts of a matrix, and the values that a reader must return."""
    rows, cols = value.shape
    method = name.split("_")[0]
    group = group or cols
    parts = by_group = value.reshape(rows, cols // group, group)
    low, high = by_group.min(-1), by_group.max(-1)
    scales = torch.from_numpy((high - low) / 15).to(scale_type)
    zeros = rng.integers(1, 16, scales.shape)  # GPTQ's first format has no zero point 0
    if name == "compressed":
        zeros = np.full(scales.shape, 8)
    exact = scales.to(torch.float32).numpy()
    codes = np.clip(np.round(by_group / exact[..., None]) + zeros[..., None], 0, 15).astype(np.int64)
    stored = ((codes - zeros[..., None]) * exact[..., None]).astype(np.float32).reshape(rows, cols)
    codes = codes.reshape(rows, cols)
    if method == "gptq":
        less = 0 if "checkpoint_format" in MODELS[name][0] else 1
        parts = {"qweight": nibbles(by_eights(codes).transpose(1, 0, 2)), "qzeros": nibbles(by_eights(zeros.T - less)),
                 "scales": scales.T.contiguous(), "g_idx": torch.arange(cols, dtype=torch.int32) // group}
    elif method == "awq":
        parts = {"qweight": nibbles(by_eights(codes.T)[..., AWQ_ORDER]), "qzeros": nibbles(by_eights(zeros.T)[..., AWQ_ORDER]),
                 "scales": scales.T.contiguous()}
    else:
        signed = torch.from_numpy(codes - 8).to(torch.int8)
        parts = {"weight_packed": pack_to_int32(signed, 4), "weight_scale": scales, "weight_shape": torch.tensor([rows, cols])}
        if name == "compressed_zeros":
            parts["weight_zero_point"] = pack_to_int32(torch.from_numpy(zeros - 8).to(torch.int8), 4, packed_dim=0).contiguous()
    return parts, stored


def fp8(value, kind, block, scale_type):
    rows, cols = value.shape
    tall, wide = {"tensor": (rows, cols), "channel": (1, cols), "block": block}[kind]
    scales = np.zeros((-(-rows // tall), -(-cols // wide)), np.float32)
    for r, c in np.ndindex(scales.shape):
        scales[r, c] = np.abs(value[r * tall : (r + 1) * tall, c * wide : (c + 1) * wide]).max() / 448
    scales = torch.from_numpy(scales).to(scale_type)
    full = scales.float().repeat_interleave(tall, 0).repeat_interleave(wide, 1)[:rows, :cols]
    codes = (torch.from_numpy(value) / full).clamp(-448, 448).to(torch.float8_e4m3fn)
    stored = (codes.float() * full).numpy()
    if kind == "tensor":
        return {"weight": codes, "weight_scale": scales.reshape(()), "input_scale": torch.tensor(1.0)}, stored
    return {"weight": codes, "weight_scale" if kind == "channel" else "weight_scale_inv": scales}, stored


def make(name, seed):
    config, how, scale_type = MODELS[name]
    rng = np.random.default_rng(seed)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    tensors, weights = {}, {}
    shape_of = dict(CONFIG, intermediate_size=128) if name == "gptq_biases" else CONFIG
    model = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]} if name == "gptq_biases" else {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    for key, value in random_weights(shape_of, rng, 1.0).items():
        module = key.rsplit(".", 1)[0]
        if value.ndim == 1 or not module.endswith("_proj"):
            half = torch.from_numpy(value).to(torch.float16)
            tensors[key], weights[key] = half, half.float().numpy()
            continue
        if "fp8" in name:
            parts, weights[key] = fp8(value, how, config.get("weight_block_size"), scale_type)
        else:
            parts, weights[key] = int4(value, name, how, scale_type, rng)
        tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
    if name == "gptq":  # AutoGPTQ writes biases of zeros
        tensors["model.layers.0.self_attn.o_proj.bias"] = torch.zeros(64, dtype=torch.float16)
    if name == "gptq_biases":  # Qwen2's, and those of zeros that its GPTQ files have
        for layer in range(CONFIG["num_hidden_layers"]):
            for part, rows in (("q", 64), ("k", 32), ("v", 32)):
                key = f"model.layers.{layer}.self_attn.{part}_proj.bias"
                tensors[key] = torch.from_numpy(rng.standard_normal(rows)).to(torch.float16)
                weights[key] = tensors[key].float().numpy()
            tensors[f"model.layers.{layer}.mlp.up_proj.bias"] = torch.zeros(128, dtype=torch.float16)
    settings = {**shape_of, **model, "quantization_config": config}
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    ids = rng.integers(0, VOCAB, 24)
    logits = hf_llama.forward(hf_llama.from_weights({**shape_of, "model_type": model["model_type"]}, weights), ids)
    write_tensors(folder / "golden.safetensors", {"ids": ids, "rows": np.arange(len(ids)), "logits": logits})
    print(f"{name:18s} largest logit {max_abs(logits):.3g}")
    return {"n": len(ids), "max_abs_logit": significant(max_abs(logits), 6)}


def main():
    golden = {name: make(name, seed) for seed, name in enumerate(MODELS, start=701)}
    golden["versions"] = {**HF_VERSIONS, **versions("compressed-tensors", "safetensors")}
    golden["how"] = "tests/reference/packed_models.py: logits by transformers in fp32 from the dequantised values"
    write_json(OUT / "golden.json", golden)


if __name__ == "__main__":
    main()
