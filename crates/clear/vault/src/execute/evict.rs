//! The owner's part of evicting content: finds its segments and the remotes that have them; removes and fetches segments.
//!
//! Takes   the session of a client that wants to free space, or wants content back
//! Gives   segments with their published hashes; segment files removed or fetched
//! Never   connects to a remote, except to fetch a segment
//! Spec    spec/11-sync.md, 11.9

use std::collections::{HashMap, HashSet};

use strongroom_filesystem::{Error as FileError, NodeKind, ShownSegment};
use strongroom_format::SegmentId;
use strongroom_metadata::{
    BlockNumber, InodeId, Place, Published, Reader, Reads, Remote, Segment, SegmentNumber,
    SegmentState, Transaction, has_no_file,
};
use strongroom_sync::RemoteState;

use crate::execute::limit_looks::Looked;
use crate::execute::pin::pins;
use crate::execute::published::{change, rows};
use crate::execute::session::Session;
use crate::limits::{EVICT_AT_ONCE, SEGMENTS_PAGE};
use crate::path::{Links, resolve};
use crate::request::Access;
use crate::request::frame::Bytes;
use crate::request::remote::{LimitLook, SegmentFields, Spared, WhichSegments, hash_of};
use crate::{Error, Result};

/// Entries and regions that are read at once.
const PAGE: usize = 1024;

/// The next segments of that kind behind `after`, by their names, in which content below `path` lies: one for each remote that is noted
/// to have it, or one of the remote 0, which there is not. Of those that are not here the length is that of what was committed.
pub(super) fn segments(
    session: &Session,
    which: WhichSegments,
    path: Option<Bytes<'_>>,
    after: Option<[u8; 16]>,
) -> Result<Vec<SegmentFields>> {
    show_all(session)?;
    let below = match path {
        Some(path) => {
            let top = resolve(session.filesystem(), &session.caller, path.0, Links::Stay)?;
            Some(below(session, vec![top.inode()])?.bytes)
        }
        None => None,
    };
    let pinned = match which {
        WhichSegments::Here | WhichSegments::AwayAndPinned => below_pins(session, pins(session)?)?,
        _ => Below::default(),
    };
    let those = (below.as_ref(), &pinned.bytes);
    segments_up_to(session, which, those, (after, SEGMENTS_PAGE))
}

/// The same, at most `limit` and those of one segment more; of the path and of what is pinned the bytes in each segment are given.
fn segments_up_to(
    session: &Session,
    which: WhichSegments,
    (below, pinned): (Option<&BytesIn>, &BytesIn),
    (after, limit): (Option<[u8; 16]>, usize),
) -> Result<Vec<SegmentFields>> {
    let reader = session.filesystem().engine().reader()?;
    let remotes = reader.remotes()?;
    let mut rows = reader.segments()?;
    rows.retain(|row| {
        after.is_none_or(|after| row.id.0 > after)
            && has_bytes(row)
            && is_meant(row, which, below)
            && (which != WhichSegments::AwayAndPinned || pinned.contains_key(&row.number))
    });
    rows.sort_unstable_by_key(|row| row.id);
    let mut found = Vec::new();
    for row in rows {
        if found.len() >= limit {
            break;
        }
        let len = match which {
            WhichSegments::Away | WhichSegments::AwayAndPinned => Some(row.committed_len),
            WhichSegments::Here => session.filesystem().segment_len(row.id),
            WhichSegments::GivenUp => {
                let is_missing = session.filesystem().segment_len(row.id).is_none();
                is_missing.then_some(row.committed_len)
            }
        };
        let Some(len) = len else {
            continue;
        };
        if has_content(&reader, &row)? {
            let is_pinned = pinned.contains_key(&row.number);
            note_each(&reader, &remotes, (&row, len, is_pinned), &mut found)?;
        }
    }
    Ok(found)
}

/// Whether something lives in it, and it has or had a file.
fn has_bytes(row: &Segment) -> bool {
    row.live_bytes > 0 && !has_no_file(&row.id)
}

/// Whether content of files is in it.
fn has_content(reads: &Reads, row: &Segment) -> strongroom_metadata::Result<bool> {
    let blocks = reads.blocks_in_segment(row.number, BlockNumber(0), PAGE)?;
    Ok(blocks.iter().any(|block| block.kind.is_data()))
}

/// Adds the segment once for each remote that is noted to have it, or once with the remote 0, which there is not.
fn note_each(
    reads: &Reads,
    remotes: &[Remote],
    (row, len, is_pinned): (&Segment, u64, bool),
    found: &mut Vec<SegmentFields>,
) -> strongroom_metadata::Result<()> {
    let before = found.len();
    for remote in remotes {
        let published = reads.published(remote.number, Published::Segment(row.id.0))?;
        if let Some(how) = published.filter(|how| !how.is_let_go()) {
            found.push(fields(row, (remote.number, how.hash), len, is_pinned));
        }
    }
    if found.len() == before {
        found.push(fields(row, (0, [0; 32]), len, is_pinned));
    }
    Ok(())
}

fn fields(
    row: &Segment,
    (remote, hash): (u64, [u8; 32]),
    len: u64,
    is_pinned: bool,
) -> SegmentFields {
    SegmentFields {
        id: row.id.0,
        remote,
        hash,
        len,
        is_pinned,
    }
}

fn is_meant(row: &Segment, which: WhichSegments, below: Option<&BytesIn>) -> bool {
    let bytes = |below: &BytesIn| below.get(&row.number).copied().unwrap_or(0);
    match which {
        WhichSegments::Away | WhichSegments::AwayAndPinned => {
            row.state == SegmentState::Away && below.is_none_or(|below| bytes(below) > 0)
        }
        // What others need stays: a segment is meant if at least half of its live bytes is.
        WhichSegments::Here | WhichSegments::GivenUp => {
            row.state == SegmentState::Finished
                && below.is_none_or(|below| bytes(below) * 2 >= row.live_bytes)
        }
    }
}

/// Bytes of some files in each segment. What several of them share counts for each.
type BytesIn = HashMap<SegmentNumber, u64>;

/// The bytes of files in each segment, and how many rows of nodes and extents it took to know that.
#[derive(Default)]
struct Below {
    bytes: BytesIn,
    rows: u64,
}

/// Of what is pinned.
fn below_pins(session: &Session, pins: Vec<InodeId>) -> Result<Below> {
    match pins.is_empty() {
        true => Ok(Below::default()),
        false => below(session, pins),
    }
}

/// Of the files at or below those of `open`.
fn below(session: &Session, mut open: Vec<InodeId>) -> Result<Below> {
    // What is not stored yet is in no segment.
    session.filesystem().sync()?;
    let reader = session.filesystem().engine().reader()?;
    let mut found = Below::default();
    let mut seen = HashSet::new();
    while let Some(inode) = open.pop() {
        found.rows += 1;
        let Some(row) = reader.inode(inode)? else {
            continue;
        };
        match row.kind {
            NodeKind::Directory => {
                let mut after = 0;
                loop {
                    let page = reader.entries(inode, after, PAGE)?;
                    let Some(last) = page.last() else { break };
                    after = last.cookie;
                    open.extend(page.iter().map(|entry| entry.inode));
                }
            }
            // It may have several names.
            NodeKind::File if row.nlink > 0 && seen.insert(inode) => {
                count_file(&reader, inode, &mut found)?
            }
            _ => {}
        }
    }
    Ok(found)
}

fn count_file(reader: &Reader<'_>, inode: InodeId, found: &mut Below) -> Result<()> {
    let mut from = 0;
    loop {
        let regions = reader.regions_from(inode, from, PAGE)?;
        let Some(last) = regions.last() else {
            return Ok(());
        };
        from = last + 1;
        for region in regions {
            for extent in reader.region(inode, region)? {
                found.rows += 1;
                let block = reader.block(extent.block)?;
                if let Some(Place::Segment(segment, _)) = block.map(|block| block.place) {
                    *found.bytes.entry(segment).or_default() += u64::from(extent.len);
                }
            }
        }
    }
}

/// What may go for the limit of this device and `remote` is noted to have, least recently used first: one page. Nothing while content is
/// within the limit, while new keys bring back what is away, or if it is to look only when that is due, and it is not.         [11.9.9]
pub(super) fn above_limit(
    session: &Session,
    remote: u64,
    look: LimitLook,
) -> Result<Vec<SegmentFields>> {
    let filesystem = session.filesystem();
    let Some(limit) = filesystem.keep_at_most() else {
        return Ok(Vec::new());
    };
    let is_within = filesystem.away_and_here()?.1 <= limit;
    if is_within || session.access == Access::ReadOnly || session.vault.rotation()?.is_running {
        return Ok(Vec::new());
    }
    let mark = filesystem.changes_mark();
    show_all(session)?;
    let (pins, here) = (pins(session)?, noted_and_here(session, remote)?);
    let looks = &session.vault.limit_looks;
    if look == LimitLook::IfDue && !looks.is_due(remote, (limit, &pins), &here, mark) {
        return Ok(Vec::new());
    }
    let pinned = below_pins(session, pins.clone())?;
    let those = (None, &pinned.bytes);
    let mut found = segments_up_to(session, WhichSegments::Here, those, (None, usize::MAX))?;
    found.retain(|one| {
        one.remote == remote && !one.is_pinned && !filesystem.is_just_read(SegmentId(one.id))
    });
    let mut stays: HashSet<SegmentId> = here.into_iter().map(|(id, _)| id).collect();
    stays.retain(|id| !filesystem.is_just_read(*id));
    for one in &found {
        stays.remove(&SegmentId(one.id));
    }
    let looked = Looked {
        limit,
        pins,
        stays,
        mark,
        rows: pinned.rows,
    };
    looks.note(remote, looked);
    found.sort_by_cached_key(|one| filesystem.last_use(SegmentId(one.id)));
    found.truncate(SEGMENTS_PAGE);
    Ok(found)
}

/// The segments that are here, that the remote is noted to have and that were not just read, with their lengths.
fn noted_and_here(session: &Session, remote: u64) -> Result<Vec<(SegmentId, u64)>> {
    let reader = session.filesystem().engine().reader()?;
    let mut found = Vec::new();
    for row in reader.segments()? {
        let is_here = is_meant(&row, WhichSegments::Here, None) && has_bytes(&row);
        if is_here && !session.filesystem().is_just_read(row.id) {
            let published = reader.published(remote, Published::Segment(row.id.0))?;
            if published.is_some_and(|how| !how.is_let_go()) {
                found.push((row.id, row.committed_len));
            }
        }
    }
    Ok(found)
}

/// Lets the files of those go that the caller has seen at a remote, unless they are spared; gives those that went. Nothing goes of which the
/// remote does not hear any more that it is needed.                                                        [11.9.2]
pub(super) fn evict(
    session: &Session,
    segments: &[SegmentFields],
    spared: Spared,
) -> Result<Vec<SegmentFields>> {
    if segments.len() > EVICT_AT_ONCE {
        return Err(Error::Protocol("too many segments at once"));
    }
    let filesystem = session.filesystem();
    let _turn = session.vault.evicting.lock();
    let mut said = HashSet::new();
    for row in rows(session)? {
        // Another program may have said since that nothing is needed there: nothing was away then.
        let state = RemoteState::decode(&row.state);
        said.extend(state.filter(|state| state.needs.1 > 0).map(|_| row.number));
    }
    let meant = segments.iter().filter(|one| said.contains(&one.remote));
    let shown = meant.map(|one| ShownSegment {
        id: SegmentId(one.id),
        remote: one.remote,
        hash: one.hash,
    });
    let stays = |id| spared == Spared::JustRead && filesystem.is_just_read(id);
    let shown: Vec<ShownSegment> = shown.filter(|one| !stays(one.id)).collect();
    let gone = filesystem.evict(&shown)?;
    let gone: HashSet<[u8; 16]> = gone.into_iter().map(|id| id.0).collect();
    let went = segments.iter().filter(|one| gone.contains(&one.id));
    Ok(went.copied().collect())
}

/// Brings back what is away and `is_meant`.
///
/// # Errors
/// As `Filesystem::bring_back`.
pub(super) fn bring_back_those(
    session: &Session,
    is_meant: &dyn Fn(&Reader<'_>, &Segment) -> Result<bool>,
) -> Result<()> {
    show_all(session)?;
    let reader = session.filesystem().engine().reader()?;
    let mut meant = Vec::new();
    for row in reader.segments()? {
        if row.state == SegmentState::Away && row.live_bytes > 0 && is_meant(&reader, &row)? {
            meant.push(row.id);
        }
    }
    drop(reader);
    for id in meant {
        bring_back_or_give_up(session, id, None)?;
    }
    Ok(())
}

/// Brings a segment back of which something lives here and that somebody retired at `remote`, who may remove it there soon. What was given
/// up comes from that remote alone, if it has it again: what others have stays there, and they may be out of reach.               [11.9.4]
pub(super) fn bring_back_retired(session: &Session, id: SegmentId, remote: u64) -> Result<()> {
    let filesystem = session.filesystem();
    let row = filesystem.engine().reader()?.segment_by_id(&id)?;
    if row.is_none_or(|row| row.live_bytes == 0) {
        return Ok(());
    }
    if !filesystem.set_away_again(id)? {
        return bring_back_or_give_up(session, id, None);
    }
    let brought = bring_back_or_give_up(session, id, Some(remote));
    if brought.is_err() {
        filesystem.give_up_away(id)?;
    }
    brought
}

/// What no remote has any more is lost; a verification names what that costs, and nobody waits for it.
fn bring_back_or_give_up(session: &Session, id: SegmentId, from: Option<u64>) -> Result<()> {
    match session.filesystem().bring_back(id, from) {
        Err(FileError::LostAtRemote(why)) => {
            log::error!(
                "content that was only at a remote is lost ({why}); run `strongroom verify`"
            );
            Ok(session.filesystem().give_up_away(id)?)
        }
        brought => {
            brought?;
            Ok(())
        }
    }
}

/// Readers see what is committed.
pub(super) fn show_all(session: &Session) -> Result<()> {
    match session.access {
        Access::ReadWrite => Ok(session.filesystem().engine().commit()?),
        Access::ReadOnly => Ok(()),
    }
}

/// Forgets a remote, unless it alone has something of the vault. `asked_for`: the hash of what was away when the caller asked the other
/// remotes for it; gives false, and changes nothing, if something else is away now. Nothing is evicted between the look and that.  [11.9.7]
pub(super) fn forget_remote(session: &Session, row: &Remote, asked_for: [u8; 32]) -> Result<bool> {
    let bytes = change(session, |writer| {
        if hash_of(&away(writer)?) != asked_for {
            return Ok(None);
        }
        let bytes = bytes_alone(writer, row.number)?;
        if bytes == 0 {
            writer.remove_remote(row.number)?;
        }
        Ok(Some(bytes))
    })?;
    match bytes {
        None => Ok(false),
        Some(0) => Ok(true),
        Some(bytes) => Err(Error::ContentAway {
            bytes,
            what: format!("only at {}, the remote that would be removed", row.name),
        }),
    }
}

/// What is away, as `segments` gives it, with what is not committed yet.
fn away(writer: &Transaction<'_>) -> strongroom_metadata::Result<Vec<SegmentFields>> {
    let remotes = writer.remotes()?;
    let mut rows = writer.segments()?;
    rows.retain(|row| has_bytes(row) && is_meant(row, WhichSegments::Away, None));
    rows.sort_unstable_by_key(|row| row.id);
    let mut found = Vec::new();
    for row in rows {
        if has_content(writer, &row)? {
            let how = (&row, row.committed_len, false);
            note_each(writer, &remotes, how, &mut found)?;
        }
    }
    Ok(found)
}

/// The bytes that are away and that no other remote is noted to have, with what is not committed yet: a pull may have just brought it.
fn bytes_alone(writer: &Transaction<'_>, number: u64) -> strongroom_metadata::Result<u64> {
    let remotes = writer.remotes()?;
    let mut bytes = 0;
    for row in writer.segments()? {
        if row.state != SegmentState::Away || row.live_bytes == 0 {
            continue;
        }
        let mut elsewhere = false;
        for remote in remotes.iter().filter(|remote| remote.number != number) {
            let published = writer.published(remote.number, Published::Segment(row.id.0))?;
            elsewhere |= published.is_some_and(|how| !how.is_let_go());
        }
        bytes += if elsewhere { 0 } else { row.live_bytes };
    }
    Ok(bytes)
}
