//! Finds the newest state of a vault at a remote: its header, its keys, and the content of its publications.
//!
//! Takes   a remote, and a secret or keys that open its headers
//! Gives   a header that opens, and the verified log from its base on (the first publication that is still needed)
//! Never   uses a header from before a change of members. If two devices each made a header from one earlier header,
//!         never uses the one that was not published
//! Spec    spec/11-sync.md, 11.5

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use strongroom_crypto::{Keyring, NewDeviceKeys, Secret, UnlockError, unlock_at_remote};
use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_format::publication::SignedPublication;
use strongroom_format::{Header, Record, hex};
use strongroom_remote::Remote;
use strongroom_sync::limits::PUBLICATION_OBJECT_BYTES_MAX;
use strongroom_sync::{
    Live, Marker, follow, header_name, in_parallel, object_hash, open_publication,
    publication_name, publication_number, segment_name, unfinished,
};

use crate::clock::now_s;
use crate::own_login::OwnLogin;
use crate::remote_log::{headers_at, newest_number};
use crate::{Error, Result};

/// Headers that are tried, from the newest on: the newest may have been cut off.
const HEADERS_MAX: usize = 4;

/// Headers of one generation that are read and kept at once, each a mebibyte at most. There is more than one only where devices changed
/// keys at the same time, or one was pushed in two forms; the next change of keys makes a greater generation.
const HEADERS_OF_ONE_MAX: usize = 16;

/// Who opens the headers of a remote before there is a vault here.
pub(crate) enum Opener<'a> {
    /// Somebody who has a secret of the vault.
    Secret(&'a Secret),
    /// A device that another one let in.
    LetIn(&'a NewDeviceKeys),
    /// Somebody whose secret opened the header that an earlier attempt left in the folder. Of a remote no passphrase opens it.
    Known(Box<Keyring>),
}

impl Opener<'_> {
    /// The keys of a header of the remote.
    fn open(&self, header: &[u8]) -> std::result::Result<Keyring, UnlockError> {
        match self {
            Self::Secret(secret) => unlock_at_remote(header, secret),
            Self::LetIn(keys) => keys.unlock_at_remote(header),
            Self::Known(keyring) => keyring.follow_at_remote(header),
        }
    }
}

/// A header with its keys, and the log.
pub(crate) type State = (Vec<u8>, Keyring, Log);

/// The newest header that opens and knows all that was published last, its keys, and the log. A push that was cut off
/// may have left a newer one, without keys that what was published before needs.
pub(crate) fn newest_state(
    remote: &dyn Remote,
    opener: &Opener<'_>,
    marker: &Marker,
) -> Result<State> {
    let mut names = headers_at(remote)?;
    if names.is_empty() && newest_number(remote)? > 0 {
        let object = "all headers of the vault".to_owned();
        return Err(strongroom_sync::Error::Missing { object }.into());
    }
    // Why the newest that opened did not do; else why none opened.
    let mut unread = None;
    // Membership records of those that opened and did not do.
    let mut tried: Vec<Vec<Record>> = Vec::new();
    let mut last = Error::from(strongroom_sync::Error::Empty);
    names.truncate(HEADERS_MAX);
    for of_one in names.chunk_by(|one, next| one.0 == next.0) {
        let (headers, damaged) = headers_by_records(remote, of_one)?;
        last = damaged.map_or(last, Error::from);
        // More than one, if a device changed keys while another forgot some, or changed them too.             [11.5.5]
        for (header, records) in headers {
            // A header from before a change of members would make a removed device one again.                 [11.5.5]
            let is_before =
                |known: &Vec<Record>| known.len() > records.len() && known.starts_with(&records);
            if tried.iter().any(is_before) {
                continue;
            }
            match opener.open(&header) {
                Ok(keyring) if keyring.vault_id() == marker.vault => {
                    // A server shows what was published to members only.                      [11.11.8]
                    remote.sign_with(OwnLogin::of(&keyring));
                    match Log::read(remote, &keyring, marker) {
                        Ok(log) if log.goes_with(remote, (&header, &records), &tried)? => {
                            return Ok((header, keyring, log));
                        }
                        Ok(_) => {}
                        Err(error @ Error::Remote(strongroom_sync::Error::Remote(_))) => {
                            return Err(error);
                        }
                        Err(error) => unread = unread.or(Some(error)),
                    }
                    tried.push(records);
                }
                Ok(_) => last = strongroom_sync::Error::OtherVault.into(),
                // Each try at a passphrase costs a second, and the secret is as wrong for an older one. What is withheld now may lie in
                // an older one that was there before; that no passphrase opens it is what is meant now.
                Err(
                    error @ (UnlockError::WrongSecret { .. }
                    | UnlockError::PassphrasesWithheld { .. }),
                ) => {
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
///
/// # Errors
/// Of the remote; `Damaged`, before anything is read, if there are more than `HEADERS_OF_ONE_MAX`: the right one may be any of them.
pub(crate) fn headers_by_records(
    remote: &dyn Remote,
    names: &[(u64, [u8; 32])],
) -> Result<(Headers, Option<strongroom_sync::Error>)> {
    if names.len() > HEADERS_OF_ONE_MAX {
        let object = "the list of headers".to_owned();
        let why = "it has more headers of one generation than the devices of a vault can be expected to make";
        return Err(strongroom_sync::Error::Damaged { object, why }.into());
    }
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
            // The same header as an earlier version pushed it, which a passphrase opens, comes behind this form of it.
            let place = match stored.header.withheld {
                Some(_) => 0,
                None => headers.len(),
            };
            headers.insert(place, (header.clone(), stored.header.records));
        } else {
            let (object, why) = (name.to_string(), "it is not the header that was pushed");
            damaged = Some(strongroom_sync::Error::Damaged { object, why });
        }
    }
    headers.sort_by_key(|(_, records)| Reverse(records.len()));
    Ok((headers, damaged))
}

/// The part of the log that matters, proven.
pub(crate) struct Log {
    /// The last publication with a head.
    pub(crate) last: SignedPublication,
    /// The number of the newest one: in the middle of a push that has not ended it is greater.
    pub(crate) newest: u64,
    /// Those from its base on.
    pub(crate) publications: Vec<SignedPublication>,
    pub(crate) live: Live,
    /// What is live of pushes that have ended; the rest comes with a later pull.                                [11.4.8]
    pub(crate) joined: Live,
    /// Up to which publication that is all.
    pub(crate) joined_up_to: u64,
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
                let why = "it belongs to another remote";
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

    /// Whether a header with these records is the one that the last publication names, or goes on from that and from all that were `tried`: a
    /// push that was cut off left it. One that was made beside the published one came too late.              [11.5.5]
    fn goes_with(
        &self,
        remote: &dyn Remote,
        (header, records): (&[u8], &[Record]),
        tried: &[Vec<Record>],
    ) -> Result<bool> {
        let named = self.last.body.header;
        if object_hash(header) == named.1 {
            return Ok(true);
        }
        // Without it nothing tells which one came too late.
        let (published, _) = headers_by_records(remote, &[named])?;
        let mut before = published.iter().map(|(_, records)| records).chain(tried);
        Ok(before.all(|before| records.starts_with(before)))
    }

    /// Refuses a remote that does not list what is live, with its length.                                      [11.5.6]
    pub(crate) fn check_listed(&self, remote: &dyn Remote) -> Result<()> {
        let listed = remote.list("segments")?.into_iter();
        let there: HashMap<String, u64> = listed.map(|one| (one.name, one.len)).collect();
        for segment in self.joined.segments.values() {
            let object = segment_name(&segment.hash).to_string();
            let why = "its length differs from what was pushed";
            match there.get(&hex::encode(&segment.hash)) {
                None => return Err(strongroom_sync::Error::Missing { object }.into()),
                Some(len) if *len != segment.len => {
                    return Err(strongroom_sync::Error::Damaged { object, why }.into());
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// What the folder gets: the header that the last publication names, or `newest` if that is a later one, with what it withholds.
    pub(crate) fn header_for_folder(
        &self,
        remote: &dyn Remote,
        opener: &Opener<'_>,
        newest: (&[u8], &Keyring),
    ) -> Result<Vec<u8>> {
        let (generation, hash) = self.last.body.header;
        // A push that was cut off after a change of keys left a later one.
        if object_hash(newest.0) == hash || newest.1.generation() > generation {
            return Ok(newest.1.header_bytes()?);
        }
        let object = header_name(generation, &hash);
        let found = remote.read(&object, HEADER_BYTES_MAX as u64)?;
        let object = object.to_string();
        let why = "its content is not what was pushed";
        match found {
            Some(bytes) if object_hash(&bytes) == hash => {
                Ok(opener.open(&bytes)?.header_bytes()?)
            }
            Some(_) => Err(strongroom_sync::Error::Damaged { object, why }.into()),
            None => Err(strongroom_sync::Error::Missing { object }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use strongroom_remote::{Created, Listed, ObjectName, Result as Answer};

    use super::*;

    /// Has nothing, and counts what is read.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl Remote for Counting {
        fn create(&self, _: &ObjectName, _: Vec<u8>) -> Answer<Created> {
            Ok(Created::New)
        }

        fn read(&self, _: &ObjectName, _: u64) -> Answer<Option<Vec<u8>>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }

        fn read_range(&self, _: &ObjectName, _: Range<u64>) -> Answer<Option<Vec<u8>>> {
            Ok(None)
        }

        fn list(&self, _: &str) -> Answer<Vec<Listed>> {
            Ok(Vec::new())
        }

        fn remove(&self, _: &ObjectName) -> Answer<()> {
            Ok(())
        }
    }

    /// Goal: however many headers of one generation a remote lists, few are read and kept. Method: the reads are counted.
    /// Failed before: all were read, and kept until the last had come.
    #[test]
    fn more_headers_of_one_generation_than_devices_make_are_not_read() {
        let remote = Counting::default();
        let names: Vec<(u64, [u8; 32])> = (0..50).map(|number| (7, [number; 32])).collect();
        let refused = headers_by_records(&remote, &names).map(drop).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("more headers of one generation"),
            "{refused}"
        );
        assert_eq!(remote.0.load(Ordering::Relaxed), 0);
        let few = &names[..HEADERS_OF_ONE_MAX];
        let (headers, damaged) = headers_by_records(&remote, few).unwrap();
        assert!(headers.is_empty() && damaged.is_some());
        assert_eq!(remote.0.load(Ordering::Relaxed), HEADERS_OF_ONE_MAX);
    }
}
