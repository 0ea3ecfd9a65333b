//! `device add` and `clone --pair`: let a new device into a vault by a code that the old device shows.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::json;
use strongroom::{
    Admitted, AskingStep, Candidate, CloneOptions, Error, Invitation, InvitationStep, KeyFile,
    Keys, NewDevice, OpenOptions, PAIRING_LIFETIME, PAIRING_LOOK_EVERY, PAIRING_TRIES, PairingCode,
    PairingError, Secret, SystemRandom, Vault, check_offered, describe,
};

use crate::arguments::device::DeviceAdd;
use crate::arguments::remote::Clone;
use crate::commands::clone::{clone_meter, publish, show_clone, show_cloning};
use crate::commands::init::write_secret;
use crate::commands::opening::{ended, finish, trust, unlocking, warn_of_records};
use crate::commands::remote::meant;
use crate::commands::secret;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{print_json_line, print_line, stdout};
use crate::terminal::printable::{show, show_path};
use crate::terminal::progress::Meter;
use crate::terminal::prompt;

/// How often is looked, while nothing happens, whether the user wants to end it.
const STEP: Duration = Duration::from_millis(100);

/// Waits until it is time for the next look. `interrupted`: what is said if the user does not want to wait any more.
fn pause(interrupted: &str) -> Result<()> {
    let until = Instant::now() + PAIRING_LOOK_EVERY;
    while Instant::now() < until {
        if interrupt::came() {
            return Err(Failure::new(ExitCode::Other, interrupted));
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// Looks until something comes of it, or the user does not want to wait any more: then `interrupted` is said. A remote that cannot be
/// reached for a moment is asked again.
fn until<T>(
    interrupted: &str,
    mut look: impl FnMut(Instant) -> strongroom::Result<Option<T>>,
) -> Result<T> {
    let mut said = false;
    loop {
        match look(Instant::now()) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(error) if ExitCode::of(&error) == ExitCode::Unreachable => {
                if !said {
                    tell(&format!("strongroom: {error}; trying again"));
                    said = true;
                }
            }
            Err(error) => return Err(error.into()),
        }
        pause(interrupted)?;
    }
}

// ---- the device that has the vault

/// Lets a new device in.
pub(super) fn add(arguments: &DeviceAdd) -> Result<()> {
    interrupt::watch()?;
    let (folder, common) = (&arguments.vault, &arguments.common);
    // Before a person types a passphrase for nothing.
    describe(folder).about(show_path(folder))?;
    let opened = unlocking(&common.secret, folder, |source, trust| {
        let keys = Keys::open_with(folder, &source()?, trust.clone())?;
        let options = OpenOptions {
            trust: trust.clone(),
            ..OpenOptions::default()
        };
        let vault = Vault::open_or_connect(folder, Arc::clone(source), options)?;
        Ok((keys, vault))
    });
    let (mut keys, vault) = opened.about(show_path(folder))?;
    warn_of_records(&vault)?;
    let worked = invite(arguments, &vault, &mut keys);
    ended(worked, finish(&vault))
}

fn invite(arguments: &DeviceAdd, vault: &Vault, keys: &mut Keys) -> Result<()> {
    let json = arguments.common.json;
    let name = meant(vault, arguments.remote.as_deref())?;
    let mut invitation = vault.invite(&name, Instant::now()).about(&name)?;
    show_invitation(arguments, &invitation)?;
    let candidate = until("interrupted; no device was let in", |now| {
        match invitation.look(now)? {
            InvitationStep::Waiting => Ok(None),
            InvitationStep::WrongCode { left } => {
                // If nobody reads it, waiting is still of use.
                let _ = say_wrong(json, left);
                Ok(None)
            }
            InvitationStep::Asks(candidate) => Ok(Some(candidate)),
        }
    })?;
    if !is_let_in(json, &candidate)? {
        invitation.refuse(&candidate)?;
        return Err(Failure::new(
            ExitCode::Other,
            "the device was not let in, and the code is no longer valid",
        ));
    }
    let mut meter = Meter::new(json, "pushed");
    let admitted = invitation.admit(vault, keys, &candidate, &mut |progress| {
        meter.show(progress.bytes, progress.bytes_total);
        interrupt::go_on()
    });
    drop(meter);
    admitted.about(&name)?;
    match json {
        true => print_json_line(&json!({ "event": "added", "name": candidate.name() })),
        false => print_line(&format!(
            "\"{}\" is a device of the vault now",
            show(candidate.name().as_bytes())
        )),
    }
}

fn show_invitation(arguments: &DeviceAdd, invitation: &Invitation) -> Result<()> {
    let (url, code) = (invitation.url(), invitation.code().text());
    let minutes = PAIRING_LIFETIME.as_secs() / 60;
    if arguments.common.json {
        return print_json_line(&json!({
            "event": "offered",
            "url": url,
            "code": *code,
            "good_for_s": PAIRING_LIFETIME.as_secs(),
            "tries": PAIRING_TRIES,
        }));
    }
    let mut out = stdout();
    writeln!(out, "On the other device type:")?;
    writeln!(out, "    strongroom clone --pair {} DIR", quoted(url))?;
    writeln!(out, "and, when it asks for the code:")?;
    writeln!(out, "    {}", *code)?;
    if !arguments.no_qr
        && io::stdout().is_terminal()
        && let Some(drawn) = drawn(&format!("{url}#{}", *code))
    {
        writeln!(out, "\n{drawn}\n")?;
    }
    writeln!(
        out,
        "Waiting for the other device. The code is valid for {minutes} minutes and {PAIRING_TRIES} tries."
    )?;
    Ok(out.flush()?)
}

/// A word of a shell command that is `text`.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-@%+".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The text for a camera, in light blocks: as it is on a dark terminal. `None` if it is too long for that.
fn drawn(text: &str) -> Option<String> {
    let code = QrCode::new(text).ok()?;
    let mut image = code.render::<Dense1x2>();
    image
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark);
    Some(image.build())
}

fn say_wrong(json: bool, left: usize) -> Result<()> {
    if json {
        return print_json_line(&json!({ "event": "wrong-code", "left": left }));
    }
    tell(&format!(
        "strongroom: somebody tried a wrong code; {left} tries are left. If that was not you, press Ctrl-C: somebody else can write to the remote"
    ));
    Ok(())
}

/// Asks the person who can compare.
fn is_let_in(json: bool, candidate: &Candidate) -> Result<bool> {
    let (name, fingerprint) = (candidate.name(), candidate.fingerprint());
    if json {
        print_json_line(&json!({ "event": "asks", "name": name, "fingerprint": fingerprint }))?;
        return Ok(typed_line()?.trim().eq_ignore_ascii_case("yes"));
    }
    let shown = show(name.as_bytes());
    let question = format!(
        "A device called \"{shown}\" asks to join. Its fingerprint is {fingerprint}.\n\
         Let it in only if it shows the same fingerprint. Let it in? [yes/no] "
    );
    match prompt::confirm(&question) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        answer => Ok(answer?),
    }
}

/// A line of standard input.
fn typed_line() -> Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

// ---- the device that wants to join

/// Makes a vault out of a remote, as a device that another one lets in.
pub(super) fn clone_paired(arguments: &Clone) -> Result<()> {
    let folder = arguments.vault.as_path();
    Vault::check_new(folder).about(show_path(folder))?;
    let mut code = ask_code(&arguments.url, None)?;
    let secret = new_secret(arguments)?;
    let name = arguments.name.clone().unwrap_or_else(host_name);
    let device = NewDevice::make(&arguments.url, secret, &name)?;
    say_fingerprint(arguments, &device)?;
    let admitted = loop {
        match wait(&device, &code) {
            Err(failure) if is_wrong(&failure) && device.may_ask() && io::stdin().is_terminal() => {
                code = ask_code(&arguments.url, Some(failure))?;
            }
            waited => break waited?,
        }
    };
    let mut meter = clone_meter(arguments);
    let trust = trust(&arguments.common.secret);
    let options = CloneOptions {
        trust: trust.clone(),
        rates: arguments.limits.rates(),
        content: arguments.content(),
    };
    let report = device.clone_as_admitted(admitted, folder, &options, &mut |progress| {
        show_cloning(&mut meter, progress)
    });
    drop(meter);
    let report = report.about(show_path(folder))?;
    let published = match report.made.is_whole() {
        true => {
            let secret = device.secret().clone();
            publish(folder, secret, trust, arguments.limits.rates())
        }
        // What it lacks is not to be published as if somebody had changed it.
        false => Ok(()),
    };
    show_clone(arguments, &report, published)
}

fn is_wrong(failure: &Failure) -> bool {
    failure.code == ExitCode::WrongSecret
}

fn say_fingerprint(arguments: &Clone, device: &NewDevice) -> Result<()> {
    let fingerprint = device.fingerprint();
    if arguments.common.json {
        return print_json_line(&json!({ "event": "asks", "fingerprint": fingerprint }));
    }
    print_line(&format!(
        "Compare: the fingerprint of this device is {fingerprint}.\n\
         Waiting for the other device to let it in."
    ))
}

/// Asks with that code, and waits for the answer.
fn wait(device: &NewDevice, code: &PairingCode) -> Result<Admitted> {
    let mut asking = device.ask(code, Instant::now())?;
    let interrupted = "interrupted. If the other device lets this one in later and you chose a key file here, run the same command without --pair. If you chose a passphrase, begin again with `strongroom device add` on the other device";
    until(interrupted, |now| match asking.look(now)? {
        AskingStep::Waiting => Ok(None),
        AskingStep::Admitted(admitted) => Ok(Some(admitted)),
    })
}

/// The code that is typed, or what a camera made of the picture; asked for again if nobody offers it. `wrong`: what was wrong with
/// the code before.
fn ask_code(url: &str, mut wrong: Option<Failure>) -> Result<PairingCode> {
    for _ in 1..secret::ATTEMPTS {
        if let Some(message) = wrong.and_then(|failure| failure.message) {
            tell(&format!("strongroom: {message}"));
        }
        match offered_code(url) {
            Err(failure) if can_be_mistyped(&failure) && io::stdin().is_terminal() => {
                wrong = Some(failure);
            }
            code => return code,
        }
    }
    offered_code(url)
}

fn can_be_mistyped(failure: &Failure) -> bool {
    matches!(failure.code, ExitCode::Usage | ExitCode::NotFound)
}

fn offered_code(url: &str) -> Result<PairingCode> {
    let text = code_text()?;
    // A camera sees the URL before it.
    let text = text.rsplit('#').next().unwrap_or_default();
    let code = PairingCode::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    check_offered(url, &code)?;
    Ok(code)
}

fn code_text() -> Result<String> {
    if !io::stdin().is_terminal() {
        return typed_line();
    }
    match prompt::shown_line("code that the other device shows: ") {
        Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Err(Failure::new(ExitCode::Other, "interrupted"))
        }
        Err(error) => Err(error.into()),
    }
}

/// What shall open the vault here. A key file is made if it is not there; it stays whatever happens: the other device may have let it in.
fn new_secret(arguments: &Clone) -> Result<Secret> {
    let given = &arguments.common.secret;
    let vault = show_path(&arguments.vault);
    if let Some(path) = given.key_file.as_deref() {
        if path.exists() {
            return secret::get(given, &vault);
        }
        let key_file = KeyFile::random(&SystemRandom)
            .map_err(|error| Failure::new(ExitCode::Other, error.to_string()))?;
        write_secret(path, key_file.text().as_bytes())?;
        return Ok(Secret::KeyFile(key_file));
    }
    match secret::first_passphrase(given, &vault)? {
        Some(passphrase) => Ok(Secret::Passphrase(passphrase)),
        None => Err(Error::from(PairingError::Secret).into()),
    }
}

/// The name of this machine, as far as a device can be called so.
fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let plain: String = name
        .chars()
        .filter(|one| one.is_ascii_graphic())
        .take(64)
        .collect();
    match plain.is_empty() {
        true => "a new device".to_owned(),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_one_word_of_a_shell_command() {
        assert_eq!(quoted("folder:/media/stick"), "folder:/media/stick");
        assert_eq!(
            quoted("s3://b/p?region=a&endpoint=c"),
            "'s3://b/p?region=a&endpoint=c'"
        );
        assert_eq!(quoted("folder:/it's here"), r"'folder:/it'\''s here'");
    }

    #[test]
    fn the_code_for_a_camera_is_a_square_that_a_terminal_can_show() {
        let text = "folder:/media/stick/copy#123-4567-8901";
        let drawn = drawn(text).unwrap();
        let widths: Vec<_> = drawn.lines().map(|line| line.chars().count()).collect();
        assert!(
            widths
                .iter()
                .all(|width| *width == widths[0] && *width < 60)
        );
        assert_eq!(widths.len(), widths[0].div_ceil(2));
        assert!(super::drawn(&"x".repeat(10_000)).is_none());
    }

    #[test]
    fn a_machine_has_a_name_that_a_device_can_have() {
        let name = host_name();
        assert!(!name.is_empty() && name.len() <= 64);
    }
}
