#!/usr/bin/env bash
# Lets devices of one vault write, sync over a bad line, be killed, change keys, come and go, in 5,000 histories; each comes from a seed.
#
# Then a remote tells every lie that it can, about every kind of object, to every command.
#
# SYNC_SEEDS sets the seeds, as A..B. Each violation prints the one command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --quiet -p strongroom-simulator --features testing
# Nothing of a history must last: it lies in memory where there is some.
if [ -d /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 1000000 ]; then export TMPDIR=/dev/shm; fi
scratch=$(mktemp -d -t strongroom-sync.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
TMPDIR=$scratch target/debug/strongroom-sim remote --jobs "$(nproc)"
TMPDIR=$scratch target/debug/strongroom-sim sync --seeds "${SYNC_SEEDS:-0..5000}" --jobs "$(nproc)"
