#!/usr/bin/env bash
# The packages of launch/package.sh on empty Debians. trireme_*.deb on Debian 12: it installs with Debian's packages and
# gives the same tokens as the program on this machine, on 1 and 2 ranks. `man trireme` shows the page, the tab key
# completes, trireme-cuda (if it is built) works with it, and purging leaves no file. The tarball on Debian 12 and 13:
# the same tokens, also after the tree was moved. Root only (chroot).
#   tests/packages.sh
# The empty Debians (debootstrap, 100 MB each) and apt's downloads are kept in the cache, so that a second run needs the
# network only for newer packages.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${TRIREME_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trireme}/chroots
if (( EUID != 0 )); then echo "packages.sh: not root, and an empty Debian is entered with chroot" >&2; exit 77; fi
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
wrong() { echo "packages.sh: $1" >&2; exit 1; }

if ! command -v debootstrap >/dev/null; then "$root/launch/setup.sh" --full; fi
"$root/launch/package.sh" "$work/packages"
deb=("$work"/packages/trireme_*.deb) cuda=("$work"/packages/trireme-cuda_*.deb) tarball=("$work"/packages/trireme-*.tar.xz)
request=(-m /root/model -p 'In the beginning' -n 16 --temp 0 --print ids --no-progress)
expected=$("$root/build/release/launch/trireme" generate --device cpu "${request[@]/#\/root\/model/$root/tests/data/models/kjv-target}" 2>/dev/null)

# fresh <release>: makes an empty system of this release in $new, with the model and the packages in its /root.
fresh() {
    if [[ ! -d $cache/$1 ]]; then
        mkdir -p "$cache"
        rm -rf --one-file-system "${cache:?}/$1.new"
        if ! debootstrap --variant=minbase "$1" "$cache/$1.new" >"$work/log" 2>&1; then
            tail -n 5 "$work/log" >&2
            echo "packages.sh: debootstrap could not fetch $1, and $cache has none: is the mirror reachable?" >&2
            exit 69
        fi
        mv "$cache/$1.new" "$cache/$1"
    fi
    new=$work/$1 apt=$cache/$1-apt
    mkdir -p "$apt/lists" "$apt/archives"
    cp -a --reflink=auto "$cache/$1" "$new"
    cp -r "$root/tests/data/models/kjv-target" "$new/root/model"
    cp "$work"/packages/* "$new/root/"
}

# inside <command>...: runs a command in that system, in its own process namespace, which ends with the command. apt's
# lists and archives are those of the cache.
inside() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork bash -c 'new=$1 apt=$2; shift 2
        mount --make-rprivate / && mount -t proc proc "$new/proc" && mount --rbind /sys "$new/sys" &&
            mount --rbind /dev "$new/dev" && mount --bind "$apt/lists" "$new/var/lib/apt/lists" &&
            mount --bind "$apt/archives" "$new/var/cache/apt/archives" && cp -L /etc/resolv.conf "$new/etc/"
        exec chroot "$new" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
            DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            OMPI_MCA_rmaps_base_oversubscribe=1 ${http_proxy:+http_proxy="$http_proxy"} "$@"' _ "$new" "$apt" "$@"
}
# quietly <command>...: like inside; the output is shown only if the command fails.
quietly() {
    if ! inside "$@" >"$work/log" 2>&1; then cat "$work/log" >&2; wrong "'$*' failed (above)"; fi
}
# Prints the paths of the system, except those that change by themselves and those that this script adds.
files_there() {
    inside find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /root -o -path /var \) -prune -o \
        -print | sort
}
# same_tokens <what> <command>...
same_tokens() {
    local got
    got=$(inside "${@:2}" generate "${request[@]}" 2>"$work/err") || { cat "$work/err" >&2; wrong "$1 failed (above)"; }
    if [[ $got != "$expected" ]]; then wrong "$1: '$got', here '$expected'"; fi
}
# no_card <command>...: checks that --device cuda is refused in one line, and prints that line.
no_card() {
    local status=0
    inside "$@" generate "${request[@]}" --device cuda >/dev/null 2>"$work/err" || status=$?
    if (( status != 69 )) || [[ $(grep -c . "$work/err") != 1 ]]; then
        cat "$work/err" >&2
        wrong "--device cuda without a card: exit code $status, want 69, and one line"
    fi
    cat "$work/err"
}

package_on_bookworm() {
    fresh bookworm
    inside apt-get -q update >"$work/log" 2>&1 || echo "packages.sh: 'apt-get update' fails: going on with the cache" >&2
    files_there >"$work/before"

    quietly bash -c 'apt-get -q -y install --no-install-recommends /root/trireme_*.deb'
    same_tokens 'the package alone' trireme
    no_card trireme | grep -q 'install the package trireme-cuda' || wrong 'nothing names trireme-cuda'
    quietly bash -c 'apt-get -q -y install /root/trireme_*.deb openmpi-bin bash-completion man-db'
    same_tokens '2 ranks of the package' mpirun -n 2 trireme
    inside man trireme >"$work/page"
    for flag in -p --kv-policy --spec-draft-n-max; do
        grep -q -e " $flag" "$work/page" || wrong "man trireme does not show $flag"
    done
    [[ $(inside whatis trireme) == 'trireme (1)'*'exact decoding'* ]] || wrong 'whatis does not know trireme'
    complete_with_tab
    if [[ -e ${cuda[0]} ]]; then
        quietly bash -c 'apt-get -q -y install /root/trireme-cuda_*.deb'
        no_card trireme | grep -q 'there is no NVIDIA driver here' || wrong 'trireme-cuda: the module is not found'
        same_tokens 'with trireme-cuda' trireme
    fi

    quietly bash -c 'apt-get -q -y purge "trireme*" && apt-get -q -y autoremove --purge'
    files_there >"$work/after"
    left=$(comm -13 "$work/before" "$work/after" | grep trireme || true)
    if [[ $left ]]; then wrong "left behind when the package was purged: $left"; fi
    echo "bookworm: $(basename "${deb[0]}")$([[ -e ${cuda[0]} ]] && echo " and $(basename "${cuda[0]}")"): tokens as here, man, tab, purge"
}

# Completion in a terminal, with bash-completion loaded as in an interactive shell; a stand-in for `trireme` prints its
# arguments.
complete_with_tab() {
    # shellcheck disable=SC2016
    printf '%s\n' '. /usr/share/bash-completion/bash_completion; PS1=; bind "set enable-bracketed-paste off"' \
        'trireme() { printf "<%s>" "$@"; echo; }' >"$new/root/start.bash"
    printf 'trireme gener\t--kv-poli\tsnap\t\nexit\n' |
        inside script -qec 'bash --noprofile --rcfile /root/start.bash -i' /dev/null >"$work/typed"
    grep -q '<generate><--kv-policy><snapkv>' "$work/typed" || { cat "$work/typed" >&2; wrong 'the tab key does not complete'; }
}

tarball_on() {
    local place
    fresh "$1"
    for place in /opt '/srv/moved here'; do
        if [[ $place == /opt ]]; then
            # An empty Debian has no xz, so the tarball is unpacked from outside, as dpkg would do.
            tar -C "$new/opt" -xf "${tarball[0]}"
            mv "$new"/opt/trireme-* "$new/opt/trireme"
        else
            mkdir "$new$place"
            mv "$new/opt/trireme" "$new$place/"
        fi
        same_tokens "$1, the tarball in $place" "$place/trireme/run"
        same_tokens "$1, the tarball in $place on 2 ranks" "$place/trireme/run" -n 2
        same_tokens "$1, bin/trireme of the tarball in $place" "$place/trireme/bin/trireme"
    done
    no_card "$place/trireme/run" >"$work/line"
    [[ -s $new$place/trireme/share/man/man1/trireme.1.gz ]] || wrong 'the tarball has no manual page'
    echo "$1: $(basename "${tarball[0]}"): tokens as here, moved, too; --device cuda: $(cat "$work/line")"
    rm -rf --one-file-system "$new"
}

package_on_bookworm
rm -rf --one-file-system "$new"
tarball_on bookworm
tarball_on trixie
