//! Turns clear blocks into sealed ones, so that nobody without the vault's keys can read, alter or swap them.
//!
//! Takes   clear bytes and their kind
//! Gives   a `SealedBlock`, a tag longer per chunk, named by its `BlockId`; where the sealer compresses and it pays, of a
//!         kind that says so
//! Never   stores, chooses keys, or names a crypto library
//! Spec    spec/2-block.md, [2.1] to [2.19]
//!
//! Invariants
//!  (1) One key and nonce never seal two different plaintexts.      [2.14]
//!  (2) The name is computed over exactly the bytes encrypted.       [2.7]

use crate::block_sealer::{BlockSealer, Parts};
use crate::compression::{Compression, with_shorter};
use crate::pool::Pool;
use crate::suite::{BlockSecret, ChunkPlace, NO_SALT, block_id};
use strongroom_format::limits::{BLOCK_BYTES_MAX, CHUNK_BYTES};
use strongroom_format::span::{chunk_count, sealed_len};
use strongroom_format::{Kind, SealedBlock};

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
        assert_fits(clear);
        assert!(
            !kind.is_compressed(),
            "who seals content does not compress it"
        );
        if let (Compression::Zstd, Some(compressed)) = (self.compression(), kind.compressed()) {
            let seal = |frame: &[u8]| self.seal_exactly(compressed, frame);
            if let Some(sealed) = with_shorter(clear, seal) {
                return sealed;
            }
        }
        self.seal_exactly(kind, clear)
    }

    /// Seals what `open_exactly` gave under its old name, under the newest epoch.
    ///
    /// # Panics
    /// If `clear` is longer than a block.
    #[must_use]
    pub fn seal_exactly(&self, kind: Kind, clear: &[u8]) -> SealedBlock {
        assert_fits(clear);
        let parts = self.parts();
        let blake3 = parts.chosen.blake3(clear.len());
        let id = block_id(
            blake3,
            &parts.id_key,
            kind,
            &parts.compartment,
            &NO_SALT,
            clear,
        );
        let mut bytes = Vec::with_capacity(sealed_len(clear.len()));
        seal_chunks(
            parts,
            &BlockSecret::of(blake3, &parts.newest().1, parts.suite, &id),
            clear,
            &mut bytes,
        );
        let clear_len = u32::try_from(clear.len()).expect("BLOCK_BYTES_MAX fits 32 bits");
        SealedBlock {
            id,
            kind,
            clear_len,
            bytes,
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

    /// As `seal_all`; the calling thread does `meanwhile` before it helps, so that what is sealed already is written
    /// while the next is being sealed.
    ///
    /// # Panics
    /// As `seal_all`; with a panic of `meanwhile` at once.
    pub fn seal_all_beside<B, M>(
        &self,
        pool: &Pool,
        kind: Kind,
        clear: Vec<B>,
        meanwhile: impl FnOnce() -> M,
    ) -> (Vec<(SealedBlock, B)>, M)
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        if self.is_sealed_inline(&clear) {
            let done = meanwhile();
            return (self.seal_inline(kind, clear), done);
        }
        pool.run_all_beside(self.jobs(kind, clear), meanwhile)
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

/// Appends the sealed chunks of `clear` to `sealed`. The only place that encrypts.
pub(crate) fn seal_chunks(parts: &Parts, secret: &BlockSecret, clear: &[u8], sealed: &mut Vec<u8>) {
    sealed.reserve_exact(sealed_len(clear.len()));
    let last = chunk_count(clear.len()) - 1;
    parts
        .chosen
        .encrypt(clear.len())
        .with_key(secret.key(), &mut |key| {
            for number in 0..=last {
                let place = if number == last {
                    ChunkPlace::Last
                } else {
                    ChunkPlace::Inner
                };
                let from = number * CHUNK_BYTES;
                let chunk = &clear[from..clear.len().min(from + CHUNK_BYTES)];
                let nonce = secret.nonce(number, place);
                #[cfg(feature = "nonce-ledger")]
                crate::ledger::note(secret.key(), &nonce.0, chunk);
                let start = sealed.len();
                sealed.extend_from_slice(chunk);
                let tag = key.seal(&nonce, &mut sealed[start..]);
                sealed.extend_from_slice(&tag);
            }
        });
}
