//! Takes in headers that other devices pushed: who is a member, and keys, as they were changed there.
//!
//! Takes   a remote, and what it has published
//! Gives   the header in use moved on; publications that open with it
//! Never   takes in a header that does not go on from the one in use
//! Spec    spec/11-sync.md, [11.6.9]
//!
//! Invariants
//!  (1) A key is forgotten only once everything published under it is joined, or does not concern this device.        [11.6.9]

use strongroom_format::publication::SignedPublication;
use strongroom_format::{Epoch, Header};
use strongroom_remote::Remote;
use strongroom_sync::{header_name, object_hash};

use crate::folder::Folder;
use crate::remotes::{headers_at, is_unreachable, vault_id};
use crate::request::Request;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::remote::RemoteRequest;
use crate::{Error, Result, Vault};

impl Vault {
    /// Takes in the headers of the remote if it has named another one than that in use; its generation is 0 if nobody knows it.
    /// `needed`: see `take_headers`.
    pub(crate) fn take_headers_if_other(
        &self,
        remote: &dyn Remote,
        named: (u64, [u8; 32]),
        needed: Epoch,
    ) -> Result<()> {
        let own = self.remote_header_hash()?;
        match named.1 == own || named.1 == [0; 32] {
            true => Ok(()),
            false => self.take_headers(remote, Some(named), needed),
        }
    }

    /// The hash of the header in use, in the form that remotes get.
    fn remote_header_hash(&self) -> Result<[u8; 32]> {
        let hash: ByteBuffer = self.ask_for(&Request::Remote(RemoteRequest::HeaderHash))?;
        let hash = hash.0.try_into();
        hash.map_err(|_| Error::Protocol("an invalid hash"))
    }

    /// What a publication says; a header that it needs is taken in first.
    pub(crate) fn open_knowing(
        &self,
        remote: &dyn Remote,
        number: u64,
        object: &[u8],
        needed: Epoch,
    ) -> Result<SignedPublication> {
        match self.open_publication(number, object) {
            Err(Error::RemoteUntrue(_)) => {
                self.take_headers(remote, None, needed)?;
                self.open_publication(number, object)
            }
            opened => opened,
        }
    }

    /// The first publication that who comes new needs; headers that it takes to know are taken in first.
    pub(crate) fn first_needed_knowing(&self, remote: &dyn Remote) -> Result<u64> {
        match self.first_needed(remote) {
            Err(Error::RemoteUntrue(_)) => {
                self.take_headers(remote, None, Epoch(u32::MAX))?;
                self.first_needed(remote)
            }
            first => first,
        }
    }

    /// Takes in the headers of the remote that go on from the one in use, one by one, as far as they have all keys of `needed` and
    /// later epochs that are here. (1)
    ///
    /// # Errors
    /// `Remote` if the one that a publication named is not there, or another than that.
    fn take_headers(
        &self,
        remote: &dyn Remote,
        named: Option<(u64, [u8; 32])>,
        needed: Epoch,
    ) -> Result<()> {
        let mut headers = headers_at(remote)?;
        headers.reverse();
        let own = self.information()?.generation;
        let own_hash = self.remote_header_hash()?;
        let (newest, named) = (named, named.filter(|(generation, _)| *generation > own));
        if let Some((generation, hash)) = named
            && !headers.contains(&(generation, hash))
        {
            let object = header_name(generation, &hash).to_string();
            return Err(strongroom_sync::Error::Missing { object }.into());
        }
        // What is said of guessing raises the generation, and who changed keys may not have known of it: it may be any header if none is named.
        let known: Vec<_> = self.remote_rows()?.iter().map(|row| row.header).collect();
        let published = headers.iter().rfind(|(_, hash)| known.contains(hash));
        let first = newest.map_or(0, |_| published.map_or(own, |(one, _)| own.min(*one)));
        // One that does not go on from the header in use says nothing about those behind it.
        let (mut refused, mut taken, mut diverged) = (None, false, false);
        for (generation, hash) in headers {
            let is_newest = newest.is_some_and(|(_, newest)| newest == hash);
            let is_behind = generation < own && !is_newest;
            // Of the same generation: another device changed keys while this one forgot some.
            if hash == own_hash || (is_behind && generation < first) {
                continue;
            }
            match self.take_header(remote, (generation, hash), needed) {
                Ok(is_newer) => taken = taken || is_newer,
                Err(error @ (Error::KeysInUse | Error::DeviceReplaced)) => return Err(error),
                Err(error) if is_unreachable(&error) => return Err(error),
                Err(_) if is_behind => {}
                Err(Error::Keys(_)) => diverged = true,
                Err(error) if named == Some((generation, hash)) => return Err(error),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            _ if taken => Ok(()),
            _ if diverged => Err(Error::keys_diverged()),
            refused => refused.map_or(Ok(()), Err),
        }
    }

    /// Takes in one header; gives whether it is a newer one than that in use.
    fn take_header(
        &self,
        remote: &dyn Remote,
        (generation, hash): (u64, [u8; 32]),
        needed: Epoch,
    ) -> Result<bool> {
        let name = header_name(generation, &hash);
        let damaged = |why| strongroom_sync::Error::Damaged {
            object: name.to_string(),
            why,
        };
        let bytes_max = strongroom_format::limits::HEADER_BYTES_MAX as u64;
        let Some(header) = remote.read(&name, bytes_max)? else {
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
        let header = Bytes(&header);
        let needed = needed.0;
        self.ask_for(&Request::Remote(RemoteRequest::TakeHeader {
            header,
            needed,
        }))
    }
}
