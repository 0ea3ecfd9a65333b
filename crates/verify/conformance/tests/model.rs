//! Goal: the engine gives the same results as the model, operation by operation, with any syncs and reopenings between
//! them. Every revision stays equal to the model at the moment when it was taken.
//! Method: random operations run on both, step by step. Every answer and error must agree. At the end, the whole tree and
//! the tree of each revision must agree too. A difference is shrunk to the shortest sequence that shows it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use proptest::prelude::*;
use strongroom::records::Records;
use strongroom::{NewRevision, RevisionId};
use strongroom_conformance::engine;
use strongroom_conformance::kept_view::KeptView;
use strongroom_conformance::operation::Operation;
use strongroom_conformance::step::Pair;
use strongroom_conformance::tree::{Tree, first_difference, read_tree};
use strongroom_filesystem as filesystem;
use strongroom_filesystem::{AllocateMode, Filesystem, NodeKind, RenameMode, XattrMode};

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    Operation(Operation),
    /// What the background thread does from time to time.
    Tick,
    /// Closes and opens again.
    Reopen,
    /// Takes a revision.
    Take,
    /// Removes one of those that are kept.
    Remove(u8),
    /// Compacts by hand.
    Compact,
}

/// A kept revision, and the tree that it must show.
struct Taken {
    id: RevisionId,
    tree: Tree,
}

/// Every kept revision shows what it was taken of.
fn compare_kept(system: &Filesystem, taken: &[Taken]) -> Result<(), String> {
    for (at, one) in taken.iter().enumerate() {
        let found = KeptView::open(system, &one.id.to_string())
            .and_then(|view| read_tree(&view))
            .map_err(|error| format!("revision {at} cannot be read: {error}"))?;
        if let Some(difference) = first_difference(&one.tree, &found) {
            return Err(format!("revision {at} of {}: {difference}", taken.len()));
        }
    }
    Ok(())
}

fn name() -> impl Strategy<Value = u8> {
    prop_oneof![30 => 0_u8..8, 1 => 250_u8..=255]
}

/// Offsets and lengths around the borders of sectors, chunks and blocks as well as anywhere.
fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 0_u32..5_000,
        2 => (0_u32..5, -3_i32..4).prop_map(|(block, off)| (block * 65_536).saturating_add_signed(off)),
        2 => 0_u32..300_000,
        1 => (4_194_304_u32 - 70_000)..(4_194_304 + 70_000),
    ]
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0_u32), 6 => 1_u32..3_000, 2 => 65_530_u32..65_545, 2 => 1_u32..200_000]
}

fn kind() -> impl Strategy<Value = NodeKind> {
    prop_oneof![5 => Just(NodeKind::File), 3 => Just(NodeKind::Directory), 1 => Just(NodeKind::Symlink), 1 => Just(NodeKind::Fifo)]
}

fn rename_mode() -> impl Strategy<Value = RenameMode> {
    prop_oneof![3 => Just(RenameMode::Replace), 1 => Just(RenameMode::NoReplace), 1 => Just(RenameMode::Exchange), 1 => Just(RenameMode::Whiteout)]
}

fn allocate_mode() -> impl Strategy<Value = AllocateMode> {
    prop_oneof![
        Just(AllocateMode::Reserve),
        Just(AllocateMode::ReserveKeepSize),
        Just(AllocateMode::PunchHole),
        Just(AllocateMode::ZeroRange),
        Just(AllocateMode::ZeroRangeKeepSize),
    ]
}

fn on_names() -> impl Strategy<Value = Operation> {
    let place = || (any::<u8>(), name());
    prop_oneof![
        6 => (place(), kind(), 0_u32..0o1000).prop_map(|((parent, name), kind, mode)| Operation::Create { parent, name, kind, mode }),
        1 => any::<u8>().prop_map(|parent| Operation::CreateUnnamed { parent, mode: 0o600 }),
        2 => (any::<u8>(), place()).prop_map(|(node, (parent, name))| Operation::Link { node, parent, name }),
        3 => place().prop_map(|(parent, name)| Operation::Unlink { parent, name }),
        2 => place().prop_map(|(parent, name)| Operation::RemoveDirectory { parent, name }),
        5 => (place(), place(), rename_mode()).prop_map(|(from, to, mode)| Operation::Rename { from, to, mode }),
        2 => place().prop_map(|(parent, name)| Operation::Lookup { parent, name }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(directory, limit)| Operation::List { directory, limit }),
        1 => any::<u8>().prop_map(|directory| Operation::Parent { directory }),
        1 => any::<u8>().prop_map(|node| Operation::Forget { node }),
    ]
}

fn on_content() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (any::<u8>(), offset(), len(), any::<u8>()).prop_map(|(file, offset, len, fill)| Operation::Write { file, offset, len, fill }),
        2 => (any::<u8>(), len(), any::<u8>()).prop_map(|(file, len, fill)| Operation::Append { file, len, fill }),
        4 => (any::<u8>(), offset(), len()).prop_map(|(file, offset, len)| Operation::Read { file, offset, len }),
        3 => (any::<u8>(), offset()).prop_map(|(file, size)| Operation::Truncate { file, size }),
        3 => (any::<u8>(), allocate_mode(), offset(), len()).prop_map(|(file, mode, offset, len)| Operation::Allocate { file, mode, offset, len }),
        3 => (any::<u8>(), offset(), any::<u8>(), offset(), 1_u32..200_000)
            .prop_map(|(source, source_offset, target, target_offset, len)| Operation::Copy { source, source_offset, target, target_offset, len }),
    ]
}

fn on_nodes() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![
        Just(XattrMode::Set),
        Just(XattrMode::CreateOnly),
        Just(XattrMode::ReplaceOnly)
    ];
    prop_oneof![
        2 => (any::<u8>(), 0_u32..0o1000).prop_map(|(node, mode)| Operation::Mode { node, mode }),
        1 => (any::<u8>(), 0_u32..3, 0_u32..3).prop_map(|(node, uid, gid)| Operation::Owner { node, uid, gid }),
        1 => (any::<u8>(), 1_i64..1_000_000_000).prop_map(|(node, at)| Operation::Times { node, at }),
        2 => (any::<u8>(), any::<u8>(), 0_u16..3000, mode).prop_map(|(node, name, len, mode)| Operation::SetXattr { node, name, len, mode }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(node, name)| Operation::RemoveXattr { node, name }),
        2 => any::<u8>().prop_map(|node| Operation::SyncNode { node }),
        2 => any::<u8>().prop_map(|file| Operation::SyncFile { file }),
        1 => Just(Operation::Sync),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => on_names().prop_map(Step::Operation),
        20 => on_content().prop_map(Step::Operation),
        8 => on_nodes().prop_map(Step::Operation),
        2 => Just(Step::Tick),
        1 => Just(Step::Reopen),
        2 => Just(Step::Take),
        1 => any::<u8>().prop_map(Step::Remove),
        1 => Just(Step::Compact),
    ]
}

fn run(steps: &[Step]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let system =
        engine::create(folder.path(), engine::quiet()).map_err(|error| error.to_string())?;
    let records = Records::new(folder.path());
    let mut pair = Some(Pair::new(system));
    let mut taken: Vec<Taken> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let mut now = pair.take().unwrap();
        match step {
            Step::Operation(operation) => now
                .step(operation)
                .map_err(|difference| format!("step {at}: {difference}"))?,
            Step::Tick => now
                .tested
                .system
                .tick()
                .map_err(|error| format!("step {at}: tick: {error}"))?,
            Step::Take => {
                let tree = read_tree(&now.model.system).map_err(|error| error.to_string())?;
                let revision = records
                    .take(&now.tested.system, &NewRevision::default())
                    .map_err(|error| format!("step {at}: take: {error}"))?;
                if let filesystem::Taken::New(revision) = revision {
                    let id = revision.id;
                    taken.push(Taken { id, tree });
                }
                compare_kept(&now.tested.system, &taken[taken.len().saturating_sub(2)..])
                    .map_err(|difference| format!("step {at}: {difference}"))?;
            }
            Step::Remove(which) if !taken.is_empty() => {
                let one = taken.remove(usize::from(*which) % taken.len());
                records
                    .remove(&now.tested.system, one.id)
                    .map_err(|error| format!("step {at}: remove: {error}"))?;
            }
            Step::Remove(_) => {}
            Step::Compact => now
                .tested
                .system
                .compact()
                .map_err(|error| format!("step {at}: compact: {error}"))?,
            Step::Reopen => {
                let tested: &Filesystem = &now.tested.system;
                tested
                    .close()
                    .map_err(|error| format!("step {at}: close: {error}"))?;
                let Pair { model, tested } = now;
                drop(tested);
                let again = engine::open(folder.path(), engine::quiet())
                    .map_err(|error| format!("step {at}: open: {error}"))?;
                now = Pair {
                    model,
                    tested: strongroom_conformance::operation::Session::new(again.clone()),
                };
                now = now
                    .reopened(again)
                    .map_err(|difference| format!("step {at}: reopen: {difference}"))?;
            }
        }
        pair = Some(now);
    }
    let pair = pair.unwrap();
    pair.compare_trees()?;
    let system = &pair.tested.system;
    system.sync().map_err(|error| error.to_string())?;
    check(system)?;
    compare_kept(system, &taken)?;
    // Without revisions nothing is left of them.
    for one in taken {
        records
            .remove(system, one.id)
            .map_err(|error| format!("remove: {error}"))?;
    }
    system.compact().map_err(|error| error.to_string())?;
    system.sync().map_err(|error| error.to_string())?;
    check(system)?;
    let reader = system
        .engine()
        .reader()
        .map_err(|error| error.to_string())?;
    let mut left = 0;
    reader
        .for_each_block(|block, _| left += u32::from(!block.kind.is_data()))
        .map_err(|error| error.to_string())?;
    drop(reader);
    match left {
        0 => Ok(()),
        left => Err(format!("{left} nodes of removed trees are left")),
    }
}

fn check(system: &Filesystem) -> Result<(), String> {
    let report = system.check().map_err(|error| error.to_string())?;
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("the check found {:?}", report.problems))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 4000, ..ProptestConfig::default() })]
    #[test]
    fn the_engine_does_what_the_model_does(steps in prop::collection::vec(step(), 1..120)) {
        if let Err(difference) = run(&steps) {
            return Err(TestCaseError::fail(difference));
        }
    }
}
