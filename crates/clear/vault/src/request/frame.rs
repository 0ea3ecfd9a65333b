//! Turns messages into frames on the owner's socket and back.
//!
//! Takes   a value that serde knows, or a stream of bytes
//! Gives   a frame: length as 4 bytes little-endian, then the value in postcard's encoding; or the value of a frame
//! Never   accepts a length beyond `FRAME_BYTES_MAX`, or allocates memory for bytes that did not arrive

use std::fmt;
use std::io::{ErrorKind, Read, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::FRAME_BYTES_MAX;
use crate::{Error, Result};

/// Bytes of the length before each message.
const PREFIX_BYTES: usize = 4;

/// What reading a frame met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A whole frame is in the buffer.
    Frame,
    /// The other side closed between two frames.
    Closed,
}

/// Writes `message` as one frame, through `buffer`.
pub(crate) fn send(
    stream: &mut impl Write,
    buffer: &mut Vec<u8>,
    message: &impl Serialize,
) -> Result<()> {
    encode(buffer, message)?;
    stream
        .write_all(buffer)
        .map_err(Error::io("writing to the socket of the vault"))
}

/// Makes `buffer` hold the frame of `message`.
pub(crate) fn encode(buffer: &mut Vec<u8>, message: &impl Serialize) -> Result<()> {
    buffer.clear();
    buffer.extend_from_slice(&[0; PREFIX_BYTES]);
    let encoded = postcard::to_extend(message, std::mem::take(buffer));
    *buffer = encoded.map_err(|_| Error::Protocol("a message that cannot be encoded"))?;
    let len = buffer.len() - PREFIX_BYTES;
    if len > FRAME_BYTES_MAX {
        return Err(Error::Protocol("a message longer than a frame"));
    }
    let prefix = u32::try_from(len)
        .expect("FRAME_BYTES_MAX fits 32 bits")
        .to_le_bytes();
    buffer[..PREFIX_BYTES].copy_from_slice(&prefix);
    Ok(())
}

/// Reads one frame's message into `buffer`; decode it with [`decode`].
pub(crate) fn receive(stream: &mut impl Read, buffer: &mut Vec<u8>) -> Result<Arrival> {
    let mut prefix = [0; PREFIX_BYTES];
    if !read_prefix(stream, &mut prefix)? {
        return Ok(Arrival::Closed);
    }
    let len = u32::from_le_bytes(prefix) as usize;
    if len == 0 || len > FRAME_BYTES_MAX {
        return Err(Error::Protocol("a frame of an impossible length"));
    }
    buffer.clear();
    // `take` + `read_to_end` grows the buffer with what arrives, not with what was promised.
    let got = stream
        .take(len as u64)
        .read_to_end(buffer)
        .map_err(Error::io("reading from the socket of the vault"))?;
    if got < len {
        return Err(Error::Protocol("a frame that ends early"));
    }
    Ok(Arrival::Frame)
}

/// Gives false when the stream ends before the first byte.
fn read_prefix(stream: &mut impl Read, prefix: &mut [u8; PREFIX_BYTES]) -> Result<bool> {
    let mut filled = 0;
    while filled < PREFIX_BYTES {
        match stream.read(&mut prefix[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(Error::Protocol("a frame that ends early")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("reading from the socket of the vault")(error)),
        }
    }
    Ok(true)
}

/// The value in a message that [`receive`] gave.
pub(crate) fn decode<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T> {
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(Error::Protocol("bytes after the message")),
        Err(_) => Err(Error::Protocol("a message that cannot be decoded")),
    }
}

/// Borrowed bytes that are copied in one piece; serde takes a plain slice byte by byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

/// Owned bytes, likewise.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ByteBuffer(pub(crate) Vec<u8>);

// Both may hold file content or names: only their length is shown.
impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Debug for ByteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl Serialize for ByteBuffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Bytes)
    }
}

impl<'de> Deserialize<'de> for ByteBuffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteBuffer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> std::result::Result<ByteBuffer, E> {
                Ok(ByteBuffer(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(
                self,
                bytes: Vec<u8>,
            ) -> std::result::Result<ByteBuffer, E> {
                Ok(ByteBuffer(bytes))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let mut stream = Vec::new();
        let mut buffer = Vec::new();
        send(&mut stream, &mut buffer, &(Bytes(b"abc"), 7_u64)).expect("sent");
        assert_eq!(stream.len(), 4 + 1 + 3 + 1);
        let mut received = Vec::new();
        assert_eq!(
            receive(&mut stream.as_slice(), &mut received).expect("received"),
            Arrival::Frame
        );
        let (bytes, number): (Bytes<'_>, u64) = decode(&received).expect("decoded");
        assert_eq!((bytes.0, number), (&b"abc"[..], 7));
    }

    #[test]
    fn an_empty_stream_is_closed_and_a_torn_one_is_broken() {
        let mut buffer = Vec::new();
        assert_eq!(
            receive(&mut &[][..], &mut buffer).expect("closed"),
            Arrival::Closed
        );
        let mut frame = Vec::new();
        encode(&mut frame, &Bytes(b"some bytes")).expect("encoded");
        for len in 1..frame.len() {
            assert!(
                matches!(
                    receive(&mut &frame[..len], &mut buffer),
                    Err(Error::Protocol(_))
                ),
                "cut at {len}"
            );
        }
    }

    #[test]
    fn an_impossible_length_is_refused_before_any_memory_is_reserved() {
        for len in [0_u32, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
            let mut buffer = Vec::new();
            assert!(matches!(
                receive(&mut &len.to_le_bytes()[..], &mut buffer),
                Err(Error::Protocol(_))
            ));
            assert_eq!(buffer.capacity(), 0);
        }
    }

    #[test]
    fn a_length_inside_a_message_beyond_its_bytes_is_refused() {
        assert!(matches!(
            decode::<Bytes<'_>>(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1]),
            Err(Error::Protocol(_))
        ));
        assert!(matches!(
            decode::<ByteBuffer>(&[9, 1]),
            Err(Error::Protocol(_))
        ));
        assert!(matches!(decode::<u8>(&[1, 2]), Err(Error::Protocol(_))));
    }

    #[test]
    fn a_message_longer_than_a_frame_is_not_sent() {
        let bytes = vec![0; FRAME_BYTES_MAX];
        let mut stream = Vec::new();
        assert!(matches!(
            send(&mut stream, &mut Vec::new(), &Bytes(&bytes)),
            Err(Error::Protocol(_))
        ));
        assert!(stream.is_empty());
    }
}
