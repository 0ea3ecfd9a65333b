//! Pairing: a device of a vault lets a new one in, by a code that a person carries from one to the other.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use strongroom::{
    AskingStep, Candidate, CloneProgress, GoOn, InvitationStep, NewDevice, PairingCode,
};

use crate::border::{
    Outcome, asked, check_not_called_back, count, done, given, invalid, machine_path, out, signed,
    utf8,
};
use crate::handles::{Object, check_not_forked, keep};
use crate::joining::{Inviting, Joining};
use crate::types::{
    sr_bytes, sr_invitation, sr_keys, sr_new_device, sr_options, sr_secret, sr_told, sr_vault,
};
use crate::vaults::goes_on;

/// A device that has the code and asks to be let in. Give it back with sr_candidate_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_candidate {
    /// What it calls itself.
    pub name: sr_bytes,
    /// What the new device shows too, if nobody sits between the two: a person compares them before sr_invitation_admit.
    pub fingerprint: sr_bytes,
}

/// Gives back what sr_invitation_look filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_candidate_free(candidate: *mut sr_candidate) {
    if !candidate.is_null() {
        crate::memory::sr_bytes_free(&raw mut (*candidate).name);
        crate::memory::sr_bytes_free(&raw mut (*candidate).fingerprint);
    }
}

// ---- the device that has the vault

/// Offers a new device to join through the remote `name`, for ten minutes. `code`: what a person types on the new device. Look then, about
/// once a second. Give the invitation back with sr_invitation_close; the code is void then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_invite(
    vault: sr_vault,
    name: *const c_char,
    invitation: *mut sr_invitation,
    code: *mut sr_bytes,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let (name, answer, code) = (utf8(name)?, out(invitation)?, out(code)?);
        let open = vault.get()?;
        let made = open.invite(name, Instant::now())?;
        let shown = made.code().text().as_bytes().to_vec();
        let inviting = Arc::new(Mutex::new(Inviting::new(open, made)));
        let id = keep(Object::Invitation(inviting), vault.id)?;
        answer.put(sr_invitation { id });
        code.put(shown.into());
        Ok(())
    })
}

/// Looks once whether somebody came: 1 if a device with the code asks, which fills in `candidate`; 0 if not. After an error of the remote it
/// can look again.
///
/// Fails with -ETIMEDOUT after ten minutes, -EACCES when every try was used up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_invitation_look(
    invitation: sr_invitation,
    candidate: *mut sr_candidate,
) -> c_int {
    asked(|| {
        check_not_called_back()?;
        let answer = out(candidate)?;
        let held = invitation.get()?;
        let mut held = held.lock();
        match held.invitation.look(Instant::now())? {
            InvitationStep::Waiting => Ok(false),
            InvitationStep::WrongCode { left } => {
                held.tries_left = left;
                Ok(false)
            }
            InvitationStep::Asks(found) => {
                answer.put(sr_candidate {
                    name: found.name().as_bytes().to_vec().into(),
                    fingerprint: found.fingerprint().into_bytes().into(),
                });
                held.candidate = Some(found);
                Ok(true)
            }
        }
    })
}

/// Gives how many wrong codes may still be tried: fewer than before mean that somebody tried one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_invitation_tries_left(invitation: sr_invitation) -> i64 {
    count(|| {
        // Whoever admits has the invitation, and may wait for the remote of the call that calls back.
        check_not_called_back()?;
        Ok(signed(invitation.get()?.lock().tries_left as u64))
    })
}

/// The candidate that the last look found, if it has that fingerprint: what a person agreed to is that one.
fn asked_by(candidate: Option<&Candidate>, fingerprint: &str) -> Outcome<Candidate> {
    let found = candidate.filter(|one| one.fingerprint() == fingerprint);
    let none = "the last look found no device of that fingerprint";
    found.cloned().ok_or(invalid(none))
}

/// Makes the device that sr_invitation_look found last a member of the vault, and publishes that. `fingerprint`: that of the candidate, which a
/// person compared. `keys`: of this vault. It syncs with the remote: call sr_sync_with before, to hear how far that is. The code is void then.
///
/// Fails with -EINVAL if no such device asked, -ECONNABORTED if it does not wait any more; nothing was changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_invitation_admit(
    invitation: sr_invitation,
    fingerprint: *const c_char,
    keys: sr_keys,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let fingerprint = utf8(fingerprint)?;
        let (held, keys) = (invitation.get()?, keys.get()?);
        let mut held = held.lock();
        let candidate = asked_by(held.candidate.as_ref(), fingerprint)?;
        let vault = held.vault.clone();
        let mut keys = keys.lock();
        held.invitation
            .admit(&vault, &mut keys, &candidate, &mut |_| GoOn::Yes)?;
        Ok(())
    })
}

/// Lets the device that sr_invitation_look found last know that it is not let in. `fingerprint`: that of the candidate. The code is void then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_invitation_refuse(
    invitation: sr_invitation,
    fingerprint: *const c_char,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let fingerprint = utf8(fingerprint)?;
        let held = invitation.get()?;
        let mut held = held.lock();
        let candidate = asked_by(held.candidate.as_ref(), fingerprint)?;
        Ok(held.invitation.refuse(&candidate)?)
    })
}

/// Takes the offer back, if it did not end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_invitation_close(invitation: sr_invitation) -> c_int {
    done(|| invitation.take().map(drop))
}

// ---- the device that wants to join

/// Begins as a device called `name` that wants to join the vault at the remote `url`. `secret`: a passphrase or a key file of its own, which
/// opens the vault here later. Takes about a second with a passphrase. Give it back with sr_new_device_close.
///
/// Fails with -EINVAL for another secret or what is no name, -ENOENT if there is no vault, -EHOSTUNREACH, -EACCES.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_new_device_make(
    url: *const c_char,
    secret: *const sr_secret,
    name: *const c_char,
    device: *mut sr_new_device,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        check_not_forked()?;
        let (url, name, answer) = (utf8(url)?, utf8(name)?, out(device)?);
        let secret = given(secret)?.to_open()?;
        let joining = Joining {
            device: Arc::new(NewDevice::make(url, secret, name)?),
            asking: None,
            admitted: None,
        };
        let id = keep(Object::NewDevice(Arc::new(Mutex::new(joining))), 0)?;
        answer.put(sr_new_device { id });
        Ok(())
    })
}

/// Gives what a person compares with what the other device shows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_new_device_fingerprint(
    device: sr_new_device,
    fingerprint: *mut sr_bytes,
) -> c_int {
    done(|| {
        let answer = out(fingerprint)?;
        let fingerprint = device.get()?.lock().device.fingerprint();
        answer.put(fingerprint.into_bytes().into());
        Ok(())
    })
}

/// Asks the device that shows `code` to let this one in; up to five times, with another code. Look for the answer about once a second.
///
/// Fails with -EINVAL for what is no code, -ENOENT if no device waits for one that begins so, -EACCES if it has asked five times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_new_device_ask(device: sr_new_device, code: *const c_char) -> c_int {
    done(|| {
        check_not_called_back()?;
        let none = "this is not a pairing code; look for a mistyped digit";
        let code = PairingCode::parse(utf8(code)?).map_err(|_| invalid(none))?;
        let held = device.get()?;
        let mut held = held.lock();
        // What it left at the remote goes first.
        held.asking = None;
        held.asking = Some(held.device.ask(&code, Instant::now())?);
        Ok(())
    })
}

/// Looks once whether the other device has answered: 1 if it has let this one in, 0 if it has not answered yet. After an error of the
/// remote it can look again.
///
/// Fails with -EACCES if the code was another one (ask again) or the person said no, -ECONNABORTED if the other device does not wait any
/// more, -ETIMEDOUT after ten minutes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_new_device_look(device: sr_new_device) -> c_int {
    asked(|| {
        check_not_called_back()?;
        let held = device.get()?;
        let mut held = held.lock();
        if held.admitted.is_some() {
            return Ok(true);
        }
        let asking = held.asking.as_mut();
        let asking = asking.ok_or(invalid("ask with sr_new_device_ask first"))?;
        match asking.look(Instant::now())? {
            AskingStep::Waiting => Ok(false),
            AskingStep::Admitted(admitted) => {
                held.admitted = Some(admitted);
                held.asking = None;
                Ok(true)
            }
        }
    })
}

/// Makes a vault in `folder` of the machine as sr_clone does, as the device that was let in. `options` and `told` may be NULL. Interrupted,
/// sr_clone with the same secret continues.
///
/// Fails with -EINVAL if the device was not let in yet, and as sr_clone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_new_device_clone(
    device: sr_new_device,
    folder: *const c_char,
    options: *const sr_options,
    told: sr_told,
    context: *mut c_void,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let folder = machine_path(folder)?;
        let options = sr_options::read_for_clone(options)?;
        let held = device.get()?;
        // Not held during the call: its function may ask for the fingerprint, and must not wait for itself.
        let (device, admitted) = {
            let held = held.lock();
            (Arc::clone(&held.device), held.admitted)
        };
        let admitted = admitted.ok_or(invalid("the other device has not let this one in yet"))?;
        device.clone_as_admitted(admitted, folder, &options, &mut |progress| match progress {
            CloneProgress::Down(at) => goes_on(told, context, at.bytes, at.bytes_total),
            CloneProgress::Made(_) => goes_on(told, context, 0, 0),
        })?;
        Ok(())
    })
}

/// Gives up to join, or ends what has joined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_new_device_close(device: sr_new_device) -> c_int {
    done(|| device.take().map(drop))
}
