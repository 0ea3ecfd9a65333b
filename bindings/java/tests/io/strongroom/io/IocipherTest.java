package io.strongroom.io;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A program that was written for IOCipher runs on a vault when its imports are changed. */
class IocipherTest {
    private static final String THEIRS = "info.guardianproject.iocipher.";
    private static final String OURS = "io.strongroom.io.";

    @TempDir
    Path place;

    private static String classes() {
        return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    }

    /** The program with other imports: nothing but lines of imports is changed. */
    private static String moved(List<String> lines) {
        List<String> moved = new ArrayList<>();
        int changed = 0;
        for (String line : lines) {
            if (line.startsWith("import " + THEIRS)) {
                moved.add(line.replace(THEIRS, OURS));
                changed++;
            } else {
                assertTrue(!line.contains(THEIRS), line);
                moved.add(line);
            }
        }
        assertTrue(changed >= 8, changed + " imports");
        return String.join("\n", moved);
    }

    private String run(String... arguments) throws Exception {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                place + ":" + classes(),
                "-Dstrongroom.library=" + System.getProperty("strongroom.library"),
                "Album"));
        words.addAll(List.of(arguments));
        // Later versions of Java warn there of every native library.
        ProcessBuilder program = new ProcessBuilder(words).directory(place.toFile()).redirectError(ProcessBuilder.Redirect.INHERIT);
        program.environment().put("XDG_STATE_HOME", place.resolve("state").toString());
        Process run = program.start();
        String said = new String(run.getInputStream().readAllBytes());
        assertEquals(0, run.waitFor(), said);
        return said;
    }

    @Test
    void aProgramOfItsDocumentationRunsWhenItsImportsAreChanged() throws Exception {
        Path readme = Path.of(System.getProperty("strongroom.readme"));
        Path source = place.resolve("Album.java");
        Files.writeString(source, moved(Files.readAllLines(readme.resolveSibling("examples/iocipher/Album.java"))));
        int compiled =
                ToolProvider.getSystemJavaCompiler().run(null, null, null, "-cp", classes(), "-d", place.toString(), source.toString());
        assertEquals(0, compiled);
        byte[] picture = new byte[100_000];
        Arrays.fill(picture, (byte) 7);
        Files.write(place.resolve("fern.jpg"), picture);
        for (int runs = 1; runs <= 2; runs++) {
            String expected = "[/album]\n[/album/2025]\n[/album/2025/best]\n[/album/2026]\n[/album/2026/best]\n"
                    + "/album/2026/fern.jpg 100000\n/album/runs 1\nthe same content: true\nruns: " + runs + "\nlast byte: 7\nmounted: false\n";
            assertEquals(expected, run("container", "my password", "fern.jpg"));
        }
    }

    // ---- everything that it has

    /** The public methods of IOCipher's classes, without those of all objects. */
    private static final Map<Class<?>, String> ITS_METHODS = Map.of(
            VirtualFileSystem.class,
            "beginTransaction completeTransaction createNewContainer deleteContainer detachThread get getContainerPath isMounted mount "
                    + "setContainerPath unmount",
            File.class,
            "canExecute canRead canWrite compareTo createNewFile createTempFile delete deleteOnExit exists getAbsoluteFile getAbsolutePath "
                    + "getCanonicalFile getCanonicalPath getFreeSpace getName getParent getParentFile getPath getTotalSpace getUsableSpace "
                    + "isAbsolute isDirectory isFile isHidden lastModified length list listFiles mkdir mkdirs renameTo setExecutable "
                    + "setLastModified setReadOnly setReadable setWritable toURI toURL",
            FileInputStream.class,
            "available close getChannel getFD read skip",
            FileOutputStream.class,
            "close getChannel getFD write",
            RandomAccessFile.class,
            "close getChannel getFD getFilePointer length read readBoolean readByte readChar readDouble readFloat readFully readInt readLine "
                    + "readLong readShort readUTF readUnsignedByte readUnsignedShort seek setLength skipBytes write writeBoolean writeByte "
                    + "writeBytes writeChar writeChars writeDouble writeFloat writeInt writeLong writeShort writeUTF",
            IOCipherFileChannel.class,
            "close force isOpen lseek position read size transferFrom transferTo truncate write",
            FileDescriptor.class,
            "sync valid",
            FileFilter.class,
            "accept",
            FilenameFilter.class,
            "accept");

    @Test
    void everyMethodOfItsClassesIsThere() {
        List<String> missing = new ArrayList<>();
        int count = 0;
        for (Map.Entry<Class<?>, String> one : ITS_METHODS.entrySet()) {
            Set<String> ours = Arrays.stream(one.getKey().getMethods()).map(Method::getName).collect(Collectors.toSet());
            for (String method : one.getValue().split(" ")) {
                count++;
                if (!ours.contains(method)) {
                    missing.add(one.getKey().getSimpleName() + "." + method);
                }
            }
        }
        assertEquals(List.of(), missing);
        assertTrue(count > 100, count + " methods");
    }

    /** Both of its readers and writers, and each way to make one. */
    @Test
    void everyWayToOpenAFileIsThere() throws Exception {
        Class<?>[][] ways = {
            {FileInputStream.class, String.class}, {FileInputStream.class, File.class}, {FileOutputStream.class, String.class},
            {FileOutputStream.class, File.class}, {FileOutputStream.class, String.class, boolean.class},
            {FileOutputStream.class, File.class, boolean.class}, {FileReader.class, String.class}, {FileReader.class, File.class},
            {FileWriter.class, String.class}, {FileWriter.class, File.class}, {FileWriter.class, String.class, boolean.class},
            {FileWriter.class, File.class, boolean.class}, {RandomAccessFile.class, String.class, String.class},
            {RandomAccessFile.class, File.class, String.class}, {File.class, String.class}, {File.class, String.class, String.class},
            {File.class, File.class, String.class}, {File.class, java.net.URI.class}
        };
        for (Class<?>[] way : ways) {
            way[0].getConstructor(Arrays.copyOfRange(way, 1, way.length));
        }
    }
}
