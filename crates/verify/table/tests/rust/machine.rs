//! The state of a case: vaults, files, snapshots and transactions, by their names in the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use strongroom::{
    CreateOptions, File, KeyFile, OpenOptions, Passphrase, Secret, SeenRecords, Snapshot,
    Transaction, Vault,
};
use strongroom_table::{Begin, Step, Table, Value};

/// EINVAL: a secret that is none.
const INVALID: i32 = 22;

pub(crate) struct Machine {
    pub(crate) key_files: BTreeMap<String, String>,
    /// The vault of all cases that begin with one.
    main: Vault,
    pub(crate) folder: PathBuf,
    folders: tempfile::TempDir,
    folder_count: usize,
    pub(crate) vaults: BTreeMap<String, Vault>,
    pub(crate) files: BTreeMap<String, File>,
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    pub(crate) transactions: BTreeMap<String, Transaction>,
    /// Files that were shadowed by newer ones of their name.
    shadowed: Vec<File>,
}

impl Machine {
    pub(crate) fn new(table: &Table) -> Self {
        let folders = tempfile::tempdir().unwrap();
        let options = CreateOptions::new().seen(SeenRecords::Nowhere);
        let main = Vault::create(folders.path().join("main"), options).unwrap();
        Self {
            key_files: table.key_files.clone(),
            main: main.vault,
            folder: PathBuf::new(),
            folders,
            folder_count: 0,
            vaults: BTreeMap::new(),
            files: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            transactions: BTreeMap::new(),
            shadowed: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, begin: Begin) {
        self.folder_count += 1;
        self.folder = self.folders.path().join(self.folder_count.to_string());
        std::fs::create_dir(&self.folder).unwrap();
        if begin == Begin::Vault {
            empty(&self.main);
            self.vaults.insert("main".to_owned(), self.main.clone());
        }
    }

    pub(crate) fn end(&mut self) {
        self.shadowed.clear();
        self.files.clear();
        self.snapshots.clear();
        self.transactions.clear();
        self.vaults.remove("main");
        // Clients before the owner, which waits for them.
        let vaults: Vec<Vault> = std::mem::take(&mut self.vaults).into_values().collect();
        let (owners, clients): (Vec<_>, Vec<_>) = vaults.into_iter().partition(Vault::is_owner);
        for vault in clients.into_iter().chain(owners) {
            vault.close().unwrap();
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
    }

    pub(crate) fn vault(&self, step: &Step) -> &Vault {
        &self.vaults[step.text_or("vault", "main")]
    }

    pub(crate) fn file(&self, step: &Step, argument: &str) -> &File {
        &self.files[step.text(argument)]
    }

    pub(crate) fn keep_file(&mut self, step: &Step, file: File) {
        let shadowed = self.files.insert(step.text("as").to_owned(), file);
        self.shadowed.extend(shadowed);
    }

    pub(crate) fn secret(&self, value: &Value) -> Result<Secret, i32> {
        let (kind, value) = value.fields().first_key_value().expect("a secret");
        match kind.as_str() {
            "passphrase" => Passphrase::new(&value.bytes())
                .map(Secret::Passphrase)
                .map_err(|_| INVALID),
            "key_file" => {
                let text = &self.key_files[value.text()];
                Ok(Secret::KeyFile(KeyFile::parse(text.as_bytes()).unwrap()))
            }
            other => panic!("{other} is no kind of secret"),
        }
    }

    pub(crate) fn create_options(&self, secret: &Value) -> Result<CreateOptions, i32> {
        let options = CreateOptions::new().seen(SeenRecords::Nowhere);
        Ok(match self.secret(secret)? {
            Secret::Passphrase(passphrase) => options.passphrase(passphrase),
            Secret::KeyFile(key_file) => options.key_file(key_file),
            _ => unreachable!("the table has no others"),
        })
    }
}

pub(crate) fn open_options(read_only: bool) -> OpenOptions {
    let mut options = match read_only {
        true => OpenOptions::read_only(),
        false => OpenOptions::default(),
    };
    options.trust.seen = SeenRecords::Nowhere;
    options
}

/// Takes everything out of a vault.
fn empty(vault: &Vault) {
    for entry in vault.list("/").unwrap() {
        let entry = entry.unwrap();
        let path = [b"/", &entry.name[..]].concat();
        match entry.attributes.kind {
            strongroom::filesystem::NodeKind::Directory => vault.remove_dir_all(path).unwrap(),
            _ => vault.remove_file(path).unwrap(),
        }
    }
    for one in vault.revisions().unwrap() {
        vault.remove_revision(one.id).unwrap();
    }
}
