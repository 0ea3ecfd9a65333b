//! The records of seen vaults: they distinguish an older folder, a look-alike, a copy and a moved folder.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strongroom::{
    AddKey, AgeIdentity, AgeRecipient, CreateOptions, Error, Fingerprint, IfOlder, KeyFile, Keys,
    LastSeen, NewKey, OpenOptions, RecoverOptions, RecoveryCode, Secret, SeenRecords, SystemRandom,
    Trust, Vault, last_seen,
};

/// A key made for this test alone; it opens nothing else.
const SSH_KEY: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBW3Bup/vUgyScPUAecrUCcIwoxolVZoEifOLLTAWZsCgAAAIiSiN6kkoje
pAAAAAtzc2gtZWQyNTUxOQAAACBW3Bup/vUgyScPUAecrUCcIwoxolVZoEifOLLTAWZsCg
AAAEChl0TdTKHRYrYmMaRWVNX4xGvlu7r8is8aSHn6XHJpIFbcG6n+9SDJJw9QB5ytQJwj
CjGiVVmgSJ84stMBZmwKAAAABHRlc3QB
-----END OPENSSH PRIVATE KEY-----
";
const SSH_PUBLIC: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFbcG6n+9SDJJw9QB5ytQJwjCjGiVVmgSJ84stMBZmwK test";

/// A user: a home with records, vaults, and a key that opens them.
struct User {
    directory: tempfile::TempDir,
    key: KeyFile,
}

impl User {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            key: KeyFile::random(&SystemRandom).unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn records(&self) -> PathBuf {
        self.path("state/vaults")
    }

    fn seen(&self) -> SeenRecords {
        SeenRecords::In(self.records())
    }

    fn trust(&self) -> Trust {
        Trust {
            seen: self.seen(),
            ..Trust::default()
        }
    }

    fn options(&self, trust: Trust) -> OpenOptions {
        OpenOptions {
            trust,
            ..OpenOptions::default()
        }
    }

    /// A new vault with a file, closed; gives its fingerprint.
    fn init(&self, name: &str) -> String {
        let options = CreateOptions::new()
            .key_file(self.key.clone())
            .recipient(AgeRecipient::parse(SSH_PUBLIC).unwrap())
            .seen(self.seen());
        let created = Vault::create(self.path(name), options).unwrap();
        created.vault.write("/a", "first").unwrap();
        created.vault.close().unwrap();
        created.fingerprint
    }

    fn open(&self, name: &str) -> Result<Vault, Error> {
        self.open_as(name, self.trust())
    }

    fn open_as(&self, name: &str, trust: Trust) -> Result<Vault, Error> {
        let secret = Secret::KeyFile(self.key.clone());
        Vault::open(self.path(name), secret, self.options(trust))
    }

    fn open_reading(&self, name: &str) -> Result<Vault, Error> {
        let options = OpenOptions {
            trust: self.trust(),
            ..OpenOptions::read_only()
        };
        Vault::open(self.path(name), Secret::KeyFile(self.key.clone()), options)
    }

    fn open_with_ssh(&self, name: &str, trust: Trust) -> Result<Vault, Error> {
        let identity = AgeIdentity::parse(SSH_KEY.as_bytes(), None).unwrap();
        let secret = Secret::Identity(identity);
        Vault::open(self.path(name), secret, self.options(trust))
    }

    /// Opens the vault, writes `content` and closes it.
    fn write(&self, name: &str, content: &str) {
        let vault = self.open(name).unwrap();
        vault.write("/a", content).unwrap();
        vault.close().unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let vault = self.open(name).unwrap();
        let content = vault.read("/a").unwrap();
        vault.close().unwrap();
        content
    }

    fn copy(&self, from: &str, to: &str) {
        copy_folder(&self.path(from), &self.path(to));
    }

    /// Puts `from` in the place of `name`, as somebody does who can write the folder above.
    fn put_back(&self, from: &str, name: &str) {
        fs::rename(self.path(name), self.path(&format!("{name}-taken-away"))).unwrap();
        self.copy(from, name);
    }

    fn last_seen(&self, name: &str) -> LastSeen {
        last_seen(self.path(name), &self.seen()).unwrap()
    }

    fn instance(&self, name: &str) -> String {
        let replica = fs::read_to_string(self.path(name).join("replica.json")).unwrap();
        let line = replica.lines().find(|line| line.contains("\"instance\""));
        line.unwrap().to_owned()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Every file below `folder` with its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

fn is_older<T>(opened: &Result<T, Error>) -> bool {
    matches!(opened, Err(Error::OlderFolder(_)))
}

/// Failed before: the older folder opened without a word.
/// SECURITY.md, claim 11.
#[test]
fn an_older_folder_put_back_is_refused_for_writing_and_reading_and_nothing_of_it_is_changed() {
    let user = User::new();
    user.init("v");
    user.copy("v", "older");
    user.write("v", "second");
    user.put_back("older", "v");
    let before = files(&user.path("v"));
    let refused = user.open("v");
    assert!(is_older(&refused), "{refused:?}");
    let words = refused.err().unwrap().to_string();
    assert!(words.contains("Last seen at 2"), "{words}");
    assert!(words.contains("--accept-older"), "{words}");
    assert!(is_older(&user.open_reading("v")));
    let secret = Secret::KeyFile(user.key.clone());
    let keys = Keys::open_with(user.path("v"), &secret, user.trust());
    assert!(is_older(&keys), "{keys:?}");
    assert!(files(&user.path("v")) == before);
    // The newer one comes back and is as good as before.
    fs::remove_dir_all(user.path("v")).unwrap();
    fs::rename(user.path("v-taken-away"), user.path("v")).unwrap();
    assert_eq!(user.read("v"), b"second");
}

/// Goal: the files are put back inside of the folder, whose identity stays. Failed before: as above.
/// SECURITY.md, claim 11.
#[test]
fn older_files_put_back_into_the_same_folder_are_refused() {
    let user = User::new();
    user.init("v");
    user.copy("v", "older");
    user.write("v", "second");
    for (path, bytes) in files(&user.path("older")) {
        let name = path.strip_prefix(user.path("older")).unwrap();
        fs::write(user.path("v").join(name), bytes).unwrap();
    }
    assert!(is_older(&user.open("v")));
}

/// Failed before: the folder of before the removal opened, with the removed key too.
#[test]
fn a_folder_of_before_a_key_was_removed_is_refused() {
    let user = User::new();
    user.init("v");
    let code = RecoveryCode::random(&SystemRandom).unwrap();
    let secret = Secret::KeyFile(user.key.clone());
    let mut keys = Keys::open_with(user.path("v"), &secret, user.trust()).unwrap();
    let new = AddKey::Other(NewKey::RecoveryCode(code.clone()));
    keys.add("somebody's", new).unwrap();
    user.copy("v", "before");
    let slot = keys.slots().last().unwrap().id;
    keys.remove(slot).unwrap();
    user.write("v", "after the removal");
    user.put_back("before", "v");
    assert!(is_older(&user.open("v")));
    let removed = Vault::open(
        user.path("v"),
        Secret::RecoveryCode(code),
        user.options(user.trust()),
    );
    assert!(is_older(&removed), "{removed:?}");
}

/// Goal: also while the vault is open for long its record follows, and what a kill leaves is never behind it.
/// Method: the process "dies": its folder is copied while it is open, and the copy takes the place.
#[test]
fn what_is_durable_when_a_process_dies_is_not_behind_its_record() {
    let user = User::new();
    user.init("v");
    let vault = user.open("v").unwrap();
    for round in 0..5 {
        vault.write("/a", format!("round {round}")).unwrap();
        vault.sync().unwrap();
        let died = format!("died-{round}");
        user.copy("v", &died);
        let seen = user.last_seen("v");
        let recorded = seen.here.unwrap().commits.unwrap();
        let alone = Trust {
            seen: SeenRecords::In(user.path(&format!("state-{round}"))),
            ..Trust::default()
        };
        let opened = user.open_as(&died, alone.clone()).unwrap();
        let content = opened.read("/a").unwrap();
        assert_eq!(content, format!("round {round}").into_bytes());
        opened.close().unwrap();
        let found = last_seen(user.path(&died), &alone.seen).unwrap();
        assert!(found.here.unwrap().commits.unwrap() >= recorded);
    }
    vault.close().unwrap();
}

#[test]
fn a_restored_backup_is_accepted_by_order_gets_a_name_of_its_own_and_counts_from_then_on() {
    let user = User::new();
    user.init("v");
    user.copy("v", "backup");
    user.write("v", "second");
    let name = user.instance("v");
    user.put_back("backup", "v");
    let accepting = Trust {
        older: IfOlder::Accept,
        ..user.trust()
    };
    let vault = user.open_as("v", accepting).unwrap();
    assert_eq!(vault.read("/a").unwrap(), b"first");
    vault.close().unwrap();
    assert_ne!(user.instance("v"), name);
    let saved = fs::read(user.path("v/replica.json.saved")).unwrap();
    assert_eq!(saved, fs::read(user.path("v/replica.json")).unwrap());
    // Without the order from now on, and an older state than this is refused again.
    user.copy("v", "restored");
    user.write("v", "third");
    assert_eq!(user.read("v"), b"third");
    fs::remove_dir_all(user.path("v-taken-away")).unwrap();
    user.put_back("restored", "v");
    assert!(is_older(&user.open("v")));
}

#[test]
fn an_older_folder_accepted_for_reading_is_accepted_for_that_time() {
    let user = User::new();
    user.init("v");
    user.copy("v", "older");
    user.write("v", "second");
    user.put_back("older", "v");
    let options = OpenOptions {
        trust: Trust {
            older: IfOlder::Accept,
            ..user.trust()
        },
        ..OpenOptions::read_only()
    };
    let secret = Secret::KeyFile(user.key.clone());
    let vault = Vault::open(user.path("v"), secret, options).unwrap();
    assert_eq!(vault.read("/a").unwrap(), b"first");
    vault.close().unwrap();
    assert!(is_older(&user.open("v")));
}

#[test]
fn a_copy_beside_the_vault_opens_at_any_age_and_is_named_and_recorded_apart() {
    let user = User::new();
    user.init("v");
    user.copy("v", "copy");
    user.write("v", "second");
    let name = user.instance("v");
    let vault = user.open_reading("copy").unwrap();
    assert_eq!(vault.read("/a").unwrap(), b"first");
    vault.close().unwrap();
    assert_eq!(user.instance("copy"), name);
    assert_eq!(user.read("copy"), b"first");
    assert_ne!(user.instance("copy"), name);
    let of = user.path("v").canonicalize().unwrap();
    let own_name = user.instance("copy");
    assert_eq!(user.last_seen("copy").here.unwrap().copy_of, Some(of));
    assert_eq!(user.last_seen("v").here.unwrap().copy_of, None);
    assert_eq!(user.last_seen("v").places.len(), 2);
    // Both go on, each compared with itself.
    user.write("copy", "of the copy");
    user.write("v", "third");
    assert_eq!(
        (user.read("copy"), user.read("v")),
        (b"of the copy".to_vec(), b"third".to_vec())
    );
    assert_eq!(
        (user.instance("v"), user.instance("copy")),
        (name, own_name)
    );
    // The copy in the place of the vault is what was put back.
    user.put_back("copy", "v");
    assert!(is_older(&user.open("v")));
}

#[test]
fn a_moved_folder_opens_at_its_new_place_and_an_older_one_there_does_not() {
    let user = User::new();
    user.init("v");
    user.copy("v", "older");
    user.write("v", "second");
    fs::rename(user.path("v"), user.path("w")).unwrap();
    assert_eq!(user.read("w"), b"second");
    assert_eq!(user.last_seen("w").places.len(), 1);
    // To another disk: another identity, and the old place is gone.
    user.copy("w", "x");
    fs::remove_dir_all(user.path("w")).unwrap();
    assert_eq!(user.read("x"), b"second");
    fs::remove_dir_all(user.path("x")).unwrap();
    user.copy("older", "y");
    assert!(is_older(&user.open("y")));
}

/// Failed before: whatever vault lay at the path was used.
/// SECURITY.md, claim 12.
#[test]
fn a_path_where_another_vault_was_seen_is_refused_until_that_one_is_named_or_forgotten() {
    let user = User::new();
    let mine = user.init("v");
    let other = user.init("other");
    fs::rename(user.path("v"), user.path("elsewhere")).unwrap();
    fs::rename(user.path("other"), user.path("v")).unwrap();
    let refused = user.open("v");
    let words = match &refused {
        Err(error @ Error::PathOfAnother { .. }) => error.to_string(),
        _ => panic!("{refused:?}"),
    };
    for part in [mine.as_str(), &other, "--forget"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(user.last_seen("v").path_of_others.join(" "), mine);
    let expecting = |text: &str| Trust {
        expected_fingerprint: Some(Fingerprint::parse(text).unwrap()),
        ..user.trust()
    };
    let wrong = user.open_as("v", expecting(&mine));
    assert!(matches!(wrong, Err(Error::OtherVault { .. })), "{wrong:?}");
    user.open_as("v", expecting(&other))
        .unwrap()
        .close()
        .unwrap();
    // Known at this path from now on; and the first one still is.
    assert_eq!(user.read("v"), b"first");
    fs::rename(user.path("v"), user.path("other")).unwrap();
    fs::rename(user.path("elsewhere"), user.path("v")).unwrap();
    assert_eq!(user.read("v"), b"first");
}

#[test]
fn a_path_is_forgotten_by_order_and_taken_by_a_new_vault() {
    let user = User::new();
    user.init("v");
    user.init("other");
    fs::rename(user.path("v"), user.path("mine")).unwrap();
    fs::rename(user.path("other"), user.path("v")).unwrap();
    assert!(user.open("v").is_err());
    assert!(strongroom::forget(user.path("v"), &user.seen()).unwrap());
    assert!(!strongroom::forget(user.path("v"), &user.seen()).unwrap());
    assert_eq!(user.read("v"), b"first");
    fs::rename(user.path("v"), user.path("moved")).unwrap();
    user.init("v");
    user.write("v", "of the third vault");
    // The one that was here before is a stranger at this path now.
    fs::rename(user.path("v"), user.path("third")).unwrap();
    fs::rename(user.path("moved"), user.path("v")).unwrap();
    assert!(matches!(user.open("v"), Err(Error::PathOfAnother { .. })));
}

/// Failed before: a vault that somebody else made for the user's public key was used, and what was put in it was his.
/// SECURITY.md, claim 12.
#[test]
fn a_vault_that_anybody_could_make_for_an_ssh_key_is_not_used_before_its_fingerprint_was_compared()
{
    let (user, attacker) = (User::new(), User::new());
    let fingerprint = attacker.init("v");
    copy_folder(&attacker.path("v"), &user.path("v"));
    let before = files(&user.path("v"));
    let refused = user.open_with_ssh("v", user.trust());
    let found = match &refused {
        Err(error @ Error::UnknownVault { fingerprint }) => {
            let option = format!("--fingerprint {fingerprint}");
            assert!(error.to_string().contains(&option), "{error}");
            fingerprint.to_string()
        }
        _ => panic!("{refused:?}"),
    };
    assert_eq!(found, fingerprint);
    let secret = Secret::Identity(AgeIdentity::parse(SSH_KEY.as_bytes(), None).unwrap());
    let keys = Keys::open_with(user.path("v"), &secret, user.trust());
    assert!(matches!(keys, Err(Error::UnknownVault { .. })), "{keys:?}");
    let options = RecoverOptions {
        trust: user.trust(),
        ..RecoverOptions::default()
    };
    let recovered = strongroom::recover(user.path("v"), &secret, options, &mut |_| {});
    assert!(matches!(recovered, Err(Error::UnknownVault { .. })));
    // Where nothing is remembered it is asked every time.
    let nowhere = Trust {
        seen: SeenRecords::Nowhere,
        ..Trust::default()
    };
    let refused = user.open_with_ssh("v", nowhere);
    assert!(matches!(refused, Err(Error::UnknownVault { .. })));
    assert!(files(&user.path("v")) == before);
    let compared = Trust {
        expected_fingerprint: Fingerprint::parse(&fingerprint),
        ..user.trust()
    };
    user.open_with_ssh("v", compared).unwrap().close().unwrap();
    let again = user.open_with_ssh("v", user.trust()).unwrap();
    again.close().unwrap();
}

#[test]
fn who_made_a_vault_or_opened_it_with_a_passphrase_is_not_asked_for_its_fingerprint() {
    let user = User::new();
    user.init("v");
    let vault = user.open_with_ssh("v", user.trust()).unwrap();
    vault.close().unwrap();
    fs::remove_dir_all(user.records()).unwrap();
    assert_eq!(user.read("v"), b"first");
    let vault = user.open_with_ssh("v", user.trust()).unwrap();
    vault.close().unwrap();
}

/// Goal: a process that already has the look-alike open does not let a client past the check.
/// Method: the owner keeps no record; the folder it has open comes to lie at a path that is the user's.
#[test]
fn a_client_of_a_look_alike_is_refused_at_the_path_of_the_vault() {
    let user = User::new();
    user.init("v");
    user.init("look-alike");
    let nowhere = Trust {
        seen: SeenRecords::Nowhere,
        ..Trust::default()
    };
    let owner = user.open_as("look-alike", nowhere).unwrap();
    fs::rename(user.path("v"), user.path("taken-away")).unwrap();
    symlink(user.path("look-alike"), user.path("v")).unwrap();
    // The path without links is that of the other vault, as it always was.
    let through_a_link = Vault::connect_if_owned(user.path("v"), user.options(user.trust()));
    through_a_link.unwrap().unwrap().close().unwrap();
    fs::remove_file(user.path("v")).unwrap();
    fs::rename(user.path("look-alike"), user.path("v")).unwrap();
    let client = Vault::connect_if_owned(user.path("v"), user.options(user.trust()));
    assert!(matches!(client, Err(Error::PathOfAnother { .. })));
    let key = user.key.clone();
    let client = Vault::open_or_connect(
        user.path("v"),
        Arc::new(move || Ok(Secret::KeyFile(key.clone()))),
        user.options(user.trust()),
    );
    assert!(matches!(client, Err(Error::PathOfAnother { .. })));
    owner.close().unwrap();
}

#[test]
fn a_record_that_cannot_be_read_counts_as_none_and_is_made_again() {
    let user = User::new();
    user.init("v");
    user.copy("v", "older");
    user.write("v", "second");
    let names = fs::read_dir(user.records()).unwrap();
    let record = names
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "json"));
    let record = record.unwrap();
    fs::write(&record, "{ \"version\": 1,").unwrap();
    assert!(user.last_seen("v").trouble.is_some());
    user.put_back("older", "v");
    let asked = user.open_with_ssh("v", user.trust());
    assert!(matches!(asked, Err(Error::UnknownVault { .. })));
    assert_eq!(user.read("v"), b"first");
    let seen = user.last_seen("v");
    assert!(seen.trouble.is_none() && seen.here.is_some(), "{seen:?}");
    let mode = fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn where_nothing_can_be_recorded_vaults_open_and_it_can_be_asked_for() {
    let user = User::new();
    fs::write(user.path("state"), "no folder").unwrap();
    user.init("v");
    user.write("v", "second");
    assert_eq!(user.read("v"), b"second");
    let seen = user.last_seen("v");
    assert!(seen.kept_in.is_none() && seen.here.is_none());
    assert!(seen.trouble.is_some());
    let nowhere = last_seen(user.path("v"), &SeenRecords::Nowhere).unwrap();
    assert!(nowhere.kept_in.is_none() && nowhere.trouble.is_some());
}

#[test]
fn a_vault_whose_database_was_rebuilt_by_order_is_not_taken_for_an_older_one() {
    let user = User::new();
    user.init("v");
    for round in 0..20 {
        user.write("v", &format!("round {round}"));
    }
    let before = user.last_seen("v").here.unwrap().commits.unwrap();
    let options = RecoverOptions {
        rebuild: strongroom::Rebuild::Always,
        trust: user.trust(),
    };
    let secret = Secret::KeyFile(user.key.clone());
    strongroom::recover(user.path("v"), &secret, options, &mut |_| {}).unwrap();
    user.open("v").unwrap().close().unwrap();
    let after = user.last_seen("v").here.unwrap().commits.unwrap();
    assert!(after < before, "{after} {before}");
}

/// Goal: two vaults recorded by two processes at once lose nothing of each other.
#[test]
fn vaults_used_at_once_are_all_recorded() {
    let user = User::new();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let user = &user;
            scope.spawn(move || {
                let name = format!("v{number}");
                user.init(&name);
                for round in 0..5 {
                    user.write(&name, &format!("round {round}"));
                }
            });
        }
    });
    for number in 0..4 {
        let name = format!("v{number}");
        user.copy(&name, "older");
        user.write(&name, "last");
        user.put_back("older", &name);
        assert!(is_older(&user.open(&name)), "{number}");
        fs::remove_dir_all(user.path("older")).unwrap();
    }
}
