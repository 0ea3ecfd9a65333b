//! Vaults with compressed content: every operation on content, also beside uncompressed content.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use strongroom::filesystem::{AllocateMode, Background, Options};
use strongroom::{
    Compression, CreateOptions, Error, FileOptions, GoOn, KeyFile, Keys, Loss, NewRevision,
    OpenOptions, RecoverOptions, RepairOptions, RevisionInfo, Secret, SystemRandom, Vault,
    VerifyOptions, VerifyReport, recover, repair,
};

const CELL: usize = 64 << 10;

struct Place {
    directory: tempfile::TempDir,
    secret: Secret,
}

impl Place {
    /// A vault that compresses.
    fn new() -> (Self, Vault) {
        let directory = tempfile::tempdir().unwrap();
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let created = Vault::create(directory.path().join("vault"), options).unwrap();
        created.vault.set_compression(Compression::Zstd).unwrap();
        created.vault.close().unwrap();
        let secret = Secret::KeyFile(key_file);
        let place = Self { directory, secret };
        let vault = place.open();
        (place, vault)
    }

    fn folder(&self) -> PathBuf {
        self.directory.path().join("vault")
    }

    fn open(&self) -> Vault {
        let options = OpenOptions {
            engine: Options {
                background: Background::Manual,
                threads: Some(2),
                ..Options::default()
            },
            ..OpenOptions::default()
        };
        Vault::open(self.folder(), self.secret.clone(), options).unwrap()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for folder in std::fs::read_dir(self.folder().join("segments")).unwrap() {
            for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
                all.push(file.unwrap().path());
            }
        }
        all.sort_by_key(|path| path.metadata().unwrap().len());
        all
    }

    fn remove_database(&self) {
        for name in ["metadata.db", "metadata.db-wal", "metadata.db-shm"] {
            let _ = std::fs::remove_file(self.folder().join(name));
        }
    }
}

/// Lines that differ a little: no two blocks of them are equal, and each gets much shorter.
fn text(len: usize, seed: usize) -> Vec<u8> {
    let line = |n: usize| {
        format!(
            "{seed}, {n}: one of many lines, {}\n",
            n * (n + seed) % 9973
        )
    };
    (0..).flat_map(|n| line(n).into_bytes()).take(len).collect()
}

/// Bytes that no compressor makes shorter.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn take(vault: &Vault, tag: &str) -> RevisionInfo {
    let new = NewRevision {
        tags: vec![tag.to_owned()],
        ..NewRevision::default()
    };
    vault.take_revision(&new).unwrap().unwrap()
}

fn verify(vault: &Vault) -> VerifyReport {
    let options = VerifyOptions {
        deep: true,
        resume: false,
    };
    vault.verify(options, &mut |_| GoOn::Yes).unwrap()
}

fn assert_sound(vault: &Vault) {
    let report = verify(vault);
    assert!(report.is_sound(), "{report:?}");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn counter(vault: &Vault, name: &str) -> u64 {
    let all = vault.counters().unwrap();
    all.iter().find(|(found, _)| found == name).unwrap().1
}

/// Bytes that went to segments while `work` ran.
fn appended(vault: &Vault, work: impl FnOnce()) -> u64 {
    let before = counter(vault, "segments.bytes_appended");
    work();
    vault.sync().unwrap();
    counter(vault, "segments.bytes_appended") - before
}

#[test]
fn text_takes_a_fraction_of_the_space_and_noise_no_more_than_without() {
    let (_place, vault) = Place::new();
    let of_text = appended(&vault, || vault.write("/text", text(4 << 20, 1)).unwrap());
    assert!(of_text < 2 << 20, "{of_text}");
    let saved = counter(&vault, "filesystem.bytes_saved");
    assert!(saved > 2 << 20, "{saved}");
    assert_eq!(counter(&vault, "filesystem.bytes_sealed"), 4 << 20);
    let with = appended(&vault, || vault.write("/noise", noise(4 << 20, 2)).unwrap());
    vault.set_compression(Compression::None).unwrap();
    let without = appended(&vault, || {
        vault.write("/noise2", noise(4 << 20, 3)).unwrap()
    });
    assert_eq!(with, without);
    let plain = appended(&vault, || vault.write("/text2", text(4 << 20, 4)).unwrap());
    assert!(plain > 4 << 20, "{plain}");
    assert_eq!(counter(&vault, "filesystem.bytes_saved"), saved);
    let seen = vault
        .attributes("/text", strongroom::Links::Follow)
        .unwrap();
    assert_eq!(
        (seen.size, seen.blocks * 512),
        (4 << 20, 4 << 20),
        "what a file holds is no secret"
    );
}

#[test]
fn the_choice_is_kept_and_may_change_and_what_was_stored_before_stays_readable() {
    let (place, vault) = Place::new();
    vault.write("/one", text(300_000, 1)).unwrap();
    vault.sync().unwrap();
    vault.set_compression(Compression::None).unwrap();
    vault.write("/two", text(300_000, 2)).unwrap();
    vault.close().unwrap();
    let vault = place.open();
    assert_eq!(vault.compression().unwrap(), Compression::None);
    vault.set_compression(Compression::Zstd).unwrap();
    vault.write("/three", text(300_000, 3)).unwrap();
    let client = Vault::connect_if_owned(place.folder(), OpenOptions::default());
    let client = client.unwrap().unwrap();
    assert_eq!(client.compression().unwrap(), Compression::Zstd);
    client.set_compression(Compression::None).unwrap();
    assert_eq!(vault.compression().unwrap(), Compression::None);
    client.set_compression(Compression::Zstd).unwrap();
    drop(client);
    vault.close().unwrap();
    let vault = place.open();
    assert_eq!(vault.information().unwrap().compression, "zstd");
    for (name, seed) in [("/one", 1), ("/two", 2), ("/three", 3)] {
        assert_eq!(vault.read(name).unwrap(), text(300_000, seed), "{name}");
    }
    assert_sound(&vault);
    vault.close().unwrap();
    let reading = OpenOptions::read_only();
    let vault = Vault::open(place.folder(), place.secret.clone(), reading).unwrap();
    assert!(vault.set_compression(Compression::None).is_err());
    assert_eq!(vault.read("/one").unwrap(), text(300_000, 1));
}

/// Goal: the file is at every moment what a plain array of bytes would be, whatever of it is compressed.
#[test]
fn parts_are_read_overwritten_cut_punched_and_shared_as_without_compression() {
    let (place, mut vault) = Place::new();
    let mut expected = text(1_000_000, 1);
    vault.write("/file", &expected).unwrap();
    let options = || FileOptions::new().read().write();
    for round in 0..40_usize {
        let file = vault.open_file("/file", options()).unwrap();
        let at = round * 104_729 % expected.len();
        let len = (1 + round * 7_919 % 90_000).min(expected.len() - at);
        match round % 5 {
            0 => {
                let bytes = text(len, round);
                file.write_all_at(&bytes, at as u64).unwrap();
                expected[at..at + len].copy_from_slice(&bytes);
            }
            1 => {
                let bytes = noise(len, round as u64);
                file.write_all_at(&bytes, at as u64).unwrap();
                expected[at..at + len].copy_from_slice(&bytes);
            }
            2 => {
                let (offset, len) = (at as u64, len as u64);
                file.allocate(AllocateMode::PunchHole, offset, len).unwrap();
                expected[at..][..usize::try_from(len).unwrap()].fill(0);
            }
            3 => {
                file.set_len(expected.len() as u64 - 500).unwrap();
                expected.truncate(expected.len() - 500);
            }
            _ => vault.set_compression(Compression::ALL[round % 2]).unwrap(),
        }
        vault.sync().unwrap();
        let mut part = vec![0; 10_000];
        for from in (0..expected.len() - part.len()).step_by(77_777) {
            assert_eq!(file.read_at(&mut part, from as u64).unwrap(), part.len());
            assert_eq!(
                part,
                expected[from..from + part.len()],
                "round {round}, {from}"
            );
        }
        drop(file);
        if round % 8 == 7 {
            vault.compact().unwrap();
            vault.close().unwrap();
            vault = place.open();
            assert_eq!(vault.read("/file").unwrap(), expected, "round {round}");
        }
    }
    let file = vault.open_file("/file", options()).unwrap();
    let copy = vault.open_file("/copy", options().create()).unwrap();
    let shared = file.copy_range(0, &copy, 0, expected.len() as u64);
    assert_eq!(shared.unwrap(), expected.len() as u64);
    drop(copy);
    file.write_all_at(b"changed", 70_000).unwrap();
    assert_eq!(vault.read("/copy").unwrap(), expected);
    expected[70_000..70_007].copy_from_slice(b"changed");
    assert_eq!(vault.read("/file").unwrap(), expected);
    drop(file);
    assert_sound(&vault);
}

#[test]
fn equal_content_is_one_block_while_the_choice_stays() {
    let (_place, vault) = Place::new();
    vault.write("/one", text(1 << 20, 1)).unwrap();
    vault.sync().unwrap();
    let again = appended(&vault, || vault.write("/two", text(1 << 20, 1)).unwrap());
    assert_eq!(again, 0);
}

#[test]
fn small_content_that_travels_in_the_commit_is_compressed_and_settles() {
    let (place, vault) = Place::new();
    for number in 0..50 {
        vault
            .write(format!("/{number}"), text(3_000, number))
            .unwrap();
        vault.sync().unwrap();
    }
    assert!(counter(&vault, "filesystem.bytes_saved") > 50_000);
    vault.close().unwrap();
    let vault = place.open();
    vault.compact().unwrap();
    for number in 0..50 {
        assert_eq!(
            vault.read(format!("/{number}")).unwrap(),
            text(3_000, number)
        );
    }
    assert_sound(&vault);
}

#[test]
fn snapshots_are_compressed_too_and_outlive_a_change_of_the_choice() {
    let (place, vault) = Place::new();
    let fill = |vault: &Vault, seed: usize| {
        for number in 0..400 {
            vault
                .write(format!("/{number}"), text(500, number + seed))
                .unwrap();
        }
        vault.sync().unwrap();
    };
    fill(&vault, 0);
    let with = appended(&vault, || drop(take(&vault, "with")));
    vault.set_compression(Compression::None).unwrap();
    fill(&vault, 1000);
    let without = appended(&vault, || drop(take(&vault, "without")));
    assert!(with < without * 3 / 4, "{with} {without}");
    vault.set_compression(Compression::Zstd).unwrap();
    vault.write("/7", "changed").unwrap();
    let third = take(&vault, "third");
    vault.close().unwrap();
    let vault = place.open();
    for (tag, seed) in [("with", 0), ("without", 1000)] {
        let kept = vault.read(format!("/.history/t:{tag}/7")).unwrap();
        assert_eq!(kept, text(500, 7 + seed));
    }
    let same = NewRevision {
        only_if_changed: true,
        ..NewRevision::default()
    };
    assert_eq!(vault.take_revision(&same).unwrap(), None, "nothing changed");
    vault.restore(third.id, "/7", "/back").unwrap();
    assert_eq!(vault.read("/back").unwrap(), b"changed");
    assert_sound(&vault);
    for revision in vault.revisions().unwrap() {
        vault.remove_revision(revision.id).unwrap();
    }
    vault.compact().unwrap();
    assert_sound(&vault);
}

#[test]
fn a_rotation_seals_compressed_blocks_anew_under_their_names() {
    let (place, vault) = Place::new();
    vault.write("/file", text(1_000_000, 1)).unwrap();
    take(&vault, "one");
    vault.write("/file", text(900_000, 2)).unwrap();
    vault.write("/small", text(1_000, 3)).unwrap();
    vault.sync().unwrap();
    // Re-sealing compresses nothing and decompresses nothing, whatever is chosen now.
    vault.set_compression(Compression::None).unwrap();
    let mut keys = Keys::open(place.folder(), &place.secret).unwrap();
    keys.rotate().unwrap();
    while vault.rotate_step().unwrap() {}
    let done = vault.rotation().unwrap();
    assert_eq!((done.oldest_epoch, done.newest_epoch), (1, 1), "{done:?}");
    vault.close().unwrap();
    let vault = place.open();
    assert_eq!(vault.read("/file").unwrap(), text(900_000, 2));
    assert_eq!(vault.read("/small").unwrap(), text(1_000, 3));
    assert_eq!(
        vault.read("/.history/t:one/file").unwrap(),
        text(1_000_000, 1)
    );
    assert_sound(&vault);
}

#[test]
fn compressed_content_is_erased_and_what_comes_back_is_seen_again() {
    let (_place, vault) = Place::new();
    vault.write("/secret", text(900_000, 1)).unwrap();
    let first = take(&vault, "one");
    vault.remove_file("/secret").unwrap();
    vault.compact().unwrap();
    let erased = vault.erase("/secret", false).unwrap();
    assert!(erased.bytes > 50_000, "{erased:?}");
    let kept = format!("/.history/{}/secret", first.id);
    assert!(matches!(vault.read(&kept), Err(Error::File(_))));
    assert!(vault.check().unwrap().problems.is_empty());
    vault.write("/again", text(900_000, 1)).unwrap();
    vault.sync().unwrap();
    assert_eq!(vault.read(&kept).unwrap(), text(900_000, 1));
}

/// Goal: one altered bit costs exactly the bytes of its block, which is compressed, in the file that it is of.
#[test]
fn damage_of_a_compressed_block_is_told_by_file_and_block() {
    let (place, vault) = Place::new();
    let bytes = text(4 << 20, 1);
    vault.write("/file", &bytes).unwrap();
    let second = take(&vault, "one");
    vault.write("/other", text(100_000, 2)).unwrap();
    vault.close().unwrap();
    let path = place.segments().pop().unwrap();
    flip(&path, 300_000);
    let vault = place.open();
    let report = verify(&vault);
    assert_eq!(report.progress.damaged_blocks, 1, "{report:?}");
    let [damage] = &report.damages[..] else {
        panic!("{report:?}");
    };
    assert_eq!((&damage.path[..], damage.now), (&b"/file"[..], true));
    assert_eq!(damage.revisions, [second.id]);
    let Loss::Content(start, end) = damage.what else {
        panic!("{damage:?}");
    };
    assert_eq!((end - start, start % CELL as u64), (CELL as u64, 0));
    let file = vault.open_file("/file", FileOptions::new().read()).unwrap();
    for cell in (0..bytes.len()).step_by(CELL) {
        let mut part = vec![0; CELL];
        let read = file.read_at(&mut part, cell as u64);
        assert_eq!(read.is_err(), cell as u64 == start, "at {cell}");
        if read.is_ok() {
            assert_eq!(part, bytes[cell..cell + CELL]);
        }
    }
    assert_eq!(vault.read("/other").unwrap(), text(100_000, 2));
    // The same content stored again takes the place of what is damaged.
    vault.write("/again", &bytes).unwrap();
    vault.sync().unwrap();
    assert_eq!(vault.read("/file").unwrap(), bytes);
}

#[test]
fn a_lost_block_is_mended_from_a_copy_and_by_storing_its_content_again() {
    let (place, vault) = Place::new();
    let bytes = text(600 << 10, 2);
    vault.write("/file", &bytes).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let path = place.segments().pop().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let mend = || {
        repair(
            place.folder(),
            &place.secret,
            RepairOptions::default(),
            &mut |_| {},
        )
    };
    flip(&path, 30_000);
    assert_eq!(mend().unwrap().lost_blocks, 1);
    std::fs::write(&path, &sound).unwrap();
    assert!(mend().unwrap().is_whole());
    let vault = place.open();
    assert_eq!(vault.read("/file").unwrap(), bytes);
    assert_sound(&vault);
    vault.compact().unwrap();
    vault.close().unwrap();
    for path in place.segments() {
        std::fs::remove_file(path).unwrap();
    }
    assert!(mend().unwrap().lost_blocks >= 10);
    let vault = place.open();
    assert!(vault.read("/file").is_err());
    vault.write("/copy", &bytes).unwrap();
    vault.close().unwrap();
    let vault = place.open();
    assert_eq!(vault.read("/file").unwrap(), bytes);
    assert_sound(&vault);
}

/// Goal: nodes come back from the living state, also when the choice has changed since they were made.
#[test]
fn lost_nodes_are_built_anew_as_they_were_compressed() {
    let (place, vault) = Place::new();
    for number in 0..300 {
        vault
            .write(format!("/{number}"), noise(50, number))
            .unwrap();
    }
    vault.compact().unwrap();
    let before = place.segments();
    take(&vault, "one");
    vault.compact().unwrap();
    vault.set_compression(Compression::None).unwrap();
    vault.close().unwrap();
    let nodes = place
        .segments()
        .into_iter()
        .find(|path| !before.contains(path));
    std::fs::remove_file(nodes.unwrap()).unwrap();
    let report = repair(
        place.folder(),
        &place.secret,
        RepairOptions::default(),
        &mut |_| {},
    );
    assert!(report.unwrap().mended_blocks > 0);
    let vault = place.open();
    assert_eq!(vault.read("/.history/t:one/7").unwrap(), noise(50, 7));
    assert_sound(&vault);
}

/// Goal: without its database a vault comes back whole, what no revision names included, and goes on without compression.
#[test]
fn a_deleted_database_is_rebuilt_from_compressed_blocks() {
    let (place, vault) = Place::new();
    vault.write("/file", text(700_000, 1)).unwrap();
    vault.write("/noise", noise(100_000, 2)).unwrap();
    take(&vault, "one");
    vault.write("/file", text(800_000, 3)).unwrap();
    take(&vault, "two");
    let later = text(200_000, 4);
    vault.write("/later", &later).unwrap();
    vault.close().unwrap();
    place.remove_database();
    let report = recover(
        place.folder(),
        &place.secret,
        RecoverOptions::default(),
        &mut |_| {},
    );
    let report = report.unwrap();
    assert_eq!(
        (report.revisions, report.unnamed.1),
        (2, later.len() as u64)
    );
    let vault = place.open();
    assert_eq!(vault.compression().unwrap(), Compression::None);
    assert_eq!(vault.read("/file").unwrap(), text(800_000, 3));
    assert_eq!(vault.read("/noise").unwrap(), noise(100_000, 2));
    assert_eq!(
        vault.read("/.history/t:one/file").unwrap(),
        text(700_000, 1)
    );
    let found = vault.list("/lost+found").unwrap().next().unwrap().unwrap();
    let path = [&b"/lost+found/"[..], &found.name].concat();
    assert_eq!(vault.read(path).unwrap(), later);
    assert_sound(&vault);
    vault.compact().unwrap();
    assert_sound(&vault);
}
