#!/usr/bin/env python3
"""The loss of quality by KV eviction: a table of policies and of W, the number of tokens that each head retains.

  eviction.py TRIREME MODEL [--windows 128,512,2048] [--policies h2o,...] [--no-needle]

The table has three columns. Perplexity: the last 512 of 2,560 tokens of text, read in chunks of 32 with eviction after
each. Greedy tokens: how many of 64 tokens after a prompt of 2,048 equal those of the full cache, up to the first
difference. Needles: at how many of five depths in 2,048 tokens a key of several words is found. Nothing here passes or
fails."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from needle import CUE, KEY, NEEDLE

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
POLICIES = "h2o,streaming,tova,snapkv,pyramidkv,adakv,knorm,keydiff,expected,random"
DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
SCORED, LAST, PROMPT, GREEDY = 2560, 512, 2048, 64


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"eviction: {' '.join(words)}: {done.stderr}")
    return done.stdout


class Model:
    def __init__(self, trireme, path, folder):
        self.trireme, self.path, self.folder = trireme, path, folder

    def write(self, name, ids):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(ids, file)
        return path

    def ids(self, text):
        path = os.path.join(self.folder, "text.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return json.loads(run([self.trireme, "tokenize", "-m", self.path, "-f", path]))

    def perplexity(self, ids, flags):
        out = run([self.trireme, "score", "-m", self.path, "--prompt-ids", self.write("ids.json", ids), "-o", "-", "--no-progress", *flags])
        logprobs = json.loads(out)["logprobs"][-LAST:]
        return 2.718281828459045 ** (-sum(logprobs) / len(logprobs))

    def greedy(self, ids, n, flags):
        out = run([self.trireme, "generate", "-m", self.path, "--prompt-ids", self.write("ids.json", ids), "-n", str(n), "--temp", "0",
                   "--ignore-eos", "--print", "ids", "--no-progress", *flags])
        return json.loads(out)


def agreement(mine, full):
    return next((i for i, (a, b) in enumerate(zip(mine, full)) if a != b), len(full))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("model")
    parser.add_argument("--windows", default="128,512,2048")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--no-needle", action="store_true")
    asked = parser.parse_args()
    with open(f"{ROOT}/configs/texts/kjv_end.txt", encoding="utf-8") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        model = Model(asked.trireme, asked.model, folder)
        ids = model.ids(text)[:SCORED]
        hay = model.ids(text)[SCORED:SCORED + PROMPT]
        needle, cue = model.ids(NEEDLE), model.ids(CUE)
        key = model.ids(" " + KEY)
        stacks = [hay[:int(d * PROMPT)] + needle + hay[int(d * PROMPT):] + cue for d in DEPTHS]
        full = model.greedy(ids[:PROMPT], GREEDY, [])

        def row(name, window, flags):
            chunked = flags + ["--kv-chunk", "32"] if flags else flags
            found = "-" if asked.no_needle else sum(model.greedy(s, len(key), flags) == key for s in stacks)
            print(f"| {name} | {window} | {model.perplexity(ids, chunked):.3f} | "
                  f"{agreement(model.greedy(ids[:PROMPT], GREEDY, flags), full)} | {found} |", flush=True)

        print(f"| policy | W | perplexity | greedy tokens of {GREEDY} | needles of {len(DEPTHS)} |\n|---|---|---|---|---|", flush=True)
        row("full", "all", [])
        for window in asked.windows.split(","):
            for policy in asked.policies.split(","):
                row(policy, window, ["--kv-policy", policy, "--kv-window", window])


if __name__ == "__main__":
    main()
