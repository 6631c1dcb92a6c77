# shellcheck shell=bash disable=SC2154
# What demo.sh, tests/run.sh and tests/full.sh share; sourced, after `root` is set to the repository.

# For Open MPI: root may start ranks (containers), and messages go through shared memory, which at a decode step's sizes
# is faster than copies by the kernel (16 KiB: 2.4 against 6 us).
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}

logs=$root/build/logs
mkdir -p "$logs"

# logged <name> <command>...: the output goes to a log, which is shown if the command fails.
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

# build <preset> [<target>...]. with_tests=OFF: without the tests, whose libraries may not be there.
# cuda=OFF: without the CUDA module, though nvcc may be there.
with_tests=ON cuda=AUTO
build() {
    local preset=$1
    shift
    logged "configure $preset" cmake --preset "$preset" -S "$root" -DTRIREME_TESTS="$with_tests" -DTRIREME_CUDA="$cuda" ||
        return
    logged "build $preset" cmake --build "$root/build/$preset" --parallel "$(nproc)" --target "${@:-all}"
}

# What is installed, in build/release: a folder that is there keeps the options that it was configured with.
build_program() {
    if [[ -e $root/build/release/CMakeCache.txt ]]; then
        logged 'build release' cmake --build "$root/build/release" --parallel "$(nproc)" --target trireme_program
    else
        with_tests=OFF build release trireme_program
    fi
}
