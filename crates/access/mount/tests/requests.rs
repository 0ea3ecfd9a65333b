//! The number of requests that each operation costs. `floors.rs` has the minimum for every combination of options.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::Write;

use strongroom_mount::{MountOptions, Opcode};
use support::requests::{cold, cost, of, tree, walk, warm};

/// Neither extended attributes nor permission checks.
fn least() -> MountOptions {
    MountOptions {
        no_xattr: true,
        default_permissions: false,
        ..MountOptions::default()
    }
}

#[test]
fn what_is_never_wanted_is_asked_once() {
    let drive = warm(&least());
    for index in 0..10 {
        fs::write(drive.at(&format!("file-{index}")), b"x").unwrap();
        fs::read(drive.at(&format!("file-{index}"))).unwrap();
        fs::read_dir(drive.at("")).unwrap().count();
    }
    let counts = drive.mounted.requests();
    for opcode in [Opcode::Open, Opcode::Opendir, Opcode::Create] {
        assert!(counts.of(opcode) <= 1, "{}", opcode.name());
    }
    // FLUSH is not sent for a file that was opened without a request.
    for opcode in [Opcode::Flush, Opcode::Release, Opcode::Releasedir] {
        assert!(counts.of(opcode) <= 1, "{}", opcode.name());
    }
    for opcode in [Opcode::Getxattr, Opcode::Access] {
        assert!(counts.of(opcode) <= 1, "{}", opcode.name());
    }
}

#[test]
fn a_file_that_is_not_there_is_asked_for_once() {
    let drive = warm(&least());
    assert_eq!(
        cost(&drive, || assert!(!drive.at("none").exists())),
        [("LOOKUP", 1)]
    );
    assert_eq!(cost(&drive, || assert!(!drive.at("none").exists())), []);
}

#[test]
fn attributes_are_asked_for_once() {
    let drive = warm(&least());
    fs::write(drive.at("file"), b"content").unwrap();
    let stat = || assert_eq!(fs::metadata(drive.at("file")).unwrap().len(), 7);
    assert_eq!(cost(&drive, stat), [("GETATTR", 1)]);
    assert_eq!(cost(&drive, stat), []);
}

#[test]
fn a_walk_costs_its_listings_and_then_nothing() {
    let drive = warm(&least());
    tree(&drive);
    let drive = cold(drive, &least());
    let costs = cost(&drive, || assert_eq!(walk(&drive.at("tree")), 204));
    // Five directories of a page or two each; the top has a name to be looked up.
    let listings = of(&costs, Opcode::Readdirplus) + of(&costs, Opcode::Readdir);
    assert!((5..=15).contains(&listings), "{costs:?}");
    assert_eq!(of(&costs, Opcode::Lookup), 1, "{costs:?}");
    let others: u64 = costs.iter().map(|(_, count)| count).sum::<u64>() - listings - 1;
    assert!(others <= 5, "a look at each directory at most: {costs:?}");
    // Reading a directory makes the kernel ask for its times once more.
    let walked = || assert_eq!(walk(&drive.at("tree")), 204);
    let again = cost(&drive, walked);
    let sum: u64 = again.iter().map(|(_, count)| count).sum();
    assert!(sum <= 5 && sum == of(&again, Opcode::Getattr), "{again:?}");
    assert_eq!(cost(&drive, walked), []);
}

#[test]
fn an_append_and_its_fsync_cost_two() {
    let drive = warm(&least());
    let file = File::create(drive.at("file")).unwrap();
    file.sync_all().unwrap();
    let append = || {
        (&file).write_all(&[7; 4096]).unwrap();
        file.sync_all().unwrap();
    };
    append();
    assert_eq!(cost(&drive, append), [("WRITE", 1), ("FSYNC", 1)]);
}

#[test]
fn a_large_file_is_written_with_a_request_per_mebibyte() {
    let drive = warm(&least());
    let costs = cost(&drive, || {
        fs::write(drive.at("file"), vec![7; 16 << 20]).unwrap()
    });
    assert_eq!(costs, [("LOOKUP", 1), ("MKNOD", 1), ("WRITE", 16)]);
}

#[test]
fn a_large_file_is_read_once_and_then_from_memory() {
    let drive = warm(&least());
    fs::write(drive.at("file"), vec![7; 16 << 20]).unwrap();
    let drive = cold(drive, &least());
    let read = || assert_eq!(fs::read(drive.at("file")).unwrap().len(), 16 << 20);
    let costs = cost(&drive, read);
    // A request per mebibyte at best; 128 KiB each where nobody may raise the kernel's read-ahead.
    let reads = of(&costs, Opcode::Read);
    assert!((16..=16 * 8 + 8).contains(&reads), "{costs:?}");
    assert_eq!(of(&cost(&drive, read), Opcode::Read), 0);
}

#[test]
fn a_new_name_costs_one_and_its_look() {
    let drive = warm(&least());
    fs::write(drive.at("file"), b"content").unwrap();
    let rename = || fs::rename(drive.at("file"), drive.at("other")).unwrap();
    let costs = cost(&drive, rename);
    assert_eq!(
        costs.iter().map(|(_, count)| count).sum::<u64>(),
        2,
        "{costs:?}"
    );
    assert_eq!(of(&costs, Opcode::Lookup), 1, "{costs:?}");
    let directory = || fs::create_dir(drive.at("directory")).unwrap();
    assert_eq!(cost(&drive, directory), [("LOOKUP", 1), ("MKDIR", 1)]);
}

fn gathering() -> MountOptions {
    MountOptions {
        writeback: true,
        ..least()
    }
}

/// 2 MiB in pieces of 256 bytes are 8,192 calls, and as many requests without `writeback`.
#[test]
fn with_writeback_small_writes_are_gathered() {
    let drive = warm(&gathering());
    let content: Vec<u8> = (0..2 << 20_u32).map(|at| (at >> 8) as u8).collect();
    let costs = cost(&drive, || {
        let mut file = File::create(drive.at("file")).unwrap();
        for piece in content.chunks(256) {
            file.write_all(piece).unwrap();
        }
        file.sync_all().unwrap();
    });
    let writes = costs.iter().find(|(name, _)| *name == "WRITE").unwrap().1;
    assert!(writes <= 16, "{costs:?}");
    assert!(drive.vault.read("/file").unwrap() == content);
}
