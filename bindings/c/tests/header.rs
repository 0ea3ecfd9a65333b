//! The committed header is the one that the sources generate, every compiler accepts it, and every function refuses NULL and zeros.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use support::{Program, Watched, compiler, crate_folder, has, said};

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

/// Functions that catch no panic: they say a constant, or give memory back.
const WITHOUT_A_CALL: [&str; 13] = [
    "abi",
    "bytes_free",
    "candidate_free",
    "error_message",
    "evicted_free",
    "information_free",
    "names_free",
    "pulled_free",
    "remote_free",
    "remote_status_free",
    "slots_free",
    "snapshots_free",
    "version",
];

/// Goal: a panic reaches the frames of no program. Method: every function that calls the vault does so inside one of the functions of
/// `border.rs` that catch it, whose own tests panic.
#[test]
fn every_function_that_calls_the_vault_catches_panics() {
    let (mut catching, mut others) = (0, Vec::new());
    for file in std::fs::read_dir(crate_folder().join("src")).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for rest in source.split("extern \"C\" fn sr_").skip(1) {
            let name = rest.split('(').next().unwrap();
            let body = rest.split("\n}\n").next().unwrap();
            let catches = |guard: &&str| body.contains(*guard);
            match [" done(", " count(", " asked("].iter().any(catches) {
                true => catching += 1,
                false => others.push(name.to_owned()),
            }
        }
    }
    others.sort();
    assert_eq!(others, WITHOUT_A_CALL);
    assert!(catching > 80, "only {catching} functions found");
}

/// Goal: what users copy and include is clean for the compilers that they have. Method: that of this build, and clang where it is installed, look
/// at the examples with every warning as an error.
#[test]
fn the_examples_are_clean_for_every_compiler() {
    let include = crate_folder().join("include");
    for compiler in [compiler(), "clang".to_owned()] {
        if !has(&compiler) {
            eprintln!("left out: this machine has no {compiler}");
            continue;
        }
        for example in ["notes.c", "sqlfs.c"] {
            let output = Command::new(&compiler)
                .args(["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
                .arg("-I")
                .arg(&include)
                .arg("-I")
                .arg(include.join("strongroom"))
                .arg(crate_folder().join("examples").join(example))
                .output()
                .unwrap();
            assert!(output.status.success(), "{compiler}: {}", said(&output));
        }
    }
}

/// Alone, without another header before it.
#[test]
fn the_headers_stand_alone() {
    let place = tempfile::tempdir().unwrap();
    for header in [
        "strongroom.h",
        "strongroom/sqlfs.h",
        "strongroom/sqlfs_vault.h",
    ] {
        let source = place.path().join("alone.c");
        let text =
            format!("#include \"{header}\"\nint main(void) {{ return sr_abi() != SR_ABI; }}\n");
        std::fs::write(&source, text).unwrap();
        let program = Program::compile(&[Path::new(&source)], Watched::No);
        program.run_well(&[]);
    }
}

/// A function of the header.
struct Function {
    gives: String,
    name: String,
    parameters: Vec<String>,
}

impl Function {
    /// Reads a declaration without its semicolon; `None` if it declares something else.
    fn read(declaration: &str) -> Option<Self> {
        let is_function = !["typedef", "{", "}"]
            .iter()
            .any(|other| declaration.contains(other));
        let (before, inside) = declaration.split_once('(').filter(|_| is_function)?;
        let begin = before.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        let (gives, name) = before.split_at(begin + 1);
        let parameters = inside.trim_end().strip_suffix(')')?.split(',');
        Some(Self {
            gives: gives.trim().to_owned(),
            name: name.to_owned(),
            parameters: parameters
                .map(|one| one.trim().to_owned())
                .filter(|one| one != "void")
                .collect(),
        })
    }

    /// A call with NULL, with handles that were never open, and with zeros.
    fn call_with_nothing(&self) -> String {
        let nothing = self.parameters.iter().map(|parameter| {
            let kind = parameter.rsplit_once(' ').map_or("", |(kind, _)| kind);
            match kind {
                kind if parameter.contains('*') || ["sr_told", "sr_heard"].contains(&kind) => {
                    "NULL".to_owned()
                }
                handle if handle.starts_with("sr_") => format!("({handle}){{ 0 }}"),
                _ => "0".to_owned(),
            }
        });
        let nothing: Vec<String> = nothing.collect();
        format!("{}({})", self.name, nothing.join(", "))
    }
}

fn functions() -> Vec<Function> {
    let header = std::fs::read_to_string(crate_folder().join("include/strongroom.h")).unwrap();
    let is_code = |line: &&str| !line.starts_with('#') && !line.trim_start().starts_with("//");
    let code: Vec<&str> = header
        .lines()
        .filter(|line| *line != "extern \"C\" {")
        .filter(is_code)
        .collect();
    code.join("\n")
        .split(';')
        .filter_map(Function::read)
        .collect()
}

/// Goal: no pointer is followed before it is looked at, in no function. Method: each of the header is called with nothing but NULL and zeros.
#[test]
fn every_function_refuses_null_and_zeros() {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"strongroom.h\"\n\nstatic int wrong;\n\n\
         static void refused(const char *name, int64_t result)\n{\n    if (result >= 0) {\n        \
         printf(\"%s\\n\", name);\n        wrong = 1;\n    }\n}\n\nint main(void)\n{\n",
    );
    let (mut refusing, mut freeing) = (0, 0);
    for function in functions() {
        let call = function.call_with_nothing();
        match function.gives.as_str() {
            "int" | "int64_t" => {
                writeln!(text, "    refused(\"{}\", {call});", function.name).unwrap();
                refusing += 1;
            }
            "void" => {
                writeln!(text, "    {call};").unwrap();
                freeing += 1;
            }
            // What tells the version or the last error takes nothing.
            _ => assert!(function.parameters.is_empty(), "{}", function.name),
        }
    }
    text.push_str("    return wrong;\n}\n");
    assert!(
        refusing > 80 && freeing >= 5,
        "{refusing} and {freeing} functions"
    );
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("nothing.c");
    std::fs::write(&source, text).unwrap();
    for watched in [Watched::No, Watched::Sanitizers] {
        let printed = Program::compile(&[Path::new(&source)], watched).run_well(&[]);
        assert_eq!(printed, "", "each of these gives no error");
    }
}

/// What the linker wrote into a program or a library.
fn dynamic_section(of: &Path) -> String {
    let output = Command::new("readelf").arg("-dW").arg(of).output();
    let output = output.expect("readelf, which comes with the C compiler");
    String::from_utf8(output.stdout).unwrap()
}

/// Goal: a program does not run with a library of another interface unnoticed. Method: it asks for the library by a name that has the number;
/// and beside a header of another number, `sr_abi` gives what the library has.
#[test]
fn a_header_of_another_interface_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("abi.c");
    let text = "#include \"strongroom.h\"\nint main(void) { return sr_abi() != SR_ABI; }\n";
    std::fs::write(&source, text).unwrap();
    let program = Program::compile(&[Path::new(&source)], Watched::No);
    program.run_well(&[]);
    let library = std::env::current_exe().unwrap();
    let library = dynamic_section(&library.with_file_name("libstrongroom_c.so"));
    assert!(library.contains("[libstrongroom.so.0]"), "{library}");
    let needed = dynamic_section(&program.path());
    assert!(needed.contains("[libstrongroom.so.0]"), "{needed}");

    let header = std::fs::read_to_string(crate_folder().join("include/strongroom.h")).unwrap();
    let other = header.replace("#define SR_ABI 1\n", "#define SR_ABI 2\n");
    assert!(other != header, "the header says which interface it is");
    std::fs::write(place.path().join("strongroom.h"), other).unwrap();
    let program = Program::compile(&[Path::new(&source)], Watched::No);
    assert_eq!(program.run(&[], &[]).status.code(), Some(1));
}
