//! Snapshots: taken, listed, read, restored, removed.
//!
//! Takes   messages, tags, selectors
//! Gives   the values for Java's class `SnapshotInfo`, and handles of snapshots that are read
//! Never   changes a snapshot

use jni::objects::{JByteArray, JClass, JObjectArray};
use jni::sys::{jboolean, jlong};
use jni::{Env, NativeMethod};
use strongroom::{Error, NewRevision, Retention, RevisionInfo, Whose};

use crate::answer::Answer;
use crate::border::{Outcome, Throw, bytes, invalid, native, optional_text, signed, text};
use crate::handles::{Object, keep, vault};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(take_snapshot(vault: jlong, message: [jbyte], tags: jbyte[][], only_if_changed: jboolean) -> [jbyte]),
    native!(snapshots(vault: jlong, selector: [jbyte]) -> [jbyte]),
    native!(remove_snapshot(vault: jlong, selector: [jbyte]) -> void),
    native!(read_snapshot(vault: jlong, selector: [jbyte]) -> jlong),
    native!(restore(vault: jlong, selector: [jbyte], path: [jbyte], to: [jbyte]) -> jlong),
    native!(differences(vault: jlong, before: [jbyte], after: [jbyte], path: [jbyte]) -> [jbyte]),
    native!(retention(vault: jlong) -> [jbyte]),
    native!(shared_retention(vault: jlong) -> [jbyte]),
    native!(set_retention(
        vault: jlong, last: jlong, hourly: jlong, daily: jlong, weekly: jlong, monthly: jlong, yearly: jlong, unnamed: jboolean
    ) -> void),
    native!(thin(vault: jlong) -> [jbyte]),
    native!(usage(vault: jlong) -> [jbyte]),
    native!(erase(vault: jlong, path: [jbyte], trial: jboolean) -> [jbyte]),
];

fn put(answer: Answer, one: &RevisionInfo) -> Answer {
    answer
        .text(&one.id.to_string())
        .number(one.time.0)
        .text(&one.message)
        .names(&one.tags)
}

/// A list of the one that was taken, or of none if nothing changed and `only_if_changed` asks for none then.
fn take_snapshot<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    message: JByteArray<'local>,
    tags: JObjectArray<'local, JByteArray<'local>>,
    only_if_changed: jboolean,
) -> Outcome<JByteArray<'local>> {
    let mut names = Vec::new();
    for index in 0..tags.len(env)? {
        let tag = tags.get_element(env, index)?;
        names.push(text(env, &tag)?);
    }
    names.sort();
    let new = NewRevision {
        message: text(env, &message)?,
        tags: names,
        only_if_changed,
    };
    let taken = vault(handle)?.take_revision(&new)?;
    let taken: Vec<_> = taken.into_iter().collect();
    Answer::new().list(taken.iter(), put).give(env)
}

/// Those that the selector means, oldest first; all for null.
fn snapshots<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    selector: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let vault = vault(handle)?;
    let found = match optional_text(env, &selector)? {
        Some(selector) => vault.select_revisions(&selector)?,
        None => vault.revisions()?,
    };
    Answer::new().list(found.iter(), put).give(env)
}

fn remove_snapshot<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    selector: JByteArray<'local>,
) -> Outcome<()> {
    let vault = vault(handle)?;
    let one = vault.select_revision(&text(env, &selector)?)?;
    Ok(vault.remove_revision(one.id)?)
}

/// The state that the selector means; that of now for null.
fn read_snapshot<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    selector: JByteArray<'local>,
) -> Outcome<jlong> {
    let vault = vault(handle)?;
    let state = match optional_text(env, &selector)? {
        Some(selector) => vault.at(&selector)?,
        None => vault.snapshot()?,
    };
    keep(Object::Snapshot(state), handle)
}

fn restore<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    selector: JByteArray<'local>,
    path: JByteArray<'local>,
    to: JByteArray<'local>,
) -> Outcome<jlong> {
    let (selector, path, to) = (text(env, &selector)?, bytes(env, &path)?, bytes(env, &to)?);
    let vault = vault(handle)?;
    let one = vault.select_revision(&selector)?;
    Ok(signed(vault.restore(one.id, &*path, &*to)?.nodes))
}

/// The paths at and below `path` that differ between two snapshots; `after` is null for now.
fn differences<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    before: JByteArray<'local>,
    after: JByteArray<'local>,
    path: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let (before, path) = (text(env, &before)?, bytes(env, &path)?);
    let vault = vault(handle)?;
    let before = vault.select_revision(&before)?.id;
    let after = match optional_text(env, &after)? {
        Some(after) => Some(vault.select_revision(&after)?.id),
        None => None,
    };
    let mut found = Vec::new();
    vault.differences(before, after, &*path, |one| {
        found.push(one.path);
        Ok::<_, Error>(())
    })?;
    Answer::new().names(&found).give(env)
}

fn put_rule(answer: Answer, rule: &Retention) -> Answer {
    answer
        .number(rule.last.into())
        .number(rule.hourly.into())
        .number(rule.daily.into())
        .number(rule.weekly.into())
        .number(rule.monthly.into())
        .number(rule.yearly.into())
        .flag(rule.whose == Whose::Unnamed)
}

/// The rule by which `thin` goes: the default one if none was set.
fn retention<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let found = vault(handle)?.retention()?;
    put_rule(Answer::new(), &found.unwrap_or(Retention::DEFAULT)).give(env)
}

/// A list of the one that was set last on any device, or of none if none was.
fn shared_retention<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let found = vault(handle)?.shared_retention()?;
    Answer::new().list(found.iter(), put_rule).give(env)
}

#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn set_retention<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    last: jlong,
    hourly: jlong,
    daily: jlong,
    weekly: jlong,
    monthly: jlong,
    yearly: jlong,
    unnamed: jboolean,
) -> Outcome<()> {
    let count = |count: jlong| {
        u32::try_from(count).map_err(|_| invalid("a rule counts from 0 to 4294967295"))
    };
    let rule = Retention {
        last: count(last)?,
        hourly: count(hourly)?,
        daily: count(daily)?,
        weekly: count(weekly)?,
        monthly: count(monthly)?,
        yearly: count(yearly)?,
        whose: match unnamed {
            true => Whose::Unnamed,
            false => Whose::Scheduled,
        },
    };
    Ok(vault(handle)?.set_retention(&rule)?)
}

/// Removes the snapshots that the vault's rule lets go; gives them.
fn thin<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let vault = vault(handle)?;
    let rule = vault.retention()?.unwrap_or(Retention::DEFAULT);
    let gone = vault.thin(&rule)?;
    Answer::new().list(gone.iter(), put).give(env)
}

/// Sealed bytes of files of now, of snapshots alone, and of nothing.
fn usage<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let usage = vault(handle)?.usage()?;
    let answer = Answer::new()
        .count(usage.live_bytes)
        .count(usage.kept_bytes)
        .count(usage.waste_bytes);
    answer.give(env)
}

/// Takes the content of what was at `path` out of every snapshot; with `trial`, only says what that would be.
fn erase<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    trial: jboolean,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let erased = vault(handle)?.erase(&*path, trial)?;
    let answer = Answer::new()
        .count(erased.states)
        .count(erased.files)
        .count(erased.bytes)
        .count(erased.shared_bytes)
        .count(erased.segments_left);
    answer.give(env)
}
