"""Variable tracking (vt): a chain of assignments hidden in noise; the answer is all variables that have its value."""

import random
import re
import string
from typing import Iterator

from ...items import Request
from .lengths import Fitting, TooShort
from .needles import NOISE

MAX_TOKENS = 30
HOPS = 4
EXAMPLE_TOKENS = 500  # most tokens of the worked example, or a third of the length if that is less
TEMPLATE = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\n"
    "Question: Find all variables that are assigned the value {value} in the text above."
    " Answer: According to the chain(s) of variable assignment in the text above, "
    "{count} variables are assgined the value {value}, they are:"
)


class Chain:
    """Variables and the assignments that carry one value through them, with depths to hide them at."""

    def __init__(self, rng: random.Random, letters: int):
        names: dict[str, None] = {}
        while len(names) <= HOPS:
            names["".join(rng.choices(string.ascii_uppercase, k=letters))] = None
        self.names, self.value = tuple(names), str(rng.randint(10_000, 99_999))
        self.assignments = [f"VAR {self.names[0]} = {self.value}"]
        self.assignments += [f"VAR {later} = VAR {earlier} " for earlier, later in zip(self.names, self.names[1:])]
        self.depths = sorted(rng.random() for _ in self.assignments)

    def prompt(self, lines: int) -> str:
        sentences = [NOISE + "\n"] * lines
        if lines <= len(self.assignments):  # too few gaps between lines: also those between sentences
            sentences = re.findall(r"[^.]+\.\n?", (NOISE + "\n").replace(". ", ".")) * lines
        places = [int(len(sentences) * depth) for depth in self.depths]
        for place, assignment in reversed(list(zip(places, self.assignments))):
            sentences.insert(place, assignment)
        return TEMPLATE.format(context=" ".join(sentences), value=self.value, count=len(self.names))

    def solved(self, lines: int) -> str:
        """A worked example: the prompt with its answer."""
        return f"{self.prompt(lines)} {' '.join(self.names)}"


def example_lines(request: Request, rng: random.Random) -> int:
    """Lines of noise in the worked example. One, if not even that is short enough."""
    fitting = Fitting("vt", request.count, min(EXAMPLE_TOKENS, request.length // 3), 0)
    try:
        fitting.prompt(Chain(rng, letters=3).solved)
    except TooShort:
        return 1
    return fitting.guess


def prompts(task: str, request: Request, draws: Iterator[random.Random]) -> Iterator[tuple[str, tuple[str, ...]]]:
    fitting = Fitting(task, request.count, request.length, MAX_TOKENS)
    lines = example_lines(request, random.Random(f"{request.seed}:{task}:{request.length}:example"))
    for rng in draws:
        example, chain = Chain(rng, letters=3).solved(lines), Chain(rng, letters=5)
        yield fitting.prompt(lambda count: f"{example}\n\n\n\n{chain.prompt(count)}"), chain.names
