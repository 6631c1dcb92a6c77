"""Runs the program with the fault shim, alone or under mpirun."""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = str(ROOT / "tests/data/models/kjv-target")
DRAFT = str(ROOT / "tests/data/models/kjv-draft")
TEXT = ROOT / "tests/data/texts/kjv_12k.txt"

Result = collections.namedtuple("Result", "status out err")
# One line of the shim's log: number and name of the call, the file's path within the folder, offset, bytes.
Call = collections.namedtuple("Call", "number name path offset size")


class Wrong(Exception):
    """Raised if a run did not behave as it must."""


class Runner:
    """`folder`: for temporary files of runs. A run that exceeds the time limit is killed and counts as wrong."""

    def __init__(self, program, shim, folder, limit_s=120):
        self.program, self.shim, self.folder = os.path.abspath(program), os.path.abspath(shim), pathlib.Path(folder)
        self.limit_s = limit_s
        self.prompt = self.folder / "prompt.txt"
        self.prompt.write_text(TEXT.read_text()[:900])
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRIREME_", "FAULT"))}
        self.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                             "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # fmt: skip

    def run(self, words, ranks=1, stdout=None, before=(), **shim):
        """`shim`: fault="fail:3:28", under=FOLDER, log=FILE, calls="reads", rank=1. stdout: a file, instead of a pipe.
        `before`: a command line that starts the program, such as strace."""
        command = [self.program, *words]
        if shim:
            names = {"FAULT_" + name.upper(): value for name, value in shim.items() if name != "fault"}
            names |= {"LD_PRELOAD": self.shim} | ({"FAULT": shim["fault"]} if shim.get("fault") else {})
            command = ["env", *(f"{name}={value}" for name, value in names.items() if value is not None), *command]
        command = [*before, *command]
        if ranks > 1:
            command = ["mpirun", "-q", "-n", str(ranks), *command]
        with open(stdout, "w") if stdout else tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdout=out if stdout else subprocess.PIPE, stderr=subprocess.PIPE,
                                       stdin=subprocess.DEVNULL, env=self.environment, start_new_session=True)  # fmt: skip
            try:
                said, err = process.communicate(timeout=self.limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                raise Wrong(f"no end within {self.limit_s} s: {' '.join(command)}") from None
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Result(status, (said or b"").decode(errors="replace"), err.decode(errors="replace"))

    def calls(self, words, under, ranks=1, rank=None, calls=None, stdout=None, before=()):
        """All calls of a run without a fault, and its result."""
        log = self.folder / f"calls-{threading.get_ident()}"
        log.unlink(missing_ok=True)
        result = self.run(words, ranks, stdout, before, under=under, log=log, rank=rank, calls=calls)
        found = []
        for line in log.read_text().splitlines() if log.exists() else []:
            number, name, path, offset, size = line.split("\t")
            path = os.path.relpath(path.removesuffix(" (deleted)"), under)
            found.append(Call(int(number), name, path, int(offset), int(size)))
        log.unlink(missing_ok=True)
        return found, result


def error_lines(result):
    return [line for line in result.err.splitlines() if "trireme: error: " in line]


def manifest_of(store):
    """The JSON text in the user block of one of the program's HDF5 files (model/files/store/sets.h)."""
    with open(store, "rb") as f:
        magic, length, _ = struct.unpack("<8sQQ", f.read(24))
        if magic != b"TRIREME1":
            raise Wrong(f"{store} does not begin as a store does")
        return json.loads(f.read(length))


def set_of(store, name):
    """Shape and bytes of a data set."""
    sizes = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i64": 8, "u8": 1}
    for entry in manifest_of(store)["sets"]:
        if entry["name"] == name:
            n = sizes[entry["type"]]
            for extent in entry["shape"]:
                n *= extent
            with open(store, "rb") as f:
                f.seek(entry["offset"])
                return entry["shape"], f.read(n)
    raise Wrong(f"{store} has no data set {name}")


def arguments(description):
    """The command line of a script that tries points of operations."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("shim")
    parser.add_argument("--points", type=int, help="at most N of each row")
    parser.add_argument("--rank-points", type=int, help="at most N of rows of several ranks, where a run takes seconds")
    parser.add_argument("--seed", type=int, default=1, help="draws them")
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help="may be given several times")
    parser.add_argument("--without", action="append", default=[], metavar="ROW", help="the same, of rows that are left out")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    asked = parser.parse_args()
    asked.wanted = lambda row: row not in asked.without and (not asked.only or row in asked.only)
    return asked


def try_all(points, work, asked, runner, row):
    """Calls work(point, folder) for the requested number of points. Returns these points and the error of each ("":
    none), and prints errors to stderr."""
    most = asked.points if row.ranks == 1 or asked.rank_points is None else asked.rank_points
    points = sample(points, most, asked.seed)

    def tried(job):
        try:
            work(job[1], runner.folder / f"case-{job[0] % (4 * asked.jobs)}")
            return ""
        except Wrong as e:
            return str(e)
        except Exception:  # a file that does not have the expected format
            return traceback.format_exc(limit=3)

    found = []
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for n, wrong in enumerate(pool.map(tried, enumerate(points)), 1):
            found.append(wrong)
            if wrong:
                print(f"{points[n - 1].name}: {wrong[:1500]}", file=sys.stderr, flush=True)
            if n % 200 == 0:
                print(f"{row.name}: {n} of {len(points)}", file=sys.stderr, flush=True)
    return points, found


def sample(points, most, seed):
    """A random sample of at most `most` points, in their order."""
    if most is None or len(points) <= most:
        return list(points)
    return [points[i] for i in sorted(random.Random(seed).sample(range(len(points)), most))]


def emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
