#!/usr/bin/env python3
"""Rates at which snapshots are written and resumed, relative to the disk's own rate, as a Markdown table.

  snapshot_rate.py TRIREME [--model FILE] [--tokens 8000] [--repetitions 7] [--ranks 1,2]

The model ($TRIREME_DEMO_MODEL) reads a prompt of --tokens tokens once. Each run resumes from its snapshot, generates a
token and writes another snapshot. The disk's own rate: the same number of bytes is written in pieces of a megabyte to a
preallocated file, until they are on the disk (fdatasync), and read back. Cold means after POSIX_FADV_DONTNEED on the
files. Runs are interleaved; the table has medians. Nothing here passes or fails."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

MB = 1 << 20
TEXT = pathlib.Path(__file__).resolve().parent.parent / "data" / "texts" / "kjv_60k.txt"


def run(ranks, words):
    mpirun = ["mpirun", "-q", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(mpirun + [str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"snapshot_rate: {' '.join(map(str, words))}: {done.stderr}")
    return done


def drop_from_cache(paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)  # only clean pages are dropped
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def disk_writes(path, n):
    piece = os.urandom(MB)
    begin = time.monotonic()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.posix_fallocate(fd, 0, n)
    for at in range(0, n, MB):
        os.pwrite(fd, piece[: n - at], at)
    os.fdatasync(fd)
    os.close(fd)
    return n / (time.monotonic() - begin)


def disk_reads(path, n):
    piece = bytearray(MB)
    begin = time.monotonic()
    fd = os.open(path, os.O_RDONLY)
    for at in range(0, n, MB):
        os.preadv(fd, [piece], at)
    os.close(fd)
    return n / (time.monotonic() - begin)


def measure(args, ranks, folder):
    prompt, first, second = folder / "prompt.json", folder / f"first{ranks}.h5", folder / f"second{ranks}.h5"
    base = [args.trireme, "generate", "-m", args.model, "-t", str(max(1, os.cpu_count() // ranks)), "--no-progress", "--ignore-eos", "--temp", "0",
            "--force"]  # fmt: skip
    run(ranks, base + ["--prompt-ids", prompt, "-n", "1", "--save-kv", first])
    rates = {name: [] for name in ("write", "disk write", "cold", "disk cold", "warm", "disk warm")}
    files = list(folder.glob(first.name + "*"))
    size = sum(f.stat().st_size for f in files)
    plain = folder / "plain"
    report = folder / "report.json"
    for _ in range(args.repetitions):
        rates["disk write"].append(disk_writes(plain, size))
        for state in ("cold", "warm"):
            if state == "cold":
                drop_from_cache([plain])
            rates[f"disk {state}"].append(disk_reads(plain, size))
            if state == "cold":
                drop_from_cache(files)
            saves = ["--save-kv", second, "--checkpoint-every", "1"] if state == "cold" else []
            done = run(ranks, base + ["--load-kv", first, "-n", "2", "--report-json", report, *saves])
            rates[state].append(size / json.loads(report.read_text())["resume_ms"] * 1e3)
            for megabytes, seconds in re.findall(r"snapshot .*: \d+ tokens, ([0-9.]+) MB in ([0-9.]+) s", done.stderr)[-1:]:
                rates["write"].append(float(megabytes) * 1e6 / float(seconds))
    m = {name: statistics.median(all) / 1e6 for name, all in rates.items()}
    cells = [f"{m[a]:.0f} | {m[b]:.0f} | {m[a] / m[b]:.2f}" for a, b in (("write", "disk write"), ("cold", "disk cold"), ("warm", "disk warm"))]
    print(f"| {ranks} | {size / 1e6:.0f} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--model", default=os.environ.get("TRIREME_DEMO_MODEL"))
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--ranks", default="1,2")
    args = parser.parse_args()
    if not args.model:
        parser.error("no model: give --model FILE or set TRIREME_DEMO_MODEL")
    print("| ranks | MB | written, MB/s | disk | ratio | resumed cold, MB/s | disk | ratio | resumed warm, MB/s | disk | ratio |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="trireme-snapshots-") as name:
        folder = pathlib.Path(name)
        ids = json.loads(run(1, [args.trireme, "tokenize", "-m", args.model, "-f", TEXT, "--add-special"]).stdout)
        (folder / "prompt.json").write_text(json.dumps(ids[: args.tokens]))
        for ranks in args.ranks.split(","):
            measure(args, int(ranks), folder)


if __name__ == "__main__":
    main()
