//! Names of segment files: `ab/` and 32 hexadecimal digits that begin with `ab`.

use strongroom_format::SegmentId;

/// The name of the folder that holds `id`.
pub(crate) fn folder_name(first_byte: u8) -> String {
    format!("{first_byte:02x}")
}

/// The path of `id` below the folder of segments.
pub(crate) fn path(id: SegmentId) -> String {
    format!("{}/{}", folder_name(id.0[0]), file_name(id))
}

/// The name of the file of `id` in its folder.
pub(crate) fn file_name(id: SegmentId) -> String {
    id.0.iter().map(|byte| folder_name(*byte)).collect()
}

/// The byte that a folder is named for; `None` for a name that no segment folder has.
pub(crate) fn parse_folder(name: &[u8]) -> Option<u8> {
    let [high, low] = name else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// The segment that a file is named for; `None` for a name that no segment in folder `first_byte` has.
pub(crate) fn parse_file(first_byte: u8, name: &[u8]) -> Option<SegmentId> {
    let (pairs, []) = name.as_chunks::<2>() else {
        return None;
    };
    let pairs: &[[u8; 2]; 16] = pairs.try_into().ok()?;
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(pairs) {
        *byte = parse_folder(pair)?;
    }
    (id[0] == first_byte).then_some(SegmentId(id))
}

/// Lower case only: one segment has one name.
fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_parses_back_to_its_segment() {
        let id = SegmentId([0xab, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0xff]);
        let path = path(id);
        assert_eq!(path, "ab/ab000102030405060708090a0b0c0dff");
        assert_eq!(parse_folder(&path.as_bytes()[..2]), Some(0xab));
        assert_eq!(parse_file(0xab, &path.as_bytes()[3..]), Some(id));
    }

    #[test]
    fn other_names_are_no_segments() {
        for name in [
            "",
            "ab",
            "AB000102030405060708090A0B0C0DFF",
            "ab000102030405060708090a0b0c0dff0",
            "cd000102030405060708090a0b0c0dff",
        ] {
            assert_eq!(parse_file(0xab, name.as_bytes()), None, "{name}");
        }
        for name in ["", "a", "abc", "AB", "g0", ".."] {
            assert_eq!(parse_folder(name.as_bytes()), None, "{name}");
        }
    }
}
