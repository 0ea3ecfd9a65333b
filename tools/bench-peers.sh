#!/usr/bin/env bash
# Installs the file systems that `make bench` compares with: from Debian, and the newest gocryptfs from source if Go is
# installed. One that cannot be installed is named, which is no error: the bench reports it and leaves it out.
set -uo pipefail
cd "$(dirname "$0")/.."
gocryptfs_version=${GOCRYPTFS_VERSION:-v2.6.1}

[ "$(id -u)" = 0 ] || { echo "Run it as root: it installs packages." >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null || echo "no package lists: what is installed already is used" >&2
# e2fsprogs has e4crypt, for ext4's own encryption.
for package in gocryptfs securefs cryfs encfs rclone e2fsprogs pkg-config libssl-dev; do
    apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "no $package here" >&2
done

# A module of our own asks for the one version; `go install …@latest` would need the list of all.
if command -v go >/dev/null; then
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    module=github.com/rfjakob/gocryptfs/v2
    tags=without_openssl
    pkg-config --exists libcrypto && tags=
    mkdir -p .tools/bin
    if (cd "$place" && go mod init peers && go mod edit -require="$module@$gocryptfs_version" &&
        GOFLAGS=-mod=mod go build -tags "$tags" -ldflags "-X main.GitVersion=$gocryptfs_version" \
            -o gocryptfs "$module") >"$place/log" 2>&1; then
        mv "$place/gocryptfs" .tools/bin/gocryptfs
    else
        echo "gocryptfs $gocryptfs_version does not build here; Debian's is used:" >&2
        tail -n 3 "$place/log" >&2
    fi
fi

for program in gocryptfs securefs cryfs encfs rclone e4crypt; do
    found=$(PATH="$PWD/.tools/bin:$PATH:/usr/sbin:/sbin" command -v "$program") || found="missing"
    echo "$program: $found"
done
