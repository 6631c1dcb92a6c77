"""Acceptance of drafted tokens: rates by level and position in the draft, and their picture."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from records import text, whole
from style import WIDTH, by_panel, finish, look, plain

LINES = ("-", "--", ":", "-.")
LEAST = 5  # drafted tokens at a position, for it to be drawn


def levels_of(run):
    """(mode, level, label, tokens drafted at each position, tokens accepted there) of the levels that verified any token."""
    out = []
    for mode in run.modes:
        for i, level in enumerate(mode.levels or counted(mode)):
            proposed, accepted = level.get("proposed_at"), level.get("accepted_at")
            if not isinstance(proposed, list) or not isinstance(accepted, list) or len(proposed) != len(accepted):
                continue
            pairs = [(whole(p), whole(a)) for p, a in zip(proposed, accepted)]
            pairs = pairs[:next((k for k, (p, _) in enumerate(pairs) if p <= 0), len(pairs))]
            if pairs and all(0 <= a <= p for p, a in pairs):
                chain = text(level.get("chain"), f"level {i}")
                label = chain if chain.startswith(mode.label) else f"{mode.label}: {chain}"
                out.append((mode, i, label, *np.array(pairs, float).T))
    return out


def counted(mode):
    """Levels of a batch, whose record has no sums, but a row for each round."""
    checks = mode.table("checks")
    for level in np.unique(checks["level"]):
        of = checks.where(level=level)
        places = range(int(of["proposed"].max(initial=0)))
        yield {"chain": f"level {level}", "proposed_at": [int(np.sum(of["proposed"] > p)) for p in places],
               "accepted_at": [int(np.sum(of["accepted"] > p)) for p in places]}  # fmt: skip


def interval(accepted, proposed):
    """Wilson's 95 % interval of each rate; NaN for a single token."""
    z, n, rate = 1.96, proposed, accepted / proposed
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    single = np.where(n > 1, 0, np.nan)
    return np.minimum(middle - half, rate) + single, np.maximum(middle + half, rate) + single


def acceptance(levels):
    panels = by_panel(levels, lambda entry: entry[0].bounded)
    if not panels:
        return None
    figure, grid = plt.subplots(len(panels), 1, figsize=(WIDTH, 0.7 + 2.9 * len(panels)), squeeze=False)
    handles, labels = [], []
    for (name, of), (axes,) in zip(panels, grid):
        for i, (mode, level, label, proposed, accepted) in enumerate(of):
            keep = proposed >= min(LEAST, proposed.max())
            positions, rate = np.arange(1, len(keep) + 1)[keep], (accepted / proposed)[keep]
            color, mark = look(mode)
            positions = positions + 0.06 * (i - (len(of) - 1) / 2)  # so that intervals do not cover each other
            axes.vlines(positions, *interval(accepted[keep], proposed[keep]), color=color, linewidth=1, alpha=0.6)
            handles += axes.plot(positions, rate, LINES[level % len(LINES)], color=color, marker=mark, markersize=4,
                                 markerfacecolor=color if level == 0 else "white")  # fmt: skip
            labels.append(f"{plain(label, 48)} (n={int(proposed.sum()):,})")
        axes.set_title(name)
        axes.set_xlabel("position in the draft")
        axes.set_ylabel("accepted / drafted tokens")
        axes.set_ylim(-0.02, 1.05)
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    return finish(figure, "Acceptance rate by position in the draft", handles, labels, columns=3)
