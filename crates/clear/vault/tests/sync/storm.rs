//! A conflict storm: two devices that were apart changed the same ten thousand files.

use strongroom::Vault;
use strongroom::filesystem::Durability;

use crate::Devices;

const FILES: usize = 10_000;
const FOLDERS: usize = 100;
/// As many operations as a transaction may have, or fewer.
const AT_ONCE: usize = 1_000;
/// Paths that a report of a pull lists at most.
const LISTED: usize = 1_000;

fn path(number: usize) -> String {
    format!("/{}/{number}.bin", number % FOLDERS)
}

/// No text, so that nothing is merged by lines.
fn words(word: &str, number: usize) -> String {
    format!("{word} {number}\0")
}

/// Gives each file its words.
fn write_all(vault: &Vault, word: &str) {
    for begin in (0..FILES).step_by(AT_ONCE) {
        let mut transaction = vault.begin();
        for number in begin..begin + AT_ONCE {
            transaction.write(path(number), words(word, number));
        }
        transaction.commit(Durability::WriteBehind).unwrap();
    }
}

/// Goal: ten thousand conflicts in one pull lose nothing and hold nobody up; each is listed, and a report of a pull stays short.
#[test]
fn ten_thousand_conflicts_at_once_keep_every_version() {
    let devices = Devices::new(2, |vault| {
        for number in 0..FOLDERS {
            vault.make_directory(format!("/{number}"), 0o755).unwrap();
        }
        write_all(vault, "first");
    });
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    write_all(one, "one");
    write_all(two, "two");
    devices.sync(0);
    let pulled = devices.sync(1).pulled;
    assert_eq!((pulled.conflicts, pulled.merged), (FILES as u64, 0));
    assert_eq!(pulled.conflict_paths.len(), LISTED);
    devices.settle();
    devices.assert_at_rest();
    for (vault, step) in [(one, 7), (two, 1)] {
        let conflicts = vault.conflicts(&mut |_| {}).unwrap();
        assert_eq!(conflicts.len(), FILES);
        for conflict in conflicts.iter().step_by(step) {
            let beside = String::from_utf8(conflict.beside.clone()).unwrap();
            let name = beside.rsplit('/').next().unwrap();
            let number = name.trim_end_matches(".bin").parse().unwrap();
            assert_eq!(beside, path(number));
            let published = vault.read(&beside).unwrap();
            assert_eq!(published, words("one", number).into_bytes());
            let copy = vault.read(&conflict.path[..]).unwrap();
            assert_eq!(copy, words("two", number).into_bytes());
        }
        let check = vault.check().unwrap();
        assert!(check.problems.is_empty(), "{check:?}");
    }
}
