//! The cases of the table.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{DocumentMut, Table as Toml};

use crate::errno::errno;
use crate::value::Value;

/// The format that this reads.
const FORMAT: i64 = 1;

/// The table.
#[derive(Debug)]
pub struct Table {
    /// The contents of key files, by their names.
    pub key_files: BTreeMap<String, String>,
    /// The cases, in their order.
    pub cases: Vec<Case>,
}

/// One claim.
#[derive(Debug)]
pub struct Case {
    /// What is claimed; unique.
    pub name: String,
    /// What there is at the beginning.
    pub begin: Begin,
    /// Languages in which it cannot be written, and why.
    pub skip: BTreeMap<String, String>,
    /// What is done.
    pub steps: Vec<Step>,
}

/// What there is at the beginning of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// An empty open vault, called `main`.
    Vault,
    /// An empty folder of the machine.
    Folder,
}

/// One call and what must come of it.
#[derive(Debug)]
pub struct Step {
    /// The operation.
    pub op: String,
    /// Everything else that the step says but for its outcome.
    pub arguments: BTreeMap<String, Value>,
    /// What must come of it.
    pub outcome: Outcome,
}

/// What must come of a step.
#[derive(Debug)]
pub enum Outcome {
    /// It succeeds.
    Succeeds,
    /// It succeeds and gives this.
    Gives(Value),
    /// It fails with this number, of this name.
    Fails(String, i32),
}

impl Table {
    /// Reads the table.
    ///
    /// # Panics
    /// Says what is malformed, and in which case.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let document: DocumentMut = text
            .parse()
            .unwrap_or_else(|error| panic!("the table is no TOML: {error}"));
        assert_eq!(document["format"].as_integer(), Some(FORMAT));
        let key_files = Value::of(&document["key_files"]).fields().clone();
        let cases = document["case"]
            .as_array_of_tables()
            .expect("the table has cases");
        let table = Self {
            key_files: key_files
                .into_iter()
                .map(|(name, text)| (name, text.text().to_owned()))
                .collect(),
            cases: cases.iter().map(Case::of).collect(),
        };
        let names: BTreeSet<_> = table.cases.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), table.cases.len(), "a name is there twice");
        table
    }

    /// The cases that can be written in `language`.
    pub fn cases_for<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a Case> {
        self.cases
            .iter()
            .filter(move |case| !case.skip.contains_key(language))
    }
}

impl Case {
    fn of(table: &Toml) -> Self {
        let name = table["name"]
            .as_str()
            .expect("a case has a name")
            .to_owned();
        for (key, _) in table {
            let known = ["name", "begin", "skip", "steps"].contains(&key);
            assert!(known, "{name}: {key} is nothing that a case says");
        }
        let begin = match table.get("begin").and_then(|begin| begin.as_str()) {
            None | Some("vault") => Begin::Vault,
            Some("folder") => Begin::Folder,
            Some(other) => panic!("{name}: a case does not begin with {other}"),
        };
        let skip = table.get("skip").map(Value::of);
        let skip = skip.map_or_else(BTreeMap::new, |skip| skip.fields().clone());
        let steps = Value::of(&table["steps"]);
        Self {
            begin,
            skip: skip
                .into_iter()
                .map(|(language, why)| (language, why.text().to_owned()))
                .collect(),
            steps: steps
                .list()
                .iter()
                .map(|step| Step::of(&name, step))
                .collect(),
            name,
        }
    }
}

impl Step {
    fn of(case: &str, step: &Value) -> Self {
        let mut arguments = step.fields().clone();
        let op = arguments
            .remove("op")
            .unwrap_or_else(|| panic!("{case}: a step without an operation"));
        let outcome = match (arguments.remove("is"), arguments.remove("errno")) {
            (None, None) => Outcome::Succeeds,
            (Some(value), None) => Outcome::Gives(value),
            (None, Some(name)) => {
                let name = name.text().to_owned();
                let number = errno(&name).unwrap_or_else(|| panic!("{case}: no number for {name}"));
                Outcome::Fails(name, number)
            }
            _ => panic!("{case}: a step has one outcome"),
        };
        Self {
            op: op.text().to_owned(),
            arguments,
            outcome,
        }
    }

    /// The argument of that name, if the step has it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Value> {
        self.arguments.get(name)
    }

    /// The argument of that name.
    ///
    /// # Panics
    /// If the step lacks it. So do those below, and for an argument of another kind.
    #[must_use]
    pub fn get(&self, name: &str) -> &Value {
        self.find(name)
            .unwrap_or_else(|| panic!("{} lacks its argument {name}", self.op))
    }

    /// The text of that name.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).text()
    }

    /// The text of that name, or `missing`.
    #[must_use]
    pub fn text_or<'a>(&'a self, name: &str, missing: &'a str) -> &'a str {
        self.find(name).map_or(missing, Value::text)
    }

    /// The bytes of that name.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.get(name).bytes()
    }

    /// The number of that name.
    #[must_use]
    pub fn integer(&self, name: &str) -> i64 {
        self.get(name).integer()
    }

    /// The number of that name, or `missing`.
    #[must_use]
    pub fn integer_or(&self, name: &str, missing: i64) -> i64 {
        self.find(name).map_or(missing, Value::integer)
    }

    /// Whether the step says that it is so; no where it says nothing.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.find(name).is_some_and(Value::boolean)
    }
}
