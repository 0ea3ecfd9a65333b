//! Vaults whose database, header or replica file is lost or damaged: what a recovery restores, and what it reports of the rest.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use strongroom::filesystem::{AllocateMode, Error as FileError, NodeKind, XattrMode};
use strongroom::{
    Brought, Error, FileOptions, GoOn, Links, Loss, NewRevision, OpenOptions, RecoverOptions,
    RecoverReport, Vault, VerifyOptions, recover,
};
use strongroom_history::{ERASURES, Erasures};

use support::{Place, content};

impl Place {
    fn recover(&self) -> RecoverReport {
        self.try_recover(RecoverOptions::default()).unwrap()
    }

    fn try_recover(&self, options: RecoverOptions) -> Result<RecoverReport, Error> {
        recover(self.folder(), &self.secret, options, &mut |_| {})
    }
}

fn take(vault: &Vault, tag: &str) {
    let new = NewRevision {
        tags: vec![tag.to_owned()],
        ..NewRevision::default()
    };
    vault.take_revision(&new).unwrap().unwrap();
}

/// A tree with everything that a tree can have.
fn fill(vault: &Vault) {
    vault.make_directory("/d", 0o750).unwrap();
    vault.make_directory("/d/empty", 0o700).unwrap();
    vault.write("/d/big", content(3 << 20, 1)).unwrap();
    vault.write("/d/small", "small").unwrap();
    vault.link("/d/small", "/second name").unwrap();
    vault.make_symlink("d/big", "/link").unwrap();
    vault.make_node("/pipe", NodeKind::Fifo, 0o600, 0).unwrap();
    vault
        .set_xattr(
            "/d/big",
            Links::Follow,
            "user.note",
            "a note",
            XattrMode::Set,
        )
        .unwrap();
    let sparse = FileOptions::new().write().read().create();
    let sparse = vault.open_file("/sparse", sparse).unwrap();
    sparse.write_all_at(b"far away", 10 << 20).unwrap();
    sparse
        .allocate(AllocateMode::PunchHole, 0, 1 << 20)
        .unwrap();
    drop(sparse);
    for number in 0..300 {
        let path = format!("/d/{number}");
        vault
            .write(&path, content(100 + number, number as u64))
            .unwrap();
    }
}

type Picture = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

/// Everything that can be seen of a tree.
fn picture(vault: &Vault, root: &str) -> Picture {
    let mut seen = Picture::new();
    let mut directories = vec![root.as_bytes().to_vec()];
    while let Some(path) = directories.pop() {
        for entry in vault.list([&path[..], b"/"].concat()).unwrap() {
            let entry = entry.unwrap();
            let below = [&path[..], b"/", &entry.name].concat();
            let node = vault.attributes(&below, Links::Stay).unwrap();
            let told = format!(
                "{:?} {:o} {} {} {} {} {:?} {:?} {:?} {:?}",
                node.kind,
                node.mode,
                node.uid,
                node.gid,
                node.nlink,
                node.size,
                node.mtime,
                node.ctime,
                node.btime,
                vault.xattrs(&below, Links::Stay).unwrap(),
            );
            let bytes = match node.kind {
                NodeKind::File => vault.read(&below).unwrap(),
                NodeKind::Symlink => vault.read_link(&below).unwrap(),
                NodeKind::Directory => {
                    directories.push(below.clone());
                    Vec::new()
                }
                _ => Vec::new(),
            };
            let name = below[root.len()..].to_vec();
            seen.insert(name, (told, bytes));
        }
    }
    seen
}

fn assert_sound(vault: &Vault) {
    let options = VerifyOptions {
        deep: true,
        resume: false,
    };
    let report = vault.verify(options, &mut |_| GoOn::Yes).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

fn remove_database(folder: &Path) {
    for name in ["metadata.db", "metadata.db-wal", "metadata.db-shm"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// Goal: without its database a vault comes back as of its newest revision, with everything that revision keeps, all
/// older revisions, and the way on: new content, new revisions, a clean verification.
#[test]
fn a_deleted_database_is_rebuilt_up_to_the_newest_revision() {
    let (place, vault) = Place::new();
    fill(&vault);
    take(&vault, "one");
    vault.write("/d/small", "changed").unwrap();
    vault.remove_file("/d/7").unwrap();
    vault.sync().unwrap();
    take(&vault, "two");
    let (one, two) = (picture(&vault, "/.history/t:one"), picture(&vault, ""));
    vault.close().unwrap();
    remove_database(&place.folder());
    let report = place.recover();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(report.database, Brought::Rebuilt(None));
    assert_eq!(report.revisions, 2);
    assert_eq!(report.revision.as_ref().unwrap().tags, ["two"]);
    let vault = place.open();
    assert_eq!(picture(&vault, ""), two);
    assert_eq!(picture(&vault, "/.history/t:one"), one);
    assert_sound(&vault);
    vault.write("/new", "new").unwrap();
    take(&vault, "three");
    assert_eq!(vault.revisions().unwrap().last().unwrap().sequence, 3);
    assert_sound(&vault);
    vault.close().unwrap();
    let vault = place.open();
    assert_eq!(vault.read("/new").unwrap(), b"new");
    assert_eq!(vault.read("/d/small").unwrap(), b"changed");
    assert_sound(&vault);
}

#[test]
fn a_sound_vault_is_left_as_it_is_and_a_second_recovery_changes_nothing() {
    let (place, vault) = Place::new();
    fill(&vault);
    take(&vault, "one");
    vault.write("/later", "later").unwrap();
    vault.close().unwrap();
    assert_eq!(place.recover().database, Brought::Sound);
    assert_eq!(place.open().read("/later").unwrap(), b"later");
    remove_database(&place.folder());
    assert_eq!(place.recover().database, Brought::Rebuilt(None));
    let before = std::fs::read(place.folder().join("metadata.db")).unwrap();
    assert_eq!(place.recover().database, Brought::Sound);
    let after = std::fs::read(place.folder().join("metadata.db")).unwrap();
    assert_eq!(before, after);
}

/// Goal: content that no revision names is not thrown away: it is in `lost+found`, and the ruined database is beside the
/// new one.
#[test]
fn content_behind_the_newest_revision_is_kept_without_its_name() {
    let (place, vault) = Place::new();
    fill(&vault);
    take(&vault, "one");
    let later = content(200 << 10, 77);
    vault.write("/later", &later).unwrap();
    vault.close().unwrap();
    let database = place.folder().join("metadata.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[100..4000].fill(0);
    std::fs::write(&database, &bytes).unwrap();
    let refused = Vault::open(place.folder(), place.secret.clone(), OpenOptions::default());
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    let report = place.recover();
    let aside = Brought::Rebuilt(Some("metadata.db.damaged-1".to_owned()));
    assert_eq!(report.database, aside);
    assert_eq!(report.unnamed.1, later.len() as u64);
    // Failed before: what came later has lost its name, and all was said to be brought back.
    assert!(!report.is_whole());
    let kept = std::fs::read(place.folder().join("metadata.db.damaged-1")).unwrap();
    assert_eq!(kept, bytes);
    let vault = place.open();
    assert!(vault.read("/later").is_err());
    let mut found = Vec::new();
    for entry in vault.list("/lost+found").unwrap() {
        let name = String::from_utf8(entry.unwrap().name).unwrap();
        found.push(vault.read(format!("/lost+found/{name}")).unwrap());
    }
    assert!(found.iter().any(|bytes| bytes.starts_with(&later)));
    assert_sound(&vault);
    vault.compact().unwrap();
    assert_sound(&vault);
}

/// Goal: what is lost with a segment is told byte by byte, reads as an error, and never as zeros; everything else is
/// there. Writing the same content again heals it.
#[test]
fn a_lost_segment_costs_its_bytes_and_they_read_as_errors() {
    let (place, vault) = Place::new();
    let first = content(15 << 20, 5);
    vault.write("/first", &first).unwrap();
    vault.sync().unwrap();
    fill(&vault);
    take(&vault, "one");
    vault.close().unwrap();
    remove_database(&place.folder());
    let segment = place.segments().pop().unwrap();
    std::fs::remove_file(&segment).unwrap();
    let report = place.recover();
    assert!(!report.is_whole());
    let vault = place.open();
    let mut lost = 0;
    for damage in &report.damages {
        let Loss::Content(start, end) = damage.what else {
            panic!("{damage:?}");
        };
        lost += end - start;
        let file = vault
            .open_file(&damage.path, FileOptions::new().read())
            .unwrap();
        for at in [start, end - 1] {
            assert!(file.read_at(&mut [0], at).is_err(), "{damage:?} at {at}");
        }
        if start > 0 {
            file.read_at(&mut [0], start - 1).unwrap();
        }
    }
    assert!(lost >= 14 << 20, "{report:?}");
    let verified = vault
        .verify(VerifyOptions::default(), &mut |_| GoOn::Yes)
        .unwrap();
    assert!(verified.structure.problems.is_empty(), "{verified:?}");
    let told = |damages: &[strongroom::Damage]| -> Vec<_> {
        let now = damages.iter().filter(|damage| damage.now);
        now.map(|damage| (damage.path.clone(), damage.what.clone()))
            .collect()
    };
    let mut expected = told(&report.damages);
    expected.sort();
    assert_eq!(told(&verified.damages), expected);
    // The same content, written again, is not named after what is lost.
    vault.write("/first", &first).unwrap();
    vault.sync().unwrap();
    assert!(vault.read("/first").unwrap() == first);
}

#[test]
fn header_and_replica_file_come_back_from_their_second_copies() {
    let (place, vault) = Place::new();
    vault.write("/file", "content").unwrap();
    vault.close().unwrap();
    for (name, damage) in [
        ("vault.json", None),
        ("replica.json", None),
        ("vault.json", Some(200)),
        ("replica.json", Some(90)),
    ] {
        let path = place.folder().join(name);
        let sound = std::fs::read(&path).unwrap();
        match damage {
            None => std::fs::remove_file(&path).unwrap(),
            Some(at) => {
                let mut bytes = sound.clone();
                bytes[at] ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
        }
        let refused = Vault::open(place.folder(), place.secret.clone(), OpenOptions::default());
        let refused = refused.unwrap_err().to_string();
        let report = place.recover();
        let brought = [&report.header, &report.replica];
        assert!(
            brought.contains(&&Brought::PutBack),
            "{name}: {report:?}, {refused}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), sound);
        assert_eq!(place.open().read("/file").unwrap(), b"content");
    }
}

#[test]
fn without_any_copy_of_the_header_nothing_is_touched_and_the_way_out_is_said() {
    let (place, vault) = Place::new();
    vault.write("/file", "content").unwrap();
    vault.close().unwrap();
    let header = std::fs::read(place.folder().join("vault.json")).unwrap();
    std::fs::remove_file(place.folder().join("vault.json")).unwrap();
    std::fs::remove_file(place.folder().join("vault.json.saved")).unwrap();
    let error = place.try_recover(RecoverOptions::default()).unwrap_err();
    assert!(
        matches!(error, Error::HeaderLost { saved: false }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("restore vault.json from a backup")
    );
    std::fs::write(place.folder().join("vault.json"), header).unwrap();
    assert_eq!(place.open().read("/file").unwrap(), b"content");
}

/// Goal: with the replica file and its copy gone, and the key of the database with them, everything up to the newest
/// revision comes back; the vault acts as a new device, whose revisions count.
#[test]
fn without_any_replica_file_the_vault_comes_back_as_a_new_device() {
    let (place, vault) = Place::new();
    fill(&vault);
    take(&vault, "one");
    let before = picture(&vault, "");
    let device = vault.revisions().unwrap()[0].device;
    vault.close().unwrap();
    std::fs::remove_file(place.folder().join("replica.json")).unwrap();
    std::fs::remove_file(place.folder().join("replica.json.saved")).unwrap();
    let report = place.recover();
    assert_eq!(report.replica, Brought::Rebuilt(None));
    assert!(matches!(report.database, Brought::Rebuilt(Some(_))));
    let vault = place.open();
    assert_eq!(picture(&vault, ""), before);
    take(&vault, "two");
    let revisions = vault.revisions().unwrap();
    assert_eq!(revisions[1].sequence, 2);
    assert_ne!(revisions[1].device, device);
    assert_sound(&vault);
}

/// Goal: a rule that is lost with the database lets nothing go. Failed before: the first change after it thinned by the default.
#[test]
fn a_rebuilt_database_keeps_every_snapshot_until_a_rule_is_set() {
    let (place, vault) = Place::new();
    let keep_all = strongroom::Retention::EVERYTHING;
    vault
        .set_retention(&strongroom::Retention {
            last: 500,
            ..keep_all
        })
        .unwrap();
    for number in 0..4 {
        vault.write("/file", content(1000, number)).unwrap();
        let new = NewRevision {
            message: "scheduled".to_owned(),
            ..NewRevision::default()
        };
        vault.take_revision(&new).unwrap().unwrap();
    }
    vault.close().unwrap();
    remove_database(&place.folder());
    place.recover();
    let vault = place.open();
    assert_eq!(vault.retention().unwrap(), Some(keep_all));
    vault.write("/file", "newer").unwrap();
    let step = vault.keep_if_due(std::time::Duration::ZERO).unwrap();
    assert_eq!(step.unwrap().let_go, []);
    assert_eq!(vault.revisions().unwrap().len(), 5);
}

/// Goal: content that only an old snapshot had, and that is lost, counts: when it is stored again and that snapshot goes, it stays.
/// Failed before: removing the snapshot took references that nobody had counted, and the living file was damaged.
#[test]
fn removing_a_snapshot_whose_content_was_lost_costs_no_living_file() {
    let (place, vault) = Place::new();
    let lost = content(2 << 20, 61);
    vault.write("/lost", &lost).unwrap();
    vault.compact().unwrap();
    let segment = place.segments().pop().unwrap();
    vault.write("/stays", "stays").unwrap();
    take(&vault, "one");
    vault.remove_file("/lost").unwrap();
    take(&vault, "two");
    vault.close().unwrap();
    remove_database(&place.folder());
    std::fs::remove_file(&segment).unwrap();
    let report = place.recover();
    assert!(report.missing_blocks > 0 && report.damages.is_empty());
    let vault = place.open();
    vault.write("/again", &lost).unwrap();
    vault.sync().unwrap();
    let one = vault.select_revision("t:one").unwrap();
    vault.remove_revision(one.id).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let vault = place.open();
    vault.compact().unwrap();
    assert!(vault.read("/again").unwrap() == lost);
    assert_sound(&vault);
}

/// Goal: what was erased is not lost with the database, if the newest snapshot notes it; other content that is nowhere is. Method: a vault
/// with a remote, which notes erasures for other devices, and one without; in both a segment with other content goes, too.
/// Failed before: the erased content was counted as lost in both.
#[test]
fn content_that_was_erased_is_not_lost_with_the_database() {
    for has_remote in [true, false] {
        let (place, vault) = Place::new();
        if has_remote {
            let remote = place.directory.path().join("remote");
            std::fs::create_dir(&remote).unwrap();
            let address = format!("folder:{}", remote.display());
            vault.add_remote("stick", &address).unwrap();
        }
        vault.write("/lost", content(2 << 20, 61)).unwrap();
        vault.compact().unwrap();
        let segment = place.segments().pop().unwrap();
        vault.write("/secret", content(400_000, 62)).unwrap();
        take(&vault, "one");
        vault.remove_file("/lost").unwrap();
        vault.remove_file("/secret").unwrap();
        let erased = vault.erase("/secret", false).unwrap();
        assert!(erased.bytes >= 400_000, "{erased:?}");
        take(&vault, "two");
        vault.close().unwrap();
        let is_erased = |vault: &Vault, name: &str| {
            let read = vault.read(format!("/.history/t:one/{name}"));
            matches!(read, Err(Error::File(FileError::Erased { .. })))
        };
        let missing = |report: &RecoverReport| report.missing_blocks;
        remove_database(&place.folder());
        let report = place.recover();
        assert!(report.damages.is_empty(), "{report:?}");
        let of_secret = missing(&report);
        assert_eq!(of_secret == 0, has_remote, "{report:?}");
        let vault = place.open();
        assert_eq!(is_erased(&vault, "secret"), has_remote);
        assert!(vault.read("/.history/t:one/lost").is_ok());
        if has_remote {
            assert_sound(&vault);
        }
        vault.close().unwrap();
        remove_database(&place.folder());
        std::fs::remove_file(&segment).unwrap();
        let report = place.recover();
        // As many blocks as 2 MiB have.
        assert_eq!(missing(&report), of_secret + 32, "{report:?}");
        let vault = place.open();
        assert_eq!(is_erased(&vault, "secret"), has_remote);
        assert!(!is_erased(&vault, "lost"));
        assert!(vault.read("/.history/t:one/lost").is_err());
    }
}

/// Goal: erased content that is nowhere is told with the time of its erasure, not with that of the rebuild. Method: the tree notes an erasure
/// of 2001. Failed before: it was told as erased when the database was rebuilt.
#[test]
fn a_rebuilt_database_tells_when_content_was_erased() {
    const SECONDS: u64 = 1_000_000_000;
    let (place, vault) = Place::new();
    let remote = place.directory.path().join("remote");
    std::fs::create_dir(&remote).unwrap();
    let address = format!("folder:{}", remote.display());
    vault.add_remote("stick", &address).unwrap();
    vault.write("/secret", content(400_000, 62)).unwrap();
    take(&vault, "one");
    vault.remove_file("/secret").unwrap();
    vault.erase("/secret", false).unwrap();
    let noted = vault.xattr("/", Links::Stay, ERASURES).unwrap();
    let mut note = Erasures::decode(&noted).unwrap().all()[0].clone();
    note.time_s = SECONDS;
    let noted = Erasures::default().with(note).encode();
    vault
        .set_xattr("/", Links::Stay, ERASURES, noted, XattrMode::Set)
        .unwrap();
    take(&vault, "two");
    vault.close().unwrap();
    remove_database(&place.folder());
    assert_eq!(place.recover().missing_blocks, 0);
    let read = place.open().read("/.history/t:one/secret");
    let Err(Error::File(FileError::Erased { when, .. })) = read else {
        panic!("{read:?}");
    };
    assert_eq!(when.map(|when| when.0), Some(1_000_000_000_000_000_000));
}

/// Goal: content is neither erased nor called erased while a node is lost that names it for a file which nobody erased. Method: 300 files of
/// a snapshot, and their copies in a directory that is erased, which takes nothing; a bit of a node of that snapshot is flipped, so that only
/// the copies are known to have some of the content, and the database is rebuilt: without the content, and with it; then all is right again.
/// Failed before: that content was called erased, and the next opening erased it.
#[test]
fn nothing_is_erased_that_a_lost_node_may_name() {
    const FILES: u64 = 300;
    let (place, vault) = Place::new();
    let remote = place.directory.path().join("remote");
    std::fs::create_dir(&remote).unwrap();
    let address = format!("folder:{}", remote.display());
    vault.add_remote("stick", &address).unwrap();
    for number in 0..FILES {
        let bytes = content(9_000, number);
        vault.write(format!("/{number}"), bytes).unwrap();
    }
    vault.compact().unwrap();
    let mut contents = place.segments();
    take(&vault, "one");
    vault.compact().unwrap();
    let mut nodes = place.segments();
    nodes.retain(|path| !contents.contains(path));
    contents.retain(|path| path.exists());
    assert!(!contents.is_empty());
    vault.make_directory("/copies", 0o700).unwrap();
    for number in 0..FILES {
        let bytes = content(9_000, number);
        vault.write(format!("/copies/{number}"), bytes).unwrap();
    }
    take(&vault, "two");
    for number in 0..FILES {
        vault.remove_file(format!("/copies/{number}")).unwrap();
        vault.remove_file(format!("/{number}")).unwrap();
    }
    vault.remove_directory("/copies").unwrap();
    let erased = vault.erase("/copies", false).unwrap();
    assert_eq!(erased.bytes, 0, "{erased:?}");
    take(&vault, "three");
    vault.close().unwrap();

    let nodes = nodes.pop().unwrap();
    let sound = std::fs::read(&nodes).unwrap();
    let mut damaged = sound.clone();
    damaged[4096 + 700] ^= 1;
    std::fs::write(&nodes, damaged).unwrap();
    let aside = |path: &Path| place.directory.path().join(path.file_name().unwrap());
    for path in &contents {
        std::fs::rename(path, aside(path)).unwrap();
    }
    remove_database(&place.folder());
    let report = place.recover();
    assert!(report.lost_revisions.is_empty(), "{report:?}");
    // A block of each file, and the node.
    assert!(report.missing_blocks > FILES, "{report:?}");
    for path in &contents {
        std::fs::rename(aside(path), path).unwrap();
    }
    remove_database(&place.folder());
    let report = place.recover();
    assert!(report.missing_blocks > 0, "{report:?}");
    place.open().close().unwrap();

    std::fs::write(&nodes, sound).unwrap();
    let options = strongroom::RepairOptions::default();
    let repaired = strongroom::repair(place.folder(), &place.secret, options, &mut |_| {});
    let repaired = repaired.unwrap();
    assert!(repaired.is_whole(), "{repaired:?}");
    let vault = place.open();
    for number in 0..FILES {
        for path in [format!("t:one/{number}"), format!("t:two/copies/{number}")] {
            let read = vault.read(format!("/.history/{path}")).unwrap();
            assert!(read == content(9_000, number), "{path}");
        }
    }
    assert_sound(&vault);
}

/// Goal: a node that was lost with the database counts what it names once it is back. Method: a bit of a node is flipped, the database
/// is rebuilt, the bit is right again.
#[test]
fn a_lost_node_of_an_old_snapshot_comes_back_with_what_it_names() {
    let (place, vault) = Place::new();
    for number in 0..300 {
        let bytes = content(9_000, number);
        vault.write(format!("/{number}"), bytes).unwrap();
    }
    vault.compact().unwrap();
    let before = place.segments();
    take(&vault, "one");
    vault.compact().unwrap();
    let mut nodes = place.segments();
    nodes.retain(|path| !before.contains(path));
    for number in 0..300 {
        vault.remove_file(format!("/{number}")).unwrap();
    }
    take(&vault, "two");
    vault.close().unwrap();
    let nodes = nodes.pop().unwrap();
    let sound = std::fs::read(&nodes).unwrap();
    let mut damaged = sound.clone();
    damaged[4096 + 700] ^= 1;
    std::fs::write(&nodes, damaged).unwrap();
    remove_database(&place.folder());
    let report = place.recover();
    assert!(report.missing_blocks > 0, "{report:?}");
    std::fs::write(&nodes, sound).unwrap();
    let options = strongroom::RepairOptions::default();
    let repaired = strongroom::repair(place.folder(), &place.secret, options, &mut |_| {});
    let repaired = repaired.unwrap();
    assert!(repaired.is_whole(), "{repaired:?}");
    let vault = place.open();
    for number in [0, 7, 299] {
        let path = format!("/.history/t:one/{number}");
        assert!(vault.read(path).unwrap() == content(9_000, number));
    }
    assert_sound(&vault);
    let one = vault.select_revision("t:one").unwrap();
    vault.remove_revision(one.id).unwrap();
    vault.compact().unwrap();
    assert_sound(&vault);
}

#[test]
fn a_vault_that_is_open_is_not_recovered() {
    let (place, vault) = Place::new();
    vault.write("/file", "content").unwrap();
    let refused = place.try_recover(RecoverOptions {
        rebuild: strongroom::Rebuild::Always,
        ..RecoverOptions::default()
    });
    assert!(matches!(refused, Err(Error::InUse)));
    assert_eq!(vault.read("/file").unwrap(), b"content");
}

/// Goal: without any revision nothing has a name, but nothing is thrown away either.
#[test]
fn without_revisions_all_content_is_in_lost_and_found() {
    let (place, vault) = Place::new();
    let bytes = content(300 << 10, 9);
    vault.write("/file", &bytes).unwrap();
    vault.close().unwrap();
    remove_database(&place.folder());
    let report = place.recover();
    assert_eq!(
        (report.revision.clone(), report.unnamed.1),
        (None, 300 << 10)
    );
    let vault = place.open();
    let name = vault
        .list("/lost+found")
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .name;
    let path = [b"/lost+found/", &name[..]].concat();
    assert!(vault.read(path).unwrap() == bytes);
    assert_sound(&vault);
}

#[test]
fn a_database_of_an_older_state_beside_newer_files_is_damage_and_rebuilt() {
    let (place, vault) = Place::new();
    vault.write("/old", content(100 << 10, 1)).unwrap();
    take(&vault, "one");
    vault.close().unwrap();
    let old = std::fs::read(place.folder().join("metadata.db")).unwrap();
    let vault = place.open();
    vault.write("/new", content(100 << 10, 2)).unwrap();
    take(&vault, "two");
    vault.close().unwrap();
    std::fs::write(place.folder().join("metadata.db"), old).unwrap();
    let secret = place.secret.clone();
    let refused = Vault::open(place.folder(), secret, OpenOptions::default()).unwrap_err();
    let metadata = "metadata.db";
    assert!(
        matches!(refused, Error::Damaged { what, .. } if what == metadata),
        "{refused}"
    );
    let report = place
        .try_recover(RecoverOptions {
            rebuild: strongroom::Rebuild::Always,
            ..RecoverOptions::default()
        })
        .unwrap();
    assert_eq!(report.revision.unwrap().tags, ["two"]);
    let vault = place.open();
    assert!(vault.read("/new").unwrap() == content(100 << 10, 2));
    assert_sound(&vault);
}
