//! The table of requests: what a server answers to each method at each path, and how it refuses.
//!
//! Takes   nothing
//! Gives   for each request its path, its fields, its answers, and the refusals that its handler can give
//! Never   names a handler, as `routes.rs` does, or a type of OpenAPI, as `openapi.rs` does
//!
//! Invariants
//!  (1) A request that is not in the table reaches no handler: `routes.rs` makes routes only from the table.
//!  (2) A handler gives no refusal that its entry does not name: tests compare every answer that they get.

use strongroom_remote::protocol::Refusal;

/// What answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Alive,
    Ready,
    WhatWeSee,
    Document,
    Account,
    List,
    Create,
    Read,
    Remove,
    Publications,
    Events,
    Challenge,
    LogIn,
    Inbox,
    Deposit,
}

/// The methods of the table. HEAD is answered wherever GET is; an entry of its own says what is different then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Head,
    Put,
    Post,
    Delete,
}

/// What a client puts into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Account,
    Vault,
    /// The whole name of an object, which has no kind.
    Name,
    /// The kind of an object in its path.
    Kind,
    /// The name of an object below its kind.
    NameInKind,
    /// The kind whose objects are listed.
    ListedKind,
    /// The last name of the page before.
    AfterName,
    /// The number of a publication that is known.
    AfterNumber,
    Wait,
    Hash,
    Range,
    /// The name of an envelope or of a piece.
    Deposit,
}

/// An answer that is no refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Text,
    Document,
    Account,
    Page,
    Newest,
    Events,
    Object,
    Part,
    Created,
    Removed,
    Challenge,
    Pass,
    Address,
}

/// Whether a request has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Object,
    Login,
    Deposit,
}

/// A path as clients spell it, with the fields that are in it.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) path: &'static str,
    pub(crate) fields: &'static [Field],
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) endpoint: Endpoint,
    pub(crate) verb: Verb,
    /// What generated clients call it.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    /// The path as `axum` spells it, where one field may hold a slash.
    pub(crate) route: &'static str,
    pub(crate) forms: &'static [Form],
    /// The fields in the query and in the head.
    pub(crate) fields: &'static [Field],
    pub(crate) body: Body,
    pub(crate) outcomes: &'static [Outcome],
    refusals: &'static [&'static [Refusal]],
}

impl Operation {
    /// The refusals that its handler can give, each once.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = Refusal> {
        self.refusals.iter().copied().flatten().copied()
    }

    /// Whether a request needs a token.
    pub(crate) fn needs_token(&self) -> bool {
        self.refusals().any(|refusal| refusal == Refusal::NoToken)
    }

    /// Whether too many of them are refused: all but those by which a balancer asks, as behind one all clients have its address.
    pub(crate) fn is_bounded(&self) -> bool {
        self.refusals().any(|refusal| refusal == Refusal::TooFast)
    }
}

/// The first entry with that route: what it says of tokens and bounds holds for all of them.
pub(crate) fn of_route(route: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.route == route)
}

/// The refusals of every request that carries a token. `Busy`: another process has the database for too long, or there
/// are too many transfers. `DatabaseAway`, `ObjectsAway`: of several instances, which store everything elsewhere.
const OF_ACCOUNT: &[Refusal] = &[
    Refusal::NoToken,
    Refusal::WrongToken,
    Refusal::LoginOver,
    Refusal::OtherAccount,
    Refusal::Suspended,
    Refusal::Name,
    Refusal::TooFast,
    Refusal::Busy,
    Refusal::DatabaseAway,
    Refusal::Failed,
];

/// The refusals of every request that needs the bytes of objects.
const OF_OBJECTS: &[Refusal] = &[Refusal::ObjectsAway];

/// The refusals of every request about the objects of a vault, which the server may follow.
const OF_VAULT: &[Refusal] = &[
    Refusal::LoginNeeded,
    Refusal::OtherVault,
    Refusal::DeviceRemoved,
];

/// The refusals of every request that carries the token of an address of an inbox.
const OF_INBOX: &[Refusal] = &[
    Refusal::NoToken,
    Refusal::WrongToken,
    Refusal::NoAddress,
    Refusal::Suspended,
    Refusal::Name,
    Refusal::TooFast,
    Refusal::Busy,
    Refusal::DatabaseAway,
    Refusal::Failed,
];

/// No refusals: such a request reads no disk and asks nobody.
const NEVER: &[&[Refusal]] = &[];

/// The refusals of a page that everybody may read, and that no balancer asks for.
const OF_PAGE: &[&[Refusal]] = &[&[Refusal::TooFast]];

const IN_VAULT: &[Field] = &[Field::Account, Field::Vault];

const OBJECTS: &str = "/v1/vaults/{account}/{vault}/objects";
const OBJECT: &str = "/v1/vaults/{account}/{vault}/objects/{*name}";
const OBJECT_FORMS: &[Form] = &[
    Form {
        path: "/v1/vaults/{account}/{vault}/objects/{name}",
        fields: &[Field::Account, Field::Vault, Field::Name],
    },
    Form {
        path: "/v1/vaults/{account}/{vault}/objects/{kind}/{name}",
        fields: &[Field::Account, Field::Vault, Field::Kind, Field::NameInKind],
    },
];
const PUBLICATIONS: &str = "/v1/vaults/{account}/{vault}/publications";
const EVENTS: &str = "/v1/vaults/{account}/{vault}/publications/events";
const CHALLENGE: &str = "/v1/vaults/{account}/{vault}/challenge";
const LOGIN: &str = "/v1/vaults/{account}/{vault}/login";
const INBOX: &str = "/v1/vaults/{account}/{vault}/inbox";
const DEPOSIT: &str = "/v1/vaults/{account}/{vault}/inbox/{deposit}";

/// A page that everybody may read.
const fn public(
    endpoint: Endpoint,
    id: &'static str,
    summary: &'static str,
    forms: &'static [Form],
) -> Operation {
    Operation {
        endpoint,
        verb: Verb::Get,
        id,
        summary,
        description: "",
        route: forms[0].path,
        forms,
        fields: &[],
        body: Body::None,
        outcomes: &[Outcome::Text],
        refusals: NEVER,
    }
}

/// All requests.
pub(crate) const OPERATIONS: &[Operation] = &[
    public(
        Endpoint::Alive,
        "alive",
        "Whether the server runs",
        &[Form {
            path: "/healthz",
            fields: &[],
        }],
    ),
    Operation {
        refusals: &[
            &[Refusal::Busy, Refusal::DatabaseAway, Refusal::Failed],
            OF_OBJECTS,
        ],
        ..public(
            Endpoint::Ready,
            "ready",
            "Whether the server can work",
            &[Form {
                path: "/readyz",
                fields: &[],
            }],
        )
    },
    Operation {
        refusals: OF_PAGE,
        ..public(
            Endpoint::WhatWeSee,
            "whatWeSee",
            "What the server can see about those who use it",
            &[Form {
                path: "/v1/what-we-see",
                fields: &[],
            }],
        )
    },
    Operation {
        outcomes: &[Outcome::Document],
        refusals: OF_PAGE,
        ..public(
            Endpoint::Document,
            "document",
            "This document",
            &[Form {
                path: "/v1/openapi.json",
                fields: &[],
            }],
        )
    },
    Operation {
        endpoint: Endpoint::Account,
        verb: Verb::Get,
        id: "account",
        summary: "What an account uses and may use",
        description: "",
        route: "/v1/accounts/{account}",
        forms: &[Form {
            path: "/v1/accounts/{account}",
            fields: &[Field::Account],
        }],
        fields: &[],
        body: Body::None,
        outcomes: &[Outcome::Account],
        refusals: &[OF_ACCOUNT],
    },
    Operation {
        endpoint: Endpoint::List,
        verb: Verb::Get,
        id: "listObjects",
        summary: "Objects of one kind, in order of their names",
        description: "A vault that has no object yet is empty. If there are `more`, ask again with the last name as `after`.",
        route: OBJECTS,
        forms: &[Form {
            path: OBJECTS,
            fields: IN_VAULT,
        }],
        fields: &[Field::ListedKind, Field::AfterName],
        body: Body::None,
        outcomes: &[Outcome::Page],
        refusals: &[OF_ACCOUNT, OF_VAULT, &[Refusal::Parameter]],
    },
    Operation {
        endpoint: Endpoint::Create,
        verb: Verb::Put,
        id: "createObject",
        summary: "Creates an object, if there is none of that name",
        description: "Give the length of the content in `Content-Length`. Objects never change. A publication is an object of the kind `publications` \
            whose name is its number in 16 digits: it must be the number after the last. If the name of an object contains a hash, as the name of a \
            segment does, the content must have that hash.",
        route: OBJECT,
        forms: OBJECT_FORMS,
        fields: &[Field::Hash],
        body: Body::Object,
        outcomes: &[Outcome::Created],
        refusals: &[
            OF_ACCOUNT,
            OF_VAULT,
            OF_OBJECTS,
            &[
                Refusal::OnlyDevices,
                Refusal::OtherMembers,
                Refusal::WrongHeader,
                Refusal::NoLength,
                Refusal::TooLong,
                Refusal::Length,
                Refusal::NoHash,
                Refusal::Hash,
                Refusal::Slow,
                Refusal::AlreadyThere,
                Refusal::OutOfOrder,
                Refusal::BytesUsed,
                Refusal::ObjectsUsed,
                Refusal::VaultsUsed,
                Refusal::DiskFull,
            ],
        ],
    },
    Operation {
        endpoint: Endpoint::Read,
        verb: Verb::Get,
        id: "readObject",
        summary: "The content of an object, or a part of it",
        description: "",
        route: OBJECT,
        forms: OBJECT_FORMS,
        fields: &[Field::Range],
        body: Body::None,
        outcomes: &[Outcome::Object, Outcome::Part],
        refusals: &[
            OF_ACCOUNT,
            OF_VAULT,
            OF_OBJECTS,
            &[Refusal::NoObject, Refusal::Range],
        ],
    },
    Operation {
        endpoint: Endpoint::Read,
        verb: Verb::Head,
        id: "findObject",
        summary: "The length of an object, and when it was created",
        description: "",
        route: OBJECT,
        forms: OBJECT_FORMS,
        fields: &[],
        body: Body::None,
        outcomes: &[Outcome::Object],
        refusals: &[OF_ACCOUNT, OF_VAULT, &[Refusal::NoObject]],
    },
    Operation {
        endpoint: Endpoint::Remove,
        verb: Verb::Delete,
        id: "removeObject",
        summary: "Removes an object, if there is one of that name",
        description: "The operator of the server can set that an account keeps what is removed for some days. Then the request is refused with `kept` until \
            so many days have passed since the first one for that object; `kept_until_s` in a listing says when that is. Objects of the kinds `addresses`, \
            `deposits`, `needs`, `pairing`, `pieces` and `probes` are not kept. An earlier publication goes before a later one.",
        route: OBJECT,
        forms: OBJECT_FORMS,
        fields: &[],
        body: Body::None,
        outcomes: &[Outcome::Removed],
        refusals: &[
            OF_ACCOUNT,
            OF_VAULT,
            &[
                Refusal::OnlyDevices,
                Refusal::Stays,
                Refusal::NewestStays,
                Refusal::Kept,
                Refusal::DiskFull,
            ],
        ],
    },
    Operation {
        endpoint: Endpoint::Publications,
        verb: Verb::Get,
        id: "newestPublication",
        summary: "The number of the newest publication",
        description: "The answer comes at once if there is a publication after `after`; otherwise when the next one is created, or when the time to wait is over.",
        route: PUBLICATIONS,
        forms: &[Form {
            path: PUBLICATIONS,
            fields: IN_VAULT,
        }],
        fields: &[Field::AfterNumber, Field::Wait],
        body: Body::None,
        outcomes: &[Outcome::Newest],
        refusals: &[OF_ACCOUNT, OF_VAULT, &[Refusal::Parameter]],
    },
    Operation {
        endpoint: Endpoint::Events,
        verb: Verb::Get,
        id: "followPublications",
        summary: "The number of the newest publication whenever it changes, as server-sent events",
        description: "The data of each event is a document `Newest`. The answer ends with the server, or after a quarter of an hour.",
        route: EVENTS,
        forms: &[Form {
            path: EVENTS,
            fields: IN_VAULT,
        }],
        fields: &[Field::AfterNumber],
        body: Body::None,
        outcomes: &[Outcome::Events],
        refusals: &[OF_ACCOUNT, OF_VAULT, &[Refusal::Parameter]],
    },
    Operation {
        endpoint: Endpoint::Challenge,
        verb: Verb::Post,
        id: "challenge",
        summary: "Gives a challenge to a client that wants to log in to a vault",
        description: "The request carries the token of the account. The challenge can be answered once.",
        route: CHALLENGE,
        forms: &[Form {
            path: CHALLENGE,
            fields: IN_VAULT,
        }],
        fields: &[],
        body: Body::None,
        outcomes: &[Outcome::Challenge],
        refusals: &[OF_ACCOUNT, &[Refusal::NoHeader]],
    },
    Operation {
        endpoint: Endpoint::LogIn,
        verb: Verb::Post,
        id: "logIn",
        summary: "Logs in a device or a key slot of a vault",
        description: "The request carries the token of the account. The answer has a token for this vault alone. `spec/11-sync.md`, 11.11, says what \
            is signed. After the first login of a member, the server follows the vault: it knows the members. From then on the token of the account, \
            without a login, is enough only for a first fetch and for a pairing.",
        route: LOGIN,
        forms: &[Form {
            path: LOGIN,
            fields: IN_VAULT,
        }],
        fields: &[],
        body: Body::Login,
        outcomes: &[Outcome::Pass],
        refusals: &[
            OF_ACCOUNT,
            OF_OBJECTS,
            &[
                Refusal::TooLong,
                Refusal::Slow,
                Refusal::Parameter,
                Refusal::Length,
                Refusal::NoChallenge,
                Refusal::OtherServer,
                Refusal::WrongLogin,
                Refusal::DeviceRemoved,
                Refusal::NotMember,
                Refusal::OtherMembers,
                Refusal::NoHeader,
            ],
        ],
    },
    Operation {
        endpoint: Endpoint::Inbox,
        verb: Verb::Get,
        id: "inbox",
        summary: "The address of an inbox, with the public key that deposits are sealed to",
        description: "The request carries the token of the address instead of the token of an account. `spec/12-inbox.md`, 12.1, says what the bytes are. \
            A client with another token gets the same refusal whether the account, the vault or the address does not exist.",
        route: INBOX,
        forms: &[Form {
            path: INBOX,
            fields: IN_VAULT,
        }],
        fields: &[],
        body: Body::None,
        outcomes: &[Outcome::Address],
        refusals: &[OF_INBOX, OF_OBJECTS],
    },
    Operation {
        endpoint: Endpoint::Deposit,
        verb: Verb::Put,
        id: "deposit",
        summary: "Creates a piece of a deposit, or its envelope, which completes it",
        description: "The request carries the token of an address of the inbox. The name of an envelope has 32 hexadecimal digits. The name of a piece is \
            the name of its envelope, a dot, 16 hexadecimal digits, a dot, and the number of the piece in 4 digits. `spec/12-inbox.md`, 12.3 and 12.4, \
            says what they contain. A depositor can neither read nor list nor remove them.",
        route: DEPOSIT,
        forms: &[Form {
            path: DEPOSIT,
            fields: &[Field::Account, Field::Vault, Field::Deposit],
        }],
        fields: &[Field::Hash],
        body: Body::Deposit,
        outcomes: &[Outcome::Created],
        refusals: &[
            OF_INBOX,
            OF_OBJECTS,
            &[
                Refusal::NoLength,
                Refusal::TooLong,
                Refusal::Length,
                Refusal::NoHash,
                Refusal::Hash,
                Refusal::Slow,
                Refusal::AlreadyThere,
                Refusal::TooMany,
                Refusal::InboxFull,
                Refusal::DiskFull,
            ],
        ],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_entry_names_each_refusal_once_and_each_is_named_by_one() {
        let mut named = BTreeSet::new();
        for operation in OPERATIONS {
            let own: BTreeSet<_> = operation.refusals().collect();
            assert_eq!(own.len(), operation.refusals().count(), "{}", operation.id);
            named.extend(own);
        }
        // Those of a request that is not in the table.
        named.extend([Refusal::NoSuchPath, Refusal::NoSuchMethod]);
        assert_eq!(named, Refusal::ALL.iter().copied().collect());
    }

    /// Goal: what is looked up by a route alone holds for every request with that route.
    #[test]
    fn all_entries_of_a_route_say_the_same_of_tokens_and_bounds() {
        let said = |of: &Operation| (of.needs_token(), of.is_bounded());
        for operation in OPERATIONS {
            let first = of_route(operation.route).map(said);
            assert_eq!(first, Some(said(operation)), "{}", operation.id);
            // Whoever shows a token is counted.
            assert!(operation.is_bounded() || !operation.needs_token());
        }
        assert!(of_route("").is_none());
    }

    #[test]
    fn a_path_holds_the_fields_that_its_form_names() {
        for operation in OPERATIONS {
            for form in operation.forms {
                let places = form.path.matches('{').count();
                assert_eq!(places, form.fields.len(), "{}", form.path);
            }
            let (first, _) = operation
                .route
                .split_once("{*")
                .unwrap_or((operation.route, ""));
            let own = operation
                .forms
                .iter()
                .all(|form| form.path.starts_with(first));
            assert!(own, "{}", operation.id);
        }
    }
}
