#!/usr/bin/env bash
# The Rust library. long: packs each crate that a user of it depends on, and builds it out of its package, as `cargo publish` does before it
# sends anything. Nothing is sent. Which crates those are says `publish` in their Cargo.toml.
#   REGISTRY   the name of a registry in cargo's settings, if crates.io is replaced there by another one
set -euo pipefail
what="${1:?long}"
cd "$(dirname "$0")/.."

if [ "$what" != long ]; then
    echo "bindings: $what is nothing that can be done with Rust: long" >&2
    exit 1
fi
registry=()
if [ -n "${REGISTRY:-}" ]; then registry=(--registry "$REGISTRY"); fi
cargo publish --dry-run --workspace --locked --allow-dirty "${registry[@]}"
echo "bindings: the crates that a user of the Rust library depends on are ready for cargo publish"
