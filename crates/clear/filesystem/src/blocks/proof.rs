//! Checks whether sealed bytes are the block that a row describes.
//!
//! Takes   a row and sealed bytes
//! Gives   whether they open
//! Never   reads from a disk

use strongroom_crypto::BlockSealer;
use strongroom_metadata::Block;

/// How a block is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// All its tags fit; of compressed blocks as `Full`.
    Tags,
    /// Its name is recomputed, too.
    Full,
}

/// Whether `sealed` is the block; `clear` is memory to open into.
pub(crate) fn opens(
    sealer: &BlockSealer,
    block: &Block,
    sealed: Option<&[u8]>,
    proof: Proof,
    clear: &mut Vec<u8>,
) -> bool {
    let (Some(sealed), len) = (sealed, block.clear_len as usize) else {
        return false;
    };
    // No chunk is read for an empty range, and so none is proven. How long compressed content is only opening it tells.
    if proof == Proof::Full || len == 0 || block.kind.is_compressed() {
        return sealer
            .open(block.epoch, block.kind, &block.id, len, sealed)
            .is_ok();
    }
    if clear.len() < len {
        clear.resize(len, 0);
    }
    sealer
        .open_range(
            block.epoch,
            block.kind,
            &block.id,
            len,
            0..len,
            sealed,
            &mut clear[..len],
        )
        .is_ok()
}
