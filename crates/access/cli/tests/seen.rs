//! The output of commands if a vault was replaced: by an older state, a copy, another vault, or an attacker's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::{Place, copy_folder};

/// Failed before: the older folder opened, and `put` wrote into it.
/// SECURITY.md, claim 11.
#[test]
fn an_older_folder_is_refused_with_5_and_accepted_by_order() {
    let place = Place::new();
    fs::write(place.path("a"), "content").unwrap();
    copy_folder(&place.path("v"), &place.path("backup"));
    place.keyed(&["put", "a", "v:/a"]);
    fs::rename(place.path("v"), place.path("newer")).unwrap();
    fs::rename(place.path("backup"), place.path("v")).unwrap();
    for command in [
        &["ls", "v"][..],
        &["put", "a", "v:/b"],
        &["key", "add", "v", "--new-recovery-code"],
        &["info", "v", "--unlock"],
    ] {
        let message = place.keyed_fails(5, command);
        assert!(message.contains("Last seen at 2"), "{message}");
        assert!(message.contains("--accept-older"), "{message}");
    }
    assert_eq!(place.keyed(&["ls", "v", "--accept-older"]), "");
    assert_eq!(place.keyed(&["ls", "v"]), "");
}

#[test]
fn a_copy_is_said_to_be_one_once_and_by_info() {
    let place = Place::new();
    copy_folder(&place.path("v"), &place.path("w"));
    let first = place.run_keyed(&["ls", "w"]);
    let words = String::from_utf8(first.stderr).unwrap();
    assert!(
        first.status.success() && words.contains("is a copy of the vault in"),
        "{words}"
    );
    let again = place.run_keyed(&["ls", "w"]);
    assert!(again.status.success() && again.stderr.is_empty());
    let info = place.done(&["info", "w"]);
    assert!(info.contains("copy of      /"), "{info}");
    assert_eq!(info.matches("known at ").count(), 2, "{info}");
    let json: serde_json::Value =
        serde_json::from_str(&place.done(&["info", "w", "--json"])).unwrap();
    assert!(json["seen"]["here"]["copy_of"].is_string(), "{json}");
    assert!(json["seen"]["here"]["commits"].is_u64(), "{json}");
}

/// Goal: `info --json` has the paths of a vault, of what it is a copy of, and of the records as they are. Method: each has a backslash and a
/// character that looks like a space. Failed before: they were as a terminal is shown them, with two backslashes and `\u{a0}`.
/// SECURITY.md, claim 15.
#[test]
fn info_gives_paths_exactly() {
    let place = Place::empty();
    let (name, state) = ("a\\b\u{a0}", "s\\t\u{a0}");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        let output = command.env("XDG_STATE_HOME", place.path(state)).output();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let seen = |vault: &str| {
        let info = run(&["info", vault, "--json"]);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        info["seen"].clone()
    };
    run(&["init", name, "--key-file", "key"]);
    let vault = place.path(name).canonicalize().unwrap();
    let vault = vault.to_str().unwrap();
    let found = seen(name);
    assert_eq!(found["here"]["path"], vault, "{found}");
    assert_eq!(found["places"][0]["path"], vault, "{found}");
    let kept_in = found["kept_in"].as_str().unwrap();
    assert!(kept_in.contains(&format!("/{state}/")), "{found}");
    copy_folder(&place.path(name), &place.path("copy"));
    run(&["ls", "copy", "--key-file", "key"]);
    assert_eq!(seen("copy")["here"]["copy_of"], vault);
    let shown = run(&["info", name]);
    assert!(shown.contains(r"/a\\b\u{a0}"), "{shown}");
}

#[test]
fn another_vault_at_a_path_is_refused_until_it_is_named_or_the_path_is_forgotten() {
    let place = Place::new();
    place.done(&["init", "x", "--key-file", "other"]);
    let json: serde_json::Value =
        serde_json::from_str(&place.done(&["info", "x", "--json"])).unwrap();
    let fingerprint = json["fingerprint"].as_str().unwrap();
    fs::rename(place.path("v"), place.path("mine")).unwrap();
    fs::rename(place.path("x"), place.path("v")).unwrap();
    let ls = ["ls", "v", "--key-file", "other"];
    let message = place.fails(5, &ls);
    assert!(message.contains("held another vault before"), "{message}");
    let option = format!("--fingerprint {fingerprint}");
    assert!(message.contains(&option), "{message}");
    assert!(
        place
            .done(&["info", "v"])
            .contains("warning      another vault was seen")
    );
    let wrong = ["0000"; 10].join("-");
    let message = place.fails(5, &[&ls[..], &["--fingerprint", &wrong]].concat());
    assert!(
        message.contains("it is not the expected vault"),
        "{message}"
    );
    place.fails(2, &[&ls[..], &["--fingerprint", "12"]].concat());
    place.done(&[&ls[..], &["--fingerprint", fingerprint]].concat());
    place.done(&ls);
    assert!(place.done(&["info", "--forget", "v"]).contains("forgotten"));
    place.done(&ls);
}

/// Failed before: `put` stored the file in the stranger's vault without a word.
/// SECURITY.md, claim 12.
#[test]
fn a_strangers_vault_for_an_age_key_is_refused_unattended_and_opens_by_its_fingerprint() {
    use age::secrecy::ExposeSecret;
    let (place, stranger) = (Place::empty(), Place::empty());
    let key = age::x25519::Identity::generate();
    fs::write(place.path("age"), key.to_string().expose_secret()).unwrap();
    let recipient = key.to_public().to_string();
    stranger.done(&["init", "v", "--recipient", &recipient, "--key-file", "key"]);
    copy_folder(&stranger.path("v"), &place.path("v"));
    let put = ["put", "age", "v:/a", "--identity", "age"];
    // Nobody can be asked.
    let unattended = |arguments: &[&str]| {
        let command = place.command(arguments);
        let output = std::process::Command::new("setsid")
            .arg("--wait")
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(place.path(""))
            .env("XDG_RUNTIME_DIR", place.path("run"))
            .env("XDG_STATE_HOME", place.path("state"))
            .output()
            .unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), words)
    };
    let (code, words) = unattended(&put);
    assert_eq!(code, Some(5), "{words}");
    let option = words.split("--fingerprint ").nth(1).unwrap().trim();
    assert!(place.done(&["info", "v"]).contains(option), "{words}");
    let accepted = [&put[..], &["--fingerprint", option]].concat();
    assert_eq!(unattended(&accepted).0, Some(0));
    assert_eq!(unattended(&["ls", "v", "--identity", "age"]).0, Some(0));
}

#[test]
fn where_no_record_can_be_kept_a_vault_opens_and_info_says_so() {
    let place = Place::new();
    let state = place.path("state");
    fs::remove_dir_all(&state).unwrap();
    fs::write(&state, "no folder").unwrap();
    let output = place.run_keyed(&["ls", "v"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let info = place.done(&["info", "v"]);
    assert!(info.contains("none is kept on this machine"), "{info}");
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    place.keyed(&["ls", "v"]);
    assert!(place.done(&["info", "v"]).contains("last seen    20"));
}
