//! How many requests an operation costs: the floors of the design, per option set.
//!
//! What the kernel asks once per connection (OPEN, OPENDIR, CREATE and FLUSH, each answered ENOSYS) is
//! asked in `warm` before anything is counted. FORGET comes when the kernel likes, and is left out.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::Write;

use strongroom_mount::{MountOptions, Opcode};
use support::Drive;

type Cost = Vec<(&'static str, u64)>;

/// Neither extended attributes nor permission checks.
fn least() -> MountOptions {
    MountOptions {
        no_xattr: true,
        default_permissions: false,
        ..MountOptions::default()
    }
}

fn warm(options: &MountOptions) -> Drive {
    let drive = Drive::with(options);
    fs::write(drive.at("warm"), b"warm").unwrap();
    fs::read(drive.at("warm")).unwrap();
    fs::read_dir(drive.at("")).unwrap().count();
    fs::remove_file(drive.at("warm")).unwrap();
    drive
}

fn cost(drive: &Drive, operation: impl FnOnce()) -> Cost {
    let before = drive.mounted.requests();
    operation();
    let all = drive.mounted.requests().since(&before);
    let forget = Opcode::Forget.name();
    all.iter().filter(|(name, _)| *name != forget).collect()
}

/// Makes the kernel forget names and content, as after a mount.
fn cold(drive: Drive, options: &MountOptions) -> Drive {
    let Drive {
        mounted,
        filesystem,
        vault,
        folder,
    } = drive;
    mounted.unmount().unwrap();
    drop(mounted);
    let mounted =
        strongroom_mount::Mounted::start(filesystem.clone(), &folder.path().join("mnt"), options)
            .unwrap();
    let drive = Drive {
        mounted,
        filesystem,
        vault,
        folder,
    };
    fs::write(drive.at("warm"), b"warm").unwrap();
    fs::remove_file(drive.at("warm")).unwrap();
    drive
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
fn a_new_small_file_costs_three() {
    let drive = warm(&least());
    let new = cost(&drive, || fs::write(drive.at("file"), b"content").unwrap());
    assert_eq!(new, [("LOOKUP", 1), ("MKNOD", 1), ("WRITE", 1)]);
}

#[test]
fn a_file_that_is_read_first_costs_two_and_then_nothing() {
    let drive = warm(&least());
    fs::write(drive.at("file"), b"content").unwrap();
    let drive = cold(drive, &least());
    let read = || {
        // `fs::read` asks for the size; open, read and close do not.
        let mut content = [0; 64];
        let file = File::open(drive.at("file")).unwrap();
        assert_eq!(std::io::Read::read(&mut &file, &mut content).unwrap(), 7);
    };
    assert_eq!(cost(&drive, read), [("LOOKUP", 1), ("READ", 1)]);
    assert_eq!(cost(&drive, read), []);
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
fn removing_a_file_costs_one() {
    let drive = warm(&least());
    fs::write(drive.at("file"), b"content").unwrap();
    assert_eq!(
        cost(&drive, || fs::remove_file(drive.at("file")).unwrap()),
        [("UNLINK", 1)]
    );
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
fn a_copy_inside_the_drive_moves_no_content() {
    let drive = warm(&least());
    fs::write(drive.at("source"), vec![7; 300_000]).unwrap();
    let copy = |name: &str| {
        let source = File::open(drive.at("source")).unwrap();
        let target = File::create(drive.at(name)).unwrap();
        assert_eq!(
            rustix::fs::copy_file_range(&source, None, &target, None, 300_000),
            Ok(300_000)
        );
    };
    // The first time the kernel may try a newer request, which the protocol library answers itself.
    copy("first");
    assert_eq!(
        cost(&drive, || copy("second")),
        [("LOOKUP", 1), ("MKNOD", 1), ("COPY_FILE_RANGE", 1)]
    );
    assert_eq!(fs::read(drive.at("second")).unwrap(), vec![7; 300_000]);
}

#[test]
fn a_listing_with_attributes_costs_one_per_page_and_then_nothing() {
    let drive = warm(&least());
    for index in 0..1000 {
        File::create(drive.at(&format!("file-{index:04}"))).unwrap();
    }
    let drive = cold(drive, &least());
    // As `ls -l` does: a look at each entry as it comes. Who first lists everything is answered with
    // plain pages after the first one, and pays a LOOKUP for each of their entries.
    let list = || {
        let entries = fs::read_dir(drive.at("")).unwrap();
        let looked_at: Vec<_> = entries
            .map(|entry| entry.unwrap().metadata().unwrap())
            .collect();
        assert_eq!(looked_at.len(), 1000);
    };
    let first = drive.mounted.requests();
    list();
    let first = drive.mounted.requests().since(&first);
    let pages = first.of(Opcode::Readdirplus) + first.of(Opcode::Readdir);
    // A page of 32 KiB holds about 195 entries with attributes; older kernels ask for 4 KiB.
    assert!(
        pages <= 1000 / 195 + 3 || pages >= 1000 / 24,
        "{pages} pages"
    );
    assert!(first.of(Opcode::Readdirplus) >= 1);
    // One of the directory itself, none of what is in it.
    assert!(first.of(Opcode::Getattr) <= 1);
    assert_eq!(first.of(Opcode::Lookup), 0);
    assert_eq!(
        cost(&drive, list)
            .iter()
            .filter(|(name, _)| name.starts_with("READDIR"))
            .count(),
        0
    );
}

/// A tree of 4 directories with 50 files each.
fn tree(drive: &Drive) {
    for directory in 0..4 {
        fs::create_dir_all(drive.at(&format!("tree/{directory}"))).unwrap();
        for file in 0..50 {
            fs::write(drive.at(&format!("tree/{directory}/{file}")), b"content").unwrap();
        }
    }
}

/// How many requests of one kind `costs` has.
fn of(costs: &Cost, opcode: Opcode) -> u64 {
    let found = costs.iter().find(|(name, _)| *name == opcode.name());
    found.map_or(0, |(_, count)| *count)
}

/// Lists all below `folder` and looks at each entry, as `ls -lR` does.
fn walk(folder: &std::path::Path) -> usize {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let counts = entries.map(|path| {
        let found = fs::symlink_metadata(&path).unwrap();
        1 + if found.is_dir() { walk(&path) } else { 0 }
    });
    counts.sum()
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
fn removing_a_tree_costs_one_request_per_name_and_its_listings() {
    let drive = warm(&least());
    tree(&drive);
    let drive = cold(drive, &least());
    let costs = cost(&drive, || {
        let status = std::process::Command::new("rm")
            .arg("-r")
            .arg(drive.at("tree"))
            .status();
        assert!(status.unwrap().success());
    });
    assert_eq!(
        (of(&costs, Opcode::Unlink), of(&costs, Opcode::Rmdir)),
        (200, 5)
    );
    let others: u64 = costs.iter().map(|(_, count)| count).sum::<u64>() - 205;
    assert!(
        others <= 25,
        "five directories, a few requests each: {costs:?}"
    );
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

#[test]
fn with_the_default_options_a_new_file_costs_two_questions_more() {
    let drive = warm(&MountOptions::default());
    fs::write(drive.at("first"), b"content").unwrap();
    let new = cost(&drive, || fs::write(drive.at("file"), b"content").unwrap());
    for opcode in [
        Opcode::Lookup,
        Opcode::Mknod,
        Opcode::Write,
        Opcode::Getxattr,
    ] {
        assert_eq!(of(&new, opcode), 1, "{new:?}");
    }
    let sum = new.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(sum, 4 + of(&new, Opcode::Getattr), "{new:?}");
    assert!(of(&new, Opcode::Getattr) <= 1, "{new:?}");
}

#[test]
fn permission_checks_cost_one_look_at_the_directory_per_change_of_it() {
    let options = MountOptions {
        default_permissions: true,
        ..least()
    };
    let drive = warm(&options);
    let new = cost(&drive, || fs::write(drive.at("file"), b"content").unwrap());
    let getattr = new
        .iter()
        .find(|(name, _)| *name == "GETATTR")
        .map_or(0, |(_, count)| *count);
    assert!(getattr <= 1, "{new:?}");
    let rest: Cost = new
        .into_iter()
        .filter(|(name, _)| *name != "GETATTR")
        .collect();
    assert_eq!(rest, [("LOOKUP", 1), ("MKNOD", 1), ("WRITE", 1)]);
}

#[test]
fn extended_attributes_cost_one_question_per_new_file() {
    let options = MountOptions {
        no_xattr: false,
        ..least()
    };
    let drive = warm(&options);
    let new = cost(&drive, || fs::write(drive.at("file"), b"content").unwrap());
    assert_eq!(
        new,
        [("LOOKUP", 1), ("MKNOD", 1), ("WRITE", 1), ("GETXATTR", 1)]
    );
    let file = File::options().append(true).open(drive.at("file")).unwrap();
    let more = cost(&drive, || (&file).write_all(b"more").unwrap());
    assert!(more.contains(&("WRITE", 1)));
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
