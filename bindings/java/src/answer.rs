//! Encodes answers that are more than a number as bytes; `Reader.java` reads them in the same order.
//!
//! Numbers have 8 bytes, the highest first. Bytes and text follow their length, and a list follows its count.

use jni::Env;
use jni::objects::JByteArray;
use zeroize::Zeroizing;

use crate::border::{EFBIG, Fail, Outcome};

/// Room from the start, so that a secret is not copied when the answer grows: more than a key file, a code and a fingerprint have.
const START_BYTES: usize = 1024;

/// An answer under way. It is wiped: some hold secrets.
pub(crate) struct Answer(Zeroizing<Vec<u8>>);

impl Answer {
    pub(crate) fn new() -> Self {
        Self(Zeroizing::new(Vec::with_capacity(START_BYTES)))
    }

    pub(crate) fn number(mut self, number: i64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(crate) fn count(self, count: u64) -> Self {
        self.number(crate::border::signed(count))
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.number(i64::from(flag))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let mut with_len = self.count(bytes.len() as u64);
        with_len.0.extend_from_slice(bytes);
        with_len
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Each of `items`, after their count.
    pub(crate) fn list<T>(
        self,
        items: impl ExactSizeIterator<Item = T>,
        put: impl FnMut(Self, T) -> Self,
    ) -> Self {
        let counted = self.count(items.len() as u64);
        items.fold(counted, put)
    }

    /// A list of bytes.
    pub(crate) fn names<T: AsRef<[u8]>>(self, names: &[T]) -> Self {
        self.list(names.iter(), |answer, name| answer.bytes(name.as_ref()))
    }

    /// As Java gets it.
    pub(crate) fn give<'local>(self, env: &mut Env<'local>) -> Outcome<JByteArray<'local>> {
        array(env, &self.0)
    }
}

/// Bytes as Java gets them.
pub(crate) fn array<'local>(env: &mut Env<'local>, bytes: &[u8]) -> Outcome<JByteArray<'local>> {
    // Whoever heard of progress threw when all was done.
    if env.exception_check() {
        return Err(jni::errors::Error::JavaException.into());
    }
    match i32::try_from(bytes.len()) {
        Ok(_) => Ok(env.byte_array_from_slice(bytes)?),
        Err(_) => Err(Fail::Here(
            EFBIG,
            "a Java array holds up to 2 GiB; read in parts",
        )),
    }
}
