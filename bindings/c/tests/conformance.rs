//! A program in C behaves as the conformance table says, through the header and the shared library.
//!
//! Goal: C behaves as every other language. Method: the table is written as constants in C; `tests/table/run.c` runs its cases.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use strongroom_table::{Begin, Case, Outcome, Step, Table, Value};

use support::{Program, Watched, crate_folder, has_sanitizers, said, valgrind};

/// What is a list of bytes where an operation takes or gives it; all other lists are pieces of bytes.
const LISTS: [&str; 2] = ["flags", "tags"];
const GIVES_LIST: [&str; 8] = [
    "list",
    "walk",
    "keys",
    "listxattr",
    "snapshots",
    "diff",
    "remotes",
    "pins",
];

fn table() -> Table {
    let path = crate_folder().join("../conformance.toml");
    Table::read(&std::fs::read_to_string(path).unwrap())
}

/// A string of C with these bytes. Octal digits: a hexadecimal escape would swallow what follows.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' | b'?' | 0..=31 | 127.. => write!(text, "\\{byte:03o}").unwrap(),
            byte => text.push(char::from(*byte)),
        }
    }
    text.push('"');
    text
}

fn piece(value: &Value) -> String {
    let (once, times) = match value {
        Value::Fields(fields) => {
            let mut once = fields.clone();
            let times = once.remove("times").map_or(1, |times| times.integer());
            (Value::List(vec![Value::Fields(once)]).bytes(), times)
        }
        text => (text.bytes(), 1),
    };
    format!("{{ {}, {}, {times} }}", quoted(&once), once.len())
}

/// Constants of one kind one behind the other; C has no empty lists of them.
fn array(of: &str, items: &[String]) -> String {
    match items.is_empty() {
        true => "0".to_owned(),
        false => format!("(const struct {of}[]){{ {} }}", items.join(", ")),
    }
}

fn value(value: &Value, is_list: bool) -> String {
    match value {
        Value::Integer(number) if *number == i64::MIN => panic!("C has no such constant"),
        Value::Integer(number) => format!("{{ .kind = INTEGER, .integer = {number} }}"),
        Value::Boolean(boolean) => {
            format!("{{ .kind = INTEGER, .integer = {} }}", i32::from(*boolean))
        }
        Value::Fields(all) => {
            let items = fields(all.iter());
            let count = items.len();
            let items = array("field", &items);
            format!("{{ .kind = FIELDS, .fields = {items}, .count = {count} }}")
        }
        Value::List(list) if is_list => {
            let items: Vec<String> = list.iter().map(|one| self::value(one, false)).collect();
            let (count, items) = (items.len(), array("value", &items));
            format!("{{ .kind = LIST, .items = {items}, .count = {count} }}")
        }
        bytes => {
            let pieces = match bytes {
                Value::List(list) => list.iter().map(piece).collect(),
                one => vec![piece(one)],
            };
            let (count, pieces) = (pieces.len(), array("piece", &pieces));
            format!("{{ .kind = BYTES, .pieces = {pieces}, .count = {count} }}")
        }
    }
}

fn fields<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>) -> Vec<String> {
    fields
        .map(|(name, one)| {
            let is_list = LISTS.contains(&name.as_str());
            format!("{{ {}, {} }}", quoted(name.as_bytes()), value(one, is_list))
        })
        .collect()
}

fn step(step: &Step) -> String {
    let arguments = fields(step.arguments.iter());
    let (is, number) = match &step.outcome {
        Outcome::Succeeds => ("{ .kind = NONE }".to_owned(), 0),
        Outcome::Gives(expected) => (value(expected, GIVES_LIST.contains(&step.op.as_str())), 0),
        Outcome::Fails(_, number) => ("{ .kind = NONE }".to_owned(), *number),
    };
    format!(
        "\n        {{ {}, {}, {}, {is}, {number} }}",
        quoted(step.op.as_bytes()),
        array("field", &arguments),
        arguments.len(),
    )
}

fn case(case: &Case) -> String {
    let steps: Vec<String> = case.steps.iter().map(step).collect();
    format!(
        "    {{ {}, {}, {}, {} }},\n",
        quoted(case.name.as_bytes()),
        i32::from(case.begin == Begin::Folder),
        array("step", &steps),
        steps.len()
    )
}

/// The table as a source in C.
fn source(table: &Table) -> String {
    let mut text =
        String::from("#include \"table.h\"\n\nconst struct table_case table_cases[] = {\n");
    let mut count = 0;
    for one in table.cases_for("c") {
        text.push_str(&case(one));
        count += 1;
    }
    writeln!(text, "}};\nconst size_t table_case_count = {count};").unwrap();
    let files = table
        .key_files
        .iter()
        .map(|(name, content)| (name.clone(), Value::Text(content.clone())))
        .collect::<std::collections::BTreeMap<_, _>>();
    let files = fields(files.iter());
    writeln!(
        text,
        "const struct field table_key_files[] = {{ {} }};\nconst size_t table_key_file_count = {};",
        files.join(", "),
        files.len()
    )
    .unwrap();
    text
}

/// Compiles and runs the table; gives what it printed.
fn run(watched: Watched, before: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    let written = place.path().join("table.c");
    std::fs::write(&written, source(&table())).unwrap();
    let program = Program::compile(&[Path::new("tests/table/run.c"), &written], watched);
    let cases = tempfile::tempdir().unwrap();
    let output = program.run(before, &[cases.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn expected() -> String {
    format!("{} cases, 0 wrong\n", table().cases_for("c").count())
}

#[test]
fn a_program_in_c_does_what_the_table_says() {
    assert_eq!(run(Watched::No, &[]), expected());
    // Not `println!`: it shows nothing of a test that passes.
    let (right, all) = (table().cases_for("c").count(), table().cases.len());
    writeln!(std::io::stdout(), "C: {right} of {all} cases right").unwrap();
}

/// Goal: no byte is read that is not there, none freed twice, none left behind.
#[test]
fn the_sanitizers_are_silent_over_the_whole_table() {
    assert!(
        has_sanitizers(),
        "{} has no sanitizers; on Debian or Ubuntu: sudo apt-get install libasan8 libubsan1",
        support::compiler()
    );
    assert_eq!(run(Watched::Sanitizers, &[]), expected());
}

/// Minutes: only by `make bindings-test`.
#[test]
#[ignore = "takes minutes"]
fn valgrind_is_silent_over_the_whole_table() {
    let words = valgrind();
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(run(Watched::No, &before), expected());
}
