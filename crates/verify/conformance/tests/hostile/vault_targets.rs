//! The messages that another process may send over the owner's socket, and the state of an inbox.

use strongroom::fuzzing;

use crate::target::Target;

pub(crate) fn all() -> Vec<Target> {
    let messages = [
        Target::new("greeting", fuzzing::greetings(), fuzzing::is_greeting),
        Target::new("welcome", fuzzing::welcomes(), fuzzing::is_welcome),
        Target::new("request", fuzzing::requests(), fuzzing::is_request),
        Target::new("response", fuzzing::responses(), fuzzing::is_response)
            // A name of no bytes takes one byte on its way and 24 in a list, which exists twice while it grows; a
            // list reserves at most 1 MiB for what it only announces.
            .bound(|len| 80 * len + 2 * 1024 * 1024),
    ]
    .map(|target| target.repair(|bytes| repair_frame(bytes)));
    let mut all = Vec::from(messages);
    let state = Target::new(
        "inbox-state",
        fuzzing::inbox_states(),
        fuzzing::is_inbox_state,
    );
    // What was decoded is encoded again beside it.
    all.push(state.bound(|len| 8 * len + 8192));
    all
}

/// Makes the length before the message right.
fn repair_frame(bytes: &mut [u8]) {
    let len = u32::try_from(bytes.len().saturating_sub(4)).unwrap_or(u32::MAX);
    if let Some(prefix) = bytes.first_chunk_mut::<4>() {
        *prefix = len.to_le_bytes();
    }
}
