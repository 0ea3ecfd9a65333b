//! One state of a vault, read in many calls while others write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use strongroom::filesystem::{Error as FileError, XattrMode};
use strongroom::{Error, Links, NewRevision, OpenOptions, RevisionInfo, Vault};

use support::Place;

fn paths(walk: strongroom::Walk) -> Vec<String> {
    walk.map(|entry| String::from_utf8(entry.unwrap().path).unwrap())
        .collect()
}

#[test]
fn every_call_sees_the_state_that_was_taken_whatever_is_written_meanwhile() {
    let (place, owner) = Place::new();
    owner.create_dir_all("/a/b", 0o755).unwrap();
    owner.write("/a/b/file", "old").unwrap();
    owner.make_symlink("b/file", "/a/link").unwrap();
    owner
        .set_xattr("/a/b/file", Links::Follow, "user.k", "v", XattrMode::Set)
        .unwrap();
    let client = Vault::connect_if_owned(place.folder(), OpenOptions::default())
        .unwrap()
        .unwrap();
    for vault in [&owner, &client] {
        let state = vault.snapshot().unwrap();
        let open = state.open_file("/a/b/file").unwrap();
        vault.write("/a/b/file", "new").unwrap();
        vault.write("/a/more", "").unwrap();
        vault
            .rename(
                "/a",
                "/elsewhere",
                strongroom::filesystem::RenameMode::Replace,
            )
            .unwrap();
        assert_eq!(state.read("/a/b/file").unwrap(), b"old");
        assert_eq!(state.read_to_string("/a/link").unwrap(), "old");
        let mut through = vec![0; 9];
        assert_eq!(open.read_at(&mut through, 0).unwrap(), 3);
        assert_eq!(
            state.attributes("/a/b/file", Links::Follow).unwrap().size,
            3
        );
        assert!(state.exists("/a/b").unwrap() && !state.exists("/elsewhere").unwrap());
        assert_eq!(state.list("/a").unwrap().count(), 2);
        assert_eq!(
            paths(state.walk("/").unwrap()),
            ["/a", "/a/b", "/a/b/file", "/a/link"]
        );
        assert_eq!(state.read_link("/a/link").unwrap(), b"b/file");
        assert_eq!(
            state.xattr("/a/b/file", Links::Follow, "user.k").unwrap(),
            b"v"
        );
        assert_eq!(
            state.xattrs("/a/b/file", Links::Follow).unwrap(),
            [b"user.k"]
        );
        assert_eq!(vault.read("/elsewhere/b/file").unwrap(), b"new");
        // As it was, for the next one.
        vault
            .rename(
                "/elsewhere",
                "/a",
                strongroom::filesystem::RenameMode::Replace,
            )
            .unwrap();
        vault.remove_file("/a/more").unwrap();
        vault.write("/a/b/file", "old").unwrap();
    }
}

#[test]
fn a_state_that_was_taken_to_be_read_goes_with_its_last_reader_and_others_stay() {
    let (_place, vault) = Place::new();
    vault.write("/file", "1").unwrap();
    let state = vault.snapshot().unwrap();
    let second = state.clone();
    // Nothing has changed: the same state, and not this one's to remove.
    drop(vault.snapshot().unwrap());
    drop(state);
    assert_eq!(second.read("/file").unwrap(), b"1");
    assert_eq!(vault.revisions().unwrap().len(), 1);
    drop(second);
    assert!(vault.revisions().unwrap().is_empty());
    let new = NewRevision {
        message: "kept".to_owned(),
        tags: vec!["mine".to_owned()],
        only_if_changed: false,
    };
    let kept = vault.take_revision(&new).unwrap().unwrap();
    let state = vault.at("t:mine").unwrap();
    assert_eq!(state.id(), kept.id);
    drop(state);
    let state = vault.at("t:mine").unwrap();
    vault.remove_revision(kept.id).unwrap();
    assert!(matches!(state.read("/file"), Err(Error::Revision(_))));
    assert!(matches!(vault.at("t:mine"), Err(Error::Revision(_))));
}

/// Goal: a reader has its state as long as it reads. Method: two take the state of an unchanged vault, and the first ends. Failed before: the
/// second read what was the first one's to remove.
#[test]
fn a_second_reader_of_an_unchanged_state_goes_on_when_the_first_one_ends() {
    let (_place, vault) = Place::new();
    vault.write("/file", "1").unwrap();
    let first = vault.snapshot().unwrap();
    let second = vault.snapshot().unwrap();
    drop(first);
    assert_eq!(second.read("/file").unwrap(), b"1");
    assert_eq!(vault.revisions().unwrap().len(), 1);
    drop(second);
    assert!(vault.revisions().unwrap().is_empty());
    let named = take(&vault, "named").unwrap();
    let state = vault.snapshot().unwrap();
    assert_eq!(state.id(), named.id, "that one stays");
    drop(state);
    assert_eq!(vault.revisions().unwrap().len(), 1);
}

fn take(vault: &Vault, message: &str) -> Option<RevisionInfo> {
    let new = NewRevision {
        message: message.to_owned(),
        only_if_changed: true,
        ..NewRevision::default()
    };
    vault.take_revision(&new).unwrap()
}

/// Goal: what was to be kept before something is replaced is kept. Method: a program reads the state of that moment, and ends afterwards.
/// Failed before: nothing had changed since the state of the program, so none was taken; and that one went with the program.
#[test]
fn a_state_that_is_only_read_keeps_nothing_for_others() {
    let (_place, vault) = Place::new();
    vault.write("/a", "first").unwrap();
    let first = take(&vault, "first").unwrap();
    vault.write("/a", "second").unwrap();
    let state = vault.snapshot().unwrap();
    let kept = take(&vault, "before a change").unwrap();
    assert_eq!(take(&vault, "before another"), None);
    drop(state);
    let path = format!("/.history/{}/a", kept.id);
    assert_eq!(vault.read(path).unwrap(), b"second");
    vault.write("/a", "third").unwrap();
    let state = vault.snapshot().unwrap();
    let message = "before restoring /a from 0123456789abcdef";
    let restored = vault.restore_keeping(first.id, "/a", "/a", message);
    drop(state);
    let kept = restored.unwrap().snapshot_meanwhile.unwrap();
    let path = format!("/.history/{kept}/.strongroom-restore-0");
    assert_eq!(vault.read(path).unwrap(), b"third");
    assert_eq!(vault.check().unwrap().problems, [] as [String; 0]);
}

/// What would give something of another state than the one that is read is refused.
#[test]
fn no_path_and_no_symlink_leads_out_of_a_snapshot() {
    let (_place, vault) = Place::new();
    vault.create_dir_all("/a", 0o755).unwrap();
    vault.write("/a/file", "old").unwrap();
    vault.make_symlink("/a", "/absolute").unwrap();
    vault.make_symlink("../../a", "/above").unwrap();
    let state = vault.snapshot().unwrap();
    vault.write("/a/file", "new").unwrap();
    for path in ["/absolute/file", "/a/../a/file", "/..", "a/file"] {
        let read = state.read(path);
        let refused = matches!(read, Err(Error::File(FileError::InvalidArgument(_))));
        assert!(refused, "{path}: {read:?}");
    }
    assert!(state.read("/above/file").is_err());
    for refused in [
        state.list("/absolute").map(drop),
        state.walk("/absolute").map(drop),
        state.xattrs("/absolute", Links::Follow).map(drop),
    ] {
        let refused_so = matches!(refused, Err(Error::File(FileError::InvalidArgument(_))));
        assert!(refused_so, "{refused:?}");
    }
    assert!(matches!(
        state.read("/none"),
        Err(Error::File(FileError::NotFound))
    ));
}
