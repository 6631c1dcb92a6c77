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

# Sanitizers lay out memory themselves and GCC 12's break when the kernel randomises too many address bits.
fixed_layout=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_layout=(setarch "$(uname -m)" -R); fi

# run_tests <preset> [<ctest argument>...]
run_tests() {
    local preset=$1 log=$logs/test-$1.log begin=$SECONDS status=0 total failures skipped
    shift
    printf '%-28s' "test $preset" >&2
    "${fixed_layout[@]}" ctest --preset "$preset" --parallel "$(nproc)" --no-tests=error "$@" >"$log" 2>&1 || status=$?
    # ctest's own closing line: "99% tests passed, 3 tests failed out of 565"; it counts a missing program as failed.
    read -r failures total < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$log") || true
    if [[ ! ${total:-} || ( $status != 0 && $failures == 0 ) ]]; then
        echo "FAILED: ctest ended with $status; its log, $log:" >&2
        cat "$log" >&2
        count 0 1
        return
    fi
    skipped=$(grep -cE '\*\*\*(Skipped|Not Run \(Disabled\))' "$log" || true)
    count $((total - failures - skipped)) "$failures"
    printf '%d passed, %d failed, %d skipped %d s\n' $((total - failures - skipped)) "$failures" "$skipped" \
        $((SECONDS - begin)) >&2
    if (( skipped )); then sed -n '/^The following tests did not run:/,/^$/p' "$log" >&2; fi
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
