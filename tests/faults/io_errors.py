#!/usr/bin/env python3
"""Makes each call fail with which the program writes or reads a file, and checks its message and its files.

  io_errors.py PROGRAM SHIM [--points N] [--seed 1] [--only ROW ...] [--without ROW ...] [--jobs 2]

Writing: every open, write, fallocate, fsync, rename, ftruncate, mkdir and close of every output fails with ENOSPC
(once, or with all later calls: the disk remains full), EIO or EDQUOT; an open also with EACCES. The run must end with
the exit code that the README of tests/faults states, and one line on stderr. The older file or the new one must exist
and be complete, and no other file. Another run must be able to resume from there. A write that is interrupted, or that
takes half of the bytes, must not be an error; one that takes none must be. stdout is also an output, also as /dev/full.

Reading: likewise, every open and read of models, tokenizers, prompts, requests, snapshots and configuration files.

Prints a table. --points limits the faults per row, which --seed selects. Ends with 1 if a run was wrong.
"""

import errno
import os
import sys
import tempfile

from inputs import inputs
from operation import expect, names_in
from operations import operations
from runner import Runner, arguments, emptied, error_lines, try_all
from streams import streams

IO, PERMISSION = 74, 77
TRANSFERS = ("write", "pwrite")
QUIET = ["--log-level", "error"]  # stderr has errors only


class Fault:
    """`status`: the exit code that this fault must cause; 0 if it must not end the run."""

    def __init__(self, what, fault, status, lasting=False):
        self.what, self.fault, self.status, self.lasting = what, fault, status, lasting
        self.reason = os.strerror(getattr(errno, what.split()[0], errno.ENOSPC))


def faults_of_write(call):
    n = call.number

    def fails(name, status):
        return Fault(name, f"fail:{n}:{getattr(errno, name)}", status)

    found = [fails("ENOSPC", IO), fails("EIO", IO), fails("EDQUOT", IO),
             Fault("ENOSPC from there on", f"fail-from:{n}:{errno.ENOSPC}", IO, lasting=True)]  # fmt: skip
    if call.name in TRANSFERS:
        found += [fails("EINTR", 0), Fault("half", f"short:{n}:-1", 0), Fault("no bytes", f"short:{n}:0", IO)]
    if call.name == "open":
        found += [fails("EACCES", PERMISSION)]
    if call.name == "fallocate":
        found += [fails("EINTR", 0), fails("EOPNOTSUPP", 0)]
    if call.name == "renameat2":
        found += [fails("EINVAL", 0)]
    return found


def matters(operation, calls, i):
    """True if a failure of the call must fail the run. Calls that remove files or close unpublished ones may fail."""
    call = calls[i]
    if call.name == "unlink" or (call.name == "close" and call.path.startswith("#")):  # a file that has no name
        return False
    if call.name != "close" or not operation.closes_to_publish:
        return call.name != "close"
    before = [c.name for c in calls[:i] if c.name != "close"]
    return bool(before) and before[-1] in ("fsync", "rename", "renameat2", "link")


class WriteFault:
    """A fault of one call of an operation, and the expected exit code and state."""

    def __init__(self, operation, rank, calls, i, fault):
        self.operation, self.rank, self.fault = operation, rank, fault
        self.status, self.state = operation.outcome(calls, i, fault.lasting, rank)
        if fault.status == 0:
            self.status, self.state = 0, operation.states[-1]
        elif self.status != 0:
            self.status = fault.status
        self.name = f"{operation.name}, rank {rank}, {fault.what} at {calls[i].number} ({calls[i].name} of {calls[i].path})"

    def tried(self, folder):
        operation = self.operation
        operation.prepare(emptied(folder))
        result = operation.runner.run([*operation.words(folder), *QUIET], operation.ranks, under=folder, fault=self.fault.fault,
                                      rank=str(self.rank) if operation.ranks > 1 else None)  # fmt: skip
        check_status(result, self.status, self.fault.reason, alone=operation.ranks == 1)
        state = operation.state(folder)
        expect(state == self.state, f"found {state}, want {self.state}")
        stray = [n for n in names_in(folder) if not operation.is_own(n)]
        expect(not stray, f"left {stray}")
        operation.go_on(folder, state)


def check_status(result, status, reason, alone=True):
    expect(result.status == status, f"ended with {result.status}, want {status}: {result.err[-700:]}")
    lines = result.err.splitlines() if alone else error_lines(result)
    expect(len(lines) == (status != 0), f"said {lines}")
    expect(status == 0 or ("trireme: error: " in lines[0] and reason in lines[0]), f"said {lines}, not {reason}")


def write_faults(operation, folder):
    found = []
    for rank in range(operation.ranks):
        operation.prepare(emptied(folder))
        calls, result = operation.runner.calls([*operation.words(folder), *QUIET], folder, operation.ranks,
                                               rank if operation.ranks > 1 else None)  # fmt: skip
        expect(result.status == 0 and calls, f"{operation.name} ends with {result.status}: {result.err[-500:]}")
        for i, call in enumerate(calls):
            if matters(operation, calls, i):
                found += [WriteFault(operation, rank, calls, i, fault) for fault in faults_of_write(call)]
    return found


def rows(runner, wanted):
    """Each row of the table, with its faults."""
    for operation in operations(runner, wanted):
        yield operation, write_faults(operation, runner.folder / "cases")
    for source in (streams, inputs):
        for thing in source(runner, wanted):
            yield thing, thing.faults(runner.folder / "cases")


def main():
    asked = arguments(__doc__)
    total = [0, 0]
    print("| output or input | failing calls | wrong |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(asked.program, asked.shim, folder)
        for row, faults in rows(runner, asked.wanted):
            faults, found = try_all(faults, lambda fault, where: fault.tried(where), asked, runner, row)
            counts = [len(faults), sum(map(bool, found))]
            total = [t + c for t, c in zip(total, counts)]
            print(f"| {row.name} | {counts[0]} | {counts[1]} |", flush=True)
    print(f"| all | {total[0]} | {total[1]} |")
    sys.exit(1 if total[1] or not total[0] else 0)


if __name__ == "__main__":
    main()
