//! Carries out the steps of a verification in the process that owns the vault.
//!
//! Takes   a session and a step
//! Gives   damaged files of the folder, damaged blocks, and which files and snapshots lose content by them
//! Never   changes anything, or stores anything between two steps
//! Spec    spec/7-recovery.md

use std::collections::{HashMap, HashSet};

use strongroom_crypto::UnlockError;
use strongroom_filesystem::{
    self as filesystem, Engine, Filesystem, LostChunks, Proof, ReplayFault, Strangers,
    VerifiedPart, VerifyRange,
};
use strongroom_format::{BlockId, SegmentId, hex};
use strongroom_history::{Revision, Survey, TreeDamage, TreeLoss};
use strongroom_metadata::BlockNumber;
use strongroom_segments::INTENT_LOG;

use crate::Result;
use crate::execute::session::Session;
use crate::execute::{verify_state, whole};
use crate::folder::{BACKUP, HEADER, HEADER_SAVED, REPLICA, REPLICA_SAVED, REVISIONS, SEGMENTS};
use crate::keyring::held_keys::HeldKeys;
use crate::limits::{VERIFY_BLOCKS_MAX, VERIFY_LINES_MAX, VERIFY_PAGE_BYTES, VERIFY_SUSPECTS_MAX};
use crate::records::{open_revision, record_name};
use crate::request::Response;
use crate::request::verify::{
    DamageLine, DamagePage, FileProblem, Loss, PartFields, VerifyRequest,
};

/// Carries out one step.
pub(crate) fn execute(session: &Session, request: &VerifyRequest) -> Result<Response> {
    let filesystem = session.filesystem();
    let proof = |deep: bool| if deep { Proof::Full } else { Proof::Tags };
    Ok(match request {
        VerifyRequest::Size { after } => {
            let size = filesystem.verify_size(after.map(SegmentId))?;
            size.bytes.into()
        }
        VerifyRequest::Structure => whole::check(filesystem)?.into(),
        VerifyRequest::Files => {
            let mut problems = session.vault.with_keys(file_problems);
            problems.extend(intents_problem(filesystem));
            problems.extend(verify_state::problem(session));
            let odd = filesystem.odd_segment_folders()?.into_iter();
            problems.extend(odd.map(|odd| FileProblem {
                file: odd.shown_path(),
                what: format!(
                    "it is {}; the segments that belong there are missing",
                    odd.what
                ),
                is_damage: true,
            }));
            problems.extend(record_problems(session)?);
            problems.into()
        }
        VerifyRequest::Carried { deep } => fields(&filesystem.verify_carried(proof(*deep))?).into(),
        VerifyRequest::Segments {
            after,
            only,
            bytes_max,
            deep,
        } => {
            let range = VerifyRange {
                after: after.map(SegmentId),
                only: only.iter().copied().map(SegmentId).collect(),
                bytes_max: *bytes_max,
                proof: proof(*deep),
                strangers: match is_backup(session) {
                    true => Strangers::PassedOver,
                    false => Strangers::Told,
                },
            };
            fields(&filesystem.verify_segments(&range)?).into()
        }
        VerifyRequest::Damage { blocks, deep, skip } => {
            let lost = |(number, chunks): &(u64, u16)| (BlockNumber(*number), LostChunks(*chunks));
            let blocks = blocks.iter().map(lost).collect();
            damage(session, &blocks, *deep, *skip)?.into()
        }
        VerifyRequest::Resume { deep } => verify_state::resume(session, *deep)?.into(),
        VerifyRequest::Keep(state) => verify_state::keep(session, state).into(),
        VerifyRequest::End => verify_state::end(session)?.into(),
    })
}

/// Whether the folder is a backup: one that was interrupted has more than its database knows.
fn is_backup(session: &Session) -> bool {
    session.vault.with_keys(|keys| keys.folder().has(BACKUP))
}

/// The path of a segment inside the vault folder.
pub(crate) fn show_segment(id: SegmentId) -> String {
    let name = hex::encode(&id.0);
    format!("{SEGMENTS}/{}/{name}", &name[..2])
}

fn fields(part: &VerifiedPart) -> PartFields {
    let shown = part.damaged.len().min(VERIFY_BLOCKS_MAX);
    let problems = part.problems.iter().take(VERIFY_LINES_MAX);
    let mut suspects: Vec<[u8; 16]> = part.suspects.iter().map(|id| id.0).collect();
    suspects.dedup();
    // With one more than that, no state is kept.
    suspects.truncate(VERIFY_SUSPECTS_MAX + 1);
    PartFields {
        last: part.last.map(|id| id.0),
        bytes: part.bytes,
        blocks: part.blocks,
        damaged: part.damaged[..shown]
            .iter()
            .map(|one| (one.number.0, one.chunks.0))
            .collect(),
        damaged_more: (part.damaged.len() - shown) as u64,
        suspects,
        problems: problems
            .map(|one| FileProblem {
                file: show_segment(one.segment),
                what: one.what.clone(),
                is_damage: true,
            })
            .collect(),
    }
}

// ---- small files

/// What the opening found wrong with the log of small syncs, if it lost anything.
pub(crate) fn intents_problem(filesystem: &Filesystem) -> Option<FileProblem> {
    let fault = filesystem.replay().fault?;
    Some(FileProblem {
        file: INTENT_LOG.to_owned(),
        what: replay_words(fault),
        is_damage: true,
    })
}

/// What a fault of the log of small syncs means for who stored the files.
pub(crate) fn replay_words(fault: ReplayFault) -> String {
    format!("some data synced just before the crash may be missing: {fault}")
}

/// What a person does about a change of keys that was not made here.
const ACCEPT_OR_REMOVE: &str = "if you made this change, run `strongroom device accept`. If not, somebody else has keys of this vault: remove what was added \
     (`strongroom device remove`, `strongroom key remove`), then run `strongroom key rotate`";

/// The keys and devices of a sound header that wait for a person's decision.
fn keys_to_decide_about(keys: &HeldKeys) -> Vec<FileProblem> {
    let unknown = keys.unknown_records().into_iter();
    let mut said: Vec<String> = unknown
        .map(|line| format!("{line}; {ACCEPT_OR_REMOVE}"))
        .collect();
    if keys.keyring().device_outlived_its_own_removal_of_a_slot() {
        let why = "an earlier version of strongroom removed a key but left this copy's device in use, so anyone who had that key may have the secrets of this device; run `strongroom key rotate`";
        said.push(why.to_owned());
    }
    let problem = |what| FileProblem {
        file: HEADER.to_owned(),
        what,
        is_damage: false,
    };
    said.into_iter().map(problem).collect()
}

/// What is wrong with header, replica file and their second copies, and which of its keys wait for a decision.
fn file_problems(keys: &HeldKeys) -> Vec<FileProblem> {
    let (folder, keyring) = (keys.folder(), keys.keyring());
    let mut problems = keys_to_decide_about(keys);
    let mut note = |file: &str, what: String| {
        problems.push(FileProblem {
            file: file.to_owned(),
            what,
            is_damage: true,
        });
    };
    let header = folder.header();
    match &header {
        Err(error) => note(HEADER, error.to_string()),
        Ok(bytes) => {
            if let Err(error) = keyring.follow(bytes) {
                note(HEADER, error.to_string());
            }
        }
    }
    let replica = folder.replica();
    let opens = |bytes: &[u8]| -> std::result::Result<(), UnlockError> {
        keyring.open_replica(bytes).map(drop)
    };
    match &replica {
        Err(error) => note(REPLICA, error.to_string()),
        Ok(bytes) => {
            if let Err(error) = opens(bytes) {
                note(REPLICA, error.to_string());
            }
        }
    }
    for (name, file, bytes) in [
        (HEADER, HEADER_SAVED, &header),
        (REPLICA, REPLICA_SAVED, &replica),
    ] {
        let saved = folder.saved(name);
        match (saved, bytes) {
            (Err(error), _) => note(file, error.to_string()),
            (Ok(None), _) => note(file, "the second copy is missing".to_owned()),
            (Ok(Some(saved)), Ok(bytes)) if saved != *bytes => {
                note(file, format!("it differs from {name}"));
            }
            _ => {}
        }
    }
    problems
}

/// Records of revisions that are missing, damaged, or of none that is kept.
fn record_problems(session: &Session) -> Result<Vec<FileProblem>> {
    let problems = compare_records(session)?;
    if problems.is_empty() {
        return Ok(problems);
    }
    // A snapshot may have come or gone between the looks at rows and files. While this is held none does.
    let _turn = session.filesystem().hold_revisions();
    compare_records(session)
}

fn compare_records(session: &Session) -> Result<Vec<FileProblem>> {
    let engine = session.filesystem().engine();
    let brings_more = is_backup(session);
    let (oldest, newest) = session.vault.epochs();
    let before = engine.sealer();
    let rows = engine.reader()?.revisions()?;
    let mut bodies: HashMap<String, Vec<u8>> = rows
        .into_iter()
        .map(|row| (hex::encode(&row.id), row.body))
        .collect();
    let mut problems = Vec::new();
    let mut there: HashSet<String> = HashSet::new();
    let files = session.vault.records.files()?;
    // Keys may have begun or gone while the files were read: a record is of the one time or the other.
    let after = engine.sealer();
    for (name, bytes) in files {
        let file = format!("{REVISIONS}/{name}");
        let Some((id, epoch)) = record_name(&name) else {
            continue;
        };
        // What is no regular file no backup has brought.
        let is_strange = bytes.is_none();
        let opened = bytes.and_then(|bytes| {
            let epoch = strongroom_format::Epoch(epoch);
            let opened = open_revision(&before, epoch, &bytes);
            opened.or_else(|| open_revision(&after, epoch, &bytes))
        });
        let what = match (bodies.get(id), opened) {
            (Some(body), Some(opened)) if opened == *body => {
                there.insert(id.to_owned());
                continue;
            }
            // An interrupted backup brought it, or left it.
            (None, Some(_)) if brings_more => continue,
            (_, None) if brings_more && !is_strange && !(oldest.0..=newest.0).contains(&epoch) => {
                continue;
            }
            (Some(_), _) => {
                "it is not the record of the snapshot that its file name states: it does not open, or has other content"
            }
            (None, Some(_)) => {
                "the database does not list its snapshot: taking the snapshot was interrupted, or an older copy of metadata.db was put back"
            }
            (None, None) => "the database does not list its snapshot, and the record does not open",
        };
        problems.push(FileProblem {
            file,
            what: what.to_owned(),
            is_damage: true,
        });
    }
    bodies.retain(|id, _| !there.contains(id));
    let mut missing: Vec<String> = bodies.into_keys().collect();
    missing.sort_unstable();
    for id in missing {
        let named = problems.iter().any(|one| one.file.contains(&id));
        if !named {
            problems.push(FileProblem {
                file: format!("{REVISIONS}/{id}"),
                what: "the record of this snapshot is missing".to_owned(),
                is_damage: true,
            });
        }
    }
    problems.truncate(VERIFY_LINES_MAX);
    Ok(problems)
}

// ---- what people lose

/// Lines of a page, with those before it counted only.
struct Page {
    skip: u64,
    bytes_left: usize,
    page: DamagePage,
}

impl Page {
    fn push(&mut self, path: &[u8], what: Loss, revision: Option<[u8; 32]>) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        let len = path.len() + 64;
        if self.page.more || len > self.bytes_left || self.page.lines.len() >= VERIFY_LINES_MAX {
            self.page.more = true;
            return;
        }
        self.bytes_left -= len;
        self.page.lines.push(DamageLine {
            path: path.to_vec(),
            what,
            revision,
        });
    }
}

fn damage(
    session: &Session,
    blocks: &HashMap<BlockNumber, LostChunks>,
    deep: bool,
    skip: u64,
) -> Result<DamagePage> {
    let filesystem = session.filesystem();
    let mut page = Page {
        skip,
        bytes_left: VERIFY_PAGE_BYTES,
        page: DamagePage::default(),
    };
    for range in filesystem.ranges_of_blocks(blocks)? {
        let paths = filesystem.paths(range.inode)?;
        if paths.is_empty() {
            page.push(b"", Loss::Unnamed, None);
        }
        for path in paths {
            let what = Loss::Content(range.bytes.start, range.bytes.end);
            page.push(&path, what, None);
        }
    }
    if blocks.is_empty() && !deep {
        return Ok(page.page);
    }
    let names = filesystem.names_of_blocks(blocks)?;
    let lost: HashMap<BlockId, LostChunks> = names
        .into_iter()
        .filter(|(_, kind, _)| kind.is_data())
        .map(|(id, _, chunks)| (id, chunks))
        .collect();
    let lost_of = |id: &BlockId| lost.get(id).map_or_else(Vec::new, |chunks| chunks.ranges());
    // Blocks of snapshots that somebody removes meanwhile stay until all snapshots have been looked at.
    let engine = filesystem.engine();
    let _held = engine.hold();
    let mut survey = Survey::new(&engine, lost_of);
    for (id, revision) in filesystem.each_revision()? {
        match revision {
            Ok(revision) => tree_damage(&mut survey, &revision, &mut page)?,
            // Its row is not as it was signed: nothing in it can be trusted.
            Err(_) => page.push(b"/", Loss::Tree, Some(id)),
        }
    }
    page.page.nodes = survey.nodes();
    Ok(page.page)
}

fn tree_damage(
    survey: &mut Survey<'_, Engine<'_>>,
    revision: &Revision,
    page: &mut Page,
) -> Result<()> {
    let id = revision.id.0;
    if survey.tree(&revision.body.root, &mut |_, _, _| Ok(()))? {
        return Ok(());
    }
    let mut named = false;
    survey.damages(&revision.body.root, &mut |damage: TreeDamage| {
        named = true;
        let what = match damage.what {
            TreeLoss::Root => Loss::Tree,
            TreeLoss::Content(bytes) => Loss::Content(bytes.start, bytes.end),
            TreeLoss::Names(count) => Loss::Names(count),
            TreeLoss::Xattrs => Loss::Xattrs,
        };
        page.push(&damage.path, what, Some(id));
        Ok::<_, filesystem::Error>(())
    })?;
    if !named {
        page.push(b"/", Loss::Structure, Some(id));
    }
    Ok(())
}
