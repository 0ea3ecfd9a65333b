//! Vaults: created, opened, closed; secrets and options.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use strongroom::{
    AgeIdentity, AgeRecipient, BackupProgress, CloneContent, CloneOptions, CreateOptions,
    Fingerprint, GoOn, IfOlder, KeyFile, OpenOptions, Passphrase, RecoveryCode, Secret,
    SeenRecords, SystemRandom, Trust, Vault, VerifyOptions, VerifyProgress,
};

use crate::border::{
    Outcome, asked, beginning, bytes, call_back, check_not_called_back, count, done, given,
    invalid, items, machine_path, out, signed, utf8,
};
use crate::handles::{Object, check_not_forked, keep, take_vault};
use crate::types::{
    SR_ACCEPT_OLDER, SR_IDENTITY, SR_KEY_FILE, SR_NO_RECORDS, SR_ON_DEMAND, SR_OWN, SR_PASSPHRASE,
    SR_READ_ONLY, SR_RECIPIENT, SR_RECOVERY_CODE, sr_bytes, sr_names, sr_options, sr_secret,
    sr_space, sr_told, sr_vault,
};

/// The number of the interface; it changes when a program has to be compiled again.
const ABI: u32 = 1;

/// SR_ABI of the library: compare it with that of the header if you load the library yourself.
#[unsafe(no_mangle)]
pub extern "C" fn sr_abi() -> u32 {
    ABI
}

/// The version of the library, as "0.1.0". It is the library's.
#[unsafe(no_mangle)]
pub extern "C" fn sr_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

// ---- secrets

/// A key of a new vault, or one to be added.
pub(crate) enum NewKey {
    Passphrase(Passphrase),
    KeyFile(KeyFile),
    RecoveryCode(RecoveryCode),
    Recipient(AgeRecipient),
}

const NOT_TEXT: &str = "a secret of this kind is text in UTF-8";

impl sr_secret {
    unsafe fn bytes<'a>(self) -> Outcome<&'a [u8]> {
        bytes(self.data, self.len)
    }

    unsafe fn text<'a>(self) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| invalid(NOT_TEXT))
    }

    unsafe fn passphrase(self) -> Outcome<Passphrase> {
        let none = "a passphrase is UTF-8 text of 1 to 1024 bytes";
        Passphrase::new(self.bytes()?).map_err(|_| invalid(none))
    }

    unsafe fn key_file(self) -> Outcome<KeyFile> {
        let none = "this is not the content of a key file, or it is damaged";
        KeyFile::parse(self.bytes()?).map_err(|_| invalid(none))
    }

    unsafe fn recovery_code(self) -> Outcome<RecoveryCode> {
        let none = "this is not a recovery code; look for a mistyped character";
        RecoveryCode::parse(self.text()?).map_err(|_| invalid(none))
    }

    /// What opens a vault.
    pub(crate) unsafe fn to_open(self) -> Outcome<Secret> {
        Ok(match self.kind {
            SR_PASSPHRASE => Secret::Passphrase(self.passphrase()?),
            SR_KEY_FILE => Secret::KeyFile(self.key_file()?),
            SR_RECOVERY_CODE => Secret::RecoveryCode(self.recovery_code()?),
            SR_IDENTITY => {
                let none = "this is not an age identity or an unencrypted SSH private key";
                let identity = AgeIdentity::parse(self.bytes()?, None);
                Secret::Identity(identity.map_err(|_| invalid(none))?)
            }
            SR_RECIPIENT => return Err(invalid("a recipient opens no vault; give its identity")),
            _ => return Err(invalid("`kind` must be SR_PASSPHRASE or similar")),
        })
    }

    /// What shall open one.
    pub(crate) unsafe fn to_add(self) -> Outcome<NewKey> {
        Ok(match self.kind {
            SR_PASSPHRASE => NewKey::Passphrase(self.passphrase()?),
            SR_KEY_FILE => NewKey::KeyFile(self.key_file()?),
            SR_RECOVERY_CODE => NewKey::RecoveryCode(self.recovery_code()?),
            SR_RECIPIENT => {
                let none = "this is not an age recipient or SSH public key that age supports";
                let recipient = AgeRecipient::parse(self.text()?);
                NewKey::Recipient(recipient.map_err(|_| invalid(none))?)
            }
            SR_IDENTITY => return Err(invalid("to add an age or SSH key, give its recipient")),
            _ => return Err(invalid("`kind` must be SR_PASSPHRASE or similar")),
        })
    }
}

/// Makes the content of a new key file, to be kept on another medium.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_make_key_file(content: *mut sr_bytes) -> c_int {
    done(|| {
        let content = out(content)?;
        let failed = "the system provides no random numbers";
        let key_file = KeyFile::random(&SystemRandom).map_err(|_| invalid(failed))?;
        content.put(key_file.text().as_bytes().to_vec().into());
        Ok(())
    })
}

// ---- options

impl sr_options {
    const DEFAULT: Self = Self {
        size: size_of::<Self>() as u64,
        flags: 0,
        fingerprint: std::ptr::null(),
        records_folder: std::ptr::null(),
    };

    /// What `options` says; the defaults for NULL.
    pub(crate) unsafe fn read(options: *const Self) -> Outcome<Self> {
        Self::read_with(options, 0)
    }

    /// What `options` says of a clone.
    pub(crate) unsafe fn read_for_clone(options: *const Self) -> Outcome<CloneOptions> {
        let read = Self::read_with(options, SR_ON_DEMAND)?;
        let content = match read.wants(SR_ON_DEMAND) {
            true => CloneContent::AtRemote,
            false => CloneContent::Here,
        };
        Ok(CloneOptions {
            trust: read.trust()?,
            content,
            ..CloneOptions::default()
        })
    }

    /// `more`: flags that only some calls know.
    unsafe fn read_with(options: *const Self, more: u32) -> Outcome<Self> {
        if options.is_null() {
            return Ok(Self::DEFAULT);
        }
        let size = options.cast::<u64>().read();
        // Up to the flags, which every header has.
        if size < 12 {
            return Err(invalid("initialize the options with SR_OPTIONS_INIT"));
        }
        let read = beginning(options, size, Self::DEFAULT)?;
        let known = SR_READ_ONLY | SR_OWN | SR_ACCEPT_OLDER | SR_NO_RECORDS | more;
        if read.flags & !known != 0 {
            return Err(invalid("`flags` has an unknown flag"));
        }
        Ok(read)
    }

    pub(crate) const fn wants(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(crate) unsafe fn trust(&self) -> Outcome<Trust> {
        let expected_fingerprint = match self.fingerprint.is_null() {
            true => None,
            false => {
                let parsed = Fingerprint::parse(utf8(self.fingerprint)?);
                Some(parsed.ok_or(invalid("this is not the fingerprint of a vault"))?)
            }
        };
        let older = match self.wants(SR_ACCEPT_OLDER) {
            true => IfOlder::Accept,
            false => IfOlder::Refuse,
        };
        Ok(Trust {
            seen: self.records()?,
            expected_fingerprint,
            older,
        })
    }

    unsafe fn records(&self) -> Outcome<SeenRecords> {
        Ok(
            match (self.wants(SR_NO_RECORDS), self.records_folder.is_null()) {
                (true, _) => SeenRecords::Nowhere,
                (false, true) => SeenRecords::OfUser,
                (false, false) => SeenRecords::In(machine_path(self.records_folder)?.to_owned()),
            },
        )
    }
}

// ---- vaults

fn kept(vault: Vault) -> Outcome<sr_vault> {
    let id = keep(Object::Vault(vault), 0)?;
    Ok(sr_vault { id })
}

/// Makes a vault in the folder `folder` of the machine, which must not exist or be empty, and opens it.
///
/// `secrets`: `count` keys that shall open it. `recovery_code`: shown this once; it opens the vault when all else is lost, so let the user
/// write it down. It may be NULL only if `count` is 1 or more. Takes about two seconds for each passphrase.
///
/// Fails with -EEXIST if there is a vault, -ENOTEMPTY if there is anything else, -ENOENT if the parent is missing, -ENOSPC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_create(
    folder: *const c_char,
    secrets: *const sr_secret,
    count: u64,
    options: *const sr_options,
    vault: *mut sr_vault,
    recovery_code: *mut sr_bytes,
) -> c_int {
    done(|| {
        check_not_forked()?;
        let (folder, answer) = (machine_path(folder)?, out(vault)?);
        let read = sr_options::read(options)?;
        if read.wants(SR_READ_ONLY) || read.wants(SR_ACCEPT_OLDER) || !read.fingerprint.is_null() {
            return Err(invalid("a new vault takes only SR_OWN and SR_NO_RECORDS"));
        }
        let mut new = CreateOptions::new().seen(read.records()?);
        for secret in items(secrets, count)? {
            new = match secret.to_add()? {
                NewKey::Passphrase(passphrase) => new.passphrase(passphrase),
                NewKey::KeyFile(key_file) => new.key_file(key_file),
                NewKey::Recipient(recipient) => new.recipient(recipient),
                NewKey::RecoveryCode(_) => {
                    return Err(invalid("a new vault makes its own recovery code"));
                }
            };
        }
        if recovery_code.is_null() && count == 0 {
            return Err(invalid("nothing would open this vault; give a secret"));
        }
        let created = Vault::create(folder, new)?;
        answer.put(kept(created.vault)?);
        if let Ok(code) = out(recovery_code) {
            code.put(created.recovery_code.text().as_bytes().to_vec().into());
        }
        Ok(())
    })
}

/// Opens the vault in `folder`: through the process that has it open, if there is one, so that several programs, a mount and the command
/// line use it at once; else as the one that others go through. `options` may be NULL. Takes about a second with a passphrase.
///
/// If that process goes, the next call has this one take its place; the library keeps the secret for that, in locked memory.
///
/// Fails with -ENOENT if there is no vault, -EACCES for a wrong secret (it is not looked at if another process has the vault open), -EBUSY
/// with SR_OWN if another has it open, -EBADMSG for damage.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_open(
    folder: *const c_char,
    secret: *const sr_secret,
    options: *const sr_options,
    vault: *mut sr_vault,
) -> c_int {
    done(|| {
        check_not_forked()?;
        let (folder, answer) = (machine_path(folder)?, out(vault)?);
        let read = sr_options::read(options)?;
        let mut opening = match read.wants(SR_READ_ONLY) {
            true => OpenOptions::read_only(),
            false => OpenOptions::default(),
        };
        opening.trust = read.trust()?;
        let secret = given(secret)?.to_open()?;
        let opened = match read.wants(SR_OWN) {
            true => Vault::open(folder, secret, opening)?,
            false => {
                let source = Arc::new(move || Ok(secret.clone()));
                Vault::open_or_connect(folder, source, opening)?
            }
        };
        answer.put(kept(opened)?);
        Ok(())
    })
}

/// Closes a vault with everything that was opened through it, and makes all durable. The handle is invalid then, also on failure, which
/// says that something may not be durable. Waits for other programs that use the vault through this one. In a function that the library
/// calls it fails with -EDEADLK, and the vault stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_close(vault: sr_vault) -> c_int {
    done(|| {
        check_not_called_back()?;
        Ok(take_vault(vault.id)?.close()?)
    })
}

/// Makes everything that was done so far durable.
///
/// Fails with -ECONNABORTED, once, if a process that had the vault open for this one was killed before that: look what is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_sync(vault: sr_vault) -> c_int {
    done(|| Ok(vault.get()?.sync()?))
}

/// Gives the fingerprint: what tells this vault from any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_fingerprint(vault: sr_vault, fingerprint: *mut sr_bytes) -> c_int {
    done(|| {
        let answer = out(fingerprint)?;
        answer.put(vault.get()?.information()?.fingerprint.into_bytes().into());
        Ok(())
    })
}

/// What a vault is. Give it back with sr_information_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_information {
    /// What tells this vault from any other.
    pub fingerprint: sr_bytes,
    /// Its algorithms, by name.
    pub suite: sr_bytes,
    /// How new content is compressed.
    pub compression: sr_bytes,
    /// How often its header has changed.
    pub generation: u64,
    /// Sealed bytes of content that is only at remotes.
    pub away_bytes: u64,
    /// The newest epoch of keys.
    pub epoch: u32,
    /// The process that has the vault open.
    pub owner_pid: u32,
    /// Whether that process opened it for reading only.
    pub read_only: bool,
    /// Changes of devices and keys that nobody here made or accepted, a line each.
    pub unknown_records: sr_names,
}

/// Gives back what sr_get_information filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_information_free(information: *mut sr_information) {
    if !information.is_null() {
        crate::memory::sr_bytes_free(&raw mut (*information).fingerprint);
        crate::memory::sr_bytes_free(&raw mut (*information).suite);
        crate::memory::sr_bytes_free(&raw mut (*information).compression);
        crate::memory::sr_names_free(&raw mut (*information).unknown_records);
    }
}

/// Gives what the vault is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_information(
    vault: sr_vault,
    information: *mut sr_information,
) -> c_int {
    done(|| {
        let answer = out(information)?;
        let facts = vault.get()?.information()?;
        answer.put(sr_information {
            fingerprint: facts.fingerprint.into_bytes().into(),
            suite: facts.suite.into_bytes().into(),
            compression: facts.compression.into_bytes().into(),
            generation: facts.generation,
            away_bytes: facts.away_bytes,
            epoch: facts.epoch,
            owner_pid: facts.owner_pid,
            read_only: facts.read_only,
            unknown_records: facts.unknown_records.into(),
        });
        Ok(())
    })
}

/// Accepts the unknown records of sr_get_information: devices and keys that others added, and that are yours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_accept_records(vault: sr_vault) -> c_int {
    done(|| Ok(vault.get()?.accept_records()?))
}

/// Whether this process is the one that others go through: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_is_owner(vault: sr_vault) -> c_int {
    asked(|| Ok(vault.get()?.is_owner()))
}

/// Gives how full the disk is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_space(vault: sr_vault, space: *mut sr_space) -> c_int {
    done(|| {
        let answer = out(space)?;
        let space = vault.get()?.space()?;
        answer.put(sr_space {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            inodes: space.inodes,
        });
        Ok(())
    })
}

/// Gives the space of removed content back now, instead of when the vault is idle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_compact(vault: sr_vault) -> c_int {
    done(|| Ok(vault.get()?.compact()?))
}

/// Compares the tables of the vault with one another: 1 if all is sound, 0 if not; then `problems`, unless it is NULL, says what does not
/// agree, a line each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_check(vault: sr_vault, problems: *mut sr_names) -> c_int {
    asked(|| {
        let found = vault.get()?.check()?.problems;
        let is_sound = found.is_empty();
        if let Ok(answer) = out(problems) {
            answer.put(found.into());
        }
        Ok(is_sound)
    })
}

/// Asks the function of a program whether to go on.
pub(crate) unsafe fn goes_on(
    told: sr_told,
    context: *mut c_void,
    bytes: u64,
    bytes_total: u64,
) -> GoOn {
    // What is told last may not have been among what was expected.
    let bytes_total = bytes_total.max(bytes);
    match told {
        Some(told) if call_back(|| told(context, bytes, bytes_total)) != 0 => GoOn::No,
        _ => GoOn::Yes,
    }
}

/// Reads everything in the vault folder: 1 if all is as it was written, 0 if something is damaged, 2 if nothing is, but a device or key waits
/// for a decision, as those in `unknown_records` of sr_get_information do. `damaged`, unless it is NULL, names the files that lost something;
/// `problems`, unless it is NULL, says what is wrong with files of the vault folder, which tables do not agree, and what waits, a line each.
/// `deep`: also compute the names of blocks again, and go over every snapshot. `told` may be NULL; if it stops the call, that fails with
/// -ECANCELED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_verify(
    vault: sr_vault,
    deep: bool,
    told: sr_told,
    context: *mut c_void,
    damaged: *mut sr_names,
    problems: *mut sr_names,
) -> c_int {
    let number = count(|| {
        check_not_called_back()?;
        let options = VerifyOptions {
            deep,
            ..VerifyOptions::default()
        };
        let report = vault
            .get()?
            .verify(options, &mut |progress: &VerifyProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        if !report.finished {
            let why = "stopped by the progress function";
            return Err(crate::border::Fail::Here(libc::ECANCELED, why));
        }
        let number = match (report.is_damaged(), report.is_sound()) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        if let Ok(answer) = out(damaged) {
            let damages = report.damages.into_iter();
            answer.put(damages.map(|one| one.path).collect::<Vec<_>>().into());
        }
        if let Ok(answer) = out(problems) {
            let mut found = report.structure.problems;
            let of_files = report.files.iter();
            found.extend(of_files.map(|one| format!("{}: {}", one.file, one.what)));
            answer.put(found.into());
        }
        Ok(number)
    });
    c_int::try_from(number).unwrap_or(-libc::EIO)
}

/// Makes the folder `target` of the machine a copy of the vault folder while others use the vault; gives how many bytes were copied. A later
/// backup into the same folder copies only what is new. `told` may be NULL; a backup that was stopped is continued by the next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_backup(
    vault: sr_vault,
    target: *const c_char,
    told: sr_told,
    context: *mut c_void,
) -> i64 {
    count(|| {
        check_not_called_back()?;
        let target = machine_path(target)?;
        let report = vault
            .get()?
            .backup(target, &mut |progress: &BackupProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        Ok(signed(report.copied_bytes))
    })
}
