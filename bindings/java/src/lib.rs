//! The native part of the Java package `io.strongroom`: the vault API as static methods of its class `Native`.
//!
//! Takes   calls of `java/io/strongroom/*.java`, the API for Java programs
//! Gives   numbers, arrays of bytes and of numbers; errors as `io.strongroom.Failure`, from which Java makes its exceptions
//! Never   decides what Java programs expect of a file or a path: the Java sources do
//!
//! Invariants
//!  (1) A panic ends at the border, and its message is dropped.                                              [border]
//!  (2) An open object has a number with a generation: a number that was closed or made up is noticed.       [handles]
//!  (3) No Java memory is used during a call of the vault: bytes are copied in and out, in bounded pieces.     [files]

// `unsafe`: the name under which the virtual machine finds `JNI_OnLoad`, its pointer, and the promise that a table of methods is
// of static ones, which the macro that makes it checks at the first call too.
#![allow(unsafe_code, reason = "JNI_OnLoad")]

mod answer;
mod border;
mod continuous_sync;
mod files;
mod handles;
mod history;
mod joining;
mod keys;
mod listings;
mod pairing;
#[cfg(feature = "panic-test")]
mod panics;
mod remotes;
mod secrets;
mod space;
mod transactions;
mod tree;
mod vaults;

use std::ffi::c_void;

use jni::errors::Error;
use jni::strings::JNIString;
use jni::sys::{JNI_ERR, JNI_VERSION_1_8, jint};
use jni::{Env, JavaVM, jni_str};

/// Names the methods to the virtual machine that loads the library.
///
/// Gives `JNI_ERR`, with the exception of Java, if the classes are of another version: a method is missing there.
///
/// # Safety
/// For the virtual machine only, which gives a pointer to itself.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnLoad(
    vm: *mut jni::sys::JavaVM,
    _reserved: *mut c_void,
) -> jint {
    border::hide_messages_of_panics();
    if vm.is_null() {
        return JNI_ERR;
    }
    // SAFETY: it is the machine that calls this.
    let vm = unsafe { JavaVM::from_raw(vm) };
    match vm.with_top_local_frame(|env| register(env).inspect_err(|error| explain(env, error))) {
        Ok(()) => JNI_VERSION_1_8,
        Err(_) => JNI_ERR,
    }
}

/// Has the virtual machine say why it could not load the library.
fn explain(env: &mut Env<'_>, error: &Error) {
    // What Java threw, for a method that is missing there, is still on its way, and nothing else can be thrown before it is caught.
    let why = match env.exception_catch() {
        Err(Error::CaughtJavaException { name, msg, .. }) => format!("{name}: {msg}"),
        _ => error.to_string(),
    };
    let message = format!(
        "the library and the classes of Strongroom differ in version; use those of one build ({why})"
    );
    let _ = env.throw_new(
        jni_str!("java/lang/UnsatisfiedLinkError"),
        JNIString::new(message),
    );
}

fn register(env: &mut Env<'_>) -> Result<(), Error> {
    let class = env.find_class(jni_str!("io/strongroom/Native"))?;
    border::keep_class(env.new_global_ref(&class)?);
    for methods in [
        vaults::METHODS,
        tree::METHODS,
        listings::METHODS,
        files::METHODS,
        history::METHODS,
        transactions::METHODS,
        keys::METHODS,
        remotes::METHODS,
        space::METHODS,
        continuous_sync::METHODS,
        pairing::METHODS,
    ] {
        // SAFETY: all are made for static methods by `native!`.
        unsafe { env.register_native_methods(&class, methods)? };
    }
    #[cfg(feature = "panic-test")]
    register_panics(env);
    Ok(())
}

/// The methods of a class that only tests have.
#[cfg(feature = "panic-test")]
fn register_panics(env: &mut Env<'_>) {
    let registered = env
        .find_class(jni_str!("io/strongroom/Panics"))
        .and_then(|class| {
            // SAFETY: as above.
            unsafe { env.register_native_methods(&class, panics::METHODS) }
        });
    if registered.is_err() {
        // A program beside the tests has no such class.
        env.exception_clear();
    }
}
