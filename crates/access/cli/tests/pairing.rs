//! `device add` and `clone --pair`, as two users type them: the output of both sides, and how they end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Output, Stdio};

use serde_json::Value;
use support::terminal::Terminal;
use support::{MountPoint, Place};

/// A vault `v` with a file that was pushed to the remote `stick`; gives the remote's URL.
fn pushed() -> (Place, String) {
    let place = Place::new();
    fs::write(place.path("letter"), "dear reader").unwrap();
    place.keyed(&["put", "letter", "v:/"]);
    fs::create_dir(place.path("stick")).unwrap();
    let url = format!("folder:{}", place.path("stick").display());
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    (place, url)
}

/// `device add --json` as a program runs it.
struct Adding {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Adding {
    fn start(place: &Place) -> Self {
        let add = ["device", "add", "v", "--json", "--key-file", "key"];
        let mut child = place
            .command(&add)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child, events }
    }

    fn event(&mut self, name: &str) -> Value {
        let mut line = String::new();
        self.events.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(event["event"], name, "{line}");
        event
    }

    fn answer(&mut self, answer: &str) {
        let mut stdin = self.child.stdin.take().unwrap();
        writeln!(stdin, "{answer}").unwrap();
    }

    fn end(self) -> Output {
        self.child.wait_with_output().unwrap()
    }
}

/// `clone --pair` as a program runs it, with the code on standard input.
fn cloning(place: &Place, url: &str, code: &str, more: &[&str]) -> Child {
    let arguments = ["clone", "--pair", url, "copy", "--key-file", "new-key"];
    let mut child = place
        .command(&[&arguments, more].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{code}").unwrap();
    child
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Goal: the whole of it as two people see it.
#[test]
fn two_people_let_a_device_in() {
    let (place, url) = pushed();
    let mut old = Terminal::start(&place, &["device", "add", "v", "--key-file", "key"]);
    let said = old.wait_for("and, when it asks for the code:");
    assert!(
        said.contains(&format!("strongroom clone --pair {url} DIR")),
        "{said}"
    );
    let shown =
        old.wait_for("Waiting for the other device. The code is valid for 10 minutes and 5 tries.");
    let code = shown.split_whitespace().next().unwrap().to_owned();
    assert!(shown.contains('█'), "a code for a camera: {shown}");
    let arguments = ["clone", "--pair", &url, "copy", "--name", "laptop"];
    let mut new = Terminal::start(&place, &arguments);
    new.wait_for("code that the other device shows: ");
    // A place where nobody waits, and something that is no code.
    let nobody = if code.starts_with("000") {
        "111"
    } else {
        "000"
    };
    new.press(&format!("{nobody}{}\n", &code[3..]));
    new.wait_for("no device at this remote waits for a code that begins with");
    new.wait_for("code that the other device shows: ");
    new.press(&format!("{code}\n"));
    new.answer("new passphrase of copy: ", "correct horse\n");
    new.answer("the same again: ", "correct horse\n");
    new.wait_for("Compare: the fingerprint of this device is ");
    let fingerprint = new.wait_for(".");
    new.wait_for("Waiting for the other device to let it in.");
    old.wait_for("A device called \"laptop\" asks to join. Its fingerprint is ");
    assert_eq!(old.wait_for("."), fingerprint);
    old.wait_for("Let it in? [yes/no] ");
    old.press("yes\n");
    old.wait_for("\"laptop\" is a device of the vault now");
    assert_eq!(old.end(), Some(0), "{}", old.shown);
    new.wait_for("cloned 2 files with 11 B");
    assert_eq!(new.end(), Some(0), "{}", new.shown);
    fs::write(place.path("passphrase"), "correct horse").unwrap();
    let by_passphrase = ["cat", "copy:/letter", "--passphrase-file", "passphrase"];
    assert_eq!(place.done(&by_passphrase), "dear reader");
    // Two devices, nothing to accept, and the key has the device's name.
    let listed = place.keyed(&["device", "list", "v"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(place.done(&["key", "list", "copy"]).contains("laptop"));
    assert_eq!(
        fs::read_dir(place.path("stick/pairing")).unwrap().count(),
        0
    );
}

#[test]
fn a_mistyped_code_is_typed_again_and_a_no_lets_nobody_in() {
    let (place, url) = pushed();
    let mut old = Terminal::start(
        &place,
        &["device", "add", "v", "--no-qr", "--key-file", "key"],
    );
    old.wait_for("and, when it asks for the code:");
    let shown = old.wait_for("Waiting for the other device.");
    let code = shown.trim().to_owned();
    let mut mistyped = code.clone();
    let last = if mistyped.pop() == Some('0') {
        '1'
    } else {
        '0'
    };
    mistyped.push(last);
    let arguments = ["clone", "--pair", &url, "copy", "--key-file", "new-key"];
    let mut new = Terminal::start(&place, &arguments);
    new.wait_for("code that the other device shows: ");
    new.press(&format!("{mistyped}\n"));
    old.wait_for("somebody tried a wrong code; 4 tries are left");
    new.wait_for("this is not the code that the other device shows");
    new.wait_for("code that the other device shows: ");
    // As a camera reads it.
    new.press(&format!("{url}#{code}\n"));
    old.wait_for("Let it in? [yes/no] ");
    old.press("no\n");
    old.wait_for("the device was not let in, and the code is no longer valid");
    assert_eq!(old.end(), Some(1), "{}", old.shown);
    new.wait_for("the other device did not let this one in");
    assert_eq!(new.end(), Some(8), "{}", new.shown);
    assert!(!place.path("copy").exists());
    let listed = place.keyed(&["device", "list", "v"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

/// Goal: the new device asks for a code no sixth time, whoever answers it. Failed before: it asked without end.
#[test]
fn five_mistyped_codes_end_the_pairing_on_both_sides() {
    let (place, url) = pushed();
    let mut old = Terminal::start(
        &place,
        &["device", "add", "v", "--no-qr", "--key-file", "key"],
    );
    old.wait_for("and, when it asks for the code:");
    let shown = old.wait_for("Waiting for the other device.");
    let mut mistyped = shown.trim().to_owned();
    let last = if mistyped.pop() == Some('0') {
        '1'
    } else {
        '0'
    };
    mistyped.push(last);
    let arguments = ["clone", "--pair", &url, "copy", "--key-file", "new-key"];
    let mut new = Terminal::start(&place, &arguments);
    for number in 1..=5 {
        new.wait_for("code that the other device shows: ");
        new.press(&format!("{mistyped}\n"));
        new.wait_for(match number {
            5 => "5 wrong codes were tried",
            _ => "this is not the code that the other device shows",
        });
    }
    assert_eq!(new.end(), Some(4), "{}", new.shown);
    old.wait_for("5 wrong codes were tried");
    assert_eq!(old.end(), Some(4), "{}", old.shown);
    assert!(!place.path("copy").exists());
}

/// Goal: a vault that is mounted lets a device in as well, and a program can do it all.
#[test]
fn a_program_lets_a_device_into_a_mounted_vault() {
    let (place, url) = pushed();
    fs::create_dir(place.path("m")).unwrap();
    let mount = MountPoint::new(&place);
    place.keyed(&["mount", "v", "m"]);
    fs::write(place.path("m/written"), "while mounted").unwrap();
    let mut adding = Adding::start(&place);
    let offered = adding.event("offered");
    assert_eq!(offered["url"], url.as_str());
    assert_eq!(
        (&offered["good_for_s"], &offered["tries"]),
        (&600.into(), &5.into())
    );
    let code = offered["code"].as_str().unwrap();
    let new = cloning(&place, &url, code, &["--json", "--name", "server"]);
    let asks = adding.event("asks");
    assert_eq!(asks["name"], "server");
    adding.answer("yes");
    assert_eq!(adding.event("added")["name"], "server");
    let ended = adding.end();
    assert!(ended.status.success(), "{}", errors(&ended));
    let cloned = new.wait_with_output().unwrap();
    assert!(cloned.status.success(), "{}", errors(&cloned));
    let said = String::from_utf8(cloned.stdout).unwrap();
    let mut values = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let compared = values.next().unwrap().unwrap();
    assert_eq!(compared["fingerprint"], asks["fingerprint"]);
    assert!(values.next().unwrap().unwrap()["made"].is_object());
    let read = place.done(&["cat", "copy:/written", "--key-file", "new-key"]);
    assert_eq!(read, "while mounted");
    drop(mount);
}

#[test]
fn a_device_that_is_let_in_may_leave_content_at_the_remote() {
    let (place, url) = pushed();
    fs::write(place.path("picture"), vec![9; 300_000]).unwrap();
    place.keyed(&["put", "picture", "v:/"]);
    place.keyed(&["push", "v"]);
    let mut adding = Adding::start(&place);
    let offered = adding.event("offered");
    let code = offered["code"].as_str().unwrap();
    let new = cloning(&place, &url, code, &["--on-demand"]);
    adding.event("asks");
    adding.answer("yes");
    adding.event("added");
    assert!(adding.end().status.success());
    let cloned = new.wait_with_output().unwrap();
    assert!(cloned.status.success(), "{}", errors(&cloned));
    let said = String::from_utf8(cloned.stdout).unwrap();
    assert!(said.contains("are only at the remote"), "{said}");
    fs::rename(place.path("stick"), place.path("hidden")).unwrap();
    let by_key = ["--key-file", "new-key"];
    let listed = place.done(&[&["ls", "copy:/"][..], &by_key].concat());
    assert!(listed.contains("picture"), "{listed}");
    place.fails(15, &[&["cat", "copy:/picture"][..], &by_key].concat());
    fs::rename(place.path("hidden"), place.path("stick")).unwrap();
    place.done(&[&["get", "copy:/picture", "here"][..], &by_key].concat());
    assert_eq!(fs::read(place.path("here")).unwrap(), vec![9; 300_000]);
}

#[test]
fn what_is_wrong_is_said_with_a_code_of_its_own() {
    let (place, url) = pushed();
    let typed = |code: &str, more: &[&str]| {
        let output = cloning(&place, &url, code, more)
            .wait_with_output()
            .unwrap();
        (output.status.code(), errors(&output))
    };
    let (code, said) = typed("hello", &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a pairing code has 11 digits"), "{said}");
    let (code, said) = typed("123-4567-8901", &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("`strongroom device add`"), "{said}");
    assert!(!place.path("copy").exists() && !place.path("new-key").exists());
    // Not with what opens the vault of another device.
    let both = ["clone", "--pair", &url, "copy", "--recovery-code", "-"];
    place.fails(2, &both);
    // A vault without a remote has nowhere to meet.
    place.done(&["init", "w", "--key-file", "key-of-w"]);
    let none = place.fails(2, &["device", "add", "w", "--key-file", "key-of-w"]);
    assert!(none.contains("remote add"), "{none}");
    // A wrong code of a program ends it: nobody is there to type another.
    let mut adding = Adding::start(&place);
    let offered = adding.event("offered");
    let mut wrong = offered["code"].as_str().unwrap().to_owned();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    let (code, said) = typed(&wrong, &[]);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(adding.event("wrong-code")["left"], 4);
    adding.child.kill().unwrap();
    adding.end();
}

/// Goal: Ctrl-C ends the waiting, says so, and takes the offer back.
#[test]
fn an_interrupted_offer_is_taken_back() {
    let (place, _) = pushed();
    let mut old = Terminal::start(
        &place,
        &["device", "add", "v", "--no-qr", "--key-file", "key"],
    );
    old.wait_for("Waiting for the other device.");
    assert_eq!(
        fs::read_dir(place.path("stick/pairing")).unwrap().count(),
        1
    );
    old.press("\u{3}");
    old.wait_for("interrupted; no device was let in");
    old.end();
    assert_eq!(
        fs::read_dir(place.path("stick/pairing")).unwrap().count(),
        0
    );
}
