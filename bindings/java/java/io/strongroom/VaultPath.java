package io.strongroom;

import java.io.IOException;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystemLoopException;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.nio.file.ReadOnlyFileSystemException;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * A path in a vault, as bytes, so that names that are not valid text work too. Names are separated by one {@code /}; there is none after the last
 * name.
 */
final class VaultPath implements Path {
    /** How many symlinks one path may lead through, as everywhere in a vault. */
    private static final int SYMLINKS_MAX = 40;

    private static final byte[] DOT = {'.'};
    private static final byte[] DOTS = {'.', '.'};

    private final VaultFileSystem fileSystem;
    private final byte[] path;
    /** Where each name begins; found when first asked for. */
    private volatile int[] starts;

    private VaultPath(VaultFileSystem fileSystem, byte[] normal) {
        this.fileSystem = fileSystem;
        this.path = normal;
    }

    /** The path with these bytes. */
    static VaultPath of(VaultFileSystem fileSystem, byte[] bytes) {
        byte[] normal = new byte[bytes.length];
        int len = 0;
        for (byte one : bytes) {
            if (one == 0) {
                throw new InvalidPathException(Text.shown(bytes), "it has a NUL");
            }
            if (one != '/' || len == 0 || normal[len - 1] != '/') {
                normal[len++] = one;
            }
        }
        if (len > 1 && normal[len - 1] == '/') {
            len--;
        }
        return new VaultPath(fileSystem, Arrays.copyOf(normal, len));
    }

    /** The same of any path of a vault. */
    static VaultPath of(Path path) {
        if (!(path instanceof VaultPath)) {
            if (path == null) {
                throw new NullPointerException("path");
            }
            throw new ProviderMismatchException(path + " is not in a vault");
        }
        return (VaultPath) path;
    }

    /** The bytes of a path of {@code tree}, from its root. */
    static byte[] bytesOf(Tree tree, Path path) {
        VaultPath mine = of(path);
        if (mine.fileSystem.tree() != tree) {
            throw new IllegalArgumentException(path + " is in another vault or snapshot");
        }
        return mine.absolute();
    }

    Tree tree() {
        return fileSystem.tree();
    }

    /** Refuses to change what is for reading only. */
    void checkWritable() {
        if (fileSystem.isReadOnly()) {
            throw new ReadOnlyFileSystemException();
        }
    }

    /** Its bytes, from the root. */
    byte[] absolute() {
        if (isAbsolute()) {
            return path;
        }
        byte[] absolute = new byte[path.length + 1];
        absolute[0] = '/';
        System.arraycopy(path, 0, absolute, 1, path.length);
        return absolute;
    }

    /** Its bytes as they are. */
    byte[] bytes() {
        return path;
    }

    private int[] starts() {
        int[] found = starts;
        if (found == null) {
            int count = 0;
            int[] all = new int[path.length / 2 + 1];
            for (int at = 0; at < path.length; at++) {
                if (path[at] != '/' && (at == 0 || path[at - 1] == '/')) {
                    all[count++] = at;
                }
            }
            if (path.length == 0) {
                // The empty path has one name, which is empty.
                count = 1;
            }
            found = Arrays.copyOf(all, count);
            starts = found;
        }
        return found;
    }

    private int end(int name) {
        int[] all = starts();
        return name + 1 < all.length ? all[name + 1] - 1 : path.length;
    }

    private byte[] nameBytes(int name) {
        return Arrays.copyOfRange(path, starts()[name], end(name));
    }

    private List<byte[]> names() {
        List<byte[]> names = new ArrayList<>();
        for (int name = 0; name < getNameCount(); name++) {
            names.add(nameBytes(name));
        }
        return names;
    }

    private VaultPath join(boolean absolute, Iterable<byte[]> names) {
        java.io.ByteArrayOutputStream joined = new java.io.ByteArrayOutputStream();
        for (byte[] name : names) {
            if (absolute || joined.size() > 0) {
                joined.write('/');
            }
            joined.write(name, 0, name.length);
        }
        if (absolute && joined.size() == 0) {
            joined.write('/');
        }
        return new VaultPath(fileSystem, joined.toByteArray());
    }

    @Override
    public FileSystem getFileSystem() {
        return fileSystem;
    }

    @Override
    public boolean isAbsolute() {
        return path.length > 0 && path[0] == '/';
    }

    @Override
    public Path getRoot() {
        return isAbsolute() ? new VaultPath(fileSystem, new byte[] {'/'}) : null;
    }

    @Override
    public Path getFileName() {
        int count = getNameCount();
        return count == 0 ? null : getName(count - 1);
    }

    @Override
    public Path getParent() {
        int count = getNameCount();
        if (count > 1) {
            return new VaultPath(fileSystem, Arrays.copyOf(path, starts()[count - 1] - 1));
        }
        return count == 1 ? getRoot() : null;
    }

    @Override
    public int getNameCount() {
        return starts().length;
    }

    @Override
    public Path getName(int index) {
        if (index < 0 || index >= getNameCount()) {
            throw new IllegalArgumentException("the path has no name " + index);
        }
        return new VaultPath(fileSystem, nameBytes(index));
    }

    @Override
    public Path subpath(int begin, int end) {
        if (begin < 0 || end > getNameCount() || begin >= end) {
            throw new IllegalArgumentException("the path has no names from " + begin + " to " + end);
        }
        return new VaultPath(fileSystem, Arrays.copyOfRange(path, starts()[begin], end(end - 1)));
    }

    @Override
    public boolean startsWith(Path other) {
        if (!isOfThis(other) || other.isAbsolute() != isAbsolute()) {
            return false;
        }
        List<byte[]> names = names();
        List<byte[]> beginning = ((VaultPath) other).names();
        if (beginning.size() > names.size() || ((VaultPath) other).path.length == 0 && path.length > 0) {
            return false;
        }
        return equal(names.subList(0, beginning.size()), beginning);
    }

    @Override
    public boolean endsWith(Path other) {
        if (!isOfThis(other)) {
            return false;
        }
        if (other.isAbsolute()) {
            return equals(other);
        }
        List<byte[]> names = names();
        List<byte[]> end = ((VaultPath) other).names();
        if (end.size() > names.size() || ((VaultPath) other).path.length == 0 && path.length > 0) {
            return false;
        }
        return equal(names.subList(names.size() - end.size(), names.size()), end);
    }

    private boolean isOfThis(Path other) {
        return other instanceof VaultPath && ((VaultPath) other).fileSystem == fileSystem;
    }

    private static boolean equal(List<byte[]> some, List<byte[]> others) {
        for (int index = 0; index < some.size(); index++) {
            if (!Arrays.equals(some.get(index), others.get(index))) {
                return false;
            }
        }
        return true;
    }

    @Override
    public Path normalize() {
        Deque<byte[]> kept = new ArrayDeque<>();
        for (byte[] name : names()) {
            if (Arrays.equals(name, DOTS)) {
                if (kept.isEmpty() || Arrays.equals(kept.peekLast(), DOTS)) {
                    // Above the root is the root.
                    if (!isAbsolute()) {
                        kept.addLast(name);
                    }
                } else {
                    kept.removeLast();
                }
            } else if (name.length > 0 && !Arrays.equals(name, DOT)) {
                kept.addLast(name);
            }
        }
        return join(isAbsolute(), kept);
    }

    @Override
    public Path resolve(Path other) {
        VaultPath with = of(other);
        if (with.isAbsolute() || path.length == 0) {
            return with;
        }
        return with.path.length == 0 ? this : child(with.path);
    }

    /** The path of a name in this directory. */
    VaultPath child(byte[] name) {
        int separator = path.length == 0 || path[path.length - 1] == '/' ? 0 : 1;
        byte[] joined = Arrays.copyOf(path, path.length + separator + name.length);
        if (separator > 0) {
            joined[path.length] = '/';
        }
        System.arraycopy(name, 0, joined, path.length + separator, name.length);
        return new VaultPath(fileSystem, joined);
    }

    @Override
    public Path relativize(Path other) {
        VaultPath to = of(other);
        if (!isOfThis(to) || to.isAbsolute() != isAbsolute()) {
            throw new IllegalArgumentException("one of the paths is absolute, or they are in different vaults");
        }
        if (equals(to)) {
            return new VaultPath(fileSystem, new byte[0]);
        }
        if (path.length == 0) {
            return to;
        }
        if (hasDots() || to.hasDots()) {
            return ((VaultPath) normalize()).wayTo((VaultPath) to.normalize());
        }
        return wayTo(to);
    }

    private boolean hasDots() {
        return names().stream().anyMatch(name -> Arrays.equals(name, DOT) || Arrays.equals(name, DOTS));
    }

    private VaultPath wayTo(VaultPath to) {
        if (equals(to)) {
            return new VaultPath(fileSystem, new byte[0]);
        }
        if (path.length == 0) {
            return to;
        }
        List<byte[]> mine = names();
        List<byte[]> wanted = to.path.length == 0 ? List.of() : to.names();
        int common = 0;
        while (common < mine.size() && common < wanted.size() && Arrays.equals(mine.get(common), wanted.get(common))) {
            common++;
        }
        List<byte[]> names = new ArrayList<>();
        for (int index = common; index < mine.size(); index++) {
            if (Arrays.equals(mine.get(index), DOTS)) {
                throw new IllegalArgumentException(this + " cannot be made relative without reading the vault");
            }
            names.add(DOTS);
        }
        names.addAll(wanted.subList(common, wanted.size()));
        return join(false, names);
    }

    @Override
    public URI toUri() {
        return fileSystem.uriOf(absolute());
    }

    @Override
    public Path toAbsolutePath() {
        return isAbsolute() ? this : new VaultPath(fileSystem, absolute()).trimmed();
    }

    /** The root, for the empty path. */
    private VaultPath trimmed() {
        return of(fileSystem, path);
    }

    @Override
    public Path toRealPath(LinkOption... options) throws IOException {
        boolean follow = !Arrays.asList(options).contains(LinkOption.NOFOLLOW_LINKS);
        VaultPath absolute = (VaultPath) toAbsolutePath();
        tree().stat(absolute.path, follow);
        if (!follow) {
            return absolute.normalize();
        }
        Deque<byte[]> ahead = new ArrayDeque<>(absolute.names());
        VaultPath real = new VaultPath(fileSystem, new byte[] {'/'});
        int symlinks = 0;
        while (!ahead.isEmpty()) {
            byte[] name = ahead.removeFirst();
            if (name.length == 0 || Arrays.equals(name, DOT)) {
                continue;
            }
            if (Arrays.equals(name, DOTS)) {
                real = real.getParent() == null ? real : (VaultPath) real.getParent();
                continue;
            }
            VaultPath next = real.child(name);
            if (!tree().stat(next.path, false).isSymbolicLink()) {
                real = next;
                continue;
            }
            if (++symlinks > SYMLINKS_MAX) {
                throw new FileSystemLoopException(toString());
            }
            VaultPath target = of(fileSystem, tree().readLink(next.path));
            if (target.isAbsolute()) {
                real = (VaultPath) target.getRoot();
            }
            List<byte[]> names = target.names();
            for (int index = names.size() - 1; index >= 0; index--) {
                ahead.addFirst(names.get(index));
            }
        }
        return real;
    }

    @Override
    public WatchKey register(WatchService watcher, WatchEvent.Kind<?>[] events, WatchEvent.Modifier... modifiers)
            throws IOException {
        if (!(watcher instanceof VaultWatchService)) {
            if (watcher == null) {
                throw new NullPointerException("watcher");
            }
            throw new ProviderMismatchException("it watches another file system");
        }
        return ((VaultWatchService) watcher).register(this, events);
    }

    @Override
    public int compareTo(Path other) {
        return Arrays.compareUnsigned(path, ((VaultPath) other).path);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof VaultPath
                && ((VaultPath) other).fileSystem == fileSystem
                && Arrays.equals(((VaultPath) other).path, path);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(path);
    }

    @Override
    public String toString() {
        return Text.shown(path);
    }
}
