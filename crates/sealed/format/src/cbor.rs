//! Turns unsigned numbers, byte strings and arrays into canonical CBOR and back, so that one value has one encoding and one hash.
//!
//! Takes   values in the order of the specification, or bytes from anywhere
//! Gives   bytes for values, values for bytes; or a `FormatError` that names the fault
//! Never   accepts a second encoding of the same value, recurses, or allocates
//! Spec    spec/1-keys.md, section 1.2
//!
//! Invariants
//!  (1) `Decoder` accepts exactly the bytes that `Encoder` writes: shortest heads, definite lengths.    [1.2.1]
//!  (2) A length is compared with the number of bytes left before it is used.                            [1.2.3]

use crate::FormatError;

/// The three major types that Strongroom's records need.
const UNSIGNED: u8 = 0;
const BYTES: u8 = 2;
const ARRAY: u8 = 4;

/// Writes canonical CBOR (RFC 8949, 4.2) into a growing buffer.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder that has written nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an unsigned number in its shortest form.
    pub fn unsigned(&mut self, value: u64) -> &mut Self {
        self.head(UNSIGNED, value)
    }

    /// Appends a byte string.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.head(BYTES, value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Appends the head of an array; the caller appends exactly `count` items after it.
    pub fn array(&mut self, count: usize) -> &mut Self {
        self.head(ARRAY, count as u64)
    }

    /// The bytes written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn head(&mut self, major: u8, value: u64) -> &mut Self {
        let major = major << 5;
        let wide = value.to_be_bytes();
        match value {
            0..24 => self.bytes.push(major | wide[7]),
            24..0x100 => self.bytes.extend_from_slice(&[major | 24, wide[7]]),
            0x100..0x1_0000 => {
                self.bytes.push(major | 25);
                self.bytes.extend_from_slice(&wide[6..]);
            }
            0x1_0000..0x1_0000_0000 => {
                self.bytes.push(major | 26);
                self.bytes.extend_from_slice(&wide[4..]);
            }
            _ => {
                self.bytes.push(major | 27);
                self.bytes.extend_from_slice(&wide);
            }
        }
        self
    }
}

/// Reads canonical CBOR; anything else is an error.
#[derive(Debug)]
pub struct Decoder<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Begins at the first byte of `bytes`; `what` names the thing in errors.
    #[must_use]
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    /// The next item, which must be an unsigned number.
    ///
    /// # Errors
    /// `FormatError::Invalid` if it is another type, not in shortest form, or cut.
    pub fn unsigned(&mut self) -> Result<u64, FormatError> {
        self.head(UNSIGNED)
    }

    /// The next item, which must be a byte string of at most `max` bytes.
    ///
    /// # Errors
    /// `FormatError::Invalid` as above, `FormatError::TooLong` beyond `max`.
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], FormatError> {
        let len = self.bounded(BYTES, max)?;
        let (value, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| self.invalid("is truncated"))?;
        self.rest = rest;
        Ok(value)
    }

    /// The next item, which must be a byte string of exactly `N` bytes.
    ///
    /// # Errors
    /// `FormatError::Invalid` if it is not.
    pub fn bytes_exact<const N: usize>(&mut self) -> Result<&'a [u8; N], FormatError> {
        let value = self.bytes(N)?;
        value
            .try_into()
            .map_err(|_| self.invalid("has a byte string of the wrong length"))
    }

    /// The count of items of the array that begins here, at most `max`.
    ///
    /// # Errors
    /// `FormatError::Invalid` as above, `FormatError::TooLong` beyond `max`.
    pub fn array(&mut self, max: usize) -> Result<usize, FormatError> {
        self.bounded(ARRAY, max)
    }

    /// Begins an array that must hold exactly `count` items.
    ///
    /// # Errors
    /// `FormatError::Invalid` if it holds another number.
    pub fn array_exact(&mut self, count: usize) -> Result<(), FormatError> {
        match self.array(count)? {
            found if found == count => Ok(()),
            _ => Err(self.invalid("has an array of the wrong length")),
        }
    }

    /// Ends reading: nothing may be left.
    ///
    /// # Errors
    /// `FormatError::Invalid` if bytes follow.
    pub fn finish(self) -> Result<(), FormatError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.invalid("has bytes after its end"))
        }
    }

    /// An error about the thing being read.
    #[must_use]
    pub fn invalid(&self, why: &'static str) -> FormatError {
        FormatError::Invalid {
            what: self.what,
            why,
        }
    }

    fn bounded(&mut self, major: u8, max: usize) -> Result<usize, FormatError> {
        let len = self.head(major)?;
        match usize::try_from(len) {
            Ok(len) if len <= max => Ok(len),
            _ => Err(FormatError::TooLong {
                what: self.what,
                len,
                max: max as u64,
            }),
        }
    }

    fn head(&mut self, major: u8) -> Result<u64, FormatError> {
        let (&first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| self.invalid("is truncated"))?;
        if first >> 5 != major {
            return Err(self.invalid("has an item of the wrong type"));
        }
        let (width, least) = match first & 31 {
            short @ 0..24 => {
                self.rest = rest;
                return Ok(u64::from(short));
            }
            24 => (1, 24),
            25 => (2, 0x100),
            26 => (4, 0x1_0000),
            27 => (8, 0x1_0000_0000),
            _ => return Err(self.invalid("is not canonical")),
        };
        let (digits, rest) = rest
            .split_at_checked(width)
            .ok_or_else(|| self.invalid("is truncated"))?;
        let value = digits
            .iter()
            .fold(0_u64, |value, &digit| value << 8 | u64::from(digit));
        if value < least {
            return Err(self.invalid("is not canonical"));
        }
        self.rest = rest;
        Ok(value)
    }
}

/// A number of either sign as one without: small ones stay small.
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned()
}

/// The inverse of `zigzag`.
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.unsigned(value);
        encoder.finish()
    }

    /// Known answers of RFC 8949, appendix A.
    #[test]
    fn numbers_encode_as_the_standard_says() {
        for (value, expected) in [
            (0, "00"),
            (23, "17"),
            (24, "1818"),
            (100, "1864"),
            (1000, "1903e8"),
            (1_000_000, "1a000f4240"),
            (1_000_000_000_000, "1b000000e8d4a51000"),
            (u64::MAX, "1bffffffffffffffff"),
        ] {
            assert_eq!(crate::hex::encode(&encoded(value)), expected);
        }
    }

    #[test]
    fn every_border_of_a_width_comes_back() {
        for value in [
            0,
            23,
            24,
            255,
            256,
            65_535,
            65_536,
            0xffff_ffff,
            0x1_0000_0000,
            u64::MAX,
        ] {
            let bytes = encoded(value);
            let mut decoder = Decoder::new("number", &bytes);
            assert_eq!(decoder.unsigned(), Ok(value));
            assert_eq!(decoder.finish(), Ok(()));
        }
    }

    #[test]
    fn a_longer_form_of_a_number_is_refused() {
        for bytes in [
            &[0x18, 23][..],
            &[0x19, 0, 255],
            &[0x1a, 0, 0, 255, 255],
            &[0x1b, 0, 0, 0, 0, 255, 255, 255, 255],
            &[0x1f],
        ] {
            let result = Decoder::new("number", bytes).unsigned();
            assert_eq!(
                result,
                Err(FormatError::Invalid {
                    what: "number",
                    why: "is not canonical"
                })
            );
        }
    }

    #[test]
    fn a_length_beyond_the_bound_or_the_input_is_refused_without_reading() {
        let huge = [0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(matches!(
            Decoder::new("text", &huge).bytes(10),
            Err(FormatError::TooLong {
                len: u64::MAX,
                max: 10,
                ..
            })
        ));
        assert_eq!(
            Decoder::new("text", &[0x45, 1, 2]).bytes(10),
            Err(FormatError::Invalid {
                what: "text",
                why: "is truncated"
            })
        );
        assert_eq!(
            Decoder::new("text", &[0x19, 1]).unsigned(),
            Err(FormatError::Invalid {
                what: "text",
                why: "is truncated"
            })
        );
        assert_eq!(
            Decoder::new("text", &[]).unsigned(),
            Err(FormatError::Invalid {
                what: "text",
                why: "is truncated"
            })
        );
    }

    #[test]
    fn the_wrong_type_and_trailing_bytes_are_refused() {
        assert!(Decoder::new("x", &[0x80]).unsigned().is_err());
        assert!(Decoder::new("x", &[0x00]).bytes(1).is_err());
        assert!(Decoder::new("x", &[0x00]).finish().is_err());
        assert!(Decoder::new("x", &[0x41, 7]).bytes_exact::<2>().is_err());
        assert!(Decoder::new("x", &[0x81]).array_exact(2).is_err());
    }
}
