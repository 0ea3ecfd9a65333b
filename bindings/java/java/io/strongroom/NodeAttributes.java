package io.strongroom;

import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserPrincipal;
import java.time.Instant;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** The attributes of a node that {@code stat} shows. */
public final class NodeAttributes implements PosixFileAttributes {
    /** What a node is. */
    public enum Kind {
        /** A file. */
        FILE,
        /** A directory. */
        DIRECTORY,
        /** A symbolic link. */
        SYMLINK,
        /** A named pipe. */
        PIPE,
        /** A socket. */
        SOCKET,
        /** A character device. */
        CHARACTER_DEVICE,
        /** A block device. */
        BLOCK_DEVICE;

        private static final Kind[] ALL = values();
    }

    /** How many numbers a node has, in the order of {@code numbers} in {@code src/tree.rs}. */
    static final int COUNT = 13;

    private static final long NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final PosixFilePermission[] PERMISSIONS = PosixFilePermission.values();

    private final Object vault;
    private final long[] numbers;

    /** {@code vault} tells nodes of two vaults apart: see {@link Tree#identity}. */
    NodeAttributes(Object vault, long[] numbers) {
        this.vault = vault;
        this.numbers = numbers;
    }

    static NodeAttributes read(Object vault, Reader answer) {
        long[] numbers = new long[COUNT];
        for (int index = 0; index < COUNT; index++) {
            numbers[index] = answer.number();
        }
        return new NodeAttributes(vault, numbers);
    }

    /** What it is. */
    public Kind kind() {
        return Kind.ALL[(int) numbers[8] - 1];
    }

    /** Its number in the vault. */
    public long inode() {
        return numbers[0];
    }

    /** Bytes that it takes, in whole units of 512. */
    public long allocatedSize() {
        return numbers[2] * 512;
    }

    /** The number of a device, else 0. */
    public long device() {
        return numbers[3];
    }

    /** The low 12 bits of the mode. */
    public int mode() {
        return (int) numbers[9];
    }

    /** The number of the owner. */
    public long uid() {
        return numbers[10];
    }

    /** The number of the group. */
    public long gid() {
        return numbers[11];
    }

    /** How many names it has. */
    public long linkCount() {
        return numbers[12];
    }

    /** Last access, in nanoseconds since 1970. */
    public long accessTimeNanos() {
        return numbers[4];
    }

    /** Last change of content, in nanoseconds since 1970. */
    public long modifiedTimeNanos() {
        return numbers[5];
    }

    /** Last change of anything. */
    public FileTime changeTime() {
        return time(numbers[6]);
    }

    @Override
    public FileTime lastAccessTime() {
        return time(numbers[4]);
    }

    @Override
    public FileTime lastModifiedTime() {
        return time(numbers[5]);
    }

    @Override
    public FileTime creationTime() {
        return time(numbers[7]);
    }

    @Override
    public boolean isRegularFile() {
        return kind() == Kind.FILE;
    }

    @Override
    public boolean isDirectory() {
        return kind() == Kind.DIRECTORY;
    }

    @Override
    public boolean isSymbolicLink() {
        return kind() == Kind.SYMLINK;
    }

    @Override
    public boolean isOther() {
        return !isRegularFile() && !isDirectory() && !isSymbolicLink();
    }

    @Override
    public long size() {
        return numbers[1];
    }

    @Override
    public Object fileKey() {
        return new FileKey(vault, numbers[0]);
    }

    @Override
    public UserPrincipal owner() {
        return new Principal.User(uid());
    }

    @Override
    public GroupPrincipal group() {
        return new Principal.Group(gid());
    }

    @Override
    public Set<PosixFilePermission> permissions() {
        return permissionsOf(mode());
    }

    static FileTime time(long nanos) {
        return FileTime.from(Instant.ofEpochSecond(Math.floorDiv(nanos, NANOS), Math.floorMod(nanos, NANOS)));
    }

    /** Nanoseconds since 1970; the first or last that there are for a time beyond them. */
    static long nanos(FileTime time) {
        return time.to(TimeUnit.NANOSECONDS);
    }

    /** The permissions in a mode: they are in the order of its bits, the highest first. */
    static Set<PosixFilePermission> permissionsOf(int mode) {
        Set<PosixFilePermission> found = EnumSet.noneOf(PosixFilePermission.class);
        for (PosixFilePermission one : PERMISSIONS) {
            if ((mode & bit(one)) != 0) {
                found.add(one);
            }
        }
        return found;
    }

    /** The low 9 bits of a mode. */
    static int modeOf(Iterable<PosixFilePermission> permissions) {
        int mode = 0;
        for (PosixFilePermission one : permissions) {
            mode |= bit(one);
        }
        return mode;
    }

    private static int bit(PosixFilePermission permission) {
        return 1 << (PERMISSIONS.length - 1 - permission.ordinal());
    }

    /** A node of a vault. */
    private static final class FileKey {
        private final Object vault;
        private final long inode;

        FileKey(Object vault, long inode) {
            this.vault = vault;
            this.inode = inode;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof FileKey && ((FileKey) other).vault.equals(vault) && ((FileKey) other).inode == inode;
        }

        @Override
        public int hashCode() {
            return Long.hashCode(inode);
        }

        @Override
        public String toString() {
            return "(inode=" + inode + ")";
        }
    }
}
