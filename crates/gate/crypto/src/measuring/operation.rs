//! The operations of an algorithm, in a form that can be repeated and measured.
//!
//! Takes   a provider's implementation, and a size
//! Gives   a closure that does one operation
//! Never   uses a key of a vault: its keys are fixed numbers
//! Spec    none: nothing here affects the format

use std::hint::black_box;

use crate::blocks::block_sealer::BlockSealer;
use crate::keys::{EpochKey, IdKey};
use crate::providers::work::STRETCH_KIB;
use crate::providers::{
    Aead, Algorithm, Argon2idCost, Chosen, Implementation, NONCE_BYTES_MAX, Nonce, Preferences,
    Provider, Work,
};
use strongroom_format::limits::{CHUNK_BYTES, TAG_BYTES};
use strongroom_format::{Epoch, Kind, SuiteId};

/// One operation, with buffers of its own.
pub(super) type Operation = Box<dyn FnMut() + Send>;

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
                    .expect("a tested provider opens what it sealed");
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
            black_box(opened.expect("a sealer opens what it sealed"));
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
    let chosen = Chosen::by(suite, wished).expect("`ready` was asked before a measurement");
    let epochs = vec![(Epoch(0), EpochKey::from_bytes([2; 32]))];
    // The wishes of the environment do not count here.
    BlockSealer::computed_by(chosen, [0; 16], IdKey::from_bytes([1; 32]), epochs)
}
