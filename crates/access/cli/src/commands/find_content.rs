//! `find --hash` and `find --duplicates`: find files by their content.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use strongroom::filesystem::NodeKind;
use strongroom::{
    ContentHash, EqualContents, HashAlgorithm, HashPrefix, HashedAll, Links, NamedContent, Vault,
};

use super::hash::{go_on, interrupted, path_at};
use crate::arguments::Find;
use crate::commands::opening::{Intent, with};
use crate::commands::walk::{At, Walk};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Failures, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{
    Exact, JsonArray, NamesAs, Out, hex, joined, path_json, print_line, show_bytes, sparse, stdout,
};
use crate::terminal::printable::show;
use crate::terminal::progress::Progress;

/// Contents that a prefix fits which are listed when it fits several.
const CANDIDATES_MAX: usize = 20;

/// Groups of equal files that are held to be sorted, by the bytes of their paths; with more they come as they are found.
const SORTED_BYTES_MAX: usize = 64 << 20;

/// Finds files by their content.
pub(crate) fn find(arguments: &Find) -> Result<()> {
    interrupt::watch()?;
    let place = &arguments.place;
    let secret = &arguments.common.secret;
    with(&place.vault, secret, Intent::Read, |vault| {
        vault
            .attributes(&place.path, Links::Stay)
            .about(place.shown())?;
        match (&arguments.content.hash, &arguments.content.at) {
            (Some(prefix), None) => by_hash(vault, arguments, prefix),
            (Some(prefix), Some(selector)) => by_hash_at(vault, arguments, prefix, selector),
            (None, _) => duplicates(vault, arguments),
        }
    })
}

/// Hashes what is not hashed yet; names files that cannot be.
fn hash_all(
    vault: &Vault,
    arguments: &Find,
    algorithm: HashAlgorithm,
    wanted: Option<&HashPrefix>,
    failures: &mut Failures,
) -> Result<HashedAll> {
    let mut progress = Progress::new(arguments.content.quiet);
    let mut told = 0;
    let report = vault.hash_everything(algorithm, wanted, &mut |report: &HashedAll| {
        let more = report.bytes - told;
        told = report.bytes;
        go_on(&mut progress, more)
    })?;
    drop(progress);
    if !report.finished {
        return Err(interrupted());
    }
    Ok(tell_failures(report, failures))
}

fn tell_failures(mut report: HashedAll, failures: &mut Failures) -> HashedAll {
    for (path, error) in report.failed.drain(..) {
        let path = path.map_or_else(|| "a file without a name".to_owned(), |path| show(&path));
        failures.note(Err(error).about(path));
    }
    if report.failed_more > 0 {
        let more = report.failed_more;
        let text = format!("{more} further files cannot be hashed; run `strongroom verify`");
        failures.note(Err(Failure::new(ExitCode::Damaged, text)));
    }
    report
}

/// Whether `path` is `place` or lies below it.
fn is_below(place: &[u8], path: &[u8]) -> bool {
    let end = place.iter().rposition(|byte| *byte != b'/');
    let place = &place[..end.map_or(0, |end| end + 1)];
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

// ---- by hash

/// The contents that a prefix fits, each with a path.
#[derive(Default)]
struct Candidates {
    found: BTreeMap<ContentHash, Vec<u8>>,
    more: bool,
}

impl Candidates {
    fn note(&mut self, hash: ContentHash, path: &[u8]) {
        if self.found.contains_key(&hash) {
            return;
        }
        match self.found.len() < CANDIDATES_MAX {
            true => drop(self.found.insert(hash, path.to_vec())),
            false => self.more = true,
        }
    }

    /// Fails if they are several.
    fn one(&self) -> Result<()> {
        if self.found.len() < 2 {
            return Ok(());
        }
        let lines = self
            .found
            .iter()
            .map(|(hash, path)| format!("\n  {hash}  {}", show(path)));
        let more = if self.more { "\n  and more" } else { "" };
        Err(Failure::new(
            ExitCode::NotFound,
            format!(
                "several hashes begin with these digits; give more digits of one of them:{}{more}",
                lines.collect::<String>()
            ),
        ))
    }
}

fn not_found(arguments: &Find) -> Failure {
    let what = match arguments.content.sha256 {
        true => "no file has content with this SHA-256 hash",
        false => {
            "no file has content with this BLAKE3 hash, and none of the SHA-256 hashes computed so far matches; --sha256 computes the rest"
        }
    };
    Failure::new(ExitCode::NotFound, what)
}

fn by_hash(vault: &Vault, arguments: &Find, prefix: &HashPrefix) -> Result<()> {
    let mut failures = Failures::default();
    let algorithm = match arguments.content.sha256 {
        true => HashAlgorithm::Sha256,
        false => HashAlgorithm::Blake3,
    };
    let all = hash_all(vault, arguments, algorithm, Some(prefix), &mut failures)?;
    let mut found = print_named(vault, arguments, prefix, algorithm, &all)?;
    if !found && !arguments.content.sha256 {
        // Computed only when asked for; those that were are looked at.
        let (algorithm, none) = (HashAlgorithm::Sha256, HashedAll::default());
        found = print_named(vault, arguments, prefix, algorithm, &none)?;
    }
    if !found {
        failures.note(Err(not_found(arguments)));
    }
    failures.end()
}

/// Prints the paths of one content; gives whether there is one.
fn print_named(
    vault: &Vault,
    arguments: &Find,
    prefix: &HashPrefix,
    algorithm: HashAlgorithm,
    all: &HashedAll,
) -> Result<bool> {
    let place = &arguments.place.path;
    let wanted = |file: &NamedContent| -> Option<Vec<u8>> {
        let path = file.paths.iter().find(|path| is_below(place, path));
        path.cloned()
    };
    // Once to see whether it is one content, and once to print: neither holds what may be a million paths.
    let mut candidates = Candidates::default();
    vault.contents_with(prefix, algorithm, all, |file| {
        if let Some(path) = wanted(&file) {
            candidates.note(file.hash, &path);
        }
        Ok::<(), Failure>(())
    })?;
    candidates.one()?;
    let Some((hash, _)) = candidates.found.first_key_value() else {
        return Ok(false);
    };
    let mut printed = Printed::begin(arguments, algorithm)?;
    vault.contents_with(prefix, algorithm, all, |file| {
        if file.hash != *hash {
            return Ok::<(), Failure>(());
        }
        for path in file.paths.iter().filter(|path| is_below(place, path)) {
            printed.push(path, file.inode.0, hash, file.size)?;
        }
        printed.cut_off(u64::from(file.nlink).saturating_sub(file.paths.len() as u64));
        Ok(())
    })?;
    printed.end()?;
    Ok(true)
}

/// Looks through a snapshot, whose files are read each time.
fn by_hash_at(vault: &Vault, arguments: &Find, prefix: &HashPrefix, selector: &str) -> Result<()> {
    let algorithm = match arguments.content.sha256 {
        true => HashAlgorithm::Sha256,
        false => HashAlgorithm::Blake3,
    };
    let place = &arguments.place.path;
    let top = path_at(vault, selector, place)?;
    let hidden = top.len() - place.len();
    let mut failures = Failures::default();
    let mut progress = Progress::new(arguments.content.quiet);
    let mut candidates = Candidates::default();
    let mut found = Vec::new();
    for step in Walk::new(vault, &top, usize::MAX)? {
        let step = step?;
        if step.at != At::Node || step.attributes.kind != NodeKind::File {
            continue;
        }
        let path = &step.path[hidden..];
        progress.file(path);
        let told = &mut |bytes| go_on(&mut progress, bytes);
        match vault.content_hash_by_reading(&step.path, algorithm, told) {
            Ok(hashed) => {
                let (hash, size) = hashed.ok_or_else(interrupted)?;
                if prefix.fits(&hash) {
                    candidates.note(hash, path);
                    found.push((path.to_vec(), step.attributes.inode.0, hash, size));
                }
            }
            Err(error) => failures.note(Err(error).about(show(path))),
        }
    }
    drop(progress);
    candidates.one()?;
    if found.is_empty() {
        failures.note(Err(Failure::new(
            ExitCode::NotFound,
            "no file of that snapshot has content with this hash",
        )));
        return failures.end();
    }
    let mut printed = Printed::begin(arguments, algorithm)?;
    for (path, inode, hash, size) in found {
        printed.push(&path, inode, &hash, size)?;
    }
    printed.end()?;
    failures.end()
}

/// Paths on standard output.
struct Printed {
    array: Option<JsonArray<Out>>,
    names: NamesAs,
    algorithm: HashAlgorithm,
}

impl Printed {
    fn begin(arguments: &Find, algorithm: HashAlgorithm) -> Result<Self> {
        let json = arguments.common.json;
        Ok(Self {
            array: json.then(|| JsonArray::begin(stdout())).transpose()?,
            names: NamesAs::of(arguments.null)?,
            algorithm,
        })
    }

    fn push(&mut self, path: &[u8], inode: u64, hash: &ContentHash, size: u64) -> Result<()> {
        match &mut self.array {
            Some(array) => {
                let found = json!({
                    "inode": inode,
                    "algorithm": self.algorithm.name(),
                    "hash": hash.to_string(),
                    "size": size,
                });
                array.push(&joined(path_json(path), found))
            }
            None => {
                let mut out = stdout();
                self.names.write(&mut out, path)?;
                Ok(out.flush()?)
            }
        }
    }

    /// Says of names that are not listed.
    fn cut_off(&self, names: u64) {
        if names > 0 && self.array.is_none() {
            tell(&format!("strongroom: this file has {names} more names"));
        }
    }

    fn end(self) -> Result<()> {
        self.array.map_or(Ok(()), JsonArray::end)
    }
}

// ---- duplicates

/// What all groups come to.
#[derive(Default)]
struct Sums {
    groups: u64,
    extra_bytes: u64,
}

fn duplicates(vault: &Vault, arguments: &Find) -> Result<()> {
    let mut failures = Failures::default();
    let algorithm = HashAlgorithm::Blake3;
    let all = hash_all(vault, arguments, algorithm, None, &mut failures)?;
    if all.unstored > 0 {
        let count = all.unstored;
        failures.note(Err(Failure::new(
            ExitCode::ReadOnly,
            format!("{count} files were not compared, because their hashes could not be stored: the vault is read-only or full"),
        )));
    }
    let place = &arguments.place.path;
    let size_min = arguments.min_size.unwrap_or(0);
    let mut groups = Groups::begin(arguments.common.json)?;
    vault.equal_contents(algorithm, size_min, |group| {
        let mut paths = group.files.iter().flat_map(|file| &file.paths);
        match paths.any(|path| is_below(place, path)) {
            true => groups.take(group),
            false => Ok(()),
        }
    })?;
    groups.end()?;
    failures.end()
}

/// Groups on their way to standard output: the largest first, as far as they can be held.
struct Groups {
    array: Option<JsonArray<Out>>,
    held: Vec<EqualContents>,
    held_bytes: usize,
    sums: Sums,
}

impl Groups {
    fn begin(json: bool) -> Result<Self> {
        Ok(Self {
            array: json.then(|| JsonArray::begin(stdout())).transpose()?,
            held: Vec::new(),
            held_bytes: 0,
            sums: Sums::default(),
        })
    }

    fn take(&mut self, group: EqualContents) -> Result<()> {
        let paths = group.files.iter().flat_map(|file| &file.paths);
        self.held_bytes += paths.map(|path| path.len() + 64).sum::<usize>() + 64;
        self.held.push(group);
        match self.held_bytes > SORTED_BYTES_MAX {
            true => self.print_held(),
            false => Ok(()),
        }
    }

    fn print_held(&mut self) -> Result<()> {
        let mut groups = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let size = |group: &EqualContents| group.files.first().map_or(0, |file| file.size);
        groups.sort_by_key(|group| std::cmp::Reverse((group.extra_bytes, size(group))));
        for group in groups {
            self.sums.groups += 1;
            self.sums.extra_bytes += group.extra_bytes;
            match &mut self.array {
                Some(array) => array.push(&group_json(&group))?,
                None => print(&group)?,
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.print_held()?;
        let Sums {
            groups,
            extra_bytes,
        } = self.sums;
        match self.array {
            Some(array) => array.end(),
            None => print_line(&format!(
                "groups of files with the same content: {groups}; {} could be saved",
                show_bytes(extra_bytes)
            )),
        }
    }
}

fn group_json(group: &EqualContents) -> Value {
    let first = group.files.first();
    let files = group.files.iter().map(|file| {
        // Several for hard links.
        let paths: Vec<Exact> = file.paths.iter().map(|path| Exact::new(path)).collect();
        let text: Vec<_> = paths.iter().map(|path| &path.text).collect();
        // For each of them all bytes in hex, if one of them is not UTF-8.
        let bytes = paths.iter().any(|path| path.bytes.is_some());
        let bytes = bytes.then(|| file.paths.iter().map(|path| hex(path)).collect::<Vec<_>>());
        sparse(json!({ "inode": file.inode.0, "paths": text, "paths_bytes": bytes }))
    });
    json!({
        "hash": first.map_or_else(String::new, |file| file.hash.to_string()),
        "size": first.map_or(0, |file| file.size),
        // Whether all of them are stored once already.
        "stored_once": group.extra_bytes == 0,
        // Sealed bytes that are stored beyond one copy.
        "extra_bytes": group.extra_bytes,
        "files": files.collect::<Vec<_>>(),
        // Files that are not listed.
        "more": group.more,
    })
}

fn print(group: &EqualContents) -> Result<()> {
    let mut out = stdout();
    let size = group.files.first().map_or(0, |file| file.size);
    let saved = match group.extra_bytes {
        0 => "already stored only once".to_owned(),
        bytes => format!("{} could be saved", show_bytes(bytes)),
    };
    let count = group.files.len() as u64 + group.more;
    writeln!(out, "{count} files of {}, {saved}", show_bytes(size))?;
    for file in &group.files {
        for (index, path) in file.paths.iter().enumerate() {
            let link = if index > 0 { "  (the same file)" } else { "" };
            writeln!(out, "  {}{link}", show(path))?;
        }
    }
    if group.more > 0 {
        writeln!(out, "  and {} more", group.more)?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_a_place_by_whole_names() {
        for (place, path, below) in [
            ("/", "/a/b", true),
            ("/a", "/a/b", true),
            ("/a/", "/a/b", true),
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a/b", "/a", false),
        ] {
            assert_eq!(
                is_below(place.as_bytes(), path.as_bytes()),
                below,
                "{place} {path}"
            );
        }
    }
}
