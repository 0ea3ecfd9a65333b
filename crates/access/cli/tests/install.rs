//! Checks the files that `make install` installs, and whether the installed program works. Only a temporary folder is touched.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{MountPoint, Place};

/// Runs `tools/install.sh` into `place`.
fn install(place: &Place) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tools/install.sh");
    let installed = Command::new(script)
        .env("PREFIX", place.path("usr"))
        .env("SBINDIR", place.path("sbin"))
        .env_remove("DESTDIR")
        .env("STRONGROOM", env!("CARGO_BIN_EXE_strongroom"))
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
}

#[test]
fn a_line_of_fstab_is_mounted_by_the_helper_that_is_installed() {
    let place = Place::new();
    install(&place);
    fs::create_dir(place.path("m")).unwrap();
    let _mount = MountPoint::new(&place);
    let key = format!(
        "rw,noauto,nofail,x-systemd.automount,umask=077,key-file={}",
        place.path("key").display()
    );
    // As mount(8) calls it for `VAULT DIR fuse.strongroom OPTIONS`.
    let helper = place.path("sbin/mount.fuse.strongroom");
    let mount = |options: &str| {
        let environment = place.command(&[]);
        let set = environment.get_envs();
        let set = set.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Command::new(&helper)
            .args(["v", "m", "-t", "fuse.strongroom", "-o", options])
            .envs(set)
            .current_dir(place.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let refused = mount("noexec");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let mounted = mount(&key);
    assert!(mounted.status.success(), "{mounted:?}");
    fs::write(place.path("m/file"), "by fstab").unwrap();
    place.done(&["umount", "m"]);
    assert_eq!(place.keyed(&["cat", "v:/file"]), "by fstab");
}

#[test]
fn the_units_are_whole_and_what_they_start_is_installed() {
    let place = Place::empty();
    install(&place);
    let program = place.path("usr/bin/strongroom");
    for (kind, wanted) in [("system", "multi-user.target"), ("user", "default.target")] {
        let path = place.path(&format!("usr/lib/systemd/{kind}/strongroom@.service"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("ExecStart={} mount", program.display())));
        assert!(text.contains(&format!("WantedBy={wanted}")));
        assert!(!text.contains("@BIN@") && !text.contains("@WANTED_BY@"));
        // Where systemd is there, it says whether it would take the unit.
        let verify = Command::new("systemd-analyze")
            .env("XDG_RUNTIME_DIR", place.path("run"))
            .args(["verify", "--man=no", &format!("--{kind}")])
            .arg(&path)
            .output();
        if let Ok(verified) = verify {
            assert!(verified.status.success(), "{verified:?}");
        }
    }
    for file in [
        "share/man/man1/strongroom-umount.1",
        "share/fish/vendor_completions.d/strongroom.fish",
    ] {
        assert!(place.path("usr").join(file).is_file(), "{file}");
    }
}
