package io.strongroom.io;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.StandardOpenOption;

/** Like {@code java.io.FileInputStream}, for a file in a vault. */
public class FileInputStream extends InputStream {
    private final IOCipherFileChannel channel;

    /** Opens a file to read it. */
    public FileInputStream(String path) throws FileNotFoundException {
        this(new File(path));
    }

    /** Opens a file to read it. */
    public FileInputStream(File file) throws FileNotFoundException {
        channel = Opened.of(file, StandardOpenOption.READ);
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] to, int start, int len) throws IOException {
        return channel.read(ByteBuffer.wrap(to, start, len));
    }

    /** Moves the position; also backwards, and beyond the end. */
    @Override
    public long skip(long count) throws IOException {
        long from = channel.position();
        if (from + count < 0) {
            throw new IOException("a position before the start");
        }
        channel.position(from + count);
        return count;
    }

    @Override
    public int available() throws IOException {
        return (int) Math.min(Integer.MAX_VALUE, Math.max(0, channel.size() - channel.position()));
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
