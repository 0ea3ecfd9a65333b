//! Recognizes the segment files that one run of the program began, by the first bytes of their names.

use strongroom_format::SegmentId;

/// The setting that names the runs which may have left segment files behind.
pub(crate) const SESSIONS: &str = "segment_sessions";

/// Whether one of the runs that the setting names began this file.
pub(crate) fn is_of_session(sessions: &[u8], id: &SegmentId) -> bool {
    sessions
        .chunks_exact(8)
        .any(|session| id.0.starts_with(session))
}
