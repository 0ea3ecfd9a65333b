//! Transactions: changes that are made all or not at all, and only if the data read before is unchanged.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom::{Operation, Transaction};

use crate::border::{Fail, Outcome, asked, bytes, done, given, offset, out, text};
use crate::handles::{Object, keep};
use crate::types::{
    durability, links, rename_mode, sr_bytes, sr_names, sr_set, sr_stat, sr_transaction, sr_vault,
    xattr_mode,
};

const ENDED: Fail = Fail::Here(libc::EBADF, "the transaction has ended");

/// Runs `call` with a transaction that has not ended.
fn with<T>(
    transaction: sr_transaction,
    call: impl FnOnce(&mut Transaction) -> Outcome<T>,
) -> Outcome<T> {
    let held = transaction.get()?;
    let mut held = held.lock();
    call(held.as_mut().ok_or(ENDED)?)
}

/// Adds an operation to a transaction.
fn add(transaction: sr_transaction, operation: Operation) -> Outcome<()> {
    with(transaction, |transaction| {
        transaction.add(operation);
        Ok(())
    })
}

/// Takes a transaction out of the table, to end it.
fn end(transaction: sr_transaction) -> Outcome<Transaction> {
    let held: Arc<Mutex<Option<Transaction>>> = transaction.take()?;
    let ended = held.lock().take();
    ended.ok_or(ENDED)
}

/// Begins a transaction. Nothing is locked: what it reads is noted, what it changes is gathered, and sr_commit does it all or nothing. What
/// it gathers is held in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_begin(vault: sr_vault, transaction: *mut sr_transaction) -> c_int {
    done(|| {
        let answer = out(transaction)?;
        let begun = Arc::new(Mutex::new(Some(vault.get()?.begin())));
        let id = keep(Object::Transaction(begun), vault.id)?;
        answer.put(sr_transaction { id });
        Ok(())
    })
}

/// Carries out what was gathered, in order. The handle is invalid then, also on failure. `durability`: SR_DURABLE or SR_WRITE_BEHIND.
///
/// Fails with -EBUSY if something that was read is another by now: begin again. Otherwise with the number of the change that failed, and
/// -E2BIG above 1024 changes and reads, 1 MiB of paths, names and values, or 1 GiB of content. Nothing has happened then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_commit(transaction: sr_transaction, durability: u32) -> c_int {
    done(|| {
        let ended = end(transaction)?;
        Ok(ended.commit(self::durability(durability)?)?)
    })
}

/// Ends a transaction without a change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_roll_back(transaction: sr_transaction) -> c_int {
    done(|| end(transaction).map(Transaction::roll_back))
}

// ---- reads: they give what is there before the transaction, and it must still be so at the commit

/// Gives the whole content of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_read_file(
    transaction: sr_transaction,
    path: *const c_char,
    content: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(content)?);
        answer.put(with(transaction, |held| Ok(held.read(path)?))?.into());
        Ok(())
    })
}

/// Whether something is at `path`: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_exists(
    transaction: sr_transaction,
    path: *const c_char,
) -> c_int {
    asked(|| {
        let path = text(path)?;
        with(transaction, |held| Ok(held.exists(path)?))
    })
}

/// Gives the attributes of a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_get_stat(
    transaction: sr_transaction,
    path: *const c_char,
    links: u32,
    stat: *mut sr_stat,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(stat)?);
        let links = self::links(links)?;
        let node = with(transaction, |held| Ok(held.attributes(path, links)?))?;
        answer.put(sr_stat::from(&node));
        Ok(())
    })
}

/// Gives the names in a directory, sorted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_list(
    transaction: sr_transaction,
    path: *const c_char,
    names: *mut sr_names,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(names)?);
        answer.put(with(transaction, |held| Ok(held.names(path)?))?.into());
        Ok(())
    })
}

// ---- changes

/// Makes a file with `len` bytes, or replaces the content of the one that is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_write_file(
    transaction: sr_transaction,
    path: *const c_char,
    data: *const c_void,
    len: u64,
) -> c_int {
    done(|| {
        let (path, content) = (text(path)?, bytes(data, len)?);
        with(transaction, |held| {
            held.write(path, content);
            Ok(())
        })
    })
}

/// Writes `len` bytes into an existing file, from `at` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_write_at(
    transaction: sr_transaction,
    path: *const c_char,
    data: *const c_void,
    len: u64,
    at: u64,
) -> c_int {
    done(|| {
        let operation = Operation::WriteAt {
            path: text(path)?.to_vec(),
            offset: offset(at)?,
            data: bytes(data, len)?.to_vec(),
        };
        add(transaction, operation)
    })
}

/// Cuts a file, or extends it by zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_truncate(
    transaction: sr_transaction,
    path: *const c_char,
    size: u64,
) -> c_int {
    done(|| {
        let operation = Operation::Truncate {
            path: text(path)?.to_vec(),
            size: offset(size)?,
        };
        add(transaction, operation)
    })
}

/// Makes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_make_directory(
    transaction: sr_transaction,
    path: *const c_char,
    mode: u32,
) -> c_int {
    done(|| {
        let path = text(path)?.to_vec();
        add(transaction, Operation::MakeDirectory { path, mode })
    })
}

/// Makes a symbolic link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_make_symlink(
    transaction: sr_transaction,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    done(|| {
        let (target, path) = (text(target)?.to_vec(), text(path)?.to_vec());
        add(transaction, Operation::MakeSymlink { path, target })
    })
}

/// Gives a node a further name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_link(
    transaction: sr_transaction,
    path: *const c_char,
    new_path: *const c_char,
) -> c_int {
    done(|| {
        let (path, new_path) = (text(path)?.to_vec(), text(new_path)?.to_vec());
        add(transaction, Operation::Link { path, new_path })
    })
}

/// Moves a name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_rename(
    transaction: sr_transaction,
    path: *const c_char,
    new_path: *const c_char,
    how: u32,
) -> c_int {
    done(|| {
        let operation = Operation::Rename {
            path: text(path)?.to_vec(),
            new_path: text(new_path)?.to_vec(),
            mode: rename_mode(how)?,
        };
        add(transaction, operation)
    })
}

/// Removes the name of anything but a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_remove(
    transaction: sr_transaction,
    path: *const c_char,
) -> c_int {
    done(|| {
        let path = text(path)?.to_vec();
        add(transaction, Operation::RemoveFile { path })
    })
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_remove_directory(
    transaction: sr_transaction,
    path: *const c_char,
) -> c_int {
    done(|| {
        let path = text(path)?.to_vec();
        add(transaction, Operation::RemoveDirectory { path })
    })
}

/// Changes the attributes that `set` names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_set_stat(
    transaction: sr_transaction,
    path: *const c_char,
    links: u32,
    set: *const sr_set,
) -> c_int {
    done(|| {
        let operation = Operation::SetAttributes {
            path: text(path)?.to_vec(),
            links: self::links(links)?,
            set: given(set)?.attributes()?,
        };
        add(transaction, operation)
    })
}

/// Sets an extended attribute to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_set_xattr(
    transaction: sr_transaction,
    path: *const c_char,
    links: u32,
    name: *const c_char,
    value: *const c_void,
    len: u64,
    how: u32,
) -> c_int {
    done(|| {
        let operation = Operation::SetXattr {
            path: text(path)?.to_vec(),
            links: self::links(links)?,
            name: text(name)?.to_vec(),
            value: bytes(value, len)?.to_vec(),
            mode: xattr_mode(how)?,
        };
        add(transaction, operation)
    })
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_transaction_remove_xattr(
    transaction: sr_transaction,
    path: *const c_char,
    links: u32,
    name: *const c_char,
) -> c_int {
    done(|| {
        let operation = Operation::RemoveXattr {
            path: text(path)?.to_vec(),
            links: self::links(links)?,
            name: text(name)?.to_vec(),
        };
        add(transaction, operation)
    })
}
