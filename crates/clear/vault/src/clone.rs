//! Makes a vault out of what a remote has, as a new device of it.
//!
//! Takes   the address of a remote, an empty folder, and a secret that opens the vault
//! Gives   a vault with everything that the last push named, snapshots too
//! Never   believes the remote: header, publications, records and segments prove themselves; touches a folder that holds anything
//! Spec    spec/11-sync.md, 11.5
//!
//! Invariants
//!  (1) Until the last step the folder is marked as unfinished and is no vault; a clone that was cut off goes on where it stopped.
//!  (2) Nothing is downloaded before the header proved to be of the vault that is meant.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use strongroom_crypto::{Keyring, NewDeviceKeys, Secret, SystemRandom, unlock};
use strongroom_filesystem::DurableState;
use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_format::publication::{Publication, SignedPublication};
use strongroom_format::{Header, Record, hex};
use strongroom_metadata::{Options, Remote as RemoteRow, Store};
use strongroom_remote::{Address, Limited, Pace, Rates, Remote};
use strongroom_sync::limits::PUBLICATION_OBJECT_BYTES_MAX;
use strongroom_sync::{
    Live, Marker, RemoteState, follow, header_name, in_parallel, object_hash, open_publication,
    publication_name, publication_number, unfinished,
};

use crate::clock::now_s;
use crate::create::{claim_for, leave_empty};
use crate::download::{download, remove_strangers};
use crate::execute::published::put_published;
use crate::folder::switch;
use crate::folder::{CLONE_MARK, Folder, HEADER, REPLICA, UNFINISHED};
use crate::recovery::rebuild::Unnamed;
use crate::recovery::recover::{Rebuild, RecoverOptions, RecoverProgress, Trial, recover_from};
use crate::recovery::report::RecoverReport;
use crate::remotes::{RemoteProgress, headers_at, newest_number};
use crate::request::Access;
use crate::request::history::RevisionInfo;
use crate::seen::{self, Sight, Trust, Watch};
use crate::{Error, GoOn, Result};

/// What the remote that a vault was cloned from is called.
pub const CLONED_FROM: &str = "origin";

/// Headers that are tried, from the newest on: the newest may have been cut off.
const HEADERS_MAX: usize = 4;

/// How a vault is cloned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneOptions {
    /// What the vault must be.
    pub trust: Trust,
    /// How fast it may come down.
    pub rates: Rates,
}

/// How far a clone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneProgress {
    /// Objects come down.
    Down(RemoteProgress),
    /// The database is made from them.
    Made(RecoverProgress),
}

/// What a clone brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneReport {
    /// What tells this vault from any other.
    pub fingerprint: String,
    /// Objects that came down now, and their bytes; those of an earlier attempt are not counted.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// What the database was made of.
    pub made: RecoverReport,
}

/// The device that another one let in, and the state in which it did.
#[derive(Clone, Copy)]
pub(crate) struct LetIn<'a> {
    pub(crate) keys: &'a NewDeviceKeys,
    /// The generation of its header.
    pub(crate) generation: u64,
    /// The newest publication then.
    pub(crate) publication: u64,
}

/// Makes a vault in `folder`, which must not exist or be empty, out of the remote at `address`. The remote is called `origin` there.
///
/// Interrupted at any moment, the same call goes on.
///
/// # Errors
/// `Remote`, `RemoteUntrue`; `WrongSecret`; `FolderNotEmpty`, `AlreadyAVault`; `RemoteStopped`; those of `recover`.
pub fn clone(
    address: &str,
    folder: impl AsRef<Path>,
    secret: &Secret,
    options: CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    clone_as(address, folder.as_ref(), secret, None, &options, told)
}

/// The same as a device that was let in; without one, as a device that the slot of the secret adds.
pub(crate) fn clone_as(
    address: &str,
    folder: &Path,
    secret: &Secret,
    let_in: Option<LetIn<'_>>,
    options: &CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    let place = Address::parse(address)?;
    let remote = Limited::new(place.open()?, Pace::new(options.rates));
    let remote: &dyn Remote = &remote;
    let marker = Marker::read(remote)?.ok_or(strongroom_sync::Error::NoVault)?;
    let folder = Folder::new(folder);
    let made_folder = folder.make()?;
    let folder = folder.absolute()?;
    let mark = [CLONE_MARK, hex::encode(&marker.remote.0).as_bytes(), b"\n"].concat();
    let was_begun = folder.has(UNFINISHED);
    let lock = claim_for(&folder, &mark)?;
    // What an earlier attempt made of an earlier state.
    switch::start_over(&folder)?;
    let found = newest_state(remote, secret, &marker);
    let (header, keyring, log) = match check_let_in(found, let_in) {
        Ok(found) => found,
        Err(error) => {
            // What came down earlier stays, for the next attempt; else the folder is as it was.
            if !was_begun {
                leave_empty(&folder, made_folder);
            }
            return Err(error);
        }
    };
    seen::begin_new(&folder, &options.trust)?;
    // (2)
    Watch::begin(&folder, &keyring, Access::ReadOnly, &options.trust)?.check_head(&keyring)?;
    if let Some(let_in) = let_in {
        write_replica(&folder, keyring.clone(), let_in.keys)?;
    }
    let (objects, bytes) = download(remote, &folder, &log.joined, told)?;
    remove_strangers(&folder, &log.joined)?;
    let wanted = log.header_bytes(remote, &header, keyring.generation())?;
    folder.replace(HEADER, &wanted)?;
    let recovering = RecoverOptions {
        rebuild: Rebuild::IfLost,
        trust: options.trust.clone(),
    };
    let made = recover_from(
        &folder,
        secret,
        &recovering,
        (Trial::ForReal, Unnamed::LeftOut),
        &mut |progress| {
            // It cannot be stopped here: it takes seconds, and the next attempt would do it again.
            let _ = told(CloneProgress::Made(progress));
        },
    )?;
    let is_head = |one: &RevisionInfo| one.id.0 == log.last.body.head;
    if made.is_whole() && made.revision.as_ref().is_some_and(|one| !is_head(one)) {
        let why = "its newest snapshot is not the one that was published last";
        return Err(Error::RemoteUntrue(why.to_owned()));
    }
    note_remote(&folder, secret, &options.trust, address, &log)?;
    folder.remove_if_there(UNFINISHED)?; // (1)
    folder.sync()?;
    drop(lock);
    Ok(CloneReport {
        fingerprint: strongroom_crypto::Fingerprint::of(marker.vault).to_string(),
        objects,
        bytes,
        made,
    })
}

/// A header with its keys, and the log.
type State = (Vec<u8>, Keyring, Log);

/// Gives the state if a device that was let in is a member in it, and it is not older than what it was let into.    [11.7.9]
fn check_let_in(found: Result<State>, let_in: Option<LetIn<'_>>) -> Result<State> {
    let Some(let_in) = let_in else {
        return found;
    };
    let is_older = match &found {
        Ok((_, keyring, log)) => {
            let mut keyring = keyring.clone();
            keyring.generation() < let_in.generation
                || log.newest < let_in.publication
                || keyring.act_as_new(let_in.keys).is_err()
        }
        // The slot of this device is in no header that the remote shows.
        Err(Error::WrongSecret(_)) => true,
        // It has nothing at all.
        Err(Error::Remote(strongroom_sync::Error::Empty | strongroom_sync::Error::OtherVault)) => {
            true
        }
        Err(_) => false,
    };
    match is_older {
        false => found,
        true => {
            let why = "it shows an older state than the one in which this device was let in";
            Err(Error::RemoteUntrue(why.to_owned()))
        }
    }
}

/// Writes the replica file of a device that was let in: an attempt that goes on finds it, and adds no other device.
fn write_replica(folder: &Folder, mut keyring: Keyring, keys: &NewDeviceKeys) -> Result<()> {
    keyring.act_as_new(keys)?;
    let replica = keyring.new_replica(&SystemRandom)?;
    folder.replace(REPLICA, &keyring.seal_replica(&replica, &SystemRandom)?)
}

/// The newest header that opens with the secret and knows all that was published last, its keys, and the log. A push that was cut off
/// may have left a newer one, without keys that what was published before needs.
fn newest_state(remote: &dyn Remote, secret: &Secret, marker: &Marker) -> Result<State> {
    let mut names = headers_at(remote)?;
    if names.is_empty() && newest_number(remote)? > 0 {
        let object = "all headers of the vault".to_owned();
        return Err(strongroom_sync::Error::Missing { object }.into());
    }
    // Why the newest that opened did not do; else why none opened.
    let mut unread = None;
    // A header from before a change of members would make a removed device one again.                 [11.5.5]
    let mut members: Option<Vec<Record>> = None;
    let mut last = Error::from(strongroom_sync::Error::Empty);
    names.truncate(HEADERS_MAX);
    for of_one in names.chunk_by(|one, next| one.0 == next.0) {
        let (headers, damaged) = headers_by_records(remote, of_one)?;
        last = damaged.map_or(last, Error::from);
        // More than one, if a device changed keys while another forgot some.                          [11.5.5]
        for (header, records) in headers {
            let goes_on = |known: &Vec<Record>| records.starts_with(known);
            if !members.as_ref().is_none_or(goes_on) {
                continue;
            }
            match unlock(&header, secret, None) {
                Ok(keyring) if keyring.vault_id() == marker.vault => {
                    members = Some(records);
                    match Log::read(remote, &keyring, marker) {
                        Ok(log) => return Ok((header, keyring, log)),
                        Err(error @ Error::Remote(strongroom_sync::Error::Remote(_))) => {
                            return Err(error);
                        }
                        Err(error) => unread = unread.or(Some(error)),
                    }
                }
                Ok(_) => last = strongroom_sync::Error::OtherVault.into(),
                // Each try at a passphrase costs a second, and the secret is as wrong for an older one.
                Err(error @ strongroom_crypto::UnlockError::WrongSecret { .. }) => {
                    return Err(unread.unwrap_or_else(|| error.into()));
                }
                Err(error) => last = error.into(),
            }
        }
    }
    Err(unread.unwrap_or(last))
}

/// Headers with their membership records.
type Headers = Vec<(Vec<u8>, Vec<Record>)>;

/// The headers of these names, those with more records first; and what is wrong with one that is none.
pub(crate) fn headers_by_records(
    remote: &dyn Remote,
    names: &[(u64, [u8; 32])],
) -> Result<(Headers, Option<strongroom_sync::Error>)> {
    let (mut headers, mut damaged) = (Headers::new(), None);
    for (generation, hash) in names {
        let name = header_name(*generation, hash);
        let found = match remote.read(&name, HEADER_BYTES_MAX as u64) {
            Err(strongroom_remote::Error::TooLong { .. }) => None,
            found => found?,
        };
        let found = found.filter(|header| object_hash(header) == *hash);
        let stored = found.as_deref().map(Header::decode);
        if let (Some(header), Some(Ok(stored))) = (&found, stored) {
            headers.push((header.clone(), stored.header.records));
        } else {
            let (object, why) = (name.to_string(), "it is not the header that was pushed");
            damaged = Some(strongroom_sync::Error::Damaged { object, why });
        }
    }
    headers.sort_by_key(|(_, records)| Reverse(records.len()));
    Ok((headers, damaged))
}

/// The part of the log that matters, proven.
struct Log {
    /// The last publication with a head.
    last: SignedPublication,
    /// The number of the newest one: in the middle of a push that has not ended it is greater.
    newest: u64,
    /// Those from its base on.
    publications: Vec<SignedPublication>,
    live: Live,
    /// What is live of pushes that have ended; the rest comes with a later pull.                                [11.4.8]
    joined: Live,
    /// Up to which publication that is all.
    joined_up_to: u64,
}

impl Log {
    fn read(remote: &dyn Remote, keyring: &Keyring, marker: &Marker) -> Result<Self> {
        let (signer, sealer) = (keyring.revision_signer(), keyring.block_sealer());
        let listed = remote.list("publications")?;
        let newest = listed
            .iter()
            .filter_map(|one| publication_number(&one.name))
            .max();
        let newest = newest.ok_or(strongroom_sync::Error::Empty)?;
        let open = |number: u64| -> Result<SignedPublication> {
            let name = publication_name(number);
            let object = remote.read(&name, PUBLICATION_OBJECT_BYTES_MAX)?;
            let object = object.ok_or_else(|| strongroom_sync::Error::Missing {
                object: name.to_string(),
            })?;
            Ok(open_publication(number, &object, &signer, &sealer)?)
        };
        // A push that has not ended names no head.
        let mut whole = newest;
        let mut last = open(whole)?;
        while last.body.head == [0; 32] {
            whole -= 1;
            if whole == 0 {
                return Err(strongroom_sync::Error::Empty.into());
            }
            last = open(whole)?;
        }
        let mut found = BTreeMap::new();
        in_parallel(
            last.body.base..whole,
            remote.transfers(),
            open,
            &mut |signed| {
                found.insert(signed.body.number, signed);
                Ok(())
            },
        )?;
        found.insert(whole, last.clone());
        let unfinished = unfinished(found.values().map(|one| &one.body), now_s());
        let (mut live, mut joined) = (Live::default(), Live::default());
        let mut before = None;
        for signed in found.values() {
            if signed.body.remote != marker.remote {
                let object = publication_name(signed.body.number).to_string();
                let why = "it is of another remote";
                return Err(strongroom_sync::Error::Damaged { object, why }.into());
            }
            if let Some(before) = before {
                follow(marker.remote, before, signed)?;
            }
            before = Some((signed.body.number, signed.id));
            live.add(signed);
            if !unfinished.numbers.contains(&signed.body.number) {
                joined.add(signed);
            }
        }
        Ok(Self {
            last,
            newest,
            publications: found.into_values().collect(),
            live,
            joined,
            joined_up_to: unfinished.before,
        })
    }

    /// The header that the last publication names, or `newest` if that is a later one.
    fn header_bytes(
        &self,
        remote: &dyn Remote,
        newest: &[u8],
        newest_generation: u64,
    ) -> Result<Vec<u8>> {
        let (generation, hash) = self.last.body.header;
        // A push that was cut off after a change of keys left a later one.
        if object_hash(newest) == hash || newest_generation > generation {
            return Ok(newest.to_vec());
        }
        let object = header_name(generation, &hash);
        let found = remote.read(&object, HEADER_BYTES_MAX as u64)?;
        let object = object.to_string();
        let why = "its bytes are others than were pushed";
        match found {
            Some(bytes) if object_hash(&bytes) == hash => Ok(bytes),
            Some(_) => Err(strongroom_sync::Error::Damaged { object, why }.into()),
            None => Err(strongroom_sync::Error::Missing { object }.into()),
        }
    }
}

/// Notes in the new database where the vault came from, and what is there.
fn note_remote(
    folder: &Folder,
    secret: &Secret,
    trust: &Trust,
    address: &str,
    log: &Log,
) -> Result<()> {
    let files = crate::keyring::own_replica::Files::read(folder)?;
    let mut keyring = files.unlock(secret)?;
    let replica = files.replica_of(&mut keyring)?;
    let store = Store::open(
        folder.path(),
        replica.metadata_key().bytes(),
        Options::default(),
    )
    .map_err(strongroom_filesystem::Error::from)?;
    let Publication {
        base, header, head, ..
    } = &log.last.body;
    let state = RemoteState {
        last: (log.last.body.number, log.last.id),
        base: *base,
        header: header.1,
        head: *head,
        joined: log.joined_up_to,
        ..RemoteState::new(address.to_owned())
    };
    let row = RemoteRow {
        number: 0,
        name: CLONED_FROM.to_owned(),
        id: log.last.body.remote.0,
        state: state.encode(),
    };
    let mut writer = store.lock();
    let noted = writer.put_remote(&row).and_then(|number| {
        for signed in &log.publications {
            let live = Publication {
                segments: signed
                    .body
                    .segments
                    .iter()
                    .filter(|one| log.live.segments.contains_key(&one.hash))
                    .copied()
                    .collect(),
                revisions: signed
                    .body
                    .revisions
                    .iter()
                    .filter(|one| log.live.revisions.contains_key(&one.hash))
                    .copied()
                    .collect(),
                ..signed.body.clone()
            };
            put_published(&mut writer, number, &live)?;
        }
        writer.commit()
    });
    noted.map_err(strongroom_filesystem::Error::from)?;
    let commits = writer.commits();
    drop(writer);
    // It is known from now on, and no copy of a vault that stands beside it.
    let durable = commits.ok().map(|commits| DurableState {
        commits,
        root: None,
    });
    Sight::of_new(folder, &keyring, replica.instance(), durable, trust)?;
    store.finish().map_err(strongroom_filesystem::Error::from)?;
    Ok(())
}
