"""Essay haystacks: running text that needles are hidden in, between two sentences."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from pathlib import Path

from ...items import MissingData, Request

PACKAGED = Path(__file__).resolve().parents[2] / "data" / "haystack.txt"


class Essay:
    """A text as words. It begins again when it has fewer words than requested."""
    separator = " "

    def __init__(self, text: str, name: str):
        self.words, self.name = text.split(), name
        closing = "\"')]”’"
        self.ends = [i + 1 for i, word in enumerate(self.words) if word.rstrip(closing).endswith((".", "!", "?"))]

    def units(self, count: int, start: int = 0) -> list[str]:
        """`count` words from word `start` on."""
        taken = self.words[start : start + count]
        while len(taken) < count:
            taken += self.words[: count - len(taken)]
        return taken

    def sentences(self, count: int, start: int = 0) -> list[int]:
        """Words before the end of each sentence of `units(count, start)`. The last one may be cut."""
        ends, size, base = [], len(self.words), -start
        while base < count:
            last = bisect_right(self.ends, min(size, count - base))
            ends += [base + end for end in self.ends[bisect_right(self.ends, max(0, -base)) : last]]
            base += size
        return ends if ends and ends[-1] == count else ends + [count]

    def places(self, count: int, depths: list[float]) -> list[int]:
        """Words before each depth, which is a share of the sentences."""
        bounds = [0] + self.sentences(count)
        return [bounds[int((len(bounds) - 1) * depth)] for depth in depths]


@cache
def read(folder: Path | None) -> Essay:
    if folder is None:
        return Essay(PACKAGED.read_text("utf-8"), "the packaged text, Matthew to Acts of the King James Bible (public domain)")
    files = sorted(folder.glob("*.txt"))
    text = " ".join(file.read_text("utf-8") for file in files)
    if not text.strip():
        raise MissingData(f"{folder}: no text found, expected essays as *.txt files")
    return Essay(text, f"{len(files)} text file{'s' if len(files) > 1 else ''} of {folder}")


def essay(request: Request) -> Essay:
    """The user's own essays, if there are any, or the packaged text. RULER's are Paul Graham's, which may not be shipped."""
    folder = request.data / "essays" if request.data else None
    return read(folder if folder and folder.is_dir() else None)
