//! Two devices of one vault that sync through a real server on loopback, with TLS.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom::filesystem::Error as FileError;
use strongroom::{
    AskingStep, CLONED_FROM, CloneContent, CloneOptions, Error, GoOn, InvitationStep, KeyFile,
    Keys, NewDevice, NewRevision, OpenOptions, PairingCode, Secret, SyncEvent, SystemRandom, Vault,
    clone,
};
use strongroom_remote::{Address, ObjectName};
use strongroom_server::limits::REQUESTS_PER_SECOND;
use strongroom_server::{Accounts, Quota, Server, Settings, Tls};

use support::{Place, content, copy_folder};

/// So long something may take that takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the account `anna`.
struct Served {
    folder: tempfile::TempDir,
    server: Option<Server>,
    token: String,
}

impl Served {
    fn new(quota: Quota) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = Accounts::open(folder.path())
            .unwrap()
            .add("anna", quota)
            .unwrap();
        let mut served = Self {
            server: None,
            token: token.reveal().to_owned(),
            folder,
        };
        served.start("127.0.0.1:0");
        served
    }

    fn start(&mut self, listen: &str) {
        let folder = self.folder.path().to_owned();
        self.serve(folder, listen);
    }

    /// Runs the server on another state of its folder.
    fn serve(&mut self, folder: PathBuf, listen: &str) {
        let settings = Settings {
            storage: folder.into(),
            listen: listen.parse().unwrap(),
            tls: Tls::SelfSigned,
            metrics: None,
            names: Vec::new(),
            requests_per_second: REQUESTS_PER_SECOND,
        };
        self.server = Some(Server::start(&settings).unwrap());
    }

    /// The same at the address that it has, in place of the one that runs.
    fn restart_on(&mut self, folder: &Path) {
        let listen = self.server().address().to_string();
        self.server.take().unwrap().stop();
        self.serve(folder.to_owned(), &listen);
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn url(&self, vault: &str) -> String {
        let print = self.server().fingerprint().unwrap();
        let at = self.server().address();
        format!(
            "https://{}@{at}/anna/{vault}?fingerprint={print}",
            self.token
        )
    }
}

/// Waits until `is_so`; asks nobody but this machine.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two devices that have the same.
fn two_devices(served: &Served) -> (Place, Vault, Vault) {
    let (place, one) = Place::new();
    one.write("/first", content(3 << 20, 1)).unwrap();
    one.add_remote("server", &served.url("v")).unwrap();
    one.push("server", &mut |_| GoOn::Yes).unwrap();
    let folder = place.directory.path().join("two");
    let options = CloneOptions::default();
    clone(
        &served.url("v"),
        &folder,
        &place.secret,
        options,
        &mut |_| GoOn::Yes,
    )
    .unwrap();
    let two = Vault::open(&folder, place.secret.clone(), OpenOptions::default()).unwrap();
    assert_eq!(two.read("/first").unwrap(), content(3 << 20, 1));
    two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    one.sync_with("server", &mut |_| GoOn::Yes).unwrap();
    (place, one, two)
}

/// Goal: what one device writes comes to the other without being asked for, and while nothing happens nothing is asked. Method: the
/// requests of the server are counted for some seconds, in which devices that poll would ask again and again.
#[test]
fn what_is_published_is_heard_of_and_nobody_asks_while_nothing_happens() {
    let mut served = Served::new(Quota::default());
    let (_place, one, two) = two_devices(&served);
    let failed = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let keep = |vault: &Vault| {
        let failed = Arc::clone(&failed);
        let told = move |event: SyncEvent| {
            if let SyncEvent::Failed { error, .. } = event {
                failed.lock().push(error.to_string());
            }
        };
        vault.keep_in_sync(Duration::from_secs(30), told).unwrap()
    };
    let (of_one, of_two) = (keep(&one), keep(&two));
    one.write("/letter", "from one").unwrap();
    until("it comes to two", || {
        two.read("/letter").is_ok_and(|bytes| bytes == b"from one")
    });
    two.write("/answer", "from two").unwrap();
    until("it comes to one", || {
        one.read("/answer").is_ok_and(|bytes| bytes == b"from two")
    });
    // What is due because of the change ends; then the devices wait, and nothing is asked for several seconds.
    let asked = || {
        let before = served.server().requests();
        std::thread::sleep(Duration::from_secs(5));
        served.server().requests() - before
    };
    until("nothing is asked while nothing happens", || asked() == 0);
    assert!(
        asked() + asked() <= 2,
        "each device waits again after most of a minute"
    );
    // It is away for a moment, and comes back.
    let listen = served.server().address().to_string();
    served.server.take().unwrap().stop();
    one.write("/later", "from one").unwrap();
    served.start(&listen);
    until("it comes to two", || {
        two.read("/later").is_ok_and(|bytes| bytes == b"from one")
    });
    drop((of_one, of_two));
    assert_eq!(*failed.lock(), [""; 0]);
}

/// Goal: a store that is gone as a whole has lost nothing of what is away. Method: a file is read, so that the store was reached; then the
/// server runs on its folder as it was in the beginning, and on the right one again. Failed before: the marker was not read again, and
/// everything was given up as lost.
#[test]
fn a_store_that_is_gone_as_a_whole_has_lost_nothing() {
    let mut served = Served::new(Quota::default());
    let (place, vault) = Place::new();
    let (right, empty) = (
        served.folder.path().to_owned(),
        place.directory.path().join("empty"),
    );
    let listen = served.server().address().to_string();
    served.server.take().unwrap().stop();
    copy_folder(&right, &empty);
    served.start(&listen);
    vault.add_remote("server", &served.url("v")).unwrap();
    for number in 0..3 {
        let bytes = content(3 << 20, number);
        vault.write(format!("/{number}"), bytes).unwrap();
        vault.push("server", &mut |_| GoOn::Yes).unwrap();
    }
    let evicted = vault.evict(None, &mut |_| GoOn::Yes).unwrap();
    assert!(evicted.segments >= 3, "{evicted:?}");
    assert!(vault.read("/0").unwrap() == content(3 << 20, 0));
    let away_bytes = || vault.information().unwrap().away_bytes;
    let before = away_bytes();
    assert!(before > 6 << 20, "{before}");
    served.restart_on(&empty);
    let error = vault.bring_back(None, &mut |_| GoOn::Yes).unwrap_err();
    let is_it = matches!(error, Error::File(FileError::OnlyAtRemote(_)));
    assert!(is_it, "{error:?}");
    assert_eq!(away_bytes(), before);
    served.restart_on(&right);
    for number in 0..3 {
        let read = vault.read(format!("/{number}")).unwrap();
        assert!(read == content(3 << 20, number), "/{number}");
    }
    vault.close().unwrap();
}

/// Removes the other device of `one`, and syncs until that is published.
fn remove_other_device(place: &Place, one: &Vault) {
    let mut keys = Keys::open(place.folder(), &place.secret).unwrap();
    let members = one.information().unwrap().members;
    let other = members.iter().find(|one| one.is_device && !one.is_this);
    keys.remove_device(&other.unwrap().id).unwrap();
    drop(keys);
    once_resealed("the removal is published", || {
        one.sync_with("server", &mut |_| GoOn::Yes).map(drop)
    });
}

/// Does it again while something here is sealed under keys that were removed: the background is re-sealing that.
fn once_resealed(what: &str, work: impl Fn() -> Result<(), Error>) {
    until(what, || match work() {
        Err(Error::KeysInUse) => false,
        done => done.map(|()| true).unwrap(),
    });
}

/// Goal: a device that was removed is refused by the server from then on, with words that say so, and with the token of the account too;
/// the others go on. Method: it syncs, waits for changes, and somebody asks with its URL alone.
/// SECURITY.md, claim 26.
#[test]
fn a_device_that_was_removed_is_refused_by_the_server() {
    let mut served = Served::new(Quota::default());
    let (place, one, two) = two_devices(&served);
    // It stays open, and logged in.
    two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    remove_other_device(&place, &one);
    two.write("/from the removed", b"x").unwrap();
    for _ in 0..2 {
        let refused = two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("this device was removed from the vault"),
            "{text}"
        );
        assert_eq!(refused.io_kind(), std::io::ErrorKind::PermissionDenied);
        assert!(!text.contains(&served.token));
    }
    let remote = Address::parse(&served.url("v")).unwrap().open().unwrap();
    for kind in ["publications", "segments", "revisions"] {
        let refused = remote.list(kind).unwrap_err().to_string();
        assert!(
            refused.contains("login with the key of a device"),
            "{refused}"
        );
    }
    let name = ObjectName::new("publications/0000000000000099").unwrap();
    assert!(remote.create(&name, b"p".to_vec()).is_err());
    assert!(remote.wait_behind(0, &|| true).is_err());
    // A restart keeps what was noted.
    let folder = served.folder.path().to_owned();
    served.restart_on(&folder);
    assert!(two.pull(CLONED_FROM, &mut |_| GoOn::Yes).is_err());
    one.write("/after", b"y").unwrap();
    one.sync_with("server", &mut |_| GoOn::Yes).unwrap();
    assert!(!one.exists("/from the removed").unwrap());
}

/// Goal: content that is away comes from a server that follows the vault, to the owner and its readers. Method: a clone on demand.
#[test]
fn a_clone_on_demand_logs_in_to_fetch_content() {
    let served = Served::new(Quota::default());
    let (place, one, _two) = two_devices(&served);
    let folder = place.directory.path().join("three");
    let options = CloneOptions {
        content: CloneContent::AtRemote,
        ..CloneOptions::default()
    };
    let url = served.url("v");
    clone(&url, &folder, &place.secret, options, &mut |_| GoOn::Yes).unwrap();
    let three = Vault::open(&folder, place.secret.clone(), OpenOptions::default()).unwrap();
    assert!(three.information().unwrap().away_bytes > 2 << 20);
    // Nobody has brought its record to the server yet: it shows that.
    assert_eq!(three.read("/first").unwrap(), content(3 << 20, 1));
    three.write("/third", b"from three").unwrap();
    three.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    one.sync_with("server", &mut |_| GoOn::Yes).unwrap();
    assert_eq!(one.read("/third").unwrap(), b"from three");
}

/// Goal: a new device needs the URL and a code, no more. Method: its remote has the token of the account only, in a vault that the server
/// follows.
#[test]
fn a_device_is_let_in_by_a_code_through_a_server() {
    let served = Served::new(Quota::default());
    let (place, one, _two) = two_devices(&served);
    let now = Instant::now();
    let key_file = KeyFile::random(&SystemRandom).unwrap();
    let secret = Secret::KeyFile(key_file);
    let new = NewDevice::make(&served.url("v"), secret, "laptop").unwrap();
    let mut invitation = one.invite("server", now).unwrap();
    let code = PairingCode::parse(&invitation.code().text()).unwrap();
    let mut asking = new.ask(&code, now).unwrap();
    let candidate = loop {
        assert!(matches!(asking.look(now), Ok(AskingStep::Waiting)));
        if let InvitationStep::Asks(candidate) = invitation.look(now).unwrap() {
            break candidate;
        }
    };
    assert_eq!(candidate.fingerprint(), new.fingerprint());
    let mut keys = Keys::open(place.folder(), &place.secret).unwrap();
    invitation
        .admit(&one, &mut keys, &candidate, &mut |_| GoOn::Yes)
        .unwrap();
    drop(keys);
    let AskingStep::Admitted(admitted) = asking.look(now).unwrap() else {
        panic!("it was let in");
    };
    let folder = place.directory.path().join("new");
    let options = CloneOptions::default();
    new.clone_as_admitted(admitted, &folder, &options, &mut |_| GoOn::Yes)
        .unwrap();
    let vault = Vault::open(&folder, new.secret().clone(), OpenOptions::default()).unwrap();
    assert_eq!(vault.read("/first").unwrap(), content(3 << 20, 1));
    vault.write("/new", b"from the new one").unwrap();
    vault.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    one.sync_with("server", &mut |_| GoOn::Yes).unwrap();
    assert_eq!(one.read("/new").unwrap(), b"from the new one");
}

/// Goal: a client of the process that has the vault open logs in through it, and after a change of keys too. Method: two openings of one
/// vault; the second one pushes.
#[test]
fn a_client_of_the_owner_logs_in_through_it() {
    let served = Served::new(Quota::default());
    let (place, _one, _two) = two_devices(&served);
    let client = Vault::connect_if_owned(place.folder(), OpenOptions::default());
    let client = client.unwrap().unwrap();
    client.write("/by the client", b"1").unwrap();
    client.push("server", &mut |_| GoOn::Yes).unwrap();
    let mut keys = Keys::open(place.folder(), &place.secret).unwrap();
    keys.renew_device().unwrap();
    drop(keys);
    client.write("/by the client", b"2").unwrap();
    once_resealed("it is published under the new keys", || {
        client.sync_with("server", &mut |_| GoOn::Yes).map(drop)
    });
    client.close().unwrap();
}

/// Goal: an older state of a server lets nobody be lost and nothing be believed: devices name what is missing, and go on elsewhere. Method:
/// its folder as it was before a device was removed.
#[test]
fn a_server_that_went_back_is_named_and_another_vault_there_takes_everything() {
    let mut served = Served::new(Quota::default());
    let (place, one, two) = two_devices(&served);
    let before = place.directory.path().join("before");
    let listen = served.server().address().to_string();
    served.server.take().unwrap().stop();
    copy_folder(served.folder.path(), &before);
    served.start(&listen);
    remove_other_device(&place, &one);
    served.restart_on(&before);
    // The removed device is known as a member again, as the operator's older state has it.
    two.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    let told = one.sync_with("server", &mut |_| GoOn::Yes).unwrap_err();
    assert!(told.to_string().contains("is missing"), "{told}");
    one.add_remote("again", &served.url("w")).unwrap();
    once_resealed("the other vault has everything", || {
        one.push("again", &mut |_| GoOn::Yes).map(drop)
    });
    let report = one.check_remote("again", true, &mut |_| GoOn::Yes).unwrap();
    assert_eq!(report.problems, [""; 0]);
}

/// Lets no snapshot keep what was removed.
fn forget_history(vault: &Vault) {
    vault.take_revision(&NewRevision::default()).unwrap();
    let revisions = vault.revisions().unwrap();
    let newest = revisions.iter().map(|one| one.time).max().unwrap();
    for revision in revisions.iter().filter(|one| one.time < newest) {
        vault.remove_revision(revision.id).unwrap();
    }
    vault.compact().unwrap();
}

/// Goal: devices go on as before at a server that keeps what is to be removed: a pruning says what stays and does not fail, nothing is damage, and
/// it goes once its days are over. Method: the content of a file that was removed; days pass in the database of the server.
/// SECURITY.md, claim 28.
#[test]
fn what_a_server_keeps_for_some_days_is_no_fault_and_goes_later() {
    let served = Served::new(Quota::default());
    let (_place, one, two) = two_devices(&served);
    let accounts = Accounts::open(served.folder.path()).unwrap();
    accounts.keep("anna", 30).unwrap();
    let sync = |vault: &Vault, name: &str| {
        vault.sync_with(name, &mut |_| GoOn::Yes).unwrap();
    };
    let settle = || {
        sync(&one, "server");
        sync(&two, CLONED_FROM);
        sync(&one, "server");
    };
    one.write("/short-lived", content(9 << 20, 60)).unwrap();
    settle();
    one.remove_file("/short-lived").unwrap();
    forget_history(&one);
    settle();
    let prune = || one.prune_remote("server", Duration::ZERO, &mut |_| GoOn::Yes);
    let is_whole = || {
        let report = one.check_remote("server", true, &mut |_| GoOn::Yes);
        assert_eq!(report.unwrap().problems, [""; 0]);
        settle();
        assert_eq!(two.read("/first").unwrap(), content(3 << 20, 1));
    };
    let first = prune().unwrap();
    assert_eq!((first.objects, first.waiting), (0, 0), "{first:?}");
    assert!(first.kept_bytes > 8 << 20, "{first:?}");
    assert_eq!(accounts.asked_for("anna").unwrap().objects, first.kept);
    let trial = one.unused_at_remote("server").unwrap();
    assert_eq!((trial.waiting, trial.kept), (0, first.kept), "{trial:?}");
    is_whole();
    // It is asked for once.
    let second = prune().unwrap();
    assert_eq!(second.objects, 0, "{second:?}");
    assert!(second.kept >= first.kept, "{second:?}");
    one.write("/later", b"later").unwrap();
    is_whole();
    let database = rusqlite::Connection::open(served.folder.path().join("server.db")).unwrap();
    let month_s = 30 * 24 * 60 * 60;
    database
        .execute_batch(&format!(
            "UPDATE object SET created_s = created_s - {month_s};
             UPDATE object SET asked_s = asked_s - {month_s} WHERE asked_s > 0"
        ))
        .unwrap();
    let third = prune().unwrap();
    assert!(third.objects >= first.kept, "{third:?}");
    assert!(third.bytes >= first.kept_bytes, "{third:?}");
    is_whole();
}

#[test]
fn what_a_server_refuses_is_said_in_plain_words() {
    let served = Served::new(Quota {
        bytes: 1 << 20,
        objects: 1000,
    });
    let (_place, one) = Place::new();
    one.write("/big", content(3 << 20, 1)).unwrap();
    one.add_remote("server", &served.url("v")).unwrap();
    let full = one.push("server", &mut |_| GoOn::Yes).unwrap_err();
    assert!(full.to_string().contains("no space left"), "{full}");
    assert_eq!(full.io_kind(), std::io::ErrorKind::QuotaExceeded);
    let accounts = Accounts::open(served.folder.path()).unwrap();
    accounts.set_quota("anna", Quota::default()).unwrap();
    one.push("server", &mut |_| GoOn::Yes).unwrap();
    assert_eq!(
        one.check_remote("server", true, &mut |_| GoOn::Yes)
            .unwrap()
            .problems,
        [""; 0]
    );
    accounts.renew_token("anna").unwrap();
    let refused = one.pull("server", &mut |_| GoOn::Yes).unwrap_err();
    assert!(
        refused.to_string().contains("does not know this token"),
        "{refused}"
    );
    assert!(!refused.to_string().contains(&served.token));
    assert!(matches!(refused, Error::Remote(_)), "{refused:?}");
}

/// Goal: credentials that end in the middle of a push are refused in words that say so, nothing is published by halves, and with new ones
/// the push goes through. Method: the account gets a new token once a part of the content has arrived.
#[test]
fn a_token_that_ends_in_the_middle_of_a_push_ends_it_and_a_new_one_pushes_all() {
    let mut served = Served::new(Quota::default());
    let (place, one) = Place::new();
    one.write("/big", content(40 << 20, 1)).unwrap();
    one.add_remote("server", &served.url("v")).unwrap();
    let accounts = Accounts::open(served.folder.path()).unwrap();
    let mut renewed = None;
    let pushed = one.push("server", &mut |progress| {
        if progress.bytes > 0 && renewed.is_none() {
            renewed = Some(accounts.renew_token("anna").unwrap());
        }
        GoOn::Yes
    });
    let refused = pushed.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("does not know this token"), "{text}");
    assert!(!text.contains(&served.token), "{text}");
    assert_eq!(refused.io_kind(), std::io::ErrorKind::PermissionDenied);
    renewed.unwrap().reveal().clone_into(&mut served.token);
    let remote = Address::parse(&served.url("v")).unwrap().open().unwrap();
    assert!(!remote.list("segments").unwrap().is_empty());
    assert!(remote.list("publications").unwrap().is_empty());
    one.remove_remote("server").unwrap();
    one.add_remote("server", &served.url("v")).unwrap();
    one.push("server", &mut |_| GoOn::Yes).unwrap();
    let folder = place.directory.path().join("two");
    let (secret, options) = (&place.secret, CloneOptions::default());
    clone(&served.url("v"), &folder, secret, options, &mut |_| {
        GoOn::Yes
    })
    .unwrap();
    let two = Vault::open(&folder, secret.clone(), OpenOptions::default()).unwrap();
    assert!(two.read("/big").unwrap() == content(40 << 20, 1));
}
