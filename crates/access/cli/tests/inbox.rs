//! `inbox` and `deposit`, as users type them: one has a vault, the other has the URL of an address and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use support::Place;
use support::serving::Serving;

/// A vault `v` with an address at a server, and its URL.
fn place() -> (Place, Serving, String) {
    let place = Place::new();
    let mut serving = Serving::start(&place, "127.0.0.1:0");
    let url = serving.url("photos");
    place.keyed(&["remote", "add", "v", "home", &url]);
    place.keyed(&["push", "v"]);
    let address = place.keyed(&["inbox", "add", "v", "scanner"]);
    (place, serving, address.trim_end().to_owned())
}

/// Runs a command that reads `content` from standard input.
fn with_input(place: &Place, arguments: &[&str], content: &[u8]) -> Output {
    let mut command = place.command(arguments);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    child.wait_with_output().unwrap()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_others_deposit_comes_into_the_inbox_with_the_next_pull() {
    let (place, _serving, url) = place();
    assert!(url.contains("://sra-"), "{url}");
    fs::write(place.path("scan.pdf"), "a scan").unwrap();
    fs::write(place.path("bill.pdf"), "a bill").unwrap();
    let said = place.done(&["deposit", &url, "scan.pdf", "bill.pdf", "--from", "office"]);
    assert_eq!(said, "deposited scan.pdf (6 B)\ndeposited bill.pdf (6 B)\n");
    let output = with_input(
        &place,
        &[
            "deposit", &url, "-", "--name", "mail", "--id", "m1", "--json",
        ],
        b"a mail",
    );
    let done = json(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(done["deposits"][0]["path"], "mail");
    assert_eq!(done["deposits"][0]["size"], 6);
    assert_eq!(done["deposits"][0]["was_there"], false);
    assert_eq!(done["failed"], 0);
    // Once more, as after an answer that was lost.
    let output = with_input(
        &place,
        &["deposit", &url, "-", "--name", "mail", "--id", "m1"],
        b"a mail",
    );
    assert_eq!(output.stdout, b"mail was deposited before\n");

    let list = place.keyed(&["inbox", "list", "v"]);
    assert_eq!(
        list.matches("the next pull takes it in").count(),
        3,
        "{list}"
    );
    assert!(!list.contains("sra-"), "{list}");
    let pulled = place.keyed(&["pull", "v"]);
    assert!(pulled.contains("3 files deposited by others:"), "{pulled}");
    assert!(pulled.contains("/Inbox/scan.pdf"), "{pulled}");
    assert_eq!(
        place.keyed(&["ls", "v:/Inbox"]),
        "bill.pdf\nmail\nscan.pdf\n"
    );
    assert_eq!(place.keyed(&["cat", "v:/Inbox/mail"]), "a mail");
    let list = json(&place.keyed(&["inbox", "list", "v", "--json"]));
    assert_eq!(list["addresses"][0]["label"], "scanner");
    assert_eq!(list["addresses"][0]["works"], true);
    assert_eq!(list["deposits"][0]["state"], "taken");
    let synced = json(&place.keyed(&["sync", "v", "--json"]));
    assert_eq!(synced["remotes"][0]["pulled"]["received"], 0);
    let list = json(&place.keyed(&["inbox", "list", "v", "--json"]));
    assert_eq!(list["deposits"], json("[]"));
    assert_eq!(
        place.keyed(&["inbox", "address", "v", "scanner"]),
        url + "\n"
    );
}

#[test]
fn what_cannot_be_deposited_is_said_and_the_rest_comes() {
    let (place, _serving, url) = place();
    fs::create_dir(place.path("folder")).unwrap();
    fs::write(place.path("good"), "good").unwrap();
    let large = fs::File::create(place.path("large")).unwrap();
    large.set_len((1 << 30) + 1).unwrap();
    let arguments = ["deposit", &url, "folder", "none", "large", "good"];
    let said = place.fails(2, &arguments);
    assert!(said.contains("folder: it is a directory"), "{said}");
    assert!(said.contains("none: "), "{said}");
    assert!(said.contains("at most 1"), "{said}");
    assert_eq!(
        place
            .keyed(&["sync", "v", "--json"])
            .matches("/Inbox/good")
            .count(),
        1
    );
    for (arguments, why) in [
        (&["deposit", &url, "-"][..], "--name gives the file one"),
        (
            &["deposit", &url, "good", "folder", "--name", "x"],
            "exactly one",
        ),
        (
            &["deposit", "https://srt-1@localhost:1/a/b", "good"],
            "not an address",
        ),
    ] {
        let said = place.fails(2, arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn an_address_that_was_removed_is_refused_and_the_others_work() {
    let (place, _serving, url) = place();
    let other = place.keyed(&["inbox", "add", "v", "office", "home"]);
    let other = other.trim_end();
    fs::write(place.path("scan"), "a scan").unwrap();
    place.done(&["deposit", &url, "scan"]);
    let removed = place.keyed(&["inbox", "remove", "v", "scanner"]);
    assert!(removed.contains("/Inbox/scan"), "{removed}");
    let said = place.fails(8, &["deposit", &url, "scan"]);
    assert!(
        said.contains("withdrawn") && !said.contains("sra-"),
        "{said}"
    );
    place.done(&["deposit", other, "scan"]);
    let list = json(&place.keyed(&["inbox", "list", "v", "--json"]));
    let mut waits = list["deposits"].as_array().unwrap().iter();
    let found = waits.find(|one| one["state"] == "waiting").unwrap();
    let id = found["id"].as_str().unwrap().to_owned();
    place.keyed(&["inbox", "discard", "v", &id]);
    place.keyed_fails(3, &["inbox", "discard", "v", &id]);
    place.keyed_fails(3, &["inbox", "retry", "v", &id]);
    let said = place.keyed_fails(2, &["inbox", "address", "v", "scanner"]);
    assert!(said.contains("no address called scanner"), "{said}");
    // The token can come from the environment, where other users do not see it.
    let token = other.split(['/', '@']).nth(2).unwrap();
    let bare = other.replace(&format!("{token}@"), "");
    let mut command = place.command(&["deposit", &bare, "scan"]);
    let status = command.env("STRONGROOM_TOKEN", token).status();
    assert!(status.unwrap().success());
    place.keyed(&["sync", "v"]);
    assert_eq!(place.keyed(&["ls", "v:/Inbox"]), "scan\nscan (2)\n");
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let inside = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => files(&entry.path()),
        false => BTreeSet::from([entry.path()]),
    });
    inside.flatten().collect()
}

/// Goal: a user sees what could not be opened, and has all of it deleted at once. Method: two envelopes that somebody changed where the server
/// keeps them, and one that was not.
#[test]
fn what_was_set_aside_is_listed_and_deleted_at_once() {
    let (place, _serving, url) = place();
    let stored = || files(&place.path("srv/objects"));
    for name in ["one", "two"] {
        fs::write(place.path(name), "").unwrap();
        let before = stored();
        place.done(&["deposit", &url, name]);
        // Nothing has no pieces.
        let added: Vec<PathBuf> = stored().difference(&before).cloned().collect();
        assert_eq!(added.len(), 1, "{added:?}");
        let mut envelope = fs::read(&added[0]).unwrap();
        envelope[3000] ^= 1;
        fs::write(&added[0], envelope).unwrap();
    }
    fs::write(place.path("good"), "good").unwrap();
    place.done(&["deposit", &url, "good"]);
    let pulled = place.keyed(&["pull", "v"]);
    assert!(pulled.contains("/Inbox/good"), "{pulled}");
    let list = place.keyed(&["inbox", "list", "v"]);
    assert_eq!(list.matches("set aside").count(), 2, "{list}");
    let discard = ["inbox", "discard", "v", "--set-aside"];
    place.keyed_fails(2, &[&discard[..], &["--unfinished"]].concat());
    place.keyed_fails(
        2,
        &[&discard[..], &["00112233445566778899aabbccddeeff"]].concat(),
    );
    let said = place.keyed(&discard);
    assert_eq!(said, "deleted 2 deposits that could not be opened\n");
    let said = json(&place.keyed(&[&discard[..], &["--json"]].concat()));
    assert_eq!(said["discarded_deposits"], 0);
    let list = json(&place.keyed(&["inbox", "list", "v", "--json"]));
    let deposits = list["deposits"].as_array().unwrap();
    assert_eq!(deposits.len(), 1);
    assert_eq!(deposits[0]["state"], "taken");
}

/// The example program that takes mail. It is killed when this is dropped.
struct Mail {
    child: Child,
    at: String,
}

impl Mail {
    fn start(place: &Place) -> Self {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
        let mut child = Command::new("python3")
            .arg(top.unwrap().join("examples/lmtp_inbox.py"))
            .args(["--address-file", "address", "--listen", "127.0.0.1:0"])
            .args(["--max", "10000", "--strongroom"])
            .arg(env!("CARGO_BIN_EXE_strongroom"))
            .current_dir(place.path("."))
            .env("XDG_CACHE_HOME", place.path("cache"))
            .env("XDG_STATE_HOME", place.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let at = line
            .trim()
            .strip_prefix("listening at ")
            .unwrap()
            .to_owned();
        Self { child, at }
    }

    /// Says all of it; gives the codes of the answers.
    fn speak(&self, lines: &[&str]) -> Vec<String> {
        let mut line = TcpStream::connect(&self.at).unwrap();
        line.write_all(format!("{}\r\nQUIT\r\n", lines.join("\r\n")).as_bytes())
            .unwrap();
        let answers = BufReader::new(line).lines().map(Result::unwrap);
        let codes = answers.filter(|line| line.as_bytes()[3] == b' ');
        codes.map(|line| line[..3].to_owned()).collect()
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Goal: mail comes into the vault once, as it was sent, and what is not there durably is not confirmed. Method: the example program, with a
/// message that is delivered twice, one that is too long, and one behind the withdrawal of the address.
#[test]
fn mail_that_the_example_takes_comes_into_the_inbox_once() {
    let (place, _serving, url) = place();
    fs::write(place.path("address"), &url).unwrap();
    let mail = Mail::start(&place);
    let message = ["Subject: =?utf-8?q?gr=C3=BC=C3=9Fe?=", "", "..", "end", "."];
    let envelope = ["LHLO me", "MAIL FROM:<anna@example.org>", "RCPT TO:<a>"];
    let deliver = |to: &[&str], message: &[&str]| {
        let lines = [&envelope[..], to, &["DATA"], message].concat();
        mail.speak(&lines)
    };
    let two = deliver(&["RCPT TO:<b>"], &message);
    assert_eq!(
        two,
        [
            "220", "250", "250", "250", "250", "354", "250", "250", "221"
        ]
    );
    assert_eq!(deliver(&[], &message)[5], "250");
    let long = ["x"; 5000];
    assert_eq!(deliver(&[], &[&long[..], &["."]].concat())[5], "552");
    place.keyed(&["sync", "v"]);
    assert_eq!(place.keyed(&["ls", "v:/Inbox"]), "gr\u{fc}\u{df}e.eml\n");
    let came = place.keyed(&["cat", "v:/Inbox/gr\u{fc}\u{df}e.eml"]);
    assert_eq!(
        came,
        "Subject: =?utf-8?q?gr=C3=BC=C3=9Fe?=\r\n\r\n.\r\nend\r\n"
    );
    place.keyed(&["inbox", "remove", "v", "scanner"]);
    assert_eq!(deliver(&[], &message)[5], "451");
}

/// Goal: programs for mail that a distribution has deliver through the example. Method: msmtp by LMTP and curl by SMTP; one that is not here is
/// skipped, and said.
#[test]
fn mail_programs_of_the_distribution_deliver_through_the_example() {
    let (place, _serving, url) = place();
    fs::write(place.path("address"), &url).unwrap();
    let mail = Mail::start(&place);
    let (host, port) = mail.at.rsplit_once(':').unwrap();
    let msmtp = format!(
        "--host={host} --port={port} --protocol=lmtp --tls=off --auth=off --set-date-header=off --from=anna@example.org vault@example.org"
    );
    let curl = format!(
        "-q --silent --show-error --noproxy * --url smtp://{} --mail-from anna@example.org --mail-rcpt vault@example.org --upload-file -",
        mail.at
    );
    let mut expected = BTreeSet::new();
    // One reads lines of this system, the other lines of mail.
    for (program, arguments, end) in [("msmtp", msmtp, "\n"), ("curl", curl, "\r\n")] {
        let mut command = Command::new(program);
        command
            .args(arguments.split(' '))
            .env("HOME", place.path("."));
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("skipped: there is no program {program} that could deliver mail");
                continue;
            }
            child => child.unwrap(),
        };
        let subject = format!("Subject: {program}");
        let message = [subject.as_str(), "", "hello", ".", "end", ""].join(end);
        let mut input = child.stdin.take().unwrap();
        input.write_all(message.as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        expected.insert(format!("{program}.eml"));
    }
    place.keyed(&["sync", "v"]);
    for name in &expected {
        let came = place.keyed(&["cat", &format!("v:/Inbox/{name}")]);
        assert!(came.ends_with("hello\r\n.\r\nend\r\n"), "{came:?}");
    }
    if !expected.is_empty() {
        let listed = place.keyed(&["ls", "v:/Inbox"]);
        let names: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        assert_eq!(names, expected);
    }
}

/// Goal: a message that is not as it should be comes too, as one: a mail server would bring it again and again, and nobody smuggles another one
/// in it. Method: a subject and a date that nobody can decode, and the end of a message between line ends that mail does not have.
#[test]
fn mail_with_wrong_headers_or_line_ends_comes_as_one_message() {
    let (place, _serving, url) = place();
    fs::write(place.path("address"), &url).unwrap();
    let mail = Mail::start(&place);
    let codes = mail.speak(&[
        "LHLO me",
        "MAIL FROM:<anna@example.org>",
        "RCPT TO:<a>",
        "DATA",
        "Subject: =?utf-8?b?A?=",
        "Date: Mon, 1 Jan 99999999999999999999 00:00:00 +0000",
        "",
        "one\n.\nMAIL FROM:<other@example.org>",
        ".",
    ]);
    assert_eq!(codes[5..], ["250", "221"], "{codes:?}");
    place.keyed(&["sync", "v"]);
    assert_eq!(place.keyed(&["ls", "v:/Inbox"]), "=?utf-8?b?A?=.eml\n");
    let came = place.keyed(&["cat", "v:/Inbox/=?utf-8?b?A?=.eml"]);
    assert!(
        came.ends_with("one\n.\nMAIL FROM:<other@example.org>\r\n"),
        "{came}"
    );
}

/// Goal: the memory of a deposit does not grow with it. Method: the most that the process had, of a file of 192 MiB.
#[test]
fn a_large_file_is_deposited_in_little_memory() {
    const BOUND_KIB: u64 = 96 << 10;
    let (place, _serving, url) = place();
    let large = fs::File::create(place.path("large")).unwrap();
    large.set_len(192 << 20).unwrap();
    let mut command = place.command(&["deposit", &url, "large"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        if let Some(kib) = kib {
            peak = peak.max(kib.parse().unwrap());
        }
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(ended.success());
    assert!((1..BOUND_KIB).contains(&peak), "{peak} KiB");
    place.keyed(&["pull", "v"]);
    let stat = json(&place.keyed(&["stat", "--json", "v:/Inbox/large"]));
    assert!(stat.to_string().contains("201326592"), "{stat}");
}
