//! `serve`, as a user types it: a vault is pushed to the server and cloned from it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

use support::Place;
use support::serving::Serving;

#[test]
fn one_command_serves_a_vault_that_is_pushed_cloned_and_kept_over_a_restart() {
    let place = Place::new();
    fs::write(place.path("letter"), "dear reader").unwrap();
    place.keyed(&["put", "letter", "v:/"]);
    let mut serving = Serving::start(&place, "127.0.0.1:0");
    let at = serving.line();
    let at = at.strip_prefix("listening at https://").unwrap().to_owned();
    let print = serving.line();
    let print = print.strip_prefix("fingerprint ").unwrap().to_owned();
    assert!(serving.line().contains("not shown again"));
    let add = serving.line();
    let url = add.split('\'').nth(1).unwrap().replace("/NAME", "/photos");
    assert!(url.contains(&at) && url.ends_with(&format!("/anna/photos?fingerprint={print}")));
    let token = url.split(['/', '@']).nth(2).unwrap().to_owned();
    place.keyed(&["remote", "add", "v", "home", &url]);
    place.keyed(&["push", "v"]);
    let list = place.keyed(&["remote", "list", "v"]);
    assert!(
        list.contains(&format!("https://{at}/anna/photos")) && !list.contains(&token),
        "{list}"
    );
    place.keyed(&["clone", &url, "copy"]);
    assert_eq!(place.keyed(&["cat", "copy:/letter"]), "dear reader");
    // Without the token in the URL it comes from the environment.
    let bare = url.replace(&format!("{token}@"), "");
    let without = place.keyed_fails(8, &["clone", &bare, "other"]);
    assert!(without.contains("STRONGROOM_TOKEN"), "{without}");
    let mut command = place.command(&["clone", &bare, "other", "--key-file", "key"]);
    assert!(
        command
            .env("STRONGROOM_TOKEN", &token)
            .status()
            .unwrap()
            .success()
    );
    let wrong = place.keyed_fails(8, &["clone", &url.replace(&token, "wrong"), "third"]);
    assert!(wrong.contains("does not know this token"), "{wrong}");
    let in_use = place.fails(7, &["serve", "srv", "--listen", "127.0.0.1:0"]);
    assert!(in_use.contains("another server"), "{in_use}");
    assert_eq!(serving.interrupt(), Some(0));
    // The same certificate and account again; the token is not shown again.
    let mut again = Serving::start(&place, &at);
    assert_eq!(again.line(), format!("listening at https://{at}"));
    assert_eq!(again.line(), format!("fingerprint {print}"));
    fs::write(place.path("more"), "more").unwrap();
    place.keyed(&["put", "more", "v:/"]);
    place.keyed(&["sync", "v"]);
    place.keyed(&["sync", "copy"]);
    assert_eq!(place.keyed(&["cat", "copy:/more"]), "more");
    assert_eq!(again.interrupt(), Some(0));
    assert!(again.has_ended(), "the token is shown once");
}

#[test]
fn what_is_wrong_with_the_command_line_is_said() {
    let place = Place::empty();
    fs::create_dir(place.path("v")).unwrap();
    fs::write(place.path("v/vault.json"), "{}").unwrap();
    for (arguments, code, why) in [
        (
            &["serve", "srv", "--listen", "0.0.0.0:0", "--no-tls"][..],
            2,
            "only on this machine",
        ),
        (&["serve", "srv", "--listen", "here"], 2, "--listen"),
        (&["serve", "srv", "--certificate", "none"], 2, "--key"),
        (
            &["serve", "srv", "--certificate", "none", "--key", "none"],
            2,
            "none",
        ),
        (
            &["serve", "srv", "--listen", "127.0.0.1:0", "--account", "A"],
            2,
            "not allowed as the name of an account",
        ),
        (
            &["serve", "v", "--listen", "127.0.0.1:0"],
            2,
            "do not belong to a server",
        ),
        (
            &["serve", "nowhere/at/all", "--listen", "127.0.0.1:0"],
            3,
            "making a folder",
        ),
    ] {
        let said = place.fails(code, arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}
