#!/usr/bin/env python3
"""Checks that the shim sees every system call with which the program changes or reads a file.

  coverage.py PROGRAM SHIM

Each operation, and the reading of each input, runs once under strace with the shim. strace and the shim must see the
same calls in the folder, in the same order. Ends with 1 if they differ, and with 77 if strace is not installed.
"""

import re
import shutil
import sys
import tempfile

from inputs import inputs
from operation import expect
from operations import operations
from runner import Runner, emptied

NAMES = {"openat": "open", "pread64": "pread", "pwrite64": "pwrite", "unlinkat": "unlink", "rmdir": "unlink", "mkdirat": "mkdir", "linkat": "link",
         "renameat": "rename"}  # fmt: skip
SEEN = ("open openat creat write writev pwrite64 pwritev pwritev2 fallocate ftruncate truncate fsync fdatasync sync_file_range "
        "rename renameat renameat2 link linkat unlink unlinkat rmdir mkdir mkdirat mknod mknodat symlink symlinkat "
        "copy_file_range sendfile close mmap")  # fmt: skip
SEEN_READS = "open openat read readv pread64 preadv preadv2 mmap"


def whole_calls(text):
    """The lines of a trace. strace splits a call if another thread's call begins before it ends. Such a call is joined
    again, at the position where it began."""
    lines, begun = [], {}
    for line in text.splitlines():
        thread = line.split(maxsplit=1)[0]
        if line.endswith("<unfinished ...>"):
            begun[thread] = len(lines)
            lines.append(line.removesuffix("<unfinished ...>"))
        elif rest := re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line):
            lines[begun.pop(thread)] += rest[1]
        else:
            lines.append(line)
    return lines


def of_folder(text, folder):
    """(name, arguments, result) of each call on a file of the folder."""
    for line in whole_calls(text):
        found = re.match(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)", line)
        if found and str(folder) in found[2]:
            yield found.groups()


def reads_by_strace(text, folder):
    calls = []
    for name, arguments, result in of_folder(text, folder):
        expect(name != "mmap", f"a file is mapped: {arguments}")
        if name in ("open", "openat") and re.search("O_DIRECTORY|O_WRONLY|O_RDWR", arguments):
            continue
        calls.append(NAMES.get(name, name))
    return calls


def changes_by_strace(text, folder):
    calls, writable = [], set()
    for name, arguments, result in of_folder(text, folder):
        if name == "mmap":
            expect("MAP_SHARED" not in arguments or "PROT_WRITE" not in arguments, f"a file is mapped for writing: {arguments}")
            continue
        if name in ("openat", "open"):
            if not re.search("O_WRONLY|O_RDWR|O_CREAT", arguments):
                continue
            writable.add(result)
        if name == "close":
            descriptor = re.match(r"\d+", arguments)[0]
            if descriptor not in writable:
                continue
            writable.discard(descriptor)
        # The shim renames with renameat2, without flags.
        if name == "renameat2" and re.search(r", 0$", arguments):
            name = "rename"
        calls.append(NAMES.get(name, name))
    return calls


def compare(runner, thing, prepare, names, by_strace, calls=None):
    files, trace = emptied(runner.folder / "cases"), runner.folder / "trace"
    prepare(files)
    tracer = ["strace", "-f", "-y", "-s", "0", "-o", str(trace), "-e", "trace=" + ",".join("?" + n for n in names.split())]
    found, result = runner.calls(thing.words(files), files, calls=calls, before=tracer)
    expect(result.status == 0, result.err)
    seen, counted = by_strace(trace.read_text(), files), [call.name for call in found]
    expect(seen == counted, f"{thing.name}: strace saw {seen}, the shim {counted}")
    print(f"{thing.name}: {len(seen)} calls, all of them counted", flush=True)


def main():
    if not shutil.which("strace"):
        print("coverage.py: there is no strace")
        sys.exit(77)
    program, shim = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(program, shim, folder)
        for operation in operations(runner):
            if operation.ranks == 1:
                compare(runner, operation, operation.prepare, SEEN, changes_by_strace)
        for read in inputs(runner):
            if read.ranks == 1:
                compare(runner, read, read.fill, SEEN_READS, reads_by_strace, calls="reads")


if __name__ == "__main__":
    main()
