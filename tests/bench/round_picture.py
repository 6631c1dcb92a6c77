#!/usr/bin/env python3
"""One speculative round of a trace (trireme generate --trace FILE) as a picture: operations and waits of every stream.
Also prints when the link was idle in this round, and what ran meanwhile.

  round_picture.py TRACE OUT.png [ROUND]     the ROUND-th verify of the full model, counted from 1; default 3
"""
import json
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

# Streams and the names of their lanes, from the top; then the kinds of operations.
LANES = {"draft": "draft model", "retrieval": "retrieving level", "compute": "whole model", "h2d": "link"}
KINDS = [
    ("matmul", "products", "#4878a8"),
    ("attention", "attention", "#d08040"),
    ("gather_chunks", "choosing, gathering", "#60a060"),
    ("choose_chunks", None, "#60a060"),
    ("kv_stall", "waiting for tiles", "#dddddd"),
    ("wait", None, "#ffffff"),
    ("kv_h2d", "tiles to the device", "#a05080"),
]
OTHER = "#909090"
LEAST_GAP = 0.02  # of the round; shorter ones are not printed


def color_of(name):
    return next((color for prefix, _, color in KINDS if name.startswith(prefix)), OTHER)


def busy_ms(spans, lane, begin, end):
    """Milliseconds of [begin, end) in which a lane computes or copies."""
    return sum(max(0, min(ts + dur, end) - max(ts, begin))
               for s, name, ts, dur in spans if s == lane and name not in ("wait", "kv_stall"))


def print_gaps(spans, begin, end):
    """Prints when no tile is copied to the device, and how busy the other lanes are then."""
    copies = sorted((ts, ts + dur) for s, name, ts, dur in spans
                    if s == "h2d" and name == "kv_h2d" and ts + dur > begin and ts < end)
    print(f"round: {end - begin:.0f} ms; link busy: {busy_ms(spans, 'h2d', begin, end) / (end - begin):.0%}")
    at = begin
    for first, last in copies + [(end, end)]:
        if first - at > LEAST_GAP * (end - begin):
            lanes = ", ".join(f"{LANES[lane]} {busy_ms(spans, lane, at, first) / (first - at):.0%}"
                              for lane in LANES if lane != "h2d")
            print(f"idle: {at - begin:.0f} to {first - begin:.0f} ms, {(first - at) / (end - begin):.0%} of the round; busy meanwhile: {lanes}")
        at = max(at, last)


def main():
    trace, out = sys.argv[1:3]
    which = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    with open(trace) as f:
        events = json.load(f)
    events = events if isinstance(events, list) else events["traceEvents"]
    stream = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name" and e["pid"] == 0}
    spans = [(stream[e["tid"]], e["name"], e["ts"] / 1e3, e["dur"] / 1e3)
             for e in events if e.get("ph") == "X" and e["pid"] == 0]
    ends = sorted(ts + dur for s, name, ts, dur in spans if s == "compute" and name == "accept")
    begin, end = ends[which - 2], ends[which - 1]
    print_gaps(spans, begin, end)

    figure, axes = plt.subplots(figsize=(11, 2.6))
    for row, lane in enumerate(LANES):
        for s, name, ts, dur in spans:
            if s == lane and ts + dur > begin and ts < end:
                left = max(ts, begin)
                axes.barh(-row, min(ts + dur, end) - left, left=left - begin, height=0.7, color=color_of(name))
    axes.set_yticks([-row for row in range(len(LANES))], LANES.values())
    axes.set_xlim(0, end - begin)
    axes.set_xlabel("ms since the round before was decided")
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for _, label, color in KINDS if label]
    labels = [label for _, label, _ in KINDS if label]
    axes.legend(handles + [plt.Rectangle((0, 0), 1, 1, color=OTHER)], labels + ["the rest"], loc="upper center",
                bbox_to_anchor=(0.5, 1.22), ncol=len(labels) + 1, fontsize=7, frameon=False)
    figure.tight_layout()
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
