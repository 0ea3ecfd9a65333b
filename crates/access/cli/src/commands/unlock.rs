//! `unlock` and `lock`: start and end a process in the background that holds a vault open, so that most commands need
//! no secret.
//!
//! Commands use this process in the same way as a mount: over the socket of the vault's owner, which accepts only this user.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use strongroom::{
    Access, Change, HeldOpen, Information, Observer, OpenOptions, Schedule, SeenRecords,
    Subscription, Vault,
};
use strongroom_mount::background::{become_daemon, report_ready};

use super::background::{self, absolute, log_file, refuse};
use super::mount::tell as log_snapshot;
use crate::arguments::session::{Lock, Unlock};
use crate::commands::opening::{SNAPSHOT_EVERY, end_session, open_already, unlocking};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::logging;
use crate::terminal::output::{print_json, print_line};
use crate::terminal::printable::{show, show_path};
use crate::terminal::time::{seconds, text_time};

/// The clock is looked at so often at least: it may jump, or have stood still while the machine slept.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Who has a vault open, if somebody has.
fn owner_of(vault: &Path) -> Result<Option<Information>> {
    let mut options = OpenOptions::read_only();
    // Whatever vault it is: nothing of it is used.
    options.trust.seen = SeenRecords::Nowhere;
    let owner = Vault::connect_if_owned(vault, options).about(show_path(vault))?;
    Ok(owner.map(|owner| owner.information()).transpose()?)
}

/// Begins a session.
pub(crate) fn unlock(arguments: &Unlock, verbosity: u8) -> Result<()> {
    if arguments.daemon {
        return daemon(arguments);
    }
    let vault = &arguments.vault;
    if let Some(owner) = owner_of(vault)? {
        if let Some(held) = owner.held_open {
            let until = text_time(seconds(held.until_s));
            return print_line(&format!("unlocked already, until {until}"));
        }
        if let Some(mounted) = owner.attachments.first() {
            let place = show(&mounted.mount_point);
            return print_line(&format!("mounted on {place}: most commands need no secret"));
        }
    }
    let mut command: Vec<OsString> = vec!["unlock".into(), "--daemon".into()];
    command.extend([
        "--for".into(),
        format!("{}s", arguments.duration.as_secs()).into(),
    ]);
    if let Some(path) = log_file(None)? {
        command.extend(["--log-file".into(), path.into()]);
        command.extend(["--log-verbosity".into(), verbosity.to_string().into()]);
    }
    let place = absolute(vault)?;
    background::start(vault, &arguments.secret, &command, &[place.into()])
}

/// Ends a session.
pub(crate) fn lock(arguments: &Lock) -> Result<()> {
    let vault = &arguments.vault;
    let was_unlocked = end_session(vault, Access::ReadWrite).about(show_path(vault))?;
    let mounted = match was_unlocked {
        true => None,
        false => owner_of(vault)?.and_then(|owner| owner.attachments.into_iter().next()),
    };
    if let Some(mounted) = mounted {
        let place = show(&mounted.mount_point);
        let message = format!("the vault is mounted on {place}; lock it with `strongroom umount`");
        return Err(Failure::new(ExitCode::InUse, message)).about(show_path(vault));
    }
    if arguments.json {
        return print_json(&serde_json::json!({ "was_unlocked": was_unlocked }));
    }
    Ok(())
}

/// Why a session ends.
enum End {
    /// `lock`, or who wants the vault for himself.
    Asked,
    Signal,
}

/// Shows others that the vault is held open, and hears of who wants it.
struct Holder {
    until_s: u64,
    ends: Sender<End>,
}

impl Observer for Holder {
    fn changed(&self, _: &Change) {}

    fn held_open(&self) -> Option<HeldOpen> {
        Some(HeldOpen {
            until_s: self.until_s,
        })
    }

    fn lets_go(&self) -> bool {
        self.ends.send(End::Asked).is_ok()
    }
}

/// A vault that is held open.
struct Held {
    vault: Vault,
    begun: Instant,
    duration: Duration,
    until: SystemTime,
    ends: Receiver<End>,
    schedule: Option<Schedule>,
    _subscription: Subscription,
}

/// The background process: opens the vault, says so, and holds it until the time is up or somebody wants it.
fn daemon(arguments: &Unlock) -> Result<()> {
    let secret = &arguments.secret;
    let named = [
        &secret.key_file,
        &secret.identity,
        &secret.recovery_code,
        &arguments.log_file,
    ];
    let mut needed: Vec<&Path> = named.into_iter().filter_map(Option::as_deref).collect();
    needed.push(&arguments.vault);
    become_daemon(&needed)?;
    if let Some(path) = &arguments.log_file {
        let started = logging::to_file(path, arguments.log_verbosity);
        if let Err(failure) = started.about(show_path(path)) {
            return refuse(failure);
        }
    }
    let held = match hold(arguments).about(show_path(&arguments.vault)) {
        Ok(held) => held,
        Err(failure) => return refuse(failure),
    };
    report_ready()?;
    log::info!("a vault is unlocked");
    let why = wait(&held);
    drop(held.schedule);
    // What no snapshot names has no name any more if the database is lost, and commands leave that to the owner.
    if let Some(done) = held.vault.keep_if_due(SNAPSHOT_EVERY).transpose() {
        log_snapshot(&done);
    }
    log::info!("the vault is locked again: {why}");
    let closed = held.vault.close();
    if let Err(error) = &closed {
        log::error!("the vault could not be closed: {error}");
    }
    Ok(closed?)
}

fn hold(arguments: &Unlock) -> Result<Held> {
    let opened = unlocking(&arguments.secret, &arguments.vault, |source, trust| {
        let secret = strongroom::on_wiped_stack(|| source())?;
        let options = OpenOptions {
            trust: trust.clone(),
            ..OpenOptions::default()
        };
        Vault::open(&arguments.vault, secret, options)
    });
    let vault = opened.map_err(|error| open_already(&arguments.vault, error))?;
    let until = SystemTime::now() + arguments.duration;
    let (sender, ends) = channel();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let of_signals = sender.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                // Nobody listens any more when it ends anyway.
                let _ = of_signals.send(End::Signal);
            }
        })?;
    let since_1970 = until.duration_since(UNIX_EPOCH).unwrap_or_default();
    let subscription = vault.subscribe(Arc::new(Holder {
        until_s: since_1970.as_secs(),
        ends: sender,
    }))?;
    // Damage in the history does not lock a vault.
    let schedule = vault.keep_on_schedule(SNAPSHOT_EVERY, log_snapshot);
    let schedule = schedule.inspect_err(|error| {
        log::warn!("this session takes no snapshots by the clock: {error}");
    });
    Ok(Held {
        vault,
        schedule: schedule.ok(),
        begun: Instant::now(),
        duration: arguments.duration,
        until,
        ends,
        _subscription: subscription,
    })
}

/// Waits for the end; gives its reason.
fn wait(held: &Held) -> &'static str {
    loop {
        // Whichever clock is first: one stands still while the machine sleeps, the other may be set back.
        let by_wall = held.until.duration_since(SystemTime::now());
        let left = held.duration.saturating_sub(held.begun.elapsed());
        let left = left.min(by_wall.unwrap_or_default());
        if left.is_zero() {
            return "its time is up";
        }
        match held.ends.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(End::Asked) => return "another process asked for it",
            Ok(End::Signal) => return "a signal asked for it",
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return "the session could no longer receive commands or signals";
            }
        }
    }
}
