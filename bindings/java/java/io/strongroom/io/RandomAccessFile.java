package io.strongroom.io;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInput;
import java.io.DataInputStream;
import java.io.DataOutput;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.NonWritableChannelException;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;

/** Like {@code java.io.RandomAccessFile}, for a file in a vault. */
public class RandomAccessFile implements DataInput, DataOutput, Closeable {
    private final IOCipherFileChannel channel;

    /** Opens a file; {@code mode} is {@code r}, {@code rw}, {@code rws} or {@code rwd}. */
    public RandomAccessFile(String path, String mode) throws FileNotFoundException {
        this(new File(path), mode);
    }

    /** Opens a file; {@code mode} is {@code r}, {@code rw}, {@code rws} or {@code rwd}. */
    public RandomAccessFile(File file, String mode) throws FileNotFoundException {
        channel = Opened.of(file, options(mode));
    }

    private static OpenOption[] options(String mode) {
        switch (mode) {
            case "r":
                return new OpenOption[] {StandardOpenOption.READ};
            case "rw":
                return new OpenOption[] {StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE};
            case "rws":
            case "rwd":
                return new OpenOption[] {
                    StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE, StandardOpenOption.SYNC
                };
            default:
                throw new IllegalArgumentException("the mode \"" + mode + "\" is not r, rw, rws or rwd");
        }
    }

    /** The file as a channel, with the same position. */
    public IOCipherFileChannel getChannel() {
        return channel;
    }

    /** What tells whether the file is open, and makes it durable. */
    public FileDescriptor getFD() throws IOException {
        return new FileDescriptor(channel);
    }

    /** The position. */
    public long getFilePointer() throws IOException {
        return channel.position();
    }

    /** Moves the position. */
    public void seek(long position) throws IOException {
        if (position < 0) {
            throw new IOException("a position before the start");
        }
        channel.position(position);
    }

    /** The size. */
    public long length() throws IOException {
        return channel.size();
    }

    /** Cuts the file, or extends it by zeros. */
    public void setLength(long size) throws IOException {
        long old = channel.size();
        if (size < old) {
            channel.truncate(size);
        } else if (size > old) {
            channel.write(ByteBuffer.allocate(1), size - 1);
        }
    }

    // ---- bytes

    /** The next byte; -1 at the end. */
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    /** Reads some bytes; gives how many, -1 at the end. */
    public int read(byte[] to) throws IOException {
        return read(to, 0, to.length);
    }

    /** Reads some bytes; gives how many, -1 at the end. */
    public int read(byte[] to, int start, int len) throws IOException {
        return channel.read(ByteBuffer.wrap(to, start, len));
    }

    @Override
    public void readFully(byte[] to) throws IOException {
        readFully(to, 0, to.length);
    }

    @Override
    public void readFully(byte[] to, int start, int len) throws IOException {
        int done = 0;
        while (done < len) {
            int count = read(to, start + done, len - done);
            if (count < 0) {
                throw new EOFException();
            }
            done += count;
        }
    }

    @Override
    public int skipBytes(int count) throws IOException {
        long from = getFilePointer();
        long to = Math.min(length(), from + Math.max(0, count));
        if (to <= from) {
            return 0;
        }
        seek(to);
        return (int) (to - from);
    }

    @Override
    public void write(int one) throws IOException {
        write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] from) throws IOException {
        write(from, 0, from.length);
    }

    @Override
    public void write(byte[] from, int start, int len) throws IOException {
        try {
            channel.write(ByteBuffer.wrap(from, start, len));
        } catch (NonWritableChannelException readsOnly) {
            throw new IOException("the file was opened for reading only", readsOnly);
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }

    // ---- values, the highest byte first

    private ByteBuffer value(int bytes) throws IOException {
        byte[] value = new byte[bytes];
        readFully(value);
        return ByteBuffer.wrap(value);
    }

    @Override
    public boolean readBoolean() throws IOException {
        return readByte() != 0;
    }

    @Override
    public byte readByte() throws IOException {
        return value(1).get();
    }

    @Override
    public int readUnsignedByte() throws IOException {
        return readByte() & 0xff;
    }

    @Override
    public short readShort() throws IOException {
        return value(2).getShort();
    }

    @Override
    public int readUnsignedShort() throws IOException {
        return readShort() & 0xffff;
    }

    @Override
    public char readChar() throws IOException {
        return value(2).getChar();
    }

    @Override
    public int readInt() throws IOException {
        return value(4).getInt();
    }

    @Override
    public long readLong() throws IOException {
        return value(8).getLong();
    }

    @Override
    public float readFloat() throws IOException {
        return value(4).getFloat();
    }

    @Override
    public double readDouble() throws IOException {
        return value(8).getDouble();
    }

    @Override
    public String readLine() throws IOException {
        StringBuilder line = new StringBuilder();
        int one = read();
        if (one < 0) {
            return null;
        }
        while (one >= 0 && one != '\n' && one != '\r') {
            line.append((char) one);
            one = read();
        }
        if (one == '\r') {
            long behind = getFilePointer();
            if (read() != '\n') {
                seek(behind);
            }
        }
        return line.toString();
    }

    @Override
    public String readUTF() throws IOException {
        return DataInputStream.readUTF(this);
    }

    private interface Put {
        void to(DataOutputStream out) throws IOException;
    }

    private void put(Put put) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        put.to(new DataOutputStream(bytes));
        write(bytes.toByteArray());
    }

    @Override
    public void writeBoolean(boolean value) throws IOException {
        write(value ? 1 : 0);
    }

    @Override
    public void writeByte(int value) throws IOException {
        write(value);
    }

    @Override
    public void writeShort(int value) throws IOException {
        put(out -> out.writeShort(value));
    }

    @Override
    public void writeChar(int value) throws IOException {
        put(out -> out.writeChar(value));
    }

    @Override
    public void writeInt(int value) throws IOException {
        put(out -> out.writeInt(value));
    }

    @Override
    public void writeLong(long value) throws IOException {
        put(out -> out.writeLong(value));
    }

    @Override
    public void writeFloat(float value) throws IOException {
        put(out -> out.writeFloat(value));
    }

    @Override
    public void writeDouble(double value) throws IOException {
        put(out -> out.writeDouble(value));
    }

    @Override
    public void writeBytes(String text) throws IOException {
        put(out -> out.writeBytes(text));
    }

    @Override
    public void writeChars(String text) throws IOException {
        put(out -> out.writeChars(text));
    }

    @Override
    public void writeUTF(String text) throws IOException {
        put(out -> out.writeUTF(text));
    }
}
