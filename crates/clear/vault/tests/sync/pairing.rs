//! A new device that a code lets in: what it gets, whether others get anything, and what an interruption of either side leaves.

use std::fs;
use std::mem::forget;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use strongroom::{
    Admitted, Asking, AskingStep, Candidate, CloneProgress, CloneReport, Invitation,
    InvitationStep, KeyFile, Member, NewDevice, PAIRING_LIFETIME, PAIRING_TRIES, PairingCode,
    PairingError, Secret, SystemRandom, check_offered,
};

use super::*;

/// A vault with a remote, keys of it that can be changed, and a moment.
struct Old {
    devices: Devices,
    keys: Keys,
    now: Instant,
}

impl Old {
    fn new() -> Self {
        Self::among(1)
    }

    /// The first of so many devices.
    fn among(count: usize) -> Self {
        let devices = Devices::new(count, |vault| {
            vault.write("/letter", "dear reader").unwrap();
            vault.write("/picture", content(300_000, 1)).unwrap();
        });
        let keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
        Self {
            devices,
            keys,
            now: Instant::now(),
        }
    }

    fn vault(&self) -> &Vault {
        &self.devices.vaults[0]
    }

    fn invite(&self) -> Invitation {
        self.vault().invite(NAME, self.now).unwrap()
    }

    fn admit(&mut self, invitation: &mut Invitation, candidate: &Candidate) -> Result<(), Error> {
        let vault = &self.devices.vaults[0];
        invitation.admit(vault, &mut self.keys, candidate, &mut |_| GoOn::Yes)
    }

    fn new_device(&self, name: &str) -> NewDevice {
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let secret = Secret::KeyFile(key_file);
        NewDevice::make(&self.devices.address(), secret, name).unwrap()
    }

    fn members(&self) -> Vec<Member> {
        self.vault().information().unwrap().members
    }

    fn devices_count(&self) -> usize {
        let members = self.members();
        members.iter().filter(|member| member.is_device).count()
    }

    /// Where the new vault goes.
    fn target(&self) -> PathBuf {
        self.devices.place.directory.path().join("new")
    }

    /// The folder that is the remote, and where it is put for a while.
    fn remote_and_away(&self) -> (PathBuf, PathBuf) {
        let place = self.devices.place.directory.path();
        (place.join("remote"), place.join("away"))
    }

    fn mailbox(&self) -> PathBuf {
        self.devices.place.directory.path().join("remote/pairing")
    }

    /// What lies in the mailbox: names and bytes.
    fn letters(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(found) = fs::read_dir(self.mailbox()) else {
            return Vec::new();
        };
        let mut all: Vec<_> = found
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read(path).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    /// The one letter of that number.
    fn letter(&self, number: u8) -> PathBuf {
        let end = format!(".{number}");
        let mut names = self.letters().into_iter().map(|(name, _)| name);
        let name = names.find(|name| name.ends_with(&end)).unwrap();
        self.mailbox().join(name)
    }

    /// Lets `new` in, as a person does who compares what both show.
    fn let_in(&mut self, new: &NewDevice) -> Admitted {
        let mut invitation = self.invite();
        let mut asking = new.ask(invitation.code(), self.now).unwrap();
        let candidate = meet(&mut invitation, &mut asking, self.now);
        assert_eq!(candidate.fingerprint(), new.fingerprint());
        self.admit(&mut invitation, &candidate).unwrap();
        admitted(&mut asking, self.now)
    }
}

fn code(invitation: &Invitation) -> PairingCode {
    PairingCode::parse(&invitation.code().text()).unwrap()
}

/// A code for the same place that is another one.
fn wrong_code(invitation: &Invitation) -> PairingCode {
    let mut text = invitation.code().text().to_string();
    let last = if text.pop() == Some('0') { '1' } else { '0' };
    text.push(last);
    PairingCode::parse(&text).unwrap()
}

/// Both sides look until the old one knows who asks.
fn meet(invitation: &mut Invitation, asking: &mut Asking, now: Instant) -> Candidate {
    assert!(matches!(invitation.look(now), Ok(InvitationStep::Waiting)));
    assert!(matches!(asking.look(now), Ok(AskingStep::Waiting)));
    match invitation.look(now) {
        Ok(InvitationStep::Asks(candidate)) => candidate,
        other => panic!("{other:?}"),
    }
}

fn admitted(asking: &mut Asking, now: Instant) -> Admitted {
    match asking.look(now) {
        Ok(AskingStep::Admitted(admitted)) => admitted,
        other => panic!("{other:?}"),
    }
}

fn cloned(
    new: &NewDevice,
    admitted: Admitted,
    folder: &Path,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport, Error> {
    new.clone_as_admitted(admitted, folder, &CloneOptions::default(), told)
}

fn open(folder: &Path, new: &NewDevice) -> Vault {
    Vault::open(folder, new.secret().clone(), OpenOptions::default()).unwrap()
}

macro_rules! assert_pairing {
    ($result:expr, $error:pat) => {
        match $result {
            Err(Error::Pairing($error)) => {}
            other => panic!("{other:?}"),
        }
    };
}

/// Goal: with the code, and a yes on the old device, a new one has the vault, a key slot of its own, and is a device that the old one
/// knows; nothing of the pairing is left.
/// SECURITY.md, claim 23.
#[test]
fn a_device_is_let_in_by_a_code_and_a_yes() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    assert_eq!(invitation.url(), old.devices.address());
    let typed = code(&invitation);
    check_offered(invitation.url(), &typed).unwrap();
    let mut asking = new.ask(&typed, old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    assert_eq!(candidate.name(), "laptop");
    assert_eq!(candidate.fingerprint(), new.fingerprint());
    assert_eq!(old.devices_count(), 1, "nobody is in before the yes");
    assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
    old.admit(&mut invitation, &candidate).unwrap();
    let admitted = admitted(&mut asking, old.now);
    drop(asking);
    assert_eq!(old.letters(), []);
    let report = cloned(&new, admitted, &old.target(), &mut |_| GoOn::Yes).unwrap();
    assert!(report.made.is_whole());
    let vault = open(&old.target(), &new);
    assert_eq!(vault.read("/letter").unwrap(), b"dear reader");
    vault.write("/from-the-new", "hello").unwrap();
    old.devices.vaults.push(vault);
    old.devices.settle();
    // Nothing has to be accepted: the old device made the record itself.
    for vault in &old.devices.vaults {
        let information = vault.information().unwrap();
        assert!(information.unknown_records.is_empty());
        assert_eq!(information.members, {
            let mut members = information.members.clone();
            members.sort_by_key(|one| !one.is_device);
            members
        });
    }
    assert_eq!(old.devices_count(), 2);
    let labels: Vec<_> = old
        .keys
        .slots()
        .into_iter()
        .map(|slot| slot.label)
        .collect();
    assert!(labels.contains(&"laptop".to_owned()), "{labels:?}");
    let all = old.devices.assert_same();
    assert!(all.contains_key("/from-the-new"));
}

/// Goal: whoever carries the messages has five guesses in all, and the last one voids the code, also for who knows it.
/// SECURITY.md, claim 23.
#[test]
fn five_wrong_codes_void_a_code() {
    let old = Old::new();
    let mut invitation = old.invite();
    let (wrong, right) = (wrong_code(&invitation), code(&invitation));
    for number in 1..=PAIRING_TRIES {
        // Whoever guesses does not keep to the count of one device.
        let new = old.new_device("guesser");
        let mut asking = new.ask(&wrong, old.now).unwrap();
        assert!(matches!(
            invitation.look(old.now),
            Ok(InvitationStep::Waiting)
        ));
        assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
        match invitation.look(old.now) {
            Ok(InvitationStep::WrongCode { left }) => assert_eq!(left, PAIRING_TRIES - number),
            other => panic!("{other:?}"),
        }
        assert_pairing!(asking.look(old.now), PairingError::WrongCode);
    }
    // A sixth is not even answered.
    let new = old.new_device("guesser");
    let mut late = new.ask(&right, old.now).unwrap();
    assert_pairing!(invitation.look(old.now), PairingError::TriesUsed);
    assert_pairing!(late.look(old.now), PairingError::Withdrawn);
    assert_pairing!(new.ask(&right, old.now), PairingError::NoOffer { .. });
    assert_pairing!(invitation.look(old.now), PairingError::Ended);
    assert_eq!(old.devices_count(), 1);
}

/// Goal: tries that never come to an end count as well, so nobody guesses by many that he begins.
/// SECURITY.md, claim 23.
#[test]
fn a_try_that_is_begun_and_left_counts() {
    let old = Old::new();
    let mut invitation = old.invite();
    let wrong = wrong_code(&invitation);
    let mut all: Vec<_> = (0..PAIRING_TRIES + 3)
        .map(|_| old.new_device("guesser").ask(&wrong, old.now).unwrap())
        .collect();
    assert!(matches!(
        invitation.look(old.now),
        Ok(InvitationStep::Waiting)
    ));
    let welcomes = old.letters();
    let welcomes = welcomes.iter().filter(|(name, _)| name.ends_with(".2"));
    assert_eq!(welcomes.count(), PAIRING_TRIES);
    for asking in &mut all {
        assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
    }
    for _ in 0..PAIRING_TRIES {
        let look = invitation.look(old.now);
        assert!(
            matches!(look, Ok(InvitationStep::WrongCode { left: 0 })),
            "{look:?}"
        );
    }
    assert_pairing!(invitation.look(old.now), PairingError::TriesUsed);
}

/// Goal: whoever answers in the place of the old device, as the remote can, tries five codes at most against a new device, whatever the
/// person types there. Method: each try meets a device that counts none of the others. Failed before: the new device asked without end, each
/// time a try that nobody counted.
/// SECURITY.md, claim 23.
#[test]
fn a_new_device_asks_five_times_and_never_again() {
    let old = Old::new();
    let new = old.new_device("laptop");
    for number in 1..=PAIRING_TRIES {
        assert!(new.may_ask());
        let mut invitation = old.invite();
        let mut asking = new.ask(&wrong_code(&invitation), old.now).unwrap();
        assert!(matches!(
            invitation.look(old.now),
            Ok(InvitationStep::Waiting)
        ));
        assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
        assert!(matches!(
            invitation.look(old.now),
            Ok(InvitationStep::WrongCode { left: 4 })
        ));
        match number {
            PAIRING_TRIES => assert_pairing!(asking.look(old.now), PairingError::TriesUsed),
            _ => assert_pairing!(asking.look(old.now), PairingError::WrongCode),
        }
    }
    assert!(!new.may_ask());
    let invitation = old.invite();
    assert_pairing!(
        new.ask(&code(&invitation), old.now),
        PairingError::TriesUsed
    );
    let said = old.letters();
    assert!(said.iter().all(|(name, _)| !name.contains('.')), "{said:?}");
}

#[test]
fn a_mistyped_code_can_be_typed_again() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(&wrong_code(&invitation), old.now).unwrap();
    assert!(matches!(
        invitation.look(old.now),
        Ok(InvitationStep::Waiting)
    ));
    assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
    assert!(matches!(
        invitation.look(old.now),
        Ok(InvitationStep::WrongCode { left: 4 })
    ));
    assert_pairing!(asking.look(old.now), PairingError::WrongCode);
    drop(asking);
    let mut asking = new.ask(&code(&invitation), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    old.admit(&mut invitation, &candidate).unwrap();
    admitted(&mut asking, old.now);
}

#[test]
fn a_code_lets_one_device_in_and_is_void_then() {
    let mut old = Old::new();
    let (one, other) = (old.new_device("one"), old.new_device("other"));
    let mut invitation = old.invite();
    let typed = code(&invitation);
    let mut first = one.ask(&typed, old.now).unwrap();
    let mut second = other.ask(&typed, old.now).unwrap();
    assert!(matches!(
        invitation.look(old.now),
        Ok(InvitationStep::Waiting)
    ));
    assert!(matches!(first.look(old.now), Ok(AskingStep::Waiting)));
    assert!(matches!(second.look(old.now), Ok(AskingStep::Waiting)));
    let candidate = match invitation.look(old.now) {
        Ok(InvitationStep::Asks(candidate)) => candidate,
        other => panic!("{other:?}"),
    };
    old.admit(&mut invitation, &candidate).unwrap();
    let (mut inside, mut outside) = match candidate.name() {
        "one" => (first, second),
        _ => (second, first),
    };
    admitted(&mut inside, old.now);
    assert_pairing!(outside.look(old.now), PairingError::Withdrawn);
    assert_pairing!(other.ask(&typed, old.now), PairingError::NoOffer { .. });
    assert_pairing!(
        check_offered(invitation.url(), &typed),
        PairingError::NoOffer { .. }
    );
    assert_eq!(old.devices_count(), 2);
}

#[test]
fn a_code_is_good_for_ten_minutes() {
    let old = Old::new();
    let new = old.new_device("slow");
    let mut invitation = old.invite();
    let typed = code(&invitation);
    let late = old.now + PAIRING_LIFETIME + Duration::from_secs(1);
    let in_time = old.now + PAIRING_LIFETIME;
    assert!(matches!(
        invitation.look(in_time),
        Ok(InvitationStep::Waiting)
    ));
    let mut asking = new.ask(&typed, in_time).unwrap();
    assert_pairing!(invitation.look(late), PairingError::TooLate);
    assert_pairing!(asking.look(late), PairingError::Withdrawn);
    assert_pairing!(new.ask(&typed, late), PairingError::NoOffer { .. });
    drop(asking);
    assert_eq!(old.letters(), []);
}

#[test]
fn a_no_changes_nothing_and_voids_the_code() {
    let old = Old::new();
    let new = old.new_device("stranger");
    let mut invitation = old.invite();
    let typed = code(&invitation);
    let mut asking = new.ask(&typed, old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    invitation.refuse(&candidate).unwrap();
    assert_pairing!(asking.look(old.now), PairingError::Refused);
    assert_pairing!(new.ask(&typed, old.now), PairingError::NoOffer { .. });
    assert_eq!(old.devices_count(), 1);
}

/// Goal: whatever whoever writes to the remote does to the messages, nobody is let in whom the person did not see, and neither side hangs
/// beyond its time.
/// SECURITY.md, claim 23.
#[test]
fn messages_that_are_changed_swapped_or_held_back_let_nobody_in() {
    let old = Old::new();
    let waits = |step: Result<InvitationStep, Error>| {
        assert!(matches!(step, Ok(InvitationStep::Waiting)), "{step:?}");
    };
    let fails = |step: Result<InvitationStep, Error>| {
        assert!(
            matches!(step, Ok(InvitationStep::WrongCode { .. })),
            "{step:?}"
        );
    };
    let change = |path: &Path, how: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).unwrap();
        how(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    let garble = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
    let ask = |invitation: &Invitation| {
        let new = old.new_device("laptop");
        new.ask(&code(invitation), old.now).unwrap()
    };

    // The first message of the new device.
    for how in [
        &garble as &dyn Fn(&mut Vec<u8>),
        &|bytes| bytes.clear(),
        &|bytes| bytes.truncate(10),
        &|bytes| bytes.resize(1 << 20, 0),
    ] {
        let mut invitation = old.invite();
        let mut asking = ask(&invitation);
        change(&old.letter(1), how);
        // It is no point of the curve, or one that the new device did not send.
        match invitation.look(old.now) {
            Ok(InvitationStep::WrongCode { left: 4 }) => {
                asking.look(old.now).unwrap_err();
            }
            other => {
                waits(other);
                asking.look(old.now).unwrap();
                fails(invitation.look(old.now));
                assert_pairing!(asking.look(old.now), PairingError::WrongCode);
            }
        }
    }
    // That of the old one.
    let mut invitation = old.invite();
    let mut asking = ask(&invitation);
    waits(invitation.look(old.now));
    change(&old.letter(2), &|bytes| bytes.truncate(5));
    assert!(matches!(asking.look(old.now), Err(Error::RemoteUntrue(_))));
    drop((invitation, asking));
    // The request, changed, and that of another pairing with another code.
    let mut invitation = old.invite();
    let mut asking = ask(&invitation);
    waits(invitation.look(old.now));
    asking.look(old.now).unwrap();
    let request = fs::read(old.letter(3)).unwrap();
    change(&old.letter(3), &garble);
    fails(invitation.look(old.now));
    drop(asking);
    let mut asking = ask(&invitation);
    waits(invitation.look(old.now));
    fs::write(old.letter(1).with_extension("3"), &request).unwrap();
    fails(invitation.look(old.now));
    asking.look(old.now).unwrap_err();
    drop((invitation, asking));
    // The answer: made up, changed, and one that somebody else put there first.
    for bytes in [&b"come in"[..], &[1], &[]] {
        let mut invitation = old.invite();
        let mut asking = ask(&invitation);
        meet(&mut invitation, &mut asking, old.now);
        fs::write(old.letter(3).with_extension("4"), bytes).unwrap();
        assert!(matches!(asking.look(old.now), Err(Error::RemoteUntrue(_))));
    }
    // Everything held back.
    let mut invitation = old.invite();
    let mut asking = ask(&invitation);
    fs::remove_file(old.letter(1)).unwrap();
    let later = old.now + PAIRING_LIFETIME + Duration::from_secs(1);
    waits(invitation.look(old.now));
    assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
    assert_pairing!(asking.look(later), PairingError::NoAnswer);
    assert_pairing!(invitation.look(later), PairingError::TooLate);
    assert_eq!(old.devices_count(), 1);
}

/// Goal: what passes through the remote tells neither the code nor who joins.
/// SECURITY.md, claim 23.
#[test]
fn the_remote_sees_no_code_no_name_and_no_key() {
    let mut old = Old::new();
    let new = old.new_device("canary-name");
    let mut invitation = old.invite();
    let text = invitation.code().text().to_string();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    let mut seen = old.letters();
    let answer_comes = old.letter(3).with_extension("4");
    old.admit(&mut invitation, &candidate).unwrap();
    seen.push(("answer".to_owned(), fs::read(answer_comes).unwrap()));
    assert_eq!(seen.len(), 5, "offer, hello, welcome, request, answer");
    let secret_part = text.replace('-', "")[3..].to_owned();
    for (name, bytes) in &seen {
        for canary in ["canary-name", &text, &secret_part] {
            let found = bytes
                .windows(canary.len())
                .any(|one| one == canary.as_bytes());
            assert!(!found && !name.contains(canary), "{name}: {canary}");
        }
    }
}

/// Goal: keys of another vault let nobody in, neither here nor there; the right ones may be tried then.
#[test]
fn keys_of_another_vault_let_nobody_in() {
    let mut old = Old::new();
    let mut stranger = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    let keys = &mut stranger.keys;
    let refused = invitation.admit(old.vault(), keys, &candidate, &mut |_| GoOn::Yes);
    assert!(matches!(refused, Err(Error::Keys(_))), "{refused:?}");
    assert_eq!((old.devices_count(), stranger.devices_count()), (1, 1));
    old.admit(&mut invitation, &candidate).unwrap();
    assert_eq!(old.devices_count(), 2);
}

#[test]
fn a_device_that_has_gone_is_not_let_in() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    drop(asking);
    assert_pairing!(old.admit(&mut invitation, &candidate), PairingError::Gone);
    assert_eq!(old.devices_count(), 1);
}

/// Goal: a device that gives up while the old one syncs is not let in. Failed before: it was looked for only before the sync, which may take
/// longer than a device waits.
#[test]
fn a_device_that_goes_while_the_old_one_syncs_is_not_let_in() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    old.vault().write("/news", content(300_000, 2)).unwrap();
    let mut asking = Some(asking);
    let vault = &old.devices.vaults[0];
    let admitted = invitation.admit(vault, &mut old.keys, &candidate, &mut |_| {
        asking = None;
        GoOn::Yes
    });
    assert_pairing!(admitted, PairingError::Gone);
    assert!(asking.is_none());
    assert_eq!(old.devices_count(), 1);
}

/// Goal: a new device that was killed right after the yes gets in with the secret that it chose.
#[test]
fn a_new_device_that_is_killed_after_the_yes_clones_with_its_own_secret() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    // Killed: nothing is cleaned up.
    forget(asking);
    old.admit(&mut invitation, &candidate).unwrap();
    let options = CloneOptions::default();
    let address = old.devices.address();
    clone(&address, old.target(), new.secret(), options, &mut |_| {
        GoOn::Yes
    })
    .unwrap();
    let vault = open(&old.target(), &new);
    assert_eq!(vault.read("/letter").unwrap(), b"dear reader");
}

/// Goal: a clone that was cut off goes on as the device that was let in, and adds no other.
#[test]
fn a_clone_of_a_device_that_was_let_in_goes_on_as_that_device() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let admitted = old.let_in(&new);
    let stopped = cloned(&new, admitted, &old.target(), &mut |_| GoOn::No);
    assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
    let options = CloneOptions::default();
    let address = old.devices.address();
    clone(&address, old.target(), new.secret(), options, &mut |_| {
        GoOn::Yes
    })
    .unwrap();
    let vault = open(&old.target(), &new);
    old.devices.vaults.push(vault);
    old.devices.settle();
    assert_eq!(old.devices_count(), 2);
    let information = old.vault().information().unwrap();
    assert!(information.unknown_records.is_empty());
}

/// Goal: a new device cannot be given an older state than the one that it was let into.
/// SECURITY.md, claim 23.
#[test]
fn a_remote_that_hides_what_the_old_device_pushed_last_is_found_out() {
    let mut old = Old::new();
    let place = old.devices.place.directory.path().to_owned();
    copy_folder(&place.join("remote"), &place.join("older"));
    let new = old.new_device("laptop");
    let admitted = old.let_in(&new);
    let newest = |folder: &str| {
        let all = fs::read_dir(place.join(folder)).unwrap();
        all.map(|entry| entry.unwrap().path()).max().unwrap()
    };
    // The publication alone, then everything since.
    let hidden = newest("remote/publications");
    fs::rename(&hidden, place.join("hidden")).unwrap();
    let result = cloned(&new, admitted, &old.target(), &mut |_| GoOn::Yes);
    assert!(matches!(result, Err(Error::RemoteUntrue(_))), "{result:?}");
    fs::rename(place.join("hidden"), &hidden).unwrap();
    fs::rename(place.join("remote"), place.join("newer")).unwrap();
    fs::rename(place.join("older"), place.join("remote")).unwrap();
    let result = cloned(&new, admitted, &old.target(), &mut |_| GoOn::Yes);
    assert!(matches!(result, Err(Error::RemoteUntrue(_))), "{result:?}");
    assert!(!old.target().exists());
    fs::rename(place.join("remote"), place.join("older")).unwrap();
    fs::rename(place.join("newer"), place.join("remote")).unwrap();
    cloned(&new, admitted, &old.target(), &mut |_| GoOn::Yes).unwrap();
}

/// Goal: an old device that is killed leaves an offer that keeps nobody waiting beyond the time, and is in nobody's way.
#[test]
fn an_old_device_that_is_killed_lets_nobody_in_and_leaves_the_remote_usable() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    forget(invitation);
    assert!(matches!(asking.look(old.now), Ok(AskingStep::Waiting)));
    let later = old.now + PAIRING_LIFETIME + Duration::from_secs(1);
    assert_pairing!(asking.look(later), PairingError::NoAnswer);
    drop(asking);
    old.let_in(&new);
}

/// Goal: a device is let in by the newest header, also if another device changed keys and this one has not heard of it.
/// Failed before: the two headers did not go on from one another, and the vault could not be synced any more.
#[test]
fn a_device_is_let_in_after_another_one_changed_keys() {
    let mut old = Old::among(2);
    let mut keys = Keys::open(old.devices.folder(1), &old.devices.place.secret).unwrap();
    let code = strongroom::RecoveryCode::random(&SystemRandom).unwrap();
    let key = strongroom::NewKey::RecoveryCode(code);
    keys.add("made elsewhere", strongroom::AddKey::Other(key))
        .unwrap();
    old.devices.sync(1);
    let new = old.new_device("laptop");
    let admitted = old.let_in(&new);
    cloned(&new, admitted, &old.target(), &mut |_| GoOn::Yes).unwrap();
    let vault = open(&old.target(), &new);
    old.devices.vaults.push(vault);
    old.devices.settle();
    assert_eq!(old.devices_count(), 3);
    let labels: Vec<_> = old
        .keys
        .slots()
        .into_iter()
        .map(|slot| slot.label)
        .collect();
    for label in ["made elsewhere", "laptop"] {
        assert!(labels.iter().any(|one| one == label), "{labels:?}");
    }
    old.devices.assert_same();
}

/// Goal: if the remote is away when the person says yes, nothing was changed.
/// Failed before: the device was a member, and nobody could know.
#[test]
fn nobody_is_let_in_while_the_remote_cannot_be_reached() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    let (remote, away) = old.remote_and_away();
    fs::rename(&remote, &away).unwrap();
    let failed = old.admit(&mut invitation, &candidate);
    assert!(matches!(failed, Err(Error::Remote(_))), "{failed:?}");
    assert_eq!(old.devices_count(), 1);
    fs::rename(&away, &remote).unwrap();
    // It can be tried again.
    old.admit(&mut invitation, &candidate).unwrap();
    admitted(&mut asking, old.now);
}

/// Goal: whoever could let a device in but not say so at the remote learns what to do, and that helps.
/// Method: the remote goes away in the middle of the first sync, which has it open.
#[test]
fn a_device_that_was_let_in_while_the_remote_went_away_clones_later() {
    let mut old = Old::new();
    let new = old.new_device("laptop");
    let mut invitation = old.invite();
    let mut asking = new.ask(invitation.code(), old.now).unwrap();
    let candidate = meet(&mut invitation, &mut asking, old.now);
    old.vault().write("/more", content(100_000, 3)).unwrap();
    let (remote, away) = old.remote_and_away();
    let vault = &old.devices.vaults[0];
    let failed = invitation.admit(vault, &mut old.keys, &candidate, &mut |_| {
        if remote.exists() {
            fs::rename(&remote, &away).unwrap();
        }
        GoOn::Yes
    });
    let said = failed.as_ref().unwrap_err().to_string();
    assert!(said.contains("`strongroom sync`"), "{said}");
    assert_pairing!(failed, PairingError::NotPublished { .. });
    assert_pairing!(asking.look(old.now), PairingError::Withdrawn);
    assert_eq!(old.devices_count(), 2);
    fs::rename(&away, &remote).unwrap();
    old.devices.sync(0);
    let options = CloneOptions::default();
    let address = old.devices.address();
    clone(&address, old.target(), new.secret(), options, &mut |_| {
        GoOn::Yes
    })
    .unwrap();
}

#[test]
fn a_name_or_secret_that_cannot_be_is_refused_before_anything_is_said() {
    let old = Old::new();
    let address = old.devices.address();
    let secret = || Secret::KeyFile(KeyFile::random(&SystemRandom).unwrap());
    for name in ["", &"x".repeat(65), "a\u{1b}[2J", "a\u{202e}b"] {
        assert_pairing!(
            NewDevice::make(&address, secret(), name),
            PairingError::Name
        );
    }
    let code = strongroom::RecoveryCode::random(&SystemRandom).unwrap();
    let made = NewDevice::make(&address, Secret::RecoveryCode(code), "laptop");
    assert_pairing!(made, PairingError::Secret);
    assert_eq!(old.letters(), []);
}
