package io.strongroom;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.AccessMode;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.FileSystemAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.FileSystemNotFoundException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.NotLinkException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.spi.FileSystemProvider;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * Vaults for {@link Files}: {@code strongroom:///home/me/vault!/notes.txt}. The description of {@link #newFileSystem(URI, Map)} lists its options;
 * most programs open a {@link Vault} instead and use its {@link Tree#path}.
 */
public final class VaultFileSystemProvider extends FileSystemProvider {
    static final String SCHEME = "strongroom";

    /** Modes of what is made without any: a vault has no umask. */
    private static final int FILE_MODE = 0644;

    private static final int DIRECTORY_MODE = 0755;

    /** How {@link Tree#rename} is asked. */
    private static final int REPLACE = 0;

    private static final int NO_REPLACE = 1;

    /** The vaults that are open, by their folders; a vault that is opened twice is there as it was opened first. */
    private static final Map<Path, WeakReference<VaultFileSystem>> OPEN = new HashMap<>();

    /** Made by Java when it looks for file systems. */
    public VaultFileSystemProvider() {}

    private static final class Installed {
        static final FileSystemProvider PROVIDER = FileSystemProvider.installedProviders().stream()
                .filter(VaultFileSystemProvider.class::isInstance)
                .findFirst()
                // A class loader that the system one does not know has the package.
                .orElseGet(VaultFileSystemProvider::new);
    }

    static FileSystemProvider installed() {
        return Installed.PROVIDER;
    }

    // ---- vaults

    private static Path real(Path folder) {
        try {
            return folder.toRealPath();
        } catch (IOException missing) {
            return folder.toAbsolutePath().normalize();
        }
    }

    static void opened(Path folder, VaultFileSystem fileSystem) {
        fileSystem.identify(real(folder));
        synchronized (OPEN) {
            if (find(folder) == null) {
                OPEN.put(real(folder), new WeakReference<>(fileSystem));
            }
        }
    }

    static void closed(Path folder, VaultFileSystem fileSystem) {
        synchronized (OPEN) {
            OPEN.entrySet().removeIf(one -> one.getValue().get() == fileSystem);
        }
    }

    private static VaultFileSystem find(Path folder) {
        synchronized (OPEN) {
            WeakReference<VaultFileSystem> found = OPEN.get(real(folder));
            VaultFileSystem open = found == null ? null : found.get();
            return open != null && open.isOpen() ? open : null;
        }
    }

    @Override
    public String getScheme() {
        return SCHEME;
    }

    /**
     * Opens or makes the vault in the folder that {@code uri} names.
     *
     * <p>{@code env}: {@code "secret"}, a {@link Secret}, or {@code "keyFile"}, a {@link Path} or the name of a key file; {@code "create"},
     * {@code true} to make the vault if there is none; {@code "options"}, {@link VaultOptions}.
     */
    @Override
    public FileSystem newFileSystem(URI uri, Map<String, ?> env) throws IOException {
        Path folder = VaultUri.parse(uri).folder();
        if (find(folder) != null) {
            throw new FileSystemAlreadyExistsException(folder + " is open");
        }
        return open(folder, env).fileSystem();
    }

    /** The same of a folder that holds a vault. */
    @Override
    public FileSystem newFileSystem(Path folder, Map<String, ?> env) throws IOException {
        if (!Files.exists(folder.resolve("vault.json"))) {
            throw new UnsupportedOperationException(folder + " holds no vault");
        }
        return open(folder, env).fileSystem();
    }

    private static Vault open(Path folder, Map<String, ?> env) throws IOException {
        VaultOptions options = env.get("options") == null ? new VaultOptions() : (VaultOptions) env.get("options");
        boolean creates = Boolean.parseBoolean(String.valueOf(env.get("create"))) && !Files.exists(folder.resolve("vault.json"));
        Object given = env.get("secret");
        if (given != null) {
            return creates ? Vault.create(folder, options, (Secret) given) : Vault.open(folder, (Secret) given, options);
        }
        Object keyFile = env.get("keyFile");
        if (keyFile == null) {
            throw new IllegalArgumentException("neither \"secret\" nor \"keyFile\" is given; one of them must open the vault");
        }
        try (Secret secret = Secret.keyFile(keyFile instanceof Path ? (Path) keyFile : Path.of(keyFile.toString()))) {
            return creates ? Vault.create(folder, options, secret) : Vault.open(folder, secret, options);
        }
    }

    @Override
    public FileSystem getFileSystem(URI uri) {
        Path folder = VaultUri.parse(uri).folder();
        VaultFileSystem open = find(folder);
        if (open == null) {
            throw new FileSystemNotFoundException("the vault in " + folder + " is not open here");
        }
        return open;
    }

    @Override
    public Path getPath(URI uri) {
        return ((VaultFileSystem) getFileSystem(uri)).pathOf(VaultUri.parse(uri).path());
    }

    // ---- files

    @Override
    public SeekableByteChannel newByteChannel(Path path, Set<? extends OpenOption> options, FileAttribute<?>... attributes)
            throws IOException {
        return newFileChannel(path, options, attributes);
    }

    @Override
    public FileChannel newFileChannel(Path path, Set<? extends OpenOption> options, FileAttribute<?>... attributes)
            throws IOException {
        VaultPath at = open(path);
        int flags = flags(options);
        byte[] where = at.absolute();
        boolean changes = (flags & ~VaultFile.READ) != 0;
        if (changes) {
            at.checkWritable();
        }
        boolean goes = options.contains(StandardOpenOption.DELETE_ON_CLOSE);
        // What goes at the end must be what was opened, not what a link to it is.
        if ((goes || options.contains(LinkOption.NOFOLLOW_LINKS)) && isSymlink(at)) {
            throw new FileSystemLoopException(path.toString());
        }
        VaultFile file;
        try {
            file = at.tree().open(where, flags, mode(FILE_MODE, attributes));
        } catch (VaultException error) {
            if (error.errno() == Errno.EISDIR && !changes) {
                return new DirectoryChannel(at);
            }
            throw error;
        }
        boolean syncs = options.contains(StandardOpenOption.SYNC) || options.contains(StandardOpenOption.DSYNC);
        return new VaultChannel(files(at), file, flags, syncs, goes ? VaultChannel.deletion(at, file) : () -> {});
    }

    /** The flags of {@link VaultFile}. */
    private static int flags(Set<? extends OpenOption> options) {
        for (OpenOption option : options) {
            if (option == null) {
                throw new NullPointerException("an option is null");
            }
            if (!(option instanceof StandardOpenOption) && option != LinkOption.NOFOLLOW_LINKS) {
                throw new UnsupportedOperationException("a vault does not support the option " + option);
            }
        }
        boolean appends = options.contains(StandardOpenOption.APPEND);
        boolean writes = appends || options.contains(StandardOpenOption.WRITE);
        boolean reads = options.contains(StandardOpenOption.READ) || !writes;
        if (appends && options.contains(StandardOpenOption.READ)) {
            throw new IllegalArgumentException("READ and APPEND cannot be combined");
        }
        if (appends && options.contains(StandardOpenOption.TRUNCATE_EXISTING)) {
            throw new IllegalArgumentException("APPEND and TRUNCATE_EXISTING cannot be combined");
        }
        int flags = reads ? VaultFile.READ : 0;
        if (!writes) {
            return flags;
        }
        flags |= appends ? VaultFile.WRITE | VaultFile.APPEND : VaultFile.WRITE;
        if (options.contains(StandardOpenOption.CREATE_NEW)) {
            return flags | VaultFile.CREATE_NEW;
        }
        flags |= options.contains(StandardOpenOption.TRUNCATE_EXISTING) ? VaultFile.TRUNCATE : 0;
        flags |= options.contains(StandardOpenOption.CREATE) ? VaultFile.CREATE : 0;
        return flags;
    }

    @SuppressWarnings("unchecked")
    private static int mode(int otherwise, FileAttribute<?>... attributes) {
        int mode = otherwise;
        for (FileAttribute<?> one : attributes) {
            if (!one.name().equals("posix:permissions")) {
                throw new UnsupportedOperationException("a file cannot be made with " + one.name());
            }
            mode = NodeAttributes.modeOf((Set<PosixFilePermission>) one.value());
        }
        return mode;
    }

    // ---- directories and names

    @Override
    public DirectoryStream<Path> newDirectoryStream(Path directory, DirectoryStream.Filter<? super Path> filter) throws IOException {
        VaultPath at = open(directory);
        try {
            return new VaultDirectoryStream(at, at.tree().list(at.absolute(), false), filter);
        } catch (VaultException error) {
            if (error.errno() == Errno.ENOTDIR) {
                throw new NotDirectoryException(directory.toString());
            }
            throw error;
        }
    }

    @Override
    public void createDirectory(Path directory, FileAttribute<?>... attributes) throws IOException {
        VaultPath at = writable(directory);
        at.tree().makeDirectory(at.absolute(), mode(DIRECTORY_MODE, attributes));
    }

    @Override
    public void createSymbolicLink(Path link, Path target, FileAttribute<?>... attributes) throws IOException {
        VaultPath at = writable(link);
        if (attributes.length > 0) {
            throw new UnsupportedOperationException("a symlink cannot be made with attributes");
        }
        at.tree().makeSymlink(VaultPath.of(target).bytes(), at.absolute());
    }

    @Override
    public void createLink(Path link, Path existing) throws IOException {
        VaultPath at = writable(link);
        VaultPath from = VaultPath.of(existing);
        at.tree().link(VaultPath.bytesOf(at.tree(), from), at.absolute());
    }

    @Override
    public Path readSymbolicLink(Path link) throws IOException {
        VaultPath at = open(link);
        try {
            return files(at).pathOf(at.tree().readLink(at.absolute()));
        } catch (VaultException error) {
            if (error.errno() == Errno.EINVAL) {
                throw new NotLinkException(link.toString());
            }
            throw error;
        }
    }

    @Override
    public void delete(Path path) throws IOException {
        VaultPath at = writable(path);
        if (at.tree().stat(at.absolute(), false).isDirectory()) {
            at.tree().removeDirectory(at.absolute());
        } else {
            at.tree().removeFile(at.absolute());
        }
    }

    // ---- copies and moves

    @Override
    public void copy(Path source, Path target, CopyOption... options) throws IOException {
        Set<CopyOption> chosen = options(options);
        if (chosen.contains(StandardCopyOption.ATOMIC_MOVE)) {
            throw new UnsupportedOperationException("ATOMIC_MOVE is not supported for a copy");
        }
        VaultPath from = open(source);
        VaultPath to = writable(target);
        NodeAttributes node = from.tree().stat(from.absolute(), !chosen.contains(LinkOption.NOFOLLOW_LINKS));
        if (!makeRoom(from, to, node, chosen.contains(StandardCopyOption.REPLACE_EXISTING))) {
            return;
        }
        copy(from, to, node, chosen.contains(StandardCopyOption.COPY_ATTRIBUTES));
    }

    private static Set<CopyOption> options(CopyOption... options) {
        for (CopyOption option : options) {
            if (option == null) {
                throw new NullPointerException("an option is null");
            }
            if (!(option instanceof StandardCopyOption) && option != LinkOption.NOFOLLOW_LINKS) {
                throw new UnsupportedOperationException("a vault does not support the option " + option);
            }
        }
        return Set.copyOf(Arrays.asList(options));
    }

    /** Whether the paths are those of one snapshot or vault, which may have been opened twice. */
    private static boolean areOfOneTree(VaultPath one, VaultPath other) {
        Tree first = one.tree();
        Tree second = other.tree();
        return first == second
                || first instanceof Vault && second instanceof Vault && first.identity().equals(second.identity());
    }

    /** Removes what is at {@code to}, if that may be; gives whether there is anything to do, which there is not for one and the same file. */
    private static boolean makeRoom(VaultPath from, VaultPath to, NodeAttributes node, boolean replaces) throws IOException {
        NodeAttributes there;
        try {
            there = to.tree().stat(to.absolute(), false);
        } catch (NoSuchFileException nothing) {
            return true;
        }
        if (there.fileKey().equals(node.fileKey()) && areOfOneTree(from, to)) {
            return false;
        }
        if (!replaces) {
            throw new FileAlreadyExistsException(to.toString());
        }
        if (there.isDirectory()) {
            to.tree().removeDirectory(to.absolute());
        } else {
            to.tree().removeFile(to.absolute());
        }
        return true;
    }

    private static void copy(VaultPath from, VaultPath to, NodeAttributes node, boolean withAttributes) throws IOException {
        switch (node.kind()) {
            case DIRECTORY:
                to.tree().makeDirectory(to.absolute(), node.mode());
                break;
            case SYMLINK:
                to.tree().makeSymlink(from.tree().readLink(from.absolute()), to.absolute());
                break;
            case FILE:
                copyContent(from, to, node);
                break;
            default:
                to.tree().vault().makeNode(to.absolute(), node.kind().ordinal() + 1, node.mode(), node.device());
        }
        if (!withAttributes) {
            return;
        }
        // Of what was copied: a symlink itself, or what it points to.
        boolean follows = !node.isSymbolicLink();
        for (byte[] name : from.tree().listXattrs(from.absolute(), follows)) {
            to.tree().setXattr(to.absolute(), false, name, from.tree().getXattr(from.absolute(), follows, name), 0);
        }
        Changes changes = new Changes().uid((int) node.uid()).gid((int) node.gid());
        changes.atime(node.accessTimeNanos()).mtime(node.modifiedTimeNanos());
        to.tree().set(to.absolute(), false, node.isSymbolicLink() ? changes : changes.mode(node.mode()));
    }

    private static void copyContent(VaultPath from, VaultPath to, NodeAttributes node) throws IOException {
        int flags = VaultFile.WRITE | VaultFile.CREATE_NEW;
        try (VaultFile source = from.tree().open(from.absolute(), VaultFile.READ, 0);
                VaultFile target = to.tree().open(to.absolute(), flags, node.mode())) {
            try {
                if (from.tree() == to.tree()) {
                    long done = 0;
                    long count;
                    do {
                        count = source.copyRange(done, target, done, Long.MAX_VALUE);
                        done += count;
                    } while (count > 0);
                    return;
                }
                byte[] piece = new byte[VaultFile.TRANSFER_BYTES];
                for (int count = source.read(piece, 0, piece.length); count > 0; count = source.read(piece, 0, piece.length)) {
                    target.write(piece, 0, count);
                }
            } catch (IOException | RuntimeException error) {
                // Half a copy is none.
                to.tree().removeFile(to.absolute());
                throw error;
            }
        }
    }

    @Override
    public void move(Path source, Path target, CopyOption... options) throws IOException {
        Set<CopyOption> chosen = options(options);
        if (chosen.contains(StandardCopyOption.COPY_ATTRIBUTES)) {
            throw new UnsupportedOperationException("COPY_ATTRIBUTES is not supported for a move");
        }
        VaultPath from = writable(source);
        VaultPath to = writable(target);
        boolean isAtomic = chosen.contains(StandardCopyOption.ATOMIC_MOVE);
        if (!areOfOneTree(from, to)) {
            if (isAtomic) {
                throw new AtomicMoveNotSupportedException(source.toString(), target.toString(), "the two paths are in different vaults");
            }
            moveBetween(from, to, chosen.contains(StandardCopyOption.REPLACE_EXISTING));
            return;
        }
        if (isAtomic) {
            from.tree().rename(from.absolute(), to.absolute(), REPLACE);
            return;
        }
        boolean replaces = chosen.contains(StandardCopyOption.REPLACE_EXISTING);
        NodeAttributes node = from.tree().stat(from.absolute(), false);
        NodeAttributes there = null;
        try {
            there = to.tree().stat(to.absolute(), false);
        } catch (NoSuchFileException nothing) {
            // The more so.
        }
        if (there != null && there.fileKey().equals(node.fileKey())) {
            return;
        }
        // What is there goes at once with the move.
        if (there != null && replaces && there.isDirectory() != node.isDirectory()) {
            moveOver(from, to, there);
            return;
        }
        try {
            from.tree().rename(from.absolute(), to.absolute(), replaces ? REPLACE : NO_REPLACE);
        } catch (FileAlreadyExistsException | DirectoryNotEmptyException inTheWay) {
            throw inTheWay instanceof FileAlreadyExistsException ? new FileAlreadyExistsException(target.toString()) : inTheWay;
        }
    }

    /** Moves a name over something of another kind, which no rename does: if the move is refused, what is there stays. */
    private static void moveOver(VaultPath from, VaultPath to, NodeAttributes there) throws IOException {
        byte[] source = from.absolute();
        byte[] target = to.absolute();
        try (Transaction both = from.tree().vault().begin()) {
            both.add(there.isDirectory()
                    ? transaction -> Native.removeDirectory(transaction, target)
                    : transaction -> Native.removeFile(transaction, target));
            both.add(transaction -> Native.rename(transaction, source, target, REPLACE));
            both.handle().tell(target, null, transaction -> Native.commit(transaction, false));
        }
    }

    private void moveBetween(VaultPath from, VaultPath to, boolean replaces) throws IOException {
        NodeAttributes node = from.tree().stat(from.absolute(), false);
        if (node.isDirectory()) {
            try (Listing listing = from.tree().list(from.absolute(), false)) {
                if (listing.next() != null) {
                    throw new FileSystemException(
                            from.toString(), to.toString(), "a directory that is not empty cannot be moved to another vault");
                }
            }
        }
        makeRoom(from, to, node, replaces);
        copy(from, to, node, true);
        // Each vault makes durable on its own what is done in it: the one must have the file before the other has it no more.
        to.tree().vault().sync();
        delete(from);
    }

    // ---- what is there

    @Override
    public boolean isSameFile(Path path, Path other) throws IOException {
        VaultPath one = open(path);
        if (path.equals(other)) {
            return true;
        }
        if (!(other instanceof VaultPath) || !areOfOneTree(one, (VaultPath) other)) {
            return false;
        }
        VaultPath two = open(other);
        Object key = one.tree().stat(one.absolute(), true).fileKey();
        return key.equals(two.tree().stat(two.absolute(), true).fileKey());
    }

    @Override
    public boolean isHidden(Path path) {
        Path name = open(path).getFileName();
        return name != null && name.toString().startsWith(".");
    }

    @Override
    public FileStore getFileStore(Path path) throws IOException {
        VaultPath at = open(path);
        at.tree().stat(at.absolute(), true);
        return new VaultFileStore(files(at));
    }

    /** A vault lets whoever has its key read and write all of it: only what is for reading only, and files that nobody may execute, are refused. */
    @Override
    public void checkAccess(Path path, AccessMode... modes) throws IOException {
        VaultPath at = open(path);
        NodeAttributes node = at.tree().stat(at.absolute(), true);
        for (AccessMode mode : modes) {
            boolean isRefused = mode == AccessMode.WRITE && files(at).isReadOnly()
                    || mode == AccessMode.EXECUTE && !node.isDirectory() && (node.mode() & 0111) == 0;
            if (isRefused) {
                throw new AccessDeniedException(path.toString());
            }
        }
    }

    @Override
    public <V extends FileAttributeView> V getFileAttributeView(Path path, Class<V> type, LinkOption... options) {
        return Views.of(open(path), type, follows(options));
    }

    @Override
    public <A extends BasicFileAttributes> A readAttributes(Path path, Class<A> type, LinkOption... options) throws IOException {
        boolean isKnown = type == BasicFileAttributes.class || type == PosixFileAttributes.class || type == NodeAttributes.class;
        if (!isKnown) {
            throw new UnsupportedOperationException("a vault has no attributes of " + type);
        }
        VaultPath at = open(path);
        return type.cast(at.tree().stat(at.absolute(), follows(options)));
    }

    @Override
    public Map<String, Object> readAttributes(Path path, String attributes, LinkOption... options) throws IOException {
        return Views.read(open(path), attributes, follows(options));
    }

    @Override
    public void setAttribute(Path path, String attribute, Object value, LinkOption... options) throws IOException {
        Views.set(writable(path), attribute, value, follows(options));
    }

    private static boolean follows(LinkOption... options) {
        return !Arrays.asList(options).contains(LinkOption.NOFOLLOW_LINKS);
    }

    private static boolean isSymlink(VaultPath path) throws IOException {
        try {
            return path.tree().stat(path.absolute(), false).isSymbolicLink();
        } catch (NoSuchFileException nothing) {
            return false;
        }
    }

    private static VaultFileSystem files(VaultPath path) {
        return (VaultFileSystem) path.getFileSystem();
    }

    /** A path of a vault that is open. */
    private static VaultPath open(Path path) {
        VaultPath at = VaultPath.of(path);
        files(at).checkOpen();
        return at;
    }

    /** The same, of one that is not for reading only. */
    private static VaultPath writable(Path path) {
        VaultPath at = open(path);
        at.checkWritable();
        return at;
    }
}
