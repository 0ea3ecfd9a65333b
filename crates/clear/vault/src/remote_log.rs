//! The log of publications at a remote, as a device reads it.
//!
//! Takes   what a remote lists and gives
//! Gives   verified publications, in their order, and the headers beside them
//! Never   skips a gap silently, or accepts a log that returned to an earlier state
//! Spec    spec/11-sync.md, 11.3

use std::collections::BTreeMap;
use std::ops::Range;

use strongroom_format::publication::{RemoteId, SignedPublication};
use strongroom_remote::Remote;
use strongroom_sync::limits::PUBLICATION_OBJECT_BYTES_MAX;
use strongroom_sync::{follow, header_parts, in_parallel, publication_name, publication_number};

use crate::clock::Moment;
use crate::request::Request;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::remote::{PublicationFields, RemoteFields, RemoteRequest};
use crate::{Error, Result, Vault};

/// What is known of the log of a remote when a push begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing: what is behind the last publication that is known is listed.
    Lists,
    /// Nothing, and a listing may lack what came just now: the next publication is asked for by its name.
    Asks,
    /// A pull that began at that moment found that publication to be the last, and to be what it was.
    Known { last: u64, at: Moment },
}

impl Vault {
    /// Takes in the publications that the remote has behind the last one that is known; gives the number of the last.
    pub(crate) fn catch_up(&self, row: &RemoteFields, remote: &dyn Remote) -> Result<u64> {
        let last = self.remote_row(row.number)?.last;
        let newest = match last {
            0 => newest_number(remote)?,
            _ => 0,
        };
        self.catch_up_by_name(row, remote, last, newest)
    }

    /// The same from `last` on, or from the base if that is 0, where `newest` was listed: each is asked for by its name, whatever a listing
    /// lacks.                                                                                              [11.3.8]
    fn catch_up_by_name(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        mut last: u64,
        newest: u64,
    ) -> Result<u64> {
        if last == 0 {
            last = self.base_before(remote, newest)?.saturating_sub(1);
        }
        loop {
            let name = publication_name(last + 1);
            match remote.read(&name, PUBLICATION_OBJECT_BYTES_MAX)? {
                Some(object) => {
                    last = self.take_publication(row.number, last + 1, &object, false)?
                }
                // A later one was listed.                                                                  [11.3.8]
                None if last < newest => {
                    let object = name.to_string();
                    return Err(strongroom_sync::Error::Missing { object }.into());
                }
                None => return Ok(last),
            }
        }
    }

    /// The same by one listing of what is behind the last one that is known, which shows a gap, too: see `check_for_gap`. A listing may lack
    /// what came just now.
    ///
    /// # Errors
    /// As `begins_behind`; `RemoteAhead` where that gives true.
    pub(crate) fn catch_up_by_list(&self, row: &RemoteFields, remote: &dyn Remote) -> Result<u64> {
        let mut last = self.remote_row(row.number)?.last;
        if last == 0 {
            return match newest_number(remote)? {
                0 => Ok(0),
                newest => self.catch_up_by_name(row, remote, 0, newest),
            };
        }
        let newest = newest_behind(remote, last)?;
        while last < newest {
            let name = publication_name(last + 1);
            let Some(object) = remote.read(&name, PUBLICATION_OBJECT_BYTES_MAX)? else {
                // Others removed the beginning of the log; or it is a gap, as a later one was listed.               [11.3.8]
                if self.begins_behind(row, remote, last)? {
                    return Err(Error::RemoteAhead);
                }
                let object = name.to_string();
                return Err(strongroom_sync::Error::Missing { object }.into());
            };
            last = self.take_publication(row.number, last + 1, &object, false)?;
        }
        Ok(last)
    }

    /// The first publication that somebody who comes new needs: the base of the newest whole one; 0 if there is none.
    pub(crate) fn first_needed(&self, remote: &dyn Remote) -> Result<u64> {
        self.base_before(remote, newest_number(remote)?)
    }

    /// The same, if `number` is that of the newest publication.
    fn base_before(&self, remote: &dyn Remote, mut number: u64) -> Result<u64> {
        while number > 0 {
            let signed = self.open_at(remote, number)?;
            if signed.body.head != [0; 32] {
                return Ok(signed.body.base);
            }
            number -= 1;
        }
        Ok(0)
    }

    /// Publication `number`, proven.
    pub(crate) fn open_at(&self, remote: &dyn Remote, number: u64) -> Result<SignedPublication> {
        let object = remote.read(&publication_name(number), PUBLICATION_OBJECT_BYTES_MAX)?;
        let object = object.ok_or_else(|| strongroom_sync::Error::Missing {
            object: publication_name(number).to_string(),
        })?;
        self.open_publication(number, &object)
    }

    /// What a publication says, once it has proven itself.
    pub(crate) fn open_publication(&self, number: u64, object: &[u8]) -> Result<SignedPublication> {
        let object = Bytes(object);
        let request = RemoteRequest::Open { number, object };
        let opened: std::result::Result<ByteBuffer, String> =
            self.ask_for(&Request::Remote(request))?;
        let clear = opened.map_err(Error::RemoteUntrue)?;
        SignedPublication::decode(&clear.0).map_err(|_| Error::Protocol("an invalid publication"))
    }

    /// Lets the owner take in the next publication; gives its number. `is_joined`: what it names is here.
    pub(crate) fn take_publication(
        &self,
        remote: u64,
        number: u64,
        object: &[u8],
        is_joined: bool,
    ) -> Result<u64> {
        let object = Bytes(object);
        match self.ask_for(&Request::Remote(RemoteRequest::Publication {
            remote,
            number,
            object,
            is_joined,
        }))? {
            PublicationFields::Taken { number } => Ok(number),
            PublicationFields::Ahead { .. } => Err(Error::RemoteAhead),
            PublicationFields::Refused(why) => Err(Error::RemoteUntrue(why)),
        }
    }

    /// The publications of these numbers, read and proven again.
    pub(crate) fn log(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        numbers: Range<u64>,
    ) -> Result<Vec<SignedPublication>> {
        let mut found = BTreeMap::new();
        in_parallel(
            numbers,
            remote.transfers(),
            |number| Ok((number, self.open_at(remote, number)?)),
            &mut |(number, signed)| {
                found.insert(number, signed);
                Ok::<_, Error>(())
            },
        )?;
        let mut before = None;
        for (number, signed) in &found {
            if let Some(before) = before {
                follow(RemoteId(row.id), before, signed)?;
            }
            before = Some((*number, signed.id));
        }
        Ok(found.into_values().collect())
    }

    /// Looks again at publication `last`, which was seen: refuses a remote that went back, or that has another
    /// publication there. Gives whether the log begins after it, because others removed its beginning while this device
    /// was away. [11.3.5] [11.8.4]
    ///
    /// # Errors
    /// `Remote` if the log ends before `last`: the remote went back; `RemoteUntrue` if another publication has that
    /// number now: a device that published after it would split the log, and others could not read all of it.
    pub(crate) fn begins_behind(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        last: u64,
    ) -> Result<bool> {
        if last == 0 {
            return Ok(false);
        }
        let object = remote.read(&publication_name(last), PUBLICATION_OBJECT_BYTES_MAX)?;
        if let Some(object) = object {
            return self
                .take_publication(row.number, last, &object, true)
                .map(|_| false);
        }
        match newest_behind(remote, last)? > last {
            true => Ok(true),
            false => Err(strongroom_sync::Error::WentBack { number: last }.into()),
        }
    }
}

/// The number of the newest publication; 0 if there is none.
pub(crate) fn newest_number(remote: &dyn Remote) -> Result<u64> {
    let listed = remote.list("publications")?;
    let numbers = listed
        .iter()
        .filter_map(|one| publication_number(&one.name));
    Ok(numbers.max().unwrap_or(0))
}

/// The same, of those behind publication `last`; `last` if none is listed.
fn newest_behind(remote: &dyn Remote, last: u64) -> Result<u64> {
    let after = publication_name(last);
    let listed = remote.list_behind("publications", after.split().1)?;
    let numbers = listed
        .iter()
        .filter_map(|one| publication_number(&one.name));
    Ok(numbers.max().unwrap_or(0).max(last))
}

/// Refuses a log that lacks publication `next`, behind the last that is known, and has later ones: what is behind the gap would never come,
/// and whoever publishes in it parts what others can read.                                                      [11.3.8]
///
/// # Errors
/// `Remote` with `Missing`.
pub(crate) fn check_for_gap(remote: &dyn Remote, next: u64) -> Result<()> {
    let name = publication_name(next);
    // It may have come just now, with those behind it: whoever looks next, or publishes, meets it.
    if next <= newest_behind(remote, next - 1)? && !remote.has(&name)? {
        let object = name.to_string();
        return Err(strongroom_sync::Error::Missing { object }.into());
    }
    Ok(())
}

/// The headers that a remote lists, by generation and hash, newest first.
pub(crate) fn headers_at(remote: &dyn Remote) -> Result<Vec<(u64, [u8; 32])>> {
    let listed = remote.list("headers")?;
    let mut headers: Vec<(u64, [u8; 32])> = listed
        .iter()
        .filter_map(|one| header_parts(&one.name))
        .collect();
    headers.sort_unstable_by(|one, next| next.cmp(one));
    Ok(headers)
}
