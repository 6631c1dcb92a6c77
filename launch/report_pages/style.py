"""The common style of pictures: fonts, colours of modes and of memory, titles, legends, panels, image files."""

import io
import re
import textwrap
import warnings
import zlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

from files import MARK, SOFTWARE

# Colours of Okabe and Ito (exact modes) and of Tol's muted scheme (eviction policies), which any colour vision distinguishes.
# Marks show the same distinction. A colour has one meaning: tests/record.py checks it.
EXACT = {"none": ("#666666", "o"), "ngram": ("#56B4E9", "v"), "draft": ("#E69F00", "s"), "window": ("#CC79A7", "D"),
         "h2o+full": ("#D55E00", "^"), "retrieval": ("#009E73", "P"), "tree": ("#332288", "X"), "triforce": ("#0072B2", "h")}  # fmt: skip
POLICIES = {"h2o": ("#CC6677", "^"), "streaming": ("#88CCEE", "s"), "tova": ("#AA4499", "v"), "snapkv": ("#117733", "D"),
            "pyramidkv": ("#882255", "P"), "adakv": ("#DDCC77", "o"), "knorm": ("#999933", "X"), "keydiff": ("#661100", "*"), "expected": ("#6699CC", "p"), "random": ("#44AA99", "h")}  # fmt: skip
OTHERS = ("#7F3C8D", "#B15928", "#228833", "#AA4466", "#A6CE39", "#FB9A99")  # by a digest of the name
MARKS = "os^Dv<>p"
SAME = {"full": "none", "draft+retrieval": "triforce", "h2o": "h2o+full"}  # other names of exact modes, without "+full"
LOSSY = "Lossy: KV cache with eviction"
GREY = "#666666"
WIDTH = 9  # inches, at 100 dots each


def set_style():
    plt.rcdefaults()
    plt.rcParams.update({
        "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8, "figure.titlesize": 11,
        "axes.titlelocation": "left", "axes.titleweight": "bold", "figure.titleweight": "bold",
        "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.grid": True,
        "grid.color": "#dddddd", "grid.linewidth": 0.6, "legend.frameon": False, "lines.linewidth": 1.4, "hatch.linewidth": 0.6,
        "savefig.dpi": 100, "svg.fonttype": "path", "svg.hashsalt": SOFTWARE})  # fmt: skip
    warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font does not have


def look(mode):
    """The colour and mark of a mode, by its name. Variants of a mode (none@12, parallel samples) have a lighter colour."""
    name = mode.name.split("@")[0]
    if mode.bounded:
        known = POLICIES.get(name)
    else:
        short = re.sub(r"\+full$", "", name)
        known = EXACT.get(SAME.get(short, short))
    digest = zlib.crc32(name.encode(errors="replace"))
    color, mark = known or (OTHERS[digest % len(OTHERS)], MARKS[digest // 8 % len(MARKS)])
    if "@" in mode.name or mode.side_by_side != 1:
        color = "#" + "".join(f"{(int(color[i:i + 2], 16) + 255) // 2:02X}" for i in (1, 3, 5))
    return color, mark


def plain(name, most=60):
    """A name from a record, to be drawn as it is: no mathematics, no control characters, not too long."""
    name = "".join(c if c.isprintable() else " " for c in str(name))
    return (name if len(name) <= most else name[:most - 3] + "...").replace("$", r"\$")


def wrapped(name, width):
    return textwrap.fill(plain(name, 4 * width), width)


def by_panel(items, is_lossy):
    """(title, items) of the panel of exact modes and of that of lossy ones, as far as there are any."""
    panels = [("Exact", [x for x in items if not is_lossy(x)]), (LOSSY, [x for x in items if is_lossy(x)])]
    return [(title, of) for title, of in panels if of]


def finish(figure, title, handles=(), labels=(), columns=4):
    """Adds the title and, below it, the legend; returns the bytes of the picture by format."""
    height = figure.get_figheight()
    figure.suptitle(title, x=0.01, y=1 - 0.06 / height, ha="left", va="top").set_in_layout(False)
    rows = -(-len(labels) // columns)
    if rows:
        figure.legend(handles, labels, loc="upper left", ncol=columns, bbox_to_anchor=(0, 1 - 0.28 / height), borderaxespad=0.2)
    figure.tight_layout(rect=(0, 0, 1, 1 - (0.28 + 0.2 * rows) / height))
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", metadata={"Software": SOFTWARE})
    figure.savefig(svg, format="svg", metadata={"Date": None})
    plt.close(figure)
    # Without the XML header, whose DTD is on another server, metadata, and comments.
    drawing = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg.getvalue()[svg.getvalue().index("<svg"):], flags=re.S)
    return {"png": png.getvalue(), "svg": f"{MARK}\n{drawing}".encode()}
