//! Remotes for tests: they count requests, and fail as planned. They keep their objects in memory, or pass requests on
//! to another remote over a simulated line.
//!
//! Takes   a name, which makes `memory:NAME` an address in this process; a plan with the outcome of each request; and,
//!         for a remote in memory, optionally a `liar` that changes the answers
//! Gives   an ordinary remote at that address, while a test holds it; its objects, and the requests that it got
//! Never   is part of the product: only the feature `testing` compiles it, and an address exists only while a test holds it

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::address::Address;
use crate::error::{Error, Result};
use crate::object_name::ObjectName;
use crate::remote::{Created, Listed, Remote};

/// What the address of such a remote begins with.
pub(crate) const MEMORY: &str = "memory:";

/// What is asked of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// `create`.
    Create,
    /// `read` and `read_range`.
    Read,
    /// `list`.
    List,
    /// `remove`.
    Remove,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It takes effect and is answered.
    Served,
    /// It fails before it takes effect.
    Lost,
    /// It takes effect, and the answer is lost.
    AnswerLost,
    /// It takes effect twice, and the second is answered: the line was cut after the first.
    Repeated,
}

/// Requests of one verb on one kind of object, and the bytes that they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often it was asked, whatever became of it.
    pub requests: u64,
    /// Bytes of objects that were given or taken.
    pub bytes: u64,
}

/// What each request is decided by: its verb, and the name or the kind of what it is about.
pub type Plan = Box<dyn FnMut(Verb, &str) -> Fate + Send>;

/// All objects of a remote.
pub type Objects = BTreeMap<ObjectName, Vec<u8>>;

/// What is about to be answered.
#[derive(Debug)]
pub enum Answer<'a> {
    /// What came of creating an object.
    Created(&'a mut Created),
    /// All bytes of an object, of which those that were asked for are given.
    Bytes(&'a mut Option<Vec<u8>>),
    /// A listing.
    Listed(&'a mut Vec<Listed>),
    /// An object was removed, if it was there.
    Removed,
}

/// Changes answers about the object or kind of that name, and the objects, as somebody can who has the remote.
pub type Liar = Box<dyn FnMut(&mut Objects, &str, Answer<'_>) + Send>;

/// A remote that a test holds.
struct Held {
    remote: Weak<dyn Remote>,
    /// The vault at a server to which it passes requests on.
    server: Option<Address>,
}

static HELD: Mutex<BTreeMap<String, Held>> = Mutex::new(BTreeMap::new());

/// The remote of that name, if a test holds one.
pub(crate) fn held(name: &str) -> Option<Arc<dyn Remote>> {
    HELD.lock().get(name)?.remote.upgrade()
}

/// The vault at a server to which the remote of that name passes requests on, if it does.
pub(crate) fn server_behind(name: &str) -> Option<Address> {
    HELD.lock().get(name)?.server.clone()
}

/// Makes `memory:NAME` the address of a remote as long as it lives, instead of an earlier one of that name.
fn hold<R: Remote + 'static>(name: &str, remote: &Arc<R>, server: Option<Address>) {
    let remote = Arc::downgrade(remote);
    let mut held = HELD.lock();
    held.retain(|_, held| held.remote.strong_count() > 0);
    held.insert(name.to_owned(), Held { remote, server });
}

/// The line to a remote: it decides what becomes of each request, and counts them.
#[derive(Default)]
pub struct Line {
    counts: Mutex<BTreeMap<(Verb, String), Count>>,
    plan: Mutex<Option<Plan>>,
}

impl fmt::Debug for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Line({:?})", self.counts.lock())
    }
}

impl Line {
    /// Lets `plan` decide every request from now on; `None` serves all. It is asked before the request, one at a time.
    pub fn plan(&self, plan: Option<Plan>) {
        *self.plan.lock() = plan;
    }

    /// What was asked since this was called last, by verb and kind of object.
    #[must_use]
    pub fn take_counts(&self) -> BTreeMap<(Verb, String), Count> {
        std::mem::take(&mut *self.counts.lock())
    }

    /// Does `request` as often as the plan says; it gives an answer and the bytes that it moved.
    fn ask<T>(
        &self,
        verb: Verb,
        name: &str,
        request: impl Fn() -> Result<(T, usize)>,
    ) -> Result<T> {
        let fate = match self.plan.lock().as_mut() {
            Some(plan) => plan(verb, name),
            None => Fate::Served,
        };
        let unreachable = || Error::Unreachable(format!("the line was cut at {name}"));
        let times = match fate {
            Fate::Lost => return Err(unreachable()),
            Fate::Served | Fate::AnswerLost => 1,
            Fate::Repeated => 2,
        };
        let kind = name.split('/').next().unwrap_or_default().to_owned();
        let mut answer = Err(unreachable());
        for _ in 0..times {
            let (given, bytes) = request()?;
            answer = Ok(given);
            let mut counts = self.counts.lock();
            let count = counts.entry((verb, kind.clone())).or_default();
            count.requests += 1;
            count.bytes += bytes as u64;
        }
        match fate {
            Fate::AnswerLost => Err(unreachable()),
            _ => answer,
        }
    }
}

/// Bytes that were moved.
fn len_of(found: Option<&Vec<u8>>) -> usize {
    found.map_or(0, Vec::len)
}

/// Another remote, for example at a server, at the end of a line that fails as planned. Its address holds as long as it lives.
pub struct FarRemote {
    line: Arc<Line>,
    far: Arc<dyn Remote>,
}

impl fmt::Debug for FarRemote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FarRemote({:?})", self.far)
    }
}

impl FarRemote {
    /// Makes `memory:NAME` the address of `far`, instead of an earlier remote of that name.
    #[must_use]
    pub fn at(name: &str, far: Arc<dyn Remote>) -> Arc<Self> {
        Self::held(name, far, None)
    }

    /// The same of a vault at a server: the address also counts as one of a server, with an inbox, which depositors reach without this line.
    ///
    /// # Errors
    /// Those of `Address::open`.
    pub fn at_server(name: &str, server: &Address) -> Result<Arc<Self>> {
        Ok(Self::held(name, server.open()?, Some(server.clone())))
    }

    fn held(name: &str, far: Arc<dyn Remote>, server: Option<Address>) -> Arc<Self> {
        let line = Arc::default();
        let remote = Arc::new(Self { line, far });
        hold(name, &remote, server);
        remote
    }

    /// The line to it.
    #[must_use]
    pub const fn line(&self) -> &Arc<Line> {
        &self.line
    }
}

impl Remote for FarRemote {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        self.line.ask(Verb::Create, name.as_str(), || {
            let created = self.far.create(name, bytes.clone())?;
            Ok(match created {
                Created::New => (created, bytes.len()),
                Created::AlreadyThere => (created, 0),
            })
        })
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        self.line.ask(Verb::Read, name.as_str(), || {
            let found = self.far.read(name, bytes_max)?;
            let len = len_of(found.as_ref());
            Ok((found, len))
        })
    }

    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        self.line.ask(Verb::Read, name.as_str(), || {
            let part = self.far.read_range(name, range.clone())?;
            let len = len_of(part.as_ref());
            Ok((part, len))
        })
    }

    fn has(&self, name: &ObjectName) -> Result<bool> {
        self.line
            .ask(Verb::Read, name.as_str(), || Ok((self.far.has(name)?, 0)))
    }

    /// Everything came long ago, as at a remote in memory: what may be removed does not depend on when a test runs.
    fn list(&self, kind: &str) -> Result<Vec<Listed>> {
        self.line.ask(Verb::List, kind, || {
            let mut listed = self.far.list(kind)?;
            listed.iter_mut().for_each(|one| one.created_s = 0);
            Ok((listed, 0))
        })
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        self.line.ask(Verb::Remove, name.as_str(), || {
            self.far.remove(name).map(|()| ((), 0))
        })
    }

    /// One after the other, so that a plan meets them in one order.
    fn transfers(&self) -> usize {
        1
    }
}

/// A remote in memory. Its address holds as long as it lives.
pub struct MemoryRemote {
    objects: Mutex<Objects>,
    line: Arc<Line>,
    liar: Mutex<Option<Liar>>,
}

impl fmt::Debug for MemoryRemote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "MemoryRemote({} objects)", self.objects.lock().len())
    }
}

impl MemoryRemote {
    /// An empty remote at `memory:NAME`, instead of an earlier one of that name.
    #[must_use]
    pub fn at(name: &str) -> Arc<Self> {
        let remote = Arc::new(Self {
            objects: Mutex::default(),
            line: Arc::default(),
            liar: Mutex::default(),
        });
        hold(name, &remote, None);
        remote
    }

    /// The line to it.
    #[must_use]
    pub const fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Lets `plan` decide every request from now on, as `Line::plan` says.
    pub fn plan(&self, plan: Option<Plan>) {
        self.line.plan(plan);
    }

    /// Lets `liar` change every answer from now on; `None` ends it.
    pub fn lie(&self, liar: Option<Liar>) {
        *self.liar.lock() = liar;
    }

    fn tell(&self, objects: &mut Objects, name: &str, answer: Answer<'_>) {
        if let Some(liar) = self.liar.lock().as_mut() {
            liar(objects, name, answer);
        }
    }

    /// The bytes of an object as they are told.
    fn told(&self, objects: &mut Objects, name: &ObjectName) -> Option<Vec<u8>> {
        let mut found = objects.get(name).cloned();
        self.tell(objects, name.as_str(), Answer::Bytes(&mut found));
        found
    }

    /// Looks at the objects, or changes them behind everybody's back.
    pub fn with_objects<T>(&self, look: impl FnOnce(&mut Objects) -> T) -> T {
        look(&mut self.objects.lock())
    }

    /// Does `request` as often as the plan says; it gives an answer and the bytes that it moved.
    fn ask<T>(
        &self,
        verb: Verb,
        name: &str,
        request: impl Fn(&mut Objects) -> (T, usize),
    ) -> Result<T> {
        let request = || Ok(request(&mut self.objects.lock()));
        self.line.ask(verb, name, request)
    }
}

impl Remote for MemoryRemote {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        self.ask(Verb::Create, name.as_str(), |objects| {
            let (mut created, len) = match objects.contains_key(name) {
                true => (Created::AlreadyThere, 0),
                false => (Created::New, bytes.len()),
            };
            objects.entry(name.clone()).or_insert_with(|| bytes.clone());
            self.tell(objects, name.as_str(), Answer::Created(&mut created));
            (created, len)
        })
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let found = self.ask(Verb::Read, name.as_str(), |objects| {
            let found = self.told(objects, name);
            let len = len_of(found.as_ref());
            (found, len)
        })?;
        match found {
            Some(bytes) if bytes.len() as u64 > bytes_max => Err(Error::TooLong {
                name: name.to_string(),
                max: bytes_max,
            }),
            found => Ok(found),
        }
    }

    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        self.ask(Verb::Read, name.as_str(), |objects| {
            let part = self.told(objects, name).map(|bytes| {
                let at =
                    |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
                bytes[at(range.start)..at(range.end)].to_vec()
            });
            let len = len_of(part.as_ref());
            (part, len)
        })
    }

    fn list(&self, kind: &str) -> Result<Vec<Listed>> {
        self.ask(Verb::List, kind, |objects| {
            let of_kind = objects.iter().filter_map(|(name, bytes)| {
                let (found, name) = name.split();
                (found == Some(kind)).then(|| Listed {
                    name: name.to_owned(),
                    len: bytes.len() as u64,
                    created_s: 0,
                    kept_until_s: 0,
                })
            });
            let mut listed = of_kind.collect();
            self.tell(objects, kind, Answer::Listed(&mut listed));
            (listed, 0)
        })
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        self.ask(Verb::Remove, name.as_str(), |objects| {
            objects.remove(name);
            self.tell(objects, name.as_str(), Answer::Removed);
            ((), 0)
        })
    }

    /// One after the other, so that a plan meets them in one order.
    fn transfers(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_remote_in_memory_is_an_address_while_a_test_holds_it_and_keeps_its_objects() {
        let remote = MemoryRemote::at("held");
        let name = ObjectName::new("segments/a").unwrap();
        let open = || Address::parse("memory:held").unwrap().open().unwrap();
        assert_eq!(
            open().create(&name, b"bytes".to_vec()).unwrap(),
            Created::New
        );
        assert_eq!(open().read(&name, 5).unwrap().unwrap(), b"bytes");
        assert_eq!(open().read_range(&name, 3..9).unwrap().unwrap(), b"es");
        assert_eq!(open().list("segments").unwrap()[0].len, 5);
        let counts = remote.line().take_counts();
        let created = counts[&(Verb::Create, "segments".to_owned())];
        assert_eq!((created.requests, created.bytes), (1, 5));
        drop(remote);
        let error = Address::parse("memory:held").unwrap_err().to_string();
        assert!(error.contains("no remote has this kind of URL"), "{error}");
    }

    #[test]
    fn a_remote_that_passes_on_to_a_server_has_the_inbox_there() {
        let server = Address::parse("http://srt-1@127.0.0.1:1/anna/v").unwrap();
        let remote = FarRemote::at_server("served", &server).unwrap();
        let address = Address::parse("memory:served").unwrap();
        assert!(address.is_server());
        let inbox = address.with_token("sra-2").unwrap();
        assert_eq!(inbox, "http://sra-2@127.0.0.1:1/anna/v");
        drop(remote);
        let near = MemoryRemote::at("served");
        assert!(!address.is_server() && address.with_token("sra-2").is_none());
        drop(near);
    }

    #[test]
    fn a_request_fails_before_or_after_it_takes_effect_or_comes_twice() {
        let remote = MemoryRemote::at("bad");
        let name = ObjectName::new("a").unwrap();
        for (fate, is_told, is_there) in [
            (Fate::Lost, None, false),
            (Fate::AnswerLost, None, true),
            (Fate::Repeated, Some(Created::AlreadyThere), true),
            (Fate::Served, Some(Created::New), true),
        ] {
            remote.plan(Some(Box::new(move |_, _| fate)));
            assert_eq!(
                remote.create(&name, b"x".to_vec()).ok(),
                is_told,
                "{fate:?}"
            );
            remote.plan(None);
            let there = remote.with_objects(|objects| objects.remove(&name).is_some());
            assert_eq!(there, is_there, "{fate:?}");
        }
    }

    #[test]
    fn a_liar_changes_what_is_answered_and_what_is_there() {
        let remote = MemoryRemote::at("liar");
        let name = ObjectName::new("segments/a").unwrap();
        remote.lie(Some(Box::new(|objects, name, answer| match answer {
            Answer::Created(created) => {
                objects.clear();
                *created = Created::AlreadyThere;
            }
            Answer::Bytes(bytes) => *bytes = Some(name.as_bytes().to_vec()),
            Answer::Listed(listed) => listed.clear(),
            Answer::Removed => {}
        })));
        assert_eq!(
            remote.create(&name, b"x".to_vec()).unwrap(),
            Created::AlreadyThere
        );
        assert!(remote.with_objects(|objects| objects.is_empty()));
        assert_eq!(remote.read_range(&name, 0..3).unwrap().unwrap(), b"seg");
        assert!(remote.read(&name, 3).is_err());
        assert_eq!(remote.list("segments").unwrap(), []);
        remote.lie(None);
        assert_eq!(remote.read(&name, 3).unwrap(), None);
    }

    /// Goal: a line before another remote fails and counts as that before one in memory, and changes nothing of the answers.
    #[test]
    fn another_remote_is_behind_a_line_that_fails_as_planned() {
        let far = crate::memory().unwrap();
        let remote = FarRemote::at("far", Arc::clone(&far));
        let open = || Address::parse("memory:far").unwrap().open().unwrap();
        let name = ObjectName::new("segments/a").unwrap();
        for (fate, is_told, is_there) in [
            (Fate::Lost, None, false),
            (Fate::AnswerLost, None, true),
            (Fate::Repeated, Some(Created::AlreadyThere), true),
            (Fate::Served, Some(Created::New), true),
        ] {
            remote.line().plan(Some(Box::new(move |_, _| fate)));
            let created = open().create(&name, b"bytes".to_vec());
            assert_eq!(created.ok(), is_told, "{fate:?}");
            assert_eq!(far.has(&name).unwrap(), is_there, "{fate:?}");
            remote.line().plan(None);
            if fate != Fate::Served {
                open().remove(&name).unwrap();
            }
        }
        let counts = remote.line().take_counts();
        let created = counts[&(Verb::Create, "segments".to_owned())];
        assert_eq!((created.requests, created.bytes), (4, 15));
        assert_eq!(open().read(&name, 5).unwrap().unwrap(), b"bytes");
        assert!(open().read(&name, 4).is_err());
        assert_eq!(open().read_range(&name, 3..9).unwrap().unwrap(), b"es");
        let listed = open().list("segments").unwrap();
        assert_eq!((listed.len(), listed[0].created_s), (1, 0));
        drop(remote);
        assert!(Address::parse("memory:far").is_err());
    }
}
