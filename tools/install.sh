#!/bin/sh
# Installs the program, its manual, completions, the helper of mount(8) and units for systemd; or the server, and its unit.
#
# Usage: tools/install.sh            as `make install` calls it
#        tools/install.sh server     as `make install-server` calls it
#   PREFIX             where the program is installed, /usr/local by default
#   SBINDIR            where mount(8) looks for helpers: /sbin
#   DESTDIR            a prefix of all these paths, for building packages
#   STRONGROOM         the program: target/release/strongroom
#   STRONGROOM_SERVER  the server: target/release/strongroom-server
set -eu

prefix=${PREFIX:-/usr/local}
sbin=${SBINDIR:-/sbin}
dest=${DESTDIR:-}
here=$(cd "$(dirname "$0")/.." && pwd)
program=${STRONGROOM:-$here/target/release/strongroom}

# The unit KIND, of NAME, with further expressions for sed.
unit() {
    kind=$1 name=$2
    shift 2
    install -d "$dest$prefix/lib/systemd/$kind"
    sed -e "s|@BIN@|$prefix/bin|" "$@" "$here/tools/systemd/$name.in" >"$dest$prefix/lib/systemd/$kind/$name"
}

if [ "${1:-}" = server ]; then
    server=${STRONGROOM_SERVER:-$here/target/release/strongroom-server}
    install -D -m 755 "$server" "$dest$prefix/bin/strongroom-server"
    unit system strongroom-server.service
    exit
fi

install -D -m 755 "$program" "$dest$prefix/bin/strongroom"
install -d "$dest$sbin"
ln -sf "$prefix/bin/strongroom" "$dest$sbin/mount.fuse.strongroom"

install -d "$dest$prefix/share/man/man1"
"$program" man "$dest$prefix/share/man/man1"
complete() {
    install -d "$dest$prefix/share/$2"
    "$program" completions "$1" >"$dest$prefix/share/$2/$3"
}
complete bash bash-completion/completions strongroom
complete zsh zsh/site-functions _strongroom
complete fish fish/vendor_completions.d strongroom.fish

unit system strongroom@.service -e "s|@WANTED_BY@|multi-user.target|"
unit user strongroom@.service -e "s|@WANTED_BY@|default.target|"
