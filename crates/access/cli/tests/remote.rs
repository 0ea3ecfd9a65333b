//! `remote`, `pull`, `push`, `sync` and `clone`, as a user types them: their output, their exit codes, and that no
//! credential is shown.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::Path;

use support::{MountPoint, Place, copy_folder};

/// A vault `v` with two files, and an empty folder for its remote; gives the remote's URL.
fn kept() -> (Place, String) {
    let place = Place::new();
    fs::write(place.path("letter"), "dear reader").unwrap();
    fs::write(place.path("picture"), vec![9; 300_000]).unwrap();
    place.keyed(&["put", "letter", "picture", "v:/"]);
    fs::create_dir(place.path("stick")).unwrap();
    let url = format!("folder:{}", place.path("stick").display());
    (place, url)
}

#[test]
fn a_vault_goes_to_a_remote_and_comes_back_from_it() {
    let (place, url) = kept();
    let none = place.keyed_fails(2, &["push", "v"]);
    assert!(none.contains("remote add"), "{none}");
    let added = place.keyed(&["remote", "add", "v", "stick", &url]);
    assert!(added.contains("strongroom push"), "{added}");
    assert!(
        place
            .keyed(&["remote", "list", "v"])
            .contains("nothing pushed yet")
    );
    let early = place.keyed_fails(3, &["clone", &url, "early"]);
    assert!(
        early.contains("no push to this remote is complete"),
        "{early}"
    );
    assert!(!place.path("early").exists());
    let pushed = place.keyed(&["push", "v"]);
    assert!(
        pushed.starts_with("pushed ") && pushed.contains("to stick"),
        "{pushed}"
    );
    assert_eq!(
        place.keyed(&["push", "v", "stick"]),
        "stick already has everything\n"
    );
    let check = place.keyed(&["remote", "check", "--deep", "v"]);
    assert!(
        check.starts_with("sound: ") && check.contains(" compared"),
        "{check}"
    );
    let cloned = place.keyed(&["clone", &url, "copy"]);
    assert!(cloned.contains("the fingerprint is "), "{cloned}");
    assert_eq!(place.keyed(&["cat", "copy:/letter"]), "dear reader");
    place.keyed(&["verify", "--deep", "copy"]);
    assert!(
        place
            .keyed(&["remote", "list", "copy"])
            .starts_with("origin  folder:")
    );
    let exists = place.keyed_fails(9, &["clone", &url, "copy"]);
    assert!(exists.contains("already has a vault"), "{exists}");
    let json: serde_json::Value =
        serde_json::from_str(&place.keyed(&["remote", "list", "v", "--json"])).unwrap();
    assert_eq!(json["remotes"][0]["name"], "stick");
    place.keyed(&["remote", "remove", "v", "stick"]);
    place.keyed_fails(3, &["remote", "remove", "v", "stick"]);
}

#[test]
fn what_is_wrong_with_a_remote_is_said_with_a_code_of_its_own() {
    let (place, url) = kept();
    for (url, code, why) in [
        ("stick", 2, "folder:/PATH"),
        ("folder:stick", 2, "absolute path"),
        ("folder:/nowhere/at/all", 15, "/nowhere/at/all"),
        (
            "ftp://canary:canary@host/path",
            2,
            "no remote has this kind of URL",
        ),
        ("s3://canary:canary@bucket/p?acl=1", 2, "unknown option"),
    ] {
        let said = place.keyed_fails(code, &["remote", "add", "v", "other", url]);
        assert!(
            said.contains(why) && !said.contains("canary"),
            "{url}: {said}"
        );
    }
    place.keyed(&["remote", "add", "v", "stick", &url]);
    let twice = place.keyed_fails(9, &["remote", "add", "v", "stick", &url]);
    assert!(twice.contains("already"), "{twice}");
    place.keyed(&["push", "v"]);
    let segment = fs::read_dir(place.path("stick/segments"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    fs::remove_file(segment.path()).unwrap();
    let lost = place.keyed_fails(14, &["remote", "check", "v"]);
    assert!(lost.contains("push to a new remote"), "{lost}");
    let clone = place.keyed_fails(5, &["clone", &url, "copy"]);
    assert!(clone.contains("has lost segments/"), "{clone}");
    fs::rename(place.path("stick"), place.path("away")).unwrap();
    let away = place.keyed_fails(15, &["push", "v"]);
    assert!(away.contains("cannot be reached"), "{away}");
    // A store that nobody listens at.
    let nobody = "s3://canary-key:canary-secret@bucket/path?endpoint=http://127.0.0.1:9&region=r";
    let refused = place.keyed_fails(15, &["-vv", "remote", "add", "v", "cloud", nobody]);
    assert!(!refused.contains("canary"), "{refused}");
}

/// Two devices, one of them mounted: what the other writes shows on the mount at once, and a conflict is said by its path.
#[test]
fn two_devices_stay_in_step_while_one_is_mounted() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let (place, url) = kept();
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&place.keyed(arguments)).unwrap()
    };
    assert_eq!(
        json(&["sync", "--json", "v"])["remotes"],
        serde_json::json!([])
    );
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["sync", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let _mounted = MountPoint::new(&place);
    let on_mount = |name: &str| fs::read_to_string(place.path("m").join(name));
    assert_eq!(on_mount("letter").unwrap(), "dear reader");
    fs::write(place.path("letter"), "written on the other device").unwrap();
    place.keyed(&["put", "letter", "w:/"]);
    place.keyed(&["rm", "w:/picture"]);
    // The other device is new to this one, which has to hear of it before it pushes.
    let ahead = place.keyed_fails(9, &["push", "v"]);
    assert!(ahead.contains("strongroom sync"), "{ahead}");
    place.keyed(&["sync", "w"]);
    let pulled = place.keyed(&["pull", "v"]);
    assert!(pulled.contains(" changed"), "{pulled}");
    assert_eq!(on_mount("letter").unwrap(), "written on the other device");
    assert!(!place.path("m/picture").exists());
    // Both write.
    fs::write(place.path("m/letter"), "from the mount").unwrap();
    fs::write(place.path("letter"), "from the other").unwrap();
    place.keyed(&["put", "letter", "w:/"]);
    place.keyed(&["sync", "w"]);
    let report = json(&["sync", "--json", "v"]);
    let pulled = &report["remotes"][0]["pulled"];
    assert_eq!(pulled["conflicts"], 1, "{report}");
    let conflict = pulled["conflict_paths"][0]["path"].as_str().unwrap();
    assert!(conflict.starts_with("/letter (conflict, "), "{conflict}");
    assert_eq!(on_mount("letter").unwrap(), "from the other");
    assert_eq!(on_mount(&conflict[1..]).unwrap(), "from the mount");
    let back = place.keyed(&["sync", "w"]);
    assert!(back.contains("pulled "), "{back}");
    assert_eq!(
        place.keyed(&["cat", &format!("w:{conflict}")]),
        "from the mount"
    );
    assert!(place.keyed(&["pull", "w"]).contains("nothing new"));
    place.done(&["umount", "m"]);
}

/// Goal: a remote that cannot be reached keeps no other one from being synced, and --json reports those that were. Method: the folder of the
/// first of two is renamed away. Failed before: `sync` ended at the first one, so the second one stayed as it was, and --json printed nothing.
#[test]
fn sync_continues_with_the_other_remotes_if_one_cannot_be_reached() {
    let (place, url) = kept();
    fs::create_dir(place.path("disk")).unwrap();
    let disk = format!("folder:{}", place.path("disk").display());
    place.keyed(&["remote", "add", "v", "a", &url]);
    place.keyed(&["remote", "add", "v", "b", &disk]);
    place.keyed(&["sync", "v"]);
    fs::rename(place.path("stick"), place.path("away")).unwrap();
    place.keyed(&["mkdir", "v:/first"]);
    let said = place.keyed_fails(15, &["sync", "v"]);
    assert!(said.contains("strongroom: a: "), "{said}");
    assert_eq!(
        place.keyed(&["push", "v", "b"]),
        "b already has everything\n"
    );
    place.keyed(&["mkdir", "v:/second"]);
    let synced = place.run_keyed(&["sync", "--json", "v"]);
    assert_eq!(synced.status.code(), Some(15));
    let report: serde_json::Value = serde_json::from_slice(&synced.stdout).unwrap();
    let remotes = report["remotes"].as_array().unwrap();
    assert_eq!((remotes.len(), &report["failed"]), (1, &1.into()));
    let pushed = &remotes[0]["pushed"];
    assert_eq!(pushed["remote"], "b", "{report}");
    assert!(pushed["publications"].as_u64() > Some(0), "{report}");
    place.keyed(&["clone", "-q", &disk, "w"]);
    let listed = place.keyed(&["ls", "w:/"]);
    assert_eq!(listed, "first\nletter\npicture\nsecond\n");
}

/// Waits until `path` has these words.
fn comes(path: &Path, words: &str) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while fs::read_to_string(path).ok().as_deref() != Some(words) {
        assert!(
            std::time::Instant::now() < patience,
            "{} does not come",
            path.display()
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Goal: two mounts stay in sync by themselves, both ways, and the last words before an unmount arrive. Their log names the remote, and no
/// file.
/// SECURITY.md, claim 7.
#[test]
fn two_mounts_with_sync_show_what_the_other_writes() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["sync", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    for name in ["m", "n"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let refused = place.keyed_fails(2, &["mount", "--sync", "-o", "ro", "v", "m"]);
    assert!(refused.contains("read-only"), "{refused}");
    place.keyed(&["mount", "--sync", "v", "m"]);
    let _one = MountPoint::new(&place);
    place.keyed(&["mount", "--sync", "w", "n"]);
    let _two = MountPoint {
        place: &place,
        on: "n",
    };
    fs::write(place.path("m/there"), "from one").unwrap();
    comes(&place.path("n/there"), "from one");
    fs::write(place.path("n/back"), "from two").unwrap();
    comes(&place.path("m/back"), "from two");
    fs::write(place.path("m/canary-last"), "words").unwrap();
    place.done(&["umount", "m"]);
    comes(&place.path("n/canary-last"), "words");
    place.done(&["umount", "n"]);
    let logged = fs::read_to_string(place.path("state/strongroom/strongroom.log")).unwrap();
    assert!(logged.contains("remote stick: pulled"), "{logged}");
    assert!(!logged.contains("canary"), "{logged}");
}

/// Goal: `sync --watch` says each event, as text or as a line of JSON, and ends with an interrupt.
#[test]
fn a_watching_sync_says_what_moves_until_it_is_interrupted() {
    use std::io::BufRead;
    let (place, url) = kept();
    let none = place.keyed_fails(2, &["sync", "--watch", "v"]);
    assert!(none.contains("remote add"), "{none}");
    place.keyed(&["remote", "add", "v", "stick", &url]);
    let mut watching = place
        .command(&[
            "sync",
            "--watch",
            "--json",
            "--every",
            "1s",
            "v",
            "--key-file",
            "key",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(watching.stdout.take().unwrap()).lines();
    // Progress is said when it takes long.
    let mut event = || loop {
        let line = lines.next().unwrap().unwrap();
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        if event["event"] != "moving" {
            break event;
        }
    };
    let first = event();
    assert_eq!(first["event"], "synced", "{first}");
    assert!(first["pushed"]["objects"].as_u64() > Some(1), "{first}");
    // Through the process that has the vault open.
    place.keyed(&["put", "letter", "v:/again"]);
    let second = event();
    assert_eq!(second["pushed"]["publications"], 1, "{second}");
    let pid = rustix::process::Pid::from_child(&watching);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(
        watching.wait().unwrap().success(),
        "an interrupt is how it ends"
    );
    // It may have been interrupted between two parts of the file.
    place.keyed(&["push", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    assert_eq!(place.keyed(&["cat", "w:/again"]), "dear reader");
}

/// Goal: no command ends by a signal that `nohup`, or a shell for a job in the background, ignores for it. Method: a shell ignores both signals for
/// a `sync --watch`. After they were sent, two changes are synced: between two of its events the command looks whether a signal came. SIGTERM then ends it.
/// Failed before: the command ended with 0 at either of them, and its standard output with it.
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::BufRead;
    use std::process::{Command, Stdio};
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    let every = ["sync", "--watch", "--json", "--every", "1s", "v"];
    let whole = place.command(&[&every[..], &["--key-file", "key"]].concat());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"])
        .arg(whole.get_program())
        .args(whole.get_args())
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    for (name, value) in whole.get_envs() {
        shell.env(name, value.unwrap());
    }
    let mut watching = shell.spawn().unwrap();
    let mut lines = std::io::BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut event = || loop {
        let line = lines.next().expect("the command goes on").unwrap();
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        if event["event"] != "moving" {
            break event;
        }
    };
    assert_eq!(event()["event"], "synced");
    let pid = Pid::from_child(&watching);
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(pid, signal).unwrap();
    }
    for name in ["v:/one", "v:/two"] {
        place.keyed(&["mkdir", name]);
        assert_eq!(event()["event"], "synced");
    }
    kill_process(pid, Signal::TERM).unwrap();
    assert!(watching.wait().unwrap().success());
}

/// Goal: what two devices wrote is listed by both, and a choice of one of them counts for both; mounted or not.
#[test]
fn a_conflict_is_listed_and_ended_by_one_choice() {
    for mounted in [false, true] {
        let (place, url) = kept();
        place.keyed(&["remote", "add", "v", "stick", &url]);
        place.keyed(&["push", "v"]);
        place.keyed(&["clone", &url, "w"]);
        for (name, vault) in [("theirs", "v"), ("mine", "w")] {
            fs::write(place.path("letter"), name).unwrap();
            fs::write(place.path("picture"), name.repeat(2)).unwrap();
            place.keyed(&["put", "letter", "picture", &format!("{vault}:/")]);
            place.keyed(&["sync", vault]);
        }
        fs::create_dir(place.path("m")).unwrap();
        let _mounted = mounted.then(|| {
            place.keyed(&["mount", "w", "m"]);
            MountPoint::new(&place)
        });
        let listed = place.keyed(&["conflicts", "w"]);
        assert!(
            listed.contains("/letter (conflict, ") && listed.contains("2 conflicts; "),
            "{listed}"
        );
        let listed: serde_json::Value =
            serde_json::from_str(&place.keyed(&["conflicts", "w", "--json"])).unwrap();
        let conflicts = listed["conflicts"].as_array().unwrap();
        let copy = |of: &str| {
            let is_it = |one: &&serde_json::Value| one["beside"]["path"] == of;
            let one = conflicts.iter().find(is_it).unwrap();
            assert!(one["device"].as_str().unwrap().len() == 8, "{one}");
            format!("w:{}", one["path"].as_str().unwrap())
        };
        let (letter, picture) = (copy("/letter"), copy("/picture"));
        place.keyed_fails(2, &["conflicts", "keep", "mine", "w:/letter"]);
        place.keyed(&["conflicts", "keep", "mine", &letter]);
        let kept = place.keyed(&["conflicts", "keep", "both", &picture]);
        assert_eq!(kept, "kept as /picture (copy)\n");
        assert_eq!(place.keyed(&["conflicts", "w"]), "no conflicts\n");
        place.keyed(&["sync", "w"]);
        place.keyed(&["sync", "v"]);
        for vault in ["v", "w"] {
            assert_eq!(place.keyed(&["cat", &format!("{vault}:/letter")]), "mine");
            assert_eq!(
                place.keyed(&["cat", &format!("{vault}:/picture")]),
                "theirstheirs"
            );
            let copied = place.keyed(&["cat", &format!("{vault}:/picture (copy)")]);
            assert_eq!(copied, "minemine");
            assert_eq!(
                place.keyed(&["ls", &format!("{vault}:/")]).lines().count(),
                3
            );
        }
    }
}

/// Goal: people notice with short codes that a remote has shown their devices different histories, before either device can. Method: the codes of
/// two devices in step; then one finds the remote as it was before the other pushed, so that each has seen another publication of one number.
#[test]
fn two_devices_compare_what_a_remote_has_shown_them() {
    let (place, url) = kept();
    let compared = |vault: &str| {
        let shown = place.keyed(&["device", "compare", "--json", vault]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let one = shown["remotes"][0].clone();
        (one["publication"].as_u64(), one["code"].clone())
    };
    let none = place.keyed(&["device", "compare", "v"]);
    assert_eq!(none, "the vault has no remote\n");
    place.keyed(&["remote", "add", "v", "stick", &url]);
    assert_eq!(
        place.keyed(&["device", "compare", "v"]),
        "stick: nothing pushed yet\n"
    );
    assert_eq!(compared("v"), (Some(0), "".into()));
    place.keyed(&["push", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    for vault in ["v", "w", "v", "w"] {
        place.keyed(&["sync", vault]);
    }
    let (number, code) = compared("v");
    assert_eq!(compared("w"), (number, code.clone()));
    let code = code.as_str().unwrap();
    let is_digit = |digit: char| digit == '-' || digit.is_ascii_hexdigit();
    assert!(code.len() == 24 && code.chars().all(is_digit), "{code}");
    let shown = place.keyed(&["device", "compare", "w"]);
    let expected = format!("origin: publication {}, code {code}\n", number.unwrap());
    assert_eq!(shown, expected);
    let (stick, other) = (place.path("stick"), place.path("other"));
    copy_folder(&stick, &other);
    place.keyed(&["mkdir", "v:/of v"]);
    place.keyed(&["sync", "v"]);
    fs::rename(&stick, place.path("shown to v")).unwrap();
    fs::rename(&other, &stick).unwrap();
    place.keyed(&["mkdir", "w:/of w"]);
    place.keyed(&["sync", "w"]);
    let (of_v, of_w) = (compared("v"), compared("w"));
    assert_eq!(of_v.0, of_w.0);
    assert_ne!(of_v.1, of_w.1);
}

/// Goal: `info` and `remote list` say what waits for a remote and who pushed last, without asking it, and only to who may know it.
#[test]
fn what_is_known_of_a_remote_is_shown() {
    let (place, url) = kept();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let shown = place.keyed(&[arguments, &["--json"]].concat());
        serde_json::from_str(&shown).unwrap()
    };
    assert_eq!(json(&["info", "v"])["remotes"], serde_json::json!([]));
    place.keyed(&["remote", "add", "v", "stick", &url]);
    let listed = place.keyed(&["remote", "list", "v"]);
    for line in [
        "published    nothing yet\n",
        "to push      2 files, ",
        "contact      not known\n",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    place.keyed(&["push", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    for vault in ["v", "w", "v", "w"] {
        place.keyed(&["sync", vault]);
    }
    place.keyed(&["evict", "v"]);
    fs::write(place.path("second"), "another one").unwrap();
    place.keyed(&["put", "second", "v:/"]);
    fs::rename(place.path("stick"), place.path("hidden")).unwrap();
    let one = json(&["remote", "list", "v"])["remotes"][0].clone();
    assert_eq!(json(&["info", "v"])["remotes"][0], one);
    assert_eq!(
        (&one["name"], &one["waiting"]),
        (&"stick".into(), &true.into())
    );
    assert_eq!(one["waiting_files"], 1, "{one}");
    assert!(one["waiting_bytes"].as_u64() > Some(0), "{one}");
    assert!(one["away_bytes"].as_u64() > Some(100_000), "{one}");
    assert_eq!(one["only_there_bytes"], one["away_bytes"]);
    assert!(one["last_contact"].is_string(), "{one}");
    let devices = one["devices"].as_array().unwrap();
    let others = devices.iter().filter(|one| one["this"] == false);
    let others: Vec<&str> = others.map(|one| one["device"].as_str().unwrap()).collect();
    assert_eq!((devices.len(), others.len()), (2, 1), "{one}");
    let listed = place.keyed(&["remote", "list", "v"]);
    assert!(listed.contains("to push      1 file, "), "{listed}");
    assert!(listed.contains("all of it only there"), "{listed}");
    let other = format!("device       {}", others[0]);
    assert!(listed.contains(&other), "{listed}");
    let shown = place.keyed(&["info", "v"]);
    assert!(shown.contains("remote       stick  folder:"), "{shown}");
    assert!(shown.contains(&other), "{shown}");
    // Without a secret nothing of it is known.
    let public: serde_json::Value =
        serde_json::from_str(&place.done(&["info", "v", "--json"])).unwrap();
    assert!(public["remotes"].is_null(), "{public}");
    assert!(!place.done(&["info", "v"]).contains("stick"));
}

/// Goal: the name of a device stands beside its id wherever people see that, and in JSON; a name that deceives is refused. Method: a device
/// with a name has a conflict copy.
#[test]
fn the_name_of_a_device_is_shown_beside_its_id() {
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    let json = |arguments: &[&str]| -> serde_json::Value {
        let shown = place.keyed(&[arguments, &["--json"]].concat());
        serde_json::from_str(&shown).unwrap()
    };
    let devices = json(&["device", "list", "w"])["devices"].clone();
    let is_this = |one: &&serde_json::Value| one["this"] == true;
    let this = devices.as_array().unwrap().iter().find(is_this).unwrap();
    assert!(this["name"].is_null(), "{this}");
    let id = this["device"].as_str().unwrap();
    for wrong in ["a\u{202e}b", "a\"b", &"n".repeat(65)] {
        place.keyed_fails(1, &["device", "rename", "w", id, wrong]);
    }
    let unknown = place.keyed_fails(1, &["device", "rename", "w", "zz", "laptop"]);
    assert!(unknown.contains("device list"), "{unknown}");
    let renamed = json(&["device", "rename", "w", &id[..12], "Anna's laptop"]);
    let expected = serde_json::json!({ "device": id, "name": "Anna's laptop" });
    assert_eq!(renamed, expected);
    for (name, vault) in [("theirs", "v"), ("mine", "w")] {
        fs::write(place.path("letter"), name).unwrap();
        place.keyed(&["put", "letter", &format!("{vault}:/")]);
        place.keyed(&["sync", vault]);
    }
    place.keyed(&["sync", "v"]);
    let named = format!("{id} \"Anna's laptop\"");
    let listed = place.keyed(&["device", "list", "v"]);
    assert!(
        listed.contains(&format!("{named}, added in record ")),
        "{listed}"
    );
    for command in [&["info", "v"][..], &["remote", "list", "v"]] {
        let shown = place.keyed(command);
        assert!(
            shown.contains(&format!("device       {named}, ")),
            "{shown}"
        );
    }
    let conflicts = place.keyed(&["conflicts", "v"]);
    let short = format!("(device {} \"Anna's laptop\", 20", &id[..8]);
    assert!(conflicts.contains(&short), "{conflicts}");
    assert!(
        conflicts.contains(&format!("(conflict, {}, ", &id[..8])),
        "{conflicts}"
    );
    let conflict = json(&["conflicts", "v"])["conflicts"][0].clone();
    assert_eq!(conflict["device_name"], "Anna's laptop");
    // Without a secret nobody knows it.
    assert!(!place.done(&["device", "list", "v"]).contains("laptop"));
    let taken = place.keyed(&["device", "rename", "v", id, ""]);
    assert_eq!(taken, format!("device {id} has no name now\n"));
    assert!(json(&["conflicts", "v"])["conflicts"][0]["device_name"].is_null());
}

/// Goal: the options are known where something moves, and refused where nothing would. What they do is counted in the library's tests.
#[test]
fn limits_on_bandwidth_are_options_of_what_moves() {
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    let limits = ["--limit-up", "1T", "--limit-down", "512M"];
    for command in [
        &["push", "v"][..],
        &["pull", "v"],
        &["sync", "v"],
        &["clone", &url, "w"],
    ] {
        place.keyed(&[command, &limits].concat());
    }
    place.keyed(&["sync", "v"]);
    place.keyed(&["evict", "v"]);
    place.keyed(&["get", "--limit-down", "512M", "v:/picture", "here"]);
    assert_eq!(fs::read(place.path("here")).unwrap(), vec![9; 300_000]);
    for wrong in ["0", "fast", "-1"] {
        place.keyed_fails(2, &["push", "v", &format!("--limit-up={wrong}")]);
    }
    fs::create_dir(place.path("m")).unwrap();
    let refused = place.keyed_fails(2, &["mount", "v", "m", "--limit-up", "1M"]);
    assert!(refused.contains("--sync"), "{refused}");
    place.keyed(&["evict", "v"]);
    {
        place.keyed(&["mount", "--limit-down", "512M", "v", "m"]);
        let _mounted = MountPoint::new(&place);
        assert_eq!(fs::read(place.path("m/picture")).unwrap(), vec![9; 300_000]);
        let other = place.run_keyed(&["get", "--limit-down", "1M", "v:/letter", "letter-again"]);
        let said = String::from_utf8(other.stderr).unwrap();
        assert!(said.contains("mount --limit-down"), "{said}");
    }
    place.keyed(&["mount", "--sync", "--limit-up", "1T", "v", "m"]);
    let _mounted = MountPoint::new(&place);
    fs::write(place.path("m/later"), "through the mount").unwrap();
}

#[test]
fn a_clone_on_demand_lists_everything_and_fetches_what_is_read() {
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    let cloned = place.keyed(&["clone", "--on-demand", &url, "w"]);
    assert!(
        cloned.contains("1 segment are only at the remote"),
        "{cloned}"
    );
    fs::rename(place.path("stick"), place.path("hidden")).unwrap();
    let info = place.keyed(&["info", "w"]);
    assert!(info.contains("are only at remotes"), "{info}");
    assert!(place.keyed(&["df", "w"]).contains("only at remotes"));
    assert!(place.keyed(&["ls", "-l", "w:/"]).contains("picture"));
    assert!(place.keyed(&["verify", "--deep", "w"]).contains("sound"));
    place.keyed(&["check", "w"]);
    place.keyed_fails(15, &["get", "w:/picture", "here"]);
    fs::rename(place.path("hidden"), place.path("stick")).unwrap();
    place.keyed(&["get", "w:/picture", "here"]);
    assert_eq!(fs::read(place.path("here")).unwrap(), vec![9; 300_000]);
    assert!(!place.keyed(&["info", "w"]).contains("only at remotes"));
    let json = place.keyed(&["clone", "--on-demand", "--json", &url, "x"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["away_segments"], 1, "{json}");
    assert!(json["away_bytes"].as_u64() > Some(100_000), "{json}");
    assert!(json["bytes"].as_u64() < Some(50_000), "{json}");
}

/// Goal: `clone --json` ends with 14 if something is missing, as `clone` does, and a program can tell a whole clone from one that is not. Method:
/// a byte in the record of an older snapshot is flipped before the push. The tree of the newest one needs no record but its own, so it is whole,
/// and the clone is made without the older one. (A push checks segments, and takes records as they are.)
/// Failed before: the exit code was 0, and `whole` was false for every clone.
#[test]
fn an_incomplete_clone_ends_with_14_in_json_too() {
    let (place, url) = kept();
    let json = |output: &std::process::Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // That of `put`.
    let mut records = fs::read_dir(place.path("v/revisions")).unwrap();
    let older = records.next().unwrap().unwrap().path();
    assert!(records.next().is_none());
    place.keyed(&["mkdir", "v:/later"]);
    place.keyed(&["snapshot", "create", "v"]);
    let sound = fs::read(&older).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    fs::write(&older, flipped).unwrap();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    let cloned = place.run_keyed(&["clone", "-q", "--json", &url, "w"]);
    let said = String::from_utf8_lossy(&cloned.stderr);
    assert_eq!(cloned.status.code(), Some(14), "{said}");
    assert!(said.contains("the clone is incomplete"), "{said}");
    let report = json(&cloned);
    assert_eq!(report["made"]["whole"], false, "{report}");
    assert_eq!(report["published"], false, "{report}");
    assert_eq!(place.keyed(&["cat", "w:/letter"]), "dear reader");
    place.keyed_fails(14, &["clone", "-q", &url, "x"]);
    // One that is whole.
    fs::create_dir(place.path("disk")).unwrap();
    let disk = format!("folder:{}", place.path("disk").display());
    fs::write(&older, sound).unwrap();
    place.keyed(&["remote", "add", "v", "disk", &disk]);
    place.keyed(&["push", "v", "disk"]);
    let cloned = place.run_keyed(&["clone", "-q", "--json", &disk, "y"]);
    assert_eq!(cloned.status.code(), Some(0));
    let report = json(&cloned);
    assert_eq!(report["made"]["whole"], true, "{report}");
    assert_eq!(report["published"], true, "{report}");
}

/// Goal: an interrupted `evict` says what it did and what to do, ends as every interrupted command, and loses nothing. Method: it waits for
/// its key from a pipe while the signal comes.
#[test]
fn an_interrupted_evict_says_what_it_did() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::process::ExitStatusExt;
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    let interrupted = |arguments: &[&str]| {
        let pipe = place.path("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let arguments = [arguments, &["--key-file", "pipe"]].concat();
        let child = place
            .command(&arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // When it reads, it watches for signals.
        let mut writing = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let key = fs::read(place.path("key")).unwrap();
        std::io::Write::write_all(&mut writing, &key).unwrap();
        drop(writing);
        let output = child.wait_with_output().unwrap();
        fs::remove_file(pipe).unwrap();
        assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (done, said) = interrupted(&["evict", "v"]);
    assert!(done.contains("evicted 0 B"), "{done}");
    assert!(
        said.contains("nothing is lost") && said.contains("to continue"),
        "{said}"
    );
    let (done, _) = interrupted(&["evict", "--json", "v"]);
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(
        (&done["stopped"], &done["segments"]),
        (&true.into(), &0.into())
    );
    place.keyed(&["evict", "v"]);
    let (done, said) = interrupted(&["evict", "--undo", "v"]);
    assert!(done.contains("fetched 0 B"), "{done}");
    assert!(said.contains("to continue"), "{said}");
    place.keyed(&["evict", "--undo", "v"]);
    assert_eq!(place.keyed(&["cat", "v:/letter"]), "dear reader");
}

#[test]
fn content_is_let_go_and_comes_back_when_it_is_read() {
    let (place, url) = kept();
    let none = place.keyed_fails(2, &["evict", "v"]);
    assert!(none.contains("remote add"), "{none}");
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    fs::write(place.path("later"), vec![7; 50_000]).unwrap();
    place.keyed(&["put", "later", "v:/"]);
    let gone = place.keyed(&["evict", "v"]);
    assert!(gone.contains("evicted 312.0 KiB in 1 segment"), "{gone}");
    assert!(place.keyed(&["info", "v"]).contains("are only at remotes"));
    assert!(place.keyed(&["df", "v"]).contains("only at remotes"));
    assert!(place.keyed(&["verify", "v"]).contains("sound"));
    assert!(place.keyed(&["ls", "v:/"]).contains("picture"));
    let refused = place.keyed_fails(7, &["backup", "v", "copy"]);
    assert!(refused.contains("evict --undo"), "{refused}");
    let refused = place.keyed_fails(7, &["remote", "remove", "v", "stick"]);
    assert!(refused.contains("evict --undo"), "{refused}");
    fs::rename(place.path("stick"), place.path("hidden")).unwrap();
    let failed = place.keyed_fails(15, &["get", "v:/picture", "here"]);
    assert!(failed.contains("only at a remote"), "{failed}");
    assert!(!place.path("here").exists());
    fs::rename(place.path("hidden"), place.path("stick")).unwrap();
    place.keyed(&["get", "v:/picture", "here"]);
    assert_eq!(fs::read(place.path("here")).unwrap(), vec![9; 300_000]);
    fs::rename(place.path("stick"), place.path("hidden")).unwrap();
    let failed = place.keyed_fails(15, &["evict", "v"]);
    assert!(failed.contains("stick"), "{failed}");
    fs::rename(place.path("hidden"), place.path("stick")).unwrap();
    place.keyed(&["push", "v"]);
    place.keyed(&["evict", "--json", "v"]);
    let back = place.keyed(&["evict", "--undo", "v:/picture"]);
    assert!(back.contains("fetched"), "{back}");
    place.keyed(&["evict", "--undo", "--json", "v"]);
    place.keyed(&["remote", "remove", "v", "stick"]);
    assert_eq!(place.keyed(&["cat", "v:/letter"]), "dear reader");
}

/// Goal: a person hears before anything is lost what brings the vault back from a remote, and why a passphrase does not; who wants that
/// can have it.
#[test]
fn a_passphrase_alone_brings_nothing_back_unless_the_vault_is_guessable() {
    let (place, url) = kept();
    fs::write(place.path("pass"), "correct horse").unwrap();
    let typed = ["--passphrase-file", "pass"];
    place.keyed(&["key", "add", "v", "--new-passphrase-file", "pass"]);
    let added = place.keyed(&["remote", "add", "v", "stick", &url]);
    assert!(
        added.contains("passphrases do not open the vault at a remote"),
        "{added}"
    );
    assert!(
        added.contains("key file") && added.contains("recovery code"),
        "{added}"
    );
    place.keyed(&["push", "v"]);
    let by_passphrase = [&["clone", &url, "w"][..], &typed].concat();
    let refused = place.fails(4, &by_passphrase);
    assert!(
        refused.contains("the recovery code") && refused.contains("device add"),
        "{refused}"
    );
    assert!(!place.path("w").exists());
    let json = |text: String| -> serde_json::Value { serde_json::from_str(&text).unwrap() };
    let info = |vault: &str| json(place.done(&["info", vault, "--json"]))["guessable"].clone();
    assert_eq!(info("v"), false);
    let changed = json(place.keyed(&["remote", "guessable", "v", "yes", "--json"]));
    assert_eq!(
        changed,
        serde_json::json!({ "guessable": true, "changed": true })
    );
    assert!(
        place
            .keyed(&["remote", "guessable", "v", "yes"])
            .contains("already has this setting")
    );
    place.keyed(&["push", "v"]);
    place.done(&by_passphrase);
    assert!(place.done(&["info", "w"]).contains("guessable    "));
    // What the clone said of its device is known before: keys that change in two places are another test.
    place.keyed(&["sync", "v"]);
    let told = place.keyed(&["remote", "guessable", "v", "no"]);
    assert!(told.contains("key change"), "{told}");
    assert_eq!(info("v"), false);
    place.keyed(&["sync", "v"]);
    place.fails(4, &[&["clone", &url, "x"][..], &typed].concat());
    place.fails(2, &["remote", "guessable", "v", "perhaps"]);
}

/// Goal: who has nothing but a passphrase is told at once, and what helps.
#[test]
fn a_vault_with_nothing_but_a_passphrase_says_that_no_remote_brings_it_back() {
    let place = Place::empty();
    fs::write(place.path("pass"), "correct horse").unwrap();
    let typed = ["--passphrase-file", "pass"];
    let run = |arguments: &[&str]| {
        let output = place.run(&[arguments, &typed].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    run(&["init", "v"]);
    let listed = place.done(&["key", "list", "v", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let mut slots = listed.as_array().unwrap().iter();
    let code = slots.find(|slot| slot["kind"] == "recovery code").unwrap();
    run(&["key", "remove", "v", code["key"].as_str().unwrap()]);
    for name in ["one", "two", "three"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let url = |name: &str| format!("folder:{}", place.path(name).display());
    let (_, said) = run(&["remote", "add", "v", "one", &url("one")]);
    assert!(said.contains("key add v --new-recovery-code"), "{said}");
    let (shown, _) = run(&["remote", "add", "v", "two", &url("two"), "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["clones_with"], serde_json::json!([]));
    assert_eq!(shown["guessable"], false);
    let (_, said) = run(&["remote", "add", "--guessable", "v", "three", &url("three")]);
    assert!(said.contains("can try to guess its passphrases"), "{said}");
    run(&["push", "v", "three"]);
    run(&["clone", &url("three"), "w"]);
}

#[test]
fn a_device_keeps_its_limit_for_content() {
    let (place, url) = kept();
    let limited = |size, vault| ["evict", "--keep-at-most", size, vault];
    let none = place.keyed_fails(2, &limited("1G", "v"));
    assert!(none.contains("remote add"), "{none}");
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    let path = place.keyed_fails(2, &limited("1G", "v:/picture"));
    assert!(path.contains("without a path"), "{path}");
    place.keyed_fails(2, &[&limited("1G", "v")[..], &["--undo"]].concat());
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&place.keyed(arguments)).unwrap()
    };
    let set = place.keyed(&limited("1G", "v"));
    assert!(set.contains("evicted 0 B in 0 segments"), "{set}");
    assert!(set.contains("at most 1.0 GiB"), "{set}");
    let info = place.keyed(&["info", "v"]);
    assert!(info.contains("of at most 1.0 GiB are here"), "{info}");
    let set = json(&[&limited("100K", "v")[..], &["--json"]].concat());
    assert_eq!(set["segments"], 1, "{set}");
    assert_eq!(set["keep_at_most_bytes"], 100 << 10);
    // What is read comes back, and goes with the next sync.
    place.keyed(&["get", "v:/picture", "here"]);
    assert_eq!(fs::read(place.path("here")).unwrap(), vec![9; 300_000]);
    let synced = json(&["sync", "--json", "v"]);
    let evicted = &synced["remotes"][0]["evicted"];
    assert_eq!(evicted["segments"], 1, "{synced}");
    assert!(evicted["bytes"].as_u64() > Some(300_000), "{synced}");
    place.keyed(&["cat", "v:/picture"]);
    let synced = place.keyed(&["sync", "v"]);
    assert!(synced.contains("for the limit of this device"), "{synced}");
    assert_eq!(
        json(&["info", "--json", "v"])["keep_at_most_bytes"],
        100 << 10
    );
    let ended = place.keyed(&limited("none", "v"));
    assert!(ended.contains("no limit now"), "{ended}");
    place.keyed(&["evict", "--undo", "v"]);
    let synced = json(&["sync", "--json", "v"]);
    assert_eq!(synced["remotes"][0]["evicted"]["segments"], 0, "{synced}");
    let info = json(&["info", "--json", "v"]);
    assert_eq!(
        (&info["keep_at_most_bytes"], &info["away_bytes"]),
        (&serde_json::Value::Null, &0.into())
    );
    assert!(info["here_bytes"].as_u64() > Some(300_000), "{info}");
}

#[test]
fn what_is_pinned_stays_here() {
    let (place, url) = kept();
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    fs::write(place.path("other"), vec![5; 200_000]).unwrap();
    place.keyed(&["put", "other", "v:/"]);
    place.keyed(&["push", "v"]);
    place.keyed(&["evict", "v"]);
    let pinned = place.keyed(&["pin", "v:/picture"]);
    assert!(
        pinned.contains("fetched") && pinned.contains("in 1 segment"),
        "{pinned}"
    );
    assert_eq!(place.keyed(&["pin", "--list", "v"]), "/picture\n");
    place.keyed(&["mv", "v:/picture", "v:/painting"]);
    let listed = place.keyed(&["pin", "--list", "--json", "v"]);
    assert!(listed.contains("painting"), "{listed}");
    place.keyed(&["cat", "v:/other"]);
    place.keyed(&["push", "v"]);
    let gone = place.keyed(&["evict", "v"]);
    assert!(
        gone.contains("stay, because these segments have pinned content"),
        "{gone}"
    );
    fs::rename(place.path("stick"), place.path("hidden")).unwrap();
    place.keyed(&["cat", "v:/painting"]);
    place.keyed_fails(15, &["cat", "v:/other"]);
    fs::rename(place.path("hidden"), place.path("stick")).unwrap();
    place.keyed(&["unpin", "v:/painting"]);
    let not = place.keyed_fails(3, &["unpin", "v:/painting"]);
    assert!(not.contains("pin --list"), "{not}");
    let gone = place.keyed(&["evict", "--json", "v"]);
    let gone: serde_json::Value = serde_json::from_str(&gone).unwrap();
    assert_eq!(gone["pinned"], 0, "{gone}");
}
