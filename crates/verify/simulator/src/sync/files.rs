//! Random changes of one device's files, and the expected state of these files.
//!
//! Takes   a device, and a stream of random choices
//! Gives   the change that was made; the expected state includes it
//! Never   counts an ordinary error (no such name, not empty) as a violation: then nothing was changed

use strongroom::filesystem::{
    Attributes, Error as FileError, NodeKind, RenameMode, SetAttributes, XattrMode,
};
use strongroom::{Error, FileOptions, Links};

use crate::random::Choices;
use crate::sync::contents::{Form, Piece, Truth};
use crate::sync::device::Device;

/// Few names, so that devices meet.
const NAMES: [&str; 6] = ["one", "two", "three.txt", "a", "b", "c"];

/// Few attributes, too.
const XATTRS: [&str; 2] = ["user.color", "user.shape"];

/// Lengths of pieces: in the commit, a block, several, and one that a segment holds.
const LENS: [u64; 4] = [100, 4_000, 30_000, 150_000];

/// Where deposits come. Nothing is changed there: every deposit is to be there once at the end.
pub(crate) const INBOX: &str = "/Inbox";

/// How the paths of files begin that are there to be erased. Nothing else changes them: what a device changes while another one erases it
/// comes back by the rules of the guide.
pub(crate) const TO_ERASE: &str = "/secret-";

/// Why a change was not made.
pub(crate) enum Fail {
    /// The vault says so.
    Vault(Error),
    /// The vault showed what it must not.
    Violation(String),
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::Vault(error)
    }
}

type Done = Result<String, Fail>;

/// Something in the tree of a device.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) is: Attributes,
}

/// All that is in a vault, sorted.
pub(crate) fn nodes(device: &Device) -> Result<Vec<Node>, Error> {
    let walk = device.vault().walk("/")?;
    let shown = walk.map(|entry| {
        let entry = entry?;
        let path = String::from_utf8(entry.path).map_err(|_| Error::NotText)?;
        Ok(Node {
            path,
            is: entry.attributes,
        })
    });
    shown.collect()
}

/// The pieces in a file. (2)
pub(crate) fn pieces(device: &Device, truth: &Truth, path: &str) -> Result<Vec<Piece>, Fail> {
    let content = device.vault().read(path)?;
    let read = truth.read(&content);
    read.map_err(|why| Fail::Violation(format!("device {}, {path}: {why}", device.number)))
}

/// Makes one change.
pub(crate) fn change(device: &mut Device, truth: &mut Truth, choices: &mut Choices) -> Done {
    let mut nodes = nodes(device)?;
    nodes.retain(|node| !node.path.starts_with(INBOX) && !node.path.starts_with(TO_ERASE));
    let mut change = Change {
        device,
        truth,
        choices,
        nodes,
    };
    let done = match change.choices.below(100) {
        0..20 => change.write(),
        20..34 => change.overwrite(),
        34..44 => change.append(),
        44..50 => change.truncate(),
        50..64 => change.rename(),
        64..74 => change.remove(),
        74..77 => change.remove_tree(),
        77..83 => change.make_directory(),
        83..87 => change.link(),
        87..90 => change.symlink(),
        90..95 => change.xattr(),
        _ => change.mode(),
    };
    match done {
        Err(Fail::Vault(Error::File(
            error @ (FileError::NotFound
            | FileError::Exists
            | FileError::NotADirectory
            | FileError::IsADirectory
            | FileError::NotEmpty
            | FileError::InvalidArgument(_)
            | FileError::NotPermitted
            | FileError::NotSupported
            | FileError::NoAttribute),
        ))) => Ok(format!("nothing: {error}")),
        done => done,
    }
}

struct Change<'a> {
    device: &'a mut Device,
    truth: &'a mut Truth,
    choices: &'a mut Choices,
    nodes: Vec<Node>,
}

impl Change<'_> {
    /// A path whose name may be taken.
    fn place(&mut self) -> String {
        let is_directory = |node: &&Node| node.is.kind == NodeKind::Directory;
        let mut folders: Vec<&str> = self
            .nodes
            .iter()
            .filter(is_directory)
            .map(|node| &*node.path)
            .collect();
        folders.push("");
        let folder = (*self.choices.one_of(&folders)).to_owned();
        let name = *self.choices.one_of(&NAMES);
        self.truth.names.insert(name.to_owned());
        format!("{folder}/{name}")
    }

    fn some(&mut self, does: fn(NodeKind) -> bool) -> Result<Node, Fail> {
        let fit: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|node| does(node.is.kind))
            .collect();
        match fit.is_empty() {
            true => Err(Error::File(FileError::NotFound).into()),
            false => Ok((*self.choices.one_of(&fit)).clone()),
        }
    }

    fn file(&mut self) -> Result<(Node, Vec<Piece>), Fail> {
        let node = self.some(|kind| kind == NodeKind::File)?;
        let pieces = pieces(self.device, self.truth, &node.path)?;
        Ok((node, pieces))
    }

    fn piece(&mut self, form: Form) -> Piece {
        let rare = self.choices.chance(1, 8);
        let index = self.choices.index(if rare { LENS.len() } else { 2 });
        let len = LENS[index] + self.choices.below(50);
        self.truth.piece(len as usize, form)
    }

    /// What a file is made of that has these pieces: what it was made of before, most of the time.
    fn form(&mut self, was: &[Piece]) -> Form {
        match was.first() {
            Some(first) if !self.choices.chance(1, 16) => self.truth.form(*first),
            _ => *self.choices.one_of(&[Form::Bytes, Form::Line]),
        }
    }

    /// What goes with the name of `node`, if it is the only one.
    fn held_by(&self, node: &Node) -> Result<Vec<Piece>, Fail> {
        match node.is.kind == NodeKind::File && node.is.nlink == 1 {
            true => pieces(self.device, self.truth, &node.path),
            false => Ok(Vec::new()),
        }
    }

    /// Writes pieces behind the first `at` of those that a file has, and sometimes syncs it.
    fn put(
        &mut self,
        path: &str,
        options: FileOptions,
        was: &[Piece],
        at: usize,
        new: &[Piece],
    ) -> Result<&'static str, Fail> {
        let mut is = was.to_vec();
        is.splice(at..(at + new.len()).min(was.len()), new.iter().copied());
        self.truth.gave(&is);
        let file = self.device.vault().open_file(path, options.write())?;
        file.write_all_at(&self.truth.bytes(new), self.truth.len(&was[..at]) as u64)?;
        self.device.written.extend(new);
        if !self.choices.chance(1, 3) {
            return Ok("");
        }
        file.sync_all()?;
        self.device.durable.extend(new);
        self.device.written.retain(|piece| !new.contains(piece));
        Ok(", synced")
    }

    fn write(&mut self) -> Done {
        let path = self.place();
        let was = match self.nodes.iter().find(|node| node.path == path) {
            Some(node) if node.is.kind == NodeKind::File => pieces(self.device, self.truth, &path)?,
            // What a symlink points to is nobody's business here.
            Some(_) => return Err(Error::File(FileError::Exists).into()),
            None => Vec::new(),
        };
        let form = self.form(&[]);
        // Devices change different lines of a text if there are many.
        let count = match form {
            Form::Bytes => 1 + self.choices.below(3),
            Form::Line => 10 + self.choices.below(20),
        };
        let new: Vec<Piece> = (0..count).map(|_| self.piece(form)).collect();
        let synced = self.put(&path, FileOptions::new().create().truncate(), &[], 0, &new)?;
        self.truth.removed.extend(was);
        Ok(format!("write {path}: {new:?}{synced}"))
    }

    fn overwrite(&mut self) -> Done {
        let (mut node, mut was) = self.file()?;
        // Long texts first: devices are to meet in one of them, and not in one line.
        for _ in 0..4 {
            if was.len() < 10 {
                (node, was) = self.file()?;
            }
        }
        if was.is_empty() {
            return Ok(format!("nothing to overwrite in {}", node.path));
        }
        let at = self.choices.index(was.len());
        let form = self.form(&was);
        let new = self.truth.piece(self.truth.len(&was[at..=at]), form);
        let synced = self.put(&node.path, FileOptions::new(), &was, at, &[new])?;
        self.truth.removed.insert(was[at]);
        Ok(format!(
            "overwrite {}: {} by {new}{synced}",
            node.path, was[at]
        ))
    }

    fn append(&mut self) -> Done {
        let (node, was) = self.file()?;
        let form = self.form(&was);
        let new = self.piece(form);
        let synced = self.put(&node.path, FileOptions::new(), &was, was.len(), &[new])?;
        Ok(format!("append to {}: {new}{synced}", node.path))
    }

    fn truncate(&mut self) -> Done {
        let (node, was) = self.file()?;
        let kept = self.choices.index(was.len() + 1);
        self.truth.gave(&was[..kept]);
        let size = self.truth.len(&was[..kept]) as u64;
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        self.device
            .vault()
            .set_attributes(&*node.path, Links::Stay, &set)?;
        self.truth.removed.extend(&was[kept..]);
        Ok(format!("truncate {} to {:?}", node.path, &was[..kept]))
    }

    fn rename(&mut self) -> Done {
        let node = self.some(|_| true)?;
        let to = self.place();
        let over = self
            .nodes
            .iter()
            .find(|other| other.path == to && other.is.inode != node.is.inode);
        let gone = over.map_or(Ok(Vec::new()), |over| self.held_by(over))?;
        let mode = match self.choices.chance(1, 2) {
            true => RenameMode::Replace,
            false => RenameMode::NoReplace,
        };
        self.device.vault().rename(&*node.path, &*to, mode)?;
        self.truth.removed.extend(gone);
        Ok(format!("rename {} to {to}", node.path))
    }

    fn remove(&mut self) -> Done {
        let node = self.some(|kind| kind != NodeKind::Directory)?;
        let gone = self.held_by(&node)?;
        self.device.vault().remove_file(&*node.path)?;
        self.truth.removed.extend(gone);
        Ok(format!("remove {}", node.path))
    }

    fn remove_tree(&mut self) -> Done {
        let node = self.some(|kind| kind == NodeKind::Directory)?;
        let below = format!("{}/", node.path);
        let inside: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|one| one.path.starts_with(&below))
            .collect();
        let mut gone = Vec::new();
        for one in inside.iter().filter(|one| one.is.kind == NodeKind::File) {
            // All names of a file may be inside.
            gone.extend(pieces(self.device, self.truth, &one.path)?);
        }
        self.device.vault().remove_dir_all(&*node.path)?;
        self.truth.removed.extend(gone);
        Ok(format!("remove {} with all in it", node.path))
    }

    fn make_directory(&mut self) -> Done {
        let path = self.place();
        self.device.vault().make_directory(&*path, 0o755)?;
        Ok(format!("make directory {path}"))
    }

    fn link(&mut self) -> Done {
        let (node, _) = self.file()?;
        let to = self.place();
        self.device.vault().link(&*node.path, &*to)?;
        Ok(format!("link {} as {to}", node.path))
    }

    fn symlink(&mut self) -> Done {
        let path = self.place();
        let target = *self.choices.one_of(&NAMES);
        self.device.vault().make_symlink(target, &*path)?;
        Ok(format!("symlink {path} to {target}"))
    }

    fn xattr(&mut self) -> Done {
        let node = self.some(|kind| kind != NodeKind::Symlink)?;
        let name = *self.choices.one_of(&XATTRS);
        let vault = self.device.vault();
        if self.choices.chance(1, 4) {
            vault.remove_xattr(&*node.path, Links::Stay, name)?;
            return Ok(format!("remove {name} of {}", node.path));
        }
        let value = self.choices.below(1_000).to_string();
        vault.set_xattr(&*node.path, Links::Stay, name, &value, XattrMode::Set)?;
        Ok(format!("set {name} of {} to {value}", node.path))
    }

    fn mode(&mut self) -> Done {
        let node = self.some(|kind| kind != NodeKind::Symlink)?;
        let mode = *self.choices.one_of(&[0o600, 0o644, 0o700, 0o755]);
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.device
            .vault()
            .set_attributes(&*node.path, Links::Stay, &set)?;
        Ok(format!("mode {mode:o} of {}", node.path))
    }
}
