"""Word counts: the ten common words of a numbered list (cwe), the three most frequent words of a coded text (fwe)."""

import random
import string
from math import pi
from typing import Iterator

from ...items import Request
from .lengths import Fitting, TooShort
from .word_lists import all_words, pair

COMMON_TOKENS, FREQUENT_TOKENS = 120, 50  # of the answers
COMMON = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n{context}\n"
    "Question: What are the 10 most common words in the above list?"
    " Answer: The top 10 words that appear most often in the list are:"
)
FREQUENT = (
    "Read the following coded text and track the frequency of each coded word. "
    "Find the three most frequently appeared coded words. {context}\n"
    "Question: Do not provide any explanation. Please ignore the dots '....'. "
    "What are the three most frequently appeared words in the above coded text?"
    " Answer: According to the coded text above, the three most frequently appeared words are:"
)
COMMON_WORDS = 10
SHORT = 4096  # tokens; shorter lists repeat their words less
ENOUGH = 75  # words of a coded text from which on the third coded word is more frequent than the fourth


def numbered(words: list[str]) -> str:
    return " ".join(f"{number}. {word}" for number, word in enumerate(words, 1))


class WordList:
    """A list of ten common words and others. Single words come first; when they run out, pairs of them follow."""

    def __init__(self, rng: random.Random, common: int, other: int):
        self.words = rng.sample(all_words(), len(all_words()))
        self.repeats, self.pairs, self.order = (common, other), random.Random(rng.random()), rng.random()

    def common(self) -> list[str]:
        return self.words[:COMMON_WORDS]

    def prompt(self, count: int) -> str:
        """A list of `count` distinct words."""
        while len(self.words) < count:
            self.words = list(dict.fromkeys([*self.words, *(pair(self.pairs) for _ in range(count - len(self.words)))]))
        listed = self.common() * self.repeats[0] + self.words[COMMON_WORDS:count] * self.repeats[1]
        random.Random(self.order).shuffle(listed)
        return COMMON.format(context=numbered(listed))

    def solved(self, count: int) -> str:
        """A worked example: the prompt with its answer."""
        return f"{self.prompt(count)} {numbered(self.common())}"


def common_words(task: str, request: Request, draws: Iterator[random.Random]) -> Iterator[tuple[str, tuple[str, ...]]]:
    fitting = Fitting(task, request.count, request.length, COMMON_TOKENS)
    short = request.length < SHORT
    for rng in draws:
        example = WordList(rng, 3, 1).solved(20) if short else WordList(rng, 10, 3).solved(40)
        wanted = WordList(rng, 6, 1) if short else WordList(rng, 30, 3)
        yield fitting.prompt(lambda count: f"{example}\n{wanted.prompt(count)}", COMMON_WORDS + 1), tuple(wanted.common())


class CodedText:
    """A text of random words whose frequencies follow a Zipf distribution with exponent 2. The most frequent one is dots."""

    def __init__(self, rng: random.Random, vocabulary: int):
        words: dict[str, None] = {}
        while len(words) < vocabulary - 1:
            words["".join(rng.choices(string.ascii_lowercase, k=6))] = None
        self.words, self.order = ("...", *words), rng.random()

    def prompt(self, count: int) -> str:
        drawn = [word for rank, word in enumerate(self.words, 1) for _ in range(int(count * 6 / (pi * rank) ** 2))]
        random.Random(self.order).shuffle(drawn)
        return FREQUENT.format(context=" ".join(drawn))


def frequent_words(task: str, request: Request, draws: Iterator[random.Random]) -> Iterator[tuple[str, tuple[str, ...]]]:
    vocabulary = request.length // 50
    if vocabulary < 5:
        raise TooShort(f"{task}: length {request.length} found, expected at least 250 tokens")
    fitting = Fitting(task, request.count, request.length, FREQUENT_TOKENS)
    for rng in draws:
        text = CodedText(rng, vocabulary)
        yield fitting.prompt(text.prompt, ENOUGH, 2 * request.length), text.words[1:4]
