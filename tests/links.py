#!/usr/bin/env python3
"""Links of documents lead to files and headings that exist.

  links.py ROOT      exit status 1, and a line each, for links that do not"""

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


def main():
    lines = list(broken(pathlib.Path(sys.argv[1])))
    print("\n".join(lines) or "all links lead somewhere")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
