//! Transactions: changes that are made all or not at all, and only if the data read before is unchanged.
//!
//! `tree.rs` has the functions that read and change names and files, the same ones as for a vault.

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
