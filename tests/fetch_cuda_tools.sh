#!/usr/bin/env bash
# Prints the folder of cuobjdump and nvdisasm, and fetches them from PyPI if needed (5 MB; NVIDIA's CUDA licence).
# They are kept in $TRIREME_CACHE, else $XDG_CACHE_HOME/trireme, else ~/.cache/trireme. tests/device_code.py reads
# kernels with them.
set -euo pipefail
version=13.2.78
cache=${TRIREME_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or TRIREME_CACHE}/.cache}/trireme}
folder=$cache/cuda-tools-$version
if [[ ! -d $folder ]]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cat >"$work/requirements.txt" <<REQUIREMENTS
nvidia-cuda-cuobjdump==$version --hash=sha256:394087411405b846bf43aa52ca2ff603bbe18b3b8a1257cda0903e23c17bdbf3
nvidia-cuda-nvdisasm==$version --hash=sha256:b4ebcd3c5046bf8039ac52675b9dbefd843600969649ecaab0a42b0713a61dae
REQUIREMENTS
    python=/usr/bin/python3
    if ! "$python" -m pip --version >/dev/null 2>&1; then python=python3; fi
    if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --dest "$work" --requirement "$work/requirements.txt" >"$work/log" 2>&1; then
        cat "$work/log" >&2
        echo "fetch_cuda_tools: pip could not download cuobjdump and nvdisasm $version (its output is above)" >&2
        exit 69
    fi
    "$python" -c 'import pathlib, sys, zipfile
out = pathlib.Path(sys.argv[1])
out.mkdir()
for wheel in sys.argv[2:]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if "/bin/" in name:
                tool = out / pathlib.PurePath(name).name
                tool.write_bytes(archive.read(name))
                tool.chmod(0o755)' "$work/tools" "$work"/*.whl
    mv -T "$work/tools" "$folder" 2>/dev/null || [[ -d $folder ]]  # another run may have fetched them meanwhile
fi
echo "$folder"
