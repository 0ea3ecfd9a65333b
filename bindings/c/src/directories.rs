//! Directories: created, removed, listed, walked.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom::{Directory, Walk};

use crate::border::{Outcome, asked, done, out, text};
use crate::handles::{Object, keep};
use crate::types::{sr_bytes, sr_directory, sr_entry, sr_stat, sr_vault, sr_walk};

/// One node that a walk met.
#[repr(C)]
#[derive(Debug)]
pub struct sr_walk_entry {
    /// What stat shows of the node, of a symlink itself.
    pub stat: sr_stat,
    /// How many names below the directory that was given: 1 for what lies in it.
    pub depth: u64,
    /// Its path: that of the directory that was given, and the names below it. Give it back with sr_bytes_free.
    pub path: sr_bytes,
}

/// Keeps a listing for the program.
pub(crate) fn kept(directory: Directory, vault: u64) -> Outcome<sr_directory> {
    let id = keep(Object::Directory(Arc::new(Mutex::new(directory))), vault)?;
    Ok(sr_directory { id })
}

/// Keeps a walk for the program.
pub(crate) fn kept_walk(walk: Walk, vault: u64) -> Outcome<sr_walk> {
    let id = keep(Object::Walk(Arc::new(Mutex::new(walk))), vault)?;
    Ok(sr_walk { id })
}

/// Makes a directory with the low 12 bits of `mode`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_make_directory(
    vault: sr_vault,
    path: *const c_char,
    mode: u32,
) -> c_int {
    done(|| {
        let path = text(path)?;
        vault.get()?.make_directory(path, mode)?;
        Ok(())
    })
}

/// Makes a directory and all that are missing on the way to it. One that is there is left as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_make_directories(
    vault: sr_vault,
    path: *const c_char,
    mode: u32,
) -> c_int {
    done(|| Ok(vault.get()?.create_dir_all(text(path)?, mode)?))
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remove_directory(vault: sr_vault, path: *const c_char) -> c_int {
    done(|| Ok(vault.get()?.remove_directory(text(path)?)?))
}

/// Removes a directory and all below it. Not at once: whoever looks meanwhile, and a power cut, may find a part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remove_tree(vault: sr_vault, path: *const c_char) -> c_int {
    done(|| Ok(vault.get()?.remove_dir_all(text(path)?)?))
}

/// Begins to list a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_directory_open(
    vault: sr_vault,
    path: *const c_char,
    directory: *mut sr_directory,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(directory)?);
        let listed = vault.get()?.list(path)?;
        answer.put(kept(listed, vault.id)?);
        Ok(())
    })
}

/// Gives the next entry: 1, or 0 at the end. `.` and `..` are none; the order is that in which they were made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_directory_next(directory: sr_directory, entry: *mut sr_entry) -> c_int {
    asked(|| {
        let answer = out(entry)?;
        let directory = directory.get()?;
        let Some(next) = directory.lock().next() else {
            return Ok(false);
        };
        let next = next?;
        let mut name = [0; 256];
        for (place, byte) in name[..255].iter_mut().zip(&next.name) {
            *place = *byte as c_char;
        }
        answer.put(sr_entry {
            stat: sr_stat::from(&next.attributes),
            name,
        });
        Ok(true)
    })
}

/// Ends a listing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_directory_close(directory: sr_directory) -> c_int {
    done(|| directory.take().map(drop))
}

/// Begins to go over everything below a directory, sorted, a directory before what lies in it. Symlinks are given and not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_walk_open(
    vault: sr_vault,
    path: *const c_char,
    walk: *mut sr_walk,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(walk)?);
        let walked = vault.get()?.walk(path)?;
        answer.put(kept_walk(walked, vault.id)?);
        Ok(())
    })
}

/// Gives the next node: 1, or 0 at the end. After a failure the walk continues behind the directory that it is about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_walk_next(walk: sr_walk, entry: *mut sr_walk_entry) -> c_int {
    asked(|| {
        let answer = out(entry)?;
        let walk = walk.get()?;
        let Some(next) = walk.lock().next() else {
            return Ok(false);
        };
        let next = next?;
        answer.put(sr_walk_entry {
            stat: sr_stat::from(&next.attributes),
            depth: next.depth as u64,
            path: next.path.into(),
        });
        Ok(true)
    })
}

/// Ends a walk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_walk_close(walk: sr_walk) -> c_int {
    done(|| walk.take().map(drop))
}
