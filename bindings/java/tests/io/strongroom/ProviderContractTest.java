package io.strongroom;

import static io.strongroom.Contract.content;
import static io.strongroom.Contract.file;
import static io.strongroom.Contract.files;
import static io.strongroom.Contract.provider;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.AccessMode;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotLinkException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.WatchService;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileStoreAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.nio.file.attribute.UserPrincipalLookupService;
import java.nio.file.attribute.UserPrincipalNotFoundException;
import java.nio.file.spi.FileSystemProvider;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Spliterator;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Every method of the provider and of its file systems keeps what Java promises of it. */
class ProviderContractTest {
    private static final FileAttribute<?>[] NO_ATTRIBUTES = {};
    private static final LinkOption[] FOLLOW = {};
    private static final LinkOption[] STAY = {LinkOption.NOFOLLOW_LINKS};
    private static final CopyOption[] PLAIN = {};
    private static final CopyOption[] REPLACE = {StandardCopyOption.REPLACE_EXISTING};
    private static final OpenOption[] DEFAULT = {};
    private static final Set<OpenOption> NEW = Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);

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

    private static URI uri(Path folder) {
        return URI.create("strongroom://" + folder.toUri().getRawPath());
    }

    /** What opens another vault, made in {@code folder}. */
    private static Map<String, Object> environment(Path folder) throws Exception {
        Path key = Files.write(folder.resolveSibling(folder.getFileName() + ".key"), Secret.newKeyFile());
        return Map.of("keyFile", key, "create", true, "options", Vaults.options());
    }

    @TestFactory
    List<DynamicTest> everyMethodOfTheProvider() {
        Contract contract = new Contract(FileSystemProvider.class);
        vaults(contract);
        contents(contract);
        names(contract);
        attributes(contract);
        return contract.tests(vault, place);
    }

    private static void vaults(Contract contract) {
        contract.ofVaults("getScheme()", (call, root) -> assertEquals("strongroom", call.on(provider(root))));
        contract.ofVaults("newFileSystem(URI,Map)", (call, root) -> {
            Path folder = place.resolve("by uri");
            try (FileSystem made = (FileSystem) call.on(provider(root), uri(folder), environment(folder))) {
                assertEquals("x", content(file(made.getPath("/"), "f", "x")));
            }
        });
        contract.ofVaults("newFileSystem(Path,Map)", (call, root) -> {
            Path folder = place.resolve("by path");
            Map<String, Object> environment = environment(folder);
            assertThrows(UnsupportedOperationException.class, () -> call.on(provider(root), folder, environment));
            provider(root).newFileSystem(uri(folder), environment).close();
            try (FileSystem opened = (FileSystem) call.on(provider(root), folder, environment)) {
                assertTrue(opened.isOpen());
            }
        });
        contract.ofVaults("getFileSystem(URI)", (call, root) ->
                assertSame(files(root), call.on(provider(root), uri(place.resolve("vault")))));
        contract.method("getPath(URI)", (call, root) -> {
            assertEquals(root, call.on(provider(root), root.toUri()));
            assertThrows(IllegalArgumentException.class, () -> call.on(provider(root), URI.create("http://localhost/")));
        });
    }

    private static void contents(Contract contract) {
        contract.method("newByteChannel(Path,Set,FileAttribute[])", (call, root) -> {
            Path path = root.resolve("f");
            try (SeekableByteChannel channel = (SeekableByteChannel) call.on(provider(root), path, NEW, NO_ATTRIBUTES)) {
                assertEquals(3, channel.write(ByteBuffer.wrap("abc".getBytes())));
                assertEquals(3, channel.position());
                ByteBuffer read = ByteBuffer.allocate(5);
                assertEquals(2, channel.position(1).read(read));
                assertEquals(1, channel.truncate(1).size());
            }
            assertEquals("a", content(path));
            assertThrows(FileAlreadyExistsException.class, () -> call.on(provider(root), path, NEW, NO_ATTRIBUTES));
        });
        contract.method("newFileChannel(Path,Set,FileAttribute[])", (call, root) -> {
            FileAttribute<?>[] mine = {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))};
            try (FileChannel channel = (FileChannel) call.on(provider(root), root.resolve("f"), NEW, mine)) {
                assertEquals(1, channel.write(ByteBuffer.wrap("x".getBytes()), 9));
                assertEquals(10, channel.size());
            }
            assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(root.resolve("f"))));
        });
        // Java leaves it to a provider, and a vault has none.
        contract.ofVaults("newAsynchronousFileChannel(Path,Set,ExecutorService,FileAttribute[])", (call, root) -> {
            ExecutorService threads = Executors.newSingleThreadExecutor();
            assertThrows(
                    UnsupportedOperationException.class, () -> call.on(provider(root), root.resolve("f"), NEW, threads, NO_ATTRIBUTES));
            threads.shutdown();
        });
        contract.method("newInputStream(Path,OpenOption[])", (call, root) -> {
            file(root, "f", "content");
            try (InputStream in = (InputStream) call.on(provider(root), root.resolve("f"), DEFAULT)) {
                assertEquals("content", new String(in.readAllBytes()));
            }
            assertThrows(NoSuchFileException.class, () -> call.on(provider(root), root.resolve("none"), DEFAULT));
        });
        contract.method("newOutputStream(Path,OpenOption[])", (call, root) -> {
            Path path = file(root, "f", "an older and longer content");
            try (OutputStream out = (OutputStream) call.on(provider(root), path, DEFAULT)) {
                out.write("new".getBytes());
            }
            try (OutputStream out = (OutputStream) call.on(provider(root), path, new OpenOption[] {StandardOpenOption.APPEND})) {
                out.write("er".getBytes());
            }
            assertEquals("newer", content(path));
            OpenOption[] reads = {StandardOpenOption.READ};
            assertThrows(IllegalArgumentException.class, () -> call.on(provider(root), path, reads));
        });
        contract.method("copy(Path,Path,CopyOption[])", (call, root) -> {
            Path from = file(root, "from", "content");
            call.on(provider(root), from, root.resolve("to"), PLAIN);
            assertEquals("content", content(root.resolve("to")));
            file(root, "other", "x");
            assertThrows(FileAlreadyExistsException.class, () -> call.on(provider(root), from, root.resolve("other"), PLAIN));
            call.on(provider(root), from, root.resolve("other"), REPLACE);
            assertEquals("content", content(root.resolve("other")));
        });
        contract.method("move(Path,Path,CopyOption[])", (call, root) -> {
            Path from = file(root, "from", "content");
            file(root, "to", "x");
            assertThrows(FileAlreadyExistsException.class, () -> call.on(provider(root), from, root.resolve("to"), PLAIN));
            call.on(provider(root), from, root.resolve("to"), REPLACE);
            assertEquals("content", content(root.resolve("to")));
            assertTrue(Files.notExists(from));
            assertThrows(NoSuchFileException.class, () -> call.on(provider(root), from, root.resolve("x"), PLAIN));
        });
    }

    private static void names(Contract contract) {
        contract.method("newDirectoryStream(Path,Filter)", (call, root) -> {
            file(root, "first", "");
            file(root, "second", "");
            DirectoryStream.Filter<Path> filter = path -> path.getFileName().toString().startsWith("f");
            List<Path> found = new ArrayList<>();
            try (DirectoryStream<?> names = (DirectoryStream<?>) call.on(provider(root), root, filter)) {
                names.forEach(name -> found.add((Path) name));
            }
            assertEquals(List.of(root.resolve("first")), found);
        });
        contract.method("createDirectory(Path,FileAttribute[])", (call, root) -> {
            Path path = root.resolve("d");
            FileAttribute<?>[] mine = {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))};
            call.on(provider(root), path, mine);
            assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
            assertThrows(FileAlreadyExistsException.class, () -> call.on(provider(root), path, NO_ATTRIBUTES));
        });
        contract.method("createSymbolicLink(Path,Path,FileAttribute[])", (call, root) -> {
            file(root, "f", "content");
            call.on(provider(root), root.resolve("link"), files(root).getPath("f"), NO_ATTRIBUTES);
            assertTrue(Files.isSymbolicLink(root.resolve("link")));
            assertEquals("content", content(root.resolve("link")));
        });
        contract.method("createLink(Path,Path)", (call, root) -> {
            Path path = file(root, "f", "content");
            call.on(provider(root), root.resolve("twin"), path);
            assertEquals(2, Files.getAttribute(path, "unix:nlink"));
            assertEquals("content", content(root.resolve("twin")));
        });
        contract.method("readSymbolicLink(Path)", (call, root) -> {
            Path link = Files.createSymbolicLink(root.resolve("link"), files(root).getPath("../there"));
            assertEquals("../there", call.on(provider(root), link).toString());
            Path path = file(root, "f", "");
            assertThrows(NotLinkException.class, () -> call.on(provider(root), path));
        });
        contract.method("delete(Path)", (call, root) -> {
            Path path = file(root, "f", "");
            assertThrows(DirectoryNotEmptyException.class, () -> call.on(provider(root), root));
            call.on(provider(root), path);
            assertThrows(NoSuchFileException.class, () -> call.on(provider(root), path));
            call.on(provider(root), root);
            assertTrue(Files.notExists(root));
        });
        contract.method("deleteIfExists(Path)", (call, root) -> {
            Path path = file(root, "f", "");
            assertEquals(true, call.on(provider(root), path));
            assertEquals(false, call.on(provider(root), path));
        });
        contract.method("isSameFile(Path,Path)", (call, root) -> {
            Path path = file(root, "f", "");
            Path twin = Files.createLink(root.resolve("twin"), path);
            assertEquals(true, call.on(provider(root), path, twin));
            assertEquals(false, call.on(provider(root), path, root));
            assertThrows(NoSuchFileException.class, () -> call.on(provider(root), path, root.resolve("none")));
        });
        contract.method("isHidden(Path)", (call, root) -> {
            assertEquals(true, call.on(provider(root), file(root, ".f", "")));
            assertEquals(false, call.on(provider(root), file(root, "f", "")));
        });
    }

    private static void attributes(Contract contract) {
        contract.ofVaults("getFileStore(Path)", (call, root) -> {
            assertTrue(((FileStore) call.on(provider(root), root)).getTotalSpace() > 0);
            assertThrows(NoSuchFileException.class, () -> call.on(provider(root), root.resolve("none")));
        });
        contract.method("checkAccess(Path,AccessMode[])", (call, root) -> {
            Path path = file(root, "f", "");
            Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-r--r--"));
            call.on(provider(root), path, new AccessMode[] {});
            call.on(provider(root), path, new AccessMode[] {AccessMode.READ, AccessMode.WRITE});
            AccessMode[] starts = {AccessMode.EXECUTE};
            assertThrows(AccessDeniedException.class, () -> call.on(provider(root), path, starts));
            assertThrows(NoSuchFileException.class, () -> call.on(provider(root), root.resolve("none"), new AccessMode[] {}));
        });
        contract.method("getFileAttributeView(Path,Class,LinkOption[])", (call, root) -> {
            Object view = call.on(provider(root), root, PosixFileAttributeView.class, FOLLOW);
            assertTrue(((PosixFileAttributeView) view).readAttributes().isDirectory());
            assertNull(call.on(provider(root), root, FileAttributeView.class, FOLLOW));
        });
        contract.method("readAttributes(Path,Class,LinkOption[])", (call, root) -> {
            file(root, "f", "12345");
            Path link = Files.createSymbolicLink(root.resolve("link"), files(root).getPath("f"));
            Object file = call.on(provider(root), link, BasicFileAttributes.class, FOLLOW);
            Object symlink = call.on(provider(root), link, BasicFileAttributes.class, STAY);
            assertEquals(5, ((BasicFileAttributes) file).size());
            assertTrue(((BasicFileAttributes) symlink).isSymbolicLink());
        });
        contract.method("readAttributes(Path,String,LinkOption[])", (call, root) -> {
            Path path = file(root, "f", "12345");
            assertEquals(Map.of("size", 5L, "isDirectory", false), call.on(provider(root), path, "size,isDirectory", FOLLOW));
            assertThrows(IllegalArgumentException.class, () -> call.on(provider(root), path, "colour", FOLLOW));
            assertThrows(UnsupportedOperationException.class, () -> call.on(provider(root), path, "none:*", FOLLOW));
        });
        contract.method("setAttribute(Path,String,Object,LinkOption[])", (call, root) -> {
            Path path = file(root, "f", "");
            call.on(provider(root), path, "lastModifiedTime", FileTime.fromMillis(5000), FOLLOW);
            assertEquals(FileTime.fromMillis(5000), Files.getLastModifiedTime(path));
            assertThrows(IllegalArgumentException.class, () -> call.on(provider(root), path, "colour", 1, FOLLOW));
        });
        contract.newer("exists(Path,LinkOption[])", (call, root) -> {
            Path link = Files.createSymbolicLink(root.resolve("dangling"), files(root).getPath("none"));
            assertEquals(false, call.on(provider(root), link, FOLLOW));
            assertEquals(true, call.on(provider(root), link, STAY));
        });
        contract.newer("readAttributesIfExists(Path,Class,LinkOption[])", (call, root) -> {
            Object found = call.on(provider(root), file(root, "f", "12345"), BasicFileAttributes.class, FOLLOW);
            assertEquals(5, ((BasicFileAttributes) found).size());
            assertNull(call.on(provider(root), root.resolve("none"), BasicFileAttributes.class, FOLLOW));
        });
    }

    @TestFactory
    List<DynamicTest> everyMethodOfAFileSystem() {
        Contract contract = new Contract(FileSystem.class);
        contract.method("provider()", (call, root) ->
                assertTrue(FileSystemProvider.installedProviders().contains(call.on(files(root)))));
        contract.ofVaults("close()", (call, root) -> {
            Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
            call.on(second.fileSystem());
            call.on(second.fileSystem());
            assertThrows(ClosedFileSystemException.class, second::sync);
        });
        contract.ofVaults("isOpen()", (call, root) -> {
            Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
            assertEquals(true, call.on(second.fileSystem()));
            second.close();
            assertEquals(false, call.on(second.fileSystem()));
        });
        contract.ofVaults("isReadOnly()", (call, root) -> {
            assertEquals(false, call.on(files(root)));
            try (Snapshot snapshot = vault.snapshot()) {
                assertEquals(true, call.on(snapshot.fileSystem()));
            }
        });
        contract.method("getSeparator()", (call, root) -> assertEquals("/", call.on(files(root))));
        contract.method("getRootDirectories()", (call, root) -> {
            List<String> roots = new ArrayList<>();
            ((Iterable<?>) call.on(files(root))).forEach(one -> roots.add(one.toString()));
            assertEquals(List.of("/"), roots);
        });
        contract.ofVaults("getFileStores()", (call, root) ->
                assertEquals(Files.getFileStore(root), ((Iterable<?>) call.on(files(root))).iterator().next()));
        contract.method("supportedFileAttributeViews()", (call, root) ->
                assertTrue(((Set<?>) call.on(files(root))).containsAll(List.of("basic", "owner", "posix", "unix", "user"))));
        contract.method("getPath(String,String[])", (call, root) -> {
            assertEquals("a/b/c", call.on(files(root), "a", new String[] {"b/", "", "c"}).toString());
            assertEquals("", call.on(files(root), "", new String[] {}).toString());
        });
        contract.method("getPathMatcher(String)", (call, root) -> {
            PathMatcher matcher = (PathMatcher) call.on(files(root), "glob:*.{java,class}");
            assertTrue(matcher.matches(files(root).getPath("A.java")) && !matcher.matches(files(root).getPath("a/A.java")));
            assertThrows(UnsupportedOperationException.class, () -> call.on(files(root), "none:*"));
        });
        contract.method("getUserPrincipalLookupService()", (call, root) -> assertNotNull(call.on(files(root))));
        contract.method("newWatchService()", (call, root) -> {
            WatchService watch = (WatchService) call.on(files(root));
            assertNull(watch.poll());
            watch.close();
        });
        return contract.tests(vault, place);
    }

    /** On a vault only: what a disk is to Java depends on how it is mounted. */
    @TestFactory
    List<DynamicTest> everyMethodOfAFileStore() {
        Contract contract = new Contract(FileStore.class);
        contract.ofVaults("name()", (call, root) -> assertEquals(place.resolve("vault").toString(), call.on(Files.getFileStore(root))));
        contract.ofVaults("type()", (call, root) -> assertEquals("strongroom", call.on(Files.getFileStore(root))));
        contract.ofVaults("isReadOnly()", (call, root) -> assertEquals(false, call.on(Files.getFileStore(root))));
        for (String space : List.of("getTotalSpace()", "getUsableSpace()", "getUnallocatedSpace()")) {
            contract.ofVaults(space, (call, root) -> assertTrue((long) call.on(Files.getFileStore(root)) > 0));
        }
        contract.ofVaults("getBlockSize()", (call, root) -> assertEquals(4096L, call.on(Files.getFileStore(root))));
        contract.ofVaults("supportsFileAttributeView(Class)", (call, root) ->
                assertEquals(true, call.on(Files.getFileStore(root), PosixFileAttributeView.class)));
        contract.ofVaults("supportsFileAttributeView(String)", (call, root) -> {
            assertEquals(true, call.on(Files.getFileStore(root), "posix"));
            assertEquals(false, call.on(Files.getFileStore(root), "none"));
        });
        contract.ofVaults("getFileStoreAttributeView(Class)", (call, root) ->
                assertNull(call.on(Files.getFileStore(root), FileStoreAttributeView.class)));
        contract.ofVaults("getAttribute(String)", (call, root) -> {
            FileStore store = Files.getFileStore(root);
            assertEquals(store.getTotalSpace(), call.on(store, "totalSpace"));
            assertThrows(UnsupportedOperationException.class, () -> call.on(store, "colour"));
        });
        return contract.tests(vault, place);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfWhatAFileSystemGives() {
        Contract owners = new Contract(UserPrincipalLookupService.class);
        owners.method("lookupPrincipalByName(String)", (call, root) -> {
            UserPrincipalLookupService service = files(root).getUserPrincipalLookupService();
            assertEquals("4000000", ((UserPrincipal) call.on(service, "4000000")).getName());
            assertThrows(UserPrincipalNotFoundException.class, () -> call.on(service, "nobody is called so"));
        });
        owners.method("lookupPrincipalByGroupName(String)", (call, root) -> {
            UserPrincipalLookupService service = files(root).getUserPrincipalLookupService();
            assertEquals("4000000", ((GroupPrincipal) call.on(service, "4000000")).getName());
            assertThrows(UserPrincipalNotFoundException.class, () -> call.on(service, "nobody is called so"));
        });
        Contract matchers = new Contract(PathMatcher.class);
        matchers.method("matches(Path)", (call, root) -> {
            PathMatcher matcher = files(root).getPathMatcher("regex:[ab]+");
            assertEquals(true, call.on(matcher, files(root).getPath("abba")));
            assertEquals(false, call.on(matcher, files(root).getPath("c")));
        });
        List<DynamicTest> tests = new ArrayList<>(owners.tests(vault, place));
        tests.addAll(matchers.tests(vault, place));
        tests.addAll(streams().tests(vault, place));
        return tests;
    }

    private static Contract streams() {
        Contract contract = new Contract(DirectoryStream.class);
        contract.method("iterator()", (call, root) -> {
            Path path = file(root, "f", "");
            try (DirectoryStream<Path> names = Files.newDirectoryStream(root)) {
                assertEquals(path, ((java.util.Iterator<?>) call.on(names)).next());
                assertThrows(IllegalStateException.class, () -> call.on(names));
            }
        });
        contract.method("close()", (call, root) -> {
            DirectoryStream<Path> names = Files.newDirectoryStream(root);
            call.on(names);
            call.on(names);
            assertThrows(IllegalStateException.class, names::iterator);
        });
        contract.method("forEach(Consumer)", (call, root) -> {
            Path path = file(root, "f", "");
            List<Object> found = new ArrayList<>();
            Consumer<Path> keeps = found::add;
            try (DirectoryStream<Path> names = Files.newDirectoryStream(root)) {
                call.on(names, keeps);
            }
            assertArrayEquals(new Object[] {path}, found.toArray());
        });
        contract.method("spliterator()", (call, root) -> {
            file(root, "f", "");
            try (DirectoryStream<Path> names = Files.newDirectoryStream(root)) {
                Spliterator<?> rest = (Spliterator<?>) call.on(names);
                assertTrue(rest.tryAdvance(name -> assertTrue(name.toString().endsWith("/f"))));
                assertFalse(rest.tryAdvance(name -> {}));
            }
        });
        return contract;
    }
}
