#!/usr/bin/env python3
"""The machine code of every GPU kernel: registers, spills and stack frames from ptxas' logs, and traps and local memory
in the SASS of each target and in the PTX; and in code for compute capability 9.0, what comes ahead of the wait for the
kernel before (griddepcontrol.wait, runtime/cuda/launch_kernel.h).

  device_code.py BUDGET FOLDER...     folders of compiled objects; prints a table, and fails if a kernel exceeds its
                                      budget or has code that it must not have

BUDGET (kernels/cuda/budget.txt) limits registers, and names exceptions. No other kernel may have a trap, a stack frame,
a spill, local memory, or a call of a driver function (printf, assert). Ahead of the wait it may only read its arguments.
A read of a host variable becomes a trap without a warning, see kernels/power_of_two.h. cuobjdump and nvdisasm read SASS
and PTX; they are found in PATH or in the folder TRIREME_CUDA_TOOLS (tests/fetch_cuda_tools.sh). Without them, only ptxas' figures are checked; the exit status is 77.
"""
import collections
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+ )?([A-Z0-9_.]+)")
# What may come ahead of griddepcontrol.wait: reads of arguments (LDC, ULDC) and arithmetic of registers and addresses.
EARLY_SASS = {"LDC", "ULDC", "S2R", "S2UR", "MOV", "UMOV", "IADD3", "VIADD"}
PTX_STATEMENT = re.compile(r"^\s*(?:@!?%\w+ )?([a-z]\w*(?:\.\w+)*)[ ;]")
EARLY_PTX = re.compile(r"ld\.param|mov\.|cvta\.|add\.|mul\.")
PTX_ENTRY = re.compile(r"\.entry (\w+)\(")
PTX_CALL = re.compile(r"\bcall(?:\.uni)?\s")
HARMS = ("traps", "frame", "spills", "local", "calls", "early")


@dataclasses.dataclass
class Code:
    """A kernel that is compiled for one target."""
    registers: int = 0
    shared: int = 0  # static, bytes
    harms: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    waits: bool = False  # whether griddepcontrol.wait was read


def below(folders, pattern):
    return sorted(file for folder in folders for file in folder.rglob(pattern))


def read_ptxas(folders, found):
    """Reads registers, frames and spills from all logs of the compiler."""
    for log in below(folders, "*.ptxas"):
        code = None
        for line in log.read_text().splitlines():
            if m := ENTRY.search(line):
                code = found[m.groups()]
            elif code is None:
                continue
            elif m := FRAME.search(line):
                code.harms["frame"] += int(m.group(1))
                code.harms["spills"] += int(m.group(2)) + int(m.group(3))
            elif m := USED.search(line):
                code.registers = int(m.group(1))
                code.shared = int(s.group(1)) if (s := SHARED.search(line)) else 0
                code = None


def dump(tool, option, file):
    command = subprocess.Popen([tool, option, str(file)], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PATH": f"{pathlib.Path(tool).parent}:{os.environ['PATH']}"})
    yield from command.stdout
    if command.wait() != 0:
        sys.exit(f"device_code: {tool} {option} {file} ended with {command.returncode}")


def waits_for_kernel(target):
    return int(re.search(r"\d+", target).group()) >= 90


def read_sass(tool, file, found):
    target, code = "", None
    for line in dump(tool, "-sass", file):
        if m := INSTRUCTION.match(line):
            operation = m.group(1).split(".")[0]
            if operation == "ACQBULK":
                code.waits = True
            elif waits_for_kernel(target) and not code.waits and operation not in EARLY_SASS:
                code.harms["early"] += 1
            if operation == "BPT":
                code.harms["traps"] += 1
            elif operation in ("LDL", "STL"):
                code.harms["local"] += 1
            elif m.group(1).startswith("CALL.ABS"):
                code.harms["calls"] += 1
        elif "code for sm_" in line:
            target = line.split()[-1]
        elif "Function : " in line:
            code = found[line.split()[-1], target]


def read_ptx(tool, file, found):
    target, code = "", None
    for line in dump(tool, "-ptx", file):
        if line.startswith(".target"):
            target = line.split()[1].rstrip(",").replace("sm_", "compute_")
        elif m := PTX_ENTRY.search(line):
            code = found[m.group(1), target]
        elif code is not None:
            code.harms["traps"] += len(re.findall(r"\b(?:trap|brkpt);", line))
            code.harms["local"] += len(re.findall(r"\b(?:ld|st)\.local\b|\.local \.align", line))
            code.harms["calls"] += len(PTX_CALL.findall(line))
            if "griddepcontrol.wait" in line:
                code.waits = True
            elif waits_for_kernel(target) and not code.waits and (m := PTX_STATEMENT.match(line)):
                code.harms["early"] += not EARLY_PTX.match(m.group(1))


def readable(names):
    """run_body<trireme::gpu::AttendTile<trireme::f16, 1> >(...) -> AttendTile<f16, 1>"""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        body = line[line.index("run_body<") + len("run_body<"):line.rindex(">(")].strip()
        found.append(body.replace("trireme::gpu::", "").replace("trireme::", ""))
    return found


@dataclasses.dataclass
class Budget:
    """Lines of two kinds: `registers PATTERN`, and `allow HARM MOST PATTERN`. The first line that matches counts."""
    registers: list
    allowed: list

    @staticmethod
    def read(file):
        budget = Budget([], [])
        for line in file.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            if line.startswith("allow "):
                _, harm, most, pattern = line.split(None, 3)
                if harm not in HARMS:
                    sys.exit(f"{file}: 'allow {harm}': expected one of {', '.join(HARMS)}")
                budget.allowed.append((harm, int(most), re.compile(pattern)))
            else:
                most, pattern = line.split(None, 1)
                budget.registers.append((int(most), re.compile(pattern)))
        return budget

    def complaints(self, name, code):
        most = next((n for n, pattern in self.registers if pattern.fullmatch(name)), None)
        if most is None:
            yield "has no budget of registers"
        elif code.registers > most:
            yield f"{code.registers} registers, at most {most}"
        for harm in HARMS:
            allowed = next((n for h, n, pattern in self.allowed if h == harm and pattern.fullmatch(name)), 0)
            if code.harms[harm] > allowed:
                yield f"{harm}: {code.harms[harm]}, at most {allowed}"


def cuobjdump():
    folder = os.environ.get("TRIREME_CUDA_TOOLS")
    return shutil.which("cuobjdump", path=folder) if folder else shutil.which("cuobjdump")


def check(folders, budget):
    """(lines of the table, complaints, True if SASS and PTX were read)"""
    found = collections.defaultdict(Code)
    read_ptxas(folders, found)
    if not found:
        sys.exit(f"device_code: no *.ptxas under {', '.join(map(str, folders))}: build the CUDA module first")
    tool = cuobjdump()
    for file in below(folders, "*.cu.o") if tool else []:
        read_sass(tool, file, found)
        read_ptx(tool, file, found)
    rows = [(name, target, found[mangled, target])
            for name, (mangled, target) in zip(readable([m for m, _ in found]), found)]
    targets = {target for _, target, _ in rows}
    complaints = []
    for name in sorted({name for name, _, _ in rows}):
        missing = targets - {target for n, target, _ in rows if n == name}
        if missing:
            complaints.append(f"{name}: not compiled for {', '.join(sorted(missing))}")
    lines = ["| kernel | target | registers | static shared bytes | " + " | ".join(HARMS) + " |",
             "|---|---|" + "---:|" * (2 + len(HARMS))]
    for name, target, code in rows:
        lines.append(f"| {name} | {target} | {code.registers} | {code.shared} | " +
                     " | ".join(str(code.harms[h]) for h in HARMS) + " |")
        complaints += [f"{name} for {target}: {c}" for c in budget.complaints(name, code)]
    return lines, complaints, tool is not None


def main():
    budget, *folders = map(pathlib.Path, sys.argv[1:])
    lines, complaints, all_read = check(folders, Budget.read(budget))
    print("\n".join(lines))
    print("\n".join(complaints))
    print(f"{len(lines) - 2} compiled kernels, {len(complaints)} complaints")
    if complaints:
        sys.exit(1)
    if not all_read:
        print("device_code: no cuobjdump: neither SASS nor PTX was read; see tests/fetch_cuda_tools.sh")
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
