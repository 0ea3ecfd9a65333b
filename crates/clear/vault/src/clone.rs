//! Creates a vault from the data at a remote, as a new device of that vault.
//!
//! Takes   the address of a remote, an empty folder, and a secret that opens the vault
//! Gives   a vault with everything that the last push named, including snapshots
//! Never   touches a folder that holds anything but an unfinished clone, or trusts the remote: everything from it is verified
//! Spec    spec/11-sync.md, 11.5
//!
//! Invariants
//!  (1) Until the last step the folder is marked as unfinished and is no vault. An interrupted clone continues where it stopped.
//!  (2) No segment or record is downloaded before the header proved to belong to the intended vault.
//!  (3) Before content is left at a remote, the remote gets an object that says so; then the remote's log and list are checked.
//!      So a device that retires content later finds that object.                                              [11.9.1] [11.9.2]
//!  (4) Segments that were not downloaded whole are known only by their tables of contents. Such a clone fails if anything is
//!      missing that its snapshots name, unless the signed tree of the newest snapshot says that it was erased.  [11.5.7]
//!  (5) A clone has every name that the published head (the revision of the newest
//!      complete push) has, or it fails.                                                            [11.5.10]

use std::path::Path;

use strongroom_crypto::{Keyring, NewDeviceKeys, Secret, SystemRandom, unlock};
use strongroom_filesystem::{AwaySize, DurableState};
use strongroom_format::hex;
use strongroom_format::publication::Publication;
use strongroom_metadata::{Options, Remote as RemoteRow, SegmentState, Store};
use strongroom_remote::{Address, Limited, Pace, Rates, Remote};
use strongroom_sync::{Marker, RemoteState};

use crate::clock::now_s;
use crate::create::{claim_for, leave_empty};
use crate::download::{download, make_room};
use crate::evict::{need_no_more_of_newcomer, say_needs_of_newcomer};
use crate::execute::published::put_published;
use crate::folder::switch;
use crate::folder::{CLONE_MARK, Folder, HEADER, REPLICA, UNFINISHED};
use crate::incoming;
use crate::newest_state::{Log, Opener, State, newest_state};
use crate::outline::Source;
use crate::recovery::recover::{Rebuild, RecoverOptions, RecoverProgress, Trial, recover_from};
use crate::recovery::report::RecoverReport;
use crate::remote_log::newest_number;
use crate::remotes::RemoteProgress;
use crate::request::Access;
use crate::request::history::RevisionInfo;
use crate::seen::{self, Sight, Trust, Watch};
use crate::{Error, GoOn, Result};

/// What the remote that a vault was cloned from is called.
pub const CLONED_FROM: &str = "origin";

/// How a vault is cloned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneOptions {
    /// What the vault must be.
    pub trust: Trust,
    /// How fast it may come down.
    pub rates: Rates,
    /// What becomes of the content of files.
    pub content: CloneContent,
}

/// What becomes of the content of files when a vault is cloned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloneContent {
    /// It comes with everything else.
    #[default]
    Here,
    /// It stays at the remote, as after `Vault::evict`, and comes when it is read. Segments that hold little of it come all the same.
    AtRemote,
}

/// How far a clone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneProgress {
    /// Objects come down.
    Down(RemoteProgress),
    /// The database is made from them.
    Made(RecoverProgress),
}

/// What a clone brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneReport {
    /// What tells this vault from any other.
    pub fingerprint: String,
    /// Objects that came down now, and their bytes; those of an earlier attempt are not counted.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// Segments whose content stayed at the remote, and how many sealed bytes of it something names.
    pub away: AwaySize,
    /// What the database was made of.
    pub made: RecoverReport,
}

/// The device that another one let in, and the state in which it did.
#[derive(Clone, Copy)]
pub(crate) struct LetIn<'a> {
    pub(crate) keys: &'a NewDeviceKeys,
    /// The generation of its header.
    pub(crate) generation: u64,
    /// The newest publication then.
    pub(crate) publication: u64,
}

/// Makes a vault in `folder`, which must not exist or be empty, out of the remote at `address`. The remote is called `origin` there.
///
/// Interrupted at any moment, the same call goes on.
///
/// # Errors
/// `Remote`, `RemoteUntrue`; `WrongSecret`; `FolderNotEmpty`, `AlreadyAVault`; `RemoteStopped`; those of `recover`.
pub fn clone(
    address: &str,
    folder: impl AsRef<Path>,
    secret: &Secret,
    options: CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    clone_as(address, folder.as_ref(), secret, None, &options, told)
}

/// The same as a device that was let in; without one, as a device that the slot of the secret adds.
pub(crate) fn clone_as(
    address: &str,
    folder: &Path,
    secret: &Secret,
    let_in: Option<LetIn<'_>>,
    options: &CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    let place = Address::parse(address)?;
    let remote = Limited::new(place.open()?, Pace::new(options.rates));
    clone_from((&remote, address), folder, secret, let_in, options, told)
}

/// The same from a remote that was reached at that address.
fn clone_from(
    (remote, address): (&dyn Remote, &str),
    folder: &Path,
    secret: &Secret,
    let_in: Option<LetIn<'_>>,
    options: &CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    let marker = Marker::read(remote)?.ok_or(strongroom_sync::Error::NoVault)?;
    let folder = Folder::new(folder);
    let made_folder = folder.make()?;
    let folder = folder.absolute()?;
    let mark = [CLONE_MARK, hex::encode(&marker.remote.0).as_bytes(), b"\n"].concat();
    let was_begun = folder.has(UNFINISHED);
    let lock = claim_for(&folder, &mark)?;
    // What an earlier attempt made of an earlier state.
    switch::start_over(&folder)?;
    let mut opener = let_in.map_or(Opener::Secret(secret), |let_in| Opener::LetIn(let_in.keys));
    let mut found = newest_state(remote, &opener, &marker);
    if let Err(Error::WrongSecret(_) | Error::PassphraseWithheld(_)) = &found
        && let Some(known) = left_here(&folder, secret)
    {
        opener = Opener::Known(Box::new(known));
        found = newest_state(remote, &opener, &marker);
    }
    let (mut header, mut keyring, mut log) = match check_let_in(found, let_in) {
        Ok(found) => found,
        Err(error) => {
            // What came down earlier stays, for the next attempt; else the folder is as it was.
            if !was_begun {
                leave_empty(&folder, made_folder);
            }
            return Err(error);
        }
    };
    seen::begin_new(&folder, &options.trust)?;
    let check = |keyring: &Keyring| {
        Watch::begin(&folder, keyring, Access::ReadOnly, &options.trust)?.check_head(keyring)
    };
    check(&keyring)?; // (2)
    let stays = options.content == CloneContent::AtRemote;
    let mut needs = None;
    if stays {
        let number = log.last.body.number;
        needs = Some((say_needs_of_newcomer(&folder, remote, number)?, number));
        // (3)
        if newest_number(remote)? != log.newest {
            let found = newest_state(remote, &opener, &marker);
            (header, keyring, log) = check_let_in(found, let_in)?;
            check(&keyring)?;
        }
        log.check_listed(remote)?;
    }
    if let_in.is_some() {
        write_let_in(&folder, &keyring)?;
    }
    make_room(&folder, &log.joined)?;
    let sealer = stays.then(|| keyring.block_sealer());
    let download = download(remote, &folder, &log.joined, sealer.as_ref(), told)?;
    let wanted = log.header_for_folder(remote, &opener, (&header, &keyring))?;
    folder.replace(HEADER, &wanted)?;
    let recovering = RecoverOptions {
        rebuild: Rebuild::IfLost,
        trust: options.trust.clone(),
    };
    let made = recover_from(
        &folder,
        secret,
        &recovering,
        (Trial::ForReal, Source::Remote(&download.left)),
        &mut |progress| {
            // It cannot be stopped here: it takes seconds, and the next attempt would do it again.
            let _ = told(CloneProgress::Made(progress));
        },
    )?;
    let is_head = |one: &RevisionInfo| one.id.0 == log.last.body.head;
    // What a tree has lost would be published as removed. (5)
    if !made.revision.as_ref().is_some_and(is_head) || !made.has_whole_tree() {
        let why = "the remote lacks parts of the newest snapshot; run `strongroom push` on a device that has the vault, then clone again";
        return Err(Error::RemoteUntrue(why.to_owned()));
    }
    // (4)
    if stays && !(made.is_whole() && made.missing_blocks == 0) {
        let why = "the remote lacks content that its snapshots need, and nobody noted that it was erased; clone without --on-demand, and `strongroom verify` of that vault names what is lost";
        return Err(Error::RemoteUntrue(why.to_owned()));
    }
    if !stays {
        need_no_more_of_newcomer(&folder, remote)?;
    }
    let away = note_remote(&folder, secret, &options.trust, (address, needs), &log)?;
    folder.remove_if_there(UNFINISHED)?; // (1)
    folder.sync()?;
    // What it said at the remote is known there until the database is what counts.
    incoming::remove(&folder)?;
    drop(lock);
    Ok(CloneReport {
        fingerprint: strongroom_crypto::Fingerprint::of(marker.vault).to_string(),
        objects: download.objects,
        bytes: download.bytes,
        away,
        made,
    })
}

/// Gives the state if a device that was let in is a member in it, and it is not older than what it was let into.    [11.7.9]
fn check_let_in(found: Result<State>, let_in: Option<LetIn<'_>>) -> Result<State> {
    let Some(let_in) = let_in else {
        return found;
    };
    let is_older = match &found {
        Ok((_, keyring, log)) => {
            keyring.generation() < let_in.generation || log.newest < let_in.publication
        }
        // This device is a member in no header that the remote shows.
        Err(Error::Damaged { what: REPLICA, .. }) => true,
        // It has nothing at all.
        Err(Error::Remote(strongroom_sync::Error::Empty | strongroom_sync::Error::OtherVault)) => {
            true
        }
        Err(_) => false,
    };
    match is_older {
        false => found,
        true => {
            let why = "the remote shows a state from before this device was added";
            Err(Error::RemoteUntrue(why.to_owned()))
        }
    }
}

/// Writes header and replica file of a device that was let in: an attempt that goes on finds them, opens the header with the secret of
/// this device, also if that is a passphrase, and adds no other device.
fn write_let_in(folder: &Folder, keyring: &Keyring) -> Result<()> {
    folder.replace(HEADER, &keyring.header_bytes()?)?;
    let replica = keyring.new_replica(&SystemRandom)?;
    folder.replace(REPLICA, &keyring.seal_replica(&replica, &SystemRandom)?)
}

/// The keys of the header that an earlier attempt left, if the secret opens it.
fn left_here(folder: &Folder, secret: &Secret) -> Option<Keyring> {
    unlock(&folder.header().ok()?, secret, None).ok()
}

/// Notes in the new database where the vault came from, under which name and up to where it says that it needs what is there, and what is
/// there. Gives what of that is away.
fn note_remote(
    folder: &Folder,
    secret: &Secret,
    trust: &Trust,
    (address, needs): (&str, Option<([u8; 16], u64)>),
    log: &Log,
) -> Result<AwaySize> {
    let files = crate::keyring::own_replica::Files::read(folder)?;
    let mut keyring = files.unlock(secret)?;
    let replica = files.replica_of(&mut keyring)?;
    let store = Store::open(
        folder.path(),
        replica.metadata_key().bytes(),
        Options::default(),
    )
    .map_err(strongroom_filesystem::Error::from)?;
    let Publication {
        base, header, head, ..
    } = &log.last.body;
    let state = log
        .publications
        .iter()
        .fold(RemoteState::new(address.to_owned()), |state, signed| {
            state.having_read(&signed.body)
        });
    let state = RemoteState {
        last: (log.last.body.number, log.last.id),
        base: *base,
        header: header.1,
        head: *head,
        joined: log.joined_up_to,
        needs: needs.unwrap_or_default(),
        needs_since_s: needs.map_or(0, |_| now_s()),
        contact_s: now_s(),
        ..state
    };
    let row = RemoteRow {
        number: 0,
        name: CLONED_FROM.to_owned(),
        id: log.last.body.remote.0,
        state: state.encode(),
    };
    let mut writer = store.lock();
    let noted = writer.put_remote(&row).and_then(|number| {
        for signed in &log.publications {
            let live = Publication {
                segments: signed
                    .body
                    .segments
                    .iter()
                    .filter(|one| log.live.segments.contains_key(&one.hash))
                    .copied()
                    .collect(),
                revisions: signed
                    .body
                    .revisions
                    .iter()
                    .filter(|one| log.live.revisions.contains_key(&one.hash))
                    .copied()
                    .collect(),
                ..signed.body.clone()
            };
            put_published(&mut writer, number, &live)?;
        }
        writer.commit()
    });
    noted.map_err(strongroom_filesystem::Error::from)?;
    let mut away = AwaySize::default();
    let rows = writer
        .segments()
        .map_err(strongroom_filesystem::Error::from)?;
    for row in rows.iter().filter(|row| row.state == SegmentState::Away) {
        away.segments += u64::from(row.live_bytes > 0);
        away.bytes += row.live_bytes;
    }
    let commits = writer.commits();
    drop(writer);
    // It is known from now on, and no copy of a vault that stands beside it.
    let durable = commits.ok().map(|commits| DurableState {
        commits,
        root: None,
    });
    Sight::of_new(folder, &keyring, replica.instance(), durable, trust)?;
    store.finish().map_err(strongroom_filesystem::Error::from)?;
    Ok(away)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::ops::Range;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use strongroom_remote::{Created, Listed, ObjectName, Result as Answer};

    use super::*;
    use crate::{CreateOptions, KeyFile, OpenOptions, SeenRecords, Vault};

    /// Notes what is asked: listings by their kind, and what is read by its name, with the bytes that came.
    #[derive(Debug)]
    struct Noting {
        below: Arc<dyn Remote>,
        asked: Mutex<Vec<(String, usize)>>,
    }

    impl Noting {
        fn note(
            &self,
            name: &ObjectName,
            read: Answer<Option<Vec<u8>>>,
        ) -> Answer<Option<Vec<u8>>> {
            let bytes = read?;
            let len = bytes.as_ref().map_or(0, Vec::len);
            self.asked.lock().push((name.to_string(), len));
            Ok(bytes)
        }
    }

    impl Remote for Noting {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Answer<Created> {
            self.asked.lock().push((name.to_string(), 0));
            self.below.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Answer<Option<Vec<u8>>> {
            self.note(name, self.below.read(name, bytes_max))
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Answer<Option<Vec<u8>>> {
            self.note(name, self.below.read_range(name, range))
        }

        fn list(&self, kind: &str) -> Answer<Vec<Listed>> {
            self.asked.lock().push((kind.to_owned(), 0));
            self.below.list(kind)
        }

        fn remove(&self, name: &ObjectName) -> Answer<()> {
            self.asked.lock().push((name.to_string(), 0));
            self.below.remove(name)
        }
    }

    /// Content of that many bytes in which no two blocks are equal.
    fn content(len: usize, seed: u8) -> Vec<u8> {
        let words = (0..len as u64).step_by(8);
        let mut bytes: Vec<u8> = words
            .flat_map(|at| (at * 1_000 + u64::from(seed)).to_le_bytes())
            .collect();
        bytes.truncate(len);
        bytes
    }

    /// Goal: of each segment with content a clone on demand asks for its end, and for the blocks of trees in it; none comes whole, and
    /// nothing else costs more than with all content. Method: a large file; then snapshots, each in one segment with content of its own.
    #[test]
    fn a_clone_on_demand_asks_for_no_content() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("remote");
        std::fs::create_dir(&at).unwrap();
        let address = format!("folder:{}", at.display());
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let secret = Secret::KeyFile(key_file.clone());
        let options = CreateOptions::new().key_file(key_file);
        let created = Vault::create(place.path().join("vault"), options).unwrap();
        let vault = created.vault;
        vault.add_remote("stick", &address).unwrap();
        vault.write("/large", content(40 << 20, 1)).unwrap();
        for seed in 2..12 {
            vault.make_directory(format!("/{seed}"), 0o755).unwrap();
            for file in 0..20 {
                let path = format!("/{seed}/{file}");
                vault.write(path, content(20_000 + file, seed)).unwrap();
            }
            vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        }
        vault.close().unwrap();
        let remote = Noting {
            below: Address::parse(&address).unwrap().open().unwrap(),
            asked: Mutex::default(),
        };
        // Each is the vault of a machine of its own.
        let trust = Trust {
            seen: SeenRecords::Nowhere,
            ..Trust::default()
        };
        let cloned = |name: &str, content| {
            let options = CloneOptions {
                trust: trust.clone(),
                content,
                ..CloneOptions::default()
            };
            let (from, folder) = ((&remote as &dyn Remote, &*address), place.path().join(name));
            let report = clone_from(from, &folder, &secret, None, &options, &mut |_| GoOn::Yes);
            let asked = std::mem::take(&mut *remote.asked.lock());
            (report.unwrap(), asked)
        };
        let (whole, all) = cloned("whole", CloneContent::Here);
        let (lazy, asked) = cloned("lazy", CloneContent::AtRemote);
        assert_eq!(whole.away, AwaySize::default());
        assert_eq!(
            (lazy.made.nodes, lazy.made.bytes),
            (whole.made.nodes, whole.made.bytes)
        );
        let is_segment = |(name, _): &&(String, usize)| name.starts_with("segments/");
        let segments = all.iter().filter(is_segment).count();
        assert!(segments >= 12, "{all:?}");
        assert_eq!(
            lazy.away.segments, segments as u64,
            "all have more content than nodes"
        );
        assert!(lazy.away.bytes > 43 << 20);
        for (name, whole) in all.iter().filter(is_segment) {
            let of_it = asked.iter().filter(|(other, _)| other == name);
            assert!((1..=2).contains(&of_it.clone().count()), "{asked:?}");
            let bytes: usize = of_it.map(|(_, len)| len).sum();
            assert!(bytes * 5 < *whole, "{bytes} of {whole}");
        }
        // The object that says what is needed, whether something was published since, and what is listed.
        let others =
            |asked: &[(String, usize)]| asked.len() - asked.iter().filter(is_segment).count();
        assert_eq!(others(&asked), others(&all) + 3, "{asked:?}");
        assert!(lazy.bytes < whole.bytes / 10, "{lazy:?}");
        // Names, sizes and snapshots are here, and content is not.
        let hidden = at.with_file_name("hidden");
        std::fs::rename(&at, &hidden).unwrap();
        let folder = place.path().join("lazy");
        let options = OpenOptions {
            trust: trust.clone(),
            ..OpenOptions::default()
        };
        let vault = Vault::open(folder, secret.clone(), options).unwrap();
        assert_eq!(vault.walk("/").unwrap().count(), 211);
        assert_eq!(vault.revisions().unwrap().len(), 10);
        assert_eq!(vault.information().unwrap().away_bytes, lazy.away.bytes);
        assert!(vault.read("/2/0").is_err());
        std::fs::rename(&hidden, &at).unwrap();
        assert_eq!(vault.read("/2/0").unwrap(), content(20_000, 2));
        assert_eq!(vault.read("/large").unwrap(), content(40 << 20, 1));
        vault.close().unwrap();
    }
}
