//! Full disks: a part of `make small-disk`, and problems that users met on full disks. Needs root and the FUSE device.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::fs::{self, File};
use std::io::{self, Write};

use strongroom_simulator::random::Choices;
use strongroom_simulator::small_disk::{Drive, Kind, run_rounds};

const MB: u64 = 1_000_000;

fn write(drive: &Drive, name: &str, seed: u64, bytes: u64) -> io::Result<()> {
    let mut choices = Choices::new(seed);
    let mut file = File::create(drive.at(name))?;
    for _ in 0..bytes / MB {
        file.write_all(&choices.bytes(1_000_000))?;
    }
    file.sync_all()
}

/// Failed before: what `df` told to be free was refused while it was written.
#[test]
fn what_df_tells_to_be_free_can_be_written_and_nothing_is_lost() {
    for (kind, seed) in [(Kind::Tmpfs, 1), (Kind::Ext4, 2), (Kind::Quota, 3)] {
        let done = run_rounds(kind, 220 << 20, seed, 25).unwrap();
        assert!(done.filled > 0 && done.compared > 0, "{kind:?}: {done:?}");
    }
}

/// Failed before: 9 of 12 times "No space left on device".
#[test]
fn a_file_of_90_mb_is_replaced_twelve_times_on_a_disk_of_400_mb() {
    let drive = Drive::new(Kind::Tmpfs, 400 * MB).unwrap();
    for round in 0..12 {
        if round % 2 == 0 {
            let _ = fs::remove_file(drive.at("file"));
        }
        write(&drive, "file", round, 90 * MB).unwrap_or_else(|error| panic!("{round}: {error}"));
    }
}

/// Failed before: not in 61 tries, one a second.
#[test]
fn two_hundred_mb_are_removed_and_written_again_at_once() {
    for kind in [Kind::Tmpfs, Kind::Ext4, Kind::Quota] {
        let drive = Drive::new(kind, 400 * MB).unwrap();
        for round in 0..3 {
            write(&drive, "file", round, 200 * MB).unwrap();
            fs::remove_file(drive.at("file")).unwrap();
        }
    }
}

/// Failed before: of repeated small writes number 256 was the first that worked.
#[test]
fn a_disk_that_was_full_takes_the_next_write_when_it_has_room() {
    let drive = Drive::new(Kind::Tmpfs, 250 * MB).unwrap();
    let refused = write(&drive, "large", 1, 400 * MB).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    fs::remove_file(drive.at("large")).unwrap();
    for round in 0..20 {
        write(&drive, &format!("small{round}"), 2 + round, MB).unwrap();
    }
}
