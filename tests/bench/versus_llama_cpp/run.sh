#!/usr/bin/env bash
# Trireme compared with llama.cpp on this machine: the same weights in 16 bits, the same threads, interleaved runs.
# Requires the release build. Arguments are passed to compare.py (--repeats, --threads, --contexts, ...). If the first
# one is --batched, the others are passed to compare_batched.py: parallel samples of one prompt.
# The first run builds llama-cpp-python from source (about 10 minutes on 2 cores) into a venv in the cache folder;
# TRIREME_LLAMA_VENV names an existing one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cache=${TRIREME_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or TRIREME_CACHE}/.cache}/trireme}

"$root/launch/setup.sh" --full
model=$("$root/launch/fetch_demo_model.sh")
trireme=$root/build/release/launch/trireme
if [[ ! -x $trireme ]]; then
    echo "versus_llama_cpp: no $trireme; first: cmake --preset release && cmake --build --preset release" >&2
    exit 66
fi

digest=$(sha256sum "$here/requirements.txt" | cut -c1-12)
venv=${TRIREME_LLAMA_VENV:-$cache/venv-llama-cpp-$digest}
if [[ ! -x $venv/bin/python ]]; then
    log=$cache/venv-llama-cpp.log
    echo "versus_llama_cpp: building llama-cpp-python from source into $venv (about 10 minutes; log: $log)" >&2
    work=$venv.building
    rm -rf "$work"
    /usr/bin/python3 -m venv "$work"
    # From source, so that it is compiled for this CPU; a wheel would be for any CPU.
    if ! CMAKE_ARGS=-DGGML_NATIVE=ON "$work/bin/pip" install --no-binary llama-cpp-python -r "$here/requirements.txt" \
        >"$log" 2>&1; then
        cat "$log" >&2
        echo "versus_llama_cpp: pip could not build the peer (its output is above)" >&2
        exit 69
    fi
    mv "$work" "$venv"
fi

for type in f16 bf16; do
    converted=$cache/$(basename "$model" .gguf).$type.gguf
    if [[ ! -s $converted ]]; then
        "$venv/bin/python" "$here/convert.py" "$model" "$type" "$converted.part"
        mv "$converted.part" "$converted"
    fi
done
compare=compare.py
if [[ ${1:-} == --batched ]]; then
    compare=compare_batched.py
    shift
fi
exec "$venv/bin/python" "$here/$compare" --trireme "$trireme" --model "$model" "$@"
