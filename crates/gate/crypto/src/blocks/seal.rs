//! Seals clear blocks, so that nobody without the vault's keys can read, alter or swap them.
//!
//! Takes   clear bytes and their kind
//! Gives   a `SealedBlock`, named by its `BlockId`: its content, and one tag per chunk. If the sealer compresses and that
//!         saves enough (`seal_into`), the block gets the kind that means compressed
//! Never   stores, chooses keys, or names a crypto library
//! Spec    spec/2-block.md, [2.1] to [2.19]
//!
//! Invariants
//!  (1) One key and nonce never seal two different plaintexts.      [2.14]
//!  (2) The id is computed over exactly the bytes that are encrypted.     [2.7]

use crate::blocks::block_sealer::{BlockSealer, Parts};
use crate::blocks::compression::{Compression, with_shorter};
use crate::blocks::suite::{BlockSecret, ChunkPlace, NO_SALT, block_id};
use crate::pool::Pool;
use strongroom_format::limits::{BLOCK_BYTES_MAX, CHUNK_BYTES, TAG_BYTES};
use strongroom_format::span::{chunk_count, sealed_len};
use strongroom_format::{BlockHead, BlockId, Kind, SealedBlock};

impl BlockSealer {
    /// Seals `clear`, at most `BLOCK_BYTES_MAX` bytes, under the newest epoch.
    ///
    /// The same bytes of the same kind give the same block, as long as the compression stays the same. O(n) time, one
    /// allocation.
    ///
    /// # Panics
    /// If `clear` is longer: the caller cuts content into blocks. If `kind` is a compressed one: it comes from here.
    #[must_use]
    pub fn seal(&self, kind: Kind, clear: &[u8]) -> SealedBlock {
        with_bytes(|bytes| {
            self.seal_into(kind, clear, |_, len| {
                bytes.resize(sealed_len(len), 0);
                Some(bytes.as_mut_slice())
            })
        })
    }

    /// As `seal`, where the caller wants the sealed bytes.
    ///
    /// `room`: asked once, with the name of the block and how much is sealed (after compression, where there is any), gives
    /// `sealed_len` of that many bytes to be written over; or nothing, then the block is named and not sealed.
    ///
    /// # Panics
    /// As `seal`; if the room has another length.
    pub fn seal_into<'a>(
        &self,
        kind: Kind,
        clear: &[u8],
        room: impl FnOnce(&BlockId, usize) -> Option<&'a mut [u8]>,
    ) -> BlockHead {
        assert_fits(clear);
        assert!(!kind.is_compressed(), "content is passed uncompressed");
        let mut room = Some(room);
        if let (Compression::Zstd, Some(compressed)) = (self.compression(), kind.compressed()) {
            let seal = |frame: &[u8]| {
                let room = room.take()?;
                Some(self.seal_exactly_into(compressed, frame, |id| room(id, frame.len())))
            };
            if let Some(Some(head)) = with_shorter(clear, seal) {
                return head;
            }
        }
        let room = room.expect("nothing is sealed so far");
        self.seal_exactly_into(kind, clear, |id| room(id, clear.len()))
    }

    /// Seals what `open_exactly` gave under its old name, under the newest epoch.
    ///
    /// # Panics
    /// If `clear` is longer than a block.
    #[must_use]
    pub fn seal_exactly(&self, kind: Kind, clear: &[u8]) -> SealedBlock {
        assert_fits(clear);
        with_bytes(|bytes| {
            bytes.resize(sealed_len(clear.len()), 0);
            self.seal_exactly_into(kind, clear, |_| Some(bytes))
        })
    }

    fn seal_exactly_into<'a>(
        &self,
        kind: Kind,
        clear: &[u8],
        room: impl FnOnce(&BlockId) -> Option<&'a mut [u8]>,
    ) -> BlockHead {
        let parts = self.parts();
        let blake3 = parts.chosen.blake3(clear.len());
        let id = block_id(
            blake3,
            parts.id_key.bytes(),
            kind,
            &parts.compartment,
            &NO_SALT,
            clear,
        );
        if let Some(sealed) = room(&id) {
            let secret = BlockSecret::of(blake3, &parts.newest().block, parts.suite, &id);
            seal_chunks(parts, &secret, clear, sealed);
        }
        let clear_len = u32::try_from(clear.len()).expect("BLOCK_BYTES_MAX fits 32 bits");
        BlockHead {
            id,
            kind,
            clear_len,
        }
    }

    /// Seals each of `clear` in order, on all threads of `pool` when there is enough to share out.
    ///
    /// Gives each sealed block with the buffer it came from, same order, so that buffers can be used again.
    /// Owned (or counted) buffers and not borrowed ones: jobs of a lasting pool may outlive any borrow.
    ///
    /// # Panics
    /// As `seal`, on the calling thread, after every other block was finished.
    #[must_use]
    pub fn seal_all<B>(&self, pool: &Pool, kind: Kind, clear: Vec<B>) -> Vec<(SealedBlock, B)>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        if self.is_sealed_inline(&clear) {
            return self.seal_inline(kind, clear);
        }
        pool.run_all(self.jobs(kind, clear))
    }

    /// Whether `clear` is too little to be shared out.
    fn is_sealed_inline<B: AsRef<[u8]>>(&self, clear: &[B]) -> bool {
        let bytes: usize = clear.iter().map(|buffer| buffer.as_ref().len()).sum();
        bytes < self.parts().chosen.inline_below_bytes()
    }

    fn seal_inline<B: AsRef<[u8]>>(&self, kind: Kind, clear: Vec<B>) -> Vec<(SealedBlock, B)> {
        let seal = |buffer: B| (self.seal(kind, buffer.as_ref()), buffer);
        clear.into_iter().map(seal).collect()
    }

    fn jobs<B>(
        &self,
        kind: Kind,
        clear: Vec<B>,
    ) -> Vec<impl FnOnce() -> (SealedBlock, B) + Send + use<B>>
    where
        B: AsRef<[u8]> + Send,
    {
        let job = |buffer: B| {
            let sealer = self.clone();
            move || (sealer.seal(kind, buffer.as_ref()), buffer)
        };
        clear.into_iter().map(job).collect()
    }
}

fn assert_fits(clear: &[u8]) {
    assert!(
        clear.len() <= BLOCK_BYTES_MAX,
        "content is cut into blocks before it is sealed"
    );
}

/// The block that `seal` fills with bytes and describes.
fn with_bytes(seal: impl FnOnce(&mut Vec<u8>) -> BlockHead) -> SealedBlock {
    let mut bytes = Vec::new();
    let BlockHead {
        id,
        kind,
        clear_len,
    } = seal(&mut bytes);
    SealedBlock {
        id,
        kind,
        clear_len,
        bytes,
    }
}

/// Writes the sealed chunks of `clear` over `sealed`, which has their length. The only place that encrypts.
pub(crate) fn seal_chunks(parts: &Parts, secret: &BlockSecret, clear: &[u8], sealed: &mut [u8]) {
    assert_eq!(
        sealed.len(),
        sealed_len(clear.len()),
        "room for a tag per chunk"
    );
    let last = chunk_count(clear.len()) - 1;
    parts
        .chosen
        .encrypt(clear.len())
        .with_key(secret.key(), &mut |key| {
            let places = sealed.chunks_mut(CHUNK_BYTES + TAG_BYTES).enumerate();
            for (number, place) in places {
                let kind = if number == last {
                    ChunkPlace::Last
                } else {
                    ChunkPlace::Inner
                };
                let (chunk, tag) = place.split_at_mut(place.len() - TAG_BYTES);
                let from = number * CHUNK_BYTES;
                chunk.copy_from_slice(&clear[from..from + chunk.len()]);
                let nonce = secret.nonce(number, kind);
                #[cfg(feature = "nonce-ledger")]
                crate::ledger::note(secret.key(), &nonce.0, chunk);
                tag.copy_from_slice(&key.seal(&nonce, chunk));
            }
        });
}
