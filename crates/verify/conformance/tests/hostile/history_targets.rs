//! The decoders of snapshot trees: of opened blocks with nodes, and of opened revisions.

use strongroom_crypto::RevisionSigner;
use strongroom_format::cbor::Encoder;
use strongroom_format::{BlockId, Kind, RecordId, VaultId};
use strongroom_history::{Revision, RevisionBody, RevisionId, names_of_block};
use strongroom_metadata::Timestamp;

use crate::target::Target;

pub(crate) fn all() -> Vec<Target> {
    vec![
        node("tree-node", Kind::TreeNode, vec![leaf(), branch(), value()]),
        node("extent-list", Kind::ExtentList, vec![extents(), branch()]),
        revision(),
    ]
}

fn node(name: &'static str, kind: Kind, seeds: Vec<Vec<u8>>) -> Target {
    // Items are decoded one by one, and none can be smaller than its fields say.
    Target::new(name, seeds, move |bytes| {
        names_of_block(kind, bytes).is_ok()
    })
    .bound(|len| 64 * len + 16 * 1024)
}

/// A leaf with one file of two extents.
fn leaf() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(0).array(1).array(16);
    encoder.bytes(b"name").unsigned(2).unsigned(77).unsigned(1);
    encoder.unsigned(0o644).unsigned(1000).unsigned(1000);
    encoder.unsigned(1).unsigned(70_000);
    for time in [2_000, 0, 3, 0] {
        encoder.unsigned(time);
    }
    encoder.unsigned(1).array(1).bytes(&[9; 32]);
    encoder.array(3).unsigned(70_000).unsigned(0).array(8);
    encoder.unsigned(0).unsigned(0).bytes(&[1; 32]).unsigned(0);
    encoder
        .unsigned(0)
        .unsigned(65_536 - 4_464)
        .bytes(&[2; 32])
        .unsigned(0);
    encoder.finish()
}

fn branch() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(1).array(8);
    for digit in [3, 15] {
        encoder
            .unsigned(digit)
            .bytes(&[5; 32])
            .unsigned(100)
            .unsigned(12_000);
    }
    encoder.finish()
}

fn value() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(3).bytes(&[7; 600]);
    encoder.finish()
}

fn extents() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(0).array(20);
    for at in 0..20 {
        encoder
            .array(4)
            .unsigned(at * 65_536)
            .unsigned(65_536)
            .bytes(&[6; 32])
            .unsigned(0);
    }
    encoder.finish()
}

fn revision() -> Target {
    let signer = RevisionSigner::from_seed([1; 32], VaultId([2; 32]));
    let body = RevisionBody {
        vault: VaultId([2; 32]),
        parents: vec![RevisionId([3; 32])],
        root: BlockId([4; 32]),
        device: signer.device(),
        sequence: 5,
        membership_head: RecordId([6; 32]),
        time: Timestamp(7),
        message: "a message".to_owned(),
        tags: vec!["one".to_owned(), "two".to_owned()],
    };
    let seed = Revision::sign(body, &signer).unwrap().encode();
    Target::new("revision", vec![seed], move |bytes| {
        Revision::decode(bytes, &signer).is_ok_and(|found| {
            assert_eq!(found.encode(), bytes);
            true
        })
    })
    .bound(|len| 16 * len + 4096)
    .cost(20)
}
