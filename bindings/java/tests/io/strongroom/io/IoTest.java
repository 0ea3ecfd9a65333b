package io.strongroom.io;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.strongroom.Secret;
import io.strongroom.VaultOptions;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.SyncFailedException;
import java.net.URL;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Typical uses of the classes of java.io, with the vault's own versions of these classes. */
class IoTest {
    private static final byte[] KEY_FILE = Secret.newKeyFile();

    @TempDir
    Path place;

    private VirtualFileSystem vfs;

    @BeforeEach
    void mount() {
        vfs = VirtualFileSystem.get();
        vfs.setContainerPath(place.resolve("container").toString());
        try (Secret secret = Secret.keyFile(KEY_FILE)) {
            assertTrue(vfs.create(secret).length > 20);
            vfs.mount(secret);
        }
    }

    @AfterEach
    void unmount() {
        if (vfs.isMounted()) {
            vfs.unmount();
        }
    }

    private static void write(File file, String text) throws IOException {
        try (FileWriter writer = new FileWriter(file)) {
            writer.write(text);
        }
    }

    private static String read(File file) throws IOException {
        try (BufferedReader reader = new BufferedReader(new FileReader(file))) {
            StringBuilder all = new StringBuilder();
            for (int one = reader.read(); one >= 0; one = reader.read()) {
                all.append((char) one);
            }
            return all.toString();
        }
    }

    // ---- containers

    @Test
    void aContainerIsMadeMountedAndDeleted() throws Exception {
        VirtualFileSystem other = new VirtualFileSystem(new VaultOptions().withoutRecords());
        assertThrows(IllegalStateException.class, other::getContainerPath);
        String path = place.resolve("second").toString();
        assertThrows(IllegalArgumentException.class, () -> other.mount(path, "secret"), "mounted before it was made");
        other.createNewContainer(path, "secret");
        assertEquals(path, other.getContainerPath());
        assertFalse(other.isMounted());
        assertThrows(IllegalStateException.class, other::unmount);
        assertThrows(IllegalArgumentException.class, () -> other.mount("wrong"));
        other.mount("secret".toCharArray());
        assertThrows(IllegalStateException.class, () -> other.mount("secret"));
        assertThrows(IllegalStateException.class, () -> other.setContainerPath("/elsewhere"));
        assertThrows(IllegalStateException.class, other::deleteContainer);
        other.detachThread();
        other.beginTransaction();
        write(new File(other, "/here"), "x");
        other.completeTransaction();
        assertFalse(new File("/here").exists(), "that is another one");
        other.unmount();
        assertThrows(IllegalStateException.class, () -> new File(other, "/here").exists());
        assertThrows(IllegalArgumentException.class, () -> other.createNewContainer("again"));
        other.deleteContainer();
        assertFalse(java.nio.file.Files.exists(place.resolve("second")));
        assertThrows(IllegalArgumentException.class, () -> other.deleteContainer(place.toString()), "it is no container");
    }

    @Test
    void aContainerBehindALinkIsDeletedWithTheLink() throws Exception {
        VirtualFileSystem other = new VirtualFileSystem(new VaultOptions().withoutRecords());
        other.createNewContainer(place.resolve("target").toString(), "secret");
        Path link = java.nio.file.Files.createSymbolicLink(place.resolve("link"), place.resolve("target"));
        other.deleteContainer(link.toString());
        assertFalse(java.nio.file.Files.exists(place.resolve("target")));
        assertFalse(java.nio.file.Files.isSymbolicLink(link));
    }

    @Test
    void aRawKeyHasThirtyTwoBytes() {
        VirtualFileSystem other = new VirtualFileSystem(new VaultOptions().withoutRecords());
        byte[] key = new byte[32];
        new Random(1).nextBytes(key);
        String path = place.resolve("raw").toString();
        for (int len : new int[] {0, 31, 33}) {
            assertThrows(IllegalArgumentException.class, () -> other.createNewContainer(path, new byte[len]));
        }
        other.createNewContainer(path, key);
        other.mount(path, new SecretKeySpec(key, "AES"));
        other.unmount();
        StringBuilder digits = new StringBuilder();
        for (byte one : key) {
            digits.append(String.format("%02x", one));
        }
        other.mount(digits.toString());
        other.unmount();
        key[0]++;
        assertThrows(IllegalArgumentException.class, () -> other.mount(key));
    }

    // ---- files

    @Test
    void aFileSaysWhatItIs() throws Exception {
        File file = new File("/dir/file.txt");
        assertFalse(file.exists() || file.isFile() || file.canRead() || file.delete());
        assertEquals(0, file.length());
        assertEquals(0, file.lastModified());
        assertNull(file.listFiles());
        assertThrows(IOException.class, file::createNewFile);
        assertTrue(file.getParentFile().mkdir());
        assertFalse(file.getParentFile().mkdir() || file.getParentFile().mkdirs());
        assertTrue(file.createNewFile());
        assertFalse(file.createNewFile());
        assertTrue(file.exists() && file.isFile() && !file.isDirectory() && file.canRead() && file.canWrite() && !file.canExecute());
        write(file, "12345");
        assertEquals(5, file.length());
        assertTrue(file.setLastModified(1_000_000_000_000L));
        assertEquals(1_000_000_000_000L, file.lastModified());
        assertTrue(file.setReadOnly() && !file.canWrite());
        assertTrue(file.setWritable(true) && file.canWrite());
        assertTrue(file.setExecutable(true) && file.canExecute());
        assertTrue(file.setReadable(false) && file.setReadable(true, false));
        assertTrue(new File("/").getTotalSpace() >= new File("/").getUsableSpace() && new File("/").getFreeSpace() > 0);
        assertFalse(new File("").exists());
        assertFalse(new File("/a\0b").exists());
    }

    @Test
    void aPathIsTakenApartAsOnTheDisk() throws Exception {
        for (String path : List.of("/a/b", "/a//b/", "a", "/", "", "a/b/..", "/.x")) {
            File ours = new File(path);
            java.io.File theirs = new java.io.File(path);
            assertEquals(theirs.getPath(), ours.getPath());
            assertEquals(theirs.getName(), ours.getName());
            assertEquals(theirs.getParent(), ours.getParent());
            assertEquals(theirs.isAbsolute(), ours.isAbsolute());
            assertEquals(theirs.isHidden(), ours.isHidden());
            assertEquals(theirs.toString(), ours.toString());
            assertEquals(new java.io.File(path, "c/d").getPath(), new File(path, "c/d").getPath());
            assertEquals(new java.io.File(theirs, "c").getPath(), new File(ours, "c").getPath());
        }
        assertEquals("/x", new File("x").getAbsolutePath());
        new File("/real").mkdir();
        java.nio.file.Files.createSymbolicLink(new File("/link").toPath(), new File("real").toPath());
        assertEquals("/real/none", new File("/link/./none").getCanonicalPath());
        assertTrue(new File("/link").isSymbolicLink());
        assertEquals(new File("/real"), new File(new File("/real").toURI()));
        assertNotEquals(new File("/a"), new File("/b"));
        assertTrue(new File("/a").compareTo(new File("/b")) < 0);
    }

    @Test
    void aDirectoryListsWhatItHas() throws Exception {
        assertTrue(new File("/d/e/f").mkdirs());
        write(new File("/d/one.txt"), "1");
        write(new File("/d/two.jpg"), "2");
        String[] names = new File("/d").list();
        Arrays.sort(names);
        assertArrayEquals(new String[] {"e", "one.txt", "two.jpg"}, names);
        assertEquals(1, new File("/d").list((directory, name) -> name.endsWith(".jpg")).length);
        assertEquals(2, new File("/d").listFiles((FileFilter) File::isFile).length);
        assertEquals(new File("/d/one.txt"), new File("/d").listFiles((FilenameFilter) (d, name) -> name.startsWith("one"))[0]);
        assertNull(new File("/d/one.txt").list());
        assertFalse(new File("/d").delete());
        assertTrue(new File("/d/one.txt").renameTo(new File("/d/two.jpg")));
        assertEquals("1", read(new File("/d/two.jpg")));
        assertFalse(new File("/none").renameTo(new File("/x")));
        File made = File.createTempFile("tmp", null, new File("/d"));
        assertTrue(made.getName().startsWith("tmp") && made.getName().endsWith(".tmp") && made.length() == 0);
        made.deleteOnExit();
        assertThrows(IllegalArgumentException.class, () -> File.createTempFile("x", ""));
    }

    @Test
    void aFileIsSerializedByItsPath() throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(new File("/a"));
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            assertEquals(new File("/a"), in.readObject());
        }
    }

    // ---- streams

    @Test
    void streamsReadWhatStreamsWrote() throws Exception {
        byte[] data = new byte[100_000];
        new Random(2).nextBytes(data);
        try (FileOutputStream out = new FileOutputStream("/data")) {
            out.write(7);
            out.write(data);
            assertEquals(100_001, out.getChannel().position());
        }
        try (FileInputStream in = new FileInputStream("/data")) {
            assertEquals(100_001, in.available());
            assertEquals(7, in.read());
            assertEquals(10, in.skip(10));
            assertEquals(data[10] & 0xff, in.read());
            in.skip(-12);
            assertEquals(0, in.getChannel().position());
            assertEquals(100_001, in.readAllBytes().length);
            assertEquals(-1, in.read());
            assertEquals(0, in.available());
        }
        try (FileOutputStream out = new FileOutputStream(new File("/data"), true)) {
            out.write(9);
        }
        assertEquals(100_002, new File("/data").length());
        new FileOutputStream("/data").close();
        assertEquals(0, new File("/data").length());
        assertThrows(FileNotFoundException.class, () -> new FileInputStream("/none"));
        assertThrows(FileNotFoundException.class, () -> new FileInputStream("/"));
        assertThrows(FileNotFoundException.class, () -> new FileOutputStream("/"));
        assertThrows(FileNotFoundException.class, () -> new FileOutputStream("/none/x"));
        FileInputStream closed = new FileInputStream("/data");
        closed.close();
        closed.close();
        assertThrows(IOException.class, closed::read);
    }

    @Test
    void textsKeepTheirCharacters() throws Exception {
        try (BufferedWriter writer = new BufferedWriter(new FileWriter(new File("/text"), StandardCharsets.UTF_8, false))) {
            writer.write("Grüße\n日本");
        }
        try (FileWriter writer = new FileWriter("/text", StandardCharsets.UTF_8, true)) {
            writer.write("!");
        }
        try (BufferedReader reader = new BufferedReader(new FileReader("/text", StandardCharsets.UTF_8))) {
            assertEquals("Grüße", reader.readLine());
            assertEquals("日本!", reader.readLine());
        }
    }

    @Test
    void aDescriptorTellsWhetherItsFileIsOpenAndMakesItDurable() throws Exception {
        FileOutputStream out = new FileOutputStream("/f");
        FileDescriptor descriptor = out.getFD();
        assertTrue(descriptor.valid());
        out.write(1);
        descriptor.sync();
        out.close();
        assertFalse(descriptor.valid());
        assertThrows(SyncFailedException.class, descriptor::sync);
        try (FileInputStream in = new FileInputStream("/f"); RandomAccessFile both = new RandomAccessFile("/f", "rw")) {
            assertTrue(in.getFD().valid() && both.getFD().valid());
            both.getFD().sync();
        }
        FileDescriptor none = new FileDescriptor();
        assertFalse(none.valid());
        assertThrows(SyncFailedException.class, none::sync);
        assertNotEquals(none.toString(), new FileOutputStream("/g").getFD().toString());
    }

    @Test
    void aChannelMovesAsThatOfIocipher() throws Exception {
        try (RandomAccessFile file = new RandomAccessFile("/f", "rw")) {
            file.write("0123456789".getBytes());
            IOCipherFileChannel channel = file.getChannel();
            assertEquals(4, channel.lseek(4, IOCipherFileChannel.SEEK_SET));
            assertEquals('4', file.read());
            assertEquals(7, channel.lseek(2, IOCipherFileChannel.SEEK_CUR));
            assertEquals('7', file.read());
            assertEquals(9, channel.lseek(-1, IOCipherFileChannel.SEEK_END));
            assertEquals('9', file.read());
            assertThrows(IOException.class, () -> channel.lseek(-1, IOCipherFileChannel.SEEK_SET));
            assertThrows(IllegalArgumentException.class, () -> channel.lseek(0, 3));
            IOCipherFileChannel same = channel.truncate(3).position(1);
            assertEquals('1', file.read());
            assertTrue(same == channel && same.size() == 3);
            channel.close();
            assertThrows(ClosedChannelException.class, () -> channel.lseek(0, IOCipherFileChannel.SEEK_SET));
        }
    }

    @Test
    void aUrlReadsItsFileWhileTheVaultIsMounted() throws Exception {
        File file = new File("/a name with %20 and #");
        write(file, "content");
        URL url = file.toURL();
        assertEquals("strongroom", url.getProtocol());
        assertEquals(file.toURI().getRawPath(), url.getPath());
        try (InputStream in = url.openStream()) {
            assertEquals("content", new String(in.readAllBytes()));
        }
        assertEquals(7, url.openConnection().getContentLengthLong());
        assertEquals(file.lastModified(), url.openConnection().getLastModified());
        write(new File("/beside"), "that");
        try (InputStream in = new URL(url, "beside").openStream()) {
            assertEquals("that", new String(in.readAllBytes()));
        }
        URL none = new File("/none").toURL();
        assertThrows(IOException.class, none::openStream);
        vfs.unmount();
        assertThrows(IOException.class, url::openStream);
    }

    // ---- random access, compared with the disk

    @Test
    void everyValueIsWrittenAsOnTheDisk() throws Exception {
        java.io.File disk = place.resolve("disk").toFile();
        try (RandomAccessFile ours = new RandomAccessFile("/values", "rw");
                java.io.RandomAccessFile theirs = new java.io.RandomAccessFile(disk, "rw")) {
            for (java.io.DataOutput out : List.of(ours, theirs)) {
                out.writeBoolean(true);
                out.writeByte(-2);
                out.writeShort(-300);
                out.writeChar('ü');
                out.writeInt(Integer.MIN_VALUE);
                out.writeLong(Long.MAX_VALUE);
                out.writeFloat(1.5f);
                out.writeDouble(Math.PI);
                out.writeUTF("Grüße\0日本");
                out.writeBytes("line\r\nnext\rlast\n");
                out.writeChars("ab");
                out.write(new byte[] {1, 2, 3}, 1, 2);
                out.write(5);
            }
            assertEquals(theirs.getFilePointer(), ours.getFilePointer());
            theirs.seek(0);
            ours.seek(0);
            for (int round = 0; round < 2; round++) {
                java.io.DataInput in = round == 0 ? ours : theirs;
                assertTrue(in.readBoolean());
                assertEquals(-2, in.readByte());
                assertEquals(-300, in.readShort());
                assertEquals('ü', in.readChar());
                assertEquals(Integer.MIN_VALUE, in.readInt());
                assertEquals(Long.MAX_VALUE, in.readLong());
                assertEquals(1.5f, in.readFloat());
                assertEquals(Math.PI, in.readDouble());
                assertEquals("Grüße\0日本", in.readUTF());
                assertEquals("line", in.readLine());
                assertEquals("next", in.readLine());
                assertEquals("last", in.readLine());
                assertEquals(4, in.skipBytes(4));
                assertEquals(2, in.readUnsignedByte());
                assertEquals(0x0305, in.readUnsignedShort());
                assertEquals(0, in.skipBytes(10));
                assertNull(in.readLine());
                assertThrows(EOFException.class, in::readInt);
            }
        }
        assertArrayEquals(java.nio.file.Files.readAllBytes(disk.toPath()), java.nio.file.Files.readAllBytes(new File("/values").toPath()));
    }

    @Test
    void aFileIsCutExtendedAndOpenedAgain() throws Exception {
        assertThrows(FileNotFoundException.class, () -> new RandomAccessFile("/f", "r"));
        assertThrows(IllegalArgumentException.class, () -> new RandomAccessFile("/f", "w"));
        try (RandomAccessFile file = new RandomAccessFile("/f", "rwd")) {
            file.write("0123456789".getBytes());
            file.setLength(4);
            assertEquals(4, file.getFilePointer());
            file.setLength(6_000_000_000L);
            assertEquals(6_000_000_000L, file.length());
            file.seek(5_999_999_999L);
            assertEquals(0, file.read());
            assertEquals(-1, file.read());
            assertThrows(IOException.class, () -> file.seek(-1));
            FileChannel channel = file.getChannel();
            channel.position(1);
            assertEquals('1', file.read());
            assertEquals(3, channel.write(ByteBuffer.wrap("abc".getBytes()), 0));
            try (var lock = channel.lock()) {
                assertTrue(lock.isValid());
            }
        }
        try (RandomAccessFile file = new RandomAccessFile("/f", "r")) {
            byte[] five = new byte[5];
            file.readFully(five);
            assertArrayEquals(new byte[] {'a', 'b', 'c', '3', 0}, five);
            assertThrows(IOException.class, () -> file.write(1));
        }
    }
}
