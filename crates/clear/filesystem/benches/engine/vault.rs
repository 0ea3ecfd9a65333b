//! The vault of the bench: all settings are the defaults, but its keys are public.

use std::path::Path;

use strongroom_conformance::engine;
use strongroom_crypto::measuring::measured;
use strongroom_crypto::providers::{Choice, set_choice};
use strongroom_filesystem::{
    Attributes, Background, Caller, Filesystem, InodeId, NewNode, NodeKind, Options, Result,
};

/// What the choice of crypto providers may take, as at the first use of a machine.
const CHOICE: std::time::Duration = std::time::Duration::from_millis(300);

/// Who does everything here.
pub(crate) const CALLER: Caller = Caller::root();

/// Chooses crypto providers for this process, as the first use of a machine does; but not from when on work is shared out,
/// which is measured here and must be the same in every process.
pub(crate) fn settle() {
    let start = std::time::Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut choice = measured::in_haste(CHOICE, cores, &|| start.elapsed()).choice;
    choice.inline_below_bytes = Choice::default().inline_below_bytes;
    choice.threads = None;
    set_choice(choice);
}

fn options(threads: Option<usize>) -> Options {
    Options {
        threads,
        background: Background::Thread,
        ..Options::default()
    }
}

/// A new vault; `threads` seal and open, as many as pay if `None`.
pub(crate) fn create(folder: &Path, threads: Option<usize>) -> Result<Filesystem> {
    engine::create(folder, options(threads))
}

/// The vault that `create` made.
pub(crate) fn open(folder: &Path, threads: Option<usize>) -> Result<Filesystem> {
    engine::open(folder, options(threads))
}

/// Makes a node and lets it go at once, as a mount does with a node that nobody uses.
pub(crate) fn make(
    filesystem: &Filesystem,
    parent: InodeId,
    name: &str,
    kind: NodeKind,
) -> Result<InodeId> {
    let new = NewNode {
        kind,
        mode: 0o755,
        rdev: 0,
        target: Vec::new(),
    };
    let made = filesystem.create(&CALLER, parent, name.as_bytes(), &new)?;
    Ok(let_go(filesystem, &made))
}

/// Looks a name up and lets the node go.
pub(crate) fn look_up(filesystem: &Filesystem, parent: InodeId, name: &str) -> Result<InodeId> {
    let found = filesystem.lookup(&CALLER, parent, name.as_bytes())?;
    Ok(let_go(filesystem, &found))
}

fn let_go(filesystem: &Filesystem, node: &Attributes) -> InodeId {
    filesystem.forget(node.inode, 1);
    node.inode
}
