"""The comparison of modes: one table of all runs, by model, data and temperature, and the speed of each run's modes."""

import copy
import os

import numpy as np

import charts
from blocks import Code, Strong
from records import listed, mapped, number, text, whole
from style import plain

DATA = ("data", "dataset", "file", "prompt-ids", "input", "session", "prompt")  # settings that name the prompts
# Settings that are equal in runs whose modes are compared, besides the data and the prompts' length.
EQUAL = ("model", "temp", "n-predict", "kv-on-chip", "device", "dtype", "threads")

# Settings of a mode.
VARIED = ("kv-window", "kv-heavy", "model-draft", "draft-window", "spec-draft-n-max", "gamma-inner", "tree-size", "retrieval-budget",
          "retrieval-chunk", "reselect")  # fmt: skip


def shown(value, digits=2):
    value = number(value)
    return "" if value is None else f"{value:,.{digits}f}"


def spread(values, digits=2):
    """The median and, of several values, the range."""
    middle = f"{np.median(values):,.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ({np.min(values):,.{digits}f} to {np.max(values):,.{digits}f})"


def file_name(path):
    return os.path.basename(text(path).rstrip("/"))


def prompt_length(run):
    lengths = run.tables["texts"]["prompt_tokens"]
    lengths = np.unique(lengths[lengths >= 0])
    return "?" if not len(lengths) else f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"


def data_of(run):
    settings = mapped(run.about, "settings")
    name = next((file_name(settings.get(k)) for k in DATA if text(settings.get(k))), "snapshot")
    return f"{name if len(name) < 40 else name[:36] + '...'}, {prompt_length(run)} tokens"


def row_of(mode):
    """The mode's row in the table of bench."""
    for row in listed(mode.run.about, "rows"):
        if isinstance(row, dict) and row.get("mode") == mode.name and row.get("n_parallel") == mode.side_by_side:
            return row
    return {}


def output_of(modes):
    """How the tokens relate to those of the model."""
    if modes[0].bounded:
        return "lossy"
    checked = [row_of(mode).get("exact") for mode in modes]
    return Strong("tokens differ") if False in checked else "exact, compared" if True in checked else "exact"


def totals(modes):
    """Acceptance rate and tokens per step of the outermost level, over all runs of a mode."""
    levels = [mode.levels[0] for mode in modes if mode.levels]
    if not levels:
        single = modes[0].side_by_side == 1 and modes[0].run.command != "batch"
        return "", "1.00" if single else ""
    rounds, drafted, accepted, siblings = (sum(whole(level.get(k)) for level in levels)
                                           for k in ("rounds", "proposed", "accepted", "siblings_accepted"))  # fmt: skip
    accepted -= siblings
    tokens = sum(whole(level.get("rounds")) * number(level.get("accept_len"), 0) for level in levels)
    return shown(accepted / drafted, 3) if drafted else "", shown(tokens / rounds) if rounds else ""


class Group:
    """Comparable runs: the same model, data, machine and settings, but for the mode.

    Entries are (modes, rates): of the same mode with the same settings, in one run or several."""

    def __init__(self):
        self.runs, self.entries = [], {}

    def add(self, run):
        for mode in run.modes:
            rates = mode.rates()
            if len(rates):
                settings = mapped(run.about, "settings")
                varied = () if mode.is_baseline() else tuple(text(settings.get(name)) for name in VARIED)
                modes, earlier = self.entries.get((mode.label, varied), ([], rates[:0]))
                self.entries[mode.label, varied] = (modes + [mode], np.concatenate([earlier, rates]))
                self.runs += [run] if run not in self.runs else []

    def charted(self):
        """Entries as charts.speed() takes them. Labels have the settings in which modes of one name differ."""
        for (label, varied), (modes, rates) in self.entries.items():
            others = [of for same, of in self.entries if same == label]
            mode = copy.copy(modes[0])
            for name, value, *values in zip(VARIED, varied, *others):
                mode.label += f", {name} {value}" if len(set(values)) > 1 else ""
            yield mode, rates


def groups_of(runs):
    groups = {}
    for run in runs:
        if run.command in ("bench", "generate") and len(run.tables["texts"]):
            settings = mapped(run.about, "settings")
            machine = [(r.get("host"), r.get("device")) for r in listed(run.about, "ranks") if isinstance(r, dict)]
            key = (data_of(run), repr(machine), repr(run.about.get("link_gbps")), *(text(settings.get(k)) for k in EQUAL))
            groups.setdefault(key, Group()).add(run)
    return [group for group in groups.values() if group.entries]


def baseline_of(entries):
    return next((entry for entry in entries if entry[0].is_baseline()), None)


def ratio(rates, baseline):
    """Speed-up and its range, as text."""
    if not baseline:
        return ""
    middle, extremes = charts.speedup(rates, baseline[1])
    return f"{middle:.2f}" + (f" ({extremes[0]:.2f} to {extremes[1]:.2f})" if extremes else "")


def rows_of(group, several_files):
    run = group.runs[0]
    settings = mapped(run.about, "settings")
    entries = list(group.charted())
    baseline = baseline_of(entries)
    for (modes, rates), (mode, _) in zip(group.entries.values(), entries):
        runs = [(file_name(m.run.file) + ": " if several_files else "") + str(m.run.number) for m in modes]
        yield [Code(file_name(settings.get("model"))), Code(data_of(run)), text(settings.get("temp")), Code(mode.label),
               shown(np.median(rates)), shown(charts.speedup(rates, baseline[1])[0]) if baseline else "", *totals(modes),
               output_of(modes), ", ".join(runs)]  # fmt: skip


def comparison(page, runs):
    """The table of all runs, and pictures of modes that several runs have measured."""
    groups = groups_of(runs)
    if not groups:
        return
    page.heading(2, "Comparison")
    several_files = len({run.file for run in runs}) > 1
    page.table(["model", "data, prompt", "temperature", "mode", "tok/s", "speed-up over none", "acceptance rate", "tokens per step",
                "output", "run"], [row for group in groups for row in rows_of(group, several_files)])  # fmt: skip
    page.paragraph("tok/s is the median after the first token. Acceptance rate and tokens per step are those of the full model's "
                   "verification. exact: the output has the model's distribution (compared: greedy tokens equal those of none). "
                   "lossy: the KV cache evicts tokens, so the distribution may differ.")  # fmt: skip
    for i, group in enumerate(groups):
        entries = list(group.charted())
        if len(group.runs) > 1 and len(entries) > 1:
            settings = mapped(group.runs[0].about, "settings")
            title = f"{file_name(settings.get('model'))}, {data_of(group.runs[0])}, temperature {text(settings.get('temp'))}"
            page.picture(f"compared-{i}-speed", "decoding speed of each mode",
                         charts.speed(f"Decoding speed: {plain(title, 80)}", entries, baseline_of(entries)),
                         f"{title}: runs compared. {speed_caption(entries)}", "")  # fmt: skip


def speed_caption(entries):
    several, baseline = any(len(rates) > 1 for _, rates in entries), baseline_of(entries)
    caption = f"Bars: medians of n continuations{'; circles: continuations' if several else ''}."
    if not baseline:
        return caption + " No mode is plain decoding (none), so there are no speed-ups."
    ranges = any(charts.speedup(rates, baseline[1])[1] for _, rates in entries)
    return caption + (" Lines: the slowest continuation relative to the baseline's fastest, and the reverse." if ranges else "")


def mode_rows(entries, baseline):
    for mode, rates in entries:
        level = mode.levels[0] if mode.levels else {}
        ttft = mode.table("texts")["ttft_ns"]
        yield [Code(mode.label), str(len(rates)), spread(rates), ratio(rates, baseline),
               spread(ttft[ttft > 0] * 1e-6, 1) if np.any(ttft > 0) else "", *totals([mode]),
               shown(level.get("draft_ms")), shown(level.get("verify_ms")), output_of([mode])]  # fmt: skip


def speed(page, run, prefix):
    """The speed of a run's modes: a picture and a table."""
    page.heading(3, "Speed")
    entries = [(mode, rates) for mode in run.modes for rates in [mode.rates()] if len(rates)]
    if not entries:
        page.paragraph("No continuation was measured to its end: there is no speed.")
        return
    baseline = baseline_of(entries)
    page.picture(f"{prefix}-speed", "decoding speed of each mode", charts.speed("Decoding speed", entries, baseline),
                 speed_caption(entries), "")  # fmt: skip
    page.table(["mode", "n", "tok/s", "speed-up over none", "TTFT (ms)", "acceptance rate", "tokens per step", "draft (ms)",
                "verify (ms)", "output"], mode_rows(entries, baseline))  # fmt: skip
