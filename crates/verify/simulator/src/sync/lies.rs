//! The lies of a remote about one of its objects, and the correct messages for each.
//!
//! Takes   the objects of a remote, one of them, and a lie
//! Gives   the objects with the lie in them; and which messages of which command are then correct
//! Never   makes anything that needs a key

use strongroom_remote::ObjectName;
use strongroom_remote::testing::Objects;
use strongroom_sync::{MARKER, publication_name, segment_name};

use crate::sync::stage::{Stage, of_kind, publications};

/// The object that is lied about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Marker,
    /// The header that the newest publication names.
    Header,
    /// An earlier one.
    OldHeader,
    /// A live segment that a device which is behind has not.
    Segment,
    /// A live one that it has.
    SeenSegment,
    /// The record of a revision that a device which is behind has not.
    Revision,
    /// One that it has.
    SeenRevision,
    /// The newest publication.
    Newest,
    /// The first that a device which is behind has not seen.
    Next,
    /// The last that it has seen.
    Seen,
    /// The first of all.
    Oldest,
}

impl Object {
    pub(crate) const ALL: [Self; 11] = [
        Self::Marker,
        Self::Header,
        Self::OldHeader,
        Self::Segment,
        Self::SeenSegment,
        Self::Revision,
        Self::SeenRevision,
        Self::Newest,
        Self::Next,
        Self::Seen,
        Self::Oldest,
    ];

    pub(crate) const fn is_publication(self) -> bool {
        matches!(self, Self::Newest | Self::Next | Self::Seen | Self::Oldest)
    }

    /// Which object that is in this state of the remote; `None` if there is none, or it is one of the others.
    pub(crate) fn find(
        self,
        stage: &Stage,
        objects: &Objects,
    ) -> Result<Option<ObjectName>, String> {
        let is_known = |name: &ObjectName| stage.known.contains_key(name);
        let live = stage.live(objects)?;
        let numbers = publications(objects);
        let seen = publications(&stage.known)
            .into_keys()
            .next_back()
            .unwrap_or(0);
        let last = numbers.keys().next_back().copied().unwrap_or(0);
        let segments = || live.segments.keys().map(segment_name);
        // What was made last is what a newcomer and a device that is behind need first.
        let revisions = || {
            let named = |name: &&ObjectName| {
                let short = |hash: &[u8; 32]| strongroom_format::hex::encode(&hash[..8]);
                live.revisions
                    .keys()
                    .any(|hash| name.as_str().ends_with(&short(hash)))
            };
            of_kind(objects, "revisions").filter(named).cloned()
        };
        let number = |number: u64| {
            numbers
                .contains_key(&number)
                .then(|| publication_name(number))
        };
        Ok(match self {
            Self::Marker => objects.keys().find(|name| name.as_str() == MARKER).cloned(),
            Self::Header => of_kind(objects, "headers").next_back().cloned(),
            Self::OldHeader => of_kind(objects, "headers").nth_back(1).cloned(),
            Self::Segment => segments().find(|name| !is_known(name)),
            Self::SeenSegment => segments().find(is_known),
            Self::Revision => revisions().find(|name| !is_known(name)),
            Self::SeenRevision => revisions().find(is_known),
            Self::Newest => number(last),
            Self::Next => number(seen + 1).filter(|_| last > seen + 1),
            Self::Seen => number(seen).filter(|_| last > seen),
            Self::Oldest => {
                let oldest = numbers.keys().next().copied();
                oldest.filter(|first| *first < seen).and_then(number)
            }
        })
    }
}

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lie {
    Gone,
    Empty,
    CutToOne,
    CutToHalf,
    CutByOne,
    LongerByOne,
    /// By more than any object may have.
    LongerByFar,
    /// One bit, so many eighths from the front.
    Flipped(u8),
    /// Another of its kind.
    Swapped,
    /// One of another kind.
    OtherKind,
    /// One of its kind of another vault.
    OtherVault,
    /// One of its kind of another remote of this vault.
    OtherRemote,
    /// One of its kind that the remote had once.
    Replayed,
}

impl Lie {
    pub(crate) const ALL: [Self; 16] = [
        Self::Gone,
        Self::Empty,
        Self::CutToOne,
        Self::CutToHalf,
        Self::CutByOne,
        Self::LongerByOne,
        Self::LongerByFar,
        Self::Flipped(0),
        Self::Flipped(1),
        Self::Flipped(4),
        Self::Flipped(8),
        Self::Swapped,
        Self::OtherKind,
        Self::OtherVault,
        Self::OtherRemote,
        Self::Replayed,
    ];

    /// Tells it of `name`; false if it would be the truth.
    pub(crate) fn tell(self, stage: &Stage, objects: &mut Objects, name: &ObjectName) -> bool {
        let was = objects[name].clone();
        let kind = name.split().0;
        let other_of = |from: &Objects| {
            let fits = |other: &&ObjectName| other.split().0 == kind && *other != name;
            let found = from
                .keys()
                .rev()
                .find(fits)
                .or_else(|| from.get_key_value(name).map(|(name, _)| name));
            found.map(|found| from[found].clone())
        };
        let cut = |len: usize| Some(was[..len.min(was.len())].to_vec());
        let longer = |by: usize| Some([&was[..], &vec![0; by]].concat());
        let is = match self {
            Self::Gone => None,
            Self::Empty => cut(0),
            Self::CutToOne => cut(1),
            Self::CutToHalf => cut(was.len() / 2),
            Self::CutByOne => cut(was.len().saturating_sub(1)),
            Self::LongerByOne => longer(1),
            Self::LongerByFar => longer(17 << 20),
            Self::Flipped(eighths) => {
                let mut is = was.clone();
                let at = (is.len() - 1) * usize::from(eighths) / 8;
                is[at] ^= 1;
                Some(is)
            }
            Self::Swapped => other_of(objects),
            Self::OtherKind => {
                let other = |one: &&ObjectName| one.split().0.is_some() && one.split().0 != kind;
                objects
                    .keys()
                    .find(other)
                    .map(|other| objects[other].clone())
            }
            Self::OtherVault => other_of(&stage.foreign),
            Self::OtherRemote => other_of(&stage.second),
            Self::Replayed => other_of(&stage.removed),
        };
        if is.as_ref() == Some(&was) || is.is_none() && self != Self::Gone {
            return false;
        }
        match is {
            Some(is) => objects.insert(name.clone(), is),
            None => objects.remove(name),
        };
        true
    }
}

/// What is asked of the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Command {
    Pull,
    Push,
    Sync,
    /// With the secret of the vault.
    Clone,
    /// The same, with the content left at the remote.
    CloneOnDemand,
    /// As a device that another one let in right before the lie begins.
    ClonePaired,
    Check,
    CheckDeep,
    Prune,
    Repair,
    /// Continuously.
    Watch,
}

impl Command {
    pub(crate) const ALL: [Self; 11] = [
        Self::Pull,
        Self::Push,
        Self::Sync,
        Self::Clone,
        Self::CloneOnDemand,
        Self::ClonePaired,
        Self::Check,
        Self::CheckDeep,
        Self::Prune,
        Self::Repair,
        Self::Watch,
    ];
}

/// What is said, by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    /// Nothing is wrong.
    Fine,
    Missing,
    Damaged,
    TooLong,
    WentBack,
    Forked,
    OtherVault,
    OtherRemote,
    NewerFormat,
    NoVault,
    NoPush,
    /// Than the state in which the device was let in.
    Older,
    /// Others have pushed what this device does not have; a sync says what is wrong with it.
    Ahead,
    Unreachable,
    /// None of these.
    Unclear,
}

/// Words by which each is known.
const SAID: [(&str, Word); 17] = [
    ("a state from before this device was added", Word::Older),
    ("no vault at this remote", Word::NoVault),
    ("no push to this remote is complete", Word::NoPush),
    ("belongs to another vault", Word::OtherVault),
    ("another remote of this vault", Word::OtherRemote),
    ("shows a different history", Word::Forked),
    ("this device saw a newer state", Word::WentBack),
    ("has lost", Word::Missing),
    ("is missing", Word::Missing),
    ("is longer than", Word::TooLong),
    (
        "still lists objects that it reported as removed",
        Word::Damaged,
    ),
    ("is damaged or was replaced", Word::Damaged),
    (" bytes, not ", Word::Damaged),
    ("has format", Word::NewerFormat),
    ("another device has pushed changes", Word::Ahead),
    ("cannot be reached", Word::Unreachable),
    ("the line was cut", Word::Unreachable),
];

impl Word {
    pub(crate) fn of(said: &str) -> Self {
        let known = SAID.iter().find(|(words, _)| said.contains(words));
        known.map_or(Self::Unclear, |(_, word)| *word)
    }
}

/// Whether a command needs an object to be what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Never,
    /// It may read it, and is right without.
    Perhaps,
    /// That it is there, and its length.
    There,
    Wholly,
}

/// What each command needs. `Next` and `Seen` are of a device that is behind.
const fn need(object: Object, command: Command) -> Need {
    use {Command as C, Need as N, Object as O};
    match (command, object) {
        (_, O::Marker) => N::Wholly,
        (C::Repair, O::Segment) => N::Wholly,
        (C::Repair, _) => N::Never,
        (C::Pull | C::Sync, O::Header | O::Segment | O::Revision | O::Next | O::Newest) => {
            N::Wholly
        }
        (C::Pull | C::Sync, _) => N::Perhaps,
        (C::Push | C::Prune | C::Watch, O::Newest) => N::There,
        (C::Push | C::Prune | C::Watch, _) => N::Perhaps,
        (_, O::Newest | O::Header) => N::Wholly,
        (_, O::OldHeader) => N::Never,
        (C::Check, O::Segment | O::SeenSegment | O::Revision | O::SeenRevision) => N::There,
        (C::CloneOnDemand, O::Segment | O::SeenSegment) => N::There,
        (_, O::Segment | O::SeenSegment | O::Revision | O::SeenRevision) => N::Wholly,
        (_, O::Next | O::Seen | O::Oldest) => N::Perhaps,
    }
}

/// What may be said of a lie about one object.
pub(crate) fn right(object: Object, lie: Lie, command: Command) -> &'static [Word] {
    use {Command as C, Lie as L, Object as O};
    let is_clone = matches!(command, C::Clone | C::CloneOnDemand | C::ClonePaired);
    match (object, lie, need(object, command)) {
        (O::Marker, L::Gone, _) if is_clone => &[Word::NoVault],
        (O::Marker, L::OtherVault, _) if !is_clone => &[Word::OtherVault],
        (O::Marker, L::OtherRemote, _) if !is_clone => &[Word::OtherRemote],
        // No earlier header has the slot of a device that was just let in.
        (O::Header, L::Gone, _) if matches!(command, C::ClonePaired) => {
            &[Word::Missing, Word::Older]
        }
        (O::Header, ..) if matches!(command, C::ClonePaired) => &[Word::Damaged, Word::Older],
        // Which vault it is only the header can prove, and which remote only the publications.
        (O::Marker, L::OtherVault | L::OtherRemote, _) => {
            &[Word::OtherVault, Word::Damaged, Word::Older]
        }
        (O::Marker, L::Flipped(_), _) => &[
            Word::Damaged,
            Word::OtherVault,
            Word::OtherRemote,
            Word::NewerFormat,
            Word::Older,
        ],
        // It was never made, as far as somebody can know who has not seen it.
        (O::Newest, L::Gone, _)
            if matches!(command, C::Pull | C::Sync | C::Clone | C::CloneOnDemand) =>
        {
            &[Word::Fine]
        }
        (O::Newest, L::Gone, _) if is_clone => &[Word::Older],
        (O::Newest, L::Gone, _) if !matches!(command, C::Repair) => &[Word::WentBack],
        (_, _, Need::Never) => &[Word::Fine],
        (_, L::Gone, Need::Perhaps) => &[Word::Fine, Word::Missing],
        (_, _, Need::Perhaps) => &[Word::Fine, Word::Damaged, Word::TooLong],
        (_, L::Gone, _) => &[Word::Missing],
        // What of it comes is proven, and what is listed.
        (O::Segment | O::SeenSegment, _, Need::There) if is_clone => &[Word::Fine, Word::Damaged],
        (O::Segment | O::SeenSegment, L::Flipped(_), Need::There) => &[Word::Fine],
        // The lengths of records and publications are not known.
        (O::Segment | O::SeenSegment, _, Need::There) => &[Word::Fine, Word::Damaged],
        (_, _, Need::There) => &[Word::Fine, Word::Damaged, Word::TooLong],
        // Without the line feed at its end it says the same.
        (O::Marker, L::CutByOne, _) => &[Word::Damaged, Word::Fine],
        // What stands there may be longer than what belongs there.
        _ => &[Word::Damaged, Word::TooLong],
    }
}
