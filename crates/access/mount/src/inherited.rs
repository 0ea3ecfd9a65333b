//! Closes the files that a background process inherited from its caller and does not need.
//!
//! Takes   the paths that the process was given, some of which may name such a file (`/dev/fd/N`)
//! Gives   a process that has only its standard streams and those files open
//! Never   closes a file that this process opened: it runs before the process opens any
//!
//! An inherited file that is not closed would be open for as long as the mount: a script's lock would stay locked, and the
//! reader of a pipe would never see its end. `unsafe` is needed because no Rust value owns a file that this program did
//! not open.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// Where the system lists the files of this process.
const OWN_FILES: &str = "/proc/self/fd";
/// The last of the standard streams.
const STANDARD_ERROR: RawFd = 2;

/// Closes everything but the standard streams and what `needed` names.
///
/// To be called first of all in a process that has one thread.
pub(crate) fn close(needed: &[&Path]) -> io::Result<()> {
    let needed: BTreeSet<_> = needed.iter().filter_map(|path| number_in(path)).collect();
    for number in open_numbers()? {
        if number <= STANDARD_ERROR || needed.contains(&number) || !is_open(number) {
            continue;
        }
        #[allow(unsafe_code, reason = "a number that no value of this program owns")]
        // SAFETY: nothing was opened yet, so no value in this process owns the number, and nobody else closes it.
        unsafe {
            rustix::io::close(number);
        }
    }
    Ok(())
}

/// The numbers of all open files, that of the listing too, which is closed on return.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let entries = std::fs::read_dir(OWN_FILES)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_str().and_then(|n| n.parse().ok())));
    let numbers: io::Result<Vec<Option<RawFd>>> = names.collect();
    Ok(numbers?.into_iter().flatten().collect())
}

fn is_open(number: RawFd) -> bool {
    std::fs::symlink_metadata(format!("{OWN_FILES}/{number}")).is_ok()
}

/// The open file that `path` stands for.
fn number_in(path: &Path) -> Option<RawFd> {
    let below = path
        .strip_prefix("/dev/fd")
        .or_else(|_| path.strip_prefix(OWN_FILES));
    below.ok()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_stands_for_an_open_file_is_known() {
        for (path, number) in [
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/4", Some(4)),
            ("/dev/fd", None),
            ("/dev/fd/x", None),
            ("/dev/fd/4/x", None),
            ("/home/key", None),
        ] {
            assert_eq!(number_in(Path::new(path)), number, "{path}");
        }
    }
}
