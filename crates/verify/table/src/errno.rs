//! The error numbers of `errno.h`, by their names.

use rustix::io::Errno;

/// The number that `name` stands for; `None` for one that no case of the table expects.
#[must_use]
pub fn errno(name: &str) -> Option<i32> {
    let number = match name {
        "E2BIG" => Errno::TOOBIG,
        "EACCES" => Errno::ACCESS,
        "EAGAIN" => Errno::AGAIN,
        "EBADF" => Errno::BADF,
        "EBADMSG" => Errno::BADMSG,
        "EBUSY" => Errno::BUSY,
        "EEXIST" => Errno::EXIST,
        "EFBIG" => Errno::FBIG,
        "EILSEQ" => Errno::ILSEQ,
        "EINVAL" => Errno::INVAL,
        "EISDIR" => Errno::ISDIR,
        "ELOOP" => Errno::LOOP,
        "ENAMETOOLONG" => Errno::NAMETOOLONG,
        "ENODATA" => Errno::NODATA,
        "ENOENT" => Errno::NOENT,
        "ENOTDIR" => Errno::NOTDIR,
        "ENOTEMPTY" => Errno::NOTEMPTY,
        "ENXIO" => Errno::NXIO,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        "EPERM" => Errno::PERM,
        "ERANGE" => Errno::RANGE,
        "EROFS" => Errno::ROFS,
        _ => return None,
    };
    Some(number.raw_os_error())
}
