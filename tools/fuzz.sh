#!/usr/bin/env bash
# Hostile bytes for every decoder. `make test` runs the same with fewer mutants. Another FUZZ_SEED gives other mutants.
# It is built with the test profile, in which arithmetic overflow panics.
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZ_EXECUTIONS="${FUZZ_EXECUTIONS:-2000000}"
echo "seed ${FUZZ_SEED:-0}, $FUZZ_EXECUTIONS executions of each cheap decoder"
cargo test --locked -q -p strongroom-conformance --test hostile -- --nocapture no_decoder
