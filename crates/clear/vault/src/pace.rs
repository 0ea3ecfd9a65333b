//! Limits how fast this process uses the remotes of a vault.
//!
//! Takes   rates, which may change at any time
//! Gives   remotes that keep to the rates: for pushes and pulls, and for content that is fetched because it is read
//! Never   slows down a remote that did not go through `limit`

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
