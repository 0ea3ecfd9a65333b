//! The border between Java and Rust: arrays in, exceptions out, no panic across.
//!
//! Invariants
//!  (1) A panic ends here. Its message is dropped and printed nowhere, because it could contain a secret.
//!  (2) If Java has already thrown an exception, that exception stays.

use std::any::Any;
use std::cell::Cell;
use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jni::errors::ErrorPolicy;
use jni::objects::{JByteArray, JClass, JObject, JString, JValue};
use jni::refs::Global;
use jni::sys::{jint, jlong};
use jni::{Env, jni_sig, jni_str};
use strongroom::{Error, ErrorFamily};

/// As Linux has them; all others come from the vault.
pub(crate) const EBADF: i32 = 9;
const EINVAL: i32 = 22;
const EDEADLK: i32 = 35;
const EIO: i32 = 5;
pub(crate) const EFBIG: i32 = 27;

/// What is shown of a panic.                                                                                 (1)
const BUG: &str = "an internal error, which is a bug of Strongroom; whether the call was carried out is not known";

/// The class `Native`, as it was found when the library was loaded.
static CLASS: OnceLock<Global<JClass<'static>>> = OnceLock::new();

/// A panic of any thread prints its place in the code and no more: this library has a hook of its own, because it has a standard library of
/// its own.                                                                                                   (1)
pub(crate) fn hide_messages_of_panics() {
    strongroom::panics::report_places(|sentence| {
        // A program may have closed it.
        let _ = writeln!(stderr(), "strongroom: {sentence}");
    });
}

/// Keeps the class for errors.
pub(crate) fn keep_class(class: Global<JClass<'static>>) {
    let _ = CLASS.set(class);
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The vault says so.
    Vault(Error),
    /// This crate does: a number of `errno.h`, and the sentence.
    Here(i32, &'static str),
    /// Java does.
    Java(jni::errors::Error),
}

pub(crate) type Outcome<T> = Result<T, Fail>;

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::Vault(error)
    }
}

impl From<jni::errors::Error> for Fail {
    fn from(error: jni::errors::Error) -> Self {
        Self::Java(error)
    }
}

/// An argument that is none.
pub(crate) const fn invalid(why: &'static str) -> Fail {
    Fail::Here(EINVAL, why)
}

/// A method of `Native`: as in Java, with the types of the crate `jni`. Whoever uses it has `Throw` in scope.
macro_rules! native {
    ($($method:tt)*) => {
        ::jni::native_method! { static fn $($method)*, error_policy = Throw }
    };
}
pub(crate) use native;

/// Throws `Failure` for an error and for a panic.
pub(crate) struct Throw;

impl<T: Default> ErrorPolicy<T, Fail> for Throw {
    type Captures<'local: 'method, 'method> = ();

    fn on_error<'local: 'method, 'method>(
        env: &mut Env<'local>,
        (): &mut (),
        fail: Fail,
    ) -> jni::errors::Result<T> {
        // (2)
        if !env.exception_check() {
            match fail {
                Fail::Vault(error) => throw(env, error.errno(), error.family(), &error.to_string()),
                Fail::Here(number, why) => throw(env, number, family_of(number), why),
                Fail::Java(jni::errors::Error::NullPtr(_)) => {
                    throw(env, EINVAL, ErrorFamily::System, "an argument is null");
                }
                Fail::Java(error) => throw(env, EIO, ErrorFamily::Other, &error.to_string()),
            }
        }
        Ok(T::default())
    }

    fn on_panic<'local: 'method, 'method>(
        env: &mut Env<'local>,
        (): &mut (),
        panic: Box<dyn Any + Send>,
    ) -> jni::errors::Result<T> {
        // Dropping it could panic once more.
        std::mem::forget(panic);
        if !env.exception_check() {
            throw(env, EIO, ErrorFamily::Other, BUG);
        }
        Ok(T::default())
    }
}

const fn family_of(number: i32) -> ErrorFamily {
    match number {
        EBADF => ErrorFamily::Closed,
        _ => ErrorFamily::System,
    }
}

/// Has `Native.fail` throw. If Java cannot, for want of memory, its own exception is there.
fn throw(env: &mut Env<'_>, number: i32, family: ErrorFamily, message: &str) {
    let Some(class) = CLASS.get() else { return };
    let Ok(message) = JString::from_str(env, message) else {
        return;
    };
    let _ = env.call_static_method(
        class,
        jni_str!("fail"),
        jni_sig!((number: jint, family: jint, message: JString) -> void),
        &[
            JValue::Int(number),
            JValue::Int(number_of(family)),
            JValue::Object(message.as_ref()),
        ],
    );
}

/// The place of a family in `VaultException.Kind`.
pub(crate) const fn number_of(family: ErrorFamily) -> jint {
    match family {
        ErrorFamily::System => 0,
        ErrorFamily::Closed => 1,
        ErrorFamily::NotAVault => 2,
        ErrorFamily::VaultExists => 3,
        ErrorFamily::WrongSecret => 4,
        ErrorFamily::Untrusted => 5,
        ErrorFamily::InUse => 6,
        ErrorFamily::OwnerGone => 7,
        ErrorFamily::Locked => 8,
        ErrorFamily::LockLost => 9,
        ErrorFamily::Changed => 10,
        ErrorFamily::Damaged => 11,
        ErrorFamily::NoSuchSnapshot => 12,
        ErrorFamily::Remote => 13,
        ErrorFamily::Stopped => 14,
        ErrorFamily::Other => 15,
    }
}

// ---- what comes in

/// The bytes of an array.
pub(crate) fn bytes(env: &Env<'_>, array: &JByteArray<'_>) -> Outcome<Vec<u8>> {
    Ok(env.convert_byte_array(array)?)
}

/// The same; `None` for null.
pub(crate) fn optional_bytes(env: &Env<'_>, array: &JByteArray<'_>) -> Outcome<Option<Vec<u8>>> {
    match array.is_null() {
        true => Ok(None),
        false => bytes(env, array).map(Some),
    }
}

/// The same where the library needs UTF-8.
pub(crate) fn text(env: &Env<'_>, array: &JByteArray<'_>) -> Outcome<String> {
    String::from_utf8(bytes(env, array)?).map_err(|_| invalid("a name or message is not UTF-8"))
}

/// The same; `None` for null.
pub(crate) fn optional_text(env: &Env<'_>, array: &JByteArray<'_>) -> Outcome<Option<String>> {
    match array.is_null() {
        true => Ok(None),
        false => text(env, array).map(Some),
    }
}

/// A path of the machine.
pub(crate) fn machine_path(env: &Env<'_>, array: &JByteArray<'_>) -> Outcome<PathBuf> {
    let path = text(env, array)?;
    match path.as_str() {
        "" => Err(invalid("the path of a folder is empty")),
        path => Ok(Path::new(path).to_owned()),
    }
}

/// An offset, size or count: Java has no unsigned ones.
pub(crate) fn unsigned(number: jlong) -> Outcome<u64> {
    u64::try_from(number).map_err(|_| invalid("an offset, size or count below 0"))
}

/// The 32 bits of a mode or an owner.
pub(crate) const fn bits(number: jint) -> u32 {
    number.cast_unsigned()
}

/// A count for Java.
pub(crate) fn signed(count: u64) -> jlong {
    jlong::try_from(count).unwrap_or(jlong::MAX)
}

// ---- calls back

thread_local! {
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Calls an object of Java that hears of a call or of a sync.
pub(crate) fn call_back<T>(call: impl FnOnce() -> T) -> T {
    let before = CALLED_BACK.replace(true);
    let given = call();
    CALLED_BACK.set(before);
    given
}

/// Refuses what another thread may have while it waits for the call that this thread is called back from.
pub(crate) fn check_not_called_back() -> Outcome<()> {
    match CALLED_BACK.get() {
        true => Err(Fail::Here(
            EDEADLK,
            "a listener may not use keys or an invitation: another thread that has them may wait for the call that the listener hears of",
        )),
        false => Ok(()),
    }
}

/// Asks an object of `io.strongroom.Progress` whether to go on; yes for null. What it throws stops the call, and stays.
pub(crate) fn goes_on(
    env: &mut Env<'_>,
    told: &JObject<'_>,
    done: u64,
    total: u64,
) -> strongroom::GoOn {
    if told.is_null() {
        return strongroom::GoOn::Yes;
    }
    // It may be asked once more, and what it threw is still on its way.
    if env.exception_check() {
        return strongroom::GoOn::No;
    }
    let answer = call_back(|| {
        env.call_method(
            told,
            jni_str!("at"),
            jni_sig!((done: jlong, total: jlong) -> jboolean),
            // What is told last may not have been among what was expected.
            &[
                JValue::Long(signed(done)),
                JValue::Long(signed(total.max(done))),
            ],
        )
    });
    match answer.and_then(|answer| answer.z()) {
        Ok(true) => strongroom::GoOn::Yes,
        Ok(false) | Err(_) => strongroom::GoOn::No,
    }
}
