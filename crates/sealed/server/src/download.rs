//! Sends the bytes of an object.
//!
//! Takes   an open file or the answer of an object store, and the requested part of it
//! Gives   the body of an answer, read piece by piece as the client takes it
//! Never   holds more than one piece of it in memory, or continues for a client that takes less than `RATE_MIN`
//!
//! `connections.rs` ends a connection whose client takes nothing, or too little, of the piece that was given to it.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use strongroom_remote::protocol::Refusal;
use tokio::time::Instant;

use crate::limits::{PIECE_BYTES, RATE_MIN, SILENCE};
use crate::objects::Content;
use crate::turns::Turn;

/// The part that is asked for of `len` bytes; `None` for a form that is left alone, as one may.
pub(crate) fn range_of(range: &HeaderValue, len: u64) -> Result<Option<Range<u64>>, Refusal> {
    let parts = || {
        let (first, last) = range
            .to_str()
            .ok()?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        let first: u64 = first.parse().ok()?;
        let last: u64 = match last {
            "" => u64::MAX,
            last => last.parse().ok()?,
        };
        (first <= last).then_some((first, last))
    };
    let Some((first, last)) = parts() else {
        return Ok(None);
    };
    if first >= len {
        return Err(Refusal::Range);
    }
    Ok(Some(first..last.saturating_add(1).min(len)))
}

/// Bytes of an object on their way.
struct Download {
    content: Content,
    left: Range<u64>,
    /// When the last piece is to be asked for.
    until: Instant,
    /// Ends with the last byte, or with the connection.
    _turn: Option<Turn>,
}

impl Download {
    fn new(content: Content, range: Range<u64>, turn: Option<Turn>) -> Self {
        let slowest = Duration::from_secs((range.end - range.start) / RATE_MIN);
        Self {
            content,
            left: range,
            until: Instant::now() + SILENCE + slowest,
            _turn: turn,
        }
    }

    /// The next piece; `None` behind the last.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let left = self.left.end - self.left.start;
        if left == 0 {
            return Ok(None);
        }
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let piece: Bytes = match &mut self.content {
            Content::File(file) => {
                let (file, start) = (Arc::clone(file), self.left.start);
                let read = tokio::task::spawn_blocking(move || {
                    let len =
                        usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
                    let mut piece = vec![0; len];
                    file.read_exact_at(&mut piece, start)?;
                    Ok::<_, io::Error>(piece)
                });
                read.await.map_err(io::Error::other)??.into()
            }
            Content::Pieces(pieces) => {
                let next = tokio::time::timeout(SILENCE, pieces.next()).await?;
                next.ok_or(io::ErrorKind::UnexpectedEof)??
            }
        };
        let len = piece.len() as u64;
        if len > left {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.left.start += len;
        Ok(Some(piece))
    }

    fn pieces(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::try_unfold(self, |mut download| async move {
            let piece = download.next().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, download)))
        })
    }
}

/// Bytes of an object, for which the account has a turn.
pub(crate) fn bytes_of(content: Content, range: Range<u64>, turn: Turn) -> Body {
    Body::from_stream(Download::new(content, range, Some(turn)).pieces())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_range_is_within_the_object_or_refused_or_left_alone() {
        let of = |text: &'static str| range_of(&HeaderValue::from_static(text), 10);
        assert_eq!(of("bytes=3-5"), Ok(Some(3..6)));
        assert_eq!(of("bytes=3-"), Ok(Some(3..10)));
        assert_eq!(of("bytes=0-18446744073709551615"), Ok(Some(0..10)));
        assert_eq!(of("bytes=10-10"), Err(Refusal::Range));
        for left in [
            "bytes=-5",
            "bytes=5-3",
            "bytes=1-2,4-5",
            "lines=1-2",
            "bytes=a-b",
            "",
        ] {
            assert_eq!(of(left), Ok(None), "{left}");
        }
    }

    /// Goal: who takes an object too slowly is cut off. Failed before: an object was sent for as long as a client took a byte now and
    /// then.
    #[tokio::test]
    async fn who_takes_an_object_too_slowly_gets_no_further_piece() {
        let file = tempfile::tempfile().unwrap();
        let len = 3 * PIECE_BYTES as u64;
        file.set_len(len).unwrap();
        let content = Content::File(Arc::new(file));
        let mut download = Download::new(content, 0..len, None);
        let now = Instant::now();
        let slowest = Duration::from_secs(len / RATE_MIN);
        assert!(download.until > now + slowest && download.until <= now + SILENCE + slowest);
        assert_eq!(download.next().await.unwrap().unwrap().len(), PIECE_BYTES);
        download.until = now - Duration::from_millis(1);
        let late = download.next().await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
