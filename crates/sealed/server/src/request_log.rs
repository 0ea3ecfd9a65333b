//! The log of a server: one line of JSON for each request, on standard error.
//!
//! Takes   the method and the route of the request, its peer and account, the status of the answer, the time it took
//! Gives   a line
//! Never   contains a token, the name of an object, or a byte of one

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::error::Error;

/// One request.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) method: &'a str,
    /// The form of the path, without what the client put in; empty for a path that the server does not have.
    pub(crate) route: &'a str,
    pub(crate) status: u16,
    pub(crate) peer: Option<SocketAddr>,
    /// The account whose token was shown, if there is one.
    pub(crate) account: Option<&'a str>,
    pub(crate) ms: u64,
}

#[derive(Serialize)]
struct Timed<'a, T> {
    time_ms: u64,
    kind: &'static str,
    #[serde(flatten)]
    line: &'a T,
}

/// Writes the line of a request that was answered.
pub(crate) fn answered(line: &Line<'_>) {
    write("request", line);
}

#[derive(Serialize)]
struct Failed {
    error: String,
}

/// Writes that the server is at fault.
pub(crate) fn failed(error: &Error) {
    let error = error.to_string();
    write("error", &Failed { error });
}

fn write<T: Serialize>(kind: &'static str, line: &T) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let time_ms = millis(now.unwrap_or_default());
    let timed = Timed {
        time_ms,
        kind,
        line,
    };
    let Ok(mut text) = serde_json::to_vec(&timed) else {
        return;
    };
    text.push(b'\n');
    // A log that cannot be written does not stop the server.
    let _ = std::io::stderr().lock().write_all(&text);
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
