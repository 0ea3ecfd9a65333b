//! A process that temporarily cannot open any more files. This program has only one test, because it changes a limit of
//! its process.

#[path = "../support/mod.rs"]
mod support;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use strongroom_filesystem::Error;
use support::{Lab, ROOT, assert_refused};

fn allow(descriptors: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: Some(descriptors),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered, and raised again");
}

/// Failed before: the read said that the content is damaged, and the block was not trusted any more.
#[test]
fn a_lack_of_descriptors_is_said_and_is_no_damage() {
    let mut lab = Lab::new();
    let content: Vec<u8> = (0..50_000_u32).flat_map(u32::to_le_bytes).collect();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &content).expect("writes");
    lab.compact().expect("ends the segment");
    lab.reopen();
    let mut found = vec![0; content.len()];
    allow(0);
    let refused = lab.read(file, 0, &mut found);
    allow(1024);
    assert_refused!(&refused, Error::Segments(_));
    let words = refused.expect_err("no file can be opened").to_string();
    assert!(words.contains("ulimit"), "{words}");
    lab.read(file, 0, &mut found).expect("reads");
    assert!(found == content);
    // Trusted as before: what equals it is not stored again.
    let before = lab.counters().segments.bytes_appended;
    let copy = lab.file(ROOT, "copy");
    lab.write(copy, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    assert!(lab.counters().segments.bytes_appended - before < 20_000);
}
