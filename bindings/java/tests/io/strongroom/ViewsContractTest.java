package io.strongroom;

import static io.strongroom.Contract.file;
import static io.strongroom.Contract.files;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileOwnerAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Every method of the attribute views, and of attributes, keeps what Java promises of it. */
class ViewsContractTest {
    private static final Set<PosixFilePermission> MINE = PosixFilePermissions.fromString("rw-r-----");

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

    private static <V extends FileAttributeView> V view(Path root, Class<V> type) throws Exception {
        return Files.getFileAttributeView(file(root, "f", "12345"), type);
    }

    private static UserPrincipal user(Path root, String number) throws Exception {
        return files(root).getUserPrincipalLookupService().lookupPrincipalByName(number);
    }

    private static GroupPrincipal group(Path root, String number) throws Exception {
        return files(root).getUserPrincipalLookupService().lookupPrincipalByGroupName(number);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfTheBasicView() {
        Contract contract = new Contract(BasicFileAttributeView.class);
        basic(contract, BasicFileAttributeView.class, "basic");
        return contract.tests(vault, place);
    }

    /** What the basic view has, and the posix view too. */
    private static <V extends BasicFileAttributeView> void basic(Contract contract, Class<V> type, String name) {
        contract.method("name()", (call, root) -> assertEquals(name, call.on(view(root, type))));
        contract.method("readAttributes()", (call, root) ->
                assertEquals(5, ((BasicFileAttributes) call.on(view(root, type))).size()));
        contract.method("setTimes(FileTime,FileTime,FileTime)", (call, root) -> {
            V view = view(root, type);
            call.on(view, FileTime.fromMillis(5000), FileTime.fromMillis(7000), null);
            call.on(view, null, FileTime.fromMillis(8000), null);
            assertEquals(FileTime.fromMillis(5000), view.readAttributes().lastModifiedTime());
            assertEquals(FileTime.fromMillis(8000), view.readAttributes().lastAccessTime());
        });
    }

    @TestFactory
    List<DynamicTest> everyMethodOfTheOwnerView() {
        Contract contract = new Contract(FileOwnerAttributeView.class);
        contract.method("name()", (call, root) -> assertEquals("owner", call.on(view(root, FileOwnerAttributeView.class))));
        owner(contract, FileOwnerAttributeView.class);
        return contract.tests(vault, place);
    }

    private static <V extends FileOwnerAttributeView> void owner(Contract contract, Class<V> type) {
        contract.method("getOwner()", (call, root) ->
                assertEquals(Files.getOwner(file(root, "f", "12345")), call.on(view(root, type))));
        // On the disk it is for root only.
        contract.ofVaults("setOwner(UserPrincipal)", (call, root) -> {
            V view = view(root, type);
            call.on(view, user(root, "17"));
            assertEquals("17", view.getOwner().getName());
        });
    }

    @TestFactory
    List<DynamicTest> everyMethodOfThePosixView() {
        Contract contract = new Contract(PosixFileAttributeView.class);
        basic(contract, PosixFileAttributeView.class, "posix");
        owner(contract, PosixFileAttributeView.class);
        contract.method("setPermissions(Set)", (call, root) -> {
            PosixFileAttributeView view = view(root, PosixFileAttributeView.class);
            call.on(view, MINE);
            assertEquals(MINE, view.readAttributes().permissions());
        });
        contract.ofVaults("setGroup(GroupPrincipal)", (call, root) -> {
            PosixFileAttributeView view = view(root, PosixFileAttributeView.class);
            call.on(view, group(root, "18"));
            assertEquals("18", view.readAttributes().group().getName());
        });
        return contract.tests(vault, place);
    }

    /** On a vault only: not every disk has attributes of users. */
    @TestFactory
    List<DynamicTest> everyMethodOfTheUserView() {
        Contract contract = new Contract(UserDefinedFileAttributeView.class);
        Class<UserDefinedFileAttributeView> type = UserDefinedFileAttributeView.class;
        contract.ofVaults("name()", (call, root) -> assertEquals("user", call.on(view(root, type))));
        contract.ofVaults("list()", (call, root) -> {
            UserDefinedFileAttributeView view = view(root, type);
            assertEquals(List.of(), call.on(view));
            view.write("b", ByteBuffer.wrap("x".getBytes()));
            view.write("a", ByteBuffer.wrap("x".getBytes()));
            assertEquals("[a, b]", new TreeSet<>((List<?>) call.on(view)).toString());
        });
        contract.ofVaults("size(String)", (call, root) -> {
            UserDefinedFileAttributeView view = view(root, type);
            view.write("place", ByteBuffer.wrap("Oslo".getBytes()));
            assertEquals(4, call.on(view, "place"));
            assertThrows(FileSystemException.class, () -> call.on(view, "none"));
        });
        contract.ofVaults("read(String,ByteBuffer)", (call, root) -> {
            UserDefinedFileAttributeView view = view(root, type);
            view.write("place", ByteBuffer.wrap("Oslo".getBytes()));
            ByteBuffer to = ByteBuffer.allocate(4);
            assertEquals(4, call.on(view, "place", to));
            assertArrayEquals("Oslo".getBytes(), to.array());
            assertThrows(FileSystemException.class, () -> call.on(view, "place", ByteBuffer.allocate(3)));
        });
        contract.ofVaults("write(String,ByteBuffer)", (call, root) -> {
            UserDefinedFileAttributeView view = view(root, type);
            ByteBuffer from = ByteBuffer.allocateDirect(4).put("Oslo".getBytes()).flip();
            assertEquals(4, call.on(view, "place", from));
            assertEquals(0, from.remaining());
            assertEquals(2, call.on(view, "place", ByteBuffer.wrap("Ås".getBytes("ISO-8859-1"))));
            assertEquals(2, view.size("place"));
        });
        contract.ofVaults("delete(String)", (call, root) -> {
            UserDefinedFileAttributeView view = view(root, type);
            view.write("place", ByteBuffer.wrap("Oslo".getBytes()));
            call.on(view, "place");
            assertEquals(List.of(), view.list());
            assertThrows(FileSystemException.class, () -> call.on(view, "place"));
        });
        return contract.tests(vault, place);
    }

    // ---- attributes

    /** A file, a directory, a symlink and a pipe, if {@code root} is in a vault. */
    private static List<BasicFileAttributes> kinds(Path root) throws Exception {
        file(root, "f", "12345");
        Files.createSymbolicLink(root.resolve("link"), files(root).getPath("f"));
        List<BasicFileAttributes> found = new ArrayList<>();
        for (String name : List.of("f", "", "link")) {
            found.add(Files.readAttributes(root.resolve(name), PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS));
        }
        if (Contract.isVault(root)) {
            vault.makeNode(root.resolve("pipe"), NodeAttributes.Kind.PIPE, 0600, 0);
            found.add(Files.readAttributes(root.resolve("pipe"), PosixFileAttributes.class));
        }
        return found;
    }

    /** Of file, directory, symlink and pipe, only the one at {@code index} is what the method asks for. */
    private static Contract.Case only(int index) {
        return (call, root) -> {
            List<BasicFileAttributes> kinds = kinds(root);
            for (int kind = 0; kind < kinds.size(); kind++) {
                assertEquals(kind == index, call.on(kinds.get(kind)));
            }
        };
    }

    private static PosixFileAttributes read(Path path) throws Exception {
        return Files.readAttributes(path, PosixFileAttributes.class);
    }

    private static void attributes(Contract contract) {
        contract.method("isRegularFile()", only(0));
        contract.method("isDirectory()", only(1));
        contract.method("isSymbolicLink()", only(2));
        contract.method("isOther()", only(3));
        contract.method("size()", (call, root) -> assertEquals(5L, call.on(read(file(root, "f", "12345")))));
        contract.method("lastModifiedTime()", (call, root) -> {
            Path path = file(root, "f", "");
            Files.setLastModifiedTime(path, FileTime.fromMillis(5000));
            assertEquals(FileTime.fromMillis(5000), call.on(read(path)));
        });
        contract.method("lastAccessTime()", (call, root) -> {
            Path path = file(root, "f", "");
            Files.setAttribute(path, "lastAccessTime", FileTime.fromMillis(6000));
            assertEquals(FileTime.fromMillis(6000), call.on(read(path)));
        });
        contract.ofVaults("creationTime()", (call, root) -> {
            Path path = file(root, "f", "");
            FileTime made = (FileTime) call.on(read(path));
            Files.setLastModifiedTime(path, FileTime.fromMillis(5000));
            assertEquals(made, call.on(read(path)));
            assertTrue(made.toMillis() > 1_700_000_000_000L);
        });
        contract.method("fileKey()", (call, root) -> {
            Path path = file(root, "f", "");
            Path twin = Files.createLink(root.resolve("twin"), path);
            assertEquals(call.on(read(path)), call.on(read(twin)));
            assertNotEquals(call.on(read(path)), call.on(read(root)));
        });
    }

    @TestFactory
    List<DynamicTest> everyMethodOfBasicAttributes() {
        Contract contract = new Contract(BasicFileAttributes.class);
        attributes(contract);
        return contract.tests(vault, place);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfPosixAttributes() {
        Contract contract = new Contract(PosixFileAttributes.class);
        attributes(contract);
        contract.method("owner()", (call, root) -> {
            Path path = file(root, "f", "");
            assertEquals(Files.getOwner(path), call.on(read(path)));
        });
        contract.method("group()", (call, root) -> {
            Path path = file(root, "f", "");
            assertEquals(Files.getAttribute(path, "posix:group"), call.on(read(path)));
        });
        contract.method("permissions()", (call, root) -> {
            Path path = file(root, "f", "");
            Files.setPosixFilePermissions(path, MINE);
            assertEquals(MINE, call.on(read(path)));
        });
        return contract.tests(vault, place);
    }
}
