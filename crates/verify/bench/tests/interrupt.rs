//! The whole bench, as a user runs it, on real mounts. It needs root, /dev/fuse, and a `strongroom` built beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The program that the same build puts beside the bench.
fn strongroom() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_strongroom-bench")).with_file_name("strongroom");
    assert!(path.exists(), "run `cargo build -p strongroom-cli` first");
    path
}

/// The bench on `folder`, quick but for the look at what an fsync keeps, without peers.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom-bench"));
    command.arg("--strongroom").arg(strongroom());
    command.arg("--folder").arg(folder);
    command.args(["--quick", "--records", "20", "--json", "--peers", "none"]);
    command.args(arguments).stdin(Stdio::null());
    // Sockets are not left in the user's folder.
    command.env("XDG_RUNTIME_DIR", folder.parent().unwrap());
    command
}

/// Two folders, the inner one for the bench.
fn folders() -> (tempfile::TempDir, PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    // As the kernel will name it.
    let inner = outer.path().canonicalize().unwrap().join("disk");
    fs::create_dir(&inner).unwrap();
    (outer, inner)
}

/// Mounts below `folder`, and processes whose command lines name it.
fn traces(folder: &Path) -> Vec<String> {
    let name = folder.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts.lines().map(str::to_owned);
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        // One that has just ended has no line any more.
        let line = fs::read(entry.unwrap().path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    let all = mounts.chain(processes);
    all.filter(|line| line.contains(name)).collect()
}

/// Goal: whoever ends the bench finds neither mounts nor servers nor its folder.
/// Method: more rounds than anybody waits for; a signal while it is found out what an fsync keeps, when the first file system is
/// there, and when all of them are at work. Two benches run side by side.
#[test]
fn an_interrupted_bench_leaves_no_mount_no_server_and_no_folder() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            interrupt(&[
                (Signal::INT, "what an fsync keeps: strongroom"),
                (Signal::INT, "s  plain"),
                (Signal::TERM, "round 2 of"),
            ]);
        });
        interrupt(&[
            (Signal::TERM, "strongroom was killed, and is mounted again"),
            (Signal::INT, "round 1 of"),
            (Signal::HUP, "library, round 1 of"),
        ]);
    });
}

/// Interrupts a bench with each signal at its moment, and looks for what it left.
fn interrupt(rounds: &[(Signal, &str)]) {
    for &(signal, moment) in rounds {
        let (_outer, folder) = folders();
        let rows = match moment.contains("library") {
            true => "library",
            false => "append,git-status",
        };
        let arguments = ["--rounds", "1000000", "--only", rows, "--also", "writeback"];
        let mut child = bench(&folder, &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(moment) {
            line.clear();
            assert!(
                told.read_line(&mut line).unwrap() > 0,
                "it ended before {moment}"
            );
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{rest}");
        assert!(rest.contains("interrupted; "), "{moment}: {rest}");
        assert!(rest.contains("is removed"), "{moment}: {rest}");
        assert_eq!(traces(&folder), [""; 0], "{moment}: {rest}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{moment}");
    }
}

/// Strongroom with other options is one more in the tables, and no peer of itself.
#[test]
fn strongroom_with_other_options_is_measured_beside_strongroom() {
    let (_outer, folder) = folders();
    let also = ["--also", "writeback", "--also", "no-xattr,threads=3"];
    let output = bench(&folder, &[&["--only", "append"], &also[..]].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let systems = report["systems"].as_array().unwrap();
    let names: Vec<_> = systems.iter().map(|system| &system["name"]).collect();
    let expected = [
        "plain",
        "strongroom",
        "strongroom -o writeback",
        "strongroom -o no-xattr,threads=3",
    ];
    assert_eq!(names, expected);
    for name in expected {
        let figures = &report["rows"][0]["figures"][name];
        assert!(figures[0].as_f64().unwrap() > 0.0, "{name}: {report}");
        let kept = &report["kept"][name];
        assert_eq!(kept["records"], 20, "{name}: {report}");
        if name != "plain" {
            assert_eq!(kept["records_after_kill"], 20, "{name}: {report}");
            assert_eq!(kept["in_clear"], false, "{name}: {report}");
        }
    }
    assert_eq!(traces(&folder), [""; 0]);
}

#[test]
fn an_option_that_is_none_ends_the_run_and_is_named() {
    let (_outer, folder) = folders();
    let arguments = ["--only", "append", "--also", "no-such-option"];
    let output = bench(&folder, &arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("strongroom -o no-such-option: "), "{text}");
    assert_eq!(traces(&folder), [""; 0]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
