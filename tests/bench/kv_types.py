#!/usr/bin/env python3
"""KV caches of several types: what they lose, their memory, and their decode rates (docs/background/quantised-kv.md).

  kv_types.py TRIREME MODEL [--types f16,bf16,q8_0] [--score-tokens 2000] [--context 8000] [--repetitions 3] [--gbps 1]

Loss is measured by `score` on the King James Bible with f32 activations, relative to an f32 cache: perplexity, the mean KL
divergence of the next token's distribution, and how often its most likely token is the same. Rates are medians of interleaved
runs, with all KV on chip, and with all of it streamed over an emulated link. Requires h5py: Debian's python3 has it."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = f"{ROOT}/configs/texts/kjv_end.txt"


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def score(a, kind, text, out):
    """The perplexity, and the log probabilities of every next token."""
    result = json.loads(run(a.trireme, "score", "-m", a.model, "-f", text, "-ctk", kind, "-ctv", kind, "--activations", "f32",
                            "--dump-logits", out, "--no-progress"))
    with h5py.File(out) as file:
        logits = file["logits"][:].astype(np.float64)
    os.remove(out)
    logits -= logits.max(axis=1, keepdims=True)
    return result["perplexity"], logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def losses(a, types):
    with tempfile.TemporaryDirectory() as folder:
        text, out = f"{folder}/text.txt", f"{folder}/logits.h5"
        with open(TEXT, encoding="utf-8") as from_file, open(text, "w", encoding="utf-8") as to:
            to.write(from_file.read()[:a.score_tokens * 4])
        base, exact = score(a, "f32", text, out)
        print(f"{len(exact)} tokens; a cache of f32: perplexity {base:.4f}\n")
        print("| KV type | perplexity | relative to f32, % | KL divergence | 99.9 % of tokens below | same most likely token, % |")
        print("|---|---:|---:|---:|---:|---:|")
        for kind in types:
            value, own = score(a, kind, text, out)
            divergence = (np.exp(exact) * (exact - own)).sum(axis=1)
            same = (exact.argmax(axis=1) == own.argmax(axis=1)).mean()
            print(f"| {kind} | {value:.4f} | {100 * (value / base - 1):+.3f} | {divergence.mean():.2e} | {np.quantile(divergence, 0.999):.1e} | "
                  f"{100 * same:.2f} |", flush=True)


def rates(a, types):
    places = {"on chip": ["--kv-on-chip", "all"], f"streamed at {a.gbps:g} GB/s": ["--kv-on-chip", "0", "--kv-wire", "raw", "--link-gbps", a.gbps]}
    rows = {}
    for _ in range(a.repetitions):
        for place, flags in places.items():
            for kind in types:
                bench = json.loads(run(a.trireme, "bench", "-m", a.model, "-f", TEXT, "--prefill", a.context, "-n", 64, "-r", 1, "--no-progress",
                                       "-o", "json", "--modes", "none", "--temp", 0, "-ctk", kind, "-ctv", kind, *flags))
                rows.setdefault((place, kind), []).append(bench[0])
    print("\n| KV | type | tokens/s | relative to " + types[0] + " | MB copied a token |\n|---|---|---:|---:|---:|")
    for place in places:
        base = statistics.median(r["median_ts"] for r in rows[place, types[0]])
        for kind in types:
            speed = statistics.median(r["median_ts"] for r in rows[place, kind])
            copied = statistics.median(r["h2d_bytes"] / r["n_gen"] for r in rows[place, kind])
            print(f"| {place} | {kind} | {speed:.1f} | {speed / base:.2f} | {copied * 1e-6:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("model")
    parser.add_argument("--types", default="f16,bf16,q8_0")
    parser.add_argument("--score-tokens", type=int, default=2000)
    parser.add_argument("--context", type=int, default=8000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--gbps", type=float, default=1)
    a = parser.parse_args()
    types = a.types.split(",")
    losses(a, types)
    if a.repetitions > 0:
        rates(a, types)


if __name__ == "__main__":
    main()
