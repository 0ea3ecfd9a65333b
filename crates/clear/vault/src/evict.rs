//! Gives room back by letting content go that a remote has, and brings it back.
//!
//! Takes   an open vault with remotes, in whatever process its owner is; a path, or all of it
//! Gives   room on this disk; what was let go comes back when it is read, or when somebody asks for it
//! Never   lets go of what a remote has not just shown that it has
//! Spec    spec/11-sync.md, 11.9
//!
//! Invariants
//!  (1) Before a segment goes, a remote listed it with the hash that was published and with its length, and its log had nothing
//!      that this device has not taken in.                                                                      [11.9.1]

use std::collections::{HashMap, HashSet};

use strongroom_format::hex;

use crate::limits::EVICT_AT_ONCE;
use crate::remotes::{RemoteProgress, go_on};
use crate::request::Request;
use crate::request::frame::Bytes;
use crate::request::remote::{RemoteFields, RemoteRequest, SegmentFields, WhichSegments};
use crate::{Error, GoOn, Result, Vault};

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
}

/// What was brought back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BringBackReport {
    /// Segments that came, and their bytes.
    pub segments: u64,
    /// See `segments`.
    pub bytes: u64,
}

impl Vault {
    /// Lets the content of files go from this disk that remotes have: of all files, or of those at or below `path`. Content goes by
    /// segments of up to 16 MiB, with a path those of which at least half is content below it. What is read later is fetched from a remote, and
    /// stays here then. `told` hears of the progress and says whether to go on.
    ///
    /// # Errors
    /// `File` if there is no such path; `RemoteStopped`. What is wrong with a remote is in the report.
    pub fn evict(
        &self,
        path: Option<&[u8]>,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<EvictReport> {
        let _turn = self.shared.remote_turn.lock();
        let mut left = self.segments_of(WhichSegments::Here, path)?;
        let mut report = EvictReport::default();
        let mut progress = RemoteProgress {
            bytes: 0,
            bytes_total: bytes_of(&left),
        };
        for row in self.remote_rows()? {
            let is_there = |one: &&SegmentFields| one.remote == row.number;
            let wanted: Vec<SegmentFields> = left.iter().filter(is_there).copied().collect();
            if wanted.is_empty() {
                continue;
            }
            let proven = match self.shown_by(&row, wanted) {
                Ok(proven) => proven,
                Err(error) => {
                    report.problems.push(format!("{}: {error}", row.name));
                    continue;
                }
            };
            for page in proven.chunks(EVICT_AT_ONCE) {
                go_on(told(&progress))?;
                let segments = page.to_vec();
                let request = Request::Remote(RemoteRequest::Evict { segments });
                let gone: Vec<SegmentFields> = self.ask_for(&request)?;
                report.segments += gone.len() as u64;
                report.bytes += bytes_of(&gone);
                progress.bytes += bytes_of(&gone);
                let gone: HashSet<[u8; 16]> = gone.iter().map(|one| one.id).collect();
                left.retain(|one| !gone.contains(&one.id));
            }
        }
        go_on(told(&progress))?;
        left.sort_unstable_by_key(|one| one.id);
        left.dedup_by_key(|one| one.id);
        report.kept = left.len() as u64;
        report.kept_bytes = bytes_of(&left);
        Ok(report)
    }

    /// Brings content back that was let go: all of it, or that of files at or below `path`. What has come stays, also if it is stopped.
    ///
    /// # Errors
    /// `File` with `OnlyAtRemote` if no remote can be asked, `LostAtRemote` if none has it any more, `NoSpace`; `RemoteStopped`.
    pub fn bring_back(
        &self,
        path: Option<&[u8]>,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<BringBackReport> {
        let away = self.segments_of(WhichSegments::Away, path)?;
        let mut report = BringBackReport::default();
        let mut progress = RemoteProgress {
            bytes: 0,
            bytes_total: bytes_of(&away),
        };
        for one in away {
            go_on(told(&progress))?;
            let request = Request::Remote(RemoteRequest::BringBack { segment: one.id });
            let came: bool = self.ask_for(&request)?;
            if came {
                report.segments += 1;
                report.bytes += one.len;
            }
            progress.bytes += one.len;
        }
        told(&progress);
        Ok(report)
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

    /// Those of `wanted` that the remote has now. (1)
    fn shown_by(
        &self,
        row: &RemoteFields,
        mut wanted: Vec<SegmentFields>,
    ) -> Result<Vec<SegmentFields>> {
        let remote = self.connect(row)?;
        let last = self.catch_up(row, &*remote)?;
        if self.is_cut(&*remote, last)? {
            return Err(Error::RemoteAhead);
        }
        let listed = remote.list("segments")?.into_iter();
        let there: HashMap<String, u64> = listed.map(|one| (one.name, one.len)).collect();
        wanted.retain(|one| there.get(&hex::encode(&one.hash)) == Some(&one.len));
        Ok(wanted)
    }
}

fn bytes_of(segments: &[SegmentFields]) -> u64 {
    let mut seen = HashSet::new();
    let once = segments.iter().filter(|one| seen.insert(one.id));
    once.map(|one| one.len).sum()
}
