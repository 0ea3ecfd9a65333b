//! Brings a remote to the state of the vault: uploads the objects that it lacks, then names them in one publication.
//!
//! Takes   an open vault, whichever process owns it, and one of its remotes
//! Gives   the same sealed bytes at the remote, named by a signed publication
//! Never   seals a block, publishes an object that is not at the remote, or overwrites an object that another device published
//! Spec    spec/11-sync.md, 11.4
//!
//! Invariants
//!  (1) For each page (the objects of one publication), first its segments and records are uploaded, in any order; then the header, if
//!      it is not there yet; then the publication. Only the last publication of a push has a head: with it everything becomes visible at
//!      once. After an interruption the published state is as before, and the next push does not upload these segments again.  [11.4.1] [11.4.3] [11.4.12]
//!  (2) No segment that has to be uploaded is removed from the vault folder before its upload.    [11.4.2]

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_format::publication::{PublishedRevision, PublishedSegment, SignedPublication};
use strongroom_format::{Epoch, Header};
use strongroom_remote::{Buffers, Created, ObjectName, Remote};
use strongroom_sync::limits::PUBLICATION_OBJECT_BYTES_MAX;
use strongroom_sync::{
    header_name, in_parallel, object_hash, publication_name, revision_name, segment_name,
    unfinished,
};

use crate::clock::{Moment, now_s};
use crate::folder::Folder;
use crate::limits::PUSH_PAGE;
use crate::outgoing::read_object;
use crate::prune::{GRACE, PruneReport, Pruning, Unnamed};
use crate::remote_log::{Look, check_for_gap, headers_at};
use crate::remotes::{RemoteProgress, go_on};
use crate::request::frame::ByteBuffer;
use crate::request::remote::{
    NamedFields, PushFields, RemoteFields, RemoteRequest, UploadedObject, VaultObject,
};
use crate::request::{Request, Response};
use crate::{Error, GoOn, Result, Vault};

/// How often a push begins again because another device published first, keys changed, or the owner left before anything arrived.
const ATTEMPTS: usize = 16;

/// Publications from the base on that make a log long, whatever they name;
const LOG_LONG: u64 = 128;
/// and objects that may be live for each further one: naming them all again costs less than what it spares newcomers.
const OBJECTS_A_PUBLICATION: u64 = 64;

/// Segments, and records, that are named again at once: with a page of what went up they fit the lists of a publication.
const NAMED_AGAIN_MAX: usize = 6144;

/// A look at the log holds until more than so many bytes of segments have gone up since: beside these another one costs little.
const LOOK_BYTES_MAX: u64 = 16 << 20;

/// It holds for so long at most: others publish meanwhile, and a place may be put back.
const LOOK_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of segments that a push right behind a pull sends without asking whether another device published in between: if its keys were
/// replaced there, so much goes up for nothing.
const UNASKED_BYTES_MAX: u64 = 1 << 20;

/// What a push did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Objects that went up, but for publications, and their bytes.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// Publications that were made; 0: there was nothing new.
    pub publications: u64,
}

/// Why one attempt ended.
enum Ended {
    Done,
    /// Another device published first, keys changed, the snapshot was removed, or this copy is a new device now.
    Again,
}

impl Vault {
    /// Brings the remote of that name to the state of the vault, with everything acknowledged before; others may use the vault
    /// meanwhile. `told` hears of the progress and says whether to go on; the next push goes on where this one stopped.
    ///
    /// # Errors
    /// `UnknownRemote`; `Remote` if it cannot be reached, refuses access, is full or lies; `RemoteAhead` if it has changes of another
    /// device; `RemoteStopped`; `Damaged` if a segment is not as it was written; `CalledBack` in the `told` of such a call.
    pub fn push(
        &self,
        name: &str,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<PushReport> {
        let _turn = self.shared.remote_turns.take()?;
        let (row, remote) = self.reach(name)?;
        self.push_and_clear(&row, &*remote, told)
    }

    /// Lets a publication of this vault name that many objects at most, so that tests see many of them in one push.
    #[doc(hidden)]
    pub fn push_in_pages_of(&self, objects: u64) {
        let page = objects.clamp(1, PUSH_PAGE as u64);
        self.shared.push_page.store(page, Ordering::Relaxed);
    }

    /// The same to a remote that was reached, in a turn of the caller.
    pub(crate) fn push_to(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<PushReport> {
        let (report, _) = self.push_and_prune(row, remote, Pruning::IfDue, told)?;
        Ok(report)
    }

    /// The same, and what does not count any more goes.
    pub(crate) fn push_and_prune(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        pruning: Pruning,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<(PushReport, PruneReport)> {
        self.push_knowing(row, remote, (Look::Lists, pruning), told)
    }

    /// The same where so much is known of the log.
    pub(crate) fn push_once(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        (mut look, pruning): (Look, Pruning),
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<(PushReport, PruneReport)> {
        let (mut report, mut pruned) = (PushReport::default(), PruneReport::default());
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let before = report;
            let attempt = Attempt {
                vault: self,
                row,
                remote,
                folder: Folder::new(self.folder()).absolute()?,
                there: HashMap::new(),
                look,
                looked: None,
                buffers: Buffers::default(),
                prunes: self.is_due(row, pruning)?.then_some(pruning),
                report: &mut report,
                pruned: &mut pruned,
            };
            let begin = RemoteRequest::BeginPush { remote: row.number };
            let (has_begun, ended) = match self.ask_for::<PushFields>(&Request::Remote(begin)) {
                Ok(begun) => (true, attempt.run(&begun, told)),
                Err(error) => (false, Err(error)),
            };
            // If it does not arrive, the end of the session does the same.
            let was_there = self.ask_for::<bool>(&Request::Remote(RemoteRequest::EndPush));
            let is_lost = has_begun && matches!(was_there, Ok(false));
            attempts += 1;
            look = match (look, &ended) {
                // A listing did not show what was first; nor may the next one, whatever ended the attempt in between.
                (_, Ok(Ended::Again)) | (Look::Asks, _) => Look::Asks,
                _ => Look::Lists,
            };
            match ended {
                Ok(Ended::Done) => {
                    self.say_needs_if_it_hears(row.number, remote)?;
                    return Ok((report, pruned));
                }
                Ok(Ended::Again) => {}
                Err(Error::RemoteStopped) => return Err(Error::RemoteStopped),
                // The owner left, and with it went what it kept for the push: what failed since says nothing.
                Err(error) if is_lost => {
                    log::debug!("a push begins again: {error}");
                    // Owners may come and go without end; what has arrived is not sent again.
                    attempts -= usize::from(report != before);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::KeysContended)
    }
}

/// One attempt.
struct Attempt<'a> {
    vault: &'a Vault,
    row: &'a RemoteFields,
    remote: &'a dyn Remote,
    folder: Folder,
    /// What an earlier push that did not end left at the remote, with its lengths.
    there: HashMap<String, u64>,
    look: Look,
    /// When all of the log was looked at; never if the next publication was only asked for by its name.
    looked: Option<Moment>,
    /// What segments are read into: there are as many as are on their way at a time.
    buffers: Buffers,
    /// Whether what does not count any more is to go; not any more once it went.
    prunes: Option<Pruning>,
    report: &'a mut PushReport,
    pruned: &'a mut PruneReport,
}

impl Attempt<'_> {
    fn run(
        mut self,
        begun: &PushFields,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<Ended> {
        let remote = self.row.number;
        let mut last = self.catch_up()?;
        if self.becomes_new_device()? {
            return Ok(Ended::Again);
        }
        let names_again = self.names_again(begun, last)?;
        if begun.was_pushing || names_again {
            for listed in self.remote.list("segments")? {
                self.there
                    .insert(format!("segments/{}", listed.name), listed.len);
            }
        }
        let header = object_hash(&begun.header.0);
        let mut progress = RemoteProgress {
            bytes: 0,
            bytes_total: begun.bytes,
        };
        let mut header_is_there = begun.is_header_there;
        let mut is_new = self.is_new_there(&header)?;
        let limit = self.vault.shared.push_page.load(Ordering::Relaxed);
        loop {
            let announces = std::mem::take(&mut is_new);
            let missing: Vec<VaultObject> = match announces {
                true => Vec::new(),
                false => {
                    let request = RemoteRequest::Missing { remote, limit };
                    self.vault.ask_for(&Request::Remote(request))?
                }
            };
            // What has arrived whole is not stopped at its end.
            if !missing.is_empty() {
                go_on(told(&progress))?;
                if self.is_overtaken(begun.bytes, last)? {
                    return Ok(Ended::Again);
                }
            }
            let is_last = !announces && (missing.len() as u64) < limit;
            let mut named = NamedFields {
                uploaded: self.upload(missing, &mut progress, told)?,
                ..NamedFields::default()
            };
            let mut unnamed = None;
            if is_last {
                self.name_again(begun, last, &mut named)?;
                unnamed = self.find_unnamed(&mut named)?;
            }
            let request = RemoteRequest::Seal {
                remote,
                last,
                header,
                named,
            };
            let object = match self.vault.ask(&Request::Remote(request))?.1 {
                Response::KeysStale => return Ok(Ended::Again),
                sealed => ByteBuffer::try_from(sealed)?.0,
            };
            // Also where there is nothing to say: a remote that went back is to be known.                  [11.3.5]
            // It took what this push published just now, or a pull read it.
            let is_fresh = self.is_fresh(progress.bytes);
            let is_known = object.is_empty() && self.report.publications > 0
                || is_fresh
                    && matches!(self.look, Look::Known { last: known, .. } if known == last);
            if !is_known && self.vault.begins_behind(self.row, self.remote, last)? {
                return Err(Error::RemoteAhead);
            }
            // Without a publication that is known, the log was listed just now.                              [11.3.8]
            if !object.is_empty() && last > 0 && self.report.publications == 0 && !is_fresh {
                check_for_gap(self.remote, last + 1)?;
            }
            if object.is_empty() {
                // What it would have retired is live after all; the log may be longer than anybody needs.
                if let Some((unnamed, pruning)) = unnamed {
                    self.remove(&unnamed.only_kept(), last, pruning, told)?;
                }
                return Ok(Ended::Done);
            }
            if !header_is_there {
                // It stays for ever: whoever comes too late leaves none.                                   [11.4.12]
                if self.remote.has(&publication_name(last + 1))? {
                    return Ok(Ended::Again);
                }
                let name = header_name(begun.generation, &header);
                self.remote.create(&name, begun.header.0.clone())?;
                header_is_there = true;
            }
            if !self.publish(last + 1, &object)? {
                return Ok(Ended::Again);
            }
            last = self
                .vault
                .take_publication(remote, last + 1, &object, true)?;
            self.report.publications += 1;
            if let Some((unnamed, pruning)) = unnamed {
                self.remove(&unnamed, last, pruning, told)?;
            }
        }
    }

    /// Takes in what others published; gives the number of the last publication.
    fn catch_up(&mut self) -> Result<u64> {
        let (vault, row, remote) = (self.vault, self.row, self.remote);
        match self.look {
            // Another session may have published meanwhile.
            Look::Known { last, at }
                if at.is_within(LOOK_TIME_MAX) && vault.remote_row(row.number)?.last == last =>
            {
                self.looked = Some(at);
                Ok(last)
            }
            Look::Asks => vault.catch_up(row, remote),
            Look::Known { .. } | Look::Lists => {
                (self.look, self.looked) = (Look::Lists, Some(Moment::now()));
                vault.catch_up_by_list(row, remote)
            }
        }
    }

    /// Whether the look at the log still holds, now that so many bytes of segments have gone up since.
    fn is_fresh(&self, bytes: u64) -> bool {
        bytes <= LOOK_BYTES_MAX && self.looked.is_some_and(|at| at.is_within(LOOK_TIME_MAX))
    }

    /// Whether another device published behind `last` since the pull that this push goes by, before anything goes up. It is only asked
    /// if many bytes of segments are to go up, or the pull was too long ago.
    fn is_overtaken(&self, bytes: u64, last: u64) -> Result<bool> {
        let goes_by_pull = matches!(self.look, Look::Known { .. }) && self.report.publications == 0;
        if !goes_by_pull || bytes <= UNASKED_BYTES_MAX && self.is_fresh(0) {
            return Ok(false);
        }
        Ok(self.remote.has(&publication_name(last + 1))?)
    }

    /// Becomes a new device if another copy acts as the same one; all that others published is known. Gives whether it did. [11.10.2]
    fn becomes_new_device(&self) -> Result<bool> {
        let row = self.vault.remote_row(self.row.number)?;
        if !row.is_copied {
            return Ok(false);
        }
        // The newest header is what it is added to: others have that.
        self.vault
            .take_headers_if_other(self.remote, (0, row.header), Epoch(u32::MAX))?;
        let request = RemoteRequest::BecomeNewDevice { newest: None };
        self.vault.ask_for::<()>(&Request::Remote(request))?;
        Ok(true)
    }

    /// Lets this push name again what is here and only unfinished pushes of other devices have named: readers leave those out, and the head
    /// needs it. Gives whether there is such a push.                                                       [11.4.3] [11.4.8]
    fn names_again(&self, begun: &PushFields, last: u64) -> Result<bool> {
        let row = self.vault.remote_row(self.row.number)?;
        // What this device itself began may have been named by a copy of it, or under another device.
        let first = match begun.was_pushing {
            true => row.base.max(1),
            false => row.joined + 1,
        };
        if first > last {
            return Ok(false);
        }
        let mut found = BTreeMap::new();
        in_parallel(
            first..last + 1,
            self.remote.transfers(),
            |number| match self.vault.open_at(self.remote, number) {
                // Under keys that are gone: what it named is sealed again. Or another device removed it.
                Err(Error::RemoteUntrue(_))
                | Err(Error::Remote(strongroom_sync::Error::Missing { .. })) => Ok(None),
                signed => signed.map(Some),
            },
            &mut |signed: Option<SignedPublication>| {
                found.extend(signed.map(|signed| (signed.body.number, signed.body)));
                Ok::<_, Error>(())
            },
        )?;
        let unfinished = unfinished(found.values(), now_s()).numbers;
        let publications: Vec<_> = (found.values())
            .filter(|body| unfinished.contains(&body.number))
            .map(|body| (body.number, body.device.0))
            .collect();
        if publications.is_empty() {
            return Ok(false);
        }
        self.vault
            .ask_for(&Request::Remote(RemoteRequest::Unfinished {
                remote: self.row.number,
                publications,
            }))
    }

    /// Whether the header that was named last at the remote, which is not `own`, does not have this device yet: then the first publication
    /// says so, before anything else goes up. Whatever cut an earlier push.                              [11.10.2]
    fn is_new_there(&self, own: &[u8; 32]) -> Result<bool> {
        let named = self.vault.remote_row(self.row.number)?.header;
        if named == [0; 32] || named == *own {
            return Ok(false);
        }
        let mut headers = headers_at(self.remote)?.into_iter();
        let Some((generation, hash)) = headers.find(|(_, hash)| *hash == named) else {
            return Ok(true);
        };
        let name = header_name(generation, &hash);
        let object = self.remote.read(&name, HEADER_BYTES_MAX as u64)?;
        let object = object.filter(|object| object_hash(object) == hash);
        let stored = object.and_then(|object| Header::decode(&object).ok());
        let members = self.vault.information()?.members;
        let this = members.iter().find(|one| one.is_device && one.is_this);
        // The records of one that can be followed are the first of those here.
        Ok(this.is_some_and(|this| {
            stored.is_none_or(|stored| stored.header.records.len() as u64 <= this.added_in)
        }))
    }

    /// Removes what publication `last` retired, and publications that nobody needs.
    fn remove(
        &mut self,
        unnamed: &Unnamed,
        last: u64,
        pruning: Pruning,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<()> {
        let (row, remote) = (self.row, self.remote);
        let removed = self
            .vault
            .remove_unnamed(row, remote, unnamed, last, pruning, told);
        match removed {
            // The push is done: what a remote does not let go now, or never, stays.
            Err(Error::Remote(_)) if pruning == Pruning::IfDue => {}
            removed => *self.pruned = removed?,
        }
        Ok(())
    }

    /// Lets the publication name again what the oldest ones named, if the log has become long: then a newcomer need not read it from
    /// there.                                                                                              [11.3.6]
    fn name_again(&self, begun: &PushFields, last: u64, named: &mut NamedFields) -> Result<()> {
        let base = self.vault.remote_row(self.row.number)?.base;
        let log = (last + 1).saturating_sub(base);
        if base == 0 || log <= LOG_LONG + begun.published / OBJECTS_A_PUBLICATION {
            return Ok(());
        }
        let signed = match self.vault.log(self.row, self.remote, base..last + 1) {
            // Some of it is sealed under keys that are gone: what it named is sealed again, and published, soon. Or another device removed
            // it just now.
            Err(Error::RemoteUntrue(_) | Error::Remote(strongroom_sync::Error::Missing { .. })) => {
                return Ok(());
            }
            signed => signed?,
        };
        // The last publication that names each, but for what a later one retired.
        let (mut segments, mut revisions) = (HashMap::new(), HashMap::new());
        for SignedPublication { body, .. } in &signed {
            let number = body.number;
            for hash in &body.retired_segments {
                segments.remove(hash);
            }
            for hash in &body.retired_revisions {
                revisions.remove(hash);
            }
            for one in &body.segments {
                segments.insert(one.hash, (number, again_segment(one)));
            }
            for one in &body.revisions {
                revisions.insert(one.hash, (number, again_record(one)));
            }
        }
        for objects in [segments, revisions] {
            let mut oldest: Vec<_> = objects.into_values().collect();
            oldest.sort_unstable_by_key(|(number, one)| (*number, one.hash));
            oldest.truncate(NAMED_AGAIN_MAX);
            named.renamed.extend(oldest.into_iter().map(|(_, one)| one));
        }
        Ok(())
    }

    /// What lies at the remote and is not live, if it is time to look; then the publication retires it.
    fn find_unnamed(&mut self, named: &mut NamedFields) -> Result<Option<(Unnamed, Pruning)>> {
        let Some(pruning) = self.prunes.take() else {
            return Ok(None);
        };
        let grace = match pruning {
            Pruning::IfDue => GRACE,
            Pruning::Now { grace } => grace,
        };
        let uploaded = named.uploaded.iter().map(|one| one.hash).collect();
        let unnamed = self
            .vault
            .unnamed(self.row, self.remote, &uploaded, grace)?;
        unnamed.put_into(named);
        Ok(Some((unnamed, pruning)))
    }

    /// Creates a publication; gives whether it is ours: a request whose answer was lost may have made it before.
    fn publish(&self, number: u64, publication: &[u8]) -> Result<bool> {
        let name = publication_name(number);
        match self.remote.create(&name, publication.to_vec())? {
            Created::New => Ok(true),
            Created::AlreadyThere => {
                let found = self.remote.read(&name, PUBLICATION_OBJECT_BYTES_MAX)?;
                let object = name.to_string();
                let found = found.ok_or(strongroom_sync::Error::Missing { object })?;
                Ok(found == publication)
            }
        }
    }

    /// Creates what is missing, but for records of snapshots that were removed since. What is there with another length is refused.  (1)
    fn upload(
        &mut self,
        missing: Vec<VaultObject>,
        progress: &mut RemoteProgress,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<Vec<UploadedObject>> {
        let mut uploaded = Vec::with_capacity(missing.len());
        let (folder, remote, there) = (&self.folder, self.remote, &self.there);
        let buffers = &self.buffers;
        let report = &mut *self.report;
        in_parallel(
            missing.into_iter(),
            remote.transfers(),
            |object| -> Result<Option<(UploadedObject, bool)>> {
                let Some(bytes) = read_object(folder, object, buffers)? else {
                    return Ok(None);
                };
                let hash = object_hash(bytes.as_ref());
                let name = match object {
                    VaultObject::Segment { .. } => segment_name(&hash),
                    VaultObject::Revision { id, epoch } => revision_name(&id, Epoch(epoch), &hash),
                };
                let len = bytes.as_ref().len() as u64;
                let is_new = match there.get(name.as_str()) {
                    Some(found) if *found == len => false,
                    // Nothing takes its place, and nobody could read it.                                       [11.4.1]
                    Some(_) => return Err(of_other_length(&name)),
                    None => remote.create_from(&name, bytes)? == Created::New,
                };
                Ok(Some((UploadedObject { object, hash, len }, is_new)))
            },
            &mut |sent: Option<(UploadedObject, bool)>| {
                let Some((one, is_new)) = sent else {
                    return Ok(());
                };
                report.objects += u64::from(is_new);
                report.bytes += if is_new { one.len } else { 0 };
                if let VaultObject::Segment { .. } = one.object {
                    progress.bytes += one.len;
                    // What was written since the push began goes up, too.
                    progress.bytes_total = progress.bytes_total.max(progress.bytes);
                }
                uploaded.push(one);
                go_on(told(progress))
            },
        )?;
        Ok(uploaded)
    }
}

fn again_segment(segment: &PublishedSegment) -> UploadedObject {
    UploadedObject {
        object: VaultObject::Segment {
            id: segment.id.0,
            epoch: segment.epoch.0,
        },
        hash: segment.hash,
        len: segment.len,
    }
}

fn again_record(record: &PublishedRevision) -> UploadedObject {
    UploadedObject {
        object: VaultObject::Revision {
            id: record.id,
            epoch: record.epoch.0,
        },
        hash: record.hash,
        len: 0,
    }
}

fn of_other_length(name: &ObjectName) -> Error {
    let damaged = strongroom_sync::Error::Damaged {
        object: name.to_string(),
        why: "it has another length than the file here; delete it there, then push again",
    };
    damaged.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::fs;
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use strongroom_filesystem::Background;
    use strongroom_history::{NewRevision, Retention, SCHEDULED};
    use strongroom_remote::{Listed, Result as Answer};

    use super::*;
    use crate::clone::{CloneOptions, clone};
    use crate::owner::port::Port;
    use crate::{
        CreateOptions, KeyFile, OpenOptions, Secret, SecretSource, SeenRecords, SystemRandom, Trust,
    };

    /// Closes the vault, so that the next request opens it again.
    fn leave(vault: &Vault, source: &SecretSource) {
        let mut port = vault.shared.port.write();
        if let Port::Owner(owner) = &*port {
            owner.close().unwrap();
            *port = Port::Left;
            *vault.shared.joining.secret.lock() = Some(Arc::clone(source));
        }
    }

    /// A place with room for so many publications.
    #[derive(Debug)]
    struct Small {
        below: Arc<dyn Remote>,
        room: AtomicU64,
    }

    impl Remote for Small {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Answer<Created> {
            if name.split().0 == Some("publications") {
                let took = |room: u64| room.checked_sub(1);
                let room = (self.room).fetch_update(Ordering::Relaxed, Ordering::Relaxed, took);
                room.map_err(|_| strongroom_remote::Error::Full)?;
            }
            self.below.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Answer<Option<Vec<u8>>> {
            self.below.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Answer<Option<Vec<u8>>> {
            self.below.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Answer<Vec<Listed>> {
            self.below.list(kind)
        }

        fn remove(&self, name: &ObjectName) -> Answer<()> {
            self.below.remove(name)
        }
    }

    /// A place where each publication comes late: before it is there, a schedule takes a snapshot and lets all others go.
    #[derive(Debug)]
    struct Late {
        below: Arc<dyn Remote>,
        vault: Vault,
    }

    impl Remote for Late {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Answer<Created> {
            if name.split().0 == Some("publications") {
                self.vault.write("/later", "1").unwrap();
                let new = NewRevision {
                    message: SCHEDULED.to_owned(),
                    ..NewRevision::default()
                };
                self.vault.take_revision(&new).unwrap();
                let rule = Retention {
                    last: 1,
                    hourly: 0,
                    daily: 0,
                    monthly: 0,
                    ..Retention::DEFAULT
                };
                self.vault.thin(&rule).unwrap();
            }
            self.below.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Answer<Option<Vec<u8>>> {
            self.below.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Answer<Option<Vec<u8>>> {
            self.below.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Answer<Vec<Listed>> {
            self.below.list(kind)
        }

        fn remove(&self, name: &ObjectName) -> Answer<()> {
            self.below.remove(name)
        }
    }

    /// Goal: the next merge with a remote has its base. Method: a schedule acts between the moment in which a push seals its publication and
    /// that in which it is noted. Failed before: what a remote had in common was only looked up before the rule was carried out, and the
    /// snapshot that was just published went.
    #[test]
    fn a_schedule_leaves_the_snapshot_of_a_push_that_is_about_to_end() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("remote");
        fs::create_dir(&at).unwrap();
        let created = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = created.unwrap().vault;
        let address = format!("folder:{}", at.display());
        vault.add_remote("stick", &address).unwrap();
        vault.write("/file", vec![7; 50_000]).unwrap();
        let (row, below) = vault.reach("stick").unwrap();
        let remote = Late {
            below,
            vault: vault.clone(),
        };
        vault.push_to(&row, &remote, &mut |_| GoOn::Yes).unwrap();
        let head = vault.remote_row(row.number).unwrap().head;
        let kept = vault.revisions().unwrap();
        assert!(kept.iter().any(|one| one.id.0 == head), "{kept:?}");
        assert!(kept.len() > 1, "a later one was taken");
        vault.close().unwrap();
    }

    /// Goal: what a push says to be the head is there, whatever becomes of the snapshot that it began with: others can clone it. Method: the
    /// snapshot goes before anything is sent, once its record is there, or only its record is lost; the place has room for few
    /// publications. Failed before: a push whose snapshot was removed, as a schedule does by its rule, named a head whose record was not
    /// there, or retired it, and published that again without end; or it ended with an error about a missing record.
    #[test]
    fn a_push_whose_snapshot_is_removed_publishes_another_one() {
        for (is_lost, is_sent) in [(false, false), (false, true), (true, false), (true, true)] {
            let place = tempfile::tempdir().unwrap();
            let (folder, at) = (place.path().join("vault"), place.path().join("remote"));
            fs::create_dir(&at).unwrap();
            let key = KeyFile::random(&SystemRandom).unwrap();
            let options = CreateOptions::new().key_file(key.clone());
            let vault = Vault::create(&folder, options).unwrap().vault;
            let address = format!("folder:{}", at.display());
            vault.add_remote("stick", &address).unwrap();
            vault.write("/file", vec![7; 50_000]).unwrap();
            let (row, below) = vault.reach("stick").unwrap();
            let room = AtomicU64::new(4);
            let remote = Small { below, room };
            let mut removed = None;
            let pushed = vault.push_to(&row, &remote, &mut |_| {
                if removed.is_none() && at.join("revisions").exists() == is_sent {
                    let newest = vault.revisions().unwrap().pop().unwrap().id;
                    match is_lost {
                        true => {
                            let record = fs::read_dir(folder.join("revisions")).unwrap().next();
                            fs::remove_file(record.unwrap().unwrap().path()).unwrap();
                        }
                        false => vault.remove_revision(newest).unwrap(),
                    }
                    removed = Some(newest);
                }
                GoOn::Yes
            });
            assert!(pushed.is_ok(), "{pushed:?}, {is_lost} {is_sent}");
            let newest = vault.revisions().unwrap().pop().unwrap().id;
            assert_eq!(removed == Some(newest), is_lost);
            assert_eq!(vault.remote_row(row.number).unwrap().head, newest.0);
            let (secret, copy) = (Secret::KeyFile(key), place.path().join("copy"));
            let trust = Trust {
                seen: SeenRecords::Nowhere,
                ..Trust::default()
            };
            let options = CloneOptions {
                trust,
                ..CloneOptions::default()
            };
            clone(&address, &copy, &secret, options, &mut |_| GoOn::Yes).unwrap();
            vault.close().unwrap();
        }
    }

    /// Goal: a push comes to its end however often the owner changes, while something arrives each time. Method: pages of one object, more
    /// segments than attempts, and an owner that leaves behind each publication. Failed before: after 16 owners the push failed, with an
    /// error about keys.
    #[test]
    fn a_push_goes_on_at_any_number_of_owners_while_something_arrives() {
        let place = tempfile::tempdir().unwrap();
        let (folder, remote) = (place.path().join("vault"), place.path().join("remote"));
        fs::create_dir(&remote).unwrap();
        let key = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key.clone());
        let created = Vault::create(&folder, options).unwrap().vault;
        created.close().unwrap();
        drop(created);
        let secret = Secret::KeyFile(key);
        let mut options = OpenOptions::default();
        options.engine.background = Background::Manual;
        let vault = Vault::open(&folder, secret.clone(), options).unwrap();
        let source: SecretSource = Arc::new(move || Ok(secret.clone()));
        let address = format!("folder:{}", remote.display());
        vault.add_remote("stick", &address).unwrap();
        let filesystem = vault.filesystem().unwrap();
        for number in 0..20_u8 {
            vault
                .write(format!("/{number}"), vec![number; 50_000])
                .unwrap();
            filesystem.end_segments().unwrap();
        }
        drop(filesystem);
        vault.push_in_pages_of(1);
        let (mut last, mut left) = (0, 0);
        let pushed = vault.push("stick", &mut |progress| {
            // The page before was published.
            if progress.bytes > 0 && progress.bytes == last && vault.is_owner() {
                leave(&vault, &source);
                left += 1;
            }
            last = progress.bytes;
            GoOn::Yes
        });
        assert!(pushed.is_ok(), "{pushed:?}, {left} owners left");
        assert!(left > ATTEMPTS, "only {left} owners left");
        let again = vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        assert_eq!(again, PushReport::default());
        vault.close().unwrap();
    }
}
