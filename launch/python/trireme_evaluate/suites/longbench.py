"""LongBench v1 and LongBench-E: questions about long texts in English, Chinese and code, 21 data sets.

The data are THUDM/LongBench's JSONL files, one per task. Prompts and lengths of answers are LongBench's own. A prompt that
is too long keeps its beginning and its end, as in LongBench's pred.py, with two differences. The two parts have equal
numbers of characters instead of tokens, and they may end within a token. As there, the tokens of a chat template are not
counted, so a length must leave room for them.

On samsum, pred.py stops at a newline, but not at the first token. Here an answer that begins with a newline is empty."""

import json
from itertools import islice
from pathlib import Path

from trireme_evaluate.items import Item, MissingData, data_folder
from trireme_evaluate.jsonl import COUNT, MAYBE_STRINGS, STRING, STRINGS, records

METRICS = {
    "narrativeqa": "qa_f1",
    "qasper": "qa_f1",
    "multifieldqa_en": "qa_f1",
    "multifieldqa_zh": "qa_f1_zh",
    "hotpotqa": "qa_f1",
    "2wikimqa": "qa_f1",
    "musique": "qa_f1",
    "dureader": "rouge_l_zh",
    "gov_report": "rouge_l",
    "qmsum": "rouge_l",
    "multi_news": "rouge_l",
    "vcsum": "rouge_l_zh",
    "trec": "classification",
    "triviaqa": "qa_f1",
    "samsum": "rouge_l",
    "lsht": "classification",
    "passage_count": "count",
    "passage_retrieval_en": "retrieval",
    "passage_retrieval_zh": "retrieval_zh",
    "lcc": "code_sim",
    "repobench-p": "code_sim",
}
OF_E = ("qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "gov_report", "multi_news", "trec", "triviaqa", "samsum",
        "passage_count", "passage_retrieval_en", "lcc", "repobench-p")  # fmt: skip
TASKS = (*METRICS, *(f"{name}_e" for name in OF_E))
FIRST_LINE = ("trec", "triviaqa", "samsum", "lsht")  # only the first line of an answer counts
NO_CHAT = (*FIRST_LINE, "lcc", "repobench-p")  # the prompt is given without a chat template
STOP = {"samsum": ("\n",)}
PROMPTS = json.loads((Path(__file__).parents[1] / "data/longbench_prompts.json").read_text(encoding="utf-8"))
REQUIRED = {"input": STRING, "context": STRING, "answers": STRINGS}
OPTIONAL = {"all_classes": MAYBE_STRINGS, "language": STRING, "length": COUNT, "_id": STRING}
OF_E_REQUIRED = {**REQUIRED, "length": COUNT}
SOURCE = "data.zip of THUDM/LongBench on the Hugging Face hub"


def dataset(task):
    return task.removesuffix("_e")


def files(request):
    """The data file of each requested task; without names, of each task that has one."""
    for task in request.tasks:
        if task not in TASKS:
            raise ValueError(f"longbench: found the task '{task}', expected one of: {', '.join(TASKS)}")
    folder = data_folder("longbench", request, f"the folder of its JSONL files: {SOURCE}")
    found = {task: folder / f"{task}.jsonl" for task in request.tasks or TASKS}
    if not request.tasks:
        found = {task: path for task, path in found.items() if path.is_file()}
    for task, path in found.items():
        if not path.is_file():
            raise MissingData(f"longbench: {path} is missing, which {task} requires; it is in {SOURCE}")
    if not found:
        raise MissingData(f"longbench: {folder} has no file of a task, such as narrativeqa.jsonl; they are in {SOURCE}")
    return found


def ends(text, kept):
    """The first and the last `kept` characters."""
    return text[:kept] + text[len(text) - kept :]


def without_middle(text, most, count):
    """The text if it has at most `most` tokens, otherwise as much of both ends as `most` tokens admit."""
    if count(text) <= most:
        return text
    fits, too_many = 0, (len(text) + 1) // 2
    while too_many - fits > 1:
        kept = (fits + too_many) // 2
        if count(ends(text, kept)) <= most:
            fits = kept
        else:
            too_many = kept
    return ends(text, fits)


def prompt_of(task, record, request):
    settings = PROMPTS[dataset(task)]
    prompt = settings["prompt"].format(context=record["context"], input=record["input"])
    if not request.length:
        return prompt
    prompt = without_middle(prompt, request.length - settings["max_tokens"], request.count)
    if not prompt:
        raise ValueError(f"{task}: found a length of {request.length} tokens, expected more: the answer may have {settings['max_tokens']}")
    return prompt


def bucket(length):
    """LongBench-E's classes of length, in words."""
    return "0-4k" if length < 4000 else "4-8k" if length < 8000 else "8k+"


def extra(task, record):
    of = dataset(task)
    facts = {
        "first_line": of in FIRST_LINE,
        "chat": of not in NO_CHAT,
        "all_classes": tuple(record.get("all_classes") or ()),
        "language": record.get("language", ""),
    }
    return {**facts, "bucket": bucket(record["length"])} if task.endswith("_e") else facts


def item(task, number, record, request):
    of = dataset(task)
    return Item(
        task=task,
        name=record.get("_id") or str(number),
        prompt=prompt_of(task, record, request),
        references=tuple(record["answers"]),
        max_tokens=PROMPTS[of]["max_tokens"],
        metric=METRICS[of],
        stop=STOP.get(of, ()),
        extra=extra(task, record),
    )


def generated(request, found):
    for task, path in found.items():
        required = OF_E_REQUIRED if task.endswith("_e") else REQUIRED
        for number, record in islice(records(path, required, OPTIONAL), request.limit or None):
            yield item(task, number, record, request)


def items(request):
    return generated(request, files(request))


def describe(request):
    without = [] if request.tasks else [task for task in TASKS if task not in files(request)]
    cut = "long prompts lose their middle" if request.length else "prompts are not cut"
    return f"LongBench; {cut}" + (f"; without data: {', '.join(without)}" if without else "")
