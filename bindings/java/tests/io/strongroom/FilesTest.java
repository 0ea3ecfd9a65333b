package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.file.AccessDeniedException;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.ClosedWatchServiceException;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.FileSystemAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemNotFoundException;
import java.nio.file.FileSystems;
import java.nio.file.FileVisitOption;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.NotLinkException;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.nio.file.ReadOnlyFileSystemException;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.DosFileAttributeView;
import java.nio.file.attribute.DosFileAttributes;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileOwnerAttributeView;
import java.nio.file.attribute.FileStoreAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.nio.file.attribute.UserPrincipalNotFoundException;
import java.nio.file.spi.FileSystemProvider;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@link Files} works on a vault like on the disk. */
class FilesTest {
    @TempDir
    static Path place;

    private static Vault vault;

    @BeforeAll
    static void make() throws Exception {
        vault = Vaults.make(place.resolve("vault"));
    }

    @AfterAll
    static void close() throws Exception {
        vault.close();
    }

    @AfterEach
    void empty() throws Exception {
        Vaults.empty(vault);
    }

    private static Path path(String path) {
        return vault.path(path);
    }

    private static Path write(Path path, String content) throws IOException {
        return Files.write(path, content.getBytes());
    }

    private static String content(Path path) throws IOException {
        return Files.readString(path);
    }

    // ---- files and streams

    @Test
    void textsAndStreams() throws Exception {
        Files.write(path("/list"), List.of("milk", "bread"));
        assertEquals(List.of("milk", "bread"), Files.readAllLines(path("/list")));
        try (BufferedReader reader = Files.newBufferedReader(path("/list"))) {
            assertEquals("milk", reader.readLine());
        }
        try (OutputStream out = Files.newOutputStream(path("/big"))) {
            for (int part = 0; part < 300; part++) {
                out.write(new byte[10_000]);
            }
        }
        assertEquals(3_000_000, Files.size(path("/big")));
        try (InputStream in = Files.newInputStream(path("/big"))) {
            assertEquals(3_000_000, in.readAllBytes().length);
        }
        try (InputStream in = Files.newInputStream(path("/list"))) {
            Files.copy(in, path("/copied"));
        }
        assertEquals(content(path("/list")), content(path("/copied")));
        assertThrows(FileSystemException.class, () -> Files.readAllBytes(path("/")));
    }

    @Test
    void whatIsMadeHasTheModeThatIsAskedFor() throws Exception {
        var ours = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-r-----"));
        Files.createFile(path("/f"), ours);
        Files.createDirectory(path("/d"), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(path("/f"))));
        assertEquals(0700, Files.readAttributes(path("/d"), NodeAttributes.class).mode());
        Files.createFile(path("/plain"));
        assertEquals(0644, Files.readAttributes(path("/plain"), NodeAttributes.class).mode());
        Path made = Files.createTempFile(path("/d"), "a", "b");
        assertTrue(Files.isRegularFile(made) && made.getParent().equals(path("/d")));
        Path directory = Files.createTempDirectory(path("/d"), "t");
        assertTrue(Files.isDirectory(directory));
        assertThrows(FileAlreadyExistsException.class, () -> Files.createFile(path("/f")));
        assertThrows(FileAlreadyExistsException.class, () -> Files.createDirectory(path("/d")));
        assertThrows(NoSuchFileException.class, () -> Files.createFile(path("/none/f")));
    }

    // ---- directories

    @Test
    void aDirectoryGivesItsNames() throws Exception {
        Files.createDirectories(path("/d/deep"));
        for (int number = 0; number < 2500; number++) {
            Files.createFile(path("/d/f" + number));
        }
        try (Stream<Path> names = Files.list(path("/d"))) {
            assertEquals(2501, names.count());
        }
        try (DirectoryStream<Path> some = Files.newDirectoryStream(path("/d"), "f1?")) {
            List<String> names = new ArrayList<>();
            some.forEach(one -> names.add(one.getFileName().toString()));
            assertEquals(10, names.size());
        }
        DirectoryStream<Path> stream = Files.newDirectoryStream(path("d"));
        Iterator<Path> names = stream.iterator();
        assertTrue(names.next().toString().startsWith("d/"));
        assertThrows(IllegalStateException.class, stream::iterator);
        assertThrows(UnsupportedOperationException.class, names::remove);
        stream.close();
        assertThrows(IllegalStateException.class, stream::iterator);
        write(path("/file"), "x");
        assertThrows(NotDirectoryException.class, () -> Files.newDirectoryStream(path("/file")));
        assertThrows(NoSuchFileException.class, () -> Files.newDirectoryStream(path("/none")));
        DirectoryStream<Path> fails = Files.newDirectoryStream(path("/d"), one -> {
            throw new IOException("a filter");
        });
        assertThrows(java.nio.file.DirectoryIteratorException.class, () -> fails.iterator().hasNext());
    }

    @Test
    void aTreeIsWalked() throws Exception {
        Files.createDirectories(path("/a/b/c"));
        write(path("/a/b/f"), "x");
        Files.createSymbolicLink(path("/a/link"), path("b"));
        try (Stream<Path> walk = Files.walk(path("/a"))) {
            assertEquals("[/a, /a/b, /a/b/c, /a/b/f, /a/link]", new TreeSet<>(walk.collect(Collectors.toList())).toString());
        }
        try (Stream<Path> walk = Files.walk(path("/a"), FileVisitOption.FOLLOW_LINKS)) {
            assertEquals(7, walk.count());
        }
        try (Stream<Path> found = Files.find(path("/"), 9, (path, node) -> node.isRegularFile())) {
            assertEquals("[/a/b/f]", found.collect(Collectors.toList()).toString());
        }
    }

    @Test
    void whatIsRemovedIsGone() throws Exception {
        Files.createDirectories(path("/d/e"));
        assertEquals("/d", assertThrows(DirectoryNotEmptyException.class, () -> Files.delete(path("/d"))).getFile());
        Files.delete(path("/d/e"));
        assertTrue(Files.deleteIfExists(path("/d")));
        assertFalse(Files.deleteIfExists(path("/d")));
        assertThrows(NoSuchFileException.class, () -> Files.delete(path("/d")));
        Files.createSymbolicLink(path("/dangling"), path("none"));
        Files.delete(path("/dangling"));
    }

    // ---- links

    @Test
    void linksLeadWhereTheySay() throws Exception {
        write(path("/f"), "x");
        Files.createLink(path("/hard"), path("/f"));
        Files.createSymbolicLink(path("/soft"), path("f"));
        assertEquals("f", Files.readSymbolicLink(path("/soft")).toString());
        assertTrue(Files.isSameFile(path("/hard"), path("/f")) && Files.isSameFile(path("/soft"), path("/f")));
        assertFalse(Files.isSameFile(path("/"), path("/f")));
        assertFalse(Files.isSameFile(path("/"), Path.of("/")));
        assertTrue(Files.isSymbolicLink(path("/soft")) && !Files.isSymbolicLink(path("/hard")));
        assertEquals(2, Files.getAttribute(path("/f"), "unix:nlink"));
        assertThrows(NotLinkException.class, () -> Files.readSymbolicLink(path("/f")));
        assertThrows(NoSuchFileException.class, () -> Files.readSymbolicLink(path("/none")));
        assertThrows(FileAlreadyExistsException.class, () -> Files.createLink(path("/hard"), path("/f")));
        Files.createSymbolicLink(path("/dangling"), path("none"));
        assertTrue(Files.notExists(path("/dangling")) && Files.exists(path("/dangling"), LinkOption.NOFOLLOW_LINKS));
        assertThrows(ProviderMismatchException.class, () -> Files.createLink(path("/x"), Path.of("/etc/hosts")));
    }

    // ---- copies and moves

    private static final class World {
        final Path root;

        World(Path root) {
            this.root = root;
        }

        void make() throws IOException {
            Files.createDirectories(root.resolve("full/in"));
            Files.createDirectory(root.resolve("empty"));
            write(root.resolve("file"), "file");
            write(root.resolve("other"), "other");
            Files.createSymbolicLink(root.resolve("soft"), root.getFileSystem().getPath("file"));
            Files.createSymbolicLink(root.resolve("dangling"), root.getFileSystem().getPath("nowhere"));
        }

        String show() throws IOException {
            StringBuilder shown = new StringBuilder();
            try (Stream<Path> all = Files.walk(root)) {
                for (Path one : (Iterable<Path>) all.sorted()::iterator) {
                    String what = Files.isSymbolicLink(one) ? "->" + Files.readSymbolicLink(one)
                            : Files.isDirectory(one) ? "/" : "=" + content(one);
                    shown.append(root.relativize(one)).append(what).append(' ');
                }
            }
            return shown.toString();
        }
    }

    /** Goal: each copy and move comes to the same as on the disk. Method: all pairs of what is there, with all sets of options. */
    @Test
    void eachCopyAndMoveComesToTheSameAsOnTheDisk() throws Exception {
        String[] names = {"full", "empty", "file", "other", "soft", "dangling", "none", "nowhere/x"};
        CopyOption[][] sets = {
            {}, {StandardCopyOption.REPLACE_EXISTING}, {StandardCopyOption.ATOMIC_MOVE}, {StandardCopyOption.COPY_ATTRIBUTES},
            {LinkOption.NOFOLLOW_LINKS}, {StandardCopyOption.REPLACE_EXISTING, LinkOption.NOFOLLOW_LINKS}
        };
        int count = 0;
        for (String from : names) {
            for (String to : names) {
                for (CopyOption[] options : sets) {
                    for (boolean moves : new boolean[] {false, true}) {
                        String where = (moves ? "move " : "copy ") + from + " to " + to + " " + Arrays.toString(options);
                        String theirs = outcome(Files.createDirectory(place.resolve("w" + count)), from, to, moves, options);
                        String ours = outcome(Files.createDirectory(path("/w" + count)), from, to, moves, options);
                        assertEquals(theirs, ours, where);
                        count++;
                    }
                }
            }
        }
        assertEquals(768, count);
    }

    private static String outcome(Path root, String from, String to, boolean moves, CopyOption... options) throws IOException {
        World world = new World(root);
        world.make();
        String said = "";
        try {
            if (moves) {
                Files.move(root.resolve(from), root.resolve(to), options);
            } else {
                Files.copy(root.resolve(from), root.resolve(to), options);
            }
        } catch (IOException | UnsupportedOperationException error) {
            // How a file system names what it has no exception for is its own affair.
            boolean isAtomic = Arrays.asList(options).contains(StandardCopyOption.ATOMIC_MOVE);
            boolean isOwn = error instanceof VaultException || isAtomic && error instanceof DirectoryNotEmptyException;
            said = isOwn ? "FileSystemException" : error.getClass().getSimpleName();
        }
        return said + " " + world.show();
    }

    @Test
    void whatIsCopiedKeepsItsAttributesIfAsked() throws Exception {
        write(path("/f"), "x");
        Files.setPosixFilePermissions(path("/f"), PosixFilePermissions.fromString("rw-rw-r--"));
        Files.setLastModifiedTime(path("/f"), FileTime.fromMillis(12345));
        Files.setAttribute(path("/f"), "user:place", ByteBuffer.wrap("Oslo".getBytes()));
        Files.copy(path("/f"), path("/g"), StandardCopyOption.COPY_ATTRIBUTES);
        assertEquals(FileTime.fromMillis(12345), Files.getLastModifiedTime(path("/g")));
        assertEquals("rw-rw-r--", PosixFilePermissions.toString(Files.getPosixFilePermissions(path("/g"))));
        assertArrayEquals("Oslo".getBytes(), (byte[]) Files.getAttribute(path("/g"), "user:place"));
        Files.createSymbolicLink(path("/link"), path("/f"));
        Files.copy(path("/link"), path("/linked"), StandardCopyOption.COPY_ATTRIBUTES);
        assertArrayEquals("Oslo".getBytes(), (byte[]) Files.getAttribute(path("/linked"), "user:place"));
        Files.copy(path("/f"), path("/h"));
        assertNotEquals(FileTime.fromMillis(12345), Files.getLastModifiedTime(path("/h")));
    }

    /** Failed before: what was in the way was removed, although the move could not be done. */
    @Test
    void aMoveThatIsRefusedRemovesNothing() throws Exception {
        Files.createDirectory(path("/a"));
        Path inTheWay = write(path("/a/f"), "content");
        assertThrows(FileSystemException.class, () -> Files.move(path("/a"), inTheWay, StandardCopyOption.REPLACE_EXISTING));
        assertEquals("content", content(inTheWay));
    }

    @Test
    void filesGoFromVaultToVaultAndToTheDisk() throws Exception {
        byte[] data = new byte[2_500_000];
        new Random(3).nextBytes(data);
        Files.write(path("/f"), data);
        Files.createDirectories(path("/d/e"));
        try (Vault second = Vaults.make(place.resolve("second"))) {
            Files.copy(path("/f"), second.path("/f"));
            assertArrayEquals(data, Files.readAllBytes(second.path("/f")));
            Files.move(path("/f"), second.path("/moved"), StandardCopyOption.REPLACE_EXISTING);
            assertArrayEquals(data, Files.readAllBytes(second.path("/moved")));
            assertFalse(Files.exists(path("/f")));
            assertThrows(
                    AtomicMoveNotSupportedException.class,
                    () -> Files.move(second.path("/f"), path("/f"), StandardCopyOption.ATOMIC_MOVE));
            assertThrows(FileSystemException.class, () -> Files.move(path("/d"), second.path("/d")));
            Files.move(path("/d/e"), second.path("/e"));
            assertTrue(Files.isDirectory(second.path("/e")));
            Files.copy(second.path("/f"), place.resolve("on-disk"));
            assertArrayEquals(data, Files.readAllBytes(place.resolve("on-disk")));
            Files.copy(place.resolve("on-disk"), path("/back"));
            assertArrayEquals(data, Files.readAllBytes(path("/back")));
            assertThrows(IllegalArgumentException.class, () -> vault.replace(second.path("/f"), data, false));
        }
    }

    // ---- attributes

    @Test
    void attributesByTheirViews() throws Exception {
        Path file = write(path("/f"), "12345");
        PosixFileAttributes node = Files.readAttributes(file, PosixFileAttributes.class);
        assertTrue(node.isRegularFile() && !node.isDirectory() && !node.isSymbolicLink() && !node.isOther());
        assertEquals(5, node.size());
        BasicFileAttributeView basic = Files.getFileAttributeView(file, BasicFileAttributeView.class);
        FileTime modified = FileTime.from(java.time.Instant.ofEpochSecond(-5, 123456789));
        basic.setTimes(modified, null, null);
        basic.setTimes(null, FileTime.fromMillis(7), null);
        basic.setTimes(null, null, FileTime.fromMillis(8));
        assertEquals(modified, basic.readAttributes().lastModifiedTime());
        assertEquals(FileTime.fromMillis(7), basic.readAttributes().lastAccessTime());
        assertEquals("basic", basic.name());
        PosixFileAttributeView posix = Files.getFileAttributeView(file, PosixFileAttributeView.class);
        posix.setPermissions(PosixFilePermissions.fromString("r-x-w---x"));
        posix.setGroup(file.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByGroupName("4000000000"));
        assertEquals("r-x-w---x", PosixFilePermissions.toString(posix.readAttributes().permissions()));
        assertEquals("4000000000", posix.readAttributes().group().getName());
        FileOwnerAttributeView owner = Files.getFileAttributeView(file, FileOwnerAttributeView.class);
        owner.setOwner(file.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName("17"));
        assertEquals("17", Files.getOwner(file).getName());
        assertEquals("owner", owner.name());
        assertThrows(
                UserPrincipalNotFoundException.class,
                () -> file.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName("nobody"));
        assertNull(Files.getFileAttributeView(file, DosFileAttributeView.class));
        assertThrows(UnsupportedOperationException.class, () -> Files.readAttributes(file, DosFileAttributes.class));
        assertEquals(node.fileKey(), Files.readAttributes(file, BasicFileAttributes.class).fileKey());
        assertNotEquals(node.fileKey(), Files.readAttributes(path("/"), BasicFileAttributes.class).fileKey());
    }

    @Test
    void attributesByTheirNames() throws Exception {
        Path file = write(path("/f"), "12345");
        assertEquals(5L, Files.getAttribute(file, "size"));
        assertEquals(Map.of("size", 5L, "isDirectory", false), Files.readAttributes(file, "size,isDirectory"));
        assertEquals(9, Files.readAttributes(file, "*").size());
        assertEquals(12, Files.readAttributes(file, "posix:*").size());
        assertEquals(0100644, Files.getAttribute(file, "unix:mode"));
        assertEquals(1, Files.readAttributes(file, "owner:*").size());
        Files.setAttribute(file, "posix:permissions", PosixFilePermissions.fromString("rw-------"));
        Files.setAttribute(file, "lastModifiedTime", FileTime.fromMillis(5));
        Files.setAttribute(file, "unix:uid", 12);
        Files.setAttribute(file, "unix:mode", 04755);
        assertEquals(0104755, Files.getAttribute(file, "unix:mode"));
        assertEquals(12, Files.getAttribute(file, "unix:uid"));
        assertThrows(IllegalArgumentException.class, () -> Files.getAttribute(file, "colour"));
        assertThrows(UnsupportedOperationException.class, () -> Files.getAttribute(file, "dos:hidden"));
        assertThrows(IllegalArgumentException.class, () -> Files.setAttribute(file, "size", 3L));
        assertThrows(NoSuchFileException.class, () -> Files.readAttributes(path("/none"), "*"));
    }

    @Test
    void attributesOfUsers() throws Exception {
        Path file = write(path("/f"), "x");
        UserDefinedFileAttributeView view = Files.getFileAttributeView(file, UserDefinedFileAttributeView.class);
        assertEquals(4, view.write("place", ByteBuffer.wrap("Oslo".getBytes())));
        view.write("empty", ByteBuffer.allocateDirect(0));
        assertEquals(List.of("empty", "place"), view.list().stream().sorted().collect(Collectors.toList()));
        assertEquals(4, view.size("place"));
        ByteBuffer read = ByteBuffer.allocate(10);
        assertEquals(4, view.read("place", read));
        assertThrows(FileSystemException.class, () -> view.read("place", ByteBuffer.allocate(3)));
        view.delete("place");
        assertThrows(FileSystemException.class, () -> view.size("place"));
        assertThrows(FileSystemException.class, () -> view.delete("place"));
        assertEquals(Map.of("empty", ""), Map.of("empty", new String((byte[]) Files.readAttributes(file, "user:*").get("empty"))));
    }

    @Test
    void accessIsWhatTheVaultAllows() throws Exception {
        Path file = write(path("/f"), "x");
        assertTrue(Files.isReadable(file) && Files.isWritable(file) && !Files.isExecutable(file));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
        assertTrue(Files.isExecutable(file) && Files.isExecutable(path("/")));
        assertTrue(Files.isHidden(path("/.x")) && !Files.isHidden(file) && !Files.isHidden(path("/")));
        FileStore store = Files.getFileStore(file);
        assertTrue(store.getTotalSpace() >= store.getUsableSpace() && store.getUsableSpace() > 0);
        assertEquals(store.getTotalSpace(), store.getAttribute("totalSpace"));
        assertTrue(store.supportsFileAttributeView("posix") && store.supportsFileAttributeView(UserDefinedFileAttributeView.class));
        assertFalse(store.supportsFileAttributeView("dos"));
        assertNull(store.getFileStoreAttributeView(FileStoreAttributeView.class));
        assertEquals("strongroom", store.type());
        assertEquals(4096, store.getBlockSize());
        assertFalse(store.isReadOnly());
        assertEquals(store, vault.fileSystem().getFileStores().iterator().next());
        assertThrows(NoSuchFileException.class, () -> Files.getFileStore(path("/none")));
    }

    // ---- what is for reading only

    @Test
    void aSnapshotIsReadAndNeverWritten() throws Exception {
        write(path("/f"), "then");
        try (Snapshot snapshot = vault.snapshot()) {
            write(path("/f"), "now");
            Path then = snapshot.path("/f");
            assertEquals("then", content(then));
            assertTrue(snapshot.fileSystem().isReadOnly());
            assertFalse(Files.isWritable(then));
            assertThrows(ReadOnlyFileSystemException.class, () -> write(then, "x"));
            assertThrows(ReadOnlyFileSystemException.class, () -> Files.delete(then));
            assertThrows(ReadOnlyFileSystemException.class, () -> Files.createDirectory(snapshot.path("/d")));
            assertThrows(ReadOnlyFileSystemException.class, () -> Files.move(then, path("/g")));
            assertThrows(ReadOnlyFileSystemException.class, () -> Files.setLastModifiedTime(then, FileTime.fromMillis(0)));
            assertThrows(AccessDeniedException.class, () -> then.getFileSystem().provider().checkAccess(then, java.nio.file.AccessMode.WRITE));
            Files.copy(then, path("/f"), StandardCopyOption.REPLACE_EXISTING);
            assertEquals("then", content(path("/f")));
            try (DirectoryStream<Path> names = Files.newDirectoryStream(snapshot.path("/"))) {
                assertEquals(then, names.iterator().next());
            }
            assertThrows(UnsupportedOperationException.class, then::toUri);
            assertNotEquals(then, path("/f"));
        }
        try (Vault reads = Vaults.open(place.resolve("vault"), Vaults.options().readOnly())) {
            assertTrue(reads.fileSystem().isReadOnly() && reads.fileSystem().getFileStores().iterator().next().isReadOnly());
            assertEquals("then", content(reads.path("/f")));
            assertThrows(ReadOnlyFileSystemException.class, () -> write(reads.path("/f"), "x"));
        }
    }

    // ---- file systems

    /** Failed before: a file was removed to make room for itself, and was gone. */
    @Test
    void aVaultThatIsOpenTwiceIsOneForCopiesAndMoves() throws Exception {
        Path first = write(path("/f"), "content");
        try (Vault again = Vaults.open(place.resolve("vault"), Vaults.options())) {
            Path second = again.path("/f");
            assertTrue(Files.isSameFile(first, second));
            Files.copy(first, second, StandardCopyOption.REPLACE_EXISTING);
            Files.move(first, second, StandardCopyOption.REPLACE_EXISTING);
            Files.move(first, second);
            assertEquals("content", content(second));
            Files.copy(first, again.path("/copy"));
            Files.move(first, again.path("/moved"), StandardCopyOption.ATOMIC_MOVE);
            assertTrue(Files.notExists(first));
            assertEquals("content", content(path("/copy")));
            assertEquals("content", content(path("/moved")));
        }
    }

    @Test
    void aVaultIsFoundByItsUri() throws Exception {
        Path folder = place.resolve("by uri");
        Path key = Files.write(place.resolve("by-uri.key"), Secret.newKeyFile());
        URI uri = URI.create("strongroom://" + folder.toUri().getRawPath());
        Map<String, Object> env = Map.of("keyFile", key, "create", true, "options", Vaults.options());
        assertThrows(FileSystemNotFoundException.class, () -> FileSystems.getFileSystem(uri));
        assertThrows(IllegalArgumentException.class, () -> FileSystems.newFileSystem(uri, Map.of()));
        try (FileSystem made = FileSystems.newFileSystem(uri, env)) {
            write(made.getPath("/f"), "x");
            assertEquals("x", content(Path.of(made.getPath("/f").toUri())));
            assertEquals(made, FileSystems.getFileSystem(uri));
            assertThrows(FileSystemAlreadyExistsException.class, () -> FileSystems.newFileSystem(uri, env));
            assertEquals("strongroom", made.provider().getScheme());
            assertTrue(made.isOpen() && !made.isReadOnly());
            assertEquals("/", made.getSeparator());
            assertEquals("/", made.getRootDirectories().iterator().next().toString());
            assertTrue(made.supportedFileAttributeViews().containsAll(List.of("basic", "posix", "user")));
        }
        try (FileSystem again = VaultFileSystemProvider.installed()
                .newFileSystem(folder, Map.of("keyFile", key.toString(), "options", Vaults.options()))) {
            assertEquals("x", content(again.getPath("/f")));
        }
        assertThrows(FileSystemNotFoundException.class, () -> FileSystems.getFileSystem(uri));
        assertTrue(FileSystemProvider.installedProviders().stream().anyMatch(VaultFileSystemProvider.class::isInstance));
    }

    @Test
    void aClosedVaultSaysSo() throws Exception {
        Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
        Path file = write(second.path("/f"), "x");
        var channel = Files.newByteChannel(file);
        WatchService watch = second.fileSystem().newWatchService();
        second.fileSystem().close();
        second.close();
        assertFalse(second.fileSystem().isOpen());
        assertThrows(ClosedFileSystemException.class, () -> Files.readAllBytes(file));
        assertThrows(ClosedFileSystemException.class, () -> Files.delete(file));
        assertThrows(ClosedFileSystemException.class, () -> second.fileSystem().newWatchService());
        assertThrows(ClosedFileSystemException.class, second::sync);
        assertThrows(java.nio.channels.ClosedChannelException.class, () -> channel.read(ByteBuffer.allocate(1)));
        watch.close();
        assertTrue(Files.exists(path("/f")));
    }

    // ---- watching

    /** Method: it looks when the test has it look. */
    @Test
    void aWatchSeesWhatHappens() throws Exception {
        Files.createDirectory(path("/d"));
        write(path("/d/old"), "x");
        write(path("/d/gone"), "x");
        WatchEvent.Kind<?>[] all = {
            StandardWatchEventKinds.ENTRY_CREATE, StandardWatchEventKinds.ENTRY_MODIFY, StandardWatchEventKinds.ENTRY_DELETE
        };
        try (VaultWatchService watch = Contract.watchThatWaits(vault.fileSystem())) {
            WatchKey key = path("/d").register(watch, all);
            assertNull(watch.poll());
            write(path("/d/new"), "x");
            write(path("/d/old"), "changed");
            Files.delete(path("/d/gone"));
            watch.look();
            assertEquals(key, Contract.next(watch));
            List<String> seen = new ArrayList<>();
            key.pollEvents().forEach(event -> seen.add(event.kind() + " " + event.context() + " " + event.count()));
            assertEquals(
                    List.of("ENTRY_CREATE new 1", "ENTRY_DELETE gone 1", "ENTRY_MODIFY old 1"),
                    seen.stream().sorted().collect(Collectors.toList()));
            assertTrue(key.reset());
            assertEquals(path("/d"), key.watchable());
            for (int number = 0; number < 600; number++) {
                Files.createFile(path("/d/many" + number));
            }
            watch.look();
            List<WatchEvent<?>> many = Contract.next(watch).pollEvents();
            assertEquals(StandardWatchEventKinds.OVERFLOW, many.get(many.size() - 1).kind());
            key.reset();
            Vaults.empty(vault);
            watch.look();
            assertEquals(key, Contract.next(watch));
            assertFalse(key.isValid() || key.reset());
            write(path("/f"), "x");
            assertThrows(NotDirectoryException.class, () -> path("/f").register(watch, all));
            assertThrows(IllegalArgumentException.class, () -> path("/").register(watch));
            watch.close();
            assertThrows(ClosedWatchServiceException.class, watch::poll);
            assertTimeoutPreemptively(Contract.SOON, () -> {
                assertThrows(ClosedWatchServiceException.class, watch::take);
            });
            assertThrows(ClosedWatchServiceException.class, () -> path("/").register(watch, all));
        }
    }

    @Test
    void viewsThatAreNotThereAreNotMadeUp() {
        assertNull(Files.getFileAttributeView(path("/"), FileAttributeView.class));
        assertThrows(UnsupportedOperationException.class, () -> Files.newByteChannel(
                path("/x"), java.util.Set.of(other(), StandardOpenOption.WRITE)));
    }

    private static java.nio.file.OpenOption other() {
        return new java.nio.file.OpenOption() {};
    }
}
