package io.strongroom.io;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.OpenOption;

/** Opens files, and throws the exceptions of {@code java.io}. */
final class Opened {
    private Opened() {}

    static FileChannel of(File file, OpenOption... options) throws FileNotFoundException {
        if (file.isDirectory()) {
            throw new FileNotFoundException(file.getPath() + " (is a directory)");
        }
        try {
            return FileChannel.open(file.opened(), options);
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
}
