package io.strongroom;

import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.nio.file.AccessDeniedException;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;

/** Why a call of the library failed. This package turns it into the exception that a Java program expects, and never throws it to programs. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int errno;
    private final transient VaultException.Kind kind;

    Failure(int errno, VaultException.Kind kind, String message) {
        // The exception that it becomes has the trace.
        super(message, null, false, false);
        this.errno = errno;
        this.kind = kind;
    }

    int errno() {
        return errno;
    }

    VaultException.Kind kind() {
        return kind;
    }

    /** The exception of a call about paths; each may be null. */
    IOException about(String path, String other) {
        if (kind == VaultException.Kind.CLOSED) {
            throw new ClosedFileSystemException();
        }
        if (kind == VaultException.Kind.SYSTEM && path != null) {
            switch (errno) {
                case Errno.ENOENT:
                    return new NoSuchFileException(path, other, null);
                case Errno.EEXIST:
                    return new FileAlreadyExistsException(path, other, null);
                case Errno.ENOTEMPTY:
                    return new DirectoryNotEmptyException(other == null ? path : other);
                case Errno.EACCES:
                    return new AccessDeniedException(path, other, null);
                case Errno.ELOOP:
                    return new FileSystemLoopException(path);
                default:
            }
        }
        return new VaultException(path, other, getMessage(), errno, kind);
    }

    /** The exception of a call about an open file. */
    IOException aboutFile() {
        if (kind == VaultException.Kind.CLOSED) {
            return new ClosedChannelException();
        }
        return new VaultException(null, null, getMessage(), errno, kind);
    }
}
