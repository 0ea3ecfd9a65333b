//! Parses the call of `mount.fuse.strongroom`: under this name `mount(8)` runs the program for a line of /etc/fstab
//! with the type `fuse.strongroom`.
//!
//! Takes   the command line that `mount(8)` gives a helper: VAULT DIR [-sfnv] [-t TYPE] [-o OPTIONS]
//! Gives   the equivalent command line of `strongroom mount`
//! Never   drops an option that would restrict the mount

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The names under which `mount(8)` calls this program.
const NAMES: [&str; 2] = ["mount.fuse.strongroom", "mount.strongroom"];

/// Options that are meant for `mount(8)` and systemd, or that change nothing here.
const FOR_OTHERS: [&str; 21] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "async",
    "exec",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "atime",
    "noatime",
    "relatime",
    "diratime",
    "nodiratime",
];

/// Options of `strongroom mount` that take a value and stand among the others here.
const WITH_VALUE: [&str; 10] = [
    "key-file",
    "passphrase-file",
    "passphrase-command",
    "identity",
    "recovery-code",
    "fingerprint",
    "allow-memory",
    "log-file",
    "limit-up",
    "limit-down",
];

/// The request of `mount(8)`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// None: this program was called by its own name.
    Nothing,
    /// To run `strongroom` with these words.
    Words(Vec<OsString>),
    /// To pretend to mount (the option `-f`).
    Pretence,
}

/// Reads the request from `words`, the name of the program first.
pub(crate) fn asked(words: impl IntoIterator<Item = OsString>) -> Asked {
    let mut words = words.into_iter();
    let called = words.next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(OsStr::to_str);
    if !name.is_some_and(|name| NAMES.contains(&name)) {
        return Asked::Nothing;
    }
    let mut asked = vec![OsString::from("strongroom"), "mount".into()];
    let (mut places, mut options) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-o") => options.push(words.next().unwrap_or_default()),
            // The type is in the name; the namespace is the one that this process is in.
            Some("-t" | "-N") => drop(words.next()),
            Some("-f") => return Asked::Pretence,
            Some("-n" | "-s") => {}
            Some(flag) if flag.starts_with('-') => asked.push(word),
            _ => places.push(word),
        }
    }
    for option in options.iter().flat_map(|all| split(all)) {
        translate(option, &mut asked);
    }
    asked.push("--".into());
    asked.extend(places);
    Asked::Words(asked)
}

fn split(options: &OsStr) -> impl Iterator<Item = &str> {
    // What is no text is no option; `strongroom mount` says so of an empty one.
    let text = options.to_str().unwrap_or(",");
    text.split(',')
}

fn translate(option: &str, asked: &mut Vec<OsString>) {
    if FOR_OTHERS.contains(&option) || option.starts_with("x-") || option.starts_with("comment=") {
        return;
    }
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    if WITH_VALUE.contains(&name) {
        asked.push(format!("--{name}={value}").into());
    } else if option == "sync-remotes" {
        asked.push("--sync".into());
    } else if option == "accept-older" {
        asked.push("--accept-older".into());
    } else {
        asked.extend(["-o".into(), option.into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Asked {
        asked(line.split(' ').map(OsString::from))
    }

    #[test]
    fn a_line_of_fstab_becomes_the_command() {
        let Asked::Words(words) = of(
            "/sbin/mount.fuse.strongroom /data/my_vault /mnt -n -v -t fuse.strongroom -o rw,noauto,x-systemd.automount,key-file=/root/k=y,sync-remotes,umask=027",
        ) else {
            panic!("it is the helper's name")
        };
        let text = words.join(OsStr::new(" ")).into_string();
        assert_eq!(
            text.as_deref(),
            Ok(
                "strongroom mount -v -o rw --key-file=/root/k=y --sync -o umask=027 -- /data/my_vault /mnt"
            )
        );
    }

    #[test]
    fn nothing_that_restricts_is_dropped_and_a_pretence_does_nothing() {
        let Asked::Words(words) = of("mount.strongroom v m -o noexec,ro") else {
            panic!("it is the helper's name")
        };
        assert!(words.contains(&"noexec".into()) && words.contains(&"ro".into()));
        assert_eq!(of("mount.strongroom -f v m"), Asked::Pretence);
        assert_eq!(of("/usr/bin/strongroom mount v m"), Asked::Nothing);
    }
}
