"""What the program does to files, one class for each kind: how it is started, what states its files have, and how a run
goes on from each of them. kill_points.py kills what is listed in `operations`; a new one is one row there.

A state is None, where there is nothing yet, or whatever says which of the complete ones it is. An incomplete one raises
Wrong.
"""

import json
import shutil

from runner import MODEL, Wrong, manifest_of, set_of

PART = ".trireme-part"


def names_in(folder):
    return sorted(p.name for p in folder.iterdir())


def expect(fine, what):
    if not fine:
        raise Wrong(what)


def is_publication(call, target):
    return call.name in ("rename", "renameat2", "link") and call.path == target


class Operation:
    """`states`: the state before the first file gets its name, then the one behind each; `target` is that name."""

    name, ranks, target = "", 1, ""
    closes_to_publish = True  # closing a file is a step on which its name depends

    def __init__(self, runner):
        self.runner = runner

    def prepare(self, folder):
        """Fills an empty folder with what there is before."""

    def words(self, folder):
        raise NotImplementedError

    def state(self, folder):
        raise NotImplementedError

    def reached(self, done, rank, next_call=None):
        """The state behind these calls of a rank, before the next one: each name that the target gets is one further."""
        return self.states[sum(is_publication(call, self.target) for call in done)]

    def outcome(self, calls, i, lasting, rank):
        """(status, state) of a run whose call `i` fails, once or from there on, where that is an error."""
        return 74, self.reached(calls[:i], rank=0)

    def is_own(self, name):
        """Whether a name in the folder is the target, or belongs to it."""
        return name == self.target

    def may_be_cut(self, call):
        """Whether a write is one of the target's."""
        return call.path in (self.target, f".{self.target}{PART}")

    def may_be_left(self, name):
        """Besides the target: what a killed run leaves."""
        return name == f".{self.target}{PART}"

    def go_on(self, folder, state):
        """Ends what was begun, and compares it with the run that was not killed."""
        raise NotImplementedError

    def boundaries(self, folder):
        """Offsets within the target where one kind of bytes ends and another begins."""
        raise NotImplementedError

    def same_as_uninterrupted(self, result, wanted, what):
        expect(result.status == 0, f"{what} ends with {result.status}: {result.err[-500:]}")
        expect(result.out == wanted.out, f"{what} gives {result.out} instead of {wanted.out}")


def boundaries_of_store(path):
    """User block, the first and last block of each data set (blocks have digests of their own)."""
    sizes, block = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i64": 8, "u8": 1}, 1 << 20
    manifest = manifest_of(path)
    found = {0, 8192, manifest["file_bytes"]}
    for entry in manifest["sets"]:
        row = sizes[entry["type"]]
        for extent in entry["shape"][1:]:
            row *= extent
        rows, begin = entry["shape"][0], entry["offset"]
        of_block = max(1, block // row) * row if row else 1
        end = begin + rows * row
        found |= {begin, min(begin + of_block, end), begin + max(0, rows * row - 1) // of_block * of_block, end}
    return sorted(found)


class Save(Operation):
    """Snapshots behind the prompt and behind every token, each over the one before."""

    target, tokens = "s.h5", 3

    def __init__(self, runner, ranks=1, resumes=False):
        super().__init__(runner)
        self.ranks, self.resumes = ranks, resumes
        if resumes:
            self.before = runner.folder / f"before-{ranks}"
            self.before.mkdir()
            made = runner.run(self.generate(self.before, n=1, every=1), ranks)
            expect(made.status == 0, made.err)
        self.wanted = runner.run(self.generate(None), ranks)
        first = 1 if resumes else 0
        self.states = ([1] if resumes else [None, 0]) + list(range(first + 1, self.tokens + 1))

    def generate(self, folder, n=None, every=1, load=False):
        words = ["generate", "-m", MODEL, "-n", str(n or self.tokens), "-t", "1", "--print", "ids", "--no-progress",
                 "--ignore-eos", "--temp", "0.9", "--seed", "3"]  # fmt: skip
        words += ["--load-kv", str(folder / self.target)] if load else ["-f", str(self.runner.prompt)]
        return words + (["--save-kv", str(folder / self.target), "--checkpoint-every", str(every)] if folder else [])

    def prepare(self, folder):
        if self.resumes:
            shutil.copytree(self.before, folder, dirs_exist_ok=True)

    def words(self, folder):
        return self.generate(folder, load=self.resumes)

    def parts(self, folder):
        if self.ranks == 1:
            return [self.target]
        about = set_of(folder / self.target, "about")[1]
        return json.loads(about)["parts"]

    def state(self, folder):
        if not (folder / self.target).exists():
            return None
        (ids,), _ = set_of(folder / self.parts(folder)[0], "ids")
        about = json.loads(set_of(folder / self.parts(folder)[0], "about")[1])
        return ids - about["prompt_tokens"]

    def outcome(self, calls, i, lasting, rank):
        """The first snapshot of a run must be; of later ones the next is tried, and the run ends with 74 if it was the
        last one that could not be written."""
        names = [call.name for call in calls]
        if rank == 0 and i < names.index("unlink"):  # the probe, before anything is computed
            return 74, self.states[0]
        named = [j for j in range(i) if is_publication(calls[j], self.target)]
        has_name = bool(named) and "open" not in names[named[-1] : i + 1]
        at = len(named) - has_name if rank == 0 else names[: i + 1].count("open") - 1
        last = at == len(self.states) - 2
        if lasting or last or (at == 0 and not self.resumes):
            return 74, self.states[at + has_name]
        return 0, self.states[-1]

    def is_own(self, name):
        return name == self.target or name.startswith(self.target + ".rank-")

    def reached(self, done, rank, next_call=None):
        if rank == 0:
            return super().reached(done, rank)
        # Rank 0 names a snapshot once all parts are there, and this rank begins the next one behind that.
        begun = sum(call.name == "open" for call in [*done, next_call] if call)
        return self.states[max(0, begun - 1)]

    def may_be_left(self, name):
        return super().may_be_left(name) or (name.startswith(f".{self.target}.rank-") and name.endswith(PART))

    def go_on(self, folder, state):
        # Once without writing: what is there must do.
        if state is not None:
            words = [w for w in self.generate(None)]
            at = words.index("-f")
            words[at : at + 2] = ["--load-kv", str(folder / self.target)]
            self.same_as_uninterrupted(self.runner.run(words, self.ranks), self.wanted, "taking it up")
        # Then over it, which sweeps what the killed run has left.
        load = state is not None
        if load and state == self.tokens:  # nothing is left to generate, so nothing would be written
            load = False
            for name in {self.target, *self.parts(folder)}:
                (folder / name).unlink()
        result = self.runner.run(self.generate(folder, load=load), self.ranks)
        self.same_as_uninterrupted(result, self.wanted, "going on")
        there = sorted({self.target, *self.parts(folder)})
        expect(names_in(folder) == there, f"the run that went on leaves {names_in(folder)}, not {there}")

    def boundaries(self, folder):
        return boundaries_of_store(folder / self.target)


class Talk(Save):
    """Snapshots of a conversation: behind each turn that is read, and at the end. None of them may be missing."""

    def __init__(self, runner):
        Operation.__init__(self, runner)
        self.resumes = False
        self.turns = runner.folder / "turns.jsonl"
        text = runner.prompt.read_text()
        self.turns.write_text("".join(json.dumps({"text": t}) + "\n" for t in (text, text[:60])))
        self.wanted = runner.run(self.generate(None))
        folder = runner.folder / "talk"
        folder.mkdir()
        calls, _ = runner.calls(self.generate(folder), folder)
        self.states = [None]
        for call in calls:
            if is_publication(call, self.target):
                runner.run([*self.generate(folder), "--force"], under=folder, fault=f"kill-after:{call.number}")
                self.states.append(self.state(folder))

    def generate(self, folder, load=False):
        words = ["generate", "-m", MODEL, "--session", str(self.turns), "-n", "4", "-t", "1", "--no-progress", "--ignore-eos",
                 "--temp", "0.9", "--seed", "3"]  # fmt: skip
        words += ["--load-kv", str(folder / self.target)] if load else []
        return words + (["--save-kv", str(folder / self.target)] if folder else [])

    def state(self, folder):
        if not (folder / self.target).exists():
            return None
        return set_of(folder / self.target, "ids")[0][0]

    def outcome(self, calls, i, lasting, rank):
        named = [j for j in range(i) if is_publication(calls[j], self.target)]
        return 74, self.states[len(named)]

    def go_on(self, folder, state):
        if state is not None:
            words = [*self.generate(None), "--load-kv", str(folder / self.target)]
            self.same_as_uninterrupted(self.runner.run(words), self.wanted, "taking it up")
        result = self.runner.run(self.generate(folder, load=state is not None))
        self.same_as_uninterrupted(result, self.wanted, "going on")
        expect(names_in(folder) == [self.target], f"the run that went on leaves {names_in(folder)}")


class Convert(Operation):
    """A model folder with the layers' keys shared. Its files get their names in the part; the folder is the target."""

    target = "model"

    def __init__(self, runner, whole="converted"):
        super().__init__(runner)
        self.whole = runner.folder / whole
        made = runner.run(self.convert(self.whole))
        expect(made.status == 0, made.err)
        self.wanted = self.generate(self.whole)
        self.states = [None, "whole"]

    def convert(self, to):
        return ["convert", "-m", MODEL, "--layer-map", "0_0_2_2_4_4", "--average", "-o", str(to)]

    def generate(self, model):
        return self.runner.run(["generate", "-m", str(model), "-f", str(self.runner.prompt), "-n", "3", "-t", "1",
                                "--print", "ids", "--temp", "0.9", "--seed", "3"])  # fmt: skip

    def words(self, folder):
        return self.convert(folder / self.target)

    def state(self, folder):
        made = folder / self.target
        if not made.exists():
            return None
        expect(names_in(made) == names_in(self.whole), f"the folder holds {names_in(made)}")
        for name in names_in(made):
            expect((made / name).read_bytes() == (self.whole / name).read_bytes(), f"{name} is another one")
        return "whole"

    def may_be_left(self, name):
        return name == self.target + PART

    def go_on(self, folder, state):
        if state is None:
            result = self.runner.run(self.words(folder))
            expect(result.status == 0, f"converting again ends with {result.status}: {result.err[-500:]}")
            expect(self.state(folder) == "whole", "converting again makes no folder")
        self.same_as_uninterrupted(self.generate(folder / self.target), self.wanted, "the model")
        # A part beside a folder that is whole is only there if this run was killed before it had the name.
        expect(names_in(folder) == [self.target], f"converting again leaves {names_in(folder)}")

    def may_be_cut(self, call):
        return call.path.endswith("model.safetensors")

    def boundaries(self, folder):
        """The header's length, the header, each tensor."""
        with open(folder / self.target / "model.safetensors", "rb") as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(length))
        ends = {t["data_offsets"][i] + 8 + length for name, t in header.items() if name != "__metadata__" for i in (0, 1)}
        return sorted({0, 8, 8 + length} | ends)


class ConvertToStore(Convert):
    """A model as one HDF5 file."""

    target = "model.h5"

    def __init__(self, runner):
        super().__init__(runner, "converted.h5")

    def state(self, folder):
        made = folder / self.target
        if not made.exists():
            return None
        expect(made.read_bytes() == self.whole.read_bytes(), "the file is another one")
        return "whole"

    may_be_left, may_be_cut = Operation.may_be_left, Operation.may_be_cut

    def boundaries(self, folder):
        return boundaries_of_store(folder / self.target)


class OneFile(Operation):
    """An output that is written at the end of a run, over an older one of the same name."""

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


class Batch(Operation):
    """A line for each request; a run goes on behind the lines that are whole."""

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


OPERATIONS = {
    "save": Save,
    "resume": lambda runner: Save(runner, resumes=True),
    "save, 2 ranks": lambda runner: Save(runner, ranks=2),
    "resume, 2 ranks": lambda runner: Save(runner, ranks=2, resumes=True),
    "save, a conversation": Talk,
    "convert": Convert,
    "convert to .h5": ConvertToStore,
    "batch": Batch,
    "--report-json": report_json,
    "--trace": trace,
    "--kv-dump": kv_dump,
    "--dump-logits": dump_logits,
}


def operations(runner, wanted=lambda row: True):
    """The rows that are wanted, one after another: making one takes some runs."""
    for name, make in OPERATIONS.items():
        if wanted(name):
            operation = make(runner)
            operation.name = name
            yield operation
