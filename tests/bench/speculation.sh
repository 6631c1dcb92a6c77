#!/usr/bin/env bash
# The speed table of docs/results/speculation.md: the demo model with its draft at context 7,680 of two texts. All KV is
# streamed over emulated links, on which copying takes 10 and 18 times as long as computing; or all KV is on chip.
#   speculation.sh TRIREME MODEL [REPETITIONS] [TEXTS] [FACTORS] [TEMPERATURES] [ROWS]
#     3 repetitions; "kjv_end story"; "0 10 18" (0: on chip); "0.8 0"; ROWS: a file that gets all rows of bench as JSON lines
# At temperature 0, only plain decoding and the chains with retrieval are measured. 50 minutes on 2 idle cores.
# MODES: chains of bench. WIRE=coded: tiles are coded; the links are those of raw tiles.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
trireme=$1 model=$2 repetitions=${3:-3} texts=${4:-kjv_end story} factors=${5:-0 10 18} temperatures=${6:-0.8 0} rows=${7:-/dev/null}
tokens=7680 bytes_a_step=171200000 # streamed KV per step: all tiles except the newest two of each layer
common=(bench -m "$model" -md "$root/configs/models/smol-draft" --prefill $tokens --budget 1024 --top-k 0 --top-p 1 --no-progress
    --kv-wire "${WIRE:-raw}"
    -t 2) # as with KV on chip: at these rates copies over the emulated link take a small part of a core

# Milliseconds of a plain step with all KV on chip: median of five runs of 32 tokens.
compute_ms=$("$trireme" "${common[@]}" -f "$root/configs/texts/kjv_end.txt" --modes none --kv-on-chip all -n 32 -r 5 --temp 0.8 -o json 2>/dev/null |
    python3 -c 'import json, sys; print(1e3 / json.load(sys.stdin)[0]["median_ts"])')
echo "a plain step on chip: $compute_ms ms"
: >"$rows"
here=$(mktemp)
trap 'rm -f "$here"' EXIT
for temperature in $temperatures; do
    modes=${MODES:-none,ngram,draft,retrieval,tree,triforce}
    [[ $temperature == 0 ]] && modes=none,retrieval,triforce
    for text in $texts; do
        for factor in $factors; do
            where=(--kv-on-chip all)
            if (( factor > 0 )); then
                gbps=$(python3 -c "print(round($bytes_a_step / ($factor * $compute_ms * 1e6), 3))")
                where=(--kv-on-chip 0 --link-gbps "$gbps")
            fi
            printf '\n%s, copy %s x compute (%s), T %s\n\n' "$text" "$factor" "${where[*]}" "$temperature"
            "$trireme" "${common[@]}" -f "$root/configs/texts/$text.txt" --modes $modes "${where[@]}" \
                -n 128 -r "$repetitions" --temp "$temperature" -o jsonl 2>/dev/null >"$here"
            python3 "$root/tests/bench/speculation_table.py" <"$here"
            sed "s|^{|{\"text\":\"$text\",\"factor\":$factor,\"compute_ms\":$compute_ms,|" "$here" >>"$rows"
        done
    done
done
