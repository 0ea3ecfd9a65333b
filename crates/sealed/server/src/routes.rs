//! The routes of a server: one for each request of the table in `operations.rs`.
//!
//! Takes   the handlers of requests
//! Gives   the routes of its two addresses
//! Never   has a route that the table does not have, except on the address for metrics

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::routing::{MethodRouter, delete, get, post, put};
use strongroom_remote::protocol::Refusal;

use crate::answers::Refused;
use crate::app::{self, App};
use crate::inbox;
use crate::openapi;
use crate::operations::{Endpoint, OPERATIONS, Verb};

/// The routes for clients.
pub(crate) fn for_clients(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for operation in OPERATIONS {
        // A route for GET answers HEAD, too.
        if operation.verb != Verb::Head {
            router = router.route(operation.route, handler(operation.endpoint));
        }
    }
    with_refusals(router)
        .layer(middleware::from_fn_with_state(Arc::clone(app), app::log))
        .with_state(Arc::clone(app))
}

/// The routes of the address for metrics. Nobody is asked for a token there.
pub(crate) fn for_metrics(app: &Arc<App>) -> Router {
    let router = Router::new()
        .route("/healthz", handler(Endpoint::Alive))
        .route("/readyz", handler(Endpoint::Ready))
        .route("/metrics", get(app::metrics));
    with_refusals(router).with_state(Arc::clone(app))
}

fn handler(of: Endpoint) -> MethodRouter<Arc<App>> {
    match of {
        Endpoint::Alive => get(async || "alive\n"),
        Endpoint::Ready => get(app::ready),
        Endpoint::WhatWeSee => get(async || include_str!("what_we_see.txt")),
        Endpoint::Document => {
            get(async || ([(CONTENT_TYPE, "application/json")], openapi::document()))
        }
        Endpoint::Account => get(app::account),
        Endpoint::List => get(app::list_objects),
        Endpoint::Create => put(app::create_object),
        Endpoint::Read => get(app::read_object),
        Endpoint::Remove => delete(app::remove_object),
        Endpoint::Publications => get(app::publications),
        Endpoint::Events => get(app::events),
        Endpoint::Challenge => post(app::challenge),
        Endpoint::LogIn => post(app::log_in),
        Endpoint::Inbox => get(inbox::address),
        Endpoint::Deposit => put(inbox::deposit),
    }
}

fn with_refusals(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .method_not_allowed_fallback(async || Refused(Refusal::NoSuchMethod))
        .fallback(async || Refused(Refusal::NoSuchPath))
}
