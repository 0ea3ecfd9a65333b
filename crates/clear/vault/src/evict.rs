//! Evicts content that a remote has, to free space on this disk, and fetches it again.
//!
//! Takes   an open vault with remotes, whichever process owns it; a path, or the whole vault
//! Gives   space on this disk; evicted content returns when it is read, or on request
//! Never   evicts content unless a remote has just shown that it has that content
//! Spec    spec/11-sync.md, 11.9
//!
//! Invariants
//!  (1) Before a segment is evicted, a remote has listed it with the published hash and with its length, and this device has
//!      taken in the whole log of that remote.                                                                  [11.9.1]
//!  (2) Before the remote is asked, it gets an object that announces the eviction. A device that prunes there publishes first,
//!      then looks for such objects: so it finds this one. It gets it again right after the eviction: another session of this device may
//!      have removed it in between, when nothing was evicted yet.                                               [11.9.2]

use std::collections::{HashMap, HashSet};

use strongroom_crypto::{Random, SystemRandom};
use strongroom_filesystem::Error as FileError;
use strongroom_format::hex;
use strongroom_remote::{Created, ObjectName, Remote};
use strongroom_sync::{needs_name, needs_of, publication_number};

use crate::clock::now_s;
use crate::folder::{Folder, INCOMING};
use crate::limits::{EVICT_AT_ONCE, NEEDS_END, NEEDS_RENEWED};
use crate::path::VaultPath;
use crate::prune::passed;
use crate::remotes::RemoteProgress;
use crate::request::Request;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::remote::{
    Pinning, RemoteFields, RemoteRequest, SegmentFields, Spared, WhichSegments, hash_of,
};
use crate::{Error, GoOn, Result, Vault};

/// Noted in place of a number while it is being said: it may be there, under that number or an earlier one.        [4.14]
const SAYING: u64 = u64::MAX;

/// 2026 began with this second since 1970, before there were such objects: what seems older came while the clock of the place was not set.
const CLOCK_SET_S: u64 = 1_767_225_600;

/// What an eviction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictReport {
    /// Segments that went, and their bytes.
    pub segments: u64,
    /// See `segments`.
    pub bytes: u64,
    /// Segments with content that was meant which stayed, as no remote has shown that it has them, and their bytes.
    pub kept: u64,
    /// See `kept`.
    pub kept_bytes: u64,
    /// Why remotes were not asked, a line each.
    pub problems: Vec<String>,
    /// Segments that stayed because content of something pinned lies in them, and their bytes.
    pub pinned: u64,
    /// See `pinned`.
    pub pinned_bytes: u64,
    /// It was stopped: what went is away, and everything else is as it was. Then nothing counts as kept.
    pub is_stopped: bool,
}

/// What was brought back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BringBackReport {
    /// Segments that came, and their bytes.
    pub segments: u64,
    /// See `segments`.
    pub bytes: u64,
    /// Segments that no remote has any more, and their bytes: `Vault::verify` names the files that this costs.
    pub lost: u64,
    /// See `lost`.
    pub lost_bytes: u64,
    /// It was stopped: what came stays, and the rest is away as before.
    pub is_stopped: bool,
}

impl Vault {
    /// Lets the content of files go from this disk that remotes have: of all files, or of those at or below `path`. Content goes by
    /// segments of up to 16 MiB, with a path those of which at least half is content below it. What is read later is fetched from a remote, and
    /// stays here then. `told` hears of the progress and says whether to go on.
    ///
    /// # Errors
    /// `File` if there is no such path. What is wrong with a remote, and that it was stopped, is in the report.
    pub fn evict(
        &self,
        path: Option<&[u8]>,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<EvictReport> {
        let _turn = self.shared.remote_turns.take()?;
        let mut left = self.segments_of(WhichSegments::Here, path)?;
        let pinned: Vec<SegmentFields> = left.extract_if(.., |one| one.is_pinned).collect();
        let ids: HashSet<[u8; 16]> = pinned.iter().map(|one| one.id).collect();
        let mut report = EvictReport {
            pinned: ids.len() as u64,
            pinned_bytes: bytes_of(&pinned),
            ..EvictReport::default()
        };
        let bytes_total = bytes_of(&left);
        for row in self.remote_rows()? {
            let is_there = |one: &&SegmentFields| one.remote == row.number;
            let wanted: Vec<SegmentFields> = left.iter().filter(is_there).copied().collect();
            if wanted.is_empty() {
                continue;
            }
            let shown = self.connect(&row).and_then(|remote| {
                let shown = self.shown_by(&row, &*remote, wanted)?;
                Ok((remote, shown))
            });
            let (remote, proven) = match shown {
                Ok(shown) => shown,
                Err(error) => {
                    report.problems.push(format!("{}: {error}", row.name));
                    continue;
                }
            };
            let (at, proven) = ((&row, &*remote), (&proven[..], Spared::Nothing));
            let gone = self.evict_proven(at, proven, bytes_total, &mut report, told)?;
            left.retain(|one| !gone.contains(&one.id));
            if report.is_stopped {
                break;
            }
        }
        told(&RemoteProgress {
            bytes: report.bytes,
            bytes_total,
        });
        if report.is_stopped {
            return Ok(report);
        }
        left.sort_unstable_by_key(|one| one.id);
        left.dedup_by_key(|one| one.id);
        report.kept = left.len() as u64;
        report.kept_bytes = bytes_of(&left);
        Ok(report)
    }

    /// Lets those go that the remote of that row has just shown, but for what is spared; gives them. Ends early if it is stopped, or if
    /// nothing of a lot may go.                                                                                 (2)
    pub(crate) fn evict_proven(
        &self,
        (row, remote): (&RemoteFields, &dyn Remote),
        (proven, spared): (&[SegmentFields], Spared),
        bytes_total: u64,
        report: &mut EvictReport,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<HashSet<[u8; 16]>> {
        let mut all = HashSet::new();
        for page in proven.chunks(EVICT_AT_ONCE) {
            let progress = RemoteProgress {
                bytes: report.bytes,
                bytes_total,
            };
            if told(&progress) == GoOn::No {
                report.is_stopped = true;
                break;
            }
            let segments = page.to_vec();
            let request = Request::Remote(RemoteRequest::Evict { segments, spared });
            let gone: Vec<SegmentFields> = self.ask_for(&request)?;
            if gone.is_empty() {
                if spared == Spared::Nothing {
                    let why = "a push, a pull or a backup is using these segments; try again";
                    report.problems.push(format!("{}: {why}", row.name));
                }
                break;
            }
            report.segments += gone.len() as u64;
            report.bytes += bytes_of(&gone);
            all.extend(gone.iter().map(|one| one.id));
            match self.say_needs(row.number, remote, Needs::Soon) {
                // It is noted that it may not be there, and the next pull or push says it.
                Err(Error::Remote(_)) => {}
                said => said?,
            }
        }
        Ok(all)
    }

    /// Brings content back that was let go: all of it, or that of files at or below `path`. What has come stays, also if it is stopped.
    ///
    /// # Errors
    /// `File` with `OnlyAtRemote` if some of it is only where nobody can ask now: then the rest has come; `NoSpace`. What no remote has any
    /// more, and that it was stopped, is in the report.
    pub fn bring_back(
        &self,
        path: Option<&[u8]>,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<BringBackReport> {
        self.bring_those(self.segments_of(WhichSegments::Away, path)?, told)
    }

    /// Brings the content of what `path` names here, with all below it if it is a directory, and keeps it: `evict` leaves it, and a pull brings
    /// what comes to lie there later. Only this copy of the vault knows of it. What has come stays, also if it is stopped.
    ///
    /// # Errors
    /// As `bring_back`; `File` with `InvalidArgument` for more than `limits::PINS_MAX`.
    pub fn pin(
        &self,
        path: impl VaultPath,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<BringBackReport> {
        let (bytes, how) = (path.path_bytes(), Pinning::Pin);
        let path = Bytes(bytes);
        let request = RemoteRequest::Pin { path, how };
        self.ask_for::<bool>(&Request::Remote(request))?;
        self.bring_back(Some(bytes), told)
    }

    /// Lets `evict` take the content of what `path` names again; gives whether it was pinned.
    ///
    /// # Errors
    /// `File` if there is no such path.
    pub fn unpin(&self, path: impl VaultPath) -> Result<bool> {
        let (path, how) = (Bytes(path.path_bytes()), Pinning::Unpin);
        self.ask_for(&Request::Remote(RemoteRequest::Pin { path, how }))
    }

    /// Paths of what is pinned.
    ///
    /// # Errors
    /// Of the stores.
    pub fn pins(&self) -> Result<Vec<Vec<u8>>> {
        let paths: Vec<ByteBuffer> = self.ask_for(&Request::Remote(RemoteRequest::Pins))?;
        Ok(paths.into_iter().map(|path| path.0).collect())
    }

    /// Brings what is pinned and came to lie where only remotes have it, as when something was moved there.
    pub(crate) fn bring_pinned(&self) -> Result<()> {
        let away = self.segments_of(WhichSegments::AwayAndPinned, None)?;
        self.bring_those(away, &mut |_| GoOn::Yes).map(drop)
    }

    fn bring_those(
        &self,
        mut away: Vec<SegmentFields>,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<BringBackReport> {
        away.dedup_by_key(|one| one.id);
        let mut report = BringBackReport::default();
        let mut progress = RemoteProgress {
            bytes: 0,
            bytes_total: bytes_of(&away),
        };
        let mut unasked = None;
        for one in away {
            if told(&progress) == GoOn::No {
                report.is_stopped = true;
                return Ok(report);
            }
            let request = Request::Remote(RemoteRequest::BringBack { segment: one.id });
            match self.ask_for(&request) {
                Ok(true) => {
                    report.segments += 1;
                    report.bytes += one.len;
                }
                Ok(false) => {}
                Err(Error::File(FileError::LostAtRemote(_))) => {
                    report.lost += 1;
                    report.lost_bytes += one.len;
                }
                // The rest may be at other remotes.
                Err(error @ Error::File(FileError::OnlyAtRemote(_))) => {
                    unasked.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            progress.bytes += one.len;
        }
        told(&progress);
        unasked.map_or(Ok(report), Err)
    }

    /// Refuses to forget the remote of that name if something that is away there is shown by no other now; gives the hash of what is away.
    ///                                                                                                    [11.9.7]
    pub(crate) fn check_elsewhere(&self, name: &str) -> Result<[u8; 32]> {
        let away = self.segments_of(WhichSegments::Away, None)?;
        let rows = self.remote_rows()?;
        let leaving = rows.iter().find(|row| row.name == name);
        let leaving = leaving.ok_or_else(|| Error::UnknownRemote(name.to_owned()))?;
        let mut needed: Vec<SegmentFields> = away.clone();
        needed.retain(|one| one.remote == leaving.number);
        for row in rows.iter().filter(|row| row.number != leaving.number) {
            if needed.is_empty() {
                break;
            }
            // One that cannot be asked shows nothing.
            let there = self.look(row).unwrap_or_default();
            let shown = away.iter().filter(|one| {
                let found = there.get(&hex::encode(&one.hash));
                one.remote == row.number && found.is_some_and(|len| *len >= one.len)
            });
            let shown: HashSet<[u8; 16]> = shown.map(|one| one.id).collect();
            needed.retain(|one| !shown.contains(&one.id));
        }
        match bytes_of(&needed) {
            0 => Ok(hash_of(&away)),
            bytes => Err(Error::ContentAway {
                bytes,
                what: format!("only at {name}, as no other remote lists them now"),
            }),
        }
    }

    /// All segments of that kind in which content below `path` lies; see `RemoteRequest::Segments`.
    pub(crate) fn segments_of(
        &self,
        which: WhichSegments,
        path: Option<&[u8]>,
    ) -> Result<Vec<SegmentFields>> {
        let mut all: Vec<SegmentFields> = Vec::new();
        loop {
            let after = all.last().map(|last| last.id);
            let page: Vec<SegmentFields> =
                self.ask_for(&Request::Remote(RemoteRequest::Segments {
                    which,
                    path: path.map(Bytes),
                    after,
                }))?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Says at a remote up to where this device has followed its log, while it needs what was let go: nobody removes there what a later
    /// publication retires. Once it needs nothing, it says so no more.                                            (2)
    fn say_needs(&self, number: u64, remote: &dyn Remote, needs: Needs) -> Result<()> {
        let row = self.remote_row(number)?;
        let (_, said) = row.needs;
        let is_needed = needs == Needs::Soon
            || self.information()?.away_bytes > 0
            || said > 0 && self.has_given_up(number)?;
        let note = |number, renames| {
            self.ask_for::<()>(&Request::Remote(RemoteRequest::NoteNeeds {
                remote: row.number,
                number,
                renames,
            }))
        };
        if !is_needed {
            if said > 0 {
                remove_needs(remote, &row.needs.0, None)?;
                note(0, false)?;
                // Another program may have let something go meanwhile, which relies on what was just removed.
                if self.information()?.away_bytes > 0 {
                    return self.say_needs(number, remote, Needs::Soon);
                }
            }
            return Ok(());
        }
        // What is old is not believed for ever. A time in the future is that of a clock that was wrong.
        let since_s = row.needs_since_s;
        let is_old = since_s > now_s() || passed(since_s, NEEDS_RENEWED);
        if said == row.last && said > 0 && !is_old {
            // What is there keeps its age, and so does what is noted of that.
            return match needs {
                Needs::Soon => match remote.create(&needs_name(&row.needs.0, said), Vec::new())? {
                    Created::AlreadyThere => Ok(()),
                    // The remote lost it, or another program has just taken it back.
                    Created::New => note(said, false),
                },
                Needs::IfAway => Ok(()),
            };
        }
        // Whatever cuts it off from here on, what was said is found again, and goes once nothing is needed. What is there already keeps
        // its age, so it is said under another name.
        note(SAYING, said > 0 && is_old)?;
        let say = || -> Result<([u8; 16], Created)> {
            let (name, _) = self.remote_row(number)?.needs;
            let created = remote.create(&needs_name(&name, row.last), Vec::new())?;
            Ok((name, created))
        };
        let (mut name, created) = say()?;
        let is_unknown = matches!(said, 0 | SAYING) && name == row.needs.0;
        if created == Created::AlreadyThere && is_unknown && row.last > 0 {
            // An attempt that was cut off said it, or it could not be removed: nobody knows how long ago.
            note(SAYING, true)?;
            (name, _) = say()?;
        }
        note(row.last, false)?;
        match said {
            // What is there may be what a copy of this folder said that is not noted as one yet: it stays.
            0 => Ok(()),
            _ if name != row.needs.0 => remove_needs(remote, &row.needs.0, None),
            SAYING => remove_needs(remote, &name, Some(row.last)),
            _ if said == row.last => Ok(()),
            _ => removed(remote, &needs_name(&name, said)),
        }
    }

    /// Whether something lives in segments that the remote is noted to have, and that were given up as lost: it may have them again, and
    /// then a repair fetches them.                                                                               [11.9.2]
    fn has_given_up(&self, number: u64) -> Result<bool> {
        let given_up = self.segments_of(WhichSegments::GivenUp, None)?;
        Ok(given_up.iter().any(|one| one.remote == number))
    }

    /// Says nothing more at a remote that was forgotten; what it does not hear, it believes for a while.
    pub(crate) fn need_no_more(&self, row: &RemoteFields) {
        if row.needs.1 > 0
            && let Ok(remote) = self.connect(row)
        {
            let _ = remove_needs(&*remote, &row.needs.0, None);
        }
    }

    /// `say_needs` after a pull or push, which is done: a remote that does not hear it keeps more until the next.
    pub(crate) fn say_needs_if_it_hears(&self, number: u64, remote: &dyn Remote) -> Result<()> {
        match self.say_needs(number, remote, Needs::IfAway) {
            Err(Error::Remote(_)) => Ok(()),
            said => said,
        }
    }

    /// Up to which publication all that let content go have followed the log of a remote, but for this device; `None` if nobody has let
    /// content go. Who followed it further than `newest`, which this device has just made, needs nothing that was retired before; a
    /// number that no publication has says nothing, whoever wrote it.
    pub(crate) fn needed_up_to(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        newest: u64,
    ) -> Result<Option<u64>> {
        let own = self.remote_row(row.number)?.needs.0;
        let needs = remote.list("needs")?;
        if needs.is_empty() {
            return Ok(None);
        }
        // Both times are of the place: its clock may be behind, and that of this machine ahead.
        let mut publications = remote.list("publications")?.into_iter();
        let made = publications.find(|one| publication_number(&one.name) == Some(newest));
        let made_s = made.map_or(0, |one| one.created_s);
        let mut followed: HashMap<[u8; 16], u64> = HashMap::new();
        for listed in needs {
            let is_over = listed.created_s >= CLOCK_SET_S
                && made_s.saturating_sub(listed.created_s) >= NEEDS_END.as_secs()
                && passed(listed.created_s, NEEDS_END);
            if let Some((id, number)) = needs_of(&listed.name)
                && id != own
                && number <= newest
                && !is_over
            {
                let known = followed.entry(id).or_default();
                *known = number.max(*known);
            }
        }
        Ok(followed.into_values().min())
    }

    /// Those of `wanted` that the remote has now. (1) (2)
    fn shown_by(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        mut wanted: Vec<SegmentFields>,
    ) -> Result<Vec<SegmentFields>> {
        let there = self.proven_at(row, remote)?;
        wanted.retain(|one| there.get(&hex::encode(&one.hash)) == Some(&one.len));
        Ok(wanted)
    }

    /// The segments that the remote lists now, with their lengths, after it was said that this device needs them. (1) (2)
    fn look(&self, row: &RemoteFields) -> Result<HashMap<String, u64>> {
        let remote = self.connect(row)?;
        self.proven_at(row, &*remote)
    }

    /// The same at a remote that was reached.
    pub(crate) fn proven_at(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
    ) -> Result<HashMap<String, u64>> {
        self.say_needs(row.number, remote, Needs::Soon)?;
        let last = self.catch_up(row, remote)?;
        if self.begins_behind(row, remote, last)? {
            return Err(Error::RemoteAhead);
        }
        let listed = remote.list("segments")?.into_iter();
        Ok(listed.map(|one| (one.name, one.len)).collect())
    }
}

/// In the folder of what comes from a remote: under which name a vault that is being cloned says there that it needs what is there.
const NEWCOMER: &str = "needs";

/// Says at a remote that a vault which is being made in `folder` needs what is live there, up to where it has read the log; gives the
/// name. What an attempt before this one said goes.                                                             (2)
pub(crate) fn say_needs_of_newcomer(
    folder: &Folder,
    remote: &dyn Remote,
    number: u64,
) -> Result<[u8; 16]> {
    let mut name = [0; 16];
    SystemRandom.fill(&mut name)?;
    let (incoming, before) = (folder.inside(INCOMING), needs_of_newcomer(folder)?);
    incoming.make()?;
    // Both are known until the first is gone.
    let known = before
        .iter()
        .fold(name.to_vec(), |known, one| [&known[..], one].concat());
    incoming.replace(NEWCOMER, &known)?;
    remote.create(&needs_name(&name, number), Vec::new())?;
    for before in &before {
        remove_needs(remote, before, None)?;
    }
    incoming.replace(NEWCOMER, &name)?;
    Ok(name)
}

/// Says nothing more at a remote of what attempts to make a vault in `folder` said, which needs nothing of it now.
pub(crate) fn need_no_more_of_newcomer(folder: &Folder, remote: &dyn Remote) -> Result<()> {
    for name in needs_of_newcomer(folder)? {
        remove_needs(remote, &name, None)?;
    }
    Ok(())
}

fn needs_of_newcomer(folder: &Folder) -> Result<Vec<[u8; 16]>> {
    let known = folder.inside(INCOMING).read_file(NEWCOMER)?;
    let known = known.unwrap_or_default();
    Ok(known.as_chunks().0.to_vec())
}

/// Removes what was said there under that name, but for the publication `but`.
fn remove_needs(remote: &dyn Remote, name: &[u8; 16], but: Option<u64>) -> Result<()> {
    for listed in remote.list("needs")? {
        if let Some((id, at)) = needs_of(&listed.name)
            && id == *name
            && Some(at) != but
        {
            removed(remote, &needs_name(&id, at))?;
        }
    }
    Ok(())
}

/// Removes it if that is allowed: a store may take objects and remove none.
fn removed(remote: &dyn Remote, name: &ObjectName) -> Result<()> {
    match remote.remove(name) {
        Err(strongroom_remote::Error::Refused(_)) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Whether this device needs of a remote what it let go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// It is about to let something go.
    Soon,
    /// If something is away.
    IfAway,
}

fn bytes_of(segments: &[SegmentFields]) -> u64 {
    let mut seen = HashSet::new();
    let once = segments.iter().filter(|one| seen.insert(one.id));
    once.map(|one| one.len).sum()
}
