#!/usr/bin/env python3
"""Speed and quality of evicting caches on a long text: tokens/s at context lengths 512 to 100,000, compared with the
full cache, and the perplexity of parts of 100,000 tokens.

  bounded_figures.py TRIREME MODEL TEXT [--tokens 100000] [--window 512] [--no-speed] [--picture OUT.png]

Evicting caches read the text in chunks of W with rolling positions. Nothing here passes or fails. The picture requires
matplotlib."""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

REPETITIONS, STEPS = 3, 128
FULL = 8192  # largest context length at which the full cache is measured
EDGES = (0, 2048, 8192, 25000, 50000, 75000, 100000)
MEAN = 4096  # tokens that are averaged for a point of the picture
MODES = {
    "h2o": ["--kv-policy", "h2o"],
    "h2o, 4 sinks, decay 0.9995": ["--kv-policy", "h2o", "--kv-sinks", "4", "--kv-decay", "0.9995"],
    "streaming, 4 sinks": ["--kv-policy", "streaming"],
    "adakv": ["--kv-policy", "adakv"],
}


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bounded_figures: {' '.join(words)}: {done.stderr}")
    return done.stdout


class Model:
    def __init__(self, asked, folder):
        self.asked, self.folder = asked, folder
        self.bounded = ["--kv-window", str(asked.window), "--kv-chunk", str(asked.window), "--kv-positions", "rolling"]
        ids = json.loads(run([asked.trireme, "tokenize", "-m", asked.model, "-f", asked.text]))
        if len(ids) < asked.tokens:
            sys.exit(f"bounded_figures: {asked.text} has {len(ids)} tokens; want {asked.tokens}")
        self.all = ids[:asked.tokens]

    def first(self, n):
        path = os.path.join(self.folder, f"first_{n}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.all[:n], file)
        return ["-m", self.asked.model, "--prompt-ids", path, "--no-progress"]

    def decode(self, n, flags):
        """Tokens/s after the first n tokens."""
        report = json.loads(run([self.asked.trireme, "generate", *self.first(n), "-n", str(STEPS), "--temp", "0", "--ignore-eos",
                                 "--report-json", "-", *flags]))
        return report["decode_tok_s"]

    def logprobs(self, n, flags):
        """Log probabilities of n tokens, except the first one."""
        return json.loads(run([self.asked.trireme, "score", *self.first(n), *flags]))["logprobs"]


def speeds(model, window):
    rows = [("full", n, []) for n in (window, 2048, FULL - STEPS)]
    rows += [("h2o", n, ["--kv-policy", "h2o", *model.bounded]) for n in (2048, FULL - STEPS, len(model.all))]
    found = {(name, n): [] for name, n, _ in rows}
    for _ in range(REPETITIONS):  # interleaved
        for name, n, flags in rows:
            found[name, n].append(model.decode(n, flags))
    print(f"| cache | context length | tok/s, median of {REPETITIONS} | relative to a full cache at {window} |\n|---|---|---|---|")
    plain = statistics.median(found["full", window])
    for (name, n), all_runs in found.items():
        speed = statistics.median(all_runs)
        print(f"| {name} | {n} | {speed:.1f} | {speed / plain:.2f} |", flush=True)


def perplexities(model):
    columns = {"full": model.logprobs(min(FULL, len(model.all)), [])}
    for name, flags in MODES.items():
        columns[name] = model.logprobs(len(model.all), flags + model.bounded)
    print("| tokens | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    edges = [e for e in EDGES if e < len(model.all)] + [len(model.all)]
    for begin, end in [*zip(edges, edges[1:]), (0, edges[-1])]:
        cells = []
        for values in columns.values():
            part = values[max(begin - 1, 0):end - 1]  # the first token has none
            cells.append(f"{math.exp(-sum(part) / len(part)):.3f}" if end - 1 <= len(values) else "")
        print(f"| {begin} to {end} | " + " | ".join(cells) + " |", flush=True)
    return columns


def draw(columns, window, path):
    import matplotlib
    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for (name, values), color in zip(columns.items(), ("#444444", "#d08040", "#a05080", "#4878a8", "#60a060")):
        ends = list(range(min(MEAN, len(values)), len(values) + 1, 512))
        means = [math.exp(-sum(values[max(0, end - MEAN):end]) / min(MEAN, end)) for end in ends]
        axes.plot(ends, means, color=color, label=name)
    axes.set_xlabel("tokens of the text")
    axes.set_ylabel(f"perplexity of the last {MEAN} tokens")
    axes.set_title(f"{window} tokens a head, positions rolling")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--tokens", type=int, default=100000)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--picture", metavar="OUT.png")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Model(asked, folder)
        if not asked.no_speed:
            speeds(model, asked.window)
            print()
        columns = perplexities(model)
        if asked.picture:
            draw(columns, asked.window, asked.picture)


if __name__ == "__main__":
    main()
