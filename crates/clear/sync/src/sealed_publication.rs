//! Turns publications into sealed objects; opens and verifies such objects.

use strongroom_crypto::record::padded_len;
use strongroom_crypto::{BlockSealer, Random, RevisionSigner};
use strongroom_format::publication::{Publication, SignedPublication};
use strongroom_format::{Epoch, Kind};

use crate::error::{Error, Result};
use crate::names::publication_name;

/// Bytes before the sealed record: the epoch, so that whoever has its key knows which one to take.
const EPOCH_BYTES: usize = 4;

/// Signs and seals a publication. The object is a whole number of sectors long.
///
/// # Errors
/// `Random`.
pub fn seal_publication(
    body: Publication,
    signer: &RevisionSigner,
    sealer: &BlockSealer,
    random: &dyn Random,
) -> Result<Vec<u8>> {
    let id = body.id();
    let signed = SignedPublication {
        signature: signer.sign_publication(id),
        body,
        id,
    };
    let mut clear = signed.encode();
    clear.resize(padded_len(clear.len(), EPOCH_BYTES), 0);
    let mut object = sealer.epoch().0.to_le_bytes().to_vec();
    object.extend(sealer.seal_record(random, Kind::Publication, &clear)?);
    Ok(object)
}

/// The publication in an object, if it opens, is of this vault, and was signed by one of its devices.
///
/// # Errors
/// `Damaged`, which names publication `number`; `UnknownDevice`.
pub fn open_publication(
    number: u64,
    object: &[u8],
    signer: &RevisionSigner,
    sealer: &BlockSealer,
) -> Result<SignedPublication> {
    let damaged = |why| Error::damaged(publication_name(number), why);
    let (epoch, record) = object
        .split_first_chunk::<EPOCH_BYTES>()
        .ok_or_else(|| damaged("it is truncated"))?;
    let clear = sealer
        .open_record(Epoch(u32::from_le_bytes(*epoch)), Kind::Publication, record)
        .map_err(|_| damaged("it does not open with the keys of this vault"))?;
    let signed =
        SignedPublication::decode(&clear).map_err(|_| damaged("it has invalid content"))?;
    let SignedPublication {
        body,
        id,
        signature,
    } = &signed;
    if body.vault != signer.vault() {
        return Err(damaged("it is from another vault"));
    }
    if !signer.knows(body.device) {
        return Err(Error::UnknownDevice { number });
    }
    if !signer.verify_publication(body.device, *id, signature) {
        return Err(damaged("its signature is wrong"));
    }
    if body.number != number {
        return Err(damaged("its number does not match its name"));
    }
    Ok(signed)
}
