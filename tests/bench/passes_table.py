#!/usr/bin/env python3
"""Perplexity and prompt time by the number of passes over layers that read later ones, as a Markdown table.

  passes_table.py TRIREME MODEL TEXT [--last 0.05] [--window 1024] [--passes 1,2,..,12,exact]

The last part of the text is scored in windows. Numbers of passes are interleaved, three repetitions each; times are
medians. Nothing here passes or fails."""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

REPETITIONS = 3


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"passes_table: {' '.join(words)}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--last", type=float, default=0.05, help="part of the text that is scored, from its end")
    parser.add_argument("--window", type=int, default=1024, help="tokens that are scored together")
    parser.add_argument("--passes", default=",".join(map(str, range(1, 13))) + ",exact")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(asked.text, encoding="utf-8") as file:
            text = file.read()
        part = os.path.join(folder, "part.txt")
        with open(part, "w", encoding="utf-8") as file:
            file.write(text[int(len(text) * (1 - asked.last)):])
        ids = json.loads(run([asked.trireme, "tokenize", "-m", asked.model, "-f", part]))
        windows = []
        for i, at in enumerate(range(0, len(ids) - asked.window + 1, asked.window)):
            windows.append(os.path.join(folder, f"{i}.json"))
            with open(windows[-1], "w", encoding="utf-8") as file:
                json.dump(ids[at:at + asked.window], file)
        counts = asked.passes.split(",")
        times = {c: [] for c in counts}
        for _ in range(REPETITIONS):
            for c in counts:
                report = json.loads(run([asked.trireme, "generate", "-m", asked.model, "--prompt-ids", windows[0], "-n", "1", "--temp", "0",
                                         "--passes", c, "--no-progress", "--report-json", "-"]))
                times[c].append((report["prefill_ms"], report["passes"]))
        print(f"| passes | perplexity of {len(windows)} windows of {asked.window} tokens | prefill of one, ms | passes it took |\n|---|---|---|---|")
        for c in counts:
            total = tokens = 0
            for w in windows:
                scored = json.loads(run([asked.trireme, "score", "-m", asked.model, "--prompt-ids", w, "--passes", c, "--no-progress"]))
                total -= sum(scored["logprobs"])
                tokens += len(scored["logprobs"])
            print(f"| {c} | {math.exp(total / tokens):.4f} | {statistics.median(t for t, _ in times[c]):.1f} | {times[c][0][1]} |", flush=True)


if __name__ == "__main__":
    main()
