#!/usr/bin/env python3
"""The tables of docs/results/speculation.md from rows of `trireme bench -o jsonl`, on stdin: speed, and the acceptance
rate of a level by position in the proposal."""

import json
import sys

PLACES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def line(cells):
    print("| " + " | ".join(cells) + " |")


def speeds(rows):
    line(["chain", "tok/s", "range", "over plain", "accept_rate", "accept_len", "draft_ms", "verify_ms"])
    line(["---"] + ["---:"] * 7)
    for row in rows:
        line([row["mode"], number(row["median_ts"], 2), f"{min(row['samples_ts']):.2f}-{max(row['samples_ts']):.2f}",
              number(row["speedup"], 2), number(row["accept_rate"], 2), number(row["accept_len"], 2),
              number(row["draft_ms"], 1), number(row["verify_ms"], 1)])


def places(rows):
    print()
    line(["level", "alpha"] + [str(place) for place in PLACES])
    line(["---"] + ["---:"] * (1 + len(PLACES)))
    for row in rows:
        for level in row["levels"]:
            proposed, accepted = level["proposed_at"], level["accepted_at"]
            stayed = [f"{accepted[p - 1] / proposed[p - 1]:.2f}" if p <= len(proposed) and proposed[p - 1] > 0 else ""
                      for p in PLACES]
            line([f"{row['mode']}: {level['chain']}", number(level["alpha"], 3)] + stayed)


if __name__ == "__main__":
    ROWS = [json.loads(text) for text in sys.stdin if text.strip()]
    speeds(ROWS)
    places(ROWS)
