//! Continuous sync, in a thread of the library that calls an object of Java for each event.
//!
//! Takes   a vault and an object of `io.strongroom.SyncEvents`
//! Gives   a handle; events as bytes
//! Never   stays attached to the virtual machine between two events: so it keeps no program from ending

use std::sync::Arc;
use std::time::Duration;

use jni::objects::{JByteArray, JClass, JObject, JValue};
use jni::refs::Global;
use jni::sys::jlong;
use jni::{Env, JavaVM, NativeMethod, jni_sig, jni_str};
use parking_lot::Mutex;
use strongroom::{Error, SyncEvent};

use crate::answer::Answer;
use crate::border::{Outcome, Throw, call_back, native, number_of, unsigned};
use crate::handles::{Object, keep, take, vault};
use crate::remotes::synced;

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(keep_in_sync(vault: jlong, every_ms: jlong, told: io.strongroom.SyncEvents) -> jlong),
    native!(finish_sync(sync: jlong) -> void),
];

/// From now on syncs with all remotes.
fn keep_in_sync<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    every_ms: jlong,
    told: JObject<'local>,
) -> Outcome<jlong> {
    let every = Duration::from_millis(unsigned(every_ms)?);
    let told = env.new_global_ref(&told)?;
    let syncing = vault(handle)?.keep_in_sync(every, move |event| {
        // A virtual machine that is ending hears nothing any more. What the object throws it has reported.
        let Ok(machine) = JavaVM::singleton() else {
            return;
        };
        let _ = machine.attach_current_thread_for_scope(|env| hear(env, &told, &event));
    })?;
    let held = Arc::new(Mutex::new(Some(syncing)));
    keep(Object::ContinuousSync(held), handle)
}

fn hear(env: &mut Env<'_>, told: &Global<JObject<'static>>, event: &SyncEvent) -> Outcome<()> {
    let Some(said) = said(event) else {
        return Ok(());
    };
    let said: JByteArray<'_> = said.give(env)?;
    call_back(|| {
        env.call_method(
            told,
            jni_str!("heard"),
            jni_sig!((event: [jbyte]) -> void),
            &[JValue::Object(said.as_ref())],
        )
    })?;
    Ok(())
}

/// The place of an event in `SyncEvent.Kind`, the remote, and what `SyncEvent` reads for each; none for one that Java has no word for.
fn said(event: &SyncEvent) -> Option<Answer> {
    let head = |kind: i64, remote: &str| Answer::new().number(kind).text(remote);
    let failed = |answer: Answer, error: &Error| {
        answer
            .number(error.errno().into())
            .number(number_of(error.family()).into())
            .text(&error.to_string())
    };
    Some(match event {
        SyncEvent::Moving { remote, progress } => head(0, remote)
            .count(progress.bytes)
            .count(progress.bytes_total.max(progress.bytes)),
        SyncEvent::Synced { remote, report } => synced(head(1, remote), report),
        SyncEvent::Failed {
            remote,
            error,
            again_in,
        } => {
            let again_in_ms = u64::try_from(again_in.as_millis()).unwrap_or(u64::MAX);
            failed(head(2, remote), error).count(again_in_ms)
        }
        SyncEvent::Recovered { remote } => head(3, remote),
        SyncEvent::Ended { error } => failed(head(4, ""), error),
        _ => return None,
    })
}

/// Ends it when what waits has gone to the remotes that work. Called by what hears of its events, it waits for nothing. A second time does
/// nothing.
fn finish_sync<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    if let Some(Object::ContinuousSync(held)) = take(handle) {
        let syncing = held.lock().take();
        if let Some(syncing) = syncing {
            syncing.finish();
        }
    }
    Ok(())
}
