package io.strongroom;

import static io.strongroom.Contract.SOON;
import static io.strongroom.Contract.file;
import static io.strongroom.Contract.files;
import static io.strongroom.Contract.isVault;
import static io.strongroom.Contract.next;
import static io.strongroom.Contract.watch;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.nio.file.ClosedWatchServiceException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Spliterator;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Every method of a path, and of what watches one, keeps what Java promises of it. */
class PathContractTest {
    private static final WatchEvent.Kind<?>[] CREATED = {StandardWatchEventKinds.ENTRY_CREATE};

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

    /** A path as text, of the file system of {@code root}. */
    private static Path path(Path root, String text) {
        return files(root).getPath(text);
    }

    private static String text(Object path) {
        return String.valueOf(path);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfAPath() {
        Contract contract = new Contract(Path.class);
        parts(contract);
        joined(contract);
        compared(contract);
        looked(contract);
        return contract.tests(vault, place);
    }

    private static void parts(Contract contract) {
        contract.method("getFileSystem()", (call, root) -> assertSame(files(root), call.on(path(root, "a"))));
        contract.method("isAbsolute()", (call, root) -> {
            assertEquals(true, call.on(path(root, "/a")));
            assertEquals(false, call.on(path(root, "a")));
        });
        contract.method("getRoot()", (call, root) -> {
            assertEquals("/", text(call.on(path(root, "/a/b"))));
            assertNull(call.on(path(root, "a/b")));
        });
        contract.method("getFileName()", (call, root) -> {
            assertEquals("b", text(call.on(path(root, "/a/b"))));
            assertNull(call.on(path(root, "/")));
        });
        contract.method("getParent()", (call, root) -> {
            assertEquals("/a", text(call.on(path(root, "/a/b"))));
            assertNull(call.on(path(root, "a")));
        });
        contract.method("getNameCount()", (call, root) -> {
            assertEquals(2, call.on(path(root, "/a/b")));
            assertEquals(0, call.on(path(root, "/")));
            assertEquals(1, call.on(path(root, "")));
        });
        contract.method("getName(int)", (call, root) -> {
            assertEquals("b", text(call.on(path(root, "/a/b"), 1)));
            assertThrows(IllegalArgumentException.class, () -> call.on(path(root, "/a/b"), 2));
        });
        contract.method("subpath(int,int)", (call, root) -> {
            assertEquals("b/c", text(call.on(path(root, "/a/b/c"), 1, 3)));
            assertThrows(IllegalArgumentException.class, () -> call.on(path(root, "/a/b/c"), 2, 2));
        });
        contract.method("iterator()", (call, root) -> {
            Iterator<?> names = (Iterator<?>) call.on(path(root, "/a/b"));
            assertEquals("a", text(names.next()));
            assertEquals("b", text(names.next()));
            assertFalse(names.hasNext());
        });
        contract.method("forEach(Consumer)", (call, root) -> {
            List<String> found = new ArrayList<>();
            Consumer<Path> keeps = name -> found.add(text(name));
            call.on(path(root, "/a/b"), keeps);
            assertEquals(List.of("a", "b"), found);
        });
        contract.method("spliterator()", (call, root) -> {
            Spliterator<?> names = (Spliterator<?>) call.on(path(root, "/a"));
            assertTrue(names.tryAdvance(name -> assertEquals("a", text(name))));
            assertFalse(names.tryAdvance(name -> {}));
        });
        contract.method("toString()", (call, root) -> assertEquals("/a/b c", call.on(path(root, "//a/b c/"))));
    }

    private static void joined(Contract contract) {
        contract.method("normalize()", (call, root) -> {
            assertEquals("/c", text(call.on(path(root, "/a/../b/./../c"))));
            assertEquals("../a", text(call.on(path(root, "../a"))));
        });
        contract.method("resolve(Path)", (call, root) -> {
            assertEquals("a/b", text(call.on(path(root, "a"), path(root, "b"))));
            assertEquals("/b", text(call.on(path(root, "a"), path(root, "/b"))));
        });
        contract.method("resolve(String)", (call, root) -> {
            assertEquals("a/b", text(call.on(path(root, "a"), "b")));
            assertThrows(InvalidPathException.class, () -> call.on(path(root, "a"), "b\0"));
        });
        contract.newer("resolve(Path,Path[])", (call, root) -> {
            Path[] more = {path(root, "c"), path(root, "d")};
            assertEquals("a/b/c/d", text(call.on(path(root, "a"), path(root, "b"), more)));
        });
        contract.newer("resolve(String,String[])", (call, root) ->
                assertEquals("a/b/c/d", text(call.on(path(root, "a"), "b", new String[] {"c", "d"}))));
        contract.method("resolveSibling(Path)", (call, root) -> assertEquals("a/c", text(call.on(path(root, "a/b"), path(root, "c")))));
        contract.method("resolveSibling(String)", (call, root) -> assertEquals("c", text(call.on(path(root, "b"), "c"))));
        contract.method("relativize(Path)", (call, root) -> {
            assertEquals("../c/d", text(call.on(path(root, "/a/b"), path(root, "/a/c/d"))));
            assertThrows(IllegalArgumentException.class, () -> call.on(path(root, "/a"), path(root, "b")));
        });
    }

    private static void compared(Contract contract) {
        contract.method("startsWith(Path)", (call, root) -> {
            assertEquals(true, call.on(path(root, "/a/b"), path(root, "/a")));
            assertEquals(false, call.on(path(root, "/ab"), path(root, "/a")));
        });
        contract.method("startsWith(String)", (call, root) -> {
            assertEquals(true, call.on(path(root, "a/b"), "a"));
            assertEquals(false, call.on(path(root, "a/b"), "/a"));
        });
        contract.method("endsWith(Path)", (call, root) -> {
            assertEquals(true, call.on(path(root, "/a/b/c"), path(root, "b/c")));
            assertEquals(false, call.on(path(root, "/a/bc"), path(root, "c")));
        });
        contract.method("endsWith(String)", (call, root) -> {
            assertEquals(true, call.on(path(root, "/a/b"), "b"));
            assertEquals(false, call.on(path(root, "/a/b"), "/b"));
        });
        contract.method("compareTo(Path)", (call, root) -> {
            assertEquals(0, call.on(path(root, "/a"), path(root, "/a/")));
            assertTrue((int) call.on(path(root, "/a"), path(root, "/b")) < 0);
        });
        contract.method("equals(Object)", (call, root) -> {
            assertEquals(true, call.on(path(root, "/a//b"), path(root, "/a/b")));
            assertEquals(false, call.on(path(root, "/a/b"), path(root, "a/b")));
            assertEquals(false, call.on(path(root, "/a/b"), "/a/b"));
        });
        contract.method("hashCode()", (call, root) -> assertEquals(path(root, "/a/b").hashCode(), call.on(path(root, "//a/b/"))));
    }

    private static void looked(Contract contract) {
        contract.method("toUri()", (call, root) -> {
            Path odd = root.resolve("a b%41#");
            URI uri = (URI) call.on(odd);
            assertEquals(odd, Path.of(uri));
        });
        contract.method("toAbsolutePath()", (call, root) -> {
            assertEquals(root, call.on(root));
            assertTrue(((Path) call.on(path(root, "a/b"))).endsWith("a/b"));
            assertTrue(((Path) call.on(path(root, "a/b"))).isAbsolute());
        });
        contract.method("toRealPath(LinkOption[])", (call, root) -> {
            Path file = file(root, "f", "");
            Path link = Files.createSymbolicLink(root.resolve("link"), path(root, "f"));
            Object real = call.on(file, (Object) new LinkOption[] {});
            assertEquals(real, call.on(link, (Object) new LinkOption[] {}));
            assertNotEquals(real, call.on(link, (Object) new LinkOption[] {LinkOption.NOFOLLOW_LINKS}));
            assertThrows(NoSuchFileException.class, () -> call.on(root.resolve("none"), (Object) new LinkOption[] {}));
        });
        // What takes a file of the disk must not get one: it would write in the clear.
        contract.ofVaults("toFile()", (call, root) -> assertThrows(UnsupportedOperationException.class, () -> call.on(root)));
        contract.method("register(WatchService,Kind[])", (call, root) -> {
            try (WatchService watch = watch(root)) {
                assertTrue(((WatchKey) call.on(root, watch, CREATED)).isValid());
                Path file = file(root, "f", "");
                assertThrows(NotDirectoryException.class, () -> call.on(file, watch, CREATED));
            }
        });
        contract.method("register(WatchService,Kind[],Modifier[])", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = (WatchKey) call.on(root, watch, CREATED, new WatchEvent.Modifier[] {});
                assertEquals(root, key.watchable());
                assertSame(key, call.on(root, watch, CREATED, new WatchEvent.Modifier[] {}));
            }
        });
    }

    // ---- watching

    /** Makes a file, and has a vault look, once: the kernel reports what happens on the disk by itself. */
    private static Path make(Path root, WatchService watch, String name) throws Exception {
        Path made = file(root, name, "");
        look(root, watch);
        return made;
    }

    private static void look(Path root, WatchService watch) {
        if (isVault(root)) {
            ((VaultWatchService) watch).look();
        }
    }

    /** Once a second, by itself. */
    @Test
    void aWatchLooks() throws Exception {
        Vaults.empty(vault);
        Path root = vault.path("/");
        try (WatchService watch = files(root).newWatchService()) {
            WatchKey key = root.register(watch, CREATED);
            file(root, "f", "");
            assertSame(key, next(watch));
        }
    }

    @TestFactory
    List<DynamicTest> everyMethodOfAWatchService() {
        Contract contract = new Contract(WatchService.class);
        // The kernel reports what happens on the disk when it likes to.
        contract.ofVaults("poll()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                assertNull(call.on(watch));
                make(root, watch, "f");
                assertSame(key, call.on(watch));
                assertNull(call.on(watch));
            }
        });
        contract.method("poll(long,TimeUnit)", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                assertNull(call.on(watch, 1L, TimeUnit.MILLISECONDS));
                make(root, watch, "f");
                assertSame(key, call.on(watch, SOON.toMillis(), TimeUnit.MILLISECONDS));
            }
        });
        contract.method("take()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                make(root, watch, "f");
                // It has no time limit of its own.
                assertTimeoutPreemptively(SOON, () -> assertSame(key, call.on(watch)));
            }
        });
        contract.method("close()", (call, root) -> {
            WatchService watch = watch(root);
            WatchKey key = root.register(watch, CREATED);
            call.on(watch);
            call.on(watch);
            assertFalse(key.isValid());
            assertThrows(ClosedWatchServiceException.class, watch::poll);
        });
        return contract.tests(vault, place);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfWhatAWatchServiceGives() {
        Contract keys = new Contract(WatchKey.class);
        keys.method("isValid()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                assertEquals(true, call.on(key));
                key.cancel();
                assertEquals(false, call.on(key));
            }
        });
        keys.method("cancel()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                call.on(key);
                call.on(key);
                assertFalse(key.isValid() || key.reset());
                assertNotEquals(key, root.register(watch, CREATED));
            }
        });
        keys.method("watchable()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                assertEquals(root, call.on(root.register(watch, CREATED)));
            }
        });
        keys.method("pollEvents()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                assertEquals(List.of(), call.on(key));
                make(root, watch, "f");
                assertSame(key, next(watch));
                assertEquals(1, ((List<?>) call.on(key)).size());
                assertEquals(List.of(), call.on(key));
            }
        });
        keys.method("reset()", (call, root) -> {
            try (WatchService watch = watch(root)) {
                WatchKey key = root.register(watch, CREATED);
                make(root, watch, "f");
                assertSame(key, next(watch));
                key.pollEvents();
                assertEquals(true, call.on(key));
                make(root, watch, "g");
                assertSame(key, next(watch));
            }
        });
        List<DynamicTest> tests = new ArrayList<>(keys.tests(vault, place));
        tests.addAll(events().tests(vault, place));
        return tests;
    }

    private static Contract events() {
        Contract contract = new Contract(WatchEvent.class);
        contract.method("kind()", (call, root) -> assertEquals(StandardWatchEventKinds.ENTRY_CREATE, call.on(event(root))));
        contract.method("count()", (call, root) -> assertEquals(1, call.on(event(root))));
        contract.method("context()", (call, root) -> assertEquals(path(root, "f"), call.on(event(root))));
        return contract;
    }

    /** That a file {@code f} was made. */
    private static WatchEvent<?> event(Path root) throws Exception {
        try (WatchService watch = watch(root)) {
            root.register(watch, CREATED);
            make(root, watch, "f");
            return next(watch).pollEvents().get(0);
        }
    }
}
