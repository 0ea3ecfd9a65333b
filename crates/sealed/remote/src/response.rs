//! Reads what an answer of a server, or its failure, says beside its content.
//!
//! Takes   answers and errors of `reqwest`
//! Gives   where a part begins; a text for people
//! Never   shows a URL

use reqwest::header::CONTENT_RANGE;
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
