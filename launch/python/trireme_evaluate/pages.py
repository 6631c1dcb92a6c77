"""Pages of an evaluation: its table and pictures as index.html and index.md, made by the modules of `trireme report`."""

import sys
from collections import namedtuple
from pathlib import Path

from . import table

REPORT = Path(__file__).absolute().parents[2] / "report"
Mode = namedtuple("Mode", "name bounded side_by_side")


class NotOurs(Exception):
    """A file of a page's name exists, and no report has written it."""


def check(folder):
    """Raises NotOurs if the pages cannot be written. Also called before an evaluation runs."""
    sys.path.insert(0, str(REPORT))
    import files

    for name in ("index.html", "index.md"):
        path = folder / name
        if path.exists() and not files.is_ours(str(path)):
            raise NotOurs(path)


def write(folder, results):
    """Writes results.csv and, with matplotlib, the pages. Returns lines that say what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    check(folder)
    part = folder / ".results.csv.trireme-part"
    part.write_text(table.as_csv(results))
    part.replace(folder / "results.csv")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return [f"{folder / 'results.csv'}: written; no pages: {sys.executable} has no matplotlib"]
    import files

    files.write(str(folder), made_of(results))
    return [f"{folder / 'results.csv'}: written", f"{folder / 'index.html'}: written"]


def made_of(results):
    """The files of the pages, by name. The modules of the report can be imported."""
    from html_page import web_page
    from markdown_page import markdown

    page = page_of(results)
    made = {"index.html": web_page(page), "index.md": markdown(page), **page.images}
    return {name: content for name, content in made.items() if not name.endswith(".svg")}


def page_of(results):
    from blocks import Page

    page = Page("Evaluation")
    heading, rows = table.rows(results)
    page.paragraph("Scores are per cent, except ROUGE (0 to 1), perplexity (lower is better) and the share of distinct 4-grams.")
    page.table(heading, rows)
    for suite in dict.fromkeys(r.suite for r in results):
        of = [r for r in results if r.suite == suite and r.task == main_row(results, suite)]
        of = [r for r in of if r.metric == of[0].metric]
        page.heading(2, suite)
        page.picture(f"{suite}-length", f"Scores of {suite} by length", by_length(suite, of),
                     "Mean score of each mode by the length of prompt and answer.",
                     "No picture by length: there is one length.")  # fmt: skip
        page.picture(f"{suite}-budget", f"Scores of {suite} by budget", by_budget(suite, of),
                     "Mean score by the policy's budget in tokens per KV head; the dashed line is the full cache.",
                     "No picture by budget: no policy has several budgets.")  # fmt: skip
    return page


def main_row(results, suite):
    tasks = [r.task for r in results if r.suite == suite]
    return table.MEAN if table.MEAN in tasks else tasks[0]


def budget_of(mode):
    """(policy, budget) of "h2o@512", and ("h2o (folder)", budget) of "h2o@512 (folder)"; None for other modes."""
    mode, _, source = mode.partition(" ")
    name, _, budget = mode.partition("@")
    return (f"{name} {source}".strip(), int(budget)) if budget.isdigit() and is_policy(name) else None


def is_policy(name):
    import style

    return name in style.POLICIES


def look(mode):
    import style

    name = mode.split(" ")[0].split("@")[0]
    return style.look(Mode(name, is_policy(name), 1))


def value(result):
    return result.score * table.SHOWN.get(result.metric, (100, 1))[0]


def unit(metric):
    return metric if metric in table.SHOWN else f"{metric} (%)"


def by_length(suite, results):
    lengths = sorted({r.length for r in results})
    if len(lengths) < 2:
        return None
    import matplotlib.pyplot as plt
    import style

    style.set_style()
    figure, axes = plt.subplots(figsize=(style.WIDTH, 3.6))
    for i, mode in enumerate(table.modes_of(results)):
        of = sorted((r.length, value(r)) for r in results if r.mode == mode)
        color, mark = look(mode)
        axes.plot(*zip(*of), color=color, marker=mark, linestyle=("-", "--", ":", "-.")[i % 4], label=style.plain(mode))
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.set_xlabel("length (tokens)")
    axes.set_ylabel(unit(results[0].metric))
    handles, labels = axes.get_legend_handles_labels()
    return style.finish(figure, f"{suite}: score by length", handles, labels)


def line_of(policy, lines):
    """The same policy in several evaluations has lines of different kinds."""
    name = policy.split(" ")[0]
    same = [other for other, _ in lines if other.split(" ")[0] == name]
    return ("-", ":", "-.", "--")[list(dict.fromkeys(same)).index(policy) % 4]


def by_budget(suite, results):
    budgets = {r: budget_of(r.mode) for r in results}
    lines = {}
    for r, found in budgets.items():
        if found:
            lines.setdefault((found[0], r.length), []).append((found[1], value(r)))
    if not any(len(of) > 1 for of in lines.values()):
        return None
    import matplotlib.pyplot as plt
    import style

    style.set_style()
    lengths = sorted({length for _, length in lines})
    figure, grid = plt.subplots(1, len(lengths), figsize=(style.WIDTH, 3.6), sharey=True, squeeze=False)
    for length, axes in zip(lengths, grid[0]):
        for (policy, of_length), of in lines.items():
            if of_length == length:
                color, mark = look(policy)
                axes.plot(*zip(*sorted(of)), color=color, marker=mark, linestyle=line_of(policy, lines), label=style.plain(policy))
        for r in results:
            if r.length == length and r.mode.split(" ")[0] in ("full", "none"):
                axes.axhline(value(r), color=style.GREY, linestyle="--", label=style.plain(f"full cache{r.mode[4:]}"))
        ticks = sorted({budget for (_, n), of in lines.items() if n == length for budget, _ in of})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.set_xlabel("budget (tokens)")
        axes.set_title(f"length {length}" if length else "")
    grid[0][0].set_ylabel(unit(results[0].metric))
    handles, labels = grid[0][0].get_legend_handles_labels()
    return style.finish(figure, f"{suite}: score by budget", handles, labels)
