//! Logins at a real server: who gets in, what they may do, and until when.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/members.rs"]
mod members;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use members::{
    Changing, HERE, answer_of, as_member, challenge, header, log_in, log_in_with, object, pass,
    push_first, put_header, signer, slot_of, vault, with_device,
};
use rusqlite::Connection;
use strongroom_crypto::{Keyring, Secret, SystemRandom};
use strongroom_remote::login::LoginDocument;
use strongroom_remote::protocol::{
    LOGIN_BYTES_MAX, LOGIN_RECORDS_MAX, PAIRING_BYTES_MAX, PAIRING_OBJECTS_MAX,
};
use strongroom_remote::{Address, Created, Error, Remote, Waited};
use strongroom_server::{Quota, Tls};
use support::{Answer, Place, accounts, answer, ask, said, send, start};

/// A vault `v` with two devices and a slot, which the server follows.
struct Followed {
    place: Place,
    one: Keyring,
    two: Keyring,
    secret: Secret,
}

impl Followed {
    fn new() -> Self {
        let place = Place::new();
        let (one, secret) = vault();
        let (one, two) = with_device(&one);
        push_first(&*place.vault("v"), &one);
        pass(&place, "v", &one);
        Self {
            place,
            one,
            two,
            secret,
        }
    }

    fn remote(&self, keyring: &Keyring) -> Arc<dyn Remote> {
        as_member(&self.place, "v", keyring)
    }

    /// Removes the second device, in the header that the first one pushes.
    fn remove_two(&mut self) {
        let device = self.two.device().unwrap();
        let removed = self.one.revoke_device(device, &SystemRandom).unwrap();
        let remote = self.remote(&removed.keyring);
        assert_eq!(
            put_header(&*remote, &removed.keyring).unwrap(),
            Created::New
        );
        self.one = removed.keyring;
    }
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// What nobody but a member may do, and what the answer to a member is.
const REQUESTS: [(&str, &str); 9] = [
    ("GET", "objects/segments/a"),
    ("HEAD", "objects/segments/a"),
    ("PUT", "objects/segments/b"),
    ("PUT", "objects/headers/b"),
    ("PUT", "objects/publications/0000000000000002"),
    ("DELETE", "objects/segments/a"),
    ("GET", "objects?kind=segments"),
    ("GET", "publications?after=0&wait=0"),
    ("GET", "publications/events?after=0"),
];

fn request(place: &Place, (method, below): (&str, &str), head: &str) -> Answer {
    let body: &[u8] = if method == "PUT" { b"bytes" } else { b"" };
    let path = format!("/v1/vaults/anna/v/{below}");
    let head = format!("{head}{}", said(body));
    ask(place.address(), method, &path, &head, body)
}

/// Goal: in a vault that is followed nobody but its members does anything beyond a first fetch. Method: every request × every wrong identity.
/// SECURITY.md, claim 26.
#[test]
fn who_is_no_member_of_a_vault_that_is_followed_gets_nothing() {
    let mut scene = Followed::new();
    // It ended with the process of the server.
    let of_before = pass(&scene.place, "v", &scene.one);
    scene.place.restart();
    let folder = scene.place.folder.path();
    let other_account = accounts(folder).add("bert", Quota::default()).unwrap();
    let (stranger, _) = vault();
    push_first(&*scene.place.vault("w"), &stranger);
    let other_vault = pass(&scene.place, "w", &stranger);
    let elsewhere = Followed::new();
    let other_server = pass(&elsewhere.place, "v", &elsewhere.one);
    let removed = pass(&scene.place, "v", &scene.two);
    scene.remove_two();
    let place = &scene.place;
    let account = place.token.clone();
    let identities = [
        (String::new(), 401, "no-token"),
        (bearer(&account), 401, "login-needed"),
        (bearer(other_account.reveal()), 403, "other-account"),
        (bearer(&other_vault), 403, "other-vault"),
        (bearer(&removed), 403, "device-removed"),
        (bearer(&of_before), 401, "login-over"),
        (bearer(&other_server), 401, "login-over"),
        (
            bearer(&format!("srd-{}", "0".repeat(64))),
            401,
            "login-over",
        ),
    ];
    let files = place.files("objects");
    for (head, status, code) in &identities {
        for one in REQUESTS {
            let answer = request(place, one, head);
            let told = (answer.status, answer.code());
            assert_eq!(told, (*status, *code), "{one:?} {head}");
            assert!(!answer.body.windows(6).any(|six| six == b"canary"));
        }
    }
    assert_eq!((place.files("objects"), place.files("moving")), (files, 0));
    // They did not fail for another reason: a member does all of it.
    let member = bearer(&pass(place, "v", &scene.one));
    for one in &REQUESTS[..8] {
        let answer = request(place, *one, &member);
        let is_header = one.1 == "objects/headers/b";
        assert_eq!(answer.status / 100 == 2, !is_header, "{one:?}: {answer:?}");
        assert_eq!(answer.code() == "wrong-header", is_header, "{one:?}");
    }
}

/// SECURITY.md, claim 26.
#[test]
fn the_token_of_the_account_alone_is_good_for_a_first_fetch() {
    let scene = Followed::new();
    let remote = scene.place.vault("v");
    let marker = object("strongroom.json");
    assert!(remote.read(&marker, 4096).unwrap().is_some());
    let headers = remote.list("headers").unwrap();
    assert_eq!(headers.len(), 1);
    let (name, bytes) = header(&scene.one);
    assert_eq!(remote.read(&name, 1 << 20).unwrap(), Some(bytes));
    // A pairing, within its bounds.
    let letter = |number: usize| object(&format!("pairing/{number:03}"));
    let long = vec![0; usize::try_from(PAIRING_BYTES_MAX).unwrap() + 1];
    assert!(remote.create(&letter(0), long.clone()).is_err());
    let most = long[1..].to_vec();
    assert_eq!(remote.create(&letter(0), most).unwrap(), Created::New);
    for number in 1..PAIRING_OBJECTS_MAX {
        let made = remote.create(&letter(number), vec![0]).unwrap();
        assert_eq!(made, Created::New);
    }
    let one_more = letter(PAIRING_OBJECTS_MAX);
    let full = remote.create(&one_more, vec![0]).unwrap_err();
    assert!(matches!(full, Error::Quota(_)), "{full}");
    remote.remove(&letter(1)).unwrap();
    assert_eq!(remote.create(&one_more, vec![0]).unwrap(), Created::New);
    assert_eq!(remote.list("pairing").unwrap().len(), PAIRING_OBJECTS_MAX);
    // Nothing else, also for a header that a member made.
    let added = scene.one.add_device(&SystemRandom).unwrap();
    let refused = put_header(&*remote, &added.keyring).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("login with the key of a device"),
        "{refused}"
    );
    for name in [&marker, &name] {
        assert!(matches!(remote.remove(name), Err(Error::Refused(_))));
    }
}

/// Goal: who has only the account's token, or is an older client, goes on until a member logs in; then the members that the longest
/// chain has count. Method: headers of another vault and of an older state, with greater numbers, beside that of the vault.
#[test]
fn a_vault_is_followed_from_its_first_login_on_by_the_longest_chain_of_its_own() {
    let place = Place::new();
    let remote = place.vault("v");
    let (first, _) = vault();
    let (one, two) = with_device(&first);
    push_first(&*remote, &first);
    assert!(remote.has(&object("segments/a")).unwrap());
    let removed = one
        .revoke_device(two.device().unwrap(), &SystemRandom)
        .unwrap()
        .keyring;
    put_header(&*remote, &removed).unwrap();
    let (stranger, _) = vault();
    let (mut stranger, _) = with_device(&stranger);
    for _ in 0..3 {
        (stranger, _) = with_device(&stranger);
    }
    for (number, keyring) in [(90, &stranger), (91, &one)] {
        let (name, bytes) = header(keyring);
        let hash = name.as_str().rsplit_once('-').unwrap().1.to_owned();
        let name = object(&format!("headers/{number:016}-{hash}"));
        assert_eq!(remote.create(&name, bytes).unwrap(), Created::New);
    }
    // Who was removed is the first to come, and changes nothing.
    let document = answer_of(&two, (HERE, "anna", "v"), &challenge(&place, "v"));
    assert_eq!(log_in(&place, "v", &document).code(), "device-removed");
    assert!(remote.has(&object("segments/a")).unwrap());
    let document = answer_of(&stranger, (HERE, "anna", "v"), &challenge(&place, "v"));
    assert_eq!(log_in(&place, "v", &document).code(), "other-members");
    let member = as_member(&place, "v", &removed);
    assert!(member.has(&object("segments/a")).unwrap());
    assert!(matches!(
        remote.has(&object("segments/a")),
        Err(Error::Refused(_))
    ));
    assert_eq!(challenge(&place, "v").records, 3);
}

/// Goal: records that somebody shows go on from what the server has noted, whatever it finds where it looks for that. Method: the database names
/// a header of another vault, whose device shows the rest of its own chain. Failed before: it was let in as a device.
#[test]
fn who_shows_records_behind_another_chain_than_the_noted_one_is_not_let_in() {
    let place = Place::new();
    let (one, _) = vault();
    push_first(&*place.vault("v"), &one);
    let (stranger, _) = vault();
    let (stranger, _) = with_device(&stranger);
    let (_, bytes) = header(&stranger);
    let created = place.vault("v").create(&object("headers/z"), bytes);
    assert_eq!(created.unwrap(), Created::New);
    pass(&place, "v", &one);
    let document = answer_of(&stranger, (HERE, "anna", "v"), &challenge(&place, "v"));
    assert_eq!(log_in(&place, "v", &document).code(), "other-members");
    let database = Connection::open(place.folder.path().join("server.db")).unwrap();
    let changed = database.execute("UPDATE chain SET header = 'headers/z'", []);
    assert_eq!(changed.unwrap(), 1);
    let document = answer_of(&stranger, (HERE, "anna", "v"), &challenge(&place, "v"));
    let answer = log_in(&place, "v", &document);
    assert_eq!((answer.status, answer.code()), (500, "failed"));
}

#[test]
fn a_vault_without_a_header_has_nobody_who_could_log_in() {
    let place = Place::new();
    let answer = place.ask("POST", "challenge", "content-length: 0\r\n", b"");
    assert_eq!((answer.status, answer.code()), (409, "no-header"));
    // A remote with a signer uses the token of the account until then, and logs in after that.
    let (one, _) = vault();
    push_first(&*as_member(&place, "v", &one), &one);
    let alone = place.vault("v").has(&object("segments/a"));
    assert!(matches!(alone, Err(Error::Refused(_))), "{alone:?}");
}

/// Goal: a login is of one challenge, one server, one account, one vault and one key. Method: one thing is wrong each time.
/// SECURITY.md, claim 26.
#[test]
fn a_login_that_was_used_altered_or_meant_for_others_is_refused() {
    let scene = Followed::new();
    let place = &scene.place;
    let here = (HERE, "anna", "v");
    let right = answer_of(&scene.two, here, &challenge(place, "v"));
    assert_eq!(log_in(place, "v", &right).status, 200);
    let told = |document: &LoginDocument| {
        let answer = log_in(place, "v", document);
        (answer.status, answer.code().to_owned())
    };
    let is = |code: &str, status: u16| (status, code.to_owned());
    assert_eq!(told(&right), is("no-challenge", 409));
    for (terms, code) in [
        (("localhost", "anna", "v"), "none"),
        (("server.example", "anna", "v"), "other-server"),
        (("", "anna", "v"), "other-server"),
        ((HERE, "bert", "v"), "wrong-login"),
        ((HERE, "anna", "w"), "wrong-login"),
    ] {
        let document = answer_of(&scene.two, terms, &challenge(place, "v"));
        let answer = log_in(place, "v", &document);
        assert_eq!(answer.code(), code, "{terms:?}");
        assert_eq!(answer.status == 200, code == "none");
    }
    // Signed for another server, and sent on to this one under its name.
    let mut relayed = answer_of(
        &scene.two,
        ("server.example", "anna", "v"),
        &challenge(place, "v"),
    );
    relayed.server = HERE.to_owned();
    assert_eq!(told(&relayed), is("wrong-login", 403));
    // Another time, or another window, than that of the challenge.
    let changes: [fn(&mut u64); 2] = [|one| *one += 1, |one| *one -= 1];
    for change in changes {
        let mut altered = challenge(place, "v");
        change(&mut altered.issued_s);
        assert_eq!(
            told(&answer_of(&scene.two, here, &altered)),
            is("wrong-login", 403)
        );
        let mut altered = challenge(place, "v");
        change(&mut altered.valid_s);
        assert_eq!(
            told(&answer_of(&scene.two, here, &altered)),
            is("wrong-login", 403)
        );
    }
    // The challenge of another vault, in either direction.
    push_first(&*place.vault("w"), &scene.one);
    let of_other = answer_of(&scene.two, here, &challenge(place, "w"));
    assert_eq!(told(&of_other), is("no-challenge", 409));
    // Somebody else's signature.
    let mine = answer_of(&scene.one, here, &challenge(place, "v"));
    let mut not_mine = mine.clone();
    let two = answer_of(&scene.two, here, &challenge(place, "v"));
    not_mine.principal.clone_from(&two.principal);
    assert_eq!(told(&not_mine), is("wrong-login", 403));
    // It was answered, although wrongly.
    assert_eq!(told(&mine), is("no-challenge", 409));
    // Who never was a member, also with a chain of their own.
    let (stranger, _) = vault();
    let document = answer_of(&stranger, here, &challenge(place, "v"));
    assert_eq!(told(&document), is("not-member", 403));
    let (stranger, _) = with_device(&stranger);
    let (stranger, _) = with_device(&stranger);
    let document = answer_of(&stranger, here, &challenge(place, "v"));
    assert_eq!(told(&document), is("other-members", 409));
}

#[test]
fn what_is_no_login_is_refused_whatever_it_is() {
    let scene = Followed::new();
    let place = &scene.place;
    let right = answer_of(&scene.two, (HERE, "anna", "v"), &challenge(place, "v"));
    let right = serde_json::to_value(&right).unwrap();
    let mut wrong: Vec<Vec<u8>> = ["", "{", "[]", "null", "{}"]
        .map(|text| text.as_bytes().to_vec())
        .into();
    for field in ["nonce", "server", "principal", "signature", "records"] {
        let mut without = right.clone();
        without.as_object_mut().unwrap().remove(field);
        wrong.push(without.to_string().into_bytes());
        for value in ["7", "null", "{}", "\"?\"", "[\"?\"]"] {
            let is_text = field == "server" && value.starts_with('"');
            let mut other = right.clone();
            other[field] = serde_json::from_str(value).unwrap();
            if !is_text {
                wrong.push(other.to_string().into_bytes());
            }
        }
    }
    let mut more = right.clone();
    more["more"] = 1.into();
    wrong.push(more.to_string().into_bytes());
    let mut many = right.clone();
    many["records"] = vec![""; LOGIN_RECORDS_MAX + 1].into();
    wrong.push(many.to_string().into_bytes());
    for body in &wrong {
        let answer = log_in_with(place, "v", body);
        let told = (answer.status, answer.code());
        assert_eq!(
            told,
            (400, "parameter"),
            "{:?}",
            String::from_utf8_lossy(body)
        );
    }
    let long = vec![b' '; LOGIN_BYTES_MAX + 1];
    assert_eq!(log_in_with(place, "v", &long).status, 413);
    // The challenge was not answered by any of it.
    let answer = log_in_with(place, "v", right.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    // A login needs the token of the account, not that of another login.
    let head = format!(
        "{}content-length: 0\r\n",
        bearer(&pass(place, "v", &scene.one))
    );
    let path = "/v1/vaults/anna/v/challenge";
    let answer = ask(place.address(), "POST", path, &head, b"");
    assert_eq!((answer.status, answer.code()), (401, "wrong-token"));
    let answer = ask(place.address(), "POST", path, "content-length: 0\r\n", b"");
    assert_eq!((answer.status, answer.code()), (401, "no-token"));
}

#[test]
fn a_new_token_of_the_account_ends_the_logins_of_the_old_one() {
    let scene = Followed::new();
    let place = &scene.place;
    let head = bearer(&pass(place, "v", &scene.one));
    assert_eq!(request(place, REQUESTS[0], &head).status, 200);
    accounts(place.folder.path()).renew_token("anna").unwrap();
    let answer = request(place, REQUESTS[0], &head);
    assert_eq!((answer.status, answer.code()), (401, "login-over"));
    let remote = scene.remote(&scene.one).has(&object("segments/a"));
    assert!(matches!(remote, Err(Error::Refused(_))), "{remote:?}");
}

/// Goal: a removal is in force for what is under way. Method: an upload of which half has come when the header that removes its device is
/// created.
/// SECURITY.md, claim 26.
#[test]
fn what_a_device_uploads_while_it_is_removed_is_not_created() {
    let mut scene = Followed::new();
    let bytes = vec![7; 1 << 20];
    let head = format!(
        "PUT /v1/vaults/anna/v/objects/segments/late HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{}{}\r\n",
        bearer(&pass(&scene.place, "v", &scene.two)),
        said(&bytes)
    );
    let mut line = TcpStream::connect(scene.place.address()).unwrap();
    line.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    line.write_all(head.as_bytes()).unwrap();
    line.write_all(&bytes[..1000]).unwrap();
    while scene.place.metric("strongroom_uploads") == 0 {
        thread::yield_now();
    }
    scene.remove_two();
    line.write_all(&bytes[1000..]).unwrap();
    let answer = answer(line);
    assert_eq!((answer.status, answer.code()), (403, "device-removed"));
    let late = object("segments/late");
    assert!(!scene.remote(&scene.one).has(&late).unwrap());
    assert_eq!(scene.place.files("moving"), 0);
}

/// Two requests that wait for the second publication: for its number, and for events.
fn follow(place: &Place, head: &str) -> (TcpStream, TcpStream) {
    let before = place.metric("strongroom_followers");
    let begin = |below: &str| {
        let path = format!("/v1/vaults/anna/v/{below}");
        send(place.address(), "GET", &path, head.as_bytes(), b"")
    };
    let both = (
        begin("publications?after=1&wait=50"),
        begin("publications/events?after=1"),
    );
    while place.metric("strongroom_followers") < before + 2 {
        thread::yield_now();
    }
    both
}

/// The data of the events until the server ends the answer.
fn events_of(line: TcpStream) -> Vec<String> {
    let lines: Vec<String> = BufReader::new(line).lines().map(Result::unwrap).collect();
    assert!(lines[0].contains("200"), "{lines:?}");
    let data = |line: &String| Some(line.strip_prefix("data:")?.trim().to_owned());
    lines.iter().filter_map(data).collect()
}

/// Goal: whoever waits hears no more than a new request would. Method: the account gets another token while two devices wait, one of them in a
/// vault that is followed; then a device with the new token publishes. Failed before: both were told.
#[test]
fn whose_token_has_ended_while_waiting_does_not_hear_of_what_is_published_then() {
    let mut followed = Followed::new();
    let mut alone = Place::new();
    let (one, _) = vault();
    push_first(&*alone.vault("v"), &one);
    let of_login = bearer(&pass(&followed.place, "v", &followed.two));
    let of_account = bearer(&alone.token);
    let next = object("publications/0000000000000002");
    for (place, head, code) in [
        (&mut followed.place, &of_login, "login-over"),
        (&mut alone, &of_account, "wrong-token"),
    ] {
        let (waiting, events) = follow(place, head);
        let renewed = accounts(place.folder.path()).renew_token("anna").unwrap();
        place.token = renewed.reveal().to_owned();
        let publisher = match code {
            "login-over" => as_member(place, "v", &followed.one),
            _ => place.vault("v"),
        };
        let made = publisher.create(&next, b"p".to_vec());
        assert_eq!(made.unwrap(), Created::New);
        let answer = answer(waiting);
        assert_eq!((answer.status, answer.code()), (401, code));
        assert_eq!(events_of(events), [""; 0], "{code}");
        // Whoever has the new token does.
        assert_eq!(
            publisher.wait_behind(1, &|| true).unwrap(),
            Waited::Published(2)
        );
    }
}

/// The same of those who wait for a publication.
/// SECURITY.md, claim 26.
#[test]
fn who_is_removed_while_waiting_does_not_hear_of_what_is_published_then() {
    let mut scene = Followed::new();
    let head = bearer(&pass(&scene.place, "v", &scene.two));
    let (waiting, events) = follow(&scene.place, &head);
    scene.remove_two();
    let next = object("publications/0000000000000002");
    let remote = scene.remote(&scene.one);
    assert_eq!(remote.create(&next, b"p".to_vec()).unwrap(), Created::New);
    let answer = answer(waiting);
    assert_eq!((answer.status, answer.code()), (403, "device-removed"));
    assert_eq!(events_of(events), [""; 0]);
    // Who stays does.
    assert_eq!(
        remote.wait_behind(1, &|| true).unwrap(),
        Waited::Published(2)
    );
}

/// Goal: no header moves the members that are noted but one that goes on from them. Method: two devices that change keys at once, bytes
/// that are no header, and a header that knows less.
/// SECURITY.md, claim 26.
#[test]
fn a_header_goes_on_from_the_noted_members_or_is_refused() {
    let scene = Followed::new();
    let replaced = scene.one.replace_device(&SystemRandom).unwrap().keyring;
    let other = scene.two.replace_device(&SystemRandom).unwrap().keyring;
    let first = scene.remote(&replaced);
    assert_eq!(put_header(&*first, &replaced).unwrap(), Created::New);
    let second = scene.remote(&scene.two);
    let refused = put_header(&*second, &other).unwrap_err();
    assert!(matches!(refused, Error::OtherMembers), "{refused}");
    let (stranger, _) = vault();
    let refused = put_header(&*second, &stranger).unwrap_err();
    assert!(matches!(refused, Error::OtherMembers), "{refused}");
    let (name, mut bytes) = header(&scene.two.add_device(&SystemRandom).unwrap().keyring);
    bytes[100] ^= 1;
    let hash = blake3::hash(&bytes).to_hex();
    let name = name.as_str().split_once('-').unwrap().0.to_owned();
    let name = object(&format!("{name}-{hash}"));
    let refused = second.create(&name, bytes).unwrap_err();
    assert!(refused.to_string().contains("not a header"), "{refused}");
    // Of an earlier state, by somebody who has not heard of the change.
    let earlier = scene.two.set_guessable(true).unwrap().keyring;
    assert_eq!(put_header(&*second, &earlier).unwrap(), Created::New);
    assert_eq!(challenge(&scene.place, "v").records, 3);
    // The device that was replaced is out, and the one that took its place is in.
    let old = scene.remote(&scene.one).has(&object("segments/a"));
    assert!(matches!(old, Err(Error::DeviceRemoved)), "{old:?}");
    assert!(first.has(&object("segments/a")).unwrap());
    let (name, _) = header(&replaced);
    for name in [object("strongroom.json"), name] {
        let stays = first.remove(&name).unwrap_err();
        assert!(stays.to_string().contains("cannot be removed"), "{stays}");
    }
    assert_eq!(first.list("headers").unwrap().len(), 3);
}

/// Goal: a device that replaces itself ends its own login with its header, and goes on as what took its place. Method: one remote, whose
/// signer has the new key before the header is there, as while a vault is open.
#[test]
fn a_device_that_replaces_itself_logs_in_again_as_the_new_one() {
    let scene = Followed::new();
    let kept = Arc::new(Changing::of(&scene.two));
    let remote = scene.place.vault("v");
    remote.sign_with(Arc::clone(&kept) as _);
    assert!(remote.has(&object("segments/a")).unwrap());
    let replaced = scene.two.replace_device(&SystemRandom).unwrap().keyring;
    kept.change(&replaced);
    assert_eq!(put_header(&*remote, &replaced).unwrap(), Created::New);
    let next = object("publications/0000000000000002");
    assert_eq!(remote.create(&next, b"p".to_vec()).unwrap(), Created::New);
    let old = scene.remote(&scene.two).has(&next);
    assert!(matches!(old, Err(Error::DeviceRemoved)), "{old:?}");
}

/// SECURITY.md, claim 26.
#[test]
fn a_slot_reads_and_a_device_that_is_not_noted_shows_that_a_member_added_it() {
    let scene = Followed::new();
    let slot = slot_of(&scene.one, &scene.secret);
    let reads = scene.remote(&slot);
    let segment = object("segments/a");
    assert_eq!(reads.read(&segment, 9).unwrap().unwrap(), b"canary");
    let needs = object("needs/00.0000000000000001");
    assert_eq!(reads.create(&needs, Vec::new()).unwrap(), Created::New);
    reads.remove(&needs).unwrap();
    let added = slot.add_device(&SystemRandom).unwrap().keyring;
    let beside = slot.add_device(&SystemRandom).unwrap().keyring;
    for refused in [
        reads.create(&object("segments/b"), b"b".to_vec()).map(drop),
        put_header(&*reads, &added).map(drop),
        reads.remove(&segment),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("only a device"), "{refused}");
    }
    // Both show a record that the slot signed; the first that brings its header is noted.
    let (first, second) = (scene.remote(&added), scene.remote(&beside));
    for remote in [&first, &second] {
        assert!(remote.has(&segment).unwrap());
    }
    assert_eq!(put_header(&*first, &added).unwrap(), Created::New);
    assert_eq!(
        first.create(&object("segments/b"), b"b".to_vec()).unwrap(),
        Created::New
    );
    let gone = second.has(&segment).unwrap_err();
    assert!(matches!(gone, Error::OtherMembers), "{gone}");
    assert_eq!(challenge(&scene.place, "v").records, 3);
}

#[test]
fn a_login_ends_with_the_server_and_the_next_request_logs_in_again() {
    let mut scene = Followed::new();
    let folder = scene.place.folder.path().to_owned();
    let at = scene.place.address();
    let remote = scene.remote(&scene.one);
    let segment = object("segments/a");
    assert!(remote.has(&segment).unwrap());
    scene.place.server.take().unwrap().stop();
    scene.place.server = Some(support::start_at(&folder, Tls::Off, at));
    assert!(remote.has(&segment).unwrap());
    let alone = scene.place.vault("v").has(&segment);
    assert!(
        matches!(alone, Err(Error::Refused(_))),
        "it is followed still"
    );
}

/// Goal: a server that is updated continues with its vaults, and follows them from their next login on. Method: its database as the version
/// before logins has it.
#[test]
fn a_database_from_before_there_were_logins_is_followed_from_the_next_login_on() {
    let mut scene = Followed::new();
    let segment = object("segments/a");
    scene.place.server.take().unwrap().stop();
    let database = Connection::open(scene.place.folder.path().join("server.db")).unwrap();
    let before =
        "ALTER TABLE account DROP COLUMN keep_days; ALTER TABLE object DROP COLUMN asked_s;
        DROP TABLE depositor; DROP TABLE member; DROP TABLE chain; PRAGMA user_version = 1";
    database.execute_batch(before).unwrap();
    drop(database);
    scene.place.server = Some(start(scene.place.folder.path(), Tls::Off));
    let alone = scene.place.vault("v");
    assert_eq!(alone.read(&segment, 9).unwrap().unwrap(), b"canary");
    let by_member = scene.remote(&scene.two);
    assert_eq!(by_member.read(&segment, 9).unwrap().unwrap(), b"canary");
    assert!(matches!(alone.read(&segment, 9), Err(Error::Refused(_))));
    scene.remove_two();
    let refused = by_member.has(&segment);
    assert!(matches!(refused, Err(Error::DeviceRemoved)), "{refused:?}");
}

/// A server with TLS is known by its fingerprint, or by the names in its certificate.
#[test]
fn a_device_logs_in_with_tls_by_the_fingerprint_of_the_server_and_at_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let token = accounts(folder.path())
        .add("anna", Quota::default())
        .unwrap();
    let server = start(folder.path(), Tls::SelfSigned);
    let print = server.fingerprint().unwrap();
    let url = format!(
        "https://{}@{}/anna/v?fingerprint={print}",
        token.reveal(),
        server.address()
    );
    let (one, _) = vault();
    let remote = Address::parse(&url).unwrap().open().unwrap();
    push_first(&*remote, &one);
    remote.sign_with(signer(&one));
    assert!(remote.has(&object("segments/a")).unwrap());
    // It is followed: who has no key is refused.
    let alone = Address::parse(&url).unwrap().open().unwrap();
    let refused = alone.has(&object("segments/a")).unwrap_err().to_string();
    assert!(refused.contains("login with the key"), "{refused}");
}
