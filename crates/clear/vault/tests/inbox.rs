//! Deposits of others come into a vault through a real server: each once, whichever device is first and wherever it was cut off.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use strongroom::filesystem::{RenameMode, Timestamp, XattrMode};
use strongroom::{
    CLONED_FROM, CloneOptions, CreateOptions, DepositOutcome, Depositor, Error, GoOn, KeyFile,
    Keys, Links, NewDeposit, NewRevision, OpenOptions, PullReport, SyncReport, SystemRandom, Vault,
    clone,
};
use strongroom_crypto::{DepositInfo, DepositSealer};
use strongroom_format::deposit::{DepositId, InboxAddress};
use strongroom_format::hex;
use strongroom_remote::{Address, InboxDoor, ObjectName};
use strongroom_server::limits::REQUESTS_PER_SECOND;
use strongroom_server::{Accounts, Quota, Server, Settings, Tls};

use support::{Place, content};

/// So long something may take that takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);

const LABEL: &str = "post";

/// A server with the account `anna`. It has none while it is stopped.
struct Served {
    folder: tempfile::TempDir,
    server: Option<Server>,
    token: String,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(folder.path()).unwrap();
        let token = accounts.add("anna", Quota::default()).unwrap();
        let mut served = Self {
            server: None,
            token: token.reveal().to_owned(),
            folder,
        };
        served.start("127.0.0.1:0".parse().unwrap());
        served
    }

    fn start(&mut self, listen: SocketAddr) {
        let settings = Settings {
            storage: self.folder.path().into(),
            listen,
            tls: Tls::SelfSigned,
            metrics: None,
            names: Vec::new(),
            requests_per_second: REQUESTS_PER_SECOND,
        };
        self.server = Some(Server::start(&settings).unwrap());
    }

    /// Gives the address at which it is to start again.
    fn stop(&mut self) -> SocketAddr {
        let server = self.server.take().unwrap();
        let at = server.address();
        server.stop();
        at
    }

    /// Runs a statement in its database.
    fn sql(&self, statement: &str) -> usize {
        let database = rusqlite::Connection::open(self.folder.path().join("server.db")).unwrap();
        database.execute(statement, []).unwrap()
    }

    fn url(&self, vault: &str) -> String {
        self.url_with(vault, &self.token)
    }

    fn url_with(&self, vault: &str, token: &str) -> String {
        let server = self.server.as_ref().unwrap();
        let (print, at) = (server.fingerprint().unwrap(), server.address());
        format!("https://{token}@{at}/anna/{vault}?fingerprint={print}")
    }
}

/// A vault with a remote and an inbox there.
struct Home {
    served: Served,
    place: Place,
    vault: Vault,
    /// The address.
    url: String,
}

impl Home {
    fn new() -> Self {
        let served = Served::new();
        let (place, vault) = Place::new();
        vault.add_remote("server", &served.url("v")).unwrap();
        vault.push("server", &mut |_| GoOn::Yes).unwrap();
        let url = vault.add_inbox_address(LABEL, "server", &mut |_| GoOn::Yes);
        let url = url.unwrap().url;
        let home = Self {
            served,
            place,
            vault,
            url,
        };
        home.sync();
        home
    }

    /// Another device.
    fn other(&self) -> Vault {
        self.device("other")
    }

    fn device(&self, name: &str) -> Vault {
        let folder = self.place.directory.path().join(name);
        let secret = &self.place.secret;
        let options = CloneOptions::default();
        let url = self.served.url("v");
        clone(&url, &folder, secret, options, &mut |_| GoOn::Yes).unwrap();
        let other = Vault::open(&folder, secret.clone(), OpenOptions::default()).unwrap();
        sync(&other, CLONED_FROM);
        self.sync();
        other
    }

    fn pull(&self) -> PullReport {
        pull(&self.vault, "server")
    }

    fn sync(&self) -> SyncReport {
        sync(&self.vault, "server")
    }

    fn door(&self) -> InboxDoor {
        Address::parse(&self.url).unwrap().open_inbox().unwrap()
    }

    fn deposit(&self, name: &str, bytes: &[u8]) -> DepositOutcome {
        deposit(&self.url, name, bytes)
    }

    /// Ids of what waits at the server.
    fn waiting(&self) -> Vec<String> {
        let report = self.vault.inbox().unwrap();
        assert_eq!(report.problems, [""; 0]);
        report.deposits.into_iter().map(|one| one.id).collect()
    }

    /// Closes the vault, changes its keys and opens it again.
    fn rotate(&mut self) {
        self.vault.close().unwrap();
        let mut keys = Keys::open(self.place.folder(), &self.place.secret).unwrap();
        keys.rotate().unwrap();
        drop(keys);
        self.vault = self.place.open();
    }
}

fn pull(vault: &Vault, remote: &str) -> PullReport {
    vault.pull(remote, &mut |_| GoOn::Yes).unwrap()
}

fn sync(vault: &Vault, remote: &str) -> SyncReport {
    vault.sync_with(remote, &mut |_| GoOn::Yes).unwrap()
}

fn deposit(url: &str, name: &str, bytes: &[u8]) -> DepositOutcome {
    let new = NewDeposit {
        name: name.as_bytes().to_vec(),
        modified: Timestamp(1_700_000_000_000_000_000),
        ..NewDeposit::default()
    };
    let depositor = Depositor::open(url).unwrap();
    depositor
        .deposit(&new, &mut &*bytes, &mut |_| GoOn::Yes)
        .unwrap()
}

/// What lies in a directory: names and contents.
fn files(vault: &Vault, path: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = vault.list(path).unwrap().map(Result::unwrap);
    let read = |name: String| {
        let bytes = vault.read(format!("{path}/{name}")).unwrap();
        (name, bytes)
    };
    entries
        .map(|entry| read(String::from_utf8(entry.name).unwrap()))
        .collect()
}

fn names(vault: &Vault) -> Vec<String> {
    files(vault, "/Inbox").into_keys().collect()
}

/// Lets two devices sync until neither has anything new for the other.
fn meet(home: &Home, other: &Vault) {
    for _ in 0..3 {
        home.sync();
        sync(other, CLONED_FROM);
    }
    home.sync();
    let last = home.sync();
    assert_eq!(last, SyncReport::default());
    assert_eq!(names(&home.vault), names(other));
}

/// Goal: what is deposited comes with its content, time and sender, once, and is at the server until all can have it.
/// SECURITY.md, claim 27.
#[test]
fn a_deposit_comes_once_and_goes_from_the_server_once_it_is_published() {
    let home = Home::new();
    let bytes = content((5 << 20) + 17, 3);
    let new = NewDeposit {
        name: b"scan.pdf".to_vec(),
        sender: "the scanner".to_owned(),
        modified: Timestamp(1_700_000_000_123_456_789),
        repeatable_as: None,
    };
    let mut told = Vec::new();
    let done = Depositor::open(&home.url)
        .unwrap()
        .deposit(&new, &mut &*bytes, &mut |len| {
            told.push(len);
            GoOn::Yes
        })
        .unwrap();
    assert_eq!((done.bytes, done.was_there), (bytes.len() as u64, false));
    assert_eq!(told.last(), Some(&done.bytes));
    let empty = home.deposit("", b"");
    let mut waits = vec![done.id.clone(), empty.id];
    waits.sort();
    let mut listed = home.waiting();
    listed.sort();
    assert_eq!(listed, waits);

    let report = home.pull();
    assert_eq!(report.received, 2, "{report:?}");
    assert_eq!(report.deposit_problems, [""; 0]);
    assert!(report.received_paths.contains(&b"/Inbox/scan.pdf".to_vec()));
    let expected = [("deposit", Vec::new()), ("scan.pdf", bytes)];
    let expected = expected.map(|(name, bytes)| (name.to_owned(), bytes));
    assert_eq!(files(&home.vault, "/Inbox"), BTreeMap::from(expected));
    let path = "/Inbox/scan.pdf";
    let attributes = home.vault.attributes(path, Links::Stay).unwrap();
    assert_eq!(attributes.mtime, new.modified);
    assert_eq!(attributes.mode & 0o777, 0o600);
    let says = |name: &str| {
        let value = home.vault.xattr(path, Links::Stay, name).unwrap();
        String::from_utf8(value).unwrap()
    };
    assert_eq!(says("user.strongroom.sender"), "the scanner");
    assert_eq!(says("user.strongroom.address"), LABEL);
    assert!(says("user.strongroom.deposit").starts_with(&done.id));

    // Nothing is published yet: another device could need it. It does not come again.
    assert_eq!(home.pull().received, 0);
    assert_eq!(home.waiting().len(), 2);
    let report = home.sync();
    assert_eq!((report.pulled.received, home.waiting().len()), (0, 0));
    assert_eq!(home.sync(), SyncReport::default());
    home.vault.remove_file("/Inbox/scan.pdf").unwrap();
    assert_eq!(home.sync().pulled.received, 0);
    assert_eq!(names(&home.vault), ["deposit"]);
}

/// Goal: a device that is cut off anywhere neither loses nor doubles a deposit. Method: it stops while content comes, and once it is there
/// but not published; each time another process goes on.
#[test]
fn a_pull_that_is_cut_off_loses_and_doubles_nothing() {
    let mut home = Home::new();
    let bytes = content(6 << 20, 5);
    home.deposit("big", &bytes);
    let mut pieces = 0;
    let stopped = home.vault.pull("server", &mut |progress| {
        pieces += u32::from(progress.bytes > 0);
        match pieces {
            0..3 => GoOn::Yes,
            _ => GoOn::No,
        }
    });
    assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
    assert_eq!(names(&home.vault), [""; 0]);
    home.vault.close().unwrap();
    home.vault = home.place.open();
    assert_eq!(home.pull().received, 1);
    home.vault.close().unwrap();
    home.vault = home.place.open();
    assert_eq!(home.pull().received, 0);
    home.sync();
    assert_eq!(home.waiting(), [""; 0]);
    assert_eq!(
        files(&home.vault, "/Inbox"),
        BTreeMap::from([("big".to_owned(), bytes)])
    );
}

/// Goal: two devices that take one deposit in before they hear of one another have it once. Method: both pull, then both sync.
/// SECURITY.md, claim 27.
#[test]
fn two_devices_that_take_in_the_same_at_once_have_it_once() {
    let home = Home::new();
    let other = home.other();
    let bytes = content(100_000, 7);
    home.deposit("letter.txt", b"a text");
    home.deposit("letter.txt", b"another text");
    home.deposit("scan", &bytes);
    assert_eq!(home.pull().received, 3);
    // In the other order, so that names differ.
    other.write("/Inbox/scan", "own").unwrap();
    assert_eq!(pull(&other, CLONED_FROM).received, 3);
    meet(&home, &other);
    let all = files(&home.vault, "/Inbox");
    assert_eq!(all.len(), 4, "{:?}", all.keys());
    let mut contents: Vec<Vec<u8>> = all.into_values().collect();
    contents.sort();
    let mut expected = vec![
        b"a text".to_vec(),
        b"another text".to_vec(),
        b"own".to_vec(),
        bytes,
    ];
    expected.sort();
    assert_eq!(contents, expected);
    assert_eq!(home.waiting(), [""; 0]);
}

/// Goal: a vault with two servers has each deposit once, also where two devices take it in, and each hears of the other through the other server
/// first. Method: both take in the same, publish at different servers, and join crosswise; then once more from there.
/// SECURITY.md, claim 27.
#[test]
fn two_servers_bring_each_deposit_once() {
    const SECOND: &str = "second";
    let home = Home::new();
    let second = Served::new();
    home.vault.add_remote(SECOND, &second.url("v")).unwrap();
    sync(&home.vault, SECOND);
    let other = home.other();
    other.add_remote(SECOND, &second.url("v")).unwrap();
    let added = home
        .vault
        .add_inbox_address("more", SECOND, &mut |_| GoOn::Yes);
    let url = added.unwrap().url;
    let all_meet = || {
        for _ in 0..3 {
            for (vault, first) in [(&home.vault, "server"), (&other, CLONED_FROM)] {
                sync(vault, first);
                sync(vault, SECOND);
            }
        }
    };
    all_meet();
    let mut expected = Vec::new();
    for round in 0..3 {
        for (place, url) in [("first", &home.url), ("second", &url)] {
            let text = format!("{place} {round}");
            deposit(url, "letter", text.as_bytes());
            expected.push(text.into_bytes());
        }
        for vault in [(&home.vault, "server"), (&other, CLONED_FROM)] {
            assert_eq!(pull(vault.0, vault.1).received, 1);
            assert_eq!(pull(vault.0, SECOND).received, 1);
        }
        // Each publishes where the other looks next.
        home.vault.push("server", &mut |_| GoOn::Yes).unwrap();
        other.push(SECOND, &mut |_| GoOn::Yes).unwrap();
        sync(&home.vault, SECOND);
        sync(&other, CLONED_FROM);
        if round == 1 {
            // And the joined states cross once more.
            sync(&home.vault, "server");
            sync(&other, SECOND);
        }
    }
    all_meet();
    for vault in [&home.vault, &other] {
        let mut found: Vec<_> = files(vault, "/Inbox").into_values().collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
    assert_eq!(names(&home.vault), names(&other));
    assert_eq!(home.waiting(), [""; 0]);
}

/// Goal: what was taken in, and waits at a server that cannot be reached, does not come again for all that comes by another server meanwhile.
/// Method: the first server stops before anything is removed there; at the second one come more deposits than stay noted for good. They do
/// not open, and are so old that they go.
/// SECURITY.md, claim 27.
#[test]
fn what_waits_at_a_server_that_is_away_comes_once_whatever_comes_elsewhere() {
    const SECOND: &str = "second";
    const MANY: u32 = 520;
    let mut home = Home::new();
    let second = Served::new();
    home.vault.add_remote(SECOND, &second.url("v")).unwrap();
    sync(&home.vault, SECOND);
    let added = home
        .vault
        .add_inbox_address("more", SECOND, &mut |_| GoOn::Yes);
    let url = added.unwrap().url;
    home.sync();
    home.deposit("letter", b"letter");
    assert_eq!(home.pull().received, 1);
    let at = home.served.stop();
    let door = Address::parse(&url).unwrap().open_inbox().unwrap();
    for number in 0..MANY {
        if number % 50 == 0 {
            second.sql("UPDATE depositor SET busy_until_s = 0");
        }
        door.create(&format!("{number:032x}"), vec![7; 100])
            .unwrap();
    }
    let aged = second
        .sql("UPDATE object SET created_s = created_s - 40 * 86400 WHERE name LIKE 'deposits/%'");
    assert_eq!(aged, MANY as usize);
    let report = sync(&home.vault, SECOND).pulled;
    assert_eq!(report.received, 0, "{report:?}");
    assert_eq!(report.deposit_problems.len(), MANY as usize);
    let left = second.sql("DELETE FROM object WHERE name LIKE 'deposits/%'");
    assert_eq!(left, 0, "a sync has removed them");
    second.sql("UPDATE depositor SET busy_until_s = 0");
    deposit(&url, "other", b"other");
    assert_eq!(sync(&home.vault, SECOND).pulled.received, 1);
    home.served.start(at);
    assert_eq!(home.sync().pulled.received, 0);
    assert_eq!(names(&home.vault), ["letter", "other"]);
    assert_eq!(home.waiting(), [""; 0]);
}

/// Goal: what the user of one device did with a deposit counts, although another device took it in at the same time.
#[test]
fn what_one_device_did_with_a_deposit_counts_when_another_took_it_in_too() {
    for is_first in [true, false] {
        let home = Home::new();
        let other = home.other();
        home.vault.make_directory("/Done", 0o700).unwrap();
        meet_once(&home, &other);
        for name in ["moved", "removed", "changed", "left"] {
            home.deposit(name, name.as_bytes());
        }
        assert_eq!(home.pull().received, 4);
        assert_eq!(pull(&other, CLONED_FROM).received, 4);
        let acts = match is_first {
            true => &home.vault,
            false => &other,
        };
        let moved = acts.rename("/Inbox/moved", "/Done/moved", RenameMode::Replace);
        moved.unwrap();
        acts.remove_file("/Inbox/removed").unwrap();
        acts.write("/Inbox/changed", "by a user").unwrap();
        meet(&home, &other);
        let inbox = files(&home.vault, "/Inbox");
        let expected = [("changed", "by a user"), ("left", "left")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        // Beside a changed one, or alone if its name was given to it again.
        let contents: Vec<_> = inbox.values().collect();
        assert_eq!(inbox.len(), 2, "{is_first}: {:?}", inbox.keys());
        for (name, content) in expected {
            assert!(contents.contains(&&content), "{is_first}: {name}");
        }
        for vault in [&home.vault, &other] {
            assert_eq!(names_in(vault, "/Done"), ["moved"], "{is_first}");
        }
        assert_eq!(home.waiting(), [""; 0]);
    }
}

fn names_in(vault: &Vault, path: &str) -> Vec<String> {
    files(vault, path).into_keys().collect()
}

fn meet_once(home: &Home, other: &Vault) {
    home.sync();
    sync(other, CLONED_FROM);
}

/// Goal: a deposit that does not open is named, set aside, and in nobody's way. Method: garbage, one that is too short, one for another
/// vault, a piece that was changed, a piece that is missing, and one in order.
/// SECURITY.md, claim 27.
#[test]
fn what_does_not_open_is_set_aside_and_the_others_come() {
    let home = Home::new();
    let door = home.door();
    let id = |number: u8| DepositId([number; 16]);
    let named = |number: u8| hex::encode(&id(number).0);
    let create = |name: &str, bytes: Vec<u8>| {
        door.create(name, bytes).unwrap();
    };
    create(&named(2), vec![7; 100]);
    // For another vault.
    let (_place, stranger) = Place::new();
    stranger
        .add_remote("server", &home.served.url("w"))
        .unwrap();
    stranger.push("server", &mut |_| GoOn::Yes).unwrap();
    let strange = stranger.add_inbox_address("a", "server", &mut |_| GoOn::Yes);
    let strange = Address::parse(&strange.unwrap().url).unwrap();
    let document = |door: &InboxDoor| InboxAddress::decode(&door.document().unwrap()).unwrap();
    let info = |size: u64| DepositInfo {
        name: b"n".to_vec(),
        sender: String::new(),
        size,
        modified_ns: 0,
    };
    let random = &SystemRandom;
    let sealer = DepositSealer::begin(random).unwrap();
    let of_stranger = document(&strange.open_inbox().unwrap());
    let sealed = sealer.seal_envelope(&of_stranger, id(3), &info(0), random);
    create(&named(3), sealed.unwrap());
    // A piece that was changed.
    let sealer = DepositSealer::begin(random).unwrap();
    let mut piece = sealer.seal_piece(0, b"content", random).unwrap();
    piece[2000] ^= 1;
    let run = hex::encode(&sealer.run().0);
    create(&format!("{}.{run}.0000", named(4)), piece);
    let own = document(&door);
    let sealed = sealer.seal_envelope(&own, id(4), &info(7), random).unwrap();
    // Garbage, but for the epoch: one that nobody knows might be a later one, and would be left.
    let mut garbage = content(4096, 1);
    garbage[..4].copy_from_slice(&sealed[..4]);
    create(&named(1), garbage);
    create(&named(4), sealed);
    // One that is missing, of a content that would have a gibibyte.
    let sealer = DepositSealer::begin(random).unwrap();
    let sealed = sealer.seal_envelope(&own, id(5), &info(1 << 30), random);
    create(&named(5), sealed.unwrap());
    home.deposit("good", b"good");

    let report = home.pull();
    assert_eq!(report.received, 1, "{report:?}");
    assert_eq!(names(&home.vault), ["good"]);
    let told = report.deposit_problems.join("\n");
    for number in 1..=5 {
        assert!(told.contains(&named(number)), "{number}: {told}");
    }
    assert_eq!(report.deposit_problems.len(), 5, "{told}");
    // Each is named once.
    assert_eq!(home.sync().pulled.deposit_problems, [""; 0]);
    let listed = home.vault.inbox().unwrap().deposits;
    let aside = |number: u8| {
        let mut all = listed.iter();
        let found = all.find(|one| one.id == named(number)).unwrap();
        assert!(!found.is_taken, "{number}");
        found.is_set_aside
    };
    assert_eq!(
        [1, 2, 3, 4, 5].map(aside),
        [true, true, true, true, false],
        "{told}"
    );
    // What was begun and not finished takes room, and is shown by nobody.
    let begun = format!("{}.{}.0000", named(9), "0".repeat(16));
    create(&begun, vec![7; 4096]);
    assert_eq!(home.vault.discard_unfinished_deposits().unwrap(), 1);
    assert_eq!(home.vault.discard_unfinished_deposits().unwrap(), 0);
    // Whoever wants to has it looked at again, or removed.
    assert!(home.vault.retry_deposit(&named(4)).unwrap());
    assert!(!home.vault.retry_deposit(&named(4)).unwrap());
    assert!(home.vault.discard_deposit(&named(1)).unwrap());
    assert!(!home.vault.discard_deposit(&named(1)).unwrap());
    let refused = home.vault.discard_deposit("x").unwrap_err();
    assert!(matches!(refused, Error::Inbox(_)), "{refused:?}");
    home.vault.close().unwrap();
    let vault = home.place.open();
    let again = pull(&vault, "server").deposit_problems.join("\n");
    assert!(again.contains(&named(4)), "{again}");
    assert!(again.contains(&named(5)), "{again}");
    assert_eq!(vault.inbox().unwrap().deposits.len(), 4);
    // All at once, with what belongs to them, and nothing else.
    assert_eq!(vault.discard_set_aside_deposits().unwrap(), 3);
    assert_eq!(vault.discard_set_aside_deposits().unwrap(), 0);
    let left = vault.inbox().unwrap().deposits;
    let left: Vec<&str> = left.iter().map(|one| &*one.id).collect();
    assert_eq!(left, [named(5)]);
    assert_eq!(vault.discard_unfinished_deposits().unwrap(), 0);
}

/// Goal: a deposit of which a piece is missing costs next to nothing, however long it seems and however often a device looks. Method: all pieces
/// but the last; the progress of a device that pulls twice counts no byte of it.
#[test]
fn nothing_is_fetched_of_a_deposit_that_is_not_whole() {
    let home = Home::new();
    let door = home.door();
    let id = DepositId([6; 16]);
    let sealer = DepositSealer::begin(&SystemRandom).unwrap();
    let address = InboxAddress::decode(&door.document().unwrap()).unwrap();
    let piece = content(1 << 20, 9);
    let run = hex::encode(&sealer.run().0);
    for number in 0..2 {
        let sealed = sealer.seal_piece(number, &piece, &SystemRandom).unwrap();
        let name = format!("{}.{run}.{number:04}", hex::encode(&id.0));
        door.create(&name, sealed).unwrap();
    }
    let info = DepositInfo {
        name: b"n".to_vec(),
        sender: String::new(),
        size: 3 << 20,
        modified_ns: 0,
    };
    let envelope = sealer.seal_envelope(&address, id, &info, &SystemRandom);
    door.create(&hex::encode(&id.0), envelope.unwrap()).unwrap();
    for _ in 0..2 {
        let mut most = 0;
        let report = home.vault.pull("server", &mut |progress| {
            most = most.max(progress.bytes_total);
            GoOn::Yes
        });
        assert_eq!((report.unwrap().received, most), (0, 0));
    }
    assert_eq!(home.waiting(), [hex::encode(&id.0)]);
    assert!(!home.vault.inbox().unwrap().deposits[0].is_set_aside);
}

/// Goal: whoever writes an epoch into an envelope that nobody has does not fill the inbox for ever. Method: one came just now, and one eight days
/// ago by the clock of the server, in its database.
#[test]
fn what_is_sealed_for_keys_that_nobody_has_is_set_aside_after_a_week() {
    let home = Home::new();
    let door = home.door();
    let ids = [7_u8, 8].map(|number| hex::encode(&[number; 16]));
    for id in &ids {
        let mut envelope = content(4096, 1);
        envelope[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        door.create(id, envelope).unwrap();
    }
    let aged = home.served.sql(&format!(
        "UPDATE object SET created_s = created_s - 8 * 86400 WHERE name = 'deposits/{}'",
        ids[1]
    ));
    assert_eq!(aged, 1);
    let report = home.pull();
    assert_eq!(report.deposit_problems.len(), 2, "{report:?}");
    let listed = home.vault.inbox().unwrap().deposits;
    let is_aside = |id: &String| {
        let found = listed.iter().find(|one| one.id == *id);
        found.unwrap().is_set_aside
    };
    assert_eq!([is_aside(&ids[0]), is_aside(&ids[1])], [false, true]);
}

/// Goal: whatever a depositor calls a file, it comes into `/Inbox` under a name of its own and replaces nothing.
/// SECURITY.md, claim 27.
#[test]
fn names_of_depositors_lead_nowhere_and_replace_nothing() {
    let home = Home::new();
    home.vault.write("/Inbox/Report.txt", "own").unwrap();
    home.vault
        .make_symlink("/stolen", "/Inbox/link.txt")
        .unwrap();
    home.vault.write("/stolen", "safe").unwrap();
    let long = format!("{}.txt", "n".repeat(900));
    let said = [
        "../../etc/passwd",
        "report.TXT",
        "link.txt",
        "..",
        ".bashrc",
        "a\nb\u{202e}c",
        &long,
    ];
    for name in said {
        home.deposit(name, name.as_bytes());
    }
    let report = home.sync();
    assert_eq!(report.pulled.received, 7, "{report:?}");
    let mut found = names(&home.vault);
    found.sort();
    let short = format!("{}.txt", "n".repeat(196));
    let mut expected = vec![
        "Report.txt",
        "_bashrc",
        "a_b_c",
        "deposit",
        "link (2).txt",
        "link.txt",
        &short,
        "passwd",
        "report (2).TXT",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(home.vault.read("/Inbox/Report.txt").unwrap(), b"own");
    assert_eq!(home.vault.read("/stolen").unwrap(), b"safe");
}

/// Goal: whoever repeats a deposit with the same text has it there once, also after it was taken in; without a text it is another one.
#[test]
fn a_deposit_that_is_repeated_with_its_text_comes_once() {
    let home = Home::new();
    let depositor = Depositor::open(&home.url).unwrap();
    let new = NewDeposit {
        name: b"mail".to_vec(),
        repeatable_as: Some(b"message-id".to_vec()),
        ..NewDeposit::default()
    };
    let send = || {
        let done = depositor.deposit(&new, &mut &b"text"[..], &mut |_| GoOn::Yes);
        done.unwrap()
    };
    let first = send();
    let second = send();
    assert_eq!((first.was_there, second.was_there), (false, true));
    assert_eq!(first.id, second.id);
    assert_eq!(home.sync().pulled.received, 1);
    // Its removal there is not known to the depositor.
    assert!(!send().was_there);
    assert_eq!(home.sync().pulled.received, 0);
    assert_eq!(home.waiting(), [""; 0]);
    let plain = NewDeposit {
        repeatable_as: None,
        ..new
    };
    for _ in 0..2 {
        let done = depositor.deposit(&plain, &mut &b"text"[..], &mut |_| GoOn::Yes);
        assert!(!done.unwrap().was_there);
    }
    assert_eq!(home.sync().pulled.received, 2);
    assert_eq!(names(&home.vault), ["mail", "mail (2)", "mail (3)"]);
}

/// Goal: a depositor seals to the key of the address that it has, whatever the server shows. Method: the object of one address has the
/// document of another.
/// SECURITY.md, claim 27.
#[test]
fn a_server_that_shows_another_key_gets_nothing() {
    let home = Home::new();
    let document = home.door().document().unwrap();
    let token = format!("sra-{}", "5".repeat(64));
    let hash = strongroom_sync::object_hash(token.as_bytes());
    let name = ObjectName::new(format!("addresses/{}", hex::encode(&hash))).unwrap();
    let remote = Address::parse(&home.served.url("x"))
        .unwrap()
        .open()
        .unwrap();
    remote.create(&name, document).unwrap();
    let refused = Depositor::open(&home.served.url_with("x", &token)).unwrap_err();
    assert!(matches!(refused, Error::RemoteUntrue(_)), "{refused:?}");
}

/// Goal: when keys change, what came by an old address is taken in, then it works no more, and old keys stay until then.
/// SECURITY.md, claim 27.
#[test]
fn new_keys_end_old_addresses_after_what_came_by_them_was_taken_in() {
    let mut home = Home::new();
    let depositor = Depositor::open(&home.url).unwrap();
    home.deposit("before", b"before");
    home.rotate();
    home.deposit("between", b"between");
    let url = home.vault.inbox_url(LABEL);
    assert!(matches!(url, Err(Error::Inbox(_))), "{url:?}");
    // Without its inbox nothing of the old keys would be needed any more.
    home.vault
        .push("server", &mut |_| GoOn::Yes)
        .expect("a push takes nothing in");
    while home.vault.rotate_step().unwrap() {}
    let rotation = home.vault.rotation().unwrap();
    assert!(
        rotation.oldest_epoch < rotation.newest_epoch,
        "{rotation:?}"
    );
    let report = home.sync();
    assert_eq!(report.pulled.received, 2, "{report:?}");
    let refused = Depositor::open(&home.url).unwrap_err().to_string();
    assert!(refused.contains("withdrawn"), "{refused}");
    let late = depositor.deposit(&NewDeposit::default(), &mut &b"late"[..], &mut |_| {
        GoOn::Yes
    });
    assert!(matches!(late, Err(Error::Remote(_))), "{late:?}");
    let addresses = home.vault.inbox().unwrap().addresses;
    assert!(addresses[0].is_old, "{addresses:?}");
    let end = Instant::now() + PATIENCE;
    loop {
        while home.vault.rotate_step().unwrap() {}
        home.sync();
        let rotation = home.vault.rotation().unwrap();
        if rotation.oldest_epoch == rotation.newest_epoch {
            break;
        }
        assert!(Instant::now() < end, "{rotation:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The label is free for one that works.
    let url = home
        .vault
        .add_inbox_address(LABEL, "server", &mut |_| GoOn::Yes)
        .unwrap()
        .url;
    assert_ne!(url, home.url);
    deposit(&url, "after", b"after");
    home.sync();
    assert_eq!(names(&home.vault), ["after", "before", "between"]);
}

/// Goal: new keys end also an address of which the vault says nothing any more. Method: what it says of its inbox is put back to before it.
/// SECURITY.md, claim 27.
#[test]
fn new_keys_end_addresses_that_only_the_server_knows() {
    const STATE: &str = "trusted.strongroom.inbox";
    let mut home = Home::new();
    let before = home.vault.xattr("/", Links::Stay, STATE).unwrap();
    let lost = home
        .vault
        .add_inbox_address("lost", "server", &mut |_| GoOn::Yes);
    let lost = lost.unwrap().url;
    let put_back = home
        .vault
        .set_xattr("/", Links::Stay, STATE, before, XattrMode::Set);
    put_back.unwrap();
    // With the same keys it may be one that another device has made just now.
    home.sync();
    assert!(Depositor::open(&lost).is_ok());
    home.rotate();
    let label = "new";
    let new = home
        .vault
        .add_inbox_address(label, "server", &mut |_| GoOn::Yes);
    let new = new.unwrap().url;
    home.sync();
    let refused = Depositor::open(&lost).unwrap_err().to_string();
    assert!(refused.contains("withdrawn"), "{refused}");
    assert!(Depositor::open(&new).is_ok());
}

/// Goal: an address that was removed is of no use, and what had come by it is not lost; labels are kept apart.
#[test]
fn a_removed_address_works_no_more_and_others_do() {
    let home = Home::new();
    let add = |label: &str, remote: &str| {
        home.vault
            .add_inbox_address(label, remote, &mut |_| GoOn::Yes)
    };
    let shop = add("shop", "server").unwrap().url;
    assert_ne!(shop, home.url);
    assert_eq!(home.vault.inbox_url("shop").unwrap(), shop);
    for (label, remote) in [("shop", "server"), ("", "server"), ("a\nb", "server")] {
        let refused = add(label, remote).unwrap_err();
        assert!(matches!(refused, Error::Inbox(_)), "{label}: {refused:?}");
    }
    deposit(&shop, "bill", b"bill");
    home.vault
        .remove_inbox_address("shop", &mut |_| GoOn::Yes)
        .unwrap();
    assert_eq!(names(&home.vault), ["bill"]);
    assert!(Depositor::open(&shop).is_err());
    home.deposit("letter", b"letter");
    home.sync();
    assert_eq!(names(&home.vault), ["bill", "letter"]);
    let labels = home.vault.inbox().unwrap().addresses;
    let labels: Vec<_> = labels.into_iter().map(|one| one.label).collect();
    assert_eq!(labels, [LABEL]);
    let gone = home
        .vault
        .remove_inbox_address("shop", &mut |_| GoOn::Yes)
        .unwrap_err();
    assert!(matches!(gone, Error::Inbox(_)), "{gone:?}");
}

/// Goal: whoever brings all of the vault back to an earlier state does not bring back what was withdrawn, or what was taken in. Method: an address
/// goes and another comes, and a deposit, all behind the snapshot.
#[test]
fn a_vault_that_is_brought_back_has_the_inbox_as_it_is() {
    let home = Home::new();
    let add = |label: &str| {
        let added = home
            .vault
            .add_inbox_address(label, "server", &mut |_| GoOn::Yes);
        added.unwrap().url
    };
    add("early");
    let before = home.vault.take_revision(&NewRevision::default());
    let before = before.unwrap().unwrap();
    let remove = |label| home.vault.remove_inbox_address(label, &mut |_| GoOn::Yes);
    remove("early").unwrap();
    add("late");
    let depositor = Depositor::open(&home.url).unwrap();
    let new = NewDeposit {
        name: b"mail".to_vec(),
        repeatable_as: Some(b"message-id".to_vec()),
        ..NewDeposit::default()
    };
    let send = || depositor.deposit(&new, &mut &b"text"[..], &mut |_| GoOn::Yes);
    send().unwrap();
    assert_eq!(home.sync().pulled.received, 1);
    home.vault.restore(before.id, "/", "/").unwrap();
    assert_eq!(names(&home.vault), [""; 0]);
    let labels = home.vault.inbox().unwrap().addresses;
    let labels: Vec<_> = labels.into_iter().map(|one| one.label).collect();
    assert_eq!(labels, [LABEL, "late"]);
    send().unwrap();
    assert_eq!(home.sync().pulled.received, 0);
    assert_eq!(home.waiting(), [""; 0]);
}

/// Goal: only a server has an inbox.
#[test]
fn a_folder_has_no_inbox() {
    let (place, vault) = Place::new();
    let folder = place.directory.path().join("disk");
    std::fs::create_dir(&folder).unwrap();
    vault
        .add_remote("disk", &format!("folder:{}", folder.display()))
        .unwrap();
    let refused = vault
        .add_inbox_address(LABEL, "disk", &mut |_| GoOn::Yes)
        .unwrap_err();
    assert!(refused.to_string().contains("server"), "{refused}");
    assert!(vault.inbox().unwrap().addresses.is_empty());
}

/// Goal: a vault that is kept in sync takes in what comes without being asked, once, and leaves nothing at the server. Method: the least
/// interval; one deposit comes again after it was taken in.
#[test]
fn a_vault_that_is_kept_in_sync_takes_deposits_in() {
    let home = Home::new();
    let kept = home.vault.keep_in_sync(Duration::from_secs(1), |_| ());
    let kept = kept.unwrap();
    let depositor = Depositor::open(&home.url).unwrap();
    let new = NewDeposit {
        name: b"letter".to_vec(),
        repeatable_as: Some(b"letter".to_vec()),
        ..NewDeposit::default()
    };
    for _ in 0..2 {
        let done = depositor.deposit(&new, &mut &b"letter"[..], &mut |_| GoOn::Yes);
        assert!(!done.unwrap().was_there);
        let end = Instant::now() + PATIENCE;
        while home.vault.read("/Inbox/letter").is_err() || !home.waiting().is_empty() {
            assert!(Instant::now() < end, "it comes, and goes from the server");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert_eq!(names(&home.vault), ["letter"]);
    drop(kept);
}

/// Goal: a deposit for which there is no place in the vault stays at the server, and comes once there is one.
#[test]
fn what_is_in_the_way_of_the_inbox_is_named_and_nothing_is_lost() {
    let served = Served::new();
    let key_file = KeyFile::random(&SystemRandom).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = CreateOptions::new().key_file(key_file);
    let vault = Vault::create(directory.path().join("vault"), options)
        .unwrap()
        .vault;
    vault.add_remote("server", &served.url("v")).unwrap();
    vault.push("server", &mut |_| GoOn::Yes).unwrap();
    let url = vault.add_inbox_address(LABEL, "server", &mut |_| GoOn::Yes);
    let url = url.unwrap().url;
    // Something else has the name.
    vault.remove_directory("/Inbox").unwrap();
    vault.write("/Inbox", "a file").unwrap();
    deposit(&url, "letter", b"letter");
    let report = sync(&vault, "server");
    assert_eq!(report.pulled.received, 0, "{report:?}");
    assert!(
        report.pulled.deposit_problems[0].contains("/Inbox"),
        "{report:?}"
    );
    vault.remove_file("/Inbox").unwrap();
    assert_eq!(sync(&vault, "server").pulled.received, 1);
    assert_eq!(names(&vault), ["letter"]);
}

/// Goal: whatever three devices do in whatever order, each deposit is there once, moved ones too; one that a user removed at most once.
/// Method: histories by chance, in which one user moves, changes and removes what came.
#[test]
fn in_any_order_each_deposit_is_there_once() {
    for seed in 1..=3 {
        play(seed);
    }
}

fn play(seed: u64) {
    let home = Home::new();
    home.vault.make_directory("/Done", 0o700).unwrap();
    home.sync();
    let mut others = ["two", "three"].map(|name| home.device(name));
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut chance = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % below
    };
    let (mut deposited, mut removed) = (Vec::new(), Vec::new());
    for step in 0..60 {
        let which = chance(3);
        let device = match which {
            0 => (&home.vault, "server"),
            other => (&others[other as usize - 1], CLONED_FROM),
        };
        match chance(9) {
            0..3 => {
                let content = format!("{seed}.{step}");
                home.deposit(&format!("n{}.txt", step % 3), content.as_bytes());
                deposited.push(content.into_bytes());
            }
            3..5 => drop(pull(device.0, device.1)),
            5 => drop(sync(device.0, device.1)),
            6 if which > 0 => {
                let one = &mut others[which as usize - 1];
                let folder = one.folder().to_owned();
                one.close().unwrap();
                let secret = home.place.secret.clone();
                *one = Vault::open(folder, secret, OpenOptions::default()).unwrap();
            }
            _ => {
                let inbox = files(&home.vault, "/Inbox");
                let Some((name, content)) = inbox.into_iter().next() else {
                    continue;
                };
                let path = format!("/Inbox/{name}");
                match chance(2) {
                    0 => {
                        home.vault.remove_file(&path).unwrap();
                        removed.push(content);
                    }
                    _ => {
                        let to = format!("/Done/{step}");
                        let moved = home.vault.rename(&path, to, RenameMode::NoReplace);
                        moved.unwrap();
                    }
                }
            }
        }
    }
    for _ in 0..4 {
        home.sync();
        for other in &others {
            sync(other, CLONED_FROM);
        }
    }
    home.sync();
    let found = |vault: &Vault| {
        let mut all = files(vault, "/Done").into_values().collect::<Vec<_>>();
        all.extend(files(vault, "/Inbox").into_values());
        all.sort();
        all
    };
    let all = found(&home.vault);
    for other in &others {
        assert_eq!(found(other), all, "seed {seed}");
    }
    for content in &deposited {
        let count = all.iter().filter(|one| *one == content).count();
        let name = String::from_utf8_lossy(content);
        match removed.contains(content) {
            true => assert!(count <= 1, "seed {seed}: {name} is there {count} times"),
            false => assert_eq!(count, 1, "seed {seed}: {name}"),
        }
    }
    assert_eq!(home.waiting(), [""; 0], "seed {seed}");
}
