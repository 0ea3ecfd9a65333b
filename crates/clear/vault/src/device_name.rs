//! The name of a device: the attribute of the root directory that holds it, and the rule for such names.
//!
//! Takes   the id of a device; a name; the value of an attribute
//! Gives   the attribute of that device; whether the name is allowed; the name in a value
//! Never   gives a name that is too long or could deceive a reader, whoever wrote it
//! Spec    spec/1-keys.md, section 1.12

use crate::deposit_name::is_deceptive;

/// The longest name of a device, in bytes.
pub const DEVICE_NAME_BYTES_MAX: usize = 64;

/// What the attributes begin with; the id of the device follows, as people see it. Only root sees them on a mount.
const PREFIX: &[u8] = b"trusted.strongroom.device-name.";

/// The attribute with the name of the device of that id.
pub(crate) fn attribute_of(device: &str) -> Vec<u8> {
    [PREFIX, device.as_bytes()].concat()
}

/// The id of the device whose name an attribute is; `None` for any other attribute.
pub(crate) fn device_of(attribute: &[u8]) -> Option<&[u8]> {
    attribute.strip_prefix(PREFIX)
}

/// Whether a device may have that name. It is shown in quotation marks.                                         [1.12.1]
pub(crate) fn is_plain(name: &str) -> bool {
    let is_odd = |one: char| {
        let is_space = one.is_whitespace() && one != ' ';
        is_space || is_deceptive(one) || matches!(one, '"' | '\\')
    };
    !name.is_empty()
        && name.len() <= DEVICE_NAME_BYTES_MAX
        && name.trim() == name
        && !name.chars().any(is_odd)
}

/// The name that a value is; `None` if no device may have it.                                                   [1.12.1]
pub(crate) fn read(value: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(value).ok();
    name.filter(|name| is_plain(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_deceives_nobody() {
        let longest = "n".repeat(DEVICE_NAME_BYTES_MAX);
        for name in [
            "laptop",
            "Anna's 2nd laptop",
            "\u{e9}t\u{e9} (old)",
            &longest,
        ] {
            assert_eq!(read(name.as_bytes()), Some(name), "{name:?}");
        }
        let long = "n".repeat(DEVICE_NAME_BYTES_MAX + 1);
        let endless = "n".repeat(1 << 20);
        for name in [
            "",
            " ",
            " laptop",
            "laptop ",
            "lap\ntop",
            "lap\u{1b}[2Jtop",
            "lap\u{202e}pot",
            "lap\u{2066}top",
            "lap\u{200b}top",
            "lap\u{a0}top",
            "lap\u{2028}top",
            "lap\0top",
            "lap\", this copy",
            "lap\\u{20}top",
            &long,
            &endless,
        ] {
            assert_eq!(read(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(read(b"lap\xfftop"), None);
    }

    #[test]
    fn an_attribute_is_that_of_one_device() {
        let attribute = attribute_of("0123456789abcdef");
        assert_eq!(device_of(&attribute), Some(&b"0123456789abcdef"[..]));
        for other in [&b"trusted.strongroom.inbox"[..], b"user.a", b""] {
            assert_eq!(device_of(other), None);
        }
    }
}
