//! Two devices of one vault that sync through a real server on loopback, with TLS.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom::filesystem::Error as FileError;
use strongroom::{CLONED_FROM, CloneOptions, Error, GoOn, OpenOptions, SyncEvent, Vault, clone};
use strongroom_remote::{Address, ObjectName, Remote};
use strongroom_server::{Accounts, Quota, Server, Settings, Tls};
use strongroom_sync::MARKER;

use support::{Place, content};

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
        let settings = Settings {
            folder: self.folder.path().to_owned(),
            listen: listen.parse().unwrap(),
            tls: Tls::SelfSigned,
            metrics: None,
            names: Vec::new(),
        };
        self.server = Some(Server::start(&settings).unwrap());
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

/// Takes everything away from a remote that is not a publication; a server removes all but the newest of those.
fn take_away(remote: &dyn Remote) -> Vec<(ObjectName, Vec<u8>)> {
    let mut names = vec![MARKER.to_owned()];
    for kind in ["headers", "revisions", "segments"] {
        let listed = remote.list(kind).unwrap().into_iter();
        names.extend(listed.map(|one| format!("{kind}/{}", one.name)));
    }
    let taken = names.into_iter().map(|name| {
        let name = ObjectName::new(name).unwrap();
        let bytes = remote.read(&name, 32 << 20).unwrap().unwrap();
        remote.remove(&name).unwrap();
        (name, bytes)
    });
    taken.collect()
}

/// Goal: a store that is gone as a whole has lost nothing of what is away. Method: a file is read, so that the store was reached; then all that
/// a fetch asks for goes, and comes again. Failed before: the marker was not read again, and everything was given up as lost.
#[test]
fn a_store_that_is_gone_as_a_whole_has_lost_nothing() {
    let served = Served::new(Quota::default());
    let (_place, vault) = Place::new();
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
    let remote = Address::parse(&served.url("v")).unwrap().open().unwrap();
    let taken = take_away(&*remote);
    let error = vault.bring_back(None, &mut |_| GoOn::Yes).unwrap_err();
    let is_it = matches!(error, Error::File(FileError::OnlyAtRemote(_)));
    assert!(is_it, "{error:?}");
    assert_eq!(away_bytes(), before);
    for (name, bytes) in taken {
        remote.create(&name, bytes).unwrap();
    }
    for number in 0..3 {
        let read = vault.read(format!("/{number}")).unwrap();
        assert!(read == content(3 << 20, number), "/{number}");
    }
    vault.close().unwrap();
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
