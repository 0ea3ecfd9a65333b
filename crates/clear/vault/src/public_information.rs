//! The facts about a vault that anyone who can read its folder may know.
//!
//! Takes   a vault folder
//! Gives   the facts that its header states in the clear
//! Never   proves them: anyone who can write to the folder can write anything there. Only opening the vault proves it

use std::path::Path;

use strongroom_crypto::{Fingerprint, UnlockError, list_members};
use strongroom_format::{FORMAT, Header};

use crate::folder::Folder;
use crate::open::suite_name;
use crate::provider_in_use::{ProviderInUse, in_use};
use crate::request::member::Member;
use crate::tuning;
use crate::{Result, SlotInfo};

/// What the header of a vault says. Nothing proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicInformation {
    /// The version of the format.
    pub format: u64,
    /// The id of the vault in readable groups, as `Information` has it.
    pub fingerprint: String,
    /// The algorithms, by name.
    pub suite: String,
    /// How often the header has changed.
    pub generation: u64,
    /// Whether remotes have what a passphrase is tried against.
    pub guessable: bool,
    /// The ways to unlock the vault.
    pub slots: Vec<SlotInfo>,
    /// Who belongs to the vault; which of the devices this copy acts as is known to who unlocks it.
    pub members: Vec<Member>,
    /// Which providers would compute if this process opened it.
    pub providers: Vec<ProviderInUse>,
}

/// What everybody may know about the vault in `folder`.
///
/// # Errors
/// `NotAVault`, `InterruptedCreate`, `Damaged`, `UnknownFormat`, `Provider` if the environment names providers that are not there.
pub fn describe(folder: impl AsRef<Path>) -> Result<PublicInformation> {
    let bytes = Folder::new(folder.as_ref()).header()?;
    let header = Header::decode(&bytes).map_err(UnlockError::from)?.header;
    tuning::recall();
    Ok(PublicInformation {
        format: FORMAT,
        fingerprint: Fingerprint::of(header.vault).to_string(),
        suite: suite_name(header.suite).to_owned(),
        generation: header.generation,
        guessable: header.is_guessable(),
        slots: header.slots.iter().map(SlotInfo::from).collect(),
        members: list_members(&bytes)?
            .iter()
            .map(|member| Member::new(member, None))
            .collect(),
        providers: in_use(header.suite)?,
    })
}
