//! Transactions: changes that happen all or not at all, and only if what was read before is still so.
//!
//! What they read and change is in `tree.rs`, under the same names as of a vault.

use std::sync::Arc;

use jni::objects::{JByteArray, JClass};
use jni::sys::{jboolean, jlong};
use jni::{Env, NativeMethod};
use parking_lot::Mutex;

use crate::answer::Answer;
use crate::border::{EBADF, Fail, Outcome, Throw, bytes, native};
use crate::handles::{Object, keep, take, transaction, vault};
use crate::tree::durability;

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(begin(vault: jlong) -> jlong),
    native!(commit(transaction: jlong, durable: jboolean) -> void),
    native!(names(transaction: jlong, path: [jbyte]) -> [jbyte]),
];

fn begin<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<jlong> {
    let begun = Arc::new(Mutex::new(Some(vault(handle)?.begin())));
    keep(Object::Transaction(begun), handle)
}

fn commit<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    durable: jboolean,
) -> Outcome<()> {
    let ended = Fail::Here(EBADF, "the transaction has ended");
    let Some(Object::Transaction(held)) = take(handle) else {
        return Err(ended);
    };
    let taken = held.lock().take();
    Ok(taken.ok_or(ended)?.commit(durability(durable))?)
}

fn names<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let names = transaction(handle, |reads| Ok(reads.names(&*path)?))?;
    Answer::new().names(&names).give(env)
}
