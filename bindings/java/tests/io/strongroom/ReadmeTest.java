package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The blocks of the README, one after the other, are a program, as a reader types them. Those that are not in Java are run by {@code readme.sh}. */
class ReadmeTest {
    @TempDir
    Path place;

    @Test
    void everyBlockOfTheReadmeWorks() throws Exception {
        List<String> imports = new ArrayList<>();
        List<String> body = new ArrayList<>();
        int blocks = 0;
        String kind = null;
        for (String line : Files.readAllLines(Path.of(System.getProperty("strongroom.readme")))) {
            if (line.startsWith("```")) {
                kind = kind == null ? line.substring(3) : null;
                if (kind != null) {
                    assertTrue(List.of("java", "kotlin", "sh", "xml").contains(kind), "a block of another kind is not run: " + kind);
                    blocks += kind.equals("java") ? 1 : 0;
                }
            } else if ("java".equals(kind)) {
                (line.startsWith("import ") ? imports : body).add(line);
            }
        }
        assertTrue(blocks >= 10, blocks + " blocks");
        Path source = place.resolve("Readme.java");
        Files.writeString(source, String.join("\n", imports)
                + "\npublic class Readme { public static void main(String[] arguments) throws Exception {\n"
                + String.join("\n", body) + "\n} }\n");
        compile(source);
        assertTrue(run("Readme").contains("the vault is closed"));
    }

    @Test
    void theExampleKeepsPhotos() throws Exception {
        compile(Path.of(System.getProperty("strongroom.readme")).resolveSibling("examples/PhotoVault.java"));
        Files.write(place.resolve("fern.jpg"), new byte[100_000]);
        Files.setLastModifiedTime(place.resolve("fern.jpg"), java.nio.file.attribute.FileTime.fromMillis(1_777_000_000_000L));
        assertTrue(run("PhotoVault", "new", "album", "album.key").length() > 60);
        run("PhotoVault", "add", "album", "album.key", "fern.jpg");
        run("PhotoVault", "keep", "album", "album.key", "spring");
        Files.write(place.resolve("moss.jpg"), new byte[5]);
        run("PhotoVault", "add", "album", "album.key", "moss.jpg", "fern.jpg");
        assertEquals("/2026-04/fern.jpg 100000\n/album.txt 29\n", run("PhotoVault", "before", "album", "album.key", "spring"));
        assertTrue(run("PhotoVault", "list", "album", "album.key").contains("/moss.jpg 5"));
        run("PhotoVault", "take", "album", "album.key", "out");
        assertEquals(100_000, Files.size(place.resolve("out/2026-04/fern.jpg")));
    }

    private static String classes() {
        return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    }

    private void compile(Path source) {
        int compiled =
                ToolProvider.getSystemJavaCompiler().run(null, null, null, "-cp", classes(), "-d", place.toString(), source.toString());
        assertEquals(0, compiled);
    }

    /** What a program prints, which runs in the folder of the test. */
    private String run(String... command) throws Exception {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                place + ":" + classes(),
                "-Dstrongroom.library=" + System.getProperty("strongroom.library")));
        words.addAll(List.of(command));
        // Later versions of Java warn there of every native library.
        ProcessBuilder program = new ProcessBuilder(words).directory(place.toFile()).redirectError(ProcessBuilder.Redirect.INHERIT);
        program.environment().put("XDG_STATE_HOME", place.resolve("state").toString());
        Process run = program.start();
        String said = new String(run.getInputStream().readAllBytes());
        assertEquals(0, run.waitFor(), said);
        return said;
    }
}
