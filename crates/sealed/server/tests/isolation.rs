//! Each request of the OpenAPI document × each wrong identity: who gets what, and who gets nothing. A request that is new in the document fails
//! here until the table says who may make it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/members.rs"]
mod members;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use members::{
    HERE, answer_of, as_member, object, push_first, put_header, slot_of, vault, with_device,
};
use strongroom_crypto::{KeyFile, Keyring, NewKey, NewSlot, Secret, SystemRandom};
use strongroom_remote::login::{ChallengeDocument, PassDocument};
use strongroom_remote::{Created, Remote};
use strongroom_server::{Quota, Standing, Tls};
use support::document::{Operation, operations};
use support::scaled::Services;
use support::{Answer, Place, ask, said, start};

/// Requests that are treated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// Everybody gets the same answer.
    Public,
    /// About the account itself.
    OfAccount,
    /// Shows what was pushed to a vault, or when.
    Reads,
    /// Creates or removes what is in a vault.
    Changes,
    /// Begins a login.
    Begins,
    /// Ends it, with what a device of the vault has just signed.
    LogsIn,
    /// Deposits in the inbox of a vault.
    Deposits,
}

const TABLE: &[(&str, Row)] = &[
    ("alive", Row::Public),
    ("aliveHead", Row::Public),
    ("ready", Row::Public),
    ("readyHead", Row::Public),
    ("whatWeSee", Row::Public),
    ("whatWeSeeHead", Row::Public),
    ("document", Row::Public),
    ("documentHead", Row::Public),
    ("account", Row::OfAccount),
    ("accountHead", Row::OfAccount),
    ("listObjects", Row::Reads),
    ("listObjectsHead", Row::Reads),
    ("readObject", Row::Reads),
    ("readObjectOfKind", Row::Reads),
    ("findObject", Row::Reads),
    ("findObjectOfKind", Row::Reads),
    ("newestPublication", Row::Reads),
    ("newestPublicationHead", Row::Reads),
    ("followPublications", Row::Reads),
    ("followPublicationsHead", Row::Reads),
    ("createObject", Row::Changes),
    ("createObjectOfKind", Row::Changes),
    ("removeObject", Row::Changes),
    ("removeObjectOfKind", Row::Changes),
    ("challenge", Row::Begins),
    ("logIn", Row::LogsIn),
    ("inbox", Row::Deposits),
    ("inboxHead", Row::Deposits),
    ("deposit", Row::Deposits),
];

/// What a request is answered with that is carried out.
const DONE: &str = "none";

/// The code of the answer to each row but the first and the last, in their order.
type Codes = [&'static str; 5];

/// Somebody, with what they show.
struct Identity {
    who: &'static str,
    /// The account in the path.
    account: &'static str,
    token: Option<String>,
    codes: Codes,
    /// The code of the answer to the last row.
    deposits: &'static str,
}

impl Identity {
    fn code(&self, row: Row) -> &'static str {
        match row {
            Row::Public => DONE,
            Row::OfAccount => self.codes[0],
            Row::Reads => self.codes[1],
            Row::Changes => self.codes[2],
            Row::Begins => self.codes[3],
            Row::LogsIn => self.codes[4],
            Row::Deposits => self.deposits,
        }
    }
}

fn row_of(operation: &Operation) -> Row {
    let own = TABLE.iter().find(|(id, _)| *id == operation.id());
    let (_, row) = own.unwrap_or_else(|| panic!("say who may make a request {}", operation.id()));
    *row
}

/// A vault `v` of `anna` that the server follows, everybody who ever had something to do with it, and others.
struct Scene {
    place: Place,
    /// The device that is left.
    device: Keyring,
    /// A device and a key that were removed.
    removed: Keyring,
    removed_slot: Keyring,
    /// The same server as it was before, somewhere else: the same accounts, vaults and keys.
    elsewhere: Place,
    wrong: Vec<Identity>,
    /// Whoever has an address of the inbox.
    depositor: Identity,
}

/// The token of an address of the inbox that the server gets from who may create an object of a vault.
fn address(remote: &dyn Remote, digit: char) -> String {
    let token = format!("sra-{}", digit.to_string().repeat(64));
    let name = format!("addresses/{}", blake3::hash(token.as_bytes()).to_hex());
    let created = remote.create(&object(&name), b"canary of an address".to_vec());
    assert_eq!(created.unwrap(), Created::New);
    token
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// Asks as somebody with that token.
fn post(place: &Place, path: &str, token: &str, body: &[u8]) -> Answer {
    let len = body.len();
    let head = format!("{}content-length: {len}\r\n", bearer(token));
    ask(place.address(), "POST", path, &head, body)
}

/// The document of a login of `keyring` into a vault of an account, of which somebody has the token.
fn document(place: &Place, (account, name): (&str, &str), token: &str, by: &Keyring) -> Vec<u8> {
    let path = format!("/v1/vaults/{account}/{name}/challenge");
    let answer = post(place, &path, token, b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    let challenge: ChallengeDocument = serde_json::from_slice(&answer.body).unwrap();
    let document = answer_of(by, (HERE, account, name), &challenge);
    serde_json::to_vec(&document).unwrap()
}

/// The token of that login.
fn pass(place: &Place, (account, name): (&str, &str), token: &str, by: &Keyring) -> String {
    let document = document(place, (account, name), token, by);
    let path = format!("/v1/vaults/{account}/{name}/login");
    let answer = post(place, &path, token, &document);
    assert_eq!(answer.status, 200, "{answer:?}");
    let pass: PassDocument = serde_json::from_slice(&answer.body).unwrap();
    pass.token
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

impl Scene {
    fn of(place: Place) -> Self {
        let (device, secret) = vault();
        let (device, removed) = with_device(&device);
        push_first(&*place.vault("v"), &device);
        let bare = place.vault("v").create(&object("a"), b"canary".to_vec());
        assert_eq!(bare.unwrap(), Created::New);
        let of_v = ("anna", "v");
        let of_process_before = pass(&place, of_v, &place.token, &device);
        let (mut place, elsewhere) = Self::twice(place);
        let of_token_before = pass(&place, of_v, &place.token, &device);
        let of_other_server = pass(&elsewhere, of_v, &elsewhere.token, &device);
        let renewed = place.accounts().renew_token("anna").unwrap();
        place.token = renewed.reveal().to_owned();
        let token = place.token.clone();

        // Another vault of the account, and vaults of others; all of them are followed.
        let (keyring, _) = vault();
        push_first(&*place.vault("x"), &keyring);
        let other_vault = pass(&place, ("anna", "x"), &token, &keyring);
        let of_other_vault = address(&*as_member(&place, "x", &keyring), '1');
        let [bert, carl] = ["bert", "carl"].map(|account| {
            let added = place.accounts().add(account, Quota::default());
            let token = added.unwrap().reveal().to_owned();
            let (keyring, _) = vault();
            let remote = place.remote(&token, account, "v");
            push_first(&*remote, &keyring);
            let door = address(&*remote, account.chars().next().unwrap());
            let login = pass(&place, (account, "v"), &token, &keyring);
            (token, login, door)
        });
        let suspended = place.accounts().set_standing("carl", Standing::Suspended);
        suspended.unwrap();

        // A device goes, then a key.
        let removed_slot = slot_of(&device, &secret);
        let of_removed = pass(&place, of_v, &token, &removed);
        let of_removed_slot = pass(&place, of_v, &token, &removed_slot);
        let id = removed.device().unwrap();
        let device = device.revoke_device(id, &SystemRandom).unwrap().keyring;
        let put = put_header(&*as_member(&place, "v", &device), &device);
        assert_eq!(put.unwrap(), Created::New);
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let new = NewSlot {
            label: "another".to_owned(),
            key: NewKey::KeyFile(key_file.clone()),
        };
        let id = removed_slot.unlocked_by().unwrap();
        let replaced = device.replace_slot(id, &new, &SystemRandom, 2);
        let device = replaced.unwrap().keyring;
        let put = put_header(&*as_member(&place, "v", &device), &device);
        assert_eq!(put.unwrap(), Created::New);
        let slot = slot_of(&device, &Secret::KeyFile(key_file));
        let of_slot = pass(&place, of_v, &token, &slot);
        // With one server that is alone nobody can reach the time of a login: the test in `src/logins.rs` does.
        let over = place.services.as_ref().map(|services| {
            let over = pass(&place, of_v, &token, &device);
            let last = "number = (SELECT max(number) FROM login)";
            services.sql(&format!(
                "UPDATE login SET until_s = began_s - 1 WHERE {last}"
            ));
            over
        });

        // Of three addresses one is in use, and one was withdrawn.
        let remote = as_member(&place, "v", &device);
        let (in_use, withdrawn) = (address(&*remote, '2'), address(&*remote, '3'));
        let name = format!("addresses/{}", blake3::hash(withdrawn.as_bytes()).to_hex());
        remote.remove(&object(&name)).unwrap();

        let of_anna = |who, token: Option<String>, codes| Identity {
            who,
            account: "anna",
            deposits: match token {
                Some(_) => "no-address",
                None => "no-token",
            },
            token,
            codes,
        };
        let of_carl = |who, token| Identity {
            account: "carl",
            ..of_anna(who, Some(token), ["suspended"; 5])
        };
        // With an address nobody can do anything else.
        let with_address = |who, account, token, deposits| Identity {
            account,
            deposits,
            ..of_anna(who, Some(token), ["wrong-token"; 5])
        };
        let depositor = with_address("an address", "anna", in_use, DONE);
        let unknown = |prefix: &str| Some(format!("{prefix}{}", "0".repeat(64)));
        let with_a_login = |reads, changes| [DONE, reads, changes, "wrong-token", "wrong-token"];
        let mut wrong = vec![
            of_anna("nobody", None, ["no-token"; 5]),
            of_anna("an unknown token", unknown("srt-"), ["wrong-token"; 5]),
            of_anna("an unknown login", unknown("srd-"), ["login-over"; 5]),
            of_anna("another account", Some(bert.0), ["other-account"; 5]),
            of_anna(
                "a device of another account",
                Some(bert.1),
                ["other-account"; 5],
            ),
            of_anna(
                "a device of another vault",
                Some(other_vault),
                with_a_login("other-vault", "other-vault"),
            ),
            of_anna(
                "the account alone",
                Some(token),
                [DONE, "login-needed", "login-needed", DONE, DONE],
            ),
            of_anna(
                "a key of the vault",
                Some(of_slot),
                with_a_login(DONE, "only-devices"),
            ),
            of_anna(
                "a device that was removed",
                Some(of_removed),
                with_a_login("device-removed", "device-removed"),
            ),
            of_anna(
                "a key that was removed",
                Some(of_removed_slot),
                with_a_login("device-removed", "device-removed"),
            ),
            of_anna(
                "a login of an earlier start, and an earlier token",
                Some(of_process_before),
                ["login-over"; 5],
            ),
            of_anna(
                "a login that ended with the token of the account",
                Some(of_token_before),
                ["login-over"; 5],
            ),
            of_anna(
                "a login at another server",
                Some(of_other_server),
                ["login-over"; 5],
            ),
            of_carl("a suspended account", carl.0),
            of_carl("a device of a suspended account", carl.1),
            with_address(
                "an unknown address",
                "anna",
                format!("sra-{}", "0".repeat(64)),
                "no-address",
            ),
            with_address("a withdrawn address", "anna", withdrawn, "no-address"),
            with_address(
                "an address of another vault",
                "anna",
                of_other_vault,
                "no-address",
            ),
            with_address(
                "an address of another account",
                "anna",
                bert.2,
                "no-address",
            ),
            with_address(
                "an address of a suspended account",
                "carl",
                carl.2,
                "suspended",
            ),
        ];
        let over =
            over.map(|over| of_anna("a login whose time is over", Some(over), ["login-over"; 5]));
        wrong.extend(over);
        Self {
            place,
            device,
            removed,
            removed_slot,
            elsewhere,
            wrong,
            depositor,
        }
    }

    /// The server as it is now, started again; and a second one with the same in another place.
    fn twice(mut place: Place) -> (Place, Place) {
        place.server.take().unwrap().stop();
        let folder = tempfile::tempdir().unwrap();
        copy(place.folder.path(), folder.path());
        let mut elsewhere = Place {
            server: None,
            folder,
            token: place.token.clone(),
            services: place.services.as_ref().map(Services::copy),
        };
        for one in [&mut place, &mut elsewhere] {
            one.server = Some(start(one.storage(), Tls::Off));
        }
        (place, elsewhere)
    }

    /// Makes that request as it would be carried out for a device.
    fn ask(&self, operation: &Operation, account: &str, token: Option<&str>) -> Answer {
        let mut head = token.map(bearer).unwrap_or_default();
        let name = if operation.method == "PUT" { "b" } else { "a" };
        let mut path = operation
            .path
            .replace("{account}", account)
            .replace("{vault}", "v")
            .replace("{kind}", "segments")
            .replace("{deposit}", &"0".repeat(32))
            .replace("{name}", name);
        if operation.path.ends_with("/objects") {
            path.push_str("?kind=segments");
        }
        let body = match row_of(operation) {
            Row::LogsIn => document(&self.place, ("anna", "v"), &self.place.token, &self.device),
            Row::Changes | Row::Deposits if operation.method == "PUT" => b"bytes".to_vec(),
            _ => Vec::new(),
        };
        if matches!(operation.method, "PUT" | "POST") {
            head.push_str(&said(&body));
        }
        ask(self.place.address(), operation.method, &path, &head, &body)
    }

    /// Everything that the vault has, as its device sees it.
    fn state(&self) -> Vec<(String, Vec<u8>)> {
        let remote = as_member(&self.place, "v", &self.device);
        let mut names = vec!["strongroom.json".to_owned(), "a".to_owned()];
        for kind in [
            "segments",
            "headers",
            "publications",
            "pairing",
            "needs",
            "addresses",
            "deposits",
            "pieces",
        ] {
            let listed = remote.list(kind).unwrap().into_iter();
            names.extend(listed.map(|one| format!("{kind}/{}", one.name)));
        }
        let read = |name: String| {
            let bytes = remote.read(&object(&name), 1 << 20).unwrap().unwrap();
            (name, bytes)
        };
        names.into_iter().map(read).collect()
    }
}

/// Goal: nobody reaches more than is theirs, by any request. Method: the requests are those of the document, so that a new one must be
/// added to the table.
/// SECURITY.md, claim 26.
#[test]
fn each_request_is_refused_to_each_wrong_identity() {
    let in_document: BTreeSet<_> = operations().map(|operation| operation.id()).collect();
    let in_table: BTreeSet<_> = TABLE.iter().map(|(id, _)| *id).collect();
    assert_eq!(
        in_table, in_document,
        "the table has a row for each request"
    );
    assert_eq!(in_table.len(), TABLE.len());
    Place::each().for_each(each_is_refused);
}

fn each_is_refused(place: Place) {
    let scene = Scene::of(place);
    let (before, files) = (scene.state(), scene.place.files("objects"));
    for operation in operations() {
        let row = row_of(&operation);
        assert_eq!(operation.needs_token(), row != Row::Public);
        let public = (row == Row::Public).then(|| scene.ask(&operation, "anna", None));
        for one in &scene.wrong {
            let answer = scene.ask(&operation, one.account, one.token.as_deref());
            let about = format!("{} by {}: {answer:?}", operation.id(), one.who);
            assert_eq!(answer.code(), one.code(row), "{about}");
            assert_eq!(answer.status / 100 == 2, one.code(row) == DONE, "{about}");
            if let Some(public) = &public {
                assert!(answer.body == public.body, "{about}");
            }
            if one.code(row) != DONE {
                assert!(
                    !answer.body.windows(6).any(|six| six == b"canary"),
                    "{about}"
                );
                assert_eq!(answer.header("strongroom-created"), "", "{about}");
            }
        }
    }
    assert!(scene.state() == before);
    assert_eq!(scene.place.files("objects"), files);
    assert_eq!(scene.place.files("moving"), 0);
    // Whoever has an address deposits, and does nothing else.
    let one = &scene.depositor;
    for operation in operations() {
        let row = row_of(&operation);
        let answer = scene.ask(&operation, one.account, one.token.as_deref());
        let about = format!("{} by {}: {answer:?}", operation.id(), one.who);
        assert_eq!(answer.code(), one.code(row), "{about}");
        assert_eq!(answer.status / 100 == 2, one.code(row) == DONE, "{about}");
    }
    let mut with_deposit = before;
    with_deposit.push((format!("deposits/{}", "0".repeat(32)), b"bytes".to_vec()));
    assert!(scene.state() == with_deposit);
    // They did not fail for another reason: a device does all of it.
    let device = pass(
        &scene.place,
        ("anna", "v"),
        &scene.place.token,
        &scene.device,
    );
    for operation in operations() {
        let code = match row_of(&operation) {
            Row::Begins | Row::LogsIn => "wrong-token",
            Row::Deposits => "no-address",
            _ => DONE,
        };
        let answer = scene.ask(&operation, "anna", Some(&device));
        assert_eq!(answer.code(), code, "{}: {answer:?}", operation.id());
        assert_eq!(answer.status / 100 == 2, code == DONE, "{answer:?}");
    }
    let remote = as_member(&scene.place, "v", &scene.device);
    for (name, is_there) in [("b", true), ("segments/b", true), ("a", false)] {
        assert_eq!(remote.has(&object(name)).unwrap(), is_there, "{name}");
    }
}

/// Goal: a login is taken once, where it was meant, and of members alone; whoever recorded one has nothing. Method: one that was answered,
/// sent again and to every other place; and those of who may not log in.
/// SECURITY.md, claim 26.
#[test]
fn a_recorded_login_gives_nothing_to_whoever_sends_it_again() {
    Place::each().for_each(recorded_login_gives_nothing);
}

fn recorded_login_gives_nothing(place: Place) {
    let scene = Scene::of(place);
    let (place, of_v) = (&scene.place, ("anna", "v"));
    let token = place.token.as_str();
    let bert = scene.wrong.iter().find(|one| one.who == "another account");
    let bert = bert.unwrap().token.as_deref().unwrap();
    let made = |by: &Keyring| document(place, of_v, token, by);
    let send = |(account, name): (&str, &str), token: &str, document: &[u8]| {
        let path = format!("/v1/vaults/{account}/{name}/login");
        post(place, &path, token, document)
    };
    let recorded = made(&scene.device);
    assert_eq!(send(of_v, token, &recorded).status, 200);
    let of_other_server = {
        let other = &scene.elsewhere;
        document(other, of_v, &other.token, &scene.device)
    };
    let (stranger, _) = vault();
    for (to, token, document, code) in [
        (of_v, token, recorded.clone(), "no-challenge"),
        (("anna", "x"), token, recorded.clone(), "no-challenge"),
        (("bert", "v"), bert, recorded, "no-challenge"),
        // The same with one that nobody has answered.
        (("anna", "x"), token, made(&scene.device), "no-challenge"),
        (("bert", "v"), bert, made(&scene.device), "no-challenge"),
        (of_v, token, of_other_server, "no-challenge"),
        (of_v, bert, made(&scene.device), "other-account"),
        (of_v, token, made(&scene.removed), "device-removed"),
        (of_v, token, made(&scene.removed_slot), "device-removed"),
        (of_v, token, made(&stranger), "not-member"),
    ] {
        let answer = send(to, token, &document);
        assert_eq!(answer.code(), code, "{to:?}: {answer:?}");
        assert!(!answer.body.windows(4).any(|four| four == b"srd-"));
    }
}
