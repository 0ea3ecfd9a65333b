//! Passphrases that a user types on a terminal: they are not shown, and afterwards the terminal is in its earlier state, whatever
//! happens.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::process::Command;

use support::Place;
use support::terminal::Terminal;

/// Goal: a person is asked before a lost database is rebuilt, and nothing happens without a yes.
#[test]
fn a_person_is_asked_before_a_lost_database_is_rebuilt() {
    let place = Place::new();
    let database = place.path("v/metadata.db");
    std::fs::remove_file(&database).unwrap();
    for (answer, code) in [("no\n", 5), ("yes\n", 14)] {
        assert!(!database.exists());
        let mut terminal = Terminal::start(&place, &["repair", "v", "--key-file", "key"]);
        terminal.wait_for("metadata.db cannot be used");
        terminal.wait_for("Rebuild it? [yes/no] ");
        terminal.press(answer);
        assert_eq!(terminal.end(), Some(code), "{}", terminal.shown);
    }
    assert!(database.exists());
}

#[test]
fn a_new_passphrase_is_asked_for_again_when_the_two_differ_and_never_shown() {
    let place = Place::empty();
    let mut terminal = Terminal::start(&place, &["init", "v"]);
    terminal.answer("new passphrase of v: ", "correct horse\n");
    terminal.answer("the same again: ", "another horse\n");
    terminal.wait_for("the two passphrases differ; type both again");
    terminal.answer("new passphrase of v: ", "correct horse\n");
    terminal.answer("the same again: ", "correct horse\n");
    terminal.wait_for("recovery code");
    terminal.wait_for("`strongroom info` later.");
    assert_eq!(terminal.end(), Some(0));

    let mut terminal = Terminal::start(&place, &["ls", "v"]);
    terminal.answer("passphrase of v: ", "correct horse\n");
    assert_eq!(terminal.end(), Some(0));
}

/// Goal: who mistypes a passphrase is asked again, three times in all, whatever the command does with the vault.
/// Failed before: the first wrong one ended the command.
#[test]
fn a_wrong_passphrase_is_asked_for_three_times() {
    let place = Place::empty();
    std::fs::write(place.path("right"), "correct horse").unwrap();
    std::fs::create_dir(place.path("m")).unwrap();
    place.done(&["init", "v", "--passphrase-file", "right"]);
    let commands: [&[&str]; 5] = [
        &["ls", "v"],
        &["key", "add", "v", "--new-recovery-code"],
        &["verify", "v"],
        &["repair", "--dry-run", "v"],
        &["mount", "v", "m"],
    ];
    for command in commands {
        let mut terminal = Terminal::start(&place, command);
        for _ in 1..3 {
            terminal.answer("passphrase of v: ", "wrong horse\n");
            terminal.wait_for("this secret does not open the vault; try again");
        }
        terminal.answer("passphrase of v: ", "wrong horse\n");
        terminal.wait_for("does not open this vault");
        assert_eq!(terminal.end(), Some(4), "{command:?}");
    }
    let mut terminal = Terminal::start(&place, &["ls", "v"]);
    terminal.answer("passphrase of v: ", "wrong horse\n");
    terminal.wait_for("try again");
    terminal.answer("passphrase of v: ", "correct horse\n");
    assert_eq!(terminal.end(), Some(0));
    // Nobody typed it: nobody is asked.
    std::fs::write(place.path("wrong"), "wrong horse").unwrap();
    let mut terminal = Terminal::start(&place, &["ls", "v", "--passphrase-file", "wrong"]);
    assert_eq!(terminal.end(), Some(4));
}

#[test]
fn a_passphrase_changed_at_the_terminal_opens_and_the_old_one_does_not() {
    let place = Place::empty();
    let mut terminal = Terminal::start(&place, &["init", "v"]);
    terminal.answer("new passphrase of v: ", "first horse\n");
    terminal.answer("the same again: ", "first horse\n");
    terminal.wait_for("`strongroom info` later.");
    assert_eq!(terminal.end(), Some(0));
    let mut terminal = Terminal::start(&place, &["key", "change", "v"]);
    terminal.answer("passphrase of v: ", "first horse\n");
    terminal.answer("new passphrase of v: ", "second horse\n");
    terminal.answer("the same again: ", "second horse\n");
    assert_eq!(terminal.end(), Some(0));
    let mut terminal = Terminal::start(&place, &["ls", "v"]);
    terminal.answer("passphrase of v: ", "first horse\n");
    terminal.wait_for("try again");
    terminal.answer("passphrase of v: ", "second horse\n");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn an_empty_passphrase_is_refused_before_it_is_asked_for_again() {
    let place = Place::empty();
    let mut terminal = Terminal::start(&place, &["init", "v"]);
    terminal.answer("new passphrase of v: ", "\n");
    terminal.wait_for("empty");
    assert_eq!(terminal.end(), Some(2));
    assert!(!place.path("v").exists());
}

#[test]
fn a_passphrase_that_is_three_times_not_repeated_ends_init_without_a_vault() {
    let place = Place::empty();
    let mut terminal = Terminal::start(&place, &["init", "v"]);
    for _ in 0..3 {
        terminal.answer("new passphrase of v: ", "one horse\n");
        terminal.answer("the same again: ", "two horse\n");
    }
    terminal.wait_for("the two passphrases differ; try again");
    assert_eq!(terminal.end(), Some(2));
    assert!(!place.path("v").exists());
}

#[test]
fn an_interrupted_prompt_ends_the_command_and_puts_the_terminal_right() {
    for key in ["\x03", "half a horse\x03", "\x1c"] {
        let place = Place::empty();
        let mut terminal = Terminal::start(&place, &["init", "v"]);
        terminal.answer("new passphrase of v: ", key);
        assert_ne!(terminal.end(), Some(0), "{key:?}");
        assert!(!place.path("v").exists());
    }
}

#[test]
fn the_passphrase_of_an_ssh_key_is_asked_for_and_the_background_says_why_it_cannot() {
    let place = Place::empty();
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "key horse", "-f", "ssh"])
        .current_dir(place.path(""))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("left out: this needs ssh-keygen");
        return;
    }
    let public = std::fs::read_to_string(place.path("ssh.pub")).unwrap();
    place.done(&[
        "init",
        "v",
        "--recipient",
        public.trim(),
        "--key-file",
        "key",
    ]);
    let identity = ["--identity", "ssh"];
    let ls = [&["ls", "v"], &identity[..]].concat();
    // Nobody to ask.
    let output = Command::new("setsid")
        .args(["--wait", env!("CARGO_BIN_EXE_strongroom")])
        .args(&ls)
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("no terminal to ask"), "{message}");
    let mut terminal = Terminal::start(&place, &ls);
    for _ in 1..3 {
        terminal.answer("passphrase of ssh: ", "another horse\n");
        terminal.wait_for("try again");
    }
    terminal.answer("passphrase of ssh: ", "another horse\n");
    terminal.wait_for("strongroom: ");
    assert_eq!(terminal.end(), Some(4));
    let mut terminal = Terminal::start(&place, &ls);
    terminal.answer("passphrase of ssh: ", "key horse\n");
    assert_eq!(terminal.end(), Some(0));
    std::fs::create_dir(place.path("m")).unwrap();
    let message = place.fails(12, &[&["mount", "v", "m"], &identity[..]].concat());
    assert!(
        message.contains("in the foreground only: add -f"),
        "{message}"
    );
}

#[test]
fn an_age_key_and_an_ssh_key_open_the_vault_that_was_made_for_them_and_no_other() {
    use age::secrecy::ExposeSecret;
    let place = Place::empty();
    let key = age::x25519::Identity::generate();
    let text = format!("# made for a test\n{}\n", key.to_string().expose_secret());
    std::fs::write(place.path("age"), text).unwrap();
    let other = age::x25519::Identity::generate();
    std::fs::write(place.path("other"), other.to_string().expose_secret()).unwrap();
    let recipient = key.to_public().to_string();
    place.done(&["init", "v", "--recipient", &recipient, "--key-file", "key"]);
    place.done(&["put", "age", "v:/a", "--identity", "age"]);
    assert_eq!(place.done(&["ls", "v", "--identity", "age"]), "a\n");
    place.fails(4, &["ls", "v", "--identity", "other"]);
    place.fails(4, &["ls", "v", "--identity", "key"]);
    let info = place.done(&["info", "v", "--identity", "age"]);
    assert!(
        info.contains("anyone can make a vault that your key opens"),
        "{info}"
    );
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", "ssh"])
        .current_dir(place.path(""))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("left out: this needs ssh-keygen");
        return;
    }
    let public = std::fs::read_to_string(place.path("ssh.pub")).unwrap();
    place.done(&[
        "key",
        "add",
        "v",
        "--recipient",
        public.trim(),
        "--identity",
        "age",
    ]);
    assert_eq!(place.done(&["ls", "v", "--identity", "ssh"]), "a\n");
}

/// Failed before: nobody was asked.
#[test]
fn a_vault_that_anybody_could_make_is_used_after_a_person_said_that_it_is_the_one() {
    use age::secrecy::ExposeSecret;
    let (place, stranger) = (Place::empty(), Place::empty());
    let key = age::x25519::Identity::generate();
    std::fs::write(place.path("age"), key.to_string().expose_secret()).unwrap();
    let recipient = key.to_public().to_string();
    stranger.done(&["init", "v", "--recipient", &recipient, "--key-file", "key"]);
    support::copy_folder(&stranger.path("v"), &place.path("v"));
    let ls = ["ls", "v", "--identity", "age"];
    let mut terminal = Terminal::start(&place, &ls);
    terminal.wait_for("when your vault was made? [yes/no] ");
    terminal.press("no\n");
    assert_eq!(terminal.end(), Some(5));
    let mut terminal = Terminal::start(&place, &ls);
    terminal.wait_for("when your vault was made? [yes/no] ");
    terminal.press("yes\n");
    assert_eq!(terminal.end(), Some(0));
    let mut terminal = Terminal::start(&place, &ls);
    assert_eq!(terminal.end(), Some(0));
}
