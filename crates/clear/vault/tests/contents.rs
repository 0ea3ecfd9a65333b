//! Hashes of contents through the public API: the same for owner and client, in snapshots, in a read-only vault, and after files
//! change.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use strongroom::filesystem::{Error as FileError, InodeId};
use strongroom::{
    ContentHash, EqualContents, Error, FileOptions, GoOn, HashAlgorithm, HashPrefix, Links,
    NamedContent, NewRevision, OpenOptions, Vault,
};

use support::{Place, content};

const BLAKE3: HashAlgorithm = HashAlgorithm::Blake3;

impl Place {
    fn connect(&self, options: OpenOptions) -> Vault {
        let connected = Vault::connect_if_owned(self.folder(), options).unwrap();
        connected.expect("somebody owns it")
    }
}

/// What `b3sum` would say.
fn b3(bytes: &[u8]) -> ContentHash {
    let mut hasher = strongroom_crypto::ContentHasher::new(BLAKE3);
    hasher.update(bytes);
    ContentHash(hasher.finish())
}

fn prefix(hash: &ContentHash) -> HashPrefix {
    HashPrefix::parse(&hash.to_string()[..10]).unwrap()
}

/// The paths of all files whose content has that hash, after everything was hashed.
fn paths(vault: &Vault, hash: &ContentHash) -> Vec<String> {
    let prefix = prefix(hash);
    let all = vault
        .hash_everything(BLAKE3, Some(&prefix), &mut |_| GoOn::Yes)
        .unwrap();
    assert!(all.finished && all.failed.is_empty(), "{all:?}");
    let mut found = Vec::new();
    vault
        .contents_with(&prefix, BLAKE3, &all, |file: NamedContent| {
            assert_eq!(file.hash, *hash);
            assert_eq!(file.nlink as usize, file.paths.len());
            found.extend(file.paths);
            Ok::<(), Error>(())
        })
        .unwrap();
    let mut found: Vec<String> = found
        .into_iter()
        .map(|path| String::from_utf8(path).unwrap())
        .collect();
    found.sort();
    found
}

fn equal(vault: &Vault) -> Vec<EqualContents> {
    let mut groups = Vec::new();
    vault
        .equal_contents(BLAKE3, 0, |group| {
            groups.push(group);
            Ok::<(), Error>(())
        })
        .unwrap();
    groups
}

#[test]
fn owner_and_client_give_the_same_hash_and_the_second_call_reads_nothing() {
    let (place, owner) = Place::new();
    let big = content(9 << 20, 1);
    owner.write("/big", &big).unwrap();
    owner.write("/small", "small").unwrap();
    let client = place.connect(OpenOptions::read_only());
    assert_eq!(client.content_hash("/big", BLAKE3).unwrap(), b3(&big));
    let inode = |path: &str| owner.attributes(path, Links::Stay).unwrap().inode;
    let inodes = [inode("/big"), inode("/small"), InodeId(1), InodeId(999)];
    let mut read = 0;
    let mut hashes = |vault: &Vault| {
        vault
            .content_hashes(&inodes, BLAKE3, &mut |bytes| {
                read += bytes;
                GoOn::Yes
            })
            .unwrap()
            .unwrap()
    };
    let first = hashes(&owner);
    assert_eq!(first[1].as_ref().unwrap().hash, b3(b"small"));
    assert!(first[0].as_ref().unwrap().stored);
    assert!(matches!(
        (&first[2], &first[3]),
        (
            Err(Error::File(FileError::IsADirectory)),
            Err(Error::File(FileError::Stale))
        )
    ));
    let second = hashes(&client);
    assert_eq!(second[0].as_ref().unwrap().hash, b3(&big));
    assert_eq!(read, 5, "the big one was hashed for the client before");
    assert!(matches!(
        client.content_hash("/none", BLAKE3),
        Err(Error::File(FileError::NotFound))
    ));
}

#[test]
fn every_path_of_a_content_is_found_hard_links_and_copies_alike() {
    let (place, vault) = Place::new();
    let one = content(300_000, 1);
    vault.make_directory("/d", 0o755).unwrap();
    vault.write("/one", &one).unwrap();
    vault.link("/one", "/d/link").unwrap();
    vault.write("/d/copy", &one).unwrap();
    vault.write("/other", content(300_000, 2)).unwrap();
    vault.make_symlink("/one", "/symlink").unwrap();
    let all = ["/d/copy", "/d/link", "/one"];
    assert_eq!(paths(&vault, &b3(&one)), all);
    vault
        .rename("/d", "/e", strongroom::filesystem::RenameMode::Replace)
        .unwrap();
    vault.write("/one", "changed").unwrap();
    assert_eq!(paths(&vault, &b3(&one)), ["/e/copy"]);
    assert_eq!(paths(&vault, &b3(b"changed")), ["/e/link", "/one"]);
    let nobody: [&str; 0] = [];
    assert_eq!(paths(&vault, &b3(b"nobody has it")), nobody);
    vault.close().unwrap();
    let again = place.open_with(OpenOptions::default());
    let report = again
        .hash_everything(BLAKE3, None, &mut |_| GoOn::Yes)
        .unwrap();
    assert_eq!((report.files, report.bytes), (0, 0), "all is remembered");
}

#[test]
fn files_of_snapshots_are_hashed_as_they_were_and_restored_ones_as_they_are() {
    let (_place, vault) = Place::new();
    vault.write("/a", "before").unwrap();
    let before = vault
        .take_revision(&NewRevision::default())
        .unwrap()
        .unwrap();
    assert_eq!(vault.content_hash("/a", BLAKE3).unwrap(), b3(b"before"));
    vault.write("/a", "after").unwrap();
    let kept = format!("/.history/{}/a", before.id);
    assert_eq!(vault.content_hash(&kept, BLAKE3).unwrap(), b3(b"before"));
    assert_eq!(vault.content_hash("/a", BLAKE3).unwrap(), b3(b"after"));
    vault.restore(before.id, "/a", "/a").unwrap();
    assert_eq!(vault.content_hash("/a", BLAKE3).unwrap(), b3(b"before"));
    vault.write("/b", "longer than before").unwrap();
    vault.content_hash("/b", BLAKE3).unwrap();
    let source = vault.open_file(&kept, FileOptions::new().read()).unwrap();
    let target = vault
        .open_file("/b", FileOptions::new().read().write())
        .unwrap();
    assert_eq!(source.copy_range(0, &target, 0, 6).unwrap(), 6);
    let expected = b3(b"before than before");
    assert_eq!(vault.content_hash("/b", BLAKE3).unwrap(), expected);
    assert_eq!(vault.content_hash("/b", HashAlgorithm::Sha256).unwrap(), {
        let mut hasher = strongroom_crypto::ContentHasher::new(HashAlgorithm::Sha256);
        hasher.update(b"before than before");
        ContentHash(hasher.finish())
    });
}

#[test]
fn hashing_that_was_interrupted_keeps_what_it_has() {
    let (place, vault) = Place::new();
    for number in 0..1_500 {
        vault
            .write(format!("/{number}"), format!("{number}"))
            .unwrap();
    }
    let stopped = vault
        .hash_everything(BLAKE3, None, &mut |_| GoOn::No)
        .unwrap();
    assert!(!stopped.finished);
    vault.close().unwrap();
    let vault = place.open_with(OpenOptions::default());
    let rest = vault
        .hash_everything(BLAKE3, None, &mut |_| GoOn::Yes)
        .unwrap();
    assert!(rest.finished);
    assert_eq!(rest.files, 1_500 - 1_024, "one request's worth was kept");
}

#[test]
fn a_vault_that_is_open_for_reading_finds_contents_without_remembering_them() {
    let (place, vault) = Place::new();
    vault.write("/a", "same").unwrap();
    vault.write("/b", "same").unwrap();
    vault.close().unwrap();
    let vault = place.open_with(OpenOptions::read_only());
    for _ in 0..2 {
        assert_eq!(paths(&vault, &b3(b"same")), ["/a", "/b"]);
    }
    let all = vault
        .hash_everything(BLAKE3, None, &mut |_| GoOn::Yes)
        .unwrap();
    assert_eq!((all.files, all.unstored), (2, 2));
    assert_eq!(equal(&vault), []);
}

#[test]
fn equal_files_are_told_with_all_their_names_and_whether_they_share_everything() {
    let (_place, vault) = Place::new();
    let same = content(100_000, 1);
    vault.write("/a", &same).unwrap();
    vault.link("/a", "/a-link").unwrap();
    vault.write("/b", &same).unwrap();
    vault.write("/c", "only one").unwrap();
    vault.link("/c", "/c-link").unwrap();
    vault.write("/empty", "").unwrap();
    vault.write("/void", "").unwrap();
    vault
        .hash_everything(BLAKE3, None, &mut |_| GoOn::Yes)
        .unwrap();
    let groups = equal(&vault);
    assert_eq!(groups.len(), 1, "{groups:?}");
    let named: Vec<_> = groups[0]
        .files
        .iter()
        .map(|file| (file.size, file.nlink, file.paths.len()))
        .collect();
    assert_eq!(named, [(100_000, 2, 2), (100_000, 1, 1)]);
    assert_eq!((groups[0].extra_bytes, groups[0].more), (0, 0));
}

/// Goal: many equal files with long names come in pages that fit a frame, and nothing is lost or told twice.
#[test]
fn many_groups_and_many_names_come_whole() {
    let (_place, vault) = Place::new();
    let long = "x".repeat(240);
    let mut path = String::new();
    for _ in 0..8 {
        path = format!("{path}/{long}");
        vault.make_directory(&path, 0o755).unwrap();
    }
    for group in 0..300 {
        for copy in 0..5 {
            let name = format!("{path}/{group}-{copy}");
            vault.write(name, format!("group {group}")).unwrap();
        }
    }
    vault
        .hash_everything(BLAKE3, None, &mut |_| GoOn::Yes)
        .unwrap();
    let groups = equal(&vault);
    assert_eq!(groups.len(), 300);
    for group in &groups {
        assert_eq!((group.files.len(), group.more), (5, 0));
        assert!(group.files.iter().all(|file| file.paths.len() == 1));
    }
    let mut hashes: Vec<_> = groups.iter().map(|group| group.files[0].hash).collect();
    hashes.dedup();
    assert_eq!(hashes.len(), 300);
}

#[test]
fn a_damaged_file_is_told_by_its_path_and_the_others_are_hashed() {
    let (place, vault) = Place::new();
    vault.write("/damaged", content(200_000, 1)).unwrap();
    vault.close().unwrap();
    let folders = std::fs::read_dir(place.folder().join("segments")).unwrap();
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let segment = files.next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let vault = place.open_with(OpenOptions::default());
    vault.write("/sound", "sound").unwrap();
    let all = vault
        .hash_everything(BLAKE3, None, &mut |_| GoOn::Yes)
        .unwrap();
    assert!(all.finished);
    assert_eq!(all.files, 1);
    let [(Some(path), Error::File(FileError::Damaged { .. }))] = &all.failed[..] else {
        panic!("{:?}", all.failed);
    };
    assert_eq!(path, b"/damaged");
}
