"""Needle tasks (niah_*): sentences that give a value to a key, hidden in a haystack; the question names some of the keys."""

import random
import uuid
from dataclasses import dataclass
from typing import Callable, Iterator

from ...items import Request
from .essays import essay
from .lengths import Fitting
from .word_lists import pair

MAX_TOKENS = 128
DEPTHS = tuple(round(i * 100 / 39) for i in range(40))  # percent
NEEDLE = "One of the special magic {values} for {key} is: {value}."
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
SEVERAL = (
    "Some special magic {values} are hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {values} afterwards.\n{context}\n"
    "What are all the special magic {values} for {query} mentioned in the provided text?"
    " The special magic {values} for {query} mentioned in the provided text are"
)
SINGLE = (
    "A special magic {values} is hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {values} afterwards.\n{context}\n"
    "What is the special magic {values} for {query} mentioned in the provided text?"
    " The special magic {values} for {query} mentioned in the provided text is"
)


@dataclass(frozen=True)
class Kind:
    haystack: str
    key: str
    value: str
    keys: int = 1
    values: int = 1  # of each key
    queries: int = 1


KINDS = {
    "niah_single_1": Kind("repeat", "words", "numbers"),
    "niah_single_2": Kind("essay", "words", "numbers"),
    "niah_single_3": Kind("essay", "words", "uuids"),
    "niah_multikey_1": Kind("essay", "words", "numbers", keys=4),
    "niah_multikey_2": Kind("needle", "words", "numbers"),
    "niah_multikey_3": Kind("needle", "uuids", "uuids"),
    "niah_multivalue": Kind("essay", "words", "numbers", values=4),
    "niah_multiquery": Kind("essay", "words", "numbers", keys=4, queries=4),
}

MAKERS: dict[str, Callable[[random.Random], str]] = {
    "words": pair,
    "numbers": lambda rng: str(rng.randint(1_000_000, 9_999_999)),
    "uuids": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
}


class Needles:
    """Needles with distinct keys and distinct values."""

    def __init__(self, kind: Kind, rng: random.Random):
        self.kind, self.rng, self.used = kind, rng, set()

    def distinct(self, what: str) -> str:
        while (made := MAKERS[what](self.rng)) in self.used:
            pass
        self.used.add(made)
        return made

    def sentence(self, key: str, value: str) -> str:
        return NEEDLE.format(values=self.kind.value, key=key, value=value)


class Lines:
    """A haystack of lines: the noise sentences again and again, or needles that the question does not name."""
    separator = "\n"

    def __init__(self, needles: Needles | None):
        self.needles, self.lines = needles, []

    def units(self, count: int) -> list[str]:
        while len(self.lines) < count:
            self.lines.append(self.line())
        return self.lines[:count]

    def line(self) -> str:
        kind = self.needles and self.needles.kind
        return self.needles.sentence(self.needles.distinct(kind.key), self.needles.distinct(kind.value)) if kind else NOISE

    def places(self, count: int, depths: list[float]) -> list[int]:
        return [int(count * depth) for depth in depths]


def hide(haystack, count: int, needles: list[str], depths: list[float]) -> str:
    """Units of a haystack with needles at the depths, which are sorted."""
    units, places = haystack.units(count), haystack.places(count, depths)
    for place, needle in reversed(list(zip(places, needles))):
        units.insert(place, needle)
    return haystack.separator.join(units)


def joined(queries: list[str]) -> str:
    return ", ".join(queries[:-1]) + ", and " + queries[-1] if len(queries) > 1 else queries[0]


def prompts(task: str, request: Request, draws: Iterator[random.Random]) -> Iterator[tuple[str, tuple[str, ...]]]:
    kind = KINDS[task]
    one = kind.queries * kind.values == 1
    template, noun = (SINGLE, kind.value[:-1]) if one else (SEVERAL, kind.value)
    fitting = Fitting(task, request.count, request.length, MAX_TOKENS)
    for rng in draws:
        needles = Needles(kind, rng)
        facts = [(needles.distinct(kind.key), [needles.distinct(kind.value) for _ in range(kind.values)]) for _ in range(kind.keys)]
        sentences = [needles.sentence(key, value) for key, values in facts for value in values]
        rng.shuffle(sentences)
        asked = rng.sample(facts, kind.queries)
        query = joined([key for key, _ in asked])
        if kind.haystack == "essay":
            haystack, depths = essay(request), [depth / 100 for depth in sorted(rng.sample(DEPTHS, len(sentences)))]
        else:
            haystack = Lines(needles if kind.haystack == "needle" else None)
            depths = sorted(rng.random() for _ in sentences)

        def build(count: int) -> str:
            return template.format(values=noun, query=query, context=hide(haystack, count, sentences, depths))

        yield fitting.prompt(build), tuple(value for _, values in asked for value in values)
