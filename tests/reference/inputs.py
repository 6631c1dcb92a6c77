"""Copies the committed inputs into tests/data: two slices of the King James Bible and the small models trained on it.

Needed only once: python inputs.py FOLDER, where FOLDER has data/kjv.txt and models/kjv-target, models/kjv-draft. The
models saw the first 95 % of the text; both slices come from the rest and do not overlap.
"""

import pathlib
import shutil
import sys

from common import DATA

TEXTS = {"kjv_12k.txt": 12_000, "kjv_60k.txt": 60_000}
MODELS = ["kjv-target", "kjv-draft"]


def text(name):
    return (DATA / "texts" / name).read_text(encoding="utf-8")


def slices(kjv):
    """Two slices of whole verses: about 12,000 bytes after 95 % of the text, and about 60,000 bytes at its end."""
    start = kjv.index("\n", len(kjv) * 95 // 100) + 1
    end = kjv.rindex("\n", start, start + TEXTS["kjv_12k.txt"]) + 1
    yield "kjv_12k.txt", kjv[start:end]
    yield "kjv_60k.txt", kjv[kjv.index("\n", len(kjv) - TEXTS["kjv_60k.txt"]) + 1 :]


def main(folder):
    folder = pathlib.Path(folder)
    (DATA / "texts").mkdir(parents=True, exist_ok=True)
    for name, part in slices((folder / "data" / "kjv.txt").read_text(encoding="utf-8")):
        (DATA / "texts" / name).write_text(part, encoding="utf-8")
        print(f"{name}: {len(part)} bytes, starts {part[:40]!r}")
    for model in MODELS:
        target = DATA / "models" / model
        target.mkdir(parents=True, exist_ok=True)
        for file in ("config.json", "model.safetensors", "tokenizer.model"):
            shutil.copyfile(folder / "models" / model / file, target / file)
        print(f"{model}: copied")


if __name__ == "__main__":
    main(sys.argv[1])
