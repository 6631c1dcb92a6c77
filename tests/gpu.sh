#!/usr/bin/env bash
# What only a card shows, from a bundle (launch/bundle.sh) on a machine with a driver: no MPI, no compiler, no network.
# Most valuable first; ends in time, and leaves its results whatever happens.
#   gpu.sh [--minutes N] [--out FOLDER]     25 minutes, ./gpu-results
# FOLDER gets results.json, results.md and every step's whole output. The last line is "N passed, N failed", in steps.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
minutes=25 out=$PWD/gpu-results
while (( $# )); do
    case $1 in
        --minutes) minutes=${2:?gpu.sh: --minutes wants a number}; shift ;;
        --out) out=${2:?gpu.sh: --out wants a folder}; shift ;;
        *) echo "gpu.sh: unknown argument '$1'; want --minutes or --out" >&2; exit 64 ;;
    esac
    shift
done
if [[ ! -x $here/run ]]; then echo "gpu.sh: $here is not a bundle: make one with launch/bundle.sh FOLDER, run FOLDER/gpu.sh" >&2; exit 66; fi
mkdir -p "$out"
deadline=$((SECONDS + minutes * 60))
export TRIREME_TEST_DATA=$here/tests/data TRIREME_TIMEOUT_S=${TRIREME_TIMEOUT_S:-120} TRIREME_LOG=all
model=$TRIREME_TEST_DATA/models/kjv-target
commit=$(cat "$here/commit") started=$(date -u +%FT%TZ)
names=() statuses=() seconds=() passed=0 failed=0 too_large=0

json_text() { sed -e 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | tr -d '\000-\010\013-\037' | awk '{printf "%s%s", (NR > 1 ? "\\n" : ""), $0}'; }

write_results() {
    {
        printf '{"commit":"%s","started":"%s","passed":%d,"failed":%d,"steps":[' "$commit" "$started" "$passed" "$failed"
        for i in "${!names[@]}"; do
            if (( i )); then printf ','; fi
            printf '\n{"step":"%s","status":"%s","seconds":%d,"figures":[%s],"tail":"%s"}' "${names[$i]}" "$(result_of "${statuses[$i]}")" \
                "${seconds[$i]}" "$(grep -h '^{"bench"' "$out/${names[$i]}.log" | paste -sd,)" \
                "$(grep -v '^{"bench"' "$out/${names[$i]}.log" | tail -n 12 | json_text)"
        done
        printf '\n]}\n'
    } >"$out/results.json.part"
    mv "$out/results.json.part" "$out/results.json"
    {
        printf '# On a GPU: %s, commit %s\n\n' "$started" "$commit"
        printf '| step | result | s |\n|---|---|---|\n'
        for i in "${!names[@]}"; do
            printf '| %s | %s | %d |\n' "${names[$i]}" \
                "$(result_of "${statuses[$i]}")" "${seconds[$i]}"
        done
        for i in "${!names[@]}"; do
            printf '\n## %s\n\n```\n%s\n```\n' "${names[$i]}" "$( [[ ${statuses[$i]} != 0 ]] && tail -n 40 "$out/${names[$i]}.log" ||
                grep -hE '^\{"bench"|^cuda:|^ +driver|PASSED|equal|agree|tests ran|ERROR SUMMARY|perplexity' "$out/${names[$i]}.log")"
        done
    } >"$out/results.md.part"
    mv "$out/results.md.part" "$out/results.md"
}
# A step runs in a process group of its own (timeout makes one): who stops the script stops the step, too.
running=''
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
trap write_results EXIT
trap stop TERM INT
result_of() {
    case $1 in
        0) echo passed ;;
        too_large) echo 'does not fit' ;;
        124) echo 'out of time' ;;
        143) echo stopped ;;
        *) echo "FAILED ($1)" ;;
    esac
}

# step <name> <most seconds> <command>...: what is over its time, or behind the last minute, is said so. A 7B or 8B step
# that is too large for this card (71) has neither passed nor failed.
step() {
    local name=$1 most=$2 left=$((deadline - SECONDS)) status=0
    step_name=$1 step_begin=$SECONDS
    if (( most > left )); then most=$left; fi
    shift 2
    printf '%-28s' "$name"
    if (( left < 20 )); then
        echo 'out of time before it began' | tee "$out/$name.log"
        status=124
    else
        timeout --kill-after=10 "$most" "$@" >"$out/$name.log" 2>&1 </dev/null &
        running=$!  # in the background: bash runs no trap while a command in front of it runs
        wait "$running" || status=$?
        running=''
        if (( status == 137 && SECONDS - step_begin >= most )); then status=124; fi
        if [[ $status == 71 && $name =~ ^(step|offload)_[78]b|^same_bits_7b ]]; then status=too_large; fi
        echo "$(result_of "$status") $((SECONDS - step_begin)) s"
    fi
    names+=("$name") statuses+=("$status") seconds+=($((SECONDS - step_begin)))
    case $status in
        0) passed=$((passed + 1)) ;;
        too_large) too_large=$((too_large + 1)) ;;
        *) failed=$((failed + 1)) ;;
    esac
    write_results
}

machine() {
    "$here/run" --list-devices
    nvidia-smi || echo 'no nvidia-smi'
    "$here/run" --list-devices | grep -q '^cuda:0'
}

# The CPU's greedy tokens and perplexity, then the card's beside them: all on chip, without graphs, streamed.
same_as_cpu() {
    local ranks=$1 exact=(--dtype f32 -ctk f32 -ctv f32 --threads 2)
    local device other text=$out/text.txt
    head -c 4000 "$here/share/trireme/configs/demo.txt" >"$text"  # 1,680 tokens: seven tiles, of which five are streamed
    local request=(generate -m "$model" -f "$text" -n 96 --temp 0 --print ids "${exact[@]}")
    "$here/run" "${request[@]}" --device cpu >"$out/ids-cpu" || return
    "$here/run" -n "$ranks" "${request[@]}" --device cuda >"$out/ids-cuda" || return
    "$here/run" -n "$ranks" "${request[@]}" --device cuda --no-graphs >"$out/ids-cuda-plain" || return
    "$here/run" -n "$ranks" "${request[@]}" --device cuda --kv-on-chip 0 --report-json "$out/streamed.json" --force \
        >"$out/ids-cuda-streamed" || return
    grep -qE '"h2d_bytes": ?[1-9]' "$out/streamed.json" || { echo 'nothing was streamed'; return 1; }
    for other in cuda cuda-plain cuda-streamed; do cmp "$out/ids-cpu" "$out/ids-$other" || return; done
    echo "$ranks rank(s): 96 greedy tokens equal"
    for device in cpu cuda; do
        "$here/run" -n "$ranks" score -m "$model" -f "$text" -c 2048 "${exact[@]}" --device "$device" >"$out/score-$device" || return
        sed -nE 's/.*"perplexity": ?([0-9.eE+-]+).*/\1/p' "$out/score-$device" >"$out/perplexity-$device"
        echo "$device: perplexity $(cat "$out/perplexity-$device")"
    done
    # f32 sums of 2,048 products in other orders: 1e-4 is far beyond them and far below a wrong position.
    paste "$out/perplexity-cpu" "$out/perplexity-cuda" | awk 'NF != 2 { exit 1 } { d = $1 - $2; exit !((d < 0 ? -d : d) <= 1e-4 * $1) }' ||
        { echo "the card's perplexity is another"; return 1; }
}
# Greedy tokens of every chain, those of plain decoding: all, half and none on chip, with and without graphs.
chains_are_exact() {
    local ranks=$1 on_chip graphs text=$out/text.txt
    head -c 4000 "$here/share/trireme/configs/demo.txt" >"$text"
    for on_chip in all 3 0; do
        for graphs in '' --no-graphs; do
            "$here/run" -n "$ranks" bench -m "$model" -md "$TRIREME_TEST_DATA/models/kjv-draft" -f "$text" --prefill 1200 -n 64 -r 2 --temp 0 \
                --modes none,ngram,draft,window,retrieval,tree,triforce --budget 128 --reselect-queries 4 --dtype f32 -ctk f32 -ctv f32 \
                --kv-on-chip $on_chip $graphs --device cuda --require-exact || return
        done
    done
    echo "$ranks rank(s): every chain's tokens are equal to plain decoding's"
}
# 7B at 8K tokens: the digest of a step's logits, with the KV of all, half and none of the layers on chip.
same_bits_7b() {
    local on_chip
    for on_chip in 32 16 0; do "$here/bin/bench_step" llama-2-7b 8192 cuda 1 1 3 "$on_chip" || return; done | tee "$out/same-bits"
    local status=${PIPESTATUS[0]}
    (( status == 0 )) || return "$status"
    [[ $(sed -nE 's/.*"logits_xxh3":"([0-9a-f]+)".*/\1/p' "$out/same-bits" | sort -u | wc -l) == 1 ]] ||
        { echo 'residencies differ in bits'; return 1; }
    echo '7B, 8,192 tokens: the same bits with 32, 16 and 0 layers on chip: equal'
}
export -f same_as_cpu chains_are_exact same_bits_7b
export here out model

sanitizer() {
    local tool status=0
    for tool in memcheck racecheck synccheck; do
        echo "== $tool"
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/tests/kernels_cuda_test" \
            --gtest_filter='*MatchesTheReference*:*Embed*:*Rmsnorm*:*Kv*' || status=$?
    done
    return "$status"
}

step machine 60 bash -c "$(declare -f machine); machine"
if (( failed )); then
    tail -n 3 "$out/machine.log"
    echo 'gpu.sh: no card to run on'
    exit 69
fi
step engine_cuda_test 300 "$here/tests/engine_cuda_test"
step kernels_cuda_test 600 "$here/tests/kernels_cuda_test"
step same_as_cpu_1_rank 180 bash -c 'same_as_cpu 1'
step chains_1_rank 240 bash -c 'chains_are_exact 1'
if python3 -c 'import numpy' 2>/dev/null; then
    step bounded_kv 240 python3 "$here/tests/bounded.py" "$here/run" --bundle --quick --device cuda --all
else
    echo 'numpy is not here: bounded_kv left out'
fi
step bench_device 180 "$here/bin/bench_device" cuda
step same_bits_7b 400 bash -c same_bits_7b
step step_7b_4k 180 "$here/bin/bench_step" llama-2-7b 4096 cuda 1 1
step step_7b_4k_no_graphs 180 "$here/bin/bench_step" llama-2-7b 4096 cuda 1 0
step step_7b_4k_8_rows 180 "$here/bin/bench_step" llama-2-7b 4096 cuda 8 1
step step_135m_4k 90 "$here/bin/bench_step" smollm2-135m 4096 cuda 1 1
step step_135m_4k_no_graphs 90 "$here/bin/bench_step" smollm2-135m 4096 cuda 1 0
step same_as_cpu_2_ranks 240 bash -c 'same_as_cpu 2'
step chains_2_ranks 300 bash -c 'chains_are_exact 2'
step step_7b_32k 240 "$here/bin/bench_step" llama-2-7b 32768 cuda 1 1
step step_7b_128k 420 "$here/bin/bench_step" llama-2-7b 131072 cuda 1 1
step offload_7b_32k_none 300 "$here/bin/bench_step" llama-2-7b 32768 cuda 1 1 20 0
step offload_7b_32k_half 300 "$here/bin/bench_step" llama-2-7b 32768 cuda 1 1 20 16
step offload_7b_128k_none 600 "$here/bin/bench_step" llama-2-7b 131072 cuda 1 1 12 0
step offload_7b_128k_half 600 "$here/bin/bench_step" llama-2-7b 131072 cuda 1 1 12 16
step step_8b_128k 420 "$here/bin/bench_step" llama-3-8b 131072 cuda 1 1
step step_7b_4k_2_ranks 300 env OMPI_MCA_hwloc_base_binding_policy=none PROGRAM=bench_step "$here/run" -n 2 llama-2-7b 4096 cuda 1 1
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    step torch_sdpa 120 python3 "$here/tests/torch_rates.py" sdpa 4096 32768
    if python3 -c 'import transformers' 2>/dev/null; then
        step hf_offloaded_32k 420 python3 "$here/tests/torch_rates.py" offloaded 32768
    else
        echo 'transformers is not here: left out'
    fi
else
    echo 'torch is not here: left out'
fi
if command -v compute-sanitizer >/dev/null; then
    step compute_sanitizer 900 bash -c "$(declare -f sanitizer); sanitizer"
else
    echo 'compute-sanitizer is not here: left out'
fi
if (( too_large )); then echo "$too_large steps do not fit this card"; fi
printf '%d passed, %d failed\n' "$passed" "$failed"
(( failed == 0 ))
