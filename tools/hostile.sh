#!/usr/bin/env bash
# Runs every attack of someone who can write to a vault folder, on each of its files and with every command; and mixes pages
# of different states of the database.
#
# HOSTILE_SEED sets the seed (default 1), HOSTILE_SETS the number of random mixtures of pages (default 10000),
# HOSTILE_CASES a number of cases instead of all, HOSTILE_JOBS how many run at once (default: one per processor). Each violation prints the one
# command that repeats it. All 39,000 cases take about fifteen minutes on four cores; each has a time limit, so it ends
# by itself.
#
# The cases run in parts (HOSTILE_PARTS, default 24), and the result of each part is kept in target/hostile. HOSTILE_GO_ON=1
# continues a stopped run: finished parts are not run again. In the end the results of all parts of one run must exist.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "make hostile needs root and /dev/fuse. Type: sudo make hostile" >&2; exit 1; }
cargo build --locked --quiet -p strongroom-cli -p strongroom-simulator
kept=$PWD/target/hostile
[ -n "${HOSTILE_GO_ON:-}" ] || rm -rf "$kept"
mkdir -p "$kept"
# Every case has a folder of its own: in memory where there is some, because nothing of it must last.
if [ -d /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 2000000 ]; then export TMPDIR=/dev/shm; fi
scratch=$(mktemp -d -t strongroom-hostile.XXXXXX)
export TMPDIR=$scratch
# The programs may be built again meanwhile.
cp target/debug/strongroom target/debug/strongroom-sim "$scratch"
sim=$scratch/strongroom-sim
# However it ends: no mount and no process stays.
clean() {
    for place in "$scratch"/.tmp*; do [ -d "$place" ] && "$sim" hostile-clean "$place"; done
    rm -rf --one-file-system "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM
seed=${HOSTILE_SEED:-1}
parts=${HOSTILE_PARTS:-24}
jobs=${HOSTILE_JOBS:-$(nproc)}
sound=0
echo "== pages of several states of a database"
"$sim" pages --sets "${HOSTILE_SETS:-10000}" --seed "$seed" --jobs "$jobs" || sound=1
echo "== every file, every operation, every command"
summaries=()
for part in $(seq 1 "$parts"); do
    summary=$kept/part-$part-of-$parts
    summaries+=("$summary")
    [ -e "$summary" ] && continue
    "$sim" hostile --seed "$seed" --part "$part/$parts" --summary "$summary" --jobs "$jobs" \
        ${HOSTILE_CASES:+--cases "$HOSTILE_CASES"} > "$summary.log" 2>&1 || sound=1
    grep -A1 '^VIOLATION' "$summary.log" || true
    echo "part $part of $parts: $(tail -1 "$summary.log")"
done
echo "== all parts"
"$sim" hostile-join "${summaries[@]}" || sound=1
exit "$sound"
