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
    // A name that begins with its only dot has no extension, and one with a space in it is none.
    let dot = dot.filter(|dot| *dot > 0 && name.len() - dot <= 16 && !name[*dot..].contains(&b' '));
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    let room = NAME_BYTES_MAX.saturating_sub(label.len() + extension.len());
    let mut len = stem.len().min(room);
    // No character is cut in two.
    while len > 0 && len < stem.len() && stem[len] & 0xc0 == 0x80 {
        len -= 1;
    }
    [&stem[..len], label, extension].concat()
}
