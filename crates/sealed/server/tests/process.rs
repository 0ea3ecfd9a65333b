//! The program `strongroom-server`: started, killed, stopped; its output and its log.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use strongroom_remote::{Address, Created, ObjectName, Remote};
use support::Ends;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strongroom-server");

/// Gives what `arguments` print.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn ok(arguments: &[&str]) -> String {
    let (code, out, error) = run(arguments);
    assert_eq!((code, &*error), (0, ""), "{arguments:?}");
    out
}

/// A running server. It is killed when this is dropped.
struct Running {
    child: Child,
    /// Where it listens, with the scheme.
    at: String,
    fingerprint: Option<String>,
    /// What else it prints.
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(folder: &Path, listen: &str, further: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(folder);
        command.args(["--listen", listen]).args(further);
        Self::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = |before: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(before).unwrap().to_owned()
        };
        let at = next("listening at ");
        let fingerprint = at.starts_with("https").then(|| next("fingerprint "));
        Self {
            child,
            at,
            fingerprint,
            lines,
        }
    }

    fn open(&self, token: &str, path: &str) -> std::sync::Arc<dyn Remote> {
        let (scheme, host) = self.at.split_once("://").unwrap();
        let mut url = format!("{scheme}://{token}@{host}/{path}");
        if let Some(print) = &self.fingerprint {
            url = format!("{url}?fingerprint={print}");
        }
        Address::parse(&url).unwrap().open().unwrap()
    }

    /// Stops it as a service manager does; gives its exit code and its log.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let reader = log_of(self.child.stderr.take().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        (self.child.wait().unwrap().code(), reader.join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_of(mut log: ChildStderr) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        text
    })
}

#[test]
fn accounts_are_looked_after_on_the_command_line_and_a_token_is_shown_once() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let token = ok(&["account", "add", folder, "anna", "--bytes", "20G"]);
    assert!(token.starts_with("srt-") && token.len() == 69, "{token}");
    ok(&["account", "add", folder, "bert"]);
    ok(&["account", "suspend", folder, "bert"]);
    let list = ok(&["account", "list", folder]);
    assert_eq!(
        list,
        "anna  0 of 21474836480 bytes  0 objects\nbert  0 bytes  0 objects  suspended\n"
    );
    ok(&["account", "resume", folder, "bert"]);
    ok(&["account", "quota", folder, "bert", "--objects", "7"]);
    assert_ne!(ok(&["account", "token", folder, "anna"]), token);
    ok(&["account", "remove", folder, "anna"]);
    assert_eq!(
        ok(&["account", "list", folder]),
        "bert  0 bytes  0 of 7 objects\n"
    );
    ok(&["account", "keep", folder, "bert", "--days", "30"]);
    assert_eq!(
        ok(&["account", "list", folder]),
        "bert  0 bytes  0 of 7 objects  keeps removed objects 30 days: 0 objects with 0 bytes\n"
    );
    ok(&["account", "keep", folder, "bert", "--days", "0"]);
    for (arguments, code, why) in [
        (
            &["account", "remove", folder, "anna"][..],
            1,
            "there is no account anna",
        ),
        (
            &["account", "add", folder, "bert"],
            1,
            "there is already an account bert",
        ),
        (
            &["account", "add", folder, "../x"],
            1,
            "not allowed as the name of an account",
        ),
        (
            &["account", "add", folder, "cora", "--bytes", "much"],
            2,
            "is not a size",
        ),
        (
            &["account", "keep", folder, "cora", "--days", "1"],
            1,
            "there is no account cora",
        ),
        (&["account", "keep", folder, "bert"], 2, "--days"),
        (
            &["account", "keep", folder, "bert", "--days", "36501"],
            2,
            "36501",
        ),
        (
            &["account", "keep", folder, "bert", "--days", "-1"],
            2,
            "-1",
        ),
        (
            &["serve", folder, "--requests-per-second", "many"],
            2,
            "many",
        ),
        (
            &["serve", folder, "--listen", "0.0.0.0:0", "--no-tls"],
            1,
            "only on this machine",
        ),
        (
            &["serve", folder, "--certificate", "none"],
            1,
            "needed together",
        ),
        (&["serve"], 1, "the folder of the server is missing"),
        (
            &["serve", folder, "--certificate", "none", "--key", "none"],
            1,
            "none:",
        ),
        (&["serve", "/nowhere/at/all"], 1, "making a folder"),
    ] {
        let (found, out, error) = run(arguments);
        assert!(
            found == code && error.contains(why) && out.is_empty(),
            "{arguments:?}: {found} {error}"
        );
    }
}

/// SECURITY.md, claim 22.
#[test]
fn the_log_has_a_line_for_each_request_and_no_token_name_or_content() {
    let place = tempfile::tempdir().unwrap();
    let token = ok(&["account", "add", place.path().to_str().unwrap(), "anna"]);
    let server = Running::start(place.path(), "127.0.0.1:0", &[]);
    let vault = server.open(token.trim(), "anna/v");
    let name = ObjectName::new("segments/canaryname").unwrap();
    vault.create(&name, b"canarybytes".to_vec()).unwrap();
    vault.read(&name, 99).unwrap().unwrap();
    assert!(server.open("canarytoken", "anna/v").has(&name).is_err());
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["method"].as_str().unwrap(),
                line["status"].as_u64().unwrap(),
                line["account"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("PUT", 201, Some("anna")),
            ("GET", 200, Some("anna")),
            ("HEAD", 401, None)
        ]
    );
    assert_eq!(
        lines[0]["route"],
        "/v1/vaults/{account}/{vault}/objects/{*name}"
    );
    assert!(
        !log.contains("canary") && !log.contains(token.trim()),
        "{log}"
    );
    // Nor is the token in the folder.
    for file in ["server.db", "server.db-wal"] {
        let bytes = std::fs::read(place.path().join(file)).unwrap_or_default();
        assert!(
            !bytes
                .windows(token.trim().len())
                .any(|part| part == token.trim().as_bytes())
        );
    }
}

/// Goal: a check, a backup and `gc` say what they found, for people and for programs, and end with 1 if something is wrong. Method: a lost
/// object, and a file that belongs to no object.
#[test]
fn the_folder_is_looked_after_on_the_command_line() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("srv");
    let (folder, to) = (path.to_str().unwrap(), place.path().join("backup"));
    let to = to.to_str().unwrap();
    let token = ok(&["account", "add", folder, "anna"]);
    let server = Running::start(&path, "127.0.0.1:0", &["--no-tls"]);
    let vault = server.open(token.trim(), "anna/v");
    let name = ObjectName::new("segments/a").unwrap();
    vault.create(&name, b"abc".to_vec()).unwrap();
    let garbage = path.join("objects/ab").join("ab".repeat(16));
    std::fs::write(&garbage, "12345").unwrap();
    assert_eq!(
        ok(&["check", folder]),
        "1 objects, 3 bytes, 0 problems\n1 files with 5 bytes belong to no object: `strongroom-server gc` removes them\n"
    );
    assert_eq!(
        ok(&["gc", folder, "--dry-run"]),
        "1 files with 5 bytes would be removed\n"
    );
    assert_eq!(ok(&["gc", folder, "--json"]), "{\"files\":1,\"bytes\":5}\n");
    assert!(!garbage.exists());
    assert_eq!(
        ok(&["backup", folder, to]),
        "1 objects, 1 of them copied now with 3 bytes, 0 problems\n"
    );
    assert_eq!(
        ok(&["backup", folder, to, "--json"]),
        "{\"objects\":1,\"copied\":0,\"copied_bytes\":0,\"problem_count\":0,\"problems\":[]}\n"
    );
    std::fs::remove_dir_all(path.join("objects")).unwrap();
    let lost = "anna/v/segments/a: its file is missing from the folder of objects\n";
    let (code, out, error) = run(&["check", folder, "--quick"]);
    let expected = format!("{lost}1 objects, 3 bytes, 1 problems\n");
    assert_eq!((code, out, error), (1, expected, String::new()));
    let (code, out, _) = run(&["check", folder, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["problem_count"]), (1, &1.into()));
    assert_eq!(report["problems"][0]["object"], "segments/a");
    let other = format!("{to}-2");
    let (code, out, _) = run(&["backup", folder, &other]);
    assert!(code == 1 && out.starts_with(lost), "{code} {out}");
    let none = place.path().join("none");
    for command in ["check", "gc"] {
        let (code, _, error) = run(&[command, none.to_str().unwrap()]);
        assert!(code == 1 && error.contains("no database of a server"));
    }
    drop(server);
}

/// Goal: settings come from the command line, else from the environment, else from the file. Method: each place says another address.
#[test]
fn a_server_runs_with_settings_from_a_file_and_the_environment() {
    let place = tempfile::tempdir().unwrap();
    let (folder, file) = (place.path().join("srv"), place.path().join("server.toml"));
    let text = |listen: &str| {
        let folder = folder.display();
        format!(
            "folder = '{folder}'\nlisten = '{listen}'\nno_tls = true\nmetrics = '127.0.0.1:0'\nrequests_per_second = 500\n"
        )
    };
    std::fs::write(&file, text("127.0.0.1:0")).unwrap();
    let serve = || {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--config").arg(&file);
        command
    };
    let mut server = Running::spawn(&mut serve());
    assert!(server.at.starts_with("http://127.0.0.1:"), "{}", server.at);
    let metrics = server.lines.next().unwrap().unwrap();
    assert!(metrics.starts_with("metrics at http://127.0.0.1:"));
    assert_eq!(server.stop().0, Some(0));
    // No machine has this address: the server would not start.
    std::fs::write(&file, text("192.0.2.1:1")).unwrap();
    let listen = |command: &mut Command, at: &str| {
        command.env("STRONGROOM_SERVER_LISTEN", at);
    };
    let mut command = serve();
    listen(&mut command, "127.0.0.1:0");
    assert_eq!(Running::spawn(&mut command).stop().0, Some(0));
    let mut command = serve();
    listen(&mut command, "192.0.2.1:1");
    command.args(["--listen", "127.0.0.1:0"]);
    assert_eq!(Running::spawn(&mut command).stop().0, Some(0));
    std::fs::write(&file, "listne = '127.0.0.1:0'").unwrap();
    let (code, _, error) = run(&["serve", "--config", file.to_str().unwrap()]);
    assert!(
        code == 1 && error.contains("server.toml") && error.contains("unknown field `listne`"),
        "{error}"
    );
}

/// Goal: the numbers are there for whoever may ask, and name nobody. Method: an account, a vault and an object with names that stand out.
#[test]
fn metrics_count_and_name_nobody() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let token = ok(&["account", "add", folder, "canary-account"]);
    let metrics = ["--no-tls", "--metrics", "127.0.0.1:0"];
    let mut server = Running::start(place.path(), "127.0.0.1:0", &metrics);
    let vault = server.open(token.trim(), "canary-account/canary-vault");
    let name = ObjectName::new("segments/canary-object").unwrap();
    vault.create(&name, vec![1; 12_345]).unwrap();
    assert!(vault.read(&name, 99_999).unwrap().is_some());
    let line = server.lines.next().unwrap().unwrap();
    let at = line.strip_prefix("metrics at http://").unwrap();
    let (at, path) = at.split_once('/').unwrap();
    let mut stream = TcpStream::connect(at).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    for expected in [
        "strongroom_requests_total{method=\"PUT\",route=\"/v1/vaults/{account}/{vault}/objects/{*name}\",status=\"201\"} 1",
        "strongroom_received_bytes_total 12345",
        "strongroom_sent_bytes_total 12345",
        "strongroom_stored_bytes 12345",
        "strongroom_accounts 1",
        "strongroom_objects 1",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}: {text}"
        );
    }
    assert!(!text.contains("canary") && !text.contains(token.trim()));
    assert_eq!(server.stop().0, Some(0));
}

/// Goal: what was answered as created is there after a kill at any moment, whole, nothing else is left, and clients go on. Method: four
/// that send segments and publications, and a server that is killed meanwhile, ten times.
/// SECURITY.md, claim 25.
#[test]
fn a_killed_server_keeps_what_it_answered_for() {
    let rounds: u64 =
        std::env::var("STRONGROOM_ROUNDS").map_or(10, |rounds| rounds.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let token = ok(&["account", "add", place.path().to_str().unwrap(), "anna"]);
    let kept: Mutex<Vec<(ObjectName, Vec<u8>)>> = Mutex::default();
    let (next, created) = (AtomicU64::new(1), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let start = |listen: &str| {
        let mut server = Running::start(place.path(), listen, &["--no-tls"]);
        // A pipe that nobody reads would stop the server.
        log_of(server.child.stderr.take().unwrap());
        server
    };
    let mut server = start("127.0.0.1:0");
    let listen = server.at.split_once("://").unwrap().1.to_owned();
    thread::scope(|scope| {
        for sender in 0..4_u64 {
            let vault = server.open(token.trim(), "anna/v");
            let (kept, next, created, done) = (&kept, &next, &created, &done);
            scope.spawn(move || {
                let _ends = Ends(done);
                for number in (0_usize..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let bytes = format!("{sender} {number} ").repeat(1 + number * 997 % 40_000);
                    let bytes = bytes.into_bytes();
                    let is_publication = number % 3 == 0;
                    let name = match is_publication {
                        true => format!("publications/{:016}", next.load(Ordering::Relaxed)),
                        false => format!("segments/{}", blake3::hash(&bytes).to_hex()),
                    };
                    let name = ObjectName::new(name).unwrap();
                    match vault.create(&name, bytes.clone()) {
                        Ok(Created::New) => {
                            created.fetch_add(1, Ordering::Relaxed);
                            kept.lock().unwrap().push((name, bytes));
                        }
                        // Somebody was faster, or it took effect before the kill.
                        Ok(Created::AlreadyThere) => {}
                        Err(error) => assert!(is_publication, "{error}"),
                    }
                    if is_publication {
                        let last = vault.list("publications").unwrap().len() as u64;
                        next.store(last + 1, Ordering::Relaxed);
                    }
                }
            });
        }
        let ends = Ends(&done);
        for round in 1..=rounds {
            while created.load(Ordering::Relaxed) < round * 13 {
                assert!(!done.load(Ordering::Relaxed), "a sender failed");
                thread::yield_now();
            }
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            server = start(&listen);
        }
        drop(ends);
    });
    let vault = server.open(token.trim(), "anna/v");
    let kept = kept.into_inner().unwrap();
    for (name, bytes) in &kept {
        assert!(
            vault.read(name, 1 << 30).unwrap().unwrap() == *bytes,
            "{name}"
        );
    }
    let there = vault.list("segments").unwrap().len() + vault.list("publications").unwrap().len();
    assert!(there >= kept.len() && kept.len() as u64 >= rounds * 13);
    // Once nothing is on its way, there is a file for each object and no other.
    drop(server);
    let server = start(&listen);
    assert_eq!(
        (
            count(&place.path().join("objects")),
            count(&place.path().join("moving"))
        ),
        (there, 0)
    );
    drop(server);
}

/// Goal: memory does not grow with what is on its way. Method: 64 objects at once, by two accounts, and the most memory that the process
/// ever had. `STRONGROOM_MIB` says how long each is.
#[test]
fn many_uploads_at_once_take_little_memory() {
    let mib: usize = std::env::var("STRONGROOM_MIB").map_or(2, |mib| mib.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let tokens = ["anna", "bert"].map(|name| (name, ok(&["account", "add", folder, name])));
    let mut server = Running::start(place.path(), "127.0.0.1:0", &["--no-tls"]);
    log_of(server.child.stderr.take().unwrap());
    let barrier = Barrier::new(64);
    thread::scope(|scope| {
        for number in 0..64_usize {
            let (name, token) = &tokens[number % 2];
            let (server, barrier) = (&server, &barrier);
            scope.spawn(move || {
                let vault = server.open(token.trim(), &format!("{name}/v"));
                let bytes = vec![number as u8; mib << 20];
                let one = ObjectName::new(format!("segments/{number}")).unwrap();
                barrier.wait();
                assert_eq!(vault.create(&one, bytes).unwrap(), Created::New);
            });
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    println!(
        "64 uploads of {mib} MiB: {} MiB of memory at most",
        kib >> 10
    );
    assert!(kib >> 10 <= 200, "{kib} KiB");
}

/// Files below a folder.
fn count(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.path().is_dir() {
            true => count(&entry.path()),
            false => 1,
        })
        .sum()
}
