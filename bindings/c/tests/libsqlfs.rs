//! Programs that were written for libsqlfs: each of its functions is in `sqlfs.h` or has a reason, and what its own tests do comes to the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::{Program, Watched, crate_folder, said};

/// The functions of libsqlfs that `sqlfs.h` has.
const HERE: [&str; 41] = [
    "sqlfs_init_password",
    "sqlfs_init_key",
    "sqlfs_destroy",
    "sqlfs_detach_thread",
    "sqlfs_instance_count",
    "sqlfs_rekey",
    "sqlfs_open_password",
    "sqlfs_open_key",
    "sqlfs_close",
    "sqlfs_change_password",
    "sqlfs_begin_transaction",
    "sqlfs_complete_transaction",
    "sqlfs_break_transaction",
    "sqlfs_is_dir",
    "sqlfs_del_tree",
    "sqlfs_proc_getattr",
    "sqlfs_proc_access",
    "sqlfs_proc_create",
    "sqlfs_proc_readlink",
    "sqlfs_proc_readdir",
    "sqlfs_proc_mknod",
    "sqlfs_proc_mkdir",
    "sqlfs_proc_unlink",
    "sqlfs_proc_rmdir",
    "sqlfs_proc_symlink",
    "sqlfs_proc_rename",
    "sqlfs_proc_link",
    "sqlfs_proc_chmod",
    "sqlfs_proc_chown",
    "sqlfs_proc_truncate",
    "sqlfs_proc_utime",
    "sqlfs_proc_open",
    "sqlfs_proc_read",
    "sqlfs_proc_write",
    "sqlfs_proc_statfs",
    "sqlfs_proc_release",
    "sqlfs_proc_fsync",
    "sqlfs_proc_setxattr",
    "sqlfs_proc_getxattr",
    "sqlfs_proc_listxattr",
    "sqlfs_proc_removexattr",
];

/// Those that it has not. The README says what a program does instead.
const LEFT_OUT: [&str; 10] = [
    "sqlfs_init",
    "sqlfs_open",
    "sqlfs_fuse_main",
    "sqlfs_del_tree_with_exclusion",
    "sqlfs_get_value",
    "sqlfs_set_value",
    "sqlfs_get_attr",
    "sqlfs_set_attr",
    "sqlfs_set_type",
    "sqlfs_list_keys",
];

fn read(path: &str) -> String {
    fs::read_to_string(crate_folder().join(path)).unwrap()
}

/// Goal: nobody finds out at the linker what is missing. Method: lists of all functions, compared with the header, the programs and the README.
#[test]
fn each_function_of_libsqlfs_is_there_and_used_or_has_a_reason() {
    let header = read("include/strongroom/sqlfs.h") + &read("include/strongroom/sqlfs_vault.h");
    let programs = read("examples/sqlfs.c") + &read("tests/libsqlfs.c");
    let readme = read("README.md");
    for name in HERE {
        assert!(header.contains(&format!(" {name}(")), "{name}");
        let is_called = programs.contains(&format!("{name}("));
        assert!(is_called, "no program calls {name}");
    }
    for name in LEFT_OUT {
        assert!(!header.contains(&format!(" {name}(")), "{name} is there");
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}

/// What its own tests do with passwords, keys, files and directories; nothing is left behind, nothing undefined.
#[test]
fn what_the_tests_of_libsqlfs_do_comes_to_the_same() {
    let place = tempfile::tempdir().unwrap();
    let sources = ["tests/libsqlfs.c", "tests/libsqlfs_shared.c"].map(Path::new);
    let program = Program::compile(&sources, Watched::Sanitizers);
    let output = Command::new(program.path())
        .arg(place.path())
        .env("HOME", place.path())
        .env("XDG_STATE_HOME", place.path().join("state"))
        .envs(program.environment())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(output.stdout, b"all as in its own tests\n");
}
