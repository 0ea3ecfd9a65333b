package io.strongroom;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;

/**
 * The functions of the native library, which {@code src/*.rs} implements. Paths and texts are bytes in UTF-8. A result that is more than a
 * number is returned as bytes for {@link Reader}. Each function throws {@link Failure}.
 */
final class Native {
    /** Names a library to load instead of the one in the jar. */
    private static final String LIBRARY = "strongroom.library";

    static {
        load();
    }

    private Native() {}

    // ---- vaults

    static native byte[] create(byte[] folder, int[] kinds, byte[][] keys, int suite, int flags);

    static native long open(byte[] folder, int kind, byte[] secret, byte[] inner, int flags, byte[] fingerprint);

    static native void closeVault(long vault);

    static native boolean isOwner(long vault);

    static native void sync(long vault);

    static native byte[] space(long vault);

    static native byte[] information(long vault);

    static native void acceptRecords(long vault);

    static native byte[] rotation(long vault);

    static native byte[] check(long vault);

    static native byte[] verify(long vault, boolean deep, Progress told);

    static native long backup(long vault, byte[] target, Progress told);

    // ---- names: `tree` is a vault, a snapshot or a transaction

    static native long[] stat(long tree, byte[] path, boolean follow);

    static native byte[] readLink(long tree, byte[] path);

    static native byte[] getXattr(long tree, byte[] path, boolean follow, byte[] name);

    static native byte[] listXattrs(long tree, byte[] path, boolean follow);

    static native byte[] read(long tree, byte[] path);

    static native void write(long tree, byte[] path, byte[] content);

    static native void replace(long vault, byte[] path, byte[] content, boolean durable);

    static native void makeDirectory(long tree, byte[] path, int mode);

    static native void makeDirectories(long vault, byte[] path, int mode);

    static native void makeNode(long vault, byte[] path, int kind, int mode, long device);

    static native void makeSymlink(long tree, byte[] target, byte[] path);

    static native void link(long tree, byte[] path, byte[] newPath);

    static native void removeFile(long tree, byte[] path);

    static native void removeDirectory(long tree, byte[] path);

    static native void removeTree(long vault, byte[] path);

    static native void rename(long tree, byte[] path, byte[] newPath, int how);

    static native void setAttributes(
            long tree, byte[] path, boolean follow, int what, int mode, int uid, int gid, long size, long atime, long mtime);

    static native void setXattr(long tree, byte[] path, boolean follow, byte[] name, byte[] value, int how);

    static native void removeXattr(long tree, byte[] path, boolean follow, byte[] name);

    // ---- listings; `close` is for everything but vaults

    static native long list(long tree, byte[] path, boolean deep);

    static native byte[] page(long listing);

    static native void close(long handle);

    // ---- open files

    static native long openFile(long tree, byte[] path, int flags, int mode);

    static native long unnamedFile(long vault, byte[] path, int mode);

    static native void nameFile(long vault, long file, byte[] path);

    static native int readAt(long file, long offset, byte[] to, int start, int len);

    static native void writeAt(long file, long offset, byte[] from, int start, int len);

    static native int readOn(long file, byte[] to, int start, int len);

    static native void writeOn(long file, byte[] from, int start, int len);

    static native long seek(long file, long by, int whence);

    static native long[] fileStat(long file);

    static native void setFileAttributes(
            long file, int what, int mode, int uid, int gid, long size, long atime, long mtime);

    static native void syncFile(long file);

    static native void allocate(long file, int how, long offset, long len);

    static native long find(long file, boolean hole, long offset);

    static native long copyRange(long file, long offset, long target, long targetOffset, long len);

    static native void tryLock(long file, boolean shared);

    static native void unlock(long file);

    // ---- snapshots

    static native byte[] takeSnapshot(long vault, byte[] message, byte[][] tags, boolean onlyIfChanged);

    static native byte[] snapshots(long vault, byte[] selector);

    static native void removeSnapshot(long vault, byte[] selector);

    static native long readSnapshot(long vault, byte[] selector);

    static native long restore(long vault, byte[] selector, byte[] path, byte[] to);

    static native byte[] differences(long vault, byte[] before, byte[] after, byte[] path);

    static native byte[] retention(long vault);

    static native byte[] sharedRetention(long vault);

    static native void setRetention(
            long vault, long last, long hourly, long daily, long weekly, long monthly, long yearly, boolean unnamed);

    static native byte[] thin(long vault);

    static native byte[] usage(long vault);

    static native byte[] erase(long vault, byte[] path, boolean trial);

    // ---- transactions

    static native long begin(long vault);

    static native void commit(long transaction, boolean durable);

    static native byte[] names(long transaction, byte[] path);

    // ---- keys

    static native byte[] slotsOfFolder(byte[] folder);

    static native long openKeys(byte[] folder, int kind, byte[] secret, byte[] inner, int flags, byte[] fingerprint);

    static native byte[] slots(long keys);

    static native void addKey(long keys, byte[] label, int kind, byte[] key);

    static native void removeKey(long keys, long slot);

    static native void changePassphrase(long keys, long slot, int kind, byte[] passphrase);

    static native void rotateKeys(long keys);

    static native byte[] newKeyFile();

    static native byte[] newRecoveryCode();

    // ---- remotes

    static native void addRemote(long vault, byte[] name, byte[] url, boolean keep);

    static native byte[] remotes(long vault);

    static native byte[] remoteStatus(long vault, byte[] name);

    static native void removeRemote(long vault, byte[] name);

    static native void limitRemotes(long vault, long up, long down);

    static native byte[] push(long vault, byte[] name, Progress told);

    static native byte[] pull(long vault, byte[] name, Progress told);

    static native byte[] syncWith(long vault, byte[] name, Progress told);

    static native byte[] checkRemote(long vault, byte[] name, boolean deep, Progress told);

    static native byte[] cloneRemote(
            byte[] url, byte[] folder, int kind, byte[] secret, byte[] inner, int flags, byte[] fingerprint, Progress told);

    static native byte[] conflicts(long vault);

    static native byte[] settleConflict(long vault, byte[] path, int keep);

    static native byte[] evict(long vault, byte[] path, Progress told);

    static native byte[] bringBack(long vault, byte[] path, Progress told);

    static native byte[] pin(long vault, byte[] path, Progress told);

    static native boolean unpin(long vault, byte[] path);

    static native byte[] pins(long vault);

    static native long keepAtMost(long vault);

    static native void setKeepAtMost(long vault, boolean limits, long bytes);

    static native byte[] evictToLimit(long vault, Progress told);

    static native byte[] pruneRemote(long vault, byte[] name, long graceSeconds, Progress told);

    static native byte[] unusedAtRemote(long vault, byte[] name);

    static native long keepInSync(long vault, long everyMillis, SyncEvents told);

    static native void finishSync(long sync);

    // ---- pairing

    static native byte[] invite(long vault, byte[] name);

    static native byte[] lookForCandidate(long invitation);

    static native void admit(long invitation, byte[] fingerprint, long keys);

    static native void refuse(long invitation, byte[] fingerprint);

    static native byte[] newDevice(byte[] url, int kind, byte[] secret, byte[] name);

    static native void askToJoin(long device, byte[] code);

    static native boolean isAdmitted(long device);

    static native byte[] cloneAsAdmitted(long device, byte[] folder, int flags, byte[] fingerprint, Progress told);

    /** Called by the library when a call fails. */
    @SuppressWarnings("unused")
    private static void fail(int errno, int kind, String message) {
        throw new Failure(errno, VaultException.Kind.of(kind), message);
    }

    // ---- the library

    private static void load() {
        String chosen = System.getProperty(LIBRARY);
        if (chosen != null) {
            System.load(Path.of(chosen).toAbsolutePath().toString());
            return;
        }
        if (System.getProperty("java.vm.name", "").equals("Dalvik")) {
            // Android unpacks the libraries of an app itself.
            System.loadLibrary("strongroom_java");
            return;
        }
        String name = "/io/strongroom/native/" + platform() + "/libstrongroom_java.so";
        try (InputStream packed = Native.class.getResourceAsStream(name)) {
            if (packed == null) {
                throw new UnsatisfiedLinkError(
                        "the jar of Strongroom has no library for " + platform() + "; build one and name it with -D" + LIBRARY + "=…");
            }
            unpack(packed);
        } catch (IOException error) {
            throw new UncheckedIOException("the library of Strongroom could not be unpacked into java.io.tmpdir", error);
        }
    }

    /** A folder that nobody else may enter, so that nobody can put another library in its place; both are removed once it is loaded. */
    private static void unpack(InputStream packed) throws IOException {
        Path folder = Files.createTempDirectory(
                "strongroom", PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path library = folder.resolve("libstrongroom_java.so");
        try {
            Files.copy(packed, library);
            System.load(library.toString());
        } finally {
            Files.deleteIfExists(library);
            Files.deleteIfExists(folder);
        }
    }

    /** As {@code tools/bindings_java.sh} names the folder in the jar. */
    private static String platform() {
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        switch (machine) {
            case "amd64":
                machine = "x86_64";
                break;
            case "arm64":
                machine = "aarch64";
                break;
            default:
        }
        return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + machine;
    }
}
