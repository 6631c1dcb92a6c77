#!/usr/bin/env bash
# The main job from a fresh clone: sets up, builds, fetches a real model, and has two ranks continue a long text.
# Text on stdout, everything else on stderr. Extra arguments go to `trireme generate`, e.g. launch/demo.sh -n 500.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

./launch/setup.sh --build
source launch/steps.sh
build release trireme
model=$(./launch/fetch_demo_model.sh)

# One core: two ranks take turns on it.
if (( $(nproc) < 2 )); then export OMPI_MCA_rmaps_base_oversubscribe=1; fi
report=$root/build/demo_report.json
set -- mpirun -n 2 build/release/launch/trireme generate --model "$model" --file configs/demo.txt --ctx-size 8192 \
    --n-predict 200 --temp 0 --report-json "$report" "$@"
echo "demo: $*" >&2
"$@"
echo "demo: the whole report is in $report" >&2
