#!/usr/bin/env bash
# Pulls the plug under a vault at least a thousand times, and lets every request of small scenarios fail.
#
# SIM_SEEDS sets the seeds of the main run, as A..B (default 0..10: some 1,900 cuts). Each failing seed prints the one
# command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "make sim needs root and /dev/fuse. Type: sudo make sim" >&2; exit 1; }
cargo build --locked --quiet -p strongroom-simulator
sim=target/debug/strongroom-sim

echo "== power cuts: names durable only after a sync of their directory"
"$sim" run --seeds "${SIM_SEEDS:-0..10}" | tee /tmp/strongroom-sim.$$
trees=$(awk '{ for (i = 1; i < NF; i++) if ($(i + 1) ~ /^trees/) sum += $i } END { print sum }' /tmp/strongroom-sim.$$)
rm -f /tmp/strongroom-sim.$$
"$sim" transactions --seeds "${SIM_TRANSACTION_SEEDS:-0..4}" --ops 30 --stride 29
echo "== power cuts: names durable after any sync, as on ext4"
"$sim" run --seeds 100..102 --journal
echo "== power cuts under four threads"
"$sim" run --seeds 200..202 --threads 4
echo "== a fault at every request: EIO, ENOSPC, a short write"
"$sim" faults --seeds 0..2 --ops 25
echo "$trees states after a power cut in the main run, 0 violations"
