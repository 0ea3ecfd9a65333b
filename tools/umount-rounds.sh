#!/bin/sh
# Mounts a vault on a loop disk, writes, unmounts it, and at once unmounts the disk below. Counts how often that disk is busy.
#
# Usage: tools/umount-rounds.sh [ROUNDS]     as root; 200 rounds by default; exits with 1 if a round was busy
set -eu

rounds=${1:-200}
strongroom=${STRONGROOM:-$(cd "$(dirname "$0")/.." && pwd)/target/release/strongroom}
folder=$(mktemp -d)
export XDG_STATE_HOME="$folder/state" XDG_RUNTIME_DIR="$folder/run"
mkdir "$folder/disk" "$folder/mnt" "$folder/run"

clean() {
    umount -i "$folder/mnt" 2>/dev/null || true
    umount -i -l "$folder/disk" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM

truncate -s 256M "$folder/image"
mkfs.ext4 -q "$folder/image"
mount -o loop "$folder/image" "$folder/disk"
"$strongroom" init "$folder/disk/vault" --key-file "$folder/key" >/dev/null

busy=0
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    "$strongroom" mount "$folder/disk/vault" "$folder/mnt" --key-file "$folder/key"
    head -c 300000 /dev/urandom >"$folder/mnt/file"
    "$strongroom" umount "$folder/mnt"
    if ! umount -i "$folder/disk" 2>/dev/null; then
        busy=$((busy + 1))
        umount -i -l "$folder/disk"
    fi
    mount -o loop "$folder/image" "$folder/disk"
done
echo "$round rounds, $busy busy"
[ "$busy" -eq 0 ]
