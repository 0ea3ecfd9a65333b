//! BLAKE3 without vector instructions: used if vector code, or the library's choice of it, gives wrong results.
//!
//! The compression function is the portable one of the `blake3` library. The library exposes it for measurements, but
//! its hasher has no option to use it. So the tree above the compression function is implemented here: BLAKE3, section
//! 2. The known answers and the vectors ensure that it computes the same bytes.

use super::version::of_crate;
use super::{Algorithm, Blake3, Implementation, Provider};
use crate::limits::KEY_BYTES;
use crate::wiped_stack::wiping_behind;
use blake3::platform::{Platform, words_from_le_bytes_32};
use blake3::{BLOCK_LEN, CHUNK_LEN};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;
const DERIVE_KEY_CONTEXT: u8 = 1 << 5;
const DERIVE_KEY_MATERIAL: u8 = 1 << 6;

/// The initial value: the first words of the square roots of the first primes, as in SHA-256.
const IV: Words = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];

/// The tree over 2^64 bytes is no higher.
const TREE_HEIGHT_MAX: usize = 54;

type Words = [u32; 8];

/// The provider.
pub(super) struct Blake3Portable;

impl Provider for Blake3Portable {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn library(&self) -> String {
        of_crate("blake3")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        (algorithm == Algorithm::Blake3).then_some(Implementation::Blake3(&Self))
    }
}

impl Blake3 for Blake3Portable {
    fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        Tree::of(IV, 0, &[bytes]).finish(&mut out);
        out
    }

    fn keyed(&self, key: &[u8; KEY_BYTES], parts: &[&[u8]], out: &mut [u8]) {
        wiping_behind(|| Tree::of(words_from_le_bytes_32(key), KEYED_HASH, parts).finish(out));
    }

    fn derive_key(&self, context: &str, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        wiping_behind(|| {
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            Tree::of(IV, DERIVE_KEY_CONTEXT, &[context.as_bytes()]).finish(key.as_mut_slice());
            let mut out = [0; KEY_BYTES];
            Tree::of(words_from_le_bytes_32(&key), DERIVE_KEY_MATERIAL, parts).finish(&mut out);
            out
        })
    }
}

/// The last step of a node, not yet taken: as the root it gives any count of bytes, below it a chaining value.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Output {
    value: Words,
    block: [u8; BLOCK_LEN],
    block_len: u8,
    counter: u64,
    flags: u8,
}

impl Output {
    fn chaining_value(&self) -> Words {
        let mut value = self.value;
        Platform::Portable.compress_in_place(
            &mut value,
            &self.block,
            self.block_len,
            self.counter,
            self.flags,
        );
        value
    }

    fn root(&self, out: &mut [u8]) {
        for (counter, part) in (0..).zip(out.chunks_mut(BLOCK_LEN)) {
            let flags = self.flags | ROOT;
            let bytes = Platform::Portable.compress_xof(
                &self.value,
                &self.block,
                self.block_len,
                counter,
                flags,
            );
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }
}

/// A leaf: up to `CHUNK_LEN` bytes, block by block.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Chunk {
    value: Words,
    number: u64,
    block: [u8; BLOCK_LEN],
    block_len: usize,
    blocks_done: usize,
    flags: u8,
}

impl Chunk {
    fn new(key: Words, number: u64, flags: u8) -> Self {
        Self {
            value: key,
            number,
            block: [0; BLOCK_LEN],
            block_len: 0,
            blocks_done: 0,
            flags,
        }
    }

    fn len(&self) -> usize {
        self.blocks_done * BLOCK_LEN + self.block_len
    }

    fn start_flag(&self) -> u8 {
        if self.blocks_done == 0 {
            CHUNK_START
        } else {
            0
        }
    }

    /// Takes what fits of `bytes` and gives the rest. The last block waits, because it is compressed with a flag.
    fn take<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() && self.len() < CHUNK_LEN {
            if self.block_len == BLOCK_LEN {
                let flags = self.flags | self.start_flag();
                let block_len = BLOCK_LEN as u8;
                Platform::Portable.compress_in_place(
                    &mut self.value,
                    &self.block,
                    block_len,
                    self.number,
                    flags,
                );
                (self.block, self.block_len) = ([0; BLOCK_LEN], 0);
                self.blocks_done += 1;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_LEN - self.block_len));
            self.block[self.block_len..][..now.len()].copy_from_slice(now);
            self.block_len += now.len();
            bytes = rest;
        }
        bytes
    }

    fn output(&self) -> Output {
        Output {
            value: self.value,
            block: self.block,
            block_len: u8::try_from(self.block_len).expect("a block has 64 bytes"),
            counter: self.number,
            flags: self.flags | self.start_flag() | CHUNK_END,
        }
    }
}

/// The tree of one input: the chunk being filled, and the roots of the whole subtrees left of it, largest first.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Tree {
    key: Words,
    flags: u8,
    chunk: Chunk,
    subtrees: [Words; TREE_HEIGHT_MAX],
    subtree_count: usize,
}

impl Tree {
    fn of(key: Words, flags: u8, parts: &[&[u8]]) -> Self {
        let mut tree = Self {
            key,
            flags,
            chunk: Chunk::new(key, 0, flags),
            subtrees: [[0; 8]; TREE_HEIGHT_MAX],
            subtree_count: 0,
        };
        parts.iter().for_each(|part| tree.take(part));
        tree
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.chunk.len() == CHUNK_LEN {
                let chunk_count = self.chunk.number + 1;
                self.push(self.chunk.output().chaining_value(), chunk_count);
                self.chunk = Chunk::new(self.key, chunk_count, self.flags);
            }
            bytes = self.chunk.take(bytes);
        }
    }

    /// Adds a whole chunk, the last of `chunk_count`. Each zero at the end of that count in binary is a subtree that is now
    /// whole.
    fn push(&mut self, mut value: Words, chunk_count: u64) {
        for _ in 0..chunk_count.trailing_zeros() {
            self.subtree_count -= 1;
            let left = self.subtrees[self.subtree_count];
            value = self.parent(&left, &value).chaining_value();
        }
        self.subtrees[self.subtree_count] = value;
        self.subtree_count += 1;
    }

    fn parent(&self, left: &Words, right: &Words) -> Output {
        let mut block = [0; BLOCK_LEN];
        for (bytes, word) in block.chunks_exact_mut(4).zip(left.iter().chain(right)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Output {
            value: self.key,
            block,
            block_len: BLOCK_LEN as u8,
            counter: 0,
            flags: self.flags | PARENT,
        }
    }

    fn finish(&self, out: &mut [u8]) {
        let mut output = self.chunk.output();
        for left in self.subtrees[..self.subtree_count].iter().rev() {
            output = self.parent(left, &output.chaining_value());
        }
        output.root(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::blake3_simd::Blake3Simd;

    /// Goal: the tree is BLAKE3's for every shape. Method: lengths around each border of blocks, chunks and subtrees, cut into
    /// parts at odd places, against the library.
    #[test]
    fn it_gives_what_the_library_gives_for_every_shape_of_tree() {
        let content: Vec<u8> = (0..40_000).map(|index| (index % 251) as u8).collect();
        let borders = [
            0, 64, 128, 1024, 2048, 3072, 4096, 7168, 8192, 16_384, 31_744, 32_768,
        ];
        for border in borders {
            for len in border.max(1) - 1..border + 2 {
                let (one, other) = content[..len].split_at(len / 3);
                let (mut mine, mut theirs) = ([0; 150], [0; 150]);
                Blake3Portable.keyed(&[7; 32], &[one, other], &mut mine);
                Blake3Simd.keyed(&[7; 32], &[&content[..len]], &mut theirs);
                assert_eq!(mine, theirs, "{len}");
                assert_eq!(
                    Blake3Portable.hash(&content[..len]),
                    Blake3Simd.hash(&content[..len]),
                    "{len}"
                );
                assert_eq!(
                    Blake3Portable.derive_key("context", &[one, other]),
                    Blake3Simd.derive_key("context", &[one, other]),
                    "{len}"
                );
            }
        }
    }
}
