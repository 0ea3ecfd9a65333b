//! The documents of the protocol, as schemas.
//!
//! Takes   nothing
//! Gives   a schema for each document of a request or an answer, and for the texts and numbers in them
//! Never   names a request: `openapi.rs` does

use strongroom_remote::limits::NAME_BYTES_MAX;
use strongroom_remote::protocol::{
    LOGIN_RECORDS_MAX, PAGE_NAMES_MAX, PART_BYTES_MAX, Refusal, TOKEN_BYTES_MAX,
};
use utoipa::openapi::schema::{AdditionalProperties, AllOfBuilder, SchemaType};
use utoipa::openapi::{
    ArrayBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};

use crate::operations::{OPERATIONS, Operation};

pub(super) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

pub(super) fn binary() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
}

/// A name, or a part of one, as `ObjectName` admits it.
pub(super) fn word(bytes_max: usize) -> ObjectBuilder {
    text()
        .pattern(Some("^[a-z0-9-][a-z0-9.-]*$"))
        .min_length(Some(1))
        .max_length(Some(bytes_max))
}

/// A digit of base64. After a whole number of triples, the last one of a single byte has only the upper two of its
/// bits, that of two bytes the upper four: bytes are spelled in one way.
const DIGIT: &str = "[A-Za-z0-9+/]";
const LAST_OF_ONE: &str = "[AQgw]==";
const LAST_OF_TWO: &str = "[AEIMQUYcgkosw048]=";

/// Bytes in base64.
fn base64() -> ObjectBuilder {
    text().pattern(Some(format!(
        "^({DIGIT}{{4}})*({DIGIT}{LAST_OF_ONE}|{DIGIT}{{2}}{LAST_OF_TWO})?$"
    )))
}

/// So many of them.
fn bytes(count: usize) -> ObjectBuilder {
    let (digits, len) = (count / 3 * 4, count.div_ceil(3) * 4);
    let pattern = match count % 3 {
        0 => format!("^{DIGIT}{{{digits}}}$"),
        1 => format!("^{DIGIT}{{{}}}{LAST_OF_ONE}$", digits + 1),
        _ => format!("^{DIGIT}{{{}}}{LAST_OF_TWO}$", digits + 2),
    };
    let text = text().pattern(Some(pattern));
    text.min_length(Some(len)).max_length(Some(len))
}

pub(super) fn number() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::Custom("uint64".to_owned())))
        .minimum(Some(0_u64))
        .maximum(Some(u64::MAX))
}

pub(super) fn problem_name(refusal: Refusal) -> String {
    format!("Problem-{}", refusal.code())
}

/// The documents in answers. Tests compare every answer that they get with them.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let limit = |what: &str| {
        number()
            .schema_type(SchemaType::from_iter([Type::Integer, Type::Null]))
            .description(Some(format!(
                "{what} that it may have; null without a limit"
            )))
    };
    let with = |begun: ObjectBuilder, properties: Vec<(&str, RefOr<Schema>)>| -> RefOr<Schema> {
        let object = properties
            .into_iter()
            .fold(begun, |object, (name, schema)| {
                object.property(name, schema).required(name)
            });
        object.into()
    };
    let object = |properties| with(ObjectBuilder::new(), properties);
    // Of a document that a client sends: one with any other property is refused.
    let closed = |properties| {
        let none = Some(AdditionalProperties::<Schema>::FreeForm(false));
        with(ObjectBuilder::new().additional_properties(none), properties)
    };
    let said = |schema: ObjectBuilder, what: &str| -> RefOr<Schema> {
        schema.description(Some(what)).into()
    };
    let page = ArrayBuilder::new()
        .items(Ref::from_schema_name("PageObject"))
        .max_items(Some(PAGE_NAMES_MAX))
        .description(Some("In order of their names"));
    let records = ArrayBuilder::new()
        .items(base64())
        .max_items(Some(LOGIN_RECORDS_MAX))
        .description(Some(
            "The membership records that come after those that the server has noted, oldest first",
        ));
    let mut schemas = vec![
        (
            "Account",
            object(vec![
                ("name", said(word(PART_BYTES_MAX), "Its name")),
                ("bytes", said(number(), "Bytes of its objects")),
                ("objects", said(number(), "Its objects")),
                ("bytes_max", limit("Bytes").into()),
                ("objects_max", limit("Objects").into()),
                (
                    "keep_days",
                    said(
                        number(),
                        "For how many days an object stays after a client first asked to remove it; 0 if it goes at once",
                    ),
                ),
            ]),
        ),
        (
            "Page",
            object(vec![
                ("objects", page.into()),
                (
                    "more",
                    said(
                        ObjectBuilder::new().schema_type(Type::Boolean),
                        "Whether there are more objects after the last one",
                    ),
                ),
            ]),
        ),
        (
            "PageObject",
            object(vec![
                (
                    "name",
                    said(word(NAME_BYTES_MAX - 2), "Its name below the kind"),
                ),
                ("len", said(number(), "Its length in bytes")),
                (
                    "created_s",
                    said(number(), "When it was created, in seconds since 1970"),
                ),
                (
                    "kept_until_s",
                    said(
                        number(),
                        "Until when the account keeps it although a client asked to remove it, in seconds since 1970; 0 if none has, or the account keeps nothing",
                    ),
                ),
            ]),
        ),
        (
            "Newest",
            object(vec![("last", said(number(), "0 before the first"))]),
        ),
        (
            "Challenge",
            object(vec![
                ("nonce", said(bytes(32), "Random bytes")),
                (
                    "issued_s",
                    said(number(), "When it was issued, in seconds since 1970"),
                ),
                (
                    "valid_s",
                    said(number(), "For how many seconds it is valid"),
                ),
                (
                    "records",
                    said(
                        number(),
                        "Membership records of the vault that the server has noted",
                    ),
                ),
            ]),
        ),
        (
            "Login",
            closed(vec![
                ("nonce", said(bytes(32), "The nonce of the challenge")),
                (
                    "server",
                    said(
                        text(),
                        "The server as the client reached it: its host, or `sha256:` and the fingerprint of its certificate",
                    ),
                ),
                ("principal", said(bytes(32), "The id of the device or key slot that logs in")),
                ("signature", said(bytes(64), "The signature of that device or key slot")),
                ("records", records.into()),
            ]),
        ),
        (
            "Pass",
            object(vec![
                (
                    "token",
                    said(
                        text().max_length(Some(TOKEN_BYTES_MAX)),
                        "The token that later requests to this vault carry",
                    ),
                ),
                (
                    "valid_s",
                    said(number(), "For how many seconds it is valid"),
                ),
            ]),
        ),
        (
            "Problem",
            object(vec![
                (
                    "type",
                    said(text(), "`urn:strongroom:problem:` and the code"),
                ),
                ("title", said(text(), "What is wrong, in a sentence")),
                ("status", said(number(), "The status of the answer")),
                ("code", said(text(), "Which refusal it is")),
            ]),
        ),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect::<Vec<_>>();
    let named = OPERATIONS.iter().flat_map(Operation::refusals);
    for refusal in named.chain([Refusal::NoSuchPath, Refusal::NoSuchMethod]) {
        schemas.push((problem_name(refusal), problem(refusal)));
    }
    schemas
}

/// The document of one refusal.
fn problem(refusal: Refusal) -> RefOr<Schema> {
    let problem = refusal.problem();
    let only = |value: &str| text().enum_values(Some([value]));
    let status = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some([problem.status]));
    let own = ObjectBuilder::new()
        .property("type", only(&problem.kind))
        .property("status", status)
        .property("code", only(&problem.code));
    AllOfBuilder::new()
        .item(Ref::from_schema_name("Problem"))
        .item(own)
        .description(Some(refusal.title()))
        .into()
}
