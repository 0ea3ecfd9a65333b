//! Hands the vault over to a process that wants to mount it.
//!
//! Takes   the request of another process
//! Gives   the vault closed, and the keys with which this process can come back; `Vault::close` says if it could not be closed well
//! Never   leaves while this process itself needs the vault: for an open file, a request, a backup, a mount, or a
//!         subscription to changes. Never waits for its clients
//!
//! A push of this process may take hours, so it does not prevent leaving: it begins again at the next owner, and sends
//! nothing again that has arrived. An owner that only reads would refuse the push. So during a push the vault is not
//! handed over to such an owner.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::execute::session::Leaver;
use crate::owner::port::Port;
use crate::request::Access;
use crate::vault::Shared;

/// How long requests of this process may hold up its leaving.
const LEAVE_WAIT: Duration = Duration::from_secs(1);

impl Shared {
    /// From now on somebody who can do more for others can have the vault from this process.
    pub(crate) fn can_leave(self: &Arc<Self>, port: &Port) {
        if let Port::Owner(owner) = port {
            let own: Weak<Self> = Arc::downgrade(self);
            owner.session.vault.set_leaver(own);
        }
    }
}

impl Leaver for Shared {
    fn leave(&self, asker: u64, next: Access) {
        // Requests of this process begin and end meanwhile; who asked asks again.
        let Some(mut port) = self.port.try_write_for(LEAVE_WAIT) else {
            return;
        };
        let Port::Owner(owner) = &*port else { return };
        // A request under way, also one of a push, an open file or a directory would hold another part of it.
        if Arc::strong_count(owner) > 1
            || owner.session.vault.is_lent()
            || !owner.session.holds_at_most_a_push()
            || (next == Access::ReadOnly && owner.session.is_pushing())
        {
            return;
        }
        // Whoever uses the vault here waits until it is closed, and that waits for the clients.
        if !owner.refuses_if_free(asker, next) {
            return;
        }
        let keyring = owner.session.vault.with_keys(|keys| keys.keyring().clone());
        self.joining.keep_for_return(keyring);
        *port = match owner.close() {
            Ok(()) => Port::Left,
            Err(error) => {
                log::error!("the vault could not be closed on request: {error}");
                // What this process was told is written may be lost: nobody else can say so to it.                 [5.3]
                *self.unsaid.lock() = Some(error);
                Port::Closed
            }
        };
    }
}
