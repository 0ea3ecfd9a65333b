//! `key rotate`: re-seals everything under new keys, and removes the old ones.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use strongroom::{Keys, OpenOptions, Rotation, SecretSource, Vault, list_slots};

use crate::arguments::key::KeyRotate;
use crate::commands::opening::{self, Intent};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result};
use crate::terminal::interrupt;
use crate::terminal::output::{print_json, show_bytes, stdout};
use crate::terminal::progress::{Meter, while_keys_change};

/// How often it is asked how far the rotation is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Begins a rotation, continues one, or shows how far it is.
pub(crate) fn rotate(arguments: &KeyRotate) -> Result<()> {
    let secret = &arguments.common.secret;
    if arguments.status {
        return opening::with(&arguments.vault, secret, Intent::Read, |vault| {
            show(&vault.rotation()?, arguments)
        });
    }
    interrupt::watch()?;
    // Before a person types a passphrase for nothing.
    list_slots(&arguments.vault)?;
    // A change of keys takes the secret, whoever has the vault open.
    let (mut keys, vault) = opening::unlocking(secret, &arguments.vault, |source, trust| {
        let secret = source()?;
        let keys = Keys::open_with(&arguments.vault, &secret, trust.clone())?;
        let source: SecretSource = Arc::new(move || Ok(secret.clone()));
        let options = OpenOptions {
            trust: trust.clone(),
            ..OpenOptions::default()
        };
        let vault = Vault::open_or_connect(&arguments.vault, source, options)?;
        Ok((keys, vault))
    })?;
    let rotated = begin_and_wait(&vault, &mut keys, arguments);
    let rotation = opening::ended(rotated, opening::finish(&vault))?;
    show(&rotation, arguments)
}

fn begin_and_wait(vault: &Vault, keys: &mut Keys, arguments: &KeyRotate) -> Result<Rotation> {
    if arguments.again || !vault.rotation()?.is_running {
        while_keys_change(&arguments.vault, || keys.rotate())?;
    }
    // If this process owns the vault, the work would end with it.
    match arguments.wait || vault.is_owner() {
        true => wait(vault),
        false => Ok(vault.rotation()?),
    }
}

/// Waits for the end, and shows how far it is.
fn wait(vault: &Vault) -> Result<Rotation> {
    let mut meter = Meter::new(false, "re-sealed");
    let mut whole = 0;
    loop {
        let rotation = vault.rotation()?;
        if !rotation.is_running {
            return Ok(rotation);
        }
        whole = rotation.bytes_left.max(whole);
        meter.show(whole - rotation.bytes_left, whole);
        if let Some(trouble) = &rotation.trouble {
            let code = match rotation.unreadable_bytes {
                0 => ExitCode::Other,
                _ => ExitCode::Damaged,
            };
            return Err(Failure::new(
                code,
                format!("the old keys are still needed: {trouble}"),
            ));
        }
        pause()?;
    }
}

/// Lets some time pass, but none of a person who wants to stop.
fn pause() -> Result<()> {
    let until = Instant::now() + LOOK_EVERY;
    while Instant::now() < until {
        if interrupt::came() {
            let message = "interrupted; re-sealing continues when the vault is opened next";
            return Err(Failure::new(ExitCode::Other, message));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn show(rotation: &Rotation, arguments: &KeyRotate) -> Result<()> {
    if arguments.common.json {
        return print_json(&json!({
            "running": rotation.is_running,
            "newest_epoch": rotation.newest_epoch,
            "oldest_epoch": rotation.oldest_epoch,
            "bytes_left": rotation.bytes_left,
            "unreadable_bytes": rotation.unreadable_bytes,
            "trouble": rotation.trouble,
        }));
    }
    let mut out = stdout();
    writeln!(out, "{}", words(rotation))?;
    if let Some(trouble) = &rotation.trouble {
        writeln!(out, "re-sealing cannot continue: {trouble}")?;
    }
    Ok(out.flush()?)
}

fn words(rotation: &Rotation) -> String {
    let left = show_bytes(rotation.bytes_left);
    if rotation.is_running {
        return format!(
            "new keys are in use (epoch {}); {left} are still to be re-sealed, in the background",
            rotation.newest_epoch
        );
    }
    if rotation.oldest_epoch == rotation.newest_epoch {
        return format!(
            "everything is sealed under the newest keys (epoch {}); there are no older keys",
            rotation.newest_epoch
        );
    }
    if rotation.bytes_left == 0 {
        return format!(
            "everything here is sealed under the newest keys (epoch {}); older keys still exist, but nothing here needs them",
            rotation.newest_epoch
        );
    }
    format!(
        "{left} are still sealed under older keys (the oldest: epoch {}); `strongroom key rotate` re-seals them",
        rotation.oldest_epoch
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_whether_older_keys_are_there_and_what_becomes_of_them() {
        let done = Rotation {
            newest_epoch: 2,
            oldest_epoch: 2,
            ..Rotation::default()
        };
        assert!(words(&done).contains("there are no older keys"));
        let removed = Rotation {
            oldest_epoch: 1,
            bytes_left: 2048,
            ..done.clone()
        };
        assert!(words(&removed).contains("2.0 KiB are still sealed under older keys"));
        // Failed before: "0 B are sealed under older keys … and stay so".
        let empty = Rotation {
            bytes_left: 0,
            ..removed.clone()
        };
        assert!(
            words(&empty).starts_with("everything here is sealed under the newest keys (epoch 2)")
        );
        let running = Rotation {
            is_running: true,
            ..removed
        };
        assert!(words(&running).contains("still to be re-sealed"));
    }
}
