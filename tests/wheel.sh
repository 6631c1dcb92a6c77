#!/usr/bin/env bash
# The wheel of launch/wheel.py in a new virtual environment: the command `trireme`, the Python package on 1 and 2 ranks, an
# evaluation, and lm_eval's model "trireme" if a Python with lm-eval is given.
#   tests/wheel.sh [PYTHON_WITH_LM_EVAL]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "wheel.sh: $1" >&2; exit 1; }
model=$root/tests/data/models/kjv-target

"$root/launch/bundle.sh" "$work/tree" --no-tests
"$root/launch/wheel.py" "$work/tree" "$work"
rm -rf "$work/tree" # the wheel has all that it needs
/usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "$work"/trireme-*.whl
cd "$work"

request=(generate -m "$model" -p 'In the beginning' -n 16 --temp 0 --no-progress)
expected=$("$root/build/release/launch/trireme" "${request[@]}" 2>/dev/null)
[[ $("$work/venv/bin/trireme" "${request[@]}" 2>/dev/null) == "$expected" ]] || wrong 'the command has other tokens'
for ranks in 1 2; do
    got=$("$work/venv/bin/python" -c "
from trireme_lm import Trireme
with Trireme('$model', '-q --temp 0', ranks=$ranks) as model:
    print(''.join(model.generate('In the beginning', max_tokens=16)))")
    [[ $got == "$expected" ]] || wrong "the package on $ranks ranks: '$got', expected '$expected'"
done
"$work/venv/bin/trireme" evaluate -m "$model" --suite needle --tasks needle --lengths 300 --limit 1 --modes full,h2o@64 -o results >table 2>/dev/null
grep -q '| needle | needle | 300 ' table || wrong 'evaluate gives no table'
echo "wheel: $(basename "$work"/trireme-*.whl), $(du -m "$work"/trireme-*.whl | cut -f1) MB: command, package on 1 and 2 ranks, evaluate"

if [[ ${1:-} ]]; then
    "$1" -m venv --system-site-packages "$work/lm" && "$work/lm/bin/pip" install -q --no-deps "$work"/trireme-*.whl
    "$1" -c "import sys; sys.path.insert(0, '$root/tests/lm_eval'); import tasks; tasks.write('$work', 6)"
    sites=$("$1" -c 'import site; print(site.getsitepackages()[0])') # also those of a virtual environment
    HF_HUB_OFFLINE=1 PYTHONPATH=$sites "$work/lm/bin/python" -m lm_eval --model trireme --model_args "model=$model,flags=--kv-policy h2o --kv-window 64" \
        --tasks kjv_choice,kjv_continue --include_path "$work" >scores 2>log || { tail -n 5 log >&2; wrong 'lm_eval failed (above)'; }
    grep -q '|kjv_choice ' scores || wrong 'lm_eval gives no scores'
    echo 'lm_eval --model trireme: scores of two tasks'
fi
