#!/usr/bin/env bash
# Every test that needs no GPU: the release build's, then the labelled subsets under the sanitizers.
#   tests/run.sh [--quick] [--only LABEL]
#     --quick       the release build alone
#     --only LABEL  release tests with this label; asan and tsan name the sanitizers' own runs
# The last line is "N passed, N failed"; the exit status is 0 if nothing failed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

quick='' only=''
while (( $# )); do
    case $1 in
        --quick) quick=1 ;;
        --only) only=${2:?tests/run.sh: --only wants a label}; shift ;;
        *) echo "tests/run.sh: unknown argument '$1'; want --quick or --only LABEL" >&2; exit 64 ;;
    esac
    shift
done

passed=0 failed=0
count() { passed=$((passed + $1)) failed=$((failed + $2)); }
finish() {
    echo
    printf '%d%% tests passed, %d tests failed out of %d\n' \
        $((passed + failed ? 100 * passed / (passed + failed) : 0)) "$failed" $((passed + failed))
    printf '%d passed, %d failed\n' "$passed" "$failed"
    (( failed == 0 && passed > 0 ))
}
# Whatever cannot even be built or fetched is a failed test: the closing line is always there and always true.
require() {
    if ! "$@"; then
        count 0 1
        finish
        exit 1
    fi
}

# attribute <name> <file>: a count in ctest's JUnit summary, whose first element has one attribute a line.
attribute() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1; }

# Sanitizers lay out memory themselves and GCC 12's break when the kernel randomises too many address bits.
fixed_layout=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_layout=(setarch "$(uname -m)" -R); fi

# run_tests <preset> [<ctest argument>...]
run_tests() {
    local preset=$1 junit=$logs/$1.xml log=$logs/test-$1.log begin=$SECONDS
    shift
    rm -f "$junit"
    printf '%-28s' "test $preset" >&2
    local status=0
    "${fixed_layout[@]}" ctest --preset "$preset" --parallel "$(nproc)" --no-tests=error --output-junit "$junit" "$@" \
        >"$log" 2>&1 || status=$?
    if [[ ! -s $junit ]]; then
        echo "FAILED: ctest ended with $status and no result; its log, $log:" >&2
        cat "$log" >&2
        count 0 1
        return
    fi
    local tests failures skipped disabled
    tests=$(attribute tests "$junit") failures=$(attribute failures "$junit")
    skipped=$(attribute skipped "$junit") disabled=$(attribute disabled "$junit")
    if (( status != 0 && failures == 0 )); then failures=1 tests=$((tests + 1)); fi
    count $((tests - failures - skipped - disabled)) "$failures"
    printf '%d passed, %d failed, %d skipped %d s\n' $((tests - failures - skipped - disabled)) "$failures" \
        $((skipped + disabled)) $((SECONDS - begin)) >&2
    if (( skipped + disabled )); then grep -E '\*\*\*(Skipped|Not Run)' "$log" >&2 || true; fi
    if (( failures )); then grep -vE '^ *(Start +[0-9]+: |[0-9]+/[0-9]+ Test .* Passed )' "$log" >&2; fi
}

require ./launch/setup.sh --test
source launch/steps.sh
export OMPI_MCA_rmaps_base_oversubscribe=1
TRIREME_DEMO_MODEL=$(./launch/fetch_demo_model.sh) || require false
export TRIREME_DEMO_MODEL

if [[ $only != asan && $only != tsan ]]; then
    require build release
    run_tests release ${only:+--label-regex "^$only\$"}
    if [[ ! $only ]]; then
        if logged format-check cmake --build build/release --target format-check; then count 1 0; else count 0 1; fi
    fi
fi
for preset in asan tsan; do
    if [[ $only == "$preset" || ( ! $only && ! $quick ) ]]; then
        require build "$preset" "${preset}_tests"
        run_tests "$preset" --label-regex "^$preset\$"
    fi
done
finish
