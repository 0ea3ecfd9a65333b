//! Carries out requests about a vault as a whole: its facts, settings and keys.
//!
//! Takes   a session and a request
//! Gives   a response within the length limit of answers

use strongroom_filesystem::{self as filesystem, Filesystem};

use crate::Result;
use crate::execute::session::Session;
use crate::keyring::held_keys::Installed;
use crate::request::{CheckReport, Response, WholeRequest};

/// Carries out a request about the whole vault.
pub(crate) fn execute(session: &Session, request: &WholeRequest<'_>) -> Result<Response> {
    let filesystem = session.filesystem();
    Ok(match request {
        WholeRequest::Space => filesystem.space()?.into(),
        WholeRequest::Quota => filesystem.quota().into(),
        WholeRequest::SetQuota { bytes } => filesystem.set_quota(*bytes)?.into(),
        WholeRequest::SetKeepAtMost { bytes } => filesystem.set_keep_at_most(*bytes)?.into(),
        WholeRequest::SetCompression(compression) => {
            filesystem.set_compression(*compression)?.into()
        }
        WholeRequest::Sync => filesystem.sync()?.into(),
        WholeRequest::Information => session.vault.information()?.into(),
        WholeRequest::Counters => session.vault.counters().into(),
        WholeRequest::Compact => filesystem.compact()?.into(),
        WholeRequest::Rotation => session.vault.rotation()?.into(),
        WholeRequest::InstallKeys {
            base,
            header,
            handover,
            purpose,
        } => match session.vault.install_keys(
            *base,
            header.0,
            handover.as_ref().map(|handover| handover.0),
            *purpose,
        )? {
            Installed::Yes => Response::Done(()),
            Installed::Stale => Response::KeysStale,
        },
        WholeRequest::AcceptRecords => {
            let vault = &session.vault;
            vault
                .on_keys(|keys| keys.accept_records(&vault.filesystem))?
                .into()
        }
        WholeRequest::Check => check(filesystem)?.into(),
    })
}

/// What the structural check says.
pub(crate) fn check(filesystem: &Filesystem) -> Result<CheckReport> {
    Ok(report(filesystem.check()?))
}

/// The problems of `found`, which are bounded, with the count of those that it does not list in one last line.
fn report(found: filesystem::CheckReport) -> CheckReport {
    let mut problems = found.problems;
    let more = found.problem_count.saturating_sub(problems.len() as u64);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    CheckReport {
        inodes: found.inodes,
        entries: found.entries,
        blocks: found.blocks,
        problems,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failed before: problems beyond those that the check lists were not counted, but left out without a word.
    #[test]
    fn problems_that_are_not_listed_are_counted() {
        let found = |problem_count| filesystem::CheckReport {
            problems: vec!["a problem".to_owned(); 2],
            problem_count,
            ..filesystem::CheckReport::default()
        };
        assert_eq!(report(found(2)).problems, ["a problem"; 2]);
        let problems = report(found(1202)).problems;
        assert_eq!(problems, ["a problem", "a problem", "and 1200 more"]);
    }
}
