//! Splits Rust source into words, without the parts that only tests compile.
//!
//! Takes   the text of a source file
//! Gives   its words and signs with their lines; items after `#[cfg(test)]` are left out
//! Never   understands more of the language than the tests of documents need

use std::collections::BTreeSet;

/// A word (identifier, keyword or number) or a single sign; `::` is one sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its letters; a literal in quotes is `""`.
    pub text: String,
    /// Counted from 1.
    pub line: usize,
}

impl Token {
    /// Whether it may be a part of a path.
    #[must_use]
    pub fn is_word(&self) -> bool {
        self.text.starts_with(is_word)
    }
}

/// What is compiled into the product, and what is only for tests.
#[derive(Debug, Default)]
pub struct Source {
    /// The product's tokens, in order.
    pub tokens: Vec<Token>,
    /// Lines that belong to the product: code, comments and empty lines.
    pub lines: usize,
    /// Modules in files of their own that only tests compile.
    pub test_modules: BTreeSet<String>,
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Reads `text`.
#[must_use]
pub fn read(text: &str) -> Source {
    let tokens = tokens(text);
    let mut source = Source::default();
    let mut test_lines = 0;
    let mut last_counted = 0;
    let mut at = 0;
    while at < tokens.len() {
        if !is_test_attribute(&tokens[at..]) {
            source.tokens.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = item_end(&tokens, at + TEST_ATTRIBUTE.len());
        let item = &tokens[at..end];
        if let [.., name, end] = item
            && end.text == ";"
            && item.iter().any(|token| token.text == "mod")
        {
            source.test_modules.insert(name.text.clone());
        }
        let last = item.last().map_or(0, |token| token.line);
        test_lines += last + 1 - tokens[at].line.max(last_counted + 1);
        last_counted = last;
        at = end;
    }
    source.lines = text.lines().count() - test_lines;
    source
}

const TEST_ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

fn is_test_attribute(tokens: &[Token]) -> bool {
    tokens.len() >= TEST_ATTRIBUTE.len()
        && TEST_ATTRIBUTE
            .iter()
            .zip(tokens)
            .all(|(sign, token)| token.text == *sign)
}

/// Behind the item, field or statement that begins at `at`.
fn item_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return index,
            "}" if depth == 1 && tokens.get(index + 1).is_none_or(|next| next.text != ";") => {
                return index + 1;
            }
            ")" | "]" | "}" => depth -= 1,
            ";" | "," if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The words and signs of `text`, without comments.
fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text;
    let mut line = 1;
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let len = token_len(rest, first);
        let (token, tail) = rest.split_at(len);
        let text = match first {
            _ if is_comment(token) || first.is_whitespace() => None,
            _ if token.ends_with(['"', '#']) && len > 1 => Some("\"\""),
            '\'' => Some("'"),
            _ => Some(token),
        };
        tokens.extend(text.map(|text| Token {
            text: text.to_owned(),
            line,
        }));
        line += token.matches('\n').count();
        rest = tail;
    }
    tokens
}

fn is_comment(token: &str) -> bool {
    token.starts_with("//") || token.starts_with("/*")
}

/// How many bytes of `text`, which begins with `first`, are one token, comment or space.
fn token_len(text: &str, first: char) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return comment_len(text);
    }
    if let Some(len) = raw_string_len(text) {
        return len;
    }
    match first {
        '"' => string_len(text),
        '\'' => char_len(text),
        ':' if text.starts_with("::") => 2,
        _ if is_word(first) => text.find(|letter| !is_word(letter)).unwrap_or(text.len()),
        _ => first.len_utf8(),
    }
}

/// Comments nest.
fn comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let (step, deeper) = match text.as_bytes()[at..] {
            [b'/', b'*', ..] => (2, depth + 1),
            [b'*', b'/', ..] => (2, depth - 1),
            _ => (1, depth),
        };
        at += step;
        depth = deeper;
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// `r"…"`, `br#"…"#` and the like.
fn raw_string_len(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(['"', '#']))
    })?;
    let rest = &text[prefix.len()..];
    let fences = rest.find(|sign| sign != '#')?;
    let body = rest[fences..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(fences));
    let body_len = body
        .find(&close)
        .unwrap_or(body.len() - close.len().min(body.len()));
    Some(prefix.len() + fences + 1 + body_len + close.len())
}

/// A letter in quotes; the quote alone before a lifetime.
fn char_len(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(1, |end| 3 + end + 1),
        Some(_) => match letters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let source = read(text);
        source.tokens.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_strings_and_letters_are_no_words() {
        let text =
            "a /* b /* c */ d */ \"e \\\" f\" // g\n r#\"h \" i\"# '\\'' 'j' &'k l::m b\"n\"";
        let expected = [
            "a", "\"\"", "\"\"", "'", "'", "&", "'", "k", "l", "::", "m", "b", "\"\"",
        ];
        assert_eq!(words(text), expected);
    }

    #[test]
    fn what_only_tests_compile_is_left_out_and_not_counted() {
        let text = "fn a() {}\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nuse c::{d, e};\nstruct F {\n    #[cfg(test)]\n    g: H<I>,\n    j: K,\n}\n#[cfg(test)]\nmod tests {\n    fn l() {}\n}\n";
        let source = read(text);
        assert_eq!(source.lines, 4);
        assert_eq!(source.test_modules, ["b".to_owned()].into());
        let expected = "fn a ( ) { } struct F { j : K , }";
        let words: Vec<_> = source
            .tokens
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(words.join(" "), expected);
    }
}
