//! Matches names against shell patterns.
//!
//! Takes   a pattern with `*`, `?`, `[set]`, `[!set]` and `\` before a character that is meant literally
//! Gives   whether a whole name matches, byte by byte
//! Never   takes more than pattern × name steps, whatever the pattern

/// Whether `name` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Where the last star stands, and how much of the name it has taken so far. An earlier star never needs to
    // take more: the later one can take whatever it would have left.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, next));
            at += 1;
            continue;
        }
        if at == pattern.len() && next == name.len() {
            return true;
        }
        if let Some((used, true)) = name.get(next).and_then(|byte| one(&pattern[at..], *byte)) {
            at += used;
            next += 1;
            continue;
        }
        match star {
            Some((place, taken)) if taken < name.len() => {
                star = Some((place, taken + 1));
                (at, next) = (place + 1, taken + 1);
            }
            _ => return false,
        }
    }
}

/// How many bytes the first element of `pattern` has, and whether `byte` matches it.
fn one(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    match pattern.first()? {
        b'?' => Some((1, true)),
        b'\\' => match pattern.get(1) {
            Some(literal) => Some((2, *literal == byte)),
            None => Some((1, byte == b'\\')),
        },
        b'[' => set(pattern, byte).or(Some((1, byte == b'['))),
        literal => Some((1, *literal == byte)),
    }
}

/// A set in brackets; `None` if it does not end and the bracket is meant literally.
fn set(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = if negated { 2 } else { 1 };
    let mut at = first;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((at + 1, found != negated));
        }
        let is_range = pattern.get(at + 1) == Some(&b'-')
            && pattern.get(at + 2).is_some_and(|high| *high != b']');
        let high = if is_range { *pattern.get(at + 2)? } else { low };
        found |= (low..=high).contains(&byte);
        at += if is_range { 3 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, matching) in [
            ("*", "", true),
            ("*", "anything", true),
            ("*.jpg", "a.jpg", true),
            ("*.jpg", "a.jpeg", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("[a-]", "-", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("", "", true),
            ("", "x", false),
            ("**a", "bba", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                matching,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern = b"*a".repeat(1000);
        assert!(!matches(&pattern, &[b'a'; 255]));
    }
}
