//! Measures what calls cost in Rust, on a vault and on the plain file system. The same in C, Python and Java is beside it;
//! `tools/bench_bindings.py` builds all of them, runs them in turns and compares what they print.
//!
//! ```text
//! measure vault|plain FOLDER make BYTES              makes the vault, with its key in FOLDER.key, or the folder; in it a file (Rust only)
//! measure vault|plain FOLDER calls COUNT ROUNDS      COUNT reads of 4 KiB, a fiftieth of 1 MiB, and COUNT `stat` in each round
//! measure vault|plain FOLDER whole BYTES ROUNDS      the file, read into memory at once (Rust, Python)
//! measure vault|plain FOLDER pieces BYTES ROUNDS     the file, read in pieces of 1 MiB (Rust, C, Java)
//! measure vault|plain FOLDER files COUNT ROUNDS      COUNT files of 5,000 bytes written, read, removed
//! ```
//!
//! Prints one line of JSON: for each figure the nanoseconds of each round, in `calls` those of one call. A round before the first
//! warms up, but for `files`. What is read is compared.
//!
//! Rust and C read into memory that begins with a page, because some processors copy several times slower to 16 bytes behind the beginning
//! of one, where the allocator places large memory. Python and Java place it themselves.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use strongroom::{
    CreateOptions, FileOptions, KeyFile, Links, OpenOptions, Secret, SeenRecords, SystemRandom,
    Trust, Vault,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A name, and the nanoseconds of each round.
type Figure = (&'static str, Vec<f64>);

const USAGE: &str = "measure vault|plain FOLDER make|calls|whole|pieces|files NUMBER [ROUNDS]";
const PAGE_BYTES: usize = 4096;
const MIB: usize = 1 << 20;
/// Pages that reads of 4 KiB go over.
const PAGES: u64 = 256;
/// Places that reads of 1 MiB go over.
const MIBS: u64 = 16;
const SMALL_READS_PER_LARGE: u64 = 50;
const FILE_BYTES: usize = 5000;
const STAMP_BYTES: usize = 8;

enum Place {
    Vault(Vault),
    Plain(PathBuf),
}

impl Place {
    fn open(kind: &str, folder: &Path) -> Outcome<Self> {
        if kind == "plain" {
            return Ok(Self::Plain(folder.to_owned()));
        }
        let secret = Secret::KeyFile(KeyFile::parse(&fs::read(key_of(folder))?)?);
        let options = OpenOptions {
            trust: Trust {
                seen: SeenRecords::Nowhere,
                ..Trust::default()
            },
            ..OpenOptions::default()
        };
        Ok(Self::Vault(Vault::open(folder, secret, options)?))
    }

    fn close(&self) -> Outcome<()> {
        if let Self::Vault(vault) = self {
            vault.close()?;
        }
        Ok(())
    }

    fn make_directory(&self, name: &str) -> Outcome<()> {
        match self {
            Self::Vault(vault) => vault.make_directory(format!("/{name}"), 0o755).map(drop)?,
            Self::Plain(folder) => fs::create_dir(folder.join(name))?,
        }
        Ok(())
    }

    fn remove_directory(&self, name: &str) -> Outcome<()> {
        match self {
            Self::Vault(vault) => vault.remove_directory(format!("/{name}"))?,
            Self::Plain(folder) => fs::remove_dir(folder.join(name))?,
        }
        Ok(())
    }

    fn write(&self, name: &str, content: &[u8]) -> Outcome<()> {
        match self {
            Self::Vault(vault) => vault.write(format!("/{name}"), content)?,
            Self::Plain(folder) => fs::write(folder.join(name), content)?,
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Outcome<Vec<u8>> {
        Ok(match self {
            Self::Vault(vault) => vault.read(format!("/{name}"))?,
            Self::Plain(folder) => fs::read(folder.join(name))?,
        })
    }

    fn remove(&self, name: &str) -> Outcome<()> {
        match self {
            Self::Vault(vault) => vault.remove_file(format!("/{name}"))?,
            Self::Plain(folder) => fs::remove_file(folder.join(name))?,
        }
        Ok(())
    }

    fn sync(&self) -> Outcome<()> {
        match self {
            Self::Vault(vault) => vault.sync()?,
            Self::Plain(folder) => rustix::fs::syncfs(fs::File::open(folder)?)?,
        }
        Ok(())
    }
}

fn key_of(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".key");
    name.into()
}

// ---- content: each page, and each small file, begins with its number

fn mib_of(number: u64) -> Vec<u8> {
    let mut content = vec![0; MIB];
    for (index, page) in content.chunks_exact_mut(PAGE_BYTES).enumerate() {
        let number = number * (MIB / PAGE_BYTES) as u64 + index as u64;
        let mut noise = number + 1;
        for word in page.chunks_exact_mut(STAMP_BYTES) {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            word.copy_from_slice(&noise.to_le_bytes());
        }
        stamp(page, number);
    }
    content
}

fn stamp(content: &mut [u8], number: u64) {
    content[..STAMP_BYTES].copy_from_slice(&number.to_le_bytes());
}

fn check(content: &[u8], number: u64) -> Outcome<()> {
    match content.starts_with(&number.to_le_bytes()) {
        true => Ok(()),
        false => Err(format!("page or file {number} is not what was written").into()),
    }
}

fn exactly(found: u64, wanted: u64) -> Outcome<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found} bytes where there are {wanted}").into()),
    }
}

fn make(kind: &str, folder: &Path, bytes: u64) -> Outcome<()> {
    if kind == "plain" {
        fs::create_dir(folder)?;
        let file = fs::File::create_new(folder.join("content"))?;
        fill(bytes, |mib, offset| Ok(file.write_all_at(mib, offset)?))?;
        return Ok(file.sync_all()?);
    }
    let key_file = KeyFile::random(&SystemRandom)?;
    fs::write(key_of(folder), key_file.text().as_bytes())?;
    let options = CreateOptions::new()
        .key_file(key_file)
        .seen(SeenRecords::Nowhere);
    let vault = Vault::create(folder, options)?.vault;
    let file = vault.open_file("/content", FileOptions::new().write().create_new())?;
    fill(bytes, |mib, offset| Ok(file.write_all_at(mib, offset)?))?;
    drop(file);
    Ok(vault.close()?)
}

fn fill(bytes: u64, write: impl Fn(&[u8], u64) -> Outcome<()>) -> Outcome<()> {
    for number in 0..bytes / MIB as u64 {
        write(&mib_of(number), number * MIB as u64)?;
    }
    Ok(())
}

// ---- parts

/// The `len` bytes of `memory` that begin with a page; it has a page more.
fn aligned(memory: &mut [u8], len: usize) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    &mut memory[start..start + len]
}

/// Nanoseconds of one of `count` calls in each of `rounds`, after a round that warms up.
fn timed(rounds: usize, count: u64, mut call: impl FnMut(u64) -> Outcome<()>) -> Outcome<Vec<f64>> {
    let mut taken = Vec::with_capacity(rounds + 1);
    for _ in 0..=rounds {
        let start = Instant::now();
        for number in 0..count {
            call(number)?;
        }
        taken.push(start.elapsed().as_secs_f64() * 1e9 / count as f64);
    }
    Ok(taken.split_off(1))
}

fn calls(place: &Place, count: u64, rounds: usize) -> Outcome<Vec<Figure>> {
    match place {
        Place::Vault(vault) => {
            let file = vault.open_file("/content", FileOptions::new().read())?;
            timed_calls(
                count,
                rounds,
                |buffer, offset| Ok(file.read_at(buffer, offset)?),
                || Ok(vault.attributes("/content", Links::Follow)?.size),
            )
        }
        Place::Plain(folder) => {
            let path = folder.join("content");
            let file = fs::File::open(&path)?;
            timed_calls(
                count,
                rounds,
                |buffer, offset| Ok(file.read_at(buffer, offset)?),
                || Ok(fs::metadata(&path)?.len()),
            )
        }
    }
}

fn timed_calls(
    count: u64,
    rounds: usize,
    read: impl Fn(&mut [u8], u64) -> Outcome<usize>,
    stat: impl Fn() -> Outcome<u64>,
) -> Outcome<Vec<Figure>> {
    let (page, mib) = (PAGE_BYTES as u64, MIB as u64);
    let mut memory = vec![0; MIB + PAGE_BYTES];
    let buffer = aligned(&mut memory, MIB);
    for number in 0..MIBS * mib / page {
        read(&mut buffer[..PAGE_BYTES], number * page)?;
        check(buffer, number)?;
    }
    let small = timed(rounds, count, |number| {
        let found = read(&mut buffer[..PAGE_BYTES], number % PAGES * page)?;
        exactly(found as u64, page)
    })?;
    let large = timed(rounds, count / SMALL_READS_PER_LARGE, |number| {
        let found = read(buffer, number % MIBS * mib)?;
        exactly(found as u64, mib)
    })?;
    let stats = timed(rounds, count, |_| {
        black_box(stat()?);
        Ok(())
    })?;
    Ok(vec![
        ("read_4k", small),
        ("read_1m", large),
        ("stat", stats),
    ])
}

fn whole(place: &Place, bytes: u64, rounds: usize) -> Outcome<Vec<Figure>> {
    let taken = timed(rounds, 1, |_| match place {
        Place::Vault(vault) => {
            let file = vault.open_file("/content", FileOptions::new().read())?;
            let size = file.attributes()?.size;
            read_whole(size, bytes, |content| Ok(file.read_at(content, 0)?))
        }
        Place::Plain(folder) => {
            let mut file = fs::File::open(folder.join("content"))?;
            let size = file.metadata()?.len();
            read_whole(size, bytes, |content| {
                file.read_exact(content)?;
                Ok(content.len())
            })
        }
    })?;
    Ok(vec![("whole", taken)])
}

fn read_whole(
    size: u64,
    bytes: u64,
    read: impl FnOnce(&mut [u8]) -> Outcome<usize>,
) -> Outcome<()> {
    exactly(size, bytes)?;
    let len = usize::try_from(size)?;
    let mut memory = vec![0; len + PAGE_BYTES];
    let content = aligned(&mut memory, len);
    exactly(read(content)? as u64, bytes)?;
    check(content, 0)?;
    let last = bytes / PAGE_BYTES as u64 - 1;
    check(&content[len - PAGE_BYTES..], last)
}

fn pieces(place: &Place, bytes: u64, rounds: usize) -> Outcome<Vec<Figure>> {
    let taken = timed(rounds, 1, |_| match place {
        Place::Vault(vault) => {
            let file = vault.open_file("/content", FileOptions::new().read())?;
            read_pieces(file, bytes)
        }
        Place::Plain(folder) => read_pieces(fs::File::open(folder.join("content"))?, bytes),
    })?;
    Ok(vec![("pieces", taken)])
}

fn read_pieces(mut file: impl Read, bytes: u64) -> Outcome<()> {
    let page = PAGE_BYTES as u64;
    let mut memory = vec![0; MIB + PAGE_BYTES];
    let buffer = aligned(&mut memory, MIB);
    let mut at = 0;
    loop {
        let found = file.read(buffer)? as u64;
        if found == 0 {
            return exactly(at, bytes);
        }
        if at.is_multiple_of(page) {
            check(buffer, at / page)?;
        }
        at += found;
    }
}

fn files(place: &Place, count: u64, rounds: usize) -> Outcome<Vec<Figure>> {
    let name = |number: u64| format!("files/{number:06}");
    let mut content = [b'x'; FILE_BYTES];
    let (mut written, mut read, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        place.make_directory("files")?;
        let start = Instant::now();
        for number in 0..count {
            stamp(&mut content, number);
            place.write(&name(number), &content)?;
        }
        place.sync()?;
        written.push(start.elapsed().as_secs_f64() * 1e9);

        let start = Instant::now();
        for number in 0..count {
            let found = place.read(&name(number))?;
            exactly(found.len() as u64, FILE_BYTES as u64)?;
            check(&found, number)?;
        }
        read.push(start.elapsed().as_secs_f64() * 1e9);

        let start = Instant::now();
        for number in 0..count {
            place.remove(&name(number))?;
        }
        place.remove_directory("files")?;
        place.sync()?;
        removed.push(start.elapsed().as_secs_f64() * 1e9);
    }
    Ok(vec![
        ("written", written),
        ("read", read),
        ("removed", removed),
    ])
}

fn main() -> Outcome<()> {
    if cfg!(debug_assertions) {
        return Err("this is not a release build: its figures mean nothing".into());
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, folder, part, numbers @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let numbers = numbers.iter().map(|number| number.parse());
    let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
    let folder = Path::new(folder);
    if let ("make", &[bytes]) = (part.as_str(), numbers.as_slice()) {
        return make(kind, folder, bytes);
    }
    let &[count, rounds] = numbers.as_slice() else {
        return Err(USAGE.into());
    };
    let measured: fn(&Place, u64, usize) -> Outcome<Vec<Figure>> = match part.as_str() {
        "calls" => calls,
        "whole" => whole,
        "pieces" => pieces,
        "files" => files,
        _ => return Err(USAGE.into()),
    };
    let place = Place::open(kind, folder)?;
    let figures = measured(&place, count, usize::try_from(rounds)?)?;
    place.close()?;
    let figures = figures.iter();
    let figures = figures.map(|(name, taken)| format!("\"{name}\": {taken:.1?}"));
    println!("{{{}}}", figures.collect::<Vec<_>>().join(", "));
    Ok(())
}
