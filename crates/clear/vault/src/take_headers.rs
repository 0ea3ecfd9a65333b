//! Takes in headers that other devices pushed, with their changes of members and keys.
//!
//! Takes   a remote, and the publications there
//! Gives   a newer header in use; publications that open with its keys
//! Never   takes in a header that does not continue the header in use. If two devices each made a header from one
//!         earlier header and one of the two was published, never takes in the other
//! Spec    spec/11-sync.md, [11.6.9]
//!
//! Invariants
//!  (1) A key is forgotten only once everything published under it is joined, or does not concern this device.        [11.6.9]
//!  (2) If devices made headers at the same time, this device follows one of them: the header that a publication names.
//!      But if the publication does not open with the keys in use, it follows the newest header whose keys open the
//!      publication. The other headers came too late, and stay at the remote.                       [11.6.19]

use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_format::publication::SignedPublication;
use strongroom_format::{Epoch, Header, Record};
use strongroom_remote::Remote;
use strongroom_sync::limits::PUBLICATION_OBJECT_BYTES_MAX;
use strongroom_sync::{header_name, object_hash, publication_name};

use crate::folder::Folder;
use crate::remote_log::{headers_at, newest_number};
use crate::remotes::{is_unreachable, vault_id};
use crate::request::Request;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::remote::RemoteRequest;
use crate::{Error, Result, Vault};

impl Vault {
    /// Takes in the header that a remote has named, if it is another one than that in use, with those before it; its generation is 0 if nobody
    /// knows it. `needed`: see `take_headers_up_to`.
    ///
    /// # Errors
    /// `Remote` if a later one that was named is not there, or another than that.
    pub(crate) fn take_headers_if_other(
        &self,
        remote: &dyn Remote,
        (generation, hash): (u64, [u8; 32]),
        needed: Epoch,
    ) -> Result<()> {
        if hash == self.remote_header_hash()? || hash == [0; 32] {
            return Ok(());
        }
        let headers = headers_at(remote)?;
        let own = self.information()?.generation;
        let Some(named) = headers.iter().find(|(_, one)| *one == hash) else {
            let object = header_name(generation, &hash).to_string();
            return match generation > own {
                true => Err(strongroom_sync::Error::Missing { object }.into()),
                false => Ok(()),
            };
        };
        let known: Vec<_> = self.remote_rows()?.iter().map(|row| row.header).collect();
        let published = headers.iter().find(|(_, hash)| known.contains(hash));
        let first = published.map_or(own, |(one, _)| own.min(*one));
        self.take_headers_up_to(remote, &headers, (*named, first), needed)
    }

    /// The hash of the header in use, in the form that remotes get.
    fn remote_header_hash(&self) -> Result<[u8; 32]> {
        let hash: ByteBuffer = self.ask_for(&Request::Remote(RemoteRequest::HeaderHash))?;
        let hash = hash.0.try_into();
        hash.map_err(|_| Error::Protocol("an invalid hash"))
    }

    /// What a publication says; a header that it needs is taken in first. `before`: the hash of the header that the publication before it names.
    pub(crate) fn open_knowing(
        &self,
        remote: &dyn Remote,
        (number, object): (u64, &[u8]),
        before: [u8; 32],
        needed: Epoch,
    ) -> Result<SignedPublication> {
        match self.open_publication(number, object) {
            Err(Error::RemoteUntrue(_)) => {
                self.take_headers_for(remote, (number, object), before, needed)?;
                self.open_publication(number, object)
            }
            opened => opened,
        }
    }

    /// The first publication that who comes new needs; headers that it takes to know are taken in first. `before`: see `open_knowing`.
    pub(crate) fn first_needed_knowing(
        &self,
        remote: &dyn Remote,
        before: [u8; 32],
    ) -> Result<u64> {
        match self.first_needed(remote) {
            Err(Error::RemoteUntrue(_)) => {
                let number = newest_number(remote)?;
                let name = publication_name(number);
                let object = remote.read(&name, PUBLICATION_OBJECT_BYTES_MAX)?;
                let object = object.ok_or_else(|| strongroom_sync::Error::Missing {
                    object: name.to_string(),
                })?;
                self.take_headers_for(remote, (number, &object), before, Epoch(u32::MAX))?;
                self.first_needed(remote)
            }
            first => first,
        }
    }

    /// Takes in the newest header of the remote with which that publication opens, if there is one, with those before it. (2)
    fn take_headers_for(
        &self,
        remote: &dyn Remote,
        (number, object): (u64, &[u8]),
        before: [u8; 32],
        needed: Epoch,
    ) -> Result<()> {
        let headers = headers_at(remote)?;
        let own = self.information()?.generation;
        let own_hash = self.remote_header_hash()?;
        let (mut refused, mut diverged) = (None, false);
        for &(generation, hash) in headers.iter().filter(|(_, hash)| *hash != own_hash) {
            let read = self.read_header(remote, (generation, hash));
            let opens = read.and_then(|(header, _)| {
                self.ask_for(&Request::Remote(RemoteRequest::OpensUnder {
                    header: Bytes(&header),
                    number,
                    object: Bytes(object),
                }))
            });
            match opens {
                // What is said of guessing raises the generation, and who changed keys may not have known of it: any may come before it.
                Ok(true) => {
                    let to = ((generation, hash), 0);
                    return self.take_headers_up_to(remote, &headers, to, needed);
                }
                Ok(false) => {}
                Err(error @ Error::DeviceReplaced) => return Err(error),
                Err(error) if is_unreachable(&error) => return Err(error),
                Err(_) if generation < own => {}
                Err(Error::Keys(_)) => diverged = true,
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            // If the one in use was published, the other one came too late, and says nothing.
            _ if diverged && before != own_hash => Err(Error::keys_diverged()),
            refused => refused.map_or(Ok(()), Err),
        }
    }

    /// Takes in the header `to`, one of `headers`, and before it those from which it goes on, one by one, as far as they have all keys of
    /// `needed` and later epochs that are here. (1) (2) Of generations before `first` none is looked at.
    fn take_headers_up_to(
        &self,
        remote: &dyn Remote,
        headers: &[(u64, [u8; 32])],
        (to, first): ((u64, [u8; 32]), u64),
        needed: Epoch,
    ) -> Result<()> {
        let (_, line) = self.read_header(remote, to)?;
        let own = self.information()?.generation;
        let own_hash = self.remote_header_hash()?;
        // One that does not go on from the header in use says nothing about those behind it.
        let (mut refused, mut taken, mut diverged) = (None, false, false);
        for &(generation, hash) in headers.iter().rev() {
            let is_behind = generation < own && hash != to.1;
            // Of the same generation: another device changed keys while this one forgot some.
            if hash == own_hash || (is_behind && generation < first) {
                continue;
            }
            let read = self.read_header(remote, (generation, hash));
            let is_newer = read.and_then(|(header, records)| match line.starts_with(&records) {
                true => self.ask_for(&Request::Remote(RemoteRequest::TakeHeader {
                    header: Bytes(&header),
                    needed: needed.0,
                })),
                false => Ok(false),
            });
            match is_newer {
                Ok(is_newer) => taken = taken || is_newer,
                Err(error @ (Error::KeysInUse | Error::DeviceReplaced)) => return Err(error),
                Err(error) if is_unreachable(&error) => return Err(error),
                Err(_) if is_behind => {}
                Err(Error::Keys(_)) => diverged = true,
                Err(error) if hash == to.1 => return Err(error),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            _ if taken => Ok(()),
            _ if diverged => Err(Error::keys_diverged()),
            refused => refused.map_or(Ok(()), Err),
        }
    }

    /// A header of this vault that the remote has, and its membership records.
    fn read_header(
        &self,
        remote: &dyn Remote,
        (generation, hash): (u64, [u8; 32]),
    ) -> Result<(Vec<u8>, Vec<Record>)> {
        let name = header_name(generation, &hash);
        let damaged = |why| strongroom_sync::Error::Damaged {
            object: name.to_string(),
            why,
        };
        let Some(header) = remote.read(&name, HEADER_BYTES_MAX as u64)? else {
            let object = name.to_string();
            return Err(strongroom_sync::Error::Missing { object }.into());
        };
        if object_hash(&header) != hash {
            return Err(damaged("its content is not what was pushed").into());
        }
        let stored = Header::decode(&header).map_err(|_| damaged("it is not a vault header"))?;
        if stored.header.vault != vault_id(&Folder::new(self.folder()))? {
            return Err(damaged("it is from another vault").into());
        }
        Ok((header, stored.header.records))
    }
}
