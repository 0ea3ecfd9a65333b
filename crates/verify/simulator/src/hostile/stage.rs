//! The environment of hostile tests: a copy of the template, the canary beside it, and folders of a user.
//!
//! Takes   a case
//! Gives   the output and the effects of the command, inside and outside of the folder
//! Never   keeps anything from one case to the next, except the canary, and only if it is untouched

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use std::os::unix::fs::MetadataExt;

use super::canary::{self, Facts, Picture};
use super::child::{Ended, Running};
use super::commands::{Command, Judge};
use super::operations::{Applied, Around, Operation};
use super::workers::user_folders;
use crate::damage::base::copy;

/// What does not change between cases.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The command under test.
    pub program: PathBuf,
    /// This program, to look at mounts with.
    pub simulator: PathBuf,
    /// The states of the vault, by name.
    pub images: PathBuf,
    /// The state that is attacked.
    pub template: String,
    /// The id of a key that is not the one in use.
    pub slot: String,
    /// Of random places.
    pub seed: u64,
    /// The longest that a command may take.
    pub patience: Duration,
}

/// A place of one worker.
#[derive(Debug)]
pub struct Stage<'a> {
    ground: &'a Ground,
    place: PathBuf,
    /// What of the canary is compared.
    facts: Cell<Facts>,
}

/// What a command did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// How it ended.
    pub ended: Ended,
    /// What came out of it: copies, or what the mount showed.
    pub picture: Option<Picture>,
    /// What was touched outside.
    pub touched: Option<String>,
    /// What could not be done with a mount.
    pub complaint: Option<String>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a> Stage<'a> {
    /// Prepares one at `place`.
    ///
    /// # Errors
    /// Of the disk.
    pub fn new(ground: &'a Ground, place: &Path) -> Result<Self, String> {
        let stage = Self {
            ground,
            place: place.to_path_buf(),
            facts: Cell::new(Facts::All),
        };
        for folder in ["in/folder", "out", "mount", "pids"] {
            fs::create_dir_all(stage.at(folder)).map_err(text)?;
        }
        fs::write(stage.at("in/one"), "one\n".repeat(2_000)).map_err(text)?;
        fs::write(stage.at("in/folder/two"), "two\n".repeat(20)).map_err(text)?;
        fs::write(stage.at("in/passphrase"), "a new passphrase\n").map_err(text)?;
        fs::copy(ground.images.join("key"), stage.at("key")).map_err(text)?;
        stage.renew()?;
        Ok(stage)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Makes the canary again.
    fn renew(&self) -> Result<(), String> {
        let outside = self.at("outside");
        let _ = fs::remove_dir_all(&outside);
        canary::make(&outside, &self.ground.images.join("other")).map_err(text)
    }

    /// Puts a state of the vault in place, untouched, with no records of a user.
    ///
    /// # Errors
    /// Of the disk.
    pub fn set(&self, state: &str) -> Result<(), String> {
        for folder in ["vault", "out"] {
            let _ = fs::remove_dir_all(self.at(folder));
        }
        for (name, folder) in user_folders(&self.at("user")).map_err(text)? {
            // What was measured of this machine is of no vault, and costs more than all the rest of a case.
            if name != "XDG_CACHE_HOME" {
                fs::remove_dir_all(folder).map_err(text)?;
            }
        }
        fs::create_dir_all(self.at("out")).map_err(text)?;
        copy(&self.ground.images.join(state), &self.at("vault")).map_err(text)
    }

    /// Empties the folder for what comes out.
    ///
    /// # Errors
    /// Of the disk.
    pub fn clear(&self) -> Result<(), String> {
        fs::remove_dir_all(self.at("out")).map_err(text)?;
        fs::create_dir_all(self.at("out")).map_err(text)
    }

    /// Does to the vault what is to be done.
    ///
    /// # Errors
    /// Of the disk.
    pub fn apply(&self, operation: Operation, relative: &str) -> Result<Applied, String> {
        let images = &self.ground.images;
        let around = Around {
            older: images.join("older"),
            branch: images.join("B killed 4"),
            other: images.join("other"),
            outside: self.at("outside"),
            seed: self.ground.seed,
        };
        // That its further name in the vault folder goes changes nothing of a file but the count of names.
        self.facts.set(match operation {
            Operation::HardLink => Facts::AllButLinks,
            _ => Facts::All,
        });
        let folder = self.at("vault");
        operation.apply(&folder, relative, &around).map_err(text)
    }

    /// Runs a command, and looks at what it did.
    ///
    /// # Errors
    /// It cannot be begun.
    pub fn run(&self, command: &Command) -> Result<Done, String> {
        let before = self.outside();
        let mut done = match command.judge {
            Judge::Mount => self.mounted(command)?,
            _ => Done {
                ended: self.plain(command)?,
                ..Done::default()
            },
        };
        if command.judge == Judge::Copies {
            done.picture = Some(canary::picture(&self.at("out"), Facts::Content));
        }
        done.touched = canary::difference(&before, &self.outside());
        if done.touched.is_some() {
            self.renew()?;
        }
        let _ = fs::remove_dir_all(self.at("outside/copied"));
        let _ = fs::remove_file(self.at("outside/copied"));
        Ok(done)
    }

    /// The canary, and the names of what lies beside the vault.
    fn outside(&self) -> Picture {
        let mut picture = canary::picture(&self.at("outside"), self.facts.get());
        for entry in fs::read_dir(&self.place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Made by the run itself.
            if name != "user" {
                picture.insert(format!("beside/{name}").into_bytes(), String::new());
            }
        }
        picture
    }

    fn arguments(&self, command: &Command) -> Vec<String> {
        let shown = |name: &str| self.at(name).to_string_lossy().into_owned();
        command.arguments(&[
            ("@V", shown("vault")),
            ("@K", shown("key")),
            ("@O", shown("out")),
            ("@I", shown("in")),
            ("@M", shown("mount")),
            ("@R", self.ground.slot.clone()),
        ])
    }

    fn begin(&self, program: &Path, arguments: &[String]) -> Result<Running, String> {
        let variables = user_folders(&self.at("user")).map_err(text)?;
        Running::begin(program, arguments, &variables, &self.place).map_err(text)
    }

    fn plain(&self, command: &Command) -> Result<Ended, String> {
        let running = self.begin(&self.ground.program, &self.arguments(command))?;
        running.end(self.ground.patience).map_err(text)
    }

    /// Mounts, looks at all that is there, unmounts.
    fn mounted(&self, command: &Command) -> Result<Done, String> {
        let at = self.at("mount");
        let before = fs::metadata(&at).map_err(text)?.dev();
        let variables = user_folders(&self.at("user")).map_err(text)?;
        let arguments = self.arguments(command);
        let place = self.at("pids");
        let mut mount = Running::begin(&self.ground.program, &arguments, &variables, &place);
        let mount = mount.as_mut().map_err(text)?;
        let began = Instant::now();
        let is_there = |mount: &mut Running| {
            while began.elapsed() < self.ground.patience && !mount.has_ended() {
                if fs::metadata(&at).is_ok_and(|now| now.dev() != before) {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            false
        };
        let mut done = Done::default();
        if is_there(mount) {
            let look = ["hostile-look".to_owned(), at.to_string_lossy().into_owned()];
            let seen = self.begin(&self.ground.simulator, &look)?;
            let seen = seen.end(self.ground.patience).map_err(text)?;
            if seen.code == Some(0) {
                done.picture = Some(parse(&seen.out));
            } else {
                done.complaint = Some("the mount could not be looked at".to_owned());
            }
            let words = ["umount".to_owned(), at.to_string_lossy().into_owned()];
            let ended = self.begin(&self.ground.program, &words)?;
            let ended = ended.end(self.ground.patience).map_err(text)?;
            if ended.code != Some(0) {
                let said = String::from_utf8_lossy(&ended.error).into_owned();
                done.complaint = Some(format!("it cannot be unmounted: {said}"));
                let detach = rustix::mount::UnmountFlags::DETACH;
                let _ = rustix::mount::unmount(&at, detach);
            }
        }
        done.ended = mount.finish(self.ground.patience).map_err(text)?;
        Ok(done)
    }
}

/// A picture as lines, for another process.
#[must_use]
pub fn lines(picture: &Picture) -> String {
    let each = picture
        .iter()
        .map(|(path, text)| format!("{}\t{}\n", path.escape_ascii(), text.escape_debug()));
    each.collect()
}

/// The paths stay escaped: they are only compared.
fn parse(bytes: &[u8]) -> Picture {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(path, text)| (path.as_bytes().to_vec(), text.to_owned()))
        .collect()
}
