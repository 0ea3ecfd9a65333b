//! The committed header is the one that the sources generate, and every compiler accepts it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use support::{Program, Watched, crate_folder};

fn made() -> String {
    let config = cbindgen::Config::from_file(crate_folder().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(crate_folder())
        .with_config(config)
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

/// With `STRONGROOM_WRITE=1` it writes the header instead.
#[test]
fn the_header_is_that_of_the_sources() {
    let path = crate_folder().join("include/strongroom.h");
    let made = made();
    if std::env::var_os("STRONGROOM_WRITE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "the sources give another header; write it with: STRONGROOM_WRITE=1 cargo test -p strongroom-c --test header"
    );
}

/// Goal: each function of the library is in the header, and the other way round. Method: cbindgen leaves out what it does not understand.
#[test]
fn every_function_of_the_sources_is_in_the_header() {
    let header = std::fs::read_to_string(crate_folder().join("include/strongroom.h")).unwrap();
    let mut count = 0;
    for file in std::fs::read_dir(crate_folder().join("src")).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for rest in source.split("extern \"C\" fn sr_").skip(1) {
            let name = rest.split('(').next().unwrap();
            assert!(header.contains(&format!("sr_{name}(")), "{name}");
            count += 1;
        }
    }
    assert!(count > 80, "only {count} functions found");
}

/// Alone, without another header before it.
#[test]
fn the_headers_stand_alone() {
    let place = tempfile::tempdir().unwrap();
    for header in ["strongroom.h", "strongroom/sqlfs.h"] {
        let source = place.path().join("alone.c");
        let text =
            format!("#include \"{header}\"\nint main(void) {{ return sr_abi() != SR_ABI; }}\n");
        std::fs::write(&source, text).unwrap();
        let program = Program::compile(&[Path::new(&source)], Watched::No);
        program.run_well(&[]);
    }
}
