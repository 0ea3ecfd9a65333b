//! Lets the fuzzer of this repository reach the decoders of the owner's socket, and of the state of an inbox. Nothing else uses it.
//!
//! Takes   bytes as another process may send them
//! Gives   whether they hold a message of one kind, with a function for each kind; examples of each kind
//! Never   belongs to the public API: any commit may change or remove it

use serde::Serialize;
use strongroom_filesystem::{RenameMode, SetAttributes};
use strongroom_format::Epoch;
use strongroom_format::deposit::{AddressId, DepositId};

use crate::inbox_state::{AddressEntry, InboxState, Received};
use crate::path::Links;
use crate::request::failure::Failure;
use crate::request::frame::{self, Arrival, ByteBuffer, Bytes};
use crate::request::steps::{Step, Steps};
use crate::request::{
    Access, CheckReport, Greeting, Handle, Opening, PROTOCOL, Request, Response, Successor,
    Welcome, WholeRequest,
};

/// Frames of greetings.
#[must_use]
pub fn greetings() -> Vec<Vec<u8>> {
    let greeting = |session| Greeting {
        protocol: PROTOCOL,
        session,
        access: Access::ReadWrite,
        successor: Successor::HasSecret,
    };
    vec![framed(&greeting(None)), framed(&greeting(Some(1 << 40)))]
}

/// Frames of answers to greetings.
#[must_use]
pub fn welcomes() -> Vec<Vec<u8>> {
    vec![framed(&Welcome::Session(7)), framed(&Welcome::OtherVersion)]
}

/// Frames of requests: with numbers, with bytes, with both and with neither.
#[must_use]
pub fn requests() -> Vec<Vec<u8>> {
    let (path, handle) = (Bytes(b"/a/file"), Handle(3));
    let requests = [
        Request::Attributes {
            path,
            links: Links::Follow,
        },
        Request::Open {
            path,
            opening: Opening::default(),
        },
        Request::SetHandleAttributes {
            handle,
            set: SetAttributes::default(),
        },
        Request::Read {
            handle,
            offset: 1 << 33,
            len: 65_536,
        },
        Request::Write {
            handle,
            offset: 4096,
            data: Bytes(&[7; 3000]),
        },
        Request::Rename {
            path,
            new_path: Bytes(b"/b"),
            mode: RenameMode::Exchange,
        },
        Request::Transaction {
            steps: Steps(vec![
                Step::RequireMissing {
                    path,
                    links: Links::Stay,
                },
                Step::WriteFile {
                    path,
                    mode: 0o600,
                    content: Bytes(&[7; 300]),
                },
            ]),
            durable: true,
        },
        Request::Lock {
            handle,
            kind: crate::request::lock::LockKind::Shared,
            patience: crate::request::lock::Patience::AMoment,
        },
        Request::Whole(WholeRequest::Check),
        Request::Whole(WholeRequest::InstallKeys {
            base: 7,
            header: Bytes(&[b'{'; 3000]),
            handover: Some(Bytes(&[1; 1168])),
            purpose: crate::request::Purpose::Rotation,
        }),
    ];
    requests.iter().map(framed).collect()
}

/// Frames of responses, those with lists among them.
#[must_use]
pub fn responses() -> Vec<Vec<u8>> {
    let responses = [
        Response::Done(()),
        Response::Data(ByteBuffer(vec![9; 2000])),
        Response::Names(vec![ByteBuffer(b"user.name".to_vec()); 20]),
        Response::Counters(vec![("commits".to_owned(), 12); 10]),
        Response::Check(CheckReport {
            inodes: 3,
            entries: 2,
            blocks: 1,
            problems: vec!["a problem".to_owned(); 5],
        }),
        Response::Failed(Failure::Storage("no".to_owned())),
        Response::OperationFailed(3, Failure::Closed),
        Response::KeysStale,
        Response::Left,
    ];
    responses.iter().map(framed).collect()
}

fn framed(message: &impl Serialize) -> Vec<u8> {
    let mut buffer = Vec::new();
    frame::encode(&mut buffer, message).expect("(seeds) holds: they are far shorter than a frame");
    buffer
}

/// States of an inbox: one with nothing, and one with addresses and deposits.
#[must_use]
pub fn inbox_states() -> Vec<Vec<u8>> {
    let address = |id: u8| AddressEntry {
        id: AddressId([id; 16]),
        remote: [1; 16],
        object: [2; 32],
        epoch: Epoch(3),
        label: "post".to_owned(),
        created_s: 1_764_000_000,
        is_withdrawn: id == 2,
    };
    let taking = |id: u8| Received {
        deposit: DepositId([id; 16]),
        node: 1 << 40,
        is_settled: id == 7,
        remote: (id > 3).then_some([1; 16]),
    };
    let full = InboxState {
        addresses: vec![address(1), address(2)],
        received: (0..20).map(taking).collect(),
    };
    vec![InboxState::default().encode(), full.encode()]
}

/// Whether `bytes` are the state of an inbox. Panics if they are not what it encodes to.
#[must_use]
pub fn is_inbox_state(bytes: &[u8]) -> bool {
    let state = InboxState::decode(bytes);
    if let Ok(state) = &state {
        assert_eq!(state.encode(), bytes, "one encoding");
    }
    state.is_ok()
}

/// Whether `stream` begins with a frame that holds a client's greeting.
#[must_use]
pub fn is_greeting(stream: &[u8]) -> bool {
    received(stream).is_some_and(|message| frame::decode::<Greeting>(&message).is_ok())
}

/// Whether `stream` begins with a frame that holds an owner's answer to a greeting.
#[must_use]
pub fn is_welcome(stream: &[u8]) -> bool {
    received(stream).is_some_and(|message| frame::decode::<Welcome>(&message).is_ok())
}

/// Whether `stream` begins with a frame that holds a client's request.
#[must_use]
pub fn is_request(stream: &[u8]) -> bool {
    received(stream).is_some_and(|message| frame::decode::<Request<'_>>(&message).is_ok())
}

/// Whether `stream` begins with a frame that holds an owner's response.
#[must_use]
pub fn is_response(stream: &[u8]) -> bool {
    received(stream).is_some_and(|message| frame::decode::<Response>(&message).is_ok())
}

fn received(mut stream: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    let arrival = frame::receive(&mut stream, &mut buffer);
    matches!(arrival, Ok(Arrival::Frame)).then_some(buffer)
}
