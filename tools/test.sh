#!/usr/bin/env bash
# All tests. Mount tests need /dev/fuse; without it they say so and fail, because a skipped proof is none.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all -- --check
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo build --locked -p strongroom-cli
cargo test --workspace --locked
