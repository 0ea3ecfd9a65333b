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

/// Whether an object is created only where there is none of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOnly {
    /// Of several that created at once one was told that it had, and its bytes stayed.
    Holds,
    /// Two were told so, or other bytes were there in the end.
    Broken,
}

/// Tries it out, with a dozen requests or two.
///
/// # Errors
/// Those of the remote; `NoCreateOnly` if it says itself that it cannot.
pub fn probe(remote: &dyn Remote) -> Result<CreateOnly> {
    for _ in 0..ROUNDS {
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
        removed?;
        match (&winners[..], kept.as_deref()) {
            ([winner], Some([kept])) if winner == kept => {}
            _ => return Ok(CreateOnly::Broken),
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
