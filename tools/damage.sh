#!/usr/bin/env bash
# Damages one file of a vault folder at a time, verifies and repairs it, and compares the reports and the content with the truth.
#
# DAMAGE_SEEDS sets the seeds, as A..B (default 0..600). Each failing seed prints the one command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --quiet -p strongroom-simulator
# Every damage has a folder of its own: in memory where there is some, because nothing of it must last.
if [ -d /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 500000 ]; then export TMPDIR=/dev/shm; fi
scratch=$(mktemp -d -t strongroom-damage.XXXXXX)
export TMPDIR=$scratch
trap 'rm -rf "$scratch"' EXIT
target/debug/strongroom-sim damage --seeds "${DAMAGE_SEEDS:-0..600}"
