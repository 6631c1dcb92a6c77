# shellcheck shell=bash disable=SC2154
# Functions shared by demo.sh, tests/run.sh and tests/full.sh; sourced after `root` is set to the repository.

# Open MPI: root may start ranks (containers), and messages go through shared memory. At the sizes of a decode step this
# is faster than copies by the kernel (16 KiB: 2.4 instead of 6 us).
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}

logs=$root/build/logs
mkdir -p "$logs"

# logged <name> <command>...: writes the output to a log, and shows it if the command fails.
logged() {
    local name=$1 begin=$SECONDS log=$logs/${1// /-}.log
    shift
    printf '%-28s' "$name" >&2
    if "$@" >"$log" 2>&1; then
        printf 'ok %6d s\n' $((SECONDS - begin)) >&2
    else
        printf 'FAILED after %d s; the log, %s:\n' $((SECONDS - begin)) "$log" >&2
        cat "$log" >&2
        return 1
    fi
}

# build <preset> [<target>...]. with_tests=OFF: without the tests, whose libraries may be missing.
# cuda=OFF: without the CUDA module, even if nvcc is present.
with_tests=ON cuda=AUTO
build() {
    local preset=$1
    shift
    logged "configure $preset" cmake --preset "$preset" -S "$root" -DTRIREME_TESTS="$with_tests" -DTRIREME_CUDA="$cuda" ||
        return
    logged "build $preset" cmake --build "$root/build/$preset" --parallel "$(nproc)" --target "${@:-all}"
}

# Builds the installed targets in build/release. An existing folder keeps its configuration.
build_program() {
    if [[ -e $root/build/release/CMakeCache.txt ]]; then
        logged 'build release' cmake --build "$root/build/release" --parallel "$(nproc)" --target trireme_program
    else
        with_tests=OFF build release trireme_program
    fi
}
