//! The interface to the user: lines and JSON, questions, messages, signals, exit codes.

pub(crate) mod exit_code;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod logging;
pub(crate) mod output;
pub(crate) mod printable;
pub(crate) mod progress;
pub(crate) mod prompt;
pub(crate) mod time;
