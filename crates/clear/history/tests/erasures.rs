//! Walks `spec/vectors/erasures`, which an independent implementation wrote from the specification.

use std::fs;
use std::path::PathBuf;

use strongroom_history::Erasures;

/// How many files the folder holds: a vector that is not found is not run.
const VECTORS: usize = 19;

/// Any count of bytes from hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    };
    pairs.map(byte).collect()
}

#[test]
fn every_list_of_erasures_is_read_joined_or_refused_as_the_vectors_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../../spec/vectors/erasures");
    let mut run = 0;
    for entry in fs::read_dir(folder).expect("the vectors are there") {
        let path = entry.expect("listed").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("read");
        let value = |word: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(word))
        };
        run += 1;
        if let Some(mine) = value("mine ") {
            let (mine, theirs) = (bytes(mine), bytes(value("theirs ").expect("theirs")));
            let joined = Erasures::joined(Some(&mine), Some(&theirs));
            let wanted = bytes(value("joined ").expect("joined"));
            assert_eq!(joined, Some(wanted), "{}", path.display());
            continue;
        }
        let stored = bytes(value("bytes ").expect("bytes"));
        let found = Erasures::decode(&stored).ok();
        let count = found.as_ref().map(|all| all.all().len().to_string());
        assert_eq!(count.as_deref(), value("entries "), "{}", path.display());
        if let Some(all) = found {
            assert_eq!(all.encode(), stored, "{}", path.display());
        }
    }
    assert_eq!(run, VECTORS);
}
