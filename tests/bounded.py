#!/usr/bin/env python3
"""Compares `generate --kv-policy` with the float64 implementation tests/reference/bounded_f64.py, on small random
models that are made here: the generated tokens, and after the prompt and every step the retained tokens of each layer
and KV head, with their scores.

  bounded.py TRIREME                         every combination: some minutes on 2 cores
  bounded.py TRIREME --quick                 about two dozen of them
  bounded.py TRIREME --random 300            random settings, from --first SEED on
  bounded.py TRIREME --only TEXT             combinations whose name contains TEXT
  bounded.py TRIREME --models DIR ...        h2o with all settings, and the other policies, on these models instead
                                             (config.json and safetensors)

If two scores or two logits are nearly equal, f32 and f64 may choose differently. The reference then takes the engine's
choice, if scores differ by at most 1e-5 of their size, and logits by at most 1e-4 of their range. The line counts this.

Needs numpy; exit status 1: something differs, 77: numpy is not installed."""

import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np
except ImportError:
    print("numpy is not installed here")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "reference"))
import bounded_f64  # noqa: E402
import sharing_f64  # noqa: E402

TOKENS = 64
SCORES_RELATIVE, SCORES_ABSOLUTE = 1e-3, 1e-4
# layers, hidden, heads, KV heads, head_dim, vocab, intermediate, tied, rope settings and those of shared layers
SHAPES = {
    "mha": (3, 64, 4, 4, 16, 131, 96, False, {"rope_theta": 10000.0}),
    "gqa2": (2, 64, 4, 2, 16, 200, 128, False, {"rope_theta": 10000.0}),
    "heads6": (3, 96, 6, 3, 16, 256, 96, True, {"rope_theta": 500.0}),
    "mqa8": (2, 64, 8, 1, 8, 160, 96, False, {"rope_theta": 10000.0}),
    "scaled": (3, 96, 6, 2, 24, 300, 64, False, {
        "rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                                                "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "deep": (6, 48, 6, 3, 8, 150, 40, False, {"rope_theta": 10000.0}),
    "shallow": (1, 32, 4, 1, 16, 150, 40, False, {"rope_theta": 10000.0}),
}
# layers, heads, KV heads, layer map and force_nodiag of models whose layers share KV. Layers read earlier ones, later
# ones, both; several iterated blocks; owners that do not read themselves; tokens that do not see themselves.
SHARED = {
    "cla": (4, 4, 2, "0_0_2_2", False),
    "yoco": (5, 6, 3, "0_1_2_2_2", False),
    "lckv": (6, 4, 2, "0_4_4_4_4_5", False),
    "top": (4, 4, 1, "3_3_3_3", False),
    "blocks": (7, 4, 4, "0_2_2_2_5_5_5", False),
    "round": (3, 4, 2, "1_2_0", False),
    "crossed": (6, 6, 2, "3_0_5_3_4_5", False),
    "nodiag": (3, 4, 2, "0_1_2", True),
    "lckvnodiag": (5, 6, 3, "0_3_3_3_4", True),
}


def shared_shape(layers, heads, kv_heads, layer_map, nodiag):
    """A shape with shared layers. Each pass amplifies the rounding errors of the previous one, so make_model gives such
    models smaller weights."""
    return (layers, 16 * heads, heads, kv_heads, 16, 190, 48, False, {
        "rope_theta": 10000.0, "model_type": "lckv-llama", "layer_types": layer_map, "force_nodiag": nodiag,
        "forward_passes": 3, "backward_passes": 1})


def random_shape(seed):
    """A random layer map in which some layer reads another one."""
    draw = random.Random(seed)
    while True:
        layers = draw.randrange(2, 7)
        source = [draw.randrange(layers) for _ in range(layers)]
        if source != list(range(layers)):
            break
    heads, kv_heads = draw.choice(((4, 2), (6, 3), (4, 1), (6, 2), (4, 4)))
    return shared_shape(layers, heads, kv_heads, "_".join(map(str, source)), draw.random() < 0.25)


SHAPES.update((name, shared_shape(*shape)) for name, shape in SHARED.items())
RANDOM_MAPS = [f"map{seed}" for seed in range(16)]
SHAPES.update((name, random_shape(int(name[3:]))) for name in RANDOM_MAPS)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make_model(folder, number, shape):
    """Writes a random model. Queries and keys are large, so that attention is far from uniform."""
    layers, hidden, heads, kv_heads, dim, vocab, inner, tied, rope = shape
    shares = "layer_types" in rope
    loud, wide = (1.0, 0.6) if shares else (1.4, 1.5)
    draw = np.random.default_rng(1700 + number)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "head_dim": dim,
              "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv_heads, "vocab_size": vocab, "max_position_embeddings": 1024,
              "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": tied, "bos_token_id": 1,
              "eos_token_id": 2, "torch_dtype": "float32", **rope}

    def matrix(rows, columns, scale):
        return draw.normal(size=(rows, columns)) * scale / math.sqrt(columns)

    # A tied head would repeat the last token forever if the layers added little to its embedding.
    tensors = {"model.embed_tokens.weight": draw.normal(size=(vocab, hidden)) * (0.1 if tied else 1.0)}
    owners = sharing_f64.sharing(config).owners
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        tensors[prefix + "input_layernorm.weight"] = 1 + 0.1 * draw.normal(size=hidden)
        tensors[prefix + "self_attn.q_proj.weight"] = matrix(heads * dim, hidden, loud)
        if layer in owners:
            tensors[prefix + "self_attn.k_proj.weight"] = matrix(kv_heads * dim, hidden, loud)
            tensors[prefix + "self_attn.v_proj.weight"] = matrix(kv_heads * dim, hidden, 1.0)
        tensors[prefix + "self_attn.o_proj.weight"] = matrix(hidden, heads * dim, wide)
        tensors[prefix + "post_attention_layernorm.weight"] = 1 + 0.1 * draw.normal(size=hidden)
        tensors[prefix + "mlp.gate_proj.weight"] = matrix(inner, hidden, 1.0)
        tensors[prefix + "mlp.up_proj.weight"] = matrix(inner, hidden, 1.0)
        tensors[prefix + "mlp.down_proj.weight"] = matrix(hidden, inner, 1.0)
    tensors["model.norm.weight"] = 1 + 0.1 * draw.normal(size=hidden)
    if not tied:
        tensors["lm_head.weight"] = matrix(vocab, hidden, 1.0)
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)


def combinations():
    """(model, prompt tokens, ranks, options) of every combination."""
    def one(model, prompt, ranks=1, **options):
        rows.append((model, prompt, ranks, options))

    rows = []
    models = ["mha", "gqa2", "heads6", "mqa8", "scaled"]
    for window in (8, 16, 64):
        for rolling in (False, True):
            for number, gqa in enumerate(bounded_f64.GQA):
                for model in models if window == 16 else models[number % 2::2]:
                    if SHAPES[model][2] > SHAPES[model][3] or gqa == "mean":
                        one(model, 120, policy="h2o", window=window, rolling=rolling, gqa=gqa)
    for rolling in (False, True):
        one("gqa2", 100, policy="h2o", window=16, heavy=0, rolling=rolling)
        one("gqa2", 100, policy="h2o", window=16, heavy=15, rolling=rolling)
        one("heads6", 130, policy="h2o", window=32, heavy=5, rolling=rolling)
        one("scaled", 100, policy="h2o", window=16, sinks=4, rolling=rolling)
        one("mqa8", 20, policy="h2o", window=48, sinks=24, rolling=rolling)     # the budget is reached while decoding
        one("mha", 16, policy="h2o", window=16, rolling=rolling)
        one("mha", 17, policy="h2o", window=16, rolling=rolling)
        one("mha", 3, policy="h2o", window=8, sinks=4, rolling=rolling)         # one sink is a generated token
        one("scaled", 120, policy="h2o", window=256, rolling=rolling)           # nothing is evicted
        one("gqa2", 110, policy="h2o", window=16, decay=0.9, rolling=rolling)
        one("heads6", 110, policy="h2o", window=32, decay=0.98, gqa="max", rolling=rolling)
        one("gqa2", 110, policy="h2o", window=16, normalise=True, rolling=rolling)
        one("mqa8", 110, policy="h2o", window=32, normalise=True, decay=0.95, sinks=2, gqa="sum", rolling=rolling)
        for model, window, chunk in (("mha", 16, 1), ("gqa2", 16, 7), ("heads6", 32, 32), ("mqa8", 8, 50),
                                     ("scaled", 24, 40), ("scaled", 64, 119)):
            for gqa in ("mean", "max"):
                one(model, 120, policy="h2o", window=window, chunk=chunk, rolling=rolling, gqa=gqa)
        one("gqa2", 150, policy="h2o", window=16, chunk=16, decay=0.9, rolling=rolling)
        one("gqa2", 150, policy="h2o", window=16, chunk=16, normalise=True, sinks=3, rolling=rolling)
        for model in ("mha", "gqa2", "mqa8", "scaled"):
            one(model, 100, policy="streaming", window=16, rolling=rolling)
            one(model, 100, policy="tova", window=16, rolling=rolling)
            one(model, 100, policy="knorm", window=17, rolling=rolling)
            one(model, 100, policy="keydiff", window=17, rolling=rolling)
            one(model, 100, policy="random", window=17, seed=3, rolling=rolling)
            one(model, 120, policy="expected", window=32, observe=8, every=16, rolling=rolling)
            one(model, 120, policy="snapkv", window=32, observe=8, every=16, rolling=rolling)
            one(model, 120, policy="pyramidkv", window=40, observe=8, every=16, rolling=rolling)
            one(model, 120, policy="adakv", window=32, observe=4, every=16, rolling=rolling)
        one("heads6", 120, policy="streaming", window=64, sinks=0, chunk=32, rolling=rolling)
        one("heads6", 2, policy="streaming", window=8, sinks=4, rolling=rolling)
        for gqa in bounded_f64.GQA:
            for share in ("layer", "head"):
                one("heads6", 120, policy="tova", window=16, gqa=gqa, heads_share=share, rolling=rolling)
            one("heads6", 120, policy="snapkv", window=24, observe=8, pool=3, every=10, gqa=gqa, rolling=rolling)
        one("heads6", 120, policy="tova", window=16, sinks=4, chunk=20, rolling=rolling)
        one("heads6", 120, policy="h2o", window=16, heads_share="layer", rolling=rolling)
        one("gqa2", 120, policy="snapkv", window=24, observe=8, every=10, heads_share="layer", gqa="max", rolling=rolling)
        one("deep", 120, policy="pyramidkv", window=40, observe=8, every=16, heads_share="layer", rolling=rolling)
        one("heads6", 120, policy="knorm", window=16, sinks=4, chunk=20, rolling=rolling)
        one("gqa2", 120, policy="knorm", window=16, heavy=15, rolling=rolling)
        one("gqa2", 120, policy="keydiff", window=16, heavy=15, rolling=rolling)
        one("heads6", 120, policy="keydiff", window=16, sinks=4, chunk=20, rolling=rolling)
        one("gqa2", 120, policy="expected", window=32, observe=16, every=1, rolling=rolling)
        one("mqa8", 12, policy="expected", window=32, observe=16, every=6, rolling=rolling)
        one("heads6", 120, policy="expected", window=24, observe=10, sinks=0, every=7, chunk=11, gqa="max", rolling=rolling)
        one("gqa2", 600, policy="expected", window=300, observe=64, every=30, chunk=200, rolling=rolling)
        one("gqa2", 120, policy="random", window=16, seed=7, rolling=rolling)
        one("heads6", 120, policy="random", window=16, sinks=0, chunk=20, seed=2**32 - 1, rolling=rolling)
        one("mha", 120, policy="random", window=8, seed=9, rolling=rolling)
        one("scaled", 600, policy="random", window=300, chunk=200, rolling=rolling)
        one("mha", 120, policy="knorm", window=16, heavy=3, chunk=20, rolling=rolling)
        one("gqa2", 120, policy="snapkv", window=32, observe=16, pool=1, every=1, rolling=rolling)
        one("gqa2", 120, policy="snapkv", window=32, observe=16, pool=7, every=5, sinks=4, rolling=rolling)
        one("mqa8", 12, policy="snapkv", window=32, observe=16, every=6, rolling=rolling)
        one("mha", 120, policy="snapkv", window=32, observe=16, every=20, chunk=32, rolling=rolling)
        one("mha", 120, policy="snapkv", window=32, observe=16, every=20, chunk=11, rolling=rolling)
        one("deep", 120, policy="pyramidkv", window=40, observe=8, every=16, gqa="max", rolling=rolling)
        one("shallow", 120, policy="pyramidkv", window=20, observe=8, every=16, rolling=rolling)
        one("heads6", 120, policy="pyramidkv", window=33, observe=9, every=10, rolling=rolling)
        one("scaled", 120, policy="pyramidkv", window=33, observe=9, every=10, chunk=25, sinks=1, rolling=rolling)
        one("heads6", 120, policy="adakv", window=33, observe=5, every=10, gqa="max", rolling=rolling)
        one("scaled", 120, policy="adakv", window=40, observe=3, every=10, chunk=25, sinks=5, rolling=rolling)
        one("mha", 120, policy="adakv", window=16, observe=2, every=7, chunk=9, rolling=rolling)
        one("gqa2", 20, policy="adakv", window=32, observe=4, every=7, rolling=rolling)
        one("mha", 700, policy="adakv", window=300, observe=20, every=21, rolling=rolling)  # tiles are reassigned
        one("scaled", 900, policy="adakv", window=257, observe=30, every=40, chunk=200, rolling=rolling)
        one("gqa2", 700, policy="h2o", window=300, rolling=rolling)  # more than one block of every kind
        one("heads6", 700, policy="h2o", window=513, gqa="max", chunk=200, rolling=rolling)
        one("scaled", 700, policy="h2o", window=256, heavy=250, gqa="sum", chunk=64, decay=0.999, rolling=rolling)
        one("mqa8", 600, policy="snapkv", window=400, observe=64, every=30, rolling=rolling)
        one("mqa8", 600, policy="snapkv", window=400, observe=130, every=30, chunk=100, gqa="max", rolling=rolling)
        one("mha", 600, policy="tova", window=257, chunk=300, rolling=rolling)
        one("mha", 600, 2, policy="streaming", window=300, sinks=100, rolling=rolling)
        one("scaled", 330, policy="pyramidkv", window=200, observe=32, every=21, rolling=rolling)  # layer 0 retains the prompt
        one("scaled", 600, 3, policy="pyramidkv", window=300, observe=64, every=21, rolling=rolling)
    for ranks in (2, 3, 4):
        for model in models:
            one(model, 120, ranks, policy="h2o", window=16, gqa=bounded_f64.GQA[ranks - 1], rolling=ranks == 3)
        one("gqa2", 120, ranks, policy="h2o", window=16, chunk=30, rolling=True, sinks=2)
        one("heads6", 120, ranks, policy="snapkv", window=32, observe=8, every=10)
        for number, model in enumerate(models):
            one(model, 120, ranks, policy="tova", window=16, gqa=bounded_f64.GQA[(ranks + number) % 4], rolling=True)
        one("gqa2", 120, ranks, policy="h2o", window=16, heads_share="layer", gqa="max", chunk=25)
        one("mqa8", 120, ranks, policy="tova", window=16, heads_share="head", rolling=True)
        one("mqa8", 120, ranks, policy="h2o", window=16, gqa="first")
        one("mqa8", 120, ranks, policy="h2o", window=16, gqa="max", chunk=25)
        one("mqa8", 120, ranks, policy="snapkv", window=32, observe=8, every=10, gqa="max")
        one("scaled", 120, ranks, policy="pyramidkv", window=40, observe=8, every=16, rolling=True)
        one("mha", 120, ranks, policy="knorm", window=16)
        one("mha", 120, ranks, policy="keydiff", window=16)
        one("heads6", 120, ranks, policy="random", window=16, seed=ranks)
        one("heads6", 120, ranks, policy="expected", window=32, observe=8, every=10)
        one("mqa8", 120, ranks, policy="expected", window=32, observe=8, every=10, heads_share="layer")
        for model in models:
            one(model, 120, ranks, policy="adakv", window=32, observe=4, every=16, rolling=ranks == 3)
        one("mha", 600, ranks, policy="adakv", window=260, observe=16, every=16, chunk=250)
        one("heads6", 120, ranks, policy="adakv", window=24, observe=3, every=9, chunk=30, gqa="max", sinks=4)
    return rows + sharing_combinations()


POLICIES = (("h2o", {}), ("streaming", {}), ("tova", {}), ("knorm", {}), ("keydiff", {}), ("random", {}),
            ("snapkv", {"observe": 8, "every": 16}), ("expected", {"observe": 8, "every": 16}), ("pyramidkv", {"observe": 8, "every": 16}), ("adakv", {"observe": 4, "every": 16}))

assert {name for name, _ in POLICIES} == set(bounded_f64.POLICIES) - {"full"}, "every policy that evicts"


def sharing_combinations():
    """combinations() of models whose layers share KV: maps x policies x positions, passes, ranks, random maps."""
    rows, number = [], 0
    for policy, more in POLICIES:
        for model in SHARED:
            for rolling in (False, True):
                number += 1
                options = {"policy": policy, "window": 40 if policy == "pyramidkv" else 24, "rolling": rolling,
                           "gqa": bounded_f64.GQA[number % 4], **more}
                passes = (0, 1, 2, 9)[number // 3 % 4]
                rows.append((model, 90, 1, options | ({"passes": passes} if passes else {})))
    for number, model in enumerate(SHARED):
        for ranks in (2, 4):
            for policy, more in POLICIES:
                number += 1
                rows.append((model, 70, ranks, {"policy": policy, "window": 40 if policy == "pyramidkv" else 20,
                                                "rolling": number % 3 == 0, "gqa": bounded_f64.GQA[number % 4], **more}))
    for number, model in enumerate(RANDOM_MAPS):
        for policy, more in POLICIES:
            number += 1
            rows.append((model, 80, (1, 1, 2, 4)[number % 4],
                         {"policy": policy, "window": 33, "rolling": number % 2 == 0, "gqa": bounded_f64.GQA[number % 4],
                          "passes": 1 + number % 5, **more}))
    for rolling in (False, True):
        for gqa in bounded_f64.GQA:
            rows.append(("lckv", 100, 1, {"policy": "h2o", "window": 16, "gqa": gqa, "chunk": 30, "rolling": rolling}))
            rows.append(("crossed", 100, 2, {"policy": "h2o", "window": 16, "gqa": gqa, "chunk": 17, "rolling": rolling}))
            rows.append(("top", 100, 1, {"policy": "snapkv", "window": 20, "observe": 12, "every": 5, "gqa": gqa,
                                         "chunk": 40, "rolling": rolling}))
        for model in SHARED:
            rows.append((model, 1, 1, {"policy": "h2o", "window": 8, "rolling": rolling}))  # a token that sees nothing
            rows.append((model, 5, 1, {"policy": "snapkv", "window": 8, "observe": 7, "every": 2, "rolling": rolling}))
            rows.append((model, 60, 1, {"policy": "adakv", "window": 12, "observe": 11, "every": 3, "chunk": 13,
                                        "rolling": rolling}))  # heads that retain the observed tokens only
            rows.append((model, 60, 1, {"policy": "h2o", "window": 16, "decay": 0.9, "normalise": True, "sinks": 2,
                                        "chunk": 25, "rolling": rolling}))
        rows.append(("lckv", 600, 1, {"policy": "h2o", "window": 300, "rolling": rolling, "passes": 3}))  # several tiles
        rows.append(("round", 600, 2, {"policy": "tova", "window": 256, "rolling": rolling, "passes": 2, "chunk": 256}))
        rows.append(("blocks", 600, 1, {"policy": "adakv", "window": 257, "observe": 30, "every": 40, "rolling": rolling,
                                        "chunk": 200, "passes": 2}))
    return rows


def quick():
    """About two dozen: every policy and --kv-gqa, both positions, chunks, more ranks than KV heads, shared layers."""
    return [
        ("gqa2", 100, 1, {"policy": "h2o", "window": 16, "gqa": "mean"}),
        ("heads6", 100, 1, {"policy": "h2o", "window": 64, "gqa": "max", "rolling": True}),
        ("mqa8", 100, 1, {"policy": "h2o", "window": 8, "gqa": "first", "rolling": True}),
        ("scaled", 100, 1, {"policy": "h2o", "window": 16, "gqa": "sum", "sinks": 2}),
        ("mha", 120, 1, {"policy": "h2o", "window": 16, "chunk": 25, "decay": 0.95, "rolling": True}),
        ("gqa2", 120, 1, {"policy": "h2o", "window": 16, "normalise": True}),
        ("scaled", 100, 1, {"policy": "streaming", "window": 16, "rolling": True}),
        ("mqa8", 100, 1, {"policy": "tova", "window": 16}),
        ("gqa2", 100, 1, {"policy": "tova", "window": 16, "heads_share": "head"}),
        ("gqa2", 100, 3, {"policy": "tova", "window": 16, "gqa": "max"}),
        ("heads6", 100, 2, {"policy": "h2o", "window": 16, "heads_share": "layer"}),
        ("heads6", 100, 1, {"policy": "snapkv", "window": 24, "observe": 8, "every": 16, "rolling": True}),
        ("gqa2", 100, 1, {"policy": "pyramidkv", "window": 40, "observe": 8, "every": 16}),
        ("heads6", 120, 2, {"policy": "adakv", "window": 32, "observe": 4, "every": 16, "chunk": 50}),
        ("mha", 100, 1, {"policy": "knorm", "window": 16, "rolling": True}),
        ("heads6", 100, 2, {"policy": "random", "window": 16, "seed": 5}),
        ("gqa2", 100, 2, {"policy": "expected", "window": 24, "observe": 8, "every": 16}),
        ("lckv", 70, 1, {"policy": "expected", "window": 24, "observe": 8, "every": 16, "rolling": True}),
        ("lckv", 70, 1, {"policy": "random", "window": 16, "chunk": 30, "rolling": True}),
        ("gqa2", 100, 4, {"policy": "h2o", "window": 16, "gqa": "max", "rolling": True}),
        ("mqa8", 100, 2, {"policy": "snapkv", "window": 24, "observe": 8, "every": 16}),
        ("cla", 100, 1, {"policy": "h2o", "window": 16, "gqa": "max"}),
        ("lckv", 100, 1, {"policy": "streaming", "window": 16, "rolling": True}),
        ("lckv", 70, 2, {"policy": "h2o", "window": 16, "chunk": 30, "rolling": True}),
        ("round", 60, 1, {"policy": "tova", "window": 16, "passes": 2, "gqa": "first"}),
        ("crossed", 70, 4, {"policy": "snapkv", "window": 24, "observe": 8, "every": 16}),
        ("lckvnodiag", 60, 1, {"policy": "adakv", "window": 16, "observe": 15, "every": 8, "rolling": True}),
    ]


def owners_of(shape):
    return len(sharing_f64.sharing({"num_hidden_layers": shape[0], **shape[-1]}).owners)


def drawn(first, count):
    """Random settings, one combination per seed: also budgets of two tokens, prompts of one, chunks of any size."""
    rows = []
    for seed in range(first, first + count):
        draw = random.Random(seed)
        model, window = draw.choice(list(SHAPES)), draw.choice((2, 3, 4, 7, 8, 9, 16, 21, 32, 48, 64, 100, 200))
        policy = draw.choice(("h2o", "h2o", "streaming", "tova", "snapkv", "adakv", "pyramidkv", "knorm", "keydiff", "expected", "random"))
        options = {"policy": policy, "window": window, "gqa": draw.choice(bounded_f64.GQA),
                   "rolling": draw.random() < 0.5}
        if draw.random() < 0.5:
            options["chunk"] = draw.choice((1, 2, 3, 8, 15, 16, 17, 32, 64, 200))
        if "layer_types" in SHAPES[model][-1] and draw.random() < 0.7:
            options["passes"] = draw.choice((1, 2, 3, 5))
        if policy in ("h2o", "knorm", "keydiff") and draw.random() < 0.6:
            options["heavy"] = draw.randrange(window)
        if policy == "h2o":
            if draw.random() < 0.3:
                options["decay"] = draw.choice((0.5, 0.9, 0.99))
            if draw.random() < 0.3:
                options["normalise"] = True
        if policy in ("h2o", "tova", "snapkv", "pyramidkv", "expected") and draw.random() < 0.4:
            options["heads_share"] = draw.choice(("layer", "head"))
        if policy in ("snapkv", "pyramidkv", "adakv", "expected"):
            options["observe"] = draw.randrange(1, window)
            options["pool"], options["every"] = draw.choice((1, 3, 5, 7, 31)), draw.choice((1, 2, 3, 7, 16, 64))
        if policy == "streaming":
            options["sinks"] = draw.randrange(min(window, 9))
        elif draw.random() < 0.4:
            layers = bounded_f64.budgets(bounded_f64.Options(**options), owners_of(SHAPES[model]))
            options["sinks"] = draw.randrange(min(9, 1 + min(heavy for heavy, _ in layers)))
        # With chunks, the reference cannot follow ties while the prompt is read, so equal keys must be avoided.
        prompts = [prompt for prompt in (1, 2, 3, 5, 9, 16, 17, 33, 60, 100, 150)
                   if prompt <= SHAPES[model][5] - 3 or policy != "knorm"]
        rows.append((model, draw.choice(prompts), draw.choice((1, 1, 1, 1, 1, 1, 2, 3, 4)), options))
    return rows


def of_models(folders):
    """h2o with all budgets, positions and --kv-gqa; every policy."""
    rows = []
    for folder in folders:
        for window in (8, 16, 64, 256):
            for rolling in (False, True):
                for gqa in bounded_f64.GQA if window == 64 else ("mean",):
                    rows.append((folder, 300, 1, {"policy": "h2o", "window": window, "rolling": rolling, "gqa": gqa}))
        for ranks in (2, 3, 4):
            rows.append((folder, 300, ranks, {"policy": "h2o", "window": 64, "rolling": True}))
        for number, (policy, more) in enumerate(POLICIES[1:]):
            for rolling in (False, True):
                rows.append((folder, 200, 1 + number % 2, {"policy": policy, "window": 48, "rolling": rolling, **more}))
    return rows


def name_of(model, prompt, ranks, options):
    words = [os.path.basename(model.rstrip("/")), options["policy"]]
    for key, value in options.items():
        if key == "rolling":
            words += ["rolling"] if value else []
        elif key == "normalise":
            words += ["normalise"] if value else []
        elif key == "gqa":
            words.append(value)
        elif key != "policy":
            words += [f"{key} {value}"]
    return " ".join(words + [f"prompt {prompt}"] + ([f"{ranks} ranks"] if ranks > 1 else []))


class Failed(Exception):
    """A difference, or the reason why nothing could be compared."""


def run_engine(args, model, ids, ranks, options, folder):
    """Runs the engine; returns its tokens, and {(step, layer, head): (kept, scores)}."""
    prompt, dump = os.path.join(folder, "prompt.json"), os.path.join(folder, "dump.jsonl")
    with open(prompt, "w", encoding="utf-8") as file:
        json.dump(ids, file)
    if os.path.exists(dump):
        os.remove(dump)
    program = os.path.abspath(args.trireme)
    if ranks == 1:
        command = [program]
    elif args.bundle:
        command = [program, "-n", str(ranks)]
    else:
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), program]
    command += ["generate", "-m", model, "--prompt-ids", prompt, "-n", str(args.tokens),
                "--temp", "0", "--ignore-eos", "--print", "ids", "--dtype", "f32", "--kv-cache-dtype", "f32",
                "--device", args.device, "-t", str(args.threads), "--no-progress", "--kv-dump", dump]
    for key, value in options.items():
        if key == "rolling":
            command += ["--kv-positions", "rolling" if value else "true"]
        elif key == "normalise":
            command += ["--kv-normalise"] if value else []
        elif key in ("passes", "seed"):
            command += ["--" + key, str(value)]
        else:
            command += ["--kv-" + key.replace("_", "-"), str(value)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()[-5:]
        raise Failed(f"ended with {done.returncode}: {' '.join(errors[:5])}\n    {' '.join(command)}")
    rows = {}
    with open(dump, encoding="utf-8") as file:
        for row in map(json.loads, file):
            place = row["step"], row["layer"], row["head"]
            if place in rows:
                raise Failed(f"step, layer, head {place} twice in the dump")
            rows[place] = row["kept"], row["scores"]
    ids = json.loads(done.stdout)
    if len(ids) != args.tokens:
        raise Failed(f"{len(ids)} tokens instead of {args.tokens}")
    return ids, rows


def check_places(config, tokens, rows):
    """Raises Failed unless there is a row for every step, owner layer and KV head."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    expected = {(step, layer, head) for step in range(tokens) for layer in sharing_f64.sharing(config).owners
                for head in range(heads)}
    lacking, beyond = sorted(expected - rows.keys()), sorted(p for p in rows.keys() - expected if p[0] != tokens)
    if lacking or beyond:  # the engine may also run the last token, which adds a step
        raise Failed(f"the dump lacks {lacking[:3]}, has {beyond[:3]} beyond")


def compare(steps, tokens, rows):
    """Raises Failed if the engine differs."""
    for number, step in enumerate(steps):
        for at, layer in enumerate(step.owners):
            for head, kept in enumerate(step.kept[at]):
                got, scores = rows[number, layer, head]
                where = f"step {number}, layer {layer}, head {head}"
                if got != kept:
                    more, fewer = sorted(set(got) - set(kept)), sorted(set(kept) - set(got))
                    raise Failed(f"{where} keeps {got}\n    instead of {kept}\n    margin "
                                 f"{step.margins[at][head]:.3g}, more: {more}, fewer: {fewer}")
                if len(scores) != len(kept):
                    raise Failed(f"{where}: {len(scores)} scores of {len(kept)} tokens")
                for index, a, b in zip(kept, scores, step.scores[at][head]):
                    if not abs(a - b) <= SCORES_RELATIVE * abs(b) + SCORES_ABSOLUTE:
                        raise Failed(f"{where}, token {index}: score {a} instead of {b}\n    all: {scores}\n"
                                     f"    instead of {step.scores[at][head]}")
        if tokens[number] != step.token:
            raise Failed(f"token {number} is {tokens[number]} instead of {step.token}, whose logit is above the second "
                         f"by {step.gap:.3g} of {step.spread:.3g}")


def prompt_ids(count, vocab):
    """Different tokens, if the vocabulary has enough: equal tokens have equal keys in the first layer."""
    draw = np.random.default_rng(count)
    return (draw.permutation(vocab - 3)[:count] + 3 if count <= vocab - 3 else draw.integers(3, vocab, count)).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--quick", action="store_true", help="some twenty combinations")
    parser.add_argument("--random", type=int, metavar="N", help="N combinations drawn at random")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of those, the first one's seed")
    parser.add_argument("--only", metavar="TEXT", default="", help="combinations whose name holds TEXT")
    parser.add_argument("--models", nargs="+", metavar="DIR", help="compare on these models")
    parser.add_argument("--prompt-ids", metavar="FILE", help="with --models: the prompt, a JSON array of token ids")
    parser.add_argument("--bundle", action="store_true", help="TRIREME is a bundle's `run`, which starts ranks itself")
    parser.add_argument("--device", default="cpu", help="the engine's")
    parser.add_argument("--threads", type=int, default=1, help="the engine's, of each rank")
    parser.add_argument("--tokens", type=int, default=TOKENS, metavar="N", help="tokens to generate")
    parser.add_argument("--all", action="store_true", help="show what differs of every combination, not of the first")
    args = parser.parse_args()
    if args.models:
        rows = of_models(args.models)
    elif args.random:
        rows = drawn(args.first, args.random)
    else:
        rows = quick() if args.quick else combinations()
    rows = [row for row in rows if args.only in name_of(*row)]
    agree, shown, loaded = 0, 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, shape) in enumerate(SHAPES.items()):
            make_model(os.path.join(folder, name), number, shape)
        for model, prompt, ranks, options in rows:
            path = model if args.models else os.path.join(folder, model)
            if path not in loaded:
                loaded = {path: bounded_f64.load(path)}
            config, weights = loaded[path]
            ids, steps = prompt_ids(prompt, config["vocab_size"]), None
            if args.prompt_ids:
                with open(args.prompt_ids, encoding="utf-8") as file:
                    ids = json.load(file)
            name = name_of(model, len(ids), ranks, options)
            try:
                tokens, dump = run_engine(args, path, ids, ranks, options, folder)
                check_places(config, args.tokens, dump)
                kept = {place: row[0] for place, row in dump.items()}
                steps = bounded_f64.generate(config, weights, ids, bounded_f64.Options(**options), args.tokens, tokens,
                                             kept)
                compare(steps, tokens, dump)
            except Failed as failure:
                near = steps and steps[0].chunks <= bounded_f64.NEAR_SCORES
                print(f"{name}: differs" + (" (after a chunk, two scores were nearly equal)" if near else "") +
                      (f": {failure}" if shown == 0 or args.all else ""), flush=True)
                shown += 1
                continue
            agree += 1
            yielded = steps[-1].yielded
            print(f"{name}: the same" + (f", but for {yielded} choices as good" if yielded else ""), flush=True)
    print(f"{agree} of {len(rows)} combinations agree")
    sys.exit(0 if agree == len(rows) and rows else 1)


if __name__ == "__main__":
    main()
