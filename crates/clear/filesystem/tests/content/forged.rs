//! Blocks forged by a former member who had the keys of an epoch, and a batch forged by somebody without keys.

use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use strongroom_filesystem::{Error, InodeId};
use strongroom_format::limits::SEGMENT_BYTES_MAX;
use strongroom_format::segment::{
    BATCH_HEADER_BYTES, BatchHeader, BatchSize, FIRST_BATCH_OFFSET, ScanTail, checksum, scan,
};
use strongroom_format::{BlockId, Epoch, Kind};

use super::{all, pattern};
use crate::support::{Lab, ROOT, epoch_key_bytes, sealer};

/// Seals `clear` under `id` and the key of epoch 0, whatever it is that `id` names: spec 2.10 to 2.18 with primitives alone.
fn seal_under(id: &BlockId, clear: &[u8]) -> Vec<u8> {
    let context = "strongroom format 1 2026-11-21 block sealing";
    let block_key = blake3::derive_key(context, &epoch_key_bytes(0));
    let mut secret = [0; 44];
    blake3::Hasher::new_keyed(&block_key)
        .update(&1_u16.to_le_bytes())
        .update(&id.0)
        .finalize_xof()
        .fill(&mut secret);
    let key = UnboundKey::new(&AES_256_GCM, &secret[..32]).expect("32 bytes");
    let key = LessSafeKey::new(key);
    let chunks: Vec<_> = clear.chunks(4096).collect();
    let mut sealed = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let mut nonce: [u8; 12] = secret[32..].try_into().expect("12 bytes");
        let mask = (number as u64).to_le_bytes();
        nonce
            .iter_mut()
            .zip(mask)
            .for_each(|(byte, mask)| *byte ^= mask);
        nonce[11] ^= u8::from(number + 1 == chunks.len());
        let mut bytes = chunk.to_vec();
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut bytes,
        )
        .expect("a chunk is short");
        sealed.extend(bytes);
    }
    sealed
}

/// The segment file that holds `bytes`, and where.
fn find(folder: &Path, bytes: &[u8]) -> Option<(PathBuf, usize)> {
    for entry in std::fs::read_dir(folder).expect("lists") {
        let path = entry.expect("an entry").path();
        let found = match path.is_dir() {
            true => find(&path, bytes),
            false => std::fs::read(&path)
                .expect("reads")
                .windows(bytes.len())
                .position(|window| window == bytes)
                .map(|at| (path, at)),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Puts `there`, sealed under the name of the block that `content` is, in the place of `here`, sealed so too.
fn replace(lab: &Lab, content: &[u8], here: &[u8], there: &[u8]) {
    let block = sealer(0).seal(Kind::Data, content);
    assert_eq!(seal_under(&block.id, content), block.bytes);
    let (here, there) = (seal_under(&block.id, here), seal_under(&block.id, there));
    let (path, at) = find(&lab.path().join("segments"), &here).expect("it is stored");
    let mut bytes = std::fs::read(&path).expect("reads");
    bytes[at..at + there.len()].copy_from_slice(&there);
    std::fs::write(&path, bytes).expect("writes");
}

fn read(lab: &Lab, file: InodeId, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; len];
    lab.read(file, offset, &mut out).map(|_| out)
}

/// Goal: who was a member once and knows an old epoch's keys cannot put content of his in the place of a block of that epoch.
/// Method: with the keys of epoch 0 another content is sealed under the block's own name; all its tags fit. As long as nobody
/// was retired that is what a read gives (only a member can have done it); once somebody was, every part of it is refused.
/// Failed before: a read gave the forged bytes until a rotation had ended.
/// SECURITY.md, claim 5.
#[test]
fn what_a_former_holder_of_a_key_sealed_under_the_name_of_a_block_is_refused() {
    let (content, forged) = (pattern(1, 65_536), pattern(9, 65_536));
    let lab = Lab::new();
    let file = lab.file(ROOT, "invoice");
    lab.write(file, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    replace(&lab, &content, &content, &forged);
    assert_eq!(all(&lab, file), forged, "the tags fit");
    lab.begin_epoch(sealer(1).proving_fully_before(Epoch(1)))
        .expect("an epoch begins");
    for (offset, len) in [
        (0, 65_536),
        (0, 1),
        (4_095, 2),
        (65_535, 1),
        (20_000, 4_096),
    ] {
        let refused = read(&lab, file, offset, len);
        assert!(
            matches!(refused, Err(Error::Damaged { .. })),
            "{offset}: {refused:?}"
        );
    }
    replace(&lab, &content, &forged, &content);
    assert_eq!(all(&lab, file), content, "and what is right is read");
    assert_eq!(
        read(&lab, file, 4_095, 2).expect("reads"),
        content[4_095..4_097]
    );
}

/// Puts a batch of noise behind those of an open segment, up to the end of the longest one. Its header takes no key.
fn fill_up(path: &Path) {
    let mut bytes = std::fs::read(path).expect("reads");
    let found = scan(&bytes).expect("a segment");
    assert!(found.tail == ScanTail::Open && found.end > FIRST_BATCH_OFFSET);
    let len = SEGMENT_BYTES_MAX - found.end;
    let end = usize::try_from(found.end).expect("small");
    let payload = pattern(7, usize::try_from(len).expect("small") - BATCH_HEADER_BYTES);
    let forged = BatchHeader {
        segment: found.header.id,
        number: u32::try_from(found.batches.len()).expect("few"),
        size: BatchSize::Sectors(u32::try_from(len / 4096).expect("few")),
        payload_checksum: checksum(&[&payload]),
        previous: found.chain,
    };
    bytes.truncate(end);
    bytes.extend_from_slice(&forged.encode());
    bytes.extend_from_slice(&payload);
    std::fs::write(path, bytes).expect("writes");
}

/// Goal: somebody who can write the folder cannot keep the vault from being written. Method: a batch in the open segment of a closed vault that
/// leaves no room for its end; then the vault is opened, written, closed and opened again.
/// Failed before: the batch was taken up, the first write behind it wanted to end the segment, and neither a close nor any later opening
/// for writing succeeded.
#[test]
fn a_segment_that_somebody_filled_up_keeps_no_vault_from_being_written() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let content = pattern(1, 200_000);
    lab.write(file, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    lab.close().expect("closes");
    let block = sealer(0).seal(Kind::Data, &content[..65_536]);
    lab.crash_while(|folder| {
        let (path, _) = find(&folder.join("segments"), &block.bytes).expect("it is stored");
        fill_up(&path);
    });
    let other = lab.file(ROOT, "other");
    let more = pattern(2, 200_000);
    lab.write(other, 0, &more).expect("writes");
    lab.sync().expect("syncs");
    for _ in 0..2 {
        lab.reopen();
        assert!(all(&lab, file) == content && all(&lab, other) == more);
    }
}
