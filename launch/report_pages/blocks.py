"""The contents of a page, as both formats have them: headings, paragraphs, tables, pictures.

A text is a str, a Code, a Strong, a Link, or a list of these. Formats escape it: it may come from a record."""

from collections import namedtuple

Heading = namedtuple("Heading", "level text")
Paragraph = namedtuple("Paragraph", "text")
Table = namedtuple("Table", "headings rows summary")  # with a summary, the table is folded
Picture = namedtuple("Picture", "name alt caption")
Link = namedtuple("Link", "text address")


class Code(str):
    """Text that is shown literally."""


class Strong(str):
    """Text in bold."""


def pieces(text):
    return text if isinstance(text, list) else [text]


def printable(value):
    return "".join(c if c.isprintable() else " " for c in str(value))


class Page:
    def __init__(self, title):
        self.title, self.blocks, self.images = title, [], {}  # images: bytes by file name

    def heading(self, level, text):
        self.blocks.append(Heading(level, text))

    def paragraph(self, *text):
        self.blocks.append(Paragraph(list(text)))

    def table(self, headings, rows, summary=""):
        self.blocks.append(Table(headings, list(rows), summary))

    def picture(self, name, alt, images, caption, otherwise):
        """Adds a picture, given as bytes by format, with its caption, or the reason why there is none."""
        if images is None:
            self.paragraph(otherwise)
            return
        self.images.update({f"{name}.{kind}": content for kind, content in images.items()})
        self.blocks.append(Picture(name, alt, caption))
