"""MT-bench as H2O streams it: all turns of all questions in one conversation, whose cache is never reset.

The data are MT-bench's question.jsonl. A turn is `USER: <turn>`, an empty line and `ASSISTANT: `. There are no expected
answers: the scores are the share of distinct 4-grams, which falls when answers repeat themselves, and tokens per second."""

from itertools import islice

from trireme_evaluate.items import Item, data_file
from trireme_evaluate.jsonl import STRINGS, records

TASKS = ("mtbench",)
MAX_TOKENS = 256


def items(request):
    path = data_file("mtbench", request, "MT-bench's question.jsonl")
    turns = (
        (f"{number}.{turn}", text)
        for number, record in records(path, {"turns": STRINGS})
        for turn, text in enumerate(record["turns"], 1)
    )
    return (Item(task="mtbench", name=name, prompt=text, references=(), max_tokens=MAX_TOKENS, metric="distinct-4")
            for name, text in islice(turns, request.limit or None))  # fmt: skip


def describe(request):
    return f"MT-bench, one conversation; data: {request.data.name if request.data else 'none'}"
