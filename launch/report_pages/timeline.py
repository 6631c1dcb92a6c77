"""The picture of a timeline: what the streams of a rank did in some rounds."""

import matplotlib.pyplot as plt
import numpy as np

from style import GREY, WIDTH, finish, plain

# Kinds of operations: prefixes of their names, label, colour, hatch.
KINDS = (
    (("matmul", "product"), "matrix products", "#0072B2", ""),
    (("attention", "attend"), "attention", "#E69F00", ""),
    (("choose_chunks", "gather_chunks", "slot_step", "pool_weights"), "KV selection", "#009E73", ""),
    (("all_reduce",), "all-reduce", "#D55E00", ""),
    (("kv_h2d", "rows_h2d"), "copies to device", "#CC79A7", ""),
    (("kv_d2h", "rows_d2h"), "copies to host", "#56B4E9", ""),
    (("kv_stall", "rows_stall"), "waiting for KV", "#dddddd", "////"),
    (("",), "other", GREY, ""),
)
QUIET = ("wait",)  # waits between streams are not drawn
STREAMS = {"compute": "full model", "h2d": "host to device", "d2h": "device to host"}
LINKS = ("h2d", "d2h")  # streams whose copies are drawn one by one, with edges
SHOWN_ROUNDS = 2
MOST_COPIES = 500  # of a link; more are merged


def kind_of(name):
    return next(i for i, (begins, *_) in enumerate(KINDS) if name.startswith(begins))


def window(mode, spans):
    """The ends of the last rounds that the spans cover; None: there are fewer than two."""
    if not len(spans):
        return None
    first = spans["begin_at_ns"].min()
    last = (spans["begin_at_ns"] + spans["duration_ns"]).max()
    ends = mode.table("rounds")["end_at_ns"]
    ends = np.sort(ends[(ends >= first - 1_000_000) & (ends <= last + 1_000_000)])
    # In the first rounds caches and the link are filled: the last ones are drawn.
    return ends[-min(len(ends), SHOWN_ROUNDS + 1):] if len(ends) > 1 else None


def merged(bars, gap):
    """Bars (begin, length) without gaps that are shorter than `gap`."""
    out = []
    for begin, length in sorted(bars):
        if out and begin - out[-1][0] - out[-1][1] < gap:
            out[-1] = (out[-1][0], max(out[-1][1], begin + length - out[-1][0]))
        else:
            out.append((begin, length))
    return out


def lanes_of(spans, names, begin, end):
    """Bars in ms, by stream and kind."""
    starts, stops = spans["begin_at_ns"], spans["begin_at_ns"] + spans["duration_ns"]
    seen = (stops > begin) & (starts < end)
    lanes = {}
    for stream, name, start, stop in zip(spans["stream"][seen], spans["name"][seen], starts[seen], stops[seen]):
        if names[name] not in QUIET:
            bars = lanes.setdefault(names[stream], {}).setdefault(kind_of(names[name]), [])
            start, stop = max(start, begin), min(stop, end)
            bars.append(((start - begin) * 1e-6, (stop - start) * 1e-6))
    return lanes


def timeline(mode, names):
    spans = mode.table("spans")
    ends = window(mode, spans)
    if ends is None:
        return None
    begin, end = ends[0], ends[-1]
    lanes = lanes_of(spans, names, begin, end)
    order = [s for s in lanes if s not in STREAMS] + [s for s in STREAMS if s in lanes]
    if not order:
        return None
    figure, axes = plt.subplots(figsize=(WIDTH, 1.4 + 0.36 * len(order)))
    for row, stream in enumerate(order):
        for kind, bars in sorted(lanes[stream].items()):
            _, _, face, hatch = KINDS[kind]
            edge = "white" if stream in LINKS else "#aaaaaa" if hatch else face
            if stream not in LINKS or len(bars) > MOST_COPIES:
                bars = merged(bars, (end - begin) * 1e-6 / 1000)
            axes.broken_barh(bars, (-row - 0.36, 0.72), facecolors=face, hatch=hatch, edgecolor=edge, linewidth=0.3)
    for at in ends[1:-1]:
        axes.axvline((at - begin) * 1e-6, color="black", linewidth=1, linestyle="--")
    axes.set_yticks([-row for row in range(len(order))], [STREAMS.get(s, plain(s, 24)) for s in order])
    axes.grid(False, axis="y")
    axes.set_xlim(0, (end - begin) * 1e-6)
    axes.set_xlabel("time (ms)")
    used = sorted({kind for kinds in lanes.values() for kind in kinds})
    handles = [plt.Rectangle((0, 0), 1, 1, facecolor=KINDS[k][2], hatch=KINDS[k][3], edgecolor="#aaaaaa", linewidth=0.2) for k in used]
    return finish(figure, f"Timeline of compute and link: {plain(mode.label)}", handles, [KINDS[k][1] for k in used], columns=8)
