"""The needle in a haystack: one made-up fact at a depth of a long text. One task asks in the words of the fact, one in other words."""

from __future__ import annotations

import random
from collections import namedtuple
from typing import Iterator

from ..items import Item, Request, check
from .ruler.essays import Essay, essay
from .ruler.lengths import Fitting

TASKS = ("needle", "needle_paraphrased")
MAX_TOKENS = 48
DEPTHS = tuple(range(0, 101, 10))  # percent
TEMPLATE = (
    "This is a very long story book: <book> {context} </book>.\n"
    "Based on the content of the book, answer the question in a few words.\nQuestion: {question}\nAnswer:"
)

Needle = namedtuple("Needle", "sentence question paraphrase answer")  # the paraphrase shares no content word with the sentence
NEEDLES = (
    Needle(
        "The locksmith of Verdun keeps the spare key under the blue flowerpot.",
        "Where does the locksmith of Verdun keep the spare key?",
        "Where would a visitor find the means to open that craftsman's door?",
        "flowerpot",
    ),
    Needle(
        "The best thing to do in San Francisco is to eat a sandwich in Dolores Park.",
        "What is the best thing to do in San Francisco?",
        "Which food should tourists enjoy when they come to the Golden Gate?",
        "sandwich",
    ),
    Needle(
        "Marta Lindqvist repairs accordions in a lighthouse near Bergen.",
        "What does Marta Lindqvist repair?",
        "Which musical instruments are mended in a tower on the Norwegian coast?",
        "accordion",
    ),
    Needle(
        "The cook of the expedition paid for the tent with nine jars of apricot jam.",
        "What did the cook of the expedition pay for the tent with?",
        "Which kind of fruit preserve was traded for a canvas shelter?",
        "apricot",
    ),
    Needle(
        "The parrot of Professor Okafor answers only to the name Marmalade.",
        "What name does the parrot of Professor Okafor answer to?",
        "How must one call the academic's bird if it is to react?",
        "marmalade",
    ),
)


def schedule(limit: int) -> list[tuple[int, int]]:
    """(depth, round) of each item. Fewer items than depths are spread over them; more begin another round."""
    number = limit or len(DEPTHS)
    if number == 1:
        return [(50, 0)]
    if number < len(DEPTHS):
        return [(DEPTHS[i * (len(DEPTHS) - 1) // (number - 1)], 0) for i in range(number)]
    return [(DEPTHS[i % len(DEPTHS)], i // len(DEPTHS)) for i in range(number)]


def hidden(text: Essay, start: int, count: int, sentence: str, depth: int) -> str:
    """`count` words of a text from a word on, with a sentence after the last one that ends before the depth."""
    units, before = text.units(count, start), count * depth // 100
    units.insert(max((end for end in text.sentences(count, start) if end <= before), default=0), sentence)
    return " ".join(units)


def of_task(task: str, request: Request) -> Iterator[Item]:
    """Both tasks hide the same needle at the same place of the same text: only the question differs."""
    text, fitting = essay(request), Fitting(task, request.count, request.length, MAX_TOKENS)
    for index, (depth, round_) in enumerate(schedule(request.limit)):
        rng = random.Random(f"{request.seed}:needle:{request.length}:{index}")
        start = rng.choice([0, *text.ends[:-1]])
        needle = NEEDLES[(index + round_) % len(NEEDLES)]
        question = needle.question if task == "needle" else needle.paraphrase

        def build(count: int) -> str:
            return TEMPLATE.format(context=hidden(text, start, count, needle.sentence, depth), question=question)

        name = f"depth {depth}%" + (f" ({round_ + 1})" if round_ else "")
        yield Item(task, name, fitting.prompt(build), (needle.answer,), MAX_TOKENS, "all", extra={"depth": depth})


def describe(request: Request) -> str:
    return f"needle in a haystack; haystack: {essay(request).name}"


def items(request: Request) -> Iterator[Item]:
    check("needle", request, TASKS)
    return (item for task in request.tasks or TASKS for item in of_task(task, request))
