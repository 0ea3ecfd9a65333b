#!/usr/bin/env bash
# Measures FUSE requests over /dev/fuse and over io_uring, in turn, on a file system in memory (as root, on an idle machine).
#
#     tools/trials/transport.sh [FOLDER] [OPTION...]        default: target/trials; options: see the head of transport.c
#
# Writes transport.txt and transport.json into FOLDER. FUSE over io_uring is enabled during the run, if the kernel has it;
# otherwise only the variants of /dev/fuse run. The decision from it is in docs/adr/0015-fuse-over-io-uring.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "the trial needs root and /dev/fuse. Type: sudo tools/trials/transport.sh" >&2; exit 1; }
folder=target/trials
case "${1:---}" in --*) ;; *) folder=$1; shift ;; esac
mkdir -p "$folder"

setting=/sys/module/fuse/parameters/enable_uring
before=
restore() { [ -z "$before" ] || echo "$before" >"$setting"; rm -f "$folder/transport"; rmdir /tmp/transport-trial.?????? 2>/dev/null || true; }
trap restore EXIT
if [ -e "$setting" ]; then
    before=$(cat "$setting")
    echo Y >"$setting"
else
    echo "this kernel has no FUSE over io_uring: /dev/fuse is measured alone" >&2
    set -- --only dev-1,dev-2,dev-4,dev-1-spin,dev-2-spin,dev-4-spin,dev-2-halting,dev-2-spin-halting "$@"
fi

gcc -O2 -std=gnu17 -Wall -Wextra -Werror -pthread -o "$folder/transport" tools/trials/transport.c
{
    echo "Linux $(uname -r | cut -d. -f1,2), $(nproc) processors, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), idle driver $(cat /sys/devices/system/cpu/cpuidle/current_driver 2>/dev/null || echo none)"
    echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
    "$folder/transport" --json "$folder/transport.json" "$@"
    echo
    echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
} | tee "$folder/transport.txt"
