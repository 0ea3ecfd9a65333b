//! Mounts on a folder, so that the kernel sends us requests: by mount(2) for root, by fusermount3 for other users.
//!
//! Takes   a prepared mount point and options
//! Gives   the descriptor on which requests arrive
//! Never   leaves a mount behind if it fails

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::detach::is_root;
use crate::error::MountError;
use crate::limits;
use crate::mountpoint::MountPoint;
use crate::options::{MountOptions, TYPE};

const DEVICE: &str = "/dev/fuse";
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts on `place`, whichever way this user can.
///
/// As root, on the open folder and not on its path. The helper looks at the path with the rights of the user.
pub(crate) fn attach(place: &MountPoint, options: &MountOptions) -> Result<OwnedFd, MountError> {
    if is_root() {
        directly(place, options)
    } else {
        through_helper(&place.path, options, &HELPERS)
    }
}

fn directly(place: &MountPoint, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MountError::DeviceMissing,
            _ if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                MountError::DeviceMissing
            }
            io::ErrorKind::PermissionDenied => MountError::Permission(DEVICE.into()),
            _ => MountError::Io {
                what: "opening /dev/fuse",
                source: error,
            },
        })?;
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let data = CString::new(options.data(device.as_raw_fd(), uid, gid))
        .expect("numbers and fixed words hold no zero byte");
    let target = format!("/proc/self/fd/{}", place.folder.as_raw_fd());
    rustix::mount::mount(
        options.source(),
        target,
        TYPE,
        options.flags(),
        data.as_c_str(),
    )
    .map_err(|errno| match errno {
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => {
            MountError::Permission(place.path.clone())
        }
        rustix::io::Errno::NODEV => MountError::DeviceMissing,
        errno => MountError::Io {
            what: "mount",
            source: errno.into(),
        },
    })?;
    Ok(device.into())
}

/// fusermount3 mounts, and sends the descriptor over the socket that it finds as its standard input.
fn through_helper(
    path: &Path,
    options: &MountOptions,
    helpers: &[&str],
) -> Result<OwnedFd, MountError> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(
            |errno| MountError::Io {
                what: "socketpair",
                source: errno.into(),
            },
        )?;
    let mut helper = start_helper(path, options, helpers, theirs)?;
    let received = receive(&ours);
    drop(ours);
    let mut words = String::new();
    if let Some(stderr) = helper.stderr.take() {
        // What it says is shown only; if it cannot be read, its exit status still counts.
        let _ = stderr
            .take(limits::STATUS_BYTES_MAX)
            .read_to_string(&mut words);
    }
    let status = helper
        .wait()
        .map_err(MountError::io("waiting for fusermount3"))?;
    match received {
        Ok(Some(device)) if status.success() => Ok(device),
        Err(source) if status.success() => Err(MountError::Io {
            what: "receiving from fusermount3",
            source,
        }),
        _ => Err(refusal(&words)),
    }
}

fn start_helper(
    path: &Path,
    options: &MountOptions,
    helpers: &[&str],
    socket: OwnedFd,
) -> Result<Child, MountError> {
    for helper in helpers {
        let socket = socket
            .try_clone()
            .map_err(MountError::io("duplicating a socket"))?;
        let started = Command::new(helper)
            .arg("-o")
            .arg(options.helper_options())
            .arg("--")
            .arg(path)
            .env("_FUSE_COMMFD", "0")
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        match started {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            started => return started.map_err(MountError::io("starting fusermount3")),
        }
    }
    Err(MountError::HelperMissing)
}

/// One descriptor with one byte; `None` if the other end was closed without.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        let mut data = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(socket, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

fn refusal(words: &str) -> MountError {
    if words.contains("user_allow_other") {
        MountError::AllowOtherNotPermitted
    } else if words.contains("fuse device not found") {
        MountError::DeviceMissing
    } else {
        MountError::HelperRefused(words.trim().to_owned())
    }
}

/// Raises the read-ahead of the mount with that `device` as root; else the kernel's 128 KiB remain.
///
/// To be called when INIT is answered (the kernel sets its own value then) and before files are opened
/// (they keep what they found).
pub(crate) fn raise_read_ahead(device: &str) {
    let setting = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(error) = std::fs::write(setting, limits::READ_AHEAD_KIB.to_string()) {
        log::debug!("the read-ahead stays at the kernel's default: {error}");
    }
}

/// Lets the kernel keep more of this mount than the hundredth of memory that it grants a process it does not trust.
/// Root only, as above.
pub(crate) fn raise_write_back(device: &str) {
    for (name, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
        if let Err(error) = std::fs::write(format!("/sys/class/bdi/{device}/{name}"), value) {
            log::debug!("{name} stays at the kernel's default: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_helper_is_named() {
        let options = MountOptions::default();
        let missing = through_helper(
            Path::new("/nowhere"),
            &options,
            &["no-such-helper-of-strongroom"],
        );
        assert!(matches!(missing, Err(MountError::HelperMissing)));
    }

    /// Goal: whoever owns the folder above a mount point cannot make root mount elsewhere. Method: the mount point is swapped
    /// for a link between the look at it and the mount. Failed before: `mount` was given the path, and followed the link.
    /// SECURITY.md, claim 20.
    #[test]
    fn a_link_that_is_swapped_in_after_the_checks_is_not_mounted_on() {
        use crate::{mountinfo, mountpoint};
        if !is_root() || !Path::new(DEVICE).exists() {
            eprintln!("left out: this needs root and /dev/fuse");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = |name| root.join(name);
        std::fs::create_dir_all(path("above/mnt")).unwrap();
        std::fs::create_dir(path("elsewhere")).unwrap();
        let place = mountpoint::prepare(&path("above/mnt")).unwrap();
        std::fs::rename(path("above/mnt"), path("above/moved")).unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path("above/mnt")).unwrap();
        let device = attach(&place, &MountOptions::default()).unwrap();
        let is_mounted = |name| mountinfo::mount_at(&path(name)).unwrap().is_some();
        let found = (is_mounted("above/moved"), is_mounted("elsewhere"));
        drop(device);
        for name in ["above/moved", "elsewhere"] {
            let _ = rustix::mount::unmount(path(name), rustix::mount::UnmountFlags::DETACH);
        }
        assert_eq!(found, (true, false));
    }

    #[test]
    fn a_helper_that_sends_nothing_has_refused() {
        let options = MountOptions::default();
        let refused = through_helper(Path::new("/nowhere"), &options, &["false"]);
        assert!(matches!(refused, Err(MountError::HelperRefused(_))));
        let silent = through_helper(Path::new("/nowhere"), &options, &["true"]);
        assert!(matches!(silent, Err(MountError::HelperRefused(_))));
    }

    #[test]
    fn a_descriptor_that_is_sent_arrives() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        use std::os::fd::AsFd;
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut &file, b"sent").unwrap();
        let descriptors = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let data = [io::IoSlice::new(b"x")];
        rustix::net::sendmsg(&theirs, &data, &mut ancillary, SendFlags::empty()).unwrap();
        let received = std::fs::File::from(receive(&ours).unwrap().unwrap());
        assert_eq!(received.metadata().unwrap().len(), 4);
        drop(theirs);
        assert!(receive(&ours).unwrap().is_none());
    }

    #[test]
    fn the_words_of_the_helper_are_understood() {
        let words = "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf";
        assert!(matches!(refusal(words), MountError::AllowOtherNotPermitted));
        let other = refusal("fusermount3: mountpoint is not empty\n");
        assert!(matches!(other, MountError::HelperRefused(words) if words.ends_with("not empty")));
    }
}
