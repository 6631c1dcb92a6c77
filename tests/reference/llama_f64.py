"""A forward of Llama and its families in float64, written from the formulas and independent of transformers.

It bounds the error of the goldens: its difference from transformers in fp32 is the error of fp32. Angles come from
float64 frequencies, or from frequencies and angles that are rounded to fp32 as in transformers. This separates the two
sources of error.
"""

import math

import numpy as np


def rope_settings(config):
    """The rope dictionary under either of its names, with rope_type and rope_theta filled in."""
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    rope.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope


def head_dim(config):
    missing = 128 if config.get("model_type") == "qwen3" else config["hidden_size"] // config["num_attention_heads"]
    return config.get("head_dim") or missing


def rotary_dim(config):
    return int(head_dim(config) * (config.get("partial_rotary_factor") or 1))


def plain_frequencies(base, dim):
    return base ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)


def yarn(rope, base, dim):
    """Frequencies and the factor on cos and sin ("NTK by parts")."""
    factor, original = rope["factor"], rope["original_max_position_embeddings"]

    def dimension(rotations):
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(rope.get("beta_fast") or 32), dimension(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    plain = plain_frequencies(base, dim)

    def scale(mscale):
        return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0

    attention = rope.get("attention_factor")
    if attention is None:
        both = rope.get("mscale") and rope.get("mscale_all_dim")
        attention = scale(rope["mscale"]) / scale(rope["mscale_all_dim"]) if both else scale(1.0)
    return plain / factor * ramp + plain * (1 - ramp), attention


def llama3(rope, base, dim):
    plain = plain_frequencies(base, dim)
    original, low, high = (
        rope[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    wavelength = 2 * math.pi / plain
    smooth = np.clip((original / wavelength - low) / (high - low), 0, 1)
    return (1 - smooth) * plain / rope["factor"] + smooth * plain


def longrope(config, rope, base, dim, length):
    original = config["original_max_position_embeddings"]
    factors = rope["long_factor" if length > original else "short_factor"]
    stretch = config["max_position_embeddings"] / original
    return plain_frequencies(base, dim) / np.array(factors), math.sqrt(1 + math.log(stretch) / math.log(original))


def frequencies(config, length):
    """Inverse frequencies [rotary_dim / 2] for a pass over `length` positions, and the factor on cos and sin."""
    rope, dim = rope_settings(config), rotary_dim(config)
    base, kind = rope["rope_theta"], rope["rope_type"]
    if kind == "default":
        return plain_frequencies(base, dim), 1.0
    if kind == "linear":
        return plain_frequencies(base, dim) / rope["factor"], 1.0
    if kind == "dynamic":
        trained = config["max_position_embeddings"]
        stretch = rope["factor"] * max(length, trained) / trained - (rope["factor"] - 1)
        return plain_frequencies(base * stretch ** (dim / (dim - 2)), dim), 1.0
    if kind == "yarn":
        return yarn(rope, base, dim)
    if kind == "llama3":
        return llama3(rope, base, dim), 1.0
    if kind == "longrope":
        return longrope(config, rope, base, dim, length)
    raise ValueError(f"rope_type {kind!r}")


def angles(config, prompt_len, length, fp32_angles):
    """cos and sin [length, head_dim / 2]: prompt rows use the prompt's length, and a later row p uses length p + 1."""
    rows, factor = [], 1.0
    for position in range(length):
        inverse, factor = frequencies(config, prompt_len if position < prompt_len else position + 1)
        if fp32_angles:
            rows.append((np.float32(position) * inverse.astype(np.float32)).astype(np.float64))
        else:
            rows.append(position * inverse)
    table = np.array(rows)
    return np.cos(table) * factor, np.sin(table) * factor


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x, cos, sin):
    """x [n, heads, d]; pairs are (i, i + r / 2) for the first r elements; the others pass."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def window(config, layer):
    """The tokens that a layer sees, the query's own included; None: all."""
    kind = config.get("model_type")
    if kind in ("mistral", "phi3"):
        return config.get("sliding_window")
    if kind not in ("qwen2", "qwen3") or not config.get("use_sliding_window"):
        return None
    types = config.get("layer_types")
    windowed = types[layer] == "sliding_attention" if types else layer >= config.get("max_window_layers", 28)
    return config["sliding_window"] if windowed else None


def unfused(config, w):
    """Weights in which Phi-3's qkv_proj and gate_up_proj are the matrices that they consist of."""
    d, out = head_dim(config), {}
    q = config["num_attention_heads"] * d
    kv = (config.get("num_key_value_heads") or config["num_attention_heads"]) * d
    for name, value in w.items():
        if "qkv_proj" in name:
            parts = zip("qkv", np.split(value, [q, q + kv]))
            out |= {name.replace("qkv_proj", f"{part}_proj"): rows for part, rows in parts}
        elif "gate_up_proj" in name:
            parts = zip(("gate", "up"), np.split(value, 2))
            out |= {name.replace("gate_up_proj", f"{part}_proj"): rows for part, rows in parts}
        else:
            out[name] = value
    return out


def softmax(scores):
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return scores / np.sum(scores, axis=-1, keepdims=True)


def forward(config, weights, ids, prompt_len=None, fp32_angles=False):
    """Logits [n, vocab] in float64. weights: HF names -> arrays. The forward is causal, so splitting the ids into
    several forwards affects only rope type `dynamic`, by prompt_len (default: all ids are prompt)."""
    w = unfused(config, {name: np.asarray(value, np.float64) for name, value in weights.items()})
    n, d, eps = len(ids), head_dim(config), config["rms_norm_eps"]
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    cos, sin = angles(config, n if prompt_len is None else prompt_len, n, fp32_angles)
    future = np.triu(np.full((n, n), -np.inf), 1)
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]

    def product(h, name):
        y = h @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def normed(x, name):
        return rms_norm(x, w[name + ".weight"], eps) if name + ".weight" in w else x

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        h = rms_norm(x, w[prefix + "input_layernorm.weight"], eps)
        q = product(h, prefix + "self_attn.q_proj").reshape(n, heads, d)
        k = product(h, prefix + "self_attn.k_proj").reshape(n, kv_heads, d)
        v = product(h, prefix + "self_attn.v_proj").reshape(n, kv_heads, d)
        q = rotate(normed(q, prefix + "self_attn.q_norm"), cos, sin)
        k = rotate(normed(k, prefix + "self_attn.k_norm"), cos, sin)
        seen = window(config, layer)
        mask = future if seen is None else future + np.where(distance < seen, 0, -np.inf)
        mixed = np.empty((n, heads, d))
        for head in range(heads):
            group = head // (heads // kv_heads)
            mixed[:, head] = softmax(q[:, head] @ k[:, group].T / math.sqrt(d) + mask) @ v[:, group]
        x = x + product(mixed.reshape(n, heads * d), prefix + "self_attn.o_proj")
        h = rms_norm(x, w[prefix + "post_attention_layernorm.weight"], eps)
        gate = h @ w[prefix + "mlp.gate_proj.weight"].T
        up = h @ w[prefix + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[prefix + "mlp.down_proj.weight"].T
    head = w["model.embed_tokens.weight" if config.get("tie_word_embeddings") else "lm_head.weight"]
    return rms_norm(x, w["model.norm.weight"], eps) @ head.T
