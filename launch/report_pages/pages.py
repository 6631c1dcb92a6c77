"""Makes the page of runs and its pictures: the choice of pictures, their captions and tables, and why one is missing."""

import os
import re

import numpy as np

import charts
import timeline
from records import listed, mapped, number, text, whole

STOPPED = {0: "done", 75: "stopped by a signal; a snapshot was written", 130: "stopped by SIGINT", 143: "stopped by SIGTERM"}


def escaped(value):
    """A text from a record, escaped for one cell of a Markdown table."""
    value = "".join(c if c.isprintable() else " " for c in str(value))
    return re.sub(r"([\\`*_{}\[\]<>#|~&$!])", r"\\\1", value)


def code(value):
    value = "".join(c if c.isprintable() else " " for c in str(value)).replace("`", "'").replace("|", "\\|")
    return f"`{value}`" if value.strip() else ""


def shown(value, digits=2):
    value = number(value)
    return "" if value is None else f"{value:,.{digits}f}"


def table(headings, rows):
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def spread(values, digits=2):
    middle = f"{np.median(values):,.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ({np.min(values):,.{digits}f}-{np.max(values):,.{digits}f})"


class Report:
    def __init__(self, software):
        self.software, self.lines, self.files = software, [], {}

    def picture(self, name, alt, content, caption, otherwise):
        """Adds a picture with its caption, or the reason why there is none."""
        if content is None:
            self.lines += [otherwise, ""]
            return
        self.files[name] = content
        self.lines += [f"![{alt}]({name})", "", caption, ""]


def baseline_of(entries):
    return next((i for i, (mode, _) in enumerate(entries) if mode.is_baseline()), None)


def row_of(mode):
    """The mode's row in the table of bench."""
    for row in listed(mode.run.about, "rows"):
        if isinstance(row, dict) and row.get("mode") == mode.name and row.get("n_parallel") == mode.side_by_side:
            return row
    return {}


def exact(mode):
    if mode.bounded:
        return "lossy: keeps some tokens"
    said = row_of(mode).get("exact")
    return "yes" if said is True else "**no**" if said is False else "-"


def mode_rows(entries, baseline):
    for mode, rates in entries:
        level = mode.levels[0] if mode.levels else {}
        ttft = mode.table("texts")["ttft_ns"]
        ratio = ""
        if baseline is not None:
            middle, low, high = charts.speedup(rates, entries[baseline][1])
            ratio = f"{middle:.2f}" + (f" ({low:.2f}-{high:.2f})" if len(rates) > 1 or len(entries[baseline][1]) > 1 else "")
        yield [escaped(mode.label), len(rates), spread(rates), ratio, spread(ttft[ttft > 0] * 1e-6, 1) if np.any(ttft > 0)
               else "", *(shown(level.get(k), d) for k, d in (("accept_rate", 3), ("accept_len", 2), ("draft_ms", 2),
                                                             ("verify_ms", 2))), exact(mode)]  # fmt: skip


def compare(report, name, entries, source):
    """Compares ways to decode. `entries`: (mode, its samples)."""
    if not entries:
        report.lines += ["No continuation was measured to its end, so that there is no speed.", ""]
        return
    baseline = baseline_of(entries)
    labels = [m.label + (", lossy" if m.bounded else "") for m, _ in entries]
    picture = charts.comparison(labels, [r for _, r in entries], [m.bounded for m, _ in entries], baseline, report.software)
    caption = ("Tokens per second after the first token. n: " + source + ". ")
    if baseline is not None:
        caption += (f"Speed-ups are over {escaped(entries[baseline][0].label)}, where every token is computed by itself: median over "
                    "median; the line goes from the least sample over the baseline's best to the best one over its "
                    "least.")  # fmt: skip
    else:
        caption += "No mode decodes token by token (none): there is nothing that speed-ups could be over."
    if any(m.bounded for m, _ in entries):
        caption += " Hatched: lossy; it keeps some tokens' keys and values only, and may give another text than the model would."
    caption += " Exact: greedy tokens are those of plain decoding; -: nothing was compared, as where tokens are drawn."
    report.picture(name, "speed of each mode", picture, caption, "")
    over = f"over {escaped(entries[baseline][0].label)}" if baseline is not None else "speed-up"
    report.lines += table(["mode", "n", "tok/s: median (range)", over, "ttft_ms", "accept_rate", "accept_len", "draft_ms",
                           "verify_ms", "exact"], mode_rows(entries, baseline))  # fmt: skip


def levels_of(run):
    """(mode, level, label, proposed at each position, accepted there) of the levels that verified any token."""
    out = []
    for mode in run.modes:
        levels = mode.levels
        if not levels:  # a batch has no sums, but a row for each round
            checks = mode.table("checks")
            levels = []
            for level in np.unique(checks["level"]):
                of = checks.where(level=level)
                places = range(int(of["proposed"].max(initial=0)))
                levels.append({"chain": f"level {level}", "proposed_at": [int(np.sum(of["proposed"] > p)) for p in places],
                               "accepted_at": [int(np.sum(of["accepted"] > p)) for p in places]})  # fmt: skip
        for i, level in enumerate(levels):
            proposed, accepted = level.get("proposed_at"), level.get("accepted_at")
            if not isinstance(proposed, list) or not isinstance(accepted, list) or len(proposed) != len(accepted):
                continue
            pairs = [(whole(p), whole(a)) for p, a in zip(proposed, accepted)]
            pairs = pairs[:next((k for k, (p, _) in enumerate(pairs) if p <= 0), len(pairs))]
            if pairs and all(0 <= a <= p for p, a in pairs):
                chain = text(level.get("chain"), f"level {i}")
                label = chain if chain.startswith(mode.label) else f"{mode.label}: {chain}"
                out.append((mode.number, i, label, [p for p, _ in pairs], [a for _, a in pairs]))
    return out


def durations(mode):
    """Nanoseconds of all rounds after each text's first."""
    return sum(int(r["end_at_ns"][-1] - r["end_at_ns"][0]) for r in charts.continuations(mode))


def link_rows(run):
    for mode in run.modes:
        rounds = run.tables["rounds"]
        numbers = np.flatnonzero(rounds["mode"] == mode.number)
        took = durations(mode)
        link = run.tables["link"]
        for rank in np.unique(link["rank"]):
            of = link.where(rank=rank)
            of = type(of)(of.columns, of.values[np.isin(of["round"], numbers)])
            steps = len(of) - len(charts.continuations(mode))  # a text's first round copies no tiles
            if steps <= 0 or took <= 0:
                continue
            bytes_in, busy = int(of["h2d_bytes"].sum()), int(of["h2d_ns"].sum())
            stall, reduce = int(of["stall_ns"].sum()), int(of["allreduce_ns"].sum())
            yield [escaped(mode.label), rank, steps, shown(bytes_in / steps / 1e6), shown(bytes_in / busy) if busy else "",
                   f"{100 * busy / took:.0f}", shown(stall / steps / 1e6), f"{100 * stall / took:.0f}",
                   shown(reduce / steps / 1e6, 3)]  # fmt: skip


def why_no_link(run, mode):
    if not whole(mode.plan.get("streamed_layers")):
        return f"{escaped(mode.label)}: all keys and values lay on the device: no tiles crossed a link."
    reason = text(mapped(run.about, "spans").get("none"))
    return f"{escaped(mode.label)}: no timeline: {escaped(reason) or 'the run had fewer than three rounds'}."


def link(report, run):
    names = [text(n) for n in listed(run.about, "names")]
    report.lines += ["### The link and compute", ""]
    rows = list(link_rows(run))
    if rows:
        gbps = number(run.about.get("link_gbps"))
        report.lines += table(["mode", "rank", "rounds", "MB a round", "GB/s", "link busy, %", "stall_ms a round",
                               "stalled, %", "allreduce_ms a round"], rows)  # fmt: skip
        report.lines += [f"The link is an emulated one of {gbps:g} GB/s." if gbps else "", ""]
    for mode in run.modes:
        spans = mode.table("spans")
        broken = len(spans) and (max(spans["name"].max(), spans["stream"].max()) >= len(names) or spans["name"].min() < 0
                                 or spans["stream"].min() < 0)  # fmt: skip
        streams = whole(mode.plan.get("streamed_layers")) > 0 and not broken
        picture = timeline.link(mode, names, report.software) if streams else None
        report.picture(f"run-{run.number:04}-link-{mode.number}.png", f"what the streams of {escaped(mode.label)} did", picture,
                       f"{escaped(mode.label)}: what each of rank 0's streams did in the last {timeline.SHOWN_ROUNDS} rounds whose "
                       "spans were kept.", why_no_link(run, mode))  # fmt: skip
    dropped = whole(mapped(run.about, "spans").get("dropped"))
    if dropped:
        report.lines += [f"{dropped:,} spans were not kept: a stream had more than there was room for.", ""]


def memory(report, run):
    plans = {}
    for mode in run.modes:
        parts = {k: v for k, v in mode.plan.items() if k in ("device", "host")}
        plans.setdefault(repr(parts), ([], parts))[0].append(mode.label)
    picture = timeline.memory([(", ".join(labels), parts) for labels, parts in plans.values()], report.software)
    report.lines += ["### Memory", ""]
    report.picture(f"run-{run.number:04}-memory.png", "memory by what it is for", picture,
                   "What the plan gives a rank of device and host memory. Modes of a bench whose keys and values lie alike "
                   "share one plan, with the levels of all of them.",
                   "The record has no plan.")  # fmt: skip


def facts(run, folder):
    about = run.about
    model, versions, settings = (mapped(about, k) for k in ("model", "versions", "settings"))
    ranks = [r for r in listed(about, "ranks") if isinstance(r, dict)]
    texts = run.tables["texts"]
    prompts = np.unique(texts["prompt_tokens"][texts["prompt_tokens"] >= 0])
    length = f"{prompts.min():,} to {prompts.max():,}" if len(prompts) > 1 else f"{prompts[0]:,}" if len(prompts) else "?"
    status = whole(about.get("status"))
    trace = text(about.get("trace"))
    rows = [["command line", code(" ".join(["trireme", *map(text, listed(about, "command_line"))]))],
            ["ended", f"{escaped(text(about.get('ended')))}: {STOPPED.get(status, f'stopped with {status}')}"],
            ["model", f"{escaped(text(model.get('name')) or os.path.basename(text(settings.get('model')).rstrip('/')))}, "
             f"{escaped(model.get('n_layers', '?'))} layers, weights {escaped(text(about.get('weights')))}"],
            ["text" if run.command == "score" else "prompt", f"{length} tokens"],
            ["trireme", escaped(f"{text(versions.get('trireme'))}, commit {text(versions.get('commit'))}")]]  # fmt: skip
    rows += [[escaped(name), shown(value, 6) if isinstance(value, float) else f"{whole(value):,}"]
             for name, value in mapped(about, "score").items()]  # fmt: skip
    for rank, r in enumerate(ranks):
        of_rank, cores = whole(r.get("threads")), whole(r.get("cores"))
        rows.append([f"rank {rank}", escaped(f"{text(r.get('device'))}, {of_rank} compute thread{'s' if of_rank != 1 else ''}, "
                                             f"{cores} core{'s' if cores != 1 else ''} there")])  # fmt: skip
    taken = mapped(about, "taken_up")
    if taken:
        rows.append(["resumed", f"{code(text(taken.get('file')))}: a prompt of {whole(taken.get('prompt_tokens')):,} tokens and "
                     f"{whole(taken.get('generated_tokens')):,} generated"])  # fmt: skip
    if trace and os.path.exists(trace):
        rows.append(["trace", f"[{escaped(os.path.basename(trace))}]({os.path.relpath(trace, folder)}), for "
                     "[ui.perfetto.dev](https://ui.perfetto.dev)"])  # fmt: skip
    else:
        rows.append(["trace", f"{code(trace)} is not there any more" if trace else "none: `--trace FILE` writes one for "
                     "[ui.perfetto.dev](https://ui.perfetto.dev)"])  # fmt: skip
    return table(["", ""], rows)


def run_section(report, run, folder):
    name = os.path.basename(run.file)
    report.lines += [f"## Run {run.number} of {escaped(name)}: {escaped(run.command)}", ""]
    if run.newer():
        report.lines += ["A newer trireme has written it: what this one does not know is left out.", ""]
    report.lines += facts(run, folder)
    if run.command == "score":
        memory(report, run)
        return
    report.lines += ["### Speed", ""]
    entries = [(mode, mode.rates()) for mode in run.modes if len(mode.rates())]
    prefix = f"run-{run.number:04}"
    compare(report, f"{prefix}-speed.png", entries, "continuations of this run, each text and repetition one")
    report.lines += ["### Latency", ""]
    report.picture(f"{prefix}-latency.png", "time and latency over tokens", charts.latency(run.modes, report.software),
                   "Left: when a token was there, a line a continuation. Right: what a token took, a faint mark a round, "
                   "its time by its tokens; the line joins medians of stretches with equally many rounds.",
                   "No continuation has a second round: there is no latency to be seen.")  # fmt: skip
    report.lines += ["### Acceptance", ""]
    report.picture(f"{prefix}-acceptance.png", "share of proposed tokens that stayed, by place",
                   charts.acceptance(levels_of(run), report.software),
                   "Of the tokens at a place of proposals, those that stayed; n: tokens proposed. Lines at the marks: "
                   "95 % intervals (Wilson), as if places were independent.",
                   "Nothing was proposed: tokens were decoded one by one.")  # fmt: skip
    link(report, run)
    memory(report, run)
    settings = mapped(run.about, "settings")
    if settings:
        report.lines += ["<details><summary>Settings, as resolved</summary>", ""]
        report.lines += table(["flag", "value"], [[code(k), code(v)] for k, v in settings.items() if v not in ("", None)])
        report.lines += ["</details>", ""]


def beside_each_other(runs):
    """Comparable runs of a file: equal prompt length, model and kind of machine, but several ways to decode."""
    groups = {}
    for run in runs:
        settings = mapped(run.about, "settings")
        if run.command != "generate" or not run.modes or not len(run.tables["texts"]):
            continue
        key = (run.file, run.about.get("n_ranks"), repr(run.about.get("link_gbps")), int(run.tables["texts"]["prompt_tokens"][0]),
               *(text(settings.get(k)) for k in ("model", "kv-on-chip", "device", "temp", "dtype", "threads")))  # fmt: skip
        groups.setdefault(key, []).append(run.modes[0])
    for key, modes in groups.items():
        labels = list(dict.fromkeys(mode.label for mode in modes))
        entries = []
        for label in labels:
            of = [mode for mode in modes if mode.label == label]
            rates = np.concatenate([mode.rates() for mode in of])
            if len(rates):
                entries.append((of[0], rates))
        if len(entries) > 1:
            yield key[0], entries


def make(runs, folder, mark, page, software):
    """Returns the names of files and their contents: the page, and pictures."""
    several = len({run.file for run in runs}) > 1
    report = Report(software)
    report.lines += [mark, "", "# Runs of trireme", ""]
    for i, (file, entries) in enumerate(beside_each_other(runs)):
        report.lines += [f"## Runs of {escaped(os.path.basename(file))} compared", ""]
        compare(report, f"beside-{i}-speed.png", entries, "runs of this file, and their samples, with one model and length of prompt")
    for file in dict.fromkeys(run.file for run in runs):
        of_file = [run for run in runs if run.file == file]
        for run in of_file:
            before = set(report.files)
            begin = len(report.lines)
            run_section(report, run, folder)
            if several:  # two files may have runs of the same number
                prefix = f"file-{list(dict.fromkeys(r.file for r in runs)).index(file)}-"
                for name in set(report.files) - before:
                    report.files[prefix + name] = report.files.pop(name)
                report.lines[begin:] = [re.sub(r"\]\((run-\d+-)", rf"]({prefix}\1", line) for line in report.lines[begin:]]
    lines = [line for i, line in enumerate(report.lines) if line or (i and report.lines[i - 1])]
    return {page: ("\n".join(lines).rstrip() + "\n").encode(), **report.files}
