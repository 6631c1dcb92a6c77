"""Fit of a prompt to a length: the search for the most units of a haystack that leave room for the answer."""

from __future__ import annotations

from math import floor
from typing import Callable

PROBE = 16  # units between the first two probes, which give the tokens of a unit
BISECT_AFTER = 8  # probes


class TooShort(ValueError):
    """The length is too short for the shortest prompt of a task."""


class Fitting:
    """The search for one task. What one prompt needed is the first guess for the next, so that few counts are made."""

    def __init__(self, task: str, count: Callable[[str], int], length: int, max_tokens: int):
        self.task, self.count, self.length, self.max_tokens = task, count, length, max_tokens
        self.room = length - max_tokens
        self.guess = self.per_unit = None
        self.distance = 0  # units between the two probes that gave per_unit

    def learn(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Takes the slope between two probes, each (units, tokens). Distant probes give a better one than neighbours."""
        distance, grown = abs(last[0] - first[0]), abs(last[1] - first[1])
        if distance > 0 and grown > 0 and distance >= self.distance:
            self.per_unit, self.distance = grown / distance, distance

    def following(self, units: int, tokens: int, probes: int, fits: int, exceeds: int) -> int:
        """Units of the next probe, between those known to fit and those known to exceed the room."""
        if probes > BISECT_AFTER:
            aim = (fits + exceeds) // 2
        elif self.per_unit is None:
            aim = units + PROBE if tokens < self.room else units - 1
        else:
            aim = units + floor((self.room - tokens) / self.per_unit)
        return min(max(aim, fits + 1), exceeds - 1)

    def prompt(self, build: Callable[[int], str], least: int = 1, most: int | None = None) -> str:
        """The longest prompt that fits. `build(n)` makes one of n units, `least` to `most`; more units have more tokens."""
        most = max(least, self.room if most is None else most)
        fits, exceeds, best, first, probes = least - 1, most + 1, "", None, 0
        units = min(max(self.guess or least, least), most)
        while True:
            text = build(units)
            tokens, probes = self.count(text), probes + 1
            first = first or (units, tokens)
            self.learn(first, (units, tokens))
            if tokens <= self.room:
                fits, best = units, text
            else:
                exceeds = units
            if exceeds - fits == 1 or tokens == self.room:
                break
            units = self.following(units, tokens, probes, fits, exceeds)
        if not best:
            found = tokens + self.max_tokens
            raise TooShort(f"{self.task}: length {self.length} found, expected at least {found} tokens for its shortest prompt")
        self.guess = fits
        return best
