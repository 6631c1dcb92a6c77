"""llama.cpp's batched bench through its C interface: samples that share a prompt, one token of each per batch.

    batched_peer.py MODEL.gguf PROMPT NEW THREADS 0|1(flash attention) f16|bf16(keys and values) IDS.json B

Prints one JSON object: prefill_ms of the first PROMPT ids, and decode_ms of NEW - 1 tokens of each of B sequences after
it. Like llama-batched-bench with a shared prompt (-pps) it samples nothing: every sequence repeats the same token.
"""

import ctypes
import json
import sys
import time

import llama_cpp as lc

from peer import KV_TYPES, decode, silent


def main() -> None:
    path, length, new, threads, flash = sys.argv[1], *map(int, sys.argv[2:6])
    with open(sys.argv[7], encoding="utf-8") as file:
        ids = json.load(file)[:length]
    beside = int(sys.argv[8])
    lc.llama_log_set(silent, ctypes.c_void_p())
    lc.llama_backend_init()
    model = lc.llama_model_load_from_file(path.encode(), lc.llama_model_default_params())
    params = lc.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = length + beside * new + 256, 2048, 512
    params.n_seq_max, params.kv_unified = beside, True
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lc.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.type_k = params.type_v = KV_TYPES[sys.argv[6]]
    context = lc.llama_init_from_model(model, params)
    memory = lc.llama_get_memory(context)

    decode(context, ids[:16], params.n_batch)  # warms up the pages of the weights and the threads
    lc.llama_memory_clear(memory, True)
    begin = time.perf_counter()
    decode(context, ids, params.n_batch)
    lc.llama_synchronize(context)
    prefilled = time.perf_counter()
    for sequence in range(1, beside):
        lc.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
    batch = lc.llama_batch_init(beside, 0, 1)
    for step in range(new - 1):
        batch.n_tokens = beside
        for row in range(beside):
            batch.token[row], batch.pos[row] = ids[-1], length + step
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, row, 1
        status = lc.llama_decode(context, batch)
        if status != 0:
            sys.exit(f"batched_peer.py: llama_decode returned {status}")
        lc.llama_synchronize(context)
    end = time.perf_counter()
    print(json.dumps({"prefill_ms": (prefilled - begin) * 1e3, "decode_ms": (end - prefilled) * 1e3}))


if __name__ == "__main__":
    main()
