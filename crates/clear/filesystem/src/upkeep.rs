//! Space, purges, old keys and durability: background work, and operations that callers wait for.

pub(crate) mod background;
pub(crate) mod compact;
pub(crate) mod defragment;
pub(crate) mod epoch;
pub(crate) mod erase;
pub(crate) mod evict;
pub(crate) mod limit;
pub(crate) mod purge;
pub(crate) mod reseal;
pub(crate) mod room;
pub(crate) mod space;
pub(crate) mod sync;
pub(crate) mod urgent;
