//! Names: moved, added, removed; symlinks, special files, extended attributes.

use std::ffi::{c_char, c_int, c_void};

use crate::border::{bytes, done, out, text};
use crate::types::{kind, links, rename_mode, sr_bytes, sr_names, sr_vault, xattr_mode};

/// Moves a name, at once. `how`: SR_RENAME_REPLACE and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_rename(
    vault: sr_vault,
    path: *const c_char,
    new_path: *const c_char,
    how: u32,
) -> c_int {
    done(|| {
        let (path, new_path) = (text(path)?, text(new_path)?);
        let how = rename_mode(how)?;
        Ok(vault.get()?.rename(path, new_path, how)?)
    })
}

/// Removes the name of anything but a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remove(vault: sr_vault, path: *const c_char) -> c_int {
    done(|| Ok(vault.get()?.remove_file(text(path)?)?))
}

/// Gives the node at `path`, a symlink itself included, the further name `new_path`. Fails with -EPERM for directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_link(
    vault: sr_vault,
    path: *const c_char,
    new_path: *const c_char,
) -> c_int {
    done(|| {
        let (path, new_path) = (text(path)?, text(new_path)?);
        vault.get()?.link(path, new_path)?;
        Ok(())
    })
}

/// Makes a symbolic link at `path` that points to `target`, which need not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_make_symlink(
    vault: sr_vault,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    done(|| {
        let (target, path) = (text(target)?, text(path)?);
        vault.get()?.make_symlink(target, path)?;
        Ok(())
    })
}

/// Gives where a symlink points. Fails with -EINVAL if it is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_read_link(
    vault: sr_vault,
    path: *const c_char,
    target: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(target)?);
        answer.put(vault.get()?.read_link(path)?.into());
        Ok(())
    })
}

/// Makes a node of any kind but a symlink: an empty file, a directory, a pipe, a socket, a device. `rdev`: the number of a device, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_make_node(
    vault: sr_vault,
    path: *const c_char,
    kind: u32,
    mode: u32,
    rdev: u64,
) -> c_int {
    done(|| {
        let path = text(path)?;
        let kind = self::kind(kind)?;
        vault.get()?.make_node(path, kind, mode, rdev)?;
        Ok(())
    })
}

/// Gives the value of an extended attribute. Fails with -ENODATA if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_xattr(
    vault: sr_vault,
    path: *const c_char,
    links: u32,
    name: *const c_char,
    value: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, name, answer) = (text(path)?, text(name)?, out(value)?);
        let links = self::links(links)?;
        answer.put(vault.get()?.xattr(path, links, name)?.into());
        Ok(())
    })
}

/// Sets an extended attribute to `len` bytes. `how`: SR_XATTR_SET and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_set_xattr(
    vault: sr_vault,
    path: *const c_char,
    links: u32,
    name: *const c_char,
    value: *const c_void,
    len: u64,
    how: u32,
) -> c_int {
    done(|| {
        let (path, name, value) = (text(path)?, text(name)?, bytes(value, len)?);
        let (links, how) = (self::links(links)?, xattr_mode(how)?);
        Ok(vault.get()?.set_xattr(path, links, name, value, how)?)
    })
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remove_xattr(
    vault: sr_vault,
    path: *const c_char,
    links: u32,
    name: *const c_char,
) -> c_int {
    done(|| {
        let (path, name) = (text(path)?, text(name)?);
        let links = self::links(links)?;
        Ok(vault.get()?.remove_xattr(path, links, name)?)
    })
}

/// Gives the names of all extended attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_list_xattrs(
    vault: sr_vault,
    path: *const c_char,
    links: u32,
    names: *mut sr_names,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(names)?);
        let links = self::links(links)?;
        answer.put(vault.get()?.xattrs(path, links)?.into());
        Ok(())
    })
}
