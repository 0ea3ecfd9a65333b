//! Names for what two devices changed: the name, and who changed it when.
//!
//! Takes   a name, and a label
//! Gives   a name with the label in it, no longer than a name may be
//! Never   cuts a character in two, or loses the extension that programs look at
//! Spec    spec/11-sync.md, [11.6.3]

use strongroom_metadata::limits::NAME_BYTES_MAX;

/// `name` with `label` before its extension, cut where it would be too long.
pub(crate) fn labelled(name: &[u8], label: &[u8]) -> Vec<u8> {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    // A name that begins with its only dot has no extension. One with a space in it is none, nor is the time in a conflict name.
    let is_one = |extension: &[u8]| !extension.iter().any(|byte| matches!(byte, b' ' | b')'));
    let dot = dot.filter(|dot| *dot > 0 && name.len() - dot <= 16 && is_one(&name[*dot..]));
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    let room = NAME_BYTES_MAX.saturating_sub(label.len() + extension.len());
    let mut len = stem.len().min(room);
    // No character is cut in two.
    while len > 0 && len < stem.len() && stem[len] & 0xc0 == 0x80 {
        len -= 1;
    }
    [&stem[..len], label, extension].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a name ends with is no extension if it is the time in a conflict name.
    #[test]
    fn a_conflict_name_comes_into_a_conflict_without_being_torn_apart() {
        let label = b" (conflict, b, 2026-11-24 09.00)";
        for (name, conflict) in [
            ("one.txt", "one (conflict, b, 2026-11-24 09.00).txt"),
            (".one", ".one (conflict, b, 2026-11-24 09.00)"),
            (
                "one (conflict, a, 2026-11-23 14.03)",
                "one (conflict, a, 2026-11-23 14.03) (conflict, b, 2026-11-24 09.00)",
            ),
            (
                "one (conflict, a, 2026-11-23 14.03).txt",
                "one (conflict, a, 2026-11-23 14.03) (conflict, b, 2026-11-24 09.00).txt",
            ),
        ] {
            assert_eq!(labelled(name.as_bytes(), label), conflict.as_bytes());
        }
    }
}
