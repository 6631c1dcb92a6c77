"""Items of evaluation suites: a prompt, the expected answers, and the metric that compares a model's answer with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Mapping


@dataclass(frozen=True)
class Item:
    """One question of a task."""
    task: str  # "niah_single_1"
    name: str  # unique within the task: "17"
    prompt: str  # the whole prompt, including the beginning of the answer if the task gives one
    references: tuple[str, ...]  # expected answers; the metric says how several are used
    max_tokens: int
    metric: str  # a name in metrics.METRICS
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all
    bos: bool = True  # whether the prompt begins with the tokenizer's special tokens
    extra: Mapping[str, object] = field(default_factory=dict)  # what the metric needs besides: classes, language


@dataclass(frozen=True)
class Request:
    """What a suite generates: lengths, tasks, number of items."""
    length: int  # most tokens of prompt and answer together; 0: as the data are
    count: Callable[[str], int]  # tokens of a text, special tokens included
    data: Path | None = None  # the file or folder of --data; None: not given
    tasks: tuple[str, ...] = ()  # empty: all
    limit: int = 0  # items of each task; 0: the suite's default
    seed: int = 42


class MissingData(Exception):
    """A task lacks its data. The message says which file is expected, and where."""


def data_file(suite, request, expected):
    """The file of --data. `expected`: what it contains, for the message."""
    return data_of(suite, request, Path.is_file, "a file", expected)


def data_folder(suite, request, expected):
    return data_of(suite, request, Path.is_dir, "a folder", expected)


def data_of(suite, request, is_there, kind, expected):
    if request.data is None or not is_there(request.data):
        where = "--data is not given" if request.data is None else f"{request.data} is not {kind}"
        raise MissingData(f"{suite}: {where}; expected {expected}")
    return request.data


def check(suite, request, tasks):
    """Checks the request to a suite that generates texts of a length."""
    if request.length <= 0:
        raise ValueError(f"{suite}: length {request.length} found, expected a number of tokens")
    for task in request.tasks:
        if task not in tasks:
            raise ValueError(f"{suite}: task {task} found, expected one of {', '.join(tasks)}")
