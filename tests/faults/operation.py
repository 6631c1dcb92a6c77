"""Operations of the program on files: the command, the states of the files, and how a run resumes from each state.

A state is None if no file exists yet, or a value that identifies a complete file. An incomplete file raises Wrong.
"""

from runner import Wrong, manifest_of

PART = ".trireme-part"


def names_in(folder):
    return sorted(p.name for p in folder.iterdir())


def expect(fine, what):
    if not fine:
        raise Wrong(what)


def is_publication(call, target):
    return call.name in ("rename", "renameat2", "link") and call.path == target


class Operation:
    """`states`: the state before the first publication, then the state after each; `target`: the published name."""

    name, ranks, target = "", 1, ""
    closes_to_publish = True  # a file must be closed before it gets its name

    def __init__(self, runner):
        self.runner = runner

    def prepare(self, folder):
        """Fills an empty folder with the files that exist before the run."""

    def words(self, folder):
        raise NotImplementedError

    def state(self, folder):
        raise NotImplementedError

    def reached(self, done, rank, next_call=None):
        """The state after these calls of a rank, before the next call. Each publication advances it by one."""
        return self.states[sum(is_publication(call, self.target) for call in done)]

    def outcome(self, calls, i, lasting, rank):
        """(status, state) of a run whose call `i` fails, once or with all later calls, if that is an error."""
        return 74, self.reached(calls[:i], rank=0)

    def agrees(self, state, point):
        """True if `state` may be found after a run that was killed at `point`."""
        return state == point.state

    def is_own(self, name):
        """True if a name in the folder is the target, or belongs to it."""
        return name == self.target

    def may_be_cut(self, call):
        """True if a write belongs to the target."""
        return call.path in (self.target, f".{self.target}{PART}")

    def may_be_left(self, name):
        """True if a killed run may leave this file in addition to the target."""
        return name == f".{self.target}{PART}"

    def go_on(self, folder, state):
        """Completes the operation, and compares the result with that of a run that was not killed."""
        raise NotImplementedError

    def boundaries(self, folder):
        """Offsets within the target where one kind of bytes ends and another begins."""
        raise NotImplementedError

    def same_as_uninterrupted(self, result, wanted, what):
        expect(result.status == 0, f"{what} ends with {result.status}: {result.err[-500:]}")
        expect(result.out == wanted.out, f"{what} gives {result.out} instead of {wanted.out}")


def boundaries_of_store(path):
    """Ends of the user block, and of the first and last block of each data set (each block has its own digest)."""
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
