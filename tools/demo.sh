#!/usr/bin/env bash
# A demo with real files, explained step by step: create, mount, fill, kill, mount again, compare, look for leaks.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
bin=$here/target/release/strongroom
big_mib=${DEMO_BIG_MIB:-1024}

work=$(mktemp -d)
# What is seen of the vault is remembered here, and not of this user.
export XDG_STATE_HOME=$work/state
vault=$work/vault
mount=$work/drive
cleanup() {
    "$bin" umount "$mount" >/dev/null 2>&1 || umount -l "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
seconds() { date +%s.%N; }
took() { awk -v from="$1" -v to="$(seconds)" 'BEGIN { printf "%.1f s", to - from }'; }
# The process that serves the mount: the one that answers on the vault's lock.
daemon_of() { "$bin" info "$vault" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["owner_pid"])'; }

say "1. A new vault, with a passphrase from a file"
printf 'correct horse battery staple' >"$work/passphrase"
"$bin" init "$vault" --passphrase-file "$work/passphrase"
mkdir "$mount"
"$bin" mount "$vault" "$mount" --passphrase-file "$work/passphrase"
echo "mounted at $mount"

say "2. A real source tree: the sources this very build used"
start=$(seconds)
# One folder for each crate of Cargo.lock, where cargo unpacked it; crates of other platforms were never fetched.
registry=$(dirname "$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/openssl-src-* | head -n 1)")
mapfile -t crates < <(awk -F'"' '/^name = /{name=$2} /^version = /{print name "-" $2}' Cargo.lock |
    while read -r crate; do [ ! -d "$registry/$crate" ] || echo "$crate"; done)
mkdir "$mount/source"
tar -C "$registry" -cf - "${crates[@]}" | tar -C "$mount/source" -xf -
echo "$(find "$mount/source" -type f | wc -l) files, $(du -sh --apparent-size "$mount/source" | cut -f1) unpacked in $(took "$start")"

say "3. A git repository of them, on the mount"
start=$(seconds)
git -C "$mount/source" -c init.defaultBranch=main init -q
# Git packs so many files by itself, in the background: here when asked, so that what is compared below stands still.
git -C "$mount/source" config gc.auto 0
git -C "$mount/source" config maintenance.auto false
git -C "$mount/source" add -A
git -C "$mount/source" -c user.name=demo -c user.email=demo@example.org commit -qm 'everything'
git -C "$mount/source" fsck --no-progress
git -C "$mount/source" gc --quiet
echo "added, committed, checked and packed by git in $(took "$start")"

say "4. A file of $big_mib MiB, copied in and synced"
dd if=/dev/urandom of="$work/big" bs=1M count="$big_mib" status=none
start=$(seconds)
dd if="$work/big" of="$mount/big" bs=1M conv=fsync status=none
awk -v mib="$big_mib" -v from="$start" -v to="$(seconds)" 'BEGIN { printf "%d MiB in %.1f s: %.0f MiB/s, synced\n", mib, to - from, mib / (to - from) }'
start=$(seconds)
cp "$mount/big" "$mount/big-copy"
echo "copied inside the vault in $(took "$start") (blocks are shared)"

say "5. Sync, list every checksum, then kill -9 in the middle of more writing"
sync -f "$mount/big" 2>/dev/null || true
"$bin" sync "$vault"
(cd "$mount" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$work/before"
# What was copied in is compared with what it was copied from, and not with what the mount says of it.
(cd "$registry" && find "${crates[@]}" -type f -print0 | sort -z | xargs -0 sha256sum) >"$work/sources"
(cd "$mount/source" && sha256sum --quiet -c "$work/sources")
echo "$(wc -l <"$work/before") checksums, $(wc -l <"$work/sources") of them of the sources"
(while :; do dd if=/dev/zero of="$mount/unsynced-$RANDOM" bs=1M count=8 status=none || exit 0; done) 2>/dev/null &
writer=$!
sleep 1
kill -9 "$(daemon_of)"
wait "$writer" 2>/dev/null || true
echo "the daemon is dead; the mount says: $(ls "$mount" 2>&1 | head -n 1 || true)"

say "6. Mount again and compare"
"$bin" mount "$vault" "$mount" --passphrase-file "$work/passphrase"
(cd "$mount" && sha256sum --quiet -c "$work/before")
(cd "$mount/source" && sha256sum --quiet -c "$work/sources")
cmp "$work/big" "$mount/big"
cmp "$work/big" "$mount/big-copy"
echo "all $(wc -l <"$work/before") files are as they were synced, and as the files that they were copied from"
git -C "$mount/source" fsck --no-progress
git -C "$mount/source" status --short | head -n 5
"$bin" check "$vault"

say "7. What a thief of the disk sees"
"$bin" umount "$mount"
(cd "$vault" && find . -maxdepth 1 | sort && echo "./segments: $(find segments -type f | wc -l) files, $(du -sh segments | cut -f1)")
for secret in 'Makefile' 'openssl' 'Copyright' 'README'; do
    if grep -rqaF "$secret" "$vault"; then
        echo "LEAK: \"$secret\" is visible below $vault" >&2
        exit 1
    fi
done
echo "none of the names and contents looked for (Makefile, openssl, Copyright, README) is anywhere in it"

say "Done. The vault was made, filled, killed, compared and closed; everything synced was there."
