//! Devices that meet at two remotes, of which one is behind the other.

use strongroom::{CLONED_FROM, Error, GoOn, OpenOptions, Vault};

use crate::support::content;
use crate::unfinished::{SECOND, add_second};
use crate::{Devices, fill};

fn sync_second(vault: &Vault) -> strongroom::SyncReport {
    vault.sync_with(SECOND, &mut |_| GoOn::Yes).unwrap()
}

/// Goal: what both devices had, wherever they got it, is the base of a merge: what one of them undid since stays undone. Method: the second
/// remote stays behind while both come further through the first; then one removes a new file and puts an old content back, and pulls from
/// the second what the other pushed there.
/// Failed before the base was the newest common snapshot: the file came back, and so did the content that was undone.
#[test]
fn what_was_undone_stays_undone_through_a_remote_that_was_behind() {
    let devices = Devices::new(2, fill);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    add_second(&devices);
    for vault in [one, two, one] {
        sync_second(vault);
    }
    devices.settle();
    one.write("/made and removed", b"new").unwrap();
    one.write("/letters/two", b"changed").unwrap();
    devices.settle();
    two.write("/by two", b"two").unwrap();
    sync_second(two);
    one.remove_file("/made and removed").unwrap();
    one.write("/letters/two", b"two").unwrap();
    let report = sync_second(one);
    assert_eq!(report.pulled.conflicts, 0, "{report:?}");
    assert!(!one.exists("/made and removed").unwrap());
    assert_eq!(one.read("/letters/two").unwrap(), b"two");
    assert_eq!(one.read("/by two").unwrap(), b"two");
    sync_second(two);
    devices.settle();
    let all = devices.assert_same();
    assert!(!all.contains_key("/made and removed"));
    assert_eq!(two.read("/letters/two").unwrap(), b"two");
}

/// Goal: of two programs that pull from two remotes of one vault at once, none takes what the other brought for its own. Method: in the
/// middle of a pull another session pulls from the other remote, ends, and so removes what had come.
/// Failed before: the first pull ended with an error of the disk.
#[test]
fn a_pull_beside_a_pull_from_another_remote_ends_or_says_that_it_is_to_be_tried_again() {
    let devices = Devices::new(2, fill);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    add_second(&devices);
    for vault in [one, two, one] {
        sync_second(vault);
    }
    devices.settle();
    one.write("/through the first", content(200_000, 1))
        .unwrap();
    devices.sync(0);
    one.write("/through the second", content(200_000, 2))
        .unwrap();
    sync_second(one);
    let beside = Vault::connect_if_owned(devices.folder(1), OpenOptions::default());
    let beside = beside.unwrap().unwrap();
    let mut steps = 0;
    let pulled = two.pull(CLONED_FROM, &mut |_| {
        steps += 1;
        if steps == 2 {
            beside.pull(SECOND, &mut |_| GoOn::Yes).unwrap();
        }
        GoOn::Yes
    });
    assert!(steps >= 2);
    assert!(
        matches!(pulled, Ok(_) | Err(Error::RemoteBusy)),
        "{pulled:?}"
    );
    two.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    beside.close().unwrap();
    sync_second(two);
    devices.settle();
    let all = devices.assert_same();
    assert!(all.contains_key("/through the first") && all.contains_key("/through the second"));
}
