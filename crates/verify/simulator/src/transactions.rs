//! Transactions under power cuts: every cut leaves the state after some whole transaction.
//!
//! Takes   a seed: the size of each write, which transactions wait for durability, and when other threads commit
//! Gives   counts of what was checked, or the first cut that left half of a transaction
//! Never   knows how a transaction is carried out: it only examines trees
//! Spec    spec/5-crash-contract.md, 5.9
//!
//! Transaction `k` leaves the number `k` in every kind of thing that a transaction can change: a name, the content of
//! two files (one of them over pending content of an ordinary write), an extended attribute, a mode, and which of two
//! names refers to which file. A state is whole if all of them have the same number.

use std::mem::ManuallyDrop;
use std::path::Path;

use strongroom_conformance::engine;
use strongroom_filesystem::{
    Caller, Content, Draft, Durability, Error, Filesystem, InodeId, Listing, NewNode, NodeKind,
    RenameMode, Result, SetAttributes, XattrMode,
};
use tempfile::TempDir;

use crate::disk::{Disk, Frozen, Mark, MountedDisk};
use crate::random::Choices;
use crate::run::{Seen, Trial, Worker};
use crate::worker::{Scale, announcing, say};

const ROOT: InodeId = InodeId::ROOT;
const XATTR: &[u8] = b"user.number";

/// What a seed decides of transaction `number`.
struct Plan {
    /// Bytes of the two files.
    lens: [usize; 2],
    durability: Durability,
    /// Bytes that an ordinary write puts into the first file before, if any.
    written_before: usize,
    ticks: bool,
}

fn plan(seed: u64, number: u64) -> Plan {
    let mut choices = Choices::named(seed, &[0x7a, number]);
    let mut len = || {
        let bound = *choices.one_of(&[30, 3_000, 70_000, 200_000]);
        usize::try_from(1 + choices.below(bound)).unwrap_or(1)
    };
    let (lens, written_before) = ([len(), len()], len());
    Plan {
        lens,
        durability: match choices.chance(1, 3) {
            true => Durability::OnReturn,
            false => Durability::WriteBehind,
        },
        written_before: if choices.chance(1, 2) {
            written_before
        } else {
            0
        },
        ticks: choices.chance(1, 4),
    }
}

fn content(number: u64, len: usize) -> Vec<u8> {
    let word = |at: u64| (number << 32 ^ at).to_le_bytes();
    (0..).flat_map(word).take(len).collect()
}

fn name(number: u64) -> Vec<u8> {
    format!("number-{number}").into_bytes()
}

/// The process on the disk: transactions 1 to `count`, each between two marks.
///
/// # Errors
/// If the file system cannot even be made, or nobody listens.
pub fn work(folder: &Path, seed: u64, count: u64, scale: Scale) -> std::result::Result<(), String> {
    // Never dropped: closing is not part of a power cut.
    let system = engine::create(folder, announcing(scale))
        .and_then(|system| prepare(&system).map(|files| (system, files)));
    let (system, files) = system.map_err(|error| format!("create: {error}"))?;
    let system = ManuallyDrop::new(system);
    std::fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| error.to_string())?;
    let say = |mark: Mark| say(mark.byte(0)).map_err(|error| error.to_string());
    for number in 1..=count {
        say(Mark::Start)?;
        if let Err(error) = advance(&system, files, seed, number) {
            // The disk failed: the transaction never returned.
            eprintln!("stopped: {error}");
            return Ok(());
        }
        say(Mark::Return)?;
    }
    Ok(())
}

/// State 0; gives the two files.
fn prepare(system: &Filesystem) -> Result<[InodeId; 2]> {
    let root = Caller::root();
    let file = |name: &[u8]| {
        let node = NewNode {
            kind: NodeKind::File,
            mode: 0,
            rdev: 0,
            target: Vec::new(),
        };
        system.create(&root, ROOT, name, &node)
    };
    file(&name(0))?;
    let files = [file(b"left")?.inode, file(b"right")?.inode];
    let zero = 0_u64.to_le_bytes();
    system.set_xattr(&root, files[0], XATTR, &zero, XattrMode::Set)?;
    system.sync()?;
    Ok(files)
}

fn advance(system: &Filesystem, files: [InodeId; 2], seed: u64, number: u64) -> Result<()> {
    let plan = plan(seed, number);
    // Beyond what any state counts: a file's content may be ahead of the transaction by this.
    let ahead = 1 << 20;
    if plan.written_before > 0 {
        system.write(files[0], ahead, &vec![1; plan.written_before])?;
    }
    let contents: Vec<Content> = plan
        .lens
        .iter()
        .map(|len| Content {
            offset: 0,
            data: content(number, *len).into(),
        })
        .collect();
    system.transaction(&Caller::root(), &contents, plan.durability, |draft| {
        steps(draft, files, number)
    })?;
    if plan.ticks {
        system.tick()?;
    }
    Ok(())
}

fn steps(draft: &mut Draft<'_>, files: [InodeId; 2], number: u64) -> Result<()> {
    let size = |size| SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let (old, new) = (name(number - 1), name(number));
    draft.rename((ROOT, &old), (ROOT, &new), RenameMode::NoReplace)?;
    draft.rename((ROOT, b"left"), (ROOT, b"right"), RenameMode::Exchange)?;
    for (index, file) in files.into_iter().enumerate() {
        draft.set_attributes(file, &size(0))?;
        draft.write(file, index)?;
    }
    let mode = SetAttributes {
        mode: Some(mode(number)),
        ..SetAttributes::default()
    };
    draft.set_attributes(files[1], &mode)?;
    draft.set_xattr(files[0], XATTR, &number.to_le_bytes(), XattrMode::Set)
}

fn mode(number: u64) -> u32 {
    u32::try_from(number % 0o1000).unwrap_or(0)
}

/// The number of the transaction whose state this is, if the state is whole.
///
/// # Errors
/// What does not fit, or the file system's.
pub fn whole(system: &Filesystem, seed: u64) -> std::result::Result<u64, String> {
    let seen = look(system).map_err(|error| format!("it cannot be read: {error}"))?;
    let number = seen.named;
    let expected = match number {
        0 => [0, 0],
        _ => plan(seed, number).lens,
    };
    let complaints = [
        (seen.exchanged == (number % 2 == 1), "which file is left"),
        (seen.xattr == number, "the extended attribute"),
        (seen.mode == mode(number), "the mode"),
        (
            is_content(&seen.contents[0], number, expected[0]),
            "the first content",
        ),
        (
            seen.contents[1] == content(number, expected[1]),
            "the second content",
        ),
    ];
    match complaints.iter().find(|(fits, _)| !fits) {
        None => Ok(number),
        Some((_, what)) => Err(format!("the name tells {number}, {what} does not")),
    }
}

/// The first file may be ahead by an ordinary write behind its end; between lie zeros.
fn is_content(found: &[u8], number: u64, len: usize) -> bool {
    let Some((transaction, behind)) = found.split_at_checked(len) else {
        return false;
    };
    let (gap, written) = behind.split_at(behind.len().min((1 << 20) - len));
    transaction == content(number, len)
        && gap.iter().all(|byte| *byte == 0)
        && written.iter().all(|byte| *byte == 1)
}

struct Look {
    named: u64,
    exchanged: bool,
    xattr: u64,
    mode: u32,
    contents: [Vec<u8>; 2],
}

fn look(system: &Filesystem) -> Result<Look> {
    let root = Caller::root();
    let mut named = None;
    let mut places = [None, None];
    for entry in system.list(&root, ROOT, 0, 100, Listing::Names)? {
        match &entry.name[..] {
            b"left" => places[0] = Some(entry.inode),
            b"right" => places[1] = Some(entry.inode),
            // Two numbered names would be the half of a rename: the second one is none that fits.
            other => {
                named = named.xor(
                    std::str::from_utf8(other)
                        .ok()
                        .and_then(|text| text.strip_prefix("number-")?.parse::<u64>().ok()),
                )
            }
        }
    }
    let (Some(named), [Some(left), Some(right)]) = (named, places) else {
        return Err(Error::NotFound);
    };
    // The file that was made first.
    let exchanged = left > right;
    let files = [left.min(right), left.max(right)];
    let xattr = system.xattr(&root, files[0], XATTR)?;
    let read = |file| {
        let size = usize::try_from(system.attributes(file)?.size).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size];
        let count = system.read(file, 0, &mut bytes)?;
        bytes.truncate(count);
        Ok::<_, Error>(bytes)
    };
    Ok(Look {
        named,
        exchanged,
        xattr: u64::from_le_bytes(xattr.try_into().unwrap_or([0xff; 8])),
        mode: system.attributes(files[1])?.mode,
        contents: [read(files[0])?, read(files[1])?],
    })
}

/// Runs `seed`: cuts the power many times while transactions run, and looks at what is left.
///
/// # Errors
/// The violation, in words.
pub fn run(seed: u64, trial: &Trial) -> std::result::Result<Seen, String> {
    let disk = Disk::new(trial.names);
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let mount = MountedDisk::mount(&disk, folder.path())
        .map_err(|error| format!("mounting needs root and /dev/fuse: {error}"))?;
    crate::run::freeze_at(&disk, seed, trial);
    if trial.lies {
        disk.lie();
    }
    let arguments = [
        "transactions-worker".to_owned(),
        mount.path().display().to_string(),
        trial.scale.name().to_owned(),
        seed.to_string(),
        trial.acts.to_string(),
    ];
    Worker::start(&disk, &arguments, trial)
        .map_err(|error| error.to_string())?
        .wait()?;
    let last = disk.cut();
    drop(mount);
    let mut frozen = disk.take_frozen();
    let mut seen = Seen {
        calls: last.calls,
        returned: last.threads[0].returned,
        ..Seen::default()
    };
    frozen.push(last);
    for moment in frozen.iter().filter(|moment| moment.threads[0].started > 0) {
        seen.note(moment);
        for policy in &trial.policies {
            let left = moment.after_cut(*policy, seed ^ moment.calls);
            judge(&left, moment, seed, trial.scale).map_err(|complaint| {
                let (calls, policy) = (moment.calls + 1, policy.name());
                format!("cut before request {calls} ({policy}): {complaint}")
            })?;
            seen.trees += 1;
        }
    }
    Ok(seen)
}

fn judge(left: &Disk, moment: &Frozen, seed: u64, scale: Scale) -> std::result::Result<(), String> {
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    left.write_to(folder.path())
        .map_err(|error| error.to_string())?;
    let system = engine::open(folder.path(), scale.setup())
        .map_err(|error| format!("the vault does not open: {error}"))?;
    crate::run::judge_replay(&system)?;
    let report = system
        .check()
        .map_err(|error| format!("the check fails: {error}"))?;
    if !report.problems.is_empty() {
        return Err(format!("the check found: {}", report.problems.join("; ")));
    }
    let number = whole(&system, seed)?;
    let reached = moment.threads[0];
    let durable = (1..=reached.returned)
        .rfind(|number| plan(seed, *number).durability == Durability::OnReturn)
        .unwrap_or(0);
    if !(durable..=reached.started).contains(&number) {
        let started = reached.started;
        return Err(format!(
            "the state is {number}, not between {durable} and {started}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the judge can tell. Method: the steps of a transaction one by one, each a state of its own.
    #[test]
    fn every_state_between_two_transactions_is_refused() {
        let folder = TempDir::new().expect("a folder");
        let system = engine::create(folder.path(), engine::quiet()).expect("made");
        let files = prepare(&system).expect("prepared");
        for number in 1..=3 {
            advance(&system, files, 5, number).expect("done");
            assert_eq!(whole(&system, 5), Ok(number));
        }
        let root = Caller::root();
        let (old, new) = (name(3), name(4));
        let rename = |old: &[u8], new: &[u8], mode| {
            system
                .rename(&root, ROOT, old, ROOT, new, mode)
                .expect("renamed");
        };
        rename(&old, &new, RenameMode::NoReplace);
        assert!(whole(&system, 5).is_err());
        rename(b"left", b"right", RenameMode::Exchange);
        assert!(whole(&system, 5).is_err());
        rename(&new, &old, RenameMode::NoReplace);
        assert!(whole(&system, 5).is_err());
        rename(b"left", b"right", RenameMode::Exchange);
        assert_eq!(whole(&system, 5), Ok(3));
        system.write(files[1], 0, b"x").expect("written");
        assert!(whole(&system, 5).is_err());
    }
}
