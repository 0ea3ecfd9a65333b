//! The key slots that unlock a vault.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom::{AddKey, Keys, NewKey as Key, SlotId, SlotInfo, SlotKind};

use crate::border::{
    Outcome, check_not_called_back, done, given, invalid, machine_path, out, utf8,
};
use crate::handles::{Object, check_not_forked, keep};
use crate::memory::{list, unlist};
use crate::types::{
    SR_IDENTITY, SR_KEY_FILE, SR_PASSPHRASE, SR_RECOVERY_CODE, sr_bytes, sr_keys, sr_options,
    sr_secret,
};
use crate::vaults::NewKey;

/// One way to unlock a vault.
#[repr(C)]
#[derive(Debug)]
pub struct sr_slot {
    /// Its name: 16 hexadecimal digits and NUL.
    pub id: [c_char; 17],
    /// SR_PASSPHRASE, SR_KEY_FILE, SR_RECOVERY_CODE, or SR_IDENTITY for an age or SSH key.
    pub kind: u32,
    /// When it was made, in seconds since 1970, as that device had it.
    pub created_s: u64,
    /// What somebody called it. Public.
    pub label: sr_bytes,
}

/// All ways to unlock a vault. Give them back with sr_slots_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_slots {
    /// The slots; never none.
    pub items: *mut sr_slot,
    /// How many. Do not change it.
    pub count: u64,
}

/// Bytes of a slot's name.
const ID_BYTES: usize = 8;

impl From<SlotInfo> for sr_slot {
    fn from(slot: SlotInfo) -> Self {
        let mut id = [0; 2 * ID_BYTES + 1];
        for (place, digit) in id.iter_mut().zip(name(slot.id).bytes()) {
            *place = digit as c_char;
        }
        Self {
            id,
            kind: match slot.kind {
                SlotKind::Passphrase => SR_PASSPHRASE,
                SlotKind::RecoveryCode => SR_RECOVERY_CODE,
                SlotKind::KeyFile => SR_KEY_FILE,
                SlotKind::Age | SlotKind::Ssh => SR_IDENTITY,
            },
            created_s: slot.created_s,
            label: slot.label.into_bytes().into(),
        }
    }
}

/// The name of a slot.
fn name(slot: SlotId) -> String {
    slot.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The slot that `text` names.
fn slot_id(text: &str) -> Outcome<SlotId> {
    let none = "the id of a slot has 16 hexadecimal digits, as sr_keys_list gives them";
    let digits = text.as_bytes();
    if digits.len() != 2 * ID_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(invalid(none));
    }
    let number = u64::from_str_radix(text, 16).map_err(|_| invalid(none))?;
    Ok(SlotId(number.to_be_bytes()))
}

/// Unlocks the keys of the vault in `folder`, to show and change them, whether or not a process has it open. `options` may be NULL; of its
/// flags only SR_ACCEPT_OLDER and SR_NO_RECORDS count.
///
/// Fails as sr_open; here a wrong secret is -EACCES always.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keys_open(
    folder: *const c_char,
    secret: *const sr_secret,
    options: *const sr_options,
    keys: *mut sr_keys,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        check_not_forked()?;
        let (folder, answer) = (machine_path(folder)?, out(keys)?);
        let trust = sr_options::read(options)?.trust()?;
        let secret = given(secret)?.to_open()?;
        let opened = Keys::open_with(folder, &secret, trust)?;
        let id = keep(Object::Keys(Arc::new(Mutex::new(opened))), 0)?;
        answer.put(sr_keys { id });
        Ok(())
    })
}

/// Closes the keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keys_close(keys: sr_keys) -> c_int {
    done(|| keys.take().map(drop))
}

/// Gives all key slots, proved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keys_list(keys: sr_keys, slots: *mut sr_slots) -> c_int {
    done(|| {
        check_not_called_back()?;
        let answer = out(slots)?;
        let found = keys.get()?.lock().slots();
        let (items, count) = list(found.into_iter().map(sr_slot::from).collect());
        answer.put(sr_slots { items, count });
        Ok(())
    })
}

/// Gives the name of the slot that the secret opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keys_unlocked_by(keys: sr_keys, slot: *mut sr_bytes) -> c_int {
    done(|| {
        check_not_called_back()?;
        let answer = out(slot)?;
        let found = keys.get()?.lock().unlocked_by();
        let found = found.ok_or(invalid("these keys were not opened through a slot"))?;
        answer.put(name(found).into_bytes().into());
        Ok(())
    })
}

/// Gives back what sr_keys_list filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_slots_free(slots: *mut sr_slots) {
    if slots.is_null() {
        return;
    }
    for mut one in unlist((*slots).items, (*slots).count) {
        crate::memory::sr_bytes_free(&raw mut one.label);
    }
    (*slots).items = std::ptr::null_mut();
    (*slots).count = 0;
}

/// Adds a key. `label` is public, and may be empty.
///
/// Fails with -EINVAL for a label that could deceive, or with too many keys; with -EROFS if the process that has the vault open only reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keys_add(
    keys: sr_keys,
    label: *const c_char,
    secret: *const sr_secret,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let label = utf8(label)?;
        let key = match given(secret)?.to_add()? {
            NewKey::Passphrase(passphrase) => AddKey::Passphrase(passphrase),
            NewKey::KeyFile(key_file) => AddKey::Other(Key::KeyFile(key_file)),
            NewKey::RecoveryCode(code) => AddKey::Other(Key::RecoveryCode(code)),
            NewKey::Recipient(recipient) => AddKey::Other(Key::Recipient(recipient)),
        };
        let keys = keys.get()?;
        let mut keys = keys.lock();
        Ok(keys.add(label, key)?)
    })
}

/// Removes the key of the slot `slot`, by its name. What is stored from now on it can never open.
///
/// Fails with -EINVAL if there is no such slot, or it is the last one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keys_remove(keys: sr_keys, slot: *const c_char) -> c_int {
    done(|| {
        check_not_called_back()?;
        let slot = slot_id(utf8(slot)?)?;
        let keys = keys.get()?;
        let mut keys = keys.lock();
        Ok(keys.remove(slot)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_slot_comes_back() {
        let slot = SlotInfo {
            id: SlotId([0, 1, 0x2f, 0xff, 4, 5, 6, 0xa7]),
            kind: SlotKind::KeyFile,
            label: String::new(),
            created_s: 0,
        };
        let id = slot.id;
        let mut shown = sr_slot::from(slot);
        let text: Vec<u8> = shown.id.iter().map(|one| *one as u8).collect();
        assert_eq!(text, b"00012fff040506a7\0");
        let found = slot_id(std::str::from_utf8(&text[..16]).expect("digits"));
        assert!(matches!(found, Ok(found) if found == id));
        for none in [
            "",
            "0",
            "00012fff040506ag",
            "00012fff040506a70",
            "+0012fff040506a7",
        ] {
            assert!(slot_id(none).is_err(), "{none}");
        }
        // SAFETY: it was just made, and is not used any more.
        unsafe { crate::memory::sr_bytes_free(&raw mut shown.label) };
    }
}
