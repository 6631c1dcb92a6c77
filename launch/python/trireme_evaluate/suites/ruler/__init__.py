"""RULER: 13 synthetic tasks of long contexts, generated at the exact length that is requested (Hsieh et al., 2024)."""

import random
from itertools import count, islice
from typing import Iterator

from ...items import Item, Request, check
from . import needles, questions, tracking, words
from .essays import essay

SPECS = {  # prompts of a task, most tokens of its answer, metric
    **{task: (needles.prompts, needles.MAX_TOKENS, "all") for task in needles.KINDS},
    "vt": (tracking.prompts, tracking.MAX_TOKENS, "all"),
    "cwe": (words.common_words, words.COMMON_TOKENS, "all"),
    "fwe": (words.frequent_words, words.FREQUENT_TOKENS, "all"),
    **{task: (questions.prompts, questions.MAX_TOKENS, "part") for task in questions.FILES},
}
TASKS = tuple(SPECS)
DEFAULT_ITEMS = 20


def draws(request: Request, task: str) -> Iterator[random.Random]:
    """The source of chance of each item."""
    return (random.Random(f"{request.seed}:{task}:{request.length}:{index}") for index in count())


def available(request: Request) -> list[str]:
    """All tasks, less those whose data are missing."""
    return [task for task in TASKS if task not in questions.FILES or questions.file_of(task, request)]


def describe(request: Request) -> str:
    skipped = [] if request.tasks else [task for task in TASKS if task not in available(request)]
    without = [f"{task} (no {questions.FILES[task][0]})" for task in skipped]
    return f"RULER, own generator; essays: {essay(request).name}" + (f"; skipped: {', '.join(without)}" if without else "")


def of_task(task: str, request: Request) -> Iterator[Item]:
    make, max_tokens, metric = SPECS[task]
    made = islice(make(task, request, draws(request, task)), request.limit or DEFAULT_ITEMS)
    for index, (prompt, references) in enumerate(made):
        yield Item(task, str(index), prompt, references, max_tokens, metric)


def items(request: Request) -> Iterator[Item]:
    check("ruler", request, TASKS)
    for task in request.tasks:
        if task in questions.FILES:
            questions.check(task, request)
    return (item for task in request.tasks or available(request) for item in of_task(task, request))
