"""Tiny GGUF models, one for each tensor type and rope scaling, and their logits: tests/data/gguf/.

The metadata is that of llama.cpp's converter, and the rows of attn_q and attn_k have its permutation. The goldens are
transformers' logits in fp32. Their weights are gguf's own dequantised values, with rows in the original order.
llama.cpp also reads every file, and the distance of its logits is recorded: it rounds activations for 16-bit and
quantised weights.
"""

import gguf
import llama_cpp
import numpy as np

import hf_llama
import llama_f64
from common import DATA, HF_VERSIONS, max_abs, significant, versions, write_json, write_tensors
from gguf_blocks import store
from tiny_models import random_weights
from tiny_specs import shape

OUT = DATA / "gguf"
VOCAB = 320
SMALL = dict(shape(64, 4, 2, 96, vocab=VOCAB, tied=True), rope_theta=10000.0)
LARGE = dict(shape(256, 4, 2, 256, vocab=VOCAB, tied=True), rope_theta=10000.0, num_hidden_layers=1)
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
MIXED = {"attn_v": "F16", "ffn_up": "F32", "output": "BF16"}
Q4_K_M = {"attn_v": "Q6_K", "ffn_down": "Q6_K", "output": "Q6_K"}

# name: (config, type of the matrices, types that differ by tensor, ids)
MODELS = {
    **{kind.lower(): (SMALL, kind, {}, 32) for kind in ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]},
    **{kind.lower(): (LARGE, kind, {}, 32) for kind in ["Q4_K", "Q5_K", "Q6_K"]},
    "q4_k_m": (dict(LARGE, tie_word_embeddings=False), "Q4_K", Q4_K_M, 32),
    "head_dim": (dict(SMALL, head_dim=40, rms_norm_eps=1e-6), "F16", {}, 32),
    "llama3": (dict(SMALL, head_dim=32, rope_theta=500000.0, rope_scaling=LLAMA3), "F16", {}, 100),
    "linear": (dict(SMALL, rope_scaling={"rope_type": "linear", "factor": 4.0}), "F16", {}, 100),
    "yarn": (dict(SMALL, head_dim=32, max_position_embeddings=256, rope_scaling=YARN), "F16", {}, 100),
    **{kind.lower(): (SMALL, kind, {}, 32) for kind in ["IQ4_NL", "MXFP4"]},
    **{kind.lower(): (LARGE, kind, {}, 32) for kind in ["Q2_K", "Q3_K", "IQ4_XS"]},
    "q8_0_mixed": (dict(SMALL, tie_word_embeddings=False), "Q8_0", MIXED, 32),
}

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        layer, part = stem.removeprefix("model.layers.").split(".", 1)
        return f"blk.{layer}.{NAMES[part]}.{kind}"
    return f"{NAMES[stem]}.{kind}"


def permutation(rows, heads):
    """Row order of attn_q / attn_k: within a head, rows i and i + d/2 become neighbours."""
    return np.arange(rows).reshape(heads, 2, rows // heads // 2).swapaxes(1, 2).reshape(-1)


def pieces():
    """A SentencePiece-like vocabulary of VOCAB pieces: controls, bytes, then merges in order of rank and letters."""
    merges = ["▁t", "he", "▁a", "▁the", "in", "er", "nd", "▁and", "▁s", "ou", "re", "on", "or", "en", "ing", "th", "▁w"]
    letters = ["▁", *"etaoinshrdlucmfwypvbgkjqxz.,:;'!?"]
    normal = (merges + letters + list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))[: VOCAB - 259]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *normal]
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(normal))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    return tokens, scores, kinds + [gguf.TokenType.NORMAL] * len(normal)


def add_sizes(writer, config):
    d = llama_f64.head_dim(config)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if "head_dim" in config:
        writer.add_key_length(d)
        writer.add_value_length(d)


def add_vocabulary(writer):
    tokens, scores, kinds = pieces()
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def add_metadata(writer, config, kind):
    writer.add_type("model")
    writer.add_name("tiny random llama")
    add_sizes(writer, config)
    writer.add_file_type(
        {
            "F32": 0,
            "F16": 1,
            "Q4_0": 2,
            "Q4_1": 3,
            "Q8_0": 7,
            "Q5_0": 8,
            "Q5_1": 9,
            "Q4_K": 15,
            "Q5_K": 17,
            "Q6_K": 18,
            "BF16": 32,
            "Q2_K": 10,
            "Q3_K": 12,
            "IQ4_NL": 25,
            "IQ4_XS": 30,
            "MXFP4": 38,
        }[kind]
    )
    writer.add_vocab_size(VOCAB)
    writer.add_rope_dimension_count(llama_f64.head_dim(config))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    rope = config.get("rope_scaling", {})
    if rope.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    add_vocabulary(writer)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def rope_factors(config):
    """rope_freqs.weight of Llama 3 scaling: the divisor of each plain frequency."""
    plain = llama_f64.plain_frequencies(config["rope_theta"], llama_f64.head_dim(config))
    scaled, _ = llama_f64.frequencies(config, 1)
    return (plain / scaled).astype(np.float32)


def write_model(path, config, kind, exceptions, rng):
    """Writes the file; returns HF names -> float32 values that a reader must return."""
    writer = gguf.GGUFWriter(path, "llama")
    add_metadata(writer, config, kind)
    if config.get("rope_scaling", {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(config))
    weights = {}
    for name, value in random_weights(config, rng, 1.0).items():
        target = gguf_name(name)
        if value.ndim == 1:
            writer.add_tensor(target, value)
            weights[name] = value
            continue
        heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(target.split(".")[-2])
        order = permutation(len(value), config[heads]) if heads else np.arange(len(value))
        tensor_kind = exceptions.get(target.split(".")[-2], kind)
        raw, stored = store(np.ascontiguousarray(value[order]), tensor_kind, rng)
        if tensor_kind in ("F32", "F16"):
            writer.add_tensor(target, raw.view(np.float32 if tensor_kind == "F32" else np.float16))
        else:
            writer.add_tensor(target, raw, raw_dtype=gguf.GGMLQuantizationType[tensor_kind])
        weights[name] = stored[np.argsort(order)]
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def llama_cpp_logits(path, ids):
    """Logits of all rows, by llama.cpp with an fp32 KV cache."""
    llm = llama_cpp.Llama(
        str(path),
        n_ctx=512,
        n_batch=512,
        logits_all=True,
        verbose=False,
        n_threads=2,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
    )
    llm.eval([int(token) for token in ids])
    return np.array(llm.scores[: len(ids)], np.float32)


def make(name, seed):
    config, kind, exceptions, n = MODELS[name]
    rng = np.random.default_rng(seed)
    path = OUT / f"{name}.gguf"
    weights = write_model(path, config, kind, exceptions, rng)
    ids = rng.integers(0, VOCAB, n)
    logits = hf_llama.forward(hf_llama.from_weights(config, weights), ids)
    rows = np.arange(n) if n <= 32 else np.linspace(0, n - 1, 32).astype(int)
    write_tensors(OUT / f"{name}.golden.safetensors", {"ids": ids, "rows": rows, "logits": logits[rows]})
    scale = max_abs(logits)
    record = {
        "types": sorted({kind, *exceptions.values()}),
        "rope": llama_f64.rope_settings(config),
        "n": n,
        "max_abs_logit": significant(scale, 6),
        "hf_error_vs_f64": significant(max_abs(logits - llama_f64.forward(config, weights, ids)) / scale),
        "llama_cpp_differs_by": significant(max_abs(logits - llama_cpp_logits(path, ids)) / scale),
    }
    print(
        f"{name:10s} {path.stat().st_size / 1024:5.0f} KiB |logit| {record['max_abs_logit']:<8} fp32 error "
        f"{record['hf_error_vs_f64']:.1e} llama.cpp {record['llama_cpp_differs_by']:.1e}"
    )
    return record


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    golden = {name: make(name, seed) for seed, name in enumerate(MODELS, start=301)}
    golden["versions"] = {**HF_VERSIONS, **versions("gguf", "llama-cpp-python")}
    golden["how"] = "tests/reference/gguf_models.py: logits by transformers in fp32 from the dequantised weights"
    write_json(OUT / "golden.json", golden)


if __name__ == "__main__":
    main()
