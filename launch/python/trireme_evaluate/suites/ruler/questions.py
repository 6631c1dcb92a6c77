"""Questions about documents: SQuAD (qa_1) and HotpotQA (qa_2) hidden among documents of other questions."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Iterator

from ...items import MissingData, Request
from .lengths import Fitting, TooShort

MAX_TOKENS = 32
MOST_REFUSED = 100  # questions in a row whose own documents do not fit, before the task ends
TEMPLATE = (
    "Answer the question based on the given documents. "
    "Only give me the answer and do not output any other words.\n\n"
    "The following are given documents.\n\n{context}\n\n"
    "Answer the question based on the given documents. "
    "Only give me the answer and do not output any other words.\n\nQuestion: {query} Answer:"
)
FILES = {  # file name, what it is
    "qa_1": ("squad.json", "SQuAD 2.0's dev-v2.0.json"),
    "qa_2": ("hotpotqa.json", "HotpotQA's hotpot_dev_distractor_v1.json"),
}


@dataclass(frozen=True)
class Question:
    text: str
    answers: tuple[str, ...]
    own: tuple[str, ...]  # documents that are always there
    related: tuple[str, ...] = ()  # those that come next, of the same article


def file_of(task: str, request: Request) -> Path | None:
    path = request.data / FILES[task][0] if request.data else None
    return path if path and path.is_file() else None


def check(task: str, request: Request) -> None:
    """Raises MissingData if the task's file is not there."""
    if file_of(task, request) is None:
        name, what = FILES[task]
        raise MissingData(f"{task}: {request.data or 'DATA'}/{name} not found; it is {what}; put it there and give the folder as --data")


def squad(data: dict) -> tuple[list[Question], set[str]]:
    """The questions that have an answer, and the paragraphs of all articles."""
    found, documents = [], set()
    for article in data["data"]:
        contexts = list(dict.fromkeys(paragraph["context"] for paragraph in article["paragraphs"]))
        documents.update(contexts)
        for paragraph in article["paragraphs"]:
            own = paragraph["context"]
            related = tuple(context for context in contexts if context != own)
            for asked in paragraph["qas"]:
                if not asked.get("is_impossible"):
                    answers = tuple(dict.fromkeys(answer["text"] for answer in asked["answers"]))
                    found.append(Question(asked["question"], answers, (own,), related))
    return found, documents


def hotpotqa(data: list) -> tuple[list[Question], set[str]]:
    found = [
        Question(asked["question"], (asked["answer"],), tuple(f"{title}\n{''.join(parts)}" for title, parts in asked["context"]))
        for asked in data
    ]
    return found, {document for question in found for document in question.own}


@cache
def read(task: str, path: Path) -> tuple[list[Question], list[str]]:
    """The questions of a file, and all its documents."""
    data = json.loads(path.read_text("utf-8"))
    questions, documents = squad(data) if task == "qa_1" else hotpotqa(data)
    return questions, sorted(documents)


def numbered(documents: list[str]) -> str:
    return "\n\n".join(f"Document {number}:\n{document}" for number, document in enumerate(documents, 1))


def prompt(question: Question, documents: list[str], rng: random.Random, fitting: Fitting) -> str:
    """Its own documents, then related ones, then others, as many as fit, in random order."""
    near = set(question.own + question.related)
    others = [document for document in documents if document not in near]
    ordered = [*question.own, *rng.sample(question.related, len(question.related)), *rng.sample(others, len(others))]
    order = {document: rng.random() for document in ordered}

    def build(count: int) -> str:
        return TEMPLATE.format(context=numbered(sorted(ordered[:count], key=order.__getitem__)), query=question.text)

    return fitting.prompt(build, len(question.own), len(ordered))


def prompts(task: str, request: Request, draws: Iterator[random.Random]) -> Iterator[tuple[str, tuple[str, ...]]]:
    questions, documents = read(task, file_of(task, request))
    chosen = random.Random(f"{request.seed}:{task}").sample(questions, len(questions))
    fitting = Fitting(task, request.count, request.length, MAX_TOKENS)
    made = refused = 0
    for question, rng in zip(chosen, draws):
        try:
            text = prompt(question, documents, rng, fitting)
        except TooShort:
            refused += 1
            if made == 0 and refused == min(MOST_REFUSED, len(chosen)):
                raise
            if refused == MOST_REFUSED:
                return
            continue
        made, refused = made + 1, 0
        yield text, question.answers
