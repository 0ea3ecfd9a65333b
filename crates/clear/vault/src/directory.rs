//! Lists a directory piece by piece, whatever its size.

use crate::Result;
use crate::limits::LIST_ENTRIES_MAX;
use crate::owner::port::{Port, unexpected};
use crate::request::{DirectoryEntry, Handle, Request};

/// The entries of an open directory, in the order they were made.
///
/// Entries that are made or removed meanwhile may or may not be seen; every other is seen exactly once.
pub struct Directory {
    port: Port,
    handle: Handle,
    after: u64,
    page: std::vec::IntoIter<(u64, DirectoryEntry)>,
    ended: bool,
}

impl Directory {
    pub(crate) fn new(port: Port, handle: Handle) -> Self {
        Self {
            port,
            handle,
            after: 0,
            page: Vec::new().into_iter(),
            ended: false,
        }
    }

    fn next_page(&mut self) -> Result<()> {
        let request = Request::List {
            handle: self.handle,
            after: self.after,
            limit: LIST_ENTRIES_MAX,
        };
        let entries: Vec<(u64, DirectoryEntry)> = self.port.ask_here(&request)?.try_into()?;
        match entries.last() {
            // Cookies rise; an answer that does not must not make this loop for ever.
            Some((cookie, _)) if *cookie > self.after => self.after = *cookie,
            Some(_) => return Err(unexpected()),
            None => self.ended = true,
        }
        self.page = entries.into_iter();
        Ok(())
    }
}

impl Iterator for Directory {
    type Item = Result<DirectoryEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((_, entry)) = self.page.next() {
                return Some(Ok(entry));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.next_page() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A session that has gone has closed everything already.
        let _ = self.port.ask(&Request::Close {
            handle: self.handle,
        });
    }
}
