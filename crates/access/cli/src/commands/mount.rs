//! `mount`: mounts the vault as a drive.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strongroom::filesystem::Filesystem;
use strongroom::{
    Access, Attachment, Change, ContinuousSync, Error, IfOwned, Observer, OpenOptions, Schedule,
    ScheduleStep, Vault,
};
use strongroom_mount::background::{become_daemon, report_ready};
use strongroom_mount::{Beginning, Invalidator, MountOptions, Mounted, RequestCounter};

use super::background::{self, absolute, log_file, refuse};
use crate::arguments::Mount;
use crate::arguments::common::SecretArguments;
use crate::commands::opening::{make_way, open_already, unlocking};
use crate::commands::{continuous, descriptors};
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::logging;
use crate::terminal::printable::show_path;

/// How long another command that has the vault open is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often snapshots are taken unless an option says otherwise.
const SNAPSHOTS_EVERY: Duration = Duration::from_secs(3_600);

/// Mounts.
pub(crate) fn mount(arguments: &Mount, verbosity: u8) -> Result<()> {
    let (options, snapshots) = parse_options(&arguments.options)?;
    let limits = arguments.limits;
    if !arguments.sync && limits.limit_up.is_some() {
        return Err(Failure::usage("--limit-up needs --sync; add it"));
    }
    if arguments.sync && options.read_only {
        let message = "--sync: a read-only mount cannot take changes of other devices";
        return Err(Failure::usage(message));
    }
    if arguments.foreground && arguments.log_file.is_some() {
        let message = "--log-file: in the foreground the log goes to standard error";
        return Err(Failure::usage(message));
    }
    if arguments.daemon {
        return daemon(arguments, &options, snapshots);
    }
    if arguments.foreground {
        let served = serve(arguments, &options, snapshots)?;
        return wait(served);
    }
    start_daemon(arguments, verbosity)
}

/// A vault and its mount.
struct Served {
    vault: Vault,
    mounted: Mounted,
    schedule: Option<Schedule>,
    sync: Option<ContinuousSync>,
    _subscription: strongroom::Subscription,
}

/// How often snapshots are taken; `None` for never.
type Snapshots = Option<Duration>;

/// Opens the vault and mounts it.
fn serve(arguments: &Mount, options: &MountOptions, snapshots: Snapshots) -> Result<Served> {
    descriptors::check_for_mount()?;
    let access = if options.read_only {
        Access::ReadOnly
    } else {
        Access::ReadWrite
    };
    let vault =
        own(&arguments.vault, &arguments.secret, access).about(show_path(&arguments.vault))?;
    vault.limit_remotes(arguments.limits.rates());
    let filesystem: Filesystem = vault
        .filesystem()
        .ok_or_else(|| Failure::from(Error::InUse))?;
    let options = MountOptions {
        source: show_path(absolute(&arguments.vault)?),
        ..options.clone()
    };
    // Before the first answer: the kernel must hear of each change that another process makes after it.
    let watch = |beginning: &Beginning<'_>| -> Result<strongroom::Subscription> {
        Ok(vault.subscribe(Arc::new(Watcher {
            invalidator: beginning.invalidator.clone(),
            requests: beginning.requests.clone(),
            mount_point: beginning.path.to_owned(),
            log_file: arguments.log_file.clone(),
        }))?)
    };
    let directory = &arguments.directory;
    let (mounted, subscription) = Mounted::start_with(filesystem, directory, &options, watch)?;
    mounted.process_ends_with_it();
    mounted.end_on_signals()?;
    log::info!("the mount of {} begins", show_path(&arguments.vault));
    let snapshots = snapshots.filter(|_| !options.read_only);
    let schedule = snapshots
        .map(|every| vault.keep_on_schedule(every, tell))
        .transpose()?;
    let sync = arguments.sync.then(|| continuous::of_mount(&vault));
    Ok(Served {
        vault,
        mounted,
        schedule,
        sync: sync.transpose()?,
        _subscription: subscription,
    })
}

/// Logs what came of a snapshot by the clock.
pub(super) fn tell(done: &strongroom::Result<ScheduleStep>) {
    match done {
        Ok(done) => {
            if let Some(taken) = &done.taken {
                let gone = done.let_go.len();
                log::info!(
                    "took scheduled snapshot {}; removed {gone} old ones",
                    taken.id
                );
            }
        }
        Err(error) => log::warn!("no scheduled snapshot could be taken: {error}"),
    }
}

/// Waits for the end of the mount; everything is durable then.
fn wait(mut served: Served) -> Result<()> {
    let mounted = served.mounted.wait();
    drop(served.schedule.take());
    if let Some(sync) = served.sync.take() {
        sync.finish();
    }
    let closed = served.vault.close();
    if let Err(error) = &closed {
        log::error!("the vault could not be closed: {error}");
    }
    mounted?;
    Ok(closed?)
}

/// Opens the vault as its owner; a command that has it open for a moment is waited for, an unlocked session ends.
fn own(folder: &Path, arguments: &SecretArguments, access: Access) -> Result<Vault> {
    let options = OpenOptions {
        access,
        patience: PATIENCE,
        if_owned: IfOwned::AskedToLeave,
        ..OpenOptions::default()
    };
    make_way(folder, access)?;
    // Said before a person types a passphrase for nothing.
    let opened = Vault::wait_until_free(folder, access, PATIENCE).and_then(|()| {
        unlocking(arguments, folder, |source, trust| {
            let secret = strongroom::on_wiped_stack(|| source())?;
            let options = OpenOptions {
                trust: trust.clone(),
                ..options.clone()
            };
            Vault::open(folder, secret, options)
        })
    });
    opened.map_err(|error| open_already(folder, error))
}

/// Tells the kernel of changes by other processes, and them of the mount.
struct Watcher {
    invalidator: Invalidator,
    requests: RequestCounter,
    mount_point: PathBuf,
    log_file: Option<PathBuf>,
}

impl Observer for Watcher {
    fn changed(&self, change: &Change) {
        match change {
            Change::Entry { parent, name } => self.invalidator.entry(*parent, name),
            Change::Content { inode, offset, len } => {
                self.invalidator.content(*inode, *offset, *len)
            }
            Change::Attributes { inode } => self.invalidator.attributes(*inode),
        }
    }

    fn attachment(&self) -> Option<Attachment> {
        Some(Attachment {
            mount_point: bytes(&self.mount_point),
            log_file: self.log_file.as_ref().map(|path| bytes(path)),
        })
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let requests = self.requests.now();
        let named = requests
            .iter()
            .map(|(name, count)| (format!("mount.{name}"), count));
        named.collect()
    }
}

/// Starts this program again in the background; returns when the mount works, or with its reason.
fn start_daemon(arguments: &Mount, verbosity: u8) -> Result<()> {
    let vault = absolute(&arguments.vault)?;
    let directory = absolute(&arguments.directory)?;
    let mut command: Vec<OsString> = vec!["mount".into(), "--daemon".into()];
    for option in &arguments.options {
        command.extend(["-o".into(), option.into()]);
    }
    if arguments.sync {
        command.push("--sync".into());
    }
    let limits = arguments.limits;
    for (option, limit) in [
        ("--limit-up", limits.limit_up),
        ("--limit-down", limits.limit_down),
    ] {
        let limit = limit.map(|limit| limit.to_string());
        command.extend(
            limit
                .into_iter()
                .flat_map(|limit| [option.into(), limit.into()]),
        );
    }
    if let Some(path) = log_file(arguments.log_file.as_deref())? {
        command.extend(["--log-file".into(), path.into()]);
        command.extend(["--log-verbosity".into(), verbosity.to_string().into()]);
    }
    let places = [vault.into(), directory.into()];
    background::start(&arguments.vault, &arguments.secret, &command, &places)
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Everything that the background process will open.
fn paths(arguments: &Mount) -> Vec<&Path> {
    let secret = &arguments.secret;
    let named = [
        &secret.key_file,
        &secret.identity,
        &secret.recovery_code,
        &arguments.log_file,
    ];
    let always = [arguments.vault.as_path(), arguments.directory.as_path()];
    let named = named.into_iter().filter_map(Option::as_deref);
    always.into_iter().chain(named).collect()
}

/// The background process: mounts, says so, and stays until the end of the mount.
fn daemon(arguments: &Mount, options: &MountOptions, snapshots: Snapshots) -> Result<()> {
    become_daemon(&paths(arguments))?;
    if let Some(path) = &arguments.log_file {
        let started = logging::to_file(path, arguments.log_verbosity);
        if let Err(failure) = started.about(show_path(path)) {
            return refuse(failure);
        }
    }
    let served = match serve(arguments, options, snapshots) {
        Ok(served) => served,
        Err(failure) => return refuse(failure),
    };
    report_ready()?;
    wait(served)
}

/// Turns `-o` options into `MountOptions`, and how often snapshots are taken.
fn parse_options(words: &[String]) -> Result<(MountOptions, Snapshots)> {
    let mut options = MountOptions::default();
    let mut snapshots = Some(SNAPSHOTS_EVERY);
    for word in words {
        let (name, value) = word
            .split_once('=')
            .map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("ro", None) => options.read_only = true,
            ("rw", None) => options.read_only = false,
            ("allow-other" | "allow_other", None) => options.allow_other = true,
            ("no-xattr", None) => options.no_xattr = true,
            ("writeback", None) => options.writeback = true,
            ("save-power", None) => options.save_power = true,
            ("no-permissions", None) => options.default_permissions = false,
            ("uid", Some(value)) => options.uid = Some(number(word, value, 10)?),
            ("gid", Some(value)) => options.gid = Some(number(word, value, 10)?),
            ("umask", Some(value)) => options.umask = Some(number(word, value, 8)?),
            ("threads", Some(value)) => options.threads = number(word, value, 10)? as usize,
            ("idle", Some(value)) => {
                options.idle_unmount = Some(Duration::from_secs(number(word, value, 10)?.into()));
            }
            ("snapshot", Some(value)) => snapshots = every(word, value)?,
            _ => {
                return Err(Failure::usage(format!(
                    "unknown mount option {word:?}; see `strongroom mount --help`"
                )));
            }
        }
    }
    Ok((options, snapshots))
}

/// How often: `off`, `hourly`, `daily`, or a number with m, h or d for minutes, hours, days.
fn every(word: &str, value: &str) -> Result<Snapshots> {
    let wrong = || {
        Failure::usage(format!(
            "mount option {word:?}: the value must be off, hourly, daily, or a number followed by m, h or d"
        ))
    };
    match value {
        "off" => return Ok(None),
        "hourly" => return Ok(Some(SNAPSHOTS_EVERY)),
        "daily" => return Ok(Some(24 * SNAPSHOTS_EVERY)),
        _ => {}
    }
    let unit_s = match value.as_bytes().last() {
        Some(b'm') => 60,
        Some(b'h') => 3_600,
        Some(b'd') => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = value[..value.len() - 1].parse().map_err(|_| wrong())?;
    // Longer than a century is a mistake.
    match u64::from(count) * unit_s {
        0 => Err(wrong()),
        seconds if seconds > 100 * 366 * 86_400 => Err(wrong()),
        seconds => Ok(Some(Duration::from_secs(seconds))),
    }
}

fn number(word: &str, value: &str, radix: u32) -> Result<u32> {
    u32::from_str_radix(value, radix)
        .map_err(|_| Failure::usage(format!("mount option {word:?} needs a number")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::exit_code::ExitCode;

    #[test]
    fn options_are_words_and_numbers_and_nothing_else() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let parse = |text: &str| parse_options(&words(text)).unwrap();
        let (options, snapshots) = parse("ro,allow-other,uid=7,umask=027,idle=60");
        assert_eq!(snapshots, Some(Duration::from_secs(3_600)));
        for (text, minutes) in [("hourly", 60), ("daily", 1440), ("15m", 15), ("2d", 2880)] {
            let (_, snapshots) = parse(&format!("snapshot={text}"));
            assert_eq!(snapshots, Some(Duration::from_secs(minutes * 60)), "{text}");
        }
        assert_eq!(parse("snapshot=off").1, None);
        assert!(options.read_only && options.allow_other);
        assert_eq!((options.uid, options.umask), (Some(7), Some(0o27)));
        assert_eq!(options.idle_unmount, Some(Duration::from_secs(60)));
        for wrong in [
            "suid",
            "uid",
            "uid=x",
            "umask=9",
            "ro=1",
            "",
            "snapshot",
            "snapshot=",
            "snapshot=60",
            "snapshot=0h",
            "snapshot=xh",
            "snapshot=4000000000d",
        ] {
            assert_eq!(
                parse_options(&words(wrong)).unwrap_err().code,
                ExitCode::Usage,
                "{wrong}"
            );
        }
    }
}
