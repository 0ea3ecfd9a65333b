//! Transactions through the public API: the same for the owner of the vault and for its clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use strongroom::filesystem::{
    Durability, Error as FileError, InodeId, RenameMode, SetAttributes, Timestamp, XattrMode,
};
use strongroom::limits::{
    TRANSACTION_BYTES_MAX, TRANSACTION_CONTENT_BYTES_MAX, TRANSACTION_OPERATIONS_MAX,
};
use strongroom::{
    Access, Change, CreateOptions, Error, FileOptions, KeyFile, Links, Observer, OpenOptions,
    Operation, Secret, SystemRandom, Vault,
};

struct Place {
    directory: tempfile::TempDir,
    secret: Secret,
}

impl Place {
    fn new() -> (Self, Vault) {
        let directory = tempfile::tempdir().unwrap();
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let created = Vault::create(directory.path().join("vault"), options).unwrap();
        let place = Self {
            directory,
            secret: Secret::KeyFile(key_file),
        };
        (place, created.vault)
    }

    fn open(&self) -> Vault {
        let folder = self.directory.path().join("vault");
        Vault::open(folder, self.secret.clone(), OpenOptions::default()).unwrap()
    }

    fn connect(&self, options: OpenOptions) -> Vault {
        Vault::connect_if_owned(self.directory.path().join("vault"), options)
            .unwrap()
            .expect("somebody owns it")
    }
}

fn write(path: &str, content: &str) -> Operation {
    Operation::WriteFile {
        path: path.into(),
        mode: 0o640,
        content: content.into(),
    }
}

fn rename(path: &str, new_path: &str, mode: RenameMode) -> Operation {
    Operation::Rename {
        path: path.into(),
        new_path: new_path.into(),
        mode,
    }
}

/// One of each kind, each of which needs one before it.
fn one_of_each() -> Vec<Operation> {
    let path = |path: &str| -> Vec<u8> { path.into() };
    let set = SetAttributes {
        mode: Some(0o604),
        mtime: Some(strongroom::filesystem::SetTime::At(Timestamp(5))),
        ..SetAttributes::default()
    };
    vec![
        Operation::RequireMissing {
            path: path("/new"),
            links: Links::Stay,
        },
        Operation::MakeDirectory {
            path: path("/new/"),
            mode: 0o750,
        },
        write("/new/file", "content"),
        Operation::MakeSymlink {
            path: path("/new/link"),
            target: path("file"),
        },
        // Through the symlink.
        Operation::WriteAt {
            path: path("/new/link"),
            offset: 3,
            data: path("TENTS and more"),
        },
        Operation::Truncate {
            path: path("/new/../new/file"),
            size: 12,
        },
        Operation::Link {
            path: path("/new/file"),
            new_path: path("/second"),
        },
        Operation::SetXattr {
            path: path("/second"),
            links: Links::Follow,
            name: path("user.a"),
            value: path("one"),
            mode: XattrMode::CreateOnly,
        },
        Operation::SetXattr {
            path: path("/second"),
            links: Links::Follow,
            name: path("user.b"),
            value: path("two"),
            mode: XattrMode::Set,
        },
        Operation::RemoveXattr {
            path: path("/second"),
            links: Links::Follow,
            name: path("user.a"),
        },
        Operation::SetAttributes {
            path: path("/second"),
            links: Links::Follow,
            set,
        },
        rename("/second", "/old", RenameMode::Replace),
        rename("/new/link", "/swapped", RenameMode::Exchange),
        Operation::RemoveFile {
            path: path("/gone"),
        },
        Operation::RemoveDirectory {
            path: path("/empty"),
        },
    ]
}

fn prepare(vault: &Vault) {
    vault
        .write("/old", "old content, longer than the new one")
        .unwrap();
    vault.write("/swapped", "s").unwrap();
    vault.write("/gone", "g").unwrap();
    vault.make_directory("/empty", 0o700).unwrap();
}

/// All that a look at the vault tells.
fn seen(vault: &Vault) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![Vec::new()];
    while let Some(directory) = ahead.pop() {
        let listed = [&directory[..], b"/"].concat();
        for entry in vault.list(&listed).unwrap() {
            let entry = entry.unwrap();
            let path = [&listed[..], &entry.name[..]].concat();
            let names = vault.xattrs(&path, Links::Stay).unwrap();
            let content = match entry.attributes.kind {
                strongroom::filesystem::NodeKind::File => vault.read(&path).unwrap(),
                strongroom::filesystem::NodeKind::Symlink => vault.read_link(&path).unwrap(),
                _ => {
                    ahead.push(path.clone());
                    Vec::new()
                }
            };
            let path = String::from_utf8(path).unwrap();
            seen.insert(format!(
                "{path} {:?} {names:?} {content:?}",
                entry.attributes
            ));
        }
    }
    seen.insert(format!("{:?}", vault.attributes("/", Links::Stay).unwrap()));
    seen
}

#[test]
fn every_operation_happens_in_order_for_owner_and_client() {
    for by_client in [false, true] {
        let (place, owner) = Place::new();
        prepare(&owner);
        let vault = match by_client {
            true => place.connect(OpenOptions::default()),
            false => owner.clone(),
        };
        vault
            .transaction(&one_of_each(), Durability::OnReturn)
            .unwrap();
        drop(vault);
        owner.close().unwrap();
        let vault = place.open();
        assert_eq!(vault.read("/old").unwrap(), b"conTENTS and");
        assert_eq!(vault.read("/new/file").unwrap(), b"conTENTS and");
        assert_eq!(vault.read_link("/swapped").unwrap(), b"file");
        assert_eq!(vault.read("/new/link").unwrap(), b"s");
        let node = vault.attributes("/old", Links::Stay).unwrap();
        assert_eq!(
            (node.mode, node.nlink, node.mtime),
            (0o604, 2, Timestamp(5))
        );
        assert_eq!(vault.xattrs("/old", Links::Stay).unwrap(), [b"user.b"]);
        assert_eq!(vault.attributes("/new", Links::Stay).unwrap().mode, 0o750);
        for gone in ["/gone", "/empty", "/second"] {
            assert!(vault.attributes(gone, Links::Stay).is_err(), "{gone}");
        }
        assert!(vault.check().unwrap().problems.is_empty());
        vault.close().unwrap();
    }
}

/// Goal: whichever operation fails, its index and reason come back, and nothing has happened, also not to files
/// that are open. Method: each operation in turn is replaced by one that must fail.
#[test]
fn a_failure_names_its_operation_and_leaves_nothing_for_owner_and_client() {
    let (place, owner) = Place::new();
    prepare(&owner);
    let client = place.connect(OpenOptions::default());
    let open = owner.open_file("/gone", FileOptions::new().read()).unwrap();
    let before = seen(&owner);
    for count in 0..one_of_each().len() {
        let mut operations = one_of_each();
        operations[count] = Operation::RequireMissing {
            path: "/old/".into(),
            links: Links::Stay,
        };
        for vault in [&owner, &client] {
            match vault.transaction(&operations, Durability::OnReturn) {
                Err(Error::Operation { index, error }) if index == count => {
                    let reason = matches!(*error, Error::File(FileError::NotADirectory));
                    assert!(reason, "{error:?}");
                }
                other => panic!("{count}: {other:?}"),
            }
            assert_eq!(seen(&owner), before, "{count}");
        }
    }
    let mut content = [0; 4];
    assert_eq!(open.read_at(&mut content, 0).unwrap(), 1);
    assert_eq!(open.attributes().unwrap().nlink, 1);
    assert!(owner.check().unwrap().problems.is_empty());
}

#[test]
fn an_error_of_an_operation_is_of_its_reasons_kind_for_the_standard_library() {
    let (_place, vault) = Place::new();
    let missing = Operation::RemoveFile { path: "/a".into() };
    let error = vault
        .transaction(&[missing], Durability::WriteBehind)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "operation 0 (counted from 0): no such file or directory; nothing of the transaction was done"
    );
    assert_eq!(
        std::io::Error::from(error).kind(),
        std::io::ErrorKind::NotFound
    );
}

#[test]
fn a_list_beyond_its_bounds_is_refused_whole() {
    let (place, owner) = Place::new();
    let client = place.connect(OpenOptions::default());
    let content = "x".repeat(TRANSACTION_BYTES_MAX - "/fits".len());
    for vault in [&owner, &client] {
        vault
            .transaction(&[write("/fits", &content)], Durability::WriteBehind)
            .unwrap();
        assert_eq!(vault.read("/fits").unwrap(), content.as_bytes());
        let too_many = vec![write("/a", ""); TRANSACTION_OPERATIONS_MAX + 1];
        let target = vec![b'x'; TRANSACTION_BYTES_MAX / TRANSACTION_OPERATIONS_MAX];
        let path = b"/a".to_vec();
        let too_long = vec![Operation::MakeSymlink { path, target }; TRANSACTION_OPERATIONS_MAX];
        let too_large = [Operation::WriteFile {
            path: b"/a".to_vec(),
            mode: 0o600,
            content: vec![0; TRANSACTION_CONTENT_BYTES_MAX + 1],
        }];
        for list in [&too_long[..], &too_many, &too_large] {
            let refused = vault.transaction(list, Durability::WriteBehind);
            assert!(matches!(refused, Err(Error::TransactionTooLarge)));
        }
        let most = vec![write("/a", "b"); TRANSACTION_OPERATIONS_MAX];
        vault.transaction(&most, Durability::WriteBehind).unwrap();
        vault.transaction(&[], Durability::OnReturn).unwrap();
        vault.remove_file("/a").unwrap();
    }
    assert_eq!(owner.list("/").unwrap().count(), 1);
}

#[test]
fn a_client_that_may_only_read_changes_nothing_by_a_list() {
    let (place, _owner) = Place::new();
    let reader = place.connect(OpenOptions {
        access: Access::ReadOnly,
        ..OpenOptions::default()
    });
    let refused = reader.transaction(&[write("/a", "b")], Durability::WriteBehind);
    assert!(matches!(refused, Err(Error::File(FileError::ReadOnly))));
}

/// Goal: no update is lost. Method: owner and clients add one to a number, each time only if it is still what they
/// read, and count how often they succeeded.
#[test]
fn of_writers_that_require_what_they_read_none_overwrites_another() {
    const EACH: u64 = 20;
    let (place, owner) = Place::new();
    owner.write("/number", "0").unwrap();
    let vaults = [
        owner.clone(),
        place.connect(OpenOptions::default()),
        place.connect(OpenOptions::default()),
    ];
    std::thread::scope(|scope| {
        for vault in &vaults {
            scope.spawn(move || {
                let mut done = 0;
                while done < EACH {
                    let attributes = vault.attributes("/number", Links::Follow).unwrap();
                    let text = String::from_utf8(vault.read("/number").unwrap()).unwrap();
                    let Ok(number) = text.parse::<u64>() else {
                        // Read between two calls of `read`: the requirement below would refuse it as well.
                        continue;
                    };
                    let operations = [
                        Operation::RequireUnchanged {
                            path: "/number".into(),
                            links: Links::Follow,
                            seen: attributes,
                        },
                        write("/number", &(number + 1).to_string()),
                    ];
                    match vault.transaction(&operations, Durability::WriteBehind) {
                        Ok(()) => done += 1,
                        Err(Error::Operation { index: 0, error })
                            if matches!(*error, Error::Changed) => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let total = (EACH * vaults.len() as u64).to_string();
    assert_eq!(owner.read("/number").unwrap(), total.as_bytes());
}

#[test]
fn observers_hear_of_a_list_once_it_has_happened_and_of_a_failed_one_nothing() {
    #[derive(Default)]
    struct Record(Mutex<Vec<Change>>);
    impl Observer for Record {
        fn changed(&self, change: &Change) {
            self.0.lock().unwrap().push(change.clone());
        }
    }
    let (place, owner) = Place::new();
    prepare(&owner);
    let old = owner.attributes("/old", Links::Follow).unwrap().inode;
    let gone = owner.attributes("/gone", Links::Follow).unwrap().inode;
    let record = Arc::new(Record::default());
    let _subscription = owner
        .subscribe(Arc::clone(&record) as Arc<dyn Observer>)
        .unwrap();
    let client = place.connect(OpenOptions::default());
    let entry = |name: &str| Change::Entry {
        parent: InodeId::ROOT,
        name: name.into(),
    };
    let mut operations = vec![
        write("/old", "1"),
        rename("/gone", "/moved", RenameMode::NoReplace),
        write("/old", "22"),
        write("/missing/a", ""),
    ];
    assert!(
        client
            .transaction(&operations, Durability::WriteBehind)
            .is_err()
    );
    assert_eq!(*record.0.lock().unwrap(), []);
    operations.pop();
    client
        .transaction(&operations, Durability::WriteBehind)
        .unwrap();
    let heard = std::mem::take(&mut *record.0.lock().unwrap());
    for expected in [
        entry("gone"),
        entry("moved"),
        Change::Content {
            inode: old,
            offset: 0,
            len: u64::MAX,
        },
        Change::Attributes { inode: gone },
        Change::Attributes {
            inode: InodeId::ROOT,
        },
    ] {
        assert!(heard.contains(&expected), "{expected:?} in {heard:?}");
    }
}

/// Content of `len` bytes in which no two blocks are equal.
fn content(len: usize, seed: u32) -> Vec<u8> {
    let words = (0..).map(|number: u32| (number ^ seed).wrapping_mul(0x9e37_79b1));
    words.flat_map(u32::to_le_bytes).take(len).collect()
}

/// Names and content of all files.
fn tree(vault: &Vault) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = vault.walk("/").unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.path.clone(), vault.read(entry.path).unwrap()))
        .collect()
}

/// Failed before: `TransactionTooLarge`.
#[test]
fn a_list_with_more_content_than_a_message_happens_whole_or_not_at_all() {
    let (place, owner) = Place::new();
    let client = place.connect(OpenOptions::default());
    for (seed, vault) in [(1, &owner), (2, &client)] {
        vault.write("/there", content(300_000, 9)).unwrap();
        let before = tree(vault);
        let mut list: Vec<Operation> = (0..3)
            .map(|number| Operation::WriteFile {
                path: format!("/large-{number}").into(),
                mode: 0o640,
                content: content((3 << 20) + number, seed + number as u32),
            })
            .collect();
        // Into the middle of a file, not where its blocks begin; and small ones beside.
        list.push(Operation::WriteAt {
            path: b"/there".to_vec(),
            offset: 100_001,
            data: content(2 << 20, seed),
        });
        list.push(write("/small", "small"));
        list.push(Operation::RequireMissing {
            path: b"/small".to_vec(),
            links: Links::Stay,
        });
        let refused = vault.transaction(&list, Durability::OnReturn);
        assert!(
            matches!(refused, Err(Error::Operation { index: 5, .. })),
            "{refused:?}"
        );
        assert!(tree(vault) == before);
        list.pop();
        vault.transaction(&list, Durability::OnReturn).unwrap();
        let mut there = content(300_000, 9);
        there.truncate(100_001);
        there.extend(content(2 << 20, seed));
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = (0..3)
            .map(|number| {
                let large = content((3 << 20) + number, seed + number as u32);
                (format!("/large-{number}").into(), large)
            })
            .collect();
        expected.push((b"/small".to_vec(), b"small".to_vec()));
        expected.push((b"/there".to_vec(), there));
        assert!(tree(vault) == expected);
        for (path, _) in expected {
            vault.remove_file(path).unwrap();
        }
        assert!(vault.check().unwrap().problems.is_empty());
    }
    drop(client);
    owner.close().unwrap();
    let again = place.open();
    assert!(tree(&again).is_empty() && again.check().unwrap().problems.is_empty());
    again.close().unwrap();
}

#[test]
fn what_is_replaced_stays_the_same_file_for_all_that_name_it() {
    let (place, owner) = Place::new();
    let client = place.connect(OpenOptions::default());
    for vault in [&owner, &client] {
        vault.write("/file", content(200_000, 1)).unwrap();
        vault.link("/file", "/second").unwrap();
        vault.make_symlink("file", "/link").unwrap();
        let set = SetAttributes {
            mode: Some(0o604),
            ..SetAttributes::default()
        };
        let before = vault.set_attributes("/file", Links::Follow, &set).unwrap();
        vault
            .set_xattr("/file", Links::Follow, "user.a", "kept", XattrMode::Set)
            .unwrap();
        // By one message, beyond it, and through a symlink; also shorter than before, and empty.
        for (path, len) in [
            ("/file", 7),
            ("/link", 5 << 20),
            ("/file", 100_000),
            ("/file", 0),
        ] {
            let new = content(len, 3);
            vault.replace(path, &new, Durability::OnReturn).unwrap();
            assert!(vault.read("/second").unwrap() == new);
            let after = vault.attributes("/file", Links::Stay).unwrap();
            assert_eq!(
                (after.inode, after.mode, after.nlink),
                (before.inode, 0o604, 2)
            );
            assert_eq!(
                vault.xattr("/file", Links::Follow, "user.a").unwrap(),
                b"kept"
            );
        }
        vault
            .replace("/new", "made", Durability::WriteBehind)
            .unwrap();
        assert_eq!(vault.read("/new").unwrap(), b"made");
        let refused = vault.replace("/", "x", Durability::WriteBehind);
        assert!(matches!(refused, Err(Error::File(_))), "{refused:?}");
        for path in ["/file", "/second", "/link", "/new"] {
            vault.remove_file(path).unwrap();
        }
        assert!(vault.check().unwrap().problems.is_empty());
    }
}

/// What somebody else does meanwhile.
type Edit = fn(&Vault);

/// A transaction that reads before it decides: what it read must still be so when it commits.
#[test]
fn of_two_that_read_the_same_the_slower_one_changes_nothing() {
    let (place, owner) = Place::new();
    let client = place.connect(OpenOptions::default());
    owner.write("/balance", "100").unwrap();
    owner.make_directory("/letters", 0o755).unwrap();
    owner.make_symlink("target", "/dangling").unwrap();
    let begin = |vault: &Vault| {
        let mut transaction = vault.begin();
        assert_eq!(transaction.read("/balance").unwrap(), b"100");
        assert!(!transaction.exists("/receipt").unwrap());
        assert!(!transaction.exists("/dangling").unwrap());
        assert!(transaction.names("/letters").unwrap().is_empty());
        transaction
    };
    // What each does to the other's read; nothing of it is done by a transaction that was rolled back.
    let changes: [(&str, Edit); 5] = [
        ("content", |vault| vault.write("/balance", "200").unwrap()),
        ("a name that was missing", |vault| {
            vault.write("/receipt", "").unwrap()
        }),
        // Failed before: the commit went through.
        ("what a symlink points to, which was missing", |vault| {
            vault.write("/target", "").unwrap()
        }),
        ("a listing", |vault| {
            vault.write("/letters/one", "").unwrap()
        }),
        ("nothing", |_| {}),
    ];
    for (what, change) in changes {
        let mut slow = begin(&client);
        slow.write("/balance", "1").write("/new", "1");
        let mut given_up = begin(&owner);
        given_up.write("/balance", "2");
        given_up.roll_back();
        change(&owner);
        let committed = slow.commit(Durability::OnReturn);
        if what == "nothing" {
            committed.unwrap();
            assert_eq!(owner.read("/new").unwrap(), b"1");
        } else {
            assert!(
                matches!(committed, Err(Error::Changed)),
                "{what}: {committed:?}"
            );
            assert!(!owner.exists("/new").unwrap(), "{what}");
        }
        // As it was, for the next one.
        if what == "content" {
            owner.write("/balance", "100").unwrap();
        }
        for made in ["/receipt", "/target", "/letters/one", "/new"] {
            if owner.exists(made).unwrap() {
                owner.remove_file(made).unwrap();
            }
        }
    }
}

#[test]
fn a_transaction_reads_what_was_there_before_it_and_not_what_it_changes() {
    let (_place, vault) = Place::new();
    vault.create_dir_all("/a/b", 0o755).unwrap();
    vault.write("/a/b/file", "1").unwrap();
    let mut transaction = vault.begin();
    assert_eq!(transaction.read_to_string("/a/b/file").unwrap(), "1");
    transaction.rename("/a/b", "/a/c", RenameMode::Replace);
    for path in ["/a/b/file", "/a/b", "/a/c/file", "/a", "/"] {
        let read = transaction.attributes(path, Links::Follow);
        let refused = matches!(read, Err(Error::File(FileError::InvalidArgument(_))));
        assert!(refused, "{path}: {read:?}");
    }
    transaction.attributes("/a2", Links::Follow).unwrap_err();
    // The index is that of the change, whatever was read before it.
    transaction.remove_file("/nothing");
    let failed = transaction.commit(Durability::WriteBehind);
    assert!(
        matches!(failed, Err(Error::Operation { index: 1, .. })),
        "{failed:?}"
    );
    assert!(vault.exists("/a/b/file").unwrap());
    // What somebody else changed between two reads is known at once.
    let mut transaction = vault.begin();
    transaction.read("/a/b/file").unwrap();
    vault.write("/a/b/file", "22").unwrap();
    assert!(matches!(transaction.read("/a/b/file"), Err(Error::Changed)));
}
