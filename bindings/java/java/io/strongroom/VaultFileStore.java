package io.strongroom;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileOwnerAttributeView;
import java.nio.file.attribute.FileStoreAttributeView;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.util.Set;

/** The free and used space of a vault. */
final class VaultFileStore extends FileStore {
    private static final Set<Class<? extends FileAttributeView>> VIEWS = Set.of(
            BasicFileAttributeView.class,
            FileOwnerAttributeView.class,
            PosixFileAttributeView.class,
            UserDefinedFileAttributeView.class);

    /** In what free space is counted, as a mount has it. */
    private static final long BLOCK_BYTES = 4096;

    private final VaultFileSystem fileSystem;

    VaultFileStore(VaultFileSystem fileSystem) {
        this.fileSystem = fileSystem;
    }

    private Vault vault() {
        return fileSystem.tree().vault();
    }

    @Override
    public String name() {
        return vault().folder().toString();
    }

    @Override
    public String type() {
        return VaultFileSystemProvider.SCHEME;
    }

    @Override
    public boolean isReadOnly() {
        return fileSystem.isReadOnly();
    }

    @Override
    public long getTotalSpace() throws IOException {
        return vault().space().totalBytes;
    }

    @Override
    public long getUsableSpace() throws IOException {
        return vault().space().freeBytes;
    }

    @Override
    public long getUnallocatedSpace() throws IOException {
        return vault().space().freeBytes;
    }

    @Override
    public long getBlockSize() {
        return BLOCK_BYTES;
    }

    @Override
    public boolean supportsFileAttributeView(Class<? extends FileAttributeView> type) {
        return VIEWS.contains(type);
    }

    @Override
    public boolean supportsFileAttributeView(String name) {
        return VaultFileSystem.VIEWS.contains(name);
    }

    @Override
    public <V extends FileStoreAttributeView> V getFileStoreAttributeView(Class<V> type) {
        return null;
    }

    @Override
    public Object getAttribute(String attribute) throws IOException {
        switch (attribute) {
            case "totalSpace":
                return getTotalSpace();
            case "usableSpace":
                return getUsableSpace();
            case "unallocatedSpace":
                return getUnallocatedSpace();
            default:
                throw new UnsupportedOperationException("a vault has no attribute " + attribute);
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof VaultFileStore && ((VaultFileStore) other).fileSystem == fileSystem;
    }

    @Override
    public int hashCode() {
        return fileSystem.hashCode();
    }

    @Override
    public String toString() {
        return name() + " (" + type() + ")";
    }
}
