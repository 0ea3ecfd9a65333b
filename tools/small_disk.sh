#!/usr/bin/env bash
# Fills, empties and refills mounted vaults on small disks, and checks the free space that df shows.
#
# SMALL_DISK_SEEDS sets the seeds, as A..B (default 0..4, of 125 rounds each on every kind of disk). Each failing seed prints the one
# command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "make small-disk needs root and /dev/fuse. Type: sudo make small-disk" >&2; exit 1; }
cargo build --locked --quiet -p strongroom-simulator
target/debug/strongroom-sim small-disk --seeds "${SMALL_DISK_SEEDS:-0..4}" --ops 125
