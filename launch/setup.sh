#!/usr/bin/env bash
# Installs the missing Debian 12 packages of launch/packages.txt and names them. Does nothing if all are present.
#   launch/setup.sh [--build | --bundle | --package | --report | --test | --full] [--list]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

stages='build' list=''
for arg in "$@"; do
    case $arg in
        --build) stages='build' ;;
        --bundle) stages='build|bundle' ;;
        --package) stages='build|bundle|package' ;;
        --report) stages='build|report' ;;
        --test) stages='build|report|test' ;;
        --full) stages='build|report|test|full' ;;
        --list) list=1 ;;
        *) echo "setup: unknown argument '$arg'; want --build, --bundle, --package, --report, --test, --full or --list" >&2; exit 64 ;;
    esac
done
mapfile -t wanted < <(awk -v stages="^($stages)\$" '$1 ~ stages { print $2 }' "$here/packages.txt")
if [[ $list ]]; then printf '%s\n' "${wanted[@]}"; exit 0; fi

distribution=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}" || echo unknown)
if [[ $distribution != 'debian 12' ]]; then
    # No failure: the libraries may be present under other names, and CMake reports one that is missing.
    echo "setup: this is '$distribution', not Debian 12: nothing installed; needed, by Debian's names: ${wanted[*]}" >&2
    exit 0
fi

declare -A present=()
while read -r package status; do
    if [[ $status == installed ]]; then present[$package]=1; fi
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
    if [[ ! ${present[$package]:-} ]]; then missing+=("$package"); fi
done
if (( ${#missing[@]} == 0 )); then exit 0; fi

root=()
if (( EUID != 0 )); then
    if ! command -v sudo >/dev/null; then
        echo "setup: not root and no sudo; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 77
    fi
    root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1
}

echo "setup: installing ${#missing[@]} packages: ${missing[*]}" >&2
# An unreachable source of other packages is no failure; the installation below fails if ours are not available.
apt update || echo "setup: 'apt-get update' had errors; trying with the lists at hand" >&2
if ! apt install --no-install-recommends "${missing[@]}"; then
    cat "$log" >&2
    echo "setup: apt-get could not install: ${missing[*]} (its output is above)" >&2
    exit 69
fi
echo "setup: done" >&2
