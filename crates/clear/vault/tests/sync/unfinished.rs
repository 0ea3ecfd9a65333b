//! Pushes that were interrupted between two publications, and what other devices make of them; states that a remote has in part.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use strongroom::{CloneOptions, Error, GoOn, OpenOptions, SystemRandom, Vault, clone};
use strongroom_format::publication::{Publication, SignedPublication};
use strongroom_sync::{open_publication, publication_name, seal_publication};

use crate::support::content;
use crate::{Devices, fill, tree};

/// A second remote, which each device calls so.
pub(crate) const SECOND: &str = "second";

fn second(devices: &Devices) -> PathBuf {
    devices.place.directory.path().join(SECOND)
}

/// Lets each device know a second remote, to which nobody has pushed.
pub(crate) fn add_second(devices: &Devices) {
    fs::create_dir(second(devices)).unwrap();
    for vault in &devices.vaults {
        let address = format!("folder:{}", second(devices).display());
        vault.add_remote(SECOND, &address).unwrap();
    }
}

/// How many publications a remote has.
fn publications(remote: &Path) -> usize {
    let folder = fs::read_dir(remote.join("publications"));
    folder.map_or(0, |entries| entries.count())
}

/// A push to the second remote in pages of one object that is stopped after its first publication.
fn push_one_page(devices: &Devices, number: usize) {
    let vault = &devices.vaults[number];
    let before = publications(&second(devices));
    vault.push_in_pages_of(1);
    let stopped = vault.push(
        SECOND,
        &mut |_| match publications(&second(devices)) == before {
            true => GoOn::Yes,
            false => GoOn::No,
        },
    );
    assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
    assert_eq!(publications(&second(devices)), before + 1);
}

fn try_clone(devices: &Devices, remote: &Path, name: &str) -> Result<Vault, Error> {
    let folder = devices.place.directory.path().join(name);
    let address = format!("folder:{}", remote.display());
    let (secret, options) = (&devices.place.secret, CloneOptions::default());
    clone(&address, &folder, secret, options, &mut |_| GoOn::Yes)?;
    Vault::open(folder, secret.clone(), OpenOptions::default())
}

/// Goal: what a device publishes is whole for everybody, although another one, which has the same, is in the middle of a push there.
/// Method: one device is stopped behind the first publication of a push to a new remote, another pushes the same to it; then somebody
/// clones from there, a device that lacks the newest state pulls, and the first device ends its push.
/// Failed before: the clone lacked what the first publication had named, and the pull ended in "lacks blocks".
#[test]
fn a_push_beside_an_interrupted_one_of_the_same_state_is_whole() {
    let devices = Devices::new(3, fill);
    devices.settle();
    add_second(&devices);
    devices.vaults[0].make_directory("/new", 0o755).unwrap();
    devices.vaults[0]
        .write("/new/file", content(200_000, 5))
        .unwrap();
    devices.sync(0);
    devices.sync(1);
    for page in [1, 2048] {
        push_one_page(&devices, 0);
        let more = format!("/by the second {page}");
        devices.vaults[1].write(&*more, b"more").unwrap();
        devices.vaults[1].push_in_pages_of(page);
        let pushed = devices.vaults[1].sync_with(SECOND, &mut |_| GoOn::Yes);
        assert!(pushed.unwrap().pushed.publications > 0);
        // There is nothing left to say.
        let again = devices.vaults[1].sync_with(SECOND, &mut |_| GoOn::Yes);
        assert_eq!(again.unwrap(), strongroom::SyncReport::default());
        let name = format!("newcomer{page}");
        let newcomer = try_clone(&devices, &second(&devices), &name).unwrap();
        assert_eq!(tree(&newcomer), tree(&devices.vaults[1]));
        newcomer.close().unwrap();
        let pulled = devices.vaults[2].pull(SECOND, &mut |_| GoOn::Yes);
        pulled.unwrap();
        assert_eq!(tree(&devices.vaults[2]), tree(&devices.vaults[1]));
        for number in [0, 1, 2, 0] {
            let synced = devices.vaults[number].sync_with(SECOND, &mut |_| GoOn::Yes);
            synced.unwrap();
        }
        let more = format!("/by the first {page}");
        devices.vaults[0]
            .write(&*more, content(100_000, page))
            .unwrap();
        devices.sync(0);
        devices.sync(1);
    }
    devices.settle();
    devices.assert_same();
    let pushed = devices.vaults[0].sync_with(SECOND, &mut |_| GoOn::Yes);
    pushed.unwrap();
    let newcomer = try_clone(&devices, &second(&devices), "last").unwrap();
    assert_eq!(tree(&newcomer), tree(&devices.vaults[0]));
}

/// All publications at the remote of `devices`, and what seals another one as the second device.
pub(crate) struct Log {
    pub(crate) all: Vec<SignedPublication>,
    pub(crate) signer: strongroom_crypto::RevisionSigner,
    pub(crate) sealer: strongroom_crypto::BlockSealer,
}

pub(crate) fn log(devices: &Devices) -> Log {
    let read = |name: &str| fs::read(devices.folder(1).join(name)).unwrap();
    let (header, replica) = (read("vault.json"), read("replica.json"));
    let mut keyring = strongroom_crypto::unlock(&header, &devices.place.secret, None).unwrap();
    let replica = keyring.open_replica(&replica).unwrap();
    keyring.act_as(&replica).unwrap();
    let (signer, sealer) = (keyring.revision_signer(), keyring.block_sealer());
    let folder = devices.place.directory.path().join("remote/publications");
    let names = fs::read_dir(&folder).unwrap();
    let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    names.sort();
    let open = |name: &std::ffi::OsString| {
        let number = name.to_str().unwrap().parse().unwrap();
        let object = fs::read(folder.join(name)).unwrap();
        open_publication(number, &object, &signer, &sealer).unwrap()
    };
    let all = names.iter().map(open).collect();
    Log {
        all,
        signer,
        sealer,
    }
}

/// Goal: a clone has all names of the state that was published last, or fails and says what to do. Method: for each segment in turn a
/// publication with the same head says that it is not live; nodes of several directories lie in different segments.
/// Failed before: it showed an older state, or lacked names, which its next push published as removed.
#[test]
fn a_clone_has_every_name_of_the_published_state_or_fails() {
    let devices = Devices::new(2, |vault| {
        vault
            .write("/larger than a segment", content(17 << 20, 6))
            .unwrap();
    });
    for number in 0..4_u8 {
        let folder = format!("/folder{number}");
        devices.vaults[0].make_directory(&*folder, 0o755).unwrap();
        for file in 0..40_u64 {
            let path = format!("{folder}/a name that is rather long for a file {file}");
            devices.vaults[0]
                .write(&*path, content(3_000, file))
                .unwrap();
        }
        devices.sync(0);
    }
    devices.settle();
    let names = |vault: &Vault| -> BTreeSet<Vec<u8>> {
        let entries = vault.walk("/").unwrap();
        entries.map(|entry| entry.unwrap().path).collect()
    };
    let all = names(&devices.vaults[0]);
    let Log {
        all: log,
        signer,
        sealer,
    } = log(&devices);
    let last = log.last().unwrap();
    let hashes = log.iter().flat_map(|one| &one.body.segments);
    let hashes: BTreeSet<[u8; 32]> = hashes.map(|segment| segment.hash).collect();
    let body = Publication {
        number: last.body.number + 1,
        link: last.id,
        device: signer.device(),
        sequence: 100,
        segments: Vec::new(),
        revisions: Vec::new(),
        retired_segments: Vec::new(),
        retired_revisions: Vec::new(),
        ..last.body.clone()
    };
    let remote = devices.place.directory.path().join("remote");
    let object = remote.join(publication_name(body.number).as_str());
    let (mut refused, mut whole) = (0, 0);
    for hash in hashes {
        let retired_segments = vec![hash];
        let body = Publication {
            retired_segments,
            ..body.clone()
        };
        let sealed = seal_publication(body, &signer, &sealer, &SystemRandom).unwrap();
        fs::write(&object, sealed).unwrap();
        match try_clone(&devices, &remote, &format!("clone{refused}-{whole}")) {
            Ok(newcomer) => {
                assert_eq!(names(&newcomer), all);
                whole += 1;
            }
            Err(Error::RemoteUntrue(why)) => {
                assert!(why.contains("strongroom push"), "{why}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        fs::remove_file(&object).unwrap();
    }
    assert!(
        refused >= 3 && whole >= 1,
        "{refused} refused, {whole} whole"
    );
}
