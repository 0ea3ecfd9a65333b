//! Joins what others published with the current state: adds rows for downloaded blocks, plans the merge, and carries it out.
//!
//! Takes   publications that were not taken in yet, and the objects that they name, downloaded
//! Gives   the current state with the changes of both sides; the conflict names that were given
//! Never   loses changes made here meanwhile (it plans again), or fails for lack of room for a merged text (it keeps both
//!         contents)
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) Rows for downloaded blocks are added in the transaction that shows the result: an interruption leaves the state before or
//!      after it.
//!  (2) No intent record from before a join is replayed onto joined content: the content versions before and after a
//!      join cannot be compared.                                                                        [8.5]
//!  (3) The base of a merge is the newest known revision that both sides continue. So changes that both sides have
//!      already are never undone. A revision has a higher sequence number than every revision that it continues. What was removed here is no
//!      base, but is known to have been continued.                                                       [11.6]

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use strongroom_filesystem::{
    Arrived, Brought, Caller, Content, Durability, Ending, Error as FileError, Shown, Taken,
};
use strongroom_format::publication::{RemoteId, SignedPublication};
use strongroom_history::{
    self as history, Conflicts, Delta, ERASURES, Erasures, Living, Name, NewContent, NewRevision,
    NodeId, Plan, Revision, RevisionId, SCHEDULED, SHARED_RETENTION, SharedRetention, Texts, Tree,
    XattrList, delta, merge,
};
use strongroom_metadata::{InodeId, Reader, Timestamp};
use strongroom_sync::{Live, RemoteState, unfinished};

use crate::clock::now_s;
use crate::execute::ancestry::Ancestry;
use crate::execute::arrived::Arrival;
use crate::execute::came::{leave_out_known, publications, retired};
use crate::execute::copied;
use crate::execute::history::{told, told_of_erased};
use crate::execute::let_go::let_go_all_but;
use crate::execute::published::{change_state, remote_of};
use crate::execute::session::Session;
use crate::inbox_state::{self, INBOX_STATE};
use crate::incoming;
use crate::observer::Change;
use crate::request::remote::{JoinedFields, Start};
use crate::{Error, Result};

/// How often a plan is made again because somebody changed what it is about.
const ATTEMPTS: usize = 16;

/// Names of one file that are looked at for one that stays: more than any file has.
const LINKS_LOOKED_AT_MAX: usize = 1 << 17;

/// Paths that are told, of each kind; the rest is counted.
const PATHS_TOLD_MAX: usize = 1_000;

/// Takes in the publications of these numbers, which came; then erases what other devices erased.
pub(crate) fn join(
    session: &Session,
    remote: u64,
    numbers: Range<u64>,
    from: Start,
) -> Result<JoinedFields> {
    let mut joined = join_published(session, remote, numbers, from)?;
    // What was joined stays joined: the next opening, or the next pull that brings something, tries it again.        [6.11.8]
    match session.filesystem().erase_as_noted() {
        Ok(erased) => {
            joined.erased_bytes = erased.bytes;
            joined.unerased_bytes = erased.shared_bytes;
            if erased.states > 0 {
                told_of_erased(session);
            }
        }
        Err(error) => {
            joined.erase_problem = error.to_string();
            // Some of it may be erased.
            told_of_erased(session);
        }
    }
    Ok(joined)
}

fn join_published(
    session: &Session,
    remote: u64,
    numbers: Range<u64>,
    from: Start,
) -> Result<JoinedFields> {
    let _turn = session.vault.joining.lock();
    session.waiting.lock().clear();
    let (row, state) = remote_of(session, remote)?;
    let folder = session.vault.with_keys(|keys| keys.folder().clone());
    let first = numbers.start;
    let signed = publications(
        session,
        &folder,
        (remote, RemoteId(row.id)),
        &state,
        numbers,
    )?;
    let Some(last) = signed.last() else {
        return Ok(JoinedFields::default());
    };
    copied::look_at_first(session, &state, &signed)?;
    let unfinished = unfinished(signed.iter().map(|one| &one.body), now_s());
    let mut live = Live::default();
    let joining = signed.iter();
    joining
        .filter(|one| !unfinished.numbers.contains(&one.body.number))
        .for_each(|one| live.add(one));
    if from == Start::Joined {
        leave_out_known(session, remote, &mut live, state.joined)?;
    }
    copied::give_way(session, &folder, remote, &live)?;
    let heads = (state.head, last.body.head);
    let joined = join_live(session, remote, (&signed, &live), heads, from);
    // It may have taken a snapshot, also where it failed.
    told(session);
    let joined = joined?;
    // Those in between were removed: what they retired is not known one by one.
    if state.last.0 > 0 && first > state.last.0 + 1 {
        let mut live = Live::default();
        signed.iter().for_each(|one| live.add(one));
        let_go_all_but(session, remote, &live, first)?;
    }
    note_joined(session, remote, unfinished.before)?;
    // What an attempt put in place that failed, and this one does not need, has no row.
    incoming::take_back(&folder, session.filesystem())?;
    incoming::remove(&folder)?;
    Ok(joined)
}

/// Joins what these publications say, with what of them is live and new. `heads`: the one that this device and the remote had last in
/// common, and that of the last publication.
fn join_live(
    session: &Session,
    remote: u64,
    (signed, live): (&[SignedPublication], &Live),
    (base, head): ([u8; 32], [u8; 32]),
    from: Start,
) -> Result<JoinedFields> {
    // What has no row yet may lie in segments that nothing here names any more; what has one keeps it.
    let _kept = session.filesystem().keep_segments();
    let _held = session.filesystem().engine().hold();
    // What was given back until now is not taken for being here: readers see what is committed.
    session.filesystem().engine().commit()?;
    let mut arrival = Arrival::new(session)?;
    for segment in live.segments.values() {
        arrival.segment(segment)?;
    }
    for revision in live.revisions.values() {
        arrival.revision(session, revision)?;
    }
    arrival.find_nodes(&head, from)?;
    arrival.arrived.retired = retired(session, remote, signed.iter().map(|one| &one.body))?;
    arrival.find_again()?;
    let theirs = session
        .filesystem()
        .revisions()?
        .into_iter()
        .find(|one| one.id.0 == head)
        .or_else(|| {
            let mut new = arrival.arrived.revisions.iter();
            let found = new.find(|one| one.id.0 == head);
            found.cloned().map(Arc::new)
        });
    let theirs = theirs.ok_or_else(|| {
        let why = "the remote lacks the snapshot that its newest publication names";
        Error::RemoteUntrue(why.to_owned())
    })?;
    Joining {
        session,
        arrival: &mut arrival,
        theirs: &theirs,
        base,
    }
    .run()
}

/// All that is live up to that publication is here.
fn note_joined(session: &Session, remote: u64, number: u64) -> Result<()> {
    change_state(session, remote, |state| RemoteState {
        joined: state.joined.max(number),
        ..state
    })
}

struct Joining<'a, 's> {
    session: &'a Session,
    arrival: &'a mut Arrival<'s>,
    theirs: &'a Revision,
    /// The head that this device and the remote had last in common; zeros for none.
    base: [u8; 32],
}

/// The living state, as rows have it, and contents, as blocks have them that are here or came.
struct Rows<'r> {
    reader: Reader<'r>,
    tree: Tree<'r, Arrival<'r>>,
    /// `None`: there is no room for what is merged.
    texts: Option<RefCell<Texts>>,
}

/// What a plan takes to be carried out, beside the blocks that are here or came.
#[derive(Default)]
struct Means {
    brought: Brought,
    /// What is sealed for it.
    contents: Vec<Content>,
}

impl Rows<'_> {
    fn id(&self, inode: InodeId) -> Result<Option<NodeId>> {
        let row = self.reader.inode(inode)?;
        Ok(row.map(|row| (row.id, row.birth_id)))
    }
}

impl Living for Rows<'_> {
    type Error = Error;

    fn root(&self) -> NodeId {
        // A vault without a root does not open.
        self.id(InodeId::ROOT)
            .ok()
            .flatten()
            .unwrap_or((InodeId::ROOT, 0))
    }

    fn node(&self, (parent, name): &Name) -> Result<Option<NodeId>> {
        // A directory of theirs may have a number that another node has here.
        if self.id(parent.0)? != Some(*parent) {
            return Ok(None);
        }
        match self.reader.entry(parent.0, name)? {
            Some(entry) => self.id(entry.inode),
            None => Ok(None),
        }
    }

    fn names(&self, node: NodeId) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        if self.id(node.0)? == Some(node) {
            for (parent, name) in self.reader.names_of(node.0, None, LINKS_LOOKED_AT_MAX)? {
                names.extend(self.id(parent)?.map(|parent| (parent, name)));
            }
        }
        Ok(names)
    }

    fn merged(
        &self,
        base: &history::Entry,
        mine: &history::Entry,
        theirs: &history::Entry,
    ) -> Result<Option<Arc<[u8]>>> {
        let texts = self.texts.as_ref();
        Ok(texts.and_then(|texts| texts.borrow_mut().merged(&self.tree, base, mine, theirs)))
    }
}

impl Joining<'_, '_> {
    fn run(&mut self) -> Result<JoinedFields> {
        let session = self.session;
        let filesystem = session.filesystem();
        let mut is_placed = false;
        let mut merges_texts = true;
        for _ in 0..ATTEMPTS {
            let mine = self.mine()?;
            let ancestry = self.ancestry()?;
            if mine
                .as_ref()
                .is_some_and(|mine| ancestry.is_behind(self.theirs.id, mine.id))
            {
                // Everything of theirs is here; what came with it, snapshots of theirs, is counted all the same.
                if self.arrival.arrived.segments.is_empty()
                    && self.arrival.arrived.revisions.is_empty()
                {
                    return Ok(JoinedFields::default());
                }
                self.place(&mut is_placed)?;
                let _turn = filesystem.hold_revisions();
                let done = self.carry_out(&Plan::default(), &Means::default(), None);
                match done {
                    Err(Error::File(FileError::WouldBlock)) => continue,
                    done => return done.map(|_| JoinedFields::default()),
                }
            }
            // If mine is one that theirs goes on from, nothing of mine is beyond it.
            let follows = mine
                .as_ref()
                .is_some_and(|mine| ancestry.is_behind(mine.id, self.theirs.id));
            let base = match &mine {
                Some(mine) if follows => Some(mine.clone()),
                mine => self.newest_common(&ancestry, mine.as_deref())?,
            };
            let (plan, means) = self.plan(base.as_deref(), mine.as_deref(), merges_texts)?;
            let named = means.brought.extents.values().flatten();
            let named = named.map(|extent| extent.block);
            self.arrival.find_erased(named)?;
            self.place(&mut is_placed)?;
            // (2); what is synced from here on changes what the plan is about.
            filesystem.settle_small_syncs()?;
            // Nobody takes a revision between the look at the newest and the end.
            let turn = filesystem.hold_revisions();
            let newest = filesystem.heads()?.first().map(|head| head.id);
            if newest != mine.as_ref().map(|mine| mine.id.0) {
                continue;
            }
            let mine = mine.filter(|_| !follows);
            let ending = Ending {
                theirs: self.theirs,
                mine: mine.as_deref(),
            };
            let carried_out = self.carry_out(&plan, &means, Some(ending));
            // Before anybody hears of it: an observer may use the vault.
            drop(turn);
            match carried_out {
                Err(Error::File(FileError::WouldBlock)) => {}
                Err(Error::File(FileError::NoSpace | FileError::QuotaExceeded))
                    if !means.contents.is_empty() =>
                {
                    merges_texts = false;
                }
                Ok(shown) => return Ok(self.told(&plan, &shown)),
                Err(error) => return Err(error),
            }
        }
        Err(Error::RemoteBusy)
    }

    /// The newest revision of the living state, taken now if anything changed.
    fn mine(&self) -> Result<Option<Arc<Revision>>> {
        let filesystem = self.session.filesystem();
        let new = NewRevision {
            message: SCHEDULED.to_owned(),
            only_if_changed: true,
            ..NewRevision::default()
        };
        if let Taken::New(taken) = self.session.vault.records.take(filesystem, &new)? {
            return Ok(Some(Arc::new(*taken)));
        }
        let heads = filesystem.heads()?;
        Ok(heads
            .first()
            .and_then(|head| self.known(RevisionId(head.id))))
    }

    fn known(&self, id: RevisionId) -> Option<Arc<Revision>> {
        let kept = self.session.filesystem().revisions().ok()?;
        let kept = kept.into_iter().find(|one| one.id == id);
        kept.or_else(|| {
            let arrived = self.arrival.arrived.revisions.iter();
            arrived
                .clone()
                .find(|one| one.id == id)
                .cloned()
                .map(Arc::new)
        })
    }

    /// What every revision goes on from, as far as it is known.
    fn ancestry(&self) -> Result<Ancestry> {
        let filesystem = self.session.filesystem();
        let kept = filesystem.revisions()?;
        let here = kept.iter().map(|one| &**one);
        let known = here.chain(&self.arrival.arrived.revisions);
        Ok(Ancestry::of(known, filesystem.removed_revisions()?))
    }

    /// The newest known revision from which both sides go on. What was last in common with this remote is one of those; through another
    /// remote both may have come further. (3)
    fn newest_common(
        &self,
        ancestry: &Ancestry,
        mine: Option<&Revision>,
    ) -> Result<Option<Arc<Revision>>> {
        let mut common = ancestry.behind(self.theirs.id);
        let mine = mine.map(|mine| ancestry.behind(mine.id));
        let mine = mine.unwrap_or_default();
        common.retain(|id| mine.contains(id));
        // Revisions in between may have been removed where nobody here saw them.
        common.insert(RevisionId(self.base));
        let kept = self.session.filesystem().revisions()?;
        let arrived = self.arrival.arrived.revisions.iter();
        let known = (kept.iter().map(|one| &**one))
            .chain(arrived)
            .filter(|one| common.contains(&one.id));
        let newest = known.max_by_key(|one| (one.body.sequence, one.body.time, one.id));
        Ok(newest.cloned().map(Arc::new))
    }

    fn plan(
        &self,
        base: Option<&Revision>,
        mine: Option<&Revision>,
        merges_texts: bool,
    ) -> Result<(Plan, Means)> {
        let arrival: &Arrival<'_> = self.arrival;
        let tree = Tree::new(arrival);
        let root = |revision: &Revision| tree.root(&revision.body.root);
        let base_root = base.map(&root).transpose()?;
        let theirs_root = root(self.theirs)?;
        let own_root = self
            .session
            .filesystem()
            .engine()
            .reader()?
            .inode(InodeId::ROOT)?;
        // Two roots cannot be one directory; what is below theirs would have no name here.      [11.6.13]
        if own_root.is_none_or(|own| own.birth_id != theirs_root.birth_id) {
            return Err(Error::NothingInCommon);
        }
        let theirs = delta(&tree, base_root.as_ref(), &theirs_root)?;
        let ours = match mine {
            Some(mine) if base.is_none_or(|base| base.id != mine.id) => {
                delta(&tree, base_root.as_ref(), &root(mine)?)?
            }
            _ => Delta::default(),
        };
        let rows = Rows {
            reader: self.session.filesystem().engine().reader()?,
            tree: Tree::new(arrival),
            texts: merges_texts.then(RefCell::default),
        };
        let conflicts = Conflicts {
            label: &self.label(mine),
            time: mine.map_or(self.theirs.body.time, |mine| {
                self.theirs.body.time.max(mine.body.time)
            }),
        };
        let plan = merge(&ours, &theirs, &rows, conflicts)?;
        let means = self.means(&tree, &plan)?;
        Ok((plan, means))
    }

    /// What it takes to carry out `plan`.
    fn means(&self, tree: &Tree<'_, Arrival<'_>>, plan: &Plan) -> Result<Means> {
        let Means {
            mut brought,
            mut contents,
        } = Means::default();
        for (id, becomes) in &plan.nodes {
            match &becomes.content {
                None => {}
                Some(NewContent::Of(from)) => {
                    brought.extents.insert(*id, extents(tree, from)?);
                }
                Some(NewContent::Merged(data)) => {
                    brought.merged.insert(*id, contents.len());
                    contents.push(Content {
                        offset: 0,
                        data: Arc::clone(data),
                    });
                }
            }
            if let Some((base, theirs)) = &becomes.xattrs {
                let of = |entry: &Option<history::Entry>| match entry {
                    Some(entry) => tree.xattrs(entry),
                    None => Ok(Vec::new()),
                };
                let joined = joined_xattrs(of(base)?, of(&becomes.mine)?, tree.xattrs(theirs)?);
                brought.xattrs.insert(*id, joined);
            }
        }
        Ok(Means { brought, contents })
    }

    /// What conflict names of this device say in brackets: by what was written here, so that it is the same if it is tried again.
    fn label(&self, mine: Option<&Revision>) -> String {
        let Some(mine) = mine else {
            return "conflict".to_owned();
        };
        let Timestamp(nanoseconds) = mine.body.time;
        let time = jiff::Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
        let device = strongroom_format::hex::encode(&mine.body.device.0[..4]);
        format!("conflict, {device}, {}", time.strftime("%Y-%m-%d %H.%M"))
    }

    fn place(&self, is_placed: &mut bool) -> Result<()> {
        if !*is_placed {
            let folder = self.session.vault.with_keys(|keys| keys.folder().clone());
            let staged = self.arrival.staged();
            incoming::put_in_place(&folder, staged.iter(), &self.arrival.records)?;
            *is_placed = true;
        }
        Ok(())
    }

    /// (1)
    fn carry_out(&self, plan: &Plan, means: &Means, ending: Option<Ending<'_>>) -> Result<Shown> {
        let arrived: &Arrived = &self.arrival.arrived;
        let caller = Caller::root();
        let filesystem = self.session.filesystem();
        filesystem.transaction(&caller, &means.contents, Durability::OnReturn, |draft| {
            let is_as_base = draft.is_as_base()?;
            draft.take_in(arrived)?;
            let shown = draft.join(plan, &means.brought)?;
            if let Some(ending) = ending {
                draft.end_join(ending, is_as_base && !shown.renumbered)?;
            }
            Ok::<_, Error>(shown)
        })
    }

    /// Tells who watches what changed.
    fn told(&self, plan: &Plan, shown: &Shown) -> JoinedFields {
        let names = shown.names.iter().map(|(parent, name)| Change::Entry {
            parent: *parent,
            name: name.clone(),
        });
        let contents = shown.contents.iter().map(|inode| Change::Content {
            inode: *inode,
            offset: 0,
            len: u64::MAX,
        });
        let nodes: HashSet<InodeId> = shown.nodes.iter().copied().collect();
        let nodes = nodes.into_iter().map(|inode| Change::Attributes { inode });
        let changes: Vec<Change> = names.chain(contents).chain(nodes).collect();
        self.session.tell(&changes);
        let paths = |names: &[Name]| {
            let told = names.iter().take(PATHS_TOLD_MAX);
            told.map(|name| self.path(name)).collect()
        };
        JoinedFields {
            names: plan.names.len() as u64,
            nodes: plan.nodes.len() as u64,
            conflicts: plan.conflicts.len() as u64,
            conflict_paths: paths(&plan.conflicts),
            merged: plan.merged.len() as u64,
            merged_paths: paths(&plan.merged),
            ..JoinedFields::default()
        }
    }

    /// The path of a name now; as far as it is known.
    fn path(&self, (parent, name): &Name) -> Vec<u8> {
        let mut path = [b"/", &name[..]].concat();
        let Ok(reader) = self.session.filesystem().engine().reader() else {
            return path;
        };
        let mut at = parent.0;
        while at != InodeId::ROOT {
            let Ok(Some((above, name))) = reader.names_of(at, None, 1).map(|mut all| all.pop())
            else {
                break;
            };
            path = [b"/", &name[..], &path[..]].concat();
            at = above;
        }
        path
    }
}

/// All extents of a file.
fn extents(tree: &Tree<'_, Arrival<'_>>, file: &history::Entry) -> Result<Vec<history::Extent>> {
    let mut extents = Vec::new();
    let mut at = 0;
    loop {
        let page = tree.extents(file, at, file.size, 4096)?;
        let Some(last) = page.last() else { break };
        at = last.end();
        extents.extend(page);
    }
    Ok(extents)
}

/// Each attribute as theirs has it where theirs changed it, else as mine has it; but those of the inbox, of erasures and of the rule for snapshots
/// are joined.
fn joined_xattrs(base: XattrList, mine: XattrList, theirs: XattrList) -> XattrList {
    use std::collections::BTreeMap;
    let [base, mine, theirs] =
        [base, mine, theirs].map(|list| list.into_iter().collect::<BTreeMap<_, _>>());
    let mut joined = mine.clone();
    for name in base.keys().chain(theirs.keys()) {
        let [was, own, other] = [&base, &mine, &theirs].map(|list| list.get(name));
        if was == other {
            continue;
        }
        let [base, mine, theirs] = [was, own, other].map(|value| value.map(Vec::as_slice));
        let value = match was != own {
            // Both took deposits in.                                                              [12.6.4]
            true if name == INBOX_STATE => inbox_state::joined(base, mine, theirs),
            // Both erased something.                                                              [6.11.7]
            true if name == ERASURES => Erasures::joined(mine, theirs),
            // Both set a rule for snapshots.                                                      [6.10.6]
            true if name == SHARED_RETENTION => SharedRetention::joined(mine, theirs),
            _ => other.cloned(),
        };
        match value {
            Some(value) => joined.insert(name.clone(), value),
            None => joined.remove(name),
        };
    }
    joined.into_iter().collect()
}
