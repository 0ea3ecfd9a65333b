//! Vaults: created, opened, closed; and operations on a whole vault.
//!
//! Takes   a vault folder, secrets, flags, and a listener for progress
//! Gives   a handle: this process owns the vault, or uses it through the owner process
//! Never   repairs anything

use std::sync::Arc;

use jni::objects::{JByteArray, JClass, JIntArray, JObject, JObjectArray};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, NativeMethod};
use strongroom::{CreateOptions, OpenOptions, SuiteId, Vault, VerifyOptions};

use crate::answer::Answer;
use crate::border::{Outcome, Throw, goes_on, invalid, machine_path, native, signed};
use crate::handles::{Object, keep, take_vault, vault};
use crate::secrets::{OWN, READ_ONLY, given, records, trust, with_keys};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(create(folder: [jbyte], kinds: [jint], keys: jbyte[][], suite: jint, flags: jint) -> [jbyte]),
    native!(open(folder: [jbyte], kind: jint, secret: [jbyte], inner: [jbyte], flags: jint, fingerprint: [jbyte]) -> jlong),
    native!(close_vault(vault: jlong) -> void),
    native!(is_owner(vault: jlong) -> jboolean),
    native!(sync(vault: jlong) -> void),
    native!(space(vault: jlong) -> [jbyte]),
    native!(information(vault: jlong) -> [jbyte]),
    native!(accept_records(vault: jlong) -> void),
    native!(rotation(vault: jlong) -> [jbyte]),
    native!(check(vault: jlong) -> [jbyte]),
    native!(verify(vault: jlong, deep: jboolean, told: io.strongroom.Progress) -> [jbyte]),
    native!(backup(vault: jlong, target: [jbyte], told: io.strongroom.Progress) -> jlong),
];

fn create<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    folder: JByteArray<'local>,
    kinds: JIntArray<'local>,
    keys: JObjectArray<'local, JByteArray<'local>>,
    suite: jint,
    flags: jint,
) -> Outcome<JByteArray<'local>> {
    let folder = machine_path(env, &folder)?;
    let suite = match suite {
        1 => SuiteId::Aes256GcmBlake3,
        2 => SuiteId::ChaCha20Poly1305Blake3,
        3 => SuiteId::Aegis256Blake3,
        _ => return Err(invalid("no suite of algorithms has that number")),
    };
    let options = CreateOptions::new().suite(suite).seen(records(flags));
    let options = with_keys(env, options, &kinds, &keys)?;
    let made = Vault::create(&folder, options)?;
    let handle = keep(Object::Vault(made.vault), 0)?;
    let answer = Answer::new()
        .number(handle)
        .text(made.recovery_code.text().as_str())
        .text(&made.fingerprint);
    answer.give(env)
}

#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn open<'local>(
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
    let mut options = match flags & READ_ONLY {
        0 => OpenOptions::default(),
        _ => OpenOptions::read_only(),
    };
    options.trust = trust(env, flags, &fingerprint)?;
    let secret = given(env, kind, &secret, &inner)?.to_open()?;
    let opened = match flags & OWN {
        // Kept in locked memory, for the case that the owner goes and this process takes its place.
        0 => Vault::open_or_connect(folder, Arc::new(move || Ok(secret.clone())), options)?,
        _ => Vault::open(folder, secret, options)?,
    };
    keep(Object::Vault(opened), 0)
}

/// Closes a vault with everything that was opened through it. A second time does nothing.
fn close_vault<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    match take_vault(handle) {
        Some(vault) => Ok(vault.close()?),
        None => Ok(()),
    }
}

fn is_owner<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<jboolean> {
    Ok(vault(handle)?.is_owner())
}

fn sync<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    Ok(vault(handle)?.sync()?)
}

fn space<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let space = vault(handle)?.space()?;
    let answer = Answer::new()
        .count(space.total_bytes)
        .count(space.free_bytes)
        .count(space.inodes);
    answer.give(env)
}

fn information<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let facts = vault(handle)?.information()?;
    let answer = Answer::new()
        .text(&facts.fingerprint)
        .text(&facts.suite)
        .count(facts.generation)
        .count(facts.epoch.into())
        .count(facts.owner_pid.into())
        .flag(facts.read_only)
        .count(facts.away_bytes)
        .names(&facts.unknown_records);
    answer.give(env)
}

fn accept_records<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    Ok(vault(handle)?.accept_records()?)
}

fn rotation<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let state = vault(handle)?.rotation()?;
    let answer = Answer::new()
        .flag(state.is_running)
        .count(state.bytes_left)
        .text(state.trouble.as_deref().unwrap_or_default());
    answer.give(env)
}

fn check<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let report = vault(handle)?.check()?;
    Answer::new().names(&report.problems).give(env)
}

fn verify<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    deep: jboolean,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let options = VerifyOptions {
        deep,
        ..VerifyOptions::default()
    };
    let report = vault(handle)?.verify(options, &mut |at| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    let (sound, is_damaged) = (report.is_sound(), report.is_damaged());
    let of_files = report.files.iter();
    let of_files = of_files.map(|problem| format!("{}: {}", problem.file, problem.what));
    let problems: Vec<String> = report
        .structure
        .problems
        .iter()
        .cloned()
        .chain(of_files)
        .collect();
    let damaged: Vec<&[u8]> = report.damages.iter().map(|damage| &*damage.path).collect();
    let answer = Answer::new()
        .flag(sound)
        .flag(is_damaged)
        .flag(report.finished)
        .count(report.progress.bytes)
        .count(report.progress.blocks)
        .names(&problems)
        .names(&damaged);
    answer.give(env)
}

fn backup<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    target: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<jlong> {
    let target = machine_path(env, &target)?;
    let report = vault(handle)?.backup(&target, &mut |at| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    Ok(signed(report.copied_bytes))
}
