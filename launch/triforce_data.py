#!/usr/bin/env python3
"""The data sets and models of TriForce's tables, made from public files, which the user has downloaded.

  triforce_data.py narrativeqa FILE -o DATA        lwm/ and demo/ from NarrativeQA's training split: a .parquet, .jsonl or .json file,
                                                   or a folder of the split's .parquet files
  triforce_data.py pg19 FOLDER -o DATA             pg19/ from TriForce's data/pg19/*.json, or from a folder of books as .txt
  triforce_data.py checkpoint FOLDER -o FOLDER     a model folder with .safetensors instead of .bin (requires torch and safetensors)

| what | on the Hugging Face hub | file |
|---|---|---|
| NarrativeQA | deepmind/narrativeqa | data/train-*.parquet |
| PG-19 | Infini-AI-Lab/TriForce on GitHub | data/pg19/*.json |
| target | NousResearch/Yarn-Llama-2-7b-128k, LargeWorldModel/LWM-Text-Chat-128K | the whole repository |
| draft | JackFram/llama-68m | the whole repository, then `checkpoint` |

Existing files are not overwritten. `trireme bench --dataset gs,128k,lwm,demo --data DATA` reads the result."""

import argparse
import json
import shutil
import sys
from pathlib import Path

# Rows of the training split (TriForce's data/dataset.py); `demo` is the third.
ROWS = (0, 50, 300, 800, 950, 1100, 2150, 2450, 2550, 2750, 3350, 3400, 3600, 3900, 4000, 4100, 4200, 4400, 4500, 4550)
DEMO = 300
EXIT_DATA, EXIT_NO_INPUT, EXIT_UNAVAILABLE, EXIT_CANT_CREATE = 65, 66, 69, 73


def leave(code, text):
    print(f"triforce_data: {text}", file=sys.stderr)
    sys.exit(code)


def new_file(path, text):
    if path.exists():
        leave(EXIT_CANT_CREATE, f"{path}: exists; remove it or name another folder (-o)")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def rows_of(path):
    """The rows of a split, in order."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not path.exists():
        leave(EXIT_NO_INPUT, f"{path}: no such file, or a folder without .parquet files")
    for file in files:
        if file.suffix == ".parquet":
            try:
                import pyarrow.parquet
            except ImportError:
                leave(EXIT_UNAVAILABLE, f"{file}: reading it requires pyarrow: pip install pyarrow, or give a .jsonl file")
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches(64, columns=["document"]):
                yield from batch.to_pylist()
        else:
            with open(file, encoding="utf-8") as lines:
                yield from map(json.loads, filter(str.strip, lines))


def narrativeqa(source, out):
    seen = -1
    for seen, row in enumerate(rows_of(source)):
        if seen not in ROWS:
            continue
        try:
            text = row["document"]["text"]
        except (KeyError, TypeError):
            leave(EXIT_DATA, f"{source}: row {seen} has no document.text; expected NarrativeQA's training split")
        new_file(out / "lwm" / f"{seen:05}.txt", text)
        if seen == DEMO:
            new_file(out / "demo" / f"{seen:05}.txt", text)
    if seen < ROWS[-1]:
        leave(EXIT_DATA, f"{source}: {seen + 1} rows, expected more than {ROWS[-1]}: the training split")
    print(f"{out}: lwm has {len(ROWS)} documents, demo 1")


def pg19(source, out):
    files = sorted([*source.glob("*.json"), *source.glob("*.jsonl"), *source.glob("*.txt")])
    if not files:
        leave(EXIT_NO_INPUT, f"{source}: no .json, .jsonl or .txt file; expected books")
    for file in files:
        target = out / "pg19" / file.name
        if target.exists():
            leave(EXIT_CANT_CREATE, f"{target}: exists; remove it or name another folder (-o)")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    print(f"{out}: pg19 has {len(files)} files")


def checkpoint(source, out):
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as e:
        leave(EXIT_UNAVAILABLE, f"{e.name} is not installed: pip install torch safetensors")
    shards = sorted(source.glob("pytorch_model*.bin"))
    if not shards:
        leave(EXIT_NO_INPUT, f"{source}: no pytorch_model*.bin")
    if out.exists():
        leave(EXIT_CANT_CREATE, f"{out}: exists; name another folder (-o)")
    out.mkdir(parents=True)
    tensors = {}
    for shard in shards:
        # weights_only: a checkpoint cannot run code.
        for name, tensor in torch.load(shard, map_location="cpu", weights_only=True).items():
            if not name.endswith("rotary_emb.inv_freq"):
                tensors[name] = tensor.contiguous().clone()
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    for file in source.iterdir():
        if file.is_file() and file.suffix in (".json", ".model", ".txt", ".jinja") and "index" not in file.name:
            shutil.copyfile(file, out / file.name)
    print(f"{out}: {len(tensors)} tensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("narrativeqa", "pg19", "checkpoint"))
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    {"narrativeqa": narrativeqa, "pg19": pg19, "checkpoint": checkpoint}[options.what](options.source, options.output)


if __name__ == "__main__":
    main()
