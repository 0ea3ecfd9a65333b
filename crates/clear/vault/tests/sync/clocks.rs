//! Clocks that are wrong by years, of devices and of the place where the remote is: nobody is held up, and nothing is lost.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use strongroom::filesystem::{Clock, Timestamp};
use strongroom::{CLONED_FROM, Error, GRACE, GoOn, OpenOptions, Vault};

use crate::evict::files;
use crate::support::content;
use crate::{Devices, NAME, fill, forget_history};

const YEAR_S: u64 = 365 * 24 * 60 * 60;

/// A clock that is wrong by so many seconds.
struct Wrong(i64);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let now = Timestamp::try_from(SystemTime::now()).unwrap();
        Timestamp(now.0 + self.0 * 1_000_000_000)
    }
}

impl Devices {
    /// Opens a vault again, for which it is another time.
    fn open_at_another_time(&mut self, number: usize, by_s: i64) {
        self.vaults[number].close().unwrap();
        let options = OpenOptions {
            clock: Arc::new(Wrong(by_s)),
            ..OpenOptions::default()
        };
        let secret = self.place.secret.clone();
        self.vaults[number] = Vault::open(self.folder(number), secret, options).unwrap();
    }
}

/// Goal: devices whose clocks are wrong by years come to one tree like any others, and keep each version of what all wrote. Method: of three
/// devices one is thirty years behind and one thirty years ahead; all write the same file, and change names that they share.
#[test]
fn devices_whose_clocks_are_wrong_by_years_come_to_one_tree() {
    const ROUNDS: usize = 3;
    let mut devices = Devices::new(3, fill);
    devices.settle();
    let thirty_years = (30 * YEAR_S).cast_signed();
    devices.open_at_another_time(1, -thirty_years);
    devices.open_at_another_time(2, thirty_years);
    for round in 0..ROUNDS {
        for (number, vault) in devices.vaults.iter().enumerate() {
            let seed = (10 * round + number) as u64;
            vault.write("/letters/one", content(50_000, seed)).unwrap();
            vault
                .write(format!("/{round} of {number}"), b"own")
                .unwrap();
        }
        // What one removes stays removed, whatever time it was then.
        let gone = &devices.vaults[round % 3];
        gone.write(format!("/gone {round}"), b"gone").unwrap();
        devices.settle();
        let last = &devices.vaults[(round + 1) % 3];
        last.remove_file(format!("/gone {round}")).unwrap();
        devices.settle();
    }
    devices.assert_at_rest();
    let all = devices.assert_same();
    let copies = |path: &&String| path.starts_with("/letters/one (conflict, ");
    assert_eq!(all.keys().filter(copies).count(), 2 * ROUNDS);
    assert!(!all.keys().any(|path| path.starts_with("/gone")));
    for round in 0..ROUNDS {
        for number in 0..3 {
            assert!(all.contains_key(&format!("/{round} of {number}")));
        }
    }
}

/// Goal: a place whose clock is wrong by years loses nothing that counts, and a push that was cut off goes on. Method: everything there gets a
/// time of 1971, then of 2099, and another device removes what does not count any more.
#[test]
fn a_place_whose_clock_is_wrong_by_years_loses_nothing() {
    for years in [1, 129] {
        let devices = Devices::new(2, fill);
        let [one, two] = &devices.vaults[..] else {
            panic!()
        };
        devices.settle();
        two.write("/large", content(20 << 20, 3)).unwrap();
        two.push_in_pages_of(1);
        let stopped = two.push(CLONED_FROM, &mut |at| match at.bytes {
            0 => GoOn::Yes,
            _ => GoOn::No,
        });
        assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
        let remote = devices.place.directory.path().join("remote");
        for (path, _) in files(&remote) {
            let file = File::options().append(true).open(path).unwrap();
            let then = SystemTime::UNIX_EPOCH + Duration::from_secs(years * YEAR_S);
            file.set_modified(then).unwrap();
        }
        one.write("/meanwhile", content(90_000, 4)).unwrap();
        one.remove_file("/big").unwrap();
        forget_history(one);
        devices.sync(0);
        let pruned = one.prune_remote(NAME, GRACE, &mut |_| GoOn::Yes);
        pruned.unwrap();
        devices.settle();
        for vault in [one, two] {
            assert!(vault.read("/large").unwrap() == content(20 << 20, 3));
            assert_eq!(vault.read("/meanwhile").unwrap(), content(90_000, 4));
        }
        devices.assert_same();
        let check = one.check_remote(NAME, true, &mut |_| GoOn::Yes);
        assert_eq!(check.unwrap().problems, [] as [String; 0], "{years}");
    }
}
