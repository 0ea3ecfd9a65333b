//! What nobody waits for: space, purges, old keys.

pub(crate) mod background;
pub(crate) mod defragment;
pub(crate) mod epoch;
pub(crate) mod purge;
pub(crate) mod reseal;
pub(crate) mod room;
pub(crate) mod space;
