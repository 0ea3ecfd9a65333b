//! Turns bytes into lower-case hexadecimal and back.
//!
//! Takes   bytes, or text from anywhere
//! Gives   text for bytes, bytes for text; `None` for text that is not exactly the lower-case digits of `N` bytes
//! Never   handles secrets: its time depends on the digits
//! Spec    spec/1-keys.md, section 1.1

/// Two lower-case digits per byte.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The `N` bytes that `text` spells; `None` unless it is exactly `2 * N` lower-case digits.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=255 {
            assert_eq!(decode(&encode(&[byte, !byte])), Some([byte, !byte]));
        }
    }

    #[test]
    fn other_lengths_and_other_digits_are_refused() {
        for text in ["", "0", "000", "0g", "AB", "é"] {
            assert_eq!(decode::<1>(text), None, "{text}");
        }
    }
}
