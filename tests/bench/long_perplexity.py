#!/usr/bin/env python3
"""Perplexity of a long text in bounded memory, policy by policy: a table, and a picture of how it goes over the text.

  long_perplexity.py TRIREME MODEL TEXT OUT.png [--tokens 100000] [--full 8192] [--window 512]

Positions roll, the text is read in chunks of as many tokens as heads keep; the full cache goes as far as its positions do
(--full). Needs matplotlib."""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

MODES = [
    ("full cache", "#444444", []),
    ("h2o", "#d08040", ["--kv-policy", "h2o"]),
    ("h2o, 4 sinks, decay 0.9995", "#a05080", ["--kv-policy", "h2o", "--kv-sinks", "4", "--kv-decay", "0.9995"]),
    ("streaming, 4 sinks", "#4878a8", ["--kv-policy", "streaming"]),
    ("adakv", "#60a060", ["--kv-policy", "adakv"]),
]
MEAN = 4096  # tokens that a point of the picture is the mean of
EDGES = (0, 2048, 8192, 25000, 50000, 75000, 100000)


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"long_perplexity: {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def perplexity(logprobs):
    return math.exp(-sum(logprobs) / len(logprobs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("trireme", "model", "text", "out"):
        parser.add_argument(name)
    parser.add_argument("--tokens", type=int, default=100000)
    parser.add_argument("--full", type=int, default=8192)
    parser.add_argument("--window", type=int, default=512)
    asked = parser.parse_args()
    ids = run([asked.trireme, "tokenize", "-m", asked.model, "-f", asked.text])[:asked.tokens]
    bounded = ["--kv-positions", "rolling", "--kv-window", str(asked.window), "--kv-chunk", str(asked.window)]
    figure, axes = plt.subplots(figsize=(9, 4.5))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ids.json")
        for name, color, flags in MODES:
            mine = ids if flags else ids[:asked.full]
            with open(path, "w", encoding="utf-8") as file:
                json.dump(mine, file)
            words = [asked.trireme, "score", "-m", asked.model, "--prompt-ids", path, "--no-progress"]
            logprobs = run(words + (flags + bounded if flags else []))["logprobs"]
            rows.append((name, logprobs))
            ends = range(min(MEAN, len(logprobs)), len(logprobs) + 1, 512)
            axes.plot(list(ends), [perplexity(logprobs[max(0, end - MEAN):end]) for end in ends], color=color, label=name)
            print(f"{name}: {perplexity(logprobs):.3f}", file=sys.stderr, flush=True)
    axes.set_xlabel("tokens of the text")
    axes.set_ylabel(f"perplexity of the last {MEAN} tokens")
    axes.set_title(f"{asked.window} tokens a head, positions rolling")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(asked.out, dpi=110)

    print("| tokens | " + " | ".join(name for name, _ in rows) + " |\n" + "|---" * (len(rows) + 1) + "|")
    parts = [(a, b) for a, b in zip(EDGES, EDGES[1:]) if a < len(ids)] + [(0, len(ids))]
    for first, last in parts:
        label = "all" if (first, last) == parts[-1] else f"{first:,} to {min(last, len(ids)):,}"
        cells = [f"{perplexity(logprobs[first:last]):.2f}" if len(logprobs) >= min(last, len(ids)) - 1 else ""
                 for _, logprobs in rows]
        print(f"| {label} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
