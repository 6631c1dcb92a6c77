"""Makes everything under tests/data again, in order of dependency: python tests/reference/make_all.py [part ...]

Parts: tiny, blocks, quantised, gguf, packed, families, tokenizers, kjv, smollm2, variants, scoring. All of them together take some minutes, and a
network connection to fetch the demo model. The inputs (texts, kjv models) are in the tree; inputs.py has their origin.
"""

import sys

import families
import gguf_blocks
import gguf_models
import kjv
import packed_models
import quantised_files
import scoring
import smollm2
import tiny_models
import tokenizer_files
import tokenizer_ggufs
import tokenizer_goldens
import variants

PARTS = {
    "tiny": [tiny_models],
    "blocks": [gguf_blocks],
    "quantised": [quantised_files],
    "gguf": [gguf_models],
    "packed": [packed_models],
    "families": [families],
    "tokenizers": [tokenizer_files, tokenizer_ggufs, tokenizer_goldens],
    "kjv": [kjv],
    "smollm2": [smollm2],
    "variants": [variants],
    "scoring": [scoring],
}


def main(names):
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(f"unknown part {unknown[0]!r}; parts are {', '.join(PARTS)}")
    for name in names or PARTS:
        for module in PARTS[name]:
            print(f"-- {name}: {module.__name__}.py", flush=True)
            module.main()


if __name__ == "__main__":
    main(sys.argv[1:])
