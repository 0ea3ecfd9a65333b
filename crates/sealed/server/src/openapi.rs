//! The OpenAPI document of a server.
//!
//! Takes   the table of requests, the refusals and the limits of the protocol; the schemas of documents (`openapi/schemas.rs`)
//! Gives   always the same document
//! Never   describes the state of one server: the document is the same for all servers of one version
//!
//! `docs/openapi.json` is a copy; a test compares it.

mod schemas;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use strongroom_remote::limits::NAME_BYTES_MAX;
use strongroom_remote::protocol::{
    DEPOSIT_OBJECT_BYTES_MAX, HASH_HEADER, LOGIN_BYTES_MAX, PART_BYTES_MAX, PROBLEM_TYPE,
    REFUSAL_HEADER, Refusal, TOKEN_BYTES_MAX, WAIT_S_MAX,
};
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, Header, HeaderBuilder, InfoBuilder, ObjectBuilder, OneOfBuilder,
    OpenApiBuilder, PathsBuilder, Ref, RefOr, Response, ResponseBuilder, Schema,
    SecurityRequirement,
};
use utoipa::openapi::{path, request_body};

use crate::limits::OBJECT_BYTES_MAX;
use crate::operations::{Body, Field, OPERATIONS, Operation, Outcome, Verb};
use schemas::{binary, number, problem_name, schemas, text, word};

/// The version of the protocol, which is in its paths.
const VERSION: &str = "1";

const TOKEN: &str = "token";

const DESCRIPTION: &str = "A server keeps sealed objects for the vaults of many accounts, and the order of their publications. \
    A refusal has its code in the header `strongroom-refusal` and a problem document (RFC 9457) as its body. \
    Besides the refusals of each request, a path that the server does not have is refused with 404 `no-such-path`, and another method with 405 \
    `no-such-method`; too many such requests are refused with 429 `too-fast`. Bytes that are not an HTTP/1.1 request, and requests whose head is \
    too long, get 400, 414 or 431 without a problem document. A query may have only the parameters that are listed, each at most once. No value needs a percent sign, and a value that has one is refused.";

/// The document, as JSON.
///
/// It is made once.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(made);
    &DOCUMENT
}

fn made() -> String {
    let mut paths = PathsBuilder::new();
    let mut responses = BTreeMap::new();
    for operation in OPERATIONS {
        for (index, form) in operation.forms.iter().enumerate() {
            let id = match index {
                0 => operation.id.to_owned(),
                _ => format!("{}OfKind", operation.id),
            };
            let mut add = |verb, id: &str| {
                let described = described(operation, form.fields, verb, id, &mut responses);
                let item = PathItem::new(method(verb), described);
                paths = std::mem::take(&mut paths).path(form.path, item);
            };
            add(operation.verb, &id);
            let is_own = |other: &Operation| {
                other.verb == Verb::Head && other.endpoint == operation.endpoint
            };
            if operation.verb == Verb::Get && !OPERATIONS.iter().any(is_own) {
                add(Verb::Head, &format!("{id}Head"));
            }
        }
    }
    let security = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(format!(
            "The token of the account in the path, of a login to the vault there, or of an address of its inbox, of at most {TOKEN_BYTES_MAX} bytes"
        )))
        .build();
    let mut components = ComponentsBuilder::new()
        .schemas_from_iter(schemas())
        .responses_from_iter(responses)
        .security_scheme(TOKEN, SecurityScheme::Http(security));
    for (name, header) in headers() {
        components = components.header(name, header);
    }
    for field in FIELDS {
        let (name, parameter) = parameter(*field);
        components = components.parameter(name, RefOr::T(parameter));
    }
    let info = InfoBuilder::new()
        .title("Strongroom server")
        .description(Some(DESCRIPTION))
        .version(VERSION)
        .build();
    let document = OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .components(Some(components.build()))
        .build();
    let mut text = document
        .to_pretty_json()
        .expect("the document has only texts and numbers");
    text.push('\n');
    text
}

fn method(verb: Verb) -> HttpMethod {
    match verb {
        Verb::Get => HttpMethod::Get,
        Verb::Head => HttpMethod::Head,
        Verb::Put => HttpMethod::Put,
        Verb::Post => HttpMethod::Post,
        Verb::Delete => HttpMethod::Delete,
    }
}

/// One request; what its answers have in common with others goes to `responses`.
fn described(
    operation: &Operation,
    in_path: &[Field],
    verb: Verb,
    id: &str,
    responses: &mut BTreeMap<String, Response>,
) -> path::Operation {
    let mut described = OperationBuilder::new()
        .operation_id(Some(id))
        .summary(Some(operation.summary));
    if !operation.description.is_empty() {
        described = described.description(Some(operation.description));
    }
    for field in in_path.iter().chain(operation.fields) {
        let name = parameter(*field).0;
        described = described.parameter_ref(Ref::new(format!("#/components/parameters/{name}")));
    }
    described = described.request_body(match operation.body {
        Body::None => None,
        Body::Object => Some(object_body()),
        Body::Login => Some(login_body()),
        Body::Deposit => Some(deposit_body()),
    });
    if operation.needs_token() {
        let none: [&str; 0] = [];
        described = described.security(SecurityRequirement::new(TOKEN, none));
    }
    for outcome in operation.outcomes {
        let (status, mut response) = answer(*outcome);
        if verb == Verb::Head {
            response.content.clear();
        }
        described = described.response(status, response);
    }
    let mut refusals: BTreeMap<u16, Vec<Refusal>> = BTreeMap::new();
    for refusal in operation.refusals() {
        refusals.entry(refusal.status()).or_default().push(refusal);
    }
    for (status, of_status) in refusals {
        let codes: Vec<_> = of_status.iter().map(|refusal| refusal.code()).collect();
        let mut name = format!("{status}-{}", codes.join("-"));
        let mut response = refused(&of_status);
        if verb == Verb::Head {
            name.push_str("-head");
            response.content.clear();
        }
        described = described.response(status.to_string(), Ref::from_response_name(&name));
        responses.insert(name, response);
    }
    described.build()
}

fn object_body() -> request_body::RequestBody {
    RequestBodyBuilder::new()
        .description(Some(format!(
            "The content, of the length in `Content-Length`: at most {OBJECT_BYTES_MAX} bytes; an object may be empty"
        )))
        .content(OCTETS, Content::new(Some(binary())))
        .build()
}

fn deposit_body() -> request_body::RequestBody {
    RequestBodyBuilder::new()
        .description(Some(format!(
            "What is sealed, of the length in `Content-Length`: at most {DEPOSIT_OBJECT_BYTES_MAX} bytes"
        )))
        .content(OCTETS, Content::new(Some(binary())))
        .build()
}

fn login_body() -> request_body::RequestBody {
    let login = RefOr::<Schema>::Ref(Ref::from_schema_name("Login"));
    RequestBodyBuilder::new()
        .description(Some(format!(
            "At most {LOGIN_BYTES_MAX} bytes; the content type of the request is not looked at"
        )))
        .content(JSON, Content::new(Some(login)))
        .required(Some(utoipa::openapi::Required::True))
        .build()
}

const OCTETS: &str = "application/octet-stream";
const JSON: &str = "application/json";

/// The answers to requests that were refused for one of these reasons, which have one status.
fn refused(refusals: &[Refusal]) -> Response {
    let named = |refusal: &Refusal| Ref::from_schema_name(problem_name(*refusal));
    let schema: RefOr<Schema> = match refusals {
        [refusal] => RefOr::Ref(named(refusal)),
        several => {
            let problems = several.iter().map(named);
            problems
                .fold(OneOfBuilder::new(), OneOfBuilder::item)
                .into()
        }
    };
    let reasons: Vec<_> = refusals
        .iter()
        .map(|refusal| format!("`{}`: {}", refusal.code(), refusal.title()))
        .collect();
    let mut response = ResponseBuilder::new()
        .description(reasons.join("; "))
        .header_ref(REFUSAL_HEADER, header_ref(REFUSAL_HEADER))
        .content(PROBLEM_TYPE, Content::new(Some(schema)));
    for (refusal, header) in [
        (Refusal::NoToken, "www-authenticate"),
        (Refusal::Busy, "retry-after"),
        (Refusal::TooMany, "retry-after"),
        (Refusal::TooFast, "retry-after"),
    ] {
        if refusals.contains(&refusal) {
            response = response.header_ref(header, header_ref(header));
        }
    }
    response.build()
}

/// The status of an answer that refuses nothing, and what it has.
fn answer(outcome: Outcome) -> (&'static str, Response) {
    let (status, description) = match outcome {
        Outcome::Text => ("200", "A text for people"),
        Outcome::Document => ("200", "A document of OpenAPI 3.1"),
        Outcome::Account => ("200", "The account"),
        Outcome::Page => ("200", "Names"),
        Outcome::Newest => ("200", "The number; 0 if there is none"),
        Outcome::Events => (
            "200",
            "Events, until the client or the server ends the answer",
        ),
        Outcome::Object => ("200", "The whole object"),
        Outcome::Part => ("206", "The requested part"),
        Outcome::Created => ("201", "The object is created and durable"),
        Outcome::Removed => ("204", "No object has that name any more"),
        Outcome::Challenge => ("200", "The challenge"),
        Outcome::Pass => ("200", "The token of the login"),
        Outcome::Address => ("200", "The document of the address"),
    };
    let mut response = ResponseBuilder::new().description(description);
    let named = |name: &str| RefOr::Ref(Ref::from_schema_name(name));
    let content: Option<(&str, RefOr<Schema>)> = match outcome {
        Outcome::Text => Some(("text/plain", text().into())),
        Outcome::Document => Some((JSON, ObjectBuilder::new().into())),
        Outcome::Account => Some((JSON, named("Account"))),
        Outcome::Page => Some((JSON, named("Page"))),
        Outcome::Newest => Some((JSON, named("Newest"))),
        Outcome::Challenge => Some((JSON, named("Challenge"))),
        Outcome::Pass => Some((JSON, named("Pass"))),
        Outcome::Events => Some(("text/event-stream", text().into())),
        Outcome::Object | Outcome::Part | Outcome::Address => Some((OCTETS, binary().into())),
        Outcome::Created | Outcome::Removed => None,
    };
    if let Some((kind, schema)) = content {
        response = response.content(kind, Content::new(Some(schema)));
    }
    let has: &[&str] = match outcome {
        Outcome::Object => &["accept-ranges", "cache-control", "strongroom-created"],
        Outcome::Part => &[
            "accept-ranges",
            "cache-control",
            "content-range",
            "strongroom-created",
        ],
        Outcome::Pass | Outcome::Address => &["cache-control"],
        _ => &[],
    };
    for name in has {
        response = response.header_ref(*name, header_ref(name));
    }
    (status, response.build())
}

fn header_ref(name: &str) -> Ref {
    Ref::new(format!("#/components/headers/{name}"))
}

/// Headers of answers.
fn headers() -> impl Iterator<Item = (&'static str, Header)> {
    let headers = [
        (
            REFUSAL_HEADER,
            text(),
            "The code of the refusal, as in the document",
        ),
        (
            "www-authenticate",
            text(),
            "The scheme of the token: `Bearer`",
        ),
        ("retry-after", number(), "Seconds"),
        ("accept-ranges", text(), "`bytes`"),
        ("cache-control", text(), "`no-store`"),
        (
            "content-range",
            text().pattern(Some("^bytes [0-9]+-[0-9]+/[0-9]+$")),
            "The first and the last byte of the part, and the length of the object",
        ),
        (
            "strongroom-created",
            number(),
            "When the object was created, in seconds since 1970",
        ),
    ];
    headers.into_iter().map(|(name, schema, what)| {
        let header = HeaderBuilder::new()
            .schema(Some(schema))
            .description(Some(what));
        (name, header.build())
    })
}

const FIELDS: &[Field] = &[
    Field::Account,
    Field::Vault,
    Field::Name,
    Field::Kind,
    Field::NameInKind,
    Field::ListedKind,
    Field::AfterName,
    Field::AfterNumber,
    Field::Wait,
    Field::Hash,
    Field::Range,
    Field::Deposit,
];

/// The name of a field among the components, and the field.
fn parameter(field: Field) -> (&'static str, path::Parameter) {
    use ParameterIn::{Header, Path, Query};
    let part = || word(PART_BYTES_MAX);
    let (component, name, place, schema, description) = match field {
        Field::Account => (
            "account",
            "account",
            Path,
            part(),
            "The name of the account",
        ),
        Field::Vault => ("vault", "vault", Path, part(), "The name of the vault"),
        Field::Name => (
            "name",
            "name",
            Path,
            word(NAME_BYTES_MAX),
            "The name of an object that has no kind",
        ),
        Field::Kind => (
            "kind",
            "kind",
            Path,
            word(NAME_BYTES_MAX - 2),
            "The kind of the object; only kinds of at most 64 bytes can be listed",
        ),
        Field::NameInKind => (
            "name-in-kind",
            "name",
            Path,
            word(NAME_BYTES_MAX - 2),
            "The name of the object below its kind; with the kind and the slash it has at most 200 bytes",
        ),
        Field::ListedKind => ("listed-kind", "kind", Query, part(), "The kind"),
        Field::AfterName => (
            "after-name",
            "after",
            Query,
            text()
                .pattern(Some("^([a-z0-9-][a-z0-9.-]*)?$"))
                .max_length(Some(NAME_BYTES_MAX - 2)),
            "Lists only names that come after this one, which is given without the kind; lists all names if the parameter is missing or empty",
        ),
        Field::AfterNumber => (
            "after-number",
            "after",
            Query,
            number(),
            "The number of the newest publication that the client knows; a missing one counts as 0",
        ),
        Field::Wait => (
            "wait",
            "wait",
            Query,
            number(),
            "The most seconds to wait; a value above 50 counts as 50, a missing one as 0",
        ),
        Field::Hash => (
            "hash",
            HASH_HEADER,
            Header,
            text().pattern(Some("^[0-9a-fA-F]{64}$")),
            "BLAKE3 of the content, in hexadecimal",
        ),
        Field::Range => (
            "range",
            "range",
            Header,
            text(),
            "The requested part, as `bytes=FIRST-LAST` or `bytes=FIRST-`; any other form gets the whole object",
        ),
        Field::Deposit => (
            "deposit",
            "deposit",
            Path,
            text().pattern(Some("^[0-9a-f]{32}([.][0-9a-f]{16}[.][0-9]{4})?$")),
            "The name of an envelope, or of a piece",
        ),
    };
    let is_required = !matches!(
        field,
        Field::AfterName | Field::AfterNumber | Field::Wait | Field::Range
    );
    let required = match is_required {
        true => utoipa::openapi::Required::True,
        false => utoipa::openapi::Required::False,
    };
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .schema(Some(schema))
        .description(Some(description));
    (component, parameter.build())
}

const _: () = assert!(
    WAIT_S_MAX == 50 && PART_BYTES_MAX == 64 && NAME_BYTES_MAX == 200,
    "texts of this file say so"
);
