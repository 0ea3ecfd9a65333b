//! Notifies clients that wait for the next publication of a vault.
//!
//! Takes   the number of each publication when it is admitted, here or at another instance (`hearing.rs`)
//! Gives   each follower the newest one
//! Never   keeps anything for a vault that nobody follows

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::ledger::VaultKey;

/// The followers of all vaults.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<HashMap<VaultKey, watch::Sender<u64>>>);

/// One who follows a vault.
#[derive(Debug)]
pub(crate) struct Follower {
    newest: watch::Receiver<u64>,
}

impl Followers {
    /// From now on hears of every publication of `vault`. What was admitted before is in the database.
    pub(crate) fn follow(&self, vault: &VaultKey) -> Follower {
        let mut all = self.0.lock();
        // Once in a while, so that its cost is shared.
        if all.len().is_power_of_two() {
            all.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = all.entry(vault.clone()).or_default();
        Follower {
            newest: sender.subscribe(),
        }
    }

    /// The vaults that somebody follows.
    pub(crate) fn followed(&self) -> Vec<VaultKey> {
        let all = self.0.lock();
        let followed = all.iter().filter(|(_, sender)| sender.receiver_count() > 0);
        followed.map(|(vault, _)| vault.clone()).collect()
    }

    /// How many follow a vault.
    pub(crate) fn count(&self) -> usize {
        let all = self.0.lock();
        all.values().map(watch::Sender::receiver_count).sum()
    }

    /// The newest publication of `vault` is `number`.
    pub(crate) fn publish(&self, vault: &VaultKey, number: u64) {
        let mut all = self.0.lock();
        let Some(sender) = all.get(vault) else { return };
        if sender.receiver_count() == 0 {
            all.remove(vault);
            return;
        }
        // Two that were admitted one after the other may come here the other way round.
        sender.send_modify(|newest| *newest = number.max(*newest));
    }
}

impl Follower {
    /// Waits until there is a publication behind `known`; gives its number.
    pub(crate) async fn behind(&mut self, known: u64) -> u64 {
        let heard = self.newest.wait_for(|newest| *newest > known).await;
        let heard = heard.ok().map(|newest| *newest);
        match heard {
            Some(newest) => newest,
            // The server has gone: nothing comes any more.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(name: &str) -> VaultKey {
        VaultKey {
            account: 1,
            name: name.to_owned(),
        }
    }

    #[tokio::test]
    async fn followers_hear_of_their_vault_alone_and_nothing_is_kept_for_others() {
        let followers = Followers::default();
        followers.publish(&vault("a"), 1);
        assert!(followers.0.lock().is_empty());
        let (mut one, mut two) = (followers.follow(&vault("a")), followers.follow(&vault("a")));
        let _other = followers.follow(&vault("b"));
        assert_eq!(followers.followed().len(), 2);
        followers.publish(&vault("a"), 3);
        followers.publish(&vault("a"), 2);
        assert_eq!((one.behind(1).await, two.behind(2).await), (3, 3));
        drop((one, two));
        followers.publish(&vault("a"), 4);
        assert_eq!(followers.0.lock().len(), 1);
    }
}
