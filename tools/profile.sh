#!/usr/bin/env bash
# Profiles one row of the bench on Strongroom alone: shows the time in each part of the program, the functions that take most
# of it, and a flame graph. Run it as root on an idle machine, best by `make profile ROW=create`.
#
#     tools/profile.sh ROW [INTO]        default: target/profiles
#
# If perf may not record, eu-stack takes stacks of the server: they are coarser, and without the kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
row=${1:?which row? One of those in docs/performance.md: make profile ROW=create}
into=${2:-target/profiles}
target=${CARGO_TARGET_DIR:-target}
built=$target/profiling # the release build has no symbols
export PATH="$PWD/.tools/bin:$PATH"

[ "$(id -u)" = 0 ] || { echo "Run it as root: it mounts, drops caches and records the whole machine." >&2; exit 1; }
for program in "$built/strongroom" "$built/strongroom-bench"; do
    [ -x "$program" ] || { echo "No $program: run cargo build --profile profiling -p strongroom-cli -p strongroom-bench first." >&2; exit 1; }
done
need() { # command, Debian package
    command -v "$1" >/dev/null && return
    apt-get install -y -qq --no-install-recommends "$2" >/dev/null || { echo "Install $2: it has $1." >&2; return 1; }
}
need c++filt binutils || true
if ! command -v inferno-flamegraph >/dev/null; then
    echo "installing inferno into .tools: it draws the flame graph" >&2
    cargo install --quiet --locked --root .tools inferno
fi

# In memory: writing a profile to the disk that is measured would be a part of it.
work=$(mktemp -d -p /dev/shm)
export XDG_STATE_HOME=$work/state
mounted=
trap 'rm -rf "$work"; [ -z "$mounted" ] || umount "$mounted"' EXIT
mkdir -p "$into"
bench=("$built/strongroom-bench" --strongroom "$built/strongroom" --folder "$target" --alone --rounds 1 --only "$row" --spans "$work/spans.json" --json)

# Virtual machines seldom have counters of the processor; the clock does as well.
event=cpu-clock
if need perf linux-perf && perf record -q -e cycles -o "$work/trial" true 2>/dev/null >&2; then event=cycles; fi
if perf record -q -a -e "$event" -o "$work/trial" true >/dev/null 2>&1; then
    # The calls in which the server waits for the disk, where the kernel reports them.
    tracing=/sys/kernel/tracing
    [ -d $tracing/events ] || ! mount -t tracefs tracefs $tracing 2>/dev/null || mounted=$tracing
    calls=()
    for call in fdatasync fsync pwrite64 pread64 pwritev2 preadv2; do
        if [ -d "$tracing/events/syscalls/sys_enter_$call" ]; then
            calls+=(-e "syscalls:sys_enter_$call" -e "syscalls:sys_exit_$call")
        fi
    done
    if [ ${#calls[@]} -gt 0 ]; then
        perf record -q -a "${calls[@]}" --clockid mono -m 1024 -o "$work/perf.calls" &
        tracer=$!
        sleep 1
    fi
    perf record -q -a -e "$event" -F 997 --clockid mono --call-graph dwarf,16384 -m 2048 -o "$work/perf.data" \
        -- "${bench[@]}" >"$work/report.json"
    if [ ${#calls[@]} -gt 0 ]; then
        kill -INT "$tracer"
        wait "$tracer" || true
    fi
    tools/profile.py cut "$work/perf.data" "$work/spans.json" "$row" "$into"
else
    echo "perf may not record here; stacks are taken by eu-stack" >&2
    need eu-stack elfutils
    tools/profile.py stacks "$built/strongroom" "$work/spans.json" "$row" "$into" &
    sampler=$!
    "${bench[@]}" >"$work/report.json"
    wait "$sampler"
fi

# What is too narrow to be read is left out: the picture stays small.
inferno-flamegraph --title "$row" --subtitle "time of the processors" --hash --minwidth 0.3 \
    "$into/$row.folded" >"$into/$row.svg"
rm "$into/$row.folded"
echo "written: $into/$row.svg, $into/$row.txt, $into/$row.json"
