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

/** The blocks of the README are a program: one behind the other, as a reader types them. */
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
                    assertTrue(List.of("java", "sh", "xml").contains(kind), "a block of another kind is not run: " + kind);
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
        String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        int compiled = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-cp", classes, "-d", place.toString(), source.toString());
        assertEquals(0, compiled);
        ProcessBuilder program = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        place + ":" + classes,
                        "-Dstrongroom.library=" + System.getProperty("strongroom.library"),
                        "Readme")
                .directory(place.toFile())
                .redirectErrorStream(true);
        program.environment().put("XDG_STATE_HOME", place.resolve("state").toString());
        Process run = program.start();
        String said = new String(run.getInputStream().readAllBytes());
        assertEquals(0, run.waitFor(), said);
        assertTrue(said.contains("the vault is closed"), said);
    }
}
