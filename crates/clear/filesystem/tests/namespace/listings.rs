//! Listings.

use strongroom_filesystem::{Error, InodeId, ListedEntry, Listing, NodeKind, SetAttributes};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

fn page(
    lab: &Lab,
    directory: InodeId,
    after: u64,
    limit: usize,
    listing: Listing,
) -> Vec<ListedEntry> {
    lab.list(&superuser(), directory, after, limit, listing)
        .expect("lists")
}

#[test]
fn pages_join_to_the_whole_in_the_order_of_cookies() {
    let lab = Lab::new();
    for n in 0..100 {
        lab.file(ROOT, &n.to_string());
    }
    let whole = page(&lab, ROOT, 0, 1000, Listing::Names);
    assert_eq!(whole.len(), 100);
    assert!(whole.windows(2).all(|pair| pair[0].cookie < pair[1].cookie));
    assert!(whole[0].cookie > 2, "the first cookies belong to . and ..");
    let mut joined = Vec::new();
    while let Some(last) = joined
        .last()
        .map_or(Some(0), |entry: &ListedEntry| Some(entry.cookie))
    {
        let next = page(&lab, ROOT, last, 7, Listing::Names);
        if next.is_empty() {
            break;
        }
        joined.extend(next);
    }
    assert_eq!(joined, whole);
}

#[test]
fn what_stays_is_listed_once_whatever_comes_and_goes_meanwhile() {
    let lab = Lab::new();
    for n in 0..60 {
        lab.file(ROOT, &format!("stays {n}"));
        lab.file(ROOT, &format!("goes {n}"));
    }
    let mut seen = Vec::new();
    let (mut after, mut round) = (0, 0);
    loop {
        let next = page(&lab, ROOT, after, 5, Listing::Names);
        let Some(last) = next.last() else { break };
        after = last.cookie;
        seen.extend(
            next.into_iter()
                .map(|entry| String::from_utf8(entry.name).expect("UTF-8")),
        );
        if round < 60 {
            lab.unlink(&superuser(), ROOT, format!("goes {round}").as_bytes())
                .expect("removed");
            lab.file(ROOT, &format!("comes {round}"));
        }
        round += 1;
    }
    let mut stays: Vec<_> = seen
        .iter()
        .filter(|name| name.starts_with("stays"))
        .collect();
    stays.sort();
    stays.dedup();
    assert_eq!(stays.len(), 60);
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "nothing was listed twice");
}

/// Failed before: a renamed entry went to the end, so that whoever read the directory and renamed what it found never came to one.
#[test]
fn a_renamed_entry_keeps_its_place_and_so_does_a_replaced_one() {
    let lab = Lab::new();
    for name in ["a", "b", "c"] {
        lab.file(ROOT, name);
    }
    let replace = |from: &[u8], to: &[u8]| {
        lab.rename(
            &superuser(),
            ROOT,
            from,
            ROOT,
            to,
            strongroom_filesystem::RenameMode::Replace,
        )
        .expect("renamed");
    };
    let names = || {
        page(&lab, ROOT, 0, 10, Listing::Names)
            .into_iter()
            .map(|entry| entry.name)
            .collect::<Vec<_>>()
    };
    replace(b"a", b"d");
    assert_eq!(names(), [b"d", b"b", b"c"]);
    replace(b"d", b"b");
    assert_eq!(names(), [b"b", b"c"]);
}

#[test]
fn attributes_in_a_listing_are_those_of_stat() {
    let mut lab = Lab::new();
    let kinds = [
        NodeKind::File,
        NodeKind::Directory,
        NodeKind::Symlink,
        NodeKind::Fifo,
    ];
    for kind in kinds {
        lab.make(ROOT, &format!("stored {kind:?}"), kind, 0o640);
    }
    lab.reopen();
    for kind in kinds {
        lab.make(ROOT, &format!("new {kind:?}"), kind, 0o600);
    }
    let changed = lab.find(ROOT, "stored File").expect("there");
    lab.write(changed, 0, b"content").expect("written");
    let set = SetAttributes {
        uid: Some(9),
        ..SetAttributes::default()
    };
    lab.set_attributes(&superuser(), changed, &set)
        .expect("set");
    let listed = page(&lab, ROOT, 0, 100, Listing::WithAttributes);
    assert_eq!(listed.len(), 8);
    for entry in listed {
        let attributes = entry.attributes.expect("asked for");
        assert_eq!(
            (attributes.inode, attributes.kind),
            (entry.inode, entry.kind)
        );
        assert_eq!(attributes, lab.stat(entry.inode));
    }
    assert!(
        page(&lab, ROOT, 0, 100, Listing::Names)
            .iter()
            .all(|entry| entry.attributes.is_none())
    );
}

#[test]
fn a_listing_with_references_takes_one_on_each_node() {
    let mut lab = Lab::new();
    lab.file(ROOT, "f");
    lab.reopen();
    let inode = page(&lab, ROOT, 0, 10, Listing::WithReferences)[0].inode;
    page(&lab, ROOT, 0, 10, Listing::WithAttributes);
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    lab.tick().expect("background work");
    assert_eq!(lab.stat(inode).nlink, 0);
    lab.forget(inode, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(inode), Error::Stale);
}

#[test]
fn a_listing_needs_leave_to_read_and_with_attributes_to_search() {
    let lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    lab.file(directory, "f");
    let list = |listing| lab.list(&user(5), directory, 0, 10, listing);
    lab.chmod(directory, 0o700);
    assert_refused!(list(Listing::Names), Error::PermissionDenied);
    lab.chmod(directory, 0o704);
    assert_eq!(list(Listing::Names).expect("readable").len(), 1);
    assert_refused!(list(Listing::WithAttributes), Error::PermissionDenied);
    assert_refused!(list(Listing::WithReferences), Error::PermissionDenied);
    lab.chmod(directory, 0o705);
    assert_eq!(list(Listing::WithAttributes).expect("searchable").len(), 1);
    let file = lab.file(ROOT, "f");
    assert_refused!(
        lab.list(&superuser(), file, 0, 10, Listing::Names),
        Error::NotADirectory
    );
    assert_refused!(
        lab.list(&superuser(), InodeId(999_999), 0, 10, Listing::Names),
        Error::Stale
    );
}

#[test]
fn a_listing_costs_one_statement_a_page() {
    let lab = Lab::new();
    for n in 0..500 {
        lab.file(ROOT, &n.to_string());
    }
    lab.sync().expect("durable");
    for listing in [Listing::Names, Listing::WithAttributes] {
        let before = lab.counters().metadata.statements;
        assert_eq!(page(&lab, ROOT, 0, 500, listing).len(), 500);
        assert_eq!(
            lab.counters().metadata.statements - before,
            1,
            "{listing:?}"
        );
    }
}
