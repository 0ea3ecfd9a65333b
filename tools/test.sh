#!/usr/bin/env bash
# All tests. Mount tests need /dev/fuse; without it they say so and fail, because a skipped proof is none.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all -- --check
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo build --locked -p strongroom-cli
cargo test --workspace --locked --exclude strongroom-conformance --exclude strongroom-simulator
# Model and crash tests note every key and nonce, crypto's own tests among them. In a run of their own: one build of all crates would put
# the ledger into the product.
cargo test --locked -p strongroom-crypto -p strongroom-conformance -p strongroom-simulator \
    --features strongroom-crypto/nonce-ledger,strongroom-simulator/nonce-ledger
