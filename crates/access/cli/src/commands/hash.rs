//! `hash`: prints the hashes of files' contents in the format of `b3sum` and `sha256sum`.

use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;
use strongroom::filesystem::{InodeId, NodeKind, is_in_snapshot};
use strongroom::{ContentHash, GoOn, HashAlgorithm, Links, Vault};

use super::show::each;
use crate::arguments::content::Hash;
use crate::arguments::location::{Location, join};
use crate::commands::dates::in_utc;
use crate::commands::walk::{At, Walk};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::interrupt;
use crate::terminal::output::{JsonArray, Out, exact_stdout, hex, stdout};
use crate::terminal::printable::show;
use crate::terminal::progress::Progress;

/// Files that are asked for at once, so that all cores have work; and bytes of them, so that lines come soon.
const BATCH: (usize, u64) = (512, 256 << 20);

/// Prints the hashes of files.
pub(crate) fn hash(arguments: &Hash) -> Result<()> {
    interrupt::watch()?;
    let algorithm = match arguments.sha256 {
        true => HashAlgorithm::Sha256,
        false => HashAlgorithm::Blake3,
    };
    let mut run = Run {
        algorithm,
        recursive: arguments.recursive,
        lines: Lines::begin(arguments.common.json)?,
        progress: Progress::new(arguments.quiet),
        failures: Failures::default(),
    };
    let mut is_told = false;
    let done = each(
        &arguments.places,
        &arguments.common.secret,
        |vault, place| match (interrupt::came(), is_told) {
            (true, true) => Ok(()),
            // It came after the last step of the place before: then this one is missing.
            (true, false) => {
                is_told = true;
                Err(interrupted())
            }
            (false, _) => {
                let done = run.place(vault, place, arguments.at.as_deref());
                is_told = done.is_err() && interrupt::came();
                done
            }
        },
    );
    drop(run.progress);
    run.lines.end()?;
    done.and(run.failures.end())
}

/// What an interrupted command says.
pub(super) fn interrupted() -> Failure {
    Failure::new(
        ExitCode::Other,
        "interrupted; hashes computed so far are stored, and the next run continues from there",
    )
}

/// The path of `path` in the snapshot that `selector` means.
pub(super) fn path_at(vault: &Vault, selector: &str, path: &[u8]) -> Result<Vec<u8>> {
    let revision = vault.select_revision(&in_utc(selector))?;
    Ok([format!("/.history/{}", revision.id).as_bytes(), path].concat())
}

/// A command under way.
struct Run {
    algorithm: HashAlgorithm,
    recursive: bool,
    lines: Lines,
    progress: Progress,
    failures: Failures,
}

/// A file that waits for its turn.
struct Waiting {
    path: Vec<u8>,
    inode: InodeId,
}

impl Run {
    fn place(&mut self, vault: &Vault, place: &Location, at: Option<&str>) -> Result<()> {
        let path = match at {
            Some(selector) => path_at(vault, selector, &place.path)?,
            None => place.path.clone(),
        };
        // What stands before the path that is printed.
        let hidden = path.len() - place.path.len();
        let attributes = vault.attributes(&path, Links::Follow)?;
        if attributes.kind != NodeKind::Directory {
            let inode = attributes.inode;
            return self.batch(vault, &[Waiting { path, inode }], hidden);
        }
        if !self.recursive {
            return Err(Failure::usage(
                "is a directory; add -r to hash the files below it",
            ));
        }
        // Behind a slash a symbolic link is followed.
        let path = join(&path, b"");
        let mut batch = Vec::new();
        let mut bytes = 0;
        for step in Walk::new(vault, &path, usize::MAX)? {
            let step = step?;
            if step.at == At::Again {
                self.note(Err(step.again()))?;
            }
            if step.at != At::Node || step.attributes.kind != NodeKind::File {
                continue;
            }
            bytes += step.attributes.size;
            batch.push(Waiting {
                path: step.path,
                inode: step.attributes.inode,
            });
            if batch.len() >= BATCH.0 || bytes >= BATCH.1 {
                self.batch(vault, &batch, hidden)?;
                batch.clear();
                bytes = 0;
            }
        }
        self.batch(vault, &batch, hidden)
    }

    fn batch(&mut self, vault: &Vault, files: &[Waiting], hidden: usize) -> Result<()> {
        for files in
            files.chunk_by(|one, two| is_in_snapshot(one.inode) == is_in_snapshot(two.inode))
        {
            match files.first() {
                Some(first) if is_in_snapshot(first.inode) => self.read(vault, files, hidden)?,
                _ => self.ask(vault, files, hidden)?,
            }
        }
        Ok(())
    }

    /// Hashes files of now, where the vault is open.
    fn ask(&mut self, vault: &Vault, files: &[Waiting], hidden: usize) -> Result<()> {
        let inodes: Vec<InodeId> = files.iter().map(|file| file.inode).collect();
        let progress = &mut self.progress;
        let hashed =
            vault.content_hashes(&inodes, self.algorithm, &mut |bytes| go_on(progress, bytes))?;
        for (file, hashed) in files.iter().zip(hashed.ok_or_else(interrupted)?) {
            let path = &file.path[hidden..];
            let told = match hashed {
                Ok(hashed) => {
                    self.progress.file(path);
                    self.lines
                        .push(path, self.algorithm, &hashed.hash, hashed.size)
                }
                Err(error) => Err(error).about(show(path)),
            };
            self.note(told)?;
        }
        Ok(())
    }

    /// Hashes files of a snapshot, here.
    fn read(&mut self, vault: &Vault, files: &[Waiting], hidden: usize) -> Result<()> {
        for file in files {
            let path = &file.path[hidden..];
            self.progress.file(path);
            let progress = &mut self.progress;
            let hashed = vault.content_hash_by_reading(&file.path, self.algorithm, &mut |bytes| {
                go_on(progress, bytes)
            });
            let told = match hashed {
                Ok(hashed) => {
                    let (hash, size) = hashed.ok_or_else(interrupted)?;
                    self.lines.push(path, self.algorithm, &hash, size)
                }
                Err(error) => Err(error).about(show(path)),
            };
            self.note(told)?;
        }
        Ok(())
    }

    /// Goes on after a file that cannot be hashed, and not after standard output has gone.
    fn note(&mut self, told: Result<()>) -> Result<()> {
        match told {
            Err(failure) if failure.message.is_none() => Err(failure),
            told => {
                self.failures.note(told);
                Ok(())
            }
        }
    }
}

/// Shows the progress, and says whether to go on.
pub(super) fn go_on(progress: &mut Progress, bytes: u64) -> GoOn {
    progress.advance(bytes);
    interrupt::go_on()
}

#[derive(Serialize)]
struct HashJson<'a> {
    /// From the vault's root; bytes that are not UTF-8 are replaced, and `bytes` then has all of them in hex.
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    algorithm: &'a str,
    hash: String,
    size: u64,
}

/// Standard output.
enum Lines {
    Text {
        out: BufWriter<StdoutLock<'static>>,
        to_terminal: bool,
    },
    Json(JsonArray<Out>),
}

impl Lines {
    fn begin(json: bool) -> Result<Self> {
        Ok(match json {
            true => Self::Json(JsonArray::begin(stdout())?),
            false => Self::Text {
                to_terminal: std::io::stdout().is_terminal(),
                out: exact_stdout(),
            },
        })
    }

    fn push(
        &mut self,
        path: &[u8],
        algorithm: HashAlgorithm,
        hash: &ContentHash,
        size: u64,
    ) -> Result<()> {
        match self {
            Self::Text { out, to_terminal } => {
                let line = match to_terminal {
                    true => format!("{hash}  {}", show(relative(path))).into_bytes(),
                    false => line(relative(path), hash),
                };
                out.write_all(&line)?;
                Ok(out.write_all(b"\n")?)
            }
            Self::Json(array) => array.push(&HashJson {
                path: String::from_utf8_lossy(path).into_owned(),
                bytes: std::str::from_utf8(path).is_err().then(|| hex(path)),
                algorithm: algorithm.name(),
                hash: hash.to_string(),
                size,
            }),
        }
    }

    fn end(self) -> Result<()> {
        match self {
            Self::Text { mut out, .. } => Ok(out.flush()?),
            Self::Json(array) => array.end(),
        }
    }
}

/// Without the slashes before it: so `b3sum --check` finds the file from the mount, or from a copy.
fn relative(path: &[u8]) -> &[u8] {
    let first = path.iter().position(|byte| *byte != b'/');
    &path[first.unwrap_or(path.len())..]
}

/// As `sha256sum` and `b3sum` write it: a name with a backslash or a line break in it is escaped, and the line begins with a
/// backslash then.
fn line(path: &[u8], hash: &ContentHash) -> Vec<u8> {
    let mut line = Vec::with_capacity(path.len() + 70);
    if path.iter().any(|byte| b"\\\n\r".contains(byte)) {
        line.push(b'\\');
    }
    line.extend_from_slice(format!("{hash}  ").as_bytes());
    for byte in path {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_one_that_sha256sum_writes() {
        let hash = ContentHash([0xab; 32]);
        let digits = "ab".repeat(32);
        let shown = |path: &[u8]| String::from_utf8(line(relative(path), &hash)).unwrap();
        assert_eq!(shown(b"/d/a b"), format!("{digits}  d/a b"));
        assert_eq!(shown(b"//d//a"), format!("{digits}  d//a"));
        assert_eq!(shown(b"/a\nb"), format!("\\{digits}  a\\nb"));
        assert_eq!(shown(b"/a\\b\r"), format!("\\{digits}  a\\\\b\\r"));
    }
}
