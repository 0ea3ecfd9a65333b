package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.FileLockInterruptionException;
import java.nio.channels.NonReadableChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A channel of a file in a vault behaves like one of a file on the disk. */
class ChannelTest {
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

    private static ByteBuffer buffer(String text) {
        return ByteBuffer.wrap(text.getBytes());
    }

    private static String content(Path path) throws IOException {
        return new String(Files.readAllBytes(path));
    }

    private static FileChannel open(Path path, OpenOption... options) throws IOException {
        return FileChannel.open(path, options);
    }

    /** Goal: the same calls come to the same on the disk and in the vault. Method: calls drawn by a number that is printed, both compared. */
    @Test
    void aThousandCallsComeToTheSameAsOnTheDisk() throws Exception {
        for (int seed = 0; seed < 10; seed++) {
            Random random = new Random(seed);
            Path disk = place.resolve("disk" + seed);
            OpenOption[] options = {StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE};
            try (FileChannel ours = open(vault.path("/f" + seed), options); FileChannel theirs = open(disk, options)) {
                for (int call = 0; call < 100; call++) {
                    String where = "seed " + seed + ", call " + call;
                    byte[] data = new byte[random.nextInt(5000)];
                    random.nextBytes(data);
                    long at = random.nextInt(200_000);
                    boolean direct = random.nextBoolean();
                    switch (random.nextInt(8)) {
                        case 0:
                            assertEquals(theirs.write(wrap(data, direct)), ours.write(wrap(data, direct)), where);
                            break;
                        case 1:
                            assertEquals(theirs.write(wrap(data, direct), at), ours.write(wrap(data, direct), at), where);
                            break;
                        case 2:
                            assertEquals(read(theirs, data.length, direct, -1), read(ours, data.length, direct, -1), where);
                            break;
                        case 3:
                            assertEquals(read(theirs, data.length, direct, at), read(ours, data.length, direct, at), where);
                            break;
                        case 4:
                            theirs.position(at);
                            ours.position(at);
                            break;
                        case 5:
                            theirs.truncate(at);
                            ours.truncate(at);
                            break;
                        case 6:
                            ByteBuffer[] some = {ByteBuffer.allocate(100), ByteBuffer.allocate(0), ByteBuffer.allocateDirect(data.length)};
                            ByteBuffer[] same = {ByteBuffer.allocate(100), ByteBuffer.allocate(0), ByteBuffer.allocateDirect(data.length)};
                            assertEquals(theirs.read(some), ours.read(same), where);
                            assertEquals(some[2].flip(), same[2].flip(), where);
                            break;
                        default:
                            ByteBuffer[] put = {wrap(data, true), buffer("x"), wrap(data, false)};
                            ByteBuffer[] also = {wrap(data, true), buffer("x"), wrap(data, false)};
                            assertEquals(theirs.write(put), ours.write(also), where);
                    }
                    assertEquals(theirs.position(), ours.position(), where);
                    assertEquals(theirs.size(), ours.size(), where);
                }
            }
            assertArrayEquals(Files.readAllBytes(disk), Files.readAllBytes(vault.path("/f" + seed)), "seed " + seed);
        }
    }

    private static ByteBuffer wrap(byte[] data, boolean direct) {
        return direct ? ByteBuffer.allocateDirect(data.length).put(data).flip() : ByteBuffer.wrap(data);
    }

    private static List<Object> read(FileChannel channel, int len, boolean direct, long at) throws IOException {
        ByteBuffer to = direct ? ByteBuffer.allocateDirect(len) : ByteBuffer.allocate(len + 7).position(3).limit(len + 3).slice();
        int count = at < 0 ? channel.read(to) : channel.read(to, at);
        return List.of(count, to.flip());
    }

    /** Goal: options mean what they mean on the disk. Method: each set of them, on a file that is there and on one that is not. */
    @Test
    void eachSetOfOptionsComesToTheSameAsOnTheDisk() throws Exception {
        StandardOpenOption[] all = {
            StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.APPEND, StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.CREATE, StandardOpenOption.CREATE_NEW, StandardOpenOption.DELETE_ON_CLOSE, StandardOpenOption.SPARSE,
            StandardOpenOption.SYNC
        };
        for (int set = 0; set < 1 << all.length; set++) {
            List<OpenOption> chosen = new ArrayList<>();
            for (int one = 0; one < all.length; one++) {
                if ((set & 1 << one) != 0) {
                    chosen.add(all[one]);
                }
            }
            OpenOption[] options = chosen.toArray(new OpenOption[0]);
            for (boolean isThere : new boolean[] {true, false}) {
                String theirs = outcome(place.resolve("file"), isThere, options);
                assertEquals(theirs, outcome(vault.path("/file"), isThere, options), chosen + ", " + isThere);
            }
        }
    }

    private static String outcome(Path path, boolean isThere, OpenOption... options) throws IOException {
        Files.deleteIfExists(path);
        if (isThere) {
            Files.write(path, "before".getBytes());
        }
        StringBuilder seen = new StringBuilder();
        try (FileChannel channel = open(path, options)) {
            seen.append(channel.position()).append(' ');
            try {
                seen.append(channel.write(buffer("new")));
            } catch (NonWritableChannelException no) {
                seen.append("not writable");
            }
            seen.append(' ').append(channel.position()).append(' ');
            try {
                seen.append(channel.read(ByteBuffer.allocate(2)));
            } catch (NonReadableChannelException no) {
                seen.append("not readable");
            }
        } catch (IOException | IllegalArgumentException | UnsupportedOperationException error) {
            seen.append(error.getClass().getSimpleName());
        }
        return seen + " " + (Files.exists(path) ? content(path) : "none");
    }

    /** Goal: what is deleted on close is what was opened. Method: it is moved, and another file gets its path; and a link to a file. */
    @Test
    void whatGoesOnCloseIsWhatWasOpened() throws Exception {
        Path path = vault.path("/passing");
        Path moved = vault.path("/moved");
        try (FileChannel channel = open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.DELETE_ON_CLOSE)) {
            channel.write(buffer("one"));
            Files.move(path, moved);
            Files.write(path, "another".getBytes());
        }
        assertEquals("another", content(path));
        assertEquals("one", content(moved));
        Path link = Files.createSymbolicLink(vault.path("/link-to-passing"), path);
        assertThrows(FileSystemLoopException.class, () -> open(link, StandardOpenOption.READ, StandardOpenOption.DELETE_ON_CLOSE));
        assertTrue(Files.isSymbolicLink(link));
    }

    /** Goal: a write that is tried again after an error leaves nothing out. Method: the second half would lie behind the largest size of a file. */
    @Test
    void aWriteThatFailsLeavesInTheBufferWhatWasNotWritten() throws Exception {
        Path path = vault.path("/largest");
        long start = Long.MAX_VALUE - (1 << 16) + 1 - VaultFile.TRANSFER_BYTES - 100;
        for (boolean direct : new boolean[] {true, false}) {
            ByteBuffer from = wrap(new byte[2 * VaultFile.TRANSFER_BYTES], direct);
            try (FileChannel channel = open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                channel.position(start);
                assertThrows(IOException.class, () -> channel.write(from));
                assertEquals(VaultFile.TRANSFER_BYTES, from.position());
                assertEquals(start + VaultFile.TRANSFER_BYTES, channel.position());
                from.rewind();
                assertThrows(IOException.class, () -> channel.write(from, start));
                assertEquals(VaultFile.TRANSFER_BYTES, from.position());
            }
            Files.delete(path);
        }
    }

    @Test
    void whatIsAppendedGoesToTheEnd() throws Exception {
        Path path = vault.path("/log");
        Files.write(path, "one\n".getBytes());
        try (FileChannel channel = open(path, StandardOpenOption.APPEND)) {
            Files.write(path, "two\n".getBytes(), StandardOpenOption.APPEND);
            channel.write(buffer("three\n"));
            assertEquals(channel.size(), channel.position());
        }
        assertEquals("one\ntwo\nthree\n", content(path));
    }

    @Test
    void bytesGoFromChannelToChannel() throws Exception {
        byte[] data = new byte[3_000_000];
        new Random(1).nextBytes(data);
        Files.write(vault.path("/a"), data);
        try (FileChannel from = open(vault.path("/a"));
                FileChannel to = open(vault.path("/b"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                FileChannel disk = open(place.resolve("b"), StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.READ)) {
            assertEquals(data.length, from.transferTo(0, Long.MAX_VALUE, to));
            assertEquals(data.length - 10, from.transferTo(10, data.length, disk));
            disk.position(0);
            assertEquals(1000, to.transferFrom(disk, 5, 1000));
            assertEquals(0, to.transferFrom(disk, data.length + 1L, 1000));
            assertEquals(0, from.position());
            ByteArrayOutputStream stream = new ByteArrayOutputStream();
            assertEquals(7, from.transferTo(data.length - 7L, 100, Channels.newChannel(stream)));
        }
        byte[] wanted = data.clone();
        System.arraycopy(data, 10, wanted, 5, 1000);
        assertArrayEquals(wanted, Files.readAllBytes(vault.path("/b")));
        assertArrayEquals(Arrays.copyOfRange(data, 10, data.length), Files.readAllBytes(place.resolve("b")));
    }

    @Test
    void aMappingIsACopy() throws Exception {
        Files.write(vault.path("/a"), "0123456789".getBytes());
        try (FileChannel channel = open(vault.path("/a"), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 2, 5);
            byte[] seen = new byte[5];
            mapped.get(seen);
            assertEquals("23456", new String(seen));
            assertTrue(mapped.isReadOnly());
            mapped.force();
            MappedByteBuffer own = channel.map(FileChannel.MapMode.PRIVATE, 0, 10);
            own.put((byte) 'x');
            assertEquals("0123456789", content(vault.path("/a")));
            assertThrows(IOException.class, () -> channel.map(FileChannel.MapMode.READ_ONLY, 8, 5));
            assertThrows(IOException.class, () -> channel.map(FileChannel.MapMode.READ_ONLY, Long.MAX_VALUE, 1));
            assertEquals(0, channel.map(FileChannel.MapMode.READ_ONLY, 10, 0).capacity());
            assertThrows(UnsupportedOperationException.class, () -> channel.map(FileChannel.MapMode.READ_WRITE, 0, 1));
        }
    }

    /** Goal: no memory is taken for what a file does not have. Method: a program with little memory maps much more than there is. */
    @Test
    void aMappingOfMoreThanThereIsTakesNoMemory() throws Exception {
        Files.write(vault.path("/a"), "0123456789".getBytes());
        Process program = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:MaxDirectMemorySize=16m",
                        "-cp",
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "-Dstrongroom.library=" + System.getProperty("strongroom.library"),
                        Mapping.class.getName(),
                        place.resolve("vault").toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(program.getInputStream().readAllBytes());
        assertEquals(0, program.waitFor(), said);
        assertTrue(said.contains("the file ends before the end of the mapping"), said);
    }

    /** That program. */
    public static final class Mapping {
        private Mapping() {}

        /** Its only argument is the vault folder. */
        public static void main(String[] arguments) throws Exception {
            try (Vault vault = Vaults.open(Path.of(arguments[0]), Vaults.options());
                    FileChannel channel = FileChannel.open(vault.path("/a"))) {
                channel.map(FileChannel.MapMode.READ_ONLY, 0, Integer.MAX_VALUE);
            } catch (IOException refused) {
                System.out.println(refused.getMessage());
            }
        }
    }

    @Test
    void badNumbersAreRefused() throws Exception {
        Files.write(vault.path("/a"), "x".getBytes());
        try (FileChannel channel = open(vault.path("/a"), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            assertThrows(IllegalArgumentException.class, () -> channel.position(-1));
            assertThrows(IllegalArgumentException.class, () -> channel.read(ByteBuffer.allocate(1), -1));
            assertThrows(IllegalArgumentException.class, () -> channel.write(ByteBuffer.allocate(1), -1));
            assertThrows(IllegalArgumentException.class, () -> channel.truncate(-1));
            assertThrows(IllegalArgumentException.class, () -> channel.transferTo(-1, 1, channel));
            assertThrows(IndexOutOfBoundsException.class, () -> channel.read(new ByteBuffer[1], 0, 2));
            IOException huge = assertThrows(IOException.class, () -> channel.write(buffer("x"), Long.MAX_VALUE));
            assertEquals(27, VaultException.errnoOf(huge), "EFBIG");
            assertEquals(-1, channel.read(ByteBuffer.allocate(1), Long.MAX_VALUE));
        }
    }

    @Test
    void whatIsClosedSaysSo() throws Exception {
        Path path = vault.path("/a");
        FileChannel channel = open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.READ);
        channel.close();
        channel.close();
        assertFalse(channel.isOpen());
        assertThrows(ClosedChannelException.class, () -> channel.write(buffer("x")));
        assertThrows(ClosedChannelException.class, () -> channel.read(ByteBuffer.allocate(1)));
        assertThrows(ClosedChannelException.class, channel::size);
        assertThrows(ClosedChannelException.class, channel::position);
        assertThrows(ClosedChannelException.class, () -> channel.force(true));
        assertThrows(ClosedChannelException.class, channel::tryLock);
    }

    @Test
    void errorsNameTheFile() throws Exception {
        assertEquals("/none", assertThrows(NoSuchFileException.class, () -> open(vault.path("/none"))).getFile());
        Files.createFile(vault.path("/a"));
        OpenOption[] make = {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE};
        assertEquals("/a", assertThrows(FileAlreadyExistsException.class, () -> open(vault.path("/a"), make)).getFile());
        Files.createSymbolicLink(vault.path("/link"), vault.path("a"));
        assertThrows(FileSystemLoopException.class, () -> open(vault.path("/link"), LinkOption.NOFOLLOW_LINKS));
        Files.createDirectory(vault.path("/dir"));
        VaultException isDirectory = assertThrows(VaultException.class, () -> open(vault.path("/dir"), StandardOpenOption.WRITE));
        assertEquals(21, isDirectory.errno());
        assertEquals("/dir", isDirectory.getFile());
    }

    // ---- locks

    @Test
    void locksOfOneProgramDoNotOverlap() throws Exception {
        OpenOption[] options = {StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.READ};
        try (FileChannel one = open(vault.path("/a"), options); FileChannel other = open(vault.path("/a"), options)) {
            FileLock lock = one.lock(0, 10, false);
            assertTrue(lock.isValid() && !lock.isShared() && lock.channel() == one);
            assertThrows(OverlappingFileLockException.class, () -> one.tryLock(5, 10, false));
            assertThrows(OverlappingFileLockException.class, () -> other.tryLock(5, 10, true));
            FileLock further = one.tryLock(10, 10, false);
            assertNotNull(further);
            // Another part: for another channel of the vault that is the whole file.
            assertNull(other.tryLock(100, 1, false));
            lock.release();
            assertFalse(lock.isValid());
            assertNull(other.tryLock(100, 1, false));
            further.release();
            try (FileLock mine = other.tryLock(100, 1, false)) {
                assertNotNull(mine);
            }
        }
    }

    @Test
    void anotherProgramIsKeptOut() throws Exception {
        OpenOption[] options = {StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.READ};
        try (Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
                FileChannel one = open(vault.path("/a"), options);
                FileChannel other = open(second.path("/a"), options)) {
            FileLock lock = one.lock();
            assertNull(other.tryLock());
            CompletableFuture<Boolean> waits = CompletableFuture.supplyAsync(() -> {
                try (FileLock mine = other.lock()) {
                    return mine.isValid();
                } catch (IOException error) {
                    throw new java.io.UncheckedIOException(error);
                }
            });
            assertFalse(waits.isDone());
            lock.release();
            assertTrue(waits.get());
            try (FileLock shared = one.lock(0, 1, true); FileLock also = other.lock(0, 1, true)) {
                assertTrue(shared.isValid() && also.isValid());
            }
        }
    }

    @Test
    void aThreadThatWaitsForALockIsInterrupted() throws Exception {
        OpenOption[] options = {StandardOpenOption.CREATE, StandardOpenOption.WRITE};
        try (Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
                FileChannel one = open(vault.path("/a"), options);
                FileLock lock = one.lock()) {
            assertTrue(lock.isValid());
            FileChannel other = open(second.path("/a"), options);
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            Thread waits = new Thread(() -> {
                try {
                    other.lock();
                } catch (Throwable error) {
                    thrown.set(error);
                }
            });
            waits.start();
            waits.interrupt();
            waits.join();
            assertTrue(thrown.get() instanceof FileLockInterruptionException, String.valueOf(thrown.get()));
            assertFalse(other.isOpen());
        }
    }

    @Test
    void anInterruptClosesTheChannel() throws Exception {
        FileChannel channel = open(vault.path("/a"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        Thread.currentThread().interrupt();
        assertThrows(ClosedByInterruptException.class, () -> channel.write(buffer("x")));
        assertTrue(Thread.interrupted());
        assertFalse(channel.isOpen());
    }

    @Test
    void whatVaultFilesHaveBeyondChannels() throws Exception {
        int flags = VaultFile.READ | VaultFile.WRITE | VaultFile.CREATE;
        try (VaultFile file = vault.openFile(vault.path("/a"), flags, 0600)) {
            file.writeAt(1_000_000, new byte[] {1}, 0, 1);
            assertEquals(0600, file.attributes().mode());
            assertEquals(0, file.findHole(0));
            assertTrue(file.findData(0) > 0);
            file.allocate(VaultFile.Allocate.PUNCH_HOLE, 0, 1_000_001);
            assertEquals(1_000_001, file.attributes().size());
            try (VaultFile target = vault.openFile(vault.path("/b"), flags, 0600)) {
                assertEquals(1_000_001, file.copyRange(0, target, 0, Long.MAX_VALUE));
            }
            assertThrows(IndexOutOfBoundsException.class, () -> file.readAt(0, new byte[1], 1, 1));
        }
        try (VaultFile unnamed = vault.openUnnamed(vault.path("/"), 0600)) {
            unnamed.write("made".getBytes(), 0, 4);
            unnamed.name(vault.path("/c"));
        }
        assertEquals("made", content(vault.path("/c")));
    }

    /**
     * Goal: a program that tries again after an error misses nothing: the position is behind what was given, and not behind more. Method: the
     * third MiB of a file is damaged, and the file is read at once.
     */
    @Test
    void whatWasReadBeforeAnErrorIsGiven() throws Exception {
        byte[] data = new byte[4 << 20];
        new Random(7).nextBytes(data);
        Path folder = place.resolve("damaged");
        try (Vault made = Vaults.make(folder)) {
            Files.write(made.path("/f"), data);
        }
        flipAt(folder.resolve("segments"), 5 << 19);
        try (Vault damaged = Vaults.open(folder, Vaults.options())) {
            for (boolean direct : new boolean[] {false, true}) {
                try (FileChannel channel = open(damaged.path("/f"), StandardOpenOption.READ)) {
                    ByteBuffer to = direct ? ByteBuffer.allocateDirect(data.length) : ByteBuffer.allocate(data.length);
                    int count = channel.read(to);
                    assertTrue(count >= 2 << 20 && count < data.length, "read " + count);
                    assertEquals(count, channel.position());
                    assertEquals(ByteBuffer.wrap(data, 0, count), to.flip());
                    assertThrows(VaultException.class, () -> channel.read(ByteBuffer.allocate(data.length)));
                    assertEquals(count, channel.position());
                }
            }
        }
    }

    /** Changes a byte of the one file below a folder. */
    private static void flipAt(Path folder, long at) throws IOException {
        List<Path> files = new ArrayList<>();
        try (Stream<Path> all = Files.walk(folder)) {
            all.filter(Files::isRegularFile).forEach(files::add);
        }
        assertEquals(1, files.size());
        try (FileChannel segment = open(files.get(0), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer one = ByteBuffer.allocate(1);
            assertEquals(1, segment.read(one, at));
            segment.write(ByteBuffer.wrap(new byte[] {(byte) (one.get(0) ^ 1)}), at);
        }
    }
}
