#!/usr/bin/env bash
# Everything that who can write a vault folder can do to each of its files, every command on each; and pages of
# different states of the database mixed.
#
# HOSTILE_SEED sets the seed (default 1), HOSTILE_SETS the random sets of pages (default 10000), HOSTILE_CASES a number
# of cases instead of all. Each violation prints the one command that repeats it. All 38,862 cases take about two hours on
# four cores; each has a time limit, so it ends by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "make hostile needs root and /dev/fuse. Type: sudo make hostile" >&2; exit 1; }
cargo build --locked --quiet -p strongroom-cli -p strongroom-simulator
sim=target/debug/strongroom-sim
# Every case has a folder of its own: in memory where there is some, because nothing of it must last.
if [ -d /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 2000000 ]; then export TMPDIR=/dev/shm; fi
scratch=$(mktemp -d -t strongroom-hostile.XXXXXX)
export TMPDIR=$scratch
# However it ends: no mount and no process stays.
clean() {
    for place in "$scratch"/.tmp*; do [ -d "$place" ] && "$sim" hostile-clean "$place"; done
    rm -rf --one-file-system "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM
seed=${HOSTILE_SEED:-1}
sound=0
echo "== pages of several states of a database"
"$sim" pages --sets "${HOSTILE_SETS:-10000}" --seed "$seed" || sound=1
echo "== every file, every operation, every command"
"$sim" hostile --seed "$seed" ${HOSTILE_CASES:+--cases "$HOSTILE_CASES"} || sound=1
exit "$sound"
