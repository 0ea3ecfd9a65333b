//! The names of the objects at a remote.

use strongroom_format::deposit::{DepositId, RunId};
use strongroom_format::{Epoch, hex};
use strongroom_remote::ObjectName;

/// The object that says whose remote it is.
pub const MARKER: &str = "strongroom.json";

/// Digits of the number of a publication: so a listing in order of names is one in order of numbers.
const NUMBER_DIGITS: usize = 16;

/// BLAKE3 of the bytes of an object.
#[must_use]
pub fn object_hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// The segment whose bytes have that hash.
#[must_use]
pub fn segment_name(hash: &[u8; 32]) -> ObjectName {
    name(format!("segments/{}", hex::encode(hash)))
}

/// The header of that generation whose bytes have that hash.
#[must_use]
pub fn header_name(generation: u64, hash: &[u8; 32]) -> ObjectName {
    name(format!(
        "headers/{generation:0NUMBER_DIGITS$}-{}",
        hex::encode(hash)
    ))
}

/// The record of the revision of that id, sealed under `epoch`, whose bytes have that hash: sealed again it is another object.
#[must_use]
pub fn revision_name(id: &[u8; 32], epoch: Epoch, hash: &[u8; 32]) -> ObjectName {
    let (id, hash) = (hex::encode(id), hex::encode(&hash[..8]));
    name(format!("revisions/{id}.{}-{hash}", epoch.0))
}

/// The publication of that number.
#[must_use]
pub fn publication_name(number: u64) -> ObjectName {
    name(format!("publications/{number:0NUMBER_DIGITS$}"))
}

/// The number of the publication that is called `name` below its kind; `None` if no publication is.
#[must_use]
pub fn publication_number(name: &str) -> Option<u64> {
    let is_number = name.len() >= NUMBER_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| name.parse().ok()).flatten()
}

/// Generation and hash of the header that is called `name` below its kind; `None` if no header is.
#[must_use]
pub fn header_parts(name: &str) -> Option<(u64, [u8; 32])> {
    let (generation, hash) = name.split_once('-')?;
    let (generation, hash) = (publication_number(generation)?, hex::decode(hash)?);
    (header_name(generation, &hash).split().1 == name).then_some((generation, hash))
}

/// What says that somebody, who calls itself `id`, let content go that is here, and has taken in publications up to `number`.
#[must_use]
pub fn needs_name(id: &[u8; 16], number: u64) -> ObjectName {
    name(format!(
        "needs/{}.{number:0NUMBER_DIGITS$}",
        hex::encode(id)
    ))
}

/// Who says so, and up to which publication, by the name below its kind; `None` if nobody does.
#[must_use]
pub fn needs_of(name: &str) -> Option<([u8; 16], u64)> {
    let (id, number) = name.split_once('.')?;
    Some((hex::decode(id)?, publication_number(number)?))
}

/// The object of the address of an inbox whose token has that hash.
#[must_use]
pub fn address_name(hash: &[u8; 32]) -> ObjectName {
    name(format!("addresses/{}", hex::encode(hash)))
}

/// The envelope of a deposit.
#[must_use]
pub fn deposit_name(deposit: DepositId) -> ObjectName {
    name(format!("deposits/{}", hex::encode(&deposit.0)))
}

/// The deposit whose envelope is called `name` below its kind; `None` if none is.
#[must_use]
pub fn deposit_of(name: &str) -> Option<DepositId> {
    hex::decode(name).map(DepositId)
}

/// The piece of that number of a deposit.
#[must_use]
pub fn piece_name(deposit: DepositId, run: RunId, number: u64) -> ObjectName {
    let (deposit, run) = (hex::encode(&deposit.0), hex::encode(&run.0));
    name(format!("pieces/{deposit}.{run}.{number:04}"))
}

/// The deposit of the piece that is called `name` below its kind; `None` if none is.
#[must_use]
pub fn piece_of(name: &str) -> Option<DepositId> {
    deposit_of(name.split('.').next()?)
}

fn name(name: String) -> ObjectName {
    ObjectName::new(name).expect("hexadecimal and decimal digits are plain")
}
