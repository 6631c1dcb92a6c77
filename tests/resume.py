#!/usr/bin/env python3
"""Stops runs at random moments and resumes them from their snapshots; the tokens must be those of uninterrupted runs.

  resume.py PROGRAM [--stops 200] [--seed 1] [--kills 60]

Each case has a random chain, temperature, number of ranks, KV placement before and after the stop, and kind of stop:
--checkpoint-every, or SIGUSR1 or SIGKILL at a random moment. With the same number of ranks, ids must be equal at any
temperature; with another one (2 -> 1, 1 -> 4), greedy ids in f32. `--kills` more runs are killed at random moments
while they write snapshots (one after every token). Then a complete snapshot must exist, or none, and a resumed run must
give the same ids. The last line is "N passed, N failed".
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL, DRAFT = (str(ROOT / "tests/data/models" / name) for name in ("kjv-target", "kjv-draft"))
LAYERS = 6
CHAINS = {
    "plain": [],
    "ngram": ["--spec", "ngram", "--gamma", "5"],
    "suffix": ["--spec", "suffix", "--suffix-corpus", str(ROOT / "tests/data/texts/kjv_12k.txt"), "--gamma", "9"],
    "draft": ["--spec", "draft", "-md", DRAFT, "--gamma", "4"],
    "window": ["--spec", "window", "--draft-window", "160", "--gamma", "3"],
    "retrieval": ["--spec", "retrieval", "--budget", "128", "--gamma", "4", "--reselect", "3", "--reselect-queries", "4"],
    "triforce": ["--spec", "triforce", "-md", DRAFT, "--budget", "128", "--gamma", "6", "--gamma-inner", "2"],
    "tree": ["--spec", "tree", "-md", DRAFT, "--gamma", "4"],
    "h2o": ["--spec", "h2o", "--kv-window", "160", "--gamma", "4"],
    "auto": ["--spec", "window"],
    "policy h2o": ["--kv-policy", "h2o", "--kv-window", "160"],
    "policy adakv": ["--kv-policy", "adakv", "--kv-window", "160", "--kv-every", "8"],
    "policy tova": ["--kv-policy", "tova", "--kv-window", "160"],
    "policy streaming": ["--kv-policy", "streaming", "--kv-window", "160", "--kv-positions", "rolling"],
    "conversation": [],
    "conversation, policy h2o": ["--kv-policy", "h2o", "--kv-window", "160"],
}
SLOW = ["--kv-on-chip", "0", "--link-gbps", "0.1"]  # so that a signal arrives before the run ends


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        text = (ROOT / "tests/data/texts/kjv_12k.txt").read_text()
        self.prompt = self.folder / "prompt.txt"
        self.prompt.write_text(text[:2500])
        self.turns = self.folder / "turns.jsonl"  # each answered with at most -n tokens
        self.turns.write_text("".join(json.dumps({"text": text[at:at + 400]}) + "\n" for at in (0, 3000, 6000, 9000)))
        self.environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                         "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # fmt: skip

    def start(self, ranks, words):
        command = [self.program, "generate", "-m", MODEL, "--ignore-eos", "-t", "1", "--no-progress", "--print", "ids", *words]
        if ranks > 1:
            command = ["mpirun", "-q", "-n", str(ranks), *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment,
                                start_new_session=True)  # fmt: skip

    def run(self, ranks, words):
        process = self.start(ranks, words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def stop(self, ranks, words, number, after):
        """The status of a run that receives a signal `after` seconds after its snapshot appears. SIGKILL goes to all
        ranks."""
        process = self.start(ranks, words)
        snapshot = pathlib.Path(words[words.index("--save-kv") + 1])
        while not snapshot.exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(after)
        if process.poll() is None:
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        process.communicate(timeout=120)
        # Ranks run for a moment after mpirun is killed.
        while subprocess.run(["pgrep", "-f", str(snapshot)], capture_output=True).returncode == 0:
            time.sleep(0.02)
        return process.returncode


def one_case(runner, draw, report):
    name = draw.choice(list(CHAINS))
    bounded, talks = "policy" in name, name.startswith("conversation")
    other_ranks = name in ("plain", "ngram", "window", "conversation") and draw.random() < 0.25
    before, behind = draw.choice([(2, 1), (1, 4)]) if other_ranks else [draw.choice([1, 1, 1, 2])] * 2
    tokens = draw.randrange(20, 90)
    sampling = ["--temp", "0", "-ctk", "f32", "-ctv", "f32", "--dtype", "f32"] if other_ranks else \
        ["--temp", draw.choice(["0", "0.7", "1"]), "--seed", str(draw.randrange(1 << 30))]  # fmt: skip
    how = ["-n", str(tokens), *CHAINS[name], *sampling]
    snapshot = runner.folder / "s.h5"
    for old in runner.folder.glob("*s.h5*"):
        old.unlink(missing_ok=True)
    given = ["--session", str(runner.turns)] if talks else ["-f", str(runner.prompt)]
    saves = given + ["--save-kv", str(snapshot)]
    place = [] if bounded else ["--kv-on-chip", str(draw.randrange(LAYERS + 1))]
    way = draw.choice(["every", "SIGUSR1", "SIGKILL"])
    every = ["--checkpoint-every", str(draw.randrange(1, tokens))]
    what = f"{name}, {before} -> {behind} ranks, {tokens} tokens, {way}, {' '.join(sampling)}, {' '.join(place)}"
    if way == "every":
        status, out, err = runner.run(before, how + saves + every + place)
        if status != 0:
            return report(what, f"the run that saves ends with {status}: {err}")
    else:
        slow = [] if bounded else SLOW
        status = runner.stop(before, how + saves + (every if way == "SIGKILL" else []) + slow, getattr(signal, way),
                             draw.random() * 0.3)  # fmt: skip
        if not snapshot.exists():
            return report(what, f"there is no snapshot; the run ended with {status}")
        if way == "SIGUSR1" and status not in (0, 75):
            return report(what, f"ended with {status}, not 75")
    # With `auto`, tokens depend on costs that only the snapshot contains. Then two resumed runs are compared.
    place = [] if bounded else ["--kv-on-chip", str(draw.randrange(LAYERS + 1))]
    status, resumed, err = runner.run(behind, how + (given if talks else []) + ["--load-kv", str(snapshot)] + place)
    if status != 0:
        return report(what, f"going on ends with {status}: {err}")
    if name == "auto" and way == "every":
        wanted = out
    elif name == "auto":
        wanted = runner.run(behind, how + ["--load-kv", str(snapshot)])[1]
    else:
        wanted = runner.run(before, how + given)[1]
    report(what, "" if resumed == wanted else f"other tokens: {resumed} instead of {wanted}")


def one_kill(runner, draw, wanted, report):
    ranks = draw.choice([1, 2])
    snapshot = runner.folder / "k.h5"
    how = ["-n", "60", "--temp", "0.9", "--seed", "5"]
    if ranks not in wanted:
        wanted[ranks] = runner.run(ranks, how + ["-f", str(runner.prompt)])[1]
    # The run overwrites the existing snapshot; either the old one or the new one must remain.
    go_on = ["--load-kv", str(snapshot)] if snapshot.exists() and wanted.get("ranks") == ranks else ["-f", str(runner.prompt)]
    if not snapshot.exists() or wanted.get("ranks") != ranks:
        for old in runner.folder.glob("*k.h5*"):
            old.unlink(missing_ok=True)
    wanted["ranks"] = ranks
    runner.stop(ranks, how + go_on + ["--save-kv", str(snapshot), "--checkpoint-every", "1"], signal.SIGKILL, draw.random() * 0.15)
    if not snapshot.exists():
        return report("killed before there was a snapshot", "")
    status, out, err = runner.run(ranks, how + ["--load-kv", str(snapshot)])
    report(f"killed as it wrote, {ranks} ranks", "" if status == 0 and out == wanted[ranks] else f"{status}: {out} {err}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--stops", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    counts = [0, 0]

    def report(what, wrong):
        counts[bool(wrong)] += 1
        if wrong:
            print(f"{what}: {wrong[:2000]}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(os.path.abspath(asked.program), folder)
        for _ in range(asked.stops):
            one_case(runner, draw, report)
        print(f"{asked.stops} runs stopped at random: {counts[0]} continue with the same tokens", flush=True)
        before, wanted = counts[0], {}
        for _ in range(asked.kills):
            one_kill(runner, draw, wanted, report)
        print(f"{asked.kills} runs killed while they write snapshots: {counts[0] - before} continue with the same tokens")
    print(f"{counts[0]} passed, {counts[1]} failed")
    sys.exit(1 if counts[1] else 0)


if __name__ == "__main__":
    main()
