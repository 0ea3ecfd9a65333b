package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.dataformat.toml.TomlMapper;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The package behaves as the conformance table of all languages says. */
class ConformanceTest {
    /** The least that the table must hold, so that it does not get empty unnoticed. */
    private static final int CASES_MIN = 250;

    @TempDir
    static Path place;

    private static JsonNode table;
    private static Vault main;
    private static int right;
    private static int skipped;

    @BeforeAll
    static void read() throws Exception {
        table = new TomlMapper().readTree(Path.of(System.getProperty("strongroom.table")).toFile());
        try (Secret secret = Secret.keyFile(table.get("key_files").get("first").asText().getBytes())) {
            main = Vault.create(place.resolve("main"), new VaultOptions().withoutRecords(), secret);
        }
    }

    @AfterAll
    static void close() throws Exception {
        main.close();
        System.out.println("Java: " + right + " of " + table.get("case").size() + " cases right, " + skipped + " skipped with a reason");
    }

    @Test
    void theTableIsTheOneThatIsKnown() {
        assertEquals(1, table.get("format").asInt());
        Set<String> names = new HashSet<>();
        table.get("case").forEach(one -> names.add(one.get("name").asText()));
        assertTrue(names.size() >= CASES_MIN, names.size() + " cases");
        assertEquals(table.get("case").size(), names.size());
    }

    @TestFactory
    List<DynamicTest> everyCase() {
        List<DynamicTest> tests = new ArrayList<>();
        for (JsonNode one : table.get("case")) {
            tests.add(DynamicTest.dynamicTest(one.get("name").asText(), () -> run(one)));
        }
        return tests;
    }

    private static void run(JsonNode one) throws Exception {
        JsonNode reason = one.path("skip").get("java");
        if (reason != null) {
            skipped++;
            Assumptions.abort(reason.asText());
        }
        boolean isInFolder = one.path("begin").asText("vault").equals("folder");
        if (!isInFolder) {
            empty();
        }
        Path folder = java.nio.file.Files.createTempDirectory(place, "case");
        try (Machine machine = new Machine(isInFolder ? null : main, folder, table.get("key_files"))) {
            int index = 0;
            for (JsonNode step : one.get("steps")) {
                check(machine, step, "step " + index++ + ", " + step.get("op").asText());
            }
        }
        right++;
    }

    /** One vault for many cases, emptied before each: to make one takes longer than most of them. */
    private static void empty() throws Exception {
        try (Listing listing = main.list(new byte[] {'/'}, false)) {
            for (Listing.Entry entry = listing.next(); entry != null; entry = listing.next()) {
                byte[] path = main.files().pathOf(new byte[] {'/'}).child(entry.name).absolute();
                if (entry.attributes.isDirectory()) {
                    main.removeTree(path);
                } else {
                    main.removeFile(path);
                }
            }
        }
        for (Snapshot.Info one : main.snapshots()) {
            main.removeSnapshot(one.id);
        }
    }

    private static void check(Machine machine, JsonNode step, String where) throws Exception {
        Object given;
        try {
            given = machine.step(step);
        } catch (Exception error) {
            int found = VaultException.errnoOf(error);
            if (!step.has("errno")) {
                throw new AssertionError(where + ": it fails with " + found, error);
            }
            if (found != Machine.errno(step.get("errno").asText())) {
                throw new AssertionError(where + ": " + found + " instead of " + step.get("errno").asText(), error);
            }
            return;
        }
        if (step.has("errno")) {
            fail(where + ": success instead of " + step.get("errno").asText());
        }
        if (step.has("is") && !isRight(step.get("is"), given)) {
            fail(where + ": " + shown(given) + " instead of " + step.get("is"));
        }
    }

    private static boolean isRight(JsonNode wanted, Object given) {
        if (given instanceof NodeAttributes) {
            List<String> wrong = new ArrayList<>();
            wanted.fieldNames().forEachRemaining(name -> {
                if (!Machine.attribute((NodeAttributes) given, name).equals(Machine.value(wanted.get(name)))) {
                    wrong.add(name);
                }
            });
            return wrong.isEmpty();
        }
        if (given instanceof byte[]) {
            return Arrays.equals((byte[]) given, Machine.bytes(wanted));
        }
        if (given instanceof List) {
            List<?> names = (List<?>) given;
            for (int index = 0; index < names.size(); index++) {
                if (index >= wanted.size() || !Arrays.equals((byte[]) names.get(index), Machine.bytes(wanted.get(index)))) {
                    return false;
                }
            }
            return names.size() == wanted.size();
        }
        return given != null && given.equals(Machine.value(wanted));
    }

    private static String shown(Object given) {
        if (given instanceof byte[]) {
            return Text.shown((byte[]) given);
        }
        if (given instanceof List) {
            List<String> names = new ArrayList<>();
            ((List<?>) given).forEach(one -> names.add(Text.shown((byte[]) one)));
            return names.toString();
        }
        return String.valueOf(given);
    }
}
