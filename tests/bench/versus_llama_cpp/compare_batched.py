"""Parallel samples of one prompt, Trireme and llama.cpp interleaved: a table of medians and ratios. See README.md."""

import argparse
import itertools
import json
import pathlib
import statistics
import sys
import tempfile

from compare import HERE, Runner, name_of, output_of, parser_of

# Required decode tokens/s relative to one sample, by number of samples.
WANTED = {8: 4.0, 64: 8.0}


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--beside", default="1,8,64", help="samples, comma separated")
    parser.add_argument("--prompt", type=int, default=2048, help="tokens")
    parser.add_argument("--new", type=int, default=48, help="tokens of each sample")
    return parser.parse_args()


class Batched(Runner):
    def ours_beside(self, beside: int, kv: str) -> float:
        prompt, report = self.folder / "prompt.json", self.folder / "report.json"
        prompt.write_text(json.dumps(self.ids[: self.args.prompt]))
        report.unlink(missing_ok=True)
        output_of([self.args.trireme, "generate", "-m", str(self.args.model), "--prompt-ids", str(prompt), "-n",
                   str(self.args.new), "-t", str(self.args.threads), "--num-samples", str(beside), "-np", str(beside),
                   "--temp", "0.8", "--seed", "1", "--ignore-eos", "--no-progress", "--print", "ids",
                   "-ctk", kv, "-ctv", kv, "--report-json", str(report)])  # fmt: skip
        result = json.loads(report.read_text())
        self.our_type = result["weights"]["dtype"]
        return 1e3 / result["tpot_ms"]

    def theirs_beside(self, beside: int, setting: tuple[str, int, str]) -> float:
        weights, flash, kv = setting
        model = self.args.model.with_suffix(f".{weights}.gguf")
        result = json.loads(output_of([sys.executable, str(HERE / "batched_peer.py"), str(model), str(self.args.prompt),
                                       str(self.args.new), str(self.args.threads), str(flash), kv, str(self.all_ids),
                                       str(beside)]))  # fmt: skip
        return beside * (self.args.new - 1) / result["decode_ms"] * 1e3


def main() -> None:
    args = arguments()
    numbers = [int(b) for b in args.beside.split(",")]
    kv_types = args.kv.split(",")
    settings = list(itertools.product(("f16", "bf16"), (1, 0), kv_types))
    with tempfile.TemporaryDirectory() as folder:
        runner = Batched(args, pathlib.Path(folder))
        if len(runner.ids) < args.prompt:
            sys.exit(f"compare_batched.py: {args.text} has {len(runner.ids)} tokens, want {args.prompt}")
        trial = {b: {s: runner.theirs_beside(b, s) for s in settings} for b in numbers}
        # All numbers of samples use one KV type, because their rates are divided by each other.
        our_kv = max(kv_types, key=lambda kv: runner.ours_beside(numbers[-1], kv))
        best = {b: max(settings, key=lambda s: trial[b][s]) for b in numbers}
        ours, theirs = {b: [] for b in numbers}, {b: [] for b in numbers}
        for _ in range(args.repeats):
            for b in numbers:
                ours[b].append(runner.ours_beside(b, our_kv))
                theirs[b].append(runner.theirs_beside(b, best[b]))

    print(f"{args.threads} threads, {args.prompt} tokens of prompt, {args.new} of each sample, medians of {args.repeats} "
          f"interleaved runs, tokens/s of all samples together; ours: {runner.our_type}, KV {our_kv}\n")  # fmt: skip
    print("| samples | trireme | relative to one | goal "
          "| llama.cpp | over one sample | its best setting | ratio |")
    print("|---:|---:|---:|---|---:|---:|---|---:|")
    first = numbers[0]
    for b in numbers:
        ratio = statistics.median(a / c for a, c in zip(ours[b], theirs[b]))
        gain = statistics.median(a / c for a, c in zip(ours[b], ours[first]))
        peer = statistics.median(a / c for a, c in zip(theirs[b], theirs[first]))
        wanted = f"{WANTED[b]} {'met' if gain >= WANTED[b] else 'missed'}" if b in WANTED else ""
        print(f"| {b} | {statistics.median(ours[b]):.1f} | {gain:.2f} | {wanted} "
              f"| {statistics.median(theirs[b]):.1f} | {peer:.2f} | {name_of(best[b])} | {ratio:.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
