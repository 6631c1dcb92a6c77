"""Pictures of speed and of latency. A function returns None if there are no data to show; the page then states the reason."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from style import GREY, WIDTH, by_panel, finish, look, plain

MOST_POINTS = 1000  # per mode and picture


def speedup(rates, baseline):
    """The ratio of the medians, and its range: the smallest and the largest ratio of two samples. The range is None if one of
    the modes has a single sample, or if both are the same mode."""
    middle = np.median(rates) / np.median(baseline)
    if rates is baseline or min(len(rates), len(baseline)) < 2:
        return middle, None
    return middle, (np.min(rates) / np.max(baseline), np.max(rates) / np.min(baseline))


def draw_bar(axes, y, value, mode, end=None):
    axes.barh(y, value, height=0.64, color=look(mode)[0], alpha=0.85)
    shown = f"{value:,.{0 if value >= 100 else 2}f}"
    axes.annotate(shown, (max(value, end or 0), y), (6, 0), textcoords="offset points", va="center", fontsize=8)


def speed(title, entries, baseline):
    """`entries`: (mode, tokens per second of its samples); `baseline`: the entry that the others are compared with, or None."""
    panels = by_panel(entries, lambda entry: entry[0].bounded)
    counts = [len(of) for _, of in panels]
    figure, grid = plt.subplots(len(panels), 2 if baseline else 1, figsize=(WIDTH, 0.4 + sum(0.8 + 0.34 * n for n in counts)),
                                squeeze=False, gridspec_kw={"height_ratios": [n + 0.6 for n in counts]})  # fmt: skip
    for (name, of), row in zip(panels, grid):
        places = range(len(of))[::-1]
        for y, (mode, rates) in zip(places, of):
            draw_bar(row[0], y, np.median(rates), mode, np.max(rates))
            if len(rates) > 1:
                row[0].plot(rates, y + np.linspace(-0.2, 0.2, len(rates)), "o", color="black", markersize=3, markerfacecolor="white")
            if baseline:
                middle, extremes = speedup(rates, baseline[1])
                draw_bar(row[1], y, middle, mode, extremes and extremes[1])
                if extremes:
                    row[1].errorbar(middle, y, xerr=[[middle - extremes[0]], [extremes[1] - middle]], color="black", capsize=3,
                                    linewidth=1)  # fmt: skip
        row[0].set_title(name)
        row[0].set_yticks(places, [f"{plain(mode.label, 32)} (n={len(rates)})" for mode, rates in of])
        row[0].set_xlabel("decoding speed (tokens/s)")
        if baseline:
            row[1].axvline(1, color=GREY, linewidth=0.8, linestyle="--")
            row[1].set_yticks(places, [])
            row[1].set_xlabel(f"speed-up over {plain(baseline[0].label, 32)}")
        for axes in row:
            axes.grid(False, axis="y")
            axes.set_xlim(0, axes.get_xlim()[1] * 1.12)
    return finish(figure, title)


def continuations(mode):
    """Rounds of each text and sample, in order."""
    rounds = mode.table("rounds")
    keys = np.unique(np.stack([rounds["text"], rounds["sample"]], axis=1), axis=0) if len(rounds) else []
    return [rounds.where(text=text, sample=sample) for text, sample in keys]


def medians(x, y, most=20, least=6):
    """Medians of x and y over at most `most` intervals of x with equal numbers of points, at least `least` in each."""
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, max(1, min(most, len(x) // least)))
    return [np.median(x[p]) for p in parts], [np.median(y[p]) for p in parts]


def points(runs):
    """Generated length and time per token in ms, of each round but the first of a continuation."""
    lengths = np.concatenate([rounds["length"][1:] for rounds in runs])
    ms = [np.diff(rounds["end_at_ns"]) * 1e-6 / np.maximum(1, rounds["tokens"][1:]) for rounds in runs]
    return lengths, np.concatenate(ms)


def latency(modes):
    drawn = [(mode, [rounds for rounds in continuations(mode) if len(rounds) > 1]) for mode in modes]
    panels = by_panel([(mode, runs) for mode, runs in drawn if runs], lambda entry: entry[0].bounded)
    if not panels:
        return None
    figure, grid = plt.subplots(len(panels), 2, figsize=(WIDTH, 0.8 + 2.9 * len(panels)), squeeze=False)
    handles, labels = [], []
    for (name, of), (total, each) in zip(panels, grid):
        longest = max(rounds["end_at_ns"][-1] - rounds["end_at_ns"][0] for _, runs in of for rounds in runs)
        unit, ns = ("s", 1e9) if longest > 1e9 else ("ms", 1e6)
        all_ms = []
        for mode, runs in of:
            color, mark = look(mode)
            for rounds in runs:
                total.plot(rounds["length"], (rounds["end_at_ns"] - rounds["end_at_ns"][0]) / ns, color=color, linewidth=1, alpha=0.8)
            lengths, ms = points(runs)
            all_ms.append(ms)
            step = -(-len(ms) // MOST_POINTS)
            each.plot(lengths[::step], ms[::step], mark, color=color, markersize=2.5, alpha=0.35, markeredgewidth=0)
            handles += each.plot(*medians(lengths, ms), "-" + mark, color=color, markersize=4)
            labels.append(f"{plain(mode.label, 32)} ({len(runs)} sample{'s' if len(runs) > 1 else ''}, {len(ms)} rounds)")
        ms = np.concatenate(all_ms)
        if ms.min() > 0 and ms.max() > 20 * ms.min():
            each.set_yscale("log")
            each.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
            each.yaxis.set_major_formatter("{x:g}")
            each.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        else:
            each.set_ylim(0, None)
        total.set_title(name)
        total.set_ylim(0, None)
        total.set_ylabel(f"time since the first token ({unit})")
        each.set_ylabel("time per token (ms)")
        for axes in (total, each):
            axes.set_xlabel("generated tokens")
            axes.set_xlim(0, None)
    return finish(figure, "Decoding time", handles, labels, columns=3)
