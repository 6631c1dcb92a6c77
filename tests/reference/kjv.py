"""Goldens of the small trained models: tests/data/models/<name>/golden.json and golden.safetensors."""

import json

import numpy as np
import safetensors.torch

import decoding
import hf_llama
import inputs
from common import DATA, versions
from tokenizer_goldens import sentencepiece_encoder

SCORED = 2000  # ids of texts/kjv_60k.txt; the models were trained up to 2,048 positions
ROWS = np.array([0, 1, 254, 255, 256, 257, 511, 512, 1000, 1998, 1999])
# (first id, count) of the prompts that are slices of texts/kjv_12k.txt
SLICES = {"kjv-target": [(500, 60), (2500, 700)], "kjv-draft": [(1300, 60), (1800, 700)]}


def prompts(encode, slices):
    """Three prompts: BOS and a few words, and two slices of a text."""
    opening = "And it came to pass"
    result = [{"text": opening, "ids": [1, *encode(opening)]}]
    ids = encode(inputs.text("kjv_12k.txt"))
    for start, count in slices:
        result.append({"text": f"ids {start}..{start + count} of kjv_12k.txt", "ids": ids[start : start + count]})
    return result


def main():
    for name in inputs.MODELS:
        folder = DATA / "models" / name
        config = json.loads((folder / "config.json").read_text())
        weights = {
            key: value.float().numpy()
            for key, value in safetensors.torch.load_file(folder / "model.safetensors").items()
        }
        encode = sentencepiece_encoder(folder / "tokenizer.model")
        ids = [1, *encode(inputs.text("kjv_60k.txt"))][:SCORED]
        print(f"{name}: {len(weights)} tensors")
        decoding.write_golden(
            folder,
            f"{name}, fp16 checkpoint, transformers in fp32; ids by sentencepiece; scored: BOS and the first ids of "
            "texts/kjv_60k.txt, 2,000 in all",
            hf_llama.load(folder),
            config,
            weights,
            prompts(encode, SLICES[name]),
            ids,
            ROWS,
            tokenizer_versions=versions("sentencepiece"),
        )


if __name__ == "__main__":
    main()
