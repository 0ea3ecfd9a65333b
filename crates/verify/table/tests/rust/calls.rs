//! The operations of the table as calls of the library.

use std::io::{Read, Seek, SeekFrom, Write};

use strongroom::filesystem::{
    AllocateMode, Attributes, Durability, NodeKind, RenameMode, SeekTarget, SetAttributes, SetTime,
    Timestamp, XattrMode,
};
use strongroom::{
    AddKey, CloneContent, CloneOptions, Directory, Error, FileOptions, GoOn, Keys, Links, NewKey,
    NewRevision, Operation, Retention, Secret, SeenRecords, Trust, Vault, VerifyOptions, Walk,
    Whose,
};
use strongroom_table::{Step, Value};

use crate::machine::{Machine, open_options};

/// What a call gave.
#[derive(Debug)]
pub(crate) enum Given {
    Nothing,
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
    Integer(i64),
    Boolean(bool),
    Attributes(Box<Attributes>),
}

type Outcome = Result<Given, i32>;

impl Given {
    /// Whether it is what the table says.
    pub(crate) fn is(&self, expected: &Value) -> bool {
        match self {
            Self::Nothing => false,
            Self::Bytes(bytes) => *bytes == expected.bytes(),
            Self::List(list) => *list == expected.bytes_list(),
            Self::Integer(number) => *number == expected.integer(),
            Self::Boolean(boolean) => *boolean == expected.boolean(),
            Self::Attributes(node) => expected
                .fields()
                .iter()
                .all(|(name, value)| is_attribute(node, name, value)),
        }
    }
}

fn is_attribute(node: &Attributes, name: &str, value: &Value) -> bool {
    let number = match name {
        "kind" => return node.kind == kind(value.text()),
        "mode" => i64::from(node.mode),
        "uid" => i64::from(node.uid),
        "gid" => i64::from(node.gid),
        "rdev" => signed(node.rdev),
        "nlink" => i64::from(node.nlink),
        "size" => signed(node.size),
        "atime" => node.atime.0,
        "mtime" => node.mtime.0,
        other => panic!("{other} is no attribute"),
    };
    number == value.integer()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("no case has numbers so large")
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).expect("cases with negative numbers are not for this language")
}

fn number(number: i64) -> u32 {
    u32::try_from(number).expect("32 bits")
}

fn kind(name: &str) -> NodeKind {
    match name {
        "file" => NodeKind::File,
        "directory" => NodeKind::Directory,
        "symlink" => NodeKind::Symlink,
        "pipe" => NodeKind::Fifo,
        "socket" => NodeKind::Socket,
        "character-device" => NodeKind::CharDevice,
        "block-device" => NodeKind::BlockDevice,
        other => panic!("{other} is no kind"),
    }
}

fn links(step: &Step) -> Links {
    match step.text_or("links", "follow") {
        "follow" => Links::Follow,
        "stay" => Links::Stay,
        other => panic!("{other} says nothing about symlinks"),
    }
}

fn rename_mode(step: &Step) -> RenameMode {
    match step.text_or("how", "replace") {
        "replace" => RenameMode::Replace,
        "no_replace" => RenameMode::NoReplace,
        "exchange" => RenameMode::Exchange,
        "whiteout" => RenameMode::Whiteout,
        other => panic!("{other} is no way to rename"),
    }
}

fn xattr_mode(step: &Step) -> XattrMode {
    match step.text_or("how", "set") {
        "set" => XattrMode::Set,
        "create" => XattrMode::CreateOnly,
        "replace" => XattrMode::ReplaceOnly,
        other => panic!("{other} is no way to set an attribute"),
    }
}

fn file_options(step: &Step) -> FileOptions {
    let mut options = FileOptions::new().mode(number(step.integer_or("mode", 0o644)));
    for flag in step.get("flags").list() {
        options = match flag.text() {
            "read" => options.read(),
            "write" => options.write(),
            "append" => options.append(),
            "truncate" => options.truncate(),
            "create" => options.create(),
            "create_new" => options.create_new(),
            other => panic!("{other} is no flag"),
        };
    }
    options
}

/// What a step sets: the attributes that it names.
fn set(step: &Step) -> SetAttributes {
    let time = |name| {
        let time = step.find(name)?.integer();
        Some(SetTime::At(Timestamp(time)))
    };
    let id = |name| step.find(name).map(|id| number(id.integer()));
    SetAttributes {
        mode: id("mode"),
        uid: id("uid"),
        gid: id("gid"),
        size: step.find("size").map(|size| unsigned(size.integer())),
        atime: time("atime"),
        mtime: time("mtime"),
    }
}

fn trust() -> Trust {
    Trust {
        seen: SeenRecords::Nowhere,
        ..Trust::default()
    }
}

fn failed(error: Error) -> i32 {
    error.errno()
}

/// The number of an error of `std::io`, which holds one of the library.
fn io_failed(error: std::io::Error) -> i32 {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(error) => Error::errno(error),
        None if error.kind() == std::io::ErrorKind::InvalidInput => 22,
        None => panic!("an error of nobody: {error}"),
    }
}

fn done(result: Result<(), Error>) -> Outcome {
    result.map(|()| Given::Nothing).map_err(failed)
}

fn bytes(result: Result<Vec<u8>, Error>) -> Outcome {
    result.map(Given::Bytes).map_err(failed)
}

fn boolean(result: Result<bool, Error>) -> Outcome {
    result.map(Given::Boolean).map_err(failed)
}

fn attributes(result: Result<Attributes, Error>) -> Outcome {
    result
        .map(|node| Given::Attributes(Box::new(node)))
        .map_err(failed)
}

fn list(result: Result<Vec<Vec<u8>>, Error>) -> Outcome {
    let mut list = result.map_err(failed)?;
    list.sort();
    Ok(Given::List(list))
}

fn names(listed: Result<Directory, Error>) -> Outcome {
    let names = listed.and_then(|listed| listed.map(|entry| Ok(entry?.name)).collect());
    list(names)
}

fn walked(walk: Result<Walk, Error>) -> Outcome {
    let paths = walk.and_then(|walk| walk.map(|entry| Ok(entry?.path)).collect());
    paths.map(Given::List).map_err(failed)
}

impl Machine {
    pub(crate) fn call(&mut self, step: &Step) -> Outcome {
        if step.find("snapshot").is_some() {
            self.call_snapshot(step)
        } else if step.find("transaction").is_some() {
            self.call_transaction(step)
        } else if step.find("file").is_some() {
            self.call_file(step)
        } else if step.find("folder").is_some() {
            self.call_folder(step)
        } else {
            self.call_vault(step)
        }
    }

    fn call_folder(&mut self, step: &Step) -> Outcome {
        let folder = self.folder.join(step.text("folder"));
        let secret = |name| self.secret(step.get(name));
        match step.op.as_str() {
            "put_outside" => {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(folder.join(step.text("name")), step.bytes("data")).unwrap();
            }
            "remove_outside" => std::fs::remove_file(folder.join(step.text("name"))).unwrap(),
            "create" => {
                let options = self.create_options(step.get("secret"))?;
                let created = Vault::create(folder, options).map_err(failed)?;
                self.vaults
                    .insert(step.text("as").to_owned(), created.vault);
            }
            "open_vault" => {
                let options = open_options(step.flag("read_only"));
                let secret = secret("secret")?;
                let opened = match step.flag("own") {
                    true => Vault::open(folder, secret, options),
                    false => {
                        let source = std::sync::Arc::new(move || Ok(secret.clone()));
                        Vault::open_or_connect(folder, source, options)
                    }
                };
                let vault = opened.map_err(failed)?;
                self.vaults.insert(step.text("as").to_owned(), vault);
            }
            "keys" => {
                let secret = secret("secret")?;
                let keys = Keys::open_with(folder, &secret, trust()).map_err(failed)?;
                let slots = keys.slots().into_iter();
                return Ok(Given::List(
                    slots.map(|slot| slot.label.into_bytes()).collect(),
                ));
            }
            "add_key" => {
                let key = match secret("new")? {
                    Secret::Passphrase(passphrase) => AddKey::Passphrase(passphrase),
                    Secret::KeyFile(key_file) => AddKey::Other(NewKey::KeyFile(key_file)),
                    _ => unreachable!("the table has no others"),
                };
                let secret = secret("secret")?;
                let mut keys = Keys::open_with(folder, &secret, trust()).map_err(failed)?;
                keys.add(step.text("label"), key).map_err(failed)?;
            }
            "remove_key" => {
                let secret = secret("secret")?;
                let mut keys = Keys::open_with(folder, &secret, trust()).map_err(failed)?;
                let mut slots = keys.slots().into_iter();
                let slot = slots.find(|slot| slot.label == step.text("label"));
                keys.remove(slot.expect("a case removes what is there").id)
                    .map_err(failed)?;
            }
            "backup" => {
                let vault = self.vault(step);
                vault.backup(folder, &mut |_| GoOn::Yes).map_err(failed)?;
            }
            "clone" => {
                let content = match step.flag("on_demand") {
                    true => CloneContent::AtRemote,
                    false => CloneContent::Here,
                };
                let options = CloneOptions {
                    trust: trust(),
                    content,
                    ..CloneOptions::default()
                };
                let secret = secret("secret")?;
                let place = self.place(step);
                strongroom::clone(&place, folder, &secret, options, &mut |_| GoOn::Yes)
                    .map_err(failed)?;
            }
            other => panic!("{other} is no operation on a folder"),
        }
        Ok(Given::Nothing)
    }

    /// The URL of the remote that a step means.
    fn place(&self, step: &Step) -> String {
        let place = self.folder.join(step.text("place"));
        format!("folder:{}", place.display())
    }

    fn call_vault(&mut self, step: &Step) -> Outcome {
        let vault = self.vault(step).clone();
        let path = || step.bytes("path");
        let selected = || vault.select_revision(step.text("selector"));
        match step.op.as_str() {
            "close_vault" => done(vault.close()),
            "sync" => done(vault.sync()),
            "check" => boolean(vault.check().map(|report| report.problems.is_empty())),
            "verify" => {
                let options = VerifyOptions {
                    deep: step.flag("deep"),
                    ..VerifyOptions::default()
                };
                let report = vault.verify(options, &mut |_| GoOn::Yes);
                boolean(report.map(|report| report.is_sound()))
            }
            "read_file" => bytes(vault.read(path())),
            "write_file" => done(vault.write(path(), step.bytes("data"))),
            "replace" => done(vault.replace(path(), step.bytes("data"), Durability::WriteBehind)),
            "exists" => boolean(vault.exists(path())),
            "stat" => attributes(vault.attributes(path(), links(step))),
            "truncate" | "chmod" | "chown" | "utime" => {
                attributes(vault.set_attributes(path(), links(step), &set(step)))
            }
            "open" => {
                let file = vault
                    .open_file(path(), file_options(step))
                    .map_err(failed)?;
                self.keep_file(step, file);
                Ok(Given::Nothing)
            }
            "unnamed" => {
                let mode = number(step.integer_or("mode", 0o600));
                let file = vault.unnamed_file(path(), mode).map_err(failed)?;
                self.keep_file(step, file);
                Ok(Given::Nothing)
            }
            "mkdir" => {
                let mode = number(step.integer_or("mode", 0o755));
                attributes(vault.make_directory(path(), mode))
            }
            "mkdir_all" => {
                let mode = number(step.integer_or("mode", 0o755));
                done(vault.create_dir_all(path(), mode))
            }
            "rmdir" => done(vault.remove_directory(path())),
            "remove" => done(vault.remove_file(path())),
            "remove_all" => done(vault.remove_dir_all(path())),
            "rename" => done(vault.rename(path(), step.bytes("to"), rename_mode(step))),
            "link" => attributes(vault.link(path(), step.bytes("to"))),
            "symlink" => attributes(vault.make_symlink(step.bytes("target"), path())),
            "readlink" => bytes(vault.read_link(path())),
            "mknod" => {
                let mode = number(step.integer_or("mode", 0o644));
                let rdev = unsigned(step.integer_or("rdev", 0));
                attributes(vault.make_node(path(), kind(step.text("kind")), mode, rdev))
            }
            "list" => names(vault.list(path())),
            "walk" => walked(vault.walk(path())),
            "getxattr" => bytes(vault.xattr(path(), links(step), step.bytes("name"))),
            "setxattr" => done(vault.set_xattr(
                path(),
                links(step),
                step.bytes("name"),
                step.bytes("value"),
                xattr_mode(step),
            )),
            "removexattr" => done(vault.remove_xattr(path(), links(step), step.bytes("name"))),
            "listxattr" => list(vault.xattrs(path(), links(step))),
            "take_snapshot" => boolean(
                vault
                    .take_revision(&new_revision(step))
                    .map(|taken| taken.is_some()),
            ),
            "snapshots" => {
                let all = vault.revisions().map_err(failed)?.into_iter();
                Ok(Given::List(
                    all.map(|one| one.message.into_bytes()).collect(),
                ))
            }
            "remove_snapshot" => done(selected().and_then(|one| vault.remove_revision(one.id))),
            "snapshot" | "at" => {
                let state = match step.op.as_str() {
                    "snapshot" => vault.snapshot(),
                    _ => vault.at(step.text("selector")),
                };
                let state = state.map_err(failed)?;
                self.snapshots.insert(step.text("as").to_owned(), state);
                Ok(Given::Nothing)
            }
            "restore" => {
                let restored =
                    selected().and_then(|one| vault.restore(one.id, path(), step.bytes("to")));
                restored
                    .map(|restored| Given::Integer(signed(restored.nodes)))
                    .map_err(failed)
            }
            "diff" => {
                let path = step.find("path").map_or(b"/".to_vec(), Value::bytes);
                let before = selected().map_err(failed)?.id;
                let after = match step.find("after") {
                    Some(_) => {
                        let found = vault.select_revision(step.text("after"));
                        Some(found.map_err(failed)?.id)
                    }
                    None => None,
                };
                let mut paths = Vec::new();
                vault
                    .differences(before, after, path, |one| {
                        paths.push(one.path);
                        Ok::<_, Error>(())
                    })
                    .map_err(failed)?;
                Ok(Given::List(paths))
            }
            "thin" => vault
                .retention()
                .and_then(|rule| vault.thin(&rule.unwrap_or(Retention::DEFAULT)))
                .map(|gone| Given::Integer(signed(gone.len() as u64)))
                .map_err(failed),
            "set_retention" => done(vault.set_retention(&rule(step))),
            "retention" => {
                let rule = vault.retention();
                bytes(rule.map(|rule| shown(&rule.unwrap_or(Retention::DEFAULT))))
            }
            "shared_retention" => {
                let rule = vault.shared_retention();
                bytes(rule.map(|rule| rule.as_ref().map(shown).unwrap_or_default()))
            }
            "usage" => boolean(vault.usage().map(|usage| usage.kept_bytes > 0)),
            "erase" => vault
                .erase(path(), step.flag("trial"))
                .map(|erased| Given::Integer(signed(erased.files)))
                .map_err(failed),
            "begin" => {
                let name = step.text("as").to_owned();
                self.transactions.insert(name, vault.begin());
                Ok(Given::Nothing)
            }
            "add_remote" => done(vault.add_remote(step.text("name"), &self.place(step))),
            "remotes" => {
                let all = vault.remotes().map_err(failed)?.into_iter();
                Ok(Given::List(all.map(|one| one.name.into_bytes()).collect()))
            }
            "remove_remote" => done(vault.remove_remote(step.text("name"))),
            "push" => done(vault.push(step.text("name"), &mut |_| GoOn::Yes).map(drop)),
            "pull" => done(vault.pull(step.text("name"), &mut |_| GoOn::Yes).map(drop)),
            "sync_with" => {
                let report = vault.sync_with(step.text("name"), &mut |_| GoOn::Yes);
                report
                    .map(|report| Given::Integer(signed(report.pulled.conflicts)))
                    .map_err(failed)
            }
            "waiting" => {
                let status = vault.remote_status(step.text("name"));
                boolean(status.map(|status| status.is_waiting))
            }
            "check_remote" => {
                let (name, deep) = (step.text("name"), step.flag("deep"));
                let report = vault.check_remote(name, deep, &mut |_| GoOn::Yes);
                boolean(report.map(|report| report.problems.is_empty()))
            }
            "prune" => {
                let (name, now) = (step.text("name"), std::time::Duration::ZERO);
                done(vault.prune_remote(name, now, &mut |_| GoOn::Yes).map(drop))
            }
            "evict" => {
                let path = step.find("path").map(Value::bytes);
                let report = vault.evict(path.as_deref(), &mut |_| GoOn::Yes);
                boolean(report.map(|report| report.segments > 0))
            }
            "evict_to_limit" => {
                let report = vault.evict_to_limit(&mut |_| GoOn::Yes);
                boolean(report.map(|report| report.segments > 0))
            }
            "bring_back" => {
                let path = step.find("path").map(Value::bytes);
                let report = vault.bring_back(path.as_deref(), &mut |_| GoOn::Yes);
                boolean(report.map(|report| report.segments > 0))
            }
            "set_keep_at_most" => {
                let limit = step.find("bytes").map(|limit| unsigned(limit.integer()));
                done(vault.set_keep_at_most(limit))
            }
            "keep_at_most" => vault
                .keep_at_most()
                .map(|limit| Given::Integer(limit.map_or(0, signed)))
                .map_err(failed),
            "away" => boolean(vault.information().map(|facts| facts.away_bytes > 0)),
            "pin" => done(vault.pin(step.bytes("path"), &mut |_| GoOn::Yes).map(drop)),
            "unpin" => boolean(vault.unpin(step.bytes("path"))),
            "pins" => list(vault.pins()),
            other => panic!("{other} is no operation on a vault"),
        }
    }

    fn call_file(&mut self, step: &Step) -> Outcome {
        if step.op == "close" {
            self.files.remove(step.text("file")).expect("it is open");
            return Ok(Given::Nothing);
        }
        let file = self.file(step, "file");
        let len = || usize::try_from(step.integer("len")).expect("a length of memory");
        let offset = || unsigned(step.integer("offset"));
        match step.op.as_str() {
            "name_file" => done(self.vault(step).name_file(file, step.bytes("path"))),
            "pread" => {
                let mut buffer = vec![0; len()];
                let count = file.read_at(&mut buffer, offset()).map_err(failed)?;
                buffer.truncate(count);
                Ok(Given::Bytes(buffer))
            }
            "pwrite" => done(file.write_all_at(&step.bytes("data"), offset())),
            "read" => {
                let mut buffer = vec![0; len()];
                let count = (&mut &*file).read(&mut buffer).map_err(io_failed)?;
                buffer.truncate(count);
                Ok(Given::Bytes(buffer))
            }
            "write" => {
                let written = (&mut &*file).write_all(&step.bytes("data"));
                written.map(|()| Given::Nothing).map_err(io_failed)
            }
            "seek" => {
                let to = step.integer("to");
                let to = match step.text_or("from", "start") {
                    "start" => SeekFrom::Start(unsigned(to)),
                    "current" => SeekFrom::Current(to),
                    "end" => SeekFrom::End(to),
                    other => panic!("{other} is no place to seek from"),
                };
                let position = (&mut &*file).seek(to).map_err(io_failed)?;
                Ok(Given::Integer(signed(position)))
            }
            "fstat" => attributes(file.attributes()),
            "ftruncate" => done(file.set_len(unsigned(step.integer("size")))),
            "fchmod" => attributes(file.set_attributes(&set(step))),
            "fsync" => done(file.sync_all()),
            "allocate" => {
                let how = match step.text("how") {
                    "reserve" => AllocateMode::Reserve,
                    "reserve_keep_size" => AllocateMode::ReserveKeepSize,
                    "punch_hole" => AllocateMode::PunchHole,
                    "zero" => AllocateMode::ZeroRange,
                    "zero_keep_size" => AllocateMode::ZeroRangeKeepSize,
                    other => panic!("{other} is no way to allocate"),
                };
                done(file.allocate(how, offset(), unsigned(step.integer("len"))))
            }
            "find" => {
                let target = match step.text("target") {
                    "data" => SeekTarget::Data,
                    "hole" => SeekTarget::Hole,
                    other => panic!("{other} is not looked for"),
                };
                let found = file.find(target, offset());
                found.map(|at| Given::Integer(signed(at))).map_err(failed)
            }
            "copy_range" => {
                let target = self.file(step, "to");
                let (to, len) = (step.integer("to_offset"), step.integer("len"));
                let copied = file.copy_range(offset(), target, unsigned(to), unsigned(len));
                copied
                    .map(|count| Given::Integer(signed(count)))
                    .map_err(failed)
            }
            "try_lock" => done(match step.text_or("how", "exclusive") {
                "exclusive" => file.try_lock(),
                "shared" => file.try_lock_shared(),
                other => panic!("{other} is no lock"),
            }),
            "unlock" => done(file.unlock()),
            other => panic!("{other} is no operation on a file"),
        }
    }

    fn call_snapshot(&mut self, step: &Step) -> Outcome {
        let name = step.text("snapshot");
        if step.op == "close_snapshot" {
            self.snapshots.remove(name).expect("it is open");
            return Ok(Given::Nothing);
        }
        let state = self.snapshots[name].clone();
        let path = step.bytes("path");
        match step.op.as_str() {
            "read_file" => bytes(state.read(path)),
            "exists" => boolean(state.exists(path)),
            "stat" => attributes(state.attributes(path, links(step))),
            "readlink" => bytes(state.read_link(path)),
            "getxattr" => bytes(state.xattr(path, links(step), step.bytes("name"))),
            "listxattr" => list(state.xattrs(path, links(step))),
            "list" => names(state.list(path)),
            "walk" => walked(state.walk(path)),
            "open" => {
                let file = state.open_file(path).map_err(failed)?;
                self.keep_file(step, file);
                Ok(Given::Nothing)
            }
            other => panic!("{other} does not read a snapshot"),
        }
    }

    fn call_transaction(&mut self, step: &Step) -> Outcome {
        let name = step.text("transaction");
        let durability = match step.flag("durable") {
            true => Durability::OnReturn,
            false => Durability::WriteBehind,
        };
        match step.op.as_str() {
            "commit" => {
                let transaction = self.transactions.remove(name).expect("it has begun");
                return done(transaction.commit(durability));
            }
            "roll_back" => {
                self.transactions
                    .remove(name)
                    .expect("it has begun")
                    .roll_back();
                return Ok(Given::Nothing);
            }
            _ => {}
        }
        let transaction = self.transactions.get_mut(name).expect("it has begun");
        let path = step.bytes("path");
        match step.op.as_str() {
            "read_file" => return bytes(transaction.read(path)),
            "exists" => return boolean(transaction.exists(path)),
            "stat" => return attributes(transaction.attributes(path, links(step))),
            "list" => return list(transaction.names(path)),
            "write_file" => transaction.write(path, step.bytes("data")),
            "mkdir" => transaction.make_directory(path, number(step.integer_or("mode", 0o755))),
            "rename" => transaction.rename(path, step.bytes("to"), rename_mode(step)),
            "remove" => transaction.remove_file(path),
            _ => transaction.add(operation(step, path)),
        };
        Ok(Given::Nothing)
    }
}

/// What a transaction has no call of its own for.
fn operation(step: &Step, path: Vec<u8>) -> Operation {
    let links = links(step);
    match step.op.as_str() {
        "rmdir" => Operation::RemoveDirectory { path },
        "symlink" => Operation::MakeSymlink {
            path,
            target: step.bytes("target"),
        },
        "link" => Operation::Link {
            path,
            new_path: step.bytes("to"),
        },
        "truncate" => Operation::Truncate {
            path,
            size: unsigned(step.integer("size")),
        },
        "chmod" | "chown" | "utime" => Operation::SetAttributes {
            path,
            links,
            set: set(step),
        },
        "setxattr" => Operation::SetXattr {
            path,
            links,
            name: step.bytes("name"),
            value: step.bytes("value"),
            mode: xattr_mode(step),
        },
        "removexattr" => Operation::RemoveXattr {
            path,
            links,
            name: step.bytes("name"),
        },
        other => panic!("{other} is not for transactions"),
    }
}

fn rule(step: &Step) -> Retention {
    let count = |name| number(step.integer_or(name, 0));
    Retention {
        last: count("last"),
        hourly: count("hourly"),
        daily: count("daily"),
        weekly: count("weekly"),
        monthly: count("monthly"),
        yearly: count("yearly"),
        whose: match step.flag("unnamed") {
            true => Whose::Unnamed,
            false => Whose::Scheduled,
        },
    }
}

/// A rule as the table shows it.
fn shown(rule: &Retention) -> Vec<u8> {
    let Retention {
        last,
        hourly,
        daily,
        weekly,
        monthly,
        yearly,
        whose,
    } = rule;
    let whose = match whose {
        Whose::Scheduled => "scheduled",
        Whose::Unnamed => "unnamed",
    };
    format!("{last} {hourly} {daily} {weekly} {monthly} {yearly} {whose}").into_bytes()
}

fn new_revision(step: &Step) -> NewRevision {
    let text = |value: &Value| String::from_utf8(value.bytes()).expect("messages are text");
    NewRevision {
        message: step.find("message").map(text).unwrap_or_default(),
        tags: step
            .find("tags")
            .map(|tags| tags.list().iter().map(text).collect())
            .unwrap_or_default(),
        only_if_changed: step.flag("only_if_changed"),
    }
}
