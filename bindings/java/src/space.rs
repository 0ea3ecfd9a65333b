//! Space here and at remotes: content that is only at remotes, pins, and what nothing refers to any more.
//!
//! Takes   paths and names of remotes, and a listener for progress
//! Gives   reports
//! Never   evicts content that no remote has

use std::time::Duration;

use jni::objects::{JByteArray, JClass, JObject};
use jni::sys::{jboolean, jlong};
use jni::{Env, NativeMethod};
use strongroom::{BringBackReport, EvictReport, PruneReport, RemoteProgress};

use crate::answer::Answer;
use crate::border::{
    Outcome, Throw, bytes, goes_on, native, optional_bytes, signed, text, unsigned,
};
use crate::handles::vault;

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(evict(vault: jlong, path: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
    native!(bring_back(vault: jlong, path: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
    native!(pin(vault: jlong, path: [jbyte], told: io.strongroom.Progress) -> [jbyte]),
    native!(unpin(vault: jlong, path: [jbyte]) -> jboolean),
    native!(pins(vault: jlong) -> [jbyte]),
    native!(keep_at_most(vault: jlong) -> jlong),
    native!(set_keep_at_most(vault: jlong, limits: jboolean, bytes: jlong) -> void),
    native!(evict_to_limit(vault: jlong, told: io.strongroom.Progress) -> [jbyte]),
    native!(prune_remote(vault: jlong, name: [jbyte], grace_s: jlong, told: io.strongroom.Progress) -> [jbyte]),
    native!(unused_at_remote(vault: jlong, name: [jbyte]) -> [jbyte]),
];

fn evicted(report: &EvictReport) -> Answer {
    Answer::new()
        .count(report.segments)
        .count(report.bytes)
        .count(report.kept)
        .count(report.kept_bytes)
        .count(report.pinned)
        .count(report.pinned_bytes)
        .names(&report.problems)
        .flag(report.is_stopped)
}

/// Lets content go from this disk that remotes have: of files at or below `path`, or all for null.
fn evict<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let path = optional_bytes(env, &path)?;
    let report = vault(handle)?.evict(path.as_deref(), &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    evicted(&report).give(env)
}

fn brought(report: BringBackReport) -> Answer {
    Answer::new()
        .count(report.segments)
        .count(report.bytes)
        .count(report.lost)
        .count(report.lost_bytes)
        .flag(report.is_stopped)
}

/// Brings evicted content back: of files at or below `path`, or all for null.
fn bring_back<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let path = optional_bytes(env, &path)?;
    let report = vault(handle)?.bring_back(path.as_deref(), &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    brought(report).give(env)
}

/// Brings the content of what is at `path` here, and keeps it here.
fn pin<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let report = vault(handle)?.pin(&*path, &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    brought(report).give(env)
}

/// Lets an eviction take the content of what is at `path` again; gives whether it was pinned.
fn unpin<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
) -> Outcome<jboolean> {
    let path = bytes(env, &path)?;
    Ok(vault(handle)?.unpin(&*path)?)
}

/// The paths of what is pinned.
fn pins<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JByteArray<'local>> {
    let paths = vault(handle)?.pins()?;
    Answer::new().names(&paths).give(env)
}

/// How many bytes of segments this device keeps at most; -1 if it keeps all.
fn keep_at_most<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<jlong> {
    Ok(vault(handle)?.keep_at_most()?.map_or(-1, signed))
}

/// Limits them, or ends that.
fn set_keep_at_most<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    limits: jboolean,
    bytes: jlong,
) -> Outcome<()> {
    let limit = match limits {
        true => Some(unsigned(bytes)?),
        false => None,
    };
    Ok(vault(handle)?.set_keep_at_most(limit)?)
}

/// Evicts at once what a sync would evict for that limit.
fn evict_to_limit<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let report = vault(handle)?
        .evict_to_limit(&mut |at: &RemoteProgress| goes_on(env, &told, at.bytes, at.bytes_total))?;
    evicted(&report).give(env)
}

fn pruned(report: PruneReport) -> Answer {
    Answer::new()
        .count(report.objects)
        .count(report.bytes)
        .count(report.waiting)
        .count(report.waiting_bytes)
        .count(report.kept)
        .count(report.kept_bytes)
}

/// Removes from a remote what nothing has referred to for so long.
fn prune_remote<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
    grace_s: jlong,
    told: JObject<'local>,
) -> Outcome<JByteArray<'local>> {
    let (name, grace) = (text(env, &name)?, Duration::from_secs(unsigned(grace_s)?));
    let report = vault(handle)?.prune_remote(&name, grace, &mut |at: &RemoteProgress| {
        goes_on(env, &told, at.bytes, at.bytes_total)
    })?;
    pruned(report).give(env)
}

/// What a pruning may remove there sooner or later.
fn unused_at_remote<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    name: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let name = text(env, &name)?;
    let unused = vault(handle)?.unused_at_remote(&name)?;
    pruned(unused).give(env)
}
