//! The command `strongroom`: turns command lines into calls of the public API, and their results into lines, JSON and
//! an exit code.
//!
//! Takes   a command line
//! Gives   exit codes that never change (`terminal/exit_code.rs`), messages that say what to do next
//! Never   shows a secret that it was given, or leaves a core dump on the disk. Never accepts, in arguments or
//!         environment, a secret that unlocks a vault
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod terminal;

use clap::Parser;

use crate::arguments::Arguments;
use crate::arguments::mount_helper::{self, Asked};
use crate::commands::descriptors;
use crate::terminal::{failure, interrupt, logging};

fn main() -> std::process::ExitCode {
    protect_memory();
    descriptors::raise();
    let parsed = match mount_helper::asked(std::env::args_os()) {
        Asked::Nothing => Arguments::try_parse(),
        Asked::Words(words) => Arguments::try_parse_from(words),
        Asked::Pretence => return std::process::ExitCode::SUCCESS,
    };
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return failure::print_usage(&error),
    };
    if !commands::logs_to_file(&arguments.command) {
        logging::to_stderr(arguments.verbose);
    }
    match commands::run(arguments.command, arguments.verbose) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            failure::print(&failure);
            interrupt::leave();
            std::process::ExitCode::from(failure.code as u8)
        }
    }
}

/// Keeps keys out of core dumps and away from debuggers of the same user.
fn protect_memory() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    // Refused where limits are fixed from outside: then the second call still helps, and the other way round.
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
