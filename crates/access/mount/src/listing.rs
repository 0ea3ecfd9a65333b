//! Turns a directory into pages of entries, as large as the kernel asks for.
//!
//! Takes   a position in the listing (the cookie of the last entry seen), and a page to fill
//! Gives   the page filled, `.` and `..` first
//! Never   keeps a reference on a node that did not fit on the page (invariant 2 of the crate)

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{Errno, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use strongroom::filesystem::{Caller, InodeId, ListedEntry, Listing};

use crate::attributes::{GENERATION, View, file_type, inode, nameless};
use crate::errno::errno;
use crate::limits;
use crate::references::References;
use crate::shared::Shared;

/// Cookies of the two names every directory has; those of the file system start above.
const COOKIE_OF_SELF: u64 = 1;
const COOKIE_OF_PARENT: u64 = 2;

/// What is filled: a reply, or a list in a test. Both say `true` when the entry did not fit.
trait Page {
    /// `.` or `..`: never counted as a reference.
    fn add_directory(&mut self, inode: InodeId, cookie: u64, name: &str) -> bool;
    fn add(&mut self, entry: &ListedEntry) -> Result<bool, Errno>;
}

impl Page for ReplyDirectory {
    fn add_directory(&mut self, inode: InodeId, cookie: u64, name: &str) -> bool {
        Self::add(
            self,
            INodeNo(inode.0),
            cookie,
            fuser::FileType::Directory,
            name,
        )
    }

    fn add(&mut self, entry: &ListedEntry) -> Result<bool, Errno> {
        let name = OsStr::from_bytes(&entry.name);
        Ok(Self::add(
            self,
            INodeNo(entry.inode.0),
            entry.cookie,
            file_type(entry.kind),
            name,
        ))
    }
}

/// A page with attributes, as `view` shows them.
struct PageWithAttributes<'a> {
    reply: &'a mut ReplyDirectoryPlus,
    view: View,
    references: &'a References,
    ttl: &'static Duration,
}

impl Page for PageWithAttributes<'_> {
    fn add_directory(&mut self, inode: InodeId, cookie: u64, name: &str) -> bool {
        let attributes = nameless(inode.0);
        self.reply.add(
            INodeNo(inode.0),
            cookie,
            name,
            &Duration::ZERO,
            &attributes,
            GENERATION,
        )
    }

    fn add(&mut self, entry: &ListedEntry) -> Result<bool, Errno> {
        let attributes = entry.attributes.as_ref().ok_or(Errno::EIO)?;
        let shown = self.view.attributes(attributes);
        let (number, name) = (shown.ino, OsStr::from_bytes(&entry.name));
        let is_full = self
            .reply
            .add(number, entry.cookie, name, self.ttl, &shown, GENERATION);
        if !is_full {
            self.references.add(attributes.inode);
        }
        Ok(is_full)
    }
}

/// Fills `page` with what follows `after`.
///
/// `list(after, limit)` gives entries; `give_back` takes those that did not fit. An error counts only
/// while the page is empty: references on the page are already the kernel's, so the page must go out.
fn fill(
    page: &mut impl Page,
    (directory, parent): (InodeId, InodeId),
    mut after: u64,
    mut list: impl FnMut(u64, usize) -> Result<Vec<ListedEntry>, Errno>,
    give_back: impl Fn(&ListedEntry),
) -> Result<(), Errno> {
    let mut is_empty = true;
    for (cookie, inode, name) in [
        (COOKIE_OF_SELF, directory, "."),
        (COOKIE_OF_PARENT, parent, ".."),
    ] {
        if after < cookie {
            if page.add_directory(inode, cookie, name) {
                return Ok(());
            }
            (after, is_empty) = (cookie, false);
        }
    }
    let mut limit = limits::LISTING_FIRST;
    loop {
        let entries = match list(after, limit) {
            Ok(entries) => entries,
            Err(error) => return if is_empty { Err(error) } else { Ok(()) },
        };
        let is_last = entries.len() < limit;
        let mut rest = entries.iter();
        for entry in rest.by_ref() {
            match page.add(entry) {
                Ok(false) => (after, is_empty) = (entry.cookie, false),
                ended => {
                    give_back(entry);
                    rest.for_each(&give_back);
                    return if is_empty { ended.map(|_| ()) } else { Ok(()) };
                }
            }
        }
        if is_last {
            return Ok(());
        }
        limit = limits::LISTING_MORE;
    }
}

impl Shared {
    pub(crate) fn list(
        &self,
        caller: &Caller,
        node: INodeNo,
        after: u64,
        page: &mut ReplyDirectory,
    ) -> Result<(), Errno> {
        let filesystem = self.gate.enter()?;
        let directory = inode(node);
        let parent = parent_for(after, directory, || filesystem.parent(directory))?;
        let list = |after, limit| {
            filesystem
                .list(caller, directory, after, limit, Listing::Names)
                .map_err(|error| errno(&error))
        };
        fill(page, (directory, parent), after, list, |_| ())
    }

    pub(crate) fn list_with_attributes(
        &self,
        caller: &Caller,
        node: INodeNo,
        after: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Errno> {
        let filesystem = self.gate.enter()?;
        let directory = inode(node);
        let parent = parent_for(after, directory, || filesystem.parent(directory))?;
        let list = |after, limit| {
            let listed = filesystem.list(caller, directory, after, limit, Listing::WithReferences);
            listed.map_err(|error| errno(&error))
        };
        let mut page = PageWithAttributes {
            reply,
            view: self.view,
            references: &self.references,
            ttl: limits::ttl_in(directory),
        };
        fill(&mut page, (directory, parent), after, list, |entry| {
            filesystem.forget(entry.inode, 1)
        })
    }
}

/// The parent is asked for only when `..` is still to be listed. A directory that was removed while
/// a process works in it has none: it is listed as its own.
fn parent_for(
    after: u64,
    directory: InodeId,
    parent: impl FnOnce() -> strongroom::filesystem::Result<InodeId>,
) -> Result<InodeId, Errno> {
    use strongroom::filesystem::Error;
    if after >= COOKIE_OF_PARENT {
        return Ok(directory);
    }
    match parent() {
        Ok(parent) => Ok(parent),
        Err(Error::NotFound | Error::Stale) => Ok(directory),
        Err(error) => Err(errno(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use strongroom::filesystem::NodeKind;

    struct TestPage {
        room: usize,
        cookies: Vec<u64>,
        broken: Option<u64>,
    }

    impl Page for TestPage {
        fn add_directory(&mut self, _: InodeId, cookie: u64, _: &str) -> bool {
            if self.cookies.len() == self.room {
                return true;
            }
            self.cookies.push(cookie);
            false
        }

        fn add(&mut self, entry: &ListedEntry) -> Result<bool, Errno> {
            if self.broken == Some(entry.cookie) {
                return Err(Errno::EIO);
            }
            Ok(self.add_directory(entry.inode, entry.cookie, ""))
        }
    }

    fn entry(cookie: u64) -> ListedEntry {
        let inode = InodeId(cookie + 1000);
        ListedEntry {
            name: b"x".to_vec(),
            inode,
            kind: NodeKind::File,
            cookie,
            attributes: None,
        }
    }

    /// A directory with cookies 3..=last; counts references taken and not given back.
    struct Directory {
        last: u64,
        references: Cell<i64>,
        fails_after: Option<u64>,
        limits: RefCell<Vec<usize>>,
    }

    impl Directory {
        fn new(last: u64) -> Self {
            Self {
                last,
                references: Cell::new(0),
                fails_after: None,
                limits: RefCell::default(),
            }
        }

        fn page(
            &self,
            room: usize,
            after: u64,
            broken: Option<u64>,
        ) -> (Vec<u64>, Result<(), Errno>) {
            let mut page = TestPage {
                room,
                cookies: Vec::new(),
                broken,
            };
            let list = |after: u64, limit: usize| {
                if self.fails_after.is_some_and(|fails| after >= fails) {
                    return Err(Errno::EIO);
                }
                self.limits.borrow_mut().push(limit);
                let entries: Vec<_> = (after.max(2) + 1..=self.last)
                    .take(limit)
                    .map(entry)
                    .collect();
                self.references
                    .set(self.references.get() + i64::try_from(entries.len()).unwrap());
                Ok(entries)
            };
            let give_back = |_: &ListedEntry| self.references.set(self.references.get() - 1);
            let result = fill(&mut page, (InodeId(1), InodeId(1)), after, list, give_back);
            (page.cookies, result)
        }
    }

    #[test]
    fn pages_together_name_every_entry_once_and_in_order() {
        for room in [1, 2, 3, 7, 24, 195, 5000] {
            let directory = Directory::new(1002);
            let (mut after, mut seen) = (0, Vec::new());
            loop {
                let (cookies, result) = directory.page(room, after, None);
                assert_eq!(result, Ok(()));
                let Some(last) = cookies.last() else { break };
                after = *last;
                seen.extend(cookies);
            }
            assert_eq!(seen, (1..=1002).collect::<Vec<_>>(), "room for {room}");
            assert_eq!(directory.references.get(), 1000, "room for {room}");
        }
    }

    #[test]
    fn what_did_not_fit_is_given_back() {
        let directory = Directory::new(102);
        let (cookies, result) = directory.page(12, 0, None);
        assert_eq!(result, Ok(()));
        assert_eq!(cookies, (1..=12).collect::<Vec<_>>());
        assert_eq!(directory.references.get(), 10);
    }

    #[test]
    fn a_page_of_the_usual_size_needs_one_or_two_calls() {
        let directory = Directory::new(10_000);
        assert_eq!(directory.page(195, 0, None).1, Ok(()));
        assert_eq!(
            *directory.limits.borrow(),
            [limits::LISTING_FIRST, limits::LISTING_MORE]
        );
    }

    #[test]
    fn an_error_after_the_first_entry_waits_for_the_next_page() {
        let mut directory = Directory::new(10_000);
        directory.fails_after = Some(3);
        let (cookies, result) = directory.page(5000, 0, None);
        assert_eq!(result, Ok(()));
        assert_eq!(cookies.len(), 2 + limits::LISTING_FIRST);
        let (cookies, result) = directory.page(5000, cookies[cookies.len() - 1], None);
        assert_eq!((cookies, result), (Vec::new(), Err(Errno::EIO)));
    }

    #[test]
    fn an_entry_that_cannot_be_told_ends_the_page_and_leaks_nothing() {
        let directory = Directory::new(50);
        let (cookies, result) = directory.page(5000, 0, Some(10));
        assert_eq!((cookies.len(), result), (9, Ok(())));
        assert_eq!(directory.references.get(), 7);
        let (cookies, result) = directory.page(5000, 9, Some(10));
        assert_eq!((cookies, result), (Vec::new(), Err(Errno::EIO)));
        assert_eq!(directory.references.get(), 7);
    }
}
