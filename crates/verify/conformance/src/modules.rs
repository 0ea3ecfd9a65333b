//! Finds which modules of a crate use which others, and the circles among them.
//!
//! Takes   the `src` folder of a crate
//! Gives   the edges between its folders and between the files of one folder, and the circles among them
//! Never   counts uses that occur only in tests
//!
//! Invariants
//!  (1) A re-exported name counts for the module that defines it, so that no re-export hides an edge.
//!  (2) `a.rs` beside the folder `a` belongs to that folder, as its head.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::documents::{Edges, edge_differences, edges_of, sources};
use crate::source::{Source, Token, read};

/// The path of a module below the crate: empty for `lib.rs` or `main.rs`.
pub type ModulePath = Vec<String>;

/// Files of one folder that may use one another in a circle, at most.
pub const CIRCLE_FILES_MAX: usize = 3;

/// How many names in a row are followed.
const RE_EXPORTS_MAX: usize = 8;

/// A module with a file of its own.
#[derive(Debug, Default)]
struct Module {
    source: Source,
    /// Local name -> the path as it is written, and whether others see the name.
    uses: BTreeMap<String, (Vec<String>, bool)>,
    /// `use a::*`
    globs: Vec<Vec<String>>,
    /// Paths that the code names, as they are written.
    named: BTreeSet<Vec<String>>,
}

/// The modules of a crate.
#[derive(Debug, Default)]
pub struct Modules(BTreeMap<ModulePath, Module>);

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A folder.
    Folder(String),
    /// A file, by its name without `.rs`; the head of a folder is `head`.
    File(String),
}

/// Parts of one folder, each of which uses the others in the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The folder, below the crate's `src`.
    pub folder: ModulePath,
    /// Its parts that form the circle.
    pub parts: Vec<Part>,
}

impl Circle {
    /// Whether it may be: few files, and no folder.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.parts.len() <= CIRCLE_FILES_MAX
            && self.parts.iter().all(|part| matches!(part, Part::File(_)))
    }
}

impl Modules {
    /// Reads every module below `folder`, which is the `src` of a crate. A `main.rs` beside a `lib.rs` is another crate.
    ///
    /// # Errors
    /// Of reading the folder.
    pub fn read(folder: &Path) -> std::io::Result<Self> {
        let mut texts = BTreeMap::new();
        let is_library = folder.join("lib.rs").exists();
        for path in sources(folder)? {
            let below = path
                .strip_prefix(folder)
                .unwrap_or(&path)
                .with_extension("");
            let parts = below.components();
            let parts = parts.map(|part| part.as_os_str().to_string_lossy().into_owned());
            let mut parts: ModulePath = parts.collect();
            if is_library && parts == ["main"] {
                continue;
            }
            if parts == ["lib"]
                || parts
                    .last()
                    .is_some_and(|last| last == "main" || last == "mod")
            {
                parts.pop();
            }
            texts.insert(parts, std::fs::read_to_string(&path)?);
        }
        Ok(Self::of(&texts))
    }

    /// Modules with these texts.
    #[must_use]
    pub fn of(texts: &BTreeMap<ModulePath, String>) -> Self {
        let mut modules: BTreeMap<_, _> = texts
            .iter()
            .map(|(path, text)| {
                let mut module = Module {
                    source: read(text),
                    ..Module::default()
                };
                module.read_paths();
                (path.clone(), module)
            })
            .collect();
        let tests: Vec<ModulePath> = modules
            .iter()
            .flat_map(|(path, module)| {
                let names = module.source.test_modules.iter();
                names.map(|name| [path.as_slice(), std::slice::from_ref(name)].concat())
            })
            .collect();
        modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        Self(modules)
    }

    /// Lines of all modules, without tests.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.0.values().map(|module| module.source.lines).sum()
    }

    /// How many files each folder has, the folder of the crate (empty path) among them.
    #[must_use]
    pub fn folders(&self) -> BTreeMap<ModulePath, usize> {
        let mut folders = BTreeMap::new();
        for path in self.0.keys() {
            *folders.entry(self.folder_of(path)).or_insert(0) += 1;
        }
        folders
    }

    /// The folder that the file of the module `path` belongs to.                                                (2)
    fn folder_of(&self, path: &[String]) -> ModulePath {
        let has_folder =
            |module: &&ModulePath| module.len() > path.len() && module.starts_with(path);
        if path.is_empty() || self.0.keys().any(|module| has_folder(&module)) {
            return path.to_vec();
        }
        path[..path.len() - 1].to_vec()
    }

    /// Which files use which others.
    #[must_use]
    pub fn file_edges(&self) -> BTreeSet<(ModulePath, ModulePath)> {
        let mut edges = BTreeSet::new();
        for (from, module) in &self.0 {
            let uses = module.uses.values().map(|(written, _)| written);
            let written = uses.chain(&module.globs).chain(&module.named);
            for written in written {
                let absolute = self.absolute(from, written, 0);
                if let Some(home) = absolute.and_then(|absolute| self.home(&absolute, 0)) {
                    edges.insert((from.clone(), home));
                }
            }
        }
        edges.retain(|(from, to)| from != to);
        edges
    }

    /// `written` in the module `from` as a path from the crate's root; `None` if it leads to another crate.
    fn absolute(&self, from: &[String], written: &[String], depth: usize) -> Option<Vec<String>> {
        let (first, rest) = written.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let (_, above) = from.split_last()?;
                let mut next = vec!["self".to_owned()];
                next.extend_from_slice(rest);
                if rest.first().is_some_and(|word| word == "super") {
                    next.remove(0);
                }
                self.absolute(above, &next, depth)
            }
            _ => {
                let child = [from, std::slice::from_ref(first)].concat();
                if self.0.contains_key(&child) {
                    return Some([&child, rest].concat());
                }
                // A name that was brought in before.
                let (used, _) = self.0.get(from)?.uses.get(first)?;
                if depth > RE_EXPORTS_MAX || used == written || used.first() == Some(first) {
                    return None;
                }
                let used = self.absolute(from, used, depth + 1)?;
                Some([&used, rest].concat())
            }
        }
    }

    /// The module in whose file the thing at `absolute` is written; `None` if another crate has it.              (1)
    fn home(&self, absolute: &[String], depth: usize) -> Option<ModulePath> {
        let len = (0..=absolute.len())
            .rev()
            .find(|len| self.0.contains_key(&absolute[..*len]))
            .unwrap_or(0);
        let (at, rest) = absolute.split_at(len);
        let Some((name, rest)) = rest.split_first() else {
            return Some(at.to_vec());
        };
        let module = &self.0[at];
        let exported = module.uses.get(name).filter(|(_, visible)| *visible);
        let glob = || match module.globs.as_slice() {
            [glob] if !module.defines(name) => {
                Some([glob.as_slice(), std::slice::from_ref(name)].concat())
            }
            _ => None,
        };
        let written = exported.map(|(written, _)| written.clone()).or_else(glob);
        match written {
            Some(written) if depth < RE_EXPORTS_MAX => {
                let next = self.absolute(at, &written, depth)?;
                self.home(&[next.as_slice(), rest].concat(), depth + 1)
            }
            _ => Some(at.to_vec()),
        }
    }

    /// The edges between the parts of each folder.
    #[must_use]
    pub fn levels(&self) -> BTreeMap<ModulePath, BTreeSet<(Part, Part)>> {
        let mut levels: BTreeMap<ModulePath, BTreeSet<(Part, Part)>> = BTreeMap::new();
        for (from, to) in self.file_edges() {
            let (from_folder, to_folder) = (self.folder_of(&from), self.folder_of(&to));
            let pairs = from_folder.iter().zip(&to_folder);
            let common = pairs.take_while(|(one, other)| one == other).count();
            let part = |path: &ModulePath, folder: &ModulePath| match folder.get(common) {
                Some(name) => Part::Folder(name.clone()),
                None if path.len() == folder.len() => Part::File("head".to_owned()),
                None => Part::File(path[common].clone()),
            };
            let edge = (part(&from, &from_folder), part(&to, &to_folder));
            levels
                .entry(from_folder[..common].to_vec())
                .or_default()
                .insert(edge);
        }
        levels
    }

    /// Every circle of two parts or more.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let circles = self.levels().into_iter().flat_map(|(folder, edges)| {
            let of_folder = circles_among(&edges);
            of_folder.into_iter().map(move |parts| Circle {
                folder: folder.clone(),
                parts,
            })
        });
        circles.collect()
    }

    /// Which folder uses which others, for a crate of this name. The files beside the folders of a crate stand under its
    /// name; that a folder uses some of them is no edge here, but may close a circle.
    #[must_use]
    pub fn folder_edges(&self, name: &str) -> Edges {
        let named =
            |folder: &ModulePath| [&[name.to_owned()], folder.as_slice()].concat().join("/");
        let folders = self.folders().into_keys();
        let mut edges: Edges = folders
            .map(|folder| (named(&folder), BTreeSet::new()))
            .collect();
        for (from, to) in self.file_edges() {
            let (from, to) = (self.folder_of(&from), self.folder_of(&to));
            if from != to && !to.is_empty() {
                edges.entry(named(&from)).or_default().insert(to.join("/"));
            }
        }
        edges
    }
}

/// What differs between the edges and circles that `block` allows and those that are. `circles` are those that are in the way.
#[must_use]
pub fn differences(block: &str, edges: &Edges, circles: &[(String, Circle)]) -> Vec<String> {
    let allowed = edges_of(block);
    let mut differences = edge_differences(&allowed, edges);
    let gone = allowed.keys().filter(|folder| !edges.contains_key(*folder));
    differences.extend(gone.map(|folder| format!("{folder} is in the document and nowhere else")));
    for (from, to) in &allowed {
        let actual = edges.get(from);
        let not_there = to
            .iter()
            .filter(|to| !actual.is_some_and(|actual| actual.contains(*to)));
        differences.extend(not_there.map(|to| format!("{from} -> {to} is allowed but not there")));
    }
    let mut allowed: Vec<_> = block.lines().filter_map(circle_in).collect();
    for (folder, circle) in circles {
        let figure = (folder.clone(), circle.parts.len());
        match allowed.iter().position(|allowed| *allowed == figure) {
            Some(index) => drop(allowed.remove(index)),
            None => differences.push(format!(
                "{folder}: circle of {}: {:?}",
                figure.1, circle.parts
            )),
        }
    }
    let gone = allowed
        .iter()
        .map(|(folder, count)| format!("{folder}: circle of {count} is allowed but not there"));
    differences.extend(gone);
    differences
}

/// `folder: circle of 24 is still there`
fn circle_in(line: &str) -> Option<(String, usize)> {
    let (folder, rest) = line.split_once(": circle of ")?;
    Some((folder.to_owned(), rest.split(' ').next()?.parse().ok()?))
}

/// The strongly connected parts, of two or more.
fn circles_among(edges: &BTreeSet<(Part, Part)>) -> Vec<Vec<Part>> {
    let parts: BTreeSet<&Part> = edges.iter().flat_map(|(from, to)| [from, to]).collect();
    let reached = |start: &Part| {
        let mut reached = BTreeSet::new();
        let mut open = vec![start.clone()];
        while let Some(part) = open.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| *from == part) {
                if reached.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        reached
    };
    let reach: BTreeMap<&Part, BTreeSet<Part>> =
        parts.iter().map(|part| (*part, reached(part))).collect();
    let mut circles = BTreeSet::new();
    for part in &parts {
        let mutual = reach[*part]
            .iter()
            .filter(|other| reach[*other].contains(*part));
        let circle: Vec<Part> = mutual.cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

impl Module {
    fn read_paths(&mut self) {
        let tokens = std::mem::take(&mut self.source.tokens);
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at].text == "use" {
                let visible = at > 0 && matches!(tokens[at - 1].text.as_str(), "pub" | ")");
                at = self.read_use(&tokens, at + 1, &[], visible);
                continue;
            }
            let is_first = tokens[at].is_word()
                && tokens.get(at + 1).is_some_and(|next| next.text == "::")
                && (at == 0 || tokens[at - 1].text != "::");
            if is_first {
                self.named.insert(path_at(&tokens, at));
            }
            at += 1;
        }
        self.source.tokens = tokens;
    }

    /// Notes the tree of a `use` that goes on at `at` below `prefix`. Gives where it ends.
    fn read_use(&mut self, tokens: &[Token], at: usize, prefix: &[String], visible: bool) -> usize {
        let mut path = prefix.to_vec();
        let mut name = path.last().cloned();
        let mut at = at;
        while let Some(token) = tokens.get(at) {
            match token.text.as_str() {
                "::" => {}
                "{" => {
                    at += 1;
                    while tokens.get(at).is_some_and(|token| token.text != "}") {
                        at = self.read_use(tokens, at, &path, visible);
                        at += usize::from(tokens.get(at).is_some_and(|token| token.text == ","));
                    }
                    return at + 1;
                }
                "*" => {
                    self.globs.push(path);
                    return at + 1;
                }
                "as" => {
                    name = tokens.get(at + 1).map(|token| token.text.clone());
                    at += 1;
                }
                "self" if !prefix.is_empty() => {}
                word if token.is_word() => {
                    path.push(word.to_owned());
                    name = path.last().cloned();
                }
                _ => break,
            }
            at += 1;
        }
        if let Some(name) = name {
            self.uses.insert(name, (path, visible));
        }
        at
    }

    /// Whether something of this name is written here.
    fn defines(&self, name: &str) -> bool {
        const KINDS: [&str; 8] = [
            "struct", "enum", "fn", "type", "trait", "const", "static", "mod",
        ];
        let mut pairs = self.source.tokens.windows(2);
        pairs.any(|pair| KINDS.contains(&pair[0].text.as_str()) && pair[1].text == name)
    }
}

/// The path whose first word is at `at`.
fn path_at(tokens: &[Token], at: usize) -> Vec<String> {
    let mut path = vec![tokens[at].text.clone()];
    let mut at = at + 1;
    while let [separator, word, ..] = &tokens[at..]
        && separator.text == "::"
        && word.is_word()
    {
        path.push(word.text.clone());
        at += 2;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> Modules {
        let path = |path: &str| {
            path.split('/')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        };
        Modules::of(
            &texts
                .iter()
                .map(|(at, text)| (path(at), (*text).to_owned()))
                .collect(),
        )
    }

    fn edges(texts: &[(&str, &str)]) -> Vec<String> {
        let edges = modules(texts).file_edges();
        edges
            .into_iter()
            .map(|(from, to)| format!("{} -> {}", from.join("/"), to.join("/")))
            .collect()
    }

    #[test]
    fn edges_are_found_in_imports_and_in_paths() {
        let found = edges(&[
            ("", "mod a; mod b; mod c;"),
            (
                "a",
                "use crate::{b::{self, One}, c as see}; fn f() { see::g() }",
            ),
            (
                "b",
                "mod d; mod e; pub struct One; fn f() { crate::c::g(); e::h(); }",
            ),
            ("b/d", "use super::One; fn f() { super::super::c::g() }"),
            ("b/e", "pub fn h() {}"),
            ("c", "pub fn g() {} // crate::a"),
        ]);
        assert_eq!(
            found,
            [
                "a -> b", "a -> c", "b -> b/e", "b -> c", "b/d -> b", "b/d -> c"
            ]
        );
    }

    #[test]
    fn no_re_export_hides_an_edge() {
        let found = edges(&[
            (
                "",
                "mod a; mod b; pub use a::One; pub use b::*; pub use other::Three;",
            ),
            ("a", "pub struct One;"),
            ("b", "pub struct Two;"),
            ("c", "use crate::{One, Two, Three};"),
        ]);
        assert_eq!(found, [" -> a", " -> b", "c -> a", "c -> b"]);
    }

    #[test]
    fn what_only_tests_use_is_no_edge() {
        let found = edges(&[
            ("", "mod a; #[cfg(test)] mod b;"),
            (
                "a",
                "#[cfg(test)] use crate::c; #[cfg(test)] mod tests { use crate::c::d; }",
            ),
            ("b", "use crate::a;"),
            ("c", ""),
        ]);
        assert_eq!(found, [""; 0]);
    }

    /// The crate of the following tests: folder `a` uses folder `b`.
    const TWO_FOLDERS: [(&str, &str); 5] = [
        ("", "mod a; mod b; mod top;"),
        ("a", "mod c;"),
        ("a/c", "use crate::b::d::One; use crate::top::Two;"),
        ("b", "pub mod d;"),
        ("b/d", "pub struct One;"),
    ];

    fn told(planted: &[(&str, &str)], block: &str) -> Vec<String> {
        let mut texts = TWO_FOLDERS.to_vec();
        texts.push(("top", "pub struct Two;"));
        for (at, text) in planted {
            texts.retain(|(path, _)| path != at);
            texts.push((at, text));
        }
        let modules = modules(&texts);
        let circles: Vec<_> = modules
            .circles()
            .into_iter()
            .filter(|circle| !circle.is_allowed())
            .collect();
        let circles: Vec<_> = circles
            .into_iter()
            .map(|circle| ("crate".to_owned(), circle))
            .collect();
        differences(block, &modules.folder_edges("crate"), &circles)
    }

    #[test]
    fn an_edge_between_folders_is_told_unless_the_block_has_it() {
        let block = "crate ->\ncrate/a -> b\ncrate/b ->";
        assert_eq!(told(&[], block), [""; 0]);
        assert_eq!(
            told(&[], "crate ->\ncrate/a ->\ncrate/b ->"),
            ["crate/a -> b is not allowed"]
        );
        assert_eq!(
            told(&[], "crate -> a\ncrate/a -> b\ncrate/b ->"),
            ["crate -> a is allowed but not there"]
        );
        assert_eq!(
            told(&[], "crate ->\ncrate/a -> b\ncrate/b ->\ncrate/e ->"),
            ["crate/e is in the document and nowhere else"]
        );
    }

    #[test]
    fn a_circle_between_folders_is_told_also_when_it_leads_through_a_file_beside_them() {
        let block = "crate ->\ncrate/a -> b\ncrate/b -> a";
        let back = told(&[("b/d", "pub struct One; use crate::a::c;")], block);
        assert_eq!(back, [r#"crate: circle of 2: [Folder("a"), Folder("b")]"#]);
        let block = "crate -> b\ncrate/a -> b\ncrate/b ->";
        let planted = [
            ("top", "pub struct Two; use crate::b::d;"),
            ("b/d", "pub struct One; use crate::top::Two;"),
        ];
        assert_eq!(
            told(&planted, block),
            [r#"crate: circle of 2: [Folder("b"), File("top")]"#]
        );
        let allowed = format!("{block}\ncrate: circle of 2 is still there");
        assert_eq!(told(&planted, &allowed), [""; 0]);
    }

    #[test]
    fn a_circle_of_more_than_three_files_is_told_and_one_that_is_allowed_may_neither_grow_nor_shrink()
     {
        let texts: [(&str, &str); 4] = [
            ("e", "use crate::f::X;"),
            ("f", "use crate::g::X;"),
            ("g", "use crate::h::X;"),
            ("h", "use crate::e::X;"),
        ];
        let block = "crate ->\ncrate/a -> b\ncrate/b ->";
        assert_eq!(told(&texts, block).len(), 1);
        assert_eq!(
            told(
                &texts,
                &format!("{block}\ncrate: circle of 4 is still there")
            ),
            [""; 0]
        );
        assert_eq!(
            told(
                &texts,
                &format!("{block}\ncrate: circle of 3 is still there")
            )
            .len(),
            2
        );
        assert_eq!(
            told(
                &texts,
                &format!("{block}\ncrate: circle of 5 is still there")
            )
            .len(),
            2
        );
        let three = [
            ("e", "use crate::f::X;"),
            ("f", "use crate::g::X;"),
            ("g", "use crate::e::X;"),
        ];
        assert_eq!(told(&three, block), [""; 0]);
    }
}
