//! Key slots: listed, added, removed; keys replaced.
//!
//! Takes   a vault folder and a secret
//! Gives   the values for Java's classes `Keys` and `KeySlot`
//! Never   gives out a key, except a new one that a user keeps: a recovery code or a key file

use std::sync::Arc;

use jni::objects::{JByteArray, JClass};
use jni::sys::{jint, jlong};
use jni::{Env, NativeMethod};
use parking_lot::Mutex;
use strongroom::{KeyFile, Keys, RecoveryCode, SlotId, SlotInfo, SlotKind, SystemRandom};

use crate::answer::Answer;
use crate::border::{
    EBADF, Fail, Outcome, Throw, check_not_called_back, machine_path, native, text,
};
use crate::handles::{Object, get, keep};
use crate::secrets::{given, trust};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(slots_of_folder(folder: [jbyte]) -> [jbyte]),
    native!(open_keys(folder: [jbyte], kind: jint, secret: [jbyte], inner: [jbyte], flags: jint, fingerprint: [jbyte]) -> jlong),
    native!(slots(keys: jlong) -> [jbyte]),
    native!(add_key(keys: jlong, label: [jbyte], kind: jint, key: [jbyte]) -> void),
    native!(remove_key(keys: jlong, slot: jlong) -> void),
    native!(change_passphrase(keys: jlong, slot: jlong, kind: jint, passphrase: [jbyte]) -> void),
    native!(rotate_keys(keys: jlong) -> void),
    native!(new_key_file() -> [jbyte]),
    native!(new_recovery_code() -> [jbyte]),
];

fn give<'local>(env: &mut Env<'local>, slots: &[SlotInfo]) -> Outcome<JByteArray<'local>> {
    let answer = Answer::new().list(slots.iter(), |answer, slot| {
        let kind = match slot.kind {
            SlotKind::Passphrase => 0,
            SlotKind::KeyFile => 1,
            SlotKind::RecoveryCode => 2,
            SlotKind::Age => 3,
            SlotKind::Ssh => 4,
        };
        answer
            .number(i64::from_be_bytes(slot.id.0))
            .number(kind)
            .text(&slot.label)
            .count(slot.created_s)
    });
    answer.give(env)
}

/// What everybody may know about the key slots of the vault in `folder`.
fn slots_of_folder<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    folder: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let folder = machine_path(env, &folder)?;
    give(env, &strongroom::list_slots(folder)?)
}

#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn open_keys<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    folder: JByteArray<'local>,
    kind: jint,
    secret: JByteArray<'local>,
    inner: JByteArray<'local>,
    flags: jint,
    fingerprint: JByteArray<'local>,
) -> Outcome<jlong> {
    let folder = machine_path(env, &folder)?;
    let trust = trust(env, flags, &fingerprint)?;
    let secret = given(env, kind, &secret, &inner)?.to_open()?;
    let keys = Keys::open_with(folder, &secret, trust)?;
    keep(Object::Keys(Arc::new(Mutex::new(keys))), 0)
}

fn with<T>(handle: jlong, call: impl FnOnce(&mut Keys) -> Outcome<T>) -> Outcome<T> {
    check_not_called_back()?;
    match get(handle)? {
        Object::Keys(keys) => call(&mut keys.lock()),
        _ => Err(Fail::Here(EBADF, "it is closed")),
    }
}

/// The key slots, proved.
fn slots<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let slots = with(handle, |keys| Ok(keys.slots()))?;
    give(env, &slots)
}

const fn slot(number: jlong) -> SlotId {
    SlotId(number.to_be_bytes())
}

fn add_key<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    label: JByteArray<'local>,
    kind: jint,
    key: JByteArray<'local>,
) -> Outcome<()> {
    let label = text(env, &label)?;
    let key = given(env, kind, &key, &JByteArray::default())?.to_add()?;
    with(handle, |keys| Ok(keys.add(&label, key)?))
}

fn remove_key<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    number: jlong,
) -> Outcome<()> {
    with(handle, |keys| Ok(keys.remove(slot(number))?))
}

fn change_passphrase<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    number: jlong,
    kind: jint,
    passphrase: JByteArray<'local>,
) -> Outcome<()> {
    let passphrase = given(env, kind, &passphrase, &JByteArray::default())?.to_replace()?;
    with(handle, |keys| {
        Ok(keys.change_passphrase(slot(number), passphrase)?)
    })
}

/// Begins a new epoch of keys.
fn rotate_keys<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    with(handle, |keys| Ok(keys.rotate()?))
}

const NO_RANDOM: Fail = Fail::Here(5, "the system provides no random numbers");

fn new_key_file<'local>(env: &mut Env<'local>, _: JClass<'local>) -> Outcome<JByteArray<'local>> {
    let made = KeyFile::random(&SystemRandom).map_err(|_| NO_RANDOM)?;
    Answer::new().text(made.text().as_str()).give(env)
}

fn new_recovery_code<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
) -> Outcome<JByteArray<'local>> {
    let made = RecoveryCode::random(&SystemRandom).map_err(|_| NO_RANDOM)?;
    Answer::new().text(made.text().as_str()).give(env)
}
