//! The OpenAPI document says what a server answers, all of it and nothing else. Every other test compares the answers that it gets with it, too:
//! `support/document.rs`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/members.rs"]
mod members;
mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::path::Path;

use members::{HERE, answer_of, challenge, pass, push_first, slot_of, with_device};
use strongroom_crypto::{Keyring, SystemRandom};
use strongroom_remote::login::LoginDocument;
use strongroom_remote::protocol::LOGIN_BYTES_MAX;
use strongroom_remote::{Created, ObjectName};
use strongroom_server::{Quota, Standing, openapi_document};
use support::document::{METHODS, Operation, check, operations};
use support::{Place, accounts, answer, ask, said, send};

/// With `STRONGROOM_WRITE=1` it writes the copy instead.
#[test]
fn the_copy_in_docs_is_what_a_server_serves_to_everybody() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi.json");
    if std::env::var_os("STRONGROOM_WRITE").is_some() {
        std::fs::write(&path, openapi_document()).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == openapi_document(),
        "the server has another document; write it with: STRONGROOM_WRITE=1 cargo test -p strongroom-server --test openapi"
    );
    let place = Place::new();
    let served = ask(place.address(), "GET", "/v1/openapi.json", "", b"");
    assert_eq!(served.status, 200);
    assert!(served.body == kept.as_bytes());
}

/// A deposit in the inbox of a vault.
const DEPOSIT: &str = "00112233445566778899aabbccddeeff";

/// A request of that form which a server carries out, about the object `a`.
fn path_of(operation: &Operation) -> String {
    path_to(operation, "a")
}

/// The same about an object of that name.
fn path_to(operation: &Operation, name: &str) -> String {
    let mut path = operation
        .path
        .replace("{account}", "anna")
        .replace("{vault}", "v")
        .replace("{kind}", "segments")
        .replace("{deposit}", DEPOSIT)
        .replace("{name}", name);
    if operation.id().starts_with("listObjects") {
        path.push_str("?kind=segments");
    }
    path
}

/// Goal: the document has each path and each method of a server, and no other. Method: every path of the document with every method.
#[test]
fn each_path_answers_to_the_methods_of_the_document_and_refuses_the_others() {
    let place = Place::new();
    let head = format!("authorization: Bearer {}\r\n", place.token);
    for name in ["a", "segments/a"] {
        let created = place.ask("PUT", &format!("objects/{name}"), &said(b"a"), b"a");
        assert_eq!(created.status, 201);
    }
    let paths: BTreeMap<&str, String> = operations()
        .map(|operation| (operation.path, path_of(&operation)))
        .collect();
    assert!(paths.len() > 8, "{paths:?}");
    for (form, path) in &paths {
        let known: BTreeSet<_> = operations()
            .filter(|operation| operation.path == *form)
            .map(|operation| operation.method)
            .collect();
        for method in METHODS.into_iter().chain(["BREW"]) {
            let body: &[u8] = if method == "PUT" { b"b" } else { b"" };
            // What is removed is there again for the next method.
            let answer = ask(
                place.address(),
                method,
                path,
                &format!("{head}{}", said(body)),
                body,
            );
            if method == "DELETE" && known.contains("DELETE") {
                let again = ask(
                    place.address(),
                    "PUT",
                    path,
                    &format!("{head}{}", said(b"a")),
                    b"a",
                );
                assert_eq!(again.status, 201, "{path}");
            }
            let is_known = answer.code() != "no-such-method";
            assert_eq!(
                is_known,
                known.contains(method),
                "{method} {path}: {answer:?}"
            );
            assert_ne!(answer.code(), "no-such-path", "{method} {path}");
        }
    }
    for other in [
        "/",
        "/v1",
        "/v1/openapi.json/",
        "/v1/vaults/anna/v",
        "/metrics/",
        "/v2/openapi.json",
    ] {
        let answer = ask(place.address(), "GET", other, &head, b"");
        assert_eq!(
            (answer.status, answer.code()),
            (404, "no-such-path"),
            "{other}"
        );
    }
}

#[test]
fn each_request_of_the_document_has_a_name_of_its_own_and_says_whether_it_needs_a_token() {
    let mut ids = BTreeSet::new();
    for operation in operations() {
        assert!(ids.insert(operation.id()), "{}", operation.id());
        let is_of_account = operation.path.contains("{account}");
        assert_eq!(operation.needs_token(), is_of_account, "{}", operation.id());
        let is_refused = operation.codes().contains("no-token");
        assert_eq!(is_refused, is_of_account, "{}", operation.id());
        let places = operation.path.matches('{').count();
        let fields = operation.fields();
        let in_path = fields.iter().filter(|(_, field)| field["in"] == "path");
        assert_eq!(in_path.count(), places, "{}", operation.id());
    }
}

/// Who asks for what, and which refusals came.
struct Asking<'a> {
    place: &'a Place,
    seen: RefCell<BTreeMap<&'static str, BTreeSet<&'static str>>>,
}

impl Asking<'_> {
    fn bearer(token: &str) -> String {
        format!("authorization: Bearer {token}\r\n")
    }

    /// Asks; the refusal must be the one with that code.
    fn refused(
        &self,
        operation: &Operation,
        path: &str,
        head: &str,
        body: &[u8],
        code: &'static str,
    ) {
        let answer = ask(self.place.address(), operation.method, path, head, body);
        assert_eq!(answer.code(), code, "{} {path} {head}", operation.id());
        self.note(operation, code);
    }

    fn note(&self, operation: &Operation, code: &'static str) {
        let mut seen = self.seen.borrow_mut();
        seen.entry(operation.id()).or_default().insert(code);
    }
}

/// Goal: each refusal of the document is one that a server gives to that request. Method: all are caused, but for those of a server that
/// lacks time or space, which `LEFT` names. That no other is given, every test checks.
#[test]
fn each_refusal_of_the_document_is_given() {
    /// A body that does not come for half a minute; a transfer that waits for its turn that long; a full disk; a bug; what only several
    /// instances can lack (`scaled.rs`); more requests than a minute may have (`requests.rs`).
    const LEFT: [(&str, &str); 11] = [
        ("createObject", "slow"),
        ("deposit", "slow"),
        ("deposit", "disk-full"),
        ("logIn", "slow"),
        ("createObject", "disk-full"),
        ("removeObject", "disk-full"),
        ("", "busy"),
        ("", "too-fast"),
        ("", "database-away"),
        ("", "objects-away"),
        ("ready", "failed"),
    ];
    let place = Place::new();
    let asking = Asking {
        place: &place,
        seen: RefCell::default(),
    };
    let vault = place.vault("v");
    for name in [
        "a",
        "segments/a",
        "empty",
        "segments/empty",
        "publications/0000000000000001",
    ] {
        let bytes = if name.ends_with("empty") {
            Vec::new()
        } else {
            b"a".to_vec()
        };
        vault
            .create(&ObjectName::new(name).unwrap(), bytes)
            .unwrap();
    }
    let followed = Followed::new(&place);
    for operation in operations().filter(Operation::needs_token) {
        if operation.path.contains("/inbox") {
            of_inbox(&asking, &operation);
            continue;
        }
        of_identities(&asking, &operation);
        if operation.codes().contains("login-needed") {
            of_members(&asking, &operation, &followed);
        }
        match operation.id() {
            "challenge" => {
                let head = Asking::bearer(&place.token);
                asking.refused(&operation, &path_of(&operation), &head, b"", "no-header");
            }
            "logIn" => of_logins(&asking, &operation, &followed),
            id if id.starts_with("createObject") => of_creation(&asking, &operation),
            id if id.starts_with("readObject") => {
                let head = Asking::bearer(&place.token);
                let none = path_to(&operation, "none");
                asking.refused(&operation, &none, &head, b"", "no-object");
                // An object without a byte ends before any part of it.
                let empty = path_to(&operation, "empty");
                let range = format!("{head}range: bytes=0-0\r\n");
                asking.refused(&operation, &empty, &range, b"", "range");
            }
            id if id.starts_with("findObject") => {
                let none = path_to(&operation, "none");
                let head = Asking::bearer(&place.token);
                asking.refused(&operation, &none, &head, b"", "no-object");
            }
            // In the form of a path without a kind, the slash of the name is escaped.
            id if id.starts_with("removeObject") => {
                let head = Asking::bearer(&followed.device);
                let header = in_followed(&of_header(&operation, &members::header(&followed.one).0));
                asking.refused(&operation, &header, &head, b"", "stays");
                let newest = of_publication(&operation, 1);
                let head = Asking::bearer(&place.token);
                asking.refused(&operation, &newest, &head, b"", "newest-stays");
                let accounts = accounts(place.folder.path());
                accounts.keep("anna", 1).unwrap();
                asking.refused(&operation, &path_of(&operation), &head, b"", "kept");
                accounts.keep("anna", 0).unwrap();
            }
            _ => {}
        }
        if operation.codes().contains("parameter") {
            let path = path_of(&operation);
            let path = path.split('?').next().unwrap();
            let head = Asking::bearer(&place.token);
            asking.refused(&operation, &format!("{path}?x=1"), &head, b"", "parameter");
        }
    }
    std::fs::remove_dir_all(place.folder.path().join("moving")).unwrap();
    for operation in operations().filter(|operation| operation.path == "/readyz") {
        asking.refused(&operation, "/readyz", "", b"", "busy");
    }
    let seen = asking.seen.into_inner();
    for operation in operations() {
        let mut left: BTreeSet<_> = operation.codes();
        for code in seen.get(operation.id()).into_iter().flatten() {
            assert!(left.remove(code), "{}: {code}", operation.id());
        }
        left.retain(|code| {
            let is_left = |(id, of): &(&str, &str)| operation.id().starts_with(id) && of == code;
            !LEFT.iter().any(is_left)
        });
        assert!(
            left.is_empty(),
            "{}: nothing causes {left:?}",
            operation.id()
        );
    }
}

/// The path of the publication of that number in the form of `operation`.
fn of_publication(operation: &Operation, number: u64) -> String {
    match operation.path.contains("{kind}") {
        true => path_to(operation, &format!("{number:016}")).replace("segments", "publications"),
        false => path_to(operation, &format!("publications%2f{number:016}")),
    }
}

/// The path of a header in the form of `operation`.
fn of_header(operation: &Operation, name: &ObjectName) -> String {
    let (_, last) = name.split();
    match operation.path.contains("{kind}") {
        true => path_to(operation, last).replace("segments", "headers"),
        false => path_to(operation, &format!("headers%2f{last}")),
    }
}

/// The same path in the vault that is followed.
fn in_followed(path: &str) -> String {
    path.replace("/anna/v/", "/anna/w/")
}

/// A vault `w` that the server follows, and tokens of logins there.
struct Followed {
    one: Keyring,
    device: String,
    slot: String,
    /// Of a device that was removed since, with its keys.
    removed: String,
    two: Keyring,
}

impl Followed {
    fn new(place: &Place) -> Self {
        let (one, secret) = members::vault();
        let (one, two) = with_device(&one);
        push_first(&*place.vault("w"), &one);
        let removed = pass(place, "w", &two);
        let slot = pass(place, "w", &slot_of(&one, &secret));
        let device = two.device().unwrap();
        let one = one.revoke_device(device, &SystemRandom).unwrap().keyring;
        let remote = members::as_member(place, "w", &one);
        let put = members::put_header(&*remote, &one).unwrap();
        assert_eq!(put, Created::New);
        let device = pass(place, "w", &one);
        Self {
            one,
            device,
            slot,
            removed,
            two,
        }
    }
}

/// Refusals of every request about what a vault has, if the server follows it.
fn of_members(asking: &Asking<'_>, operation: &Operation, followed: &Followed) {
    let path = path_of(operation);
    let of_followed = in_followed(&path);
    let (body, said): (&[u8], _) = match operation.method {
        "PUT" => (b"a", said(b"a")),
        _ => (b"", String::new()),
    };
    let refused = |path: &str, token: &str, code| {
        let head = format!("{}{said}", Asking::bearer(token));
        asking.refused(operation, path, &head, body, code);
    };
    refused(&of_followed, &asking.place.token, "login-needed");
    refused(&of_followed, &followed.removed, "device-removed");
    refused(&path, &followed.device, "other-vault");
    if matches!(operation.method, "PUT" | "DELETE") {
        refused(&of_followed, &followed.slot, "only-devices");
    }
    if operation.method == "PUT" {
        let other = ObjectName::new("headers/a").unwrap();
        let other = in_followed(&of_header(operation, &other));
        refused(&other, &followed.device, "wrong-header");
        // A header of a vault that is another one.
        let (stranger, _) = members::vault();
        let (name, bytes) = members::header(&stranger);
        let path = in_followed(&of_header(operation, &name));
        let head = format!(
            "{}{}",
            Asking::bearer(&followed.device),
            support::said(&bytes)
        );
        asking.refused(operation, &path, &head, &bytes, "other-members");
    }
}

/// Refusals of a login.
fn of_logins(asking: &Asking<'_>, operation: &Operation, followed: &Followed) {
    let place = asking.place;
    let refused = |vault: &str, body: &[u8], code| {
        let path = operation
            .path
            .replace("{account}", "anna")
            .replace("{vault}", vault);
        let head = format!(
            "{}content-length: {}\r\n",
            Asking::bearer(&place.token),
            body.len()
        );
        asking.refused(operation, &path, &head, body, code);
    };
    let document = |document: &LoginDocument| serde_json::to_vec(document).unwrap();
    let of = |keyring: &Keyring, server: &str| {
        answer_of(keyring, (server, "anna", "w"), &challenge(place, "w"))
    };
    refused("w", &vec![b' '; LOGIN_BYTES_MAX + 1], "too-long");
    refused("w", b"{}", "parameter");
    // The line ends before the document does.
    let path = in_followed(&path_of(operation));
    let head = format!("{}content-length: 3\r\n", Asking::bearer(&place.token));
    let line = send(place.address(), "POST", &path, head.as_bytes(), b"{}");
    line.shutdown(Shutdown::Write).unwrap();
    let cut = answer(line);
    check("POST", &path, &cut);
    assert_eq!(cut.code(), "length", "{cut:?}");
    asking.note(operation, "length");
    let mut other = of(&followed.one, HERE);
    other.nonce.clone_from(&other.principal);
    refused("w", &document(&other), "no-challenge");
    let other = of(&followed.one, "server.example");
    refused("w", &document(&other), "other-server");
    let mut other = of(&followed.one, "server.example");
    HERE.clone_into(&mut other.server);
    refused("w", &document(&other), "wrong-login");
    refused("w", &document(&of(&followed.two, HERE)), "device-removed");
    let (stranger, _) = members::vault();
    refused("w", &document(&of(&stranger, HERE)), "not-member");
    let (mut stranger, _) = with_device(&stranger);
    while stranger
        .login_signer()
        .records_behind(challenge(place, "w").records)
        .is_empty()
    {
        (stranger, _) = with_device(&stranger);
    }
    refused("w", &document(&of(&stranger, HERE)), "other-members");
    // There is something among the headers, and no marker.
    let header = ObjectName::new("headers/a").unwrap();
    place.vault("u").create(&header, b"a".to_vec()).unwrap();
    let unknown = answer_of(&followed.one, (HERE, "anna", "u"), &challenge(place, "u"));
    refused("u", &document(&unknown), "no-header");
}

/// Refusals of every request for which a token is needed.
fn of_identities(asking: &Asking<'_>, operation: &Operation) {
    let (folder, path) = (asking.place.folder.path(), path_of(operation));
    let accounts = accounts(folder);
    let other = accounts.add("other", Quota::default()).unwrap();
    let suspended = accounts.add("suspended", Quota::default()).unwrap();
    let broken = accounts.add("broken", Quota::default()).unwrap();
    accounts
        .set_standing("suspended", Standing::Suspended)
        .unwrap();
    let database = rusqlite::Connection::open(folder.join("server.db")).unwrap();
    // What no version writes: the server is at fault.
    let wrong = "UPDATE account SET bytes = -1 WHERE name = 'broken'";
    assert_eq!(database.execute(wrong, []).unwrap(), 1);
    let own = Asking::bearer(&asking.place.token);
    let of = |account: &str| path.replace("anna", account);
    for (path, head, code) in [
        (path.clone(), String::new(), "no-token"),
        (path.clone(), Asking::bearer("srt-0"), "wrong-token"),
        (path.clone(), Asking::bearer("srd-0"), "login-over"),
        (
            path.clone(),
            Asking::bearer(other.reveal()),
            "other-account",
        ),
        (
            of("suspended"),
            Asking::bearer(suspended.reveal()),
            "suspended",
        ),
        (of("broken"), Asking::bearer(broken.reveal()), "failed"),
        (of("Anna"), own, "name"),
    ] {
        let (body, said): (&[u8], _) = match operation.method {
            "PUT" => (b"a", said(b"a")),
            _ => (b"", String::new()),
        };
        asking.refused(operation, &path, &format!("{head}{said}"), body, code);
    }
    for name in ["other", "suspended", "broken"] {
        let repair = "UPDATE account SET bytes = 0 WHERE name = ?1";
        database.execute(repair, [name]).unwrap();
        accounts.remove(name).unwrap();
    }
}

/// Refusals of whoever shows the token of an address of an inbox.
fn of_inbox(asking: &Asking<'_>, operation: &Operation) {
    const NUMBERS: &str = "WITH RECURSIVE number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < 1000)";
    let place = asking.place;
    let accounts = accounts(place.folder.path());
    let database = rusqlite::Connection::open(place.folder.path().join("server.db")).unwrap();
    // An account for each reason why the server refuses whoever has an address.
    let token_of = |account: &str| {
        let of_account = accounts.add(account, Quota::default()).unwrap();
        let token = format!("sra-{}", blake3::hash(account.as_bytes()).to_hex());
        let name = format!("addresses/{}", blake3::hash(token.as_bytes()).to_hex());
        let remote = place.remote(of_account.reveal(), account, "v");
        let created = remote.create(&ObjectName::new(name).unwrap(), b"a".to_vec());
        assert_eq!(created.unwrap(), Created::New);
        token
    };
    let path = path_of(operation);
    let of = |account: &str| path.replace("anna", account);
    let is_put = operation.method == "PUT";
    let (body, said): (&[u8], _) = match is_put {
        true => (b"a", said(b"a")),
        false => (b"", String::new()),
    };
    let refused = |path: &str, head: &str, code| {
        asking.refused(operation, path, &format!("{head}{said}"), body, code);
    };
    refused(&path, "", "no-token");
    refused(&path, "authorization: Basic YTpi\r\n", "wrong-token");
    refused(&path, &Asking::bearer("sra-0"), "no-address");
    refused(&of("Anna"), &Asking::bearer("sra-0"), "name");
    let suspended = token_of("suspended");
    accounts
        .set_standing("suspended", Standing::Suspended)
        .unwrap();
    refused(&of("suspended"), &Asking::bearer(&suspended), "suspended");
    let broken = token_of("broken");
    // What no version writes: the server is at fault. The bytes of the address are gone, or the usage of the account is none.
    for wrong in [
        "UPDATE account SET bytes = -1 WHERE name = 'broken'",
        "UPDATE object SET file = x'00112233445566778899aabbccddeeff' WHERE vault IN
            (SELECT vault.id FROM vault JOIN account ON account.id = vault.account WHERE account.name = 'broken')",
    ] {
        assert_eq!(database.execute(wrong, []).unwrap(), 1);
    }
    refused(&of("broken"), &Asking::bearer(&broken), "failed");
    let mut used = vec!["suspended", "broken"];
    if is_put {
        of_deposits(asking, operation, &of("busy"), &token_of("busy"));
        let full = token_of("full");
        let many = format!(
            "{NUMBERS} INSERT INTO object (vault, name, file, len, created_s)
             SELECT vault.id, 'deposits/' || printf('%032x', number.n), randomblob(16), 0, 0
             FROM vault JOIN account ON account.id = vault.account, number WHERE account.name = 'full'"
        );
        assert_eq!(database.execute(&many, []).unwrap(), 1000);
        refused(&of("full"), &Asking::bearer(&full), "inbox-full");
        used.extend(["busy", "full"]);
    }
    let repair = "UPDATE account SET bytes = 0 WHERE name = 'broken'";
    database.execute(repair, []).unwrap();
    for account in used {
        accounts.remove(account).unwrap();
    }
}

/// Refusals of a deposit by whoever has an address.
fn of_deposits(asking: &Asking<'_>, operation: &Operation, path: &str, token: &str) {
    let own = Asking::bearer(token);
    let hash = format!("strongroom-blake3: {}\r\n", blake3::hash(b"bytes").to_hex());
    let other = format!("strongroom-blake3: {}\r\n", blake3::hash(b"other").to_hex());
    let refused = |path: &str, head: &str, body: &[u8], code| {
        asking.refused(operation, path, &format!("{own}{head}"), body, code);
    };
    refused(path, &hash, b"", "no-length");
    let long = format!("{hash}content-length: 67108865\r\n");
    refused(path, &long, b"", "too-long");
    // Longer than any piece.
    let long = vec![b'a'; (1 << 20) + (64 << 10) + 1];
    refused(path, &said(&long), &long, "too-long");
    refused(path, "content-length: 5\r\n", b"bytes", "no-hash");
    let wrong = format!("{other}content-length: 5\r\n");
    refused(path, &wrong, b"bytes", "hash");
    refused(&format!("{path}.x"), &said(b"bytes"), b"bytes", "name");
    let head = format!("{own}{hash}content-length: 6\r\n");
    let line = send(
        asking.place.address(),
        "PUT",
        path,
        head.as_bytes(),
        b"bytes",
    );
    line.shutdown(Shutdown::Write).unwrap();
    let cut = answer(line);
    check("PUT", path, &cut);
    assert_eq!(cut.code(), "length", "{cut:?}");
    asking.note(operation, "length");
    let put = |path: &str| {
        let head = format!("{own}{}", said(b"bytes"));
        ask(asking.place.address(), "PUT", path, &head, b"bytes")
    };
    let created = put(path);
    assert_eq!(created.status, 201, "{created:?}");
    refused(path, &said(b"bytes"), b"bytes", "already-there");
    // Nothing comes behind the envelope.
    let piece = format!("{path}.{}.0000", "0".repeat(16));
    refused(&piece, &said(b"bytes"), b"bytes", "already-there");
    // Each is another one: what is there already counts for nothing.
    let another = |number: usize| put(&path.replace(DEPOSIT, &format!("{number:032x}")));
    assert!((1..1000).any(|number| another(number).code() == "too-many"));
    asking.note(operation, "too-many");
}

/// Refusals of an object that is to be created.
fn of_creation(asking: &Asking<'_>, operation: &Operation) {
    let (place, id) = (asking.place, operation.id());
    let own = Asking::bearer(&place.token);
    let (there, path) = (path_of(operation), path_to(operation, &id.to_lowercase()));
    let hash = format!("strongroom-blake3: {}\r\n", blake3::hash(b"bytes").to_hex());
    let other = format!("strongroom-blake3: {}\r\n", blake3::hash(b"other").to_hex());
    let refused = |path: &str, head: &str, body: &[u8], code| {
        asking.refused(operation, path, &format!("{own}{head}"), body, code);
    };
    refused(&path, &hash, b"", "no-length");
    refused(
        &path,
        &format!("{hash}content-length: 67108865\r\n"),
        b"",
        "too-long",
    );
    refused(&path, "content-length: 5\r\n", b"bytes", "no-hash");
    refused(
        &path,
        &format!("{other}content-length: 5\r\n"),
        b"bytes",
        "hash",
    );
    refused(&there, &said(b"bytes"), b"bytes", "already-there");
    refused(
        &of_publication(operation, 3),
        &said(b"bytes"),
        b"bytes",
        "out-of-order",
    );
    // The line ends before the bytes do.
    let head = format!("{own}{hash}content-length: 6\r\n");
    let line = send(place.address(), "PUT", &path, head.as_bytes(), b"bytes");
    line.shutdown(Shutdown::Write).unwrap();
    let cut = answer(line);
    check("PUT", &path, &cut);
    assert_eq!(cut.code(), "length", "{cut:?}");
    asking.note(operation, "length");

    let accounts = accounts(place.folder.path());
    let quota = |bytes, objects| Quota { bytes, objects };
    for (quota, code) in [
        (quota(1, 1), "bytes-used"),
        (quota(100, 0), "objects-used"),
        (quota(100, 100), "vaults-used"),
    ] {
        let token = accounts.add(code, quota).unwrap();
        if code == "vaults-used" {
            let database = rusqlite::Connection::open(place.folder.path().join("server.db"));
            let many = "WITH RECURSIVE number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < 1000)
                INSERT INTO vault (account, name) SELECT account.id, 'v' || number.n FROM account, number WHERE account.name = ?1";
            assert_eq!(database.unwrap().execute(many, [code]).unwrap(), 1000);
        }
        let path = path.replace("anna", code);
        let head = format!("{}{}", Asking::bearer(token.reveal()), said(b"bytes"));
        asking.refused(operation, &path, &head, b"bytes", code);
        accounts.remove(code).unwrap();
    }
}
