#!/usr/bin/env python3
"""Plain decoding and a speculative chain with raw and with coded tiles (docs/background/coded-kv.md), interleaved.

  coded_kv.py TRIREME MODEL DRAFT [--repetitions 3] [--factors 5,10,18] [--chain triforce] [--type bf16]

All KV of a prompt of 7,680 tokens is streamed over emulated links, on which copying raw tiles takes FACTOR times as long
as a plain step on chip computes. Prints a table of medians. About 3 minutes a factor and repetition."""

import argparse
import json
import os
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PREFILL, TOKENS = 7680, 64


def bench(trireme, model, *more):
    command = [trireme, "bench", "-m", model, "-f", f"{ROOT}/configs/texts/kjv_end.txt", "--prefill", str(PREFILL), "-n",
               str(TOKENS), "-r", "1", "--no-progress", "-o", "json", *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("model")
    parser.add_argument("draft")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--factors", default="5,10,18")
    parser.add_argument("--chain", default="triforce")
    parser.add_argument("--type", default="bf16")
    a = parser.parse_args()
    threads = ["-t", "2", "--kv-cache-dtype", a.type, "--temp", "0.8", "--top-k", "0", "--top-p", "1"]
    on_chip = [1e3 / bench(a.trireme, a.model, "--modes", "none", "--kv-on-chip", "all", *threads)[0]["median_ts"] for _ in range(3)]
    compute_ms = statistics.median(on_chip)
    print(f"a plain step on chip: {compute_ms:.2f} ms\n")
    print("| copy / compute | mode | raw, tok/s | coded, tok/s | ratio | link MB a token, raw | coded | codec, ms a token |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for factor in map(float, a.factors.split(",")):
        seen = {}
        gbps = None
        for _ in range(a.repetitions):
            for wire in ("raw", "coded"):
                if gbps is None:  # bytes of a plain step
                    row = bench(a.trireme, a.model, "--modes", "none", "--kv-on-chip", "0", "--kv-wire", "raw", *threads)[0]
                    gbps = row["h2d_bytes"] / row["n_gen"] / (factor * compute_ms * 1e6)
                rows = bench(a.trireme, a.model, "-md", a.draft, "--modes", f"none,{a.chain}", "--budget", "1024", "--kv-on-chip",
                             "0", "--link-gbps", f"{gbps:.4f}", "--kv-wire", wire, *threads)
                for row in rows:
                    seen.setdefault((row["mode"], wire), []).append(row)
        for mode in dict.fromkeys(m for m, _ in seen):
            def median(wire, of):
                return statistics.median(of(r) for r in seen[mode, wire])
            speed = {w: median(w, lambda r: r["median_ts"]) for w in ("raw", "coded")}
            mb = {w: median(w, lambda r: r["h2d_bytes"] / r["n_gen"] * 1e-6) for w in ("raw", "coded")}
            print(f"| {factor:g} | {mode} | {speed['raw']:.2f} | {speed['coded']:.2f} | {speed['coded'] / speed['raw']:.2f} | {mb['raw']:.1f} | "
                  f"{mb['coded']:.1f} | {median('coded', lambda r: r['codec_ms'] / r['n_gen']):.1f} |", flush=True)


if __name__ == "__main__":
    main()
