//! Reports where a panic happened, and never its message, which can contain data that the code was working on.
//!
//! Takes   a function that reports a panic
//! Gives   one sentence for each panic of any thread
//! Never   calls the hook that was there before, which would print the message

use std::panic::{PanicHookInfo, set_hook};

/// From now on, `report` gets one sentence for each panic, with its place in the code, and nothing else is printed of it.
///
/// It replaces the panic hook of all Rust code that shares one standard library. So it is for a program, or for a shared library that
/// other languages load, which has a standard library of its own. A Rust program that uses this crate decides about its hook itself.
pub fn report_places(report: impl Fn(&str) + Send + Sync + 'static) {
    set_hook(Box::new(move |panic| report(&sentence(panic))));
}

fn sentence(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    format!("a bug: panicked at {place}; please report it")
}
