"""XSUM as the H2O cookbook evaluates it: summaries of one sentence, scored by ROUGE-2 of the package `rouge`.

A line of the data has `article` or `prompt` (the whole prompt, with examples), `summary_gt`, `max_tokens`, and the settings of the
sampler. The prompt has no BOS, and is never cut: the request's length has no effect. The cookbook's script drops the last
character of an answer without a stop string; here it stays."""

from itertools import islice

from trireme_evaluate.items import Item, data_file
from trireme_evaluate.jsonl import COUNT, STRING, STRINGS, TEMPERATURE, TOP_P, records

TASKS = ("xsum",)
REQUIRED = {"summary_gt": STRING, "max_tokens": COUNT}
OPTIONAL = {"article": STRING, "prompt": STRING, "temperature": TEMPERATURE, "top_p": TOP_P, "stop": STRINGS}
TOP_K = 50  # transformers' default, which the cookbook's script leaves


def checked_file(request):
    """The data file, after a check of the request."""
    for task in request.tasks:
        if task not in TASKS:
            raise ValueError(f"xsum: found the task '{task}', expected xsum")
    return data_file("xsum", request, "the JSONL file of the H2O cookbook: data/summarization/xsum.jsonl")


def item(path, number, record):
    prompt = record.get("article", record.get("prompt"))
    if prompt is None:
        raise ValueError(f"{path}:{number}: found no \"article\", expected a string (or \"prompt\")")
    return Item(
        task="xsum",
        name=str(number),
        prompt=prompt,
        references=(record["summary_gt"],),
        max_tokens=record["max_tokens"],
        metric="rouge-2",
        stop=tuple(record.get("stop", ())),
        temperature=float(record.get("temperature", 0.0)),
        top_p=float(record.get("top_p", 1.0)),
        top_k=TOP_K,
        bos=False,
    )


def items(request):
    path = checked_file(request)
    return (item(path, *line) for line in islice(records(path, REQUIRED, OPTIONAL), request.limit or None))


def describe(request):
    return f"XSUM of the H2O cookbook; data: {checked_file(request).name}"
