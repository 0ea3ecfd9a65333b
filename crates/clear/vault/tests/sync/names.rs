//! The names that people give devices.

use std::fs;
use std::path::Path;

use strongroom::filesystem::XattrMode;
use strongroom::{DEVICE_NAME_BYTES_MAX, Error, Keys, Links, NewRevision, Vault};

use crate::Devices;

/// The devices that a vault knows, by id, with their names; the one that its copy acts as first.
fn names(vault: &Vault) -> Vec<(String, Option<String>)> {
    let mut members = vault.information().unwrap().members;
    members.retain(|member| member.is_device);
    members.sort_by_key(|member| (!member.is_this, member.id.clone()));
    let fields = members.into_iter().map(|member| (member.id, member.name));
    fields.collect()
}

/// The same without the ids, of a vault that knows two.
fn two_names(vault: &Vault) -> [Option<String>; 2] {
    let names = names(vault).into_iter().map(|(_, name)| name);
    names.collect::<Vec<_>>().try_into().unwrap()
}

/// The attribute of the root directory that has the name of a device.
fn attribute_of(device: &str) -> String {
    format!("trusted.strongroom.device-name.{device}")
}

fn has_name(vault: &Vault, device: &str) -> bool {
    let found = vault.xattr("/", Links::Stay, attribute_of(device));
    found.is_ok()
}

/// Whether any file at or below `place` has these bytes, or has them in its name.
fn is_anywhere(place: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(place).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_anywhere(&path, bytes);
        }
        let has = |all: &[u8]| all.windows(bytes.len()).any(|window| window == bytes);
        // A socket cannot be read.
        has(&fs::read(&path).unwrap_or_default()) || has(path.to_string_lossy().as_bytes())
    })
}

/// Goal: names come to the other device, and no remote can read one. Of two names that devices give one device at the same time the one that
/// was published first stays on both; names of different devices stay both. Method: two devices that began without names, as every vault
/// of earlier versions.
#[test]
fn devices_agree_on_names_whoever_gives_them() {
    let devices = Devices::new(2, |_| {});
    devices.settle();
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let (first, second) = (names(one)[0].0.clone(), names(two)[0].0.clone());
    for vault in [one, two] {
        assert_eq!(two_names(vault), [None, None]);
    }
    // By the beginning of the id, in whatever case.
    let beginning = first[..10].to_ascii_uppercase();
    let renamed = one.rename_device(&beginning, "canary of the desk").unwrap();
    assert_eq!(renamed, first);
    devices.settle();
    let desk = Some("canary of the desk".to_owned());
    assert_eq!(two_names(one), [desk.clone(), None]);
    assert_eq!(two_names(two), [None, desk]);
    let remote = devices.place.directory.path().join("remote");
    assert!(!is_anywhere(&remote, b"canary of the desk"));
    assert!(!is_anywhere(&devices.folder(0), b"canary of the desk"));
    // Both at once: one device, and each another one.
    one.rename_device(&first, "of one").unwrap();
    two.rename_device(&first, "of two").unwrap();
    two.rename_device(&second, "laptop").unwrap();
    devices.sync(0);
    assert_eq!(devices.sync(1).pulled.conflicts, 0);
    devices.settle();
    let (first_name, second_name) = (Some("of one".to_owned()), Some("laptop".to_owned()));
    assert_eq!(two_names(one), [first_name.clone(), second_name.clone()]);
    assert_eq!(two_names(two), [second_name, first_name]);
    let newest = one.remote_status(crate::NAME).unwrap().newest;
    let known = |one: &strongroom::DevicePublication| one.name.is_some();
    assert!(newest.len() == 2 && newest.iter().all(known), "{newest:?}");
    two.rename_device(&first, "").unwrap();
    two.rename_device(&first, "").unwrap();
    devices.settle();
    assert_eq!(two_names(one), [None, Some("laptop".to_owned())]);
    devices.assert_same();
}

/// Goal: a name that deceives or is too long is refused, and counts for nothing where somebody stored one all the same; a wrong device is named.
#[test]
fn a_name_that_deceives_is_refused_at_the_door_and_when_it_is_read() {
    let devices = Devices::new(1, |_| {});
    let vault = &devices.vaults[0];
    let this = names(vault)[0].0.clone();
    let longest = "n".repeat(DEVICE_NAME_BYTES_MAX);
    vault.rename_device(&this, &longest).unwrap();
    let attribute = attribute_of(&this);
    let (above, endless) = (format!("{longest}n"), "n".repeat(1 << 20));
    let wrong = ["a\u{1b}[2Jb", "a\u{202e}b", "a\nb", "a\", this copy", " a"];
    for wrong in wrong.into_iter().chain([&*above, &endless]) {
        let refused = vault.rename_device(&this, wrong).unwrap_err();
        assert!(matches!(refused, Error::File(_)), "{refused}");
        assert!(refused.to_string().len() < 300, "{refused}");
        assert_eq!(names(vault)[0].1, Some(longest.clone()));
    }
    let stored = |value: &[u8]| {
        let set = XattrMode::Set;
        let done = vault.set_xattr("/", Links::Stay, &attribute, value, set);
        done.unwrap();
    };
    for value in [
        &b"a\xe2\x80\xaeb"[..],
        b"\xff",
        b"",
        b"a\0b",
        &endless.as_bytes()[..60_000],
    ] {
        stored(value);
        assert_eq!(names(vault)[0].1, None);
    }
    vault.rename_device(&this, "again").unwrap();
    assert_eq!(names(vault)[0].1.as_deref(), Some("again"));
    for unknown in ["", "zz", "0000000000000000"] {
        let refused = vault.rename_device(unknown, "x").unwrap_err();
        assert!(matches!(refused, Error::Keys(_)), "{refused}");
    }
}

/// Goal: a device that is removed loses its name with the next push, and the one that removed it keeps its own; a state that is brought back from before brings no name back.
#[test]
fn names_are_those_of_now_and_of_members() {
    let devices = Devices::new(2, |vault| {
        vault.write("/file", "content").unwrap();
    });
    devices.settle();
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let (first, second) = (names(one)[0].0.clone(), names(two)[0].0.clone());
    one.rename_device(&first, "before").unwrap();
    let before = one.take_revision(&NewRevision::default()).unwrap().unwrap();
    one.rename_device(&first, "now").unwrap();
    one.rename_device(&second, "laptop").unwrap();
    one.restore(before.id, "/", "/").unwrap();
    let expected = [Some("now".to_owned()), Some("laptop".to_owned())];
    assert_eq!(two_names(one), expected);
    devices.settle();
    assert!(has_name(one, &first) && has_name(one, &second));
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.remove_device(&second).unwrap();
    drop(keys);
    // This device was made new, too.
    let renewed = names(one)[0].0.clone();
    assert_ne!(renewed, first);
    devices.sync_once_sealed(0);
    assert_eq!(names(one), [(renewed, Some("now".to_owned()))]);
    assert!(!has_name(one, &first) && !has_name(one, &second));
    assert!(one.rename_device(&second, "again").is_err());
}
