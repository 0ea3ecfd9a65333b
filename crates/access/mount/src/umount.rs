//! Unmounts from another process, and waits for the process of the mount.
//!
//! Takes   the folder, and a function that is called with the reason of each wait, and decides how long to wait
//! Gives   nothing; returns once the process of the mount has made everything durable and has ended
//! Never   signals or kills that process, or waits without a report of the reason

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use crate::detach::{Detach, detach};
use crate::error::MountError;
use crate::holders;
use crate::in_use::Waiting;
use crate::limits::LOOK_EVERY;
use crate::mountinfo::{MountEntry, mount_at};
use crate::mountpoint;
use crate::options::TYPE;
use crate::record::{Ending, Stage, Watched};

/// The first pause of a wait; later ones are twice as long each.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// What to do about files that are open in the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Refuse.
    IfUnused,
    /// Take the mount out of sight now, and do not wait: it ends with its last user.
    Lazily,
}

/// Unmounts `directory`, and waits until its process has ended the mount with everything durable, and, if it is there for the
/// mount only, is gone itself. `Lazily` waits for nothing.
///
/// `watch` hears several times a second what is waited for, and may end that: then the process goes on by itself.
/// A mount whose process has died is removed, and `Unconfirmed` says so.
///
/// # Errors
/// `NotMounted`, `Busy`, `Permission`; `StillRuns` if `watch` ended it; `EndedBadly`, `Unconfirmed` and `NoRecord` when it was
/// unmounted but durability is not certain.
pub fn unmount(
    directory: &Path,
    how: Unmount,
    watch: &mut dyn FnMut(&Waiting) -> ControlFlow<()>,
) -> Result<(), MountError> {
    let path = mountpoint::resolve(directory)?;
    let entry = mount_at(&path)?.filter(|entry| entry.file_system_type == TYPE);
    let Some(entry) = entry else {
        return Err(MountError::NotMounted(path));
    };
    // Opened before the unmount, as the process removes it at its end.
    let watched = find(&path, entry.user_id.unwrap_or(0));
    take_away(&entry, how, watch)?;
    match (watched, how) {
        (Some(watched), Unmount::IfUnused) => wait(&watched, &entry, watch),
        (Some(watched), Unmount::Lazily) => match watched.stage()? {
            Stage::Ended(ending) => told(ending, path),
            _ => Ok(()),
        },
        (None, Unmount::IfUnused) => Err(MountError::NoRecord(path)),
        (None, Unmount::Lazily) => Ok(()),
    }
}

/// The record of the mount. One whose folder has just gone comes back within moments.
fn find(path: &Path, mounted_by: u32) -> Option<Watched> {
    let mut waits = FIRST_PAUSE;
    loop {
        let found = Watched::open(path, mounted_by);
        if found.is_some() || waits > LOOK_EVERY {
            return found;
        }
        std::thread::sleep(waits);
        waits *= 2;
    }
}

/// Unmounts, in a thread: the kernel may have to hand over much.
fn take_away(
    entry: &MountEntry,
    how: Unmount,
    watch: &mut dyn FnMut(&Waiting) -> ControlFlow<()>,
) -> Result<(), MountError> {
    let (done, waits) = crossbeam_channel::bounded(1);
    let path = entry.mount_point.clone();
    let how = match how {
        Unmount::IfUnused => Detach::IfUnused,
        Unmount::Lazily => Detach::Lazily,
    };
    let taking = move || {
        // Nobody listens any more if the wait was ended.
        let _ = done.send(detach(&path, how));
    };
    let named = std::thread::Builder::new().name("strongroom-umount".to_owned());
    named
        .spawn(taking)
        .map_err(MountError::io("starting a thread"))?;
    loop {
        match waits.recv_timeout(LOOK_EVERY) {
            Ok(Err(MountError::Busy(_))) => return Err(MountError::Busy(holders::in_use(entry))),
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => go_on(&entry.mount_point, Waiting::Kernel, watch)?,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the thread sends before it ends"),
        }
    }
}

/// Waits for the end of the mount, and of its process.
fn wait(
    watched: &Watched,
    entry: &MountEntry,
    watch: &mut dyn FnMut(&Waiting) -> ControlFlow<()>,
) -> Result<(), MountError> {
    let mut waits = FIRST_PAUSE;
    loop {
        let waiting = match watched.stage()? {
            Stage::Ended(ending) => return told(ending, entry.mount_point.clone()),
            // The kernel needs a moment to end what nobody uses any more.
            Stage::Served if waits < LOOK_EVERY => Waiting::Kernel,
            Stage::Served => Waiting::SeenElsewhere(holders::elsewhere(&entry.device)),
            Stage::Storing(bytes) => Waiting::Storing(bytes),
            Stage::Leaving => Waiting::Closing,
        };
        go_on(&entry.mount_point, waiting, watch)?;
        watched.pause(waits);
        waits = (waits * 2).min(LOOK_EVERY);
    }
}

/// Says what is waited for, and ends the wait if that is wanted.
fn go_on(
    path: &Path,
    waiting: Waiting,
    watch: &mut dyn FnMut(&Waiting) -> ControlFlow<()>,
) -> Result<(), MountError> {
    match watch(&waiting) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(MountError::StillRuns {
            path: path.to_owned(),
            waiting,
        }),
    }
}

fn told(ending: Ending, path: PathBuf) -> Result<(), MountError> {
    match ending {
        Ending::Durable => Ok(()),
        Ending::Failed(reason) => Err(MountError::EndedBadly(reason)),
        Ending::Unconfirmed => Err(MountError::Unconfirmed(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_mount_of_ours_is_left_alone() {
        let mut patient = |_: &Waiting| ControlFlow::Continue(());
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            unmount(folder.path(), Unmount::IfUnused, &mut patient),
            Err(MountError::NotMounted(_))
        ));
        assert!(matches!(
            unmount(Path::new("/proc"), Unmount::IfUnused, &mut patient),
            Err(MountError::NotMounted(_))
        ));
        let missing = unmount(
            &folder.path().join("no/such"),
            Unmount::Lazily,
            &mut patient,
        );
        assert!(matches!(missing, Err(MountError::MountPointMissing(_))));
    }
}
