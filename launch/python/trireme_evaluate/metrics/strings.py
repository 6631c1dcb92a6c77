"""String matches as RULER defines them, for one answer of a model: the share of the references it has, or whether it has any."""

import re
from typing import Sequence

CONTROL = re.compile(r"[\x00-\x1f]")


def cleaned(text: str) -> str:
    """The answer without white space around it, with line ends for control characters, in lower case."""
    return CONTROL.sub("\n", text.strip()).strip().lower()


def found(text: str, references: Sequence[str]) -> list[bool]:
    answer = cleaned(text)
    return [reference.lower() in answer for reference in references]


def match_all(text: str, references: Sequence[str]) -> float:
    """The share of the references that occur in the answer."""
    return sum(found(text, references)) / len(references)


def match_part(text: str, references: Sequence[str]) -> float:
    """1 if any of the references occurs in the answer, otherwise 0."""
    return float(any(found(text, references)))
