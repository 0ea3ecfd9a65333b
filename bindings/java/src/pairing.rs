//! Pairing: a device of a vault lets a new one in, by a code that a person carries from one to the other.
//!
//! Takes   a vault and one of its remotes; on the new device the URL of the remote, a secret and a code
//! Gives   the code, and the device that has it; on the new device a vault
//! Never   lets in any device but the one whose fingerprint the program gives

use std::sync::Arc;
use std::time::Instant;

use jni::objects::{JByteArray, JClass, JObject};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, NativeMethod};
use parking_lot::Mutex;
use strongroom::{AskingStep, Candidate, GoOn, InvitationStep, NewDevice, PairingCode};

use crate::answer::{Answer, array};
use crate::border::{
    EBADF, Fail, Outcome, Throw, check_not_called_back, invalid, machine_path, native, text,
};
use crate::handles::{Object, get, keep, vault};
use crate::joining::{Inviting, Joining};
use crate::remotes::{clone_options, down};
use crate::secrets::given;

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(invite(vault: jlong, name: [jbyte]) -> [jbyte]),
    native!(look_for_candidate(invitation: jlong) -> [jbyte]),
    native!(admit(invitation: jlong, fingerprint: [jbyte], keys: jlong) -> void),
    native!(refuse(invitation: jlong, fingerprint: [jbyte]) -> void),
    native!(new_device(url: [jbyte], kind: jint, secret: [jbyte], name: [jbyte]) -> [jbyte]),
    native!(ask_to_join(device: jlong, code: [jbyte]) -> void),
    native!(is_admitted(device: jlong) -> jboolean),
    native!(clone_as_admitted(device: jlong, folder: [jbyte], flags: jint, fingerprint: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
];

const CLOSED: Fail = Fail::Here(EBADF, "it is closed");

fn inviting(handle: jlong) -> Outcome<Arc<Mutex<Inviting>>> {
    check_not_called_back()?;
    match get(handle)? {
        Object::Invitation(held) => Ok(held),
        _ => Err(CLOSED),
    }
}

fn joining(handle: jlong) -> Outcome<Arc<Mutex<Joining>>> {
    match get(handle)? {
        Object::NewDevice(held) => Ok(held),
        _ => Err(CLOSED),
    }
}

/// A handle, and the code.
fn invite<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let open = vault(handle)?;
    let made = open.invite(&name, Instant::now())?;
    let code = made.code().text();
    let inviting = Arc::new(Mutex::new(Inviting::new(open, made)));
    let kept = keep(Object::Invitation(inviting), handle)?;
    Answer::new().number(kept).text(code.as_str()).give(env)
}

/// How many wrong codes may still be tried, and a list of the device that asks, if one does.
fn look_for_candidate<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let held = inviting(handle)?;
    let mut held = held.lock();
    let found = match held.invitation.look(Instant::now())? {
        InvitationStep::Waiting => None,
        InvitationStep::WrongCode { left } => {
            held.tries_left = left;
            None
        }
        InvitationStep::Asks(found) => Some(found),
    };
    let answer = Answer::new()
        .count(held.tries_left as u64)
        .list(found.as_slice().iter(), |answer, one| {
            answer.text(one.name()).text(&one.fingerprint())
        });
    if found.is_some() {
        held.candidate = found;
    }
    answer.give(env)
}

/// The candidate that the last look found, if it has that fingerprint: what a person agreed to is that one.
fn asked_by(candidate: Option<&Candidate>, fingerprint: &str) -> Outcome<Candidate> {
    let found = candidate.filter(|one| one.fingerprint() == fingerprint);
    let none = "the last look found no device of that fingerprint";
    found.cloned().ok_or(invalid(none))
}

/// Makes the device a member of the vault, and publishes that.
fn admit<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    fingerprint: JByteArray<'local>,
    keys: jlong,
) -> Outcome<()> {
    let fingerprint = text(env, &fingerprint)?;
    let (held, Object::Keys(keys)) = (inviting(handle)?, get(keys)?) else {
        return Err(CLOSED);
    };
    let mut held = held.lock();
    let candidate = asked_by(held.candidate.as_ref(), &fingerprint)?;
    let vault = held.vault.clone();
    let mut keys = keys.lock();
    held.invitation
        .admit(&vault, &mut keys, &candidate, &mut |_| GoOn::Yes)?;
    Ok(())
}

/// Lets the device know that it is not let in.
fn refuse<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    fingerprint: JByteArray<'local>,
) -> Outcome<()> {
    let fingerprint = text(env, &fingerprint)?;
    let held = inviting(handle)?;
    let mut held = held.lock();
    let candidate = asked_by(held.candidate.as_ref(), &fingerprint)?;
    Ok(held.invitation.refuse(&candidate)?)
}

/// A handle, and the fingerprint that both devices show.
fn new_device<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    url: JByteArray<'local>,
    kind: jint,
    secret: JByteArray<'local>,
    name: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let (url, name) = (text(env, &url)?, text(env, &name)?);
    let secret = given(env, kind, &secret, &JByteArray::default())?.to_open()?;
    let device = NewDevice::make(&url, secret, &name)?;
    let fingerprint = device.fingerprint();
    let joining = Joining {
        device: Arc::new(device),
        asking: None,
        admitted: None,
    };
    let kept = keep(Object::NewDevice(Arc::new(Mutex::new(joining))), 0)?;
    Answer::new().number(kept).text(&fingerprint).give(env)
}

fn ask_to_join<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    code: JByteArray<'local>,
) -> Outcome<()> {
    let none = "this is not a pairing code; look for a mistyped digit";
    let code = PairingCode::parse(&text(env, &code)?).map_err(|_| invalid(none))?;
    let held = joining(handle)?;
    let mut held = held.lock();
    // What it left at the remote goes first.
    held.asking = None;
    let asking = held.device.ask(&code, Instant::now())?;
    held.asking = Some(asking);
    Ok(())
}

/// Looks once whether the other device has let this one in.
fn is_admitted<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<jboolean> {
    let held = joining(handle)?;
    let mut held = held.lock();
    if held.admitted.is_some() {
        return Ok(true);
    }
    let asking = held.asking.as_mut().ok_or(invalid("ask first"))?;
    match asking.look(Instant::now())? {
        AskingStep::Waiting => Ok(false),
        AskingStep::Admitted(admitted) => {
            held.admitted = Some(admitted);
            held.asking = None;
            Ok(true)
        }
    }
}

/// Makes a vault in `folder` as the device that was let in; gives its fingerprint.
fn clone_as_admitted<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    folder: JByteArray<'local>,
    flags: jint,
    fingerprint: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let folder = machine_path(env, &folder)?;
    let options = clone_options(env, flags, &fingerprint)?;
    let held = joining(handle)?;
    // Not held during the call: a listener may ask something of the device, and must not wait for itself.
    let (device, admitted) = {
        let held = held.lock();
        (Arc::clone(&held.device), held.admitted)
    };
    let none = "the other device has not let this one in yet";
    let admitted = admitted.ok_or(invalid(none))?;
    let report =
        device.clone_as_admitted(admitted, &folder, &options, &mut |at| down(env, &told, at))?;
    array(env, report.fingerprint.as_bytes())
}
