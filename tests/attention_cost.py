#!/usr/bin/env python3
"""What attention over a streamed or cached KV costs a GPU, from the machine code of AttendSplit: instructions per KB of
keys and values, and an estimate of the share of the memory bandwidth that it reaches.

  attention_cost.py FOLDER     a folder of compiled objects (build/release/kernels/cuda); fails if a share is too small

The code of a step (32 slots) is the shortest path through the kernel's loop that multiplies as often as the query
vectors need, and copies all keys and values without a check of each slot. The estimate takes the slowest of memory,
issue of instructions, tensor cores and shared memory, and adds the records of splits and their merge. It is a model:
no GPU has been measured. cuobjdump is found as in device_code.py.
"""
import collections
import functools
import pathlib
import re
import sys

import device_code

Gpu = collections.namedtuple("Gpu", "name target sms clock_ghz memory_gbs tensor_tflops")
# Tensor rates: f16 products, f32 sums, without sparsity. H100 (SXM): mma.sync reaches about 62 % of wgmma's 989.
GPUS = (Gpu("4090", "sm_89", 128, 2.52, 1008, 165), Gpu("A100", "sm_80", 108, 1.41, 2039, 312),
        Gpu("H100", "sm_90", 132, 1.755, 3350, 620))
ISSUE = 0.6     # of the schedulers' slots: latencies are not hidden by the few warps of an SM
BANDWIDTH = 0.92  # of the memory's rate, which plain copies reach
KEYS, DIM = 32, 128
# The least share that a shape must reach: (type, rows, query heads of a KV head).
LEAST = {("f16", 1, 1): 0.8, ("f16", 17, 1): 0.8, ("f16", 64, 1): 0.6, ("f16", 1, 4): 0.6, ("f16", 17, 4): 0.6, ("f16", 8, 8): 0.6,
         ("bf16", 1, 1): 0.8, ("bf16", 17, 1): 0.8, ("bf16", 8, 4): 0.6}
LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?\w+) )?([A-Z0-9_.]+)(.*?);")


def kernels(tool, file):
    """(name, target) -> [(address, predicate, operation, operands)]"""
    found, target, name = collections.defaultdict(list), "", ""
    for line in device_code.dump(tool, "-sass", file):
        if m := LINE.match(line):
            found[name, target].append((int(m[1], 16), m[2], m[3], m[4]))
        elif "code for sm_" in line:
            target = line.split()[-1]
        elif "Function : " in line:
            name = line.split()[-1]
    return found


def target_of(instruction):
    m = re.search(r"0x([0-9a-f]+)", instruction[3])
    branches = instruction[2].startswith("BRA") and instruction[2] != "BRA.DIV"  # that leaves a warp which has split up
    return int(m[1], 16) if branches and m else None


@functools.cache
def step(code, products, copies):
    """Operations of the shortest path through the smallest loop that has all products, with this number of them."""
    everything = sum(i[2].startswith("HMMA") for i in code)
    loops = []
    for i in code:
        begin = target_of(i)
        if begin is not None and begin < i[0]:
            body = [j for j in code if begin <= j[0] <= i[0]]
            if sum(j[2].startswith("HMMA") for j in body) == everything:
                loops.append((len(body), begin, i[0]))
    _, begin, end = min(loops)
    # From the end back: the best continuation from each instruction, by products and copies that are left.
    best = {}
    body = [i for i in code if begin <= i[0] <= end]
    for i in reversed(body):
        address, predicate, operation, _ = i
        jump = target_of(i)
        nexts = []
        if address == end:
            nexts = [{(0, 0): collections.Counter()}]
        else:
            never, always = predicate in ("!PT", "!UPT"), predicate in (None, "PT", "UPT")
            if jump is not None and not never and address < jump <= end:
                nexts.append(best[jump])
            if (jump is None or not always) and not (operation == "EXIT" and always):
                nexts.append(best.get(address + 16, {}))
        mine = {}
        add = (int(operation.startswith("HMMA")), int(operation.startswith("LDGSTS")))
        for states in nexts:
            for (p, c), path in states.items():
                key = (p + add[0], c + add[1])
                if key[0] > products or key[1] > copies:
                    continue
                if key not in mine or path.total() + 1 < mine[key].total():
                    mine[key] = path + collections.Counter([operation.split(".")[0]])
        best[address] = mine
    return best[begin].get((products, copies))


def compiled(tool, folder):
    """(name, target) -> code, as a tuple of instructions"""
    found = {}
    for file in device_code.below([pathlib.Path(folder)], "attention_split_*.cu.o"):
        code = kernels(tool, file)
        for (mangled, target), name in zip(code, device_code.readable([n for n, _ in code])):
            found[name, target] = tuple(code[mangled, target])
    return found


def cost(code, dtype, tiles, used, gpu, rows, group):
    parts = 2 if dtype == "f16" else 3
    # Of a warp: 4 / tiles warps share a tile's products.
    team = 4 // tiles
    products = parts * (DIM // 16 * 4 + DIM // 8 * 2) // team
    path = step(code, products, 2 * KEYS * DIM // 8 // 128)
    if path is None:
        sys.exit(f"attention_cost: {dtype}, {tiles} tiles, {gpu.target}: no path with {products} products")
    # Warps without vectors wait at two barriers and copy: about 60 instructions.
    idle = 4 - team * used
    instructions, bytes_of_step = team * used * path.total() + 60 * idle, 2 * KEYS * DIM * 2
    blocks = -(-rows * group // (16 * tiles))  # of one KV head and split: each reads its keys and values, from L2
    per_kb = blocks * instructions / bytes_of_step * 1024
    memory = bytes_of_step / (gpu.memory_gbs * BANDWIDTH)                       # ns, of the whole GPU
    issue = blocks * instructions / (gpu.sms * 4 * gpu.clock_ghz * ISSUE)
    tensor = blocks * team * used * products * 4096 / (gpu.tensor_tflops * 1e3)
    shared = team * used * (path["LDSM"] * 512 + path["LDS"] * 128 + path["STS"] * 128) + bytes_of_step
    shared = blocks * shared / (gpu.sms * 128 * gpu.clock_ghz)
    records = 2 * rows * group * (DIM + 2) * 4 / (8 * 256 / KEYS) / (gpu.memory_gbs * BANDWIDTH)
    slowest = max((memory, "memory"), (issue, "issue"), (tensor, "tensor cores"), (shared, "shared memory"))
    return per_kb, bytes_of_step / gpu.memory_gbs / (slowest[0] + records), slowest[1]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tool = device_code.cuobjdump()
    if tool is None:
        print("attention_cost: no cuobjdump; see tests/fetch_cuda_tools.sh")
        sys.exit(device_code.SKIPPED)
    code = compiled(tool, sys.argv[1])
    if not code:
        sys.exit(f"attention_cost: no attention_split_*.cu.o in {sys.argv[1]}: build the CUDA module first")
    print("| KV | rows | query heads of a KV head | instructions per KB | " +
          " | ".join(f"{c.name}: share, limit" for c in GPUS) + " |")
    print("|---|---:|---:|---:|" + "---|" * len(GPUS))
    complaints = []
    for dtype in ("f16", "bf16"):
        for rows in (1, 8, 17, 64):
            for group in (1, 4, 8):
                vectors = rows * group
                tiles = 1 if vectors <= 16 else 2 if vectors <= 32 or dtype == "bf16" else 4
                groups = -(-vectors // (16 * tiles))
                used = -(-vectors // 16) / groups  # tiles of an average block
                name = f"AttendSplit<{dtype}, {DIM}, {tiles}>"
                cells = []
                for gpu in GPUS:
                    per_kb, share, limit = cost(code[name, gpu.target], dtype, tiles, used, gpu, rows, group)
                    cells.append(f"{share:.2f}, {limit}")
                    if share < LEAST.get((dtype, rows, group), 0):
                        complaints.append(f"{dtype}, {rows} rows, {group} heads on {gpu.name}: {share:.2f} is too small")
                print(f"| {dtype} | {rows} | {group} | {per_kb:.0f} | " + " | ".join(cells) + " |")
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
