package io.strongroom.io;

import java.io.IOException;
import java.nio.channels.FileChannel;

/**
 * A channel of a file in a vault, with the name that it has in IOCipher. It is a {@link FileChannel} in every respect, and moves its position as
 * {@code lseek(2)} does, too.
 */
public abstract class IOCipherFileChannel extends FileChannel {
    /** {@link #lseek} counts from the start of the file. */
    public static final int SEEK_SET = 0;
    /** {@link #lseek} counts from the position. */
    public static final int SEEK_CUR = 1;
    /** {@link #lseek} counts from the end of the file. */
    public static final int SEEK_END = 2;

    /** Made when a file is opened. */
    protected IOCipherFileChannel() {}

    /**
     * Moves the position; gives the new one.
     *
     * @throws IllegalArgumentException if {@code whence} is not {@link #SEEK_SET}, {@link #SEEK_CUR} or {@link #SEEK_END}
     * @throws IOException if the position would be before the start
     */
    public abstract long lseek(long offset, int whence) throws IOException;

    @Override
    public abstract IOCipherFileChannel position(long position) throws IOException;

    @Override
    public abstract IOCipherFileChannel truncate(long size) throws IOException;
}
