//! The provider over OpenSSL: the copy that SQLCipher includes, so it adds nothing to the program.

use super::{
    Aead, Algorithm, Argon2id, Argon2idCost, ChunkKey, Ed25519, Implementation, NoMemory, Nonce,
    Provider, Refused,
};
use crate::limits::KEY_BYTES;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Private};
use openssl::sign::{Signer, Verifier};
use std::cell::RefCell;
use std::sync::LazyLock;
use strongroom_format::limits::TAG_BYTES;

/// The provider.
pub(super) struct OpenSsl;

/// A cipher that was looked up once: a look-up per block costs more than the block.
struct OpenSslAead(LazyLock<Option<Cipher>>);

static AES: OpenSslAead = OpenSslAead(LazyLock::new(|| {
    Cipher::fetch(None, "AES-256-GCM", None).ok()
}));

static CHACHA: OpenSslAead = OpenSslAead(LazyLock::new(|| {
    Cipher::fetch(None, "ChaCha20-Poly1305", None).ok()
}));

impl Provider for OpenSsl {
    fn name(&self) -> &'static str {
        "openssl"
    }

    fn library(&self) -> String {
        openssl::version::version().to_owned()
    }

    /// A configuration file of OpenSSL may take its algorithms away.
    fn missing(&self) -> Option<&'static str> {
        // Before anything else is asked of it: else it registers a function that frees what threads still use while the program ends.
        openssl::init();
        let complete = AES.0.is_some() && CHACHA.0.is_some();
        (!complete).then_some("an OpenSSL whose configuration allows the ciphers; see OPENSSL_CONF")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        Some(match algorithm {
            Algorithm::Aes256Gcm => Implementation::Aead(&AES),
            Algorithm::ChaCha20Poly1305 => Implementation::Aead(&CHACHA),
            Algorithm::Argon2id => Implementation::Argon2id(&Self),
            Algorithm::Ed25519 => Implementation::Ed25519(&Self),
            Algorithm::Aegis256 | Algorithm::Blake3 => return None,
        })
    }
}

impl Aead for OpenSslAead {
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        let cipher = self.0.as_ref().expect("`missing` is asked first");
        work(&OpenSslKey {
            cipher,
            key,
            sealing: RefCell::default(),
            opening: RefCell::default(),
        });
    }
}

/// A context for each direction, made when it is first needed and keyed once.
struct OpenSslKey<'a> {
    cipher: &'a Cipher,
    key: &'a [u8; KEY_BYTES],
    sealing: RefCell<Option<CipherCtx>>,
    opening: RefCell<Option<CipherCtx>>,
}

impl OpenSslKey<'_> {
    fn try_seal(&self, nonce: &[u8; 12], chunk: &mut [u8]) -> Result<[u8; TAG_BYTES], ErrorStack> {
        let mut context = self.sealing.borrow_mut();
        if context.is_none() {
            let mut made = CipherCtx::new()?;
            made.encrypt_init(Some(self.cipher), Some(self.key), None)?;
            *context = Some(made);
        }
        let context = context.as_mut().expect("it was just made");
        context.encrypt_init(None, None, Some(nonce))?;
        context.cipher_update_inplace(chunk, chunk.len())?;
        context.cipher_final(&mut [])?;
        let mut tag = [0; TAG_BYTES];
        context.tag(&mut tag)?;
        Ok(tag)
    }

    fn try_open(
        &self,
        nonce: &[u8; 12],
        chunk: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), ErrorStack> {
        let mut context = self.opening.borrow_mut();
        if context.is_none() {
            let mut made = CipherCtx::new()?;
            made.decrypt_init(Some(self.cipher), Some(self.key), None)?;
            *context = Some(made);
        }
        let context = context.as_mut().expect("it was just made");
        context.decrypt_init(None, None, Some(nonce))?;
        context.cipher_update_inplace(chunk, chunk.len())?;
        context.set_tag(tag)?;
        context.cipher_final(&mut []).map(|_| ())
    }
}

impl ChunkKey for OpenSslKey<'_> {
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        self.try_seal(nonce.first(), chunk)
            .expect("OpenSSL encrypts, unless there is no memory for a context")
    }

    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused> {
        self.try_open(nonce.first(), chunk, tag)
            .map_err(|_| Refused)
    }
}

impl Argon2id for OpenSsl {
    fn stretch(
        &self,
        secret: &[u8],
        salt: &[u8],
        cost: Argon2idCost,
        out: &mut [u8; 32],
    ) -> Result<(), NoMemory> {
        let Argon2idCost {
            memory_kib,
            passes,
            lanes,
        } = cost;
        let mut made = zeroize::Zeroizing::new([0; 32]);
        // Within the bounds of `Argon2idCost` memory is all that can be refused.
        openssl::kdf::argon2id(
            None, secret, salt, None, None, passes, lanes, memory_kib, &mut *made,
        )
        .map_err(|_| NoMemory)?;
        out.copy_from_slice(&*made);
        Ok(())
    }
}

/// The signing key of `seed`.
fn signing(seed: &[u8; 32]) -> Result<PKey<Private>, ErrorStack> {
    PKey::private_key_from_raw_bytes(seed, Id::ED25519)
}

impl Ed25519 for OpenSsl {
    fn public_key(&self, seed: &[u8; 32]) -> [u8; 32] {
        let key = signing(seed).and_then(|key| key.raw_public_key());
        let key = key.expect("a seed is any 32 bytes");
        key.try_into().expect("a public key has 32 bytes")
    }

    fn sign(&self, seed: &[u8; 32], message: &[u8]) -> [u8; 64] {
        let sign = || -> Result<[u8; 64], ErrorStack> {
            let mut signature = [0; 64];
            Signer::new_without_digest(&*signing(seed)?)?.sign_oneshot(&mut signature, message)?;
            Ok(signature)
        };
        sign().expect("a seed is any 32 bytes, and OpenSSL signs unless there is no memory")
    }

    fn verify(&self, public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
        let verify = || -> Result<bool, ErrorStack> {
            let key = PKey::public_key_from_raw_bytes(public_key, Id::ED25519)?;
            Verifier::new_without_digest(&key)?.verify_oneshot(signature, message)
        };
        verify().unwrap_or(false)
    }
}
