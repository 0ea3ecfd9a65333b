//! A remote as the attacker: runs each command that uses it against each lie, about each kind of object and about the
//! whole remote.
//!
//! Takes   a range of cases in a fixed order, and how many to run at a time
//! Gives   for each broken promise the case, and the command that repeats it; the messages for each lie
//! Never   depends on a clock; never gives a remote what only a member with its keys can make
//! Spec    SECURITY.md, claim 21; spec/11-sync.md
//!
//! Rules for each case:
//!  (1) The command ends, in a bounded number of requests and in bounded memory.
//!  (2) The vault is sound afterwards. It has everything that it had before, and only content that some device wrote.
//!  (3) The message fits the event and names the object. The command is silent only if nothing is wrong for this device.
//!  (4) Once the remote is honest again, all devices and a new one reach the same tree, with everything that was
//!      acknowledged. A device that was shown a diverged history has to do what the message says: remove the remote and
//!      add it again. If the remote lost something for good, follow the guide: push to an empty remote.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use strongroom::SyncReport;
use strongroom_remote::testing::{Fate, Objects};

use crate::sync::asked::Asked;
use crate::sync::device::Device;
use crate::sync::judge::{intact, judge, sound_while_away};
use crate::sync::lies::{Command, Lie, Object, Word, right};
use crate::sync::stage::{Stage, Template};
use crate::sync::whole_lies::Whole;

/// Requests that no command needs.
const REQUESTS_MAX: u64 = 30_000;

/// Rounds in which all sync, after which nothing may be left to say.
const ROUNDS_MAX: usize = 12;

/// One lie, and who hears it.
#[derive(Clone, Copy, Debug)]
enum Told {
    Of(Object, Lie),
    Whole(Whole),
}

#[derive(Clone, Copy, Debug)]
struct Case {
    told: Told,
    command: Command,
}

/// All cases, in their order.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for command in Command::ALL {
        for object in Object::ALL {
            // One look of a continuous sync is a push or a pull.
            let is_shown = command != Command::Watch || object == Object::Marker;
            let lies = Lie::ALL.iter().filter(|_| is_shown);
            all.extend(lies.map(|lie| Case {
                told: Told::Of(object, *lie),
                command,
            }));
        }
        let wholes = Whole::ALL.iter();
        all.extend(wholes.map(|whole| Case {
            told: Told::Whole(*whole),
            command,
        }));
    }
    all
}

/// How many there are.
#[must_use]
pub fn count() -> u64 {
    cases().len() as u64
}

/// What was said, by the lie and the command; none for a case that there is not.
type Said = Option<(String, BTreeSet<Word>)>;

fn run(stage: &mut Stage, case: Case) -> Result<Said, String> {
    stage.begin_case()?;
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    stage.remote.plan(Some(Box::new(move |_, _| {
        match counter.fetch_add(1, Ordering::Relaxed) > REQUESTS_MAX {
            true => Fate::Lost,
            false => Fate::Served,
        }
    })));
    let mut named = None;
    let mut spoil = |stage: &Stage, objects: &mut Objects| match case.told {
        Told::Of(object, lie) => {
            let found = object.find(stage, objects)?;
            named = found.as_ref().map(ToString::to_string);
            Ok(found.is_some_and(|name| lie.tell(stage, objects, &name)))
        }
        Told::Whole(whole) => Ok(whole.tell(stage, objects)),
    };
    let words = match case.told {
        Told::Of(object, lie) => right(object, lie, case.command),
        Told::Whole(whole) => whole.right(case.command),
    };
    let done = match words.is_empty() {
        true => None,
        false => case.command.run(stage, &mut spoil)?,
    };
    stage.remote.lie(None);
    stage.remote.plan(None);
    let Some(done) = done else { return Ok(None) };
    if asked.load(Ordering::Relaxed) > REQUESTS_MAX {
        return Err("(1): it asks for ever".to_owned());
    }
    let mut found: BTreeSet<Word> = done.said.iter().map(|said| Word::of(said)).collect();
    if found.is_empty() {
        found.insert(Word::Fine);
    }
    if let Some(wrong) = found.iter().find(|word| !words.contains(word)) {
        return Err(format!(
            "(3): {wrong:?} instead of {words:?}: {:?}",
            done.said
        ));
    }
    let names_it = [Word::Missing, Word::Damaged, Word::TooLong];
    if let (Told::Of(object, _), Some(name)) = (case.told, &named)
        && object != Object::Marker
        && found.iter().any(|word| names_it.contains(word))
        && !done.said.iter().any(|said| said.contains(name.as_str()))
    {
        return Err(format!("(3): {name} is not named: {:?}", done.said));
    }
    afterwards(stage, case, done)?;
    let told = match case.told {
        Told::Of(object, lie) => format!("{object:?} {lie:?}"),
        Told::Whole(whole) => format!("{whole:?}"),
    };
    Ok(Some((format!("{:?}: {told}", case.command), found)))
}

/// (2) and (4).
fn afterwards(stage: &mut Stage, case: Case, mut done: Asked) -> Result<(), String> {
    done.device
        .reopen()
        .map_err(|error| format!("(2): it does not open: {error}"))?;
    let (_, has) = intact(&done.device, &stage.truth)?;
    if let Some(lost) = done.had.difference(&has).next() {
        return Err(format!("(2): piece {lost} is lost"));
    }
    let mut newcomer = None;
    if let Some(folder) = &done.cloned
        && done.said.is_empty()
    {
        let device = stage
            .cloned(folder)
            .map_err(|error| format!("(2): the clone: {error}"))?;
        // What lies only at the remote is read when it is honest again.
        match case.command {
            Command::CloneOnDemand => sound_while_away(&device)?,
            _ => drop(intact(&device, &stage.truth)?),
        }
        newcomer = Some(device);
    }
    // Honest again, with what came meanwhile, but for what was made behind another future.
    let is_split = match case.told {
        Told::Of(object, lie) => object.is_publication() && lie == Lie::Gone,
        Told::Whole(whole) => whole == Whole::Forked,
    };
    let mut objects = stage.objects();
    objects.retain(|name, _| {
        let is_publication = name.split().0 == Some("publications");
        !(done.spoiled.contains(name) || is_split && is_publication)
    });
    objects.extend(done.honest);
    stage.put(&objects);
    // Nobody has pushed what comes behind `known` where a push was tried.
    let is_latest = case.command != Command::Push;
    stage.expect_theirs(is_latest);
    let other = stage.take(match is_latest {
        true => Template::Other,
        false => Template::Earlier,
    })?;
    let remedy = match case.told {
        Told::Of(..) => is_split,
        Told::Whole(whole) => whole.may_split(),
    };
    let mut devices = vec![done.device, other];
    match (case.told, newcomer) {
        // It added itself to an older membership: it has to be cloned again, and that is said.
        (Told::Whole(Whole::Older), Some(device)) => {
            let said = device
                .sync()
                .map_or_else(|error| error.to_string(), |_| String::new());
            if !said.contains("clone the remote into a new folder") {
                return Err(format!(
                    "(4): a newcomer that was shown an older state: {said:?}"
                ));
            }
            done.cloned = None;
        }
        (_, newcomer) => devices.extend(newcomer),
    }
    settle(stage, &devices, remedy).map_err(|why| format!("(4): {why}"))?;
    let folder = match done.cloned {
        Some(folder) if devices.len() == 2 => folder,
        _ => stage.new_folder(),
    };
    let cloned = stage.clone_into(&folder);
    cloned.map_err(|error| format!("(4): a newcomer: {error}"))?;
    devices.push(stage.cloned(&folder)?);
    judge(&devices.iter().collect::<Vec<_>>(), &stage.truth)
}

/// All sync until nothing is left to say. `may_need_help`: what the messages say may be done, once.
fn settle(stage: &mut Stage, devices: &[Device], may_need_help: bool) -> Result<(), String> {
    let mut helped = BTreeSet::new();
    let mut said = String::new();
    for _ in 0..ROUNDS_MAX {
        let mut is_quiet = true;
        for (place, device) in devices.iter().enumerate() {
            match device.sync_counting() {
                Ok((report, _)) if report == SyncReport::default() => continue,
                Ok((report, _)) => said = format!("device {place}: {report:?}"),
                Err(error) if may_need_help => {
                    said = error.to_string();
                    if !helped.insert(place) {
                        return Err(format!(
                            "device {place} still fails after the advice of the message was followed: {said}"
                        ));
                    }
                    // As the guide says: what is lost for good needs an empty place.
                    let all = devices.iter().enumerate();
                    let who = match Word::of(&said) {
                        Word::Missing => {
                            stage.put(&Objects::new());
                            all.collect()
                        }
                        _ => vec![(place, device)],
                    };
                    for (place, device) in who {
                        helped.insert(place);
                        let added = device.add_remote_again(&stage.address);
                        added.map_err(|error| error.to_string())?;
                    }
                }
                Err(error) => return Err(format!("device {place}: {error}; before: {said}")),
            }
            is_quiet = false;
        }
        if is_quiet {
            return Ok(());
        }
    }
    Err(format!("there is always something to say; {said}"))
}

/// The words that were said, by case.
pub type Heard = BTreeMap<String, Vec<String>>;

/// Runs the cases of these numbers that are `step` apart, on as many threads, in `place`. Gives what was said, and what was broken.
///
/// # Errors
/// Nothing could be tried.
pub fn sweep(
    numbers: Range<u64>,
    step: usize,
    jobs: usize,
    place: &Path,
) -> Result<(Heard, Vec<String>), String> {
    let all = cases();
    let next = AtomicU64::new(numbers.start);
    let (heard, broken) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let work = |job: usize| -> Result<(), String> {
        let folder = place.join(job.to_string());
        std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let name = format!("{}-{job}", place.display()).replace('/', "-");
        let mut stage = Stage::new(&name, &folder)?;
        loop {
            let number = next.fetch_add(step as u64, Ordering::Relaxed);
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(case) = all.get(at).filter(|_| number < numbers.end) else {
                return Ok(());
            };
            let ended =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut stage, *case)));
            match ended.unwrap_or_else(|_| Err("(1): it panics".to_owned())) {
                Ok(Some((told, words))) => {
                    let words = words.iter().map(|word| format!("{word:?}")).collect();
                    heard.lock().insert(told, words);
                }
                Ok(None) => {}
                Err(why) => {
                    let line = format!(
                        "{case:?}: VIOLATION {why}\n  repeat: target/debug/strongroom-sim remote --cases {number}"
                    );
                    // A run that is ended early has said it.
                    println!("{line}");
                    broken.lock().push(line);
                }
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..jobs)
            .map(|job| scope.spawn(move || work(job)))
            .collect();
        let ended = running.into_iter().map(|one| one.join());
        ended
            .map(|one| one.unwrap_or_else(|_| Err("nothing could be set up".to_owned())))
            .collect::<Result<Vec<()>, _>>()
    })?;
    Ok((heard.into_inner(), broken.into_inner()))
}
