"""English words of the package wonderwords (MIT, see data/words/LICENCE), which RULER draws its words from."""

import random
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "data" / "words"


@cache
def words(kind: str) -> tuple[str, ...]:
    """Distinct words of a kind: "nouns", "adjectives" or "verbs"."""
    return tuple(dict.fromkeys((FOLDER / f"{kind}.txt").read_text("utf-8").splitlines()))


@cache
def all_words() -> tuple[str, ...]:
    return tuple(sorted({word for kind in ("nouns", "adjectives", "verbs") for word in words(kind)}))


def pair(rng: random.Random) -> str:
    """An adjective and a noun: "blue-lamp"."""
    return f"{rng.choice(words('adjectives'))}-{rng.choice(words('nouns'))}"
