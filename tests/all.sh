#!/usr/bin/env bash
# Runs all tests that every change must pass: tests/run.sh, then slow tests, GPU checks and sanitizers.
# Last line: "N passed, N failed", summed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$root/build/logs"
passed=0 failed=0
for name in run slow gpu_kernels gpu_software sanitizers; do
    begin=$SECONDS
    printf '== tests/%s.sh\n' "$name"
    "$root/tests/$name.sh" | tee "$root/build/logs/$name.out"
    if [[ $(tail -n 1 "$root/build/logs/$name.out") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
        printf 'tests/%s.sh: no closing line\n' "$name"
    fi
    printf '== tests/%s.sh: %d s\n\n' "$name" $((SECONDS - begin))
done
printf '%d passed, %d failed\n' "$passed" "$failed"
(( failed == 0 && passed > 0 ))
