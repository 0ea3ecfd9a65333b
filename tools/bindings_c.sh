#!/usr/bin/env bash
# The C library. install: builds it and installs it into PREFIX, with headers, a file for pkg-config, and both kinds of library. long: runs
# the tests that are too heavy for `make test`. The others are tests of the workspace.
#   PREFIX   where it is installed, /usr/local by default
#   DESTDIR  a prefix of that path, for building packages
#   BUILT    a folder with libstrongroom_c.so and .a, which are used instead of a build
# BINDINGS=python leaves C out.
set -euo pipefail
what="${1:?install or long}"
here=$(cd "$(dirname "$0")/.." && pwd)

case ",${BINDINGS:-c,python,java}," in
*,c,*) ;;
*)
    echo "bindings: c is not in BINDINGS=$BINDINGS, and is left out"
    exit 0
    ;;
esac
if ! command -v "${CC:-cc}" >/dev/null; then
    echo "bindings: the C library needs a C compiler: apt-get install gcc, or set CC; or set BINDINGS=python to leave C out" >&2
    exit 1
fi

prefix=${PREFIX:-/usr/local}
built=${BUILT:-}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -1)
major=0 # the number in the soname, bindings/c/build.rs

build() {
    if [ -z "$built" ]; then
        (cd "$here" && cargo build --release --locked -p strongroom-c)
        built="$here/target/release"
    fi
}

install_to() { # folder that stands for /
    local to="$1$prefix"
    install -d "$to/lib/pkgconfig" "$to/include/strongroom"
    install -m 755 "$built/libstrongroom_c.so" "$to/lib/libstrongroom.so.$version"
    ln -sf "libstrongroom.so.$version" "$to/lib/libstrongroom.so.$major"
    ln -sf "libstrongroom.so.$major" "$to/lib/libstrongroom.so"
    install -m 644 "$built/libstrongroom_c.a" "$to/lib/libstrongroom.a"
    install -m 644 "$here/bindings/c/include/strongroom.h" "$to/include/strongroom.h"
    install -m 644 "$here/bindings/c/include/strongroom/"sqlfs{,_vault}.h "$to/include/strongroom/"
    cat >"$to/lib/pkgconfig/strongroom.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: strongroom
Description: An end-to-end encrypted file system inside a program
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lstrongroom
Libs.private: -lpthread -ldl -lm
PC
}

case "$what" in
install)
    build
    install_to "${DESTDIR:-}"
    echo "bindings: libstrongroom $version is in ${DESTDIR:-}$prefix; compile with: cc … \$(pkg-config --cflags --libs strongroom)"
    ;;
long)
    build
    # The released library, as the README says it is used.
    (cd "$here" && BUILT="$built" cargo test --locked -p strongroom-c --test readme -- --nocapture)
    (cd "$here" && cargo test --locked -p strongroom-c --test conformance --test readme -- --ignored --nocapture)
    size=$(stat -c %s "$built/libstrongroom_c.so")
    echo "bindings: libstrongroom.so has $((size / 1024)) KiB"
    [ "$size" -le $((15 * 1024 * 1024)) ] || { echo "bindings: that is more than 15 MiB" >&2; exit 1; }
    ;;
*)
    echo "bindings: $what is nothing that can be done with C: install or long" >&2
    exit 1
    ;;
esac
