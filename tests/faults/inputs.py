"""Inputs of the program. Faults are injected into each open and read of their files."""

import errno
import json
import os
import shutil

from operation import expect
from runner import DRAFT, MODEL, emptied, error_lines

DATA, NO_INPUT, OS, IO, PERMISSION = 65, 66, 71, 74, 77


class Input:
    """An input: `fill(folder)` makes its files; the command `words(folder)` reads them and always prints the same."""

    def __init__(self, runner, name, fill, words, ranks=1):
        self.runner, self.name, self.fill, self.words, self.ranks = runner, name, fill, words, ranks
        # These two inputs need no tokenizer: a draft's is only compared with the model's, and the prompt has ids.
        self.without = [0] if name in ("draft model", "model, for ids") else []

    def shim(self, folder, **more):
        """Arguments of the shim; with several ranks, only the last one has it."""
        return {"under": folder, "calls": "reads", "rank": str(self.ranks - 1) if self.ranks > 1 else None} | more

    def faults(self, folder):
        self.fill(emptied(folder))
        calls, result = self.runner.calls(self.words(folder), ranks=self.ranks, **self.shim(folder))
        expect(result.status == 0 and calls, f"{self.name} ends with {result.status}: {result.err[-500:]}")
        found = []
        for call in calls:
            def add(what, fault, *statuses):
                found.append(InputFault(self, f"{what} at {call.number} ({call.name} of {call.path})", fault, statuses, result.out))

            n = call.number
            add("EIO", f"fail:{n}:{errno.EIO}", IO)
            if call.name == "open":
                add("EACCES", f"fail:{n}:{errno.EACCES}", PERMISSION, *self.without)
                add("ENOENT", f"fail:{n}:{errno.ENOENT}", NO_INPUT, *self.without)
                add("EMFILE", f"fail:{n}:{errno.EMFILE}", OS)
                continue
            add("EINTR", f"fail:{n}:{errno.EINTR}", 0)
            add("half", f"short:{n}:-1", 0)
            # An early end of the file is an error for pread only; a text that is read in sequence may end anywhere.
            if call.name == "pread":
                add("no bytes", f"short:{n}:0", IO, DATA)
        return found


class InputFault:
    def __init__(self, read, what, fault, statuses, out):
        self.input, self.fault, self.statuses, self.out = read, fault, statuses, out
        self.name = f"{read.name}, {what}"
        self.reason = os.strerror(getattr(errno, what.split()[0])) if what.startswith("E") else ""

    def tried(self, folder):
        self.input.fill(emptied(folder))
        read = self.input
        result = read.runner.run(read.words(folder), read.ranks, **read.shim(folder, fault=self.fault))
        expect(result.status in self.statuses, f"ended with {result.status}, want {self.statuses}: {result.err[-500:]}")
        lines = error_lines(result)
        expect(len(lines) == (result.status != 0), f"said {lines}")
        expect(not (lines and self.reason) or self.reason in lines[0], f"said {lines}, not {self.reason}")
        expect(result.status != 0 or result.out == self.out, "printed something else")


def inputs(runner, wanted=lambda row: True):
    prompt = str(runner.prompt)
    ids = ["-n", "3", "-t", "1", "--no-progress", "--print", "ids", "--ignore-eos", "--seed", "3"]

    def of_model(folder):
        shutil.copytree(MODEL, folder / "model")

    def of_ids(folder):
        of_model(folder)
        (folder / "ids").write_text("[1, 2, 3]")

    def of_store(folder):
        made = runner.run(["convert", "-m", MODEL, "-o", str(folder / "model.h5")])
        expect(made.status == 0, made.err)

    def of_texts(folder):
        (folder / "in.jsonl").write_text(json.dumps({"text": "In the beginning"}) + "\n")

    def of_data(folder):
        of_texts(folder)
        made = runner.run(["convert", "-m", MODEL, "--tokens", str(folder / "in.jsonl"), "-o", str(folder / "ids.h5")])
        expect(made.status == 0, made.err)

    def of_snapshot(folder):
        made = runner.run(["generate", "-m", MODEL, "-f", prompt, *ids, "-n", "1", "--save-kv", str(folder / "s.h5")])
        expect(made.status == 0, made.err)

    def of_request(folder):
        (folder / "in.jsonl").write_text(json.dumps({"prompt": "In the beginning"}) + "\n")

    def of_lines(folder):
        of_request(folder)
        made = runner.run(batch(folder))
        expect(made.status == 0, made.err)
        (folder / "in.jsonl").write_text((folder / "in.jsonl").read_text() + json.dumps({"prompt": "And then"}) + "\n")

    def batch(folder):
        return ["batch", "-m", MODEL, "-n", "3", "-t", "1", "--input", str(folder / "in.jsonl"), "--output-path",
                str(folder / "out.jsonl")]  # fmt: skip

    table = {
        "model folder": (of_model, lambda f: ["generate", "-m", str(f / "model"), "-f", prompt, *ids]),
        "model, for ids": (of_ids, lambda f: ["generate", "-m", str(f / "model"), "--prompt-ids", str(f / "ids"), *ids]),
        "model folder, rank 1": (of_model, lambda f: ["generate", "-m", str(f / "model"), "-f", prompt, *ids], 2),
        "model as .h5": (of_store, lambda f: ["generate", "-m", str(f / "model.h5"), "-f", prompt, *ids]),
        "draft model": (lambda f: shutil.copytree(DRAFT, f / "model"),
                        lambda f: ["generate", "-m", MODEL, "--spec", "draft", "-md", str(f / "model"), "--gamma", "4",
                                   "-f", prompt, *ids]),
        "tokenizer": (of_model, lambda f: ["tokenize", "-m", str(f / "model"), "-f", prompt]),
        "converted model": (of_model, lambda f: ["convert", "-m", str(f / "model"), "-o", str(f / "out")]),
        "prompt": (lambda f: shutil.copy(prompt, f / "p"), lambda f: ["generate", "-m", MODEL, "-f", str(f / "p"), *ids]),
        "snapshot, rank 1": (of_snapshot, lambda f: ["generate", "-m", MODEL, "--load-kv", str(f / "s.h5"), *ids], 2),
        "snapshot": (of_snapshot, lambda f: ["generate", "-m", MODEL, "--load-kv", str(f / "s.h5"), *ids]),
        "configuration": (lambda f: (f / "c.ini").write_text("seed = 3\n"),
                          lambda f: ["generate", "--config", str(f / "c.ini"), "-m", MODEL, "-f", prompt, *ids]),
        "requests": (of_request, batch),
        "texts": (of_texts, lambda f: ["convert", "-m", MODEL, "--tokens", str(f / "in.jsonl"), "-o", str(f / "ids.h5")]),
        "data set": (of_data, lambda f: ["score", "-m", MODEL, "--data", str(f / "ids.h5"), "-t", "1"]),
        "lines of a batch": (of_lines, batch),
    }  # fmt: skip
    for name, row in table.items():
        if wanted(name):
            yield Input(runner, name, *row)
