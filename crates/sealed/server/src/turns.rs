//! Bounds how many objects are on their way at a time, of each account and of all.
//!
//! Takes   the account of a request
//! Gives   a turn, which ends when it is dropped
//! Never   lets one account take the turns of all, or waits longer than `TURN`

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom_remote::protocol::Refusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::TURN;

/// Turns of one kind: to send, or to be sent.
#[derive(Debug)]
pub(crate) struct Turns {
    of_account: usize,
    of_all: usize,
    all: Arc<Semaphore>,
    accounts: Mutex<HashMap<i64, Arc<Semaphore>>>,
}

/// A turn.
#[derive(Debug)]
pub(crate) struct Turn {
    _own: OwnedSemaphorePermit,
    _any: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new(of_account: usize, of_all: usize) -> Self {
        Self {
            of_account,
            of_all,
            all: Arc::new(Semaphore::new(of_all)),
            accounts: Mutex::default(),
        }
    }

    /// Turns that were taken and have not ended.
    pub(crate) fn taken(&self) -> usize {
        self.of_all - self.all.available_permits()
    }

    /// Waits for a turn of `account`.
    ///
    /// # Errors
    /// `Busy` after `TURN`.
    pub(crate) async fn take(&self, account: i64) -> Result<Turn, Refusal> {
        let own = {
            let mut accounts = self.accounts.lock();
            if accounts.len().is_power_of_two() {
                accounts.retain(|_, own| Arc::strong_count(own) > 1);
            }
            let fresh = || Arc::new(Semaphore::new(self.of_account));
            Arc::clone(accounts.entry(account).or_insert_with(fresh))
        };
        let both = async {
            let own = own.acquire_owned().await;
            let any = Arc::clone(&self.all).acquire_owned().await;
            (own, any)
        };
        match tokio::time::timeout(TURN, both).await {
            Ok((Ok(own), Ok(any))) => Ok(Turn {
                _own: own,
                _any: any,
            }),
            _ => Err(Refusal::Busy),
        }
    }
}
