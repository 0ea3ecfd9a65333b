//! How many requests a server answers of one caller.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Instant;

use strongroom_remote::ObjectName;
use strongroom_server::{Quota, Tls};
use support::{Answer, Place, ask, said, start_bounded};

/// What comes at once where one request a second may come.
const BURST: u64 = 60;

/// A server that answers one request a second.
fn place() -> Place {
    let mut place = Place::new();
    place.server.take().unwrap().stop();
    let anywhere = "127.0.0.1:0".parse().unwrap();
    place.server = Some(start_bounded(place.storage(), Tls::Off, anywhere, 1));
    place
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// Asks until that is refused for the number of requests; gives how many were answered before, which are no more than may be.
fn until_too_fast(ask: impl Fn() -> Answer) -> u64 {
    let (begun, mut answered) = (Instant::now(), 0);
    loop {
        let answer = ask();
        if answer.code() == "too-fast" {
            assert_eq!(answer.status, 429);
            assert_eq!(answer.header("retry-after"), "1");
            return answered;
        }
        answered += 1;
        let most = BURST + begun.elapsed().as_secs() + 1;
        assert!(answered <= most, "{answered} of {most}");
    }
}

/// Goal: an account, its depositors, and an address without a valid token each make so many requests and no more, and nobody is refused for
/// those of another; whoever asks for the health of the server is never refused. Method: one after the other asks until it is refused.
#[test]
fn whoever_makes_too_many_requests_is_refused_and_nobody_else_is() {
    let place = place();
    let at = place.address();
    let bert = place.accounts().add("bert", Quota::default()).unwrap();
    let door = format!("sra-{}", "5".repeat(64));
    let address = format!("addresses/{}", blake3::hash(door.as_bytes()).to_hex());
    let of_bert = |below: &str, token: &str| {
        let path = format!("/v1/vaults/bert/v/{below}");
        ask(at, "GET", &path, &bearer(token), b"")
    };
    let is_served = || {
        let answer = of_bert("publications?after=0", bert.reveal());
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let created = ask(
        at,
        "PUT",
        &format!("/v1/vaults/bert/v/objects/{address}"),
        &format!("{}{}", bearer(bert.reveal()), said(b"address")),
        b"address",
    );
    assert_eq!(created.status, 201, "{created:?}");
    // An account, with whatever it asks for.
    let own = until_too_fast(|| place.ask("GET", "publications?after=0", "", b""));
    assert!(own >= BURST, "{own}");
    until_too_fast(|| place.ask("PUT", "objects/a", &said(b"a"), b"a"));
    let account = || ask(at, "GET", "/v1/accounts/anna", &bearer(&place.token), b"");
    until_too_fast(account);
    is_served();
    // Whoever shows no token, a wrong one, or asks for what everybody may read.
    let page = until_too_fast(|| ask(at, "GET", "/v1/what-we-see", "", b""));
    assert!(page >= BURST, "{page}");
    until_too_fast(|| of_bert("publications?after=0", "srt-wrong"));
    until_too_fast(|| ask(at, "GET", "/v1/vaults/bert/v/inbox", "", b""));
    until_too_fast(|| ask(at, "GET", "/nowhere", "", b""));
    is_served();
    // A device at that address logs in again when it hears that its login is over.
    for _ in 0..2 {
        assert_eq!(
            of_bert("publications?after=0", "srd-over").code(),
            "login-over"
        );
    }
    for path in ["/healthz", "/readyz"] {
        for _ in 0..2 * BURST {
            assert_eq!(ask(at, "GET", path, "", b"").status, 200, "{path}");
        }
    }
    // Whoever has an address of an inbox.
    let deposits = until_too_fast(|| of_bert("inbox", &door));
    assert!(deposits >= BURST, "{deposits}");
    is_served();
    // A device waits for its turn, and gets it.
    let object = ObjectName::new("objects-of-nobody").unwrap();
    assert!(!place.vault("v").has(&object).unwrap());
}

#[test]
fn without_a_bound_all_requests_are_answered() {
    let mut place = Place::new();
    place.server.take().unwrap().stop();
    let anywhere = "127.0.0.1:0".parse().unwrap();
    place.server = Some(start_bounded(place.storage(), Tls::Off, anywhere, 0));
    for _ in 0..3 * BURST {
        let answer = place.ask("GET", "publications?after=0", "", b"");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}
