//! One vault used at the same time by a mount and by commands in other processes: none fails because of another, and
//! each sees the newest data.
//!
//! It needs /dev/fuse; without it the test reports that.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use support::{MountPoint, Place};

/// What `dd` gets to write while one command runs, in bytes.
const GRANT_BYTES: usize = 2 * 1024 * 1024;

/// Rounds of put, ls and get in each process.
const ROUNDS: usize = 3;

/// Processes at once.
const PROCESSES: usize = 3;

/// The byte of the stream at `offset`: no two neighbouring blocks are equal.
fn byte_of(offset: usize) -> u8 {
    (offset / 251 + offset % 251) as u8
}

/// Feeds `dd` a grant of bytes for each message, until all senders are gone.
fn feed(mut pipe: impl Write, grants: &Receiver<()>) -> usize {
    let mut fed = 0;
    while grants.recv().is_ok() {
        let bytes: Vec<u8> = (fed..fed + GRANT_BYTES).map(byte_of).collect();
        pipe.write_all(&bytes).unwrap();
        fed += bytes.len();
    }
    fed
}

/// Goal: commands and a writer through the mount, all at once, on the newest data.
/// Method: each command first lets `dd` write a further piece, so that `dd` is at work while it runs; what `dd` had
/// written before a command began is known from the size of its file in the mount.
#[test]
fn put_ls_and_get_of_three_processes_see_the_newest_data_while_dd_writes_through_the_mount() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    File::create(place.path("m/stream")).unwrap();
    let mut dd = Command::new("dd")
        .args(["bs=64K", "iflag=fullblock", "conv=notrunc", "status=none"])
        .arg(format!("of={}", place.path("m/stream").display()))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = dd.stdin.take().unwrap();
    let (grant, grants) = channel();
    let fed = std::thread::scope(|scope| {
        let feeding = scope.spawn(move || feed(pipe, &grants));
        for process in 0..PROCESSES {
            let (place, grant) = (&place, grant.clone());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    put_is_seen_in_the_mount(place, &grant, process, round);
                    ls_sees_what_dd_wrote(place, &grant);
                    get_has_what_dd_wrote(place, &grant, process);
                }
            });
        }
        drop(grant);
        feeding.join().unwrap()
    });
    assert!(dd.wait().unwrap().success());
    assert_eq!(fed, PROCESSES * ROUNDS * 3 * GRANT_BYTES);
    let mut stream = Vec::new();
    let mut file = File::open(place.path("m/stream")).unwrap();
    file.read_to_end(&mut stream).unwrap();
    drop(file);
    assert_is_of_the_stream(&stream, fed);
    place.done(&["umount", "m"]);
    drop(mounted);
    place.keyed(&["verify", "--structure", "v"]);
    assert!(place.keyed_bytes(&["cat", "v:/stream"]) == stream);
}

/// The same name in every round, so that what the mount knew of it before must be gone.
fn put_is_seen_in_the_mount(place: &Place, grant: &Sender<()>, process: usize, round: usize) {
    let content = vec![(process * ROUNDS + round) as u8; 300_000 - round * 1000];
    let (local, name) = (format!("local-{process}"), format!("put-{process}"));
    fs::write(place.path(&local), &content).unwrap();
    grant.send(()).unwrap();
    place.done(&["put", &local, &format!("v:/{name}")]);
    assert!(
        fs::read(place.path("m").join(&name)).unwrap() == content,
        "{name} in round {round}"
    );
}

fn ls_sees_what_dd_wrote(place: &Place, grant: &Sender<()>) {
    let before = fs::metadata(place.path("m/stream")).unwrap().len();
    grant.send(()).unwrap();
    let listed: serde_json::Value =
        serde_json::from_str(&place.done(&["ls", "v", "--json"])).unwrap();
    let stream = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["name"] == "stream")
        .unwrap();
    assert!(stream["size"].as_u64().unwrap() >= before);
}

fn get_has_what_dd_wrote(place: &Place, grant: &Sender<()>, process: usize) {
    let before = fs::metadata(place.path("m/stream")).unwrap().len() as usize;
    grant.send(()).unwrap();
    let out = format!("out-{process}");
    place.done(&["get", "v:/stream", &out]);
    assert_is_of_the_stream(&fs::read(place.path(&out)).unwrap(), before);
}

/// Every byte is the stream's, and there are at least `len_min`.
fn assert_is_of_the_stream(bytes: &[u8], len_min: usize) {
    assert!(
        bytes.len() >= len_min,
        "{} bytes of at least {len_min}",
        bytes.len()
    );
    let wrong = (0..bytes.len()).find(|offset| bytes[*offset] != byte_of(*offset));
    assert_eq!(wrong, None, "the first byte that dd did not write there");
}
