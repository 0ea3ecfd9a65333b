//! The provider over the RustCrypto libraries: pure Rust code for every processor.

use super::version::of_crate;
use super::{
    Aead, Algorithm, Argon2id, Argon2idCost, ChunkKey, Implementation, NoMemory, Nonce, Provider,
    Refused,
};
use crate::limits::KEY_BYTES;
use aes_gcm::Aes256Gcm;
use aes_gcm::aead::array::Array;
use aes_gcm::aead::{AeadCore, AeadInOut, KeyInit, consts};
use argon2::{Argon2, Block, Params, Version};
use chacha20poly1305::ChaCha20Poly1305;
use std::marker::PhantomData;
use strongroom_format::limits::TAG_BYTES;
use zeroize::Zeroize as _;

/// The provider.
pub(super) struct RustCrypto;

impl Provider for RustCrypto {
    fn name(&self) -> &'static str {
        "rustcrypto"
    }

    fn library(&self) -> String {
        let crates = ["aes-gcm", "chacha20poly1305", "argon2"];
        crates.map(of_crate).join(", ")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        static AES: RustCryptoAead<Aes256Gcm> = RustCryptoAead(PhantomData);
        static CHACHA: RustCryptoAead<ChaCha20Poly1305> = RustCryptoAead(PhantomData);
        Some(match algorithm {
            Algorithm::Aes256Gcm => Implementation::Aead(&AES),
            Algorithm::ChaCha20Poly1305 => Implementation::Aead(&CHACHA),
            Algorithm::Argon2id => Implementation::Argon2id(&Self),
            Algorithm::Aegis256 | Algorithm::Blake3 | Algorithm::Ed25519 => return None,
        })
    }
}

/// Either AEAD: the libraries have one face for both.
struct RustCryptoAead<A>(PhantomData<fn() -> A>);

impl<A> Aead for RustCryptoAead<A>
where
    A: AeadInOut + AeadCore<NonceSize = consts::U12, TagSize = consts::U16>,
    A: KeyInit<KeySize = consts::U32>,
{
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        work(&RustCryptoKey(A::new(&Array(*key))));
    }
}

struct RustCryptoKey<A>(A);

impl<A> ChunkKey for RustCryptoKey<A>
where
    A: AeadInOut + AeadCore<NonceSize = consts::U12, TagSize = consts::U16>,
{
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = Array(*nonce.first());
        let tag = self.0.encrypt_inout_detached(&nonce, &[], chunk.into());
        tag.expect("a chunk is far below the 64 GiB of the algorithm")
            .0
    }

    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused> {
        let (nonce, tag) = (Array(*nonce.first()), Array(*tag));
        self.0
            .decrypt_inout_detached(&nonce, &[], chunk.into(), &tag)
            .map_err(|_| Refused)
    }
}

impl Argon2id for RustCrypto {
    fn stretch(
        &self,
        secret: &[u8],
        salt: &[u8],
        cost: Argon2idCost,
        out: &mut [u8; 32],
    ) -> Result<(), NoMemory> {
        let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(out.len()))
            .expect("the caller keeps to the bounds of Argon2idCost");
        let count = params.block_count();
        // Reserved first, so that a machine without the memory gives an error instead of ending the process.
        let mut memory = Memory(Vec::new());
        memory.0.try_reserve_exact(count).map_err(|_| NoMemory)?;
        memory.0.resize(count, Block::new());
        Argon2::new(argon2::Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(secret, salt, out, memory.0.as_mut_slice())
            .expect("lengths and cost are within Argon2's bounds");
        Ok(())
    }
}

/// Argon2's memory, wiped when dropped.
struct Memory(Vec<Block>);

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|block| block.zeroize());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9106, 5.3, with its secret and associated data: the library computes Argon2id.
    #[test]
    fn the_vector_of_rfc_9106_holds() {
        let mut params = argon2::ParamsBuilder::new();
        params.m_cost(32).t_cost(3).p_cost(4).output_len(32);
        params.data(argon2::AssociatedData::new(&[4; 12]).unwrap());
        let argon2 = Argon2::new_with_secret(
            &[3; 8],
            argon2::Algorithm::Argon2id,
            Version::V0x13,
            params.build().unwrap(),
        )
        .unwrap();
        let mut out = [0; 32];
        argon2
            .hash_password_into(&[1; 32], &[2; 16], &mut out)
            .unwrap();
        let expected = "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659";
        assert_eq!(strongroom_format::hex::encode(&out), expected);
    }
}
