#!/usr/bin/env python3
"""Logits of quantised files by --activations, compared with those of llama.cpp's CPU backends.

  logits.py TRIREME FILE.gguf...

A text of at most 64 tokens goes through each. llama.cpp runs with and without its repacked kernels, one token at a time
and all at once, with and without flash attention. Prints the largest difference and the root mean square one, relative to
the largest logit: between llama.cpp's ways, and of each of ours from the nearest of them. Requires llama_cpp, h5py."""

import itertools
import os
import subprocess
import sys
import tempfile

import h5py
import llama_cpp
import numpy as np

TEXT = ("In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was "
        "upon the face of the deep. And the Spirit of God moved upon the face of the waters.")


def theirs(path, repacked, batch, flash):
    plain = llama_cpp.llama_model_default_params

    def params():
        p = plain()
        p.use_extra_bufts = repacked
        return p

    llama_cpp.llama_model_default_params = params
    try:
        model = llama_cpp.Llama(path, n_ctx=256, n_batch=64, n_ubatch=batch, n_threads=2, logits_all=True, flash_attn=flash, verbose=False)
    finally:
        llama_cpp.llama_model_default_params = plain
    ids = model.tokenize(TEXT.encode(), add_bos=True)
    model.eval(ids)
    return ids, np.array(model.scores[:len(ids)], dtype=np.float64)


def ours(trireme, path, activations):
    with tempfile.TemporaryDirectory() as folder:
        text, out = f"{folder}/text.txt", f"{folder}/logits.h5"
        with open(text, "w", encoding="utf-8") as f:
            f.write(TEXT)
        subprocess.run([trireme, "score", "-m", path, "-f", text, "--activations", activations, "--dump-logits", out, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        with h5py.File(out) as f:
            return f["logits"][:].astype(np.float64)


def distance(a, b):
    scale = np.abs(b).max()
    return np.abs(a - b).max() / scale, np.sqrt(((a - b) ** 2).mean()) / scale


def main():
    trireme, *paths = sys.argv[1:]
    for path in paths:
        ways = {}
        for repacked, batch, flash in itertools.product((True, False), (1, 64), (False, True)):
            ids, ways[repacked, batch, flash] = theirs(path, repacked, batch, flash)
        between = [distance(ways[a], ways[b]) for a, b in itertools.combinations(ways, 2)]
        print(f"{os.path.basename(path)}, {len(ids)} tokens: llama.cpp's ways differ by at most {max(m for m, _ in between):.1e} "
              f"(root mean square {max(r for _, r in between):.1e})")
        for activations in ("q8", "q16", "bf16", "f32"):
            mine = ours(trireme, path, activations)
            assert mine.shape == ways[True, 1, False].shape, (mine.shape, ways[True, 1, False].shape)
            near = [distance(mine, w) for w in ways.values()]
            print(f"  {activations:5} {min(m for m, _ in near):.1e} (root mean square {min(r for _, r in near):.1e}); from the farthest "
                  f"{max(m for m, _ in near):.1e} ({max(r for _, r in near):.1e})", flush=True)


if __name__ == "__main__":
    main()
