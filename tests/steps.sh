# shellcheck shell=bash disable=SC2034
# Steps of the test scripts. A script sources this file after it has set `root` to the repository, and ends with
# `finish`,
# whose last line is "N passed, N failed".
source "$root/launch/steps.sh"
export OMPI_MCA_rmaps_base_oversubscribe=1

passed=0 failed=0
count() { passed=$((passed + $1)) failed=$((failed + $2)); }
finish() {
    echo
    printf '%d%% tests passed, %d tests failed out of %d\n' \
        $((passed + failed ? 100 * passed / (passed + failed) : 0)) "$failed" $((passed + failed))
    printf '%d passed, %d failed\n' "$passed" "$failed"
    (( failed == 0 && passed > 0 ))
}
# Runs a command; if it fails, that counts as a failed test, and the script ends with its closing line.
require() {
    if ! "$@"; then
        count 0 1
        finish
        exit 1
    fi
}

# Installs the packages of the tests, and fetches the demo model.
prepare() {
    require ./launch/setup.sh --test
    TRIREME_DEMO_MODEL=$(./launch/fetch_demo_model.sh) || require false
    export TRIREME_DEMO_MODEL
}

# Sanitizers choose their own memory layout; those of GCC 12 fail if the kernel randomises too many address bits.
fixed_layout=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_layout=(setarch "$(uname -m)" -R); fi

# run_tests <preset> [<ctest argument>...]
run_tests() {
    local preset=$1 log=$logs/test-$1.log begin=$SECONDS status=0 total failures skipped
    shift
    printf '%-28s' "test $preset" >&2
    # One more than there are cores, because many tests wait for ranks. A test of ranks as threads counts as 3, so it
    # runs alone on 2 cores.
    "${fixed_layout[@]}" ctest --preset "$preset" --parallel $(($(nproc) + 1)) --no-tests=error "$@" >"$log" 2>&1 || status=$?
    # ctest's closing line: "99% tests passed, 3 tests failed out of 565"; it counts a missing program as failed.
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
