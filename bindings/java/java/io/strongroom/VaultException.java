package io.strongroom;

import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonReadableChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.file.AccessDeniedException;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;

/**
 * An error that only vaults have, or an error of file systems for which Java has no exception: {@link #kind} distinguishes the two, and
 * {@link #errno} gives the exact error. All other errors are thrown as Java's own exceptions: {@link NoSuchFileException},
 * {@link FileAlreadyExistsException}, {@link DirectoryNotEmptyException}, {@link AccessDeniedException}, {@link FileSystemLoopException}.
 */
public final class VaultException extends FileSystemException {
    private static final long serialVersionUID = 1;

    /** What a program does about it. */
    public enum Kind {
        /** As any file system says it; {@link #errno} tells all. */
        SYSTEM,
        /** It was closed. Most calls throw {@link ClosedFileSystemException} or {@link ClosedChannelException} then. */
        CLOSED,
        /** The folder holds no vault. */
        NOT_A_VAULT,
        /** There is a vault already, or the folder holds other things. */
        VAULT_EXISTS,
        /** No secret was given, or it opens no key slot. */
        WRONG_SECRET,
        /** The vault is older than what was seen of it, or another than the one that is meant. */
        UNTRUSTED,
        /** Another process has the vault open, and it cannot be used through that one. */
        IN_USE,
        /** The process that had the vault open has gone: the last call may or may not have been carried out. */
        OWNER_GONE,
        /** Another open file holds a lock. */
        LOCKED,
        /** The process that kept the lock has gone: others may have had it since. */
        LOCK_LOST,
        /** What a transaction read was changed by somebody else: begin it again. */
        CHANGED,
        /** Stored bytes are missing or not as they were written. They are never read as content. */
        DAMAGED,
        /** The selector means no snapshot, or several. */
        NO_SUCH_SNAPSHOT,
        /** Something is wrong with a remote. */
        REMOTE,
        /** Whoever heard of the progress stopped it. */
        STOPPED,
        /** Anything else; with the number of {@code EIO} also a bug of the library. */
        OTHER;

        private static final Kind[] ALL = values();

        static Kind of(int number) {
            return number >= 0 && number < ALL.length ? ALL[number] : OTHER;
        }
    }

    private final int errno;
    private final Kind kind;

    VaultException(String file, String other, String reason, int errno, Kind kind) {
        super(file, other, reason);
        this.errno = errno;
        this.kind = kind;
    }

    /** The number of {@code errno.h}, as Linux has it. */
    public int errno() {
        return errno;
    }

    /** What a program does about it. */
    public Kind kind() {
        return kind;
    }

    /** The number of {@code errno.h} that stands for any exception of this package; 0 for one of others. */
    public static int errnoOf(Throwable error) {
        if (error instanceof VaultException) {
            return ((VaultException) error).errno;
        }
        if (error instanceof NoSuchFileException) {
            return Errno.ENOENT;
        }
        if (error instanceof FileAlreadyExistsException) {
            return Errno.EEXIST;
        }
        if (error instanceof DirectoryNotEmptyException) {
            return Errno.ENOTEMPTY;
        }
        if (error instanceof AccessDeniedException) {
            return Errno.EACCES;
        }
        if (error instanceof FileSystemLoopException) {
            return Errno.ELOOP;
        }
        boolean closed = error instanceof ClosedChannelException
                || error instanceof ClosedFileSystemException
                || error instanceof NonReadableChannelException
                || error instanceof NonWritableChannelException;
        return closed ? Errno.EBADF : 0;
    }
}
