#!/usr/bin/env bash
# The bundle on an empty Debian 12 and 13: it starts there, gives the same tokens on the CPU as the program on this
# machine, and reports in one line that there is no GPU. Root only (chroot); debootstrap fetches about 100 MB for
# each.
#   tests/bundle.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (( EUID != 0 )); then echo "bundle.sh: not root, and an empty Debian is entered with chroot" >&2; exit 77; fi
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

"$root/launch/bundle.sh" "$work/bundle" >/dev/null
request=(-m tests/data/models/kjv-target -p 'In the beginning' -n 16 --temp 0 --print ids --no-progress)
expected=$(cd "$root" && build/release/launch/trireme generate --device cpu "${request[@]}" 2>/dev/null)

# inside <command>...: runs a command in the fresh system, where the tree is in /opt/trireme.
inside() {
    unshare --mount --pid --fork bash -c 'new=$1; shift
        mount --make-rprivate / && mount -t proc proc "$new/proc" && mount --rbind /sys "$new/sys" && mount --rbind /dev "$new/dev"
        exec chroot "$new" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C bash -c "cd /opt/trireme && \"\$@\"" _ "$@"' _ "$new" "$@"
}

for release in bookworm trixie; do
    new=$work/$release
    if ! debootstrap --variant=minbase "$release" "$new" >"$work/log" 2>&1; then
        tail -n 5 "$work/log" >&2
        echo "bundle.sh: debootstrap could not fetch $release" >&2
        exit 69
    fi
    cp -r "$work/bundle" "$new/opt/trireme"
    mkdir -p "$new/opt/trireme/tests/data/models"
    cp -r "$root/tests/data/models/kjv-target" "$new/opt/trireme/tests/data/models/"
    for ranks in 1 2; do
        got=$(inside ./run -n "$ranks" generate "${request[@]}" 2>"$work/err") || { cat "$work/err" >&2; exit 1; }
        if [[ $got != "$expected" ]]; then
            echo "bundle.sh: $release, $ranks rank(s): '$got', here '$expected'" >&2
            exit 1
        fi
    done
    status=0
    inside ./run generate "${request[@]}" --device cuda >/dev/null 2>"$work/err" || status=$?
    if (( status != 69 )) || [[ $(grep -c . "$work/err") != 1 ]]; then
        echo "bundle.sh: $release: --device cuda without a card gives $status and" >&2
        cat "$work/err" >&2
        exit 1
    fi
    echo "$release: tokens of 1 and 2 ranks as here; --device cuda: $(cat "$work/err")"
done
