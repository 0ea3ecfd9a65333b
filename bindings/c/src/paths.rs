//! Files by their paths: whole contents, attributes.

use std::ffi::{c_char, c_int, c_void};

use strongroom::filesystem::SetAttributes;

use crate::border::{asked, bytes, done, given, offset, out, text};
use crate::types::{SR_FOLLOW, durability, links, sr_bytes, sr_set, sr_stat, sr_vault};

/// Gives the whole content of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_read_file(
    vault: sr_vault,
    path: *const c_char,
    content: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(content)?);
        answer.put(vault.get()?.read(path)?.into());
        Ok(())
    })
}

/// Makes or empties a file and writes `len` bytes. Not at once: sr_replace_file is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_write_file(
    vault: sr_vault,
    path: *const c_char,
    data: *const c_void,
    len: u64,
) -> c_int {
    done(|| Ok(vault.get()?.write(text(path)?, bytes(data, len)?)?))
}

/// Makes a file, or puts `len` bytes in the place of its content at once: whoever looks, also after a power cut, finds all of the old or
/// all of the new. Mode, owner and other names of the file stay. `durability`: SR_DURABLE or SR_WRITE_BEHIND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_replace_file(
    vault: sr_vault,
    path: *const c_char,
    data: *const c_void,
    len: u64,
    durability: u32,
) -> c_int {
    done(|| {
        let (path, data) = (text(path)?, bytes(data, len)?);
        let durability = self::durability(durability)?;
        Ok(vault.get()?.replace(path, data, durability)?)
    })
}

/// Whether something is at `path`: 1 or 0. A dangling symlink is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_exists(vault: sr_vault, path: *const c_char) -> c_int {
    asked(|| Ok(vault.get()?.exists(text(path)?)?))
}

/// Gives the attributes of a node. `links`: SR_FOLLOW or SR_STAY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_stat(
    vault: sr_vault,
    path: *const c_char,
    links: u32,
    stat: *mut sr_stat,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(stat)?);
        let links = self::links(links)?;
        answer.put(sr_stat::from(&vault.get()?.attributes(path, links)?));
        Ok(())
    })
}

/// Changes the attributes of a node that `set` names, all at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_set_stat(
    vault: sr_vault,
    path: *const c_char,
    links: u32,
    set: *const sr_set,
) -> c_int {
    done(|| {
        let (path, set) = (text(path)?, given(set)?.attributes()?);
        let links = self::links(links)?;
        vault.get()?.set_attributes(path, links, &set)?;
        Ok(())
    })
}

/// Cuts a file, or extends it by zeros, to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_truncate(vault: sr_vault, path: *const c_char, size: u64) -> c_int {
    done(|| {
        let set = SetAttributes {
            size: Some(offset(size)?),
            ..SetAttributes::default()
        };
        let path = text(path)?;
        vault.get()?.set_attributes(path, links(SR_FOLLOW)?, &set)?;
        Ok(())
    })
}

/// Changes the low 12 bits of the mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_chmod(vault: sr_vault, path: *const c_char, mode: u32) -> c_int {
    done(|| {
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let path = text(path)?;
        vault.get()?.set_attributes(path, links(SR_FOLLOW)?, &set)?;
        Ok(())
    })
}
