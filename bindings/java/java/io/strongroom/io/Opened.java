package io.strongroom.io;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.OpenOption;

/** Opens files, and throws the exceptions of {@code java.io}. */
final class Opened {
    private Opened() {}

    static IOCipherFileChannel of(File file, OpenOption... options) throws FileNotFoundException {
        if (file.isDirectory()) {
            throw isDirectory(file);
        }
        try {
            FileChannel opened = FileChannel.open(file.opened(), options);
            if (opened instanceof IOCipherFileChannel) {
                return (IOCipherFileChannel) opened;
            }
            // It was put there a moment ago.
            opened.close();
            throw isDirectory(file);
        } catch (FileNotFoundException notThere) {
            throw notThere;
        } catch (IOException error) {
            String reason = error instanceof FileSystemException ? ((FileSystemException) error).getReason() : error.getMessage();
            FileNotFoundException thrown =
                    new FileNotFoundException(file.getPath() + " (" + (reason == null ? error.getClass().getSimpleName() : reason) + ")");
            thrown.initCause(error);
            throw thrown;
        }
    }

    private static FileNotFoundException isDirectory(File file) {
        return new FileNotFoundException(file.getPath() + " (is a directory)");
    }
}
