//! The real binary, as a user runs it: its output, its effects, and its exit codes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use support::{MountPoint, Place, copy_folder};

/// Goal: what only test builds have (a ledger of every key and nonce, passphrases that cost nothing) is not in the product.
/// Method: the ledger's complaint is a constant that its code cannot do without.
#[test]
fn the_binary_has_no_nonce_ledger() {
    let program = fs::read(env!("CARGO_BIN_EXE_strongroom")).unwrap();
    let has = |text: &[u8]| program.windows(text.len()).any(|window| window == text);
    assert!(has(b"no vault at this path"), "messages can be found");
    assert!(!has(b"nonce ledger"));
}

#[test]
fn a_file_goes_in_is_listed_and_comes_out_again() {
    let place = Place::new();
    fs::write(place.path("a.txt"), "hello\n").unwrap();
    fs::set_permissions(place.path("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(place.keyed(&["put", "a.txt", "v"]), "");
    assert_eq!(place.keyed(&["ls", "v"]), "a.txt\n");
    assert!(place.keyed(&["ls", "-l", "v"]).starts_with("-rw-r----- "));
    assert_eq!(place.keyed(&["cat", "v:a.txt"]), "hello\n");
    place.keyed(&["get", "v:/a.txt", "b.txt"]);
    assert_eq!(fs::read(place.path("b.txt")).unwrap(), b"hello\n");
    let modified = |name| fs::metadata(place.path(name)).unwrap().modified().unwrap();
    assert_eq!(modified("a.txt"), modified("b.txt"));
    assert_eq!(
        fs::metadata(place.path("b.txt"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
        0o640
    );
    assert!(
        place
            .keyed(&["verify", "--structure", "v"])
            .contains("2 inodes, 1 entry")
    );
}

#[test]
fn trees_are_copied_in_inside_moved_found_removed_and_copied_out() {
    let place = Place::new();
    fs::create_dir_all(place.path("t/sub/deep")).unwrap();
    fs::write(place.path("t/sub/one.txt"), vec![7; 300_000]).unwrap();
    fs::write(place.path("t/sub/deep/two.jpg"), "2").unwrap();
    std::os::unix::fs::symlink("one.txt", place.path("t/sub/link")).unwrap();
    place.keyed(&["put", "-q", "t", "v:/"]);
    let tree = "/\n└── t/\n    └── sub/\n        ├── deep/\n        │   └── two.jpg\n        ├── link -> one.txt\n        └── one.txt\n";
    assert_eq!(place.keyed(&["tree", "v"]), tree);
    place.keyed(&["cp", "v:/t", ":/copy"]);
    place.keyed(&["mkdir", "-p", "v:/x/y"]);
    place.keyed(&["mv", "v:/t/sub/one.txt", ":/x/y"]);
    assert_eq!(
        place.keyed(&["find", "v", "--name", "*.txt", "--type", "f"]),
        "/copy/sub/one.txt\n/x/y/one.txt\n"
    );
    assert!(place.keyed_fails(2, &["rm", "v:/t"]).contains("add -r"));
    place.keyed(&["rm", "-r", "v:/t"]);
    place.keyed_fails(3, &["ls", "v:/t"]);
    place.keyed(&["rm", "-f", "v:/t"]);
    place.keyed(&["get", "v:/copy", "back"]);
    assert_eq!(
        fs::read(place.path("back/sub/one.txt")).unwrap(),
        vec![7; 300_000]
    );
    assert_eq!(
        fs::read_link(place.path("back/sub/link")).unwrap(),
        Path::new("one.txt")
    );
    let message = place.keyed_fails(2, &["cp", "v:/copy", ":/copy/sub"]);
    assert!(message.contains("into itself"), "{message}");
}

/// Goal: a copy whose target lies in its source is refused, whatever leads there. Failed before, of a link and of `..`: each directory that was
/// made was copied, too, until a path was too long.
#[test]
fn a_copy_that_a_link_or_dots_lead_into_itself_is_refused_before_anything_is_made() {
    let place = Place::new();
    place.keyed(&["mkdir", "-p", "v:/d/sub", "v:/x/d"]);
    std::os::unix::fs::symlink("d/sub", place.path("way")).unwrap();
    place.keyed(&["put", "way", "v:/"]);
    for target in [":/way", ":/way/new", ":/x/../d", ":/x/../d/sub/new"] {
        let message = place.keyed_fails(2, &["cp", "v:/d", target]);
        assert!(message.contains("into itself"), "{target}: {message}");
    }
    let tree = "/\n├── d/\n│   └── sub/\n├── way -> d/sub\n└── x/\n    └── d/\n";
    assert_eq!(place.keyed(&["tree", "v"]), tree);
    // One that only has the same name is another.
    place.keyed(&["cp", "v:/d", ":/x"]);
    place.keyed(&["cp", "v:/d", ":/way/../../x/new"]);
    assert_eq!(
        place
            .keyed(&["ls", "v:/x/d", "v:/x/new"])
            .matches("sub")
            .count(),
        2
    );
}

#[test]
fn what_is_there_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
    let place = Place::new();
    for content in ["first", "second"] {
        fs::write(place.path("a"), content).unwrap();
        place.keyed(&["put", "a", "v"]);
        assert_eq!(place.keyed(&["cat", "v:a"]), content);
        place.keyed(&["get", "v:a", "out"]);
        assert_eq!(fs::read_to_string(place.path("out")).unwrap(), content);
    }
    assert_eq!(place.keyed(&["ls", "v"]), "a\n");
    let names = fs::read_dir(place.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        names
            .into_iter()
            .all(|name| !name.to_str().unwrap().starts_with(".strongroom"))
    );
}

#[test]
fn a_wrong_passphrase_has_its_own_exit_code_and_a_right_one_works_from_file_descriptor_and_command()
{
    let place = Place::empty();
    fs::write(place.path("right"), "correct horse\nsecond line").unwrap();
    fs::write(place.path("wrong"), "battery staple").unwrap();
    let printed = place.done(&["init", "v", "--passphrase-file", "right"]);
    assert!(printed.contains("recovery code  ") && printed.contains("fingerprint    "));
    let message = place.fails(4, &["ls", "v", "--passphrase-file", "wrong"]);
    assert!(
        message.contains("passphrase does not open this vault; try again"),
        "{message}"
    );
    place.done(&["ls", "v", "--passphrase-file", "right"]);
    place.done(&["ls", "v", "--passphrase-command", "head -n1 right"]);
    let mut piped = place.command(&["ls", "v", "--passphrase-fd", "0"]);
    assert!(
        piped
            .stdin(fs::File::open(place.path("right")).unwrap())
            .status()
            .unwrap()
            .success()
    );

    let code = printed
        .lines()
        .find_map(|line| line.strip_prefix("recovery code  "))
        .unwrap();
    fs::write(place.path("code"), code).unwrap();
    place.done(&["ls", "v", "--recovery-code", "code"]);
    fs::write(place.path("new"), "entirely new").unwrap();
    place.done(&[
        "key",
        "change",
        "v",
        "--passphrase-file",
        "right",
        "--new-passphrase-file",
        "new",
    ]);
    place.fails(4, &["ls", "v", "--passphrase-file", "right"]);
    place.done(&["ls", "v", "--passphrase-file", "new"]);
}

#[test]
fn an_empty_or_binary_passphrase_and_none_at_all_are_refused() {
    let place = Place::empty();
    fs::write(place.path("empty"), "\n").unwrap();
    fs::write(place.path("binary"), b"\xff\xfe\n").unwrap();
    assert!(
        place
            .fails(2, &["init", "v", "--passphrase-file", "empty"])
            .contains("empty")
    );
    assert!(
        place
            .fails(2, &["init", "v", "--passphrase-file", "binary"])
            .contains("not UTF-8")
    );
    assert!(!place.path("v").exists());
    place.fails(3, &["init", "v", "--passphrase-file", "missing"]);
}

#[test]
fn folders_that_are_no_vault_or_cannot_be_one_are_told_apart() {
    let place = Place::new();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/x"), "x").unwrap();
    place.keyed_fails(11, &["ls", "missing"]);
    place.keyed_fails(11, &["ls", "full"]);
    place.fails(9, &["init", "full", "--key-file", "k2"]);
    place.fails(9, &["init", "v", "--key-file", "k2"]);
    place.fails(3, &["init", "no/such/place", "--key-file", "k2"]);
    assert!(!place.path("k2").exists());
    // As a power cut in the middle of `init` leaves it.
    fs::create_dir(place.path("half")).unwrap();
    fs::write(place.path("half/init-unfinished"), "").unwrap();
    for arguments in [["init", "half"], ["ls", "half"]] {
        let message = place.keyed_fails(11, &arguments);
        assert!(
            message.contains("remove the folder and run `strongroom init` again"),
            "{message}"
        );
    }
    let header = place.path("v/vault.json");
    let mut bytes = fs::read(&header).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&header, bytes).unwrap();
    let message = place.keyed_fails(5, &["ls", "v"]);
    assert!(message.contains("damaged"), "{message}");
}

#[test]
fn of_two_inits_at_once_one_wins_and_the_other_says_so() {
    let place = Place::empty();
    let start = |key: &str| {
        place
            .command(&["init", "v", "--key-file", key])
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut both = [start("k1"), start("k2")];
    let codes: Vec<_> = both
        .iter_mut()
        .map(|child| child.wait().unwrap().code().unwrap())
        .collect();
    let won = codes.iter().position(|code| *code == 0).unwrap();
    assert!(matches!(codes[1 - won], 7 | 9), "{codes:?}");
    place.done(&["ls", "v", "--key-file", ["k1", "k2"][won]]);
    assert!(!place.path(["k1", "k2"][1 - won]).exists());
}

#[test]
fn bad_names_and_paths_have_clear_errors() {
    let place = Place::new();
    fs::write(place.path("a"), "x").unwrap();
    let long = format!("v:/{}", "n".repeat(256));
    assert!(
        place
            .keyed_fails(1, &["put", "a", &long])
            .contains("255 bytes")
    );
    place.keyed_fails(3, &["put", "a", "v:/no/such/a"]);
    place.keyed_fails(3, &["cat", "v:/none"]);
    // A directory where a file is needed, as `rm` says it.
    place.keyed_fails(2, &["cat", "v:/"]);
    place.keyed_fails(2, &["rm", "v:/../"]);
    place.keyed(&["put", "a", "v:/../../up"]);
    assert_eq!(place.keyed(&["cat", "v:/../up"]), "x");
    place.keyed_fails(3, &["cat", "v:/none/../up"]);
}

#[test]
fn a_vault_copied_while_it_is_open_opens() {
    let place = Place::new();
    fs::write(place.path("a"), "content").unwrap();
    place.keyed(&["put", "a", "v"]);
    // `put -` owns the vault until its standard input ends.
    let mut owner = place
        .command(&["put", "-", "v:/b", "--key-file", "key"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let open_there = format!("process {}\n", owner.id());
    while !place.done(&["info", "v"]).contains(&open_there) {
        std::thread::yield_now();
    }
    place.keyed(&["ls", "v"]);
    copy_folder(&place.path("v"), &place.path("copy"));
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert_eq!(place.keyed(&["cat", "copy:a"]), "content");
    assert_eq!(place.keyed(&["ls", "v"]), "a\nb\n");
}

#[test]
fn three_processes_put_and_get_at_once_and_none_fails_because_of_another() {
    let place = Place::new();
    let content = vec![b'x'; 400_000];
    fs::write(place.path("a"), &content).unwrap();
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (place, content) = (&place, &content);
            scope.spawn(move || {
                for round in 0..4 {
                    let inside = format!("v:/{number}-{round}");
                    place.keyed(&["put", "a", &inside]);
                    let out = format!("out-{number}-{round}");
                    place.keyed(&["get", &inside, &out]);
                    assert!(fs::read(place.path(&out)).unwrap() == *content);
                }
            });
        }
    });
    assert_eq!(place.keyed(&["ls", "v"]).lines().count(), 12);
    assert!(
        place
            .keyed(&["verify", "--structure", "v"])
            .contains("13 inodes, 12 entries")
    );
}

#[test]
fn keys_are_added_listed_and_removed() {
    let place = Place::new();
    place.keyed(&[
        "key",
        "add",
        "v",
        "--new-key-file",
        "second",
        "--label",
        "usb",
    ]);
    let listed: serde_json::Value =
        serde_json::from_str(&place.done(&["key", "list", "v", "--json"])).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_eq!(listed[2]["label"], "usb");
    place.done(&["ls", "v", "--key-file", "second"]);
    let first = listed[0]["key"].as_str().unwrap();
    place.done(&["key", "remove", "v", first, "--key-file", "second"]);
    place.keyed_fails(4, &["ls", "v"]);
    place.done(&["ls", "v", "--key-file", "second"]);
    assert!(
        place
            .fails(
                3,
                &["key", "remove", "v", "nonsense", "--key-file", "second"]
            )
            .contains("key list")
    );
}

#[test]
fn json_is_valid_for_every_command_that_prints_data() {
    let place = Place::new();
    fs::write(place.path("a"), "x").unwrap();
    place.keyed(&["put", "a", "v"]);
    for arguments in [
        &["ls", "v"][..],
        &["tree", "v"],
        &["stat", "v:a"],
        &["find", "v"],
        &["info", "v"],
        &["df", "v"],
        &["verify", "--structure", "v"],
    ] {
        let printed = place.keyed(&[arguments, &["--json"]].concat());
        let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert!(
            value.as_array().is_none_or(|array| !array.is_empty()),
            "{arguments:?}"
        );
    }
    let listed: serde_json::Value =
        serde_json::from_str(&place.keyed(&["ls", "v", "--json"])).unwrap();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["size"]),
        (&"a".into(), &1.into())
    );
}

#[test]
fn completions_and_manual_pages_are_made() {
    let place = Place::empty();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.done(&["completions", shell]).contains("strongroom"));
    }
    place.done(&["man", "pages"]);
    for page in ["strongroom.1", "strongroom-put.1", "strongroom-key-add.1"] {
        assert!(place.path("pages").join(page).is_file(), "{page}");
    }
    let help = place.done(&["--help"]);
    assert!(help.contains("4  wrong passphrase, key or code") && help.contains("Example:"));
    place.fails(2, &["no-such-command"]);
}

#[test]
fn every_command_that_the_help_lists_has_a_page_completions_and_an_example() {
    let place = Place::empty();
    place.done(&["man", "pages"]);
    let completions = place.done(&["completions", "bash"]);
    let help = place.done(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<_> = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(
        commands.len() > 20 && commands.contains(&"quota"),
        "{commands:?}"
    );
    for command in commands {
        let page = format!("pages/strongroom-{command}.1");
        let page = fs::read_to_string(place.path(&page)).unwrap();
        assert!(page.contains("Example:"), "the page of {command}");
        assert!(
            completions.contains(&format!("strongroom__subcmd__{command}"))
                || completions.contains(&format!("strongroom__{command}")),
            "{command}"
        );
        let help = place.done(&[command, "--help"]);
        assert!(help.contains("Example:\n  "), "{help}");
    }
}

#[test]
fn a_mount_in_the_background_shares_the_vault_with_commands_that_need_no_secret() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    let message = place.fails(4, &["mount", "v", "m", "--recovery-code", "/dev/null"]);
    assert!(!message.is_empty());
    place.keyed(&["mount", "v", "m"]);
    let _mounted = MountPoint::new(&place);
    fs::write(place.path("m/from-mount"), "m").unwrap();
    assert_eq!(place.done(&["cat", "v:/from-mount"]), "m");
    assert_eq!(fs::read_dir(place.path("m")).unwrap().count(), 1);
    fs::write(place.path("a"), "c").unwrap();
    place.done(&["put", "a", "v:/from-command"]);
    assert_eq!(
        fs::read_to_string(place.path("m/from-command")).unwrap(),
        "c"
    );
    assert_eq!(fs::read_dir(place.path("m")).unwrap().count(), 2);
    place.keyed(&["key", "add", "v", "--new-key-file", "k2"]);
    place.done(&["umount", "m"]);
    let listed = place.done(&["ls", "v", "--key-file", "k2"]);
    assert_eq!(listed, "from-command\nfrom-mount\n");
}

/// Goal: what fails behind a change of keys that is in force takes from nobody the key that opens the vault now. Method: the database
/// cannot get its new key, as a file has the name of the folder in which it is made.
/// Failed before: the new key file was deleted, the new recovery code was not printed, and the message said nothing of the change.
#[test]
fn a_key_that_opens_the_vault_is_given_out_whatever_fails_behind_its_change() {
    let place = Place::new();
    fs::write(place.path("old"), "the words of before").unwrap();
    fs::write(place.path("new"), "the words from now on").unwrap();
    place.keyed(&["key", "add", "v", "--new-passphrase-file", "old"]);
    fs::write(place.path("v/recovering"), "").unwrap();
    let changed = [
        "key",
        "change",
        "v",
        "--passphrase-file",
        "old",
        "--new-passphrase-file",
        "new",
    ];
    let message = place.fails(5, &changed);
    assert!(message.contains("is in force"), "{message}");
    let message = place.keyed_fails(5, &["key", "add", "v", "--new-key-file", "k2"]);
    assert!(message.contains("is in force"), "{message}");
    let added = place.run_keyed(&["key", "add", "v", "--new-recovery-code"]);
    let message = String::from_utf8_lossy(&added.stderr).into_owned();
    assert_eq!(added.status.code(), Some(5), "{message}");
    assert!(message.contains("is in force"), "{message}");
    let printed = String::from_utf8(added.stdout).unwrap();
    let code = printed
        .lines()
        .find_map(|line| line.strip_prefix("recovery code  "));
    fs::write(place.path("code"), code.unwrap()).unwrap();
    let added = place.run_keyed(&["key", "add", "v", "--new-recovery-code", "--json"]);
    let printed: serde_json::Value = serde_json::from_slice(&added.stdout).unwrap();
    let code = printed["recovery_code"].as_str();
    fs::write(place.path("code2"), code.unwrap()).unwrap();
    // What is not in force leaves nothing.
    fs::remove_file(place.path("v/recovering")).unwrap();
    let refused = ["key", "add", "v", "--new-key-file", "k3", "--label", "a\tb"];
    place.keyed_fails(1, &refused);
    assert!(!place.path("k3").exists());
    for secret in [
        ["--passphrase-file", "new"],
        ["--key-file", "k2"],
        ["--recovery-code", "code"],
        ["--recovery-code", "code2"],
    ] {
        place.done(&[&["ls", "v:/"], &secret[..]].concat());
    }
    place.fails(4, &["ls", "v:/", "--passphrase-file", "old"]);
}
