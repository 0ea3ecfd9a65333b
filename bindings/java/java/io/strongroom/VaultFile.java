package io.strongroom;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.file.Path;

/**
 * An open file, with operations that {@link java.nio.channels.FileChannel} lacks: reserving space, holes, copies that share content.
 * May be used by many threads at once.
 */
public final class VaultFile implements AutoCloseable {
    /** To read. */
    public static final int READ = 1;
    /** To write. */
    public static final int WRITE = 2;
    /** To write at the end only. */
    public static final int APPEND = 4;
    /** To empty it first; with {@link #WRITE}. */
    public static final int TRUNCATE = 8;
    /** To make it if it does not exist. */
    public static final int CREATE = 16;
    /** To make it, and fail if it exists. */
    public static final int CREATE_NEW = 32;

    /** The most bytes that the library moves in one call. */
    static final int TRANSFER_BYTES = 1 << 20;

    /** What to do with a range, as {@code fallocate(2)}. */
    public enum Allocate {
        /** Reserve room, extend the size. */
        RESERVE,
        /** Reserve room, leave the size. */
        RESERVE_KEEP_SIZE,
        /** Make a hole, leave the size. */
        PUNCH_HOLE,
        /** Make zeros, extend the size. */
        ZERO,
        /** Make zeros, leave the size. */
        ZERO_KEEP_SIZE
    }

    /** From where {@link #seek} counts. */
    public enum From {
        /** The start of the file. */
        START,
        /** The position now. */
        CURRENT,
        /** The end of the file. */
        END
    }

    private final Tree tree;
    private final Handle handle;

    VaultFile(Tree tree, long number) {
        this.tree = tree;
        this.handle = new Handle(this, number, false);
    }

    /**
     * Reads at most {@code len} bytes at the position, which moves on; gives how many, 0 at the end. They are fewer than {@code len} at the
     * end, or if something fails behind those. The next call gives the error.
     */
    public int read(byte[] to, int start, int len) throws IOException {
        return onward(to, start, len, false);
    }

    /** Writes all at the position, which moves on; a file that appends writes at its end. */
    public void write(byte[] from, int start, int len) throws IOException {
        onward(from, start, len, true);
    }

    /** Reads at most {@code len} bytes at {@code offset}; gives how many, fewer only at the end. The position stays. */
    public int readAt(long offset, byte[] to, int start, int len) throws IOException {
        return at(offset, to, start, len, false);
    }

    /** Writes all at {@code offset}; the position stays. */
    public void writeAt(long offset, byte[] from, int start, int len) throws IOException {
        at(offset, from, start, len, true);
    }

    private int onward(byte[] bytes, int start, int len, boolean writes) throws IOException {
        java.util.Objects.checkFromIndexSize(start, len, bytes.length);
        int done = 0;
        try {
            do {
                int part = Math.min(len - done, TRANSFER_BYTES);
                int count = part;
                if (writes) {
                    Native.writeOn(handle.number(), bytes, start + done, part);
                } else {
                    count = Native.readOn(handle.number(), bytes, start + done, part);
                }
                done += count;
                if (count == 0) {
                    break;
                }
            } while (done < len);
            return done;
        } catch (Failure failure) {
            if (!writes && done > 0) {
                // The position is behind what was read: a program that tried again would miss it.
                return done;
            }
            throw failure.aboutFile();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private int at(long offset, byte[] bytes, int start, int len, boolean writes) throws IOException {
        java.util.Objects.checkFromIndexSize(start, len, bytes.length);
        try {
            int done = 0;
            do {
                int part = Math.min(len - done, TRANSFER_BYTES);
                int count = part;
                if (writes) {
                    Native.writeAt(handle.number(), offset + done, bytes, start + done, part);
                } else {
                    count = Native.readAt(handle.number(), offset + done, bytes, start + done, part);
                }
                done += count;
                if (count < part) {
                    break;
                }
            } while (done < len);
            return done;
        } catch (Failure failure) {
            throw failure.aboutFile();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Moves the position; gives the new one. */
    public long seek(long by, From from) throws IOException {
        return ask(file -> Native.seek(file, by, from.ordinal()));
    }

    /** What {@code stat} shows. */
    public NodeAttributes attributes() throws IOException {
        return new NodeAttributes(tree.identity(), ask(Native::fileStat));
    }

    /** Cuts the file, or extends it by a hole. */
    public void truncate(long size) throws IOException {
        set(new Changes().size(size));
    }

    /** Makes content, size and attributes durable. */
    public void sync() throws IOException {
        tell(Native::syncFile);
    }

    /** Reserves, punches or zeroes a range. */
    public void allocate(Allocate how, long offset, long len) throws IOException {
        tell(file -> Native.allocate(file, how.ordinal(), offset, len));
    }

    /** The next byte at or behind {@code offset} that was written. */
    public long findData(long offset) throws IOException {
        return ask(file -> Native.find(file, false, offset));
    }

    /** The next hole at or behind {@code offset}; the end of the file counts as one. */
    public long findHole(long offset) throws IOException {
        return ask(file -> Native.find(file, true, offset));
    }

    /**
     * Copies a range into another file of the same vault by sharing its blocks; gives how many bytes: fewer than {@code len} at the end, or if
     * something fails behind those. The next call, which begins there, gives the error.
     */
    public long copyRange(long offset, VaultFile target, long targetOffset, long len) throws IOException {
        try {
            return ask(file -> Native.copyRange(file, offset, target.handle.number(), targetOffset, len));
        } finally {
            Reference.reachabilityFence(target);
        }
    }

    /**
     * Takes a lock of the whole file, or fails with {@link VaultException.Kind#LOCKED}: it never waits. It keeps out other open files, in this
     * program and in others that use the vault by a library; the locks of programs on a mount are others.
     */
    public void tryLock(boolean shared) throws IOException {
        tell(file -> Native.tryLock(file, shared));
    }

    /** Gives the lock back. */
    public void unlock() throws IOException {
        tell(Native::unlock);
    }

    /** Gives it a further name; a file without one its first. */
    public void name(Path path) throws IOException {
        name(VaultPath.bytesOf(tree, path));
    }

    void name(byte[] path) throws IOException {
        tree.vault().handle().tell(path, null, vault -> Native.nameFile(vault, handle.number(), path));
    }

    void set(Changes to) throws IOException {
        tell(file -> Native.setFileAttributes(file, to.what, to.mode, to.uid, to.gid, to.size, to.atime, to.mtime));
    }

    private <T> T ask(java.util.function.LongFunction<T> call) throws IOException {
        try {
            return call.apply(handle.number());
        } catch (Failure failure) {
            throw failure.aboutFile();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private void tell(Handle.LongCall call) throws IOException {
        ask(file -> {
            call.make(file);
            return null;
        });
    }

    /** Closes it. A second time does nothing. */
    @Override
    public void close() {
        handle.close();
    }
}
