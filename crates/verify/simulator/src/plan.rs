//! Makes a sequence of operations from a seed.
//!
//! Takes   a seed and a count
//! Gives   acts, like those of a busy user of a vault, with occasional syncs
//! Never   accesses a file system: an act has a meaning on any tree
//! Spec    none: test only

use strongroom::Compression;
use strongroom_conformance::operation::Operation;
use strongroom_filesystem::{AllocateMode, NodeKind, RenameMode, XattrMode};

use crate::random::Choices;

/// Bytes of a file whose extents share a row: 4 MiB.
const REGION_BYTES: u64 = 4 << 20;

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Something a caller asks for.
    Operation(Operation),
    /// What the background thread does from time to time: drains, commits, moves, reclaims.
    Tick,
    /// Everything durable, and no waste left in any segment.
    Compact,
    /// New keys seal from here on, as after a key slot was removed.
    BeginEpoch,
    /// New keys seal from here on, what older ones sealed is re-sealed, and they go.
    Rotate,
    /// What is written from here on is compressed, or not.
    Compress(Compression),
    /// Takes a revision.
    Take,
    /// Removes one of the kept revisions, oldest first counted.
    Remove(u8),
    /// Erases what was at the path of one of the files of one of them.
    Erase(u8),
}

/// The acts of `seed`.
#[must_use]
pub fn acts(seed: u64, count: usize) -> Vec<Act> {
    let mut choices = Choices::named(seed, &[0x0ac7]);
    // Some seeds sync often, some hardly ever: both ends find what the other cannot.
    let syncs = *choices.one_of(&[1, 4, 12]);
    let ticks = *choices.one_of(&[1, 3, 8]);
    // From numbers of their own: a seed's other acts are the same with epochs and revisions and without.
    let mut changes = Choices::named(seed, &[0xe90c]);
    let epochs = *changes.one_of(&[0, 1, 4]);
    let mut keeping = Choices::named(seed, &[0x4e9f]);
    let revisions = *keeping.one_of(&[0, 2, 6]);
    let mut rotating = Choices::named(seed, &[0x5ea1]);
    let rotations = *rotating.one_of(&[0, 2, 5]);
    let mut erasing = Choices::named(seed, &[0xe2a5]);
    let erasures = *erasing.one_of(&[0, 2, 5]);
    let mut compressing = Choices::named(seed, &[0xc035]);
    let switches = *compressing.one_of(&[0, 0, 6]);
    let mut saving = Choices::named(seed, &[0x5a7e]);
    let saves = *saving.one_of(&[0, 4, 16]);
    (0..count)
        .map(|_| {
            let switch = (compressing.below(100) < switches).then(|| compression(&mut compressing));
            let act = act(&mut choices, syncs, ticks);
            let rotates = rotating.below(100) < rotations;
            let erases = (erasing.below(100) < erasures).then(|| byte(&mut erasing));
            if changes.below(100) < epochs {
                return Act::BeginEpoch;
            }
            if let Some(compression) = switch {
                return Act::Compress(compression);
            }
            match keeping.below(100) < revisions {
                true if keeping.chance(2, 3) => Act::Take,
                true => Act::Remove(byte(&mut keeping)),
                false if rotates => Act::Rotate,
                false => erases.map_or(act, Act::Erase),
            }
        })
        .flat_map(|act| {
            let mut acts = vec![act];
            if saving.below(100) < saves {
                acts.extend(small_syncs(&mut saving));
            }
            acts
        })
        .take(count)
        .collect()
}

/// A program that saves a little, again and again, to one of two files: what the intent log is for.
fn small_syncs(choices: &mut Choices) -> Vec<Act> {
    let file = *choices.one_of(&[0, 1]);
    (0..2 + choices.below(5))
        .flat_map(|_| {
            let fill = byte(choices);
            let len = 1 + u32::try_from(choices.below(6_000)).unwrap_or(0);
            let write = match choices.chance(1, 2) {
                true => Operation::Append { file, len, fill },
                false => Operation::Write {
                    file,
                    offset: u32::try_from(choices.below(40_000)).unwrap_or(0),
                    len,
                    fill,
                },
            };
            [write, Operation::SyncFile { file }].map(Act::Operation)
        })
        .collect()
}

fn act(choices: &mut Choices, syncs: u64, ticks: u64) -> Act {
    let drawn = choices.below(60 + syncs + ticks + 1);
    match drawn.checked_sub(60 + syncs) {
        None => {}
        Some(0) => return Act::Compact,
        Some(_) => return Act::Tick,
    }
    Act::Operation(match drawn {
        0..25 => on_names(choices),
        25..54 => on_content(choices),
        54..60 => on_nodes(choices),
        _ if choices.chance(1, 5) => Operation::Sync,
        _ => Operation::SyncNode {
            node: byte(choices),
        },
    })
}

fn compression(choices: &mut Choices) -> Compression {
    match choices.chance(2, 3) {
        true => Compression::Zstd,
        false => Compression::None,
    }
}

fn byte(choices: &mut Choices) -> u8 {
    choices.number().to_le_bytes()[0]
}

fn name(choices: &mut Choices) -> u8 {
    byte(choices) % 8
}

fn offset(choices: &mut Choices) -> u32 {
    let bound = *choices.one_of(&[1, 5_000, 70_000, 300_000]);
    // Now and then behind the first region of extents, so that a file has several; not often, because the model remembers
    // every state of the whole file.
    let from = if choices.chance(1, 10) {
        REGION_BYTES
    } else {
        0
    };
    u32::try_from(from + choices.below(bound)).unwrap_or(0)
}

fn len(choices: &mut Choices) -> u32 {
    let bound = *choices.one_of(&[100, 5_000, 5_000, 70_000, 200_000]);
    1 + u32::try_from(choices.below(bound)).unwrap_or(0)
}

fn on_names(choices: &mut Choices) -> Operation {
    match choices.below(20) {
        0..8 => {
            let kinds = [
                NodeKind::File,
                NodeKind::File,
                NodeKind::File,
                NodeKind::Directory,
                NodeKind::Directory,
                NodeKind::Symlink,
            ];
            let kind = *choices.one_of(&kinds);
            Operation::Create {
                parent: byte(choices),
                name: name(choices),
                kind,
                mode: 0o644,
            }
        }
        8 => Operation::CreateUnnamed {
            parent: byte(choices),
            mode: 0o600,
        },
        9..11 => Operation::Link {
            node: byte(choices),
            parent: byte(choices),
            name: name(choices),
        },
        11..13 => Operation::Unlink {
            parent: byte(choices),
            name: name(choices),
        },
        13 => Operation::RemoveDirectory {
            parent: byte(choices),
            name: name(choices),
        },
        14 => Operation::Forget {
            node: byte(choices),
        },
        _ => {
            let mode = *choices.one_of(&[
                RenameMode::Replace,
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
                RenameMode::Whiteout,
            ]);
            Operation::Rename {
                from: (byte(choices), name(choices)),
                to: (byte(choices), name(choices)),
                mode,
            }
        }
    }
}

fn on_content(choices: &mut Choices) -> Operation {
    let file = byte(choices);
    match choices.below(20) {
        0..9 => Operation::Write {
            file,
            offset: offset(choices),
            len: len(choices),
            fill: byte(choices),
        },
        9..12 => Operation::Append {
            file,
            len: len(choices),
            fill: byte(choices),
        },
        12..15 => Operation::Truncate {
            file,
            size: offset(choices),
        },
        15..17 => {
            let modes = [
                AllocateMode::Reserve,
                AllocateMode::ReserveKeepSize,
                AllocateMode::PunchHole,
                AllocateMode::ZeroRange,
            ];
            let mode = *choices.one_of(&modes);
            Operation::Allocate {
                file,
                mode,
                offset: offset(choices),
                len: len(choices),
            }
        }
        17 => Operation::Read {
            file,
            offset: offset(choices),
            len: len(choices),
        },
        _ => Operation::Copy {
            source: file,
            source_offset: offset(choices),
            target: byte(choices),
            target_offset: offset(choices),
            len: len(choices),
        },
    }
}

fn on_nodes(choices: &mut Choices) -> Operation {
    let node = byte(choices);
    match choices.below(3) {
        0 => Operation::Mode {
            node,
            mode: u32::try_from(choices.below(0o1000)).unwrap_or(0),
        },
        1 => Operation::Owner {
            node,
            uid: u32::from(byte(choices)),
            gid: u32::from(byte(choices)),
        },
        _ => Operation::SetXattr {
            node,
            name: byte(choices),
            len: u16::from(byte(choices)),
            mode: XattrMode::Set,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_plan() {
        assert_eq!(acts(3, 200), acts(3, 200));
        assert_ne!(acts(3, 200), acts(4, 200));
        assert_eq!(acts(3, 200)[..50], acts(3, 50)[..]);
    }

    #[test]
    fn some_seeds_of_the_main_run_compress_and_some_do_not() {
        let compresses = |seed| {
            acts(seed, 150)
                .iter()
                .any(|act| matches!(act, Act::Compress(_)))
        };
        let count = (20..26).filter(|seed| compresses(*seed)).count();
        assert!((1..6).contains(&count), "{count}");
    }
}
