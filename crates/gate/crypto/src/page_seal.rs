//! Re-seals a page of the metadata database under another metadata key, as SQLCipher seals pages.
//!
//! Takes   a page of 4096 bytes as stored in the database file, its number, and both keys
//! Gives   the same content under the other key, with a new IV
//! Never   gives a page that did not authenticate, or leaves clear bytes in memory
//! Spec    spec/4-metadata.md, 4.2 and 4.13
//!
//! ```text
//! | page 1 only: salt 16 | ciphertext, AES-256-CBC | IV 16 | HMAC-SHA512 64 |     the HMAC is over ciphertext, IV and page number
//! ```

use aes::Aes256;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;
use zeroize::Zeroize;

use crate::keyring::replica::MetadataKey;
use crate::random::Random;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const BLOCK_BYTES: usize = 16;
/// Where the IV begins, and the HMAC.
const IV_OFFSET: usize = PAGE_BYTES - 80;
const HMAC_OFFSET: usize = PAGE_BYTES - 64;

/// One metadata key as SQLCipher uses it.
struct PageKey<'k> {
    cipher: &'k [u8; KEY_BYTES],
    hmac: &'k [u8],
    salt: &'k [u8],
}

impl<'k> PageKey<'k> {
    fn of(key: &'k MetadataKey) -> Self {
        let (cipher, rest) = key
            .bytes()
            .split_first_chunk()
            .expect("a metadata key has 80 bytes");
        let (hmac, salt) = rest.split_at(KEY_BYTES);
        Self { cipher, hmac, salt }
    }

    /// The HMAC of page `number`, whose sealed bytes begin at `start`.
    fn authenticator(&self, number: u32, page: &[u8; PAGE_BYTES], start: usize) -> Hmac<Sha512> {
        let mut mac =
            Hmac::<Sha512>::new_from_slice(self.hmac).expect("HMAC takes keys of every length");
        mac.update(&page[start..HMAC_OFFSET]);
        mac.update(&number.to_le_bytes());
        mac
    }
}

/// Re-seals page `number` from `old` to `new`, in place. Gives whether it authenticated; if not, it is as it was.
///
/// Two keyed hashes and two passes of AES over 4 KiB.
#[must_use]
pub fn reseal_page(
    old: &MetadataKey,
    new: &MetadataKey,
    random: &dyn Random,
    number: u32,
    page: &mut [u8; PAGE_BYTES],
) -> bool {
    let (old, new) = (PageKey::of(old), PageKey::of(new));
    let start = if number == 1 { SALT_BYTES } else { 0 };
    let tag = &page[HMAC_OFFSET..];
    if old
        .authenticator(number, page, start)
        .verify_slice(tag)
        .is_err()
    {
        return false;
    }
    let mut iv = [0; BLOCK_BYTES];
    if random.fill(&mut iv).is_err() {
        return false;
    }
    let old_iv: [u8; BLOCK_BYTES] = page[IV_OFFSET..HMAC_OFFSET]
        .try_into()
        .expect("an IV has 16 bytes");
    let (blocks, _) = page[start..IV_OFFSET].as_chunks_mut::<BLOCK_BYTES>();
    let mut open = cbc::Decryptor::<Aes256>::new(old.cipher.into(), (&old_iv).into());
    let mut seal = cbc::Encryptor::<Aes256>::new(new.cipher.into(), (&iv).into());
    for block in blocks {
        open.decrypt_block(block.into());
        seal.encrypt_block(block.into());
    }
    page[IV_OFFSET..HMAC_OFFSET].copy_from_slice(&iv);
    page[..start].copy_from_slice(&new.salt[..start]);
    let mut tag = new
        .authenticator(number, page, start)
        .finalize()
        .into_bytes();
    page[HMAC_OFFSET..].copy_from_slice(&tag);
    tag.zeroize();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    /// A page under `key` made by sealing zeros, which never authenticate, by hand.
    fn page(key: &MetadataKey, number: u32, content: u8) -> [u8; PAGE_BYTES] {
        let mut page = [content; PAGE_BYTES];
        let (start, key) = (if number == 1 { SALT_BYTES } else { 0 }, PageKey::of(key));
        let iv = [9; BLOCK_BYTES];
        page[IV_OFFSET..HMAC_OFFSET].copy_from_slice(&iv);
        let (blocks, _) = page[start..IV_OFFSET].as_chunks_mut::<BLOCK_BYTES>();
        let mut seal = cbc::Encryptor::<Aes256>::new(key.cipher.into(), (&iv).into());
        blocks
            .iter_mut()
            .for_each(|block| seal.encrypt_block(block.into()));
        let tag = key
            .authenticator(number, &page, start)
            .finalize()
            .into_bytes();
        page[HMAC_OFFSET..].copy_from_slice(&tag);
        page
    }

    #[test]
    fn a_page_goes_to_another_key_and_back_with_the_same_content() {
        let keys = [0, 1].map(|_| MetadataKey::random(&SystemRandom).unwrap());
        for number in [1, 2, 77] {
            let sealed = page(&keys[0], number, 0x5a);
            let mut moved = sealed;
            assert!(reseal_page(
                &keys[0],
                &keys[1],
                &SystemRandom,
                number,
                &mut moved
            ));
            assert_ne!(moved, sealed);
            let there = moved;
            assert!(!reseal_page(
                &keys[0],
                &keys[1],
                &SystemRandom,
                number,
                &mut moved
            ));
            assert!(!reseal_page(
                &keys[1],
                &keys[0],
                &SystemRandom,
                number + 1,
                &mut moved
            ));
            assert_eq!(moved, there, "what does not authenticate stays as it was");
            assert!(reseal_page(
                &keys[1],
                &keys[0],
                &SystemRandom,
                number,
                &mut moved
            ));
            // The IV is another: the content under it is compared by sealing it with the first one.
            let (start, key) = (
                if number == 1 { SALT_BYTES } else { 0 },
                PageKey::of(&keys[0]),
            );
            let iv: [u8; BLOCK_BYTES] = moved[IV_OFFSET..HMAC_OFFSET].try_into().unwrap();
            let (blocks, _) = moved[start..IV_OFFSET].as_chunks_mut::<BLOCK_BYTES>();
            let mut open = cbc::Decryptor::<Aes256>::new(key.cipher.into(), (&iv).into());
            blocks
                .iter_mut()
                .for_each(|block| open.decrypt_block(block.into()));
            assert!(moved[start..IV_OFFSET].iter().all(|byte| *byte == 0x5a));
        }
    }

    #[test]
    fn every_bit_of_a_page_counts() {
        let keys = [0, 1].map(|_| MetadataKey::random(&SystemRandom).unwrap());
        let sealed = page(&keys[0], 2, 1);
        for byte in (0..PAGE_BYTES).step_by(61) {
            let mut flipped = sealed;
            flipped[byte] ^= 1;
            assert!(
                !reseal_page(&keys[0], &keys[1], &SystemRandom, 2, &mut flipped),
                "byte {byte}"
            );
        }
    }
}
