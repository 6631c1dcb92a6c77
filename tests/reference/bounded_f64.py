#!/usr/bin/env python3
"""Decoding with KV eviction in float64: H2O and related policies, implemented from their rules alone.

An independent implementation of the engine's `--kv-policy`. It shares no code with the engine and is slow. Every list
of retained tokens is in the order of the sequence. The forward is that of llama_f64.py, except that attention sees the
retained tokens only.

  bounded_f64.py --self-test                                 the worked cases of the algorithm, exactly
  bounded_f64.py MODEL --prompt-ids FILE --policy h2o ...    generates greedily; prints the retained tokens of each head
                                                             as JSON lines, like `trireme generate --kv-dump`

The rules. A call runs c new tokens through a layer: the whole prompt, a chunk of it, or one generated token. They
attend to the n retained entries, and to each other causally. Then scores are updated. If N = n + c exceeds the budget
W, N - W of the first N - R entries are evicted: those with the lowest scores. The last R entries are retained. If
scores are equal, the older entry is retained. Every (layer, KV head) decides for itself, or all KV heads of a layer by
their mean.

If layers read the keys and values of another one (sharing_f64.py), only that owner has entries. The attention of all
query heads of all its readers counts for them, in the last pass over these layers. A layer that reads a later one does
not see a token's own entry, so it adds nothing to that entry's score."""

import argparse
import dataclasses
import json
import math
import os
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import llama_f64  # noqa: E402
import sharing_f64  # noqa: E402

POLICIES = ("full", "h2o", "streaming", "tova", "snapkv", "pyramidkv", "adakv", "knorm", "keydiff", "expected", "random")
GQA = ("first", "mean", "sum", "max")
NEAR_SCORES = 1e-5  # relative; scores that differ by no more count as equal
AHEAD = 512  # expected: next positions, over which rotations are averaged
NEAR_LOGITS = 1e-4  # relative to the range of all logits


@dataclasses.dataclass
class Options:
    """The settings of a run, with the names of the engine's flags."""
    policy: str = "h2o"
    window: int = 256       # W, the number of entries that each KV head retains
    heavy: int = -1         # h2o, knorm, keydiff: H, the entries that are retained by score; -1: W // 2
    sinks: int = -1         # first tokens of the sequence, which rank above every score; -1: streaming, expected 4, others 0
    rolling: bool = False   # positions are ranks among the retained entries, instead of positions in the sequence
    gqa: str = "mean"       # how the weights of the query heads of a KV head are combined
    heads_share: str = ""   # layer: all KV heads of a layer retain equal entries; head; "": layer with tova, else head
    decay: float = 1.0      # h2o: factor on sums per query
    normalise: bool = False  # h2o: compared sums are divided by the number of queries that saw the token
    observe: int = 64       # snapkv, pyramidkv, adakv: recent tokens that are retained and whose queries count
    pool: int = 5           # snapkv, pyramidkv, adakv: number of neighbours that a score is averaged over
    every: int = 64         # snapkv, pyramidkv, adakv: steps between two updates of the scores
    chunk: int = 0          # tokens per call while the prompt is read; 0: all
    prompt: int = 0         # pyramidkv: tokens of the prompt, the upper limit of any layer's entries; 0: a conversation
    seed: int = 0           # random: of the scores
    passes: int = 0         # passes over layers that read later ones, per call of the prompt; 0: as in the config

    def first_tokens(self):
        if self.sinks >= 0:
            return self.sinks
        return 4 if self.policy in ("streaming", "expected") else 0

    def one_set(self):
        return (self.heads_share or ("layer" if self.policy == "tova" else "head")) == "layer"

    def watches(self):
        return self.policy in ("snapkv", "pyramidkv", "adakv", "expected")


def budgets(options, layers):
    """(H, R) of every owner layer: H entries are retained by score, and the R most recent ones always."""
    window, policy = options.window, options.policy
    if policy == "full":
        return [(0, sys.maxsize)] * layers
    if policy == "pyramidkv":
        mean = window - options.observe
        if layers == 1:
            return [(mean, options.observe)]
        last = min(window // 20, mean)
        first = 2 * mean - last
        most = max(mean, options.prompt - options.observe)
        if options.prompt > 0 and first > most:
            first, last = most, 2 * mean - most

        def upto(n):
            return n * first - (first - last) * n * (n - 1) // (2 * (layers - 1))

        return [(upto(layer + 1) - upto(layer), options.observe) for layer in range(layers)]
    if policy in ("h2o", "knorm", "keydiff"):
        heavy = window // 2 if options.heavy < 0 else options.heavy
    elif policy == "streaming":
        heavy = options.first_tokens()
    elif policy in ("tova", "random"):
        heavy = window - 1
    elif policy in ("snapkv", "adakv", "expected"):
        heavy = window - options.observe
    else:
        raise ValueError(f"policy {policy!r}")
    return [(heavy, window - heavy)] * layers


def select(scores, index, heavy, recent, sinks):
    """Indices of the retained entries in one head's list, ascending, and the margin. The margin is the difference
    between the lowest retained score and the highest evicted one, relative to the larger of the two. It is infinite if
    scores did not decide (sinks, or exact zeros of tokens without a score). The list has more than heavy + recent
    entries."""
    candidates = len(index) - recent
    order = sorted(range(candidates), key=lambda j: (-math.inf if index[j] < sinks else -scores[j], index[j]))
    kept = sorted(order[:heavy]) + list(range(candidates, len(index)))
    margin = math.inf
    if heavy > 0 and index[order[heavy - 1]] >= sinks:
        worst, best = scores[order[heavy - 1]], scores[order[heavy]]
        size = max(abs(worst), abs(best))
        margin = (worst - best) / size if size > 0 else math.inf
    return kept, margin


def as_good(scores, index, kept, other, candidates, sinks):
    """`other` has the original indices that the other implementation retains. Returns its indices in the list if it
    differs from `kept` only in entries with nearly equal scores; else `kept`. Candidates are the first `candidates`
    entries."""
    places = [j for j in range(len(index)) if index[j] in set(other)]
    ours, theirs = sorted(set(kept) - set(places)), sorted(set(places) - set(kept))
    if not ours or len(places) != len(kept) or any(j >= candidates or index[j] < sinks for j in ours + theirs):
        return kept
    best, worst = max(scores[j] for j in ours), min(scores[j] for j in theirs)
    return places if best - worst <= NEAR_SCORES * max(abs(best), abs(worst)) else kept


def rounded(scores):
    """Rounds to 40 bits, so that scores that differ only by float64 rounding are equal (equal tokens have equal keys in
    the first layer)."""
    parts, exponents = np.frexp(scores)
    return np.ldexp(np.round(np.ldexp(parts, 40)), exponents - 40)


def pooled(scores, width):
    """The mean of each score and its neighbours, `width` entries in total; entries beyond either end count as 0."""
    half = width // 2
    padded = np.pad(scores, [(0, 0), (half, half)])
    return sum(padded[:, i:i + scores.shape[1]] for i in range(width)) / width


def drawn(seed, owner, head, token):
    """The random score of a token of a head of the model, in [0, 1): 24 bits of splitmix64. owner: 0 is the first layer
    with keys and values, 1 the second."""
    mask = 2**64 - 1
    x = (seed << 32 ^ token) + 0x9e3779b97f4a7c15 * ((owner << 20) + head + 1) & mask
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & mask
    x = (x ^ x >> 27) * 0x94d049bb133111eb & mask
    return ((x ^ x >> 31) >> 40) / 2**24


class Layer:
    """The cache of one owner layer: per KV head an ascending list of tokens with keys (not rotated), values and scores.
    All heads have the same number of entries. strict: for each reader, True if its tokens do not see themselves."""

    def __init__(self, options, heavy, recent, heads, kv_heads, dim, strict=(False,)):
        self.options, self.heavy, self.recent, self.strict = options, heavy, recent, strict
        self.group = heads // kv_heads
        self.owner = 0                                        # the number of this layer among the owners
        self.tokens = 0                                       # processed so far
        self.index = np.zeros((kv_heads, 0), int)             # original indices
        self.keys = np.zeros((kv_heads, 0, dim))
        self.values = np.zeros((kv_heads, 0, dim))
        self.scores = np.zeros((kv_heads, 0))
        self.queries = [np.zeros((0, heads, dim)) for _ in strict]  # of the last `observe` tokens, not rotated
        self.given = [None] * len(strict)                     # per reader: sums of this call's weights on each entry
        self.margins = [math.inf] * kv_heads                  # of the last call's eviction
        self.table = None                                     # rotations by position, from weights()
        self.others = None                                    # per KV head: entries of the other implementation
        self.yielded = 0                                      # how often its equally good choice was taken

    def begin(self, c):
        """Appends c entries; their keys, values and scores are 0."""
        kv_heads, _, dim = self.keys.shape
        new = np.broadcast_to(np.arange(self.tokens, self.tokens + c), (kv_heads, c))
        self.index = np.concatenate([self.index, new], axis=1)
        self.keys = np.concatenate([self.keys, np.zeros((kv_heads, c, dim))], axis=1)
        self.values = np.concatenate([self.values, np.zeros((kv_heads, c, dim))], axis=1)
        self.scores = np.concatenate([self.scores, np.zeros((kv_heads, c))], axis=1)
        self.tokens += c

    def write(self, keys, values):
        """Sets keys and values of the new entries, [c, KV heads, d]."""
        self.keys[:, -len(keys):] = keys.transpose(1, 0, 2)
        self.values[:, -len(values):] = values.transpose(1, 0, 2)

    def weights(self, queries, table, strict):
        """Attention weights [heads, m, N] of the queries [m, heads, d] of the last m entries. A query sees the entries
        up to its own, or with `strict` up to the previous one. Positions are those of the sequence, or ranks in the
        list."""
        cos, sin = table
        m, (kv_heads, count, dim) = len(queries), self.keys.shape
        ranks = np.arange(count)
        if self.options.rolling:
            at_queries, at_keys = ranks[count - m:], np.broadcast_to(ranks, (kv_heads, count))
        else:
            at_queries, at_keys = np.arange(self.tokens - m, self.tokens), self.index
        flat = at_keys.reshape(-1)
        keys = llama_f64.rotate(self.keys.reshape(-1, 1, dim), cos[flat], sin[flat]).reshape(self.keys.shape)
        self.table = table
        keys = np.repeat(keys, self.group, axis=0)
        rotated = llama_f64.rotate(queries, cos[at_queries], sin[at_queries]).transpose(1, 0, 2)
        logits = rotated @ keys.transpose(0, 2, 1) / math.sqrt(dim)
        seen = ranks[None, :] < ranks[count - m:, None] + (0 if strict else 1)
        logits[:, ~seen.any(axis=1)] = 0  # a query that sees no entry has no weights
        return np.where(seen, llama_f64.softmax(np.where(seen | ~seen.any(axis=1)[:, None], logits, -np.inf)), 0)

    def stored(self):
        """The keys as the cache has them: rotated for their positions, unless positions roll."""
        if self.options.rolling:
            return self.keys
        flat, dim = self.index.reshape(-1), self.keys.shape[-1]
        cos, sin = self.table
        return llama_f64.rotate(self.keys.reshape(-1, 1, dim), cos[flat], sin[flat]).reshape(self.keys.shape)

    def over_group(self, sums):
        """Combines the sums of all query heads of all readers, a list of [heads, N], to [KV heads, N]."""
        parts = np.stack(sums).reshape(len(sums), -1, self.group, sums[0].shape[-1])
        heads = {"first": lambda: parts[0, :, 0], "mean": lambda: parts.mean(axis=(0, 2)),
                 "sum": lambda: parts.sum(axis=(0, 2)), "max": lambda: parts.max(axis=(0, 2))}[self.options.gqa]()
        return np.broadcast_to(heads.mean(axis=0), heads.shape) if self.options.one_set() else heads

    def observed(self, given):
        """Scores from the weights of the observing queries; 0 for the last `observe` entries."""
        sums = self.over_group(given)
        outside = max(sums.shape[1] - self.options.observe, 0)
        width = 1 if self.options.policy == "expected" else self.options.pool
        return np.pad(pooled(sums[:, :outside], width), [(0, 0), (0, sums.shape[1] - outside)])

    def expected(self, queries, table):
        """Expected Attention (arXiv 2510.00636, section 3): queries [m, heads, d] are normally distributed, with the
        mean and the covariance of these; they are rotated by the mean rotation of the next AHEAD positions. Returns
        [heads, N]: the attention that each entry is expected to receive, times the norm of its value."""
        cos, sin = table
        count, dim = self.keys.shape[1:]
        begin = count if self.options.rolling else self.tokens
        ahead = slice(begin, begin + AHEAD)
        mean_cos, mean_sin = cos[ahead].mean(axis=0), sin[ahead].mean(axis=0)
        at_keys = np.broadcast_to(np.arange(count), self.index.shape) if self.options.rolling else self.index
        flat = at_keys.reshape(-1)
        keys = llama_f64.rotate(self.keys.reshape(-1, 1, dim), cos[flat], sin[flat]).reshape(self.keys.shape)
        every = np.broadcast_to(mean_cos, (len(queries), *mean_cos.shape))
        turned = llama_f64.rotate(queries, every, np.broadcast_to(mean_sin, every.shape))
        weights = np.zeros((queries.shape[1], count))
        for head in range(queries.shape[1]):
            q, k, v = turned[:, head], keys[head // self.group], self.values[head // self.group]
            covariance = np.cov(q, rowvar=False, bias=True)
            exponents = k @ q.mean(axis=0) / math.sqrt(dim) + np.einsum("ni,ij,nj->n", k, covariance, k) / (2 * dim)
            weights[head] = llama_f64.softmax(exponents) * np.linalg.norm(v, axis=-1)
        return weights

    def give(self, reader, weights):
        """Adds the attention weights [heads, c, N] of one reader's queries in this call."""
        c = weights.shape[1]
        counted = {"h2o": c, "tova": 1}.get(self.options.policy, min(self.options.observe, c))
        self.given[reader] = weights[:, c - counted:].sum(axis=1)

    def score(self, c, decoding):
        """Updates the scores with the weights of a call of c tokens."""
        policy = self.options.policy
        if policy == "h2o":
            self.scores = self.options.decay**c * self.scores + self.over_group(self.given)
        elif policy == "tova":
            self.scores = self.over_group(self.given)
        elif policy == "knorm":
            self.scores = -(self.keys * self.keys).sum(axis=-1)
        elif policy == "keydiff":  # arXiv 2504.15364, section 3: minus the cosine with the mean of all unit keys
            keys = self.stored()
            units = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
            anchor = units.mean(axis=1, keepdims=True)
            self.scores = -(units * anchor).sum(axis=-1) / np.linalg.norm(anchor, axis=-1)
        elif policy == "random":
            self.scores = np.array([[drawn(self.options.seed, self.owner, head, token) for token in tokens]
                                    for head, tokens in enumerate(self.index.tolist())])
        elif self.options.watches() and not decoding:
            self.scores = self.observed(self.given)

    def keep(self, heavy, recent):
        """Evicts entries until each head has heavy + recent."""
        compared = rounded(self.scores / (self.tokens - self.index) if self.options.normalise else self.scores)
        sinks = self.options.first_tokens()
        chosen = [select(s, i, heavy, recent, sinks) for s, i in zip(compared.tolist(), self.index.tolist())]
        self.margins = [margin for _, margin in chosen]
        places = [kept for kept, _ in chosen]
        if self.others is not None:
            candidates = self.index.shape[1] - recent
            theirs = [as_good(s, i, kept, other, candidates, sinks) for s, i, kept, other in
                      zip(compared.tolist(), self.index.tolist(), places, self.others)]
            self.yielded += sum(a != b for a, b in zip(places, theirs))
            places = theirs
        places = np.array(places)
        self.index = np.take_along_axis(self.index, places, axis=1)
        self.scores = np.take_along_axis(self.scores, places, axis=1)
        self.keys = np.take_along_axis(self.keys, places[..., None], axis=1)
        self.values = np.take_along_axis(self.values, places[..., None], axis=1)

    def evict(self):
        self.margins = [math.inf] * len(self.index)
        if self.index.shape[1] > self.heavy + self.recent:
            self.keep(self.heavy, self.recent)

    def reserve(self, space):
        """Evicts until `space` more entries fit. Recent entries are evicted; H is unchanged."""
        if self.index.shape[1] + space > self.heavy + self.recent:
            if space >= self.recent:
                raise ValueError(f"no room for {space} entries with {self.heavy} heavy ones")
            self.keep(self.heavy, self.recent - space)

    def attend(self, reader, queries, table, last):
        """Attention output of a layer that reads this one, [c, heads, d]. last: True in the last pass."""
        weights = self.weights(queries, table, self.strict[reader])
        if last:
            self.queries[reader] = np.concatenate([self.queries[reader], queries])[-self.options.observe:]
            if self.options.policy != "expected":
                self.give(reader, weights)
            else:
                self.given[reader] = self.expected(self.queries[reader], table)
        return (weights @ np.repeat(self.values, self.group, axis=0)).transpose(1, 0, 2)

    def end(self, c, decoding):
        """Ends a call of c tokens, after all readers have attended."""
        self.score(c, decoding)
        self.evict()

    def lists(self):
        """Per KV head: original indices, scores, the last call's margin."""
        return self.index.tolist(), self.scores.tolist(), list(self.margins)

    def renew(self, table):
        """Recomputes the scores from the queries of the last `observe` tokens over the retained entries."""
        self.scores = self.observed([self.expected(queries, table) if self.options.policy == "expected" else
                                     self.weights(queries, table, strict).sum(axis=1)
                                     for queries, strict in zip(self.queries, self.strict)])


def allot(scores, index, heads, least, sinks):
    """The number of candidates that each head retains. All heads together retain the best `heads` candidates, but each
    at least `least`. scores, index: per head, for its candidates. If scores are equal, the older entry comes first,
    then the first head."""
    def order(head):
        return sorted((-math.inf if i < sinks else -s, i, head) for s, i in zip(scores[head], index[head]))

    ranked = [order(head) for head in range(len(scores))]
    sure = [min(least, len(r)) for r in ranked]
    rest = sorted(entry for r, n in zip(ranked, sure) for entry in r[n:])
    counts = list(sure)
    for _, _, head in rest[:heads - sum(sure)]:
        counts[head] += 1
    return counts


class SharedLayer:
    """A layer whose KV heads share its budget (adakv), with one Layer per head. After a call of the prompt, the entries
    with the highest scores of all heads are retained, `window` per head on average. After that, each generated token
    evicts one entry of each head."""

    def __init__(self, options, heavy, recent, heads, kv_heads, dim, strict=(False,)):
        self.options, self.heavy, self.recent, self.group = options, heavy, recent, heads // kv_heads
        self.least = max(0, options.window // 5 - recent)
        self.parts = [Layer(options, heavy, recent, self.group, 1, dim, strict) for _ in range(kv_heads)]
        self.others, self.shared_yielded = None, 0

    @property
    def yielded(self):
        return self.shared_yielded + sum(part.yielded for part in self.parts)

    def lists(self):
        state = [part.lists() for part in self.parts]
        return tuple([s[i][0] for s in state] for i in range(3))

    def share(self):
        counts = [part.index.shape[1] for part in self.parts]
        heads = len(self.parts)
        for part in self.parts:
            part.others, part.margins = None, [math.inf]
        if sum(counts) <= heads * (self.heavy + self.recent):
            return
        sinks = self.options.first_tokens()
        scores = [rounded(part.scores)[0, :n - self.recent].tolist() for part, n in zip(self.parts, counts)]
        index = [part.index[0, :n - self.recent].tolist() for part, n in zip(self.parts, counts)]
        allotted = allot(scores, index, heads * self.heavy, self.least, sinks)
        if self.others is not None:
            theirs = [len(other) - self.recent for other in self.others]
            chosen = [set(np.array(i)[select(s + [0], i + [0], n, 1, sinks)[0][:n]].tolist()) if n < len(i) else set(i)
                      for s, i, n in zip(scores, index, allotted)]
            worth = [dict(zip(i, s)) for s, i in zip(scores, index)]
            ours = [worth[h][t] for h in range(heads) for t in chosen[h] - set(self.others[h])]
            instead = [worth[h].get(t, -math.inf) for h in range(heads)
                       for t in set(self.others[h][:theirs[h]]) - chosen[h]]
            size = max(map(abs, ours), default=0)
            if ours and sum(theirs) == sum(allotted) and max(ours) - min(instead) <= NEAR_SCORES * size:
                allotted, self.shared_yielded = theirs, self.shared_yielded + 1
                for part, other in zip(self.parts, self.others):
                    part.others = [other]
        for part, heavy in zip(self.parts, allotted):
            part.heavy = heavy
            part.evict()

    def begin(self, c):
        for part in self.parts:
            part.begin(c)

    def write(self, keys, values):
        for head, part in enumerate(self.parts):
            part.write(keys[:, head:head + 1], values[:, head:head + 1])

    def attend(self, reader, queries, table, last):
        return np.concatenate([part.attend(reader, queries[:, head * self.group:(head + 1) * self.group], table, last)
                               for head, part in enumerate(self.parts)], axis=1)

    def end(self, c, decoding):
        for head, part in enumerate(self.parts):
            part.score(c, decoding)
            if decoding:
                part.others = None if self.others is None else [self.others[head]]
                part.evict()
        if not decoding:
            self.share()

    def renew(self, table):
        for part in self.parts:
            part.renew(table)


class Model:
    """A Llama with evicting layers. weights: HF names -> arrays; config: the dictionary of config.json."""

    def __init__(self, config, weights, options, length):
        """length: the maximum number of tokens. Rope type `dynamic` is not supported."""
        if llama_f64.rope_settings(config)["rope_type"] == "dynamic":
            raise ValueError("rope of type dynamic has no angles that hold for ever")
        self.config, self.options = config, options
        self.w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
        self.dim = llama_f64.head_dim(config)
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        ahead = AHEAD if options.policy == "expected" else 0
        self.table = llama_f64.angles(config, length, length + ahead, False)
        self.sharing = sharing_f64.sharing(config)
        self.owners = self.sharing.owners
        kind = SharedLayer if options.policy == "adakv" else Layer
        self.layers = {}  # the owner layers, by number
        for number, (owner, (heavy, recent)) in enumerate(zip(self.owners, budgets(options, len(self.owners)))):
            strict = [self.sharing.strict[reader] for reader in self.sharing.readers(owner)]
            self.layers[owner] = kind(options, heavy, recent, self.heads, self.kv_heads, self.dim, strict)
            self.layers[owner].owner = number

    def layer(self, number, x, last):
        """Runs a layer for all tokens of a call; returns the new x."""
        w, eps, c, prefix = self.w, self.config["rms_norm_eps"], len(x), f"model.layers.{number}."
        h = llama_f64.rms_norm(x, w[prefix + "input_layernorm.weight"], eps)
        if number in self.layers:
            k = (h @ w[prefix + "self_attn.k_proj.weight"].T).reshape(c, self.kv_heads, self.dim)
            v = (h @ w[prefix + "self_attn.v_proj.weight"].T).reshape(c, self.kv_heads, self.dim)
            self.layers[number].write(k, v)
        owner = self.sharing.source[number]
        q = (h @ w[prefix + "self_attn.q_proj.weight"].T).reshape(c, self.heads, self.dim)
        mixed = self.layers[owner].attend(self.sharing.readers(owner).index(number), q, self.table, last)
        x = x + mixed.reshape(c, self.heads * self.dim) @ w[prefix + "self_attn.o_proj.weight"].T
        h = llama_f64.rms_norm(x, w[prefix + "post_attention_layernorm.weight"], eps)
        gate = h @ w[prefix + "mlp.gate_proj.weight"].T
        up = h @ w[prefix + "mlp.up_proj.weight"].T
        return x + (gate / (1 + np.exp(-gate)) * up) @ w[prefix + "mlp.down_proj.weight"].T

    def call(self, ids, decoding):
        """One call of every layer; returns the logits after its last token."""
        w, eps, c = self.w, self.config["rms_norm_eps"], len(ids)
        x = w["model.embed_tokens.weight"][ids]
        for layer in self.layers.values():
            layer.begin(c)
        for numbers, iterated in self.sharing.blocks():
            passes = min(c, self.options.passes or self.sharing.passes) if iterated else 1
            entering = x
            for turn in range(passes):
                x = entering
                for number in numbers:
                    x = self.layer(number, x, turn == passes - 1)
        for layer in self.layers.values():
            layer.end(c, decoding)
        head = w["model.embed_tokens.weight" if self.config.get("tie_word_embeddings") else "lm_head.weight"]
        return llama_f64.rms_norm(x[-1], w["model.norm.weight"], eps) @ head.T

    def state(self):
        """kept, scores and margins of the last call, [owner layer][KV head]."""
        lists = [layer.lists() for layer in self.layers.values()]
        return tuple([of_layer[i] for of_layer in lists] for i in range(3))


@dataclasses.dataclass
class Step:
    """Step 0 comes after the prompt, step t after the forward of the t-th generated token."""
    token: int     # the greedy token of the step's logits
    gap: float     # between the two largest logits
    spread: float  # between the largest and the smallest one
    owners: list   # the owner layers
    kept: list     # [owner][KV head]: original indices, ascending
    scores: list   # [owner][KV head]
    margins: list  # [owner][KV head]: margins of the step's eviction; after a prompt, of its last call's eviction
    chunks: float  # the smallest margin of the prompt's calls before the last one
    yielded: int   # how often so far the other implementation's equally good choice was taken


def generate(config, weights, ids, options, n, tokens=None, kept=None):
    """Generates n tokens greedily. Returns a Step for the prompt and for each token except the last, which is not run.
    tokens, kept {(step, layer, head): indices}: results of another implementation. If its choice is equally good, it is
    taken, so that later steps can be compared: f32 and f64 may decide ties differently."""
    model = Model(config, weights, dataclasses.replace(options, prompt=len(ids)), len(ids) + n)
    size = options.chunk if options.chunk > 0 else len(ids)
    chunks, steps = math.inf, []
    ranges = [(begin, min(begin + size, len(ids))) for begin in range(0, len(ids), size)]
    for begin, end in ranges[:-1]:
        model.call(ids[begin:end], False)
        chunks = min([chunks] + [min(layer.lists()[2]) for layer in model.layers.values()])
    call = ids[ranges[-1][0]:]
    while True:
        for number, layer in model.layers.items():
            if kept is not None:
                layer.others = [kept[len(steps), number, head] for head in range(model.kv_heads)]
        logits = model.call(call, len(steps) > 0)
        if options.watches() and steps and len(steps) % options.every == 0:
            for layer in model.layers.values():
                layer.renew(model.table)
        low, high = np.sort(logits)[-2:]
        token, spread = int(np.argmax(logits)), float(high - logits.min())
        yielded = sum(layer.yielded for layer in model.layers.values())
        if tokens is not None and tokens[len(steps)] != token:
            if high - logits[tokens[len(steps)]] <= NEAR_LOGITS * spread:
                token, yielded = tokens[len(steps)], yielded + 1
        steps.append(Step(token, float(high - low), spread, model.owners, *model.state(), chunks, yielded))
        if len(steps) == n:
            return steps
        call = [token]


def read_safetensors(path):
    """names -> arrays; F32, F16 and BF16 only."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def load(folder):
    """config and weights, in float64, of an HF folder."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    weights = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            tensors = read_safetensors(os.path.join(folder, name))
            weights.update((key, np.asarray(value, np.float64)) for key, value in tensors.items())
    return config, weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="folder with config.json and safetensors")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--prompt-ids", metavar="FILE", help="a JSON array of token ids")
    parser.add_argument("-n", type=int, default=64, help="tokens to generate")
    for field in dataclasses.fields(Options):
        choices = {"policy": POLICIES, "gqa": GQA, "heads_share": ("", "layer", "head")}.get(field.name)
        if field.type is bool:
            parser.add_argument("--" + field.name, action="store_true")
        else:
            parser.add_argument("--" + field.name, type=field.type, default=field.default, choices=choices)
    args = parser.parse_args()
    if args.self_test:
        import bounded_cases
        bounded_cases.self_test()
        return
    config, weights = load(args.model)
    with open(args.prompt_ids, encoding="utf-8") as file:
        ids = json.load(file)
    options = Options(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Options)})
    steps = generate(config, weights, ids, options, args.n)
    for number, step in enumerate(steps):
        for layer, of_heads, scores in zip(step.owners, step.kept, step.scores):
            for head, kept in enumerate(of_heads):
                print(json.dumps({"step": number, "layer": layer, "head": head, "kept": kept, "scores": scores[head]}))
    print(json.dumps([step.token for step in steps]))


if __name__ == "__main__":
    main()
