"""Llama and its families in transformers, fp32, eager attention, on the CPU: the forwards that goldens are made from."""

import copy

import numpy as np
import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_grad_enabled(False)
torch.set_num_threads(1)  # so the order of sums does not depend on the number of cores


def load(folder):
    """The model of a Hugging Face folder, with weights converted to fp32."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def from_weights(config, weights):
    """A model of a config.json dictionary and HF-named float32 arrays."""
    settings = {**copy.deepcopy(config), "dtype": "float32", "torch_dtype": "float32"}
    kind = transformers.CONFIG_MAPPING[settings.pop("model_type", "llama")]
    config = kind.from_dict(settings)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    state = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in weights.items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


def reset_rope(model):
    """Resets the rotary embedding: `dynamic` otherwise keeps the state of the longest forward so far."""
    rotary = model.model.rotary_emb
    rotary.inv_freq = rotary.original_inv_freq.clone()
    rotary.max_seq_len_cached = rotary.original_max_seq_len


def forward(model, ids):
    """Logits [n, vocab] of one pass."""
    reset_rope(model)
    return model(torch.tensor([list(map(int, ids))])).logits[0].numpy()


def forward_in_steps(model, ids, prompt_len):
    """Logits [n, vocab]: one pass over the prompt, then one token at a time with a KV cache."""
    reset_rope(model)
    ids = torch.tensor([list(map(int, ids))])
    out = model(ids[:, :prompt_len], use_cache=True)
    rows = [out.logits[0]]
    for position in range(prompt_len, ids.shape[1]):
        out = model(ids[:, position : position + 1], past_key_values=out.past_key_values, use_cache=True)
        rows.append(out.logits[0])
    return torch.cat(rows).numpy()


def greedy(model, prompt, count):
    """`count` greedy tokens after a prompt (lowest id on ties, no stop at EOS), and the margin of each choice."""
    reset_rope(model)
    out = model(torch.tensor([list(map(int, prompt))]), use_cache=True, logits_to_keep=1)
    tokens, margins = [], []
    for _ in range(count):
        row = out.logits[0, -1]
        best = torch.topk(row, 2).values
        tokens.append(int(torch.argmax(row)))
        margins.append(float(best[0] - best[1]))
        if len(tokens) < count:
            out = model(torch.tensor([[tokens[-1]]]), past_key_values=out.past_key_values, use_cache=True)
    return tokens, margins


def log_probabilities(logits, ids):
    """Natural log of the probability of ids[i + 1] given ids[0..i], summed in float64; one value fewer than ids."""
    rows = np.asarray(logits[: len(ids) - 1], np.float64)
    peak = rows.max(axis=-1, keepdims=True)
    norm = peak[:, 0] + np.log(np.exp(rows - peak).sum(axis=-1))
    return rows[np.arange(len(ids) - 1), np.asarray(ids[1:])] - norm


def perplexity(logprobs):
    return float(np.exp(-np.mean(logprobs)))
