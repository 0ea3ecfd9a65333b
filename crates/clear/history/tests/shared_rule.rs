//! Walks `spec/vectors/shared-rule`, which an independent implementation wrote from the specification.

use std::fs;
use std::path::PathBuf;

use strongroom_history::{Retention, SharedRetention, Whose};

/// How many files the folder holds: a vector that is not found is not run.
const VECTORS: usize = 28;

/// Any count of bytes from hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    };
    pairs.map(byte).collect()
}

/// The rule of seven numbers.
fn rule(numbers: &str) -> Retention {
    let numbers = numbers.split(' ');
    let numbers: Vec<u32> = numbers.map(|one| one.parse().expect("a number")).collect();
    let [last, hourly, daily, weekly, monthly, yearly, whose] = numbers[..] else {
        panic!("seven numbers");
    };
    Retention {
        last,
        hourly,
        daily,
        weekly,
        monthly,
        yearly,
        whose: match whose {
            0 => Whose::Scheduled,
            _ => Whose::Unnamed,
        },
    }
}

#[test]
fn every_shared_rule_is_read_joined_set_or_refused_as_the_vectors_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../../spec/vectors/shared-rule");
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
            let joined = SharedRetention::joined(Some(&mine), Some(&theirs));
            let wanted = bytes(value("joined ").expect("joined"));
            assert_eq!(joined, Some(wanted), "{}", path.display());
            continue;
        }
        if let Some(set) = value("set ") {
            let before = value("before ").map(|before| {
                let before = SharedRetention::decode(&bytes(before));
                before.expect("the value that is there can be read")
            });
            let device = bytes(value("device ").expect("device"));
            let device = device.try_into().expect("32 bytes");
            let after = SharedRetention::after(before.as_ref(), device, rule(set));
            let wanted = bytes(value("after ").expect("after"));
            assert_eq!(after.encode(), wanted, "{}", path.display());
            continue;
        }
        let stored = bytes(value("bytes ").expect("bytes"));
        let found = SharedRetention::decode(&stored);
        let read = found.map(|found| found.rule);
        assert_eq!(read, value("rule ").map(rule), "{}", path.display());
        if let Some(found) = found {
            assert_eq!(found.encode(), stored, "{}", path.display());
        }
    }
    assert_eq!(run, VECTORS);
}
