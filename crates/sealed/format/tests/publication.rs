//! Walks `spec/vectors/publication`, which an independent implementation wrote from the specification.

use std::fs;
use std::path::PathBuf;

use strongroom_format::hex;
use strongroom_format::publication::SignedPublication;

/// How many files the folder holds: a vector that is not found is not run.
const VECTORS: usize = 18;

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
fn every_publication_is_read_or_refused_as_the_vectors_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../../spec/vectors/publication");
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
        let stored = bytes(value("bytes ").expect("bytes"));
        let found = SignedPublication::decode(&stored);
        let id = found.as_ref().ok().map(|signed| hex::encode(&signed.id.0));
        assert_eq!(id.as_deref(), value("id "), "{}", path.display());
        if let Ok(signed) = found {
            assert!(stored.starts_with(&signed.encode()), "{}", path.display());
        }
        run += 1;
    }
    assert_eq!(run, VECTORS);
}
