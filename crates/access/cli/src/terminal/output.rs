//! Writes the results of commands: lines for people, JSON for programs.
//!
//! Takes   values, one after the other
//! Gives   standard output: JSON with every name unchanged, or text that `printable.rs` made safe
//! Never   keeps a listing in memory: a directory may have a million entries

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;
use serde_json::{Value, json};
use strongroom::filesystem::{Attributes, NodeKind};

use crate::terminal::failure::{Failure, Result};
use crate::terminal::printable::{Json, Text, show};
use crate::terminal::time::{json_time, text_minute};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Format {
    /// From the option `--json`.
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Standard output for people and for JSON, buffered.
pub(crate) type Out = Text<BufWriter<StdoutLock<'static>>>;

/// Standard output, buffered. What could fool a terminal does not get through it.
pub(crate) fn stdout() -> Out {
    Text(exact_stdout())
}

/// Standard output for content and for lines that another program reads: never for a terminal.
pub(crate) fn exact_stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// How names are written, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamesAs {
    /// On a terminal: lines that cannot fool who reads them.
    Shown,
    /// For another program: as they are, each with this byte behind it.
    Exact(u8),
}

impl NamesAs {
    /// By where standard output goes; `null`: a zero byte was asked for.
    pub(crate) fn of(null: bool) -> Result<Self> {
        match (null, io::stdout().is_terminal()) {
            (true, true) => Err(Failure::usage(
                "--null writes names for another program, but standard output is a terminal; pipe it, for example into `xargs -0`",
            )),
            (true, false) => Ok(Self::Exact(0)),
            (false, true) => Ok(Self::Shown),
            (false, false) => Ok(Self::Exact(b'\n')),
        }
    }

    /// One name.
    pub(crate) fn write(self, out: &mut Out, name: &[u8]) -> Result<()> {
        match self {
            Self::Shown => writeln!(out, "{}", show(name))?,
            Self::Exact(end) => {
                out.0.write_all(name)?;
                out.0.write_all(&[end])?;
            }
        }
        Ok(())
    }
}

/// A count of things, one of which is called `one`: `1 snapshot`, `2 snapshots`, `1 directory`, `2 directories`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    match (count, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {one}s"),
    }
}

/// Writes one line.
pub(crate) fn print_line(text: &str) -> Result<()> {
    let mut out = stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes one value as a JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let mut out = stdout();
    serde_json::to_writer_pretty(Json(&mut out), value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Writes one value as a line of JSON, at once: for who reads events as they come.
pub(crate) fn print_json_line(value: &Value) -> Result<()> {
    let mut out = stdout();
    serde_json::to_writer(Json(&mut out), value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// `object` without the members that are null: those that are there only if there is something to say.
pub(crate) fn sparse(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// The members of `first`, then those of `second`.
pub(crate) fn joined(mut first: Value, second: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (first.as_object_mut(), second) {
        members.extend(more);
    }
    first
}

/// `{"path": …}`, and if it is not UTF-8, all of it in hex as `bytes`.
pub(crate) fn path_json(path: &[u8]) -> Value {
    let Exact { text, bytes } = Exact::new(path);
    sparse(json!({ "path": text, "bytes": bytes }))
}

/// Writes a JSON array, element by element.
pub(crate) struct JsonArray<W: Write> {
    out: W,
    count: usize,
}

impl<W: Write> JsonArray<W> {
    pub(crate) fn begin(mut out: W) -> Result<Self> {
        out.write_all(b"[")?;
        Ok(Self { out, count: 0 })
    }

    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<()> {
        self.out
            .write_all(if self.count == 0 { b"\n  " } else { b",\n  " })?;
        self.count += 1;
        Ok(serde_json::to_writer(Json(&mut self.out), value).map_err(io::Error::from)?)
    }

    /// Begins an object `{"path": …, "entries": [` in the array; what is pushed from now on is an entry of it.
    pub(crate) fn begin_group(&mut self, path: &[u8]) -> Result<()> {
        let path = Exact::new(path);
        self.out
            .write_all(if self.count == 0 { b"\n" } else { b",\n" })?;
        self.out.write_all(b" {\"path\": ")?;
        let mut write = |value: &str| -> Result<()> {
            Ok(serde_json::to_writer(Json(&mut self.out), value).map_err(io::Error::from)?)
        };
        write(&path.text)?;
        if let Some(bytes) = &path.bytes {
            self.out.write_all(b", \"bytes\": ")?;
            serde_json::to_writer(Json(&mut self.out), bytes).map_err(io::Error::from)?;
        }
        self.out.write_all(b", \"entries\": [")?;
        self.count = 0;
        Ok(())
    }

    /// Ends the object that `begin_group` began.
    pub(crate) fn end_group(&mut self) -> Result<()> {
        self.count = 1;
        Ok(self.out.write_all(b"]}")?)
    }

    pub(crate) fn end(mut self) -> Result<()> {
        self.out
            .write_all(if self.count == 0 { b"]\n" } else { b"\n]\n" })?;
        Ok(self.out.flush()?)
    }
}

/// A name or path in JSON: what is not UTF-8 is replaced, and then there are all bytes in hex besides.
///
/// Flattened into what it is of, under the names of the one place or the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) text: String,
    pub(crate) bytes: Option<String>,
}

impl Exact {
    pub(crate) fn new(name: &[u8]) -> Self {
        Self {
            text: String::from_utf8_lossy(name).into_owned(),
            bytes: std::str::from_utf8(name).is_err().then(|| hex(name)),
        }
    }
}

/// A node in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct NodeJson {
    /// Name or path; bytes that are not UTF-8 are replaced, and `bytes` then has all of them in hex.
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<String>,
    inode: u64,
    kind: &'static str,
    /// Octal.
    mode: String,
    uid: u32,
    gid: u32,
    nlink: u32,
    size: u64,
    /// On the disk below, before padding.
    allocated: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u64>,
    accessed: String,
    modified: String,
    changed: String,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
}

impl NodeJson {
    pub(crate) fn new(name: &[u8], attributes: &Attributes) -> Self {
        let Exact { text, bytes } = Exact::new(name);
        Self {
            name: text,
            bytes,
            inode: attributes.inode.0,
            kind: kind_name(attributes.kind),
            mode: format!("{:04o}", attributes.mode),
            uid: attributes.uid,
            gid: attributes.gid,
            nlink: attributes.nlink,
            size: attributes.size,
            allocated: attributes.blocks * 512,
            device: is_device(attributes.kind).then_some(attributes.rdev),
            accessed: json_time(attributes.atime),
            modified: json_time(attributes.mtime),
            changed: json_time(attributes.ctime),
            created: json_time(attributes.btime),
            target: None,
            target_bytes: None,
        }
    }

    /// With the target of a symbolic link.
    pub(crate) fn with_target(mut self, target: Option<&[u8]>) -> Self {
        let target = target.map(Exact::new);
        self.target_bytes = target.as_ref().and_then(|target| target.bytes.clone());
        self.target = target.map(|target| target.text);
        self
    }
}

fn is_device(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::CharDevice | NodeKind::BlockDevice)
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a kind.
pub(crate) fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink => "symlink",
        NodeKind::Fifo => "pipe",
        NodeKind::Socket => "socket",
        NodeKind::CharDevice => "character device",
        NodeKind::BlockDevice => "block device",
    }
}

/// Kind and permissions as `ls -l` shows them.
pub(crate) fn show_mode(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        NodeKind::File => '-',
        NodeKind::Directory => 'd',
        NodeKind::Symlink => 'l',
        NodeKind::Fifo => 'p',
        NodeKind::Socket => 's',
        NodeKind::CharDevice => 'c',
        NodeKind::BlockDevice => 'b',
    };
    let mode = attributes.mode;
    let mut text = String::from(kind);
    // Each class: its three bits, and the special bit that shows in place of its x.
    for (shift, special, mark) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => mark,
            (false, true) => mark.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// One line of `ls -l`.
pub(crate) fn long_line(name: &[u8], attributes: &Attributes, target: Option<&[u8]>) -> String {
    let arrow = target
        .map(|target| format!(" -> {}", show(target)))
        .unwrap_or_default();
    format!(
        "{} {:>3} {:>5} {:>5} {:>12} {} {}{arrow}",
        show_mode(attributes),
        attributes.nlink,
        attributes.uid,
        attributes.gid,
        attributes.size,
        text_minute(attributes.mtime),
        show(name),
    )
}

/// A size in the largest unit that leaves at least one, with one decimal.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    for unit in UNITS {
        if tenths < 10_240 || unit == "EiB" {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1024;
    }
    unreachable!("the last unit returns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        let shown: Vec<_> = [0, 1023, 1024, 1536, 10 << 20, u64::MAX]
            .into_iter()
            .map(show_bytes)
            .collect();
        assert_eq!(
            shown,
            [
                "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "10.0 MiB", "15.9 EiB"
            ]
        );
    }

    #[test]
    fn an_array_is_valid_json_with_none_one_or_two_elements() {
        for count in 0..3_u64 {
            let mut bytes = Vec::new();
            let mut array = JsonArray::begin(&mut bytes).unwrap();
            (0..count).for_each(|number| array.push(&number).unwrap());
            array.end().unwrap();
            let read: Vec<u64> = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(read, (0..count).collect::<Vec<_>>());
        }
    }
}
