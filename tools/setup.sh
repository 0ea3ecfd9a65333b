#!/usr/bin/env bash
# Installs the programs that building and testing need. If it is not permitted to, it prints the commands to type.
set -euo pipefail

missing=()
need() { # command, Debian package
    command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}
need cc gcc
need make make
need perl perl
need git git
need python3 python3
# The tests of the C library follow its README; those of the Python package have an environment of their own.
case ",${BINDINGS:-c,python,java}," in
*,c,*) need pkg-config pkg-config ;;
esac
case ",${BINDINGS:-c,python,java}," in
*,python,*) python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv) ;;
esac
case ",${BINDINGS:-c,python,java}," in
*,java,*)
    need javac default-jdk-headless
    need mvn maven
    ;;
esac
need fusermount3 fuse3
need setfattr attr
need sqlite3 sqlite3
need rsync rsync
# Both deliver mail in a test.
need curl curl
need msmtp msmtp
need restic restic
# Tests of several instances of the server. Debian puts its programs beside the path.
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb postgresql

if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing: ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq >/dev/null
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    else
        echo "These programs are missing. On Debian or Ubuntu type:" >&2
        echo "    sudo apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "Rust is missing. Install it from https://rustup.rs, then run this again." >&2
    exit 1
fi
