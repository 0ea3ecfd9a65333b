//! The owner's part of taking in deposits: opens them, which needs keys, and finds their files, wherever these are now.
//!
//! Takes   an envelope, and pieces, as a remote has them; the number of a node
//! Gives   their content, or why it does not open here; whether that node is still the file of the deposit
//! Never   asks a remote, or changes anything
//! Spec    spec/12-inbox.md

use strongroom_crypto::OpenDepositError;
use strongroom_filesystem::{Caller, Error as FileError, InodeId};
use strongroom_format::deposit::DepositId;

use crate::Result;
use crate::execute::session::Session;
use crate::inbox_state::{NOTE, note_head};
use crate::request::frame::ByteBuffer;
use crate::request::remote::DepositFields;

/// What the envelope of the deposit of that id says.
pub(crate) fn opened(session: &Session, id: [u8; 16], envelope: &[u8]) -> DepositFields {
    let opened =
        (session.vault).with_keys(|keys| keys.keyring().open_deposit(DepositId(id), envelope));
    match opened {
        Ok(opened) => DepositFields::Opened {
            name: ByteBuffer(opened.info.name),
            sender: opened.info.sender,
            size: opened.info.size,
            modified_ns: opened.info.modified_ns,
            address: opened.address.0,
            run: opened.run.0,
        },
        Err(OpenDepositError::UnknownEpoch(_)) => DepositFields::UnknownEpoch,
        Err(OpenDepositError::Unreadable) => DepositFields::Unreadable,
    }
}

/// The content in a piece of that deposit, or why there is none.
pub(crate) fn piece(
    session: &Session,
    (id, envelope): ([u8; 16], &[u8]),
    number: u64,
    piece: &[u8],
) -> std::result::Result<ByteBuffer, String> {
    let opened =
        (session.vault).with_keys(|keys| keys.keyring().open_deposit(DepositId(id), envelope));
    let clear = opened.and_then(|opened| opened.open_piece(number, piece));
    let clear = clear.map_err(|error| error.to_string())?;
    Ok(ByteBuffer(clear.to_vec()))
}

/// Whether the node of that number is there, and is the file of that deposit.
pub(crate) fn is_there(session: &Session, id: [u8; 16], node: u64) -> Result<bool> {
    let (filesystem, inode) = (session.filesystem(), InodeId(node));
    let found = filesystem.attributes(inode).and_then(|attributes| {
        let note = filesystem.xattr(&Caller::root(), inode, NOTE)?;
        Ok(attributes.nlink > 0 && note.starts_with(&note_head(DepositId(id), node)))
    });
    match found {
        Err(FileError::Stale | FileError::NotFound | FileError::NoAttribute) => Ok(false),
        found => Ok(found?),
    }
}
