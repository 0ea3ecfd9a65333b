//! Puts the pages of a listing together.
//!
//! Takes   the pages of a server
//! Gives   the objects that they name
//! Never   takes more names than the caller allows, or asks for a page again

use crate::error::{Error, Result};
use crate::object_name::is_object;
use crate::protocol::Page;
use crate::remote::Listed;

/// A listing, as far as it came.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) all: Vec<Listed>,
    /// Names that came, also those that are no objects.
    came: usize,
    /// The last of them, or what comes before the first.
    pub(crate) after: String,
}

impl Listing {
    /// One of the names behind `after`.
    pub(crate) fn behind(after: &str) -> Self {
        Self {
            after: after.to_owned(),
            ..Self::default()
        }
    }

    /// Takes the next page; gives whether there are more. Whatever a server says, `names_max` names are the end of it.
    pub(crate) fn take(&mut self, kind: &str, page: Page, names_max: usize) -> Result<bool> {
        if page.more && page.objects.is_empty() {
            let text = "the remote says that it has more names, and lists none";
            return Err(Error::Other(text.to_owned()));
        }
        for object in page.objects {
            if object.name <= self.after {
                return Err(Error::Other("the remote lists names out of order".into()));
            }
            if self.came == names_max {
                return Err(Error::Other(format!("too many {kind}: over {names_max}")));
            }
            self.came += 1;
            self.after.clone_from(&object.name);
            if is_object(kind, &object.name) {
                self.all.push(Listed {
                    name: object.name,
                    len: object.len,
                    created_s: object.created_s,
                    kept_until_s: object.kept_until_s,
                });
            }
        }
        Ok(page.more)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::protocol::PageObject;

    fn page(names: &[&str], more: bool) -> Page {
        let object = |name: &&str| PageObject {
            name: (*name).to_owned(),
            len: 1,
            created_s: 0,
            kept_until_s: 0,
        };
        let objects = names.iter().map(object).collect();
        Page { objects, more }
    }

    /// Goal: no server makes a listing endless, or its names unbounded. Failed before: a page without a name was asked for again and again,
    /// and names that are no objects did not count.
    #[test]
    fn a_listing_ends_whatever_the_server_says() {
        let mut listing = Listing::default();
        assert!(listing.take("a", page(&["1", "X"], true), 3).unwrap());
        let error = listing.take("a", page(&[], true), 3).unwrap_err();
        assert!(error.to_string().contains("lists none"), "{error}");
        let error = listing.take("a", page(&["X"], true), 3).unwrap_err();
        assert!(error.to_string().contains("out of order"), "{error}");
        assert!(!listing.take("a", page(&["Y"], false), 3).unwrap());
        let error = listing.take("a", page(&["Z"], false), 3).unwrap_err();
        assert!(error.to_string().contains("too many a: over 3"), "{error}");
        let names: Vec<_> = listing.all.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["1"]);
    }
}
