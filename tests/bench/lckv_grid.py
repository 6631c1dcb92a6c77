#!/usr/bin/env python3
"""A smaller version of LCKV's throughput table (arXiv 2405.10637, table 1): prompts of x tokens and y new ones, with as
many parallel samples as fit one memory budget, for plain Llama, w = 10 and w = 2.

    lckv_grid.py TRIREME [--budget 256M] [--grid 5+1018,5+251,...] [--threads 2] [--work FOLDER]

The model has random weights in the shape of TinyLlama 1.1B, a quarter as wide (512, 8 heads and 1 KV head of 64, ffn
1,408, 22 layers, vocabulary 8,000: 70 M parameters); x and y are an eighth of the paper's. `bound` is the gain that
reference lckv 5.2 allows: with batches B and B', weights W and W' and a mean KV read of K bytes per sequence and step,
(B'/B) (W + B K) / (W' + B' K). It assumes one rate for all bytes. On a CPU, many rows compute longer than they read, so
gains here are below the bound. Tokens/s are generated tokens over the time of prefill and decoding. Requires numpy.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = ["hidden_size=512", "intermediate_size=1408", "num_attention_heads=8", "num_key_value_heads=1",
         "vocab_size=8000"]  # fmt: skip
LAYERS, TOKEN_BYTES = 22, 2 * 64 * 2  # keys and values of one layer's one KV head, f16


def sandwich(warm: int) -> str:
    """w warm-up layers; the other layers read the top one among them (reference lckv 1.2)."""
    a = warm // 2
    top = LAYERS - 1 - a
    return "_".join(str(l if l < a or l >= LAYERS - a else top) for l in range(LAYERS))


def run(args, model: pathlib.Path, layers: str | None, x: int, y: int) -> dict:
    ids = args.work / f"ids{x}.json"
    ids.write_text(json.dumps([(17 * i * i + 3 * i + 5) % 8000 for i in range(x)]))
    command = [args.trireme, "bench", "-m", str(model), "--prompt-ids", str(ids), "-n", str(y), "-r", "1", "-np", "auto",
               "--device-memory", args.budget, "--kv-on-chip", "all", "-t", str(args.threads), "-c", str(x + y),
               "--temp", "1", "--top-p", "0.9", "--top-k", "0", "--min-p", "0", "--seed", "1", "-o", "json",
               "--no-progress"]  # fmt: skip
    if layers:
        command += ["--layer-map", layers]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"lckv_grid.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--budget", default="256M")
    parser.add_argument("--grid", default="5+1018,5+251,256+256,64+64,64+128")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "trireme-lckv-grid")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = args.work / "model"
    sets = [word for pair in SHAPE for word in ("--set", pair)]
    config = HERE.parents[1] / "configs/models/tinyllama-1.1b/config.json"
    subprocess.run([sys.executable, HERE / "random_model.py", config, model, *sets], check=True)

    print(f"memory budget {args.budget}, {args.threads} threads, f16\n")
    print("| x+y | map | samples | passes | prefill s | decode s | KV MB | tok/s | gain | bound |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for point in args.grid.split(","):
        x, y = map(int, point.split("+"))
        base = None
        for name, layers in (("plain", None), ("w10", sandwich(10)), ("w2", sandwich(2))):
            row = run(args, model, layers, x, y)
            samples, weights = row["n_parallel"], row["model_size"]
            seconds = (row["prefill_ms"] + row["decode_ms"]) * 1e-3
            rate = samples * y / seconds
            kv = LAYERS * TOKEN_BYTES * (x + y / 2)  # every layer reads its owner once
            base = base or (samples, weights, rate)
            bound = samples / base[0] * (base[1] + base[0] * kv) / (weights + samples * kv)
            print(f"| {point} | {name} | {samples} | {row['passes']} | {row['prefill_ms'] * 1e-3:.2f} "
                  f"| {row['decode_ms'] * 1e-3:.1f} | {row['kv_bytes'] * 1e-6:.0f} | {rate:.1f} "
                  f"| {rate / base[2]:.2f} | {bound:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
