#!/usr/bin/env bash
# The CUDA module, unmodified, on a software GPU. It executes host calls, streams, graphs, cuBLASLt and NCCL calls, and
# kernels from their PTX. Its scheduler looks for missing waits. It shows neither speed nor errors of ptxas.
#   tests/gpu_software.sh [--full] [--only TEXT]...
#     --full       all checks, about an hour; without it the list of CI, at most 8 minutes on 2 cores
#     --only TEXT  only checks whose name contains TEXT
# The software GPU is expected in TRIREME_SOFTWARE_GPU, else in ../shared/software-gpu. Last line: "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
emulator=${TRIREME_SOFTWARE_GPU:-$root/../shared/software-gpu}
if [[ ! -x $emulator/run.sh ]]; then
    echo "gpu_software: skipped: there is no software GPU in $emulator (TRIREME_SOFTWARE_GPU)"
    echo '0 passed, 0 failed'
    exit 0
fi
if ! command -v nvcc >/dev/null; then
    echo 'gpu_software: skipped: there is no nvcc, so the CUDA module is not built'
    echo '0 passed, 0 failed'
    exit 0
fi
source tests/steps.sh
require ./launch/setup.sh --test
export SWGPU_WORK=$root/build/software-gpu
mkdir -p "$SWGPU_WORK"
require build release trireme_program
if missing=$(grep -o 'No .*: the CUDA module is not built' "$logs/configure-release.log"); then
    echo "gpu_software: skipped: $missing"
    echo '0 passed, 0 failed'
    exit 0
fi
require logged 'build checks' cmake --build build/release --parallel "$(nproc)" --target kernels_cuda_test engine_cuda_test \
    bench_device bench_step
require logged 'software gpu' "$emulator/run.sh" build/release
exec /usr/bin/python3 tests/gpu_software.py build/release "$SWGPU_WORK" "$@"
