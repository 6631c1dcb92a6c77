"""Run of an evaluation: its cells (suite, length, mode), one process of `trireme pipe` for each mode."""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from trireme_lm import TriremeError
from trireme_lm.process import Process, environment_of, words_of

from . import pages
from .items import Request
from .metrics import scores_of
from .store import UNUSED, Store
from .suites import SUITES

AS_DATA = ("xsum", "mtbench")  # suites without lengths


def say(text):
    print(f"trireme: {text}", file=sys.stderr, flush=True)


def lengths_of(suite, task):
    return [0] if suite in AS_DATA else task["lengths"] or [0]


def cells(task):
    """(mode, suite, length) of every cell of this shard. Modes are outermost, because each has a process."""
    every = [(mode, suite, length) for mode in task["modes"] for suite in task["suites"] for length in lengths_of(suite, task)]
    return every[task["shard"] :: task["shards"]]


def path_of(task, mode, suite, length):
    return Path(task["output"]) / "answers" / f"{suite}-{length or 'whole'}-{mode['name']}.jsonl"


def request_of(task, suite, length, count):
    """The request to a suite: its own tasks among the named ones."""
    named = tuple(name for name in task["tasks"] if name in SUITES[suite].TASKS)
    return Request(length=length, count=count, data=Path(task["data"]) if task["data"] else None, tasks=named,
                   limit=task["limit"], seed=task["seed"])  # fmt: skip


def check(task):
    """Finds errors before a model is loaded: unknown tasks, missing data, missing lengths."""
    known = {name for suite in task["suites"] for name in SUITES[suite].TASKS}
    for name in task["tasks"]:
        if name not in known:
            raise ValueError(f"--tasks {name}: no suite of {','.join(task['suites'])} has it; want one of {', '.join(sorted(known))}")
    for suite in task["suites"]:
        if suite not in (*AS_DATA, "longbench") and not task["lengths"]:
            raise ValueError(f"{suite}: no lengths; give --lengths, such as 2K,8K")
        say(f"{suite}: {SUITES[suite].describe(request_of(task, suite, lengths_of(suite, task)[0], len))}")


def variables_of(mode):
    """The variables of the pipe. The configuration file has been read, and suites decide about the chat template."""
    return {**mode["variables"], **dict.fromkeys(UNUSED), "TRIREME_CONFIG": None, "TRIREME_CHAT": None, "TRIREME_NO_PROGRESS": "on", "TRIREME_LOG_LEVEL": "warn"}


class Runner:
    def __init__(self, task):
        self.task, self.process, self.mode, self.made = task, None, None, {}

    def start(self, mode):
        """The process of a mode. The one before it ends first, so that memory holds one model."""
        if self.mode != mode["name"]:
            self.close()
            self.process = Process(["-m", self.task["model"]], self.task["program"], self.task["ranks"], variables_of(mode))
            self.mode = mode["name"]
        return self.process

    def close(self):
        if self.process:
            self.process.close()
        self.process = None

    def count(self, text):
        (answer,) = self.process.ask([{"tokenize": text}])
        return len(answer["ids"]) + self.around()

    def around(self):
        """Tokens that the chat template adds to a message."""
        if not self.task["chat"]:
            return 0
        if "around" not in self.made:
            (rendered,) = self.process.ask([{"render": [{"role": "user", "content": "x"}]}])
            with_template, alone = self.process.ask([{"tokenize": rendered["text"], "add_special": False}, {"tokenize": "x"}])
            self.made["around"] = len(with_template["ids"]) - len(alone["ids"])
        return self.made["around"]

    def items(self, suite, length):
        """Items do not depend on the mode: texts are cut by the model's tokenizer."""
        if (suite, length) not in self.made:
            request = request_of(self.task, suite, length, self.count)
            self.made[suite, length] = list(SUITES[suite].items(request))
        return self.made[suite, length]

    def cell(self, mode, suite, length):
        cell = {"suite": suite, "length": length, "mode": mode["name"], "variables": mode["variables"],
                **{key: self.task[key] for key in ("model", "limit", "seed", "tasks", "chat")}}  # fmt: skip
        store = Store(path_of(self.task, mode, suite, length), cell, again=self.task["force"])
        try:
            if suite == "mtbench":
                self.conversation(mode, store, length)
            else:
                self.independent(mode, store, suite, length)
        finally:
            store.close()

    def independent(self, mode, store, suite, length):
        process = self.start(mode)
        items = self.items(suite, length)
        left = [item for item in items if (item.task, item.name) not in store.answers]
        say(f"{suite}, length {length or 'as the data'}, {mode['name']}: {len(items)} items, {len(items) - len(left)} done before")
        answers = process.answers([self.asked(item) for item in left])
        for item, answer in zip(left, answers):
            if "error" in answer:
                raise TriremeError(f"{item.task} {item.name}: {answer['error']}")
            store.add(scored(item, answer))

    def asked(self, item):
        if item.metric == "perplexity":
            return {"text": item.prompt, "window": item.extra["window"], "stride": item.extra["stride"]}
        chat = self.task["chat"] and item.extra.get("chat", True)
        prompt = {"messages": [{"role": "user", "content": item.prompt}]} if chat else {"prompt": item.prompt, "add_special": item.bos}
        return {**prompt, "max_tokens": item.max_tokens, "temperature": item.temperature, "top_p": item.top_p, "top_k": item.top_k, "min_p": 0,
                "stop": list(item.stop)}  # fmt: skip

    def conversation(self, mode, store, length):
        """All turns in one run of `generate --session`: its cache is never reset, so it cannot continue in the middle."""
        items = self.items("mtbench", length)
        if all((item.task, item.name) in store.answers for item in items):
            return
        self.close()
        self.mode = None
        say(f"mtbench, {mode['name']}: {len(items)} turns in one conversation")
        with tempfile.TemporaryDirectory() as folder:
            turns, report = Path(folder, "turns.jsonl"), Path(folder, "report.json")
            turns.write_text("".join(json.dumps({"turns": [item.prompt]}) + "\n" for item in items))
            variables = {**variables_of(mode), "TRIREME_PARALLEL": None, "TRIREME_CHAT": "on" if self.task["chat"] else None}
            env = environment_of(variables, self.task["ranks"])
            words = ["generate", "-m", self.task["model"], "--session", str(turns), "--report-json", str(report),
                     "--temp", "0", "-n", str(items[0].max_tokens)]  # fmt: skip
            words = words_of(self.task["program"], words, self.task["ranks"])
            done = subprocess.run(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
            if done.returncode:
                said = done.stderr.strip().splitlines() or [f"trireme generate ended with status {done.returncode}"]
                raise TriremeError(said[-1], done.returncode)
            for item, turn in zip(items, json.loads(report.read_text())["turns"]):
                if (item.task, item.name) not in store.answers:
                    store.add(answered(item, turn))


def scored(item, answer):
    """The stored line of an answer."""
    line = {"task": item.task, "name": item.name}
    if item.metric == "perplexity":
        tokens = answer["tokens"]
        return {**line, "scores": {"perplexity": math.exp(-answer["logprob"] / tokens)}, "prompt_tokens": tokens}
    text = answer["text"]
    facts = {key: answer[key] for key in ("prompt_tokens", "completion_tokens", "seconds")}
    return {**line, "scores": scores_of(item, text), "text": text, "references": list(item.references), **facts}


def answered(item, turn):
    """The stored line of a turn of a conversation."""
    words = turn["text"].split()
    grams = list(zip(*(words[i:] for i in range(4))))
    distinct = len(set(grams)) / len(grams) if grams else 1.0
    return {"task": item.task, "name": item.name, "scores": {"distinct-4": distinct}, "text": turn["text"],
            **{key: turn[key] for key in ("prompt_tokens", "tok_s") if key in turn}}  # fmt: skip


def run(task):
    """Answers every item of this shard that has no answer yet."""
    check(task)
    pages.check(Path(task["output"]))
    runner = Runner(task)
    try:
        for mode, suite, length in cells(task):
            runner.cell(mode, suite, length)
    finally:
        runner.close()
