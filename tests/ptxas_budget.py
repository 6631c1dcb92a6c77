#!/usr/bin/env python3
"""Registers, spills and static shared memory of every GPU kernel, as ptxas counted them, against kernels/cuda/budget.txt.

  ptxas_budget.py BUILD_FOLDER BUDGET     prints a table; fails where a kernel is over its budget or has none
"""
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def kernels(folder):
    """(mangled name, architecture, registers, spilled bytes, shared bytes), from all logs of the compiler."""
    for log in sorted(folder.rglob("*.ptxas")):
        entry, spilled = None, 0
        for line in log.read_text().splitlines():
            if m := ENTRY.search(line):
                entry = m.groups()
            elif m := SPILL.search(line):
                spilled = int(m.group(2)) + int(m.group(3))
            elif (m := USED.search(line)) and entry:
                shared = SHARED.search(line)
                yield *entry, int(m.group(1)), spilled, int(shared.group(1)) if shared else 0
                entry, spilled = None, 0


def readable(names):
    """run_body<trireme::gpu::AttendTile<trireme::f16, 1> >(...) -> AttendTile<f16, 1>"""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        body = line[line.index("run_body<") + len("run_body<"):line.rindex(">(")].strip()
        found.append(body.replace("trireme::gpu::", "").replace("trireme::", ""))
    return found


def main():
    folder, budget_file = map(pathlib.Path, sys.argv[1:])
    budget = []  # (pattern of the body's name, registers, spilled bytes)
    for line in budget_file.read_text().splitlines():
        if line and not line.startswith("#"):
            registers, spilled, pattern = line.split(None, 2)
            budget.append((re.compile(pattern), int(registers), int(spilled)))
    rows = list(kernels(folder))
    if not rows:
        sys.exit(f"ptxas_budget: no *.ptxas under {folder}: was the CUDA module built?")
    over = 0
    print("| kernel | architecture | registers | spilled bytes | static shared bytes |\n|---|---|---:|---:|---:|")
    for name, (_, architecture, registers, spilled, shared) in zip(readable([r[0] for r in rows]), rows):
        limit = next(((r, s) for pattern, r, s in budget if pattern.fullmatch(name)), None)
        bad = limit is None or registers > limit[0] or spilled > limit[1]
        over += bad
        note = "" if not bad else " OVER" if limit else " NO BUDGET"
        print(f"| {name} | {architecture} | {registers} | {spilled} | {shared}{note} |")
    print(f"{len(rows)} kernels, {over} over their budget")
    sys.exit(1 if over else 0)


main()
