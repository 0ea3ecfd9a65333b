package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.ClosedFileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Other processes beside this one: they own the vault, are killed, or load a library of another version. */
class ProcessesTest {
    private static final int CONNECTION_ABORTED = 103;
    private static final int BUSY = 16;
    private static final int STALE = 116;

    /** Writers beside an owner that is killed, and what each of them writes before and after. */
    private static final int WRITERS = 4;

    private static final int WRITES = 20;

    /** So often in a row a write may say that the owner has gone; an owner that follows it takes moments. */
    private static final int FAILURES_MAX = 1000;

    /** So many signals a program gets in the middle of its calls. */
    private static final int SIGNALS = 20;

    @TempDir
    Path place;

    private Path folder;

    @BeforeEach
    void make() throws Exception {
        folder = place.resolve("vault");
        Vaults.make(folder).close();
    }

    private static VaultException.Kind kindOf(org.junit.jupiter.api.function.Executable call) {
        return assertThrows(VaultException.class, call).kind();
    }

    private static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    private static String classes() {
        return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    }

    private static String library() {
        return "-Dstrongroom.library=" + System.getProperty("strongroom.library");
    }

    /** A process that owns the vault, and has written {@code /a}; it ends with its input. */
    private Process owner() throws IOException {
        Process owner = new ProcessBuilder(java(), "-cp", classes(), library(), Owner.class.getName(), folder.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        assertEquals('r', owner.getInputStream().read(), "the owner is ready");
        return owner;
    }

    /** That process. */
    public static final class Owner {
        private Owner() {}

        /** Its only argument is the vault folder. */
        public static void main(String[] arguments) throws Exception {
            try (Vault vault = Vaults.open(Path.of(arguments[0]), Vaults.options())) {
                Files.write(vault.path("/a"), "durable".getBytes());
                vault.sync();
                System.out.print("ready");
                System.out.flush();
                while (System.in.read() >= 0) {
                    // Until the test has done with it.
                }
            }
        }
    }

    private static void kill(Process owner) throws InterruptedException {
        owner.destroyForcibly();
        owner.waitFor();
    }

    private static void end(Process owner) throws Exception {
        owner.getOutputStream().close();
        assertEquals(0, owner.waitFor());
    }

    @Test
    void aVaultOfAnotherProcessIsUsedThroughItAndNotOwned() throws Exception {
        Process owner = owner();
        VaultException inUse = assertThrows(VaultException.class, () -> Vaults.open(folder, Vaults.options().exclusive()));
        assertEquals(VaultException.Kind.IN_USE, inUse.kind());
        assertEquals(BUSY, inUse.errno());
        try (Vault vault = Vaults.open(folder, Vaults.options())) {
            assertFalse(vault.isOwner());
            assertEquals("durable", Files.readString(vault.path("/a")));
        }
        end(owner);
        try (Vault vault = Vaults.open(folder, Vaults.options().exclusive())) {
            assertTrue(vault.isOwner());
        }
    }

    @Test
    void anOwnerThatIsKilledIsFollowedByItsClient() throws Exception {
        Process owner = owner();
        try (Vault vault = Vaults.open(folder, Vaults.options());
                FileChannel reader = FileChannel.open(vault.path("/a"));
                FileChannel writer = FileChannel.open(vault.path("/b"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            writer.force(true);
            writer.write(ByteBuffer.wrap("unsynced".getBytes()));
            kill(owner);
            ByteBuffer read = ByteBuffer.allocate(7);
            assertEquals(7, reader.read(read));
            assertEquals("durable", new String(read.array()));
            assertTrue(vault.isOwner());
            VaultException gone = assertThrows(VaultException.class, () -> writer.write(ByteBuffer.wrap("more".getBytes())));
            assertEquals(VaultException.Kind.OWNER_GONE, gone.kind());
            assertEquals(CONNECTION_ABORTED, gone.errno());
            // What the vault was asked for beside files may be lost, too; that is said once.
            assertEquals(VaultException.Kind.OWNER_GONE, kindOf(vault::sync));
            Files.write(vault.path("/c"), "and on".getBytes());
            vault.sync();
        }
    }

    /** Goal: no other file takes its place. Method: the name goes while the file is open, then its owner, then the name is another's. */
    @Test
    void aFileThatWentWithItsOwnerIsStaleFromThenOn() throws Exception {
        Process owner = owner();
        try (Vault vault = Vaults.open(folder, Vaults.options()); FileChannel channel = FileChannel.open(vault.path("/a"))) {
            Files.delete(vault.path("/a"));
            vault.sync();
            kill(owner);
            Files.writeString(vault.path("/a"), "another");
            for (int tries = 0; tries < 2; tries++) {
                VaultException stale = assertThrows(VaultException.class, () -> channel.read(ByteBuffer.allocate(1)));
                assertEquals(VaultException.Kind.SYSTEM, stale.kind());
                assertEquals(STALE, stale.errno());
            }
        }
    }

    /**
     * Goal: an owner that dies in the middle of calls of many threads loses nothing that it acknowledged as durable, and the calls say that it
     * has gone, or nothing. Method: each thread replaces its file by the next number; the last one that was acknowledged is there, or one later.
     */
    @Test
    void anOwnerThatDiesInTheMiddleOfCallsLosesNothingDurable() throws Exception {
        Process owner = owner();
        ExecutorService threads = Executors.newFixedThreadPool(WRITERS);
        AtomicBoolean ends = new AtomicBoolean();
        Semaphore done = new Semaphore(0);
        try (Vault vault = Vaults.open(folder, Vaults.options())) {
            List<Future<Integer>> acknowledged = new ArrayList<>();
            for (int number = 0; number < WRITERS; number++) {
                Path path = vault.path("/" + number);
                acknowledged.add(threads.submit((Callable<Integer>) () -> write(vault, path, ends, done)));
            }
            wait(done, acknowledged);
            kill(owner);
            done.drainPermits();
            wait(done, acknowledged);
            ends.set(true);
            for (int number = 0; number < WRITERS; number++) {
                int last = acknowledged.get(number).get();
                int found = Integer.parseInt(Files.readString(vault.path("/" + number)));
                assertTrue(found == last || found == last + 1, "thread " + number + ": " + found + " after " + last);
            }
            try {
                vault.sync();
            } catch (VaultException once) {
                assertEquals(VaultException.Kind.OWNER_GONE, once.kind());
            }
            assertTrue(vault.verify(true, null).sound);
        } finally {
            ends.set(true);
            threads.shutdownNow();
        }
    }

    /** Waits for as many writes as all threads make together; a thread that failed says so. */
    private static void wait(Semaphore done, List<Future<Integer>> threads) throws Exception {
        while (!done.tryAcquire(WRITERS * WRITES, 100, TimeUnit.MILLISECONDS)) {
            for (Future<Integer> one : threads) {
                if (one.isDone()) {
                    one.get();
                    throw new AssertionError("a thread has ended");
                }
            }
        }
    }

    /** Writes one number after the other, each until it is acknowledged; gives the last one. */
    private static int write(Vault vault, Path path, AtomicBoolean ends, Semaphore done) throws IOException {
        int acknowledged = 0;
        int failures = 0;
        while (!ends.get()) {
            try {
                vault.replace(path, String.valueOf(acknowledged + 1).getBytes(), true);
                acknowledged++;
                failures = 0;
                done.release();
            } catch (VaultException error) {
                assertEquals(VaultException.Kind.OWNER_GONE, error.kind(), error.toString());
                assertTrue(++failures < FAILURES_MAX, "nobody follows the owner");
            }
        }
        return acknowledged;
    }

    /** Starts a program with the vault folder and {@code more} as its arguments; what it says of errors comes with its output. */
    private Process start(Class<?> program, String... more) throws IOException {
        List<String> command = new ArrayList<>(List.of(java(), "-cp", classes(), library(), program.getName(), folder.toString()));
        command.addAll(List.of(more));
        return new ProcessBuilder(command).redirectErrorStream(true).start();
    }

    /**
     * Goal: a program that ends while threads are in the middle of calls ends as it would without a vault, and what was durable stays. Method: it
     * ends in four ways, beside threads that read and write, and with a channel and a listing that are open. One of them runs no shutdown hook,
     * so that nothing has closed the vault when the libraries are ended.
     */
    @Test
    void aProgramMayEndWhileThreadsAreInTheMiddleOfCalls() throws Exception {
        List<String> ways = List.of("return", "exit", "throw", "halt");
        List<Integer> statuses = List.of(0, 3, 1, 4);
        for (int way = 0; way < ways.size(); way++) {
            Process program = start(InCalls.class, ways.get(way));
            String said = new String(program.getInputStream().readAllBytes());
            assertEquals(statuses.get(way), program.waitFor(), said);
            assertFalse(said.contains("fatal error") || said.contains("panicked"), said);
            try (Vault vault = Vaults.open(folder, Vaults.options().exclusive())) {
                assertEquals(ways.get(way), Files.readString(vault.path("/kept")));
                assertTrue(vault.verify(true, null).sound);
            }
        }
    }

    /** That program. */
    public static final class InCalls {
        private InCalls() {}

        /** Its arguments are the vault folder, and how it ends. */
        public static void main(String[] arguments) throws Exception {
            Vault vault = Vaults.open(Path.of(arguments[0]), Vaults.options());
            vault.replace(vault.path("/kept"), arguments[1].getBytes(), true);
            Files.write(vault.path("/a"), new byte[2_000_000]);
            CountDownLatch begun = new CountDownLatch(WRITERS);
            for (int number = 0; number < WRITERS; number++) {
                Path own = vault.path("/own-" + number);
                Thread thread = new Thread(() -> work(vault, own, begun));
                thread.setDaemon(true);
                thread.start();
            }
            FileChannel open = FileChannel.open(vault.path("/open"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            open.write(ByteBuffer.wrap("left open".getBytes()));
            vault.list(new byte[] {'/'}, false);
            begun.await();
            if (arguments[1].equals("exit")) {
                System.exit(3);
            }
            if (arguments[1].equals("halt")) {
                Runtime.getRuntime().halt(4);
            }
            if (arguments[1].equals("throw")) {
                throw new IllegalStateException("the program ends");
            }
        }

        private static void work(Vault vault, Path own, CountDownLatch begun) {
            try {
                Files.write(own, new byte[100_000]);
                begun.countDown();
                while (true) {
                    Files.write(own, new byte[100_000]);
                    Files.readAllBytes(vault.path("/a"));
                }
            } catch (IOException | ClosedFileSystemException closed) {
                // The end of the program has closed the vault.
            }
        }
    }

    /**
     * Goal: a file that moves from vault to vault is in one of them at any time. Method: a program moves it, makes durable that the first vault
     * has it no more, and ends without closing either.
     */
    @Test
    void aFileThatMovesToAnotherVaultIsDurableThereBeforeItGoes() throws Exception {
        Path target = place.resolve("target");
        Vaults.make(target).close();
        Process program = start(Moving.class, target.toString());
        String said = new String(program.getInputStream().readAllBytes());
        assertEquals(4, program.waitFor(), said);
        try (Vault vault = Vaults.open(target, Vaults.options().exclusive())) {
            assertEquals("the only copy", Files.readString(vault.path("/moved")));
        }
    }

    /** That program. */
    public static final class Moving {
        private Moving() {}

        /** Its arguments are the folders of both vaults. */
        public static void main(String[] arguments) throws Exception {
            Vault from = Vaults.open(Path.of(arguments[0]), Vaults.options());
            Vault to = Vaults.open(Path.of(arguments[1]), Vaults.options());
            from.replace(from.path("/f"), "the only copy".getBytes(), true);
            Files.move(from.path("/f"), to.path("/moved"));
            from.sync();
            Runtime.getRuntime().halt(4);
        }
    }

    /**
     * Goal: a signal interrupts no call, and those of the machine itself still arrive. Method: a program in the middle of calls is asked for the
     * states of its threads again and again, which the machine does with a signal.
     */
    @Test
    void signalsInterruptNoCall() throws Exception {
        Process program = start(Calling.class);
        try (BufferedReader said = new BufferedReader(new InputStreamReader(program.getInputStream()))) {
            until(said, "ready");
            for (int turn = 0; turn < SIGNALS; turn++) {
                Process kill = new ProcessBuilder("sh", "-c", "kill -QUIT " + program.pid()).inheritIO().start();
                assertEquals(0, kill.waitFor());
                until(said, "Full thread dump");
            }
            program.getOutputStream().close();
            until(said, "every call was carried out");
            while (said.readLine() != null) {
                // The rest of what the machine says.
            }
        }
        assertEquals(0, program.waitFor());
        try (Vault vault = Vaults.open(folder, Vaults.options().exclusive())) {
            assertTrue(vault.verify(true, null).sound);
        }
    }

    /** Reads lines until one has these words. */
    private static void until(BufferedReader said, String words) throws IOException {
        StringBuilder before = new StringBuilder();
        for (String line = said.readLine(); line != null; line = said.readLine()) {
            if (line.contains(words)) {
                return;
            }
            before.append(line).append('\n');
        }
        throw new AssertionError("it never said: " + words + "\n" + before);
    }

    /** That program: it ends with its input. */
    public static final class Calling {
        private Calling() {}

        /** Its only argument is the vault folder. */
        public static void main(String[] arguments) throws Exception {
            AtomicBoolean ends = new AtomicBoolean();
            Thread listens = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) {
                        // Until the test has done with it.
                    }
                } catch (IOException gone) {
                    // The same.
                }
                ends.set(true);
            });
            listens.start();
            try (Vault vault = Vaults.open(Path.of(arguments[0]), Vaults.options())) {
                Path path = vault.path("/a");
                System.out.println("ready");
                for (int round = 0; !ends.get(); round++) {
                    byte[] content = new byte[200_000];
                    Arrays.fill(content, (byte) round);
                    Files.write(path, content);
                    if (!Arrays.equals(content, Files.readAllBytes(path))) {
                        throw new AssertionError("another content");
                    }
                    vault.sync();
                }
            }
            System.out.println("every call was carried out");
        }
    }

    /** Goal: neither the lock of the vault nor its files. Method: the program that was started is still there when the vault is owned again. */
    @Test
    void aProgramThatIsStartedKeepsNothingOfTheVault() throws Exception {
        Vault vault = Vaults.open(folder, Vaults.options());
        VaultFile file = vault.openFile(vault.path("/f"), VaultFile.WRITE | VaultFile.CREATE, 0600);
        file.tryLock(false);
        Process started = new ProcessBuilder("cat").start();
        try {
            vault.close();
            try (Vault again = Vaults.open(folder, Vaults.options().exclusive());
                    VaultFile locked = again.openFile(again.path("/f"), VaultFile.WRITE, 0)) {
                assertTrue(again.isOwner() && started.isAlive());
                locked.tryLock(false);
            }
        } finally {
            kill(started);
        }
    }

    /** A folder that the system cannot name is refused like any other that holds no vault. */
    @Test
    void aFolderWithAnEndlessPathIsRefused() throws Exception {
        char[] letters = new char[250];
        Arrays.fill(letters, 'x');
        Path endless = place;
        while (endless.toString().length() <= 4096) {
            endless = endless.resolve(new String(letters));
        }
        Path folder = endless;
        try (Secret secret = Secret.keyFile(place.resolve("vault.key"))) {
            assertThrows(VaultException.class, () -> Vault.open(folder, secret, Vaults.options()));
            assertThrows(VaultException.class, () -> Vault.create(folder, Vaults.options(), secret));
            assertThrows(VaultException.class, () -> Keys.slotsOf(folder));
        }
    }

    /** Goal: classes and a library of different versions do not come together. Method: a class `Native` that lacks what the library has. */
    @Test
    void aLibraryOfAnotherVersionIsRefusedWhenItIsLoaded() throws Exception {
        Path source = Files.createDirectories(place.resolve("io/strongroom")).resolve("Native.java");
        Files.writeString(
                source,
                "package io.strongroom;\n"
                        + "public final class Native {\n"
                        + "    static native long open(byte[] folder);\n"
                        + "    public static void main(String[] arguments) {\n"
                        + "        try {\n"
                        + "            System.load(arguments[0]);\n"
                        + "            System.out.println(\"loaded\");\n"
                        + "        } catch (LinkageError refused) {\n"
                        + "            System.out.println(\"refused: \" + refused.getMessage());\n"
                        + "        }\n"
                        + "    }\n"
                        + "}\n");
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, "-proc:none", "-d", place.toString(), source.toString()));
        Path library = Path.of(System.getProperty("strongroom.library")).toAbsolutePath();
        Process program = new ProcessBuilder(java(), "-cp", place.toString(), "io.strongroom.Native", library.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(program.getInputStream().readAllBytes());
        assertEquals(0, program.waitFor(), said);
        // What Java's own exception said comes after it, as far as the library could find out.
        String refused = "refused: the library and the classes of Strongroom differ in version; use those of one build (";
        assertTrue(said.contains(refused), said);
    }
}
