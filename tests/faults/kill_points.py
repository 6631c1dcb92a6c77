#!/usr/bin/env python3
"""Kills runs with SIGKILL before and after every call that changes a file, and within writes, and checks the files.

  kill_points.py PROGRAM SHIM [--points N] [--seed 1] [--only ROW ...] [--without ROW ...] [--jobs 2]

The shim counts the calls of an operation (operations.py) and kills the run at one of them. After that, the older files
or the new ones must exist and be complete; the number of calls determines which. No other file may exist, except the
documented part. A run that resumes must give the output of a run that was never killed, and leave no other files.
Writes are also cut: in half, and at ten bytes around every boundary between kinds of bytes in a file (header, blocks of
data sets, digests, lines). With several ranks, each of them is killed at each of its calls.

Prints a table. --points limits the points per row, which --seed selects. Ends with 1 if a point was wrong.
"""

import sys
import tempfile

from operation import expect, is_publication, names_in
from operations import operations
from runner import Runner, arguments, emptied, try_all

AROUND = (-4096, -512, -64, -8, -1, 0, 1, 8, 512, 4096)  # bytes from a boundary
WRITES = ("write", "pwrite")


class Point:
    """One call at which a run is killed, and the state that is expected then."""

    def __init__(self, operation, rank, calls, how, index, cut=None):
        self.operation, self.rank = operation, rank
        call = calls[index]
        done = calls[: index + 1] if how == "kill-after" else calls[:index]
        self.fault = f"{how}:{call.number}" + ("" if cut is None else f":{cut}")
        self.left = None if cut is None else -cut if cut < 0 else call.size - cut  # bytes of the write that are missing
        self.state = operation.reached(done, rank, next_call=call if how == "kill-before" else None)
        self.name = f"{operation.name}, rank {rank}, {self.fault} ({call.name} of {call.path})"
        # A file is new after it gets its name, until the run begins to write the next one.
        named = [i for i, c in enumerate(done) if is_publication(c, operation.target)]
        begun = [i for i, c in enumerate(done) if c.name == "open"]
        self.is_new = bool(named) and named[-1] > max(begun, default=-1)


def parts_of(calls, target):
    """Indices of calls, one list per publication of the target; one list of all calls if it is never published."""
    parts, part = [], []
    for i, call in enumerate(calls):
        part.append(i)
        if is_publication(call, target):
            parts.append(part)
            part = []
    return parts or [part]


def cuts(operation, calls, folder):
    """(index of a write, number of its bytes that are written) around each boundary of each file."""
    found = set()
    for part in parts_of(calls, operation.target):
        # The file of this part, from a run that is killed right after the publication.
        operation.prepare(emptied(folder))
        operation.runner.run(operation.words(folder), under=folder, fault=f"kill-after:{calls[part[-1]].number}")
        writes = [i for i in part if calls[i].name in WRITES and operation.may_be_cut(calls[i])]
        for boundary in operation.boundaries(folder):
            for offset in (boundary + around for around in AROUND):
                for i in writes:
                    if calls[i].offset <= offset < calls[i].offset + calls[i].size:
                        found.add((i, offset - calls[i].offset))
    return sorted(found)


def points_of(operation, folder):
    points = []
    for rank in range(operation.ranks):
        operation.prepare(emptied(folder))
        calls, result = operation.runner.calls(
            operation.words(folder), folder, operation.ranks, rank if operation.ranks > 1 else None)
        expect(result.status == 0 and calls, f"{operation.name} ends with {result.status}: {result.err[-500:]}")
        state = operation.state(folder)
        expect(rank > 0 or operation.reached(calls, rank) == state, f"{operation.name}: {state} at the end")
        for i, call in enumerate(calls):
            points.append(Point(operation, rank, calls, "kill-before", i))
            points.append(Point(operation, rank, calls, "kill-after", i))
            if call.name in WRITES and call.size > 1:
                points.append(Point(operation, rank, calls, "kill-at", i, -1))
        if operation.ranks == 1:
            points += [Point(operation, rank, calls, "kill-at", i, cut) for i, cut in cuts(operation, calls, folder)]
    return points


def kill(point, folder):
    """Kills a run at this point. Raises Wrong if the files are not as expected."""
    operation = point.operation
    operation.prepare(emptied(folder))
    killed = operation.runner.run(operation.words(folder), operation.ranks, under=folder, fault=point.fault,
                                  rank=str(point.rank) if operation.ranks > 1 else None)  # fmt: skip
    expect(killed.status != 0 and (operation.ranks > 1 or killed.status == 128 + 9), f"ended with {killed.status}")
    state = operation.state(folder)
    expect(operation.agrees(state, point), f"found {state}, want {point.state}")
    stray = [n for n in names_in(folder) if not operation.is_own(n) and not operation.may_be_left(n)]
    expect(not stray, f"left {stray}")
    operation.go_on(folder, state)


def main():
    asked = arguments(__doc__)
    total = [0, 0, 0, 0]
    print("| operation | points | old | new | wrong |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(asked.program, asked.shim, folder)
        for operation in operations(runner, asked.wanted):
            points = points_of(operation, runner.folder / "cases")
            points, found = try_all(points, kill, asked, runner, operation)
            fine = [point.is_new for point, wrong in zip(points, found) if not wrong]
            row = [len(points), fine.count(False), fine.count(True), len(points) - len(fine)]
            total = [t + r for t, r in zip(total, row)]
            print(f"| {operation.name} | " + " | ".join(map(str, row)) + " |", flush=True)
    print("| all | " + " | ".join(map(str, total)) + " |")
    sys.exit(1 if total[3] or not total[0] else 0)


if __name__ == "__main__":
    main()
