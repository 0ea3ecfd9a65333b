//! Pruning: unreferenced objects are removed from a remote while devices push, pull, or have been offline.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use strongroom::{
    CLONED_FROM, CloneOptions, Error, GRACE, GoOn, NewRevision, OpenOptions, PruneReport, Removal,
    Vault, clone,
};
use strongroom_metadata::Remote;
use strongroom_sync::RemoteState;

use crate::support::content;
use crate::unfinished::{SECOND, add_second};
use crate::{Devices, NAME, fill, forget_history, tree};

/// Everything of a kind at the remote.
fn objects(devices: &Devices, kind: &str) -> BTreeSet<String> {
    let folder = devices.place.directory.path().join("remote").join(kind);
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

fn name_of(number: usize) -> &'static str {
    if number == 0 { NAME } else { CLONED_FROM }
}

fn prune(devices: &Devices, number: usize, grace: Duration) -> PruneReport {
    devices.sync(number);
    let pruned = devices.vaults[number].prune_remote(name_of(number), grace, &mut |_| GoOn::Yes);
    pruned.unwrap()
}

/// The remote has everything, and a newcomer gets what the device has.
fn assert_whole(devices: &Devices, number: usize) {
    devices.sync(number);
    let vault = &devices.vaults[number];
    let check = vault.check_remote(name_of(number), true, &mut |_| GoOn::Yes);
    assert_eq!(check.unwrap().problems, [] as [String; 0]);
    let folder = tempfile::tempdir_in(devices.place.directory.path()).unwrap();
    let folder = folder.path().join("newcomer");
    let (secret, options) = (&devices.place.secret, CloneOptions::default());
    clone(&devices.address(), &folder, secret, options, &mut |_| {
        GoOn::Yes
    })
    .unwrap();
    let newcomer = Vault::open(folder, secret.clone(), OpenOptions::default()).unwrap();
    assert_eq!(tree(&newcomer), tree(vault));
    // The others hear of the new device.
    newcomer.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
}

#[test]
fn what_nothing_refers_to_goes_after_its_grace_and_nothing_else() {
    let devices = Devices::new(2, fill);
    let one = &devices.vaults[0];
    devices.settle();
    for number in 0..3 {
        one.write("/short-lived", content(9 << 20, 60 + number))
            .unwrap();
        devices.sync(0);
    }
    one.remove_file("/short-lived").unwrap();
    forget_history(one);
    devices.settle();
    // What a push left that never ended.
    let orphan = b"whatever this is";
    let hash = strongroom_format::hex::encode(&strongroom_sync::object_hash(orphan));
    let folder = devices.place.directory.path().join("remote/segments");
    fs::write(folder.join(&hash), orphan).unwrap();
    // What is no object of this vault stays in any case.
    fs::write(folder.join("readme.txt"), b"mine").unwrap();
    let records = devices.place.directory.path().join("remote/revisions");
    fs::write(records.join("Copy of this-0011223344556677"), b"mine").unwrap();
    let before = objects(&devices, "segments");
    let trial = one.unused_at_remote(NAME).unwrap();
    assert!(
        trial.waiting >= 3 && trial.waiting_bytes > 27 << 20,
        "{trial:?}"
    );
    assert_eq!((trial.objects, trial.bytes), (0, 0));
    // Nothing is old enough.
    let early = prune(&devices, 0, GRACE);
    assert_eq!(
        (early.objects, objects(&devices, "segments")),
        (0, before.clone())
    );
    let now = prune(&devices, 0, Duration::ZERO);
    assert!(
        now.objects >= trial.waiting && now.bytes >= trial.waiting_bytes,
        "{now:?} {trial:?}"
    );
    let after = objects(&devices, "segments");
    assert!(!after.contains(&hash) && after.contains("readme.txt"));
    assert!(objects(&devices, "revisions").contains("Copy of this-0011223344556677"));
    assert_eq!(one.unused_at_remote(NAME).unwrap(), PruneReport::default());
    assert!(after.len() < before.len());
    devices.settle();
    devices.assert_same();
    assert_whole(&devices, 0);
    assert_whole(&devices, 1);
}

/// Goal: what a push has brought up and not published yet is lost to nobody, however the moments lie. Method: another device removes
/// everything that is not live, at each moment at which a push says how far it is.
/// SECURITY.md, claim 21.
#[test]
fn a_pruning_in_the_middle_of_a_push_takes_nothing_from_it() {
    for moment in 0.. {
        let devices = Devices::new(2, fill);
        let two = &devices.vaults[1];
        devices.settle();
        two.write("/letters/new", content(300_000, 70)).unwrap();
        two.write("/more", content(20 << 20, 71)).unwrap();
        let calls = Cell::new(0);
        let pushed = two.push(CLONED_FROM, &mut |_| {
            if calls.replace(calls.get() + 1) == moment {
                prune(&devices, 0, Duration::ZERO);
            }
            GoOn::Yes
        });
        pushed.unwrap();
        assert_whole(&devices, 1);
        devices.settle();
        devices.assert_same();
        assert_eq!(
            devices.vaults[0].read("/more").unwrap(),
            content(20 << 20, 71)
        );
        if calls.get() <= moment {
            assert!(moment > 3, "the push said too little");
            return;
        }
    }
}

/// Goal: the same of a push that was cut off, and of a record. Method: the push is stopped at each moment, then everything goes.
/// SECURITY.md, claim 21.
#[test]
fn what_a_push_left_may_go_and_the_next_push_brings_it_again() {
    for moment in 0.. {
        let devices = Devices::new(2, fill);
        let two = &devices.vaults[1];
        devices.settle();
        two.write("/letters/new", content(300_000, 72)).unwrap();
        two.write("/more", content(20 << 20, 73)).unwrap();
        let calls = Cell::new(0);
        let pushed = two.push(
            CLONED_FROM,
            &mut |_| match calls.replace(calls.get() + 1) == moment {
                true => GoOn::No,
                false => GoOn::Yes,
            },
        );
        if calls.get() <= moment {
            pushed.unwrap();
            return;
        }
        assert!(matches!(pushed, Err(Error::RemoteStopped)), "{pushed:?}");
        prune(&devices, 0, Duration::ZERO);
        assert_eq!(devices.vaults[0].unused_at_remote(NAME).unwrap().waiting, 0);
        devices.settle();
        assert_whole(&devices, 1);
        devices.assert_same();
    }
}

/// Goal: who has heard that a pruning retired something does not name it, also if it came from another remote. Method: a push is cut off
/// once its segments are up; another device has them from a second remote, here or away, and syncs while the pruning removes other objects
/// first. Failed before: only a device whose own push had been cut off looked for what the pruning retired, and later only at files; this one
/// published the name of a segment that was removed right after.
#[test]
fn what_came_from_another_remote_is_not_named_once_a_pruning_retired_it() {
    for is_away in [false, true] {
        let devices = Devices::new(3, fill);
        devices.settle();
        add_second(&devices);
        let [one, two, three] = &devices.vaults[..] else {
            panic!()
        };
        for vault in [two, three, two] {
            vault.sync_with(SECOND, &mut |_| GoOn::Yes).unwrap();
        }
        devices.settle();
        two.write("/new", content(300_000, 75)).unwrap();
        two.sync_with(SECOND, &mut |_| GoOn::Yes).unwrap();
        let stopped = two.push(CLONED_FROM, &mut |at| match at.bytes > 0
            && at.bytes == at.bytes_total
        {
            true => GoOn::No,
            false => GoOn::Yes,
        });
        assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
        three.pull(SECOND, &mut |_| GoOn::Yes).unwrap();
        if is_away {
            let evicted = three.evict(Some(b"/new"), &mut |_| GoOn::Yes).unwrap();
            assert!(evicted.bytes >= 300_000, "{evicted:?}");
        }
        // Objects go in the order of their names, a few at a time: these are the first.
        let folder = devices.place.directory.path().join("remote/segments");
        let first: Vec<PathBuf> = (0..100)
            .map(|number| folder.join(format!("{number:064}")))
            .collect();
        for path in &first {
            fs::write(path, b"nobody named this").unwrap();
        }
        let mut is_synced = false;
        let pruned = one.prune_remote(NAME, Duration::ZERO, &mut |_| {
            if !is_synced && first.iter().any(|path| !path.exists()) {
                assert!(first.iter().any(|path| path.exists()));
                is_synced = true;
                devices.sync(2);
            }
            GoOn::Yes
        });
        assert!(pruned.unwrap().objects > 100);
        assert!(is_synced);
        assert_whole(&devices, 2);
        assert_eq!(three.read("/new").unwrap(), content(300_000, 75));
        devices.settle();
        devices.assert_same();
    }
}

/// Goal: what another device let go, and this one still uses, gets to the remote under another name. Method: the content of a file
/// that one device removes was written again under another name on the other, which stores it once.
#[test]
fn content_that_another_device_let_go_moves_before_it_is_published() {
    let devices = Devices::new(2, |vault| {
        vault.write("/shared", content(400_000, 74)).unwrap();
        vault.filesystem().unwrap().end_segments().unwrap();
        fill(vault);
    });
    let (one, two) = (&devices.vaults[0], &devices.vaults[1]);
    devices.settle();
    two.write("/kept", content(400_000, 74)).unwrap();
    one.remove_file("/shared").unwrap();
    forget_history(one);
    devices.sync(0);
    devices.sync(1);
    prune(&devices, 0, Duration::ZERO);
    assert_whole(&devices, 1);
    devices.settle();
    let pruned = prune(&devices, 1, Duration::ZERO);
    assert_eq!(pruned.waiting, 0);
    devices.settle();
    let all = devices.assert_same();
    assert!(all.contains_key("/kept") && !all.contains_key("/shared"));
    assert_whole(&devices, 0);
}

/// Goal: a log does not grow for ever, and who was away while its beginning went gets everything, with what was written meanwhile.
#[test]
fn a_long_log_is_summed_up_and_who_was_away_meanwhile_comes_back() {
    let devices = Devices::new(3, fill);
    let (one, two) = (&devices.vaults[0], &devices.vaults[1]);
    devices.settle();
    two.write("/letters/from two", b"written while away")
        .unwrap();
    two.remove_file("/second name").unwrap();
    for number in 0..160_u32 {
        one.write("/letters/one", number.to_le_bytes()).unwrap();
        one.push(NAME, &mut |_| GoOn::Yes).unwrap();
    }
    let before = objects(&devices, "publications").len();
    // Those of today stay.
    prune(&devices, 0, Duration::ZERO);
    assert!(objects(&devices, "publications").len() >= before);
    age(&devices, "publications");
    prune(&devices, 0, Duration::ZERO);
    let left = objects(&devices, "publications").len();
    assert!(before > 160 && left < 60, "{before} {left}");
    // Two was away; three pulls only.
    let gone = devices.vaults[2].check_remote(CLONED_FROM, false, &mut |_| GoOn::Yes);
    assert!(matches!(gone, Err(Error::RemoteAhead)), "{gone:?}");
    let pulled = devices.vaults[2]
        .pull(CLONED_FROM, &mut |_| GoOn::Yes)
        .unwrap();
    assert!(pulled.publications > 0, "{pulled:?}");
    devices.sync(1);
    devices.settle();
    let all = devices.assert_same();
    assert!(all.contains_key("/letters/from two") && !all.contains_key("/second name"));
    assert_eq!(one.read("/letters/one").unwrap(), 159_u32.to_le_bytes());
    prune(&devices, 1, Duration::ZERO);
    assert_whole(&devices, 0);
}

/// SECURITY.md, claim 21.
#[test]
fn a_remote_that_lost_its_last_publications_is_named_by_a_pull_too() {
    let devices = Devices::new(2, fill);
    devices.settle();
    devices.vaults[0].write("/after", b"after").unwrap();
    devices.settle();
    let folder = devices.place.directory.path().join("remote/publications");
    let last = objects(&devices, "publications").pop_last().unwrap();
    fs::remove_file(folder.join(last)).unwrap();
    for number in 0..2 {
        let pulled = devices.vaults[number].pull(name_of(number), &mut |_| GoOn::Yes);
        let said = pulled.unwrap_err().to_string();
        assert!(
            said.contains("this device saw a newer state of the remote"),
            "{said}"
        );
    }
}

/// Goal: a clone that was cut off brings nothing back that went meanwhile. Method: a snapshot is removed and the remote is pruned
/// between two attempts.
#[test]
fn a_clone_that_goes_on_after_a_pruning_brings_nothing_back() {
    let devices = Devices::new(1, fill);
    let one = &devices.vaults[0];
    let tagged = NewRevision {
        tags: vec!["gone".to_owned()],
        ..NewRevision::default()
    };
    let taken = one.take_revision(&tagged).unwrap().unwrap();
    one.write("/letters/two", b"later").unwrap();
    devices.sync(0);
    let folder = devices.place.directory.path().join("clone");
    let (address, secret) = (devices.address(), &devices.place.secret);
    // Everything has come down when it is stopped.
    let mut left = objects(&devices, "segments").len() + objects(&devices, "revisions").len();
    let stopped = clone(
        &address,
        &folder,
        secret,
        CloneOptions::default(),
        &mut |_| {
            left = left.saturating_sub(1);
            if left == 0 { GoOn::No } else { GoOn::Yes }
        },
    );
    assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
    one.remove_revision(taken.id).unwrap();
    prune(&devices, 0, Duration::ZERO);
    let options = CloneOptions::default();
    clone(&address, &folder, secret, options, &mut |_| GoOn::Yes).unwrap();
    let two = Vault::open(folder, secret.clone(), OpenOptions::default()).unwrap();
    two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    devices.sync(0);
    for vault in [one, &two] {
        assert!(!vault.exists("/.history/t:gone").unwrap());
    }
}

#[test]
fn a_remote_that_is_kept_loses_nothing() {
    let devices = Devices::new(1, fill);
    let one = &devices.vaults[0];
    let folder = tempfile::tempdir().unwrap();
    let address = format!("folder:{}", folder.path().display());
    one.add_remote_with("kept", &address, Removal::Never)
        .unwrap();
    let push = || one.push("kept", &mut |_| GoOn::Yes).unwrap();
    push();
    one.remove_file("/big").unwrap();
    forget_history(one);
    set_fence(one, "kept", |_, now| (0, now - 30 * 24 * 60 * 60));
    push();
    assert!(one.unused_at_remote("kept").unwrap().waiting > 0);
    let refused = one.prune_remote("kept", Duration::ZERO, &mut |_| GoOn::Yes);
    assert!(matches!(refused, Err(Error::RemoteKept(_))), "{refused:?}");
    assert_eq!(one.remotes().unwrap()[1].removal, Removal::Never);
}

/// Changes when a vault retired something at a remote, as time would.
fn set_fence(vault: &Vault, name: &str, then: impl Fn((u64, u64), u64) -> (u64, u64)) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    let filesystem = vault.filesystem().unwrap();
    let rows = filesystem.engine().reader().unwrap().remotes().unwrap();
    let row = rows.into_iter().find(|row| row.name == name).unwrap();
    let mut state = RemoteState::decode(&row.state).unwrap();
    state.fence = then(state.fence, now);
    let changed = Remote {
        state: state.encode(),
        ..row
    };
    let put = filesystem.change_remotes(|writer| writer.put_remote(&changed));
    put.unwrap();
}

/// Makes objects a little more than a week old.
fn age(devices: &Devices, kind: &str) {
    for name in objects(devices, kind) {
        let path: PathBuf = devices.place.directory.path().join("remote").join(kind);
        let file = File::options().write(true).open(path.join(name)).unwrap();
        let then = SystemTime::now() - GRACE - Duration::from_secs(1);
        file.set_modified(then).unwrap();
    }
}

/// Goal: pushes prune by themselves, and only what was retired a week before. Method: times are set back, of objects and of what is
/// remembered.
#[test]
fn a_push_prunes_once_a_week() {
    let week = GRACE.as_secs() + 1;
    let devices = Devices::new(1, fill);
    let one = &devices.vaults[0];
    one.remove_file("/big").unwrap();
    forget_history(one);
    devices.sync(0);
    let all = objects(&devices, "segments");
    age(&devices, "segments");
    // Not due: a week has not passed since the first push.
    one.write("/letters/two", b"again").unwrap();
    devices.sync(0);
    assert!(objects(&devices, "segments").is_superset(&all));
    // Due, as if the clock had been wrong then: what is not live is retired, and stays.
    set_fence(one, NAME, |_, now| (0, now + week));
    one.write("/letters/two", b"once more").unwrap();
    devices.sync(0);
    assert!(objects(&devices, "segments").is_superset(&all));
    // A week later it goes.
    set_fence(one, NAME, |(number, _), now| {
        assert!(number > 0);
        (number, now - week)
    });
    age(&devices, "segments");
    one.write("/letters/two", b"at last").unwrap();
    devices.sync(0);
    let left = objects(&devices, "segments");
    assert!(all.difference(&left).count() > 0, "{left:?}");
    assert_whole(&devices, 0);
}

/// Goal: whoever comes while another device is in the middle of a push takes nothing from it: what that has named is not known to be
/// needed yet, and is.
#[test]
fn a_device_cloned_in_the_middle_of_a_push_retires_nothing_of_it() {
    let mut devices = Devices::new(2, fill);
    devices.settle();
    let one = &devices.vaults[0];
    one.write("/large", content(5 << 20, 80)).unwrap();
    one.push_in_pages_of(1);
    let before = objects(&devices, "publications");
    let stopped = one.push(
        NAME,
        &mut |_| match objects(&devices, "publications") == before {
            true => GoOn::Yes,
            false => GoOn::No,
        },
    );
    assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
    let named = one.read("/large").unwrap();
    devices.vaults[1]
        .write("/meanwhile", content(9_000, 81))
        .unwrap();
    devices.sync(1);
    devices.add(2);
    let newcomer = &devices.vaults[2];
    assert!(newcomer.read("/large").is_err() && newcomer.read("/meanwhile").is_ok());
    newcomer.write("/mine", content(9_000, 82)).unwrap();
    newcomer.compact().unwrap();
    devices.sync(2);
    devices.settle();
    for vault in &devices.vaults {
        assert_eq!(vault.read("/large").unwrap(), named);
    }
    devices.assert_same();
    assert_whole(&devices, 0);
}

/// Goal: what a device that was killed was writing into a folder does not stay for ever, and what one is writing now does.
#[test]
fn what_a_killed_device_was_writing_into_a_folder_goes_after_a_day() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let names = [
        format!(".new-{}", "0".repeat(32)),
        format!(".new-{}", "1".repeat(32)),
        ".new-of-another-program".to_owned(),
    ];
    for kind in ["segments", "revisions", "headers", "publications"] {
        let place = devices.place.directory.path().join("remote").join(kind);
        for (number, name) in names.iter().enumerate() {
            fs::write(place.join(name), b"the beginning of an object").unwrap();
            if number != 1 {
                let days = Duration::from_secs(2 * 24 * 60 * 60);
                let file = File::options().append(true).open(place.join(name));
                file.unwrap()
                    .set_modified(SystemTime::now() - days)
                    .unwrap();
            }
        }
        prune(&devices, 0, Duration::ZERO);
        let left = names.each_ref().map(|name| place.join(name).exists());
        assert_eq!(left, [false, true, true], "{kind}");
    }
}
