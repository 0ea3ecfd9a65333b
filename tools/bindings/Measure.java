import io.strongroom.Secret;
import io.strongroom.Vault;
import io.strongroom.VaultOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;

/**
 * Measures what calls cost in Java, on a vault and on the plain file system. The head of measure.rs says how all of these programs are used,
 * and what they print. The code is the same for both: only the paths and the sync differ.
 *
 * <pre>Measure vault|plain FOLDER calls|pieces|files NUMBER ROUNDS</pre>
 */
public final class Measure {
    private static final int PAGE_BYTES = 4096;
    private static final int MIB = 1 << 20;
    private static final int PAGES = 256;
    private static final int MIBS = 16;
    private static final int SMALL_READS_PER_LARGE = 50;
    private static final int FILE_BYTES = 5000;

    private final Path folder;
    private final Sync sync;
    private final Map<String, double[]> figures = new LinkedHashMap<>();

    private interface Sync {
        void run() throws Exception;
    }

    private interface Call {
        void run(long number) throws Exception;
    }

    private Measure(Path folder, Sync sync) {
        this.folder = folder;
        this.sync = sync;
    }

    // ---- numbers at the beginning of pages and files, as measure.rs writes them

    private static void stamp(byte[] content, long number) {
        ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).putLong(0, number);
    }

    private static void check(byte[] content, long number) throws IOException {
        if (ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).getLong(0) != number) {
            throw new IOException("page or file " + number + " is not what was written");
        }
    }

    private static void exactly(long found, long wanted) throws IOException {
        if (found != wanted) {
            throw new IOException(found + " bytes where there are " + wanted);
        }
    }

    // ---- parts

    /** Nanoseconds of one of {@code count} calls in each round, after a round that warms up. */
    private static double[] timed(int rounds, long count, Call call) throws Exception {
        double[] taken = new double[rounds + 1];
        for (int round = 0; round <= rounds; round++) {
            long start = System.nanoTime();
            for (long number = 0; number < count; number++) {
                call.run(number);
            }
            taken[round] = (double) (System.nanoTime() - start) / count;
        }
        return Arrays.copyOfRange(taken, 1, taken.length);
    }

    private void calls(long count, int rounds) throws Exception {
        Path content = folder.resolve("content");
        ByteBuffer small = ByteBuffer.allocate(PAGE_BYTES);
        ByteBuffer large = ByteBuffer.allocate(MIB);
        try (FileChannel channel = FileChannel.open(content, StandardOpenOption.READ)) {
            for (long number = 0; number < (long) MIBS * MIB / PAGE_BYTES; number++) {
                exactly(channel.read(small.clear(), number * PAGE_BYTES), PAGE_BYTES);
                check(small.array(), number);
            }
            reads(channel, "", small, large, count, rounds);
            reads(channel, "_direct", direct(PAGE_BYTES), direct(MIB), count, rounds);
        }
        figures.put("stat", timed(rounds, count, number -> {
            Files.readAttributes(content, BasicFileAttributes.class);
        }));
    }

    /** Memory outside the heap that begins with a page. */
    private static ByteBuffer direct(int bytes) {
        return ByteBuffer.allocateDirect(bytes + PAGE_BYTES).alignedSlice(PAGE_BYTES).limit(bytes).slice();
    }

    private void reads(FileChannel channel, String kind, ByteBuffer small, ByteBuffer large, long count, int rounds) throws Exception {
        figures.put("read_4k" + kind, timed(rounds, count, number -> {
            exactly(channel.read(small.clear(), number % PAGES * PAGE_BYTES), PAGE_BYTES);
        }));
        figures.put("read_1m" + kind, timed(rounds, count / SMALL_READS_PER_LARGE, number -> {
            exactly(channel.read(large.clear(), number % MIBS * MIB), MIB);
        }));
    }

    private void pieces(long bytes, int rounds) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(MIB);
        figures.put("pieces", timed(rounds, 1, number -> {
            long at = 0;
            try (FileChannel channel = FileChannel.open(folder.resolve("content"), StandardOpenOption.READ)) {
                int found = channel.read(buffer.clear());
                while (found > 0) {
                    if (at % PAGE_BYTES == 0) {
                        check(buffer.array(), at / PAGE_BYTES);
                    }
                    at += found;
                    found = channel.read(buffer.clear());
                }
            }
            exactly(at, bytes);
        }));
    }

    private void files(int count, int rounds) throws Exception {
        double[] written = new double[rounds];
        double[] read = new double[rounds];
        double[] removed = new double[rounds];
        Path directory = folder.resolve("files");
        Path[] paths = new Path[count];
        for (int number = 0; number < count; number++) {
            paths[number] = directory.resolve(String.format(Locale.ROOT, "%06d", number));
        }
        byte[] content = new byte[FILE_BYTES];
        Arrays.fill(content, (byte) 'x');
        for (int round = 0; round < rounds; round++) {
            Files.createDirectory(directory);
            long start = System.nanoTime();
            for (int number = 0; number < count; number++) {
                stamp(content, number);
                Files.write(paths[number], content);
            }
            sync.run();
            written[round] = System.nanoTime() - start;

            start = System.nanoTime();
            for (int number = 0; number < count; number++) {
                byte[] found = Files.readAllBytes(paths[number]);
                exactly(found.length, FILE_BYTES);
                check(found, number);
            }
            read[round] = System.nanoTime() - start;

            start = System.nanoTime();
            for (Path path : paths) {
                Files.delete(path);
            }
            Files.delete(directory);
            sync.run();
            removed[round] = System.nanoTime() - start;
        }
        figures.put("written", written);
        figures.put("read", read);
        figures.put("removed", removed);
    }

    private void run(String part, long number, int rounds) throws Exception {
        switch (part) {
            case "calls":
                calls(number, rounds);
                break;
            case "pieces":
                pieces(number, rounds);
                break;
            case "files":
                files(Math.toIntExact(number), rounds);
                break;
            default:
                throw new IllegalArgumentException(part + " is not calls, pieces or files");
        }
    }

    private void print() {
        StringJoiner all = new StringJoiner(", ", "{", "}");
        figures.forEach((name, taken) -> {
            StringJoiner rounds = new StringJoiner(", ", "[", "]");
            for (double one : taken) {
                rounds.add(String.format(Locale.ROOT, "%.1f", one));
            }
            all.add('"' + name + "\": " + rounds);
        });
        System.out.println(all);
    }

    /** Java has no call that syncs a file system. */
    private static void syncDisk(String folder) throws Exception {
        Process sync = new ProcessBuilder("sync", "-f", folder).inheritIO().start();
        if (sync.waitFor() != 0) {
            throw new IOException("sync failed");
        }
    }

    public static void main(String[] arguments) throws Exception {
        String place = arguments[1];
        String part = arguments[2];
        long number = Long.parseLong(arguments[3]);
        int rounds = Integer.parseInt(arguments[4]);
        if (!arguments[0].equals("vault")) {
            Measure measure = new Measure(Path.of(place), () -> syncDisk(place));
            measure.run(part, number, rounds);
            measure.print();
            return;
        }
        VaultOptions options = new VaultOptions().exclusive().withoutRecords();
        Measure measure;
        try (Secret secret = Secret.keyFile(Path.of(place + ".key"));
                Vault vault = Vault.open(Path.of(place), secret, options)) {
            measure = new Measure(vault.path("/"), vault::sync);
            measure.run(part, number, rounds);
        }
        measure.print();
    }
}
