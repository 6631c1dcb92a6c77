"""The worked cases of bounded_f64.py: weights, scores and choices to the last bit, and the published example of layers
that share KV."""

import math

import numpy as np

import llama_f64
from bounded_f64 import Layer, Model, Options, allot, budgets, drawn, pooled, select

# The worked cases: weights of query i on key j, before they are divided by their sum over the retained keys.
CASE_WEIGHTS = ((1,), (1, 1), (2, 1, 1), (2, 1, 3, 2), (4, 1, 1, 1, 1), (1, 1, 16, 12, 1, 1), (1, 15, 9, 1, 1, 4, 1),
                (1, 63, 1, 1, 32, 28, 1, 1))
CASE_SECOND_HEAD = ((1,), (1, 1), (1, 1, 2), (1, 1, 5, 1), (1, 1, 12, 1, 1))


def case_layer(gqa="mean", heads=1, strict=(False,)):
    return Layer(Options(window=4, heavy=2, gqa=gqa), 2, 2, heads, 1, 2, strict)


def case_call(layer, tables, count):
    """Runs `count` tokens with the given weights, one table per query head, ordered by reader. Returns the scores
    before eviction."""
    layer.begin(count)
    index = layer.index[0]
    weights = np.zeros((len(tables), count, len(index)))
    for head, table in enumerate(tables):
        for i in range(count):
            query = layer.tokens - count + i
            row = [table[query][j] if j <= query else 0 for j in index]
            weights[head, i] = np.array(row) / sum(row)
    for reader, some in enumerate(np.split(weights, len(layer.strict))):
        layer.give(reader, some)
    layer.score(count, False)
    before = layer.scores[0].tolist()
    layer.evict()
    return before


def self_test():
    """Checks the worked cases to the last bit; raises at the first difference."""
    def same(what, got, expected):
        if got != expected:
            raise SystemExit(f"{what}: {got} instead of {expected}")

    def run(case, calls):
        layer = case_layer()
        for number, (count, scores, kept) in enumerate(calls):
            got = case_call(layer, [CASE_WEIGHTS], count)
            if scores is not None:
                same(f"case {case}, call {number}, scores", got, scores)
            if kept is not None:
                same(f"case {case}, call {number}, kept", layer.index[0].tolist(), kept)
        return layer

    after_6 = [(5, [2.75, 1.0, 0.75, 0.375, 0.125], [0, 1, 3, 4]),
               (1, [2.8125, 1.0625, 1.125, 0.1875, 0.0625], [0, 3, 4, 5]),
               (1, [2.9375, 1.25, 0.3125, 0.5625, 0.125], [0, 3, 5, 6])]
    run("A", after_6 + [(1, [2.96875, 1.28125, 1.4375, 0.15625, 0.03125], [0, 5, 6, 7])])
    run("A, one by one", [(1, None, None)] * 4 + [(1, None, kept) for kept in
                                                  ([0, 1, 3, 4], [0, 3, 4, 5], [0, 3, 5, 6], [0, 5, 6, 7])])
    run("B", after_6[:2] + [(2, [2.953125, 1.265625, 0.8125, 1.0, 0.140625, 0.015625], [0, 3, 6, 7])])
    layer = run("C", [(6, [2.78125, 1.03125, 1.25, 0.75, 0.15625, 0.03125], [0, 2, 4, 5]), (1, None, [0, 2, 5, 6])])
    same("case C, after 6", layer.scores[0].tolist(), [2.84375, 1.8125, 0.28125, 0.0625])
    case_call(layer, [CASE_WEIGHTS], 1)
    same("case C, after 7", (layer.index[0].tolist(), layer.scores[0].tolist()),
         ([0, 2, 6, 7], [2.875, 1.84375, 0.09375, 0.03125]))
    run("E", [(8, [2.8203125, 1.9921875, 1.5390625, 0.7890625, 0.4375, 0.375, 0.0390625, 0.0078125], [0, 1, 6, 7])])
    layer = run("R", after_6)
    layer.reserve(1)
    same("case R, reserved", (layer.index[0].tolist(), layer.scores[0].tolist()), ([0, 3, 6], [2.9375, 1.25, 0.125]))
    same("case R, scores", case_call(layer, [[[1] * 8] * 8], 1), [3.1875, 1.5, 0.375, 0.25])
    same("case R, kept", layer.index[0].tolist(), [0, 3, 6, 7])
    try:
        layer.reserve(2)
        raise SystemExit("case R: room for two was made")
    except ValueError:
        pass
    layer = case_layer()
    # With equal weights, score j would be 1/(j+1) + ... + 1/6. Scores are therefore set directly, to get a tie.
    layer.begin(6)
    layer.scores[:] = 1
    layer.evict()
    same("case T, kept", layer.index[0].tolist(), [0, 1, 4, 5])
    for gqa, scores, kept in (("first", [2.75, 1.0, 0.75, 0.375, 0.125], [0, 1, 3, 4]),
                              ("mean", [2.34375, 0.96875, 1.3125, 0.28125, 0.09375], [0, 2, 3, 4]),
                              ("sum", [4.6875, 1.9375, 2.625, 0.5625, 0.1875], [0, 2, 3, 4]),
                              ("max", [2.75, 1.0, 1.875, 0.375, 0.125], [0, 2, 3, 4])):
        # Two heads of one layer, or one head in each of two layers that read this one.
        for layer in (case_layer(gqa, 2), case_layer(gqa, 1, (False, False))):
            same(f"case G, {gqa}, scores", case_call(layer, [CASE_WEIGHTS, CASE_SECOND_HEAD], 5), scores)
            same(f"case G, {gqa}, kept", layer.index[0].tolist(), kept)
    rolled(same)
    same("budgets of pyramidkv", budgets(Options("pyramidkv", 100, observe=20), 3), [(155, 20), (80, 20), (5, 20)])
    same("random numbers", [int(drawn(*of) * 2**24) for of in ((0, 0, 0, 0), (7, 0, 3, 0), (7, 2, 4, 5))],
         [0xe220a8, 13969041, 2207386])
    same("pooling", pooled(np.array([[5.0, 10.0, 0.0, 20.0]]), 3).tolist(), [[5.0, 5.0, 10.0, 20 / 3]])
    allotted(same)
    shared(same)
    print("cases A, B, C, E, R, T and G, allotment, positions that roll, budgets, pooling and layers that share are as "
          "they were worked out")


def allotted(same):
    """Ada-KV by its authors' rule: the best fifth of each head is retained, and the entries with the lowest scores of
    all heads are evicted. The window has the highest scores; no scores are equal."""
    rng = np.random.default_rng(3)
    for heads, length, window, budget in ((2, 40, 4, 16), (3, 100, 16, 33), (8, 64, 5, 60), (4, 200, 8, 41)):
        scores = rng.permutation(heads * length).reshape(heads, length).astype(float) * rng.choice((0.1, 1, 3), (heads, 1))
        scores += rng.random(scores.shape) / 16
        scores[:, length - window:] = 1e9
        sure = scores.copy()
        for row in sure:
            row[np.argsort(-row, kind="stable")[:budget // 5]] = 1e9
        keep = np.ones(heads * length, bool)
        keep[np.argsort(sure.reshape(-1), kind="stable")[:heads * (length - budget)]] = False
        ours = allot(scores[:, :length - window].tolist(), [list(range(length - window))] * heads,
                     heads * (budget - window), max(0, budget // 5 - window), 0)
        same("allotment", [n + window for n in ours], keep.reshape(heads, length).sum(axis=1).tolist())


def rolled(same):
    """Worked example of positions: d = 2, frequency 1, q = k = (1, 0), entries 0 1 3 4 5. The logit of token 0 times
    sqrt(2) is cos 5 with positions of the sequence, and cos 4 with rolling ones. That of token 3 is always cos 2."""
    table = np.cos(np.arange(8.0))[:, None], np.sin(np.arange(8.0))[:, None]
    for rolling, distances in ((False, (5, 4, 2, 1, 0)), (True, (4, 3, 2, 1, 0))):
        layer = Layer(Options(window=4, heavy=2, rolling=rolling), 2, 2, 1, 1, 2)
        unit = np.array([[[1.0, 0.0]]])
        layer.begin(6)
        layer.write(np.repeat(unit, 6, axis=0), np.repeat(unit, 6, axis=0))
        for name in ("index", "keys", "values", "scores"):
            setattr(layer, name, np.delete(getattr(layer, name), 2, axis=1))
        expected = llama_f64.softmax(np.cos(np.array(distances)) / math.sqrt(2))
        same(f"rolling {rolling}", bool(np.allclose(layer.weights(unit, table, False)[0, 0], expected, atol=1e-15)), True)


def hashed(name, *shape):
    """Numbers of the published example: FNV-1a of the tensor's name, mixed with the element's index; in [-1, 1)."""
    mask = 0xffffffff
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & mask
    values = []
    for k in range(math.prod(shape)):
        u = h + 2654435761 * (k + 1) & mask
        u = (u ^ u >> 16) * 0x85ebca6b & mask
        u = (u ^ u >> 13) * 0xc2b2ae35 & mask
        values.append((u ^ u >> 16) / 2**32 * 2 - 1)
    return np.array(values).reshape(shape)


def shared(same):
    """Four layers of 2 query heads and one KV head (lckv 7.2): the first logits after six tokens, read one by one; and
    the difference for a prompt of four tokens that is read in one to four passes."""
    config = {"model_type": "lckv-llama", "num_hidden_layers": 4, "hidden_size": 8, "num_attention_heads": 2,
              "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "max_position_embeddings": 64}
    weights = {"model.embed_tokens.weight": 0.6 * hashed("model.embed_tokens.weight", 16, 8),
               "lm_head.weight": 0.6 * hashed("lm_head.weight", 16, 8),
               "model.norm.weight": 1 + 0.1 * hashed("model.norm.weight", 8)}
    for layer in range(4):
        for name, *shape in (("self_attn.q_proj", 8, 8), ("self_attn.k_proj", 4, 8), ("self_attn.v_proj", 4, 8),
                             ("self_attn.o_proj", 8, 8), ("mlp.gate_proj", 12, 8), ("mlp.up_proj", 12, 8),
                             ("mlp.down_proj", 8, 12), ("input_layernorm", 8), ("post_attention_layernorm", 8)):
            name = f"model.layers.{layer}.{name}.weight"
            weights[name] = 0.6 * hashed(name, *shape) if len(shape) > 1 else 1 + 0.1 * hashed(name, *shape)
    ids = [3, 14, 1, 5, 9, 2]

    def behind(prompt, rest, source, nowhere, passes):
        model = Model({**config, "layer_types": source, "force_nodiag": nowhere}, weights,
                      Options("full", passes=passes), 8)
        logits = model.call(prompt, False)
        for token in rest:
            logits = model.call([token], True)
        return logits

    for source, nowhere, wanted in (
            ("0_2_2_3", False, [0.8651559, 1.2387854, 1.4684782]), ("0_2_2_3", True, [1.1146953, 1.4122709, -0.5460868]),
            ("3_3_3_3", False, [1.0992248, -0.6854098, 1.7982308]), ("0_0_2_2", False, [0.3903267, 1.0732147, 0.5101717]),
            ("0_1_1_3", False, [0.3704525, -0.4342411, 2.1392296]), ("0_1_2_3", False, [1.0766072, 0.0669150, 2.1853085])):
        for logits in (behind(ids[:1], ids[1:], source, nowhere, 1), behind(ids, [], source, nowhere, 6)):
            same(f"logits of {source}", bool(np.allclose(logits[:3], wanted, rtol=0, atol=1e-7)), True)
    layer = case_layer(strict=(True,))
    layer.begin(3)
    row = layer.weights(np.zeros((3, 1, 2)), (np.ones((3, 1)), np.zeros((3, 1))), True)[0]
    same("tokens that do not see themselves", row.tolist(), [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]])
    exact = behind(ids[:4], [], "0_2_2_3", False, 4)
    for passes, wanted in ((1, 0.198), (2, 0.493), (3, 2.47e-2), (4, 0)):
        error = float(np.abs(behind(ids[:4], [], "0_2_2_3", False, passes) - exact).max())
        same(f"{passes} passes", abs(error - wanted) <= 5e-3 * wanted + 1e-12, True)
