#!/usr/bin/env bash
# Cuts the power under a vault more than a thousand times, and makes requests of small scenarios fail.
#
# SIM_SEEDS sets the seeds of the main run, as A..B (default 20..26: about 6,000 states after a cut, with every kind of background work). Each failing seed prints the
# one command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "make sim needs root and /dev/fuse. Type: sudo make sim" >&2; exit 1; }
cargo build --locked --quiet -p strongroom-simulator --features nonce-ledger

# What a cut left is opened on a disk of its own: in memory where there is some, because nothing of it must last.
if [ -d /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 1000000 ]; then export TMPDIR=/dev/shm; fi
scratch=$(mktemp -d -t strongroom-sim.XXXXXX)
export TMPDIR=$scratch
trap 'rm -rf "$scratch"' EXIT
# The program may be built again meanwhile, without the ledger.
cp target/debug/strongroom-sim "$scratch"
sim=$scratch/strongroom-sim
# One ledger for all that follows: every run has the same keys, so no nonce may come back with another plaintext.
ledger=(--ledger "$scratch/ledger")
began=$SECONDS

echo "== power cuts, small segments: new segments, compaction, purges and checkpoints are cut, and recoveries too"
"$sim" run --seeds "${SIM_SEEDS:-20..26}" --cover "${ledger[@]}" | tee "$scratch/log"
trees=$(awk '/^all:/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^trees/) sum += $i } END { print sum }' "$scratch/log")
echo "== power cuts, sizes of the product"
"$sim" run --seeds 50..52 --scale real "${ledger[@]}"
echo "== power cuts between and within transactions: each is there whole or not at all"
"$sim" transactions --seeds "${SIM_TRANSACTION_SEEDS:-0..2}" --ops 30 --stride 29 "${ledger[@]}"
"$sim" transactions --seeds 50..52 --ops 30 --stride 29 --scale real "${ledger[@]}"
echo "== power cuts: names durable after any sync, as on ext4"
"$sim" run --seeds 100..102 --journal --ops 100 "${ledger[@]}"
echo "== power cuts under four threads"
"$sim" run --seeds 200..202 --threads 4 --ops 60 --stride 61 "${ledger[@]}"
echo "== a whole vault: its making, its keys, its closing; cuts, then faults"
"$sim" vault --stride 9
echo "== keys that rotate back to back under a writer: cuts, and no alarm while the opening after it goes on"
"$sim" rotations --ops "${SIM_ROTATIONS:-12}" --stride 17 | tee "$scratch/rotations"
cuts=$(grep -o '[0-9]* moments' "$scratch/rotations" | cut -d' ' -f1)
[ "${cuts:-0}" -ge 200 ] || { echo "only $cuts cuts amid rotations; 200 are asked for" >&2; exit 1; }
echo "== a backup, and two more after changes: a cut at every request"
"$sim" backups --stride 1
echo "== a fault at every request: EIO, ENOSPC, a short write"
"$sim" faults --seeds 0..1 --ops 20 "${ledger[@]}"
echo "== a fault of the database in the middle of operations: reads, writes, syncs"
"$sim" database --seeds 0..2 --ops 40 --stride 2
[ "$trees" -ge 1000 ] || { echo "only $trees states after a power cut in the main run; 1,000 are asked for" >&2; exit 1; }
echo "$trees states after a power cut in the main run, 0 violations, $((SECONDS - began)) seconds in all"
