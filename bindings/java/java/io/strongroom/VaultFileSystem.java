package io.strongroom;

import java.io.IOException;
import java.net.URI;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.nio.file.WatchService;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.UserPrincipalLookupService;
import java.nio.file.spi.FileSystemProvider;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** The files of a vault or of a snapshot, for {@link java.nio.file.Files}. Closing it closes the vault. */
final class VaultFileSystem extends FileSystem {
    /** The names of the attribute views. */
    static final Set<String> VIEWS = Set.of("basic", "owner", "posix", "unix", "user");

    private final Tree tree;
    private final boolean readOnly;
    private final LockTable locks = new LockTable();
    /** What goes when the program ends, the newest first. */
    private final List<byte[]> doomed = new ArrayList<>();

    private volatile boolean open = true;
    private volatile Object identity;

    /** Makes the file system of a tree that is being made. */
    interface Maker {
        VaultFileSystem make(Tree tree);
    }

    VaultFileSystem(Tree tree, boolean readOnly) {
        this.tree = tree;
        this.readOnly = readOnly;
    }

    /** Notes what tells the vault in {@code folder} from others, wherever its folder is moved. */
    void identify(Path folder) {
        Object key = null;
        try {
            key = Files.readAttributes(folder, BasicFileAttributes.class).fileKey();
        } catch (IOException movedMeanwhile) {
            // Its path has to do.
        }
        identity = key == null ? folder : key;
    }

    Object identity() {
        return identity;
    }

    Tree tree() {
        return tree;
    }

    LockTable locks() {
        return locks;
    }

    VaultPath pathOf(byte[] bytes) {
        return VaultPath.of(this, bytes);
    }

    /** It is closed from now on. */
    void closed() {
        open = false;
    }

    void checkOpen() {
        if (!open) {
            throw new ClosedFileSystemException();
        }
    }

    URI uriOf(byte[] path) {
        if (!(tree instanceof Vault)) {
            throw new UnsupportedOperationException("a path of a snapshot has no URI");
        }
        return VaultUri.of(((Vault) tree).folder(), path);
    }

    /** Has a file or directory removed when the program ends. */
    void deleteAtExit(byte[] path) {
        synchronized (doomed) {
            doomed.add(0, path);
        }
    }

    /** Removes what was to go when the program ends. */
    void deleteAtExit() {
        synchronized (doomed) {
            for (byte[] path : doomed) {
                try {
                    provider().delete(pathOf(path));
                } catch (IOException | RuntimeException nobodyHears) {
                    // As java.io.File does it.
                }
            }
            doomed.clear();
        }
    }

    @Override
    public FileSystemProvider provider() {
        return VaultFileSystemProvider.installed();
    }

    @Override
    public void close() throws IOException {
        tree.close();
    }

    @Override
    public boolean isOpen() {
        return open;
    }

    @Override
    public boolean isReadOnly() {
        return readOnly;
    }

    @Override
    public String getSeparator() {
        return "/";
    }

    @Override
    public Iterable<Path> getRootDirectories() {
        return List.of(pathOf(new byte[] {'/'}));
    }

    @Override
    public Iterable<FileStore> getFileStores() {
        return List.of(new VaultFileStore(this));
    }

    @Override
    public Set<String> supportedFileAttributeViews() {
        return VIEWS;
    }

    @Override
    public Path getPath(String first, String... more) {
        StringBuilder joined = new StringBuilder(first);
        for (String part : more) {
            if (!part.isEmpty()) {
                if (joined.length() > 0) {
                    joined.append('/');
                }
                joined.append(part);
            }
        }
        return pathOf(Text.bytes(joined.toString()));
    }

    @Override
    public PathMatcher getPathMatcher(String syntaxAndPattern) {
        return Glob.matcher(syntaxAndPattern);
    }

    @Override
    public UserPrincipalLookupService getUserPrincipalLookupService() {
        return new Principal.Lookup();
    }

    @Override
    public WatchService newWatchService() {
        checkOpen();
        return new VaultWatchService(this);
    }
}
