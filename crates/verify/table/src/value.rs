//! A value of the table, and its meaning as an argument or a result of an operation.

use std::collections::BTreeMap;

use toml_edit::{Item, Value as Toml};

/// A value as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text, or bytes that are text.
    Text(String),
    /// A number.
    Integer(i64),
    /// Yes or no.
    Boolean(bool),
    /// Pieces of bytes, or values one behind the other.
    List(Vec<Value>),
    /// Named values.
    Fields(BTreeMap<String, Value>),
}

impl Value {
    /// What the table has.
    ///
    /// # Panics
    /// For kinds that the table does not use: floats and dates.
    pub(crate) fn of(item: &Item) -> Self {
        if let Some(value) = item.as_value() {
            return Self::of_value(value);
        }
        let fields = item.as_table_like().expect("a value or a table");
        let fields = fields.iter();
        Self::Fields(
            fields
                .map(|(key, item)| (key.to_owned(), Self::of(item)))
                .collect(),
        )
    }

    fn of_value(value: &Toml) -> Self {
        match value {
            Toml::String(text) => Self::Text(text.value().clone()),
            Toml::Integer(number) => Self::Integer(*number.value()),
            Toml::Boolean(boolean) => Self::Boolean(*boolean.value()),
            Toml::Array(list) => Self::List(list.iter().map(Self::of_value).collect()),
            Toml::InlineTable(fields) => Self::Fields(
                fields
                    .iter()
                    .map(|(key, value)| (key.to_owned(), Self::of_value(value)))
                    .collect(),
            ),
            other => panic!("a {} is no value of the table", other.type_name()),
        }
    }

    /// It as text.
    ///
    /// # Panics
    /// If it is none. So do all of these: a table that cannot be read is to be mended.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    /// It as a number.
    ///
    /// # Panics
    /// See `text`.
    #[must_use]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("{other:?} is no number"),
        }
    }

    /// It as yes or no.
    ///
    /// # Panics
    /// See `text`.
    #[must_use]
    pub fn boolean(&self) -> bool {
        match self {
            Self::Boolean(boolean) => *boolean,
            other => panic!("{other:?} is no boolean"),
        }
    }

    /// Its fields.
    ///
    /// # Panics
    /// See `text`.
    #[must_use]
    pub fn fields(&self) -> &BTreeMap<String, Value> {
        match self {
            Self::Fields(fields) => fields,
            other => panic!("{other:?} has no fields"),
        }
    }

    /// Its members.
    ///
    /// # Panics
    /// See `text`.
    #[must_use]
    pub fn list(&self) -> &[Value] {
        match self {
            Self::List(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }

    /// It as bytes: text, or pieces one behind the other.
    ///
    /// # Panics
    /// See `text`.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::List(pieces) => pieces.iter().flat_map(Value::piece).collect(),
            other => panic!("{other:?} is no bytes"),
        }
    }

    fn piece(&self) -> Vec<u8> {
        let Self::Fields(fields) = self else {
            return self.text().as_bytes().to_vec();
        };
        let once = match (fields.get("text"), fields.get("hex")) {
            (Some(text), None) => text.text().as_bytes().to_vec(),
            (None, Some(hex)) => of_hex(hex.text()),
            _ => panic!("{self:?} is no piece of bytes"),
        };
        let times = fields.get("times").map_or(1, Value::integer);
        once.repeat(usize::try_from(times).expect("a piece is there 0 times or more"))
    }

    /// It as a list of bytes.
    ///
    /// # Panics
    /// See `text`.
    #[must_use]
    pub fn bytes_list(&self) -> Vec<Vec<u8>> {
        self.list().iter().map(Value::bytes).collect()
    }
}

fn of_hex(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit");
    let pairs = hex.as_bytes().chunks_exact(2);
    assert!(pairs.remainder().is_empty(), "{hex} is half a byte long");
    pairs
        .map(|pair| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).expect("below 256"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_pieces() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(text("aé").bytes(), "aé".as_bytes());
        let repeated = BTreeMap::from([
            ("hex".to_owned(), text("ff00")),
            ("times".to_owned(), Value::Integer(2)),
        ]);
        let pieces = Value::List(vec![text("a"), Value::Fields(repeated)]);
        assert_eq!(pieces.bytes(), b"a\xff\x00\xff\x00");
        assert_eq!(Value::List(Vec::new()).bytes(), b"");
    }
}
