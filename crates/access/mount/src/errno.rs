//! Turns errors of the file system into the error numbers that programs know. No other file of this crate does that.
//!
//! Takes   a `strongroom::filesystem::Error`
//! Gives   a `fuser::Errno`; a fault that operators should know of is logged, by inode and offset and never by name
//! Never   gives ENOSYS, which would disable an operation for the whole connection

use fuser::Errno;
use strongroom::filesystem::Error;

/// The number for `error`; logs it when the environment or tampering is at fault.
pub(crate) fn errno(error: &Error) -> Errno {
    if !is_callers(error) {
        log::error!("{error}");
    }
    number(error)
}

fn number(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotADirectory => Errno::ENOTDIR,
        Error::IsADirectory => Errno::EISDIR,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::NameTooLong => Errno::ENAMETOOLONG,
        Error::InvalidName | Error::InvalidArgument(_) => Errno::EINVAL,
        Error::PermissionDenied => Errno::EACCES,
        Error::NotPermitted => Errno::EPERM,
        Error::TooManyLinks => Errno::EMLINK,
        Error::FileTooLarge => Errno::EFBIG,
        // ENODATA.
        Error::NoAttribute | Error::Erased { .. } => Errno::NO_XATTR,
        Error::ValueTooLarge => Errno::ERANGE,
        Error::NotSupported => Errno::EOPNOTSUPP,
        Error::NoSuchOffset => Errno::ENXIO,
        Error::WouldBlock => Errno::EAGAIN,
        Error::Stale => Errno::ESTALE,
        Error::NoSpace => Errno::ENOSPC,
        Error::QuotaExceeded => Errno::EDQUOT,
        Error::ReadOnly | Error::InSnapshot => Errno::EROFS,
        // Content that only a remote has, which did not give it; or that the remotes have lost.
        Error::OnlyAtRemote(_) | Error::LostAtRemote(_) => Errno::EIO,
        // Failed, Metadata, Segments, Damaged and whatever is added later.
        _ => Errno::EIO,
    }
}

/// Whether the caller alone is at fault, so that nobody else needs to hear of it.
fn is_callers(error: &Error) -> bool {
    !matches!(number(error), Errno::EIO | Errno::ENOSPC | Errno::EDQUOT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom::filesystem::InodeId;

    #[test]
    fn every_error_of_a_caller_has_the_number_that_posix_names() {
        let cases = [
            (Error::NotFound, 2),
            (Error::NotPermitted, 1),
            (Error::PermissionDenied, 13),
            (Error::Exists, 17),
            (Error::NotADirectory, 20),
            (Error::IsADirectory, 21),
            (Error::InvalidName, 22),
            (Error::InvalidArgument("offset".into()), 22),
            (Error::FileTooLarge, 27),
            (Error::NoSpace, 28),
            (Error::ReadOnly, 30),
            (Error::InSnapshot, 30),
            (Error::TooManyLinks, 31),
            (Error::ValueTooLarge, 34),
            (Error::NameTooLong, 36),
            (Error::NotEmpty, 39),
            (Error::NoAttribute, 61),
            (Error::NoSuchOffset, 6),
            (Error::WouldBlock, 11),
            (Error::NotSupported, 95),
            (Error::Stale, 116),
            (Error::QuotaExceeded, 122),
        ];
        for (error, number) in cases {
            assert_eq!(errno(&error).code(), number, "{error}");
        }
    }

    #[test]
    fn damage_and_failure_are_input_output_errors() {
        assert_eq!(errno(&Error::Failed), Errno::EIO);
        assert_eq!(errno(&Error::OnlyAtRemote("away".into())), Errno::EIO);
        assert_eq!(
            errno(&Error::Damaged {
                inode: InodeId(7),
                offset: 9
            }),
            Errno::EIO
        );
    }

    #[test]
    fn only_the_environment_is_logged() {
        assert!(is_callers(&Error::NotFound));
        assert!(is_callers(&Error::ReadOnly));
        assert!(!is_callers(&Error::Failed));
        assert!(!is_callers(&Error::NoSpace));
        assert!(!is_callers(&Error::Damaged {
            inode: InodeId(7),
            offset: 9
        }));
    }
}
