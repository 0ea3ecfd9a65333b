#!/usr/bin/env bash
# Simulates 5,000 histories of several devices of one vault, each from a seed. The devices write, sync over a faulty line, are killed,
# erase, change keys, join and leave. Their remote is in memory.
#
# Then 200 histories at processes of strongroom-server that are killed with SIGKILL and started again, and put back to a backup, and where
# others deposit files.
#
# Then a hostile remote tells every command every possible lie about every kind of object.
#
# SYNC_SEEDS and SYNC_SERVER_SEEDS set the seeds, as A..B. Each violation prints the one command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
# Two builds: the server knows no remotes for tests.
cargo build --locked --quiet -p strongroom-server
cargo build --locked --quiet -p strongroom-simulator --features testing
# Nothing of a history must last: it lies in memory where there is some.
if [ -d /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 1000000 ]; then export TMPDIR=/dev/shm; fi
scratch=$(mktemp -d -t strongroom-sync.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
TMPDIR=$scratch target/debug/strongroom-sim remote --jobs "$(nproc)"
TMPDIR=$scratch target/debug/strongroom-sim sync --seeds "${SYNC_SEEDS:-0..5000}" --jobs "$(nproc)"
TMPDIR=$scratch target/debug/strongroom-sim sync --seeds "${SYNC_SERVER_SEEDS:-0..200}" --remote server --jobs "$(nproc)"
