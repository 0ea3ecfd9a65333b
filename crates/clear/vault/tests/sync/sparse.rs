//! Long files with little in them, which several devices write to.

use strongroom::{FileOptions, Links};

use crate::Devices;

const LEN: u64 = 1 << 62;

/// Goal: a conflict copy takes as long as the content of its file, not as its length. Method: two devices write to a file of 4 EiB that
/// has a few bytes. Failed before: the pull looked at each of 2^40 regions, and did not end.
#[test]
fn a_sparse_file_that_two_devices_wrote_to_is_kept_twice() {
    let devices = Devices::new(2, |vault| {
        let options = FileOptions::new().write().create_new();
        let file = vault.open_file("/sparse", options).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file.set_len(LEN).unwrap();
    });
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    for (vault, what) in [(one, b"one"), (two, b"two")] {
        let file = vault.open_file("/sparse", FileOptions::new().write());
        file.unwrap().write_all_at(what, 1 << 50).unwrap();
    }
    devices.sync(0);
    let report = devices.sync(1);
    assert_eq!(report.pulled.conflicts, 1, "{report:?}");
    let copy = String::from_utf8(report.pulled.conflict_paths[0].clone()).unwrap();
    for (path, what) in [("/sparse", b"one"), (copy.as_str(), b"two")] {
        assert_eq!(two.attributes(path, Links::Follow).unwrap().size, LEN);
        let file = two.open_file(path, FileOptions::new().read()).unwrap();
        for (at, expected) in [(0, &b"first\0"[..]), (1 << 50, &what[..])] {
            let mut found = vec![b'?'; expected.len()];
            assert_eq!(file.read_at(&mut found, at).unwrap(), found.len());
            assert_eq!(found, expected, "{path} at {at}");
        }
    }
    let check = two.check().unwrap();
    assert!(check.problems.is_empty(), "{check:?}");
}
