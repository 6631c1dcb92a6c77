#!/usr/bin/env python3
"""Compares the forecasts of `trireme plan` with the chains that speculation.sh measured.

  speculation_forecast.py TRIREME MODEL DRAFT ROWS     ROWS: the rows that speculation.sh wrote, including those on chip

Draft lengths and acceptance rates come from the measured run. The costs of forwards come from the same chain with all
KV on chip."""

import json
import os
import re
import subprocess
import sys
import tempfile


def forecast(trireme, model, draft, row, costs):
    """plan's forecast of a round: tok/s, speed-up, tokens, draft_ms and verify_ms."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        with open(report, "w", encoding="utf-8") as file:
            json.dump({"spec_costs": costs}, file)
        rates = ",".join(f"{level['alpha']:.4f}" for level in row["levels"])
        lengths = [str(max(1, round(level["proposed"] / level["rounds"]))) for level in row["levels"]]
        said = subprocess.run(
            [trireme, "plan", "-m", model, "-md", draft, "-c", str(row["n_prompt"] + row["n_gen"] // 2), "--kv-on-chip", "0",
             "--link-gbps", str(row["link_gbps"]), "--device", "cpu", "--spec", row["mode"], "--budget", str(row["retrieval_budget"]),
             "--accept-rate", rates, "--spec-costs", report, "--gamma", lengths[0], "--gamma-inner", lengths[-1]], capture_output=True, text=True, check=True).stdout
    spoken = re.search(r"\(draft_ms ([\d.]+), verify_ms ([\d.]+)\) for ([\d.]+) tokens\n.*\(([\d.]+) tok/s\): ([\d.]+) times", said)
    draft_ms, verify_ms, tokens, rate, speedup = map(float, spoken.groups())
    return rate, speedup, tokens, draft_ms, verify_ms


def main():
    trireme, model, draft, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    on_chip = {row["mode"]: row["spec_costs"] for row in rows if row["factor"] == 0}
    print("| text | T | copy / compute | chain | tok/s | predicted | measured / predicted | tokens a round | predicted "
          "| draft_ms + verify_ms | predicted |\n|" + " --- |" * 4 + " ---: |" * 7)
    for row in rows:
        costs = on_chip.get(row["mode"])
        if row["factor"] == 0 or not row["levels"] or not costs or None in [level["alpha"] for level in row["levels"]]:
            continue
        measured = len(row["samples_ns"]) * (row["n_gen"] - 1) / sum(row["samples_ns"]) * 1e9  # all tokens by all time
        rate, speedup, tokens, draft_ms, verify_ms = forecast(trireme, model, draft, row, costs)
        print(f"| {row['text']} | {row['temp']} | {row['factor']} | {row['mode']} | {measured:.2f} | {rate:.2f} | {measured / rate:.2f} "
              f"| {row['accept_len']:.2f} | {tokens:.2f} "
              f"| {row['draft_ms']:.0f} + {row['verify_ms']:.0f} | {draft_ms:.0f} + {verify_ms:.0f} |")


if __name__ == "__main__":
    main()
