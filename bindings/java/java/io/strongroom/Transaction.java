package io.strongroom;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Changes that are made all or not at all, and only if the data read before is unchanged. Reads give the state before the transaction. Changes
 * are only collected: {@link #commit} makes them, and reports an error in one of them. It fails with {@link VaultException.Kind#CHANGED} if any
 * data that was read has changed since: then begin again. A transaction that is closed without a commit changes nothing.
 */
public final class Transaction implements AutoCloseable {
    private final Vault vault;
    private final Handle handle;

    Transaction(Vault vault, long number) {
        this.vault = vault;
        this.handle = new Handle(this, number, false);
    }

    Handle handle() {
        return handle;
    }

    // ---- reads

    /** The whole content of a file. */
    public byte[] read(Path path) throws IOException {
        return read(bytes(path));
    }

    /** Whether something is there; a dangling symlink is not. */
    public boolean exists(Path path) throws IOException {
        return exists(bytes(path));
    }

    /** What {@code stat} shows. */
    public NodeAttributes attributes(Path path) throws IOException {
        return stat(bytes(path), true);
    }

    /** The names in a directory, sorted. */
    public List<String> list(Path path) throws IOException {
        List<String> shown = new ArrayList<>();
        for (byte[] name : names(bytes(path))) {
            shown.add(Text.shown(name));
        }
        return shown;
    }

    byte[] read(byte[] path) throws IOException {
        return handle.ask(path, null, transaction -> Native.read(transaction, path));
    }

    boolean exists(byte[] path) throws IOException {
        try {
            stat(path, true);
            return true;
        } catch (java.nio.file.NoSuchFileException nothing) {
            return false;
        }
    }

    NodeAttributes stat(byte[] path, boolean follow) throws IOException {
        return new NodeAttributes(vault.identity(), handle.ask(path, null, transaction -> Native.stat(transaction, path, follow)));
    }

    List<byte[]> names(byte[] path) throws IOException {
        return new Reader(handle.ask(path, null, transaction -> Native.names(transaction, path))).names();
    }

    // ---- changes

    /** Makes a file, or puts the content in the place of what it holds. */
    public Transaction write(Path path, byte[] content) throws IOException {
        byte[] at = bytes(path);
        return add(transaction -> Native.write(transaction, at, content));
    }

    /** Cuts a file, or extends it by a hole. */
    public Transaction truncate(Path path, long size) throws IOException {
        byte[] at = bytes(path);
        return set(at, true, new Changes().size(size));
    }

    /** Makes a directory that others may read. */
    public Transaction createDirectory(Path path) throws IOException {
        byte[] at = bytes(path);
        return add(transaction -> Native.makeDirectory(transaction, at, 0755));
    }

    /** Makes a symbolic link. */
    public Transaction createSymbolicLink(Path path, String target) throws IOException {
        byte[] at = bytes(path);
        byte[] to = Text.bytes(target);
        return add(transaction -> Native.makeSymlink(transaction, to, at));
    }

    /** Gives a file a further name. */
    public Transaction createLink(Path path, Path existing) throws IOException {
        byte[] at = bytes(path);
        byte[] from = bytes(existing);
        return add(transaction -> Native.link(transaction, from, at));
    }

    /** Moves a name. */
    public Transaction rename(Path path, Path newPath, Vault.Rename how) throws IOException {
        byte[] from = bytes(path);
        byte[] to = bytes(newPath);
        return add(transaction -> Native.rename(transaction, from, to, how.ordinal()));
    }

    /** Removes the name of anything but a directory. */
    public Transaction delete(Path path) throws IOException {
        byte[] at = bytes(path);
        return add(transaction -> Native.removeFile(transaction, at));
    }

    /** Removes an empty directory. */
    public Transaction deleteDirectory(Path path) throws IOException {
        byte[] at = bytes(path);
        return add(transaction -> Native.removeDirectory(transaction, at));
    }

    /** Sets the low 12 bits of the mode. */
    public Transaction setMode(Path path, int mode) throws IOException {
        return set(bytes(path), true, new Changes().mode(mode));
    }

    Transaction set(byte[] path, boolean follow, Changes to) throws IOException {
        return add(transaction -> Native.setAttributes(
                transaction, path, follow, to.what, to.mode, to.uid, to.gid, to.size, to.atime, to.mtime));
    }

    Transaction add(Handle.LongCall change) throws IOException {
        handle.tell(null, null, change);
        return this;
    }

    private byte[] bytes(Path path) {
        return VaultPath.bytesOf(vault, path);
    }

    // ---- the end

    /** Carries the changes out. {@code durable}: they are durable on return; else the next commit, a moment later, makes them so. */
    public void commit(boolean durable) throws IOException {
        handle.tell(null, null, transaction -> Native.commit(transaction, durable));
    }

    /** Ends it without a change, if it was not committed. */
    @Override
    public void close() {
        handle.close();
    }
}
