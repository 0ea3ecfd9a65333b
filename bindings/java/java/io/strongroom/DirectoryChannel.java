package io.strongroom;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;

/** A directory opened for reading. As on Linux, {@link #force} makes its names durable; every other method fails. */
final class DirectoryChannel extends FileChannel {
    private final VaultPath directory;

    DirectoryChannel(VaultPath directory) {
        this.directory = directory;
    }

    private IOException isDirectory() throws ClosedChannelException {
        if (!isOpen()) {
            throw new ClosedChannelException();
        }
        return new VaultException(directory.toString(), null, "is a directory", Errno.EISDIR, VaultException.Kind.SYSTEM);
    }

    @Override
    public void force(boolean metaData) throws IOException {
        if (!isOpen()) {
            throw new ClosedChannelException();
        }
        directory.tree().vault().sync();
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        throw isDirectory();
    }

    @Override
    public int read(ByteBuffer to, long position) throws IOException {
        throw isDirectory();
    }

    @Override
    public long read(ByteBuffer[] to, int offset, int length) throws IOException {
        throw isDirectory();
    }

    @Override
    public int write(ByteBuffer from) {
        throw new NonWritableChannelException();
    }

    @Override
    public int write(ByteBuffer from, long position) {
        throw new NonWritableChannelException();
    }

    @Override
    public long write(ByteBuffer[] from, int offset, int length) {
        throw new NonWritableChannelException();
    }

    @Override
    public FileChannel truncate(long size) {
        throw new NonWritableChannelException();
    }

    @Override
    public long transferFrom(ReadableByteChannel source, long position, long count) {
        throw new NonWritableChannelException();
    }

    @Override
    public long transferTo(long position, long count, WritableByteChannel target) throws IOException {
        throw isDirectory();
    }

    @Override
    public long position() throws IOException {
        throw isDirectory();
    }

    @Override
    public FileChannel position(long position) throws IOException {
        throw isDirectory();
    }

    @Override
    public long size() throws IOException {
        return directory.tree().stat(directory.absolute(), true).size();
    }

    @Override
    public MappedByteBuffer map(MapMode mode, long position, long size) throws IOException {
        throw isDirectory();
    }

    @Override
    public FileLock lock(long position, long size, boolean shared) throws IOException {
        throw isDirectory();
    }

    @Override
    public FileLock tryLock(long position, long size, boolean shared) throws IOException {
        throw isDirectory();
    }

    @Override
    protected void implCloseChannel() {}
}
