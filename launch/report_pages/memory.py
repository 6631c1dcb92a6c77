"""The picture of planned memory: the parts of device and host memory, and the capacity."""

import matplotlib.pyplot as plt

from records import listed, mapped, text, whole
from style import WIDTH, by_panel, finish, wrapped

# Parts, words in the names of the plan's fields, colours. The last part has all other fields.
PARTS = (
    ("weights", ("weight",), "#0072B2"),
    ("KV cache", ("kv", "tile"), "#E69F00"),
    ("ring, staging", ("ring", "frame", "staging"), "#009E73"),
    ("speculation", ("retriev", "summar", "heavy", "propos", "draft"), "#CC79A7"),
    ("activations, scratch", ("activation", "scratch", "hidden"), "#56B4E9"),
    ("other", ("",), "#999999"),
)
KINDS = ("device", "host")
FAR = 2.5  # a capacity of more than this many times the largest bar is drawn at the edge, not to scale


def parts_of(plan, kind):
    """Bytes of each of the PARTS."""
    out = [0] * len(PARTS)
    for name, n in mapped(plan, kind).items():
        if whole(n) > 0:
            out[next(i for i, (_, words, _) in enumerate(PARTS) if any(w in name.lower() for w in words))] += n
    return out


def capacity(run, kind):
    """Bytes that rank 0 may use, or None: --device-memory and --host-memory, or the machine's, shared by the ranks there."""
    settings = mapped(run.about, "settings")
    given = text(settings.get(f"{kind}-memory"))
    if given.isdecimal():
        return int(given) or None
    ranks = [r for r in listed(run.about, "ranks") if isinstance(r, dict)]
    if not ranks:
        return None
    on_host = kind == "host" or ranks[0].get("backend") == "cpu"
    all_bytes = whole(ranks[0].get("memory_bytes" if on_host else "device_memory_bytes"))
    return all_bytes // (sum(r.get("host") == ranks[0].get("host") for r in ranks) if on_host else 1) or None


def scaled(n):
    """A number of bytes as text."""
    unit, size = next(((u, s) for u, s in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if n >= s), ("kB", 1e3))
    return f"{n / size:.3g} {unit}"


def draw_capacity(axes, limit, largest, size):
    """A line and its label."""
    far = limit > FAR * largest
    end = 1.3 * largest if far else max(1.15 * largest, 1.05 * limit)
    at = end if far else limit
    axes.set_xlim(0, end / size)
    axes.axvline(at / size, color="black", linestyle="--", linewidth=1.5, clip_on=False)
    axes.annotate(f"capacity {scaled(limit)}" + ("\n(not to scale)" if far else ""), (at / size, 1), (0, 3), ha="right", va="bottom",
                  xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7.5)  # fmt: skip


def memory(run):
    plans = {}  # modes with equal plans share a bar
    for mode in run.modes:
        parts = {kind: parts_of(mode.plan, kind) for kind in KINDS}
        if any(map(any, parts.values())):
            plans.setdefault((repr(parts), mode.bounded), (mode.bounded, parts, []))[2].append(mode.label)
    panels = by_panel(list(plans.values()), lambda plan: plan[0])
    if not panels:
        return None
    counts = [len(of) for _, of in panels]
    figure, grid = plt.subplots(len(panels), len(KINDS), figsize=(WIDTH, 0.8 + sum(0.8 + 0.5 * n for n in counts)), squeeze=False,
                                gridspec_kw={"height_ratios": [n + 0.5 for n in counts]})  # fmt: skip
    most = max(sum(parts[kind]) for _, parts, _ in plans.values() for kind in KINDS)
    unit, size = next(((u, s) for u, s in (("GB", 1e9), ("MB", 1e6)) if most >= s), ("kB", 1e3))
    for (name, of), row in zip(panels, grid):
        row[0].set_title(name)
        for axes, kind in zip(row, KINDS):
            largest = max(max(sum(parts[kind]) for _, parts, _ in plans.values()), 0.02 * most)
            for y, (_, parts, _) in enumerate(of):
                left = 0
                for n, (_, _, color) in zip(parts[kind], PARTS):
                    if n:
                        axes.barh(-y, n / size, left=left / size, height=0.6, color=color, edgecolor="white", linewidth=0.4)
                    left += n
                axes.annotate(f"{left / size:.3g}", (left / size, -y), (3, 0), textcoords="offset points", va="center", fontsize=8,
                              bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
            names = [wrapped(", ".join(modes), 24) for *_, modes in of]
            axes.set_yticks([-y for y in range(len(of))], names if kind == "device" else [], fontsize=8)
            axes.set_ylim(0.6 - len(of), 0.6)
            axes.grid(False, axis="y")
            axes.set_xlabel(f"{kind} memory ({unit})")
            axes.set_xlim(0, 1.2 * largest / size)
            limit = capacity(run, kind)
            if limit:
                draw_capacity(axes, limit, largest, size)
    used = [i for i in range(len(PARTS)) if any(parts[kind][i] for _, parts, _ in plans.values() for kind in KINDS)]
    handles = [plt.Rectangle((0, 0), 1, 1, facecolor=PARTS[i][2]) for i in used]
    return finish(figure, "Planned memory of a rank", handles, [PARTS[i][0] for i in used], columns=6)
