package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;

/** What the classes of the package need of Java. */
class PackageTest {
    /** Android has none of the modules of a desktop. */
    @Test
    void thePackageNeedsNothingButTheBaseOfJava() throws Exception {
        Path classes = Path.of(Vault.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        StringWriter said = new StringWriter();
        ToolProvider jdeps = ToolProvider.findFirst("jdeps").orElseThrow();
        PrintWriter writer = new PrintWriter(said);
        assertEquals(0, jdeps.run(writer, writer, "--print-module-deps", classes.toString()), said.toString());
        writer.flush();
        assertEquals("java.base", said.toString().trim());
        assertTrue(classes.resolve("io/strongroom/Vault.class").toFile().exists(), "those are the classes of the package");
    }
}
