#!/usr/bin/env bash
# The main job from a fresh clone: sets up, builds, fetches a real model, and has two ranks continue a long text
# (configs/demo.ini). Then one rank decodes a text with and without speculation, over a slow link (configs/demo-speed.ini).
# The text and the table go to stdout, everything else to stderr.
# Extra arguments go to `trireme generate` and override its file: launch/demo.sh -n 500 --temp 0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

./launch/setup.sh --build
source launch/steps.sh
with_tests=OFF
# The CUDA module takes long to build, so it is built only with NVIDIA's driver: nvcc may be present without a GPU.
if [[ $(ldconfig -p) != *'libcuda.so.1 '* ]]; then cuda=OFF; fi
build release all
model=$(./launch/fetch_demo_model.sh)

if (( $(nproc) < 2 )); then export OMPI_MCA_rmaps_base_oversubscribe=1; fi  # one core: the ranks alternate
report=$root/build/demo_report.json
set -- mpirun -n 2 build/release/launch/trireme generate --config configs/demo.ini --model "$model" \
    --report-json "$report" --force "$@"
echo "demo: $*" >&2
"$@"
echo "demo: the whole report is in $report" >&2

echo 'demo: now the same 48 tokens twice, their keys and values behind an emulated link of 0.15 GB/s (a minute): once token by' \
    'token (none), once proposed by a small draft and a part of the keys and values, then checked together (triforce);' \
    'speedup says how many times as fast, exact that the tokens are the same. Greedy, a model this small repeats itself,' \
    'which is easy to guess.' >&2
echo  # the text above does not end its line
build/release/launch/trireme bench --config configs/demo-speed.ini --model "$model"
