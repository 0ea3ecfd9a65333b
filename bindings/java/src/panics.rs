//! Panics on purpose, so that the tests can see how a panic is handled. No jar contains this code.
//!
//! Takes   the message of the panic, and a function that is called before
//! Gives   nothing

use jni::objects::{JByteArray, JClass, JObject};
use jni::sys::jint;
use jni::{Env, NativeMethod};

use crate::border::{Outcome, Throw, goes_on, native, text};

pub(crate) const METHODS: &[NativeMethod] =
    &[native!(panics(message: [jbyte], told: io.strongroom.Progress) -> jint)];

fn panics<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    message: JByteArray<'local>,
    told: JObject<'local>,
) -> Outcome<jint> {
    let message = text(env, &message)?;
    // What it throws is still on its way when the panic comes to the border.
    let _ = goes_on(env, &told, 0, 0);
    std::panic::panic_any(message)
}
