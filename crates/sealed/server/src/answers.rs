//! The answers to refused requests.
//!
//! Takes   an error
//! Gives   a problem document with its status; a line in the log if the server is at fault
//! Never   includes the text of an internal error in an answer

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use strongroom_remote::protocol::{PROBLEM_TYPE, REFUSAL_HEADER, Refusal};

use crate::error::Error;
use crate::limits::DEPOSIT_EVERY_S;
use crate::request_log;

/// What a handler gives instead of an answer.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let refusal = error.refusal();
        if !matches!(error, Error::Refused(_)) {
            request_log::failed(&error);
        }
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        let mut answer = document(&refusal.problem());
        *answer.status_mut() =
            StatusCode::from_u16(refusal.status()).expect("each refusal has a valid HTTP status");
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        headers.insert(REFUSAL_HEADER, HeaderValue::from_static(refusal.code()));
        match refusal {
            Refusal::NoToken
            | Refusal::WrongToken
            | Refusal::NoAddress
            | Refusal::LoginNeeded
            | Refusal::LoginOver => {
                let scheme = HeaderValue::from_static("Bearer realm=\"strongroom\"");
                headers.insert(WWW_AUTHENTICATE, scheme);
            }
            Refusal::Busy | Refusal::TooFast => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Refusal::DatabaseAway | Refusal::ObjectsAway => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
            }
            Refusal::TooMany => {
                headers.insert(RETRY_AFTER, HeaderValue::from(DEPOSIT_EVERY_S));
            }
            _ => {}
        }
        answer
    }
}

/// An answer that is a JSON document.
pub(crate) fn document(value: &impl Serialize) -> Response {
    let text = serde_json::to_vec(value).expect("these documents have only strings and numbers");
    let mut answer = Response::new(Body::from(text));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}
