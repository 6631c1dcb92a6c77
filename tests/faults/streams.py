"""stdout of each command as an output: to a file whose writes fail, and to /dev/full."""

import errno
import os

from operation import expect
from runner import DRAFT, MODEL, emptied, error_lines

IO = 74


class Stream:
    ranks = 1

    def __init__(self, runner, name, words):
        self.runner, self.name, self.words = runner, name, words

    def faults(self, folder):
        emptied(folder)
        calls, result = self.runner.calls(self.words, folder, stdout=folder / "stdout")
        expect(result.status == 0, f"{self.name} ends with {result.status}: {result.err[-500:]}")
        text = (folder / "stdout").read_bytes()
        expect(text, f"{self.name} writes nothing to stdout")
        found = [StreamFault(self, "/dev/full", None, IO, None)]
        for call in calls:
            n, same = call.number, text if self.always_the_same() else None
            found += [StreamFault(self, f"{name} at {n}", f"fail:{n}:{getattr(errno, name)}", IO, None)
                      for name in ("ENOSPC", "EIO", "EDQUOT")]  # fmt: skip
            found += [StreamFault(self, f"no bytes at {n}", f"short:{n}:0", IO, None),
                      StreamFault(self, f"EINTR at {n}", f"fail:{n}:{errno.EINTR}", 0, same),
                      StreamFault(self, f"half at {n}", f"short:{n}:-1", 0, same)]  # fmt: skip
        return found

    def always_the_same(self):
        """True if the output contains no times."""
        return self.name not in ("stdout of bench", "stdout of doctor", "--report-json -", "stdout of plan")


class StreamFault:
    def __init__(self, stream, what, fault, status, text):
        self.stream, self.fault, self.status, self.text = stream, fault, status, text
        self.name = f"{stream.name}, {what}"
        self.reason = os.strerror(getattr(errno, what.split()[0], errno.ENOSPC))

    def tried(self, folder):
        emptied(folder)
        stdout = "/dev/full" if self.fault is None else folder / "stdout"
        shim = {"under": folder, "fault": self.fault} if self.fault else {}
        result = self.stream.runner.run(self.stream.words, stdout=stdout, **shim)
        expect(result.status == self.status, f"ended with {result.status}, want {self.status}: {result.err[-500:]}")
        lines = error_lines(result)
        expect(len(lines) == (self.status != 0), f"said {lines}")
        expect(self.status == 0 or self.reason in lines[0], f"said {lines}, not {self.reason}")
        expect(self.text is None or stdout.read_bytes() == self.text, "wrote something else")


def streams(runner, wanted):
    prompt = ["-f", str(runner.prompt), "-t", "1"]
    generate = ["generate", "-m", MODEL, *prompt, "-n", "3", "--no-progress"]
    table = {
        "stdout of generate": generate,
        "ids of generate": [*generate, "--print", "ids"],
        "--report-json -": [*generate, "--report-json", "-"],
        "stdout of samples": [*generate, "--num-samples", "2"],
        "stdout of tokenize": ["tokenize", "-m", MODEL, "-f", str(runner.prompt)],
        "stdout of score": ["score", "-m", MODEL, *prompt, "--no-progress"],
        "stdout of bench": ["bench", "-m", MODEL, *prompt, "-n", "4", "--no-progress", "--modes", "none,draft",
                            "-md", DRAFT, "-r", "1"],
        "stdout of plan": ["plan", "-m", MODEL],
        "stdout of doctor": ["doctor"],
        "--help": ["--help"],
        "--version": ["--version"],
        "--man": ["--man"],
        "--completion": ["--completion", "bash"],
        "--list-devices": ["--list-devices"],
    }
    for name, words in table.items():
        if wanted(name):
            yield Stream(runner, name, words)
