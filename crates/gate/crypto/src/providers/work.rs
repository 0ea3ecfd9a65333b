//! What is done with an algorithm, as an operation that can be repeated and measured.
//!
//! Takes   a provider's implementation, a size
//! Gives   a closure that does one operation, and how much that is
//! Never   touches a key of a vault: its keys are fixed numbers
//! Spec    none: nothing here shows in the format

use std::hint::black_box;

use super::chosen::Chosen;
use super::{
    Aead, Algorithm, Argon2idCost, Implementation, NONCE_BYTES_MAX, Nonce, Preferences, Provider,
};
use crate::block_sealer::BlockSealer;
use crate::keys::{EpochKey, IdKey};
use strongroom_format::limits::{BLOCK_BYTES_MAX, CHUNK_BYTES, TAG_BYTES};
use strongroom_format::{Epoch, Kind, SuiteId};

/// One operation, with buffers of its own.
pub(super) type Operation = Box<dyn FnMut() + Send>;

/// Memory of the measured Argon2id run: enough to leave the processor's caches, little enough to be quick.
const STRETCH_KIB: u32 = 8 * 1024;

/// Bytes of a signed message: a membership record with its label.
const MESSAGE_BYTES: usize = 256;

/// What is done with an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// A key is prepared, and the chunks of a block are copied and encrypted with it.
    Encrypt,
    /// The same, and decrypted.
    Decrypt,
    /// Bytes are hashed; with a key, where the algorithm has one.
    Hash,
    /// A passphrase is stretched over 8 MiB of memory, in one pass.
    Stretch,
    /// A message of 256 bytes is signed.
    Sign,
    /// A signature of such a message is verified.
    Verify,
    /// A whole block is sealed: named by its hash, its key derived, encrypted.
    Seal,
    /// A whole block is opened: decrypted, and its name computed again.
    Open,
}

impl Work {
    /// What is measured of `algorithm`.
    #[must_use]
    pub const fn of(algorithm: Algorithm) -> &'static [Self] {
        match algorithm {
            Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 | Algorithm::Aegis256 => {
                &[Self::Encrypt, Self::Decrypt, Self::Seal, Self::Open]
            }
            Algorithm::Blake3 | Algorithm::Sha256 | Algorithm::HmacSha256 => &[Self::Hash],
            Algorithm::Argon2id => &[Self::Stretch],
            Algorithm::Ed25519 => &[Self::Sign, Self::Verify],
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
            Self::Hash => "hash",
            Self::Stretch => "stretch",
            Self::Sign => "sign",
            Self::Verify => "verify",
            Self::Seal => "seal",
            Self::Open => "open",
        }
    }

    /// What its speed is counted in.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Sign | Self::Verify => "per s",
            _ => "MiB/s",
        }
    }

    /// Whether it is one algorithm alone, by which its provider is chosen. The others are made of several.
    #[must_use]
    pub const fn decides(self) -> bool {
        !matches!(self, Self::Seal | Self::Open)
    }

    /// The work by which the provider of this one was chosen: itself, if it decides.
    #[must_use]
    pub const fn decided_by(self) -> Self {
        match self {
            Self::Seal => Self::Encrypt,
            Self::Open => Self::Decrypt,
            decides => decides,
        }
    }

    /// Whether it is ever done by that many threads at once: a passphrase is stretched by one.
    pub(super) fn runs_on(self, threads: usize) -> bool {
        threads == 1 || self != Self::Stretch
    }

    /// The sizes among `sizes` that it is measured at, or the one that it always has.
    pub(super) fn sizes(self, sizes: &[usize]) -> Vec<usize> {
        let up_to = |most: usize| sizes.iter().copied().filter(|size| *size <= most).collect();
        match self {
            Self::Encrypt | Self::Decrypt | Self::Hash => up_to(usize::MAX),
            Self::Seal | Self::Open => up_to(BLOCK_BYTES_MAX),
            Self::Stretch => vec![STRETCH_KIB as usize * 1024],
            Self::Sign | Self::Verify => vec![MESSAGE_BYTES],
        }
    }

    /// How much one operation over `bytes` is, in the unit of the speed.
    pub(super) fn amount(self, bytes: usize) -> f64 {
        match self {
            Self::Sign | Self::Verify => 1.0,
            _ => bytes as f64 / f64::from(1 << 20),
        }
    }
}

/// The operation of `work` over `bytes`, by `by` of `provider`.
pub(super) fn operation(
    provider: &'static dyn Provider,
    by: Implementation,
    algorithm: Algorithm,
    work: Work,
    bytes: usize,
) -> Operation {
    let clear: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
    match by {
        Implementation::Aead(aead) => match work {
            Work::Encrypt => encrypt(aead, clear),
            Work::Decrypt => decrypt(aead, clear),
            Work::Seal | Work::Open => whole(provider, algorithm, work, clear),
            _ => unreachable!("Work::of lists no other work of an AEAD"),
        },
        Implementation::Blake3(blake3) => Box::new(move || {
            let mut out = [0; 32];
            blake3.keyed(&[1; 32], &[black_box(&clear)], &mut out);
            black_box(out);
        }),
        Implementation::Sha256(sha256) => Box::new(move || {
            black_box(sha256.hash(black_box(&clear)));
        }),
        Implementation::HmacSha256(hmac) => Box::new(move || {
            black_box(hmac.code(&[1; 32], black_box(&clear)));
        }),
        Implementation::Argon2id(argon2id) => Box::new(move || {
            let cost = Argon2idCost {
                memory_kib: STRETCH_KIB,
                passes: 1,
                lanes: 1,
            };
            // Without memory the figure is wrong and high; a machine that short of it has other worries.
            let _ = black_box(argon2id.stretch(b"measured", &[1; 16], cost, &mut [0; 32]));
        }),
        Implementation::Ed25519(ed25519) => {
            let public_key = ed25519.public_key(&[1; 32]);
            let signature = ed25519.sign(&[1; 32], &clear);
            match work {
                Work::Sign => Box::new(move || {
                    black_box(ed25519.sign(&[1; 32], black_box(&clear)));
                }),
                _ => Box::new(move || {
                    black_box(ed25519.verify(&public_key, black_box(&clear), &signature));
                }),
            }
        }
    }
}

fn nonce(number: usize) -> Nonce {
    let mut nonce = [0; NONCE_BYTES_MAX];
    nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
    Nonce(nonce)
}

/// Encrypts `clear` chunk by chunk, as a block is.
fn encrypt(aead: &'static dyn Aead, clear: Vec<u8>) -> Operation {
    let mut buffer = vec![0; clear.len()];
    Box::new(move || {
        aead.with_key(&[1; 32], &mut |key| {
            let chunks = clear
                .chunks(CHUNK_BYTES)
                .zip(buffer.chunks_mut(CHUNK_BYTES));
            for (number, (from, chunk)) in chunks.enumerate() {
                chunk.copy_from_slice(from);
                black_box(key.seal(&nonce(number), chunk));
            }
        });
    })
}

/// Decrypts what `encrypt` gives.
fn decrypt(aead: &'static dyn Aead, clear: Vec<u8>) -> Operation {
    let mut sealed: Vec<(Vec<u8>, [u8; TAG_BYTES])> = Vec::new();
    aead.with_key(&[1; 32], &mut |key| {
        for (number, chunk) in clear.chunks(CHUNK_BYTES).enumerate() {
            let mut chunk = chunk.to_vec();
            let tag = key.seal(&nonce(number), &mut chunk);
            sealed.push((chunk, tag));
        }
    });
    let mut buffer = clear;
    Box::new(move || {
        aead.with_key(&[1; 32], &mut |key| {
            let chunks = sealed.iter().zip(buffer.chunks_mut(CHUNK_BYTES));
            for (number, ((from, tag), chunk)) in chunks.enumerate() {
                chunk.copy_from_slice(from);
                key.open(&nonce(number), chunk, tag)
                    .expect("what a provider that passed its self-test sealed it opens");
            }
        });
    })
}

/// Seals or opens a whole block, with `provider` for the AEAD and the preferred BLAKE3.
fn whole(
    provider: &'static dyn Provider,
    algorithm: Algorithm,
    work: Work,
    clear: Vec<u8>,
) -> Operation {
    let mut wished = Preferences::default();
    wished
        .put(algorithm, provider.name())
        .expect("a provider that was listed for the algorithm has it");
    let sealer = sealer(algorithm, &wished);
    let block = sealer.seal(Kind::Data, &clear);
    match work {
        Work::Seal => Box::new(move || {
            black_box(sealer.seal(Kind::Data, black_box(&clear)));
        }),
        _ => Box::new(move || {
            let sealed = black_box(&block.bytes);
            let opened = sealer.open(Epoch(0), Kind::Data, &block.id, clear.len(), sealed);
            black_box(opened.expect("what a sealer sealed it opens"));
        }),
    }
}

/// A sealer of the suite of `algorithm` that computes with whom `wished` names, under keys that are fixed numbers.
///
/// # Panics
/// If there is no provider that passed its self-test for what a suite needs.
pub(super) fn sealer(algorithm: Algorithm, wished: &Preferences) -> BlockSealer {
    let suite = SuiteId::ALL
        .iter()
        .copied()
        .find(|suite| Algorithm::aead_of(*suite) == algorithm)
        .expect("every AEAD has a suite");
    let chosen = Chosen::by(suite, wished).expect("who measures has asked for providers before");
    let epochs = vec![(Epoch(0), EpochKey::from_bytes([2; 32]))];
    BlockSealer::new(suite, [0; 16], IdKey::from_bytes([1; 32]), epochs).with_chosen(chosen)
}
