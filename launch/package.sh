#!/usr/bin/env bash
# Packages of the release build, as build/release is configured (if it is not: with the CUDA module if nvcc is present):
#   trireme_VERSION_amd64.deb             program, manual, completion, configs; for the Debian release of the build machine
#   trireme-cuda_VERSION_amd64.deb        the CUDA module, if it is built
#   trireme-VERSION-linux-x86_64.tar.xz   for Debian 12 and 13: a tree that may be moved, with its libraries, since few of
#                                         them are the same in both; TREE/run starts it
#   trireme-VERSION-py3-....whl           the same tree with its Python packages, for pip
#   launch/package.sh FOLDER              overwrites files of these names in FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if (( $# != 1 )) || [[ $1 == -* ]]; then echo "package: want one folder: launch/package.sh FOLDER" >&2; exit 64; fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$root"
./launch/setup.sh --package
source launch/steps.sh
if ! command -v dpkg-shlibdeps >/dev/null; then echo "package: no dpkg-shlibdeps: install dpkg-dev" >&2; exit 69; fi
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

build_program
if [[ ! -e build/release/CPackConfig.cmake ]]; then
    echo "package: this is not Debian (/etc/os-release): no .deb, and the tarball's libraries would be others" >&2
    exit 69
fi
logged 'debian packages' cpack --config build/release/CPackConfig.cmake -B "$work/deb"
cp "$work"/deb/*.deb "$out/"

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' build/release/CMakeCache.txt)
tree=trireme-$version
./launch/bundle.sh "$work/$tree" --no-tests
logged tarball tar -C "$work" --owner=root --group=root -I 'xz -T0' -cf "$out/$tree-linux-x86_64.tar.xz" "$tree"
logged wheel launch/wheel.py "$work/$tree" "$out"
(cd "$out" && ls -s --block-size=K -- *"$version"*) >&2
