"""Pictures of runs, as the bytes of PNG files. A function returns None if there are no data to show; the page then states the
reason."""

import io

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

# Okabe and Ito's colours, distinguishable with any colour vision; marks and line styles show the same distinction.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":", "-.")
GREY = "#666666"
HATCH = {False: "", True: "///"}  # by lossy
MOST_POINTS = 4000  # per mode and picture


def color(i):
    return COLORS[i % len(COLORS)]


def mark(i):
    return MARKS[i % len(MARKS)]


def png(figure, software):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, metadata={"Software": software})
    plt.close(figure)
    return buffer.getvalue()


def tidy(axes, grid="both"):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def legend_above(figure, handles, labels, columns=4):
    rows = -(-len(labels) // columns)
    figure.legend(handles, labels, loc="upper center", ncol=columns, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.2 * rows / figure.get_figheight() - 0.02))


def speedup(rates, baseline):
    """The ratio of the medians, and the smallest and largest ratio of two samples."""
    return np.median(rates) / np.median(baseline), np.min(rates) / np.max(baseline), np.max(rates) / np.min(baseline)


def comparison(labels, samples, lossy, baseline, software):
    """`samples`: tokens per second of each label; `lossy`: whether each label is lossy; `baseline`: the index of the label that
    the others are compared with, or None."""
    figure, axes = plt.subplots(1, 2 if baseline is not None else 1, figsize=(9, 0.9 + 0.5 * len(labels)), squeeze=False)
    rates_axes = axes[0][0]
    places = np.arange(len(labels))[::-1]
    for i, (y, rates) in enumerate(zip(places, samples)):
        rates_axes.barh(y, np.median(rates), height=0.6, color=color(i), alpha=0.75, hatch=HATCH[lossy[i]], edgecolor="white")
        spread = np.linspace(-0.18, 0.18, len(rates)) if len(rates) > 1 else [0]
        rates_axes.plot(rates, y + spread, mark(i), color="black", markersize=3.5, markerfacecolor="white")
    rates_axes.set_yticks(places, [f"{label} (n={len(s)})" for label, s in zip(labels, samples)])
    rates_axes.set_xlabel("tokens / s: bar: median, marks: samples")
    rates_axes.set_xlim(0, None)
    tidy(rates_axes, "x")
    if baseline is not None:
        ratio_axes = axes[0][1]
        for i, (y, rates) in enumerate(zip(places, samples)):
            middle, low, high = speedup(rates, samples[baseline])
            ratio_axes.barh(y, middle, height=0.6, color=color(i), alpha=0.75, hatch=HATCH[lossy[i]], edgecolor="white")
            ratio_axes.errorbar(middle, y, xerr=[[middle - low], [high - middle]], color="black", capsize=3, linewidth=1)
            ratio_axes.annotate(f"{middle:.2f}", (high, y), (4, 0), textcoords="offset points", va="center", fontsize=8)
        ratio_axes.axvline(1, color=GREY, linewidth=0.8, linestyle="--")
        ratio_axes.set_yticks(places, [])
        ratio_axes.set_xlabel(f"times as fast as {labels[baseline]}: medians; line: extremes")
        ratio_axes.set_xlim(0, ratio_axes.get_xlim()[1] * 1.08)
        tidy(ratio_axes, "x")
    figure.tight_layout()
    return png(figure, software)


def continuations(mode):
    """Rounds of each text and sample, in order."""
    rounds = mode.table("rounds")
    keys = np.unique(np.stack([rounds["text"], rounds["sample"]], axis=1), axis=0) if len(rounds) else []
    return [rounds.where(text=text, sample=sample) for text, sample in keys]


def medians(x, y, most=20, least=6):
    """Medians of x and y over at most `most` stretches of x with equal numbers of points, at least `least` in each."""
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, max(1, min(most, len(x) // least)))
    return [np.median(x[p]) for p in parts], [np.median(y[p]) for p in parts]


def latency(modes, software):
    figure, (total, each) = plt.subplots(1, 2, figsize=(9, 3.8))
    handles, labels, all_ms = [], [], []
    for i, mode in enumerate(modes):
        lengths, ms = [], []
        runs = [r for r in continuations(mode) if len(r) > 1]
        for rounds in runs:
            at, length = rounds["end_at_ns"], rounds["length"]
            total.plot(length, (at - at[0]) * 1e-9, color=color(i), linewidth=1, alpha=0.8)
            lengths.append(length[1:])
            ms.append(np.diff(at) * 1e-6 / np.maximum(1, rounds["tokens"][1:]))
        if not runs:
            continue
        lengths, ms = np.concatenate(lengths), np.concatenate(ms)
        step = -(-len(ms) // MOST_POINTS)
        each.plot(lengths[::step], ms[::step], mark(i), color=color(i), markersize=2.5, alpha=0.35)
        x, y = medians(lengths, ms)
        handles += each.plot(x, y, "-" + mark(i), color=color(i), markersize=4, linewidth=1.4)
        labels.append(f"{mode.label} ({len(ms)} rounds of {len(runs)} samples)")
        all_ms.append(ms)
    if not handles:
        plt.close(figure)
        return None
    ms = np.concatenate(all_ms)
    if ms.min() > 0 and ms.max() > 20 * ms.min():
        each.set_yscale("log")
        each.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
        each.yaxis.set_major_formatter("{x:g}")
        each.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    else:
        each.set_ylim(0, None)
    total.set_xlabel("generated tokens")
    total.set_ylabel("s since the first token")
    total.set_xlim(0, None)
    total.set_ylim(0, None)
    each.set_xlabel("generated tokens")
    each.set_ylabel("ms a token (a round / its tokens)")
    each.set_xlim(0, None)
    tidy(total)
    tidy(each)
    legend_above(figure, handles, labels, columns=2)
    return png(figure, software)


def wilson(stayed, proposed):
    """Wilson's 95 % interval of a share."""
    z = 1.96
    share, n = stayed / proposed, proposed
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.minimum(middle - half, share), np.maximum(middle + half, share)


def acceptance(levels, software):
    """`levels`: (index of the mode, index of the level, label, tokens proposed at each position, tokens accepted there)."""
    if not levels:
        return None
    figure, axes = plt.subplots(figsize=(9, 3.6))
    for mode, level, label, proposed, accepted in levels:
        proposed, accepted = np.asarray(proposed, float), np.asarray(accepted, float)
        share = accepted / proposed
        low, high = wilson(accepted, proposed)
        places = np.arange(1, len(share) + 1)
        axes.errorbar(places, share, yerr=[share - low, high - share], color=color(mode), marker=mark(mode),
                      linestyle=LINES[level % len(LINES)], markersize=4, linewidth=1.2, elinewidth=0.6, capsize=2,
                      markerfacecolor=color(mode) if level == 0 else "white", label=f"{label} (n={int(proposed.sum())})")  # fmt: skip
    axes.set_xlabel("place in the proposal")
    axes.set_ylabel("share of tokens that stayed")
    axes.set_ylim(-0.02, 1.05)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    tidy(axes)
    handles, labels = axes.get_legend_handles_labels()
    legend_above(figure, handles, labels, columns=2)
    return png(figure, software)
