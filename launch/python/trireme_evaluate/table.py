"""Table of an evaluation: mean scores by suite, task, length and mode."""

import csv
import io
import json
from collections import namedtuple
from pathlib import Path

from .run import lengths_of, path_of
from .store import complete

Result = namedtuple("Result", "suite task length mode metric items score")
# How a metric is shown: factor, decimals.
SHOWN = {"perplexity": (1, 3), "rouge-1": (1, 4), "rouge-2": (1, 4), "rouge-l": (1, 4), "distinct-4": (1, 3)}
MEAN = "mean"


def load(task):
    """The results of all cells that have answers, and of each suite the mean over its tasks."""
    results = []
    for suite in task["suites"]:
        for length in lengths_of(suite, task):
            for mode in task["modes"]:
                path = path_of(task, mode, suite, length)
                if path.exists():
                    results += of_cell(suite, length, mode["name"], answers_of(path))
    return results


def answers_of(path):
    """The answers in a cell's file."""
    return [json.loads(line) for line in complete(path.read_bytes()).splitlines()[1:]]


def of_cell(suite, length, mode, answers):
    scores = {}
    for answer in answers:
        for metric, score in answer["scores"].items():
            scores.setdefault((answer["task"], metric), []).append(score)
    results = [Result(suite, task, length, mode, metric, len(of), sum(of) / len(of)) for (task, metric), of in scores.items()]
    if len({result.task for result in results}) > 1:
        items, score = sum(r.items for r in results), sum(r.score for r in results) / len(results)
        results.append(Result(suite, MEAN, length, mode, results[0].metric, items, score))
    return results


def shown(metric, score):
    factor, decimals = SHOWN.get(metric, (100, 1))
    return f"{score * factor:.{decimals}f}"


def of_file(path):
    """The results in a file that as_csv() has made."""
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        lines = list(csv.reader(file))
    if not lines or tuple(lines[0]) != Result._fields:
        raise ValueError(f"{path}: found the columns {','.join(lines[0]) if lines else 'none'}, expected {','.join(Result._fields)}")
    results = []
    for number, line in enumerate(lines[1:], 2):
        try:
            suite, task, length, mode, metric, items, score = line
            results.append(Result(suite, task, int(length), mode, metric, int(items), float(score)))
        except ValueError:
            raise ValueError(f"{path}:{number}: found {','.join(line)}, expected {','.join(Result._fields)}") from None
    if not results:
        raise ValueError(f"{path}: no results")
    return results


def of_files(paths):
    """The results of several files. With more than one, modes are named with the folder of their file."""
    of = {path: of_file(path) for path in paths}
    folder = {path: f" ({Path(path).absolute().parent.name})" if len(of) > 1 else "" for path in of}
    return [r._replace(mode=r.mode + folder[path]) for path, results in of.items() for r in results]


def modes_of(results):
    return list(dict.fromkeys(result.mode for result in results))


def rows(results):
    """(heading, rows) of the table: a row for each task, length and metric, a column for each mode."""
    modes = modes_of(results)
    by_row = {}
    for r in results:
        by_row.setdefault((r.suite, r.task, r.length, r.metric), {})[r.mode] = r
    heading = ["suite", "task", "length", "metric", "items", *modes]
    lines = []
    for (suite, task, length, metric), of in by_row.items():
        cells = [shown(metric, of[mode].score) if mode in of else "-" for mode in modes]
        items = sorted({r.items for r in of.values()})
        counts = str(items[0]) if len(items) == 1 else f"{items[0]} to {items[-1]}"
        lines.append([suite, task, str(length or "-"), metric, counts, *cells])
    return heading, lines


def markdown(results):
    heading, lines = rows(results)
    widths = [max(len(line[i]) for line in [heading, *lines]) for i in range(len(heading))]
    show = lambda line: "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |\n"  # noqa: E731
    return show(heading) + "|" + "|".join("-" * (width + 2) for width in widths) + "|\n" + "".join(map(show, lines))


def as_csv(results):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Result._fields)
    writer.writerows(result._replace(score=f"{result.score:.6f}") for result in results)
    return out.getvalue()
