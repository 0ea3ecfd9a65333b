//! An account that keeps for some days what clients ask to remove, at a server that is alone and at an instance of several.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use strongroom_remote::{Created, Error, ObjectName, Remote};
use strongroom_server::{Error as ServerError, Quota};
use support::{Place, ask};

const DAYS: u32 = 30;

const DAY_S: u64 = 24 * 60 * 60;

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn publication(number: u64) -> ObjectName {
    name(&format!("publications/{number:016}"))
}

/// Runs statements on the database of the server.
fn sql(place: &Place, statements: &str) {
    match &place.services {
        Some(services) => drop(services.sql(statements)),
        None => {
            let database = Connection::open(place.folder.path().join("server.db")).unwrap();
            database.execute_batch(statements).unwrap();
        }
    }
}

/// Lets so many days pass for everything that is there.
fn pass_days(place: &Place, days: u64) {
    let seconds = days * DAY_S;
    sql(
        place,
        &format!(
            "UPDATE object SET created_s = created_s - {seconds};
             UPDATE object SET asked_s = asked_s - {seconds} WHERE asked_s > 0"
        ),
    );
}

/// Fails unless it is asked for and stays.
fn assert_kept(vault: &dyn Remote, one: &ObjectName) {
    let refused = vault.remove(one);
    assert!(matches!(refused, Err(Error::Kept)), "{one}: {refused:?}");
    assert!(vault.has(one).unwrap(), "{one}");
}

/// Until when a listing says that it is kept.
fn kept_until_s(vault: &dyn Remote, one: &ObjectName) -> u64 {
    let (kind, last) = one.split();
    let listed = vault.list(kind.unwrap()).unwrap();
    let found = listed.iter().find(|listed| listed.name == last);
    found.unwrap().kept_until_s
}

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

fn asked_for(place: &Place) -> Quota {
    place.accounts().asked_for("anna").unwrap()
}

/// Goal: what a vault consists of goes only so many days after the first request, however old it is and however often somebody asks; what is a
/// message goes at once. Method: an object of each kind, a thousand days old; then days pass.
/// SECURITY.md, claim 28.
#[test]
fn nothing_that_an_account_keeps_goes_before_its_days_are_over() {
    for place in Place::each() {
        goes_after_its_days(&place);
    }
}

fn goes_after_its_days(place: &Place) {
    let vault = place.vault("v");
    let vault = &*vault;
    let lasting = [
        name("strongroom.json"),
        name("headers/a"),
        name("segments/a"),
        name("revisions/a"),
        name("of-a-later-version/a"),
        publication(1),
    ];
    let messages = [
        "addresses/a",
        "deposits/a",
        "needs/a",
        "pairing/a",
        "pieces/a",
        "probes/a",
    ]
    .map(name);
    for one in lasting.iter().chain(&messages).chain([&publication(2)]) {
        assert_eq!(vault.create(one, b"abc".to_vec()).unwrap(), Created::New);
    }
    pass_days(place, 1000);
    place.accounts().keep("anna", DAYS).unwrap();
    let head = format!("authorization: Bearer {}\r\n", place.token);
    let own = ask(place.address(), "GET", "/v1/accounts/anna", &head, b"");
    assert_eq!(own.json()["keep_days"], DAYS);
    for one in &messages {
        vault.remove(one).unwrap();
        assert!(!vault.has(one).unwrap(), "{one}");
    }
    let newest = vault.remove(&publication(2)).unwrap_err().to_string();
    assert!(newest.contains("newest publication"), "{newest}");
    // Whoever may not remove it has not asked.
    let stranger = place.remote("wrong", "anna", "v").remove(&lasting[2]);
    assert!(matches!(stranger, Err(Error::Refused(_))), "{stranger:?}");
    let none = Quota {
        bytes: 0,
        objects: 0,
    };
    assert_eq!(asked_for(place), none);
    assert_eq!(kept_until_s(vault, &lasting[2]), 0);
    for one in &lasting {
        assert_kept(vault, one);
        assert_kept(vault, one);
    }
    let all = Quota {
        bytes: 3 * lasting.len() as u64,
        objects: lasting.len() as u64,
    };
    assert_eq!(asked_for(place), all);
    let answer = place.ask("DELETE", "objects/segments/a", "", b"");
    assert_eq!((answer.status, answer.code()), (409, "kept"));
    let title = answer.json()["title"].as_str().unwrap().to_owned();
    assert!(title.contains("keeps what is to be removed"), "{title}");
    let days_s = u64::from(DAYS) * DAY_S;
    let until_s = kept_until_s(vault, &lasting[2]);
    let now_s = now_s();
    assert!(until_s <= now_s + days_s && until_s > now_s + days_s - DAY_S);
    pass_days(place, u64::from(DAYS) - 1);
    for one in &lasting {
        assert_kept(vault, one);
    }
    pass_days(place, 1);
    for one in &lasting {
        vault.remove(one).unwrap();
        assert!(!vault.has(one).unwrap(), "{one}");
    }
    assert_eq!(asked_for(place), none);
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
    // An account that does not keep, or not any more, lets everything go at once.
    place.accounts().keep("anna", 0).unwrap();
    vault.create(&lasting[2], b"abc".to_vec()).unwrap();
    vault.remove(&lasting[2]).unwrap();
    let unknown = place.accounts().keep("nobody", DAYS);
    assert!(matches!(unknown, Err(ServerError::UnknownAccount(_))));
}

/// Goal: the log of a vault never has a gap, whenever which publication was asked for. Method: some are asked for days before others, and the
/// account ends to keep in between.
#[test]
fn publications_go_in_their_order_although_they_are_kept() {
    for place in Place::each() {
        let vault = place.vault("v");
        let vault = &*vault;
        for number in 1..=6 {
            vault.create(&publication(number), b"p".to_vec()).unwrap();
        }
        place.accounts().keep("anna", DAYS).unwrap();
        assert_kept(vault, &publication(1));
        assert_kept(vault, &publication(2));
        pass_days(&place, u64::from(DAYS));
        // One that is asked for now begins its days now.
        assert_kept(vault, &publication(3));
        // Those before it can go, and in this order only.
        assert_kept(vault, &publication(2));
        vault.remove(&publication(1)).unwrap();
        vault.remove(&publication(2)).unwrap();
        assert_kept(vault, &publication(3));
        place.accounts().keep("anna", 0).unwrap();
        assert_eq!(kept_until_s(vault, &publication(3)), 0);
        assert_kept(vault, &publication(4));
        for number in 3..=5 {
            vault.remove(&publication(number)).unwrap();
        }
        assert_eq!(vault.list("publications").unwrap().len(), 1);
    }
}

/// Goal: no clock that was wrong frees something early, or keeps it for longer than its days. Method: what is noted came from clocks that were
/// ahead and behind; and the administrator sets the days again.
#[test]
fn days_begin_again_after_a_clock_that_was_wrong_and_when_they_are_set() {
    for place in Place::each() {
        let vault = place.vault("v");
        let vault = &*vault;
        let one = name("segments/a");
        vault.create(&one, b"abc".to_vec()).unwrap();
        place.accounts().keep("anna", DAYS).unwrap();
        let days_s = u64::from(DAYS) * DAY_S;
        let begins_now = || {
            assert_kept(vault, &one);
            let (until_s, now_s) = (kept_until_s(vault, &one), now_s());
            assert!(until_s <= now_s + days_s && until_s > now_s + days_s - DAY_S);
        };
        begins_now();
        // It was 1970 where the clock had no battery, or a year too late.
        for asked_s in [100, now_s() + 365 * DAY_S] {
            sql(&place, &format!("UPDATE object SET asked_s = {asked_s}"));
            begins_now();
        }
        pass_days(&place, u64::from(DAYS));
        place.accounts().keep("anna", DAYS).unwrap();
        assert_eq!(kept_until_s(vault, &one), 0);
        begins_now();
        pass_days(&place, u64::from(DAYS));
        vault.remove(&one).unwrap();
    }
}
