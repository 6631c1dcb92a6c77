#!/usr/bin/env python3
"""Reads files of --record with h5py: they must agree with reports and contain every run; `trireme report` draws them.

  record.py PROGRAM [--kills 40] [--spoilt 25] [--seed 1]

Runs of every command that records are compared with their --report-json, tables and outputs. One run is stopped by
SIGTERM, one by SIGUSR1; `--kills` runs are killed at random moments, and four at a time append to one file. The last
line is "N passed, N failed". Exit status 77: h5py or matplotlib is missing."""

import argparse
import fcntl
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

try:
    import h5py
    import matplotlib  # noqa: F401, for trireme report
    import numpy as np
except ImportError as e:
    print(f"record.py: {e}: skipped; launch/setup.sh --test installs it for Debian's python3")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL, DRAFT = (str(ROOT / "tests/data/models" / name) for name in ("kjv-target", "kjv-draft"))
SLOW = ["--kv-on-chip", "0", "--link-gbps", "0.1"]
TRIFORCE = ["--spec", "triforce", "-md", DRAFT, "--budget", "128", "--gamma", "6", "--gamma-inner", "2"]


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.script = pathlib.Path(program).resolve().parent.parent / "share/trireme/report/report.py"
        self.prompt = self.folder / "prompt.txt"
        self.prompt.write_text((ROOT / "tests/data/texts/kjv_12k.txt").read_text()[:2500])
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIREME_")} | {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "TRIREME_PYTHON": sys.executable}  # fmt: skip
        self.passed = self.failed = 0

    def start(self, words, ranks=1):
        command = [self.program, *map(str, words)]
        if ranks > 1:
            command = ["mpirun", "-q", "-n", str(ranks), *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment,
                                start_new_session=True)  # fmt: skip

    def run(self, words, ranks=1, status=0):
        process = self.start(words, ranks)
        out, err = process.communicate(timeout=180)
        self.check(process.returncode == status, f"{words[0]}: ends with {status}", f"{process.returncode}: {err[-600:]}")
        return out, err

    def generate(self, record, *more, n=40):
        return ["generate", "-m", MODEL, "-f", self.prompt, "-n", n, "-t", 1, "--no-progress", "--ignore-eos", "--record",
                record, *more]  # fmt: skip

    def check(self, right, what, found=""):
        if right:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}: {found}", flush=True)


class Recorded:
    """A run of a file, read with h5py only."""

    def __init__(self, path, number=-1):
        with h5py.File(path, "r") as file:
            names = sorted(file["runs"], key=int)
            group = file["runs"][names[number]]
            self.about = json.loads(bytes(group["about"][:]))
            self.tables = {name: group[name][:] for name in self.about["columns"]}
        for name, columns in self.about["columns"].items():
            assert self.tables[name].shape[1] == len(columns), name

    def __getitem__(self, name_and_column):
        name, column = name_and_column
        return self.tables[name][:, self.about["columns"][name].index(column)]

    def level(self, level, column):
        return self["checks", column][self["checks", "level"] == level]


def everything(path):
    """The bytes of each run, which must not change any more."""
    with h5py.File(path, "r") as file:
        return {name: {s: group[s][:].tobytes() for s in group} for name, group in file["runs"].items()}


def same_as_report(r, run, report, ranks):
    r.check(run.about["report"] == report, "the report within the record is the one that was written")
    r.check(run.about["settings"] == report["settings"], "settings", run.about["settings"])
    r.check(run.about["model"] == report["model"], "the model's shape")
    r.check(run.about["n_ranks"] == ranks == len(run.about["ranks"]), "ranks")
    r.check([x["host"] for x in run.about["ranks"]] == [x["host"] for x in report["ranks"]], "hosts")
    r.check(run["texts", "new_tokens"].tolist() == [len(s["ids"]) for s in report["samples"]], "tokens of each sample")
    r.check(int(run["rounds", "tokens"].sum()) == report["n_gen"], "tokens of all rounds", run["rounds", "tokens"].sum())
    r.check(len(run.tables["rounds"]) == report["rounds"], "rounds", (len(run.tables["rounds"]), report["rounds"]))
    r.check(bool(np.all(run["texts", "prompt_tokens"] == report["n_prompt"])), "prompt")
    r.check(abs(run["texts", "ttft_ns"][0] * 1e-6 - report["ttft_ms"]) < 1e-3, "ttft_ms")
    for sample in range(len(report["samples"])):
        mine = run["rounds", "sample"] == sample
        lengths, at = run["rounds", "length"][mine], run["rounds", "end_at_ns"][mine]
        r.check(lengths[-1] == len(report["samples"][sample]["ids"]), "the last length")
        r.check(bool(np.all(np.diff(at) > 0)) and bool(np.all(np.diff(lengths) > 0)), "rounds follow each other")
        decoded = at[-1] - at[0]
        r.check(run["texts", "decode_ns"][sample] == decoded, "decode_ns", decoded)
    r.check(0 < run["texts", "decode_ns"].sum() * 1e-6 <= report["decode_ms"] * 1.5 + 50, "decoding took what was reported")


def side_by_side(r, record):
    path = r.folder / "side.json"
    r.run(r.generate(record, "--report-json", path, "--num-samples", 3, "-np", 3, n=12))
    report, run = json.loads(path.read_text()), Recorded(record)
    row = dict(zip(run.about["columns"]["texts"], run.tables["texts"][0]))
    r.check((row["side_by_side"], row["new_tokens"], row["sample"]) == (3, 36, -1) and len(run.tables["texts"]) == 1, "one row of three", row)
    r.check(abs(row["decode_ns"] * 1e-6 - report["decode_ms"]) < 1e-3, "what they took together")
    r.check(int(run["rounds", "tokens"].sum()) == 36 and run["rounds", "tokens"].max() == 3, "rounds of three tokens")


def levels(r, run, report):
    r.check([m["levels"] for m in run.about["modes"]] ==
            [[{k: level[k] for k in m} for level, m in zip(report["speculation"], run.about["modes"][0]["levels"])]],
            "facts of levels")  # fmt: skip
    for i, level in enumerate(report["speculation"]):
        r.check(run.level(i, "proposed").tolist() == level["proposed_by_round"], f"level {i}: proposed", level["chain"])
        r.check(run.level(i, "accepted").tolist() == level["accepted_by_round"], f"level {i}: accepted", level["chain"])
        rounds = len(run.level(i, "proposed"))
        for column, name in (("draft_ns", "draft_ms"), ("verify_ns", "verify_ms")):
            mean = run.level(i, column).sum() * 1e-6 / rounds
            r.check(abs(mean - level[name]) < 1e-6 * max(1, mean), f"level {i}: {name}", (mean, level[name]))
        deep = range(len(level["accepted_at"]))
        r.check([int(np.sum(run.level(i, "accepted") > d)) for d in deep] == level["accepted_at"], f"level {i}: places")
        r.check(bool(np.all(run.level(i, "asked") >= run.level(i, "accepted"))), f"level {i}: asked")


def link(r, run, report, ranks):
    decode = report["residency"]["decode"]
    for rank in range(ranks):
        mine = run["link", "rank"] == rank
        r.check(run["link", "round"][mine].tolist() == list(range(report["rounds"])), f"rank {rank}: a row a round")
        # The ring may have been filled for the first round before that round's row begins.
        sent, ring = int(run["link", "h2d_bytes"][mine].sum()), report["residency"]["ring_bytes"]
        r.check(0 <= decode["h2d_bytes"] - sent <= ring, f"rank {rank}: h2d_bytes", (sent, decode["h2d_bytes"]))
        if rank == 0:
            stalled = run["link", "stall_ns"][mine].sum() * 1e-6 / decode["steps"]
            r.check(abs(stalled - decode["stall_ms"]) <= 0.05 * decode["stall_ms"] + 1, "stall_ms", (stalled, decode["stall_ms"]))
    if ranks > 1:
        r.check(bool(np.all(run["link", "allreduce_ns"][run["link", "round"] > 0] > 0)), "sums over ranks take time")
    names = run.about["names"]
    spans = {names[s] for s in run["spans", "stream"]}
    r.check({"compute", "h2d"} <= spans, "spans of compute and link", spans)
    copies = run["spans", "bytes"][run["spans", "name"] == names.index("kv_h2d")]
    r.check(len(copies) > 0 and bool(np.all(copies > 0)), "bytes of copies")
    r.check(bool(np.all(run["spans", "duration_ns"] >= 0)) and run.about["spans"]["dropped"] == 0, "spans have an end")


def generates(r, record):
    cases = [(1, []), (1, ["--num-samples", "3"]), (1, TRIFORCE + SLOW), (2, TRIFORCE + SLOW),
             (1, ["--spec", "tree", "-md", DRAFT, "--gamma", "4"]), (1, ["--spec", "window", "--kv-on-chip", "3"]),
             (1, ["--kv-policy", "h2o", "--kv-window", "160"])]  # fmt: skip
    before = {}
    for i, (ranks, flags) in enumerate(cases):
        path = r.folder / f"report-{i}.json"
        r.run(r.generate(record, "--report-json", path, *flags), ranks)
        report, run = json.loads(path.read_text()), Recorded(record)
        same_as_report(r, run, report, ranks)
        levels(r, run, report)
        if "0" in flags:
            link(r, run, report, ranks)
        elif ranks == 1 and report["residency"]["streamed_layers"] == 0:
            r.check(len(run.tables["link"]) == 0, "no link, no rows")
        plan = run.about["modes"][0]["plan"]
        r.check(plan["on_chip_layers"] == report["residency"]["on_chip_layers"] and plan["device"]["ring"] ==
                report["residency"]["ring_bytes"], "plan")  # fmt: skip
        total = sum(plan["device"].values())
        r.check(total == report["residency"]["planned_device_bytes"], "the plan's bytes", total)
        now = everything(record)
        r.check(len(now) == i + 1 and all(now[k] == v for k, v in before.items()), "earlier runs stay as they are")
        before = now


def bench(r, record):
    out, _ = r.run(["bench", "-m", MODEL, "-f", r.prompt, "-n", 24, "-r", 3, "-t", 1, "--no-progress", "-o", "json", "--record",
                    record, "--modes", "none,triforce,h2o+full,h2o,none@3", "-md", DRAFT, "--budget", 128, "--kv-window", 160,
                    *SLOW])  # fmt: skip
    rows, run = json.loads(out), Recorded(record)
    r.check(run.about["rows"] == rows, "rows are the table's")
    r.check([m["name"] for m in run.about["modes"]] == [row["mode"] for row in rows], "modes, in their order",
            [m["name"] for m in run.about["modes"]])  # fmt: skip
    for mode, (facts, row) in enumerate(zip(run.about["modes"], rows)):
        mine = run["texts", "mode"] == mode
        tokens, ns = run["texts", "new_tokens"][mine], run["texts", "decode_ns"][mine]
        rates = (tokens - 1) / ns * 1e9
        r.check(np.allclose(rates, row["samples_ts"], rtol=1e-5), f"{row['mode']}: samples", (rates, row["samples_ts"]))
        r.check(facts["levels"] == row["levels"], f"{row['mode']}: levels")
        r.check(facts["bounded"] == (row["mode"] == "h2o"), f"{row['mode']}: bounded")
        rounds = run["rounds", "mode"] == mode
        r.check(run["rounds", "tokens"][rounds].sum() == tokens.sum() == 3 * 24, f"{row['mode']}: tokens of rounds")
        checks = (run["checks", "mode"] == mode) & (run["checks", "level"] == 0)
        if row["levels"]:
            r.check(int(run["checks", "proposed"][checks].sum()) == row["levels"][0]["proposed"], f"{row['mode']}: proposed")
            r.check(sorted(set(run["checks", "sample"][checks])) == [0, 1, 2], f"{row['mode']}: repetitions")
        else:
            r.check(not checks.any(), f"{row['mode']}: nothing is checked")
        if facts["plan"]["streamed_layers"]:
            r.check(bool(np.any(run["spans", "mode"] == mode)), f"{row['mode']}: spans")


    # The second mode does not fit: the first one is recorded, and the exit status of the run.
    out, _ = r.run(["bench", "-m", MODEL, "-f", r.prompt, "-n", 8, "-r", 1, "-t", 1, "--no-progress", "-o", "json", "--record", record,
                    "-np", "1,2000", "--device-memory", "40M"], status=71)  # fmt: skip
    run = Recorded(record)
    r.check(run.about["status"] == 71 and len(run.about["rows"]) == len(json.loads(out)) == 1, "a bench that ran out of memory",
            run.about["status"])  # fmt: skip


def others(r, record):
    turns = r.folder / "turns.jsonl"
    turns.write_text("\n".join(json.dumps({"prompt": t}) for t in ("In the beginning", "And God said", "Let there be")))
    out, _ = r.run(["generate", "-m", MODEL, "--session", turns, "-n", 12, "-t", 1, "--no-progress", "--ignore-eos", "--report-json",
                    "-", "--record", record])  # fmt: skip
    said, run = json.loads(out)["turns"], Recorded(record)
    r.check(run.about["turns"] == said, "turns")
    r.check(run["texts", "new_tokens"].tolist() == [t["new_tokens"] for t in said] and
            run["texts", "prompt_tokens"].tolist() == [t["prompt_tokens"] for t in said], "a row a turn")  # fmt: skip
    r.check(np.allclose(run["texts", "prefill_ns"] * 1e-6, [t["prefill_ms"] for t in said], atol=1e-5), "prefill of turns")
    r.check([int((run["rounds", "text"] == t).sum()) for t in range(3)] == [t["new_tokens"] for t in said], "rounds of turns")

    requests = r.folder / "requests.jsonl"
    requests.write_text("\n".join(json.dumps({"prompt": p, "max_tokens": n}) for p, n in (("In the", 9), ("And God", 14), ("Let", 5))))
    for flags in ([], ["-np", "2"], ["--spec", "ngram"]):
        texts = r.folder / f"texts{len(flags)}{flags[-1:]}.jsonl"
        r.run(["batch", "-m", MODEL, "--input", requests, "-o", texts, "-t", 1, "--no-progress", "--ignore-eos", "--record", record, *flags])
        made = [json.loads(line)["result"]["completion_tokens"] for line in texts.read_text().splitlines()]
        run = Recorded(record)
        r.check(run["texts", "new_tokens"].tolist() == made and run["texts", "text"].tolist() == [0, 1, 2], f"batch {flags}", made)
        r.check(bool(len(run.tables["checks"])) == ("--spec" in flags), f"batch {flags}: levels")
        if not flags:
            r.check(int(run["rounds", "tokens"].sum()) == sum(made), "batch: rounds")


def scores(r, record):
    out, _ = r.run(["score", "-m", MODEL, "-f", r.prompt, "-t", 1, "--no-progress", "--record", record])
    said, run = json.loads(out), Recorded(record)
    r.check(run.about["score"] == {"tokens": said["tokens"], "perplexity": said["perplexity"]}, "score", run.about["score"])
    r.check(run["texts", "prompt_tokens"].tolist() == [said["tokens"]], "score: tokens")
    pairs = r.folder / "pairs.jsonl"
    pairs.write_text("\n".join(json.dumps({"context": c, "continuation": t}) for c, t in (("In the", " beginning"), ("And God", " said"))))
    out, _ = r.run(["score", "-m", MODEL, "--data", pairs, "-t", 1, "--no-progress", "--record", record])
    said, run = [json.loads(line) for line in out.splitlines()], Recorded(record)
    r.check(run.about["score"]["pairs"] == 2 and abs(run.about["score"]["logprob"] - sum(x["logprob"] for x in said)) < 1e-9,
            "score of pairs", run.about["score"])  # fmt: skip


def stopped(r, record):
    """Runs that a signal ends between rounds are recorded, with their exit status."""
    for number, status, flags in ((signal.SIGTERM, 143, []), (signal.SIGUSR1, 75, ["--save-kv", r.folder / "kv.h5"])):
        process = r.start(r.generate(record, *SLOW, *flags, n=100000))
        process.stdout.read(20)
        process.send_signal(number)
        process.communicate(timeout=120)
        run = Recorded(record)
        r.check(process.returncode == status == run.about["status"], f"{number.name}: status", (process.returncode, run.about["status"]))
        r.check(run["texts", "new_tokens"].tolist() == [int(run["rounds", "tokens"].sum())], f"{number.name}: tokens")
    done = run["texts", "new_tokens"][0]
    out, _ = r.run(["generate", "-m", MODEL, "--load-kv", r.folder / "kv.h5", "-n", int(done) + 10, "-t", 1, "--no-progress", "--ignore-eos",
                    "--record", record])  # fmt: skip
    run = Recorded(record)
    r.check(run.about["resumed"]["generated_tokens"] == done and run.about["resumed"]["exact"] is True, "what was resumed")
    r.check(run["texts", "new_tokens"].tolist() == [10] and run["rounds", "length"][-1] == done + 10, "what came after it",
            run.tables["texts"])  # fmt: skip


def held(r, record):
    """While another process holds the file: a stopped run keeps its exit code, a finished one waits."""
    part = record.with_name(f".{record.name}.trireme-part")
    before = everything(record)
    with open(part, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = r.start(r.generate(record, *SLOW, n=100000))
        process.stdout.read(20)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
        r.check(process.returncode == 143, "held: a stopped run keeps its status", process.returncode)
        r.check("not recorded: " in err and f"process {os.getpid()} " in err, "held: says so, and who holds it", err[-400:])
        process = r.start(r.generate(record, n=4))
        time.sleep(1.5)
        r.check(process.poll() is None and everything(record) == before, "held: a finished run waits")
        part.unlink()
    process.communicate(timeout=120)
    r.check(process.returncode == 0 and len(everything(record)) == len(before) + 1, "held: and is recorded then")


def killed(r, record, kills, rng):
    longest = 0.8  # more than a run takes here; the first runs set it
    for i in range(kills):
        before = everything(record)
        begin = time.monotonic()
        process = r.start(r.generate(record, n=8))
        if i < 2:
            process.wait()
            longest = (time.monotonic() - begin) * 1.05
            continue
        # Half of the kills are in the last fifth, in which the file is written.
        time.sleep(longest * (rng.random() if i % 2 else rng.uniform(0.8, 1)))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        now = everything(record)
        r.check(all(now.get(k) == v for k, v in before.items()) and len(now) - len(before) in (0, 1), f"kill {i}: earlier runs")
    r.run(r.generate(record, n=4))
    left = [p.name for p in record.parent.iterdir() if p.name.endswith("trireme-part")]
    r.check(not left, "nothing is left of killed runs", left)


def at_once(r, record):
    before = len(everything(record))
    for _ in range(3):
        processes = [r.start(r.generate(record, "--seed", seed, n=6)) for seed in range(4)]
        r.check([p.wait() for p in processes] == [0] * 4, "four at once", [p.stderr.read()[-300:] for p in processes])
        for p in processes:
            p.communicate()
    after = len(everything(record))
    r.check(after == before + 12, "no run of four at once is lost", after - before)
    seeds = sorted(Recorded(record, i).about["seed"] for i in range(before, after))
    r.check(seeds == sorted([0, 1, 2, 3] * 3), "each has its own", seeds)


def without_references(content):
    """Whether a page or picture is well-formed and loads nothing."""
    elements = list(ElementTree.fromstring(content).iter())
    addresses = [v for e in elements for k, v in e.attrib.items() if k.split("}")[-1] in ("href", "src")]
    tags = {e.tag.split("}")[-1] for e in elements}
    return (all(v.startswith("#") or ":" not in v for v in addresses) and not tags & {"script", "link", "img", "image", "iframe", "object"}
            and b"@import" not in content and not re.search(rb"url\((?!#)", content))  # fmt: skip


def drawn(r, record):
    folder = r.folder / "pages"
    out, _ = r.run(["report", record, "-o", folder])
    page, web = (folder / "index.md").read_text(), (folder / "index.html").read_bytes()
    pictures = sorted(p.stem for p in folder.glob("*.png"))
    r.check(f"{len(pictures)} pictures" in out, "the number of pictures", out)
    named = sorted(line[line.rindex("(") + 1:-5] for line in page.splitlines() if line.startswith("!["))
    r.check(named == pictures and len(pictures) > 20, "every picture is shown, and every shown one exists", named)
    r.check(all((folder / f"{p}.png").read_bytes().startswith(b"\x89PNG") for p in pictures), "pictures are PNG")
    r.check(sorted(p.stem for p in folder.glob("*.svg")) == pictures and web.count(b"<svg") == len(pictures), "each picture is also SVG")
    r.check(all(without_references(p.read_bytes()) for p in [*folder.glob("*.svg"), folder / "index.html"]), "SVG, HTML: well-formed, alone")
    runs = len(everything(record))
    r.check(all(f"## Run {i} of" in page for i in range(runs)), "a section for each run")
    for words in ("No tokens were drafted", "the whole KV cache was on the device", "| lossy |", "stopped by SIGTERM", "resumed", "runs compared",
                  "| model | data, prompt | temperature | mode |"):  # fmt: skip
        r.check(words in page, f"the page has '{words}'")

    compared = page.split("## Run 0 of")[0]
    for mode in ("none", "triforce", "h2o+full", "h2o", "none@3", "window", "tree"):
        r.check(f"| 0.8 | `{mode}` |" in compared, f"the comparison has {mode}")

    record, folder = r.folder / "one.h5", r.folder / "one"
    r.run(r.generate(record, *TRIFORCE, *SLOW, "--trace", r.folder / "trace.json"))
    r.run(["report", record, "-o", folder])
    first = {p.name: p.read_bytes() for p in folder.iterdir()}
    r.check("](../trace.json)" in first["index.md"].decode() and b'href="../trace.json"' in first["index.html"], "the trace is linked")
    r.run(["report", record, "-o", folder])
    r.check({p.name: p.read_bytes() for p in folder.iterdir()} == first, "the same record gives the same bytes")
    for name in ("index.md", "index.html", "run-0000-speed.png", "run-0000-speed.svg"):
        (folder / name).write_text("mine")
        r.run(["report", record, "-o", folder], status=73)
        r.check({p.name: p.read_bytes() for p in folder.iterdir()} == first | {name: b"mine"}, f"another {name} is unchanged")
        (folder / name).write_bytes(first[name])
    both = r.folder / "both"
    (r.folder / "copy.h5").write_bytes(record.read_bytes())
    r.run(["report", record, r.folder / "copy.h5", "-o", both])
    r.check(len(list(both.iterdir())) == 2 * len(first) - 2, "two files with runs of the same numbers")


def pictures(r, record):
    """Rules of pictures, by their figures."""
    sys.path.insert(0, str(r.script.parent))
    import acceptance
    import charts
    import memory
    import records
    import style
    import timeline

    style.set_style()
    for module in (acceptance, charts, memory, timeline):
        module.finish = lambda figure, title, handles=(), labels=(), columns=0: (figure, title, labels)
    bench = next(run for run in records.load(str(record)) if run.command == "bench")
    entries = [(mode, mode.rates()) for mode in bench.modes]
    drawings = {"speed": charts.speed("Speed", entries, entries[0]), "latency": charts.latency(bench.modes), "memory": memory.memory(bench),
                "acceptance": acceptance.acceptance(acceptance.levels_of(bench)), "timeline": timeline.timeline(bench.modes[0], bench.about["names"])}  # fmt: skip
    for what, (figure, title, labels) in drawings.items():
        r.check(title and all(axes.get_xlabel() for axes in figure.axes), f"{what}: title and labels")
        panels = [axes.get_title(loc="left") for axes in figure.axes]
        r.check((style.LOSSY in panels) == (what in ("speed", "latency", "memory")), f"{what}: a panel of lossy modes", panels)
    bars = {axes.get_title(loc="left"): [t.get_text() for t in axes.get_yticklabels()] for axes in drawings["speed"][0].axes[::2]}
    r.check(bars == {"Exact": [f"{m} (n=3)" for m in ("none", "triforce", "h2o+full", "none@3")], style.LOSSY: ["h2o (n=3)"]}, "panels", bars)
    r.check(2 < len(drawings["memory"][2]) <= 6, "memory has at most six parts", drawings["memory"][2])
    r.check(all(axes.lines and any("capacity" in t.get_text() for t in axes.texts) for axes in drawings["memory"][0].axes), "capacity")
    one, two = np.array([4.0]), np.array([2.0, 1.0])
    r.check(charts.speedup(one, two) == (4 / 1.5, None) and charts.speedup(two + 1, two)[1] == (1, 3), "no range of one sample")
    lines = [len(charts.speed("Speed", [(entries[0][0], x), (entries[1][0], y)], (entries[0][0], x))[0].axes[1].containers)
             for x, y in ((one, one + 1), (two, two + 1))]  # fmt: skip
    r.check(lines == [2, 3], "error bars of several samples only", lines)
    low, high = acceptance.interval(np.array([1.0, 1.0]), np.array([1.0, 2.0]))
    r.check(bool(np.isnan(low[0]) and np.isnan(high[0])) and low[1] < 0.5 < high[1], "no interval of one token", (low, high))
    known = [style.look(records.Mode(bench, 0, {"name": n, "bounded": b})) for of, b in ((style.EXACT, False), (style.POLICIES, True)) for n in of]
    colors = [color for color, _ in known] + list(style.OTHERS)
    r.check(len(set(colors)) == len(colors), "each mode has its own colour")
    r.check(style.look(bench.modes[1]) == known[list(style.EXACT).index("triforce")], "colours are by name")


def contents(r, record):
    """Settings, and texts that look like markup, in records that this test writes."""
    run = Recorded(record, 0)
    hostile = "</p><script>alert(1)</script> $x_{ ]]> --> |`"
    run.about["command_line"].append(hostile)
    run.about["modes"][0]["name"] = hostile
    for changed in (None, ["temp", "file"]):
        about = {k: v for k, v in run.about.items() if k != "settings_changed"} | ({"settings_changed": changed} if changed else {})
        path, folder = r.folder / "written.h5", r.folder / f"written-{bool(changed)}"
        with h5py.File(path, "w") as file:
            for name, values in (run.tables | {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)}).items():
                file[f"runs/0000/{name}"] = values
        done = subprocess.run([sys.executable, "-B", r.script, "-o", folder, path], capture_output=True, text=True)
        r.check(done.returncode == 0, "a written record", done.stderr[-600:])
        page, web = (folder / "index.md").read_text(), (folder / "index.html").read_bytes()
        shown = [line.split("`")[1] for line in page.split(">Settings")[1].split("</details>")[0].splitlines() if line.startswith("| `")]
        expected = [k for k, v in about["settings"].items() if (k in changed if changed else v)]
        r.check(shown == expected and ("Settings that differ from the default" in page) == bool(changed), "settings", shown)
        r.check(without_references(web) and b"<script" not in web and web.count(b"&lt;script&gt;") > 3, "texts are escaped")


def damaged(r, record, spoilt_records):
    """Messages of the script itself for HDF5 files that are not records; `trireme report` would refuse them before."""
    def refused(change, what):
        path = r.folder / "odd.h5"
        path.unlink(missing_ok=True)
        with h5py.File(path, "w") as file:
            change(file)
        done = subprocess.run([sys.executable, "-B", r.script, "-o", r.folder / "odd", path], capture_output=True, text=True)
        r.check(done.returncode == 65 and len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr, what, done.stderr)

    about = Recorded(record, 0).about

    def run_with(text, **tables):
        def change(file):
            file["runs/0000/about"] = np.frombuffer(text.encode(), np.uint8)
            for name, values in tables.items():
                file[f"runs/0000/{name}"] = values
        return change

    refused(lambda file: None, "no runs")
    refused(lambda file: file.create_group("runs/0000"), "no about")
    refused(run_with("{"), "about is no JSON")
    refused(run_with("[" * 100000), "about is deep")
    refused(run_with("[]"), "about is a list")
    refused(run_with(json.dumps(about), rounds=np.zeros((3, 2), np.int64)), "a table of two columns")
    refused(run_with(json.dumps(about), rounds=np.zeros(7, np.float32)), "a table of floats")
    (r.folder / "odd.h5").write_bytes(record.read_bytes()[:5000])
    done = subprocess.run([sys.executable, "-B", r.script, "-o", r.folder / "odd", r.folder / "odd.h5"], capture_output=True, text=True)
    r.check(done.returncode == 65 and len(done.stderr.splitlines()) == 1, "cut short", done.stderr)
    rng = random.Random(5)

    def spoilt(value, depth=0):
        """JSON of the same structure, with other values in some positions."""
        if rng.random() < 0.03 * depth:
            return rng.choice([None, -1, 1.5, "x", [], {}, True, 10**30, [None], {"a": 1}, "`|\n<b>"])
        if isinstance(value, dict):
            return {k: spoilt(v, depth + 1) for k, v in value.items() if k == "columns" or rng.random() > 0.02}
        return [spoilt(v, depth + 1) for v in value] if isinstance(value, list) else value

    recorded = Recorded(record, 2)
    for i in range(spoilt_records):
        path = r.folder / "odd.h5"
        path.unlink(missing_ok=True)
        odd = spoilt(recorded.about)
        with h5py.File(path, "w") as file:
            values = {k: np.where(rng.random() < 0.3, rng.randint(-9, 2**60), v) if len(v) else v for k, v in recorded.tables.items()}
            run_with(json.dumps(odd), **values)(file)
        done = subprocess.run([sys.executable, "-B", r.script, "-o", r.folder / f"odd{i}", path], capture_output=True, text=True)
        right = done.returncode in (0, 65) and "Traceback" not in done.stderr
        r.check(right, f"spoilt record {i}", done.stderr[-800:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--spoilt", type=int, default=25, help="records of odd content that are drawn, or refused")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        r = Runner(arguments.program, folder)
        record = r.folder / "runs.h5"
        generates(r, record)
        bench(r, record)
        others(r, record)
        scores(r, record)
        side_by_side(r, record)
        stopped(r, record)
        drawn(r, record)
        pictures(r, record)
        contents(r, record)
        held(r, record)
        damaged(r, record, arguments.spoilt)
        killed(r, record, arguments.kills, random.Random(arguments.seed))
        at_once(r, record)
        print(f"{r.passed} passed, {r.failed} failed")
        return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
