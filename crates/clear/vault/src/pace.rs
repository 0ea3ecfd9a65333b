//! How fast the remotes of a vault are used, by whoever uses them in this process.
//!
//! Takes   rates, at any time
//! Gives   remotes that keep to them: for pushes and pulls, and for content that comes because it is read
//! Never   slows down a remote that was not given through it

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom_remote::{Limited, Pace, Rates, Remote};

/// A bound on what goes to remotes and comes from them, all together. Clones are the same bound; without rates there is none.
#[derive(Clone, Default)]
pub struct RemotePace(Arc<Mutex<Option<Arc<Pace>>>>);

impl fmt::Debug for RemotePace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RemotePace")
    }
}

impl RemotePace {
    /// Lets what begins from now on keep to `rates`.
    pub fn set(&self, rates: Rates) {
        self.set_to(Pace::new(rates));
    }

    pub(crate) fn set_to(&self, pace: Arc<Pace>) {
        *self.0.lock() = Some(pace);
    }

    /// `remote`, no faster than that.
    pub(crate) fn limit(&self, remote: Arc<dyn Remote>) -> Arc<dyn Remote> {
        match &*self.0.lock() {
            Some(pace) => Arc::new(Limited::new(remote, Arc::clone(pace))),
            None => remote,
        }
    }
}
