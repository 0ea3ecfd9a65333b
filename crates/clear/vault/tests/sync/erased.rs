//! Content that one device erased, or moved, before another had it.

use strongroom::{NewRevision, Vault};

use crate::support::content;
use crate::{Devices, fill, tree};

/// Goal: content that was erased after it was pushed, and that only a snapshot names, stops no device that had not pulled it. Method: one
/// device pushes a snapshot, erases a file in it and pushes again; another pulls, has the snapshot but for that file, and gets the content
/// once somebody writes it again.
/// Failed before only the head had to be whole: "a snapshot at the remote lacks blocks", for ever.
#[test]
fn what_was_erased_after_a_push_stops_no_device() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let secret = || content(400_000, 77);
    one.write("/secret", secret()).unwrap();
    one.write("/kept", content(100_000, 78)).unwrap();
    let tagged = NewRevision {
        tags: vec!["both".to_owned()],
        ..NewRevision::default()
    };
    one.take_revision(&tagged).unwrap().unwrap();
    devices.sync(0);
    one.remove_file("/secret").unwrap();
    let erased = one.erase("/secret", false).unwrap();
    assert!(erased.bytes >= 400_000, "{erased:?}");
    devices.sync(0);
    devices.sync(1);
    assert_eq!(tree(two), tree(one));
    let in_snapshot = |vault: &Vault, name: &str| vault.read(format!("/.history/t:both/{name}"));
    assert_eq!(in_snapshot(two, "kept").unwrap(), content(100_000, 78));
    assert!(in_snapshot(two, "secret").is_err() && in_snapshot(one, "secret").is_err());
    two.write("/by two", b"two").unwrap();
    devices.settle();
    assert_eq!(in_snapshot(one, "kept").unwrap(), content(100_000, 78));
    assert_eq!(tree(two), tree(one));
    for vault in [one, two] {
        let check = vault.check().unwrap();
        assert!(check.problems.is_empty(), "{check:?}");
    }
    // What is lost here came back by another file, and is the same content.
    one.write("/again", secret()).unwrap();
    devices.settle();
    assert_eq!(two.read("/again").unwrap(), secret());
    devices.assert_same();
}
