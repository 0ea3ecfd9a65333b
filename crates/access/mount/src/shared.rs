//! The state that all requests of one mount share. Each request is a method of this state; each kind of request has a file.
//!
//! Takes   the parts of a mount
//! Gives   them to every thread
//! Never   names the protocol's reply types where a plain result is enough

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::answers::Answers;
use crate::attributes::View;
use crate::counters::Counters;
use crate::gate::Gate;
use crate::invalidate::Invalidator;
use crate::pool::Pool;
use crate::references::References;
use crate::turns::Turns;
use crate::wakeful::Wakeful;

/// What all requests of one mount share.
pub(crate) struct Shared {
    pub(crate) gate: Gate,
    pub(crate) view: View,
    pub(crate) counters: Arc<Counters>,
    pub(crate) wakeful: Wakeful,
    pub(crate) references: Arc<References>,
    /// Which answers the kernel may still take in.
    pub(crate) answers: Arc<Answers>,
    pub(crate) invalidator: Invalidator,
    /// Which event loops listen.
    pub(crate) turns: Arc<Turns>,
    /// Those of them that may be waiting for the disk at the moment: they read, or make something durable.
    pub(crate) loops_occupied: AtomicUsize,
    /// Reads that are long, or that would leave no loop listening.
    pub(crate) reading: Pool,
    /// Whatever may wait for the disk or for memory.
    pub(crate) waiting: Pool,
    pub(crate) xattrs: Xattrs,
    pub(crate) writes: Writes,
}

/// Where a write is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// In the vault's own write-behind: everybody sees it.
    Through,
    /// In the kernel, which sends it when it likes.
    KeptByKernel,
}

/// Whether extended attributes are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Xattrs {
    /// They are stored.
    Offered,
    /// One ENOSYS each, then the kernel asks no more: a request less per new file, two per `ls -l` entry.
    Refused,
}
