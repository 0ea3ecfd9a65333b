//! Decides which request to the simulated disk fails, and how.
//!
//! Takes   a plan: which error, at the n-th request of a kind or of any, once or from then on
//! Gives   the outcome of each request
//! Never   changes what is stored: the disk does, depending on the outcome
//! Spec    none: test only

use rustix::io::Errno;

/// A sort of request that changes the disk. Reading never counts and never fails before the power does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Bytes written by `write`, not by a memory map.
    Write,
    /// fsync or fdatasync of a file, fsync of a directory.
    Sync,
    /// A new file, directory or symlink.
    Create,
    /// rename, link, unlink, rmdir.
    Name,
    /// A change of size, or a reservation.
    Size,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `EIO`. A failed sync also gives up the pages it should have written.
    Io,
    /// `ENOSPC`; of syncs and of requests that free space, nothing.
    NoSpace,
    /// A write takes only its first half; anything else is left alone.
    Short,
}

/// One planned failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which requests count; `None` for all of them.
    pub call: Option<Call>,
    /// The first that fails, from 1.
    pub nth: u64,
    /// How it fails.
    pub failure: Failure,
    /// Whether the later ones fail too.
    pub lasting: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is carried out.
    Done,
    /// Half of the bytes are taken.
    Half,
    /// It fails and changes nothing, except what a failed sync gives up.
    Failed(Errno),
}

/// The plan and how far it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    planned: Vec<(Fault, u64)>,
    struck: u64,
}

impl Faults {
    pub(super) fn plan(&mut self, fault: Fault) {
        self.planned.push((fault, 0));
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    /// How many requests have failed by plan.
    pub(super) fn struck(&self) -> u64 {
        self.struck
    }

    pub(super) fn fate(&mut self, call: Call) -> Fate {
        let mut fate = Fate::Done;
        for (fault, seen) in &mut self.planned {
            if fault.call.is_some_and(|wanted| wanted != call) {
                continue;
            }
            *seen += 1;
            let strikes = *seen == fault.nth || (fault.lasting && *seen > fault.nth);
            match (strikes, fault.failure, call) {
                (true, Failure::Io, _) => fate = Fate::Failed(Errno::IO),
                (true, Failure::NoSpace, Call::Write | Call::Create | Call::Size) => {
                    fate = Fate::Failed(Errno::NOSPC)
                }
                (true, Failure::Short, Call::Write) => fate = Fate::Half,
                _ => {}
            }
        }
        if fate != Fate::Done {
            self.struck += 1;
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(fault: Fault, calls: &[Call]) -> Vec<Fate> {
        let mut faults = Faults::default();
        faults.plan(fault);
        calls.iter().map(|call| faults.fate(*call)).collect()
    }

    #[test]
    fn only_the_nth_request_of_its_sort_fails() {
        let fault = Fault {
            call: Some(Call::Write),
            nth: 2,
            failure: Failure::Io,
            lasting: false,
        };
        let seen = fates(fault, &[Call::Write, Call::Sync, Call::Write, Call::Write]);
        assert_eq!(
            seen,
            [Fate::Done, Fate::Done, Fate::Failed(Errno::IO), Fate::Done]
        );
    }

    #[test]
    fn a_full_disk_stays_full_but_still_removes_and_syncs() {
        let fault = Fault {
            call: None,
            nth: 1,
            failure: Failure::NoSpace,
            lasting: true,
        };
        let seen = fates(fault, &[Call::Write, Call::Name, Call::Sync, Call::Create]);
        assert_eq!(
            seen,
            [
                Fate::Failed(Errno::NOSPC),
                Fate::Done,
                Fate::Done,
                Fate::Failed(Errno::NOSPC)
            ]
        );
    }
}
