#!/bin/sh
# Installs the program, its manual, completions, the helper of mount(8) and units for systemd.
#
# Usage: tools/install.sh     as `make install` calls it
#   PREFIX      where the program is installed, /usr/local by default
#   SBINDIR     where mount(8) looks for helpers: /sbin
#   DESTDIR     a prefix of all these paths, for building packages
#   STRONGROOM  the program: target/release/strongroom
set -eu

prefix=${PREFIX:-/usr/local}
sbin=${SBINDIR:-/sbin}
dest=${DESTDIR:-}
here=$(cd "$(dirname "$0")/.." && pwd)
program=${STRONGROOM:-$here/target/release/strongroom}

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

unit() {
    install -d "$dest$prefix/lib/systemd/$1"
    sed -e "s|@BIN@|$prefix/bin|" -e "s|@WANTED_BY@|$2|" \
        "$here/tools/systemd/strongroom@.service.in" >"$dest$prefix/lib/systemd/$1/strongroom@.service"
}
unit system multi-user.target
unit user default.target
