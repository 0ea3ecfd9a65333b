//! Names at one size: created, looked up, listed, removed; and the memory that the vault needs then, idle and under load.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use strongroom_bench::Content;
use strongroom_filesystem::{Filesystem, InodeId, Listing, NodeKind};

use crate::arguments::Arguments;
use crate::process::{self, Figures};
use crate::vault::{self, CALLER};
use crate::{commits, memory};

/// Rounds of each figure.
const ROUNDS: usize = 7;
/// Names that a round makes and removes beside those that are there.
const CHANGES: usize = 1_000;
/// Directories that get them, if there are so many.
const CHANGED_DIRECTORIES: usize = 10;
/// Names that a round looks up, at random.
const LOOK_UPS: usize = 10_000;
/// Entries that one call lists: about what one request of the kernel has room for.
const PAGE: usize = 200;
/// Entries of a directory of the shape `tree`.
const IN_DIRECTORY: usize = 100;
/// Threads that write under load, and MiB that each writes.
const WRITERS: usize = 4;
const WRITER_MIB: usize = 64;

/// How the entries lie.
const SHAPES: [&str; 2] = ["directory", "tree"];

/// Everything found at one size.
#[derive(Debug, Serialize)]
pub(crate) struct Size {
    /// Entries.
    pub(crate) count: usize,
    /// All entries in one directory.
    pub(crate) directory: Figures,
    /// 100 entries in each directory.
    pub(crate) tree: Figures,
}

/// Measures vaults of `count` entries.
pub(crate) fn measure(arguments: &Arguments, count: usize) -> Result<Size, Box<dyn Error>> {
    let [directory, tree] = SHAPES.map(|shape| {
        eprintln!("{count} entries, {shape}");
        let folder = tempfile::tempdir_in(&arguments.folder)?;
        let mut figures = process::run("grow", shape, count, folder.path())?;
        figures.extend(process::run("use", shape, count, folder.path())?);
        Ok::<_, Box<dyn Error>>(figures)
    });
    Ok(Size {
        count,
        directory: directory?,
        tree: tree?,
    })
}

/// One step of `measure`, in a process of its own.
pub(crate) fn step(
    step: &str,
    shape: &str,
    count: usize,
    folder: &Path,
) -> Result<Figures, Box<dyn Error>> {
    let in_directory = match shape {
        "directory" => count,
        "tree" => IN_DIRECTORY,
        other => return Err(format!("no shape {other:?}").into()),
    };
    match step {
        "grow" => grow(count, in_directory, folder),
        "use" => use_it(count, in_directory, folder),
        other => Err(format!("no step {other:?}").into()),
    }
}

fn grow(count: usize, in_directory: usize, folder: &Path) -> Result<Figures, Box<dyn Error>> {
    let filesystem = vault::create(folder, None)?;
    memory::forget_peak()?;
    let start = Instant::now();
    let mut directory = InodeId::ROOT;
    for number in 0..count {
        if number % in_directory == 0 {
            let name = format!("d{}", number / in_directory);
            directory = vault::make(&filesystem, InodeId::ROOT, &name, NodeKind::Directory)?;
        }
        vault::make(&filesystem, directory, &name_of(number), NodeKind::File)?;
    }
    filesystem.sync()?;
    let seconds = start.elapsed().as_secs_f64();
    let peak = memory::peak()?;
    filesystem.close()?;
    Ok(Figures::from([
        ("grow".to_owned(), vec![count as f64 / seconds]),
        ("memory_growing".to_owned(), vec![peak]),
    ]))
}

fn name_of(number: usize) -> String {
    format!("file-{number}")
}

/// An open vault of a size.
struct Place {
    filesystem: Filesystem,
    directories: Vec<InodeId>,
    in_directory: usize,
    count: usize,
}

fn use_it(count: usize, in_directory: usize, folder: &Path) -> Result<Figures, Box<dyn Error>> {
    let mut figures = Figures::new();
    let mut add = |name: &str, value: f64| figures.entry(name.to_owned()).or_default().push(value);
    let start = Instant::now();
    let filesystem = vault::open(folder, None)?;
    add("open_seconds", start.elapsed().as_secs_f64());
    add("memory_at_rest", memory::resident()?);
    let find = |number: usize| vault::look_up(&filesystem, InodeId::ROOT, &format!("d{number}"));
    let directories = (0..count.div_ceil(in_directory)).map(find);
    let place = Place {
        directories: directories.collect::<Result<_, _>>()?,
        filesystem: filesystem.clone(),
        in_directory,
        count,
    };
    let mut content = Content::new(count as u64);
    for round in 0..=ROUNDS {
        let created = place.create(round)?;
        let found = place.look_up(&mut content)?;
        let listed = [Listing::Names, Listing::WithAttributes].map(|listing| place.list(listing));
        let [names, attributes] = listed;
        let removed = place.remove(round)?;
        if round > 0 {
            add("create", created);
            add("look_up", found);
            add("list", names?);
            add("list_attributes", attributes?);
            add("remove", removed);
        }
    }
    add("memory_after", memory::resident()?);
    memory::forget_peak()?;
    place.load(&mut content)?;
    add("memory_loaded", memory::peak()?);
    commits::measure(&filesystem, place.directories[0], folder, &mut figures)?;
    filesystem.close()?;
    Ok(figures)
}

impl Place {
    fn directory_of(&self, number: usize) -> InodeId {
        self.directories[number / self.in_directory]
    }

    /// Names that `create` makes: in as many directories at every size, so that the work is the same.
    fn changes(&self, round: usize) -> impl Iterator<Item = (InodeId, String)> {
        let step = (self.directories.len() / CHANGED_DIRECTORIES).max(1);
        let directories = self.directories.iter().step_by(step);
        directories
            .take(CHANGED_DIRECTORIES)
            .cycle()
            .zip(0..CHANGES)
            .map(move |(directory, number)| (*directory, format!("new-{round}-{number}")))
    }

    /// Names made a second, the commit at the end included.
    fn create(&self, round: usize) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        for (directory, name) in self.changes(round) {
            vault::make(&self.filesystem, directory, &name, NodeKind::File)?;
        }
        self.filesystem.sync()?;
        Ok(CHANGES as f64 / start.elapsed().as_secs_f64())
    }

    /// Names removed a second, the commit at the end included.
    fn remove(&self, round: usize) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        for (directory, name) in self.changes(round) {
            self.filesystem
                .unlink(&CALLER, directory, name.as_bytes())?;
        }
        self.filesystem.sync()?;
        Ok(CHANGES as f64 / start.elapsed().as_secs_f64())
    }

    /// Names looked up a second, each at random among all.
    fn look_up(&self, content: &mut Content) -> Result<f64, Box<dyn Error>> {
        let numbers: Vec<usize> = (0..LOOK_UPS)
            .map(|_| (content.random() % self.count as u64) as usize)
            .collect();
        let names: Vec<String> = numbers.iter().copied().map(name_of).collect();
        let start = Instant::now();
        for (number, name) in numbers.iter().zip(&names) {
            vault::look_up(&self.filesystem, self.directory_of(*number), name)?;
        }
        Ok(LOOK_UPS as f64 / start.elapsed().as_secs_f64())
    }

    /// Entries listed a second, of all directories.
    fn list(&self, listing: Listing) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        let mut entries = 0;
        for directory in &self.directories {
            entries += self.list_one(*directory, listing)?;
        }
        if entries < self.count {
            return Err(format!("{entries} of {} entries listed", self.count).into());
        }
        Ok(entries as f64 / start.elapsed().as_secs_f64())
    }

    fn list_one(&self, directory: InodeId, listing: Listing) -> Result<usize, Box<dyn Error>> {
        let mut entries = 0;
        let mut after = 0;
        loop {
            let page = self
                .filesystem
                .list(&CALLER, directory, after, PAGE, listing)?;
            let Some(last) = page.last() else {
                return Ok(entries);
            };
            after = last.cookie;
            entries += page.len();
        }
    }

    /// Four files written at once, with names looked up and listed meanwhile.
    fn load(&self, content: &mut Content) -> Result<(), Box<dyn Error>> {
        let directory = self.directories[0];
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|number| scope.spawn(move || self.write_file(directory, number)))
                .collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                self.look_up(content)?;
                self.list(Listing::WithAttributes)?;
            }
            for writer in writers {
                writer.join().expect("a writer does not panic")?;
            }
            Ok::<_, Box<dyn Error>>(())
        })?;
        Ok(self.filesystem.sync()?)
    }

    fn write_file(&self, directory: InodeId, number: usize) -> strongroom_filesystem::Result<()> {
        let mut content = Content::new(number as u64);
        let name = format!("load-{number}");
        let file = vault::make(&self.filesystem, directory, &name, NodeKind::File)?;
        (0..WRITER_MIB).try_for_each(|mib| {
            let offset = (mib << 20) as u64;
            self.filesystem.write(file, offset, content.take(1 << 20))
        })
    }
}
