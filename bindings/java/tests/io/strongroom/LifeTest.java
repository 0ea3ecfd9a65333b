package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The life of a vault from its creation to its end, and mistakes of programs. */
class LifeTest {
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

    private static VaultException.Kind kindOf(org.junit.jupiter.api.function.Executable call) {
        return assertThrows(VaultException.class, call).kind();
    }

    // ---- secrets

    @Test
    void eachSecretOpensItsVault() throws Exception {
        Path folder = place.resolve("secrets");
        char[] passphrase = "ein Schlüssel".toCharArray();
        char[] code;
        byte[] keyFile = Secret.newKeyFile();
        try (Secret first = Secret.passphrase(passphrase); Vault made = Vault.create(folder, Vaults.options(), first)) {
            code = made.recoveryCode().orElseThrow();
            assertTrue(made.recoveryCode().isEmpty(), "it is given once");
            assertTrue(made.isOwner());
            assertFalse(made.information().fingerprint.isEmpty());
        }
        try (Secret secret = Secret.recoveryCode(code); Keys keys = Keys.open(folder, secret, Vaults.options())) {
            try (Secret added = Secret.keyFile(keyFile)) {
                keys.add(added, "stick");
            }
            assertEquals(3, keys.slots().size());
            assertTrue(keys.addRecoveryCode("paper").length > 20);
            Keys.Slot paper = keys.slots().stream().filter(slot -> slot.label.equals("paper")).findFirst().orElseThrow();
            assertEquals(16, paper.id().length());
            keys.remove(paper);
            Keys.Slot slot = keys.slots().stream().filter(one -> one.kind == Keys.Slot.Kind.PASSPHRASE).findFirst().orElseThrow();
            try (Secret other = Secret.passphrase("another one".getBytes())) {
                keys.changePassphrase(slot, other);
            }
            try (Secret none = Secret.keyFile(keyFile)) {
                assertThrows(VaultException.class, () -> keys.changePassphrase(slot, none));
            }
        }
        assertEquals(3, Keys.slotsOf(folder).size());
        for (Secret secret : List.of(Secret.keyFile(keyFile), Secret.passphrase("another one".toCharArray()))) {
            Vault.open(folder, secret, Vaults.options()).close();
        }
        Secret old = Secret.passphrase(passphrase);
        assertEquals(VaultException.Kind.WRONG_SECRET, kindOf(() -> Vault.open(folder, old, Vaults.options())));
        old.close();
        assertThrows(IllegalStateException.class, () -> Vault.open(folder, old, Vaults.options()));
        assertEquals("Secret", old.toString());
    }

    @Test
    void aSecretThatIsNoneIsRefused() throws Exception {
        Path folder = place.resolve("vault");
        for (Secret none : List.of(Secret.passphrase(new byte[0]), Secret.passphrase(new byte[] {(byte) 0xff}), Secret.keyFile(new byte[10]),
                Secret.recoveryCode("abc".toCharArray()), Secret.identity("x".getBytes(), null), Secret.recipient("x"))) {
            assertEquals(Errno.EINVAL, assertThrows(VaultException.class, () -> Vault.open(folder, none, Vaults.options())).errno());
        }
        assertThrows(NullPointerException.class, () -> Secret.passphrase((char[]) null));
        for (String half : List.of("sesame \ud800", "\udc00 sesame", "\ud800\ud800")) {
            IllegalArgumentException refused =
                    assertThrows(IllegalArgumentException.class, () -> Secret.passphrase(half.toCharArray()));
            assertFalse(refused.toString().contains("sesame"), refused.toString());
        }
        for (String whole : List.of("", "sesame", "ü漢\ud83d\ude00")) {
            assertArrayEquals(Text.bytes(whole), Text.wipeable(whole.toCharArray()));
        }
        assertThrows(NoSuchFileException.class, () -> Secret.keyFile(place.resolve("none.key")));
    }

    // ---- vaults

    @Test
    void aFolderThatIsNoVaultIsToldFromAMissingFile() throws Exception {
        Path none = place.resolve("none");
        Files.createDirectory(place.resolve("other"));
        Files.createFile(place.resolve("other/file"));
        try (Secret secret = Secret.keyFile(place.resolve("vault.key"))) {
            assertEquals(VaultException.Kind.NOT_A_VAULT, kindOf(() -> Vault.open(none, secret, Vaults.options())));
            assertEquals(VaultException.Kind.VAULT_EXISTS, kindOf(() -> Vault.create(place.resolve("vault"), Vaults.options(), secret)));
            assertEquals(VaultException.Kind.VAULT_EXISTS, kindOf(() -> Vault.create(place.resolve("other"), Vaults.options(), secret)));
            assertEquals(
                    VaultException.Kind.IN_USE, kindOf(() -> Vault.open(place.resolve("vault"), secret, Vaults.options().exclusive())));
            VaultOptions meant = Vaults.options().fingerprint(vault.information().fingerprint);
            Vault.open(place.resolve("vault"), secret, meant).close();
            assertThrows(VaultException.class, () -> Vault.open(place.resolve("vault"), secret, Vaults.options().fingerprint("x")));
        }
    }

    @Test
    void allThatWasOpenedThroughAVaultIsClosedWithIt() throws Exception {
        Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
        assertFalse(second.isOwner());
        VaultFile file = second.openFile(second.path("/closed"), VaultFile.WRITE | VaultFile.CREATE, 0600);
        Snapshot snapshot = second.snapshot();
        Transaction transaction = second.begin();
        Listing listing = second.list(new byte[] {'/'}, false);
        second.close();
        assertEquals(Errno.EBADF, VaultException.errnoOf(assertThrows(IOException.class, () -> file.write(new byte[1], 0, 1))));
        assertThrows(ClosedFileSystemException.class, () -> Files.exists(snapshot.path("/"), java.nio.file.LinkOption.NOFOLLOW_LINKS));
        assertThrows(ClosedFileSystemException.class, () -> transaction.commit(false));
        assertThrows(ClosedFileSystemException.class, listing::next);
        assertThrows(ClosedFileSystemException.class, second::begin);
        file.close();
        snapshot.close();
        transaction.close();
        listing.close();
        second.close();
    }

    /** A number that a program could have made up, or kept for too long, means nothing. */
    @Test
    void aHandleThatWasClosedMeansNothing() throws Exception {
        long file = Native.openFile(vault.handle().number(), Text.bytes("/handle"), VaultFile.WRITE | VaultFile.CREATE, 0600);
        Native.close(file);
        Native.close(file);
        for (long handle : new long[] {file, 0, -1, Long.MIN_VALUE, Long.MAX_VALUE, file + 1, vault.handle().number()}) {
            assertEquals(VaultException.Kind.CLOSED, assertThrows(Failure.class, () -> Native.syncFile(handle)).kind());
        }
        long other = Native.openFile(vault.handle().number(), Text.bytes("/handle"), VaultFile.READ, 0);
        assertThrows(Failure.class, () -> Native.syncFile(file));
        Native.close(vault.handle().number());
        assertTrue(vault.isOwner(), "close is not for vaults");
        Native.close(other);
    }

    /** What reaches the library although it should not is refused there, too. */
    @Test
    void nullAndOddNumbersAreRefused() throws Exception {
        long number = vault.handle().number();
        assertThrows(Failure.class, () -> Native.stat(number, null, true));
        assertThrows(Failure.class, () -> Native.rename(number, new byte[] {'/'}, null, 0));
        assertThrows(Failure.class, () -> Native.rename(number, new byte[] {'/'}, new byte[] {'/'}, 9));
        assertThrows(Failure.class, () -> Native.create(null, new int[0], new byte[0][], 1, 0));
        assertThrows(Failure.class, () -> Native.create(new byte[0], new int[0], new byte[0][], 1, 0));
        assertThrows(Failure.class, () -> Native.create(new byte[] {'x'}, new int[] {1}, new byte[0][], 1, 0));
        assertThrows(Failure.class, () -> Native.create(new byte[] {'x'}, new int[] {1}, new byte[1][], 1, 0));
        assertThrows(Failure.class, () -> Native.create(new byte[] {'x'}, new int[0], new byte[0][], 7, 0));
        assertThrows(Failure.class, () -> Native.takeSnapshot(number, new byte[0], new byte[1][], false));
        assertThrows(Failure.class, () -> Native.takeSnapshot(number, new byte[] {-1}, new byte[0][], false));
        long file = Native.openFile(number, Text.bytes("/odd"), VaultFile.READ | VaultFile.WRITE | VaultFile.CREATE, 0600);
        byte[] ten = new byte[10];
        assertThrows(Failure.class, () -> Native.readAt(file, 0, ten, 0, -1));
        assertThrows(Failure.class, () -> Native.readAt(file, -1, ten, 0, 1));
        assertThrows(Failure.class, () -> Native.readAt(file, 0, ten, 0, Integer.MAX_VALUE));
        assertThrows(Failure.class, () -> Native.writeAt(file, 0, ten, 5, 6));
        assertThrows(Failure.class, () -> Native.writeAt(file, 0, ten, -1, 6));
        assertThrows(Failure.class, () -> Native.writeAt(file, 0, null, 0, 1));
        assertThrows(Failure.class, () -> Native.seek(file, 0, 3));
        assertThrows(Failure.class, () -> Native.allocate(file, 9, 0, 1));
        assertThrows(Failure.class, () -> Native.setFileAttributes(file, 8, 0, 0, 0, -1, 0, 0));
        Native.close(file);
    }

    /** The library registers what the class declares, and nothing else: a call that is missing would be noticed only when it is made. */
    @Test
    void everyNativeMethodIsThere() {
        int count = 0;
        for (var method : Native.class.getDeclaredMethods()) {
            if (Modifier.isNative(method.getModifiers())) {
                Object[] none = Arrays.stream(method.getParameterTypes()).map(LifeTest::nothing).toArray();
                try {
                    method.setAccessible(true);
                    method.invoke(null, none);
                } catch (java.lang.reflect.InvocationTargetException thrown) {
                    assertTrue(thrown.getCause() instanceof Failure, method + ": " + thrown.getCause());
                } catch (IllegalAccessException error) {
                    throw new AssertionError(error);
                }
                count++;
            }
        }
        assertTrue(count > 70, count + " methods");
    }

    /** What a panic says may hold content: it is not passed on. What Java threw before it is. Method: a method for tests panics. */
    @Test
    void aPanicIsAnExceptionThatSaysNothingOfItself() throws Exception {
        byte[] message = "a secret".getBytes();
        Failure failure = assertThrows(Failure.class, () -> Panics.panics(message, null));
        assertEquals(5, failure.errno());
        assertEquals(VaultException.Kind.OTHER, failure.kind());
        String said = failure.getMessage();
        assertTrue(said.contains("a bug of Strongroom") && !said.contains("secret"), said);
        IllegalStateException mine = new IllegalStateException("mine");
        Progress throwing = (done, total) -> {
            throw mine;
        };
        assertSame(mine, assertThrows(IllegalStateException.class, () -> Panics.panics(message, throwing)));
        Files.write(vault.path("/after-a-panic"), message);
        assertArrayEquals(message, Files.readAllBytes(vault.path("/after-a-panic")));
    }

    /** SECURITY.md, claim 7. Method: a program panics in calls of two threads; what it prints is read. */
    @Test
    void aPanicPrintsItsPlaceAndNothingElse() throws Exception {
        Process program = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "-Dstrongroom.library=" + System.getProperty("strongroom.library"),
                        Panicking.class.getName())
                .redirectErrorStream(true)
                .start();
        String said = new String(program.getInputStream().readAllBytes());
        assertEquals(0, program.waitFor(), said);
        assertEquals(2, said.split("strongroom: a bug: panicked at ", -1).length - 1, said);
        assertEquals(2, said.split("the call ends with 5", -1).length - 1, said);
        assertFalse(said.contains("a secret"), said);
    }

    /** That program. */
    public static final class Panicking {
        private Panicking() {}

        /** It needs no arguments. */
        public static void main(String[] arguments) throws Exception {
            // Any call loads the library.
            Arrays.fill(Secret.newKeyFile(), (byte) 0);
            panics();
            Thread thread = new Thread(Panicking::panics);
            thread.start();
            thread.join();
        }

        private static void panics() {
            try {
                Panics.panics("a secret".getBytes(), null);
            } catch (Failure failure) {
                System.out.println("the call ends with " + failure.errno());
            }
        }
    }

    private static Object nothing(Class<?> type) {
        if (type == int.class) {
            return 0;
        }
        if (type == long.class) {
            return 0L;
        }
        return type == boolean.class ? (Object) false : null;
    }

    @Test
    void whatIsForgottenIsClosed() throws Exception {
        WeakReference<Vault> forgotten = new WeakReference<>(Vaults.open(place.resolve("vault"), Vaults.options()));
        long number = forget();
        // As often as it takes: collection is the machine's affair.
        for (int tries = 0; tries < 200 && (isOpen(number) || forgotten.get() != null); tries++) {
            System.gc();
            Thread.sleep(10);
        }
        assertFalse(isOpen(number));
        assertTrue(forgotten.get() == null);
    }

    /** Goal: a vault is not closed in the middle of its last call. Method: nothing is kept but what a call keeps. */
    @Test
    void aCallKeepsOpenWhatItAsks() throws Exception {
        Handle handle = Vaults.open(place.resolve("vault"), Vaults.options()).handle();
        for (int tries = 0; tries < 20; tries++) {
            System.gc();
            Thread.sleep(10);
        }
        Native.sync(handle.number());
        handle.close();
    }

    private static long forget() throws IOException {
        Listing listing = vault.list(new byte[] {'/'}, false);
        long number = Native.list(vault.handle().number(), new byte[] {'/'}, false);
        new Handle(new Object(), number, false);
        assertNotNull(listing);
        return number;
    }

    /** Goal: an open file that is forgotten is closed, so that nobody waits for its lock for ever; what it wrote stays. */
    @Test
    void aForgottenFileGivesItsLockBack() throws Exception {
        forgetLocked();
        try (VaultFile other = vault.openFile(vault.path("/forgotten"), VaultFile.READ | VaultFile.WRITE, 0)) {
            boolean isTaken = false;
            // As often as it takes: collection is the machine's affair.
            for (int tries = 0; tries < 200 && !isTaken; tries++) {
                System.gc();
                Thread.sleep(10);
                isTaken = takesLock(other);
            }
            assertTrue(isTaken);
            byte[] found = new byte[4];
            assertEquals(4, other.readAt(0, found, 0, 4));
            assertEquals("kept", new String(found));
        }
        Vaults.empty(vault);
    }

    private static void forgetLocked() throws IOException {
        VaultFile file = vault.openFile(vault.path("/forgotten"), VaultFile.WRITE | VaultFile.CREATE, 0600);
        file.write("kept".getBytes(), 0, 4);
        file.tryLock(false);
    }

    private static boolean takesLock(VaultFile file) throws IOException {
        try {
            file.tryLock(false);
            return true;
        } catch (VaultException locked) {
            assertEquals(VaultException.Kind.LOCKED, locked.kind());
            return false;
        }
    }

    // ---- paths of others

    /** Goal: no call reads or changes in one vault what is meant in another. Method: reflection lists the calls that take a path. */
    @Test
    void aPathOfAnotherVaultOrSnapshotIsRefused() throws Exception {
        Files.writeString(vault.path("/a"), "mine");
        int count = 0;
        try (Vault other = Vaults.make(place.resolve("another"));
                Snapshot then = vault.snapshot();
                Transaction transaction = vault.begin();
                VaultFile file = vault.openUnnamed(vault.path("/"), 0600)) {
            Files.writeString(other.path("/a"), "theirs");
            for (Path wrong : List.of(other.path("/a"), then.path("/a"))) {
                for (Object owner : new Object[] {vault, transaction, file}) {
                    for (Method method : owner.getClass().getDeclaredMethods()) {
                        count += refusals(owner, method, vault.path("/a"), wrong);
                    }
                }
            }
            assertEquals("theirs", Files.readString(other.path("/a")));
            assertEquals(List.of("a"), other.begin().list(other.path("/")));
        }
        assertTrue(count > 50, count + " calls");
        assertEquals("mine", Files.readString(vault.path("/a")));
        Vaults.empty(vault);
    }

    /** Makes a call with {@code wrong} for each of its paths in turn; gives how often. */
    private static int refusals(Object owner, Method method, Path right, Path wrong) {
        int modifiers = method.getModifiers();
        // A backup goes into a folder of the machine.
        if (!Modifier.isPublic(modifiers) || Modifier.isStatic(modifiers) || method.getName().equals("backup")) {
            return 0;
        }
        Class<?>[] types = method.getParameterTypes();
        int count = 0;
        for (int at = 0; at < types.length; at++) {
            if (types[at] != Path.class) {
                continue;
            }
            Object[] arguments = Arrays.stream(types).map(type -> argument(type, right)).toArray();
            arguments[at] = wrong;
            InvocationTargetException thrown =
                    assertThrows(InvocationTargetException.class, () -> method.invoke(owner, arguments), method.toString());
            Throwable cause = thrown.getCause();
            String said = method + ": " + cause;
            assertTrue(cause instanceof IllegalArgumentException, said);
            assertTrue(cause.getMessage().contains("another vault or snapshot"), said);
            count++;
        }
        return count;
    }

    private static Object argument(Class<?> type, Path path) {
        if (type == Path.class) {
            return path;
        }
        if (type == String.class) {
            return "t:none";
        }
        if (type == byte[].class) {
            return new byte[] {1};
        }
        return type.isEnum() ? type.getEnumConstants()[0] : nothing(type);
    }

    private static boolean isOpen(long listing) {
        try {
            Native.page(listing);
            return true;
        } catch (Failure closed) {
            return false;
        }
    }

    // ---- threads

    @Test
    void manyThreadsUseOneVault() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(64);
        List<Future<?>> done = new ArrayList<>();
        for (int number = 0; number < 64; number++) {
            int mine = number;
            done.add(threads.submit((Callable<Void>) () -> {
                Random random = new Random(mine);
                Path path = vault.path("/thread" + mine);
                for (int round = 0; round < 20; round++) {
                    byte[] data = new byte[random.nextInt(100_000)];
                    random.nextBytes(data);
                    Files.write(path, data);
                    assertArrayEquals(data, Files.readAllBytes(path));
                    assertThrows(NoSuchFileException.class, () -> Files.size(vault.path("/none" + mine)));
                }
                Files.delete(path);
                return null;
            }));
        }
        for (Future<?> one : done) {
            one.get();
        }
        threads.shutdown();
    }

    @Test
    void aVaultIsClosedUnderThreadsThatUseIt() throws Exception {
        Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<?>> done = new ArrayList<>();
        java.util.concurrent.CountDownLatch all = new java.util.concurrent.CountDownLatch(8);
        for (int number = 0; number < 8; number++) {
            int mine = number;
            done.add(threads.submit(() -> {
                Path path = second.path("/under" + mine);
                boolean first = true;
                while (true) {
                    try {
                        Files.write(path, new byte[1000]);
                        Files.readAllBytes(path);
                    } catch (IOException | ClosedFileSystemException closed) {
                        assertEquals(Errno.EBADF, VaultException.errnoOf(closed), closed.toString());
                        return;
                    }
                    if (first) {
                        all.countDown();
                        first = false;
                    }
                }
            }));
        }
        all.await();
        second.close();
        for (Future<?> one : done) {
            one.get();
        }
        threads.shutdown();
    }

    // ---- transactions, snapshots, remotes

    @Test
    void aTransactionIsWholeOrNothing() throws Exception {
        Path count = vault.path("/count");
        vault.replace(count, "0".getBytes(), true);
        try (Transaction transaction = vault.begin()) {
            assertTrue(transaction.exists(count) && !transaction.exists(vault.path("/receipt")));
            assertEquals("0", new String(transaction.read(count)));
            assertEquals(1, transaction.attributes(count).size());
            transaction.write(count, "1".getBytes()).createDirectory(vault.path("/made")).createSymbolicLink(vault.path("/made/link"), "x");
            transaction.createLink(vault.path("/made/count"), count).setMode(count, 0600).truncate(count, 1);
            transaction.commit(true);
            assertThrows(ClosedFileSystemException.class, () -> transaction.commit(true));
        }
        assertEquals("1", Files.readString(vault.path("/made/count")));
        try (Transaction late = vault.begin()) {
            late.read(count);
            vault.replace(count, "9".getBytes(), false);
            late.write(count, "2".getBytes());
            assertEquals(VaultException.Kind.CHANGED, kindOf(() -> late.commit(false)));
        }
        try (Transaction dropped = vault.begin()) {
            assertEquals(List.of("count", "link"), dropped.list(vault.path("/made")));
            dropped.delete(count);
            dropped.delete(vault.path("/made/link")).deleteDirectory(vault.path("/made"));
            dropped.rename(vault.path("/a"), vault.path("/b"), Vault.Rename.NO_REPLACE);
        }
        assertEquals("9", Files.readString(count));
        Vaults.empty(vault);
    }

    @Test
    void earlierStatesAreReadAndBroughtBack() throws Exception {
        Path file = Files.write(vault.path("/kept"), "then".getBytes());
        Snapshot.Info taken = vault.takeSnapshot("before", "spring");
        assertEquals(List.of("spring"), taken.tags);
        assertTrue(vault.takeSnapshotIfChanged("again").isEmpty());
        Files.delete(file);
        assertEquals(List.of(file), vault.differences("t:spring", null, vault.path("/")));
        try (Snapshot then = vault.at("t:spring")) {
            assertEquals("then", Files.readString(then.path("/kept")));
        }
        assertEquals(1, vault.restore("t:spring", file, file));
        assertEquals("then", Files.readString(file));
        assertEquals(1, vault.snapshots("t:spring").size());
        vault.removeSnapshot(taken.id);
        assertEquals(VaultException.Kind.NO_SUCH_SNAPSHOT, kindOf(() -> vault.at("t:spring")));
        Vaults.empty(vault);
    }

    @Test
    void whoHearsOfProgressStopsIt() throws Exception {
        Files.write(vault.path("/content"), new byte[1_000_000]);
        vault.sync();
        Vault.Verified verified = vault.verify(true, (done, total) -> done <= total);
        assertTrue(verified.sound && verified.finished && !verified.isDamaged);
        assertFalse(vault.verify(false, (done, total) -> false).finished);
        assertEquals("heard", assertThrows(IllegalStateException.class, () -> vault.verify(false, (done, total) -> {
            throw new IllegalStateException("heard");
        })).getMessage());
        assertTrue(vault.backup(place.resolve("backup"), null) > 0);
        assertEquals(VaultException.Kind.STOPPED, kindOf(() -> vault.backup(place.resolve("half"), (done, total) -> false)));
        assertTrue(vault.check().isEmpty());
        assertTrue(vault.space().freeBytes > 0);
        assertFalse(vault.rotation().isRunning);
        Vaults.empty(vault);
    }

    @Test
    void twoDevicesSync() throws Exception {
        Path stick = Files.createDirectory(place.resolve("stick"));
        Files.write(vault.path("/shared"), "one".getBytes());
        vault.addRemote("stick", "folder:" + stick, false);
        assertTrue(vault.push("stick", null).objects > 0);
        assertEquals("stick", vault.remotes().get(0).name);
        assertTrue(vault.checkRemote("stick", true, null).isEmpty());
        try (Secret secret = Secret.keyFile(place.resolve("vault.key"))) {
            String fingerprint = Vault.cloneRemote("folder:" + stick, place.resolve("clone"), secret, Vaults.options(), null);
            assertEquals(vault.information().fingerprint, fingerprint);
            try (Vault clone = Vault.open(place.resolve("clone"), secret, Vaults.options())) {
                Files.write(clone.path("/shared"), new byte[] {0, 1});
                clone.syncWith("origin", null);
            }
        }
        Files.write(vault.path("/shared"), new byte[] {0, 2});
        Vault.Pulled pulled = vault.pull("stick", null);
        assertEquals(1, pulled.conflicts);
        assertEquals(0, pulled.received);
        assertTrue(pulled.receivedPaths.isEmpty() && pulled.depositProblems.isEmpty());
        Vault.Conflict conflict = vault.conflicts().get(0);
        assertEquals(vault.path("/shared"), conflict.beside);
        assertTrue(conflict.isPublished);
        assertEquals(conflict.beside, vault.settleConflict(conflict.path, Vault.Keep.MINE));
        assertEquals(VaultException.Kind.REMOTE, kindOf(() -> vault.push("none", null)));
        vault.acceptRecords();
        vault.removeRemote("stick");
        Vaults.empty(vault);
    }

    // ---- continuous sync

    /** A vault of its own with a remote called stick. */
    private static Vault withStick(String name) throws Exception {
        Vault made = Vaults.make(place.resolve(name));
        Path stick = Files.createDirectory(place.resolve(name + ".stick"));
        made.addRemote("stick", "folder:" + stick, false);
        return made;
    }

    /** Hears of a sync; each time that something went up it does something and then says so. */
    private static final class Listening implements SyncListener {
        private final java.util.concurrent.Callable<Boolean> does;
        private final java.util.concurrent.Semaphore synced = new java.util.concurrent.Semaphore(0);
        private final java.util.concurrent.CompletableFuture<ContinuousSync> sync = new java.util.concurrent.CompletableFuture<>();

        Listening(java.util.concurrent.Callable<Boolean> does) {
            this.does = does;
        }

        @Override
        public boolean heard(SyncEvent event) {
            if (event.kind != SyncEvent.Kind.SYNCED || event.report.pushed.objects == 0) {
                return true;
            }
            try {
                return event.remote.equals("stick") && does.call();
            } catch (Exception thrown) {
                throw new IllegalStateException(thrown);
            } finally {
                synced.release();
            }
        }

        void begin(Vault vault) throws Exception {
            sync.complete(vault.keepInSync(1000, this));
            synced.acquire();
        }
    }

    @Test
    void aContinuousSyncBringsThingsThere() throws Exception {
        try (Vault own = withStick("continuous")) {
            Files.write(own.path("/a"), "one".getBytes());
            Listening listening = new Listening(() -> true);
            listening.begin(own);
            Files.write(own.path("/a"), "two".getBytes());
            listening.synced.acquire();
            ContinuousSync sync = listening.sync.get();
            Files.write(own.path("/b"), "three".getBytes());
            sync.finish();
            sync.finish();
            sync.close();
            assertEquals(0, own.push("stick", null).objects);
        }
    }

    @Test
    void aListenerMayEndItsContinuousSync() throws Exception {
        try (Vault own = withStick("ending")) {
            Files.write(own.path("/a"), "one".getBytes());
            Listening answers = new Listening(() -> false);
            answers.begin(own);
            answers.sync.get().close();
            for (boolean finishes : new boolean[] {true, false}) {
                Files.write(own.path("/" + finishes), "something new".getBytes());
                Listening[] itself = new Listening[1];
                itself[0] = new Listening(() -> {
                    ContinuousSync sync = itself[0].sync.get();
                    if (finishes) {
                        sync.finish();
                    }
                    sync.close();
                    sync.close();
                    return true;
                });
                itself[0].begin(own);
                itself[0].sync.get().finish();
                assertEquals(0, itself[0].synced.availablePermits());
            }
            own.push("stick", null);
        }
    }

    @Test
    void aProgressMayEndAContinuousSync() throws Exception {
        try (Vault own = withStick("within")) {
            Files.write(own.path("/a"), "one".getBytes());
            List<Boolean> ended = new ArrayList<>();
            own.push("stick", (done, total) -> {
                // The first look of a sync waits for the push, which waits for this function.
                for (boolean finishes : new boolean[] {true, false}) {
                    try (ContinuousSync sync = own.keepInSync(1000, event -> true)) {
                        if (finishes) {
                            sync.finish();
                        }
                    } catch (IOException thrown) {
                        throw new java.io.UncheckedIOException(thrown);
                    }
                    ended.add(finishes);
                }
                return true;
            });
            assertFalse(ended.isEmpty());
            own.push("stick", null);
        }
    }

    @Test
    void whatAListenerThrowsIsReportedAndEndsNothing() throws Exception {
        List<Throwable> reported = java.util.Collections.synchronizedList(new ArrayList<>());
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.add(thrown));
        try (Vault own = withStick("throwing")) {
            Files.write(own.path("/a"), "one".getBytes());
            Listening listening = new Listening(() -> {
                throw new java.io.IOException("thrown by the listener");
            });
            listening.begin(own);
            Files.write(own.path("/a"), "two".getBytes());
            listening.synced.acquire();
            listening.sync.get().close();
            assertTrue(reported.size() >= 2 && reported.stream().allMatch(IllegalStateException.class::isInstance));
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    @Test
    void aContinuousSyncThatNobodyKeepsGoesOn() throws Exception {
        try (Vault own = withStick("unkept")) {
            Listening listening = new Listening(() -> true);
            own.keepInSync(1000, listening);
            Files.write(own.path("/a"), "one".getBytes());
            listening.synced.acquire();
            System.gc();
            Files.write(own.path("/a"), "two".getBytes());
            listening.synced.acquire();
        }
    }

    @Test
    void aContinuousSyncEndsWithItsVault() throws Exception {
        Vault own = withStick("with-vault");
        Files.write(own.path("/a"), "one".getBytes());
        Listening listening = new Listening(() -> true);
        listening.begin(own);
        own.close();
        listening.sync.get().finish();
        listening.sync.get().close();
        assertThrows(ClosedFileSystemException.class, () -> own.keepInSync(1000, event -> true));
        assertThrows(NullPointerException.class, () -> vault.keepInSync(1000, null));
        assertThrows(VaultException.class, () -> vault.keepInSync(-1, event -> true));
    }

    // ---- space, pairing

    @Test
    void contentIsEvictedAndPinned() throws Exception {
        byte[] content = new byte[9 << 20];
        new Random(7).nextBytes(content);
        try (Vault own = withStick("evicting")) {
            Path file = own.path("/a");
            Files.write(file, content);
            own.limitRemotes(1L << 40, 0);
            assertEquals(0, own.evict(null, null).segments);
            own.push("stick", null);
            assertTrue(own.evict(file, (done, total) -> false).isStopped);
            assertThrows(IllegalStateException.class, () -> own.evict(file, (done, total) -> {
                throw new IllegalStateException();
            }));
            EvictReport evicted = own.evict(file, null);
            assertTrue(evicted.segments > 0 && evicted.bytes > 8 << 20 && evicted.problems.isEmpty() && !evicted.isStopped);
            assertTrue(own.information().awayBytes > 8 << 20);
            assertArrayEquals(content, Files.readAllBytes(file));
            assertEquals(0, own.information().awayBytes);
            assertEquals(0, own.pin(file, null).segments);
            assertEquals(List.of(file), own.pins());
            assertTrue(own.evict(null, null).pinned > 0);
            assertTrue(own.unpin(file));
            assertFalse(own.unpin(file));
            own.evict(null, null);
            assertTrue(own.bringBack(file, null).segments > 0);
            assertThrows(NoSuchFileException.class, () -> own.pin(own.path("/none"), null));

            Path folder = place.resolve("demanding");
            try (Secret secret = Secret.keyFile(place.resolve("evicting.key"))) {
                Vault.cloneRemote("folder:" + place.resolve("evicting.stick"), folder, secret, Vaults.options().onDemand(), null);
                try (Vault demanding = Vault.open(folder, secret, Vaults.options())) {
                    assertTrue(demanding.information().awayBytes > 8 << 20);
                    assertArrayEquals(content, Files.readAllBytes(demanding.path("/a")));
                    demanding.syncWith("origin", null);
                }
            }
            own.syncWith("stick", null);
            assertEquals(0, own.unusedAtRemote("stick").objects);
            own.pruneRemote("stick", 0, null);
            assertTrue(own.checkRemote("stick", false, null).isEmpty());
            assertEquals(VaultException.Kind.REMOTE, kindOf(() -> own.pruneRemote("none", 0, null)));
        }
    }

    @Test
    void aSyncKeepsTheLimitOfTheDevice() throws Exception {
        byte[] content = new byte[9 << 20];
        new Random(9).nextBytes(content);
        try (Vault own = withStick("limited")) {
            Files.write(own.path("/a"), content);
            own.push("stick", null);
            assertEquals(OptionalLong.empty(), own.keepAtMost());
            assertEquals(Errno.EINVAL, assertThrows(VaultException.class, () -> own.setKeepAtMost(OptionalLong.of(-1))).errno());
            own.setKeepAtMost(OptionalLong.of(1));
            assertEquals(OptionalLong.of(1), own.keepAtMost());
            Vault.Synced synced = own.syncWith("stick", null);
            assertTrue(synced.evictedSegments > 0 && synced.evictedBytes > 8 << 20);
            assertTrue(own.information().awayBytes > 8 << 20);
            own.setKeepAtMost(OptionalLong.empty());
            assertEquals(OptionalLong.empty(), own.keepAtMost());
            assertArrayEquals(content, Files.readAllBytes(own.path("/a")));
        }
    }

    @Test
    void whatIsAboveTheLimitIsEvictedAtOnce() throws Exception {
        byte[] content = new byte[9 << 20];
        new Random(11).nextBytes(content);
        try (Vault own = withStick("above")) {
            Files.write(own.path("/a"), content);
            own.sync();
            Vault.Verified verified = own.verify(false, null);
            assertTrue(verified.sound && verified.bytes > 0 && verified.blocks > 0);
            RemoteStatus status = own.remoteStatus("stick");
            assertTrue(status.isWaiting && status.waitingBytes > 8 << 20 && status.newest.isEmpty());
            assertEquals(OptionalLong.of(1), status.waitingFiles);
            Vault.Pushed pushed = own.push("stick", null);
            assertTrue(pushed.objects > 0 && pushed.bytes > 8 << 20 && pushed.publications > 0);
            pushed = own.push("stick", null);
            assertTrue(pushed.objects == 0 && pushed.bytes == 0 && pushed.publications == 0);
            Vault.Remote stick = own.remotes().get(0);
            assertTrue(stick.code.length() == 24 && stick.publications > 0 && stick.objects > 0 && !stick.keeps);
            status = own.remoteStatus("stick");
            assertTrue(!status.isWaiting && status.contact.isPresent() && status.newest.get(0).isThis);
            assertEquals(OptionalLong.of(0), status.waitingFiles);
            assertEquals(stick.publications, status.newest.get(0).number);
            assertEquals(0, own.evictToLimit(null).segments);
            own.setKeepAtMost(OptionalLong.of(1));
            assertTrue(own.evictToLimit((done, total) -> false).isStopped);
            assertThrows(IllegalStateException.class, () -> own.evictToLimit((done, total) -> {
                throw new IllegalStateException();
            }));
            EvictReport evicted = own.evictToLimit(null);
            assertTrue(evicted.segments > 0 && evicted.bytes > 8 << 20 && evicted.problems.isEmpty() && !evicted.isStopped);
            assertTrue(evicted.kept == 0 && evicted.pinned == 0 && own.information().awayBytes > 8 << 20);
            assertArrayEquals(content, Files.readAllBytes(own.path("/a")));
        }
    }

    /** Method: another copy of the vault gets a key, and this one its header. */
    @Test
    void aKeyThatWaitsForADecisionIsNoDamage() throws Exception {
        Path folder = place.resolve("waiting");
        Path elsewhere = place.resolve("elsewhere");
        try (Vault own = Vaults.make(folder)) {
            own.backup(elsewhere, null);
        }
        // From now on it is a vault of its own.
        Files.delete(elsewhere.resolve("backup"));
        try (Secret key = Secret.keyFile(place.resolve("waiting.key"));
                Keys keys = Keys.open(elsewhere, key, Vaults.options())) {
            keys.addRecoveryCode("elsewhere");
        }
        Files.copy(elsewhere.resolve("vault.json"), folder.resolve("vault.json"), StandardCopyOption.REPLACE_EXISTING);
        try (Vault own = Vaults.open(folder, Vaults.options())) {
            assertEquals(1, own.information().unknownRecords.size());
            Vault.Verified verified = own.verify(false, null);
            assertTrue(!verified.sound && !verified.isDamaged && verified.problems.size() == 1);
            own.acceptRecords();
            assertTrue(own.verify(false, null).sound);
        }
    }

    @Test
    void aRuleSaysWhichSnapshotsStay() throws Exception {
        try (Vault own = Vaults.make(place.resolve("ruled"))) {
            assertEquals(new Retention(0, 24, 30, 0, 12, 0, false), own.retention());
            assertTrue(own.sharedRetention().isEmpty());
            for (Retention wrong : List.of(
                    new Retention(0, 0, 0, 0, 0, 0, true),
                    new Retention(0, -1, 0, 0, 0, 0, false),
                    new Retention(1L << 32, 0, 0, 0, 0, 0, false))) {
                assertEquals(Errno.EINVAL, assertThrows(VaultException.class, () -> own.setRetention(wrong)).errno());
            }
            for (Retention rule : List.of(Retention.EVERYTHING, new Retention(1, 2, 3, 4, 5, 6, true))) {
                own.setRetention(rule);
                assertEquals(rule, own.retention());
            }
            own.setRetention(new Retention(1, 0, 0, 0, 0, 0, true));
            own.takeSnapshot("");
            own.takeSnapshot("");
            assertEquals(1, own.thin().size());
        }
    }

    @Test
    void historyIsThinnedAndErased() throws Exception {
        try (Vault own = Vaults.make(place.resolve("erasing"))) {
            Path file = own.path("/secret");
            Files.write(file, new byte[100_000]);
            own.takeSnapshot("with it");
            Files.delete(file);
            assertTrue(own.usage().keptBytes > 0);
            assertEquals(1, own.erase(file, true).files);
            Erased erased = own.erase(file, false);
            assertEquals(List.of(1L, 1L, 0L, 0L), List.of(erased.snapshots, erased.files, erased.sharedBytes, erased.segmentsLeft));
            assertTrue(erased.bytes >= 100_000);
            assertTrue(own.thin().size() <= 1);
        }
    }

    private static void writeText(Vault vault, String text) throws Exception {
        Files.write(vault.path("/text"), text.getBytes());
    }

    @Test
    void aSyncSaysWhatItErasedAndMerged() throws Exception {
        byte[] content = new byte[400_000];
        new Random(8).nextBytes(content);
        Path folder = place.resolve("saying.two");
        try (Vault own = withStick("saying");
                Secret secret = Secret.keyFile(place.resolve("saying.key"))) {
            Path file = own.path("/secret");
            Files.write(file, content);
            writeText(own, "a\nb\nc\nd\ne\nf\ng\nh\n");
            own.takeSnapshot("with it", "with");
            own.syncWith("stick", null);
            Vault.cloneRemote("folder:" + place.resolve("saying.stick"), folder, secret, Vaults.options(), null);
            try (Vault other = Vault.open(folder, secret, Vaults.options())) {
                other.syncWith("origin", null);
                own.syncWith("stick", null);
                Files.delete(file);
                assertTrue(own.erase(file, false).bytes >= content.length);
                writeText(own, "one\nb\nc\nd\ne\nf\ng\nh\n");
                writeText(other, "a\nb\nc\nd\ne\nf\ng\ntwo\n");
                own.syncWith("stick", null);
                Vault.Synced synced = other.syncWith("origin", null);
                Vault.Pulled pulled = synced.pulled;
                assertTrue(pulled.erasedBytes >= content.length);
                assertEquals(0, pulled.unerasedBytes);
                assertTrue(pulled.eraseProblems.isEmpty());
                assertEquals(1, pulled.merged);
                assertEquals(List.of("/text"), pulled.mergedPaths);
                assertTrue(pulled.names > 0 && pulled.nodes > 0);
                assertEquals(0, synced.evictedSegments + synced.evictedBytes);
                // What follows those fields is read from its place.
                assertTrue(synced.pushed.objects > 0 && synced.pushed.publications > 0);
                try (Snapshot then = other.at("t:with")) {
                    assertThrows(IOException.class, () -> Files.readAllBytes(then.path("/secret")));
                }
            }
        }
    }

    private static String wrong(String code) {
        char last = code.charAt(code.length() - 1);
        return code.substring(0, code.length() - 1) + (last == '0' ? '1' : '0');
    }

    @Test
    void aDeviceIsLetInByACode() throws Exception {
        byte[] laptop = Secret.newKeyFile();
        try (Vault own = withStick("pairing");
                Secret key = Secret.keyFile(place.resolve("pairing.key"));
                Secret secret = Secret.keyFile(laptop);
                Keys keys = Keys.open(place.resolve("pairing"), key, Vaults.options())) {
            String url = "folder:" + place.resolve("pairing.stick");
            Path folder = place.resolve("laptop");
            Files.write(own.path("/a"), "for both".getBytes());
            own.push("stick", null);
            assertThrows(VaultException.class, () -> new NewDevice(url, secret, ""));
            Invitation invitation = own.invite("stick");
            NewDevice device = new NewDevice(url, secret, "laptop");
            assertTrue(invitation.look().isEmpty());
            assertThrows(VaultException.class, device::look);
            assertThrows(VaultException.class, () -> device.ask("no code"));
            assertThrows(VaultException.class, () -> device.cloneInto(folder, Vaults.options(), null));

            device.ask(wrong(invitation.code()));
            assertTrue(invitation.look().isEmpty());
            assertFalse(device.look());
            assertEquals(5, invitation.triesLeft());
            assertTrue(invitation.look().isEmpty());
            assertEquals(4, invitation.triesLeft());
            assertEquals(Errno.EACCES, assertThrows(VaultException.class, device::look).errno());

            device.ask(invitation.code());
            assertTrue(invitation.look().isEmpty());
            assertFalse(device.look());
            Invitation.Candidate candidate = invitation.look().orElseThrow();
            assertEquals("laptop", candidate.name);
            assertEquals(device.fingerprint(), candidate.fingerprint);
            try (Vault stranger = Vaults.make(place.resolve("stranger"));
                    Secret strange = Secret.keyFile(place.resolve("stranger.key"));
                    Keys foreign = Keys.open(place.resolve("stranger"), strange, Vaults.options())) {
                assertTrue(stranger.isOwner());
                VaultException refused = assertThrows(VaultException.class, () -> invitation.admit(candidate, foreign));
                assertEquals(Errno.EINVAL, refused.errno());
                assertEquals(2, foreign.slots().size(), "the key file and the recovery code, as before");
            }
            invitation.admit(candidate, keys);
            assertTrue(device.look());
            // What another thread may have while it waits for a remote is refused to a listener.
            int deadlock = 35;
            Progress meets = (done, total) -> {
                assertEquals(deadlock, assertThrows(VaultException.class, keys::slots).errno());
                assertEquals(deadlock, assertThrows(VaultException.class, invitation::look).errno());
                return !device.fingerprint().isEmpty();
            };
            assertEquals(own.information().fingerprint, device.cloneInto(folder, Vaults.options(), meets));
            assertEquals(Errno.EINVAL, assertThrows(VaultException.class, invitation::look).errno());
            assertFalse(keys.slots().isEmpty());
            invitation.close();
            invitation.close();
            device.close();
            assertThrows(ClosedFileSystemException.class, device::look);
            try (Vault joined = Vault.open(folder, secret, Vaults.options())) {
                assertEquals("for both", Files.readString(joined.path("/a")));
                joined.syncWith("origin", null);
            }

            own.syncWith("stick", null);
            try (Invitation again = own.invite("stick"); NewDevice other = new NewDevice(url, secret, "other")) {
                other.ask(again.code());
                assertTrue(again.look().isEmpty());
                assertFalse(other.look());
                again.refuse(again.look().orElseThrow());
                assertEquals(Errno.EACCES, assertThrows(VaultException.class, other::look).errno());
            }
        }
        Arrays.fill(laptop, (byte) 0);
    }

    /** A program that ends without closing anything loses nothing. */
    @Test
    void whatAProgramLeavesOpenIsClosedAtItsEnd() throws Exception {
        Path folder = place.resolve("left");
        Vaults.make(folder).close();
        Process program = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "-Dstrongroom.library=" + System.getProperty("strongroom.library"),
                        Left.class.getName(),
                        folder.toString())
                .inheritIO()
                .start();
        assertEquals(0, program.waitFor());
        try (Vault again = Vaults.open(folder, Vaults.options())) {
            assertEquals("left open", Files.readString(again.path("/file")));
            assertFalse(Files.exists(again.path("/temporary")));
        }
    }

    /** That program. */
    public static final class Left {
        private Left() {}

        /** Its only argument is the vault folder. */
        public static void main(String[] arguments) throws Exception {
            Vault vault = Vaults.open(Path.of(arguments[0]), Vaults.options());
            var channel = java.nio.channels.FileChannel.open(
                    vault.path("/file"), java.nio.file.StandardOpenOption.CREATE, java.nio.file.StandardOpenOption.WRITE);
            channel.write(java.nio.ByteBuffer.wrap("left open".getBytes()));
            Files.createFile(vault.path("/temporary"));
            vault.deleteAtExit(vault.path("/temporary"));
            // It keeps no program from ending.
            Path stick = Files.createDirectory(Path.of(arguments[0] + ".stick"));
            vault.addRemote("stick", "folder:" + stick, false);
            vault.keepInSync(1000, event -> true);
        }
    }
}
