//! Remotes: pull, push and sync, and the conflicts that remain.
//!
//! Takes   names and URLs of remotes, and a listener for progress
//! Gives   reports
//! Never   shows credentials

use jni::objects::{JByteArray, JClass, JObject};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, NativeMethod};
use strongroom::{
    CloneContent, CloneOptions, CloneProgress, GoOn, Keep, PullReport, PushReport, Rates,
    RemoteProgress, Removal, SyncReport,
};

use crate::answer::{Answer, array};
use crate::border::{
    Outcome, Throw, bytes, goes_on, invalid, machine_path, native, signed, text, unsigned,
};
use crate::handles::vault;
use crate::secrets::{ON_DEMAND, given, trust};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(add_remote(vault: jlong, name: [jbyte], url: [jbyte], keep: jboolean) -> void),
    native!(remotes(vault: jlong) -> [jbyte]),
    native!(remote_status(vault: jlong, name: [jbyte]) -> [jbyte]),
    native!(remove_remote(vault: jlong, name: [jbyte]) -> void),
    native!(limit_remotes(vault: jlong, up: jlong, down: jlong) -> void),
    native!(push(vault: jlong, name: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
    native!(pull(vault: jlong, name: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
    native!(sync_with(vault: jlong, name: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
    native!(check_remote(vault: jlong, name: [jbyte], deep: jboolean, told: io.strongroom.Progress) -> [jbyte]),
    native!(clone_remote(
        url: [jbyte], folder: [jbyte], kind: jint, secret: [jbyte], inner: [jbyte], flags: jint,
        fingerprint: [jbyte], told: io.strongroom.Progress
    ) -> [jbyte]),
    native!(conflicts(vault: jlong) -> [jbyte]),
    native!(settle_conflict(vault: jlong, path: [jbyte], keep: jint) -> [jbyte]),
];

/// `keep`: this device removes nothing there.
fn add_remote<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
    url: JByteArray<'local>,
    keep: jboolean,
) -> Outcome<()> {
    let (name, url) = (text(env, &name)?, text(env, &url)?);
    let removal = match keep {
        true => Removal::Never,
        false => Removal::Later,
    };
    Ok(vault(handle)?.add_remote_with(&name, &url, removal)?)
}

/// In the order in which they were added.
fn remotes<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let found = vault(handle)?.remotes()?;
    let answer = Answer::new().list(found.iter(), |answer, remote| {
        answer
            .text(&remote.name)
            .text(&remote.address)
            .count(remote.publications)
            .text(&remote.code)
            .count(remote.objects)
            .flag(remote.removal == Removal::Never)
    });
    answer.give(env)
}

/// What is not known is -1, and a name that a device has not is empty.
fn remote_status<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let status = vault(handle)?.remote_status(&name)?;
    let answer = Answer::new()
        .flag(status.is_waiting)
        .count(status.waiting_bytes)
        .number(status.waiting_files.map_or(-1, signed))
        .count(status.away_bytes)
        .count(status.alone_bytes)
        .number(status.contact_s.map_or(-1, signed))
        .list(status.newest.iter(), |answer, one| {
            answer
                .text(&one.device)
                .text(one.name.as_deref().unwrap_or_default())
                .flag(one.is_this)
                .count(one.number)
                .count(one.time_s)
        });
    answer.give(env)
}

fn remove_remote<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
) -> Outcome<()> {
    let name = text(env, &name)?;
    Ok(vault(handle)?.remove_remote(&name)?)
}

/// Uses remotes at most so fast, in bytes per second; 0: as fast as the line is.
fn limit_remotes<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    up: jlong,
    down: jlong,
) -> Outcome<()> {
    let limit = |rate: u64| (rate > 0).then_some(rate);
    let (up, down) = (limit(unsigned(up)?), limit(unsigned(down)?));
    vault(handle)?.limit_remotes(Rates { up, down });
    Ok(())
}

fn pushed(answer: Answer, report: PushReport) -> Answer {
    answer
        .count(report.objects)
        .count(report.bytes)
        .count(report.publications)
}

fn pulled(answer: Answer, report: &PullReport) -> Answer {
    answer
        .count(report.objects)
        .count(report.bytes)
        .count(report.publications)
        .count(report.names)
        .count(report.nodes)
        .count(report.conflicts)
        .names(&report.conflict_paths)
        .count(report.merged)
        .names(&report.merged_paths)
        .count(report.erased_bytes)
        .count(report.unerased_bytes)
        .names(&report.erase_problems)
        .count(report.received)
        .names(&report.received_paths)
        .names(&report.deposit_problems)
}

pub(crate) fn synced(answer: Answer, report: &SyncReport) -> Answer {
    pushed(pulled(answer, &report.pulled), report.pushed)
        .count(report.evicted_segments)
        .count(report.evicted_bytes)
}

fn push<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let report = vault(handle)?.push(&name, &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    pushed(Answer::new(), report).give(env)
}

fn pull<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let report = vault(handle)?.pull(&name, &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    pulled(Answer::new(), &report).give(env)
}

/// Pulls, then pushes.
fn sync_with<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let report = vault(handle)?.sync_with(&name, &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    synced(Answer::new(), &report).give(env)
}

/// What is missing there or not as it was written, a line each.
fn check_remote<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
    deep: jboolean,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let report = vault(handle)?.check_remote(&name, deep, &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    Answer::new().names(&report.problems).give(env)
}

/// How a vault is cloned.
pub(crate) fn clone_options(
    env: &Env<'_>,
    flags: jint,
    fingerprint: &JByteArray<'_>,
) -> Outcome<CloneOptions> {
    Ok(CloneOptions {
        trust: trust(env, flags, fingerprint)?,
        content: match flags & ON_DEMAND {
            0 => CloneContent::Here,
            _ => CloneContent::AtRemote,
        },
        ..CloneOptions::default()
    })
}

/// Tells how far a clone is.
pub(crate) fn down(env: &mut Env<'_>, told: &JObject<'_>, at: CloneProgress) -> GoOn {
    match at {
        CloneProgress::Down(at) => goes_on(env, told, at.bytes, at.bytes_total),
        CloneProgress::Made(_) => goes_on(env, told, 0, 0),
    }
}

/// Makes a vault in `folder` out of the remote at `url`; gives its fingerprint.
#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn clone_remote<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    url: JByteArray<'local>,
    folder: JByteArray<'local>,
    kind: jint,
    secret: JByteArray<'local>,
    inner: JByteArray<'local>,
    flags: jint,
    fingerprint: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let (url, folder) = (text(env, &url)?, machine_path(env, &folder)?);
    let options = clone_options(env, flags, &fingerprint)?;
    let secret = given(env, kind, &secret, &inner)?.to_open()?;
    let report = strongroom::clone(&url, &folder, &secret, options, &mut |at| {
        down(env, &told, at)
    })?;
    array(env, report.fingerprint.as_bytes())
}

/// All conflict copies, in the order of their paths.
fn conflicts<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let found = vault(handle)?.conflicts(&mut |_| {})?;
    let answer = Answer::new().list(found.iter(), |answer, conflict| {
        answer
            .bytes(&conflict.path)
            .bytes(&conflict.beside)
            .text(&conflict.device)
            .text(&conflict.time)
            .flag(conflict.published.is_some())
    });
    answer.give(env)
}

/// Ends a conflict; gives the path that the content has then.
fn settle_conflict<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    keep: jint,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let keep = match keep {
        0 => Keep::Mine,
        1 => Keep::Theirs,
        2 => Keep::Both,
        _ => return Err(invalid("an unknown way to settle a conflict")),
    };
    let path = vault(handle)?.settle_conflict(&*path, keep)?;
    array(env, &path)
}
