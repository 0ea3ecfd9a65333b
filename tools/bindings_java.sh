#!/usr/bin/env bash
# The Java package. test: the tests of `make test`. long: tests with Lucene, Commons IO and Commons Compress, measurements, and the jar used as
# its README says, from Java and from Kotlin. build: makes the jar with the native library in it, in target/java.
# JAVA_HOME and MVN choose the tools; BINDINGS=c,python leaves Java out.
#   BUILT    a folder with libstrongroom_java.so, for build and long; it is used instead of a Rust build
# A first run downloads Maven's plugins and the packages that pom.xml names into the user's Maven repository; the first run of long, those of its
# profile too. What follows the README, in long, has a repository that is new each time: it downloads plugins again, with the compiler of Kotlin.
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:?test, long or build}"

case ",${BINDINGS:-c,python,java}," in
*,java,*) ;;
*)
    echo "bindings: java is not in BINDINGS=$BINDINGS, and is left out"
    exit 0
    ;;
esac

mvn="${MVN:-mvn}"
if ! command -v "$mvn" >/dev/null || ! "${JAVA_HOME:+$JAVA_HOME/bin/}javac" -version >/dev/null 2>&1; then
    echo "bindings: the Java package needs a JDK of 11 or later, and Maven: apt-get install openjdk-17-jdk-headless maven," >&2
    echo "          or set JAVA_HOME and MVN, or BINDINGS=c,python to leave Java out" >&2
    exit 1
fi

folder=bindings/java
built="${BUILT:-$PWD/target/release}"
top="$PWD"

# What a program notes of vaults that it saw, and where it finds their owners, is not that of the user.
apart() {
    mkdir -p target/user/{cache,config,state}
    XDG_CACHE_HOME="$top/target/user/cache" XDG_CONFIG_HOME="$top/target/user/config" XDG_STATE_HOME="$top/target/user/state" "$@"
}

maven() { # arguments...
    apart "$mvn" --batch-mode --no-transfer-progress --quiet --file "$folder/pom.xml" "$@"
}

# The library where the jar has it; the folder is named as Native.java looks for it.
pack() {
    [ -n "${BUILT:-}" ] || cargo build --release --locked -p strongroom-java
    local to
    to="target/java/packed/io/strongroom/native/$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)"
    mkdir -p "$to"
    install -m 755 "$built/libstrongroom_java.so" "$to/libstrongroom_java.so"
}

case "$what" in
test)
    # Out of what `cargo test` of the workspace built, and with what only tests call.
    cargo build --locked -p strongroom-java --features as-in-workspace,panic-test
    maven test -Dlibrary="$top/target/debug/libstrongroom_java.so"
    ;;
build)
    pack
    maven package -DskipTests
    size=$(stat -c %s "$built/libstrongroom_java.so")
    echo "bindings: target/java/strongroom-0.1.0.jar has a library of $((size / 1024)) KiB for $(uname -s) on $(uname -m)"
    ;;
long)
    "$0" build
    maven test -Plong -Dbuilt="$top/target/java/long" -Dlibrary="$built/libstrongroom_java.so"
    # The README, by a new user: its commands, one after the other, and its blocks in one program.
    place="$(mktemp -d)"
    trap 'rm -rf "$place"' EXIT
    apart "$folder/tests_long/readme.sh" "$place"
    ;;
*)
    echo "test, long or build, not $what" >&2
    exit 1
    ;;
esac
