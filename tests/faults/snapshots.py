"""--save-kv: snapshots of texts and of conversations."""

import json
import shutil

from operation import PART, Operation, boundaries_of_store, expect, is_publication, names_in
from runner import MODEL, set_of


class Save(Operation):
    """Snapshots after the prompt and after every token; each replaces the previous one."""

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
        """The first snapshot of a run must be written. If a later one fails, the run tries the next one; it ends with
        74 if the last one fails."""
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
        # Rank 0 publishes a snapshot when all parts exist; after that, this rank begins the next one.
        begun = sum(call.name == "open" for call in [*done, next_call] if call)
        return self.states[max(0, begun - 1)]

    def may_be_left(self, name):
        return super().may_be_left(name) or (name.startswith(f".{self.target}.rank-") and name.endswith(PART))

    def go_on(self, folder, state):
        # First without writing: the existing files must be sufficient.
        if state is not None:
            words = [w for w in self.generate(None)]
            at = words.index("-f")
            words[at : at + 2] = ["--load-kv", str(folder / self.target)]
            self.same_as_uninterrupted(self.runner.run(words, self.ranks), self.wanted, "taking it up")
        # Then with writing, which removes files that the killed run has left.
        load = state is not None
        if load and state == self.tokens:  # nothing is left to generate, so nothing would be written
            load = False
            for name in {self.target, *self.parts(folder)}:
                (folder / name).unlink()
        result = self.runner.run(self.generate(folder, load=load), self.ranks)
        self.same_as_uninterrupted(result, self.wanted, "going on")
        there = sorted({self.target, *self.parts(folder)})
        expect(names_in(folder) == there, f"the run that continued leaves {names_in(folder)}, not {there}")

    def boundaries(self, folder):
        return boundaries_of_store(folder / self.target)


class Talk(Save):
    """Snapshots of a conversation: after each turn that is read, and at the end. All of them must be written."""

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
        expect(names_in(folder) == [self.target], f"the run that continued leaves {names_in(folder)}")
