//! Every field of every request of the OpenAPI document: missing, too long, of a wrong type, in a wrong encoding.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/members.rs"]
mod members;
mod support;

use std::collections::BTreeSet;
use std::net::Shutdown;

use members::{HERE, answer_of, challenge, push_first};
use strongroom_crypto::Keyring;
use strongroom_remote::protocol::LOGIN_BYTES_MAX;
use support::document::{Operation, check, operations};
use support::{Answer, Place, answer, first, send};

/// What is said of a field.
#[derive(Clone, Debug)]
enum Said {
    /// What a server can use.
    Good,
    /// Not even the name of the field.
    Missing,
    Value(Vec<u8>),
}

/// A field, what is wrong with it, what is said, and the code of the refusal: `none` if the request is carried out all the same.
type Row = (&'static str, &'static str, Said, &'static str);

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut of = |field, missing, [long, kind, encoding]: [(Vec<u8>, &'static str); 3]| {
        rows.push((field, "missing", Said::Missing, missing));
        for (fault, (value, code)) in [
            ("too long", long),
            ("wrong type", kind),
            ("wrong encoding", encoding),
        ] {
            rows.push((field, fault, Said::Value(value), code));
        }
    };
    let text = |text: &str| text.as_bytes().to_vec();
    let long = |len| vec![b'a'; len];
    let with_bad_byte = |text: &str| [text.as_bytes(), &[0xff]].concat();
    let name = |too_long| {
        [
            (long(too_long), "name"),
            (text("A%20b"), "name"),
            (text("%ff"), "name"),
        ]
    };
    of("account", "name", name(65));
    of("vault", "name", name(65));
    of("name", "no-such-path", name(201));
    // The rest of the path is the name of an object all the same.
    of("kind", "name", name(200));
    of("name-in-kind", "name", name(192));
    of("deposit", "no-such-path", name(33));
    let parameter = |long, kind: &str, encoding: &str| {
        [
            (long, "parameter"),
            (text(kind), "parameter"),
            (text(encoding), "parameter"),
        ]
    };
    of(
        "listed-kind",
        "parameter",
        parameter(long(65), "a/b", "segments%00"),
    );
    of("after-name", "none", parameter(long(192), "../a", "%61"));
    of(
        "after-number",
        "none",
        parameter(vec![b'9'; 20], "x", "%31"),
    );
    of("wait", "none", parameter(vec![b'9'; 2000], "0.5", "%30"));
    let header =
        |long, kind: &str, code| [(long, code), (text(kind), code), (with_bad_byte(""), code)];
    of(
        "hash",
        "no-hash",
        header(vec![b'0'; 66], &"z".repeat(64), "no-hash"),
    );
    // Whoever cannot be understood gets the whole object.
    let endless = format!("bytes=0-{}", "9".repeat(30));
    of(
        "range",
        "none",
        header(endless.into_bytes(), "lines=0-0", "none"),
    );
    let endless = format!("Bearer {}", "x".repeat(201));
    of(
        "token",
        "no-token",
        [
            (endless.into_bytes(), "wrong-token"),
            (text("Basic YTpi"), "wrong-token"),
            (with_bad_byte("Bearer "), "wrong-token"),
        ],
    );
    // With the last three nobody can say where the request ends: it is no request.
    of(
        "content-length",
        "no-length",
        header(vec![b'9'; 21], "x", ""),
    );
    of(
        "body",
        "length",
        [
            // What is left over is the beginning of another request.
            (text("bytes and more"), "none"),
            (text("other"), "hash"),
            (with_bad_byte("byte"), "hash"),
        ],
    );
    // What can be wrong inside of it: `logins.rs`.
    of(
        "login",
        "parameter",
        [
            (vec![b' '; LOGIN_BYTES_MAX + 1], "too-long"),
            (text("[]"), "parameter"),
            (with_bad_byte("{"), "parameter"),
        ],
    );
    let beyond = Said::Value(text("67108865"));
    rows.push(("content-length", "beyond the limit", beyond, "too-long"));
    rows
}

/// A server, and the keys of a vault `w` there, in which somebody can log in.
struct Scene {
    place: Place,
    keyring: Keyring,
}

/// Whether the request is about a login: who is logged in to a vault is asked for more than the token of the account.
fn is_login(operation: &Operation) -> bool {
    matches!(operation.id(), "challenge" | "logIn")
}

/// A deposit, and the token of an address of the inbox of the vault `v`.
const DEPOSIT: &str = "00112233445566778899aabbccddeeff";
const ADDRESS: &str = "sra-0000000000000000000000000000000000000000000000000000000000000000";

/// Whether the request is one of who has an address.
fn is_deposit(operation: &Operation) -> bool {
    matches!(operation.id(), "inbox" | "inboxHead" | "deposit")
}

/// What is good for a field of that request.
fn good(field: &str, operation: &Operation, scene: &Scene) -> Vec<u8> {
    let place = &scene.place;
    let value = match field {
        "account" => "anna".to_owned(),
        "vault" if is_login(operation) => "w".to_owned(),
        "vault" => "v".to_owned(),
        "login" => {
            let challenge = challenge(place, "w");
            let document = answer_of(&scene.keyring, (HERE, "anna", "w"), &challenge);
            serde_json::to_string(&document).unwrap()
        }
        "name" | "name-in-kind" => "a".to_owned(),
        "deposit" => DEPOSIT.to_owned(),
        "kind" | "listed-kind" => "segments".to_owned(),
        "after-name" => String::new(),
        "after-number" | "wait" => "0".to_owned(),
        "hash" => blake3::hash(b"bytes").to_hex().to_string(),
        "range" => "bytes=0-0".to_owned(),
        "token" if is_deposit(operation) => format!("Bearer {ADDRESS}"),
        "token" => format!("Bearer {}", place.token),
        "content-length" => "5".to_owned(),
        "body" => "bytes".to_owned(),
        other => panic!("the document has a new field: say what is good for {other}"),
    };
    value.into_bytes()
}

/// The fields of a request, and those that OpenAPI has other places for.
fn fields_of(operation: &Operation) -> Vec<&'static str> {
    let mut fields: Vec<_> = operation.fields().iter().map(|(field, _)| *field).collect();
    if operation.needs_token() {
        fields.push("token");
    }
    if let Some(body) = operation.own.get("requestBody") {
        match body["content"].get("application/json") {
            Some(_) => fields.push("login"),
            None => fields.extend(["content-length", "body"]),
        }
    }
    fields
}

/// Asks with this said of `faulty`, and what is good of all other fields.
fn ask(scene: &Scene, operation: &Operation, faulty: &str, said: &Said) -> (String, Answer) {
    let place = &scene.place;
    let value = |field: &str| match said {
        _ if field != faulty => Some(good(field, operation, scene)),
        Said::Good => Some(good(field, operation, scene)),
        Said::Missing => None,
        Said::Value(value) => Some(value.clone()),
    };
    let mut path = operation.path.to_owned();
    let (mut query, mut head) = (Vec::new(), Vec::new());
    let mut line = |name: &str, value: Option<Vec<u8>>| {
        if let Some(value) = value {
            head.extend([name.as_bytes(), b": ", &value, b"\r\n"].concat());
        }
    };
    for (field, own) in operation.fields() {
        let (name, value) = (own["name"].as_str().unwrap(), value(field));
        match own["in"].as_str().unwrap() {
            "header" => line(name, value),
            "path" => {
                let value = String::from_utf8(value.unwrap_or_default()).unwrap();
                path = path.replace(&format!("{{{name}}}"), &value);
            }
            "query" => query.extend(value.map(|value| {
                let value = String::from_utf8(value).unwrap();
                format!("{name}={value}")
            })),
            other => panic!("fields of a {other} are not asked with"),
        }
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let others = fields_of(operation);
    if others.contains(&"token") {
        line("authorization", value("token"));
    }
    let mut body = Vec::new();
    if others.contains(&"body") {
        line("content-length", value("content-length"));
        body = value("body").unwrap_or_default();
    }
    if others.contains(&"login") {
        body = value("login").unwrap_or_default();
        line("content-length", Some(body.len().to_string().into_bytes()));
    }
    let sent = send(place.address(), operation.method, &path, &head, &body);
    if others.contains(&"body") && body.is_empty() {
        sent.shutdown(Shutdown::Write).unwrap();
    }
    let is_endless = operation.method == "GET" && operation.id() == "followPublications";
    let came = if is_endless {
        first(sent)
    } else {
        answer(sent)
    };
    (path, came)
}

/// Goal: whatever is wrong with a field, it is that field which is refused, with the right words, and the server stays as it was.
/// Method: the fields are those of the document; one at a time is wrong.
#[test]
fn what_is_wrong_with_a_field_is_said() {
    let (keyring, _) = members::vault();
    let scene = Scene {
        place: Place::new(),
        keyring,
    };
    let place = &scene.place;
    push_first(&*place.vault("w"), &scene.keyring);
    let address = format!(
        "objects/addresses/{}",
        blake3::hash(ADDRESS.as_bytes()).to_hex()
    );
    let created = place.ask("PUT", &address, &support::said(b"bytes"), b"bytes");
    assert_eq!(created.status, 201, "{created:?}");
    let rows = rows();
    let mut asked = BTreeSet::new();
    let mut created = 0;
    for operation in operations() {
        for field in fields_of(&operation) {
            let own: Vec<_> = rows.iter().filter(|row| row.0 == field).collect();
            assert!(own.len() >= 4, "say what can be wrong with {field}");
            for (_, fault, said, code) in own {
                prepare(place, &operation);
                let about = format!("{} {field}: {fault}", operation.id());
                let (path, answer) = ask(&scene, &operation, field, said);
                // Nothing is at a path that ends before its only field.
                let is_cut = *fault == "missing" && operation.path == "/v1/accounts/{account}";
                let code = match is_cut && field == "account" {
                    true => "no-such-path",
                    false => *code,
                };
                match code {
                    "" => assert!(
                        answer.status == 400 && answer.body.is_empty() && answer.code() == "none",
                        "{about}: {answer:?}"
                    ),
                    code => {
                        assert_eq!(answer.code(), code, "{about}: {answer:?}");
                        assert_eq!(answer.status < 300, code == "none", "{about}: {answer:?}");
                        check(operation.method, &path, &answer);
                    }
                }
                asked.insert(field);
                created += usize::from(answer.status == 201);
                assert_eq!(place.files("moving"), 0, "{about}");
            }
        }
        // And with nothing wrong it is carried out.
        prepare(place, &operation);
        let (path, answer) = ask(&scene, &operation, "", &Said::Good);
        assert!(answer.status < 300, "{path}: {answer:?}");
        check(operation.method, &path, &answer);
    }
    assert!(rows.iter().all(|row| asked.contains(row.0)), "{asked:?}");
    assert_eq!(created, 3, "those whose body was followed by something");
}

/// There are the objects that are asked for, and none that is to be created.
fn prepare(place: &Place, operation: &Operation) {
    let deposit = format!("objects/deposits/{DEPOSIT}");
    for name in ["objects/a", "objects/segments/a", &deposit] {
        let method = if operation.method == "PUT" {
            "DELETE"
        } else {
            "PUT"
        };
        let answer = place.ask(method, name, &support::said(b"bytes"), b"bytes");
        assert!(matches!(answer.status, 201 | 204 | 409), "{answer:?}");
    }
}

/// Goal: heads that are too long, or have too many lines, are refused before any memory is spent on them, and no one else is held up.
#[test]
fn a_flood_of_headers_or_a_path_without_end_is_refused() {
    let place = Place::new();
    let lines: String = (0..2000).map(|at| format!("x-{at}: {at}\r\n")).collect();
    let long = format!("x: {}\r\n", "a".repeat(100_000));
    for head in [&lines, &long] {
        let line = send(
            place.address(),
            "GET",
            "/v1/accounts/anna",
            head.as_bytes(),
            b"",
        );
        assert_eq!(answer(line).status, 431);
    }
    let endless = format!("/{}", "a".repeat(100_000));
    let line = send(place.address(), "GET", &endless, b"", b"");
    assert!(matches!(answer(line).status, 414 | 431));
    let alive = support::ask(place.address(), "GET", "/healthz", "", b"");
    assert_eq!(alive.status, 200);
}
