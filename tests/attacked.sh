# shellcheck shell=bash
# Mutants and fuzzing take an hour and more. They run again only if the files that they attack have changed.
# tests/full.sh sources this file after it has set `root`. tests/attacked.txt has a line for each attack without
# findings: its name, the digest of the attacked files, and the commit.
attacked=$root/tests/attacked.txt

# digest_of <path>...: digest of the tracked files below these paths, as they are in the working tree.
digest_of() { (cd "$root" && git ls-files -z -- "$@" | xargs -0 sha1sum | sha1sum | cut -c 1-16); }

# held_off <name> <path>...: succeeds, and prints a line, if these files are unchanged since the attack last found
# nothing.
held_off() {
    local name=$1 commit
    shift
    if [[ $again ]]; then return 1; fi
    commit=$(awk -v name="$name" -v digest="$(digest_of "$@")" '$1 == name && $2 == digest { print $3 }' "$attacked")
    if [[ ! $commit ]]; then return 1; fi
    echo "$name: not repeated, what it attacks is as it was at $commit (--again repeats it)"
}

# withstood <name> <path>...: records that the attack found nothing.
withstood() {
    local name=$1 digest
    shift
    digest=$(digest_of "$@")
    (
        flock 9
        awk -v name="$name" '$1 != name' "$attacked" >"$attacked.new"
        printf '%s %s %s\n' "$name" "$digest" "$(cd "$root" && git rev-parse --short=7 HEAD)" >>"$attacked.new"
        { grep '^#' "$attacked.new"; grep -v '^#' "$attacked.new" | sort; } >"$attacked"
        rm "$attacked.new"
    ) 9<"$root/tests/full.sh"
}

# mutated_files <file>: the file, the tests that must notice its mutants, and the scripts that run them.
mutated_files() {
    case $1 in
        kernels/slot_rule.h | kernels/cpu/slots.cc | kernels/cpu/key_weights.cc | offload/evicting/* | model/*)
            echo "$1 tests/mutants/mutant* tests/kernels/slots_* tests/model/llama/bounded_* tests/offload/bounded_*"
            return ;;
        kernels/acceptance.h | kernels/place.h | kernels/cpu/* | decode/* | offload/*)
            echo "$1 tests/mutants/mutant* tests/decode tests/kernels/accept_test.cc tests/offload/retrieval_test.cc"
            return ;;
    esac
    echo "$1 runtime/cuda/gpu.h tests/simt/block.* tests/simt/launcher.h tests/kernels/*harness.h tests/mutants/mutant*"
    case ${1##*/} in
        attention*.h | eight.h | merge_tiles.h) echo 'kernels/cuda/attention*.h tests/kernels/attention_*.cc tests/simt/attention_*' ;;
        slots.h | slot_choose.h | select.h | key_weights.h) echo 'tests/kernels/slots_*.cc' ;;
        rotate.h) echo 'tests/kernels/slots_*.cc tests/kernels/rowwise_test.cc' ;;
        kv.h) echo 'tests/kernels/kv_test.cc tests/kernels/attention_decode_test.cc' ;;
        sum_parts.h) echo 'tests/simt/sum_parts_test.cc' ;;
        *) echo "tests/kernels/$(basename "${1%%_*}" .h)*_test.cc" ;;
    esac
}

# fuzzed_files <target>: the sources with which a fuzz target reads its inputs.
fuzzed_files() {
    echo "tests/fuzz/$1_fuzz.cc tests/fuzz/*.h"
    case $1 in
        blocks) echo 'kernels/cpu kernels/*.h kernels/*.cc model/files/dequantise.* runtime/stored_type.h' ;;
        coded_tile) echo 'kernels/cpu/tile_code.cc kernels/tile_code.* kernels/key_order.h' ;;
        config_json | gguf | layer_map | packed | safetensors)
            echo 'model/files model/checkpoint model/passes.*' ;;
        store) echo 'model/files/store model/files/json.* model/tokenizer/token_store.* model/tokenizer/tokenizer_identity.*' ;;
        model_store) echo 'model/files model/checkpoint' ;;
        tokenizer_*) echo 'model/tokenizer model/files' ;;
        batch_jsonl) echo 'launch/commands/batch_requests.* launch/flags launch/run/data_choice.* launch/run/prompt.* launch/run/text_file.* model/files/json.*' ;;
        session_jsonl) echo 'launch/commands/session_turns.* launch/run/text_file.* model/files/json.*' ;;
        *) echo . ;;  # unknown target: all files
    esac
}
