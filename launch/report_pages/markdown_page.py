"""A page in Markdown, with its pictures as PNG files."""

import re

from blocks import Code, Heading, Link, Paragraph, Picture, Strong, pieces, printable
from files import MARK


def inline(text):
    return "".join(one(piece) for piece in pieces(text))


def one(piece):
    if isinstance(piece, Link):
        return f"[{escaped(piece.text)}]({piece.address})"
    if isinstance(piece, Code):
        value = printable(piece).replace("`", "'").replace("|", "\\|")
        return f"`{value}`" if value.strip() else ""
    return f"**{escaped(piece)}**" if isinstance(piece, Strong) else escaped(piece)


def escaped(value):
    return re.sub(r"([\\`*_{}\[\]<>#|~&$!])", r"\\\1", printable(value))


def lines_of(block):
    if isinstance(block, Heading):
        return ["#" * block.level + " " + inline(block.text)]
    if isinstance(block, Paragraph):
        return [inline(block.text)]
    if isinstance(block, Picture):
        return [f"![{escaped(block.alt)}]({block.name}.png)", "", inline(block.caption)]
    rows = [block.headings, ["---"] * len(block.headings)]
    lines = ["| " + " | ".join(row) + " |" for row in rows + [[inline(cell) for cell in row] for row in block.rows]]
    return [f"<details><summary>{escaped(block.summary)}</summary>", "", *lines, "", "</details>"] if block.summary else lines


def markdown(page):
    blocks = [[MARK], ["# " + escaped(page.title)], *map(lines_of, page.blocks)]
    return ("\n\n".join("\n".join(lines) for lines in blocks) + "\n").encode()
