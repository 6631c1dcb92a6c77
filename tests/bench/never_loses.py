#!/usr/bin/env python3
"""A grid of texts, temperatures and links: what `--gamma auto` gains over plain decoding, and its worst cells.

    never_loses.py TRIREME MODEL DRAFT [--prefill 2000] [--modes ...] [--factors 0,5,18] [--temperatures 0,1]

Texts: the end of the KJV, the demo model's story, this project's source code, JSON records, and random words, of which
no draft can know the next one. A factor is copy time relative to compute time; 0: all KV on chip. A cell is one chain
on one text; its ratio is the median over repetitions, which are interleaved with plain decoding.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def texts(folder):
    """Writes the texts; returns their paths by name."""
    rng = random.Random(7)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ay", "or", "en")]
    words = " ".join("".join(rng.choices(syllables, k=rng.randrange(1, 4))) for _ in range(9000))
    records = [
        {"id": i, "name": rng.choice(syllables).title(), "price": rng.randrange(10000) / 100, "tags": rng.sample(syllables, 2)}
        for i in range(1500)
    ]
    code = "\n".join(p.read_text() for p in sorted((ROOT / "decode").glob("*.cc")))
    made = {"code": code, "json": json.dumps(records, indent=1), "words": words}
    paths = {name: ROOT / "configs/texts" / f"{name}.txt" for name in ("kjv_end", "story")}
    for name, text in made.items():
        paths[name] = folder / f"{name}.txt"
        paths[name].write_text(text)
    return paths


def bench(o, modes, *flags):
    command = [o.trireme, "bench", "-m", o.model, "-md", o.draft, "--prefill", str(o.prefill), "--modes", modes]
    command += ["--budget", "512", "--kv-window", "512", "--draft-window", "256", "--top-k", "0", "--top-p", "1"]
    command += ["-t", "2", "-n", str(o.tokens), "-r", str(o.repetitions), "--no-progress", "-o", "json", *flags]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"never_loses.py: {' '.join(command)}: {run.stderr.strip().splitlines()[-1]}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("trireme", "model", "draft"):
        parser.add_argument(name)
    parser.add_argument("--prefill", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--modes", default="ngram,h2o+full,triforce")
    parser.add_argument("--factors", default="0,5,18")
    parser.add_argument("--temperatures", default="0,1")
    parser.add_argument("--texts", default="kjv_end,story,code,json,words")
    parser.add_argument("--worst", type=int, default=10)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = texts(Path(folder))
        chip = bench(o, "none", "--kv-on-chip", "all", "-f", str(paths["kjv_end"]), "--temp", "0.8")[0]
        step_ms = 1e3 / max(chip["samples_ts"])
        step_bytes = chip["kv_bytes"] * o.prefill / (o.prefill + o.tokens)
        print(f"a plain step on chip: {step_ms:.1f} ms, {step_bytes / 1e6:.0f} MB of KV\n")
        cells = []
        for factor in (float(f) for f in o.factors.split(",")):
            where = ["--kv-on-chip", "all"]
            if factor > 0:
                where = ["--kv-on-chip", "0", "--link-gbps", f"{step_bytes / (factor * step_ms * 1e6):.3f}"]
            for temperature in o.temperatures.split(","):
                for text in o.texts.split(","):
                    rows = bench(o, f"none,{o.modes}", *where, "-f", str(paths[text]), "--temp", temperature)
                    for row in rows[1:]:
                        ratios = [a / b for a, b in zip(row["samples_ts"], rows[0]["samples_ts"], strict=True)]
                        cell = (statistics.median(ratios), text, factor, temperature, row["mode"], row["accept_len"])
                        print(f"  {cell[1]:8} {factor:4g} T {temperature:4} {cell[4]:10} {cell[0]:.3f}", flush=True)
                        cells.append((*cell, min(ratios), max(ratios)))
        cells.sort()
        below = [c for c in cells if c[0] < 0.99]
        print(f"\n{len(cells) - len(below)} of {len(cells)} cells: 0.99 of plain decoding or more\n")
        print("| text | copy / compute | T | chain | over plain: median (range) | accept_len |\n|---|---:|---:|---|---:|---:|")
        for ratio, text, factor, temperature, mode, length, low, high in cells[: o.worst]:
            print(f"| {text} | {factor:g} | {temperature} | {mode} | {ratio:.2f} ({low:.2f}-{high:.2f}) | {length:.2f} |")


if __name__ == "__main__":
    main()
