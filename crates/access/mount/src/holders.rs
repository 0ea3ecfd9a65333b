//! Finds the processes that keep a mount in use, as far as the caller may inspect them.
//!
//! Takes   a line of the kernel's table of mounts
//! Gives   names and numbers of the first few processes
//! Never   accesses the mounted files; never waits long for the kernel, which can block access to a process that hangs
//!         in the mount; never treats the list of processes as complete

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::in_use::{Holder, InUse};
use crate::limits::{HOLDERS_MAX, LOOK_AT_HOLDERS};
use crate::mountinfo::{self, MountEntry};

/// Where the kernel lists all processes.
const PROCESSES: &str = "/proc";

/// The processes that have a file of the mount open or mapped, or work in it, in the same world of mounts as this process.
fn of(entry: &MountEntry) -> Vec<Holder> {
    let (own_world, entry) = (world("self"), entry.clone());
    collect(move |pid| {
        world(pid) == own_world
            && (stands_in(pid, &entry.mount_point) || has_open(pid, &entry) || maps(pid, &entry))
    })
}

/// Who sees the file system of `device` in another world of mounts: one process of each.
pub(crate) fn elsewhere(device: &str) -> Vec<Holder> {
    let mut worlds: BTreeSet<_> = world("self").into_iter().collect();
    let device = device.to_owned();
    collect(move |pid| {
        let Some(world) = world(pid).filter(|world| !worlds.contains(world)) else {
            return false;
        };
        let Ok(table) = std::fs::read(format!("{PROCESSES}/{pid}/mountinfo")) else {
            return false;
        };
        worlds.insert(world);
        mountinfo::entries(&table).any(|entry| entry.device == device)
    })
}

/// The first processes for which `is_one` holds, in the order of their numbers; those that were found until the time is up.
fn collect(mut is_one: impl FnMut(&str) -> bool + Send + 'static) -> Vec<Holder> {
    let (sender, found) = crossbeam_channel::bounded(HOLDERS_MAX);
    let look = move || {
        for pid in processes() {
            // Nobody listens any more once the time is up.
            if is_one(&pid.to_string()) && sender.send(pid).is_err() {
                return;
            }
        }
    };
    let named = std::thread::Builder::new().name("strongroom-look".to_owned());
    if named.spawn(look).is_err() {
        return Vec::new();
    }
    let deadline = Instant::now() + LOOK_AT_HOLDERS;
    let found = std::iter::from_fn(|| found.recv_deadline(deadline).ok());
    found
        .take(HOLDERS_MAX)
        .map(|pid| Holder {
            pid,
            name: name(pid),
        })
        .collect()
}

fn processes() -> BTreeSet<u32> {
    let Ok(entries) = std::fs::read_dir(PROCESSES) else {
        return BTreeSet::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.collect()
}

fn name(pid: u32) -> String {
    let name = std::fs::read(format!("{PROCESSES}/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    if name.is_empty() {
        "?".to_owned()
    } else {
        name
    }
}

/// What names the world of mounts that a process lives in.
fn world(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("{PROCESSES}/{pid}/ns/mnt")).ok()
}

fn stands_in(pid: &str, mount_point: &Path) -> bool {
    ["cwd", "root"].iter().any(|link| {
        let place = std::fs::read_link(format!("{PROCESSES}/{pid}/{link}"));
        place.is_ok_and(|place| place.starts_with(mount_point))
    })
}

/// Whether one of its open files lies in the mount: each says so itself, and nobody has to look at the file.
fn has_open(pid: &str, entry: &MountEntry) -> bool {
    let line = format!("mnt_id:\t{}", entry.id);
    let Ok(files) = std::fs::read_dir(format!("{PROCESSES}/{pid}/fdinfo")) else {
        return false;
    };
    files.flatten().any(|file| {
        let text = std::fs::read_to_string(file.path());
        text.is_ok_and(|text| text.lines().any(|read| read == line))
    })
}

/// Whether a file of the mount is mapped into its memory; programs that it runs are.
fn maps(pid: &str, entry: &MountEntry) -> bool {
    let Some(device) = hexadecimal(&entry.device) else {
        return false;
    };
    let Ok(table) = std::fs::read(format!("{PROCESSES}/{pid}/maps")) else {
        return false;
    };
    // Address, rights, offset, device.
    table
        .split(|byte| *byte == b'\n')
        .any(|line| line.split(|byte| *byte == b' ').nth(3) == Some(device.as_bytes()))
}

/// `0:52` as tables of mappings have it: `00:34`.
fn hexadecimal(device: &str) -> Option<String> {
    let (major, minor) = device.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok();
    Some(format!("{:02x}:{:02x}", number(major)?, number(minor)?))
}

/// Looks who uses the mount, and what is mounted inside of it.
pub(crate) fn in_use(entry: &MountEntry) -> InUse {
    let all = mountinfo::mounts().unwrap_or_default();
    let inside = all.into_iter().filter(|one| one.parent == entry.id);
    InUse {
        path: entry.mount_point.clone(),
        by: of(entry),
        mounts: inside
            .map(|one| one.mount_point)
            .take(HOLDERS_MAX)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_as_tables_of_mappings_have_them() {
        assert_eq!(hexadecimal("0:52").as_deref(), Some("00:34"));
        assert_eq!(hexadecimal("254:1").as_deref(), Some("fe:01"));
        assert_eq!(hexadecimal("0"), None);
    }

    #[test]
    fn this_process_is_seen_where_it_stands() {
        let here = std::env::current_dir().unwrap();
        assert!(stands_in("self", &here));
        assert!(!stands_in("self", Path::new("/no/such/place")));
        assert_eq!(world("self"), world(&std::process::id().to_string()));
    }
}
