//! Receives the bytes of an object, or of a document.
//!
//! Takes   the body of a request, and the length and hash that the request states
//! Gives   a file with these bytes, if they have that length and hash; the bytes of a short document
//! Never   holds more than one piece of an object in memory, waits long for the next piece, or waits without bound for the whole body
//!
//! If a request is refused while its body still arrives, the server reads the body to its stated end and drops it.
//! Otherwise many clients would see a broken connection instead of the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use futures_util::StreamExt;
use strongroom_remote::protocol::{HASH_HEADER, Refusal};
use tokio::time::Instant;

use crate::answers::Refused;
use crate::error::Error;
use crate::limits::{GIVE_ON, OBJECT_BYTES_MAX, PIECE_BYTES, RATE_MIN, SILENCE};
use crate::objects::{Incoming, Objects};

/// What a request says about its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) len: u64,
    pub(crate) hash: blake3::Hash,
}

impl Said {
    pub(crate) fn by(headers: &HeaderMap) -> Result<Self, Refusal> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let len = headers.get(CONTENT_LENGTH).ok_or(Refusal::NoLength)?;
        let len: u64 = len
            .to_str()
            .ok()
            .and_then(|len| len.parse().ok())
            .ok_or(Refusal::NoLength)?;
        if len > OBJECT_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let hash = text(HASH_HEADER).ok_or(Refusal::NoHash)?;
        let hash = blake3::Hash::from_hex(hash).map_err(|_| Refusal::NoHash)?;
        Ok(Self { len, hash })
    }
}

/// The body of a request.
pub(crate) struct Upload {
    pieces: BodyDataStream,
    left: u64,
    until: Instant,
}

impl Upload {
    pub(crate) fn new(body: Body, said: Said) -> Self {
        Self {
            pieces: body.into_data_stream(),
            left: said.len,
            until: Instant::now() + SILENCE + Duration::from_secs(said.len / RATE_MIN),
        }
    }

    /// The next bytes; `None` behind the last.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        let until = self.until.min(Instant::now() + SILENCE);
        match tokio::time::timeout_at(until, self.pieces.next()).await {
            Err(_) => Err(Refusal::Slow),
            Ok(None) if self.left > 0 => Err(Refusal::Length),
            Ok(None) => Ok(None),
            Ok(Some(Err(_))) => Err(Refusal::Length),
            Ok(Some(Ok(piece))) => {
                let len = piece.len() as u64;
                self.left = self.left.checked_sub(len).ok_or(Refusal::Length)?;
                Ok(Some(piece))
            }
        }
    }

    /// Reads what comes and keeps nothing of it; then refuses.
    pub(crate) async fn refuse(mut self, refusal: Refusal) -> Refused {
        while let Ok(Some(_)) = self.next().await {}
        Refused(refusal)
    }

    /// Puts what comes where the bytes of objects are.
    pub(crate) async fn into_file(
        mut self,
        objects: &Arc<Objects>,
        said: Said,
    ) -> Result<Incoming, Refused> {
        let objects = Arc::clone(objects);
        let mut incoming = match apart(move || objects.begin(said.len)).await {
            Ok(incoming) => incoming,
            Err(Refused(refusal)) => return Err(self.refuse(refusal).await),
        };
        let mut given = Instant::now();
        let mut piece =
            Vec::with_capacity(PIECE_BYTES.min(usize::try_from(said.len).unwrap_or(PIECE_BYTES)));
        loop {
            let came = self.next().await?;
            let is_last = came.is_none();
            piece.extend_from_slice(&came.unwrap_or_default());
            if piece.len() < PIECE_BYTES && !is_last && given.elapsed() < GIVE_ON {
                continue;
            }
            given = Instant::now();
            let written = apart(move || {
                incoming.write(&piece)?;
                piece.clear();
                Ok((incoming, piece))
            });
            (incoming, piece) = match written.await {
                Ok(both) => both,
                Err(refused) if is_last => return Err(refused),
                // A full disk, most of the time.
                Err(Refused(refusal)) => return Err(self.refuse(refusal).await),
            };
            if is_last {
                break;
            }
        }
        match incoming.hash() == said.hash {
            true => Ok(incoming),
            false => Err(Refusal::Hash.into()),
        }
    }
}

/// All bytes of a body that is no object, at most `bytes_max`.
///
/// # Errors
/// `TooLong`; `Length` if the line ends before the body; `Slow` after `SILENCE`.
pub(crate) async fn whole(body: Body, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
    let read = async {
        let (mut pieces, mut bytes) = (body.into_data_stream(), Vec::<u8>::new());
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Refusal::Length)?;
            if piece.len() > bytes_max - bytes.len() {
                return Err(Refusal::TooLong);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    let read = tokio::time::timeout(SILENCE, read).await;
    read.unwrap_or(Err(Refusal::Slow))
}

/// Does `work`, which blocks, on a thread of its own.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Refused> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        // It panicked, and the panic hook has said so.
        Err(_) => Err(Refusal::Failed.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;

    use super::*;
    use crate::store::{Store, Use};

    /// Goal: whoever sends an object that cannot be stored hears why. Method: the folder for new files is gone, as on a disk that makes none; the
    /// body has to be read to its end. Failed before: what still came was left there, and many clients saw a broken connection.
    #[tokio::test]
    async fn what_cannot_be_stored_is_read_to_its_end_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_folder(folder.path(), Use::Serving).unwrap();
        std::fs::remove_dir(folder.path().join("moving")).unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let pieces = stream::iter(0..4).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_static(b"piece"))
        });
        let said = Said {
            len: 20,
            hash: blake3::hash(b""),
        };
        let upload = Upload::new(Body::from_stream(pieces), said);
        let refused = upload.into_file(&store.objects, said).await;
        assert!(matches!(refused, Err(Refused(Refusal::Failed))));
        assert_eq!(taken.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn who_sends_too_slowly_is_refused_although_a_byte_comes_now_and_then() {
        let hash = blake3::hash(b"bytes");
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let len = 10 * RATE_MIN;
        let mut upload = Upload::new(silent, Said { len, hash });
        let now = Instant::now();
        assert!(upload.until > now && upload.until <= now + SILENCE + Duration::from_secs(10));
        upload.until = now;
        assert_eq!(upload.next().await, Err(Refusal::Slow));
        assert_eq!(upload.next().await, Err(Refusal::Slow));
    }

    #[tokio::test]
    async fn a_body_is_whole_and_no_longer_than_it_may_be() {
        let of = |pieces: [Result<&'static str, std::io::Error>; 2]| {
            let pieces = pieces.map(|piece| piece.map(Bytes::from));
            whole(Body::from_stream(stream::iter(pieces)), 5)
        };
        let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        assert_eq!(of([Ok("by"), Ok("tes")]).await, Ok(b"bytes".to_vec()));
        assert_eq!(of([Ok("by"), Ok("tes!")]).await, Err(Refusal::TooLong));
        assert_eq!(of([Ok("by"), Err(broken())]).await, Err(Refusal::Length));
        assert_eq!(whole(Body::empty(), 5).await, Ok(Vec::new()));
    }

    #[test]
    fn what_a_request_says_about_its_bytes_is_whole_or_refused() {
        let hash = blake3::hash(b"bytes");
        let said = |len: &str, hash: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, len.parse().unwrap());
            headers.insert(HASH_HEADER, hash.parse().unwrap());
            Said::by(&headers)
        };
        assert_eq!(said("5", &hash.to_hex()), Ok(Said { len: 5, hash }));
        for len in ["", "-1", "x", "99999999999999999999"] {
            assert_eq!(said(len, &hash.to_hex()), Err(Refusal::NoLength), "{len}");
        }
        let long = (OBJECT_BYTES_MAX + 1).to_string();
        assert_eq!(said(&long, &hash.to_hex()), Err(Refusal::TooLong));
        for bad in ["", "00", &hash.to_hex()[1..]] {
            assert_eq!(said("5", bad), Err(Refusal::NoHash), "{bad}");
        }
        assert_eq!(Said::by(&HeaderMap::new()), Err(Refusal::NoLength));
    }
}
