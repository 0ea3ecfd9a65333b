//! A process that cannot open any more files for a moment. This program has only one test, because it changes a limit of its process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::File;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use strongroom::{Change, Error, FileOptions, Observer, OpenOptions, Result, SecretSource, Vault};

use support::Place;

/// Asks something while the one connection that its client has is in use, and no descriptor is left for another one.
#[derive(Default)]
struct Asks {
    client: Mutex<Option<Vault>>,
    answer: Mutex<Option<Result<Vec<u8>>>>,
}

impl Observer for Asks {
    fn changed(&self, _: &Change) {
        let client = self.client.lock().unwrap().take();
        if let Some(client) = client {
            let mut taken = Vec::new();
            while let Ok(file) = File::open("/dev/null") {
                taken.push(file);
            }
            let answer = client.read("/kept");
            drop(taken);
            *self.answer.lock().unwrap() = Some(answer);
        }
    }
}

/// Goal: a client that has no descriptor left does not take its owner for gone. Method: a file has content that nobody synced when a
/// further connection cannot be made.
/// Failed before: the client gave up its session, and the file ended with `OwnerGone` although nothing was lost.
#[test]
fn a_client_without_descriptors_does_not_take_its_owner_for_gone() {
    let limit = Rlimit {
        current: Some(256),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let (place, owner) = Place::new();
    let secret = place.secret.clone();
    let source: SecretSource = Arc::new(move || Ok(secret.clone()));
    let client = Vault::open_or_connect(place.folder(), source, OpenOptions::default()).unwrap();
    let options = FileOptions::new().read().write().create();
    let file = client.open_file("/kept", options).unwrap();
    file.write_all_at(b"content", 0).unwrap();

    let asks = Arc::new(Asks::default());
    let told = owner.subscribe(Arc::clone(&asks) as Arc<dyn Observer>);
    *asks.client.lock().unwrap() = Some(client.clone());
    client.write("/other", "later").unwrap();
    let answer = asks.answer.lock().unwrap().take();
    assert!(matches!(answer, Some(Err(Error::Io { .. }))), "{answer:?}");

    file.sync_all().unwrap();
    client.sync().unwrap();
    assert_eq!(client.read("/kept").unwrap(), b"content");
    drop((file, told, asks));
    client.close().unwrap();
    owner.close().unwrap();
}
