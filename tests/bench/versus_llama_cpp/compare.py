"""Runs Trireme and llama.cpp interleaved and prints one table of medians and ratios. See README.md in this folder."""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Required ratios (ours / theirs), by measure and context length.
WANTED = {("decode", 64): 1.05, ("decode", 4096): 1.7, ("decode", 8000): 2.0, ("prefill", 64): 1.1, ("prefill", 4096): 2.3,
          ("prefill", 8000): 3.0}  # fmt: skip


def parser_of(description: str) -> argparse.ArgumentParser:
    """The arguments that all comparisons have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--trireme", required=True, help="the program")
    parser.add_argument("--model", required=True, type=pathlib.Path, help="the demo model, .f16 and .bf16 in the same folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kv", default="f16", help="types of keys and values, comma separated; each takes its fastest")
    parser.add_argument("--random-ids", action="store_true", help="ids below 30,000, for a model without tokenizer")
    parser.add_argument("--text", type=pathlib.Path, default=HERE.parents[1] / "data/texts/kjv_60k.txt")
    return parser


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--contexts", default="64,4096,8000", help="tokens, comma separated")
    parser.add_argument("--peer-weights", default="f16,bf16", help="the peer's files: f16, bf16, or file: the same file as ours")
    parser.add_argument("--new", type=int, default=48, help="tokens decoded after the prompt")
    return parser.parse_args()


def output_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


class Runner:
    """Both programs on the same ids; a run returns tokens/s as {"prefill": ..., "decode": ...}."""

    def __init__(self, args: argparse.Namespace, folder: pathlib.Path) -> None:
        self.args, self.folder = args, folder
        if args.random_ids:
            self.ids = [i * 7919 % 29000 + 300 for i in range(8192)]
        else:
            self.ids = json.loads(output_of([args.trireme, "tokenize", "-m", str(args.model), "-f", str(args.text)]))
        self.all_ids = folder / "ids.json"
        self.all_ids.write_text(json.dumps(self.ids))

    def ours(self, context: int, kv: str) -> dict[str, float]:
        prompt, report = self.folder / f"ids{context}.json", self.folder / "report.json"
        prompt.write_text(json.dumps(self.ids[:context]))
        report.unlink(missing_ok=True)
        output_of([self.args.trireme, "generate", "-m", str(self.args.model), "--prompt-ids", str(prompt),
                   "-n", str(self.args.new), "-t", str(self.args.threads), "-c", "8192", "--temp", "0", "--ignore-eos",
                   "-ctk", kv, "-ctv", kv, "--no-progress", "--print", "ids", "--report-json", str(report)])  # fmt: skip
        result = json.loads(report.read_text())
        self.our_type = result["weights"]["dtype"] + (" (blocks)" if result["weights"]["blocks"] else "")
        return rates(result, context)

    def theirs(self, context: int, setting: tuple[str, int, str]) -> dict[str, float]:
        weights, flash, kv = setting
        model = self.args.model if weights == "file" else self.args.model.with_suffix(f".{weights}.gguf")
        return rates(json.loads(output_of([sys.executable, str(HERE / "peer.py"), str(model), str(context),
                                           str(self.args.new), str(self.args.threads), str(flash),
                                           kv, str(self.all_ids)])), context)  # fmt: skip


def rates(result: dict, context: int) -> dict[str, float]:
    return {"prefill": context / result["prefill_ms"] * 1e3, "decode": 1e3 / result["tpot_ms"]}


def name_of(setting: tuple[str, int, str]) -> str:
    return f"{setting[0]}, {'flash attention' if setting[1] else 'no flash attention'}, KV {setting[2]}"


def main() -> None:
    args = arguments()
    contexts = [int(c) for c in args.contexts.split(",")]
    kv_types = args.kv.split(",")
    settings = [s for s in itertools.product(args.peer_weights.split(","), (1, 0), kv_types)
                if s[1] == 1 or s[2] != "q8_0"]  # llama.cpp has no other attention over q8_0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, pathlib.Path(folder))
        if len(runner.ids) < max(contexts):
            sys.exit(f"compare.py: {args.text} has {len(runner.ids)} tokens, want {max(contexts)}")
        # The best setting may differ by measure and length, so every setting has one trial run for each.
        trial = {c: {s: runner.theirs(c, s) for s in settings} for c in contexts}
        our_trial = {c: {kv: runner.ours(c, kv) for kv in kv_types} for c in contexts}
        measures = [(m, c) for c in contexts for m in ("decode", "prefill")]
        best = {(m, c): max(settings, key=lambda s: trial[c][s][m]) for m, c in measures}
        our_best = {(m, c): max(kv_types, key=lambda kv: our_trial[c][kv][m]) for m, c in measures}
        ours = {k: [] for k in measures}
        theirs = {k: [] for k in measures}
        for _ in range(args.repeats):
            for c in contexts:
                run = {kv: runner.ours(c, kv) for kv in sorted({our_best[m, c] for m in ("decode", "prefill")})}
                peer = {s: runner.theirs(c, s) for s in sorted({best[m, c] for m in ("decode", "prefill")})}
                for m in ("decode", "prefill"):
                    ours[m, c].append(run[our_best[m, c]][m])
                    theirs[m, c].append(peer[best[m, c]][m])

    print(f"{args.threads} threads, medians of {args.repeats} interleaved runs, tokens/s; ours: {runner.our_type}\n")
    print("| measure | context | trireme | its KV | llama.cpp | its best setting | ratio | goal |")
    print("|---|---:|---:|---|---:|---|---:|---:|")
    for m, c in measures:
        ratio = statistics.median(a / b for a, b in zip(ours[m, c], theirs[m, c]))
        wanted = WANTED.get((m, c))
        verdict = "" if wanted is None else f"{wanted:.2f} {'met' if ratio >= wanted else 'missed'}"
        print(f"| {m} | {c} | {statistics.median(ours[m, c]):.1f} | {our_best[m, c]} "
              f"| {statistics.median(theirs[m, c]):.1f} | {name_of(best[m, c])} | {ratio:.2f} | {verdict} |")  # fmt: skip


if __name__ == "__main__":
    main()
