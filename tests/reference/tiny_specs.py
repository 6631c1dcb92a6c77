"""Specifications of the tiny models. An entry has the config.json, and how weights and forwards are made.

Keys in addition to `config`: dtype (F32, F16, BF16 or MIXED: matrices BF16, norms F32), n (ids of the forward),
prompt_len (a second forward in steps, for `dynamic`), shards, embed_std (default 1), extras (tensors that a loader must
ignore).
"""


def shape(dim, heads, kv_heads, ffn, vocab=160, head_dim=None, eps=1e-5, tied=False, positions=512, **rest):
    """config.json without rope settings. A None argument leaves its key out."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": dim,
        "intermediate_size": ffn,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
        "rms_norm_eps": eps,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **rest,
    }
    return {key: value for key, value in config.items() if value is not None}


NO_BIAS = {"attention_bias": False, "mlp_bias": False}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

SPECS = {
    "plain-f32": dict(
        what="no rope keys but rope_theta, no num_key_value_heads (GQA 1), tied embeddings",
        config=dict(shape(64, 4, None, 64, tied=True), rope_theta=10000.0, torch_dtype="float32"),
        dtype="F32",
        n=40,
    ),
    "one-token": dict(
        what="a prompt of one id; eps 1e-2 with embeddings of std 0.05, so that eps counts",
        config=dict(shape(64, 2, 1, 64, eps=1e-2), rope_theta=10000.0, torch_dtype="float16"),
        dtype="F16",
        n=1,
        embed_std=0.05,
    ),
    "small-embeddings": dict(
        what="eps 1e-3 with embeddings of std 0.05; integer rope_theta",
        config=dict(
            shape(64, 2, 2, 64, eps=1e-3, **NO_BIAS), rope_theta=10000, rope_scaling=None, torch_dtype="float16"
        ),
        dtype="F16",
        n=24,
        embed_std=0.05,
    ),
    "gqa2-f16": dict(
        what="GQA 2, head_dim 32, rope_theta 500000, rope_scaling null, 300 ids (more than one KV tile)",
        config=dict(shape(64, 4, 2, 96, head_dim=32), rope_theta=500000.0, rope_scaling=None, torch_dtype="float16"),
        dtype="F16",
        n=300,
    ),
    "gqa4-bf16": dict(
        what="GQA 4, bf16, transformers 5 spelling (dtype, rope_parameters of type default), eps 1e-6",
        config=dict(
            shape(64, 8, 2, 96, eps=1e-6, head_dim=16),
            dtype="bfloat16",
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        dtype="BF16",
        n=64,
    ),
    "heads9-kv3": dict(
        what="9 heads and 3 KV heads (the demo model's shape in small), tied embeddings, rope_theta 100000",
        config=dict(shape(72, 9, 3, 96, head_dim=16, tied=True, **NO_BIAS), rope_theta=100000, torch_dtype="bfloat16"),
        dtype="BF16",
        n=48,
    ),
    "head-dim-40": dict(
        what="head_dim 40 = dim / heads, no head_dim key",
        config=dict(shape(80, 2, 1, 96, eps=1e-6), rope_theta=10000.0, torch_dtype="float16"),
        dtype="F16",
        n=56,
    ),
    "head-dim-80": dict(
        what="head_dim 80, explicit, not dim / heads; heads * head_dim > dim",
        config=dict(shape(64, 2, 2, 64, head_dim=80), rope_theta=10000.0, torch_dtype="float16"),
        dtype="F16",
        n=56,
    ),
    "head-dim-96": dict(
        what="head_dim 96, explicit, not dim / heads; transformers 5 spelling",
        config=dict(
            shape(64, 2, 1, 64, head_dim=96),
            dtype="float16",
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        dtype="F16",
        n=56,
    ),
    "head-dim-24": dict(
        what="heads * head_dim < dim: 4 heads of 24 in dim 128",
        config=dict(shape(128, 4, 2, 64, head_dim=24), rope_theta=10000.0, torch_dtype="float16"),
        dtype="F16",
        n=32,
    ),
    "odd-extents": dict(
        what="vocabulary 163 and ffn 72 divide by no rank count; 5 heads, 1 KV head",
        config=dict(shape(80, 5, 1, 72, vocab=163), rope_theta=10000.0, torch_dtype="bfloat16"),
        dtype="BF16",
        n=48,
    ),
    "mixed-types": dict(
        what="norms F32 with BF16 matrices, and rotary_emb.inv_freq tensors as old conversions left them",
        config=dict(shape(64, 4, 2, 96), rope_theta=10000.0, torch_dtype="bfloat16"),
        dtype="MIXED",
        n=48,
        extras=True,
    ),
    "sharded-2": dict(
        what="two shards and an index",
        config=dict(shape(64, 4, 4, 96), rope_theta=10000.0, torch_dtype="float16"),
        dtype="F16",
        n=48,
        shards=2,
    ),
    "sharded-3": dict(
        what="three shards and an index, F32, a layer's tensors in different shards, tied embeddings",
        config=dict(shape(64, 4, 1, 64, tied=True), rope_theta=10000.0, torch_dtype="float32"),
        dtype="F32",
        n=48,
        shards=3,
    ),
    "linear-type": dict(
        what="linear scaling, old spelling: rope_scaling with type",
        config=dict(
            shape(64, 4, 2, 64),
            rope_theta=10000.0,
            rope_scaling={"type": "linear", "factor": 4.0},
            torch_dtype="float16",
        ),
        dtype="F16",
        n=100,
    ),
    "linear-parameters": dict(
        what="linear scaling, rope_parameters; factor not a power of two",
        config=dict(
            shape(64, 4, 4, 64),
            dtype="float16",
            rope_parameters={"rope_type": "linear", "rope_theta": 50000.0, "factor": 2.5},
        ),
        dtype="F16",
        n=100,
    ),
    "dynamic-below": dict(
        what="dynamic scaling, prompt and continuation within the trained 64 positions (same as no scaling)",
        config=dict(
            shape(64, 4, 2, 64, positions=64),
            rope_theta=10000.0,
            rope_scaling={"type": "dynamic", "factor": 4.0},
            torch_dtype="float16",
        ),
        dtype="F16",
        n=60,
        prompt_len=40,
    ),
    "dynamic-across": dict(
        what="dynamic scaling, prompt below the trained 64 positions, continuation beyond them",
        config=dict(
            shape(64, 4, 2, 64, positions=64),
            rope_theta=10000.0,
            rope_scaling={"rope_type": "dynamic", "factor": 2.0},
            torch_dtype="bfloat16",
        ),
        dtype="BF16",
        n=90,
        prompt_len=50,
    ),
    "dynamic-beyond": dict(
        what="dynamic scaling, prompt already beyond the trained 64 positions",
        config=dict(
            shape(64, 4, 2, 64, positions=64),
            dtype="float16",
            rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
        ),
        dtype="F16",
        n=120,
        prompt_len=96,
    ),
    "yarn-type": dict(
        what="YaRN, old spelling, factor 4 over 32 positions",
        config=dict(
            shape(64, 2, 1, 64, head_dim=64, positions=128),
            rope_theta=10000.0,
            torch_dtype="float16",
            rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        ),
        dtype="F16",
        n=110,
    ),
    "yarn-attention-factor": dict(
        what="YaRN with attention_factor",
        config=dict(
            shape(64, 4, 2, 64, head_dim=32, positions=256),
            rope_theta=10000.0,
            torch_dtype="float16",
            rope_scaling={
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "attention_factor": 0.75,
            },
        ),
        dtype="F16",
        n=110,
    ),
    "yarn-mscale": dict(
        what="YaRN with mscale and mscale_all_dim (they differ, so the factor is their ratio)",
        config=dict(
            shape(64, 4, 2, 64, head_dim=32, positions=512),
            rope_theta=10000.0,
            torch_dtype="bfloat16",
            rope_scaling={
                "rope_type": "yarn",
                "factor": 8.0,
                "original_max_position_embeddings": 64,
                "mscale": 1.0,
                "mscale_all_dim": 0.5,
            },
        ),
        dtype="BF16",
        n=110,
    ),
    "yarn-no-truncate": dict(
        what="YaRN with truncate false, beta_fast 8 and beta_slow 2, rope_parameters",
        config=dict(
            shape(64, 4, 2, 64, head_dim=32, positions=256),
            dtype="float16",
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
                "beta_fast": 8,
                "beta_slow": 2,
            },
        ),
        dtype="F16",
        n=110,
    ),
    "llama3-scaling": dict(
        what="Llama 3 scaling as Llama 3.2 writes it: rope_scaling with rope_type, list of eos ids, tied, bf16",
        config=dict(
            shape(64, 4, 1, 96, head_dim=32, tied=True, eos_token_id=[2, 3, 4], **NO_BIAS),
            rope_theta=500000.0,
            rope_scaling={**LLAMA3, "rope_type": "llama3"},
            torch_dtype="bfloat16",
        ),
        dtype="BF16",
        n=120,
    ),
    "llama3-parameters": dict(
        what="Llama 3 scaling in rope_parameters, 280 ids (more than one KV tile)",
        config=dict(
            shape(64, 2, 2, 64, head_dim=32),
            dtype="float16",
            rope_parameters={**LLAMA3, "rope_type": "llama3", "rope_theta": 10000.0},
        ),
        dtype="F16",
        n=280,
    ),
}
