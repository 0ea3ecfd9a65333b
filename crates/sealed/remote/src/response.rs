//! Reads what an answer of a server says apart from its content, and what a failed request says.
//!
//! Takes   answers and errors of `reqwest`
//! Gives   where a part begins; when to ask again; a text for people
//! Never   shows a URL

use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RETRY_AFTER};
use reqwest::{Response, StatusCode};

/// The first byte of the object that an answer has.
pub(crate) fn first_byte(answer: &Response) -> Option<u64> {
    if answer.status() != StatusCode::PARTIAL_CONTENT {
        return Some(0);
    }
    let range = answer.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (first, _) = range.strip_prefix("bytes ")?.split_once('-')?;
    first.parse().ok()
}

/// After which time the server wants to be asked again, if it says that in seconds.
pub(crate) fn retry_after(answer: &Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// What failed, from the inside out: the innermost text says most, and holds no URL.
pub(crate) fn words_of(error: &reqwest::Error) -> String {
    let mut words = String::from("the request failed");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        words = inner.to_string();
        source = inner.source();
    }
    let first = words.lines().next().unwrap_or_default();
    first
        .chars()
        .filter(|one| !one.is_control())
        .take(300)
        .collect()
}
