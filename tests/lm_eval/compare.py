#!/usr/bin/env python3
"""lm-evaluation-harness with its own model "hf" and with "trireme": the same items, both in f32. Scores must be equal to four
digits, and so must the log probability of each item (1e-3) and each generated text.

  compare.py TRIREME [MODEL] [--items 40] [--threads 2] [--flags '...']
    MODEL: a folder that transformers reads; without it, the small model of the tests. Requires lm-eval, torch, transformers and datasets in this Python.
Exit status 1: a score differs."""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "launch/python"), str(Path(__file__).resolve().parent)]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def evaluated(model, arguments, tasks, folder):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    begin = time.monotonic()
    results = simple_evaluate(model=model, model_args=arguments, tasks=tasks, batch_size=8, log_samples=True, verbosity="ERROR",
                              task_manager=TaskManager(include_path=str(folder), include_defaults=False), bootstrap_iters=0)  # fmt: skip
    return results, time.monotonic() - begin


def scores(results):
    return {(task, metric): value for task, of in results["results"].items() for metric, value in of.items()
            if isinstance(value, float) and "stderr" not in metric}  # fmt: skip


def same_samples(task, ours, theirs):
    """The number of items whose answers differ: log probabilities by more than 1e-3 (absolute and per unit), or texts."""
    wrong = 0
    for a, b in zip(ours["samples"][task], theirs["samples"][task]):
        for x, y in zip(flat(a["resps"]), flat(b["resps"])):
            if isinstance(x, float) or isinstance(y, float):
                same = math.isclose(float(x), float(y), rel_tol=1e-4, abs_tol=1e-3)
            else:
                same = str(x).strip() == str(y).strip()
            wrong += not same
    return wrong


def flat(value):
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


def small_model(folder):
    """The small model with what transformers needs to read its tokenizer."""
    shutil.copytree(ROOT / "tests/data/models/kjv-target", folder)
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trireme")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--flags", default="")
    options = parser.parse_args()

    import tasks
    import lm_eval.models  # noqa: F401 - registers "hf"
    import torch
    import trireme_lm.harness  # noqa: F401 - registers the model

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        names = tasks.write(folder, options.items)
        model = options.model or small_model(Path(folder, "model"))
        failed = 0
        print("| task | metric | hf | trireme | items that differ | hf s | trireme s | ratio |\n|---|---|---|---|---|---|---|---|")
        for name in names:
            theirs, their_s = evaluated("hf", {"pretrained": model, "dtype": "float32", "device": "cpu",
                                               "logits_cache": False}, [name], folder)  # fmt: skip
            ours, our_s = evaluated("trireme", {"model": model, "program": options.trireme,
                                                "flags": f"--dtype f32 --kv-cache-dtype f32 -t {options.threads} {options.flags}"},
                                    [name], folder)  # fmt: skip
            wrong = same_samples(name, ours, theirs)
            for (task, metric), value in scores(theirs).items():
                own = scores(ours)[task, metric]
                failed += f"{own:.4g}" != f"{value:.4g}" or wrong > 0
                print(f"| {task} | {metric.split(',')[0]} | {value:.6g} | {own:.6g} | {wrong} | {their_s:.1f} | {our_s:.1f} | {their_s / our_s:.2f} |")
    sys.exit(1 if failed else 0)


main()
