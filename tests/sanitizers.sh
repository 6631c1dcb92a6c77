#!/usr/bin/env bash
# The tests labelled asan and tsan, compiled with AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer.
#   tests/sanitizers.sh [asan|tsan]...
# Last line: "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

presets=()
for preset in "$@"; do
    case $preset in
        asan | tsan) presets+=("$preset") ;;
        *) echo "tests/sanitizers.sh: unknown argument '$preset'; want asan or tsan" >&2; exit 64 ;;
    esac
done
if (( ${#presets[@]} == 0 )); then presets=(asan tsan); fi
source tests/steps.sh
prepare
for preset in "${presets[@]}"; do
    require build "$preset" "${preset}_tests"
    run_tests "$preset" --label-regex "^$preset\$"
done
finish
