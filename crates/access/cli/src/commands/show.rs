//! `ls`, `tree`, `cat`, `stat`, `find`: show the content of a vault.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use strongroom::filesystem::{Attributes, NodeKind};
use strongroom::{FileOptions, Links, Vault};

use crate::arguments::common::SecretArguments;
use crate::arguments::location::{Location, join, last_name};
use crate::arguments::pattern;
use crate::arguments::{Find, FindKind, Ls, Paths, Stat, Tree};
use crate::commands::opening::{Intent, with};
use crate::commands::walk::{At, Entries, Step, Walk, entries};
use crate::terminal::failure::{About, Failures, Result};
use crate::terminal::output::{
    Exact, Format, JsonArray, NamesAs, NodeJson, Out, kind_name, long_line, show_mode, stdout,
};
use crate::terminal::printable::show;
use crate::terminal::time::text_time;

/// Bytes that `cat` moves at once.
const PART_BYTES: usize = 1024 * 1024;

/// Runs `work` for each place, opening each vault once for neighbours in it; goes on after failures.
pub(super) fn each(
    places: &[Location],
    secret: &SecretArguments,
    mut work: impl FnMut(&Vault, &Location) -> Result<()>,
) -> Result<()> {
    let mut failures = Failures::default();
    for group in places.chunk_by(|one, two| one.vault == two.vault) {
        let opened = with(&group[0].vault, secret, Intent::Read, |vault| {
            for place in group {
                failures.note(work(vault, place).about(place.shown()));
            }
            Ok(())
        });
        failures.note(opened);
    }
    failures.end()
}

fn target_of(vault: &Vault, path: &[u8], attributes: &Attributes) -> Result<Option<Vec<u8>>> {
    match attributes.kind {
        NodeKind::Symlink => Ok(Some(vault.read_link(path)?)),
        _ => Ok(None),
    }
}

fn node_json(vault: &Vault, name: &[u8], path: &[u8], attributes: &Attributes) -> Result<NodeJson> {
    let target = target_of(vault, path, attributes)?;
    Ok(NodeJson::new(name, attributes).with_target(target.as_deref()))
}

/// Lists directories.
pub(crate) fn ls(arguments: &Ls) -> Result<()> {
    let mut listing = Listing {
        titled: arguments.places.len() > 1,
        names: match arguments.long {
            // Its lines are for people.
            true => NamesAs::Shown,
            false => NamesAs::of(arguments.null)?,
        },
        long: arguments.long,
        array: match Format::of(arguments.common.json) {
            Format::Json => Some(JsonArray::begin(stdout())?),
            Format::Text => None,
        },
    };
    let listed = each(
        &arguments.places,
        &arguments.common.secret,
        |vault, place| listing.one(vault, place),
    );
    if let Some(array) = listing.array {
        array.end()?;
    }
    listed
}

/// A listing of one or several places.
struct Listing {
    /// Each place is named: there are several.
    titled: bool,
    names: NamesAs,
    long: bool,
    array: Option<JsonArray<Out>>,
}

impl Listing {
    fn one(&mut self, vault: &Vault, place: &Location) -> Result<()> {
        let attributes = vault.attributes(&place.path, Links::Follow)?;
        let directory = match attributes.kind {
            NodeKind::Directory => Some(entries(vault, &place.path)?),
            _ => None,
        };
        if self.titled
            && let Some(array) = &mut self.array
        {
            array.begin_group(&place.path)?;
        }
        let mut out = match self.array {
            Some(_) => None,
            None => Some(stdout()),
        };
        let listed = self.all(vault, place, &attributes, directory, out.as_mut());
        if self.titled
            && let Some(array) = &mut self.array
        {
            array.end_group()?;
        }
        if let Some(out) = &mut out {
            out.flush()?;
        }
        listed
    }

    fn all(
        &mut self,
        vault: &Vault,
        place: &Location,
        attributes: &Attributes,
        directory: Option<Entries>,
        mut out: Option<&mut Out>,
    ) -> Result<()> {
        let Some(directory) = directory else {
            let name = last_name(&place.path).unwrap_or(b"/");
            return self.line(vault, name, &place.path, attributes, out);
        };
        if self.titled
            && let Some(out) = &mut out
        {
            self.names.write(out, &[&place.path[..], b":"].concat())?;
        }
        for entry in directory {
            let entry = entry?;
            let path = join(&place.path, &entry.name);
            let out = out.as_deref_mut();
            self.line(vault, &entry.name, &path, &entry.attributes, out)?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        vault: &Vault,
        name: &[u8],
        path: &[u8],
        attributes: &Attributes,
        out: Option<&mut Out>,
    ) -> Result<()> {
        match (&mut self.array, out) {
            (Some(array), _) => array.push(&node_json(vault, name, path, attributes)?),
            (None, Some(out)) if self.long => {
                let target = target_of(vault, path, attributes)?;
                Ok(writeln!(
                    out,
                    "{}",
                    long_line(name, attributes, target.as_deref())
                )?)
            }
            (None, Some(out)) => self.names.write(out, name),
            (None, None) => Ok(()),
        }
    }
}

#[derive(Serialize)]
struct PathJson {
    path: String,
    /// All of it in hex, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    depth: usize,
    #[serde(flatten)]
    node: NodeJson,
}

impl PathJson {
    fn new(vault: &Vault, path: &[u8], depth: usize, attributes: &Attributes) -> Result<Self> {
        let node = node_json(vault, last_name(path).unwrap_or(b"/"), path, attributes)?;
        let path = Exact::new(path);
        Ok(Self {
            path: path.text,
            path_bytes: path.bytes,
            depth,
            node,
        })
    }
}

/// Shows a tree.
pub(crate) fn tree(arguments: &Tree) -> Result<()> {
    let place = &arguments.place;
    with(
        &place.vault,
        &arguments.common.secret,
        Intent::Read,
        |vault| {
            let mut failures = Failures::default();
            let walk = Walk::new(vault, &place.path, arguments.depth).about(place.shown())?;
            let steps = walk.filter(|step| !step.as_ref().is_ok_and(|step| step.at == At::Leave));
            let steps = steps.inspect(|step| note_again(step, &mut failures));
            if arguments.common.json {
                steps_json(vault, steps)?;
                return failures.end();
            }
            let mut out = stdout();
            // For each level above, whether a line goes on below.
            let mut lines: Vec<bool> = Vec::new();
            for step in steps {
                let step = step?;
                if step.depth == 0 {
                    writeln!(out, "{}", show(&step.path))?;
                    continue;
                }
                lines.truncate(step.depth - 1);
                let indent: String = lines
                    .iter()
                    .map(|goes_on| if *goes_on { "│   " } else { "    " })
                    .collect();
                let branch = if step.last {
                    "└── "
                } else {
                    "├── "
                };
                let name = last_name(&step.path).unwrap_or(b"/");
                let target = target_of(vault, &step.path, &step.attributes)?;
                let arrow = target
                    .map(|target| format!(" -> {}", show(&target)))
                    .unwrap_or_default();
                let mark = if step.at == At::Enter { "/" } else { "" };
                writeln!(out, "{indent}{branch}{}{mark}{arrow}", show(name))?;
                lines.push(!step.last);
            }
            out.flush()?;
            drop(out);
            failures.end()
        },
    )
}

fn steps_json(vault: &Vault, steps: impl Iterator<Item = strongroom::Result<Step>>) -> Result<()> {
    let mut array = JsonArray::begin(stdout())?;
    for step in steps {
        let Step {
            path,
            depth,
            attributes,
            ..
        } = step?;
        array.push(&PathJson::new(vault, &path, depth, &attributes)?)?;
    }
    array.end()
}

/// Says of directories that a walk met a second time.
fn note_again(step: &strongroom::Result<Step>, failures: &mut Failures) {
    if let Ok(step) = step
        && step.at == At::Again
    {
        failures.note(Err(step.again()));
    }
}

/// Writes files to standard output.
pub(crate) fn cat(arguments: &Paths) -> Result<()> {
    let mut part = vec![0; PART_BYTES];
    each(&arguments.places, &arguments.secret, |vault, place| {
        let file = vault.open_file(&place.path, FileOptions::new().read())?;
        let mut out = std::io::stdout().lock();
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut part, offset)?;
            out.write_all(&part[..count])?;
            offset += count as u64;
            if count < part.len() {
                return Ok(out.flush()?);
            }
        }
    })
}

/// Shows attributes.
pub(crate) fn stat(arguments: &Stat) -> Result<()> {
    let links = if arguments.follow {
        Links::Follow
    } else {
        Links::Stay
    };
    let mut array = match Format::of(arguments.common.json) {
        Format::Json => Some(JsonArray::begin(stdout())?),
        Format::Text => None,
    };
    let shown = each(
        &arguments.places,
        &arguments.common.secret,
        |vault, place| {
            let attributes = vault.attributes(&place.path, links)?;
            if let Some(array) = array.as_mut() {
                return array.push(&PathJson::new(vault, &place.path, 0, &attributes)?);
            }
            let target = target_of(vault, &place.path, &attributes)?;
            let xattrs = vault.xattrs(&place.path, links)?;
            stat_lines(&place.path, &attributes, target.as_deref(), &xattrs)
        },
    );
    if let Some(array) = array {
        array.end()?;
    }
    shown
}

fn stat_lines(
    path: &[u8],
    attributes: &Attributes,
    target: Option<&[u8]>,
    xattrs: &[Vec<u8>],
) -> Result<()> {
    let mut out = stdout();
    writeln!(out, "path       {}", show(path))?;
    writeln!(out, "kind       {}", kind_name(attributes.kind))?;
    if let Some(target) = target {
        writeln!(out, "target     {}", show(target))?;
    }
    writeln!(
        out,
        "mode       {} ({:04o})",
        show_mode(attributes),
        attributes.mode
    )?;
    writeln!(out, "owner      {}:{}", attributes.uid, attributes.gid)?;
    writeln!(out, "size       {}", attributes.size)?;
    writeln!(out, "allocated  {}", attributes.blocks * 512)?;
    writeln!(out, "links      {}", attributes.nlink)?;
    writeln!(out, "inode      {}", attributes.inode.0)?;
    writeln!(out, "accessed   {}", text_time(attributes.atime))?;
    writeln!(out, "modified   {}", text_time(attributes.mtime))?;
    writeln!(out, "changed    {}", text_time(attributes.ctime))?;
    writeln!(out, "created    {}", text_time(attributes.btime))?;
    for name in xattrs {
        writeln!(out, "xattr      {}", show(name))?;
    }
    Ok(out.flush()?)
}

/// Finds nodes.
pub(crate) fn find(arguments: &Find) -> Result<()> {
    if arguments.content.hash.is_some() || arguments.content.duplicates {
        return super::find_content::find(arguments);
    }
    let place = &arguments.place;
    with(
        &place.vault,
        &arguments.common.secret,
        Intent::Read,
        |vault| {
            let mut failures = Failures::default();
            let walk = Walk::new(vault, &place.path, usize::MAX).about(place.shown())?;
            let walk = walk.inspect(|step| note_again(step, &mut failures));
            let found = walk.filter(|step| {
                step.as_ref().map_or(true, |step| {
                    step.at != At::Leave && is_wanted(arguments, &step.path, &step.attributes)
                })
            });
            if arguments.common.json {
                steps_json(vault, found)?;
                return failures.end();
            }
            let names = NamesAs::of(arguments.null)?;
            let mut out = stdout();
            for step in found {
                names.write(&mut out, &step?.path)?;
            }
            out.flush()?;
            drop(out);
            failures.end()
        },
    )
}

fn is_wanted(arguments: &Find, path: &[u8], attributes: &Attributes) -> bool {
    let name = last_name(path).unwrap_or(b"/");
    let named = arguments
        .name
        .as_ref()
        .is_none_or(|wanted| pattern::matches(wanted.as_bytes(), name));
    let kind = arguments.kind.is_none_or(|wanted| {
        attributes.kind
            == match wanted {
                FindKind::F => NodeKind::File,
                FindKind::D => NodeKind::Directory,
                FindKind::L => NodeKind::Symlink,
            }
    });
    let sized = arguments
        .min_size
        .is_none_or(|least| attributes.kind == NodeKind::File && attributes.size >= least);
    named && kind && sized
}
