#!/usr/bin/env bash
# The release build's tests without a GPU, and the format check.
#   tests/run.sh [--only LABEL]
#     --only LABEL  tests with this label
# Other scripts run slow tests (tests/slow.sh), sanitizers (tests/sanitizers.sh), GPU kernels on the host
# (tests/gpu_kernels.sh), and the CUDA module on a software GPU (tests/gpu_software.sh). tests/all.sh runs them all.
# Last line: "N passed, N failed"; the exit status is 0 if nothing failed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

only=''
while (( $# )); do
    case $1 in
        --only) only=${2:?tests/run.sh: --only wants a label}; shift ;;
        *) echo "tests/run.sh: unknown argument '$1'; want --only LABEL" >&2; exit 64 ;;
    esac
    shift
done
source tests/steps.sh
prepare
require build release host_tests
run_tests release --label-exclude '^(gpu|gpu_more|cuda|slow)$' ${only:+--label-regex "^$only\$"}
if [[ ! $only ]]; then
    if logged format-check cmake --build build/release --target format-check; then count 1 0; else count 0 1; fi
fi
finish
