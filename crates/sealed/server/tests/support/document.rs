//! Compares answers of a server with its OpenAPI document.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::Answer;

/// The methods that OpenAPI has.
pub(crate) const METHODS: [&str; 8] = [
    "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE",
];

pub(crate) fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(strongroom_server::openapi_document()).unwrap());
    &DOCUMENT
}

/// A request of the document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// With the names of its fields in braces.
    pub(crate) path: &'static str,
    pub(crate) own: &'static Value,
}

impl Operation {
    pub(crate) fn id(&self) -> &'static str {
        self.own["operationId"].as_str().unwrap()
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.own.get("security").is_some()
    }

    /// The fields in its path, its query and its head, each with its name among the components.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &'static Value)> {
        let own = self.own.get("parameters").and_then(Value::as_array);
        own.into_iter().flatten().map(named).collect()
    }

    /// The codes of its refusals.
    pub(crate) fn codes(&self) -> BTreeSet<&'static str> {
        let responses = self.own["responses"].as_object().unwrap();
        responses
            .values()
            .flat_map(|response| codes(resolved(response)))
            .collect()
    }
}

/// Everything that the document has, in its order.
pub(crate) fn operations() -> impl Iterator<Item = Operation> {
    let paths = document()["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| {
            let own = item.get(method.to_lowercase())?;
            Some(Operation { method, path, own })
        })
    })
}

/// What a reference refers to, with its name.
fn named(reference: &'static Value) -> (&'static str, &'static Value) {
    let place = reference["$ref"].as_str().unwrap();
    let found = document().pointer(place.strip_prefix('#').unwrap());
    let name = place.rsplit('/').next().unwrap();
    (name, found.unwrap_or_else(|| panic!("{place} is missing")))
}

fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref") {
        Some(_) => named(value).1,
        None => value,
    }
}

/// The codes that a refusal of the document can have: its description names each before the words.
fn codes(response: &'static Value) -> Vec<&'static str> {
    if response["headers"].get("strongroom-refusal").is_none() {
        return Vec::new();
    }
    let text = response["description"].as_str().unwrap();
    let reasons = text.split("; ").filter(|part| part.starts_with('`'));
    reasons
        .map(|reason| reason[1..].split_once('`').unwrap().0)
        .collect()
}

/// Whether a client that has `form` can have spelled `target`.
fn fits(form: &str, target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap();
    let (form, path): (Vec<_>, Vec<_>) = (form.split('/').collect(), path.split('/').collect());
    form.len() == path.len()
        && form.iter().zip(&path).all(|(part, given)| {
            let is_field = part.starts_with('{');
            is_field && !given.is_empty() || part == given
        })
}

/// Fails if `answer` is none that the document has for this request, or that it says of every other.
pub(crate) fn check(method: &str, target: &str, answer: &Answer) {
    let about = format!("{method} {target}: {answer:?}");
    let of_path: Vec<_> = operations()
        .filter(|operation| fits(operation.path, target))
        .collect();
    let own = of_path.iter().find(|operation| operation.method == method);
    match own {
        Some(operation) => check_own(operation, answer, &about),
        None => {
            assert!((400..500).contains(&answer.status), "{about}");
            if !of_path.is_empty() {
                assert_eq!(answer.code(), "no-such-method", "{about}");
                let allowed: BTreeSet<_> = answer.header("allow").split(',').collect();
                let own: BTreeSet<_> = of_path.iter().map(|operation| operation.method).collect();
                assert_eq!(allowed, own, "{about}");
            }
            let problem = &document()["components"]["schemas"]["Problem"];
            check_refusal(method, answer, problem, &about);
        }
    }
}

fn check_own(operation: &Operation, answer: &Answer, about: &str) {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let status = answer.status.to_string();
    let response = operation.own["responses"].get(&status);
    let response = resolved(response.unwrap_or_else(|| panic!("it is not documented: {about}")));
    let headers = response.get("headers").and_then(Value::as_object);
    for (name, header) in headers.unwrap_or(&NONE) {
        let value = answer.header(name);
        assert!(!value.is_empty(), "{name} is missing: {about}");
        let schema = &named(header).1["schema"];
        let value = match schema["type"].as_str().unwrap() {
            "integer" => serde_json::from_str(value).unwrap(),
            _ => Value::from(value),
        };
        assert_fits(schema, &value, about);
    }
    let content = response.get("content").and_then(Value::as_object);
    let content = content.unwrap_or(&NONE);
    let kind = answer.header("content-type").split(';').next().unwrap();
    if operation.method == "HEAD" {
        assert!(content.is_empty() && answer.body.is_empty(), "{about}");
    } else if content.is_empty() {
        assert!(kind.is_empty() && answer.body.is_empty(), "{about}");
    }
    if answer.status >= 400 {
        assert!(codes(response).contains(&answer.code()), "{about}");
        let schema = content.get("application/problem+json");
        let schema = schema.map_or(&Value::Null, |content| &content["schema"]);
        check_refusal(operation.method, answer, schema, about);
        return;
    }
    if !content.is_empty() {
        let schema = content.get(kind).map(|content| &content["schema"]);
        let schema = schema.unwrap_or_else(|| panic!("{kind} is not documented: {about}"));
        if kind == "application/json" {
            assert_fits(schema, &answer.json(), about);
        }
    }
}

fn check_refusal(method: &str, answer: &Answer, schema: &'static Value, about: &str) {
    let kind = answer.header("content-type");
    assert_eq!(kind, "application/problem+json", "{about}");
    if method == "HEAD" {
        return;
    }
    let problem = answer.json();
    assert_fits(schema, &problem, about);
    assert_eq!(problem["status"], answer.status, "{about}");
    assert_eq!(problem["code"], answer.code(), "{about}");
    let uri = format!("urn:strongroom:problem:{}", answer.code());
    assert_eq!(problem["type"], uri, "{about}");
}

fn assert_fits(schema: &'static Value, value: &Value, about: &str) {
    if let Err(why) = admits(schema, value) {
        panic!("{why}: {about}");
    }
}

/// Whether `value` is one of `schema`, of which this knows what the document uses. A document that is sent has every property and no
/// other.
fn admits(schema: &'static Value, value: &Value) -> Result<(), String> {
    let schema = resolved(schema);
    let each = |list: &'static Value| list.as_array().unwrap().iter();
    if let Some(all) = schema.get("allOf") {
        return each(all).try_for_each(|one| match one.get("$ref") {
            Some(_) => admits(one, value),
            None => properties(one, value),
        });
    }
    if let Some(some) = schema.get("oneOf") {
        let fitting = each(some).filter(|one| admits(one, value).is_ok()).count();
        return (fitting == 1)
            .then_some(())
            .ok_or_else(|| format!("{fitting} of {some} are {value}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().map(|one| one.as_str().unwrap()).collect(),
        one => vec![one.as_str().unwrap()],
    };
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wrong = |what: &str| Err(format!("{what} of {schema} is wrong in {value}"));
    if !types.contains(&own) {
        return wrong("the type");
    }
    if schema
        .get("enum")
        .is_some_and(|all| !each(all).any(|one| one == value))
    {
        return wrong("the value");
    }
    if let Some(text) = value.as_str() {
        let least = schema.get("minLength").and_then(Value::as_u64);
        let most = schema.get("maxLength").and_then(Value::as_u64);
        let len = text.len() as u64;
        if len < least.unwrap_or(0) || len > most.unwrap_or(u64::MAX) {
            return wrong("the length");
        }
    }
    if let Some(items) = value.as_array() {
        return items
            .iter()
            .try_for_each(|item| admits(&schema["items"], item));
    }
    // The document that says what documents there are has no list of its own properties.
    let Some(of_object) = value
        .as_object()
        .filter(|_| schema.get("properties").is_some())
    else {
        return Ok(());
    };
    let documented: BTreeSet<_> = schema["properties"].as_object().unwrap().keys().collect();
    let required: BTreeSet<_> = each(&schema["required"])
        .map(|name| name.as_str().unwrap())
        .collect();
    let sent: BTreeSet<_> = of_object.keys().collect();
    if documented != sent || required.len() != documented.len() {
        return wrong("a property");
    }
    properties(schema, value)
}

fn properties(schema: &'static Value, value: &Value) -> Result<(), String> {
    let properties = schema["properties"].as_object().unwrap();
    properties
        .iter()
        .try_for_each(|(name, schema)| admits(schema, &value[name]))
}
