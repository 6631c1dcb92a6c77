#!/usr/bin/env python3
"""Rates of PyTorch and HF transformers on this device, if they are installed: JSON lines like those of bench_device and
bench_step.

  torch_rates.py sdpa [CONTEXT...]         prefill attention of 7B: the last 256 rows of a context, 32 heads of 128, f16
  torch_rates.py offloaded CONTEXT [STEPS] a decode step of a 7B-shaped Llama with random f16 weights and its KV cache
                                           offloaded to host memory (transformers' OffloadedCache)

Runs on a GPU, or on the CPU with TORCH_RATES_DEVICE=cpu (and a model of TORCH_RATES_LAYERS layers), to test the script.
"""
import json
import os
import sys
import time

import torch

DEVICE = os.environ.get("TORCH_RATES_DEVICE", "cuda")
TYPE = torch.float16 if DEVICE == "cuda" else torch.float32
LAYERS = int(os.environ.get("TORCH_RATES_LAYERS", "32"))
HEADS, DIM, ROWS = 32, 128, 256


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def median_seconds(work, repeats):
    work()
    seconds = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[len(seconds) // 2]


def name():
    return torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"


def sdpa(contexts):
    for context in contexts:
        q = torch.randn(1, HEADS, ROWS, DIM, device=DEVICE, dtype=TYPE)
        k, v = (torch.randn(1, HEADS, context, DIM, device=DEVICE, dtype=TYPE) for _ in range(2))
        # The rows are the last ones of the context, so the mask is causal from its lower right corner.
        mask = torch.ones(ROWS, context, device=DEVICE, dtype=torch.bool).tril(context - ROWS)
        try:
            from torch.nn.attention.bias import causal_lower_right
            causal = causal_lower_right(ROWS, context)
            torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        except (ImportError, RuntimeError):
            causal = mask
        s = median_seconds(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal), 21)
        flops = 4 * HEADS * DIM * (ROWS * (context - ROWS) + ROWS * (ROWS + 1) / 2)
        print(json.dumps({"bench": "torch_sdpa", "device": name(), "torch": torch.__version__, "rows": ROWS,
                          "context": context, "us": round(s * 1e6, 2), "tflops": round(flops / s * 1e-12, 2)}), flush=True)


def offloaded(context, steps):
    import transformers
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=32000, hidden_size=HEADS * DIM, intermediate_size=11008, num_hidden_layers=LAYERS,
                         num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=131072)
    torch.set_default_dtype(TYPE)
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).eval()
    try:
        from transformers import OffloadedCache
        cache = OffloadedCache()
    except ImportError:  # transformers 4.56 and later
        from transformers import DynamicCache
        cache = DynamicCache(config=config, offloading=DEVICE == "cuda")
    chunk = 1024
    with torch.no_grad():
        for first in range(0, context, chunk):
            ids = torch.randint(32000, (1, min(chunk, context - first)), device=DEVICE)
            model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        one = torch.randint(32000, (1, 1), device=DEVICE)
        s = median_seconds(lambda: model(one, past_key_values=cache, use_cache=True, logits_to_keep=1), steps)
    print(json.dumps({"bench": "hf_offloaded", "device": name(), "transformers": transformers.__version__,
                      "context": context, "layers": LAYERS, "step_ms": round(s * 1e3, 3)}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "sdpa":
        sdpa([int(c) for c in sys.argv[2:]] or [4096, 32768, 131072])
    elif len(sys.argv) > 2 and sys.argv[1] == "offloaded":
        offloaded(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 7)
    else:
        sys.exit(__doc__)
