//! Programs in C, compiled against the library of this build and run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What every program is compiled with.
const FLAGS: [&str; 6] = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];

/// This crate's folder.
pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo put the library: beside the tests.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().to_path_buf();
    assert!(
        folder.join("libstrongroom_c.so").exists(),
        "no libstrongroom_c.so in {}",
        folder.display()
    );
    folder
}

/// The compiler: `$CC`, else `cc`.
pub(crate) fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// A program, compiled.
pub(crate) struct Program {
    place: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
}

/// What looks over a program's shoulder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    No,
    /// AddressSanitizer with leaks, and UndefinedBehaviorSanitizer.
    Sanitizers,
}

impl Program {
    /// Compiles `sources`. An absolute path is taken as it is, another one is below this crate.
    pub(crate) fn compile(sources: &[&Path], watched: Watched) -> Self {
        let place = tempfile::tempdir().unwrap();
        let library = library_folder();
        // The program is linked with the name that the library has once it is installed.
        let linked = place.path().join("libstrongroom.so");
        std::os::unix::fs::symlink(library.join("libstrongroom_c.so"), &linked).unwrap();
        std::os::unix::fs::symlink(&linked, place.path().join("libstrongroom.so.0")).unwrap();
        let mut command = Command::new(compiler());
        command.args(FLAGS);
        if watched == Watched::Sanitizers {
            command.args([
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
                "-fno-omit-frame-pointer",
            ]);
        }
        command.arg("-I").arg(crate_folder().join("include"));
        command
            .arg("-I")
            .arg(crate_folder().join("include/strongroom"));
        command.arg("-I").arg(crate_folder().join("tests/table"));
        command.args(sources.iter().map(|source| crate_folder().join(source)));
        command
            .arg("-L")
            .arg(place.path())
            .arg("-lstrongroom")
            .arg("-lpthread");
        let output = command.arg("-o").arg(place.path().join("program")).output();
        let output = output.expect("a C compiler; on Debian or Ubuntu: sudo apt-get install gcc");
        assert!(output.status.success(), "{}", said(&output));
        let libraries = place.path().display().to_string();
        let mut environment = vec![("LD_LIBRARY_PATH", libraries)];
        if watched == Watched::Sanitizers {
            let options = "detect_leaks=1:abort_on_error=0:exitcode=9";
            environment.push(("ASAN_OPTIONS", options.to_owned()));
        }
        Self { place, environment }
    }

    /// The path of the program.
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path().join("program")
    }

    /// What it needs in its environment.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.environment
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
    }

    /// Runs it with `arguments`, under `before` if that names a program.
    pub(crate) fn run(&self, before: &[&str], arguments: &[&str]) -> Output {
        let mut words: Vec<std::ffi::OsString> = before.iter().map(Into::into).collect();
        words.push(self.path().into());
        words.extend(arguments.iter().map(Into::into));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.envs(self.environment());
        command.output().unwrap()
    }

    /// Runs it and gives what it printed; it must end well.
    pub(crate) fn run_well(&self, arguments: &[&str]) -> String {
        let output = self.run(&[], arguments);
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Everything that a program said, for the message of a test.
pub(crate) fn said(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// What is before a program that valgrind watches: it ends with an error if it finds anything.
pub(crate) fn valgrind() -> Vec<String> {
    assert!(has("valgrind"), "sudo apt-get install valgrind");
    let suppressions = crate_folder().join("tests/valgrind.supp");
    let mut words: Vec<String> = [
        "valgrind",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ]
    .map(str::to_owned)
    .into();
    words.push(format!("--suppressions={}", suppressions.display()));
    words
}

/// Whether a program of that name is there.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Whether the compiler can watch programs: it may lack the libraries of the sanitizers.
pub(crate) fn has_sanitizers() -> bool {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let output = Command::new(compiler())
        .args(["-fsanitize=address,undefined", "-o"])
        .arg(place.path().join("empty"))
        .arg(&source)
        .output();
    output.is_ok_and(|output| output.status.success())
}
