package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.PatternSyntaxException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Paths of a vault behave like paths of the disk: the results of both are compared for every method that uses no vault. */
class PathTest {
    private static final List<String> SOME = List.of(
            "", "/", "a", "/a", "a/b", "/a/b/c", "//a///b//", "a/", ".", "..", "/..", "/.", "./a", "../a", "a/..", "a/../..", "/a/../b/./c",
            "../../x", "ä/ö", "a b", ".hidden", "a.b.c", "/a/b");

    @TempDir
    static Path place;

    private static Vault vault;
    private static FileSystem disk = FileSystems.getDefault();

    @BeforeAll
    static void make() throws Exception {
        vault = Vaults.make(place.resolve("vault"));
    }

    @AfterAll
    static void close() throws Exception {
        vault.close();
    }

    private static String text(Object path) {
        return path == null ? null : path.toString();
    }

    @Test
    void onePathIsAsOnTheDisk() {
        for (String one : SOME) {
            Path ours = vault.path(one);
            Path theirs = disk.getPath(one);
            assertEquals(text(theirs), text(ours), one);
            assertEquals(theirs.isAbsolute(), ours.isAbsolute(), one);
            assertEquals(text(theirs.getRoot()), text(ours.getRoot()), one);
            assertEquals(text(theirs.getParent()), text(ours.getParent()), one);
            assertEquals(text(theirs.getFileName()), text(ours.getFileName()), one);
            assertEquals(theirs.getNameCount(), ours.getNameCount(), one);
            assertEquals(text(theirs.normalize()), text(ours.normalize()), one);
            List<String> names = new ArrayList<>();
            theirs.forEach(name -> names.add(name.toString()));
            List<String> found = new ArrayList<>();
            ours.forEach(name -> found.add(name.toString()));
            assertEquals(names, found, one);
            for (int begin = 0; begin < names.size(); begin++) {
                assertEquals(text(theirs.getName(begin)), text(ours.getName(begin)), one);
                for (int end = begin + 1; end <= names.size(); end++) {
                    assertEquals(text(theirs.subpath(begin, end)), text(ours.subpath(begin, end)), one);
                }
            }
            assertThrows(IllegalArgumentException.class, () -> ours.getName(names.size()));
            assertThrows(IllegalArgumentException.class, () -> ours.subpath(1, 1));
        }
    }

    @Test
    void twoPathsAreAsOnTheDisk() {
        for (String one : SOME) {
            for (String other : SOME) {
                String both = one + " and " + other;
                Path ours = vault.path(one);
                Path theirs = disk.getPath(one);
                assertEquals(text(theirs.resolve(other)), text(ours.resolve(other)), both);
                assertEquals(text(theirs.resolveSibling(other)), text(ours.resolveSibling(other)), both);
                assertEquals(theirs.startsWith(other), ours.startsWith(other), both);
                assertEquals(theirs.endsWith(other), ours.endsWith(other), both);
                assertEquals(theirs.equals(disk.getPath(other)), ours.equals(vault.path(other)), both);
                assertEquals(
                        Integer.signum(theirs.compareTo(disk.getPath(other))),
                        Integer.signum(ours.compareTo(vault.path(other))),
                        both);
                assertEquals(text(disk.getPath("x", one, other)), text(vault.path("x", one, other)), both);
            }
        }
    }

    @Test
    void theWayFromAPathToAnotherIsAsOnTheDisk() {
        for (String one : SOME) {
            for (String other : SOME) {
                String theirs;
                try {
                    theirs = disk.getPath(one).relativize(disk.getPath(other)).toString();
                } catch (IllegalArgumentException none) {
                    assertThrows(IllegalArgumentException.class, () -> vault.path(one).relativize(vault.path(other)), one + " to " + other);
                    continue;
                }
                assertEquals(theirs, vault.path(one).relativize(vault.path(other)).toString(), one + " to " + other);
            }
        }
    }

    @Test
    void aRelativePathIsTakenFromTheRoot() {
        assertEquals("/a/b", vault.path("a/b").toAbsolutePath().toString());
        assertEquals("/", vault.path("").toAbsolutePath().toString());
    }

    @Test
    void aNameThatIsNoTextKeepsItsBytes() throws Exception {
        byte[] name = {'/', (byte) 0xff, (byte) 0xfe};
        vault.write(name, new byte[] {1});
        try (var names = java.nio.file.Files.newDirectoryStream(vault.path("/"))) {
            Path found = names.iterator().next();
            assertArrayEquals(name, ((VaultPath) found).absolute());
            assertEquals(URI.create(vault.path("/").toUri() + "%FF%FE"), found.toUri());
            assertEquals(found, Path.of(found.toUri()));
            java.nio.file.Files.delete(found);
        }
    }

    @Test
    void aPathThatCannotBeIsRefused() {
        assertThrows(InvalidPathException.class, () -> vault.path("a\0b"));
        assertThrows(InvalidPathException.class, () -> vault.path("\ud800"));
        assertThrows(NullPointerException.class, () -> vault.path(null));
        assertThrows(ProviderMismatchException.class, () -> vault.path("a").resolve(Path.of("b")));
        assertFalse(vault.path("a").startsWith(Path.of("a")));
        assertNotEquals(vault.path("a"), Path.of("a"));
    }

    @Test
    void aRealPathHasNoSymlinks() throws Exception {
        java.nio.file.Files.createDirectories(vault.path("/real/deep"));
        java.nio.file.Files.createSymbolicLink(vault.path("/link"), vault.path("real"));
        java.nio.file.Files.createSymbolicLink(vault.path("/real/up"), vault.path("../link/deep"));
        java.nio.file.Files.createSymbolicLink(vault.path("/loop"), vault.path("loop"));
        assertEquals("/real/deep", vault.path("/link/up").toRealPath().toString());
        assertEquals("/real", vault.path("/link/up/..").toRealPath().toString());
        assertEquals("/link", vault.path("link/.").toRealPath(LinkOption.NOFOLLOW_LINKS).toString());
        assertThrows(java.nio.file.FileSystemException.class, () -> vault.path("/loop").toRealPath());
        assertThrows(NoSuchFileException.class, () -> vault.path("/none").toRealPath());
        Vaults.empty(vault);
    }

    @Test
    void aUriLeadsBackToItsPath() {
        for (String one : List.of("/", "/a", "/a b/ä#?%41", "/a!/b", "/[x]")) {
            Path path = vault.path(one);
            URI uri = path.toUri();
            assertEquals("strongroom", uri.getScheme());
            assertEquals(path, Path.of(uri), uri.toString());
        }
        for (String wrong : List.of("strongroom:opaque", "strongroom://host/a!/b", "strongroom:///a!/b?c", "strongroom:///a!/b#c")) {
            assertThrows(IllegalArgumentException.class, () -> Path.of(URI.create(wrong)), wrong);
        }
        assertThrows(
                java.nio.file.FileSystemNotFoundException.class, () -> Path.of(URI.create("strongroom:///no/such/vault!/a")));
    }

    @Test
    void aPatternMatchesAsOnTheDisk() {
        List<String> patterns = List.of(
                "*", "**", "*.java", "*.*", "*.{java,class}", "foo.?", "/home/*/*", "/home/**", "[a-c]*", "[!a]*", "[^a]", "\\*", "{a,b}/c",
                "a[b", "{a", "{a,{b}}", "[/]", "a\\", "[]-]", "[a-]", "a.b", "(x)", "a+b", "**/*.java", "", "[!-]", "[*?\\]");
        List<String> paths = List.of(
                "a", "b", "a.java", "x.class", "foo.c", "/home/gus/data", "/home/gus", "a/c", "b/c", "*", "-", "]", "^", "a.b", "axb", "(x)",
                "a+b", "x/y/z.java", "\\", "?", "", "ab");
        for (String pattern : patterns) {
            java.nio.file.PathMatcher theirs;
            try {
                theirs = disk.getPathMatcher("glob:" + pattern);
            } catch (PatternSyntaxException wrong) {
                assertThrows(PatternSyntaxException.class, () -> vault.fileSystem().getPathMatcher("glob:" + pattern), pattern);
                continue;
            }
            java.nio.file.PathMatcher ours = vault.fileSystem().getPathMatcher("glob:" + pattern);
            for (String path : paths) {
                assertEquals(theirs.matches(disk.getPath(path)), ours.matches(vault.path(path)), pattern + " on " + path);
            }
        }
        assertTrue(vault.fileSystem().getPathMatcher("regex:a.*").matches(vault.path("abc")));
        assertThrows(UnsupportedOperationException.class, () -> vault.fileSystem().getPathMatcher("none:a"));
        assertThrows(IllegalArgumentException.class, () -> vault.fileSystem().getPathMatcher("a"));
        assertNull(vault.path("/").getFileName());
    }
}
