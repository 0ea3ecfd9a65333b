//! Parses a size that a user typed, such as `500M`, into a number of bytes.

/// A quota or limit to set; `None` takes it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewQuota(pub(crate) Option<u64>);

/// Bytes, or a number of KiB, MiB, GiB or TiB: `500M`, `20G`, `20GiB`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err("a size is a number, or a number followed by K, M, G or T".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a size is a whole number, as in 500M".to_owned())?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("a size is at least one byte".to_owned()),
        // The database stores signed numbers.
        Some(bytes) if i64::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err("this size is larger than any disk".to_owned()),
    }
}

/// The same, or `none`.
pub(crate) fn parse_or_none(text: &str) -> Result<NewQuota, String> {
    if text == "none" {
        return Ok(NewQuota(None));
    }
    parse(text).map(|bytes| NewQuota(Some(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_or_without_a_unit() {
        for (text, bytes) in [
            ("1", 1),
            ("4096B", 4096),
            ("500M", 500 << 20),
            ("20GiB", 20 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "", "0", "0G", "-1", "1.5G", "G", "1 G", "1g", "9000000T", "1Gö",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_or_none("none"), Ok(NewQuota(None)));
        assert!(parse("none").is_err());
    }
}
