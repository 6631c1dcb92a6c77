#!/usr/bin/env python3
"""Links of documents lead to files and headings that exist, and paths of documents in sources to documents.

  links.py ROOT      exit status 1, and a line each, for those that do not"""

import pathlib
import re
import sys


def anchors(path):
    """GitHub's names of a document's headings."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken(root):
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root)
        if name.parts[0] in ("build", ".git", "shared"):
            continue
        text = re.sub(r"^```.*?^```|^    .*?$|`[^`\n]*`", "", path.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"\w+:", target):
                continue
            file, _, anchor = target.partition("#")
            to = path.parent / file if file else path
            if not to.exists():
                yield f"{name}: {target}: no such file"
            elif anchor and to.suffix == ".md" and anchor not in anchors(to):
                yield f"{name}: {target}: no such heading"


def misnamed(root):
    """Paths like docs/start.md in code, comments and scripts."""
    for folder in ("runtime", "kernels", "dist", "offload", "model", "decode", "launch", "configs", "tests"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".cu", ".py", ".sh", ".ini", ".sbatch") or path.name == "words.py":
                continue
            for target in re.findall(r"(?<![\w/])docs/[\w./-]*\.md", path.read_text(errors="replace")):
                if not (root / target).exists():
                    yield f"{path.relative_to(root)}: {target}: no such file"


def main():
    root = pathlib.Path(sys.argv[1])
    lines = [*broken(root), *misnamed(root)]
    print("\n".join(lines) or "all links lead somewhere")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
