#!/usr/bin/env python3
"""Time to load a model from each of the formats, as a Markdown table.

  load_time.py TRIREME [--model FILE.gguf] [--big] [--repetitions 5]

The model ($TRIREME_DEMO_MODEL) as GGUF, as a safetensors folder and as a .h5 file; with --big also a random model of
2.2 GB (the shape of TinyLlama 1.1B) in the last two. Measures load_ms of `generate -n 1`: cold, after
POSIX_FADV_DONTNEED on the files, and warm, right after that run. Formats are interleaved; the table has medians.
Nothing here passes or fails. Requires numpy for --big, and space in $TMPDIR for two copies of each model."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def run(words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"load_time: {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def files_of(model):
    return [f for f in model.iterdir() if f.is_file()] if model.is_dir() else [model]


def drop_from_cache(model):
    for path in files_of(model):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)  # only clean pages are dropped
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def load_ms(trireme, model, ids, tokenizer):
    words = [trireme, "generate", "-m", model, "--prompt-ids", ids, "-n", "1", "-c", "16", "--print", "ids",
             "--no-progress", "--report-json", "-"]
    if tokenizer:
        words += ["--tokenizer", tokenizer]
    return json.loads(run(words))["load_ms"]


def measure(args, what, models, ids, tokenizer=None):
    times = {name: {"cold": [], "warm": []} for name in models}
    for _ in range(args.repetitions):
        for name, model in models.items():
            drop_from_cache(model)
            for state in ("cold", "warm"):
                times[name][state].append(load_ms(args.trireme, model, ids, tokenizer))
    for name, model in models.items():
        size = sum(f.stat().st_size for f in files_of(model)) / 1e6
        cold, warm = (statistics.median(times[name][state]) for state in ("cold", "warm"))
        print(f"| {what} | {name} | {size:.0f} | {cold:.0f} | {warm:.0f} | {size / warm:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--model", type=pathlib.Path, default=os.environ.get("TRIREME_DEMO_MODEL"))
    parser.add_argument("--big", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    if not args.model:
        parser.error("no model: give --model FILE.gguf or set TRIREME_DEMO_MODEL")
    print("| model | format | MB | cold, ms | warm, ms | warm, GB/s of the file |\n|---|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="trireme-load-") as name:
        folder = pathlib.Path(name)
        ids = folder / "ids.json"
        ids.write_text("[1, 2, 3]")
        demo = {"GGUF": pathlib.Path(args.model), "safetensors": folder / "demo", "HDF5": folder / "demo.h5"}
        for form in ("safetensors", "HDF5"):
            run([args.trireme, "convert", "-m", args.model, "-o", demo[form]])
        # A folder that is converted from a GGUF file has no tokenizer, so all formats read the same one.
        measure(args, demo["GGUF"].stem, demo, ids, args.model)
        if not args.big:
            return
        big = {"safetensors": folder / "big", "HDF5": folder / "big.h5"}
        config = HERE.parent.parent / "configs" / "models" / "tinyllama-1.1b" / "config.json"
        run([sys.executable, HERE / "random_model.py", config, big["safetensors"]])
        run([args.trireme, "convert", "-m", big["safetensors"], "-o", big["HDF5"]])
        measure(args, "random, TinyLlama's shape", big, ids)


if __name__ == "__main__":
    main()
