//! Damages a file: flips bits, truncates it, writes zeros, or replaces it by another file.
//!
//! Takes   a copy of the base, and a seed
//! Gives   a description of the damage, which is done

use std::fs;
use std::io;
use std::path::Path;

use super::base::Base;
use crate::random::Choices;

/// The sorts of files of a vault folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sort {
    /// The header or its second copy.
    Header,
    /// The replica file or its second copy.
    Replica,
    /// The database.
    Database,
    /// A record of a revision.
    Record,
    /// A segment.
    Segment,
    /// A file that holds nothing.
    Nothing,
}

/// The ways to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One to three bits are others.
    Flip,
    /// The end is missing.
    Cut,
    /// A page holds zeros.
    Zero,
    /// The file is missing.
    Delete,
    /// Two segments stand under one another's name.
    Swap,
    /// An older copy was put back.
    Older,
    /// An older copy of the database was put back.
    OlderDatabase,
    /// A segment of another vault is in its place.
    Foreign,
    /// A segment of another vault stands beside the others.
    ForeignBeside,
    /// A file and its second copy are missing.
    DeleteBoth,
}

/// A damage that was done.
#[derive(Clone, Debug)]
pub struct Inflicted {
    /// How.
    pub fault: Fault,
    /// To what.
    pub sort: Sort,
    /// To which files, relative to the folder; what a verification must name.
    pub files: Vec<String>,
    /// Whether any byte is another than before.
    pub harmed: bool,
    /// Where, if it is at one place.
    pub offset: u64,
    /// In words.
    pub what: String,
}

/// The page tree of the database.
const TREE: &str = "metadata.db-tree";

fn sort_of(file: &str) -> Sort {
    match file {
        "vault.json" | "vault.json.saved" => Sort::Header,
        "replica.json" | "replica.json.saved" => Sort::Replica,
        "metadata.db" | TREE => Sort::Database,
        _ if file.starts_with("segments/") => Sort::Segment,
        _ if file.starts_with("revisions/") => Sort::Record,
        _ => Sort::Nothing,
    }
}

/// Damages `folder`, a copy of the base.
///
/// # Errors
/// Of the disk.
pub fn inflict(
    base: &Base,
    folder: &Path,
    seed: u64,
    choices: &mut Choices,
) -> io::Result<Inflicted> {
    let file = choose(base, seed, choices);
    let sort = sort_of(&file);
    let fault = fault(&file, sort, choices);
    let path = folder.join(&file);
    let before = fs::read(&path)?;
    let mut offset = 0;
    let mut files = vec![file.clone()];
    match fault {
        Fault::Flip => {
            let mut bytes = before.clone();
            for _ in 0..=choices.below(3) {
                offset = choices.below(bytes.len().max(1) as u64);
                if let Some(byte) = bytes.get_mut(usize::try_from(offset).unwrap_or(0)) {
                    *byte ^= 1 << choices.below(8);
                }
            }
            fs::write(&path, bytes)?;
        }
        Fault::Cut => {
            offset = choices.below(before.len().max(1) as u64);
            fs::write(&path, &before[..usize::try_from(offset).unwrap_or(0)])?;
        }
        Fault::Zero => {
            let pages = (before.len() as u64).div_ceil(4096).max(1);
            offset = choices.below(pages) * 4096;
            let mut bytes = before.clone();
            let start = usize::try_from(offset).unwrap_or(0).min(bytes.len());
            let end = (start + 4096).min(bytes.len());
            bytes[start..end].fill(0);
            fs::write(&path, bytes)?;
        }
        Fault::Delete => fs::remove_file(&path)?,
        Fault::DeleteBoth => {
            let first = file.trim_end_matches(".saved");
            fs::remove_file(folder.join(first))?;
            fs::remove_file(folder.join(format!("{first}.saved")))?;
        }
        Fault::Swap => {
            let others = base.segments.iter().filter(|other| **other != file);
            let others: Vec<&String> = others.collect();
            let other = *choices.one_of(&others);
            fs::write(&path, fs::read(folder.join(other))?)?;
            fs::write(folder.join(other), &before)?;
            files.push(other.clone());
        }
        Fault::Older | Fault::OlderDatabase => match base.older.join(&file) {
            older if older.exists() => drop(fs::copy(older, &path)?),
            // It was not there then.
            _ => fs::remove_file(&path)?,
        },
        Fault::Foreign => {
            fs::copy(&base.foreign, &path)?;
        }
        Fault::ForeignBeside => {
            let name = base.foreign.file_name().unwrap_or_default();
            let name = name.to_string_lossy();
            files = vec![format!("segments/{}/{name}", &name[..2])];
            let path = folder.join(&files[0]);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::copy(&base.foreign, path)?;
        }
    }
    if fault == Fault::OlderDatabase {
        // The older database as a whole: without its page tree it is damage.
        fs::copy(base.older.join(TREE), folder.join(TREE))?;
    }
    let after = fs::read(&path).ok();
    let harmed = after.as_ref() != Some(&before) || fault == Fault::ForeignBeside;
    let sort = told_sort(sort, fault, &file, harmed);
    if fault == Fault::OlderDatabase {
        files.clear();
    }
    if file == "replica.json" && matches!(fault, Fault::Older) {
        // It opens as well as the newer one; that the two copies differ is what shows.
        files = vec!["replica.json".to_owned()];
    }
    let shown = file.split('/').next().unwrap_or(&file);
    let number = base.segments.iter().position(|one| *one == file);
    let number = number.map_or(String::new(), |number| format!(" {number}"));
    Ok(Inflicted {
        fault,
        sort,
        files,
        harmed,
        offset,
        what: format!("{fault:?} of {shown}{number} at {offset}"),
    })
}

/// Of some files an older copy says the same, or is replaced by opening.
fn told_sort(sort: Sort, fault: Fault, file: &str, harmed: bool) -> Sort {
    // Written again by every opening.
    let healed = file.ends_with(".saved") && matches!(fault, Fault::Older | Fault::Delete)
        || sort == Sort::Record && fault == Fault::Delete;
    if !harmed || healed {
        Sort::Nothing
    } else {
        sort
    }
}

/// Half of all damages are to segments: nothing else is as long.
fn choose(base: &Base, seed: u64, choices: &mut Choices) -> String {
    let mut all = super::base::files(&base.now);
    if seed.is_multiple_of(2) {
        all.retain(|file| base.segments.contains(file));
        // Their names are random, their order is not.
        all.clone_from(&base.segments);
    } else {
        all.retain(|file| !file.starts_with("segments/"));
        if seed % 4 == 1 {
            all.retain(|file| sort_of(file) != Sort::Nothing);
        }
    }
    let index = choices.index(all.len());
    all.swap_remove(index)
}

fn fault(file: &str, sort: Sort, choices: &mut Choices) -> Fault {
    use Fault::{Cut, Delete, DeleteBoth, Flip, Foreign, ForeignBeside, Older, Swap, Zero};
    let faults: &[Fault] = match sort {
        Sort::Segment => &[
            Flip,
            Flip,
            Flip,
            Cut,
            Zero,
            Zero,
            Delete,
            Swap,
            Older,
            Foreign,
            ForeignBeside,
        ],
        // A bit behind its header, or behind its last leaf, says nothing.
        Sort::Database if file == TREE => &[Zero, Delete],
        Sort::Database => &[Flip, Flip, Cut, Zero, Delete, Fault::OlderDatabase],
        Sort::Header | Sort::Replica => &[Flip, Cut, Zero, Delete, Older, DeleteBoth],
        Sort::Record => &[Flip, Cut, Zero, Delete],
        Sort::Nothing => &[Flip, Cut, Zero, Delete],
    };
    *choices.one_of(faults)
}
