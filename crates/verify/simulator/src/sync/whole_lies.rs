//! Lies about the whole remote: it returns to an older state, gives objects of another remote, invents objects, or
//! answers falsely.
//!
//! Takes   a stage, and the objects of its remote
//! Gives   the remote with the lie in it; and which messages of which command are then correct
//! Never   makes anything that needs a key, except what a removed device made with its own keys

use std::collections::BTreeMap;

use strongroom_format::hex;
use strongroom_remote::testing::{Answer, Fate, Liar, Objects, Plan};
use strongroom_remote::{Created, Listed, ObjectName};
use strongroom_sync::{MARKER, header_name, object_hash, publication_name};

use crate::sync::lies::{Command, Word};
use crate::sync::stage::Stage;

/// Names that are listed and are not there.
const NAMES_MADE_UP: u64 = 20_000;

/// A length that nobody has.
const TEBIBYTE: u64 = 1 << 40;

/// A lie of a whole remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whole {
    /// It is as it was long ago.
    Older,
    /// Only its marker is left.
    Emptied,
    Nothing,
    /// Another remote of the vault is where it was.
    OtherRemote,
    OtherVault,
    /// A device that was removed put its own state there, for who was away while the log was cut.
    Intruder,
    /// Headers of everybody's making, with the hashes that their names say.
    HeadersMadeUp,
    /// The same of a publication that is far behind the others, records, segments and offers.
    ObjectsMadeUp,
    ListsTwice,
    ListsNothing,
    ListsMadeUp,
    ListsTooLong,
    /// It says that what is created is there, and it is not.
    HasNot(&'static str),
    /// It says that it created what it did not.
    KeepsNot(&'static str),
    /// It shows what another device made that knows of nothing newer.
    Forked,
    /// Each object is another when it is read again.
    Fickle,
    /// It does not answer.
    Stuck,
    /// Nor to whatever is asked behind the first few answers.
    StuckLater,
}

impl Whole {
    pub(crate) const ALL: [Self; 22] = [
        Self::Older,
        Self::Emptied,
        Self::Nothing,
        Self::OtherRemote,
        Self::OtherVault,
        Self::Intruder,
        Self::HeadersMadeUp,
        Self::ObjectsMadeUp,
        Self::ListsTwice,
        Self::ListsNothing,
        Self::ListsMadeUp,
        Self::ListsTooLong,
        Self::HasNot("segments"),
        Self::HasNot("revisions"),
        Self::HasNot("publications"),
        Self::KeepsNot("segments"),
        Self::KeepsNot("revisions"),
        Self::KeepsNot("publications"),
        Self::Forked,
        Self::Fickle,
        Self::Stuck,
        Self::StuckLater,
    ];

    /// Whether devices may have been shown two futures, or the remote has lost what it was given.
    pub(crate) const fn may_split(self) -> bool {
        matches!(self, Self::HasNot(_) | Self::KeepsNot(_) | Self::Forked)
    }

    pub(crate) fn tell(self, stage: &Stage, objects: &mut Objects) -> bool {
        match self {
            Self::Older => objects.clone_from(&stage.older),
            Self::Emptied => objects.retain(|name, _| name.as_str() == MARKER),
            Self::Nothing => objects.clear(),
            Self::OtherRemote => objects.clone_from(&stage.second),
            Self::OtherVault => objects.clone_from(&stage.foreign),
            Self::Intruder => {
                objects.retain(|name, _| name.split().0 != Some("publications"));
                let made = stage.intruded.iter();
                objects.extend(made.map(|(name, bytes)| (name.clone(), bytes.clone())));
            }
            Self::HeadersMadeUp => objects.extend((0..3).map(|at| {
                let bytes = format!("{{\"generation\": {at}}}").into_bytes();
                (header_name(9_999_999 + at, &object_hash(&bytes)), bytes)
            })),
            Self::ObjectsMadeUp => objects.extend(made_up()),
            Self::Forked => objects.clone_from(&stage.forked),
            Self::Stuck | Self::StuckLater => stage.remote.plan(self.plan()),
            _ => stage.remote.lie(self.liar()),
        }
        true
    }

    fn plan(self) -> Option<Plan> {
        let mut left = if self == Self::Stuck { 0 } else { 4 };
        Some(Box::new(move |_, _| match left {
            0 => Fate::Lost,
            _ => {
                left -= 1;
                Fate::Served
            }
        }))
    }

    fn liar(self) -> Option<Liar> {
        let mut read: BTreeMap<String, u64> = BTreeMap::new();
        Some(Box::new(move |objects, name, answer| {
            let kind = name.split('/').next().unwrap_or_default();
            match (self, answer) {
                (Self::ListsTwice, Answer::Listed(listed)) => listed.extend_from_within(..),
                (Self::ListsNothing, Answer::Listed(listed)) => listed.clear(),
                (Self::ListsMadeUp, Answer::Listed(listed)) => listed.extend(names_made_up(kind)),
                (Self::ListsTooLong, Answer::Listed(listed)) => {
                    listed.iter_mut().for_each(|one| one.len = TEBIBYTE);
                }
                (Self::HasNot(of), Answer::Created(created)) if kind == of => {
                    if *created == Created::New {
                        remove(objects, name);
                    }
                    *created = Created::AlreadyThere;
                }
                (Self::KeepsNot(of), Answer::Created(created))
                    if kind == of && *created == Created::New =>
                {
                    remove(objects, name);
                }
                (Self::Fickle, Answer::Bytes(Some(bytes))) => {
                    let times = read.entry(name.to_owned()).or_default();
                    *times += 1;
                    if let Some(byte) = bytes.last_mut().filter(|_| (*times).is_multiple_of(2)) {
                        *byte ^= 1;
                    }
                }
                _ => {}
            }
        }))
    }

    /// What may be said of it; nothing where the command cannot meet it, or nobody could be wiser.
    pub(crate) fn right(self, command: Command) -> &'static [Word] {
        use Command as C;
        let is_clone = matches!(command, C::Clone | C::CloneOnDemand | C::ClonePaired);
        let pushes = matches!(command, C::Push | C::Sync | C::Watch);
        match (self, command) {
            // A newcomer can be shown an older state, and what somebody makes of it who was a member then; and another vault.
            (Self::Older, C::Clone | C::CloneOnDemand) => &[Word::Fine],
            (
                Self::Intruder | Self::OtherVault | Self::OtherRemote,
                C::Clone | C::CloneOnDemand,
            ) => &[],
            (Self::Intruder, C::ClonePaired | C::Watch | C::Prune) => &[],
            (Self::Older | Self::Emptied | Self::OtherRemote, C::ClonePaired) => &[Word::Older],
            (Self::OtherVault, C::ClonePaired) => &[Word::Older, Word::OtherVault],
            (Self::Older, C::Repair) => &[Word::Missing],
            (Self::Emptied, C::Repair) => &[Word::Missing],
            (Self::Emptied, C::Clone | C::CloneOnDemand) => &[Word::NoPush],
            (Self::Older | Self::Emptied, _) => &[Word::WentBack],
            (Self::Nothing, _) if is_clone => &[Word::NoVault],
            (Self::Nothing, _) => &[Word::Missing],
            (Self::OtherRemote, _) => &[Word::OtherRemote],
            (Self::OtherVault, _) => &[Word::OtherVault],
            (Self::Intruder, C::Pull | C::Sync) => &[Word::Damaged],
            (Self::Intruder, C::Repair) => &[Word::Missing, Word::Fine],
            (Self::Intruder, _) => &[Word::Ahead],
            (Self::ObjectsMadeUp, C::Check | C::CheckDeep) => &[Word::Damaged],
            (Self::ObjectsMadeUp, _) if is_clone => &[Word::Damaged],
            // Nobody publishes in what looks like a gap.
            (Self::ObjectsMadeUp, C::Push | C::Sync | C::Watch | C::Prune) => &[Word::Missing],
            (Self::HeadersMadeUp | Self::ObjectsMadeUp | Self::ListsTwice, _) => &[Word::Fine],
            (Self::ListsNothing, C::Clone | C::CloneOnDemand) => &[Word::NoPush],
            (Self::ListsNothing, C::ClonePaired) => &[Word::Older],
            (Self::ListsNothing, C::Pull | C::Sync) => &[Word::Missing],
            (Self::ListsNothing, C::Check | C::CheckDeep) => &[Word::Missing, Word::WentBack],
            (Self::ListsNothing, _) => &[Word::Fine],
            (Self::ListsTooLong, C::Check | C::CheckDeep | C::CloneOnDemand) => &[Word::Damaged],
            (Self::ListsMadeUp, C::Prune) => &[Word::Fine, Word::Damaged],
            (Self::ListsMadeUp | Self::ListsTooLong, _) => &[Word::Fine],
            (Self::HasNot("publications"), _) if pushes => &[Word::Missing],
            // A push looks once more whether there is something to say.
            (Self::KeepsNot("publications"), C::Push | C::Watch) => &[Word::WentBack],
            (Self::HasNot(_) | Self::KeepsNot(_), C::Push | C::Watch) => &[Word::Fine],
            (Self::HasNot(_) | Self::KeepsNot(_), _) => &[],
            (Self::Fickle, _) => &[
                Word::Fine,
                Word::Damaged,
                Word::OtherVault,
                Word::OtherRemote,
            ],
            (Self::Forked, C::Pull | C::Sync) => &[Word::Fine],
            (Self::Forked, _) => &[],
            // Whoever is done by then was answered.
            (Self::StuckLater, _) => &[Word::Unreachable, Word::Fine],
            (Self::Stuck, _) => &[Word::Unreachable],
        }
    }
}

fn remove(objects: &mut Objects, name: &str) {
    objects.retain(|other, _| other.as_str() != name);
}

/// Well-formed names, and contents that are none.
fn made_up() -> Vec<(ObjectName, Vec<u8>)> {
    let names = [
        publication_name(9_999_999).to_string(),
        format!("segments/{}", "ab".repeat(32)),
        format!("revisions/{}.1-{}", "cd".repeat(32), "ef".repeat(8)),
        "revisions/1.2-3".to_owned(),
        "headers/1".to_owned(),
        "publications/1".to_owned(),
        "pairing/1.2.3".to_owned(),
        "else/what".to_owned(),
        "readme".to_owned(),
    ];
    let named = names
        .into_iter()
        .filter_map(|name| ObjectName::new(name).ok());
    named.map(|name| (name, vec![0x41; 5_000])).collect()
}

/// Names of a kind of which no object is there. Headers and publications would be asked for one by one, as long as the list is.
fn names_made_up(kind: &str) -> Vec<Listed> {
    let count = match kind {
        "segments" | "revisions" | "pairing" => NAMES_MADE_UP,
        _ => 0,
    };
    let named = (0..count).map(|number| {
        let hash = object_hash(&number.to_le_bytes());
        let name = match kind {
            "segments" => hex::encode(&hash),
            "revisions" => format!("{}.1-{}", hex::encode(&hash), hex::encode(&hash[..8])),
            _ => number.to_string(),
        };
        Listed {
            name,
            len: 100,
            created_s: 0,
            kept_until_s: 0,
        }
    });
    named.collect()
}
