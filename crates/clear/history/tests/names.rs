//! Names in trees that others made: one that no file can have is damage, wherever the tree comes from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use strongroom_format::Kind;
use strongroom_format::cbor::Encoder;
use strongroom_history::names_of_block;

/// A leaf of a tree with one empty file of that name.
fn leaf(name: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(0).array(1).array(16);
    encoder.bytes(name).unsigned(2).unsigned(77).unsigned(1);
    encoder.unsigned(0o644).unsigned(1000).unsigned(1000);
    encoder.unsigned(1).unsigned(0);
    for time in [2_000, 0, 3, 0] {
        encoder.unsigned(time);
    }
    encoder.unsigned(1).array(0);
    encoder.array(3).unsigned(0).unsigned(0).array(0);
    encoder.finish()
}

/// Goal: no pull, clone or snapshot gets a name to work with that leads elsewhere or cannot be stored. Method: a leaf that is well-formed but for
/// its name; the longest good one is beside those that are too long.
#[test]
fn a_name_that_no_file_can_have_is_damage_in_a_tree() {
    let (longest, longer) = ([b'n'; 255], [b'n'; 256]);
    for name in [&b"name"[..], b"\xff", b"...", b".history", &longest] {
        let named = names_of_block(Kind::TreeNode, &leaf(name));
        assert!(named.unwrap().is_empty(), "{name:?}");
    }
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"nul\0", &longer] {
        let read = names_of_block(Kind::TreeNode, &leaf(name));
        assert!(read.is_err(), "{name:?}");
    }
}
