package io.strongroom;

import io.strongroom.io.IOCipherFileChannel;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.FileLockInterruptionException;
import java.nio.channels.NonReadableChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/**
 * A file as a {@link FileChannel}. A mapping is a copy, so it is read-only. A lock on a part of the file keeps out other channels like a lock on
 * the whole file.
 */
final class VaultChannel extends IOCipherFileChannel {
    /** The largest piece of a buffer outside the heap that is copied at once. */
    private static final int PIECE_BYTES = 1 << 18;

    /** How long a thread that waits for a lock sleeps between two tries, at first and at most. */
    private static final long LOCK_PAUSE_MS = 1;

    private static final long LOCK_PAUSE_MAX_MS = 50;

    private final VaultFile file;
    private final VaultFileSystem fileSystem;
    private final int flags;
    private final boolean syncs;
    private final AutoCloseable after;

    /** The locks of this channel; also guards the lock of the file that they share. */
    private final List<Lock> locks = new ArrayList<>();

    /** {@code after} is closed behind the channel. */
    VaultChannel(VaultFileSystem fileSystem, VaultFile file, int flags, boolean syncs, AutoCloseable after) {
        this.fileSystem = fileSystem;
        this.file = file;
        this.flags = flags;
        this.syncs = syncs;
        this.after = after;
    }

    /** What removes an open file by its path, unless it was moved meanwhile: another one may be there then. */
    static AutoCloseable deletion(VaultPath at, VaultFile file) throws IOException {
        Object opened;
        try {
            opened = file.attributes().fileKey();
        } catch (IOException | RuntimeException error) {
            file.close();
            throw error;
        }
        return () -> {
            try {
                if (at.tree().stat(at.absolute(), false).fileKey().equals(opened)) {
                    at.tree().removeFile(at.absolute());
                }
            } catch (NoSuchFileException gone) {
                // As it was to be.
            }
        };
    }

    VaultFile file() {
        return file;
    }

    private boolean appends() {
        return (flags & VaultFile.APPEND) != 0;
    }

    private void checkReads() throws IOException {
        checkOpen();
        if ((flags & VaultFile.READ) == 0) {
            throw new NonReadableChannelException();
        }
    }

    private void checkWrites() throws IOException {
        checkOpen();
        if ((flags & (VaultFile.WRITE | VaultFile.APPEND)) == 0) {
            throw new NonWritableChannelException();
        }
    }

    private void checkOpen() throws ClosedChannelException {
        if (!isOpen()) {
            throw new ClosedChannelException();
        }
    }

    private static long notNegative(long number, String what) {
        if (number < 0) {
            throw new IllegalArgumentException(what + " is below 0");
        }
        return number;
    }

    // ---- bytes

    /** Reads at {@code offset}, or at the position for -1. */
    private int fill(ByteBuffer to, long offset) throws IOException {
        if (!to.hasRemaining()) {
            return 0;
        }
        boolean done = false;
        try {
            begin();
            int count = to.hasArray() ? fillArray(to, offset) : fillPieces(to, offset);
            done = true;
            return count == 0 ? -1 : count;
        } finally {
            end(done);
        }
    }

    private int read(long offset, byte[] to, int start, int len) throws IOException {
        return offset < 0 ? file.read(to, start, len) : file.readAt(offset, to, start, len);
    }

    private int fillArray(ByteBuffer to, long offset) throws IOException {
        int count = read(offset, to.array(), to.arrayOffset() + to.position(), to.remaining());
        to.position(to.position() + count);
        return count;
    }

    private int fillPieces(ByteBuffer to, long offset) throws IOException {
        byte[] piece = new byte[Math.min(to.remaining(), PIECE_BYTES)];
        int done = 0;
        while (to.hasRemaining()) {
            int wanted = Math.min(to.remaining(), piece.length);
            int count;
            try {
                count = read(offset < 0 ? -1 : offset + done, piece, 0, wanted);
            } catch (VaultException error) {
                if (done > 0) {
                    // As without pieces: what was read counts, and the next call gives the error.
                    break;
                }
                throw error;
            }
            to.put(piece, 0, count);
            done += count;
            if (count < wanted) {
                break;
            }
        }
        return done;
    }

    /** Writes at {@code offset}, or at the position for -1. */
    private int drain(ByteBuffer from, long offset) throws IOException {
        int len = from.remaining();
        boolean done = false;
        try {
            begin();
            byte[] piece = from.hasArray() ? from.array() : new byte[Math.min(len, PIECE_BYTES)];
            long at = offset;
            // After an error the buffer begins with what was not written: a program that tries again goes on there.
            while (from.hasRemaining()) {
                int part = Math.min(from.remaining(), from.hasArray() ? VaultFile.TRANSFER_BYTES : piece.length);
                if (from.hasArray()) {
                    write(at, piece, from.arrayOffset() + from.position(), part);
                } else {
                    from.duplicate().get(piece, 0, part);
                    write(at, piece, 0, part);
                }
                from.position(from.position() + part);
                at = offset < 0 ? -1 : at + part;
            }
            if (syncs) {
                file.sync();
            }
            done = true;
            return len;
        } finally {
            end(done);
        }
    }

    private void write(long offset, byte[] from, int start, int len) throws IOException {
        if (offset < 0) {
            file.write(from, start, len);
        } else {
            file.writeAt(offset, from, start, len);
        }
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        checkReads();
        return fill(to, -1);
    }

    @Override
    public int read(ByteBuffer to, long position) throws IOException {
        notNegative(position, "the position");
        checkReads();
        return fill(to, position);
    }

    @Override
    public long read(ByteBuffer[] to, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, to.length);
        checkReads();
        long done = 0;
        for (int index = offset; index < offset + length; index++) {
            int wanted = to[index].remaining();
            int count = fill(to[index], -1);
            if (count < 0) {
                return done == 0 ? -1 : done;
            }
            done += count;
            if (count < wanted) {
                break;
            }
        }
        return done;
    }

    @Override
    public int write(ByteBuffer from) throws IOException {
        checkWrites();
        return drain(from, -1);
    }

    @Override
    public int write(ByteBuffer from, long position) throws IOException {
        notNegative(position, "the position");
        checkWrites();
        return drain(from, position);
    }

    @Override
    public long write(ByteBuffer[] from, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, from.length);
        checkWrites();
        long done = 0;
        for (int index = offset; index < offset + length; index++) {
            done += drain(from[index], -1);
        }
        return done;
    }

    @Override
    public long position() throws IOException {
        checkOpen();
        return appends() ? size() : file.seek(0, VaultFile.From.CURRENT);
    }

    @Override
    public IOCipherFileChannel position(long position) throws IOException {
        checkOpen();
        notNegative(position, "the position");
        file.seek(position, VaultFile.From.START);
        return this;
    }

    @Override
    public long lseek(long offset, int whence) throws IOException {
        checkOpen();
        switch (whence) {
            case SEEK_SET:
                return file.seek(offset, VaultFile.From.START);
            case SEEK_CUR:
                return file.seek(offset, VaultFile.From.CURRENT);
            case SEEK_END:
                return file.seek(offset, VaultFile.From.END);
            default:
                throw new IllegalArgumentException("whence is SEEK_SET, SEEK_CUR or SEEK_END, not " + whence);
        }
    }

    @Override
    public long size() throws IOException {
        checkOpen();
        return file.attributes().size();
    }

    @Override
    public IOCipherFileChannel truncate(long size) throws IOException {
        notNegative(size, "the size");
        checkWrites();
        if (size < size()) {
            file.truncate(size);
        }
        if (file.seek(0, VaultFile.From.CURRENT) > size) {
            file.seek(size, VaultFile.From.START);
        }
        return this;
    }

    @Override
    public void force(boolean metaData) throws IOException {
        checkOpen();
        file.sync();
    }

    // ---- from channel to channel

    @Override
    public long transferTo(long position, long count, WritableByteChannel target) throws IOException {
        checkReads();
        if (!target.isOpen()) {
            throw new ClosedChannelException();
        }
        notNegative(position, "the position");
        notNegative(count, "the count");
        ByteBuffer piece = ByteBuffer.allocate((int) Math.min(count, VaultFile.TRANSFER_BYTES));
        long done = 0;
        while (done < count) {
            piece.clear().limit((int) Math.min(count - done, piece.capacity()));
            if (fill(piece, position + done) < 0) {
                break;
            }
            piece.flip();
            int wanted = piece.remaining();
            int written = target.write(piece);
            done += written;
            if (written < wanted) {
                break;
            }
        }
        return done;
    }

    @Override
    public long transferFrom(ReadableByteChannel source, long position, long count) throws IOException {
        checkWrites();
        if (!source.isOpen()) {
            throw new ClosedChannelException();
        }
        notNegative(position, "the position");
        notNegative(count, "the count");
        if (position > size()) {
            return 0;
        }
        ByteBuffer piece = ByteBuffer.allocate((int) Math.min(count, VaultFile.TRANSFER_BYTES));
        long done = 0;
        while (done < count) {
            piece.clear().limit((int) Math.min(count - done, piece.capacity()));
            if (source.read(piece) <= 0) {
                break;
            }
            piece.flip();
            done += drain(piece, position + done);
        }
        return done;
    }

    @Override
    public MappedByteBuffer map(MapMode mode, long position, long size) throws IOException {
        checkReads();
        notNegative(position, "the position");
        notNegative(size, "the size");
        if (size > Integer.MAX_VALUE) {
            throw new IllegalArgumentException("a mapping has at most 2 GiB");
        }
        if (mode == MapMode.READ_WRITE) {
            throw new UnsupportedOperationException("a file of a vault is mapped as a copy, which cannot be written");
        }
        // Before memory is taken for it: a size that a program made up would use up what there is.
        if (mode == MapMode.READ_ONLY && size > Math.max(0, size() - position)) {
            throw endsBefore();
        }
        ByteBuffer copy = ByteBuffer.allocateDirect((int) size);
        while (copy.hasRemaining() && fill(copy, position + copy.position()) > 0) {
            // Further.
        }
        if (copy.hasRemaining() && mode == MapMode.READ_ONLY) {
            throw endsBefore();
        }
        copy.clear();
        // Each buffer outside the heap is one of this class, as the class library has it since Java 1.4.
        return (MappedByteBuffer) (mode == MapMode.READ_ONLY ? copy.asReadOnlyBuffer() : copy);
    }

    private static IOException endsBefore() {
        return new IOException("the file ends before the end of the mapping");
    }

    // ---- locks

    /** A lock. */
    private static final class Lock extends FileLock {
        private final VaultChannel channel;
        private final long inode;
        private volatile boolean held = true;

        Lock(VaultChannel channel, long inode, long position, long size, boolean shared) {
            super(channel, position, size, shared);
            this.channel = channel;
            this.inode = inode;
        }

        @Override
        public boolean isValid() {
            return held && channel.isOpen();
        }

        @Override
        public void release() throws IOException {
            channel.checkOpen();
            if (held) {
                channel.release(this);
            }
        }
    }

    @Override
    public FileLock lock(long position, long size, boolean shared) throws IOException {
        Lock lock = wanted(position, size, shared);
        long pause = LOCK_PAUSE_MS;
        boolean done = false;
        try {
            begin();
            while (!take(lock)) {
                if (!isOpen()) {
                    throw new AsynchronousCloseException();
                }
                try {
                    TimeUnit.MILLISECONDS.sleep(pause);
                } catch (InterruptedException interrupted) {
                    // `end` closes the channel and says why.
                    Thread.currentThread().interrupt();
                    return null;
                }
                pause = Math.min(pause * 2, LOCK_PAUSE_MAX_MS);
            }
            done = true;
            return lock;
        } finally {
            if (!done) {
                forget(lock);
            }
            try {
                end(done);
            } catch (ClosedByInterruptException interrupted) {
                throw new FileLockInterruptionException();
            }
        }
    }

    @Override
    public FileLock tryLock(long position, long size, boolean shared) throws IOException {
        Lock lock = wanted(position, size, shared);
        boolean done = false;
        try {
            done = take(lock);
            return done ? lock : null;
        } finally {
            if (!done) {
                forget(lock);
            }
        }
    }

    private Lock wanted(long position, long size, boolean shared) throws IOException {
        if (shared) {
            checkReads();
        } else {
            checkWrites();
        }
        Lock lock = new Lock(this, file.attributes().inode(), position, size, shared);
        fileSystem.locks().add(lock.inode, lock);
        return lock;
    }

    private void forget(Lock lock) {
        lock.held = false;
        fileSystem.locks().remove(lock.inode, lock);
    }

    /** Takes the lock of the file unless an earlier lock of this channel has it; gives whether that could be. */
    private boolean take(Lock lock) throws IOException {
        synchronized (locks) {
            boolean isThere = locks.stream().anyMatch(one -> lock.isShared() || !one.isShared());
            if (!isThere) {
                try {
                    file.tryLock(lock.isShared());
                } catch (VaultException others) {
                    if (others.kind() == VaultException.Kind.LOCKED) {
                        return false;
                    }
                    throw others;
                }
            }
            locks.add(lock);
            return true;
        }
    }

    private void release(Lock lock) throws IOException {
        synchronized (locks) {
            forget(lock);
            if (locks.remove(lock) && locks.isEmpty()) {
                file.unlock();
            }
        }
    }

    @Override
    protected void implCloseChannel() throws IOException {
        synchronized (locks) {
            for (Lock lock : locks) {
                forget(lock);
            }
            locks.clear();
        }
        file.close();
        try {
            after.close();
        } catch (IOException | RuntimeException error) {
            throw error;
        } catch (Exception other) {
            throw new IOException(other);
        }
    }
}
