package io.strongroom.io;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.StandardOpenOption;

/** Like {@code java.io.FileOutputStream}, for a file in a vault. Written data is durable after {@code getChannel().force(true)}. */
public class FileOutputStream extends OutputStream {
    private final IOCipherFileChannel channel;

    /** Makes or empties a file, to write it. */
    public FileOutputStream(String path) throws FileNotFoundException {
        this(new File(path), false);
    }

    /** Makes a file, or empties it unless {@code append}, to write it. */
    public FileOutputStream(String path, boolean append) throws FileNotFoundException {
        this(new File(path), append);
    }

    /** Makes or empties a file, to write it. */
    public FileOutputStream(File file) throws FileNotFoundException {
        this(file, false);
    }

    /** Makes a file, or empties it unless {@code append}, to write it. */
    public FileOutputStream(File file, boolean append) throws FileNotFoundException {
        channel = Opened.of(
                file,
                StandardOpenOption.CREATE,
                StandardOpenOption.WRITE,
                append ? StandardOpenOption.APPEND : StandardOpenOption.TRUNCATE_EXISTING);
    }

    @Override
    public void write(int one) throws IOException {
        write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] from, int start, int len) throws IOException {
        channel.write(ByteBuffer.wrap(from, start, len));
    }

    /** The file as a channel, with the same position. */
    public IOCipherFileChannel getChannel() {
        return channel;
    }

    /** What tells whether the file is open, and makes it durable. */
    public FileDescriptor getFD() throws IOException {
        return new FileDescriptor(channel);
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
