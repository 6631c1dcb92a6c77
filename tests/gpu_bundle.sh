#!/usr/bin/env bash
# Packs the programs that tests/gpu.sh runs into build/gpu-bundle.tar.xz, for a GPU machine without Open MPI and the other
# libraries. Checkout and bundle together are at most 64 MiB. CUDA's own libraries must be installed there.
#   tests/gpu_bundle.sh [FILE]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
file=${1:-$root/build/gpu-bundle.tar.xz}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
"$root/launch/bundle.sh" "$work/bundle" >/dev/null
rm -rf "$work/bundle/share/trireme" "$work/bundle/share/doc" "$work/bundle/share/man"
mkdir -p "$(dirname "$file")"
tar -cJf "$file.part" -C "$work/bundle" .
mv "$file.part" "$file"
tree=$(git -C "$root" ls-files -z | (cd "$root" && du -cb --files0-from=- | tail -n 1 | cut -f1)) packed=$(stat -c %s "$file")
awk -v file="$file" -v packed="$packed" -v tree="$tree" 'BEGIN {
    printf "gpu_bundle: %s, %.1f MiB; with the checkout %.1f MiB, at most 64\n", file, packed / 1048576, (packed + tree) / 1048576 }'
(( packed + tree <= 64 << 20 ))
