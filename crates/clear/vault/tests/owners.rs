//! Files that stay open, and locks that hold, while the owner of the vault changes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use strongroom::filesystem::{Durability, Error as FileError};
use strongroom::{
    CreateOptions, Error, File, FileOptions, GoOn, KeyFile, OpenOptions, Secret, SecretSource,
    SystemRandom, Vault,
};

use support::content;

/// Where the child process of a test finds its vault.
const VAULT: &str = "STRONGROOM_TEST_VAULT";

/// A vault, and the file with its key.
struct Place {
    directory: tempfile::TempDir,
    secret: Secret,
}

/// A process that owns the vault; killed at the end.
struct Owner {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyFile::random(&SystemRandom).unwrap();
        std::fs::write(directory.path().join("key"), key.text().as_bytes()).unwrap();
        let options = CreateOptions::new().key_file(key.clone());
        let created = Vault::create(directory.path().join("vault"), options).unwrap();
        created.vault.close().unwrap();
        let secret = Secret::KeyFile(key);
        Self { directory, secret }
    }

    /// Runs `test` again in a process that owns the vault; returns when it does.
    fn owner(&self, test: &str) -> Owner {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(VAULT, self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut owner = Owner { child, lines };
        owner.wait_for("ready");
        owner
    }

    /// Uses the vault through the owner, and can own it when that goes.
    fn join(&self) -> Vault {
        let secret = self.secret.clone();
        let source: SecretSource = Arc::new(move || Ok(secret.clone()));
        let folder = self.directory.path().join("vault");
        Vault::open_or_connect(folder, source, OpenOptions::default()).unwrap()
    }
}

impl Owner {
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended");
        }
    }

    fn say_on(&self) {
        writeln!(self.child.stdin.as_ref().unwrap()).unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Has it close the vault and end.
    fn leave(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the child process: the vault that it is to own.
fn as_child() -> Option<Vault> {
    let place = std::env::var_os(VAULT)?;
    let key = std::fs::read(Path::new(&place).join("key")).unwrap();
    let secret = Secret::KeyFile(KeyFile::parse(&key).unwrap());
    let folder = Path::new(&place).join("vault");
    Some(Vault::open(folder, secret, OpenOptions::default()).unwrap())
}

/// In the child process: owns the vault until it is killed, or the other side of its input goes.
fn own(vault: &Vault) {
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    vault.close().unwrap();
}

fn read(file: &File) -> Vec<u8> {
    let mut content = vec![0; 100];
    let count = file.read_at(&mut content, 0).unwrap();
    content.truncate(count);
    content
}

fn both() -> FileOptions {
    FileOptions::new().read().write().create()
}

/// Failed before: `OwnerGone` from each of them.
#[test]
fn an_open_file_goes_on_when_the_owner_is_killed_whatever_its_name_is_by_then() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let owner =
        place.owner("an_open_file_goes_on_when_the_owner_is_killed_whatever_its_name_is_by_then");
    let vault = place.join();
    assert!(!vault.is_owner());
    let file = vault.open_file("/file", both()).unwrap();
    file.write_all_at(b"durable", 0).unwrap();
    file.sync_data().unwrap();
    let append = vault
        .open_file("/file", FileOptions::new().append())
        .unwrap();
    let other = vault.open_file("/other", both()).unwrap();
    other.write_all_at(b"by the vault's sync", 0).unwrap();
    vault
        .rename(
            "/file",
            "/renamed",
            strongroom::filesystem::RenameMode::Replace,
        )
        .unwrap();
    vault.sync().unwrap();
    owner.kill();
    assert_eq!(read(&file), b"durable");
    assert!(vault.is_owner());
    append.write_all_at(b"!", 0).unwrap();
    assert_eq!(read(&file), b"durable!");
    assert_eq!(read(&other), b"by the vault's sync");
    // Both are open at the same owner now, and only for what they were opened for.
    assert_eq!(file.copy_range(0, &other, 0, 8).unwrap(), 8);
    assert_eq!(vault.read("/other").unwrap(), b"durable!ault's sync");
    assert!(matches!(
        append.read_at(&mut [0; 1], 0),
        Err(Error::NotOpenFor("reading"))
    ));
    assert!(!vault.exists("/file").unwrap());
    file.sync_all().unwrap();
    drop((file, append, other));
    vault.close().unwrap();
}

/// A copy between two files of which only one has noticed that the owner has gone.
#[test]
fn two_files_of_a_copy_meet_at_the_next_owner() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let owner = place.owner("two_files_of_a_copy_meet_at_the_next_owner");
    let vault = place.join();
    let [one, two] = ["/one", "/two"].map(|path| vault.open_file(path, both()).unwrap());
    one.write_all_at(b"1111", 0).unwrap();
    vault.sync().unwrap();
    owner.kill();
    assert_eq!(read(&one), b"1111");
    assert_eq!(one.copy_range(0, &two, 0, 4).unwrap(), 4);
    assert_eq!(two.copy_range(0, &one, 4, 4).unwrap(), 4);
    assert_eq!(read(&one), b"11111111");
    drop((one, two));
    vault.close().unwrap();
}

/// Goal: no loss is hidden. What was written and not synced may be gone with the owner, and no later sync may say it is durable.
#[test]
fn a_file_with_unsynced_writes_says_that_the_owner_has_gone_and_so_from_then_on() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let owner =
        place.owner("a_file_with_unsynced_writes_says_that_the_owner_has_gone_and_so_from_then_on");
    let vault = place.join();
    let file = vault.open_file("/file", both()).unwrap();
    file.write_all_at(b"durable", 0).unwrap();
    file.sync_all().unwrap();
    let reader = vault.open_file("/file", FileOptions::new().read()).unwrap();
    file.write_all_at(b"perhaps", 0).unwrap();
    owner.kill();
    // Of another file, at the next owner: it makes nothing durable of what went to the one before.
    vault.write("/next", "").unwrap();
    assert!(matches!(vault.sync(), Err(Error::OwnerGone)));
    vault.sync().unwrap();
    for _ in 0..2 {
        assert!(matches!(file.sync_all(), Err(Error::OwnerGone)));
        let read = Read::read(&mut &file, &mut [0; 4]);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionAborted);
    }
    let found = read(&reader);
    assert!(found == b"durable" || found == b"perhaps", "{found:?}");
    let again = vault.open_file("/file", both()).unwrap();
    again.write_all_at(b"written", 0).unwrap();
    again.sync_all().unwrap();
    assert_eq!(read(&reader), b"written");
    drop((file, reader, again));
    vault.close().unwrap();
}

/// Failed before: `OwnerGone`. An owner that closes says that all is durable, also to those who ask nothing at that time.
#[test]
fn a_file_with_unsynced_writes_goes_on_when_the_owner_closed_in_order() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let owner = place.owner("a_file_with_unsynced_writes_goes_on_when_the_owner_closed_in_order");
    let vault = place.join();
    let file = vault.open_file("/file", both()).unwrap();
    file.write_all_at(b"acknowledged", 0).unwrap();
    owner.leave();
    assert_eq!(read(&file), b"acknowledged");
    assert!(vault.is_owner());
    file.write_all_at(b"A", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(read(&file), b"Acknowledged");
    drop(file);
    vault.close().unwrap();
}

/// Goal: neither `sync` nor `close` hides that acknowledged changes of names are lost; each loss is said once, and none that is none.
/// Failed before: `Ok` from all of them, and `/lost` was not there.
#[test]
fn a_sync_or_close_says_once_that_the_owner_was_killed_before_changes_were_durable() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let own = || {
        place.owner(
            "a_sync_or_close_says_once_that_the_owner_was_killed_before_changes_were_durable",
        )
    };
    let gone = |result| matches!(result, Err(Error::OwnerGone));
    // `close` of one that has not noticed; of one that has; `sync`.
    for notices in [false, true] {
        let owner = own();
        let vault = place.join();
        vault.write("/lost", "x").unwrap();
        vault.make_directory(format!("/{notices}"), 0o755).unwrap();
        owner.kill();
        if notices {
            vault.attributes("/", strongroom::Links::Stay).unwrap();
            assert!(vault.is_owner());
        }
        assert!(gone(vault.close()));
        vault.close().unwrap();
        let owner = own();
        let vault = place.join();
        vault.write("/kept", "x").unwrap();
        vault.sync().unwrap();
        owner.kill();
        // Nothing is lost.
        if notices {
            vault.sync().unwrap();
        }
        vault.close().unwrap();
        let owner = own();
        let vault = place.join();
        vault
            .replace("/replaced", "durable", Durability::OnReturn)
            .unwrap();
        owner.kill();
        vault.sync().unwrap();
        vault.close().unwrap();
    }
    let owner = own();
    let vault = place.join();
    vault.write("/lost", "x").unwrap();
    owner.kill();
    assert!(gone(vault.sync()));
    vault.sync().unwrap();
    vault.close().unwrap();
    // One that closes in order loses nothing.
    let owner = own();
    let vault = place.join();
    vault.write("/left", "x").unwrap();
    owner.leave();
    vault.sync().unwrap();
    assert_eq!(vault.read("/left").unwrap(), b"x");
    vault.close().unwrap();
}

/// Failed before: what was written in the last second or two was gone.
#[test]
fn what_was_done_through_another_process_is_durable_when_the_vault_is_closed_or_dropped() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    for (number, closes) in [true, false].into_iter().enumerate() {
        let owner = place.owner(
            "what_was_done_through_another_process_is_durable_when_the_vault_is_closed_or_dropped",
        );
        let vault = place.join();
        vault.write(format!("/{number}"), "acknowledged").unwrap();
        vault.make_directory(format!("/d{number}"), 0o755).unwrap();
        if closes {
            vault.close().unwrap();
        }
        drop(vault);
        owner.kill();
        let vault = place.join();
        assert_eq!(vault.read(format!("/{number}")).unwrap(), b"acknowledged");
        assert!(vault.exists(format!("/d{number}")).unwrap());
        vault.close().unwrap();
    }
}

/// Method: the owner has something to sync and does nothing by itself, so that each sync is counted.
#[test]
fn closing_costs_a_sync_only_if_something_changed_through_this_opening() {
    let place = Place::new();
    let folder = place.directory.path().join("vault");
    let mut options = OpenOptions::default();
    options.engine.background = strongroom::filesystem::Background::Manual;
    let owner = Vault::open(&folder, place.secret.clone(), options).unwrap();
    let syncs = || {
        let counters = owner.counters().unwrap();
        let found = counters.iter().find(|one| one.0 == "metadata.log_syncs");
        found.unwrap().1
    };
    owner.write("/file", "waits for a sync").unwrap();
    let before = syncs();
    for _ in 0..2 {
        let vault = place.join();
        assert_eq!(vault.read("/file").unwrap(), b"waits for a sync");
        vault.make_directory("/", 0o755).unwrap_err();
        vault.close().unwrap();
    }
    assert_eq!(syncs(), before);
    let vault = place.join();
    vault.write("/other", "").unwrap();
    vault.sync().unwrap();
    let synced = syncs();
    assert!(synced > before);
    owner.write("/file", "waits again").unwrap();
    vault.close().unwrap();
    assert_eq!(syncs(), synced);
    owner.close().unwrap();
}

#[test]
fn a_file_that_is_gone_with_the_owner_is_stale_and_none_takes_its_place() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let owner = place.owner("a_file_that_is_gone_with_the_owner_is_stale_and_none_takes_its_place");
    let vault = place.join();
    vault.write("/unlinked", "x").unwrap();
    vault.write("/kept", "of the snapshot").unwrap();
    let new = strongroom::NewRevision {
        message: String::new(),
        tags: vec!["t".to_owned()],
        only_if_changed: false,
    };
    vault.take_revision(&new).unwrap().unwrap();
    let kept = vault.at("t:t").unwrap().open_file("/kept").unwrap();
    vault.sync().unwrap();
    let unlinked = vault
        .open_file("/unlinked", FileOptions::new().read())
        .unwrap();
    vault.remove_file("/unlinked").unwrap();
    vault.sync().unwrap();
    // The creation of this one is not synced: after the kill its number may be another file's.
    let unsynced = vault.unnamed_file("/", 0o600).unwrap();
    owner.kill();
    for number in 0..20 {
        vault.write(format!("/{number}"), "foreign").unwrap();
    }
    for file in [&unlinked, &unsynced] {
        let gone = file.attributes();
        assert!(
            matches!(gone, Err(Error::File(FileError::Stale))),
            "{gone:?}"
        );
    }
    // A file of a snapshot is found by its path.
    assert_eq!(read(&kept), b"of the snapshot");
    drop((unlinked, unsynced, kept));
    // The creation of the one without a name.
    assert!(matches!(vault.close(), Err(Error::OwnerGone)));
}

/// Failed before: there were no locks.
#[test]
fn a_lock_holds_between_processes_and_goes_with_its_file_or_its_process() {
    if let Some(vault) = as_child() {
        let file = vault.open_file("/lock", both()).unwrap();
        file.lock().unwrap();
        println!("ready");
        let mut input = BufReader::new(std::io::stdin());
        input.read_line(&mut String::new()).unwrap();
        file.unlock().unwrap();
        println!("unlocked");
        input.read_line(&mut String::new()).unwrap();
        // Those who wait have it by now.
        assert!(matches!(file.try_lock_shared(), Err(Error::Locked)));
        println!("seen");
        input.read_to_end(&mut Vec::new()).unwrap();
        drop(file);
        return vault.close().unwrap();
    }
    let place = Place::new();
    let mut owner =
        place.owner("a_lock_holds_between_processes_and_goes_with_its_file_or_its_process");
    let vault = place.join();
    let file = vault.open_file("/lock", both()).unwrap();
    assert!(matches!(file.try_lock(), Err(Error::Locked)));
    assert!(matches!(file.try_lock_shared(), Err(Error::Locked)));
    let as_io = std::io::Error::from(file.try_lock().unwrap_err());
    assert_eq!(as_io.kind(), ErrorKind::WouldBlock);
    // Many wait, more than there are connections; the one that holds it gives it back all the same, and each gets its turn.
    let had = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let file = vault.open_file("/lock", both()).unwrap();
                file.lock().unwrap();
                had.fetch_add(1, Ordering::Relaxed);
                file.unlock().unwrap();
            });
        }
        owner.say_on();
        owner.wait_for("unlocked");
    });
    assert_eq!(had.load(Ordering::Relaxed), 12);
    file.lock().unwrap();
    let second = vault.open_file("/lock", both()).unwrap();
    assert!(matches!(second.try_lock(), Err(Error::Locked)));
    owner.say_on();
    owner.wait_for("seen");
    drop(file);
    second.try_lock_shared().unwrap();
    vault
        .open_file("/lock", both())
        .unwrap()
        .try_lock_shared()
        .unwrap();
    drop(second);
    vault.close().unwrap();
    owner.leave();
}

#[test]
fn a_file_that_held_a_lock_does_not_go_on_without_it() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let owner = place.owner("a_file_that_held_a_lock_does_not_go_on_without_it");
    let vault = place.join();
    let [locked, unlocked] = ["/a", "/a"].map(|path| vault.open_file(path, both()).unwrap());
    vault.sync().unwrap();
    locked.lock().unwrap();
    unlocked.try_lock().unwrap_err();
    owner.kill();
    assert!(matches!(locked.attributes(), Err(Error::LockLost)));
    assert!(matches!(locked.unlock(), Err(Error::LockLost)));
    unlocked.try_lock().unwrap();
    let again = vault.open_file("/a", both()).unwrap();
    assert!(matches!(again.try_lock(), Err(Error::Locked)));
    drop((locked, unlocked, again));
    vault.close().unwrap();
}

/// Who waits for a lock waits on at the next owner, and does not hold up the one that closes.
#[test]
fn an_owner_that_closes_gives_its_locks_to_those_who_wait() {
    if let Some(vault) = as_child() {
        let file = vault.open_file("/lock", both()).unwrap();
        file.lock().unwrap();
        own(&vault);
        return assert!(matches!(file.attributes(), Err(Error::Closed)));
    }
    let place = Place::new();
    let owner = place.owner("an_owner_that_closes_gives_its_locks_to_those_who_wait");
    let vault = place.join();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let file = vault.open_file("/lock", both()).unwrap();
            file.lock().unwrap();
        });
        owner.leave();
        waiting.join().unwrap();
    });
    vault.close().unwrap();
}

/// Goal: a process that is asked for the vault keeps it while a client works. Method: a client writes to an open file all the
/// time that the vault is asked for, and closes the file then. Failed before: each call of the owner waited until the client had closed
/// its file, or ten minutes.
#[test]
fn an_owner_that_is_asked_to_leave_works_on_until_its_clients_need_nothing() {
    let place = Place::new();
    let folder = place.directory.path().join("vault");
    let owner = Vault::open(&folder, place.secret.clone(), OpenOptions::default()).unwrap();
    let client = place.join();
    let file = client.open_file("/file", both()).unwrap();
    let is_asked = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            while is_asked.load(Ordering::Relaxed) {
                file.write_all_at(b"at work", 0)?;
            }
            Ok::<_, Error>(())
        });
        let stays = (0..20).all(|_| {
            Vault::let_go(&folder).is_ok()
                && owner.attributes("/", strongroom::Links::Stay).is_ok()
                && owner.is_owner()
        });
        is_asked.store(false, Ordering::Relaxed);
        assert!(stays);
        writing.join().unwrap().unwrap();
    });
    drop(file);
    while owner.is_owner() {
        assert!(!Vault::let_go(&folder).unwrap());
        // The session of the next call keeps the owner from leaving for this one.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(client.read("/file").unwrap(), b"at work");
    assert!(client.is_owner());
    assert_eq!(owner.read("/file").unwrap(), b"at work");
    owner.close().unwrap();
    client.close().unwrap();
}

/// Goal: a push goes on whatever becomes of the owner. Method: the owner is killed, or closes, when the push is about to upload. Failed
/// before: the next owner knew of no push, and that was called damage.
#[test]
fn a_push_begins_again_at_the_next_owner() {
    if let Some(vault) = as_child() {
        return own(&vault);
    }
    let place = Place::new();
    let remote = place.directory.path().join("remote");
    std::fs::create_dir(&remote).unwrap();
    for (number, end) in [Owner::kill, Owner::leave].into_iter().enumerate() {
        let mut owner = Some(place.owner("a_push_begins_again_at_the_next_owner"));
        let vault = place.join();
        if number == 0 {
            let address = format!("folder:{}", remote.display());
            vault.add_remote("stick", &address).unwrap();
        }
        vault.write(format!("/{number}"), "pushed").unwrap();
        let pushed = vault.push("stick", &mut |_| {
            if let Some(owner) = owner.take() {
                end(owner);
            }
            GoOn::Yes
        });
        assert!(pushed.unwrap().publications > 0);
        assert!(owner.is_none() && vault.is_owner());
        // After a kill it says that something may be lost.
        drop(vault.close());
    }
}

/// Goal: after a kill at any moment a file that was being replaced holds the old content or the new, whole. Method: a process
/// replaces one file without end, by one message and beyond it; it is killed after a growing count of replacements.
/// Failed before: `write`, the only way in one call, left the beginning of the content, or nothing.
#[test]
fn a_kill_amid_replacing_leaves_one_content_whole() {
    let contents = [content(40_000, 1), content(3 << 20, 2), content(900, 3)];
    if let Some(vault) = as_child() {
        // So that every state in between would be durable, if there were one.
        let syncing = vault.clone();
        std::thread::spawn(move || while syncing.sync().is_ok() {});
        println!("ready");
        for number in 0.. {
            let next = &contents[number % contents.len()];
            vault.replace("/file", next, Durability::OnReturn).unwrap();
            println!("replaced");
        }
    }
    let lens = contents.each_ref().map(|one| one.len() as u64);
    let place = Place::new();
    for count in 1..10 {
        let mut owner = place.owner("a_kill_amid_replacing_leaves_one_content_whole");
        let folder = place.directory.path().join("vault");
        let client = Vault::connect_if_owned(&folder, OpenOptions::default());
        let client = client.unwrap().expect("the child owns it");
        std::thread::scope(|scope| {
            // Whoever looks meanwhile finds one of them whole, too; until the owner is killed.
            scope.spawn(|| {
                loop {
                    match client.attributes("/file", strongroom::Links::Stay) {
                        Ok(node) => assert!(lens.contains(&node.size), "{} bytes", node.size),
                        Err(Error::File(FileError::NotFound)) => {}
                        Err(_) => break,
                    }
                }
            });
            for _ in 0..count {
                owner.wait_for("replaced");
            }
            owner.kill();
        });
        let vault = Vault::open(folder, place.secret.clone(), OpenOptions::default()).unwrap();
        let found = vault.read("/file").unwrap();
        assert!(contents.contains(&found), "{} bytes", found.len());
        // No name is left of what was on its way.
        assert_eq!(vault.list("/").unwrap().count(), 1);
        assert!(vault.check().unwrap().problems.is_empty());
        vault.close().unwrap();
    }
}
