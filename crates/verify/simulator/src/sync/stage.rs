//! The environment of tests with hostile remotes: devices of one vault at two moments, and all objects that its remotes ever held.
//!
//! Takes   an empty folder
//! Gives   copies of the devices, for use in a test; states of the remote: older ones, those of other remotes, and
//!         objects that a removed device made
//! Never   changes a template after it is made

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use strongroom::{
    AddKey, CLONED_FROM, CloneContent, CloneOptions, CreateOptions, Error, GoOn, KeyFile, Keys,
    NewKey, NewRevision, Passphrase, Secret, SystemRandom, Tuning, Vault, clone,
};
use strongroom_crypto::{Keyring, unlock, unlock_at_remote};
use strongroom_format::publication::{Publication, PublicationId, SignedPublication};
use strongroom_remote::ObjectName;
use strongroom_remote::testing::{MemoryRemote, Objects};
use strongroom_sync::{
    Live, open_publication, publication_name, publication_number, seal_publication,
};

use crate::sync::contents::{Form, Piece, Truth};
use crate::sync::device::{Device, ShiftedClock, copy, engine};
use crate::unseen;

/// What the device that made the vault calls its remotes.
const STICK: &str = "stick";
const SECOND: &str = "second";

/// 2024, in nanoseconds.
const BEGIN: i64 = 20_000 * 86_400_000_000_000;

/// The devices as they are at the moment at which a lie begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Template {
    /// The one that made the vault: it knows `known`, and has something to push.
    Behind,
    /// The same later: it knows `all`.
    UpToDate,
    /// Another one, which made `latest`.
    Other,
    /// That one before, when it knew no more than `known`.
    Earlier,
    /// A copy of that one from before, which made `forked`.
    Forked,
}

pub(crate) struct Stage {
    pub(crate) place: PathBuf,
    pub(crate) remote: Arc<MemoryRemote>,
    pub(crate) address: String,
    pub(crate) truth: Truth,
    /// Long ago.
    pub(crate) older: Objects,
    /// What `Behind` has seen.
    pub(crate) known: Objects,
    /// What another device has added to that.
    pub(crate) latest: Objects,
    /// The same with what was waiting in `Behind`.
    pub(crate) all: Objects,
    /// What another device has added to `known` that never heard of `latest`.
    pub(crate) forked: Objects,
    /// Of another remote of this vault.
    pub(crate) second: Objects,
    /// Of another vault.
    pub(crate) foreign: Objects,
    /// All that was removed from the remote since it was made.
    pub(crate) removed: Objects,
    /// What a device that was removed made of the remote as it knew it, with a publication of its own that needs no other.
    pub(crate) intruded: Objects,
    /// The newest content of each name.
    newest: BTreeMap<String, Piece>,
    key: KeyFile,
    now: Arc<AtomicI64>,
    folders: usize,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn yes<T>(_: &T) -> GoOn {
    GoOn::Yes
}

/// Number and bytes of the publications of a remote, in order.
pub(crate) fn publications(objects: &Objects) -> BTreeMap<u64, &Vec<u8>> {
    let of = objects
        .iter()
        .filter_map(|(name, bytes)| match name.split() {
            (Some("publications"), name) => publication_number(name).map(|number| (number, bytes)),
            _ => None,
        });
    of.collect()
}

/// What is there of a kind, by name.
pub(crate) fn of_kind<'o>(
    objects: &'o Objects,
    kind: &'o str,
) -> impl DoubleEndedIterator<Item = &'o ObjectName> {
    objects
        .keys()
        .filter(move |name| name.split().0 == Some(kind))
}

/// The publications that open with the keys of `keyring`, and what is live by them.
fn follow(objects: &Objects, keyring: &Keyring) -> (Vec<SignedPublication>, Live) {
    let (signer, sealer) = (keyring.revision_signer(), keyring.block_sealer());
    let (mut all, mut live) = (Vec::new(), Live::default());
    for (number, object) in publications(objects) {
        if let Ok(signed) = open_publication(number, object, &signer, &sealer) {
            live.add(&signed);
            all.push(signed);
        }
    }
    (all, live)
}

impl Stage {
    /// Makes everything. `name` is that of the remote in this process.
    pub(crate) fn new(name: &str, place: &Path) -> Result<Self, String> {
        let second = MemoryRemote::at(&format!("{name}-second"));
        let mut stage = Self {
            place: place.to_owned(),
            remote: MemoryRemote::at(name),
            address: format!("memory:{name}"),
            truth: Truth::default(),
            older: Objects::new(),
            known: Objects::new(),
            latest: Objects::new(),
            all: Objects::new(),
            forked: Objects::new(),
            second: Objects::new(),
            foreign: Objects::new(),
            removed: Objects::new(),
            intruded: Objects::new(),
            newest: BTreeMap::new(),
            key: KeyFile::random(&SystemRandom).map_err(text)?,
            now: Arc::new(AtomicI64::new(BEGIN)),
            folders: 0,
        };
        let foreign = MemoryRemote::at(&format!("{name}-foreign"));
        let vault = stage.make("foreign-vault", &format!("memory:{name}-foreign"))?;
        stage.write(&vault, "one", 5_000)?;
        vault.sync().map_err(text)?;
        vault.vault().close().map_err(text)?;
        stage.foreign = foreign.with_objects(|objects| objects.clone());

        let address = stage.address.clone();
        let mut first = stage.make("first", &address)?;
        let seconds = format!("memory:{name}-second");
        first.vault().add_remote(SECOND, &seconds).map_err(text)?;
        for (path, len) in [("one", 150_000), ("two", 40_000), ("three.txt", 3_000)] {
            stage.write(&first, path, len)?;
            first.sync().map_err(text)?;
        }
        let synced = first.vault().sync_with(SECOND, &mut yes);
        synced.map_err(text)?;
        stage.second = second.with_objects(|objects| objects.clone());
        first.vault().remove_remote(SECOND).map_err(text)?;
        let other = stage.join("other")?;
        let removed = stage.join("removed")?;
        first.sync().map_err(text)?;
        stage.older = stage.objects();
        stage.let_go(&mut first)?;
        stage.write(&first, "two", 60_000)?;
        for device in [&first, &removed, &other] {
            device.sync().map_err(text)?;
        }
        let before = stage.objects();
        for template in [Template::Forked, Template::Earlier] {
            copy(&other.folder, &stage.template(template)).map_err(text)?;
        }
        stage.intrude(removed, &before)?;
        stage.put(&before);
        stage.remove_device(&first)?;
        first.sync().map_err(text)?;
        stage.known = stage.objects();
        stage.write(&first, "mine.txt", 70_000)?;
        first.vault().sync().map_err(text)?;
        copy(&first.folder, &stage.template(Template::Behind)).map_err(text)?;

        stage.forked = stage.push_from(Template::Forked, "forked", 9_000)?;
        stage.put(&stage.known.clone());
        other.sync().map_err(text)?;
        let key = KeyFile::random(&SystemRandom).map_err(text)?;
        let mut keys = Keys::open_with(&other.folder, &other.secret(), unseen()).map_err(text)?;
        keys.add("later", AddKey::Other(NewKey::KeyFile(key)))
            .map_err(text)?;
        drop(keys);
        stage.write(&other, "theirs", 30_000)?;
        other.sync().map_err(text)?;
        stage.latest = stage.objects();
        other.vault().close().map_err(text)?;
        copy(&other.folder, &stage.template(Template::Other)).map_err(text)?;
        first.sync().map_err(text)?;
        stage.all = stage.objects();
        first.vault().close().map_err(text)?;
        copy(&first.folder, &stage.template(Template::UpToDate)).map_err(text)?;
        let gone = |(name, _): &(&ObjectName, &Vec<u8>)| !stage.all.contains_key(name);
        let ever = before.iter().chain(&stage.older).filter(gone);
        stage.removed = ever
            .map(|(name, bytes)| (name.clone(), bytes.clone()))
            .collect();
        // It is in another future of the vault.
        stage.newest.remove("forked");
        stage.truth.published = stage.newest.values().copied().collect();
        Ok(stage)
    }

    /// Whether what another device added is to be there in the end.
    pub(crate) fn expect_theirs(&mut self, is_there: bool) {
        let theirs = self.newest["theirs"];
        match is_there {
            true => self.truth.published.insert(theirs),
            false => self.truth.published.remove(&theirs),
        };
    }

    fn template(&self, template: Template) -> PathBuf {
        self.place.join(format!("{template:?}"))
    }

    pub(crate) fn objects(&self) -> Objects {
        self.remote.with_objects(|objects| objects.clone())
    }

    pub(crate) fn put(&self, objects: &Objects) {
        self.remote.with_objects(|now| now.clone_from(objects));
    }

    pub(crate) fn secret(&self) -> Secret {
        Secret::KeyFile(self.key.clone())
    }

    fn device(
        &self,
        number: usize,
        folder: PathBuf,
        remote: &'static str,
    ) -> Result<Device, String> {
        let clock = ShiftedClock {
            now: self.now.clone(),
            shift: AtomicI64::new(0),
        };
        Device::new(number, folder, remote, clock, &self.key).map_err(text)
    }

    /// A vault of its own with that remote.
    fn make(&self, name: &str, address: &str) -> Result<Device, String> {
        let folder = self.place.join(name);
        // With a passphrase, so that what remotes get of the header is another form than what the folder has.
        let passphrase = Passphrase::new(b"correct horse").map_err(text)?;
        let options = CreateOptions::new()
            .key_file(self.key.clone())
            .passphrase(passphrase)
            .seen(unseen().seen)
            .tuning(Tuning::AsItIs)
            .engine(engine());
        let vault = Vault::create(&folder, options).map_err(text)?.vault;
        vault.add_remote(STICK, address).map_err(text)?;
        vault.close().map_err(text)?;
        self.device(0, folder, STICK)
    }

    /// A copy of the device as it was, which nothing else uses.
    pub(crate) fn take(&mut self, template: Template) -> Result<Device, String> {
        let folder = self.new_folder();
        copy(&self.template(template), &folder).map_err(text)?;
        match template {
            Template::Behind | Template::UpToDate => self.device(0, folder, STICK),
            Template::Other | Template::Earlier | Template::Forked => {
                self.device(1, folder, CLONED_FROM)
            }
        }
    }

    /// Where a case works.
    fn cases(&self) -> PathBuf {
        self.place.join("cases")
    }

    /// A folder that is not there, for this case.
    pub(crate) fn new_folder(&mut self) -> PathBuf {
        self.folders += 1;
        self.cases().join(self.folders.to_string())
    }

    /// Begins a case: nothing is left of the one before, however it ended.
    pub(crate) fn begin_case(&mut self) -> Result<(), String> {
        self.remote.lie(None);
        self.remote.plan(None);
        let cases = self.cases();
        match fs::remove_dir_all(&cases) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(text(error)),
            _ => fs::create_dir(&cases).map_err(text),
        }
    }

    /// Clones into `folder` by the secret of the vault.
    pub(crate) fn clone_into(&self, folder: &Path) -> Result<(), Error> {
        self.clone_with(folder, CloneContent::Here)
    }

    /// The same, with the content left at the remote.
    pub(crate) fn clone_on_demand_into(&self, folder: &Path) -> Result<(), Error> {
        self.clone_with(folder, CloneContent::AtRemote)
    }

    fn clone_with(&self, folder: &Path, content: CloneContent) -> Result<(), Error> {
        let options = CloneOptions {
            trust: unseen(),
            content,
            ..CloneOptions::default()
        };
        clone(&self.address, folder, &self.secret(), options, &mut |_| {
            GoOn::Yes
        })
        .map(drop)
    }

    /// The device that was cloned into `folder`.
    pub(crate) fn cloned(&self, folder: &Path) -> Result<Device, String> {
        self.device(2, folder.to_owned(), CLONED_FROM)
    }

    fn join(&mut self, name: &str) -> Result<Device, String> {
        let folder = self.place.join(name);
        self.clone_into(&folder).map_err(text)?;
        let device = self.cloned(&folder)?;
        device.sync().map_err(text)?;
        Ok(device)
    }

    /// Writes a file that has `len` new bytes.
    pub(crate) fn write(&mut self, device: &Device, name: &str, len: usize) -> Result<(), String> {
        let piece = self.truth.piece(len, Form::Bytes);
        self.truth.gave(&[piece]);
        self.truth.names.insert(name.to_owned());
        let bytes = self.truth.bytes(&[piece]);
        let path = format!("/{name}");
        self.newest.insert(name.to_owned(), piece);
        device.vault().write(path.as_str(), bytes).map_err(text)
    }

    /// Rewrites everything, keeps no snapshot of it, and removes from the remote what nobody needs then.
    fn let_go(&mut self, device: &mut Device) -> Result<(), String> {
        self.write(device, "one", 120_000)?;
        self.write(device, "three.txt", 2_000)?;
        let vault = device.vault();
        vault.take_revision(&NewRevision::default()).map_err(text)?;
        let all = vault.revisions().map_err(text)?;
        for one in &all[..all.len() - 1] {
            vault.remove_revision(one.id).map_err(text)?;
        }
        vault.compact().map_err(text)?;
        device.drive().map_err(text)?;
        device.reopen().map_err(text)?;
        device.sync().map_err(text)?;
        let pruned = device
            .vault()
            .prune_remote(STICK, Duration::ZERO, &mut yes)
            .map_err(text)?;
        match pruned.objects {
            0 => Err("nothing was removed from the remote".to_owned()),
            _ => Ok(()),
        }
    }

    fn remove_device(&self, by: &Device) -> Result<(), String> {
        let header = fs::read(self.place.join("removed/vault.json")).map_err(text)?;
        let id = self.acting(&self.place.join("removed"), &header)?;
        let id = strongroom_format::hex::encode(&id.revision_signer().device().0);
        let mut keys = Keys::open_with(&by.folder, &by.secret(), unseen()).map_err(text)?;
        keys.remove_device(&id).map_err(text)
    }

    /// The keys of the device in `folder`, by that header.
    fn acting(&self, folder: &Path, header: &[u8]) -> Result<Keyring, String> {
        let mut keyring = unlock(header, &self.secret(), None).map_err(text)?;
        let replica = fs::read(folder.join("replica.json")).map_err(text)?;
        let replica = keyring.open_replica(&replica).map_err(text)?;
        keyring.act_as(&replica).map_err(text)?;
        Ok(keyring)
    }

    /// Lets a device that is to be removed write what nobody may see, and publish it behind everything that the others make meanwhile,
    /// so that it needs nothing of that.
    fn intrude(&mut self, device: Device, before: &Objects) -> Result<(), String> {
        let written = device.vault().write("/intruder", b"of who was removed");
        written.map_err(text)?;
        device.sync().map_err(text)?;
        device.vault().close().map_err(text)?;
        let mut objects = self.objects();
        let header = fs::read(device.folder.join("vault.json")).map_err(text)?;
        let keyring = self.acting(&device.folder, &header)?;
        let (log, live) = follow(&objects, &keyring);
        let last = log.last().ok_or("a device pushed nothing")?;
        let number = last.body.number + 100;
        let body = Publication {
            number,
            base: number,
            sequence: last.body.sequence + 100,
            link: PublicationId([0; 32]),
            segments: live.segments.into_values().collect(),
            revisions: live.revisions.into_values().collect(),
            retired_segments: Vec::new(),
            retired_revisions: Vec::new(),
            ..last.body.clone()
        };
        let (signer, sealer) = (keyring.revision_signer(), keyring.block_sealer());
        let object = seal_publication(body, &signer, &sealer, &SystemRandom).map_err(text)?;
        objects.retain(|name, _| name.split().0 != Some("publications"));
        objects.extend(before.iter().filter_map(|(name, bytes)| {
            let is_other = name.split().0 != Some("publications");
            is_other.then(|| (name.clone(), bytes.clone()))
        }));
        objects.insert(publication_name(number), object);
        self.intruded = objects;
        Ok(())
    }

    /// What a device pushes beyond `known`.
    fn push_from(&mut self, template: Template, name: &str, len: usize) -> Result<Objects, String> {
        self.put(&self.known.clone());
        let device = self.device(1, self.template(template), CLONED_FROM)?;
        device.sync().map_err(text)?;
        self.write(&device, name, len)?;
        device.sync().map_err(text)?;
        device.vault().close().map_err(text)?;
        Ok(self.objects())
    }

    /// What is live in a state of the remote, by all keys that its newest header has.
    pub(crate) fn live(&self, objects: &Objects) -> Result<Live, String> {
        let newest = of_kind(objects, "headers").next_back();
        let newest = newest.ok_or("no header at the remote")?;
        let keyring = unlock_at_remote(&objects[newest], &self.secret()).map_err(text)?;
        Ok(follow(objects, &keyring).1)
    }
}
