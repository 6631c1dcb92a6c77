"""Makes the page of runs: the sections of a run, their pictures, captions and tables, and why a picture is missing."""

import os
from urllib.parse import quote

import numpy as np

import charts
import timeline
from acceptance import acceptance, levels_of
from blocks import Code, Link, Page
from comparison import comparison, file_name, prompt_length, shown, speed
from html_page import web_page
from markdown_page import markdown
from memory import memory
from records import listed, mapped, number, text, whole
from style import set_style

STOPPED = {0: "done", 75: "stopped by a signal; a snapshot was written", 130: "stopped by SIGINT", 143: "stopped by SIGTERM"}


def link_rows(run):
    for mode in run.modes:
        rounds = run.tables["rounds"]
        numbers = np.flatnonzero(rounds["mode"] == mode.number)
        texts = charts.continuations(mode)
        took = sum(int(r["end_at_ns"][-1] - r["end_at_ns"][0]) for r in texts)
        link = run.tables["link"]
        for rank in np.unique(link["rank"]):
            of = link.where(rank=rank)
            of = type(of)(of.columns, of.values[np.isin(of["round"], numbers)])
            steps = len(of) - len(texts)  # a text's first round copies no tiles
            if steps <= 0 or took <= 0:
                continue
            bytes_in, busy = int(of["h2d_bytes"].sum()), int(of["h2d_ns"].sum())
            stall, reduce = int(of["stall_ns"].sum()), int(of["allreduce_ns"].sum())
            yield [Code(mode.label), str(rank), str(steps), shown(bytes_in / steps / 1e6), shown(bytes_in / busy) if busy else "",
                   f"{100 * busy / took:.0f}", shown(stall / steps / 1e6), f"{100 * stall / took:.0f}",
                   shown(reduce / steps / 1e6, 3)]  # fmt: skip


def why_no_timeline(run, mode):
    if not whole(mode.plan.get("streamed_layers")):
        return f"{mode.label}: the whole KV cache was on the device; nothing crossed the link."
    reason = text(mapped(run.about, "spans").get("none"))
    return f"{mode.label}: no timeline: {reason or 'the run had fewer than three rounds'}."


def link(page, run, prefix):
    names = [text(n) for n in listed(run.about, "names")]
    page.heading(3, "Compute and link")
    rows = list(link_rows(run))
    if rows:
        page.table(["mode", "rank", "rounds", "MB per round", "GB/s", "link busy (%)", "stall per round (ms)", "stalled (%)",
                    "all-reduce per round (ms)"], rows)  # fmt: skip
        gbps = number(run.about.get("link_gbps"))
        if gbps:
            page.paragraph(f"The link is emulated, with {gbps:g} GB/s.")
    for mode in run.modes:
        spans = mode.table("spans")
        broken = len(spans) and (max(spans["name"].max(), spans["stream"].max()) >= len(names) or spans["name"].min() < 0
                                 or spans["stream"].min() < 0)  # fmt: skip
        streams = whole(mode.plan.get("streamed_layers")) > 0 and not broken
        page.picture(f"{prefix}-link-{mode.number}", f"timeline of compute and link: {mode.label}",
                     timeline.timeline(mode, names) if streams else None,
                     f"{mode.label}: operations of rank 0 in the last {timeline.SHOWN_ROUNDS} recorded rounds. The dashed line "
                     "separates rounds.", why_no_timeline(run, mode))  # fmt: skip
    dropped = whole(mapped(run.about, "spans").get("dropped"))
    if dropped:
        page.paragraph(f"{dropped:,} spans were not recorded: a stream had more than the limit.")


def facts(run, folder):
    about = run.about
    model, versions, settings = (mapped(about, k) for k in ("model", "versions", "settings"))
    status, trace = whole(about.get("status")), text(about.get("trace"))
    yield ["command line", Code(" ".join(["trireme", *map(text, listed(about, "command_line"))]))]
    yield ["ended", f"{text(about.get('ended'))}: {STOPPED.get(status, f'stopped with {status}')}"]
    yield ["model", f"{text(model.get('name')) or file_name(settings.get('model'))}, {model.get('n_layers', '?')} layers, weights "
           f"{text(about.get('weights'))}"]  # fmt: skip
    yield ["text" if run.command == "score" else "prompt", f"{prompt_length(run)} tokens"]
    yield ["trireme", f"{text(versions.get('trireme'))}, commit {text(versions.get('commit'))}"]
    for name, value in mapped(about, "score").items():
        yield [name, shown(value, 6) if isinstance(value, float) else f"{whole(value):,}"]
    for i, rank in enumerate(r for r in listed(about, "ranks") if isinstance(r, dict)):
        threads, cores = whole(rank.get("threads")), whole(rank.get("cores"))
        yield [f"rank {i}", f"{text(rank.get('device'))}, {threads} compute thread{'s' if threads != 1 else ''}, host of {cores} "
               f"core{'s' if cores != 1 else ''}"]  # fmt: skip
    resumed = mapped(about, "resumed") or mapped(about, "taken_up")  # its old name
    if resumed:
        yield ["resumed", [Code(text(resumed.get("file"))), f": {whole(resumed.get('prompt_tokens')):,} prompt tokens, "
                           f"{whole(resumed.get('generated_tokens')):,} generated tokens"]]  # fmt: skip
    if trace and os.path.exists(trace):
        yield ["trace", [Link(os.path.basename(trace), quote(os.path.relpath(trace, folder))), ", for ", Code("ui.perfetto.dev")]]
    else:
        yield ["trace", [Code(trace), " does not exist any more"] if trace else ["none; ", Code("--trace FILE"), " writes one"]]


def settings_of(page, run):
    """The settings that differ from the default; all of them if the record does not say which do."""
    settings, changed = mapped(run.about, "settings"), run.about.get("settings_changed")
    known = isinstance(changed, list)
    rows = [[Code(k), Code(v)] for k, v in settings.items() if (k in changed if known else v not in ("", None))]
    if rows:
        page.table(["flag", "value"], rows, "Settings that differ from the default" if known else "Settings")


def run_section(page, run, folder, prefix):
    page.heading(2, f"Run {run.number} of {os.path.basename(run.file)}: {run.command}")
    if run.newer():
        page.paragraph("A newer version of trireme wrote this record: this page may lack some of its contents.")
    page.table(["property", "value"], facts(run, folder))
    settings_of(page, run)
    if run.command != "score":
        speed(page, run, prefix)
        page.heading(3, "Latency")
        page.picture(f"{prefix}-latency", "decoding time over generated tokens", charts.latency(run.modes),
                     "Left: one line per continuation. Right: one faint mark per round (its time / its tokens); lines join "
                     "medians of equally many rounds.",
                     "No continuation has a second round: there is no latency.")  # fmt: skip
        page.heading(3, "Acceptance")
        page.picture(f"{prefix}-acceptance", "acceptance rate by position in the draft", acceptance(levels_of(run)),
                     "n: drafted tokens. Vertical lines: 95 % intervals (Wilson). Positions with fewer than "
                     "5 drafted tokens are not drawn.",
                     "No tokens were drafted: each round decoded one token.")  # fmt: skip
        link(page, run, prefix)
    page.heading(3, "Memory")
    page.picture(f"{prefix}-memory", "planned memory by part", memory(run),
                 "Modes with the same placement share one plan, which covers all of their levels. speculation: draft models, "
                 "selected KV and their buffers.", "The record has no plan.")  # fmt: skip


def make(runs, folder):
    """Names of files and their contents: the page in both formats, and pictures."""
    set_style()
    page = Page("Runs of trireme")
    comparison(page, runs)
    files = list(dict.fromkeys(run.file for run in runs))
    for run in sorted(runs, key=lambda run: files.index(run.file)):
        prefix = f"run-{run.number:04}" if len(files) == 1 else f"file-{files.index(run.file)}-run-{run.number:04}"
        run_section(page, run, folder, prefix)
    return {"index.html": web_page(page), "index.md": markdown(page), **page.images}
