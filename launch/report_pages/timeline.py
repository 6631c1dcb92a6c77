"""Bar charts like those of charts.py: the timeline of the link and compute, and memory by plan."""

import matplotlib.pyplot as plt
import numpy as np

from charts import COLORS, GREY, legend_above, png, tidy

# Kinds of operations: prefixes of their names, label, colour, hatch.
KINDS = (
    (("matmul", "product"), "products", COLORS[0], ""),
    (("attention", "attend"), "attention", COLORS[1], ""),
    (("choose_chunks", "gather_chunks", "slot_step", "pool_weights"), "choosing, gathering", COLORS[2], ""),
    (("all_reduce",), "sums over ranks", COLORS[5], ""),
    (("kv_h2d", "rows_h2d"), "copies to the device", COLORS[3], ""),
    (("kv_d2h", "rows_d2h"), "copies to the host", COLORS[4], ""),
    (("kv_stall", "rows_stall"), "waiting for tiles", "#dddddd", "////"),
)
OTHER = "the rest"
QUIET = ("wait",)  # waits between streams are not drawn
STREAMS = {"compute": "whole model", "h2d": "link to device", "d2h": "link to host"}
LINKS = ("h2d", "d2h")  # streams whose copies are drawn with edges
SHOWN_ROUNDS = 2


def kind_of(name):
    return next((i for i, (begins, *_) in enumerate(KINDS) if name.startswith(begins)), len(KINDS))


def window(mode, spans):
    """The ends of the last rounds that the spans cover; None: there are fewer than two."""
    if not len(spans):
        return None
    rounds = mode.table("rounds")
    first = spans["begin_at_ns"].min()
    last = (spans["begin_at_ns"] + spans["duration_ns"]).max()
    ends = rounds["end_at_ns"]
    ends = np.sort(ends[(ends >= first - 1_000_000) & (ends <= last + 1_000_000)])
    if len(ends) < 2:
        return None
    # The first rounds fill caches and the link: show the last ones.
    return ends[-min(len(ends), SHOWN_ROUNDS + 1):]


def link(mode, names, software):
    spans = mode.table("spans")
    ends = window(mode, spans)
    if ends is None:
        return None
    begin, end = ends[0], ends[-1]
    starts, stops = spans["begin_at_ns"], spans["begin_at_ns"] + spans["duration_ns"]
    seen = (stops > begin) & (starts < end)
    lanes = {}
    for stream, name, start, stop in zip(spans["stream"][seen], spans["name"][seen], starts[seen], stops[seen]):
        stream, name = names[stream], names[name]
        if name in QUIET:
            continue
        bars = lanes.setdefault(stream, {}).setdefault(kind_of(name), [])
        start, stop = max(start, begin), min(stop, end)
        bars.append(((start - begin) * 1e-6, (stop - start) * 1e-6))
    order = [s for s in lanes if s not in STREAMS] + [s for s in STREAMS if s in lanes]
    if not order:
        return None
    figure, axes = plt.subplots(figsize=(9, 1.1 + 0.36 * len(order)))
    used = set()
    for row, stream in enumerate(order):
        for kind, bars in lanes[stream].items():
            face, hatch = (KINDS[kind][2], KINDS[kind][3]) if kind < len(KINDS) else (GREY, "")
            edge = "white" if stream in LINKS else "#aaaaaa" if hatch else face
            axes.broken_barh(bars, (-row - 0.36, 0.72), facecolors=face, hatch=hatch, edgecolor=edge, linewidth=0.3)
            used.add(kind)
    for at in ends[1:-1]:
        axes.axvline((at - begin) * 1e-6, color="black", linewidth=0.8, linestyle="--")
    axes.set_yticks([-row for row in range(len(order))], [STREAMS.get(s, s) for s in order])
    axes.set_xlim(0, (end - begin) * 1e-6)
    axes.set_xlabel("ms since the round before was decided; dashed: the next one was")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = [], []
    for kind in sorted(used):
        face, hatch = (KINDS[kind][2], KINDS[kind][3]) if kind < len(KINDS) else (GREY, "")
        handles.append(plt.Rectangle((0, 0), 1, 1, facecolor=face, hatch=hatch, edgecolor="#aaaaaa", linewidth=0.2))
        labels.append(KINDS[kind][1] if kind < len(KINDS) else OTHER)
    legend_above(figure, handles, labels)
    return png(figure, software)


def scale_of(most):
    for name, size in (("GB", 1e9), ("MB", 1e6)):
        if most >= size:
            return name, size
    return "kB", 1e3


def memory(plans, software):
    """`plans`: (label, {"device": {component: bytes}, "host": ...}) of one rank."""
    bars = []
    for label, plan in plans:
        for place in ("device", "host"):
            parts = plan.get(place)
            parts = {k: v for k, v in parts.items() if isinstance(v, int) and v > 0} if isinstance(parts, dict) else {}
            if parts:
                bars.append((f"{label}: {place}", parts))
    if not bars:
        return None
    most = max(sum(parts.values()) for _, parts in bars)
    unit, size = scale_of(most)
    components = []
    for _, parts in bars:
        components += [name for name in parts if name not in components]
    figure, axes = plt.subplots(figsize=(9, 1.3 + 0.34 * len(bars)))
    looks = {name: (COLORS[i % len(COLORS)], "" if i < len(COLORS) else "////") for i, name in enumerate(components)}
    for row, (_, parts) in enumerate(bars):
        left = 0
        for name, n in parts.items():
            face, hatch = looks[name]
            axes.barh(-row, n / size, left=left / size, height=0.7, color=face, hatch=hatch, edgecolor="white",
                      linewidth=0.4)  # fmt: skip
            left += n
        axes.annotate(f"{left / size:.3g}", (left / size, -row), (3, 0), textcoords="offset points", va="center",
                      fontsize=8)  # fmt: skip
    axes.set_yticks([-row for row in range(len(bars))], [label for label, _ in bars], fontsize=8)
    axes.set_xlabel(f"{unit} of a rank, as planned")
    axes.set_xlim(0, most / size * 1.08)
    tidy(axes, "x")
    handles = [plt.Rectangle((0, 0), 1, 1, facecolor=f, hatch=h, edgecolor="white") for f, h in looks.values()]
    legend_above(figure, handles, list(looks))
    return png(figure, software)
