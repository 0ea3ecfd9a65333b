//! Fetches segments that are stored only at remotes, for the process that owns the vault.
//!
//! Takes   the rows about remotes, with the hash under which the segment was published at each
//! Gives   the published bytes, or the reason why no remote has given them
//! Never   gives bytes with another hash, calls content lost because of a remote that lost its marker, or holds a lock during a request
//! Spec    spec/11-sync.md, 11.9
//!
//! A remote that failed after a wait is skipped for as long as that wait took. So readers of a mount wait at most half of the time.
//! While a remote is skipped, none of them waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use strongroom_filesystem::{AtRemote, NotFetched, SegmentSource};
use strongroom_format::VaultId;
use strongroom_format::publication::RemoteId;
use strongroom_remote::{Address, Error as RemoteError, Remote};
use strongroom_sync::limits::SEGMENT_OBJECT_BYTES_MAX;
use strongroom_sync::{Error as SyncError, Marker, RemoteState, object_hash, segment_name};

use crate::own_login::OwnLogin;
use crate::pace::RemotePace;
use crate::{Error, Result};

/// The remotes of a vault, for whoever reads what is not here.
pub(crate) struct RemoteSegments {
    vault: VaultId,
    pace: RemotePace,
    login: Arc<OwnLogin>,
    known: Mutex<HashMap<u64, Known>>,
}

/// What is known of a remote.
#[derive(Default)]
struct Known {
    /// The address at which it was reached, and the remote; none of a folder, whose disk somebody may want to unmount.
    reached: Option<(String, Arc<dyn Remote>)>,
    /// It is not asked before that moment, because of what it said last.
    silent: Option<(Instant, String)>,
}

/// What a remote said of a segment.
enum Answer {
    Proven(Vec<u8>),
    /// It does not have what was published.
    Lost(&'static str),
}

impl RemoteSegments {
    /// Of that vault, no faster than `pace`; `login` logs in at servers.
    pub(crate) fn new(vault: VaultId, pace: RemotePace, login: Arc<OwnLogin>) -> Self {
        Self {
            vault,
            pace,
            login,
            known: Mutex::default(),
        }
    }

    fn fetch_from(&self, place: &AtRemote, is_it: &dyn Fn(&[u8]) -> bool) -> Result<Answer> {
        let remote = self.pace.limit(self.reach(place)?);
        let name = segment_name(&place.hash);
        let why = match remote.read(&name, SEGMENT_OBJECT_BYTES_MAX) {
            Ok(Some(bytes)) if object_hash(&bytes) == place.hash && is_it(&bytes) => {
                return Ok(Answer::Proven(bytes));
            }
            Ok(Some(_)) | Err(RemoteError::TooLong { .. }) => "its copy is not what was pushed",
            Ok(None) => "it no longer has the content",
            Err(error) => return Err(error.into()),
        };
        // A store that is gone as a whole says the same of everything.                                       [11.9.4]
        self.marker(place).check(&*remote)?;
        Ok(Answer::Lost(why))
    }

    /// What the remote says that it is, as it said when it was added.
    fn marker(&self, place: &AtRemote) -> Marker {
        Marker {
            vault: self.vault,
            remote: RemoteId(place.remote.id),
        }
    }

    /// The remote, which says that it is the one that was added; one that was reached before is not asked again.
    fn reach(&self, place: &AtRemote) -> Result<Arc<dyn Remote>> {
        let number = place.remote.number;
        let state = RemoteState::decode(&place.remote.state);
        let address = state.map(|state| state.address).unwrap_or_default();
        if let Some(known) = self.known.lock().get(&number)
            && let Some((at, remote)) = &known.reached
            && *at == address
        {
            return Ok(Arc::clone(remote));
        }
        let remote = self.marker(place).reach(&address)?;
        remote.sign_with(Arc::clone(&self.login) as _);
        if !Address::parse(&address)?.is_folder() {
            let reached = Some((address, Arc::clone(&remote)));
            self.known.lock().entry(number).or_default().reached = reached;
        }
        Ok(remote)
    }

    /// What the remote said last, if it is left alone now.
    fn silence(&self, number: u64) -> Option<String> {
        let known = self.known.lock();
        let (until, why) = known.get(&number)?.silent.as_ref()?;
        (Instant::now() < *until).then(|| why.clone())
    }

    /// Leaves the remote alone for as long as it let somebody wait.
    fn note_failure(&self, number: u64, began: Instant, why: &str) {
        let now = Instant::now();
        let until = now.checked_add(now.duration_since(began)).unwrap_or(now);
        *self.known.lock().entry(number).or_default() = Known {
            reached: None,
            silent: Some((until, why.to_owned())),
        };
    }
}

impl SegmentSource for RemoteSegments {
    fn fetch(
        &self,
        places: &[AtRemote],
        is_it: &dyn Fn(&[u8]) -> bool,
    ) -> std::result::Result<Vec<u8>, NotFetched> {
        let mut reasons = Vec::new();
        let mut may_come = false;
        for place in places {
            let (number, name) = (place.remote.number, &place.remote.name);
            if let Some(why) = self.silence(number) {
                may_come = true;
                reasons.push(format!("{name}: {why}"));
                continue;
            }
            let began = Instant::now();
            match self.fetch_from(place, is_it) {
                Ok(Answer::Proven(bytes)) => return Ok(bytes),
                Ok(Answer::Lost(why)) => reasons.push(format!("{name}: {why}")),
                // It answered, and is not the remote of this vault any more.
                Err(
                    error @ Error::Remote(
                        SyncError::Missing { .. } | SyncError::OtherVault | SyncError::OtherRemote,
                    ),
                ) => {
                    self.known.lock().entry(number).or_default().reached = None;
                    reasons.push(format!("{name}: {error}"));
                    may_come = true;
                }
                Err(error) => {
                    let why = error.to_string();
                    self.note_failure(number, began, &why);
                    reasons.push(format!("{name}: {why}"));
                    may_come = true;
                }
            }
        }
        let why = match reasons.is_empty() {
            true => "no remote of the vault is known to have the content".to_owned(),
            false => reasons.join("; "),
        };
        Err(match may_come {
            true => NotFetched::Now(why),
            false => NotFetched::Ever(why),
        })
    }
}
