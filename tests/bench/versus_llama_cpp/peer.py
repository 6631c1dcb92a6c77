"""One measured run of llama.cpp, through the C interface, so that Python adds a few microseconds per token only.

    peer.py MODEL.gguf CONTEXT NEW THREADS 0|1(flash attention) f16|bf16(keys and values) IDS.json

Prints one JSON object: prefill_ms of the first CONTEXT ids, tpot_ms of the NEW - 1 greedy tokens after the first.
"""

import ctypes
import json
import sys
import time

import llama_cpp as lc
import numpy as np

KV_TYPES = {"f16": 1, "q8_0": 8, "bf16": 30}  # ggml_type; the Python package names only the first


@lc.llama_log_callback
def silent(_level, _text, _data):
    pass


def decode(context, ids, batch: int) -> None:
    for begin in range(0, len(ids), batch):
        part = (lc.llama_token * len(ids[begin : begin + batch]))(*ids[begin : begin + batch])
        status = lc.llama_decode(context, lc.llama_batch_get_one(part, len(part)))
        if status != 0:
            sys.exit(f"peer.py: llama_decode returned {status}")


def main() -> None:
    path, length, new, threads, flash = sys.argv[1], *map(int, sys.argv[2:6])
    with open(sys.argv[7], encoding="utf-8") as file:
        ids = json.load(file)[:length]
    lc.llama_log_set(silent, ctypes.c_void_p())
    lc.llama_backend_init()
    model = lc.llama_model_load_from_file(path.encode(), lc.llama_model_default_params())
    params = lc.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 8192, 2048, 512
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lc.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.type_k = params.type_v = KV_TYPES[sys.argv[6]]
    context = lc.llama_init_from_model(model, params)
    vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))

    def best() -> int:
        return int(np.ctypeslib.as_array(lc.llama_get_logits_ith(context, -1), (vocab,)).argmax())

    decode(context, ids[:16], params.n_batch)  # warms up the pages of the weights and the threads
    lc.llama_memory_clear(lc.llama_get_memory(context), True)

    begin = time.perf_counter()
    decode(context, ids, params.n_batch)
    token = best()
    prefilled = time.perf_counter()
    for _ in range(new - 1):
        decode(context, [token], params.n_batch)
        token = best()
    end = time.perf_counter()
    print(json.dumps({"prefill_ms": (prefilled - begin) * 1e3, "tpot_ms": (end - prefilled) * 1e3 / (new - 1)}))


if __name__ == "__main__":
    main()
