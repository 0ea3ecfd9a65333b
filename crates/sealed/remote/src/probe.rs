//! Tests whether a remote creates an object only if no object has that name.
//!
//! Takes   a remote of unknown behaviour
//! Gives   whether exactly one of several simultaneous creators succeeded
//! Never   leaves its test objects behind, unless the remote refuses to remove them

use std::thread;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};
use crate::object_name::ObjectName;
use crate::remote::{Created, Remote};

/// How many create the same object at once.
const CREATORS: u8 = 4;

/// How often they do.
const ROUNDS: usize = 3;

/// How many rounds may show nothing, because an answer was lost.
const UNCLEAR_MAX: usize = 5;

/// Whether an object is created only where there is none of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOnly {
    /// Of several that created at once one was told that it had, and its bytes stayed.
    Holds,
    /// Two were told so, or other bytes were there in the end.
    Broken,
}

/// What one round shows; nothing if the object is there and nobody was told to have created it: the answer to who did was lost, and the
/// repeated request was told that it is there.
fn round(remote: &dyn Remote) -> Result<Option<CreateOnly>> {
    let name = ObjectName::new(format!("probes/{}", random_digits()?))?;
    let told: Vec<Result<Created>> = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                scope.spawn({
                    let name = &name;
                    move || remote.create(name, vec![creator])
                })
            })
            .collect();
        let ended = creators.into_iter().map(|creator| creator.join());
        ended
            .map(|ended| ended.unwrap_or_else(|_| Err(Error::Other("a thread ended".into()))))
            .collect()
    });
    let kept = remote.read(&name, 1)?;
    let removed = remote.remove(&name);
    let mut winners = Vec::new();
    for (creator, told) in (0..CREATORS).zip(told) {
        if told? == Created::New {
            winners.push(creator);
        }
    }
    match removed {
        // These credentials may only add.
        Err(Error::Refused(_)) => {}
        removed => removed?,
    }
    Ok(match (&winners[..], kept.as_deref()) {
        ([winner], Some([kept])) if winner == kept => Some(CreateOnly::Holds),
        ([], Some([kept])) if *kept < CREATORS => None,
        _ => Some(CreateOnly::Broken),
    })
}

/// Tries it out, with a dozen requests or two.
///
/// # Errors
/// Those of the remote; `NoCreateOnly` if it says itself that it cannot.
pub fn probe(remote: &dyn Remote) -> Result<CreateOnly> {
    let (mut held, mut unclear) = (0, 0);
    while held < ROUNDS {
        match round(remote)? {
            Some(CreateOnly::Holds) => held += 1,
            None if unclear < UNCLEAR_MAX => unclear += 1,
            Some(CreateOnly::Broken) | None => return Ok(CreateOnly::Broken),
        }
    }
    Ok(CreateOnly::Holds)
}

fn random_digits() -> Result<String> {
    let mut bytes = [0_u8; 16];
    // So few bytes come at once.
    let count = getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(bytes[..count]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::remote::{Listed, memory};

    /// A remote whose answers to the first creators are lost; the client repeats each request, and is told that the object is there.
    #[derive(Debug)]
    struct Interrupted {
        inner: Arc<dyn Remote>,
        left: AtomicUsize,
    }

    impl Interrupted {
        fn new(times: usize) -> Self {
            Self {
                inner: memory().unwrap(),
                left: AtomicUsize::new(times),
            }
        }
    }

    impl Remote for Interrupted {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
            let created = self.inner.create(name, bytes.clone())?;
            let fewer = |left: usize| left.checked_sub(1);
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            match created == Created::New && self.left.fetch_update(set, fetch, fewer).is_ok() {
                true => self.inner.create(name, bytes),
                false => Ok(created),
            }
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
            self.inner.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
            self.inner.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Result<Vec<Listed>> {
            self.inner.list(kind)
        }

        fn remove(&self, name: &ObjectName) -> Result<()> {
            self.inner.remove(name)
        }
    }

    /// Goal: a server that is restarted while it is tried out is not taken for one that replaces objects. Failed before: the winner of a
    /// round was told that its object is there. Method: lost answers in some rounds, and in all.
    #[test]
    fn a_lost_answer_shows_nothing_and_too_many_of_them_are_no_proof() {
        for (times, shown) in [
            (1, CreateOnly::Holds),
            (UNCLEAR_MAX, CreateOnly::Holds),
            (UNCLEAR_MAX + 1, CreateOnly::Broken),
        ] {
            let remote = Interrupted::new(times);
            assert_eq!(probe(&remote).unwrap(), shown, "{times}");
            assert_eq!(remote.list("probes").unwrap(), []);
        }
    }

    /// A remote whose credentials may only add.
    #[derive(Debug)]
    struct OnlyAdds(Arc<dyn Remote>);

    impl Remote for OnlyAdds {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
            self.0.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
            self.0.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
            self.0.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Result<Vec<Listed>> {
            self.0.list(kind)
        }

        fn remove(&self, _: &ObjectName) -> Result<()> {
            Err(Error::Refused("it only adds".to_owned()))
        }
    }

    /// Goal: a place can be added with credentials that may only add objects. Failed before: that they remove nothing ended the trial.
    #[test]
    fn a_remote_that_removes_nothing_is_tried_out_all_the_same() {
        let remote = OnlyAdds(memory().unwrap());
        assert_eq!(probe(&remote).unwrap(), CreateOnly::Holds);
    }
}
