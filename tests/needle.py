#!/usr/bin/env python3
"""Checks that a level with retrieval finds a key at a distant position of a text, and that a window does not. A key of
several words is placed at some depth of a text about other topics, and the end of the text requests it. If the model
generates the key (greedy), retrieval over a fifth of the text must have an acceptance rate of at least 0.9. A window
must have at most 0.5.

  needle.py TRIREME MODEL [TOKENS]     2,400 tokens of text

Prints a line per depth; exit status 1: the model generates the key at fewer than three depths, or a rate is out of
bounds."""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEY = "copper violin harvest lantern marble falcon thunder orange"
NEEDLE = f"\n\nThe secret key is {KEY}. Remember it: the secret key is {KEY}.\n\n"
CUE = "\n\nWhat is the secret key? The secret key is"
DEPTHS = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
TOKENS = 10  # a little more than the key has


def speculate(trireme, model, path, chain, budget):
    """The generated text and the acceptance rate. At temperature 0, every chain gives the text of plain decoding."""
    done = subprocess.run(
        [trireme, "generate", "-m", model, "-f", path, "--temp", "0", "-n", str(TOKENS), "--no-progress", "--spec", chain, "--gamma", "5",
         "--budget", str(budget), "--draft-window", "128", "--report-json", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"needle: {chain}: {done.stderr}")
    report = json.loads(done.stdout)
    return report["samples"][0]["text"], report["speculation"][0]["accept_rate"]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    trireme, model = sys.argv[1:3]
    length = int(sys.argv[3]) if len(sys.argv) > 3 else 2400
    with open(f"{ROOT}/tests/data/texts/kjv_60k.txt", encoding="utf-8") as file:
        hay = file.read()[:int(length * 3.9)]
    found, wrong = 0, []
    for depth in DEPTHS:
        at = hay.rfind("\n", 0, int(depth * len(hay)))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "text.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(hay[:at] + NEEDLE + hay[at:] + CUE)
            said, retrieval = speculate(trireme, model, path, "retrieval", length // 5)
            _, window = speculate(trireme, model, path, "window", 0)
        if not said.strip().startswith(KEY):
            print(f"depth {depth}: the model says '{said.strip()[:30]}...', not the key", flush=True)
            continue
        found += 1
        print(f"depth {depth} of {length} tokens: accept_rate of retrieval {retrieval:.3f}, of window {window:.3f}", flush=True)
        if retrieval < 0.9 or window > 0.5:
            wrong.append(depth)
    if found < 3:
        sys.exit(f"needle: the model gives the key at {found} depths; want 3")
    if wrong:
        sys.exit(f"needle: out of bounds at depths {wrong}")


if __name__ == "__main__":
    main()
