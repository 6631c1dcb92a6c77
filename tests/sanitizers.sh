#!/usr/bin/env bash
# Tests compiled with AddressSanitizer and UndefinedBehaviorSanitizer (label asan), and with ThreadSanitizer (tsan).
#   tests/sanitizers.sh [--full] [asan|tsan]...
# Without an argument only asan: CI has no time for more.
#     --full  both, and also those labelled asan_more and tsan_more, for which most of the engine is compiled again
# Last line: "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

presets=() full=''
for word in "$@"; do
    case $word in
        --full) full=1 ;;
        asan | tsan) presets+=("$word") ;;
        *) echo "tests/sanitizers.sh: unknown argument '$word'; want --full, asan or tsan" >&2; exit 64 ;;
    esac
done
if (( ${#presets[@]} == 0 )); then presets=(asan ${full:+tsan}); fi
source tests/steps.sh
prepare
for preset in "${presets[@]}"; do
    require build "$preset" "${preset}_tests" ${full:+"${preset}_more_tests"}
    run_tests "$preset" --label-regex "^$preset${full:+(_more)?}\$"
done
finish
