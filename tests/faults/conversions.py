"""convert: a model as a folder, and as one file; texts as a data set."""

import json

from operation import PART, Operation, boundaries_of_store, expect, names_in
from runner import MODEL


class Convert(Operation):
    """A model folder whose layers share KV. Its files get their names in the part; the folder is the target."""

    target = "model"

    def __init__(self, runner):
        super().__init__(runner)
        self.whole = runner.folder / f"whole-{self.target}"
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
        # A part exists together with a complete folder only if this run was killed before the folder got its name.
        expect(names_in(folder) == [self.target], f"converting again leaves {names_in(folder)}")

    def may_be_cut(self, call):
        return call.path.endswith("model.safetensors")

    def boundaries(self, folder):
        """Ends of the header's length, the header, and each tensor."""
        with open(folder / self.target / "model.safetensors", "rb") as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(length))
        ends = {t["data_offsets"][i] + 8 + length for name, t in header.items() if name != "__metadata__" for i in (0, 1)}
        return sorted({0, 8, 8 + length} | ends)


class ConvertToStore(Convert):
    """A model as one HDF5 file."""

    target = "model.h5"

    def state(self, folder):
        made = folder / self.target
        if not made.exists():
            return None
        expect(made.read_bytes() == self.whole.read_bytes(), "the file is another one")
        return "whole"

    may_be_left, may_be_cut = Operation.may_be_left, Operation.may_be_cut

    def boundaries(self, folder):
        return boundaries_of_store(folder / self.target)


class ConvertTokens(ConvertToStore):
    """Three texts as token ids."""

    target = "ids.h5"

    def __init__(self, runner):
        self.texts = runner.folder / "texts.jsonl"
        text = runner.prompt.read_text()
        self.texts.write_text("".join(json.dumps({"text": text[:n]}) + "\n" for n in (900, 300, 7)))
        super().__init__(runner)

    def convert(self, to):
        return ["convert", "-m", MODEL, "--tokens", str(self.texts), "-o", str(to)]

    def generate(self, made):
        return self.runner.run(["score", "-m", MODEL, "--data", str(made), "-t", "1", "--no-progress"])
