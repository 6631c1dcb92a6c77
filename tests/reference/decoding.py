"""Goldens of a whole model: greedy continuations, the score of a text, rows of logits, the error against float64."""

import numpy as np

import hf_llama
import llama_f64
from common import HF_VERSIONS, max_abs, significant, write_json, write_tensors

GREEDY_TOKENS = 64
LEAST_MARGIN = 1e-3  # between the best and the second logit; fp32 errors are a hundred times smaller


def continue_greedily(model, prompts):
    """One record per prompt ({"text", "ids"}): the greedy tokens, and the smallest margin of a choice."""
    records = []
    for prompt in prompts:
        tokens, margins = hf_llama.greedy(model, prompt["ids"], GREEDY_TOKENS)
        if min(margins) <= LEAST_MARGIN:
            raise SystemExit(
                f"margin {min(margins)} at token {np.argmin(margins)} of {prompt['text'][:40]!r}: choose another prompt"
            )
        records.append({**prompt, "tokens": tokens, "least_margin": significant(min(margins))})
        print(f"  {len(prompt['ids'])} ids, least margin {min(margins):.2g}, {tokens[:8]} ...")
    return records


def score(model, ids, rows):
    """(logprobs, logits of the rows) of one pass over ids."""
    logits = hf_llama.forward(model, ids)
    return hf_llama.log_probabilities(logits, ids), logits[rows]


def error_against_f64(model, config, weights, ids):
    logits = hf_llama.forward(model, ids)
    return significant(max_abs(logits - llama_f64.forward(config, weights, ids)) / max_abs(logits))


def write_golden(folder, what, model, config, weights, prompts, ids, rows, **more):
    """golden.json: greedy records, perplexity; golden.safetensors: ids, logprobs, rows, logits of that text."""
    greedy = continue_greedily(model, prompts)
    logprobs, logits = score(model, ids, rows)
    record = {
        "what": what,
        **more,
        "greedy": greedy,
        "score": {
            "tokens": len(ids),
            "perplexity": hf_llama.perplexity(logprobs),
            "max_abs_logit": significant(max_abs(logits), 6),
        },
        "hf_error_vs_f64": error_against_f64(model, config, weights, ids[:300]),
        "versions": HF_VERSIONS,
    }
    write_json(folder / "golden.json", record)
    write_tensors(folder / "golden.safetensors", {"ids": ids, "logprobs": logprobs, "rows": rows, "logits": logits})
    error = record["hf_error_vs_f64"]
    print(f"  perplexity {hf_llama.perplexity(logprobs):.6f} over {len(ids)} ids, fp32 error {error:.1e}")
