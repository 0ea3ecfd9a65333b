#!/usr/bin/env bash
# Runs pjdfstest and fsx on a mount of a new vault. Needs root: the suites change users and make device nodes.
#
# FSX_OPS sets the operations of each of the three fsx runs (default 100000), FSX_LONG those of a last, longer run
# (default 1000000; 0 leaves it out).
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
tools=$here/.tools
bin=$here/target/release/strongroom
[ "$(id -u)" = 0 ] || { echo "make posix needs root: the suites change users and make device nodes. Type: sudo make posix" >&2; exit 1; }

# fsx 0.3.2 never unmaps what it maps for a read, so after some 300,000 operations the kernel refuses it another mapping. Built here with
# the missing call added.
install_fsx() {
    local build # outside the tree, whose workspace it is not of
    build=$(mktemp -d)
    mkdir -p "$build/fetch/src"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\nfsx = "=0.3.2"\n' >"$build/fetch/Cargo.toml"
    touch "$build/fetch/src/lib.rs"
    cargo fetch --quiet --manifest-path "$build/fetch/Cargo.toml"
    cp -r "$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/fsx-0.3.2 | head -n 1)" "$build/fsx"
    sed -i '/fn domapread/,/^    }/ s/^\( *\)self\.check_eofpage(.*/&\n\1munmap(p, map_size).unwrap();/' "$build/fsx/src/main.rs"
    [ "$(grep -c 'munmap(p, map_size)' "$build/fsx/src/main.rs")" = 2 ] || { echo "fsx 0.3.2 is not what tools/posix.sh expects" >&2; exit 1; }
    cargo install --quiet --locked --root "$tools" --path "$build/fsx"
    rm -rf "$build"
}

[ -x "$tools/bin/pjdfstest" ] || cargo install --quiet --locked --root "$tools" pjdfstest@0.2.2
[ -x "$tools/bin/fsx" ] || install_fsx

work=$(mktemp -d)
export XDG_STATE_HOME=$work/state
mount=$work/mnt
vault=$work/vault
cleanup() {
    "$bin" umount "$mount" >/dev/null 2>&1 || umount -l "$mount" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
# The suite acts as other users, who must be able to reach the mount.
chmod 755 "$work"
mkdir "$mount"
printf 'posix suite' >"$work/passphrase"
"$bin" init "$vault" --passphrase-file "$work/passphrase" >/dev/null
"$bin" mount -o allow-other "$vault" "$mount" --passphrase-file "$work/passphrase"

echo "== pjdfstest"
mkdir -m 0755 "$mount/pjdfstest"
# What is skipped, and why, is in the configuration.
if ! "$tools/bin/pjdfstest" -c "$here/tools/pjdfstest.toml" -p "$mount/pjdfstest" >"$work/pjdfstest.log" 2>&1; then
    grep -A 3 FAILED "$work/pjdfstest.log" >&2
    exit 1
fi
grep Summary "$work/pjdfstest.log"

echo "== fsx, three at once"
pids=()
for n in 1 2 3; do
    mkdir "$mount/fsx$n"
    "$tools/bin/fsx" -f "$here/tools/fsx.toml" -N "${FSX_OPS:-100000}" -S "$n" "$mount/fsx$n/file" >"$work/fsx$n.log" 2>&1 &
    pids+=($!)
done
failed=0
for n in 1 2 3; do
    wait "${pids[$((n - 1))]}" || { failed=1; tail -n 30 "$work/fsx$n.log"; }
done
[ $failed = 0 ] || { echo "fsx found a difference" >&2; exit 1; }
echo "three runs of ${FSX_OPS:-100000} operations: no difference"

if [ "${FSX_LONG:-1000000}" != 0 ]; then
    "$tools/bin/fsx" -f "$here/tools/fsx.toml" -N "${FSX_LONG:-1000000}" -S 4 "$mount/long" >"$work/long.log" 2>&1 ||
        { tail -n 30 "$work/long.log"; exit 1; }
    echo "one run of ${FSX_LONG:-1000000} operations: no difference"
fi
"$bin" check "$vault"
