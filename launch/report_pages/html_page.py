"""A page in HTML, in one file: pictures are inline SVG, and nothing is loaded from elsewhere. The page is well-formed XML."""

import html
import re

from blocks import Code, Heading, Link, Paragraph, Picture, Strong, pieces, printable
from files import MARK

STYLE = """
body { font: 15px/1.5 sans-serif; color: #222; max-width: 920px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.3em; margin-top: 2em; border-bottom: 1px solid #ccc; } h3 { font-size: 1.1em; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
th, td { border: 1px solid #ddd; padding: 2px 8px; text-align: left; vertical-align: top; } th { background: #f4f4f4; }
code { background: #f4f4f4; overflow-wrap: anywhere; } figure { margin: 1em 0; } svg { width: 100%; height: auto; }
figcaption { font-size: 13px; color: #555; } summary { cursor: pointer; }
"""
# The browser loads nothing and runs no script, whatever a record contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def escaped(value):
    return html.escape(printable(value))


def inline(text):
    return "".join(one(piece) for piece in pieces(text))


def one(piece):
    if isinstance(piece, Link):
        return f'<a href="{escaped(piece.address)}">{escaped(piece.text)}</a>'
    for kind, tag in ((Code, "code"), (Strong, "strong")):
        if isinstance(piece, kind):
            return f"<{tag}>{escaped(piece)}</{tag}>"
    return escaped(piece)


def svg(name, alt, content):
    """A picture, with ids that no other picture of the page has."""
    drawing = content[len(MARK):].strip()
    drawing = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", drawing)
    return drawing.replace("<svg", f'<svg role="img" aria-label="{escaped(alt)}"', 1)


def element(page, number, block):
    if isinstance(block, Heading):
        return f'<h{block.level} id="{number}">{inline(block.text)}</h{block.level}>'
    if isinstance(block, Paragraph):
        return f"<p>{inline(block.text)}</p>"
    if isinstance(block, Picture):
        drawing = svg(block.name, block.alt, page.images[block.name + ".svg"].decode())
        return f"<figure>{drawing}<figcaption>{inline(block.caption)}</figcaption></figure>"
    rows = [("th", block.headings)] + [("td", row) for row in block.rows]
    lines = ["<tr>" + "".join(f"<{tag}>{inline(cell)}</{tag}>" for cell in row) + "</tr>" for tag, row in rows]
    table = "\n".join(["<table>", *lines, "</table>"])
    return f"<details><summary>{escaped(block.summary)}</summary>\n{table}</details>" if block.summary else table


def web_page(page):
    sections = [f'<li><a href="#{i}">{inline(block.text)}</a></li>' for i, block in enumerate(page.blocks)
                if isinstance(block, Heading) and block.level == 2]  # fmt: skip
    body = "\n".join(element(page, i, block) for i, block in enumerate(page.blocks))
    return f"""{MARK}
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>
<title>{escaped(page.title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escaped(page.title)}</h1>
<ul>{"".join(sections)}</ul>
{body}
</body>
</html>
""".encode()
