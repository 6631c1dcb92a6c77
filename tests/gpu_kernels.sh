#!/usr/bin/env bash
# The tests labelled gpu: GPU kernels, compiled for the host and run as blocks of fibers (tests/simt), and their machine
# code (tests/device_code.py). The latter requires nvcc, and is skipped without it.
#   tests/gpu_kernels.sh [--full]
#     --full  also the tests labelled gpu_more: whole chains on these kernels
# Last line: "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
more=''
case ${1:-} in
    '') ;;
    --full) more=1 ;;
    *) echo "tests/gpu_kernels.sh: unknown argument '$1'; want --full" >&2; exit 64 ;;
esac
source tests/steps.sh
prepare
if command -v nvcc >/dev/null; then
    TRIREME_CUDA_TOOLS=$(tests/fetch_cuda_tools.sh) || require false
    export TRIREME_CUDA_TOOLS
fi
require build release gpu_tests ${more:+gpu_more_tests}
run_tests release --label-regex "^gpu${more:+(_more)?}\$"
finish
