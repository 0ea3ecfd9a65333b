package io.strongroom.io;

import java.io.IOException;
import java.io.SyncFailedException;
import java.nio.channels.FileChannel;

/** Like {@code java.io.FileDescriptor}, for an open file in a vault. The operating system has no number for such a file. */
public final class FileDescriptor {
    /** Null for that of no file. */
    private final FileChannel channel;

    /** That of no file; it is not valid. */
    public FileDescriptor() {
        this(null);
    }

    FileDescriptor(FileChannel channel) {
        this.channel = channel;
    }

    /** Whether its file is open. */
    public boolean valid() {
        return channel != null && channel.isOpen();
    }

    /** Makes content, size and attributes of the file durable. */
    public void sync() throws SyncFailedException {
        if (!valid()) {
            throw new SyncFailedException("the file is closed");
        }
        try {
            channel.force(true);
        } catch (IOException error) {
            SyncFailedException failed = new SyncFailedException(error.getMessage());
            failed.initCause(error);
            throw failed;
        }
    }

    @Override
    public String toString() {
        return "FileDescriptor[" + (valid() ? "open" : "closed") + "]";
    }
}
