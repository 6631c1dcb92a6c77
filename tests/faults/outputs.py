"""Outputs that are one file: reports, traces, dumps, and the lines of a batch."""

import json
import shutil

from operation import Operation, boundaries_of_store, expect, names_in
from runner import MODEL, manifest_of, set_of


class OneFile(Operation):
    """An output that is written at the end of a run and replaces an older file of the same name."""

    target, old = "out", "what was there before\n"

    def __init__(self, runner, flag, words, complete):
        super().__init__(runner)
        self.flag, self.rest, self.complete = flag, words, complete
        self.states = ["old", "new"]

    def prepare(self, folder):
        (folder / self.target).write_text(self.old)

    def words(self, folder):
        return [*self.rest, self.flag, str(folder / self.target), "--force"]

    def state(self, folder):
        data = (folder / self.target).read_bytes()
        if data == self.old.encode():
            return "old"
        self.complete(data)
        return "new"

    def go_on(self, folder, state):
        result = self.runner.run(self.words(folder))
        expect(result.status == 0, f"writing it again ends with {result.status}: {result.err[-500:]}")
        expect(self.state(folder) == "new", "it was not written again")
        expect(names_in(folder) == [self.target], f"writing it again leaves {names_in(folder)}")

    def boundaries(self, folder):
        return [0, (folder / self.target).stat().st_size]


class Record(Operation):
    """A run that is appended to a record file with one run."""

    target, states = "runs.h5", [1, 2]

    def __init__(self, runner):
        super().__init__(runner)
        self.before = runner.folder / "runs"
        self.before.mkdir()
        made = runner.run(self.words(self.before))
        expect(made.status == 0, made.err)
        self.first = self.sets_of_first(self.before)

    def sets_of_first(self, folder):
        path = folder / self.target
        names = [entry["name"] for entry in manifest_of(path)["sets"] if entry["name"].startswith("runs/0000/")]
        return {name: set_of(path, name) for name in names}

    def prepare(self, folder):
        shutil.copy(self.before / self.target, folder)

    def words(self, folder):
        return [*generate(self.runner), "--record", str(folder / self.target)]

    def state(self, folder):
        expect(self.sets_of_first(folder) == self.first, "the first run is another one")
        return json.loads(set_of(folder / self.target, "about")[1])["runs"]

    def go_on(self, folder, state):
        result = self.runner.run(self.words(folder))
        expect(result.status == 0, f"adding a run ends with {result.status}: {result.err[-500:]}")
        expect(self.state(folder) == state + 1, "the run was not added")
        expect(names_in(folder) == [self.target], f"adding a run leaves {names_in(folder)}")

    def boundaries(self, folder):
        return boundaries_of_store(folder / self.target)


class Batch(Operation):
    """A line for each request; a run resumes after the complete lines."""

    target, requests = "out.jsonl", 3
    closes_to_publish = False  # each line has been flushed
    states = [None, *range(requests + 1)]

    def __init__(self, runner):
        super().__init__(runner)
        self.input = runner.folder / "requests.jsonl"
        lines = [json.dumps({"prompt": f"In the beginning {n}", "max_tokens": 4 + n}) for n in range(self.requests)]
        self.input.write_text("\n".join(lines) + "\n")
        whole = runner.folder / "batch"
        whole.mkdir()
        made = runner.run(self.words(whole))
        expect(made.status == 0, made.err)
        self.wanted = self.texts(whole)

    def words(self, folder):
        return ["batch", "-m", MODEL, "-t", "1", "--no-progress", "--input", str(self.input), "--output-path",
                str(folder / self.target)]  # fmt: skip

    def texts(self, folder):
        whole = (folder / self.target).read_text().rpartition("\n")[0]
        return [json.loads(line)["result"]["choices"] for line in whole.splitlines()]

    def state(self, folder):
        if not (folder / self.target).exists():
            return None
        texts = self.texts(folder)
        expect(texts == self.wanted[: len(texts)], "lines are other ones")
        return len(texts)

    def reached(self, done, rank, next_call=None):
        of_target = [call.name for call in done if call.path == self.target]
        return of_target.count("write") if "open" in of_target else None

    def agrees(self, state, point):
        # A line contains times. If they have fewer digits than in the run that placed the cut, the line ends before it.
        shorter = point.left is not None and point.left <= 8 and state == (point.state or 0) + 1
        return state == point.state or shorter

    def go_on(self, folder, state):
        result = self.runner.run(self.words(folder))
        expect(result.status == 0, f"going on ends with {result.status}: {result.err[-500:]}")
        expect(self.texts(folder) == self.wanted, "the lines are other ones")
        expect((folder / self.target).read_text().endswith("\n"), "the last line has no end")
        expect(names_in(folder) == [self.target], f"going on leaves {names_in(folder)}")

    def boundaries(self, folder):
        data = (folder / self.target).read_bytes()
        return [0] + [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]


def is_json(data):
    json.loads(data)


def is_json_lines(data):
    for line in data.decode().splitlines():
        json.loads(line)
    expect(data.endswith(b"\n"), "the last line has no end")


def generate(runner):
    return ["generate", "-m", MODEL, "-f", str(runner.prompt), "-n", "3", "-t", "1", "--no-progress"]


def report_json(runner):
    return OneFile(runner, "--report-json", generate(runner), is_json)


def trace(runner):
    return OneFile(runner, "--trace", generate(runner), is_json)


def kv_dump(runner):
    return OneFile(runner, "--kv-dump", [*generate(runner), "--kv-policy", "h2o", "--kv-window", "160"], is_json_lines)


def dump_logits(runner):
    score = ["score", "-m", MODEL, "-f", str(runner.prompt), "-t", "1", "--no-progress"]
    whole = runner.folder / "logits.h5"
    made = runner.run([*score, "--dump-logits", str(whole)])
    expect(made.status == 0, made.err)

    def same(data):
        expect(data == whole.read_bytes(), "the logits are others")

    return OneFile(runner, "--dump-logits", score, same)
