//! Carries out requests about a vault as a whole: its facts, settings and keys.
//!
//! Takes   a session and a request
//! Gives   a response, no longer than an answer may be

use strongroom_filesystem::Filesystem;

use crate::Result;
use crate::execute::session::Session;
use crate::keyring::held_keys::Installed;
use crate::request::{CheckReport, Response, WholeRequest};

/// How many problems a check reports; more are counted in one last line.
const PROBLEMS_MAX: usize = 1000;

/// Carries out a request about the whole vault.
pub(crate) fn execute(session: &Session, request: &WholeRequest<'_>) -> Result<Response> {
    let filesystem = session.filesystem();
    match request {
        WholeRequest::Space => Ok(filesystem.space()?.into()),
        WholeRequest::Quota => Ok(Response::Quota(filesystem.quota())),
        WholeRequest::SetQuota { bytes } => {
            filesystem.set_quota(*bytes)?;
            Ok(Response::Done)
        }
        WholeRequest::SetCompression(compression) => {
            filesystem.set_compression((*compression).into())?;
            Ok(Response::Done)
        }
        WholeRequest::Sync => {
            filesystem.sync()?;
            Ok(Response::Done)
        }
        WholeRequest::Information => Ok(Response::Information(session.engine.information())),
        WholeRequest::Counters => Ok(Response::Counters(session.engine.counters())),
        WholeRequest::Compact => {
            filesystem.compact()?;
            Ok(Response::Done)
        }
        WholeRequest::Rotation => Ok(Response::Rotation(session.engine.rotation()?)),
        WholeRequest::InstallKeys {
            base,
            header,
            handover,
            purpose,
        } => match session.engine.install_keys(
            *base,
            header.0,
            handover.as_ref().map(|handover| handover.0),
            *purpose,
        )? {
            Installed::Yes => Ok(Response::Done),
            Installed::Stale => Ok(Response::KeysStale),
        },
        WholeRequest::AcceptRecords => {
            let engine = &session.engine;
            engine.on_keys(|keys| keys.accept_records(&engine.filesystem))?;
            Ok(Response::Done)
        }
        WholeRequest::Check => Ok(Response::Check(check(filesystem)?)),
    }
}

/// What the structural check says, no longer than an answer may be.
pub(crate) fn check(filesystem: &Filesystem) -> Result<CheckReport> {
    let report = filesystem.check()?;
    let mut problems = report.problems;
    if problems.len() > PROBLEMS_MAX {
        let more = problems.len() - PROBLEMS_MAX;
        problems.truncate(PROBLEMS_MAX);
        problems.push(format!("and {more} more"));
    }
    Ok(CheckReport {
        inodes: report.inodes,
        entries: report.entries,
        blocks: report.blocks,
        problems,
    })
}
