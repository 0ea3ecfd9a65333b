//! Small objects at a remote, with which two devices that share only a code exchange messages.
//!
//! Takes   a remote, and the public part of a code: it names the place where the two devices meet
//! Gives   an offer at that place, and the messages of each run there; a run is one try of a code
//! Never   trusts a message: anyone who can write to the remote can create, hide and change messages
//! Spec    spec/11-sync.md, section 11.7

use strongroom_crypto::{Random, RandomError};
use strongroom_format::hex;
use strongroom_remote::{Created, ObjectName, Remote};

use crate::error::Result;
use crate::limits::{PAIRING_OBJECT_BYTES_MAX, PAIRING_STALE_S};

/// The folder of these objects.
const KIND: &str = "pairing";

/// What an offer begins with; then come the seconds since 1970 at which it was made.
const OFFER: &str = "strongroom-pairing-1:";

/// What tells one run of a pairing from another: random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run(pub [u8; 16]);

impl Run {
    /// A new run.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn random(random: &dyn Random) -> std::result::Result<Self, RandomError> {
        let mut id = [0; 16];
        random.fill(&mut id)?;
        Ok(Self(id))
    }
}

/// The messages of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Letter {
    /// The new device begins an exchange.
    Hello = 1,
    /// The old one takes part in it.
    Welcome = 2,
    /// Who the new device is, sealed.
    Request = 3,
    /// Whether it is let in, sealed; one byte if the request did not open.
    Answer = 4,
}

/// Every letter, in order.
const LETTERS: [Letter; 4] = [
    Letter::Hello,
    Letter::Welcome,
    Letter::Request,
    Letter::Answer,
];

/// One place at one remote.
#[derive(Clone, Debug)]
pub struct Mailbox {
    place: String,
}

impl Mailbox {
    /// The mailbox at `place`, which has digits only.
    ///
    /// # Errors
    /// `Remote` if no object can be called so.
    pub fn at(place: &str) -> Result<Self> {
        ObjectName::new(format!("{KIND}/{place}"))?;
        let place = place.to_owned();
        Ok(Self { place })
    }

    fn offer_name(&self) -> ObjectName {
        let name = format!("{KIND}/{}", self.place);
        ObjectName::new(name).expect("the digits were checked before")
    }

    fn name(&self, run: Run, letter: Letter) -> ObjectName {
        let run = hex::encode(&run.0);
        let name = format!("{KIND}/{}.{run}.{}", self.place, letter as u8);
        ObjectName::new(name).expect("digits and a dot are plain")
    }

    /// Offers a pairing here; false if somebody else does.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn offer(&self, remote: &dyn Remote, now_s: u64) -> Result<bool> {
        let text = format!("{OFFER}{now_s}\n");
        Ok(remote.create(&self.offer_name(), text.into_bytes())? == Created::New)
    }

    /// Whether a pairing is offered here.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn is_offered(&self, remote: &dyn Remote) -> Result<bool> {
        Ok(remote.has(&self.offer_name())?)
    }

    /// Puts a letter there; false if one is there already.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn put(&self, remote: &dyn Remote, run: Run, letter: Letter, bytes: &[u8]) -> Result<bool> {
        let name = self.name(run, letter);
        let created = remote.create(&name, bytes.to_vec())?;
        // A request that took effect although its answer was lost was repeated.
        let is_own =
            || Ok::<_, crate::Error>(self.read(remote, run, letter)? == Some(bytes.into()));
        Ok(created == Created::New || is_own()?)
    }

    /// A letter, cut to the longest that any may be; `None` if it is not there.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn read(&self, remote: &dyn Remote, run: Run, letter: Letter) -> Result<Option<Vec<u8>>> {
        let range = 0..PAIRING_OBJECT_BYTES_MAX;
        Ok(remote.read_range(&self.name(run, letter), range)?)
    }

    /// The letters that are here, in the order of their runs.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn letters(&self, remote: &dyn Remote) -> Result<Vec<(Run, Letter)>> {
        let listed = remote.list(KIND)?;
        let found = listed.iter().filter_map(|one| parts(&one.name));
        let here = found.filter(|(place, _)| *place == self.place);
        let mut letters: Vec<_> = here.filter_map(|(_, letter)| letter).collect();
        letters.sort_unstable();
        Ok(letters)
    }

    /// Removes the letters of a run.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn forget(&self, remote: &dyn Remote, run: Run) -> Result<()> {
        for letter in LETTERS {
            remote.remove(&self.name(run, letter))?;
        }
        Ok(())
    }

    /// Takes the offer back, and removes all letters but the answers, which somebody may still wait for.
    ///
    /// # Errors
    /// Those of the remote.
    pub fn close(&self, remote: &dyn Remote) -> Result<()> {
        remote.remove(&self.offer_name())?;
        for (run, letter) in self.letters(remote)? {
            if letter != Letter::Answer {
                remote.remove(&self.name(run, letter))?;
            }
        }
        Ok(())
    }
}

/// What the name of an object says: its place; of which run it is which letter, or that it is the offer. `None`: nothing of this.
fn parts(name: &str) -> Option<(&str, Option<(Run, Letter)>)> {
    let mut parts = name.split('.');
    let place = parts.next().filter(|place| !place.is_empty())?;
    let (Some(run), Some(letter), None) = (parts.next(), parts.next(), parts.next()) else {
        return (name == place).then_some((place, None));
    };
    let run = Run(hex::decode(run)?);
    let mut letters = LETTERS.into_iter();
    let letter = letters.find(|known| letter == (*known as u8).to_string())?;
    Some((place, Some((run, letter))))
}

/// Removes what pairings left that ended long ago, by the clock of this device. What a remote keeps all the same is in nobody's way.
///
/// # Errors
/// Those of the remote, but for what it does not remove.
pub fn remove_stale_pairings(remote: &dyn Remote, now_s: u64) -> Result<()> {
    let names: Vec<String> = remote.list(KIND)?.into_iter().map(|one| one.name).collect();
    let mut offered = Vec::new();
    for name in &names {
        let Some((place, None)) = parts(name) else {
            continue;
        };
        let object = ObjectName::new(format!("{KIND}/{name}"))?;
        let text = remote.read_range(&object, 0..64)?.unwrap_or_default();
        let made = std::str::from_utf8(&text).ok();
        let made = made.and_then(|text| text.strip_prefix(OFFER)?.trim_end().parse::<u64>().ok());
        match made.is_some_and(|made| made.abs_diff(now_s) <= PAIRING_STALE_S) {
            true => offered.push(place),
            false => drop(remote.remove(&object)),
        }
    }
    for name in &names {
        if let Some((place, Some(_))) = parts(name)
            && !offered.contains(&place)
        {
            let _ = remote.remove(&ObjectName::new(format!("{KIND}/{name}"))?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    const RUN: Run = Run([7; 16]);

    #[test]
    fn letters_go_to_their_place_and_no_other() {
        let remote = strongroom_remote::memory().unwrap();
        let (here, there) = (Mailbox::at("123").unwrap(), Mailbox::at("124").unwrap());
        assert!(!here.is_offered(&*remote).unwrap());
        assert!(here.offer(&*remote, 5).unwrap());
        assert!(!here.offer(&*remote, 6).unwrap());
        assert!(here.is_offered(&*remote).unwrap() && !there.is_offered(&*remote).unwrap());
        assert!(here.put(&*remote, RUN, Letter::Hello, b"one").unwrap());
        assert!(here.put(&*remote, RUN, Letter::Hello, b"one").unwrap());
        assert!(!here.put(&*remote, RUN, Letter::Hello, b"two").unwrap());
        let read = here.read(&*remote, RUN, Letter::Hello).unwrap();
        assert_eq!(read.as_deref(), Some(&b"one"[..]));
        assert_eq!(there.read(&*remote, RUN, Letter::Hello).unwrap(), None);
        assert_eq!(here.letters(&*remote).unwrap(), [(RUN, Letter::Hello)]);
        assert_eq!(there.letters(&*remote).unwrap(), []);
        here.put(&*remote, RUN, Letter::Answer, b"three").unwrap();
        here.close(&*remote).unwrap();
        assert_eq!(here.letters(&*remote).unwrap(), [(RUN, Letter::Answer)]);
        here.forget(&*remote, RUN).unwrap();
        assert!(remote.list(KIND).unwrap().is_empty());
    }

    #[test]
    fn a_letter_of_any_length_is_read_up_to_the_bound() {
        let remote = strongroom_remote::memory().unwrap();
        let here = Mailbox::at("123").unwrap();
        let long = vec![1; 100_000];
        here.put(&*remote, RUN, Letter::Request, &long).unwrap();
        let read = here.read(&*remote, RUN, Letter::Request).unwrap();
        let bound = usize::try_from(PAIRING_OBJECT_BYTES_MAX).unwrap();
        assert_eq!(read.unwrap().len(), bound);
    }

    #[test]
    fn what_was_left_goes_and_what_is_under_way_stays() {
        let remote = strongroom_remote::memory().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let name = ObjectName::new(format!("{KIND}/{name}")).unwrap();
            remote.create(&name, bytes.to_vec()).unwrap();
        };
        let now = 1_800_000_000;
        let run = "0707070707070707".repeat(2);
        Mailbox::at("111").unwrap().offer(&*remote, now).unwrap();
        put(&format!("111.{run}.1"), b"");
        Mailbox::at("222")
            .unwrap()
            .offer(&*remote, now - PAIRING_STALE_S - 1)
            .unwrap();
        put(&format!("222.{run}.2"), b"");
        put("333", b"no offer");
        put(&format!("444.{run}.4"), b"");
        put("what.is-this", b"of another version");
        remove_stale_pairings(&*remote, now).unwrap();
        let mut left: Vec<_> = remote
            .list(KIND)
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "111".to_owned(),
                format!("111.{run}.1"),
                "what.is-this".to_owned()
            ]
        );
    }

    #[test]
    fn a_name_is_taken_apart_or_is_none_of_a_pairing() {
        let run = "07".repeat(16);
        assert_eq!(parts("123"), Some(("123", None)));
        assert_eq!(
            parts(&format!("123.{run}.3")),
            Some(("123", Some((RUN, Letter::Request))))
        );
        for bad in [
            "",
            ".",
            "123.",
            "123.07.1",
            &format!("123.{run}.5"),
            &format!("123.{run}.1.1"),
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }
}
