//! Several instances of a server on one database of PostgreSQL and one S3 server, which `tools/server_test.py` starts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/members.rs"]
mod members;
mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use members::{HERE, answer_of, challenge, object as name, pass, push_first, vault, with_device};
use strongroom_remote::{Created, Waited};
use strongroom_server::{
    Collecting, Configuration, Error, GarbageReport, Quota, Reading, Server, Unfinished, Upkeep,
};
use support::scaled::Services;
use support::{Answer, Place, answer, ask, said};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strongroom-server");

/// How long a request may take whose database or object store is away: the limits of both, and some time for this machine.
const ANSWERED: Duration = Duration::from_secs(60);

/// The lock of backups, as the server numbers it.
const BACKUP: i64 = (0x7372_7376 << 16) | 2;

/// Advisory locks of the database that asks: others run at the same PostgreSQL.
const OWN_LOCKS: &str = "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

fn upkeep(place: &Place) -> Upkeep {
    Upkeep::open(place.storage()).unwrap()
}

fn garbage(place: &Place, unfinished: Unfinished) -> GarbageReport {
    let upkeep = upkeep(place);
    let counted = upkeep.collect_with(Collecting::Count, unfinished).unwrap();
    let removed = upkeep.collect_with(Collecting::Remove, unfinished).unwrap();
    // What is counted of uploads need not have come.
    assert!(counted.files >= removed.files && counted.bytes <= removed.bytes);
    let left = upkeep.collect_with(Collecting::Count, unfinished).unwrap();
    assert_eq!(left, GarbageReport::default());
    removed
}

/// Fails unless so many objects are left in the object store, and nothing is on its way: what a request leaves is removed behind its answer.
fn assert_settles(place: &Place, objects: usize) {
    let begun = Instant::now();
    while (place.files("moving"), place.files("objects")) != (0, objects) {
        assert!(
            begun.elapsed() < ANSWERED,
            "{} objects",
            place.files("objects")
        );
    }
}

fn publication(number: u64) -> strongroom_remote::ObjectName {
    name(&format!("publications/{number:016}"))
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// What one instance creates, others read, list and remove.
#[test]
fn what_one_instance_has_created_all_others_have() {
    let Some(place) = Place::scaled() else { return };
    let other = place.instance();
    let (one, two) = (place.vault("v"), place.vault_at(&other, "v"));
    let bytes: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
    let long = name(&format!("segments/{}", blake3::hash(&bytes).to_hex()));
    assert_eq!(one.create(&long, bytes.clone()).unwrap(), Created::New);
    assert_eq!(
        two.create(&long, bytes.clone()).unwrap(),
        Created::AlreadyThere
    );
    assert!(two.read(&long, 1 << 20).unwrap().unwrap() == bytes);
    let part = two.read_range(&long, 300_000..300_010).unwrap().unwrap();
    assert_eq!(part, bytes[300_000..300_010]);
    assert_eq!(two.list("segments").unwrap().len(), 1);
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
    two.remove(&long).unwrap();
    assert!(!one.has(&long).unwrap());
    assert_eq!((place.files("objects"), place.files("moving")), (0, 0));
}

/// Goal: of several devices that publish the next number at different instances exactly one does. Method: eight devices, four at each of
/// two instances, which begin together; `STRONGROOM_RACES` numbers.
/// SECURITY.md, claim 25.
#[test]
fn of_publications_that_race_at_two_instances_each_number_has_one_winner() {
    const DEVICES: usize = 8;
    let races: u64 = std::env::var("STRONGROOM_RACES").map_or(300, |races| races.parse().unwrap());
    let Some(place) = Place::scaled() else { return };
    let other = place.instance();
    let barrier = Barrier::new(DEVICES);
    let wins: Vec<Vec<u64>> = thread::scope(|scope| {
        let devices: Vec<_> = (0..DEVICES)
            .map(|device| {
                let (place, other, barrier) = (&place, &other, &barrier);
                scope.spawn(move || {
                    let vault = match device % 2 {
                        0 => place.vault("v"),
                        _ => place.vault_at(other, "v"),
                    };
                    let mut won = Vec::new();
                    for number in 1..=races {
                        barrier.wait();
                        let bytes = format!("{device}").into_bytes();
                        if vault.create(&publication(number), bytes).unwrap() == Created::New {
                            won.push(number);
                        }
                    }
                    won
                })
            })
            .collect();
        let joined = devices.into_iter().map(|device| device.join().unwrap());
        joined.collect()
    });
    let mut all: Vec<u64> = wins.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=races).collect::<Vec<_>>());
    let vault = place.vault("v");
    for (device, won) in wins.iter().enumerate() {
        for number in won.iter().step_by(20) {
            let kept = vault.read(&publication(*number), 1).unwrap().unwrap();
            assert_eq!(kept, device.to_string().as_bytes());
        }
    }
    // What the others sent goes.
    assert_settles(&place, usize::try_from(races).unwrap());
}

/// Goal: what an account may use is not overrun at several instances at once. Method: forty that send ten bytes of a hundred, at two.
#[test]
fn a_quota_holds_at_several_instances_at_once() {
    let Some(services) = Services::new() else {
        return;
    };
    let quota = Quota {
        bytes: 100,
        objects: 1000,
    };
    let place = Place::on(Some(services), quota);
    let other = place.instance();
    let created: usize = thread::scope(|scope| {
        let senders: Vec<_> = (0..40_u8)
            .map(|number| {
                let (place, other) = (&place, &other);
                scope.spawn(move || {
                    let vault = match number % 2 {
                        0 => place.vault("v"),
                        _ => place.vault_at(other, "v"),
                    };
                    let one = name(&format!("segments/{number}"));
                    usize::from(vault.create(&one, vec![number; 10]).is_ok())
                })
            })
            .collect();
        let joined = senders.into_iter().map(|sender| sender.join().unwrap());
        joined.sum()
    });
    assert_eq!(created, 10);
    assert_settles(&place, 10);
    let used = place.accounts().list().unwrap()[0].used;
    assert_eq!((used.bytes, used.objects), (100, 10));
}

/// Goal: who waits at one instance hears what is published at another, also after the connection was lost by which that is heard. Method:
/// the database ends that connection; what is published meanwhile is heard, too.
#[test]
fn who_waits_at_one_instance_hears_what_is_published_at_another() {
    let Some(place) = Place::scaled() else { return };
    let other = place.instance();
    let publisher = place.vault_at(&other, "v");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    for number in 1..=6 {
        thread::scope(|scope| {
            let before = place.server.as_ref().unwrap().requests();
            let waiting = scope.spawn(|| {
                let vault = place.vault("v");
                vault.wait_behind(number - 1, &|| true).unwrap()
            });
            while place.server.as_ref().unwrap().requests() == before {
                thread::yield_now();
            }
            if number % 2 == 0 {
                place.services.as_ref().unwrap().sql(end);
            }
            let made = publisher.create(&publication(number), b"p".to_vec());
            assert_eq!(made.unwrap(), Created::New);
            assert_eq!(waiting.join().unwrap(), Waited::Published(number));
        });
    }
}

/// Goal: a device that logged in at one instance is logged in at all of them; a challenge of one is good at another, once; nothing counts
/// that a clock has brought in from the future.
#[test]
fn a_login_at_one_instance_is_one_at_all() {
    let Some(mut place) = Place::scaled() else {
        return;
    };
    let (one, _) = vault();
    let (one, _) = with_device(&one);
    push_first(&*place.vault("v"), &one);
    let token = pass(&place, "v", &one);
    let recorded = answer_of(&one, (HERE, "anna", "v"), &challenge(&place, "v"));
    let recorded = serde_json::to_vec(&recorded).unwrap();
    let other = place.instance();
    let first = place.server.replace(other).unwrap();
    let read = |place: &Place, token: &str| {
        let path = "/v1/vaults/anna/v/objects/segments/a";
        ask(place.address(), "GET", path, &bearer(token), b"")
    };
    assert_eq!(read(&place, &token).body, b"canary");
    let log_in = |server: &Server| -> Answer {
        let path = "/v1/vaults/anna/v/login";
        let head = format!(
            "{}content-length: {}\r\n",
            bearer(&place.token),
            recorded.len()
        );
        ask(server.address(), "POST", path, &head, &recorded)
    };
    assert_eq!(log_in(place.server.as_ref().unwrap()).status, 200);
    assert_eq!(log_in(&first).code(), "no-challenge");
    assert_eq!(
        log_in(place.server.as_ref().unwrap()).code(),
        "no-challenge"
    );
    // An instance that ends takes no login with it.
    first.stop();
    assert_eq!(read(&place, &token).status, 200);
    let services = place.services.as_ref().unwrap();
    for change in [
        "began_s = began_s + 1000",
        "began_s = began_s - 1000, until_s = until_s - 1000",
    ] {
        services.sql(&format!("UPDATE login SET {change}"));
        assert_eq!(read(&place, &token).code(), "login-over", "{change}");
    }
    // The hash of a token is there, and no token.
    let kept = services.sql("SELECT string_agg(login::text, '') FROM login");
    assert!(!kept[0].contains(&token[4..]), "{kept:?}");
}

/// Goal: what an account can have kept is bounded, and what is over goes. Method: more challenges than an account may have; then all of
/// them are over.
#[test]
fn challenges_of_an_account_are_bounded_and_go_when_they_are_over() {
    let Some(place) = Place::scaled() else { return };
    let (one, _) = vault();
    push_first(&*place.vault("v"), &one);
    let services = place.services.as_ref().unwrap();
    let count = || {
        services.sql("SELECT count(*) FROM challenge")[0]
            .parse::<usize>()
            .unwrap()
    };
    for _ in 0..70 {
        challenge(&place, "v");
    }
    assert_eq!(count(), 64);
    services.sql("UPDATE challenge SET until_s = began_s - 1000, began_s = began_s - 2000");
    challenge(&place, "v");
    assert_eq!(count(), 1);
}

/// Goal: instances that start at once on an empty database make its tables once. Method: eight of them, and accounts added meanwhile.
#[test]
fn instances_that_start_at_once_make_the_tables_once() {
    let Some(services) = Services::new() else {
        return;
    };
    let storage = services.storage();
    let barrier = Barrier::new(8);
    let servers: Vec<Server> = thread::scope(|scope| {
        let starting: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    support::start(&storage, strongroom_server::Tls::Off)
                })
            })
            .collect();
        let started = starting.into_iter().map(|one| one.join().unwrap());
        started.collect()
    });
    assert_eq!(services.sql("SELECT steps FROM strongroom_server").len(), 1);
    for server in &servers {
        assert_eq!(ask(server.address(), "GET", "/readyz", "", b"").status, 200);
    }
}

#[test]
fn a_database_of_others_or_of_a_newer_version_stays_as_it_is() {
    let Some(services) = Services::new() else {
        return;
    };
    services.sql("CREATE TABLE account (id BIGINT)");
    let refused = Upkeep::open(services.storage()).map(drop);
    assert!(
        matches!(refused, Err(Error::ForeignDatabase)),
        "{refused:?}"
    );
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(services.sql(tables), ["1"]);
    let Some(services) = Services::new() else {
        return;
    };
    Upkeep::open(services.storage()).unwrap();
    services.sql("UPDATE strongroom_server SET shared_steps = 99");
    let refused = Upkeep::open(services.storage()).map(drop);
    assert!(
        matches!(refused, Err(Error::NewerSchema { found: 99, .. })),
        "{refused:?}"
    );
}

/// Goal: an upload that is cut off leaves nothing for good, and no object; one that `gc` took for cut off is not added. Method: half of an
/// object has come when `gc` runs.
#[test]
fn what_gc_takes_of_an_upload_is_no_object() {
    let Some(place) = Place::scaled() else { return };
    let services = place.services.as_ref().unwrap();
    let bytes = vec![7_u8; 600_000];
    let mut line = place.begin("PUT", "objects/segments/a", &said(&bytes));
    line.write_all(&bytes[..300_000]).unwrap();
    let coming = || services.sql("SELECT file FROM coming").len();
    let begun = Instant::now();
    while coming() == 0 {
        assert!(begun.elapsed() < ANSWERED);
        thread::yield_now();
    }
    // Nothing is late.
    assert_eq!(garbage(&place, Unfinished::Late), GarbageReport::default());
    assert_eq!(coming(), 1);
    garbage(&place, Unfinished::All);
    assert_eq!(coming(), 0);
    line.write_all(&bytes[300_000..]).unwrap();
    let refused = answer(line);
    assert_eq!((refused.status, refused.code()), (503, "busy"));
    assert!(!place.vault("v").has(&name("segments/a")).unwrap());
    assert_settles(&place, 0);
    // A line that breaks.
    let mut line = place.begin("PUT", "objects/segments/a", &said(&bytes));
    line.write_all(&bytes[..300_000]).unwrap();
    line.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answer(line).code(), "length");
    assert_settles(&place, 0);
    // What is sent as another hash than it has.
    let head = said(&bytes).replace(&blake3::hash(&bytes).to_hex().to_string(), &"0".repeat(64));
    let refused = place.ask("PUT", "objects/segments/a", &head, &bytes);
    assert_eq!(refused.code(), "hash");
    assert_settles(&place, 0);
    // Those whose rows say that they are late, also by a clock that has jumped back since.
    for (id, began_s) in [
        ("00", "unixepoch() - 100000"),
        ("01", "unixepoch() + 100000"),
    ] {
        services.sql(&format!(
            "INSERT INTO coming (file, began_s) VALUES (decode(repeat('{id}', 16), 'hex'), {began_s})"
        ));
    }
    assert_eq!(garbage(&place, Unfinished::Late), GarbageReport::default());
    assert_settles(&place, 0);
}

/// Goal: `gc` takes from the object store what no table knows, as an older database leaves it that was put back, and nothing else. Method:
/// an object of ours without a row, one of somebody else, and objects.
#[test]
fn garbage_in_the_object_store_is_what_no_table_knows() {
    let Some(place) = Place::scaled() else { return };
    let services = place.services.as_ref().unwrap();
    place
        .vault("v")
        .create(&name("a"), b"abc".to_vec())
        .unwrap();
    services.put(&"ab".repeat(16), b"12345");
    services.put("notes.txt", b"somebody's");
    let found = upkeep(&place).check(Reading::Content, &mut |_| {}).unwrap();
    assert_eq!(
        (
            found.problem_count,
            found.garbage_files,
            found.garbage_bytes
        ),
        (0, 1, 5)
    );
    assert_eq!(
        garbage(&place, Unfinished::Late),
        GarbageReport { files: 1, bytes: 5 }
    );
    assert_eq!(services.stored().len(), 2);
    assert_eq!(
        place.vault("v").read(&name("a"), 3).unwrap().unwrap(),
        b"abc"
    );
}

#[test]
fn a_check_names_what_is_lost_or_damaged_in_the_object_store() {
    let Some(place) = Place::scaled() else { return };
    let services = place.services.as_ref().unwrap();
    let one = name(&format!("segments/{}", blake3::hash(b"abc").to_hex()));
    place.vault("v").create(&one, b"abc".to_vec()).unwrap();
    let at = services.stored().remove(0);
    for (bytes, what, quick) in [
        (
            Some(b"abd".as_slice()),
            "its bytes do not have the hash in its name",
            0,
        ),
        (Some(b"ab".as_slice()), "it has 2 bytes instead of 3", 1),
        (None, "it is missing from the object store", 1),
    ] {
        services.damage(&at, bytes);
        let found = upkeep(&place).check(Reading::Content, &mut |_| {}).unwrap();
        assert_eq!(found.problem_count, 1, "{what}");
        assert_eq!(
            (&*found.problems[0].object, &*found.problems[0].what),
            (one.as_str(), what)
        );
        let lengths = upkeep(&place).check(Reading::Lengths, &mut |_| {}).unwrap();
        assert_eq!(lengths.problem_count, quick, "{what}");
    }
    let lost = place.ask("GET", &format!("objects/{}", one.as_str()), "", b"");
    assert_eq!((lost.status, lost.code()), (500, "failed"));
    services.sql("UPDATE vault SET last = 2");
    let found = upkeep(&place).check(Reading::Lengths, &mut |_| {}).unwrap();
    let words: Vec<&str> = found.problems.iter().map(|one| &*one.what).collect();
    assert!(
        words.contains(&"its newest publication, number 2, is missing"),
        "{words:?}"
    );
}

/// Goal: while a backup is made nothing goes from the object store that its database may have; afterwards it does. One backup is made at a
/// time, and `gc` waits for its end. Method: the removals happen in the middle of the backup.
#[test]
fn what_is_removed_during_a_backup_stays_in_the_object_store() {
    let Some(place) = Place::scaled() else { return };
    let vault = place.vault("v");
    for one in ["a", "b"] {
        vault.create(&name(one), b"abc".to_vec()).unwrap();
    }
    let upkeep = upkeep(&place);
    let copied = upkeep.during_backup(|| {
        vault.remove(&name("a")).unwrap();
        assert!(!vault.has(&name("a")).unwrap());
        let second = upkeep.during_backup(|| ());
        assert!(matches!(second, Err(Error::BackupRunning)), "{second:?}");
        let taken = upkeep.collect(Collecting::Remove);
        assert!(matches!(taken, Err(Error::BackupRunning)), "{taken:?}");
        place.files("objects")
    });
    assert_eq!(copied.unwrap(), 2);
    assert_eq!(
        garbage(&place, Unfinished::Late),
        GarbageReport { files: 1, bytes: 3 }
    );
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
    vault.remove(&name("b")).unwrap();
    assert_eq!((place.files("objects"), place.files("moving")), (0, 0));
    // A lock that was lost is said.
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {OWN_LOCKS}");
    let lost = upkeep.during_backup(|| place.services.as_ref().unwrap().sql(&end));
    assert!(matches!(lost, Err(Error::BackupLost)), "{lost:?}");
    let folder = upkeep.backup(
        std::path::Path::new("/nowhere"),
        std::path::Path::new("/nowhere/b"),
        &mut |_| {},
    );
    assert!(matches!(folder, Err(Error::NoFolder)), "{folder:?}");
}

/// Goal: a backup begins although objects are removed all the time. Method: somebody holds the lock as a removal does, until the backup waits
/// for it; it fails if none does.
#[test]
fn a_backup_waits_for_a_removal_that_is_under_way() {
    let Some(place) = Place::scaled() else { return };
    let services = place.services.as_ref().unwrap();
    let removal = format!(
        "DO $$ BEGIN
             PERFORM pg_advisory_xact_lock_shared({BACKUP});
             FOR look IN 1..6000 LOOP
                 IF EXISTS (SELECT 1 FROM pg_locks WHERE {OWN_LOCKS} AND NOT granted) THEN RETURN; END IF;
                 PERFORM pg_sleep(0.01);
             END LOOP;
             RAISE 'no backup waits';
         END $$"
    );
    let held = format!("SELECT 1 FROM pg_locks WHERE {OWN_LOCKS} AND granted");
    thread::scope(|scope| {
        let removing = scope.spawn(|| services.sql(&removal));
        while services.sql(&held).is_empty() {
            assert!(!removing.is_finished());
        }
        upkeep(&place).during_backup(|| ()).unwrap();
        removing.join().unwrap();
    });
}

#[test]
fn a_removed_account_leaves_nothing_in_the_object_store() {
    let Some(place) = Place::scaled() else { return };
    let vault = place.vault("v");
    for number in 1..=30 {
        vault.create(&publication(number), vec![1; 10]).unwrap();
    }
    place.accounts().remove("anna").unwrap();
    assert_eq!((place.files("objects"), place.files("moving")), (0, 0));
    assert!(place.accounts().list().unwrap().is_empty());
}

/// Goal: a connection with TLS is made to a database whose certificate is trusted, and to no other. Method: a certificate that signs itself, with
/// and without it among those that are trusted.
#[test]
fn a_database_is_reached_by_tls_only_with_a_certificate_that_is_trusted() {
    let Some(services) = Services::new() else {
        return;
    };
    let Some(own) = std::env::var_os("STRONGROOM_TEST_DATABASE_CA") else {
        eprintln!("skipped: the database has no TLS");
        return;
    };
    let open = |authority: Option<PathBuf>| {
        let configuration = Configuration {
            database: Some(format!("{}?sslmode=require", services.database())),
            database_ca: authority,
            objects: Some(services.objects()),
            ..Configuration::default()
        };
        Upkeep::open(configuration.storage().unwrap())
    };
    let upkeep = open(Some(PathBuf::from(&own))).unwrap();
    let with_tls = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND datname = current_database()";
    assert_ne!(services.sql(with_tls), ["0"]);
    drop(upkeep);
    let refused = open(None).map(drop);
    let is_it = |words: &str| words.contains("certificate");
    assert!(
        matches!(&refused, Err(Error::DatabaseAway(words)) if is_it(words)),
        "{refused:?}"
    );
    let missing = open(Some(PathBuf::from("/nowhere/ca.pem"))).map(drop);
    assert!(
        matches!(missing, Err(Error::Configuration(_))),
        "{missing:?}"
    );
}

/// Goal: an object that is created and removed at several instances at once is there whole or not at all, and nothing else is left. Method: four
/// that create one name and four that remove it, for a while.
#[test]
fn who_creates_and_who_removes_one_object_at_once_leave_it_whole_or_gone() {
    let Some(place) = Place::scaled() else { return };
    let other = place.instance();
    let one = name("needs/a");
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let (place, other, one) = (&place, &other, &one);
            scope.spawn(move || {
                let vault = match number % 2 {
                    0 => place.vault("v"),
                    _ => place.vault_at(other, "v"),
                };
                for _ in 0..60 {
                    if number < 4 {
                        vault.create(one, vec![number; 20_000]).unwrap();
                        let read = vault.read(one, 20_000).unwrap();
                        let is_whole = |bytes: Vec<u8>| {
                            bytes.len() == 20_000 && bytes.iter().all(|byte| *byte == bytes[0])
                        };
                        assert!(read.is_none_or(is_whole));
                    } else {
                        vault.remove(one).unwrap();
                    }
                }
            });
        }
    });
    place.vault("v").remove(&one).unwrap();
    assert_settles(&place, 0);
    let found = upkeep(&place).check(Reading::Content, &mut |_| {}).unwrap();
    assert_eq!(
        (found.objects, found.problem_count, found.garbage_files),
        (0, 0, 0)
    );
}

/// What a store answers that does not take an upload.
fn refusal(status: &str, code: &str) -> String {
    let document = format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code></Error>");
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{document}",
        document.len()
    )
}

/// Passes connections on to a port of this machine, unless it is cut or rests.
struct Relay {
    port: u16,
    /// Uploads get this answer, if there is one, and do not go on.
    refusal: Arc<Mutex<Option<String>>>,
    is_cut: Arc<AtomicBool>,
    rests: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Requests of HTTP that went on.
    requests: Arc<AtomicUsize>,
}

/// How many requests begin in these bytes: heads are short, and come whole.
fn heads(bytes: &[u8]) -> usize {
    let ends = bytes.windows(11).filter(|part| part == b" HTTP/1.1\r\n");
    ends.count()
}

impl Relay {
    fn to(far: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            refusal: Arc::default(),
            is_cut: Arc::default(),
            rests: Arc::default(),
            open: Arc::default(),
            requests: Arc::default(),
        };
        let (is_cut, open) = (Arc::clone(&relay.is_cut), Arc::clone(&relay.open));
        let (rests, refusal) = (Arc::clone(&relay.rests), Arc::clone(&relay.refusal));
        let requests = Arc::clone(&relay.requests);
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", far)) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (rests, requests) = (Arc::clone(&rests), Arc::clone(&requests));
                    let refusal = Arc::clone(&refusal);
                    thread::spawn(move || {
                        let (mut piece, mut is_refused) = (vec![0; 1 << 16], false);
                        while let Ok(count @ 1..) = from.read(&mut piece) {
                            while rests.load(Ordering::SeqCst) {
                                thread::sleep(Duration::from_millis(5));
                            }
                            requests.fetch_add(heads(&piece[..count]), Ordering::SeqCst);
                            let refusal = refusal.lock().unwrap().clone();
                            if let Some(refusal) = refusal
                                && piece[..count].starts_with(b"PUT ")
                            {
                                is_refused = true;
                                let _ = from.write_all(refusal.as_bytes());
                            }
                            // The rest of what was refused is read, so that the answer arrives.
                            if is_refused {
                                continue;
                            }
                            if to.write_all(&piece[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                open.lock().unwrap().extend([near, far]);
            }
        });
        relay
    }

    /// Ends every connection, and each that is begun from here on.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for one in self.open.lock().unwrap().drain(..) {
            let _ = one.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }

    /// Keeps every connection, and passes nothing on until `go_on`.
    fn rest(&self) {
        self.rests.store(true, Ordering::SeqCst);
    }

    fn go_on(&self) {
        self.rests.store(false, Ordering::SeqCst);
    }
}

/// Goal: while the database or the object store is away, every request that needs it is refused in bounded time with the reason and a time
/// to come again, and `/readyz` says so; afterwards everything works again. Method: the lines to both are cut, one after the other.
#[test]
fn a_database_or_an_object_store_that_is_away_is_said_and_nobody_hangs() {
    let Some(mut services) = Services::new() else {
        return;
    };
    let (database, objects) = services.own_ports();
    let (database, objects) = (Relay::to(database), Relay::to(objects));
    services.reached_at(database.port, objects.port);
    let place = Place::on(Some(services), Quota::default());
    place.ask("PUT", "objects/segments/a", &said(b"abc"), b"abc");
    // The token of an address of an inbox.
    let door = format!("sra-{}", "7".repeat(64));
    let address = format!(
        "objects/addresses/{}",
        blake3::hash(door.as_bytes()).to_hex()
    );
    place.ask("PUT", &address, &said(b"address"), b"address");
    let refused = |method: &str, below: &str, code: &str| {
        let begun = Instant::now();
        let body: &[u8] = if method == "PUT" { b"bytes" } else { b"" };
        let answer = match below {
            "/readyz" => ask(place.address(), method, below, "", b""),
            _ => {
                let token = match below.starts_with("inbox") {
                    true => &door,
                    false => &place.token,
                };
                let path = format!("/v1/vaults/anna/v/{below}");
                let head = format!("{}{}", bearer(token), said(body));
                ask(place.address(), method, &path, &head, body)
            }
        };
        assert_eq!(
            (answer.status, answer.code()),
            (503, code),
            "{method} {below}"
        );
        assert_eq!(answer.header("retry-after"), "5");
        assert!(begun.elapsed() < ANSWERED, "{:?}", begun.elapsed());
    };
    let works = || {
        let begun = Instant::now();
        while place.ask("GET", "objects/segments/a", "", b"").body != b"abc"
            || ask(place.address(), "GET", "/readyz", "", b"").status != 200
        {
            assert!(begun.elapsed() < ANSWERED);
        }
    };
    works();
    database.cut();
    for (method, below) in [
        ("GET", "objects/segments/a"),
        ("HEAD", "objects/segments/a"),
        ("PUT", "objects/segments/b"),
        ("DELETE", "objects/segments/a"),
        ("GET", "objects?kind=segments"),
        ("GET", "publications?after=0&wait=30"),
        ("GET", "inbox"),
        ("PUT", "inbox/00112233445566778899aabbccddeeff"),
        ("GET", "/readyz"),
    ] {
        refused(method, below, "database-away");
    }
    assert_eq!(ask(place.address(), "GET", "/healthz", "", b"").status, 200);
    database.mend();
    works();
    objects.cut();
    // It was there a moment ago, which is good for some seconds.
    let begun = Instant::now();
    while ask(place.address(), "GET", "/readyz", "", b"").status == 200 {
        assert!(begun.elapsed() < ANSWERED);
    }
    for (method, below) in [
        ("GET", "objects/segments/a"),
        ("PUT", "objects/segments/b"),
        ("GET", "inbox"),
        ("PUT", "inbox/00112233445566778899aabbccddeeff"),
        ("GET", "/readyz"),
    ] {
        refused(method, below, "objects-away");
    }
    // What needs no bytes works; what is removed is gone, and its bytes later.
    assert_eq!(
        place.ask("GET", "objects?kind=segments", "", b"").status,
        200
    );
    place.ask("DELETE", "objects/segments/a", "", b"");
    objects.mend();
    let created = || {
        place
            .ask("PUT", "objects/segments/a", &said(b"abc"), b"abc")
            .status
    };
    let begun = Instant::now();
    while created() != 201 {
        assert!(begun.elapsed() < ANSWERED);
    }
    works();
    garbage(&place, Unfinished::All);
    assert_eq!((place.files("objects"), place.files("moving")), (2, 0));
}

/// Goal: a database or an object store that accepts connections and answers nothing holds nobody up for long, and afterwards everything works
/// again. Method: what passes between them rests, of one after the other.
#[test]
fn a_database_or_an_object_store_that_does_not_answer_is_said_and_nobody_hangs() {
    let Some(mut services) = Services::new() else {
        return;
    };
    let (database, objects) = services.own_ports();
    let (database, objects) = (Relay::to(database), Relay::to(objects));
    services.reached_at(database.port, objects.port);
    let place = Place::on(Some(services), Quota::default());
    let head = said(b"abc");
    let created = place.ask("PUT", "objects/segments/a", &head, b"abc");
    assert_eq!(created.status, 201);
    let refused = |method: &str, below: &str, code: &str| {
        let begun = Instant::now();
        let body: &[u8] = if method == "PUT" { b"bytes" } else { b"" };
        let answer = place.ask(method, below, &said(body), body);
        let about = format!("{method} {below}: {answer:?}");
        assert_eq!((answer.status, answer.code()), (503, code), "{about}");
        assert!(begun.elapsed() < ANSWERED, "{about}");
    };
    let works = || {
        let begun = Instant::now();
        while place.ask("GET", "objects/segments/a", "", b"").body != b"abc" {
            assert!(begun.elapsed() < ANSWERED);
        }
    };
    for (relay, code) in [(&database, "database-away"), (&objects, "objects-away")] {
        relay.rest();
        refused("GET", "objects/segments/a", code);
        refused("PUT", "objects/segments/b", code);
        let alive = ask(place.address(), "GET", "/healthz", "", b"");
        assert_eq!(alive.status, 200);
        relay.go_on();
        works();
    }
    // What was sent meanwhile may arrive at the store only now: it is garbage.
    let begun = Instant::now();
    loop {
        let upkeep = upkeep(&place);
        let collected = upkeep.collect_with(Collecting::Remove, Unfinished::All);
        collected.unwrap();
        if place.files("objects") == 1 {
            break;
        }
        assert!(begun.elapsed() < ANSWERED);
    }
    works();
}

/// Goal: a database that is full is said, nothing of the object stays, and it works again. Method: a trigger that fails as a full disk does.
#[test]
fn a_database_that_is_full_is_said_and_leaves_nothing() {
    let Some(place) = Place::scaled() else { return };
    let services = place.services.as_ref().unwrap();
    services.sql(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON object FOR EACH ROW EXECUTE FUNCTION full_disk()",
    );
    let put = || place.ask("PUT", "objects/segments/a", &said(b"bytes"), b"bytes");
    let full = put();
    assert_eq!((full.status, full.code()), (507, "disk-full"));
    assert_settles(&place, 0);
    services.sql("DROP TRIGGER full_disk ON object");
    assert_eq!(put().status, 201);
}

/// Goal: an object store that is full is said as a full disk is, nothing of the object stays, and it works again. Method: uploads get the
/// answers of such stores, and one of a store that refuses for another reason. Failed before: only the status 507 was full, and the
/// others away.
#[test]
fn an_object_store_that_is_full_is_said_and_leaves_nothing() {
    let Some(mut services) = Services::new() else {
        return;
    };
    let (database, objects) = services.own_ports();
    let relay = Relay::to(objects);
    services.reached_at(database, relay.port);
    let place = Place::on(Some(services), Quota::default());
    let put = |below: &str| place.ask("PUT", below, &said(b"bytes"), b"bytes");
    assert_eq!(put("objects/segments/a").status, 201);
    for (status, code, answered, said) in [
        ("507 Insufficient Storage", "", 507, "disk-full"),
        (
            "507 Insufficient Storage",
            "XMinioStorageFull",
            507,
            "disk-full",
        ),
        ("403 Forbidden", "QuotaExceeded", 507, "disk-full"),
        (
            "400 Bad Request",
            "XMinioAdminBucketQuotaExceeded",
            507,
            "disk-full",
        ),
        ("403 Forbidden", "AccessDenied", 503, "objects-away"),
    ] {
        *relay.refusal.lock().unwrap() = Some(refusal(status, code));
        let refused = put("objects/segments/b");
        assert_eq!((refused.status, refused.code()), (answered, said), "{code}");
    }
    let there = place.ask("GET", "objects/segments/a", "", b"");
    assert_eq!(there.body, b"bytes");
    assert_settles(&place, 1);
    *relay.refusal.lock().unwrap() = None;
    assert_eq!(put("objects/segments/b").status, 201);
    assert_settles(&place, 2);
}

/// Goal: instances continue with the database of an earlier version, with what is in it. Method: its last step is taken back; the account, its
/// object and the order of its publications are there afterwards, and what is new begins with nothing.
#[test]
fn a_database_of_an_earlier_version_gets_the_tables_of_this_one() {
    let Some(mut place) = Place::scaled() else {
        return;
    };
    let one = name("segments/a");
    place.vault("v").create(&one, b"abc".to_vec()).unwrap();
    place
        .vault("v")
        .create(&publication(1), b"p".to_vec())
        .unwrap();
    place.server.take().unwrap().stop();
    let services = place.services.as_ref().unwrap();
    services.sql(
        "ALTER TABLE account DROP COLUMN keep_days;
         ALTER TABLE object DROP COLUMN asked_s;
         ALTER TABLE depositor DROP COLUMN pieces_until_s;
         UPDATE strongroom_server SET steps = steps - 1",
    );
    place.server = Some(place.instance());
    let vault = place.vault("v");
    assert_eq!(vault.read(&one, 3).unwrap().unwrap(), b"abc");
    let made = vault.create(&publication(2), b"p".to_vec());
    assert_eq!(made.unwrap(), Created::New);
    let account = place.accounts().list().unwrap().remove(0);
    assert_eq!((account.keep_days, account.used.objects), (0, 3));
    vault.remove(&publication(1)).unwrap();
}

/// Goal: an instance whose bucket is missing is not ready, and says why. Method: an instance with another name of the bucket.
#[test]
fn an_instance_without_its_bucket_is_not_ready() {
    let Some(services) = Services::new() else {
        return;
    };
    let mut objects = url::Url::parse(&services.objects()).unwrap();
    objects.set_host(Some("no-such-bucket")).unwrap();
    let configuration = Configuration {
        database: Some(services.database()),
        objects: Some(objects.to_string()),
        ..Configuration::default()
    };
    let server = support::start(
        configuration.storage().unwrap(),
        strongroom_server::Tls::Off,
    );
    let ask = |path: &str| ask(server.address(), "GET", path, "", b"");
    assert_eq!(ask("/healthz").status, 200);
    let refused = ask("/readyz");
    assert_eq!((refused.status, refused.code()), (503, "objects-away"));
    assert_eq!(refused.header("retry-after"), "5");
}

/// Goal: whoever asks an instance all the time whether it is ready does not make it ask the object store as often. Method: the requests that
/// reach the store; time is only what more of them could have let on.
#[test]
fn an_object_store_is_asked_seldom_whether_it_is_there() {
    const PROBES: usize = 100;
    let Some(mut services) = Services::new() else {
        return;
    };
    let (database, objects) = services.own_ports();
    let relay = Relay::to(objects);
    services.reached_at(database, relay.port);
    let place = Place::on(Some(services), Quota::default());
    let begun = Instant::now();
    let before = relay.requests.load(Ordering::SeqCst);
    thread::scope(|scope| {
        for _ in 0..4 {
            let at = place.address();
            scope.spawn(move || {
                for _ in 0..PROBES / 4 {
                    assert_eq!(ask(at, "GET", "/readyz", "", b"").status, 200);
                }
            });
        }
    });
    let asked = relay.requests.load(Ordering::SeqCst) - before;
    let most = 1 + usize::try_from(begun.elapsed().as_secs() / 5).unwrap();
    assert!((1..=most).contains(&asked), "{asked} of {most}");
}

/// Goal: no password of the database and no key of the object store is in what the program says. Method: a password and a key that stand
/// out, right ones and wrong ones, and a log with errors.
/// SECURITY.md, claim 22.
#[test]
fn the_program_says_no_password_and_no_key() {
    let Some(services) = Services::new() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    let run = |settings: &str, arguments: &[&str]| {
        std::fs::write(&file, settings).unwrap();
        let done = Command::new(PROGRAM)
            .args(arguments)
            .arg(&file)
            .arg(if arguments[0] == "account" && arguments[1] == "add" {
                "anna"
            } else {
                "--json"
            })
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(said).unwrap())
    };
    let right = services.settings();
    let (is_done, token) = run(&right, &["account", "add"]);
    assert!(is_done && token.starts_with("srt-"), "{token}");
    let (is_done, said) = run(&right, &["check"]);
    assert!(is_done && said.starts_with("{\"objects\":0"), "{said}");
    let password_of = |url: &str| {
        let url = url::Url::parse(url).unwrap();
        url.password().unwrap().to_owned()
    };
    let (password, key) = (
        password_of(&services.database()),
        password_of(&services.objects()),
    );
    let wrong = [
        right.replace(&format!(":{password}@"), ":canary@"),
        right.replace(&format!(":{key}@"), ":canary@"),
        right.replace("database = '", "database = 'canary"),
        right.replace("objects = '", "objects = 'canary"),
        format!("{right}canary"),
    ];
    for settings in wrong {
        assert_ne!(settings, right);
        let (is_done, said) = run(&settings, &["check"]);
        let shows = ["canary", password.as_str(), key.as_str()].map(|word| said.contains(word));
        assert!(!is_done && shows == [false; 3], "{said}");
    }
}
