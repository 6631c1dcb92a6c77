#!/usr/bin/env bash
# The whole acceptance list, about eight hours on 2 cores; figures go to docs/results/ledger.md.
#   tests/full.sh [--items 4,6] [--fuzz-seconds 600] [--again] [--no-ledger]
# Mutants and fuzzing run only on files that have changed since the last run without findings (tests/attacked.txt);
# --again repeats them all.
# An item prints its figures, and fails if a check of it fails. Speed is printed with its required value and never
# fails, because it depends on the machine. The last line is "N passed, N failed", counted in items.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

items='1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18' fuzz_seconds=600 again='' ledger=docs/results/ledger.md
while (( $# )); do
    case $1 in
        --items) items=${2:?tests/full.sh: --items wants numbers}; shift ;;
        --fuzz-seconds) fuzz_seconds=${2:?tests/full.sh: --fuzz-seconds wants a number}; shift ;;
        --again) again=1 ;;
        --no-ledger) ledger=/dev/null ;;
        *) echo "tests/full.sh: unknown argument '$1'; want --items, --fuzz-seconds, --again or --no-ledger" >&2; exit 64 ;;
    esac
    shift
done

./launch/setup.sh --full
source tests/steps.sh
source tests/attacked.sh
TRIREME_DEMO_MODEL=$(./launch/fetch_demo_model.sh)
export TRIREME_DEMO_MODEL
# Runs a command as if the machine had no CUDA library: empty folders are mounted over the toolkit and Python's copies.
without_cuda=(unshare --mount bash -c 'set -e
    for folder in "$(realpath -m /usr/local/cuda)" /usr/{,local/}lib/python3*/{site,dist}-packages/nvidia; do
        if [[ -d $folder ]]; then mount -t tmpfs none "$folder"; fi
    done
    left=$(find -L /usr /opt /root \( -name "libcublas*.so*" -o -name "libnccl.so*" \) -print -quit 2>/dev/null || true)
    if [[ $left ]]; then echo "without_cuda: $left is still there"; exit 1; fi
    exec "$@"' _)
around=()

# suite <preset> <regex>: runs the tests that match, which must all pass. Their perplexities and logit errors are
# figures.
suite() {
    local preset=$1 regex=$2 log=$logs/full-suite.log status=0
    "${around[@]}" "${fixed_layout[@]}" ctest --preset "$preset" --verbose --no-tests=error --tests-regex "$regex" >"$log" 2>&1 || status=$?
    sed -nE 's/^[0-9]+: ([^[].*(perplexity|max [|]).*)/\1/p' "$log"
    echo "$preset, $regex: $(grep -aE 'tests passed|No tests were found' "$log" || echo "ended with $status: $(tail -n 1 "$log")")"
    if (( status )); then sed -n '/The following tests FAILED/,$p' "$log"; fi
    return "$status"
}

item_title=(
    [1]='Fresh clone: both commands'
    [2]='Parity with transformers'
    [3]='Tokenizers'
    [4]='Ranks'
    [5]='Row independence'
    [6]='Speed'
    [7]='Bad input, fuzzing'
    [8]='Sanitizers, a deleted wait'
    [9]='Streamed keys and values'
    [10]='The CUDA backend without a card'
    [11]='Speculation'
    [12]='Bounded KV'
    [13]='Layers that share keys and values, texts side by side'
    [14]='Snapshots, stores, Slurm'
    [15]='Faults'
    [16]='The CUDA module on a software GPU'
    [17]='Chat, and files of neighbouring tools'
    [18]='Attention on tensor cores'
)

item_1() {
    local clone seconds name
    clone=$(mktemp -d)
    git clone --quiet "$root" "$clone/trireme"
    for name in launch/demo.sh tests/run.sh; do
        seconds=$SECONDS
        if ! env TRIREME_CACHE="$clone/cache" CCACHE_DISABLE=1 "$clone/trireme/$name" >"$clone/log" 2>&1; then
            tail -n 40 "$clone/log"
            rm -rf "$clone"
            return 1
        fi
        echo "$name: $((SECONDS - seconds)) s, without a compiler cache, packages already installed"
        grep -E '^(trireme: )?(load|prefill|decode|memory) |^[0-9]+ passed' "$clone/log" || true
    done
    rm -rf "$clone"
}

item_2() { suite release '^(llama_golden_test|trained_test\..*TrainedModel)'; }

item_3() { suite release '^model_tokenizer'; }

item_4() { suite release '^(llama_ranks_test|trained_test\.DemoModel|program_test\..*(Ranks|OnSeveral))'; }

item_5() { suite release '^llama_rows_test'; }

item_6() {
    build release bench_decode
    local bench=build/release/tests/bench/bench_decode
    "$bench" "$TRIREME_DEMO_MODEL" 2
    mpirun -n 2 "$bench" "$TRIREME_DEMO_MODEL" 1
    tests/bench/versus_llama_cpp/run.sh
    tests/bench/load_time.py build/release/launch/trireme --repetitions 1
    suite release '^llama_allocation_test'
}

fuzz() {
    local program=$1 corpus=${1##*/fuzz_} work=$root/build/fuzz-work inputs files
    mapfile -t files < <(fuzzed_files "$corpus" | tr ' ' '\n')
    if held_off "fuzz_$corpus" "${files[@]}"; then return; fi
    mkdir -p "$work/$corpus"
    if "$program" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$work/$corpus-" "$work/$corpus" "tests/fuzz/corpus/$corpus" >"$logs/fuzz-$corpus.log" 2>&1; then
        inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/fuzz-$corpus.log")
        echo "fuzz_$corpus: $inputs inputs in $fuzz_seconds s, clean"
        if (( fuzz_seconds >= 600 )); then withstood "fuzz_$corpus" "${files[@]}"; fi
    else
        echo "fuzz_$corpus: a finding; see $logs/fuzz-$corpus.log and $work/$corpus-*"
        return 1
    fi
}
export -f fuzz fuzzed_files held_off withstood digest_of

item_7() {
    suite release '(BadInput|Refuse|refuse|Truncation)' || return
    build fuzz || return
    mkdir -p "$root/build/fuzz-work"
    # One process per core; new inputs are written to the work folder, and the committed corpus is only read.
    export logs root fuzz_seconds again attacked
    printf '%s\n' build/fuzz/tests/fuzz/fuzz_*[a-z] | xargs -P "$(nproc)" -I {} bash -c 'fuzz {}'
}

item_8() {
    local preset
    for preset in asan tsan; do
        build "$preset" "${preset}_tests" "${preset}_more_tests" || return
        "${fixed_layout[@]}" ctest --preset "$preset" --label-regex "^$preset(_more)?\$" --no-tests=error >"$logs/full-$preset.log" 2>&1 ||
            { tail -n 30 "$logs/full-$preset.log"; return 1; }
        echo "$preset: $(grep -a 'tests passed' "$logs/full-$preset.log")"
    done
    deleted_wait
}

item_9() {
    suite release '^(kv_|llama_residency(_short)?_test|llama_memory_test|simt_engine_test\.Residency|program_test\.(Residency|Plan|Doctor))' || return
    build release bench_overlap
    build/release/tests/bench/bench_overlap "$TRIREME_DEMO_MODEL"
    tests/bench/coded_kv.py build/release/launch/trireme "$TRIREME_DEMO_MODEL" configs/models/smol-draft
    /usr/bin/python3 tests/bench/kv_types.py build/release/launch/trireme "$TRIREME_DEMO_MODEL"
}

item_10() {
    around=("${without_cuda[@]}")
    echo 'every test, CUDA libraries hidden:'
    suite release . || return
    mutants kernels mutants || return
    tests/bundle.sh
}

# Greedy tokens of chains equal plain decoding's (10^5 and 5,000 of them); the distribution, by 10^7 draws; retrieval
# of a key; speed.
item_11() {
    local program=build/release/launch/trireme status=0
    TRIREME_TEST_DISTRIBUTIONS=10000 build/release/tests/decode/acceptance_test >"$logs/full-laws.log" 2>&1 || status=$?
    echo "10^4 random laws in exact fractions: $(tail -n 1 "$logs/full-laws.log")"
    (( status == 0 )) || return
    suite release '^(alpha_test|round_forecast_test|tree_test|speculation_distribution_test|generate_test\..*Retrieval)' || return
    TRIREME_TEST_SAMPLES=1250000 build/release/tests/decode/speculation_distribution_test \
        --gtest_filter='SpeculationDistribution.AChainOfThreeLeavesIt:SpeculationDistribution.TheReleased*' >"$logs/full-law.log" 2>&1 || status=$?
    echo "two levels, 10^7 draws, and the released rule: $(tail -n 1 "$logs/full-law.log")"
    (( status == 0 )) || return
    tests/exactness.py "$program" || return
    tests/exactness.py "$program" --kv-wire coded || return
    tests/exactness.py "$program" --quantise Q4_K_M || return
    tests/exactness.py "$program" --quantise Q8_0 || return
    tests/exactness.py "$program" --model "$TRIREME_DEMO_MODEL" --draft configs/models/smol-draft || return
    tests/needle.py "$program" "$TRIREME_DEMO_MODEL" || return
    mutants speculation speculation_mutants || return
    tests/bench/speculation.sh "$program" "$TRIREME_DEMO_MODEL"
}

# Retained tokens compared with float64: random models, a trained one, the demo model; a thousand seeds; conversations
# and batches; quality and speed. TRIREME_LONG_TEXT: a text of 100,000 tokens, which is not in the repository.
item_12() {
    local program=build/release/launch/trireme python=/usr/bin/python3 log=$logs/full-bounded.log status=0 long name
    "$python" tests/bounded.py "$program" --all >"$log" 2>&1 || status=$?
    "$python" tests/bounded.py "$program" --random 300 --all >>"$log" 2>&1 || status=$?
    demo_folder || return
    for name in tests/data/models/kjv-target "$demo"; do
        "$python" tests/bounded.py "$program" --models "$name" --all >>"$log" 2>&1 || status=$?
    done
    grep -E 'combinations agree|differs' "$log"
    (( status == 0 )) || return
    suite release '^(bounded_simt|kernels_(simt_)?test\.(Slot|KeyWeights)|llama_bounded_test|program_test\.BoundedCommand|batch_test)' || return
    for name in kernels/kernels_test model/llama/llama_bounded_test; do
        TRIREME_TEST_SEEDS=1000 build/release/tests/$name --gtest_filter='SlotsRandom.*:BoundedProperties.*' >"$logs/full-seeds.log" 2>&1 || status=$?
        echo "${name##*/}, 1,000 seeds: $(tail -n 1 "$logs/full-seeds.log")"
    done
    (( status == 0 )) || return
    mutants bounded bounded_mutants || return
    "$python" tests/eviction.py "$program" "$TRIREME_DEMO_MODEL" || return
    long=${TRIREME_LONG_TEXT:-$root/../shared/data/kjv.txt}
    if [[ ! -r $long ]]; then
        echo "speed and perplexity of a long text: left out, there is no $long (TRIREME_LONG_TEXT)"
        return
    fi
    echo
    "$python" tests/bench/bounded_figures.py "$program" "$TRIREME_DEMO_MODEL" "$long"
}

# Golden values, maps, passes and ranks, link bytes; the effect of passes on a trained model; parallel samples, compared
# with llama.cpp and under one memory budget. TRIREME_LONG_TEXT as in item 12.
item_13() {
    local program=build/release/launch/trireme python=/usr/bin/python3 long
    suite release '^(llama_(bounded_)?sharing|model_checkpoint_test\.Sharing|shard_test\.LayerMap|kv_view_test\.(Passes|ReadRuns)|side_by_side_test|simt_engine_test\.(LayerSharing|GraphPasses)|program_test\.(Sharing|BoundedSharing|Convert|Bench\.MeasuresSamples|PlanCommand))' || return
    long=${TRIREME_LONG_TEXT:-$root/../shared/data/kjv.txt}
    if [[ -r $long ]]; then
        "$python" tests/bench/passes_table.py "$program" tests/data/models/kjv-lckv "$long" || return
    else
        echo "perplexity and time by passes: left out, there is no $long (TRIREME_LONG_TEXT)"
    fi
    echo
    tests/bench/versus_llama_cpp/run.sh --batched --repeats 3 || return
    echo
    "$python" tests/bench/lckv_grid.py "$program"
}

# Runs that are stopped and resumed, killed while they write, or recorded; every bit of a store; batch jobs.
item_14() {
    local program=build/release/launch/trireme
    suite release '^(model_(files|checkpoint)_test\.Store|program_test\.(Chains/Resumed|SnapshotTest))' || return
    tests/resume.py "$program" --stops 200 --kills 200 || return
    /usr/bin/python3 tests/record.py "$program" --kills 400 --spoilt 200 || return
    tests/bench/snapshot_rate.py "$program" --tokens 500 --repetitions 1 --ranks 1 || return
    tests/slurm.sh "$program"
}

# Runs that are killed at every call that changes a file; failing calls of every output and input; ranks that die,
# stop or
# are slow.
item_15() {
    local program=build/release/launch/trireme shim=build/release/lib/libfault_shim.so script log=$logs/full-faults.log
    tests/faults/coverage.py "$program" "$shim" >"$log" 2>&1 || { tail -n 3 "$log"; return 1; }
    for script in kill_points io_errors; do
        tests/faults/"$script".py "$program" "$shim" --rank-points 300 2>>"$log" || { grep -v ' of [0-9]*$' "$log" | tail -n 20; return 1; }
        echo
    done
    tests/faults/ranks.py "$program" --killed 400 --stopped 80 --slow 20 2>>"$log" || { tail -n 20 "$log"; return 1; }
}

# Every kernel test, engine tests, tests/gpu.sh with small models, faults in each CUDA call; skipped without a software GPU.
item_16() {
    local log=$logs/full-software-gpu.log
    tests/gpu_software.sh --full >"$log" 2>&1 || { tail -n 40 "$log"; return 1; }
    grep 'skipped' "$log" || tail -n 1 "$log"
}

# Attention on tensor cores: blocks, splits and copies; every test of attention on the host; instructions and estimates.
item_18() {
    suite release '^(simt_test|kernels_simt_test\.(Attention|Slot))' || return
    TRIREME_CUDA_TOOLS=$(tests/fetch_cuda_tools.sh) python3 tests/attention_cost.py build/release/kernels/cuda || return
    mutants kernels mutants
}

item_17() {
    local venv
    venv=$(dirname "$TRIREME_DEMO_MODEL")/venv-openai
    suite release '^(chat_test|chat_terminal)' || return
    if [[ ! -x $venv/bin/python ]]; then
        (/usr/bin/python3 -m venv "$venv" && "$venv/bin/pip" install openai==3.57.0 jinja2==3.1.6) >"$logs/venv-openai.log" 2>&1 || return
    fi
    "$venv/bin/python" tests/openai_types.py build/release/launch/trireme || return
    suite release '^evaluate' || return
    # The harness with its own model and with ours, on the small model and on the demo model.
    venv=$(dirname "$TRIREME_DEMO_MODEL")/venv-lm-eval
    if [[ ! -x $venv/bin/python ]]; then
        (/usr/bin/python3 -m venv "$venv" && "$venv/bin/pip" install torch transformers==5.23.0 lm-eval==0.4.13 sentencepiece protobuf accelerate) \
            >"$logs/venv-lm-eval.log" 2>&1 || return
    fi
    local folder
    folder=$(mktemp -d)
    build/release/launch/trireme convert -m "$TRIREME_DEMO_MODEL" -o "$folder/demo" --dtype f32 -q || return
    "$venv/bin/python" tests/lm_eval/compare.py build/release/launch/trireme 2>/dev/null || return
    "$venv/bin/python" tests/lm_eval/compare.py build/release/launch/trireme "$folder/demo" --items 24 2>/dev/null || return
    rm -rf "$folder"
    tests/wheel.sh "$venv/bin/python"
}

# Sets demo: a folder with the demo model, in the format that the reference reads.
demo_folder() {
    local cache venv
    cache=$(dirname "$TRIREME_DEMO_MODEL")
    demo=$cache/$(basename "$TRIREME_DEMO_MODEL" .gguf).folder venv=$cache/venv-gguf
    if [[ -s $demo/model.safetensors ]]; then return; fi
    if [[ ! -x $venv/bin/python ]]; then
        (/usr/bin/python3 -m venv "$venv" && "$venv/bin/pip" install gguf==0.19.0 numpy==2.4.6) >"$logs/venv-gguf.log" 2>&1 || return
    fi
    rm -rf "$demo.part"
    "$venv/bin/python" tests/reference/gguf_folder.py "$TRIREME_DEMO_MODEL" "$demo.part" && mv "$demo.part" "$demo"
}

# mutants <set> <target>: runs the mutants of those files of the set that have changed.
mutants() {
    local set=$1 target=$2 file files changed=()
    for file in $(tests/mutants/mutants.py files "$set"); do
        mapfile -t files < <(mutated_files "$file" | tr ' ' '\n')
        held_off "mutants:$file" "${files[@]}" || changed+=("$file")
    done
    if (( ${#changed[@]} == 0 )); then return; fi
    (ulimit -c 0 && TRIREME_MUTATED_FILES=${changed[*]} cmake --build build/release --target "$target" >"$logs/$target.log" 2>&1) ||
        { tail -n 5 "$logs/$target.log"; return 1; }
    grep ' of .* mutants killed' "$logs/$target.log"
    for file in "${changed[@]}"; do
        mapfile -t files < <(mutated_files "$file" | tr ' ' '\n')
        withstood "mutants:$file" "${files[@]}"
    done
}

# Weights are copied through two staging buffers. Without the wait for a buffer's copy, the next tensor overwrites it.
deleted_wait() {
    local tree status=0
    tree=$(mktemp -d)
    git archive HEAD | tar -x -C "$tree"
    sed -i '/stream.synchronize(slot.free);/d' "$tree/model/weight_loader.cc"
    if git diff --quiet --no-index model/weight_loader.cc "$tree/model/weight_loader.cc"; then
        echo "deleted wait: model/weight_loader.cc has no such line any more"
        rm -rf "$tree"
        return 1
    fi
    (cd "$tree" && cmake --preset release && cmake --build build/release --target llama_golden_test) \
        >"$logs/deleted-wait.log" 2>&1 || { tail -n 30 "$logs/deleted-wait.log"; rm -rf "$tree"; return 1; }
    "$tree/build/release/tests/model/llama/llama_golden_test" >"$logs/deleted-wait.log" 2>&1 || status=$?
    rm -rf "$tree"
    if (( status == 0 )); then
        echo "deleted wait: nobody noticed"
        return 1
    fi
    echo "deleted wait in model/weight_loader.cc: noticed, $(grep -c '^\[  FAILED  \].*ms)' "$logs/deleted-wait.log") tests fail"
}

machine() {
    local rate
    rate=$(build/release/tests/bench/bench_dram 2>/dev/null || echo 'DRAM rate not measured')
    echo "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $rate"
}

build release all bench_dram
dirty=''
if git status --porcelain --untracked-files=no -- . ':!docs/results/ledger.md' | grep -q .; then dirty=' with local changes'; fi
{
    printf '\n## %s, commit %s%s\n\n%s\n' "$(date -u +%F)" "$(git rev-parse --short=12 HEAD)" "$dirty" "$(machine)"
} | tee -a "$ledger"

passed=0 failed=0
IFS=, read -ra chosen <<<"$items"
for i in "${chosen[@]}"; do
    if [[ ! ${item_title[$i]:-} ]]; then
        echo "tests/full.sh: there is no item '$i'" >&2
        exit 64
    fi
    begin=$SECONDS figures=$(mktemp) verdict=shown
    # Runs in its own process, so that `set -e` is in effect inside; within `if` it would not be.
    set +e
    (set -e; "item_$i") >"$figures"
    status=$?
    set -e
    if (( status == 0 )); then passed=$((passed + 1)); else failed=$((failed + 1)) verdict='NOT SHOWN'; fi
    {
        printf '\n### %d. %s: %s (%d s)\n\n' "$i" "${item_title[$i]}" "$verdict" $((SECONDS - begin))
        if grep -q '^|' "$figures"; then cat "$figures"; else printf '```\n%s\n```\n' "$(cat "$figures")"; fi
    } | tee -a "$ledger"
    rm -f "$figures"
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
(( failed == 0 ))
