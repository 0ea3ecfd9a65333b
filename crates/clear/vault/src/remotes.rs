//! The remotes of a vault in the public API: add, list, remove and check them.
//!
//! Takes   names and addresses
//! Gives   what the vault knows of them, and what is wrong with the objects there
//! Never   shows the credentials in an address
//! Spec    spec/11-sync.md

use std::collections::HashMap;
use std::sync::Arc;

use strongroom_crypto::{Random, SystemRandom, UnlockError};
use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_format::publication::RemoteId;
use strongroom_format::{Header, VaultId, hex};
use strongroom_remote::{Address, CreateOnly, ObjectName, Rates, Remote, probe};
use strongroom_sync::limits::{REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX};
use strongroom_sync::{
    Live, MARKER, Marker, header_name, in_parallel, object_hash, revision_name, segment_name,
};

use crate::folder::Folder;
use crate::remote_log::{headers_at, newest_number};
use crate::request::Request;
use crate::request::frame::Bytes;
use crate::request::remote::{RemoteFields, RemoteRequest};
use crate::{Error, GoOn, Result, Vault};

/// Whether a device removes from a remote what does not count there any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    /// By itself, with a push, once it has not counted for `GRACE` or longer; or by `prune_remote`.
    #[default]
    Later,
    /// Never: for credentials that may only add, so that no thief of the device takes history away.
    Never,
}

/// A remote of a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteInfo {
    /// What the user calls it.
    pub name: String,
    /// Where it is, without credentials.
    pub address: String,
    /// Publications that this vault made there or read.
    pub publications: u64,
    /// What people compare on two devices, in five groups of four digits: where `publications` are equal and these differ, the remote
    /// has shown them different histories. Empty before the first publication.                              [11.3.9]
    pub code: String,
    /// Segments and snapshots that it has.
    pub objects: u64,
    /// Whether this device removes there what does not count any more.
    pub removal: Removal,
}

impl RemoteInfo {
    pub(crate) fn of(fields: RemoteFields) -> Self {
        Self {
            name: fields.name,
            address: match Address::parse(&fields.address) {
                Ok(address) => address.to_string(),
                Err(_) => "an address that this version does not know".to_owned(),
            },
            publications: fields.last,
            code: match fields.last {
                0 => String::new(),
                _ => code_of(&fields.last_id),
            },
            objects: fields.published,
            removal: match fields.keeps {
                true => Removal::Never,
                false => Removal::Later,
            },
        }
    }
}

/// Bytes of the id of a publication that people compare: a remote makes no publications, and no two of devices begin alike by chance.
const CODE_BYTES: usize = 10;

/// What people compare of a publication, and so of all before it, to which it links.
fn code_of(id: &[u8; 32]) -> String {
    let groups = id[..CODE_BYTES].chunks(2).map(hex::encode);
    groups.collect::<Vec<_>>().join("-")
}

/// How often the other remotes are asked for what is away, before a remote is removed, if something else is away afterwards.
const REMOVAL_ATTEMPTS: usize = 8;

/// How far something that reaches a remote is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteProgress {
    /// Bytes that are where they belong.
    pub bytes: u64,
    /// Bytes of all.
    pub bytes_total: u64,
}

/// What a check of a remote found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteReport {
    /// Objects that were looked at.
    pub objects: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is missing or not as it was written, a line each.
    pub problems: Vec<String>,
}

impl Vault {
    /// The remotes of the vault, in the order in which they were added.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub fn remotes(&self) -> Result<Vec<RemoteInfo>> {
        let rows = self.remote_rows()?.into_iter();
        Ok(rows.map(RemoteInfo::of).collect())
    }

    /// Adds the remote at `address` under `name`: an empty place, which becomes this vault's, or one that it has already. One that lost its
    /// marker gets it again.
    ///
    /// # Errors
    /// `RemoteNameTaken`; `Remote` if it cannot be reached, refuses access, belongs to another vault, cannot create an object only
    /// where there is none of its name, or lost its marker and has nothing that says which remote it is.
    pub fn add_remote(&self, name: &str, address: &str) -> Result<()> {
        self.add_remote_with(name, address, Removal::default())
    }

    /// The same. `removal`: whether this device removes there what does not count any more.
    ///
    /// # Errors
    /// As `add_remote`.
    pub fn add_remote_with(&self, name: &str, address: &str, removal: Removal) -> Result<()> {
        let is_plain = |name: &str| {
            let known =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !name.is_empty() && name.len() <= 64 && name.bytes().all(known)
        };
        if !is_plain(name) {
            return Err(Error::RemoteName);
        }
        if self.remote_rows()?.iter().any(|row| row.name == name) {
            return Err(Error::RemoteNameTaken(name.to_owned()));
        }
        let vault = vault_id(&Folder::new(self.folder()))?;
        let remote = Address::parse(address)?.open()?;
        let marker = self.marker_at(&*remote, vault)?;
        let _: u64 = self.ask_for(&Request::Remote(RemoteRequest::Add {
            name: Bytes(name.as_bytes()),
            address: Bytes(address.as_bytes()),
            id: marker.remote.0,
            keeps: removal == Removal::Never,
        }))?;
        Ok(())
    }

    /// The marker of a place that is, or becomes, a remote of this vault. Refuses a place that replaces objects, whoever made it one.
    ///                                                                                                          [11.1.3]
    fn marker_at(&self, remote: &dyn Remote, vault: VaultId) -> Result<Marker> {
        let found = Marker::read(remote)?;
        if found.is_some_and(|marker| marker.vault != vault) {
            return Err(strongroom_sync::Error::OtherVault.into());
        }
        remote.sign_with(self.login());
        let id = match &found {
            Some(marker) => marker.remote,
            None => self.id_for_marker(remote)?,
        };
        let probed = match probe(remote) {
            Err(error) if found.is_some() && creates_nothing(&error) => CreateOnly::Holds,
            probed => probed?,
        };
        if probed == CreateOnly::Broken {
            return Err(Error::RemoteNotCreateOnly);
        }
        match found {
            Some(marker) => Ok(marker),
            None => Ok(Marker { vault, remote: id }.write(remote)?),
        }
    }

    /// The id of a remote that has no marker: the one that its log names if it only lost the marker, or a new one for an empty place. With
    /// another id than that of its log, no other device could use it any more.                                [11.1.6]
    fn id_for_marker(&self, remote: &dyn Remote) -> Result<RemoteId> {
        let newest = newest_number(remote)?;
        if newest == 0 && headers_at(remote)?.is_empty() {
            let mut id = [0; 16];
            SystemRandom.fill(&mut id)?;
            return Ok(RemoteId(id));
        }
        let lost = strongroom_sync::Error::Missing {
            object: MARKER.to_owned(),
        };
        if newest == 0 {
            return Err(lost.into());
        }
        match self.open_at(remote, newest) {
            // It is of another vault, or was sealed under keys that are not here.
            Err(Error::RemoteUntrue(_)) => Err(lost.into()),
            opened => Ok(opened?.body.remote),
        }
    }

    /// Forgets a remote. What is there stays there.
    ///
    /// # Errors
    /// `UnknownRemote`; `ContentAway` if content lies there that is neither here nor at another remote which shows it now, or if other
    /// programs let content go or bring it back all the time.
    pub fn remove_remote(&self, name: &str) -> Result<()> {
        for _ in 0..REMOVAL_ATTEMPTS {
            let asked_for = self.check_elsewhere(name)?;
            let row = self.remote_rows()?.into_iter().find(|row| row.name == name);
            let name = Bytes(name.as_bytes());
            let request = Request::Remote(RemoteRequest::Remove { name, asked_for });
            if self.ask_for::<bool>(&request)? {
                // Before, it might not be forgotten, and be needed.
                if let Some(row) = row {
                    self.need_no_more(&row);
                }
                return Ok(());
            }
        }
        Err(Error::ContentAway {
            bytes: self.information()?.away_bytes,
            what: "let go or brought back by other programs while the remotes are asked for it"
                .to_owned(),
        })
    }

    /// Compares a remote with what its publications say that it has: that every object is there, with its length, and that the header is
    /// the one that was pushed; with `deep`, every byte of all. `told` hears of the progress.
    ///
    /// # Errors
    /// `UnknownRemote`, `Remote`, `RemoteStopped`.
    pub fn check_remote(
        &self,
        name: &str,
        deep: bool,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<RemoteReport> {
        let (row, remote) = self.reach(name)?;
        let last = self.catch_up(&row, &*remote)?;
        if self.begins_behind(&row, &*remote, last)? {
            return Err(Error::RemoteAhead);
        }
        let first = self.first_needed(&*remote)?.max(1);
        let mut live = Live::default();
        let log = self.log(&row, &*remote, first..last + 1)?;
        log.iter().for_each(|signed| live.add(signed));
        let mut report = RemoteReport::default();
        let mut progress = RemoteProgress::default();
        let mut wanted = HashMap::new();
        for segment in live.segments.values() {
            let name = segment_name(&segment.hash);
            wanted.insert(name, (segment.hash, segment.len, SEGMENT_OBJECT_BYTES_MAX));
            progress.bytes_total += segment.len;
        }
        for revision in live.revisions.values() {
            let name = revision_name(&revision.id, revision.epoch, &revision.hash);
            wanted.insert(name, (revision.hash, 0, REVISION_OBJECT_BYTES_MAX));
        }
        // Without it nobody can clone.
        if let Some(signed) = log.iter().rfind(|one| one.body.head != [0; 32]) {
            let (generation, hash) = signed.body.header;
            let name = header_name(generation, &hash);
            wanted.insert(name, (hash, 0, HEADER_BYTES_MAX as u64));
        }
        let mut there = HashMap::new();
        for kind in ["segments", "revisions", "headers"] {
            for listed in remote.list(kind)? {
                there.insert(format!("{kind}/{}", listed.name), listed.len);
            }
        }
        report.objects = wanted.len() as u64;
        wanted.retain(|name, (_, len, _)| match there.get(name.as_str()) {
            None => {
                report.problems.push(format!("{name} is missing"));
                false
            }
            Some(found) if *len != 0 && found != len => {
                report
                    .problems
                    .push(format!("{name} has {found} bytes, not {len}"));
                false
            }
            Some(_) => true,
        });
        // The header is short, and nothing opens without it.
        wanted.retain(|name, _| deep || name.split().0 == Some("headers"));
        read_all(remote.as_ref(), wanted, &mut report, progress, told)?;
        report.problems.sort();
        Ok(report)
    }

    /// From now on, what goes to remotes and comes from them through this value and its clones, all remotes together, takes as much time
    /// as it would at these rates. An object, up to 16 MiB, goes up in one request as fast as the line is; the next one waits. Content that
    /// is away and comes because it is read, through whatever process, keeps to the rates of the one that owns the vault.
    pub fn limit_remotes(&self, rates: Rates) {
        self.shared.joining.options.pace.set(rates);
    }

    pub(crate) fn remote_rows(&self) -> Result<Vec<RemoteFields>> {
        self.ask_for(&Request::Remote(RemoteRequest::List))
    }

    /// What is known now of the remote of that number.
    pub(crate) fn remote_row(&self, number: u64) -> Result<RemoteFields> {
        let mut rows = self.remote_rows()?.into_iter();
        let row = rows.find(|row| row.number == number);
        row.ok_or_else(|| Error::UnknownRemote(number.to_string()))
    }

    /// The remote of that name, which says that it is the one that was added.
    pub(crate) fn reach(&self, name: &str) -> Result<(RemoteFields, Arc<dyn Remote>)> {
        let row = self.remote_rows()?.into_iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| Error::UnknownRemote(name.to_owned()))?;
        let remote = self.connect(&row)?;
        Ok((row, remote))
    }

    /// The remote of that row, which says that it is the one that was added.
    pub(crate) fn connect(&self, row: &RemoteFields) -> Result<Arc<dyn Remote>> {
        let vault = vault_id(&Folder::new(self.folder()))?;
        let remote = Marker {
            vault,
            remote: RemoteId(row.id),
        }
        .reach(&row.address)?;
        remote.sign_with(self.login());
        Ok(self.shared.joining.options.pace.limit(remote))
    }
}

/// Reads these objects, and notes those that have not the hash that they should have; of each: hash, length, greatest length.
fn read_all(
    remote: &dyn Remote,
    wanted: HashMap<ObjectName, ([u8; 32], u64, u64)>,
    report: &mut RemoteReport,
    mut progress: RemoteProgress,
    told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
) -> Result<()> {
    in_parallel(
        wanted.into_iter(),
        remote.transfers(),
        |(name, (hash, _, max))| -> Result<(ObjectName, bool, u64)> {
            let bytes = match remote.read(&name, max) {
                Err(strongroom_remote::Error::TooLong { .. }) => None,
                read => read?,
            };
            let is_it = bytes
                .as_ref()
                .is_some_and(|bytes| object_hash(bytes) == hash);
            Ok((name, is_it, bytes.map_or(0, |bytes| bytes.len() as u64)))
        },
        &mut |(name, is_it, len): (ObjectName, bool, u64)| {
            report.bytes += len;
            progress.bytes += len;
            if !is_it {
                let problem = format!("{name} is damaged or was replaced");
                report.problems.push(problem);
            }
            go_on(told(&progress))
        },
    )
}

/// Whether a remote could not be asked: then nothing is known of what it has.
pub(crate) fn is_unreachable(error: &Error) -> bool {
    matches!(error, Error::Remote(strongroom_sync::Error::Remote(error)) if error.is_passing())
}

/// The id of the vault in a folder, as its header says.
pub(crate) fn vault_id(folder: &Folder) -> Result<VaultId> {
    let header = Header::decode(&folder.header()?).map_err(UnlockError::from)?;
    Ok(header.header.vault)
}

pub(crate) fn go_on(told: GoOn) -> Result<()> {
    match told {
        GoOn::Yes => Ok(()),
        GoOn::No => Err(Error::RemoteStopped),
    }
}

/// Whether a place let nobody create anything, because it may not be written or has no room: it replaces nothing either, and is there to be
/// read and pruned. Whoever made its marker had tried it out.                                                  [11.1.3]
const fn creates_nothing(error: &strongroom_remote::Error) -> bool {
    use strongroom_remote::Error as RemoteError;
    matches!(
        error,
        RemoteError::Refused(_) | RemoteError::Full | RemoteError::Quota(_)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::ops::Range;
    use std::path::Path;
    use std::time::Duration;

    use strongroom_filesystem::Error as FileError;
    use strongroom_format::SegmentId;
    use strongroom_metadata::{BlockNumber, Place, Published, SegmentState};
    use strongroom_remote::{
        Clock, Created, Error as RemoteError, Listed, Pace, Result as Answer, memory,
    };

    use super::*;
    use crate::CreateOptions;
    use crate::request::remote::{SegmentFields, Spared, WhichSegments, hash_of};

    /// Adds up how long somebody waits.
    #[derive(Debug, Default)]
    struct Waited(parking_lot::Mutex<Duration>);

    impl Clock for Waited {
        fn now(&self) -> Duration {
            *self.0.lock()
        }

        fn wait(&self, time: Duration) {
            *self.0.lock() += time;
        }
    }

    /// How long the objects of a remote take at 1,000 bytes a second, but for those that may be under way at the end: each
    /// of the transfers at one time may carry one that nobody has waited for yet.
    fn least(remote: &Path) -> Duration {
        let mut sizes: Vec<u64> = Vec::new();
        for kind in ["segments", "revisions", "publications", "headers"] {
            let objects = std::fs::read_dir(remote.join(kind)).unwrap();
            sizes.extend(objects.map(|object| object.unwrap().metadata().unwrap().len()));
        }
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let transfers = memory().unwrap().transfers();
        Duration::from_millis(sizes.iter().skip(transfers).sum())
    }

    /// A vault with a file and two remotes, of which the first has it.
    fn with_two_remotes(place: &Path) -> Vault {
        let vault = Vault::create(place.join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        for name in ["stick", "other"] {
            std::fs::create_dir(place.join(name)).unwrap();
            let address = format!("folder:{}", place.join(name).display());
            vault.add_remote(name, &address).unwrap();
        }
        vault.write("/file", vec![7; 300_000]).unwrap();
        vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        vault
    }

    /// What becomes of a request to create an object.
    #[derive(Clone, Copy, Debug)]
    enum Creates {
        /// It is told that it created it, whatever is there.
        Always,
        Refused,
        NoRoom,
        OverQuota,
    }

    /// A remote where others created what is there.
    #[derive(Debug)]
    struct Taken(Arc<dyn Remote>, Creates);

    impl Remote for Taken {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Answer<Created> {
            match self.1 {
                Creates::Always => self.0.create(name, bytes).map(|_| Created::New),
                Creates::Refused => Err(RemoteError::Refused("it is only read".to_owned())),
                Creates::NoRoom => Err(RemoteError::Full),
                Creates::OverQuota => Err(RemoteError::Quota("all is used".to_owned())),
            }
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Answer<Option<Vec<u8>>> {
            self.0.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Answer<Option<Vec<u8>>> {
            self.0.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Answer<Vec<Listed>> {
            self.0.list(kind)
        }

        fn remove(&self, name: &ObjectName) -> Answer<()> {
            self.0.remove(name)
        }
    }

    /// Goal: a device finds out by itself whether a place replaces objects, also where another device made that the remote of the vault. Method:
    /// a remote with a marker that tells everybody to have created an object; then one that lets nobody create, which may be read. Failed
    /// before: only who made the marker tried the place out.
    #[test]
    fn a_place_that_replaces_objects_is_refused_whoever_made_its_marker() {
        let place = tempfile::tempdir().unwrap();
        let vault = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        let id = vault_id(&Folder::new(vault.folder())).unwrap();
        let inner = memory().unwrap();
        let marker = vault.marker_at(&*inner, id).unwrap();
        assert_eq!(vault.marker_at(&*inner, id).unwrap(), marker);
        let replaces = Taken(Arc::clone(&inner), Creates::Always);
        let refused = vault.marker_at(&replaces, id).unwrap_err();
        assert!(matches!(refused, Error::RemoteNotCreateOnly), "{refused:?}");
        let is_read = Taken(inner, Creates::Refused);
        assert_eq!(vault.marker_at(&is_read, id).unwrap(), marker);
        vault.close().unwrap();
    }

    /// Goal: a remote without room can be added, to read what lies there and to make room; an empty place without room becomes none. Failed
    /// before: that the trial could create nothing was an error, so a repair could take nothing from such a remote.
    #[test]
    fn a_remote_without_room_can_be_added() {
        let place = tempfile::tempdir().unwrap();
        let vault = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        let id = vault_id(&Folder::new(vault.folder())).unwrap();
        let inner = memory().unwrap();
        let marker = vault.marker_at(&*inner, id).unwrap();
        for creates in [Creates::NoRoom, Creates::OverQuota] {
            let there = Taken(Arc::clone(&inner), creates);
            assert_eq!(vault.marker_at(&there, id).unwrap(), marker, "{creates:?}");
            let empty = Taken(memory().unwrap(), creates);
            let refused = vault.marker_at(&empty, id);
            assert!(matches!(refused, Err(Error::Remote(_))), "{refused:?}");
        }
        vault.close().unwrap();
    }

    /// Goal: content stays at a remote if it is let go while that remote is removed, and no other shows it. Method: it goes once the other one,
    /// which lost it, was asked. Failed before: what was noted of the other one was enough, and nobody had the content.
    #[test]
    fn what_goes_while_a_remote_is_removed_is_asked_for_too() {
        let place = tempfile::tempdir().unwrap();
        let vault = with_two_remotes(place.path());
        vault.push("other", &mut |_| GoOn::Yes).unwrap();
        let asked_for = vault.check_elsewhere("stick").unwrap();
        for lost in std::fs::read_dir(place.path().join("other/segments")).unwrap() {
            std::fs::remove_file(lost.unwrap().path()).unwrap();
        }
        vault.evict(None, &mut |_| GoOn::Yes).unwrap();
        assert!(vault.information().unwrap().away_bytes > 0);
        let name = Bytes(b"stick");
        let request = Request::Remote(RemoteRequest::Remove { name, asked_for });
        assert!(!vault.ask_for::<bool>(&request).unwrap());
        let refused = vault.remove_remote("stick").unwrap_err();
        assert!(matches!(refused, Error::ContentAway { .. }), "{refused:?}");
        assert_eq!(vault.read("/file").unwrap(), vec![7; 300_000]);
        vault.remove_remote("stick").unwrap();
        vault.close().unwrap();
    }

    /// Goal: what is away counts before a commit says so. Method: a change that is not committed puts content into a segment that is away, as a
    /// pull does. Failed before: rows were counted as they were committed, and the only remote with the content was forgotten.
    #[test]
    fn what_is_not_committed_yet_counts_when_a_remote_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let vault = with_two_remotes(place.path());
        let filesystem = vault.filesystem().unwrap();
        let engine = filesystem.engine();
        engine.commit().unwrap();
        let put = engine.change(|writer| {
            let mut blocks = Vec::new();
            for row in writer.segments()? {
                blocks.extend(writer.blocks_in_segment(row.number, BlockNumber(0), 100)?);
            }
            blocks.retain(|block| block.kind.is_data());
            let block = &blocks[0];
            let number = writer.insert_segment(&SegmentId([9; 16]), block.epoch)?;
            writer.set_committed_len(number, 1 << 20)?;
            writer.set_segment_state(number, SegmentState::Away)?;
            writer.move_block(block.number, block.epoch, Place::Segment(number, 0))?;
            Ok::<_, FileError>(())
        });
        put.unwrap();
        let (name, asked_for) = (Bytes(b"stick"), hash_of(&[]));
        let request = Request::Remote(RemoteRequest::Remove { name, asked_for });
        assert!(!vault.ask_for::<bool>(&request).unwrap());
        assert_eq!(vault.remotes().unwrap().len(), 2);
    }

    /// Goal: nothing goes while the remote does not hear that it is needed. Method: between the look at the remote and the eviction another
    /// program says there that nothing is needed, as nothing is away yet. Failed before: content went, and others could remove it there.
    #[test]
    fn nothing_goes_once_a_remote_hears_that_nothing_is_needed() {
        let place = tempfile::tempdir().unwrap();
        let vault = with_two_remotes(place.path());
        let row = vault.remote_rows().unwrap().remove(0);
        let remote = vault.connect(&row).unwrap();
        vault.proven_at(&row, &*remote).unwrap();
        let mut segments = vault.segments_of(WhichSegments::Here, None).unwrap();
        segments.retain(|one| one.remote == row.number);
        assert!(!segments.is_empty());
        let evict = || {
            let (segments, spared) = (segments.clone(), Spared::Nothing);
            let request = Request::Remote(RemoteRequest::Evict { segments, spared });
            vault.ask_for::<Vec<SegmentFields>>(&request).unwrap()
        };
        let none = Request::Remote(RemoteRequest::NoteNeeds {
            remote: row.number,
            number: 0,
            renames: false,
        });
        vault.ask_for::<()>(&none).unwrap();
        assert!(evict().is_empty());
        assert_eq!(vault.information().unwrap().away_bytes, 0);
        vault.proven_at(&row, &*remote).unwrap();
        assert!(!evict().is_empty());
        vault.close().unwrap();
    }

    /// Goal: a remote that is not removed after all hears still that this device needs it, so that nobody removes there what went. Method: no
    /// remote is noted to have what is away. Failed before: what was said at the remote went first.
    #[test]
    fn a_remote_that_stays_is_needed_still() {
        let place = tempfile::tempdir().unwrap();
        let vault = with_two_remotes(place.path());
        vault.evict(None, &mut |_| GoOn::Yes).unwrap();
        let said = || std::fs::read_dir(place.path().join("stick/needs")).map(Iterator::count);
        assert_eq!(said().unwrap(), 1);
        let stick = vault.remote_rows().unwrap()[0].number;
        let filesystem = vault.filesystem().unwrap();
        let segments = filesystem.engine().reader().unwrap().segments().unwrap();
        filesystem
            .change_remotes(|writer| {
                segments
                    .iter()
                    .map(|row| Published::Segment(row.id.0))
                    .try_for_each(|item| writer.remove_published(stick, item))
            })
            .unwrap();
        drop(filesystem);
        let refused = vault.remove_remote("stick").unwrap_err();
        assert!(matches!(refused, Error::ContentAway { .. }), "{refused:?}");
        assert_eq!(said().unwrap(), 1);
        vault.close().unwrap();
    }

    /// Goal: what moves waits as long as its bytes take, but for what is under way at the end. Nothing else waits.
    #[test]
    fn what_moves_to_and_from_a_remote_keeps_to_the_limit() {
        let place = tempfile::tempdir().unwrap();
        let vault = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        let remote = place.path().join("remote");
        std::fs::create_dir(&remote).unwrap();
        let address = format!("folder:{}", remote.display());
        vault.add_remote("stick", &address).unwrap();
        let clock = Arc::new(Waited::default());
        let rates = Rates {
            up: Some(1000),
            down: Some(1000),
        };
        let pace = Pace::by(rates, Arc::clone(&clock) as _);
        vault.shared.joining.options.pace.set_to(pace);
        for file in 0..12 {
            vault
                .write(format!("/{file}"), vec![file; 100_000])
                .unwrap();
            vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        }
        let least = least(&remote);
        assert!(least > Duration::from_secs(100), "{least:?}");
        assert!(clock.now() > least, "{least:?} in {:?}", clock.now());
        let check = || {
            let before = clock.now();
            let checked = vault.check_remote("stick", true, &mut |_| GoOn::Yes);
            checked.unwrap();
            clock.now() - before
        };
        let waited = check();
        assert!(waited > least, "{least:?} in {waited:?}");
        // What is read of content that is away waits, too.
        vault.evict(None, &mut |_| GoOn::Yes).unwrap();
        let before = clock.now();
        for file in 0..12 {
            let read = vault.read(format!("/{file}")).unwrap();
            assert_eq!(read, vec![file; 100_000]);
        }
        let waited = clock.now() - before;
        assert!(waited > least, "{least:?} in {waited:?}");
        vault.limit_remotes(Rates::default());
        assert_eq!(check(), Duration::ZERO);
        vault.close().unwrap();
    }
}
