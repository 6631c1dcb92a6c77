#!/usr/bin/env python3
"""Compares the greedy tokens of every chain with those of plain decoding, over all combinations of ranks, layers on
chip, draft lengths and KV types. The models are the small ones trained on the King James Bible, or another one.

  exactness.py TRIREME                       every combination: about 10^5 tokens, a quarter of an hour on 2 cores
  exactness.py TRIREME --every 20            every twentieth combination
  exactness.py TRIREME --quantise Q4_K_M     with a target of this type, and a draft model of Q8_0
  exactness.py TRIREME --model M --draft D   5,000 tokens of this model

For each combination, `trireme bench` continues three of 24 texts. The last line has the number of compared tokens.
Exit status 1: some tokens differ."""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHAINS = ("ngram", "suffix", "draft", "window", "h2o+full", "retrieval", "tree", "triforce", "suffix+retrieval+full",
          "window+retrieval+full", "h2o+retrieval+full", "draft+h2o+full", "draft+window+retrieval+full")
RANKS = (1, 2, 4)
ON_CHIP = ("0", "3", "all")  # of 6 layers
GAMMAS = ("1", "2", "3", "5", "8", "12", "16", "auto")
TYPES = ("f32", "f16", "bf16", "q8_0")
TEXTS, TEXTS_EACH, PREFILL, TOKENS = 24, 3, 560, 24
RESELECT = ("every", "every", "3", "never")
KEPT = ("16", "64", "0.3", "1000")


def texts():
    """Pieces of the Bible's text that begin at 24 positions."""
    with open(f"{ROOT}/tests/data/texts/kjv_60k.txt", encoding="utf-8") as file:
        text = file.read()
    step = (len(text) - 4000) // (TEXTS - 1)
    return [text[i * step:i * step + 4000] for i in range(TEXTS)]


def compare(command, what):
    """Runs a bench; returns the number of compared tokens, and the number of rows that differ."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{what}: ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return 0, 1
    tokens = wrong = 0
    for row in map(json.loads, done.stdout.splitlines()):
        if row["mode"] == "none":
            continue
        if row["exact"] is not True:
            print(f"{what}: {row['mode']}: other tokens: {done.stderr.strip()}", flush=True)
            wrong += 1
        tokens += row["n_gen"] * row["texts"]
    return tokens, wrong


def jsonl(folder, pieces):
    path = os.path.join(folder, "texts.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": piece}) + "\n" for piece in pieces)
    return path


def quantised(args, folder, name, to):
    """A small model as it is or, with --quantise, as a GGUF file with blocks."""
    model = f"{ROOT}/tests/data/models/{name}"
    if not args.quantise:
        return model
    out = os.path.join(folder, f"{name}.gguf")
    subprocess.run([args.trireme, "convert", "-m", model, "-o", out, "--quantise", to, "-q"], check=True)
    return out


def small_models(args, folder):
    target, draft = (quantised(args, folder, *model) for model in (("kjv-target", args.quantise), ("kjv-draft", "Q8_0")))
    all_texts = texts()
    combinations = list(itertools.product(RANKS, ON_CHIP, GAMMAS, TYPES))
    for number, (ranks, on_chip, gamma, kv_type) in list(enumerate(combinations))[args.first::args.every]:
        draw = random.Random(number)  # all other settings are random, so that none of them always occur together
        path = jsonl(folder, draw.sample(all_texts, TEXTS_EACH))
        inner, reselect = draw.choice(GAMMAS), draw.choice(RESELECT)
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
        command += [args.trireme, "bench", "-m", target, "-md", draft, "--data", path,
                    "--prefill", str(PREFILL), "-n", str(TOKENS), "-r", "1", "--temp", "0", "-o", "jsonl", "--no-progress",
                    "--modes", ",".join(("none",) + CHAINS), "--gamma", gamma, "--gamma-inner", inner,
                    "--kv-on-chip", on_chip, "--kv-cache-dtype", kv_type, "--budget", draw.choice(("32", "128", "1024")), "--draft-window", draw.choice(("128", "256")),
                    "--kv-window", draw.choice(KEPT), "--kv-gqa", draw.choice(("first", "mean", "max")), "--kv-heads-share", draw.choice(("layer", "head")), "--reselect", reselect, "--reselect-queries", draw.choice(("1", "8")), "--tree-size", draw.choice(("5", "32", "63")), "--siblings", draw.choice(("auto", "0", "2", "7"))]
        if kv_type in ("f16", "bf16"):
            command += ["--kv-wire", args.kv_wire]
        if ranks > 1:
            command += ["-t", "1"]
        yield f"{ranks} ranks, {on_chip} on chip, gamma {gamma}/{inner}, {kv_type}, reselect {reselect}, combination {number}", command


def one_model(args, folder):
    path = jsonl(folder, texts()[::5][:5])
    chains = ("ngram", "suffix", "draft", "h2o+full", "retrieval", "tree", "triforce")
    yield args.model, [args.trireme, "bench", "-m", args.model, "-md", args.draft, "--data", path, "--prefill", "640", "-n", "200",
                       "-r", "1", "--temp", "0", "-o", "jsonl", "--no-progress", "--modes", ",".join(("none",) + chains),
                       "--budget", "128"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every N-th combination")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="beginning with combination I")
    parser.add_argument("--kv-wire", default="raw", help="raw or coded: the form of streamed tiles of 16-bit types")
    parser.add_argument("--quantise", metavar="TYPE", help="type of the target's weights")
    parser.add_argument("--model")
    parser.add_argument("--draft")
    args = parser.parse_args()
    tokens = wrong = runs = 0
    with tempfile.TemporaryDirectory() as folder:
        for what, command in (one_model if args.model else small_models)(args, folder):
            compared, others = compare(command, what)
            tokens, wrong, runs = tokens + compared, wrong + others, runs + 1
    print(f"{tokens} greedy tokens of chains in {runs} combinations compared with plain decoding: "
          f"{'all the same' if wrong == 0 else f'{wrong} rows differ'}")
    sys.exit(0 if wrong == 0 and tokens > 0 else 1)


if __name__ == "__main__":
    main()
