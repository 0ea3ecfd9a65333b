#!/usr/bin/env bash
# Runs all tests. Mount tests need /dev/fuse; without it they report that and fail, because a skipped test proves nothing.
# The workspace is built first. Then two lanes run side by side, as most tests wait more than they compute: the tests of the workspace, and
# clippy with all others, whose output comes at its end. Clippy alone: `make check`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all -- --check
# BINDINGS chooses languages: BINDINGS=python leaves the C library out.
left_out=()
case ",${BINDINGS:-c,python,java}," in
*,c,*) ;;
*)
    echo "bindings: c is not in BINDINGS=$BINDINGS, and is left out"
    left_out=(--exclude strongroom-c)
    ;;
esac
# Model and crash tests note every key and nonce, crypto's own tests among them; histories of sync need remotes in memory, which the product
# does not know. In a build of their own: one build of all crates would put both into the product.
tests=(--workspace --locked --exclude strongroom-conformance --exclude strongroom-simulator "${left_out[@]}")
with_ledger=(--locked -p strongroom-crypto -p strongroom-conformance -p strongroom-simulator
    --features "strongroom-crypto/nonce-ledger,strongroom-simulator/nonce-ledger,strongroom-simulator/testing")
cargo test "${tests[@]}" --no-run
# A test that hangs is named by cargo and ended, long before whoever waits for all of them gives up. Tests send signals: those that this
# shell may have to ignore are as usual for them.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=env --default-signal timeout --foreground --verbose --kill-after=10 1200"

# As most wait, more of them run at a time than there are processors.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 2))}"

second_lane() {
    cargo clippy --workspace --all-targets --locked -- -D warnings
    # What it shares with the workspace has the same features, so that it is not looked at again.
    cargo clippy -p strongroom-simulator --all-targets --features testing,strongroom/fail-self-test --locked -- -D warnings
    local code=0
    cargo test "${with_ledger[@]}" --no-fail-fast || code=1
    tools/bindings_python.sh test || code=1
    tools/bindings_java.sh test || code=1
    return "$code"
}
log=$(mktemp)
# A lane is a group of processes, so that an interruption ends all of it.
set -m
(set -e; second_lane) >"$log" 2>&1 </dev/null &
second=$!
set +m
trap 'kill -- -"$second" 2>/dev/null || true; rm -f "$log"' EXIT
# With PostgreSQL and an S3 server for the tests of several instances of the server. Where PostgreSQL is missing, it says that they are skipped.
first_code=0
tools/server_test.py with cargo test "${tests[@]}" --no-fail-fast || first_code=$?
second_code=0
wait "$second" || second_code=$?
cat "$log"
if [ "$first_code" != 0 ] || [ "$second_code" != 0 ]; then
    echo "tests failed: those of the workspace ended with $first_code, those above (clippy, ledger, Python, Java) with $second_code" >&2
    exit 1
fi
