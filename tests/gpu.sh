#!/usr/bin/env bash
# Checks that require a GPU, in three commands of at most nine minutes each, for a machine that is available for
# minutes:
#   tests/gpu.sh first    facts, hot kernels and latencies, kernel and engine tests, products and steps of 7B at 4K
#   tests/gpu.sh same     tokens as on the CPU on 1 and 2 ranks, every chain, streaming at 32K
#   tests/gpu.sh long     128K on chip and streamed, TriForce with a trace, profiles, memory checks
#     --bundle FILE  programs of tests/gpu_bundle.sh; build/gpu-bundle.tar.xz by default
#     --build DIR    programs of a build tree instead
#     --out DIR      results; $OUT if set, else ./gpu-results. Writes DIR/gpu-NAME.tar.gz again after each step
#     --minutes N    9
#     --small        small models instead of 7B, and five times as long, for a trial on a software GPU
# Run from a checkout: models and texts are those of tests/data. Failures are printed first, the table of steps last.
# The last line is "N passed, N failed", in steps. docs/results/gpu.md describes the use of the results.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:-} minutes=9 small='' build='' bundle=$root/build/gpu-bundle.tar.xz out=${OUT:-$PWD/gpu-results}
case $name in
    first | same | long) shift ;;
    *) echo "gpu.sh: '$name': expected first, same or long" >&2; exit 64 ;;
esac
while (( $# )); do
    case $1 in
        --small) small=1 ;;
        --build | --bundle | --out | --minutes)
            declare "${1#--}=${2:?gpu.sh: $1 requires a value}"
            shift ;;
        *) echo "gpu.sh: unknown argument '$1'; expected --bundle, --build, --out, --minutes or --small" >&2; exit 64 ;;
    esac
    shift
done
work=$(mktemp -d)
results=$work/results
mkdir -p "$results" "$out"

# Programs, and the way to start ranks.
if [[ $build ]]; then
    build=$(cd "$build" && pwd)
    program=$build/launch/trireme kernels_test=$build/tests/kernels/kernels_cuda_test
    engine_test=$build/tests/model/llama/engine_cuda_test bench_step=$build/tests/bench/bench_step bench_device=$build/tests/bench/bench_device
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    ranks_of() { mpirun -n "$@"; }
    bounded=("$program")
elif [[ -r $bundle ]]; then
    mkdir "$work/bundle"
    tar -xJf "$bundle" -C "$work/bundle" || { echo "gpu.sh: $bundle does not unpack" >&2; exit 65; }
    tree=$work/bundle
    program=$tree/bin/trireme kernels_test=$tree/tests/kernels_cuda_test engine_test=$tree/tests/engine_cuda_test
    bench_step=$tree/bin/bench_step bench_device=$tree/bin/bench_device
    ranks_of() { local n=$1; shift; PROGRAM=$(basename "$1") "$tree/run" -n "$n" "${@:2}"; }
    bounded=("$tree/run" --bundle)
else
    echo "gpu.sh: there is no $bundle: make it with tests/gpu_bundle.sh, or name a build tree with --build" >&2
    exit 66
fi
# on N COMMAND...: runs a command on N ranks; one rank needs no launcher.
on() { if (( $1 == 1 )); then "${@:2}"; else ranks_of "$@"; fi; }
export TRIREME_TEST_DATA=$root/tests/data TRIREME_TIMEOUT_S=${TRIREME_TIMEOUT_S:-120} TRIREME_LOG=all
model=$TRIREME_TEST_DATA/models/kjv-target draft=$TRIREME_TEST_DATA/models/kjv-draft text=$results/text.txt
big=llama-2-7b grouped=llama-3-8b little=smollm2-135m layers=32 k4=4096 k8=8192 k32=32768 k128=131072 tokens=96 steps=20 bytes=4000
if [[ $small ]]; then
    big=tiny grouped=tiny little=tiny layers=2 k4=320 k8=576 k32=832 k128=1088 tokens=12 steps=3 bytes=1250 minutes=$((minutes * 5))
fi
head -c "$bytes" "$root/configs/demo.txt" >"$text"
deadline=$((SECONDS + minutes * 60))

names=() statuses=() seconds=() passed=0 failed=0 too_large=0 running=''
result_of() {
    case $1 in
        0) echo passed ;;
        too_large) echo 'does not fit' ;;
        124) echo 'out of time' ;;
        143) echo stopped ;;
        *) echo "FAILED ($1)" ;;
    esac
}
json_text() { sed -e 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | tr -d '\000-\010\013-\037' | awk '{printf "%s%s", (NR > 1 ? "\\n" : ""), $0}'; }
# Writes failures with the ends of their logs, a table of steps, and the measurements; packs them and all logs in one
# file.
write_results() {
    local i
    {
        printf '# tests/gpu.sh %s: %s, commit %s\n' "$name" "$started" "$commit"
        for i in "${!names[@]}"; do
            if [[ ${statuses[$i]} == 0 || ${statuses[$i]} == too_large ]]; then continue; fi
            printf '\n## %s: %s\n\n```\n%s\n```\n' "${names[$i]}" "$(result_of "${statuses[$i]}")" "$(tail -n 40 "$results/${names[$i]}.log")"
        done
        printf '\n| step | result | s |\n|---|---|---:|\n'
        for i in "${!names[@]}"; do printf '| %s | %s | %d |\n' "${names[$i]}" "$(result_of "${statuses[$i]}")" "${seconds[$i]}"; done
        printf '\n```\n'
        cat "$results"/*.log 2>/dev/null | grep -aE '^\{"bench"|^cuda:|^ +driver|equal|agree|PASSED|ERROR SUMMARY|perplexity' || true
        printf '```\n'
    } >"$results/results.md"
    {
        printf '{"commit":"%s","command":"%s","started":"%s","passed":%d,"failed":%d,"steps":[' "$commit" "$name" "$started" "$passed" "$failed"
        for i in "${!names[@]}"; do
            if (( i )); then printf ','; fi
            printf '\n{"step":"%s","status":"%s","seconds":%d,"figures":[%s],"tail":"%s"}' "${names[$i]}" "$(result_of "${statuses[$i]}")" \
                "${seconds[$i]}" "$(grep -ah '^{"bench"' "$results/${names[$i]}.log" | paste -sd,)" \
                "$(grep -av '^{"bench"' "$results/${names[$i]}.log" | tail -n 12 | json_text)"
        done
        printf '\n]}\n'
    } >"$results/results.json"
    tar -czf "$out/gpu-$name.tar.gz.part" -C "$results" . && mv "$out/gpu-$name.tar.gz.part" "$out/gpu-$name.tar.gz"
}
leave() {
    write_results
    rm -rf --one-file-system "$work"
}
stop() {
    trap '' TERM INT
    if [[ $running ]]; then
        kill -TERM -- "-$running" 2>/dev/null
        wait "$running" 2>/dev/null
        names+=("$step_name") statuses+=(143) seconds+=($((SECONDS - step_begin)))
        failed=$((failed + 1))
    fi
    exit 143
}
commit=$(git -C "$root" rev-parse HEAD 2>/dev/null || cat "${tree:-/nonexistent}/commit" 2>/dev/null || echo unknown) started=$(date -u +%FT%TZ)
trap leave EXIT
trap stop TERM INT

# step NAME SECONDS COMMAND...: runs a step, which ends after SECONDS, or when the script's time is over. A 7B or 8B
# step that is too large for this GPU (71) counts neither as passed nor as failed.
step() {
    local most=$(( small ? 5 * $2 : $2 )) left=$((deadline - SECONDS)) status=0
    step_name=$1 step_begin=$SECONDS
    if (( most > left )); then most=$left; fi
    shift 2
    if (( left < 10 )); then
        echo 'out of time before it began' >"$results/$step_name.log"
        status=124
    else
        # In the background, with its own process group: bash runs no trap while it waits for a foreground command.
        timeout --kill-after=10 "$most" bash -c '"$@"' _ "$@" >"$results/$step_name.log" 2>&1 </dev/null &
        running=$!
        wait "$running" || status=$?
        running=''
        if (( status == 137 && SECONDS - step_begin >= most )); then status=124; fi
        if [[ $status == 71 && $step_name == *_[78]b* ]]; then status=too_large; fi
    fi
    printf '%-28s%s %d s\n' "$step_name" "$(result_of "$status")" $((SECONDS - step_begin))
    names+=("$step_name") statuses+=("$status") seconds+=($((SECONDS - step_begin)))
    case $status in
        0) passed=$((passed + 1)) ;;
        too_large) too_large=$((too_large + 1)) ;;
        *) failed=$((failed + 1)) ;;
    esac
    write_results
}
without() { echo "$1 is not here: $2 left out" | tee -a "$results/left-out.txt"; }

facts() {
    "$program" --list-devices | tee "$results/devices.txt"
    nvidia-smi -q || echo 'no nvidia-smi'
    grep -E '^Mem|^Huge' /proc/meminfo
    nproc
    ldd --version | head -n 1
    ldconfig -p | grep -E 'cublasLt|libnccl' || true
    "$program" doctor --device cuda || true
    grep -q '^cuda:0' "$results/devices.txt"
}
smoke() {
    if [[ ! ${GPU_SMOKE:-} ]]; then
        nvcc -std=c++20 -O3 -arch=native -fmad=false --expt-relaxed-constexpr -I"$root" "$root/tests/gpu_smoke.cu" -o "$results/gpu_smoke" || return
    fi
    "${GPU_SMOKE:-$results/gpu_smoke}" ${small:+64}
}
# After an illegal address, every later call of the process fails. Tests therefore run in several processes.
sharded() {
    local test=$1 filter=$2 shards=$3 i status=0
    for (( i = 0; i < shards; ++i )); do
        GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$test" --gtest_brief=1 --gtest_filter="$filter" >"$results/$(basename "$test")-$i.txt" 2>&1 &
    done
    for (( i = 0; i < shards; ++i )); do wait -n || status=$?; done
    grep -ahE '^\[  FAILED|^\[  PASSED|Failure$' "$results/$(basename "$test")"-*.txt
    return "$status"
}
exact=(--dtype f32 -ctk f32 -ctv f32 --threads 2)
# The CPU's greedy ids and perplexity, then the GPU's: all on chip, without graphs, streamed.
same_as_cpu() {
    local ranks=$1 device other flags request=(generate -m "$model" -f "$text" -n "$tokens" --temp 0 --print ids "${exact[@]}")
    on "$ranks" "$program" "${request[@]}" --device cpu >"$results/ids-cpu-$ranks" || return
    for other in '' --no-graphs '--kv-on-chip 0'; do
        read -ra flags <<<"$other"
        on "$ranks" "$program" "${request[@]}" --device cuda "${flags[@]}" >"$results/ids-cuda-$ranks" || return
        cmp "$results/ids-cpu-$ranks" "$results/ids-cuda-$ranks" || { echo "ids differ with '$other'"; return 1; }
    done
    echo "$ranks ranks: $tokens greedy tokens equal"
    on "$ranks" "$program" generate -m "$model" -f "$text" -n "$tokens" --temp 0.8 --seed 3 --print ids "${exact[@]}" --device cpu >"$results/sampled-cpu" || return
    on "$ranks" "$program" generate -m "$model" -f "$text" -n "$tokens" --temp 0.8 --seed 3 --print ids "${exact[@]}" --device cuda >"$results/sampled-cuda" || return
    cmp "$results/sampled-cpu" "$results/sampled-cuda" || { echo 'sampled ids differ'; return 1; }
    echo "$ranks ranks: $tokens sampled tokens equal"
    for device in cpu cuda; do
        on "$ranks" "$program" score -m "$model" -f "$text" -c 2048 "${exact[@]}" --device "$device" >"$results/score-$device" || return
        sed -nE 's/.*"perplexity": ?([0-9.eE+-]+).*/\1/p' "$results/score-$device" >"$results/perplexity-$device"
        echo "$device: perplexity $(cat "$results/perplexity-$device")"
    done
    # f32 sums of 2,048 products in another order: 1e-4 is far above their difference, and far below that of a wrong
    # position.
    paste "$results/perplexity-cpu" "$results/perplexity-cuda" | awk 'NF != 2 { exit 1 } { d = $1 - $2; exit !((d < 0 ? -d : d) <= 1e-4 * $1) }' ||
        { echo 'perplexities differ'; return 1; }
}
# Greedy tokens of every chain equal those of plain decoding: on chip and streamed, with and without graphs.
chains() {
    local ranks=$1 on_chip graphs
    for on_chip in all 0; do
        for graphs in '' --no-graphs; do
            on "$ranks" "$program" bench -m "$model" -md "$draft" -f "$text" --prefill $((tokens * 10)) -n "$tokens" -r 2 --temp 0 \
                --modes none,ngram,draft,window,retrieval,tree,triforce --budget 128 --reselect-queries 4 "${exact[@]}" \
                --kv-on-chip "$on_chip" $graphs --device cuda --require-exact || return
        done
    done
    echo "$ranks ranks: the tokens of every chain are equal to plain decoding's"
}
dependent() { TRIREME_PDL=1 "$@"; }
same_bits() {
    "$bench_step" "$big" "$k8:steps=3" "$k8:steps=3:on_chip=$((layers / 2))" "$k8:steps=3:on_chip=0" "$k8:steps=3:graphs=0" | tee "$results/same-bits.txt"
    (( PIPESTATUS[0] == 0 )) || return "${PIPESTATUS[0]}"
    if [[ $dependent_launch ]]; then
        dependent "$bench_step" "$big" "$k8:steps=3" "$k8:steps=3:on_chip=0" "$k8:steps=3:graphs=0" | tee -a "$results/same-bits.txt"
        (( PIPESTATUS[0] == 0 )) || return "${PIPESTATUS[0]}"
    fi
    [[ $(sed -nE 's/.*"logits_xxh3":"([0-9a-f]+)".*/\1/p' "$results/same-bits.txt" | sort -u | wc -l) == 1 ]] || { echo 'logits differ in bits'; return 1; }
    echo "$big, $k8 tokens: bits are equal with all, half and none of the layers on chip, with graphs and without"
}
profile() {
    local ncu=(ncu --clock-control none --launch-count 4 --section SpeedOfLight --section MemoryWorkloadAnalysis)
    "${ncu[@]}" -k regex:'AttendSplit|MatmulDecode' "$bench_step" "$big" "$k32:steps=3:graphs=0" "$k32:rows=17:steps=3:graphs=0" &&
        "${ncu[@]}" -k regex:AttendPrefill "$bench_step" "$big" "$k4:steps=3:graphs=0"
}
sanitizer() {
    local status=0
    compute-sanitizer --tool memcheck --error-exitcode 9 "$kernels_test" \
        --gtest_filter='Embed.Widens*:Rmsnorm.MayWrite*:KvStage.Puts*:KvAppend.Rounds*:KvKeep.Moves*:AttentionDecode.Padding*:Sample.TopK*:Accept.Samples*:GatherChunks.*:MatmulDecode.Gives*' || status=$?
    compute-sanitizer --tool racecheck --error-exitcode 9 "$kernels_test" --gtest_filter='Accept.Samples*:Sample.TopK*:AttentionDecode.Padding*' || status=$?
    return "$status"
}
has() { /usr/bin/env python3 -c "import $1" 2>/dev/null; }
export -f facts smoke sharded same_as_cpu chains dependent same_bits profile sanitizer on ranks_of
export root results program kernels_test engine_test bench_step bench_device model draft text tokens layers big grouped k4 k8 k32 k128 small tree
declare -px exact >"$work/arrays"  # bash exports no arrays
export BASH_ENV=$work/arrays

step facts 60 facts
if (( failed )); then
    tail -n 3 "$results/facts.log"
    if ! grep -q '^cuda:0' "$results/devices.txt"; then echo 'gpu.sh: no GPU to run on'; fi
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit 69
fi
dependent_launch=$(sed -nE 's/^cuda:0: .*, compute ([0-9]{2,}|9)\..*/1/p' "$results/devices.txt")
export dependent_launch
if [[ ! $dependent_launch && $name != long ]]; then without 'a GPU of compute capability 9.0' 'dependent launches'; fi
case $name in
    first)
        if [[ ${GPU_SMOKE:-} ]] || command -v nvcc >/dev/null; then step smoke 120 smoke; else without nvcc smoke; fi
        step kernel_tests 240 sharded "$kernels_test" "${GPU_KERNELS:-*}" "${GPU_SHARDS:-12}"
        step engine_tests 240 sharded "$engine_test" "${GPU_ENGINE:-*}" "${GPU_SHARDS:-12}"
        step bench_device 90 "$bench_device" cuda ${small:+64}
        step step_7b_4k 120 "$bench_step" "$big" "$k4:steps=$steps" "$k4:rows=8:steps=$steps" "$k4:rows=17:steps=$steps" "$k4:rows=64:steps=$steps" "$k4:graphs=0:steps=$steps"
        step step_135m_4k 60 "$bench_step" "$little" "$k4:steps=$steps" "$k4:graphs=0:steps=$steps"
        if [[ $dependent_launch ]]; then
            step step_7b_4k_dependent 60 dependent "$bench_step" "$big" "$k4:steps=$steps" "$k4:rows=8:steps=$steps" "$k4:graphs=0:steps=$steps"
            step step_135m_4k_dependent 60 dependent "$bench_step" "$little" "$k4:steps=$steps" "$k4:graphs=0:steps=$steps"
        fi
        ;;
    same)
        step same_as_cpu_1_rank 120 same_as_cpu 1
        step chains_1_rank 120 chains 1
        if [[ $dependent_launch ]]; then step chains_1_rank_dependent 120 dependent chains 1; fi
        step same_bits_7b 120 same_bits
        step offload_7b_32k 180 "$bench_step" "$big" "$k32:steps=$steps" "$k32:rows=17:steps=$steps" "$k32:rows=64:steps=$steps" \
            "$k32:on_chip=0:steps=$steps" "$k32:on_chip=0:rows=17:steps=$steps" "$k32:on_chip=$((layers / 2)):steps=$steps"
        step same_as_cpu_2_ranks 120 same_as_cpu 2
        step chains_2_ranks 120 chains 2
        if has numpy; then
            step kv_policies 120 python3 "$root/tests/bounded.py" "${bounded[@]}" --quick --device cuda
        else
            without numpy kv_policies
        fi
        ;;
    long)
        step step_7b_128k 150 "$bench_step" "$big" "$k128:steps=$steps" "$k128:rows=17:steps=$steps"
        step offload_7b_128k 240 "$bench_step" "$big" "$k128:on_chip=0:steps=$((steps / 2 + 2))" "$k128:on_chip=$((layers / 2)):steps=$((steps / 2 + 2))"
        step step_8b_128k 120 "$bench_step" "$grouped" "$k128:steps=$steps" "$k128:rows=17:steps=$steps"
        step triforce 90 "$program" bench -m "$model" -md "$draft" -f "$text" -n "$tokens" -r 2 --modes none,retrieval,triforce --budget 128 \
            --kv-on-chip 0 --device cuda --trace "$results/triforce-trace.json" --force
        if command -v ncu >/dev/null; then step profile_7b 90 profile; else without ncu profile; fi
        if command -v compute-sanitizer >/dev/null; then step compute_sanitizer 120 sanitizer; else without compute-sanitizer compute_sanitizer; fi
        if has torch; then
            step torch_sdpa 60 python3 "$root/tests/bench/torch_rates.py" sdpa "$k4" "$k32"
        else
            without torch torch_sdpa
        fi
        ;;
esac
if (( too_large )); then echo "$too_large steps do not fit this GPU"; fi
sed -n '1,/^| step/p' "$results/results.md" | sed '1d;$d'
echo "results: $out/gpu-$name.tar.gz"
printf '%d passed, %d failed\n' "$passed" "$failed"
(( failed == 0 ))
