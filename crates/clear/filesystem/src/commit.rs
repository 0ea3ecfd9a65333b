//! Makes changes durable: by a commit, or by a record of the intent log.

pub(crate) mod commits;
pub(crate) mod intents;
pub(crate) mod replay;
