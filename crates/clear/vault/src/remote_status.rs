//! The state of a remote as this device knows it, in the public API.
//!
//! Takes   the name of a remote
//! Gives   what waits to be pushed, what is only there, when it answered last, and who published last
//! Never   asks the remote
//! Spec    spec/4-metadata.md, 4.14

use crate::request::Request;
use crate::request::member::short;
use crate::request::remote::{RemoteRequest, StatusFields};
use crate::{Access, Error, RemoteInfo, Result, Vault};

/// What this device knows of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteStatus {
    /// Which remote it is, and the last publication that this device knows.
    pub remote: RemoteInfo,
    /// Whether a push would publish something: also a removal or another name, for which no file waits.
    pub is_waiting: bool,
    /// Sealed bytes on this disk that the remote does not have, of all snapshots. Some may be there without anything waiting: content that
    /// only moved on this disk goes up with the next change.
    pub waiting_bytes: u64,
    /// Files, symlinks and special files that were made, changed or moved since the state that the remote has; `None` if that is not known,
    /// because the snapshot of that state was removed here.
    pub waiting_files: Option<u64>,
    /// Sealed bytes of content that is not on this disk and that the remote has.
    pub away_bytes: u64,
    /// Those of them that no other remote has.
    pub alone_bytes: u64,
    /// When the remote answered last, in seconds since 1970; `None` if that is not known. A program that keeps the vault in sync knows it
    /// exactly while it runs; what is stored between two runs may be an hour older, or as old as the last change if that program was
    /// killed.
    pub contact_s: Option<u64>,
    /// The newest publication of each device that is a member, newest first. Those that were read before versions that note them are not
    /// there.
    pub newest: Vec<DevicePublication>,
}

/// The newest publication of a device at a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePublication {
    /// The id of the device, as `Member` has it.
    pub device: String,
    /// What people call it.
    pub name: Option<String>,
    /// Whether it is the device that this copy of the vault acts as.
    pub is_this: bool,
    /// The number of the publication.
    pub number: u64,
    /// When it was made, in seconds since 1970, by the clock of that device.
    pub time_s: u64,
}

impl Vault {
    /// The state of the remote of that name as this device knows it; asks no remote. Everything acknowledged before is durable on return.
    /// Takes time in proportion to what changed since the last push.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # std::fs::create_dir(place.path().join("stick"))?;
    /// use strongroom::{CreateOptions, GoOn, Vault};
    ///
    /// # let vault = Vault::create(place.path().join("vault"), CreateOptions::new())?.vault;
    /// vault.add_remote("stick", &format!("folder:{}", place.path().join("stick").display()))?;
    /// vault.write("/letter", "dear")?;
    /// assert_eq!(vault.remote_status("stick")?.waiting_files, Some(1));
    /// vault.push("stick", &mut |_| GoOn::Yes)?;
    /// let status = vault.remote_status("stick")?;
    /// assert_eq!((status.waiting_files, status.newest[0].number), (Some(0), 1));
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `UnknownRemote`; `OwnerGone`; of the stores.
    pub fn remote_status(&self, name: &str) -> Result<RemoteStatus> {
        let row = self.remote_rows()?.into_iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| Error::UnknownRemote(name.to_owned()))?;
        let request = RemoteRequest::Status { remote: row.number };
        let fields: StatusFields = self.ask_for(&Request::Remote(request))?;
        let members = self.information()?.members;
        let newest = fields
            .newest
            .iter()
            .rev()
            .filter_map(|(device, number, time_s)| {
                let device = short(device);
                let mut devices = members.iter().filter(|member| member.is_device);
                let member = devices.find(|member| member.id == device)?;
                Some(DevicePublication {
                    name: member.name.clone(),
                    is_this: member.is_this,
                    device,
                    number: *number,
                    time_s: *time_s,
                })
            });
        Ok(RemoteStatus {
            newest: newest.collect(),
            remote: RemoteInfo::of(row),
            is_waiting: fields.is_waiting,
            waiting_bytes: fields.waiting_bytes,
            waiting_files: fields.waiting_files,
            away_bytes: fields.away_bytes,
            alone_bytes: fields.alone_bytes,
            contact_s: Some(fields.contact_s).filter(|at_s| *at_s > 0),
        })
    }

    /// Notes that a remote answered. `stores`: this is worth a commit if the time that is stored is long ago.
    pub(crate) fn note_contact(&self, remote: u64, at_s: u64, stores: bool) -> Result<()> {
        let stores = stores && self.shared.joining.access != Access::ReadOnly;
        self.ask_for(&Request::Remote(RemoteRequest::NoteContact {
            remote,
            at_s,
            stores,
        }))
    }
}
