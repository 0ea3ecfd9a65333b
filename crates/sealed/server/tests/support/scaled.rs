//! A database of PostgreSQL and a place in an S3 server for one test. Both servers are started by `tools/server_test.py`, which says in the
//! environment where they are; without it the tests that need them say that they are skipped.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt};
use strongroom_remote::Address;
use strongroom_server::{Configuration, Storage};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use url::Url;

/// A database in which others can be made.
const DATABASE: &str = "STRONGROOM_TEST_DATABASE";

/// A bucket, with its keys.
pub(crate) const OBJECTS: &str = "STRONGROOM_TEST_OBJECTS";

/// Set where nothing may be skipped.
const REQUIRED: &str = "STRONGROOM_TEST_SCALED";

/// How long is waited for what another process does.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one test has of them.
pub(crate) struct Services {
    admin: Url,
    name: String,
    objects: Url,
    /// Where instances reach them, if that is another address.
    ports: Option<(u16, u16)>,
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

async fn client(url: &Url) -> Client {
    let (client, connection) = tokio_postgres::connect(url.as_str(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The URL that the environment says; `None`, and a word, if it says none.
pub(crate) fn said(name: &str) -> Option<Url> {
    if let Ok(url) = std::env::var(name) {
        return Some(Url::parse(&url).unwrap());
    }
    assert!(
        std::env::var_os(REQUIRED).is_none(),
        "{REQUIRED} is set, and {name} is not: run it by tools/server_test.py"
    );
    eprintln!("skipped: {name} is not set; tools/server_test.py sets it");
    None
}

/// A part of a name that no other test of any process has.
pub(crate) fn own_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", std::process::id())
}

impl Services {
    /// An empty database, and an empty place in the bucket.
    pub(crate) fn new() -> Option<Self> {
        let (admin, objects) = (said(DATABASE)?, said(OBJECTS)?);
        let services = Self::named(&admin, &objects);
        services.administer(&format!("CREATE DATABASE \"{}\"", services.name));
        Some(services)
    }

    fn named(admin: &Url, objects: &Url) -> Self {
        let (name, mut objects) = (own_name(), objects.clone());
        objects.set_path(&format!("/{name}"));
        Self {
            admin: admin.clone(),
            name,
            objects,
            ports: None,
        }
    }

    /// The ports of the database and of the object store.
    pub(crate) fn own_ports(&self) -> (u16, u16) {
        let pairs = self.objects.query_pairs();
        let mut endpoints = pairs.filter(|(name, _)| name == "endpoint");
        let endpoint = Url::parse(&endpoints.next().unwrap().1).unwrap();
        (self.admin.port().unwrap(), endpoint.port().unwrap())
    }

    /// From here on instances reach them at these ports of this machine.
    pub(crate) fn reached_at(&mut self, database: u16, objects: u16) {
        self.ports = Some((database, objects));
    }

    pub(crate) fn storage(&self) -> Storage {
        let (mut database, mut objects) = (self.database(), self.objects.to_string());
        if let Some((of_database, of_objects)) = self.ports {
            let own = self.own_ports();
            database = database.replace(&format!(":{}/", own.0), &format!(":{of_database}/"));
            // The colon may be escaped.
            let port = |number: u16| format!("{number}&region");
            objects = objects.replace(&port(own.1), &port(of_objects));
        }
        let configuration = Configuration {
            database: Some(database),
            objects: Some(objects),
            ..Configuration::default()
        };
        configuration.storage().unwrap()
    }

    /// The URL of the database.
    pub(crate) fn database(&self) -> String {
        let mut url = self.admin.clone();
        url.set_path(&self.name);
        url.to_string()
    }

    /// The URL of the place in the bucket.
    pub(crate) fn objects(&self) -> String {
        self.objects.to_string()
    }

    /// The settings of an instance, as a file has them.
    pub(crate) fn settings(&self) -> String {
        let (database, objects) = (self.database(), &self.objects);
        format!(
            "database = '{database}'\nobjects = '{objects}'\nno_tls = true\nlisten = '127.0.0.1:0'\n"
        )
    }

    fn administer(&self, sql: &str) {
        wait(async { client(&self.admin).await.batch_execute(sql).await.unwrap() });
    }

    /// The first column of what statements answer.
    pub(crate) fn sql(&self, sql: &str) -> Vec<String> {
        let url = Url::parse(&self.database()).unwrap();
        let answered = wait(async { client(&url).await.simple_query(sql).await.unwrap() });
        let first = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        answered.iter().filter_map(first).collect()
    }

    fn store(&self) -> (AmazonS3, Path) {
        let address = Address::parse(self.objects.as_str()).unwrap();
        let (builder, below) = address.s3(ClientOptions::new()).unwrap();
        (builder.build().unwrap(), below.join("objects"))
    }

    /// The names of what is in the object store.
    pub(crate) fn stored(&self) -> Vec<Path> {
        let (store, _) = self.store();
        wait(self.stored_in(&store))
    }

    async fn stored_in(&self, store: &AmazonS3) -> Vec<Path> {
        let (_, below) = self.store();
        let listed = store.list(Some(&below)).try_collect::<Vec<_>>().await;
        let mut names: Vec<Path> = listed
            .unwrap()
            .into_iter()
            .map(|one| one.location)
            .collect();
        names.sort();
        names
    }

    /// Puts something there.
    pub(crate) fn put(&self, name: &str, bytes: &'static [u8]) {
        let (store, below) = self.store();
        let put = wait(store.put(&below.join(name), bytes.into()));
        put.unwrap();
    }

    /// Replaces what is there, or removes it.
    pub(crate) fn damage(&self, at: &Path, bytes: Option<&'static [u8]>) {
        let (store, _) = self.store();
        match bytes {
            Some(bytes) => drop(wait(store.put(at, bytes.into())).unwrap()),
            None => wait(store.delete(at)).unwrap(),
        }
    }

    /// Uploads that are noted, and files that go; waits until there are none.
    pub(crate) fn moving(&self) -> usize {
        let begun = Instant::now();
        loop {
            let rows = self.sql("SELECT file FROM coming UNION ALL SELECT file FROM going");
            if rows.is_empty() || begun.elapsed() > PATIENCE {
                return rows.len();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The same database and objects somewhere else. No instance runs.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::named(&self.admin, &self.objects);
        let sql = format!(
            "CREATE DATABASE \"{}\" TEMPLATE \"{}\"",
            copy.name, self.name
        );
        let begun = Instant::now();
        // Connections of an instance that has stopped may end a moment later.
        while let Err(error) = wait(async { client(&self.admin).await.batch_execute(&sql).await }) {
            assert!(begun.elapsed() < PATIENCE, "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let ((from, _), (to, below)) = (self.store(), copy.store());
        wait(async {
            for at in self.stored_in(&from).await {
                let bytes = from.get(&at).await.unwrap().bytes().await.unwrap();
                let name = below.clone().join(at.filename().unwrap());
                to.put(&name, bytes.into()).await.unwrap();
            }
        });
        copy
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.administer(&format!("DROP DATABASE \"{}\" WITH (FORCE)", self.name));
        }
    }
}
