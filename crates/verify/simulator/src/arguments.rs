//! Reads the command line of the simulator.
//!
//! Takes   the words after a verb
//! Gives   the seeds to run, and how; or a message with the usage
//! Never   runs anything

use std::path::Path;

use strongroom_conformance::engine;
use strongroom_simulator::disk::{NameSync, Policy, THREADS_MAX};
use strongroom_simulator::run::Trial;
use strongroom_simulator::worker::Scale;

pub(crate) const USAGE: &str = "usage:
  strongroom-sim run    [--seeds N|A..B] [--ops N] [--policy NAME] [--stride N] [--journal] [--threads N] [--cover]
  strongroom-sim faults [--seeds N|A..B] [--ops N] [--first N] [--last N]
  strongroom-sim transactions [--seeds N|A..B] [--ops N] [--policy NAME] [--stride N] [--journal]
  strongroom-sim vault  [--stride N] [--policy NAME] [--journal] [--first N] [--last N]
  strongroom-sim rotations [--ops N] [--stride N] [--policy NAME] [--journal]
  strongroom-sim backups [--stride N] [--policy NAME] [--journal]
  strongroom-sim database [--seeds N|A..B] [--ops N] [--stride N] [--first N] [--last N]
  strongroom-sim damage [--seeds N|A..B]
  strongroom-sim small-disk [--seeds N|A..B] [--ops N]
  strongroom-sim alarms [--runs N] [--seed N]
  strongroom-sim sync   [--seeds N|A..B] [--remote memory|server] [--jobs N] [--tell]
  strongroom-sim remote [--cases N|A..B] [--jobs N] [--tell]
  strongroom-sim hostile [--seed N] [--cases N] [--jobs N] [--patience SECONDS] [--program FILE] [--part I/N] [--summary FILE]
                         [--only FILE OPERATION COMMAND]
  strongroom-sim hostile-join SUMMARY...
  strongroom-sim pages  [--sets N] [--sample N] [--seed N] [--jobs N] [--only NAME]
  all                   [--scale NAME] [--ledger FILE]

run     carries out N random operations (default 150) on a simulated disk, cuts the power before every STRIDE-th request
        (default 13), reopens what each policy leaves, and checks the crash contract
faults  lets the n-th request fail, for every n, with EIO, ENOSPC and a short write, and checks the crash contract
transactions  carries out N transactions, cuts the power as run does, and checks that each is there whole or not at all
vault   creates a vault, uses it and changes its keys; cuts the power before every STRIDE-th request, then lets the n-th
        request fail, for every n from FIRST to LAST (default: every STRIDE-th)
rotations  rotates the keys of a vault N times without a pause while a writer works; cuts the power before every STRIDE-th
        request, and checks that the vault that is left works, has what was synced, and is never called damaged
backups creates a backup of a vault, and two more after changes; cuts the power as run does, and checks that the vault is sound,
        that the backup folder is whole or says that it is not, and that the next run completes it
database lets every STRIDE-th read, write and sync of the database fail in the middle of operations (needs no root)
damage  damages one file of a vault folder: flips bits, truncates, writes zeros, removes or swaps files, puts older ones or those
        of another vault; checks that it is reported, that no wrong byte is read, and that a repair restores the rest (needs no root)
small-disk  fills, empties and refills a mounted vault on a small tmpfs, on a small ext4 and under a quota, in N rounds (default
        150) of each seed; checks that nothing is refused while df shows enough space for it, and that nothing is lost
alarms  verifies and checks a sound vault N times (default 1000) during writes, compaction, snapshots, erasing, rotations and
        openings; every report of damage is a violation (needs no root)
sync    runs two to five devices of one vault, which write, sync over a bad line, change keys, join, leave and are killed; checks
        that all get the same tree with everything that was acknowledged, and that it is sound; N at a time (needs no root, and a
        build with the feature testing); the remote is in memory (default), or at a strongroom-server beside this program, which is
        killed and started again meanwhile
remote  lets a remote lie in every way about every kind of object, and as a whole, to every command that asks it; checks what is
        reported, that no byte is wrong or lost, and that all devices get the same tree once the remote is honest (needs the same as sync)
hostile-join joins the summaries of the parts of one hostile run; every part must be given
hostile does to each file of a vault folder everything that somebody who can write the folder can do, and runs every command on
        it; checks that nothing outside is touched, no wrong byte is read, and the damage is reported; in --only, - means every
        one (needs root)
pages   mixes the pages of several states of a database: each, each pair, N random sets (default 1000); checks that what is
        read belongs to one whole state, and that a verification reports the mixture (needs no root)
threads with more than 1, every thread works in its own directory, and the contract is checked for each (at most 8)
policy  keep-all, lose-all, names-only, pages-only, random, torn; default: all of them
cover   also fails unless the power was cut during each kind of background work
scale   small (default): segments, batches and thresholds so small that all background work happens in every run; or real
ledger  keep the nonce ledger of all processes in FILE (in a build with the feature nonce-ledger)
journal names are durable after any sync, as on ext4; default: only after a sync of their directory

Needs root and the FUSE device. Example: strongroom-sim run --seeds 0..100";

/// What the command line asks for.
pub(crate) struct Arguments {
    pub(crate) seeds: std::ops::Range<u64>,
    pub(crate) trial: Trial,
    pub(crate) first: u64,
    pub(crate) last: Option<u64>,
    pub(crate) cover: bool,
}

pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    match text.split_once("..") {
        Some((from, to)) => Ok(number(from)?..number(to)?),
        None => number(text).map(|seed| seed..seed + 1),
    }
}

pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match number(text)?.try_into() {
        Ok(threads) if (1..=THREADS_MAX).contains(&threads) => Ok(threads),
        _ => Err(format!("between 1 and {THREADS_MAX} threads, not {text}")),
    }
}

/// Reads what follows the verb.
pub(crate) fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let trial = Trial {
        acts: 150,
        policies: Policy::ALL.to_vec(),
        stride: 13,
        names: NameSync::Directory,
        threads: 1,
        scale: Scale::Small,
        ledger: None,
        lies: false,
        recut: true,
        fault: None,
        program,
    };
    let mut parsed = Arguments {
        seeds: 0..10,
        trial,
        first: 1,
        last: None,
        cover: false,
    };
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        if option == "--journal" {
            parsed.trial.names = NameSync::Journal;
            continue;
        }
        if option == "--cover" {
            parsed.cover = true;
            continue;
        }
        let value = rest
            .next()
            .ok_or_else(|| format!("{option} needs a value\n{USAGE}"))?;
        match option.as_str() {
            "--seeds" => parsed.seeds = seeds(value)?,
            "--ops" => {
                parsed.trial.acts =
                    usize::try_from(number(value)?).map_err(|error| error.to_string())?
            }
            "--threads" => parsed.trial.threads = threads(value)?,
            "--stride" => parsed.trial.stride = number(value)?,
            "--scale" => {
                parsed.trial.scale =
                    Scale::by_name(value).ok_or_else(|| format!("no scale {value:?}\n{USAGE}"))?
            }
            "--ledger" => {
                engine::keep_nonce_ledger(Path::new(value)).map_err(|error| error.to_string())?;
                parsed.trial.ledger = Some(value.into());
            }
            "--first" => parsed.first = number(value)?,
            "--last" => parsed.last = Some(number(value)?),
            "--policy" => {
                parsed.trial.policies = vec![
                    Policy::by_name(value)
                        .ok_or_else(|| format!("no policy {value:?}\n{USAGE}"))?,
                ]
            }
            _ => return Err(format!("no option {option:?}\n{USAGE}")),
        }
    }
    Ok(parsed)
}
