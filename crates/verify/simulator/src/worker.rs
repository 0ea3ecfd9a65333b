//! The process on the simulated disk: carries out the acts of a seed and says how far it is.
//!
//! Takes   a folder, a seed and a count
//! Gives   one byte to standard output before each act and one after (see `disk::Progress`)
//! Never   judges, and never outlives an error of its disk
//! Spec    none: test only

use std::fs::File;
use std::io::Write;
use std::path::Path;

use strongroom_conformance::engine;
use strongroom_conformance::operation::{Answer, Session};
use strongroom_filesystem::Error;

use crate::plan::{Act, acts};

/// Whether the world, not the caller, is the reason of `error`.
fn is_of_the_disk(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace
            | Error::Failed
            | Error::Metadata(_)
            | Error::Segments(_)
            | Error::Damaged { .. }
            | Error::ReadOnly
    )
}

/// Runs the acts in the empty folder `folder`. Ends at the first error of the disk, without closing anything.
///
/// # Errors
/// If the file system cannot even be made, or nobody listens.
pub fn work(folder: &Path, seed: u64, count: usize) -> Result<(), String> {
    let system =
        engine::create(folder, engine::quiet()).map_err(|error| format!("create: {error}"))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| error.to_string())?;
    // Never dropped: closing is not part of a power cut.
    let mut session = std::mem::ManuallyDrop::new(Session::new(system));
    let mut listener = std::io::stdout().lock();
    let mut say = |byte: &[u8]| {
        listener
            .write_all(byte)
            .and_then(|()| listener.flush())
            .map_err(|error| error.to_string())
    };
    say(b"0")?;
    for act in acts(seed, count) {
        say(b"s")?;
        let failure = match act {
            Act::Tick => session.system.tick().err(),
            Act::Operation(operation) => match session.apply(&operation) {
                Answer::Refused(error) if is_of_the_disk(&error) => Some(error),
                _ => None,
            },
        };
        if let Some(error) = failure {
            say(b"e")?;
            // Said to standard error only: the judge knows that an act failed, a reader wants to know how.
            eprintln!("stopped: {error}");
            return Ok(());
        }
        say(b"r")?;
    }
    Ok(())
}
