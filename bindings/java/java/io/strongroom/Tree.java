package io.strongroom;

import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.Path;
import java.util.List;

/**
 * Files and directories: the current ones of a {@link Vault}, or those of a {@link Snapshot}. {@link java.nio.file.Files} works with its paths.
 *
 * <p>May be used by many threads at once.
 */
public abstract class Tree implements AutoCloseable {
    private final Handle handle;
    private final VaultFileSystem fileSystem;

    Tree(long number, boolean isVault, VaultFileSystem.Maker maker) {
        handle = new Handle(this, number, isVault);
        fileSystem = maker.make(this);
    }

    /** Its files, for {@link java.nio.file.Files}. */
    public final FileSystem fileSystem() {
        return fileSystem;
    }

    /** A path in it; relative ones are taken from the root. */
    public final Path path(String first, String... more) {
        return fileSystem.getPath(first, more);
    }

    /** Closes it, and what was opened through it. A second time does nothing. */
    @Override
    public abstract void close() throws IOException;

    /** The vault itself, or that of a snapshot. */
    abstract Vault vault();

    /** What all openings of its vault folder have in common, and no others. */
    final Object identity() {
        return vault().files().identity();
    }

    final Handle handle() {
        return handle;
    }

    final VaultFileSystem files() {
        return fileSystem;
    }

    // ---- by the bytes of paths

    NodeAttributes stat(byte[] path, boolean follow) throws IOException {
        return new NodeAttributes(identity(), handle.ask(path, null, tree -> Native.stat(tree, path, follow)));
    }

    byte[] readLink(byte[] path) throws IOException {
        return handle.ask(path, null, tree -> Native.readLink(tree, path));
    }

    byte[] getXattr(byte[] path, boolean follow, byte[] name) throws IOException {
        return handle.ask(path, null, tree -> Native.getXattr(tree, path, follow, name));
    }

    List<byte[]> listXattrs(byte[] path, boolean follow) throws IOException {
        return new Reader(handle.ask(path, null, tree -> Native.listXattrs(tree, path, follow))).names();
    }

    byte[] read(byte[] path) throws IOException {
        return handle.ask(path, null, tree -> Native.read(tree, path));
    }

    Listing list(byte[] path, boolean deep) throws IOException {
        return new Listing(vault(), path, handle.ask(path, null, tree -> Native.list(tree, path, deep)));
    }

    VaultFile open(byte[] path, int flags, int mode) throws IOException {
        return new VaultFile(this, handle.ask(path, null, tree -> Native.openFile(tree, path, flags, mode)));
    }

    void write(byte[] path, byte[] content) throws IOException {
        handle.tell(path, null, tree -> Native.write(tree, path, content));
    }

    void makeDirectory(byte[] path, int mode) throws IOException {
        handle.tell(path, null, tree -> Native.makeDirectory(tree, path, mode));
    }

    void makeSymlink(byte[] target, byte[] path) throws IOException {
        handle.tell(path, target, tree -> Native.makeSymlink(tree, target, path));
    }

    void link(byte[] path, byte[] newPath) throws IOException {
        handle.tell(newPath, path, tree -> Native.link(tree, path, newPath));
    }

    void removeFile(byte[] path) throws IOException {
        handle.tell(path, null, tree -> Native.removeFile(tree, path));
    }

    void removeDirectory(byte[] path) throws IOException {
        handle.tell(path, null, tree -> Native.removeDirectory(tree, path));
    }

    void rename(byte[] path, byte[] newPath, int how) throws IOException {
        handle.tell(path, newPath, tree -> Native.rename(tree, path, newPath, how));
    }

    void set(byte[] path, boolean follow, Changes to) throws IOException {
        handle.tell(path, null, tree -> Native.setAttributes(
                tree, path, follow, to.what, to.mode, to.uid, to.gid, to.size, to.atime, to.mtime));
    }

    void setXattr(byte[] path, boolean follow, byte[] name, byte[] value, int how) throws IOException {
        handle.tell(path, null, tree -> Native.setXattr(tree, path, follow, name, value, how));
    }

    void removeXattr(byte[] path, boolean follow, byte[] name) throws IOException {
        handle.tell(path, null, tree -> Native.removeXattr(tree, path, follow, name));
    }
}
