//! The minimum number of requests that the design allows for each operation, under each combination of two options.
//!
//! Permission checks by the kernel may add one GETATTR of a directory after each change of it. Extended attributes may
//! add one GETXATTR at the first write to a file, and two for each line of `ls -l`. No other request may be added.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;

use strongroom_mount::{MountOptions, Opcode};
use support::Drive;
use support::requests::{Cost, cold, cost, of, tree, warm};

/// Runs `test` with extended attributes off and on, each with permission checks off and on.
fn with_each_set(test: impl Fn(&MountOptions)) {
    for no_xattr in [true, false] {
        for default_permissions in [false, true] {
            test(&MountOptions {
                no_xattr,
                default_permissions,
                ..MountOptions::default()
            });
        }
    }
}

/// What the options may add to a floor.
#[derive(Clone, Copy, Default)]
struct Added {
    looks_max: u64,
    questions_max: u64,
}

/// Asserts that `costs` are the floor `exact`, and at most what `options` may add to it.
fn assert_floor(costs: &Cost, exact: &[(&str, u64)], added: Added, options: &MountOptions) {
    let is_added = |name: &str| [Opcode::Getattr.name(), Opcode::Getxattr.name()].contains(&name);
    let rest: Cost = costs
        .iter()
        .copied()
        .filter(|(name, _)| !is_added(name))
        .collect();
    assert_eq!(rest, exact, "{options:?}");
    assert_added(costs, added, options);
}

fn assert_added(costs: &Cost, added: Added, options: &MountOptions) {
    let looks_max = if options.default_permissions {
        added.looks_max
    } else {
        0
    };
    let questions_max = if options.no_xattr {
        0
    } else {
        added.questions_max
    };
    assert!(
        of(costs, Opcode::Getattr) <= looks_max,
        "{costs:?} {options:?}"
    );
    assert!(
        of(costs, Opcode::Getxattr) <= questions_max,
        "{costs:?} {options:?}"
    );
}

fn run(program: &str, drive: &Drive, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(drive.at(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

#[test]
fn a_new_small_file_costs_three() {
    with_each_set(|options| {
        let drive = warm(options);
        let new = cost(&drive, || fs::write(drive.at("file"), b"content").unwrap());
        let added = Added {
            looks_max: 1,
            questions_max: 1,
        };
        let floor = [("LOOKUP", 1), ("MKNOD", 1), ("WRITE", 1)];
        assert_floor(&new, &floor, added, options);
    });
}

#[test]
fn a_cold_file_costs_two_and_a_warm_one_nothing() {
    with_each_set(|options| {
        let drive = warm(options);
        fs::write(drive.at("file"), b"content").unwrap();
        let drive = cold(drive, options);
        let read = || {
            let mut content = [0; 64];
            let mut file = File::open(drive.at("file")).unwrap();
            assert_eq!(file.read(&mut content).unwrap(), 7);
        };
        // The look is at the root directory, which has just been changed.
        let added = Added {
            looks_max: 1,
            questions_max: 0,
        };
        let floor = [("LOOKUP", 1), ("READ", 1)];
        assert_floor(&cost(&drive, read), &floor, added, options);
        assert_eq!(cost(&drive, read), [], "{options:?}");
    });
}

#[test]
fn removing_a_file_costs_one() {
    with_each_set(|options| {
        let drive = warm(options);
        fs::write(drive.at("file"), b"content").unwrap();
        let removed = cost(&drive, || fs::remove_file(drive.at("file")).unwrap());
        let added = Added {
            looks_max: 1,
            questions_max: 0,
        };
        assert_floor(&removed, &[("UNLINK", 1)], added, options);
    });
}

#[test]
fn a_further_write_costs_one() {
    with_each_set(|options| {
        let drive = warm(options);
        let mut file = File::create(drive.at("file")).unwrap();
        file.write_all(b"content").unwrap();
        let more = cost(&drive, || file.write_all(b"more").unwrap());
        // A write makes the kernel forget whether the file has capabilities to drop.
        let added = Added {
            looks_max: 0,
            questions_max: 1,
        };
        assert_floor(&more, &[("WRITE", 1)], added, options);
    });
}

#[test]
fn a_copy_costs_three() {
    with_each_set(|options| {
        let drive = warm(options);
        fs::write(drive.at("source"), vec![7; 300_000]).unwrap();
        let copy = |name: &str| {
            let source = File::open(drive.at("source")).unwrap();
            let target = File::create(drive.at(name)).unwrap();
            let copied = rustix::fs::copy_file_range(&source, None, &target, None, 300_000);
            assert_eq!(copied, Ok(300_000));
        };
        // The first time the kernel may try a newer request, which the protocol library answers itself.
        copy("first");
        let added = Added {
            looks_max: 1,
            questions_max: 1,
        };
        let copied = cost(&drive, || copy("second"));
        let floor = [("LOOKUP", 1), ("MKNOD", 1), ("COPY_FILE_RANGE", 1)];
        assert_floor(&copied, &floor, added, options);
        assert_eq!(fs::read(drive.at("second")).unwrap(), vec![7; 300_000]);
        // `cp` looks whether the target is there, and then wants it not to be (O_EXCL): the kernel asks again.
        // The copy above made the kernel forget when the source was last read.
        fs::metadata(drive.at("source")).unwrap();
        let copied = cost(&drive, || run("cp", &drive, &["source", "third"]));
        let floor = [("LOOKUP", 2), ("MKNOD", 1), ("COPY_FILE_RANGE", 1)];
        assert_floor(&copied, &floor, added, options);
    });
}

#[test]
fn a_copy_of_a_tree_costs_three_per_file_and_moves_no_content() {
    with_each_set(|options| {
        let drive = warm(options);
        tree(&drive);
        let drive = cold(drive, options);
        let copied = cost(&drive, || run("cp", &drive, &["-r", "tree", "copy"]));
        let (files, directories) = (200, 5);
        assert_eq!(of(&copied, Opcode::Mknod), files, "{copied:?}");
        assert_eq!(of(&copied, Opcode::CopyFileRange), files, "{copied:?}");
        assert_eq!(of(&copied, Opcode::Mkdir), directories, "{copied:?}");
        // One for each new name, and for the tree; its files are known by their listing. One more as above.
        assert_eq!(
            of(&copied, Opcode::Lookup),
            files + directories + 2,
            "{copied:?}"
        );
        for opcode in [Opcode::Read, Opcode::Write] {
            assert_eq!(of(&copied, opcode), 0, "{copied:?}");
        }
        assert!(listings(&copied) <= 3 * directories, "{copied:?}");
    });
}

/// Pages of a listing.
fn listings(costs: &Cost) -> u64 {
    of(costs, Opcode::Readdirplus) + of(costs, Opcode::Readdir)
}

/// The most pages a listing of `count` entries with names of nine bytes may take: 32 KiB hold 195 of them, and 4 KiB,
/// which is what kernels before 6.16 ask for, 24. Two more: one that is not full, and the empty one that ends it.
fn pages_max(count: u64) -> u64 {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    count / if version >= (6, 16) { 195 } else { 24 } + 2
}

#[test]
fn a_listing_costs_one_per_page_and_no_look_at_its_entries() {
    with_each_set(|options| {
        let drive = warm(options);
        for index in 0..1000 {
            File::create(drive.at(&format!("file-{index:04}"))).unwrap();
        }
        let drive = cold(drive, options);
        let list = || {
            let entries = fs::read_dir(drive.at("")).unwrap();
            let looked_at = entries.map(|entry| entry.unwrap().metadata().unwrap());
            assert_eq!(looked_at.count(), 1000);
        };
        let first = cost(&drive, list);
        assert!(listings(&first) <= pages_max(1000), "{first:?}");
        // One of the directory itself, none of what is in it.
        assert!(of(&first, Opcode::Getattr) <= 1, "{first:?}");
        let sum: u64 = first.iter().map(|(_, count)| count).sum();
        let expected = listings(&first) + of(&first, Opcode::Getattr);
        assert_eq!(sum, expected, "{first:?} {options:?}");
        assert_eq!(listings(&cost(&drive, list)), 0, "{options:?}");
    });
}

#[test]
fn ls_of_a_tree_costs_its_pages_and_two_questions_per_line() {
    with_each_set(|options| {
        let drive = warm(options);
        tree(&drive);
        let drive = cold(drive, options);
        let listed = cost(&drive, || run("ls", &drive, &["-lR", "tree"]));
        let (entries, directories) = (205, 5);
        assert!(listings(&listed) <= 3 * directories, "{listed:?}");
        assert_eq!(of(&listed, Opcode::Lookup), 1, "the tree: {listed:?}");
        assert!(
            of(&listed, Opcode::Getattr) <= directories + 1,
            "{listed:?}"
        );
        let questions = of(&listed, Opcode::Getxattr) + of(&listed, Opcode::Listxattr);
        // A directory may have a default ACL, which is a third one.
        let questions_max = 2 * entries + directories;
        assert!(
            questions <= if options.no_xattr { 0 } else { questions_max },
            "{listed:?} {options:?}"
        );
        let sum: u64 = listed.iter().map(|(_, count)| count).sum();
        let expected = listings(&listed) + 1 + of(&listed, Opcode::Getattr) + questions;
        assert_eq!(sum, expected, "{listed:?} {options:?}");
    });
}

#[test]
fn removing_a_tree_costs_one_per_name_and_its_pages() {
    with_each_set(|options| {
        let drive = warm(options);
        tree(&drive);
        let drive = cold(drive, options);
        let removed = cost(&drive, || run("rm", &drive, &["-r", "tree"]));
        let (files, directories) = (200, 5);
        assert_eq!(of(&removed, Opcode::Unlink), files, "{removed:?}");
        assert_eq!(of(&removed, Opcode::Rmdir), directories, "{removed:?}");
        assert_eq!(of(&removed, Opcode::Lookup), 1, "the tree: {removed:?}");
        assert!(listings(&removed) <= 3 * directories, "{removed:?}");
        let looks_max = if options.default_permissions {
            files
        } else {
            0
        } + 2 * directories;
        assert!(of(&removed, Opcode::Getattr) <= looks_max, "{removed:?}");
        // `rm` asks once what kind of file system this is.
        assert!(of(&removed, Opcode::Statfs) <= 1, "{removed:?}");
        let sum: u64 = removed.iter().map(|(_, count)| count).sum();
        let names = files + directories + 1;
        let others = of(&removed, Opcode::Getattr) + of(&removed, Opcode::Statfs);
        let expected = names + listings(&removed) + others;
        assert_eq!(sum, expected, "{removed:?} {options:?}");
    });
}
