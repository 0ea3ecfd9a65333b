//! Gives the library a soname with the version of its interface, so that a program loads only the version that it was linked with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstrongroom.so.0");
}
