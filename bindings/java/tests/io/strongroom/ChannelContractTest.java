package io.strongroom;

import static io.strongroom.Contract.content;
import static io.strongroom.Contract.file;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Every method of a channel, and of its locks, keeps what Java promises of it. */
class ChannelContractTest {
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

    /** A case with a channel of a file that holds the ten digits. */
    private interface OnChannel {
        void run(Contract.Call call, FileChannel channel, Path path) throws Exception;
    }

    private static Contract.Case with(OnChannel body) {
        return (call, root) -> {
            Path path = file(root, "f", "0123456789");
            try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                body.run(call, channel, path);
            }
        };
    }

    private static ByteBuffer buffer(String text) {
        return ByteBuffer.wrap(text.getBytes());
    }

    private static String text(ByteBuffer read) {
        read.flip();
        byte[] bytes = new byte[read.remaining()];
        read.get(bytes);
        return new String(bytes);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfAChannel() {
        Contract contract = new Contract(FileChannel.class);
        reads(contract);
        writes(contract);
        moves(contract);
        locks(contract);
        return contract.tests(vault, place);
    }

    private static void reads(Contract contract) {
        contract.method("read(ByteBuffer)", with((call, channel, path) -> {
            ByteBuffer to = ByteBuffer.allocate(8);
            assertEquals(8, call.on(channel, to));
            assertEquals("01234567", text(to));
            assertEquals(2, call.on(channel, ByteBuffer.allocateDirect(8)));
            assertEquals(-1, call.on(channel, ByteBuffer.allocate(8)));
            assertEquals(0, call.on(channel, ByteBuffer.allocate(0)));
        }));
        contract.method("read(ByteBuffer,long)", with((call, channel, path) -> {
            ByteBuffer to = ByteBuffer.allocate(3);
            assertEquals(3, call.on(channel, to, 4L));
            assertEquals("456", text(to));
            assertEquals(0, channel.position());
            assertEquals(-1, call.on(channel, ByteBuffer.allocate(1), 10L));
            assertThrows(IllegalArgumentException.class, () -> call.on(channel, ByteBuffer.allocate(1), -1L));
        }));
        contract.method("read(ByteBuffer[])", with((call, channel, path) -> {
            ByteBuffer[] to = {ByteBuffer.allocate(3), ByteBuffer.allocateDirect(4)};
            assertEquals(7L, call.on(channel, (Object) to));
            assertEquals("012 3456", text(to[0]) + " " + text(to[1]));
        }));
        contract.method("read(ByteBuffer[],int,int)", with((call, channel, path) -> {
            ByteBuffer[] to = {ByteBuffer.allocate(3), ByteBuffer.allocate(4), ByteBuffer.allocate(20)};
            assertEquals(10L, call.on(channel, to, 1, 2));
            assertEquals(" 0123 456789", text(to[0]) + " " + text(to[1]) + " " + text(to[2]));
            assertThrows(IndexOutOfBoundsException.class, () -> call.on(channel, to, 2, 2));
        }));
        contract.method("map(MapMode,long,long)", with((call, channel, path) -> {
            ByteBuffer mapped = (ByteBuffer) call.on(channel, FileChannel.MapMode.READ_ONLY, 2L, 5L);
            byte[] seen = new byte[5];
            mapped.get(seen);
            assertEquals("23456", new String(seen));
            assertThrows(IllegalArgumentException.class, () -> call.on(channel, FileChannel.MapMode.READ_ONLY, -1L, 1L));
        }));
        // Java leaves it to a provider; the other `map` is there.
        Class<?> arena = arena();
        if (arena != null) {
            contract.ofVaults("map(MapMode,long,long,Arena)", with((call, channel, path) -> {
                Object global = arena.getMethod("global").invoke(null);
                assertThrows(
                        UnsupportedOperationException.class, () -> call.on(channel, FileChannel.MapMode.READ_ONLY, 0L, 1L, global));
            }));
        }
        contract.method("transferTo(long,long,WritableByteChannel)", with((call, channel, path) -> {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            WritableByteChannel target = Channels.newChannel(out);
            assertEquals(3L, call.on(channel, 7L, 100L, target));
            assertEquals("789", out.toString());
            assertEquals(0L, call.on(channel, 11L, 100L, target));
        }));
    }

    /** The class of memory that later versions of Java map files into; null if this one has no method with it. */
    private static Class<?> arena() {
        try {
            Class<?> arena = Class.forName("java.lang.foreign.Arena");
            FileChannel.class.getMethod("map", FileChannel.MapMode.class, long.class, long.class, arena);
            return arena;
        } catch (ClassNotFoundException | NoSuchMethodException none) {
            return null;
        }
    }

    private static void writes(Contract contract) {
        contract.method("write(ByteBuffer)", with((call, channel, path) -> {
            ByteBuffer from = buffer("abc");
            assertEquals(3, call.on(channel, from));
            assertFalse(from.hasRemaining());
            assertEquals(3, channel.position());
            assertEquals("abc3456789", content(path));
        }));
        contract.method("write(ByteBuffer,long)", with((call, channel, path) -> {
            assertEquals(2, call.on(channel, buffer("ab"), 12L));
            assertEquals(0, channel.position());
            assertEquals("0123456789\0\0ab", content(path));
            assertThrows(IllegalArgumentException.class, () -> call.on(channel, buffer("x"), -1L));
        }));
        contract.method("write(ByteBuffer[])", with((call, channel, path) -> {
            ByteBuffer[] from = {buffer("ab"), buffer("c")};
            assertEquals(3L, call.on(channel, (Object) from));
            assertEquals("abc3456789", content(path));
        }));
        contract.method("write(ByteBuffer[],int,int)", with((call, channel, path) -> {
            ByteBuffer[] from = {buffer("x"), buffer("ab"), buffer("c")};
            assertEquals(3L, call.on(channel, from, 1, 2));
            assertEquals("abc3456789", content(path));
            assertThrows(IndexOutOfBoundsException.class, () -> call.on(channel, from, -1, 1));
        }));
        contract.method("transferFrom(ReadableByteChannel,long,long)", with((call, channel, path) -> {
            ReadableByteChannel source = Channels.newChannel(new ByteArrayInputStream("abcdef".getBytes()));
            assertEquals(4L, call.on(channel, source, 8L, 4L));
            assertEquals("01234567abcd", content(path));
            assertEquals(2L, call.on(channel, source, 0L, 100L));
            assertEquals("ef234567abcd", content(path));
            assertEquals(0, channel.position());
        }));
        contract.method("truncate(long)", with((call, channel, path) -> {
            channel.position(8);
            assertSame(channel, call.on(channel, 4L));
            assertEquals(4, channel.position());
            call.on(channel, 100L);
            assertEquals("0123", content(path));
            assertThrows(IllegalArgumentException.class, () -> call.on(channel, -1L));
        }));
        contract.method("force(boolean)", with((call, channel, path) -> {
            channel.write(buffer("a"));
            call.on(channel, true);
            call.on(channel, false);
            channel.close();
            assertThrows(ClosedChannelException.class, () -> call.on(channel, true));
        }));
    }

    private static void moves(Contract contract) {
        contract.method("position()", with((call, channel, path) -> {
            assertEquals(0L, call.on(channel));
            channel.read(ByteBuffer.allocate(4));
            assertEquals(4L, call.on(channel));
        }));
        contract.method("position(long)", with((call, channel, path) -> {
            assertSame(channel, call.on(channel, 8L));
            ByteBuffer to = ByteBuffer.allocate(4);
            channel.read(to);
            assertEquals("89", text(to));
            call.on(channel, 1000L);
            assertEquals(-1, channel.read(ByteBuffer.allocate(1)));
            assertThrows(IllegalArgumentException.class, () -> call.on(channel, -1L));
        }));
        contract.method("size()", with((call, channel, path) -> {
            assertEquals(10L, call.on(channel));
            channel.write(buffer("x"), 99);
            assertEquals(100L, call.on(channel));
        }));
        contract.method("isOpen()", with((call, channel, path) -> {
            assertEquals(true, call.on(channel));
            channel.close();
            assertEquals(false, call.on(channel));
        }));
        contract.method("close()", with((call, channel, path) -> {
            call.on(channel);
            call.on(channel);
            assertThrows(ClosedChannelException.class, channel::size);
        }));
    }

    private static void locks(Contract contract) {
        contract.method("lock()", with((call, channel, path) -> {
            FileLock lock = (FileLock) call.on(channel);
            assertTrue(lock.isValid() && !lock.isShared() && lock.position() == 0 && lock.size() == Long.MAX_VALUE);
            assertThrows(OverlappingFileLockException.class, () -> call.on(channel));
        }));
        contract.method("lock(long,long,boolean)", with((call, channel, path) -> {
            FileLock lock = (FileLock) call.on(channel, 2L, 3L, true);
            assertTrue(lock.isValid() && lock.isShared() && lock.position() == 2 && lock.size() == 3);
            assertThrows(IllegalArgumentException.class, () -> call.on(channel, -1L, 1L, false));
        }));
        contract.method("tryLock()", with((call, channel, path) -> {
            FileLock lock = (FileLock) call.on(channel);
            assertTrue(lock.isValid());
            assertThrows(OverlappingFileLockException.class, () -> call.on(channel));
        }));
        contract.method("tryLock(long,long,boolean)", with((call, channel, path) -> {
            FileLock lock = (FileLock) call.on(channel, 0L, 5L, false);
            FileLock other = (FileLock) call.on(channel, 5L, 5L, false);
            assertTrue(lock.isValid() && other.isValid());
            assertThrows(OverlappingFileLockException.class, () -> call.on(channel, 4L, 2L, false));
        }));
    }

    /** A lock of the first ten bytes, for others too if {@code shared}. */
    private static FileLock lock(FileChannel channel, boolean shared) throws Exception {
        return channel.lock(0, 10, shared);
    }

    @TestFactory
    List<DynamicTest> everyMethodOfALock() {
        Contract contract = new Contract(FileLock.class);
        contract.method("channel()", with((call, channel, path) -> assertSame(channel, call.on(lock(channel, false)))));
        contract.method("acquiredBy()", with((call, channel, path) -> assertSame(channel, call.on(lock(channel, false)))));
        contract.method("position()", with((call, channel, path) -> assertEquals(0L, call.on(lock(channel, false)))));
        contract.method("size()", with((call, channel, path) -> assertEquals(10L, call.on(lock(channel, false)))));
        contract.method("isShared()", with((call, channel, path) -> assertEquals(true, call.on(lock(channel, true)))));
        contract.method("overlaps(long,long)", with((call, channel, path) -> {
            FileLock lock = lock(channel, false);
            assertEquals(true, call.on(lock, 9L, 1L));
            assertEquals(false, call.on(lock, 10L, 1L));
        }));
        contract.method("isValid()", with((call, channel, path) -> {
            FileLock lock = lock(channel, false);
            assertEquals(true, call.on(lock));
            channel.close();
            assertEquals(false, call.on(lock));
        }));
        contract.method("release()", with((call, channel, path) -> {
            FileLock lock = lock(channel, false);
            call.on(lock);
            call.on(lock);
            assertFalse(lock.isValid());
            lock(channel, false).release();
            channel.close();
            assertThrows(ClosedChannelException.class, () -> call.on(lock));
        }));
        contract.method("close()", with((call, channel, path) -> {
            FileLock lock = lock(channel, false);
            call.on(lock);
            assertFalse(lock.isValid());
        }));
        contract.method("toString()", with((call, channel, path) -> {
            String shown = (String) call.on(lock(channel, false));
            assertTrue(shown.contains("[0:10 exclusive valid]"), shown);
        }));
        return contract.tests(vault, place);
    }

    /** Goal: two channels of one file do not both get it. Method: the second asks while the first has it, and once it has not. */
    @TestFactory
    List<DynamicTest> aLockKeepsOutAnotherOpeningOfTheVault() {
        return List.of(DynamicTest.dynamicTest("two openings", () -> {
            Vaults.empty(vault);
            Path path = file(vault.path("/"), "f", "x");
            try (Vault second = Vaults.open(place.resolve("vault"), Vaults.options());
                    FileChannel one = FileChannel.open(path, StandardOpenOption.WRITE);
                    FileChannel other = FileChannel.open(second.path("/f"), StandardOpenOption.WRITE)) {
                FileLock lock = one.lock();
                assertNull(other.tryLock());
                lock.release();
                assertTrue(other.tryLock().isValid());
            }
        }));
    }
}
