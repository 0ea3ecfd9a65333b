//! What is allowed, and how names are spelled: pure functions.

pub(crate) mod name;
pub(crate) mod permission;
