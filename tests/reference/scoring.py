"""Perplexities by sliding windows, and log probabilities of pairs: tests/data/scoring/{pairs.jsonl,golden.json}.

Windows are scored by transformers, each token with the same weight. Pairs are scored by lm-evaluation-harness (HFLM,
independent of this engine) with context 256, so that some are cut."""

import json
import pathlib
import random
import tempfile

import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

import hf_llama
from common import DATA, versions, write_json

MODEL = DATA / "models/kjv-target"
OUT = DATA / "scoring"
TEXT = DATA / "texts/kjv_12k.txt"
CONTEXT = 256
WINDOWS = [(512, 512), (512, 128), (1024, 300)]
BLANKS = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\x1c", "\u2009\u00a0", " \u3000"]


def folder_with_bos(path):
    """A copy of the model that requests BOS: transformers 5 adds none for a tokenizer.model by default."""
    for name in ("config.json", "model.safetensors", "tokenizer.model"):
        (path / name).write_bytes((MODEL / name).read_bytes())
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    (path / "tokenizer_config.json").write_text(json.dumps(config))


def window_perplexity(model, ids, window, stride):
    total, count, previous = 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + window, len(ids))
        logits = np.asarray(hf_llama.forward(model, ids[begin:end]), np.float64)
        rows = logits - logits.max(axis=1, keepdims=True)
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        for at in range(max(previous, begin + 1), end):
            total += rows[at - 1 - begin, ids[at]]
            count += 1
        previous = end
        if end == len(ids):
            break
    return {"window": window, "stride": stride, "scored": count, "perplexity": float(np.exp(-total / count))}


def llama_perplexity(model, ids, window):
    """The rule of llama-perplexity: BOS replaces the first id of each chunk, and the second half counts."""
    total, count = 0.0, 0
    for begin in range(0, len(ids) - window + 1, window):
        chunk = [1, *ids[begin + 1 : begin + window]]
        logits = np.asarray(hf_llama.forward(model, chunk), np.float64)
        rows = logits - logits.max(axis=1, keepdims=True)
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        for at in range(window // 2, window - 1):
            total += rows[at, chunk[at + 1]]
            count += 1
    return {"window": window, "scored": count, "perplexity": float(np.exp(-total / count))}


def pairs(harness):
    text, draw = TEXT.read_text(), random.Random(7)
    made = []
    while len(made) < 200:
        i = len(made)
        begin = draw.randrange(len(text) - 3000)
        length = draw.choice([0, 3, 20, 60, 120, 300, 600, 1100])
        middle = begin + length
        end = middle + draw.choice([1, 4, 12, 40])
        context, continuation = text[begin:middle], text[middle:end]
        if i % 3 == 1:  # as in tasks: a blank between the two
            context, continuation = context.rstrip(), " " + continuation.strip()
        if i % 7 == 2:
            context += draw.choice(BLANKS)
        if i % 31 == 5:
            context = "<s>" + context
        continuation = continuation if continuation.strip() else "and"
        # In transformers 5, a text that begins with a blank has one token fewer than in SentencePiece.
        context = context.lstrip()
        continuation = continuation if context else continuation.lstrip()
        # The harness cannot score a continuation whose text belongs to the context's last token.
        if context == "" or harness._encode_pair(context, continuation)[1]:  # pylint: disable=protected-access
            made.append((context, continuation))
    return made


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    OUT.mkdir(exist_ok=True)
    model = hf_llama.load(MODEL)
    with tempfile.TemporaryDirectory() as path:
        folder_with_bos(pathlib.Path(path))
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        ids = tokenizer(TEXT.read_text())["input_ids"]
        windows = [window_perplexity(model, ids, *w) for w in WINDOWS]
        chunks = [llama_perplexity(model, ids, window) for window in (512, 300)]
        harness = HFLM(pretrained=path, dtype="float32", device="cpu", max_length=CONTEXT, batch_size=1, logits_cache=False)
        all_pairs = pairs(harness)
        requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(all_pairs)]
        answers = harness.loglikelihood(requests)
    with open(OUT / "pairs.jsonl", "w", encoding="utf-8") as file:
        for context, continuation in all_pairs:
            file.write(json.dumps({"context": context, "continuation": continuation}) + "\n")
    write_json(OUT / "golden.json", {"versions": versions("transformers", "torch", "lm_eval"), "tokens": len(ids), "windows": windows, "chunks": chunks,
                                     "context": CONTEXT, "pairs": [{"logprob": float(p), "greedy": bool(g)} for p, g in answers]})


if __name__ == "__main__":
    main()
