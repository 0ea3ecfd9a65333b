//! Uploads an object for as long as the line accepts bytes, however slow it is.
//!
//! Takes   the bytes, and a function that sends a request with a body
//! Gives   the body, and the result of the request; `None` if the line accepts nothing for too long
//! Never   limits the total time
//!
//! The read timeout of `reqwest` runs from the start of a request until its answer begins, so it would interrupt a long upload.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use reqwest::Body;

use crate::limits::{SENT_PIECE_BYTES, UNSEEN_BYTES};

/// What of a body was taken by the line so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent(Arc<AtomicU64>);

impl Sent {
    /// `bytes` as a body, which notes how much of it was taken.
    pub(crate) fn body_of(&self, bytes: Bytes) -> Body {
        let pieces = stream::unfold((bytes, self.clone()), |(mut bytes, sent)| async move {
            if bytes.is_empty() {
                return None;
            }
            let piece = bytes.split_to(bytes.len().min(SENT_PIECE_BYTES));
            sent.0.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Some((Ok::<_, Infallible>(piece), (bytes, sent)))
        });
        Body::wrap_stream(pieces)
    }

    /// Whether anything of it was taken.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// What `send` gives; `None` if nothing of the body was taken for `silence`, and for as long as a line of `rate_min` bytes
    /// a second needs for what the system holds of it.
    pub(crate) async fn while_moving<T>(
        &self,
        send: impl Future<Output = T>,
        silence: Duration,
        rate_min: u64,
    ) -> Option<T> {
        let mut send = std::pin::pin!(send);
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let unseen = Duration::from_secs(before.min(UNSEEN_BYTES) / rate_min);
            if let Ok(done) = tokio::time::timeout(silence + unseen, &mut send).await {
                return Some(done);
            }
            let now = self.0.load(Ordering::Relaxed);
            if now == before {
                return None;
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method: a body that nobody sends; the test takes pieces of it as a line would.
    #[test]
    fn an_upload_goes_on_while_something_is_taken_and_ends_when_nothing_is() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let silence = Duration::from_millis(1);
            let sent = Sent::default();
            let never = std::future::pending::<()>();
            assert_eq!(sent.while_moving(never, silence, 1).await, None);
            let done = sent.while_moving(std::future::ready(7), silence, 1).await;
            assert_eq!(done, Some(7));
            // One byte is taken in each look, so that it never is silent, for far longer than `silence`.
            let taken = sent.clone();
            let slow = async move {
                for _ in 0..1000 {
                    taken.0.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
                8
            };
            assert!(!sent.has_begun());
            assert_eq!(sent.while_moving(slow, silence, 1).await, Some(8));
            assert!(sent.has_begun());
        });
    }
}
