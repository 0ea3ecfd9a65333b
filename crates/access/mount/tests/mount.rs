//! Ordinary operations of programs on files, on a real drive.
//!
//! No test here starts a process: between fork and exec it would hold the files of all other tests open, and an unmount
//! would find the drive in use.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    XattrFlags,
};
use rustix::io::Errno;
use strongroom::filesystem::{Caller, InodeId, NewNode, NodeKind};
use strongroom_mount::{MountError, MountOptions, Mounted};
use support::Drive;

/// Bytes in which every position is told from its neighbours.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| u8::try_from((index ^ (index >> 8) ^ (index >> 16)) & 0xff).unwrap())
        .collect()
}

#[test]
fn files_keep_what_was_written_to_them() {
    let drive = Drive::new();
    let path = drive.at("file");
    let content = pattern(3 * 1024 * 1024 + 17);
    fs::write(&path, &content).unwrap();
    assert!(fs::read(&path).unwrap() == content);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.write_all_at(b"middle", 1_000_000).unwrap();
    file.sync_all().unwrap();
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 999_999).unwrap();
    assert_eq!(&bytes[1..7], b"middle");
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"end")
        .unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), content.len() as u64 + 3);
    file.set_len(10).unwrap();
    file.set_len(20).unwrap();
    let mut expected = content[..10].to_vec();
    expected.resize(20, 0);
    assert_eq!(fs::read(&path).unwrap(), expected);
    fs::write(&path, b"short").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"short");
}

#[test]
fn writes_that_had_to_wait_are_as_good_as_others() {
    let drive = Drive::new();
    let path = drive.at("file");
    let content = pattern(64 * 8192);
    let file = File::create(&path).unwrap();
    for (index, piece) in content.chunks(8192).enumerate() {
        file.write_all_at(piece, index as u64 * 8192).unwrap();
    }
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn directories_and_links_are_what_they_were_made_to_be() {
    let drive = Drive::new();
    fs::create_dir_all(drive.at("a/b/c")).unwrap();
    assert_eq!(fs::metadata(drive.at("a")).unwrap().nlink(), 3);
    fs::rename(drive.at("a/b"), drive.at("b")).unwrap();
    assert_eq!(fs::metadata(drive.at("a")).unwrap().nlink(), 2);
    assert!(drive.at("b/c").is_dir());
    std::os::unix::fs::symlink("b/c", drive.at("link")).unwrap();
    assert_eq!(
        fs::read_link(drive.at("link")).unwrap().to_str(),
        Some("b/c")
    );
    assert_eq!(fs::symlink_metadata(drive.at("link")).unwrap().len(), 3);
    let error = fs::remove_dir(drive.at("b")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    fs::remove_dir_all(drive.at("b")).unwrap();
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 2);
    let long = "x".repeat(256);
    let error = fs::write(drive.at(&long), b"").unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
    fs::write(drive.at(&long[1..]), b"").unwrap();
}

#[test]
fn two_names_of_one_file_show_one_file() {
    let drive = Drive::new();
    fs::write(drive.at("one"), b"first").unwrap();
    fs::hard_link(drive.at("one"), drive.at("two")).unwrap();
    let (one, two) = (
        fs::metadata(drive.at("one")).unwrap(),
        fs::metadata(drive.at("two")).unwrap(),
    );
    assert_eq!((one.ino(), one.nlink(), two.nlink()), (two.ino(), 2, 2));
    fs::write(drive.at("two"), b"second").unwrap();
    assert_eq!(fs::read(drive.at("one")).unwrap(), b"second");
    fs::remove_file(drive.at("one")).unwrap();
    assert_eq!(fs::metadata(drive.at("two")).unwrap().nlink(), 1);
    assert_eq!(fs::read(drive.at("two")).unwrap(), b"second");
}

#[test]
fn an_open_file_outlives_its_name() {
    let drive = Drive::new();
    let path = drive.at("file");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    fs::write(&path, b"another file of that name").unwrap();
    file.write_all(b" and after").unwrap();
    file.sync_all().unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "before and after");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
}

#[test]
fn renames_replace_refuse_or_exchange_as_told() {
    let drive = Drive::new();
    let (a, b) = (drive.at("a"), drive.at("b"));
    fs::write(&a, b"a").unwrap();
    fs::write(&b, b"b").unwrap();
    let rename = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (fs::read(&a).unwrap(), fs::read(&b).unwrap()),
        (b"b".to_vec(), b"a".to_vec())
    );
    let both = RenameFlags::WHITEOUT | RenameFlags::EXCHANGE;
    assert_eq!(rename(both), Err(Errno::INVAL));
    rename(RenameFlags::empty()).unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"b");
    assert!(!a.exists());
    fs::create_dir(drive.at("directory")).unwrap();
    fs::write(drive.at("directory/x"), b"x").unwrap();
    rustix::fs::renameat_with(CWD, &b, CWD, drive.at("directory"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(drive.at("b/x")).unwrap(), b"x");
    assert_eq!(fs::read(drive.at("directory")).unwrap(), b"b");
}

#[test]
#[allow(unsafe_code, reason = "shared memory of a file has no safe interface")]
fn memory_that_is_shared_with_a_file_reaches_the_file() {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
    const LEN: usize = 256 * 1024;
    let drive = Drive::new();
    let path = drive.at("file");
    fs::write(&path, vec![1; LEN]).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file that keeps its length while it is mapped; nobody else names the
    // memory, and it is unmapped once, after its last use.
    unsafe {
        let memory = rustix::mm::mmap(
            std::ptr::null_mut(),
            LEN,
            protection,
            MapFlags::SHARED,
            &file,
            0,
        )
        .unwrap();
        let bytes = std::slice::from_raw_parts_mut(memory.cast::<u8>(), LEN);
        assert_eq!(bytes[LEN - 1], 1);
        bytes[5000] = 7;
        bytes[LEN - 1] = 9;
        rustix::mm::msync(memory, LEN, MsyncFlags::SYNC).unwrap();
        let mut two = [0; 2];
        file.read_exact_at(&mut two, 4999).unwrap();
        assert_eq!(two, [1, 7]);
        // The last write-back may come after the file was closed and removed.
        bytes[0] = 3;
        fs::remove_file(&path).unwrap();
        drop(file);
        rustix::mm::munmap(memory, LEN).unwrap();
    }
    drive.mounted.unmount().unwrap();
}

#[test]
fn files_without_a_name_are_refused_as_not_supported() {
    // This version of the protocol library does not know FUSE_TMPFILE. Programs then make a named file.
    let drive = Drive::new();
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let made = rustix::fs::open(drive.mounted.path(), flags, Mode::RUSR | Mode::WUSR);
    assert_eq!(made.map(|_| ()), Err(Errno::OPNOTSUPP));
}

#[test]
fn a_directory_that_shrinks_while_it_is_read_names_each_entry_once() {
    let drive = Drive::new();
    let names: BTreeSet<String> = (0..2000).map(|index| format!("entry-{index:05}")).collect();
    for name in &names {
        File::create(drive.at(name)).unwrap();
    }
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(drive.at("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        fs::remove_file(drive.at(&name)).unwrap();
        assert!(seen.insert(name));
    }
    assert_eq!(seen, names);
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 0);
    // The drive lists what came after, too: nothing stale was kept.
    fs::write(drive.at("new"), b"").unwrap();
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 1);
}

/// Failed before: a renamed entry went to the end of its directory, where it was met again, for ever.
#[test]
fn a_directory_whose_entries_are_renamed_while_it_is_read_ends() {
    let drive = Drive::new();
    let count = 3000;
    for index in 0..count {
        File::create(drive.at(&format!("entry-{index:05}"))).unwrap();
    }
    let mut met = 0;
    for entry in fs::read_dir(drive.at("")).unwrap().take(4 * count) {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let longer = format!("{}.b", &name[..name.len().min(200)]);
        fs::rename(drive.at(&name), drive.at(&longer)).unwrap();
        met += 1;
    }
    assert_eq!(met, count);
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), count);
}

#[test]
fn special_nodes_are_shown_as_what_they_are() {
    let drive = Drive::new();
    let device = rustix::fs::makedev(259, 70_000);
    for (name, kind, number) in [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("character", FileType::CharacterDevice, device),
        ("block", FileType::BlockDevice, device),
    ] {
        rustix::fs::mknodat(CWD, drive.at(name), kind, Mode::RUSR, number).unwrap();
        let metadata = fs::symlink_metadata(drive.at(name)).unwrap();
        assert_eq!(metadata.rdev(), number, "{name}");
        assert_eq!(metadata.mode() & 0o777, 0o400, "{name}");
        let told = metadata.file_type();
        let is_it = [
            told.is_fifo(),
            told.is_socket(),
            told.is_char_device(),
            told.is_block_device(),
        ];
        assert_eq!(is_it.iter().filter(|is| **is).count(), 1, "{name}");
        assert!(
            is_it[["fifo", "socket", "character", "block"]
                .iter()
                .position(|n| *n == name)
                .unwrap()]
        );
    }
}

#[test]
fn times_are_kept_to_the_nanosecond_before_and_after_1970() {
    let drive = Drive::new();
    let path = drive.at("file");
    let file = File::create(&path).unwrap();
    for (seconds, nanos) in [
        (1_700_000_000, 123_456_789),
        (-1, 500_000_000),
        (-86_400, 0),
        (0, 1),
    ] {
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: nanos,
        };
        rustix::fs::futimens(
            &file,
            &Timestamps {
                last_access: time,
                last_modification: time,
            },
        )
        .unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (seconds, nanos));
        assert_eq!((metadata.atime(), metadata.atime_nsec()), (seconds, nanos));
    }
    let before = SystemTime::now() - Duration::from_secs(60);
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    rustix::fs::futimens(
        &file,
        &Timestamps {
            last_access: now,
            last_modification: now,
        },
    )
    .unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > before);
}

#[test]
fn extended_attributes_are_kept_listed_and_removed() {
    let drive = Drive::new();
    let path = drive.at("file");
    fs::write(&path, b"").unwrap();
    rustix::fs::setxattr(&path, "user.color", b"green", XattrFlags::CREATE).unwrap();
    assert_eq!(
        rustix::fs::setxattr(&path, "user.color", b"x", XattrFlags::CREATE),
        Err(Errno::EXIST)
    );
    let absent = rustix::fs::setxattr(&path, "user.none", b"x", XattrFlags::REPLACE);
    assert_eq!(absent, Err(Errno::NODATA));
    let mut buffer = [0; 64];
    let len = rustix::fs::getxattr(&path, "user.color", &mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"green");
    let mut short = [0; 2];
    assert_eq!(
        rustix::fs::getxattr(&path, "user.color", &mut short),
        Err(Errno::RANGE)
    );
    let len = rustix::fs::listxattr(&path, &mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"user.color\0");
    rustix::fs::removexattr(&path, "user.color").unwrap();
    assert_eq!(
        rustix::fs::getxattr(&path, "user.color", &mut buffer),
        Err(Errno::NODATA)
    );
    // Version 2; the owner, the group and others may read.
    let mut list = vec![2, 0, 0, 0];
    for tag in [0x01, 0x04, 0x20] {
        list.extend_from_slice(&[tag, 0, 4, 0, 255, 255, 255, 255]);
    }
    let acl = rustix::fs::setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty());
    assert_eq!(acl, Err(Errno::OPNOTSUPP));
}

#[test]
fn without_extended_attributes_they_are_refused_and_files_work() {
    let drive = Drive::with(&MountOptions {
        no_xattr: true,
        ..MountOptions::default()
    });
    let path = drive.at("file");
    fs::write(&path, b"content").unwrap();
    let set = rustix::fs::setxattr(&path, "user.color", b"green", XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
    assert_eq!(fs::read(&path).unwrap(), b"content");
}

#[test]
fn ranges_are_reserved_punched_zeroed_and_found() {
    let drive = Drive::new();
    let path = drive.at("file");
    let content = pattern(256 * 1024);
    fs::write(&path, &content).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, 65_536, 65_536).unwrap();
    let mut expected = content;
    expected[65_536..131_072].fill(0);
    assert!(fs::read(&path).unwrap() == expected);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 300_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 300_000);
    let collapsed = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapsed, Err(Errno::OPNOTSUPP));
    let at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert_eq!(at, 0);
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap();
    assert!(hole >= 65_536, "a hole inside of data, at {hole}");
    assert_eq!(
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(1 << 40)),
        Err(Errno::NXIO)
    );
}

#[test]
fn a_copy_inside_the_drive_is_a_copy() {
    let drive = Drive::new();
    let content = pattern(1_000_003);
    fs::write(drive.at("source"), &content).unwrap();
    let source = File::open(drive.at("source")).unwrap();
    let target = File::create(drive.at("target")).unwrap();
    let mut copied = 0;
    loop {
        match rustix::fs::copy_file_range(&source, None, &target, None, 1 << 30).unwrap() {
            0 => break,
            count => copied += count,
        }
    }
    assert_eq!(copied, content.len());
    assert!(fs::read(drive.at("target")).unwrap() == content);
    target.write_all_at(b"changed", 0).unwrap();
    assert!(fs::read(drive.at("source")).unwrap() == content);
}

#[test]
fn a_view_shows_other_owners_and_leaves_the_vault_alone() {
    let options = MountOptions {
        uid: Some(7),
        gid: Some(8),
        umask: Some(0o027),
        ..MountOptions::default()
    };
    let drive = Drive::with(&options);
    let path = drive.at("file");
    fs::write(&path, b"x").unwrap();
    std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let shown = fs::metadata(&path).unwrap();
    assert_eq!(
        (shown.uid(), shown.gid(), shown.mode() & 0o7777),
        (7, 8, 0o750)
    );
    let stored = drive.filesystem.attributes(InodeId(shown.ino())).unwrap();
    assert_eq!((stored.uid, stored.gid), (0, 0));
}

#[test]
fn a_read_only_drive_changes_nothing() {
    let drive = Drive::with(&MountOptions {
        read_only: true,
        ..MountOptions::default()
    });
    let error = fs::write(drive.at("file"), b"").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 0);
}

#[test]
fn changes_of_others_are_seen_once_they_are_announced() {
    let drive = Drive::new();
    let (root, caller) = (InodeId::ROOT, Caller::root());
    let invalidator = drive.mounted.invalidator();
    // The kernel remembers that there is no such name, the listing, and the content.
    assert!(!drive.at("new").exists());
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 0);
    let node = NewNode {
        kind: NodeKind::File,
        mode: 0o600,
        rdev: 0,
        target: Vec::new(),
    };
    let made = drive
        .filesystem
        .create(&caller, root, b"new", &node)
        .unwrap();
    invalidator.entry(root, b"new");
    assert_eq!(fs::read(drive.at("new")).unwrap(), b"");
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 1);
    drive
        .filesystem
        .write(made.inode, 0, b"written by another")
        .unwrap();
    invalidator.content(made.inode, 0, 18);
    assert_eq!(fs::read(drive.at("new")).unwrap(), b"written by another");
    let set = strongroom::filesystem::SetAttributes {
        mode: Some(0o640),
        ..Default::default()
    };
    drive
        .filesystem
        .set_attributes(&caller, made.inode, &set)
        .unwrap();
    invalidator.attributes(made.inode);
    assert_eq!(fs::metadata(drive.at("new")).unwrap().mode() & 0o777, 0o640);
    drive.filesystem.unlink(&caller, root, b"new").unwrap();
    invalidator.entry(root, b"new");
    assert!(!drive.at("new").exists());
    drive.filesystem.forget(made.inode, 1);
}

/// Goal: no change of another process comes between an answer that the kernel keeps and the beginning of the notifications. Method:
/// a thread asks for a file while the mount begins, and must get no answer, however often it has a turn. Then the beginning fails,
/// which ends the mount.
/// Failed before: changes were subscribed to after the mount had begun to answer.
#[test]
fn changes_are_subscribed_to_before_the_mount_answers() {
    let Drive {
        mounted,
        filesystem,
        vault: _vault,
        folder: _folder,
    } = Drive::new();
    let path = mounted.path().to_path_buf();
    fs::write(path.join("file"), b"content").unwrap();
    mounted.unmount().unwrap();
    drop(mounted);
    let mut asking = None;
    let options = MountOptions::default();
    let started = Mounted::start_with(filesystem.clone(), &path, &options, |beginning| {
        let file = beginning.path.join("file");
        let asked = std::thread::spawn(move || fs::metadata(file).is_ok());
        let answered = (0..10_000).any(|_| {
            std::thread::yield_now();
            asked.is_finished()
        });
        asking = Some(asked);
        assert!(!answered);
        Err::<(), _>(MountError::NotMounted(path.clone()))
    });
    assert!(matches!(started, Err(MountError::NotMounted(_))));
    assert!(!asking.unwrap().join().unwrap());
    let again = Mounted::start(filesystem, &path, &options).unwrap();
    assert_eq!(fs::read(path.join("file")).unwrap(), b"content");
    again.unmount().unwrap();
}

/// Waits until `inode` has gone from the file system. FORGET comes when the kernel likes, so there is
/// nothing to wait on but the fact itself.
fn wait_until_gone(drive: &Drive, inode: InodeId) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while drive.filesystem.attributes(inode).is_ok() {
        assert!(
            Instant::now() < deadline,
            "inode {} is still referenced",
            inode.0
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_removed_file_is_gone_however_the_kernel_came_to_know_it() {
    let Drive {
        mounted,
        filesystem,
        vault,
        folder,
    } = Drive::new();
    let path = mounted.path().to_path_buf();
    for name in ["listed", "looked-up"] {
        fs::write(path.join(name), b"content").unwrap();
    }
    mounted.unmount().unwrap();
    drop(mounted);
    let mounted = Mounted::start(filesystem.clone(), &path, &MountOptions::default()).unwrap();
    let drive = Drive {
        mounted,
        filesystem,
        vault,
        folder,
    };
    let inode = |name: &str| InodeId(fs::symlink_metadata(drive.at(name)).unwrap().ino());
    let looked_up = inode("looked-up");
    for _ in 0..3 {
        assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 2);
        fs::write(drive.at("passing"), b"").unwrap();
        fs::remove_file(drive.at("passing")).unwrap();
    }
    let listed = inode("listed");
    File::create(drive.at("made")).unwrap();
    fs::hard_link(drive.at("made"), drive.at("linked")).unwrap();
    std::os::unix::fs::symlink("x", drive.at("symlink")).unwrap();
    let (made, symlink) = (inode("made"), inode("symlink"));
    for name in ["listed", "looked-up", "made", "linked", "symlink"] {
        fs::remove_file(drive.at(name)).unwrap();
    }
    for inode in [listed, looked_up, made, symlink] {
        wait_until_gone(&drive, inode);
    }
    drive.mounted.unmount().unwrap();
}

#[test]
fn many_threads_at_once_get_their_own_bytes_back() {
    let drive = Drive::new();
    std::thread::scope(|scope| {
        for thread in 0..6_u8 {
            let drive = &drive;
            scope.spawn(move || {
                for round in 0..20_u8 {
                    let path = drive.at(&format!("{thread}-{round}"));
                    let content = vec![thread ^ round; 40_000];
                    fs::write(&path, &content).unwrap();
                    File::open(&path).unwrap().sync_all().unwrap();
                    assert!(fs::read(&path).unwrap() == content);
                    if round % 2 == 0 {
                        fs::remove_file(&path).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(fs::read_dir(drive.at("")).unwrap().count(), 60);
    drive.mounted.unmount().unwrap();
}

#[test]
fn direct_input_and_output_works() {
    let drive = Drive::new();
    let path = drive.at("file");
    fs::write(&path, pattern(100_000)).unwrap();
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(&path)
        .unwrap();
    let mut content = Vec::new();
    (&file).read_to_end(&mut content).unwrap();
    assert!(content == pattern(100_000));
}

#[test]
fn the_drive_tells_how_full_the_disk_is() {
    let drive = Drive::new();
    let told = rustix::fs::statvfs(drive.mounted.path()).unwrap();
    let space = drive.filesystem.space().unwrap();
    assert_eq!(
        told.f_blocks * told.f_frsize / 4096,
        space.total_bytes / 4096
    );
    assert!(told.f_bavail > 0 && told.f_bavail <= told.f_blocks);
    assert_eq!(told.f_namemax, 255);
}

#[test]
fn a_place_that_is_mounted_is_not_mounted_again() {
    let drive = Drive::new();
    let again = Mounted::start(
        drive.filesystem.clone(),
        drive.mounted.path(),
        &MountOptions::default(),
    );
    assert!(matches!(again, Err(MountError::AlreadyMounted(_))));
    fs::write(drive.at("file"), b"still works").unwrap();
}

#[test]
fn a_drive_in_use_is_not_unmounted_and_works_on() {
    let drive = Drive::new();
    let mut file = File::create(drive.at("file")).unwrap();
    assert!(matches!(drive.mounted.unmount(), Err(MountError::Busy(_))));
    file.write_all(b"works on").unwrap();
    drop(file);
    assert_eq!(fs::read(drive.at("file")).unwrap(), b"works on");
    drive.mounted.unmount().unwrap();
    drive.mounted.unmount().unwrap();
    assert_eq!(fs::read_dir(drive.mounted.path()).unwrap().count(), 0);
}

#[test]
fn dropping_a_drive_in_use_frees_the_path_and_ends_what_is_open() {
    let Drive {
        mounted,
        filesystem,
        vault,
        folder,
    } = Drive::new();
    let path = mounted.path().to_path_buf();
    let mut file = File::create(path.join("file")).unwrap();
    file.write_all(b"accepted").unwrap();
    drop(mounted);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert!(file.write_all(b"too late").is_err());
    let again = Mounted::start(filesystem, &path, &MountOptions::default()).unwrap();
    assert_eq!(fs::read(path.join("file")).unwrap(), b"accepted");
    drop(again);
    drop((vault, folder));
}

fn gathering() -> MountOptions {
    MountOptions {
        writeback: true,
        ..MountOptions::default()
    }
}

#[test]
fn with_writeback_what_the_kernel_keeps_is_never_taken_for_a_hole() {
    let drive = Drive::with(&gathering());
    let file = File::create_new(drive.at("file")).unwrap();
    file.write_all_at(b"kept by the kernel", 1 << 20).unwrap();
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert!(data <= 1 << 20, "{data}");
    fs::copy(drive.at("file"), drive.at("copy")).unwrap();
    assert!(fs::read(drive.at("copy")).unwrap() == fs::read(drive.at("file")).unwrap());
}

#[test]
fn with_writeback_a_mount_that_ends_in_use_loses_nothing_written() {
    let Drive {
        mounted,
        filesystem,
        vault,
        folder,
    } = Drive::with(&gathering());
    let mut file = File::create(mounted.path().join("file")).unwrap();
    file.write_all(&pattern(300_000)).unwrap();
    drop(mounted);
    assert!(vault.read("/file").unwrap() == pattern(300_000));
    drop((file, filesystem, folder));
}

#[test]
fn an_idle_drive_unmounts_itself() {
    let idle_unmount = Some(Duration::from_millis(40));
    let drive = Drive::with(&MountOptions {
        idle_unmount,
        ..MountOptions::default()
    });
    drive.mounted.wait().unwrap();
    assert_eq!(fs::read_dir(drive.mounted.path()).unwrap().count(), 0);
}

#[test]
fn everything_is_still_there_on_the_next_mount() {
    let Drive {
        mounted,
        filesystem,
        vault,
        folder,
    } = Drive::new();
    let path = mounted.path().to_path_buf();
    fs::create_dir(path.join("directory")).unwrap();
    fs::write(path.join("directory/file"), pattern(500_000)).unwrap();
    mounted.unmount().unwrap();
    drop(mounted);
    let again = Mounted::start(filesystem, &path, &MountOptions::default()).unwrap();
    assert!(fs::read(path.join("directory/file")).unwrap() == pattern(500_000));
    let none = rustix::fs::statat(CWD, path.join("directory/none"), AtFlags::empty());
    assert_eq!(none.map(|_| ()), Err(Errno::NOENT));
    drop(again);
    drop((vault, folder));
}

/// Goal: content that lies only at a remote is read through the drive; without the remote that fails, and nothing else does.
#[test]
fn what_only_a_remote_has_is_read_or_fails_alone() {
    let drive = Drive::new();
    let (remote, hidden) = (
        drive.folder.path().join("remote"),
        drive.folder.path().join("hidden"),
    );
    fs::create_dir(&remote).unwrap();
    let content = pattern(5 << 20);
    drive.vault.make_directory("/below", 0o755).unwrap();
    drive.vault.write("/below/large", &content).unwrap();
    drive.vault.write("/below/other", &content[7..]).unwrap();
    let address = format!("folder:{}", remote.display());
    drive.vault.add_remote("stick", &address).unwrap();
    let mut go_on = |_: &strongroom::RemoteProgress| strongroom::GoOn::Yes;
    drive.vault.push("stick", &mut go_on).unwrap();
    let report = drive.vault.evict(None, &mut go_on).unwrap();
    assert!(report.bytes > 10 << 20, "{report:?}");
    fs::rename(&remote, &hidden).unwrap();
    let came_back = || {
        let counters = drive.vault.counters().unwrap();
        let found = counters
            .iter()
            .find(|(name, _)| name == "segments.came_back");
        found.unwrap().1
    };
    // Names and attributes of all that is there.
    for entry in fs::read_dir(drive.at("below")).unwrap() {
        assert!(entry.unwrap().metadata().unwrap().len() > 5_000_000);
    }
    let error = fs::read(drive.at("below/large")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    fs::write(drive.at("below/new"), b"new").unwrap();
    assert_eq!(fs::read(drive.at("below/new")).unwrap(), b"new");
    let renamed = drive.at("below/renamed");
    fs::rename(drive.at("below/other"), &renamed).unwrap();
    assert_eq!(came_back(), 0);
    fs::rename(&hidden, &remote).unwrap();
    assert!(fs::read(drive.at("below/large")).unwrap() == content);
    assert!(fs::read(&renamed).unwrap() == content[7..]);
    assert_eq!(came_back(), report.segments);
}
