//! Records the version of the interface that a program was linked with, so that no other version is loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstrongroom.so.0");
}
