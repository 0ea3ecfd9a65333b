package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Prints the time of calls on a vault and on the disk. It decides nothing, because times depend on the machine. */
class MeasureTest {
    private static final int ROUNDS = 7;
    private static final int BYTES = 256 << 20;

    @TempDir
    Path place;

    private interface Work {
        void run() throws Exception;
    }

    /** The median of some rounds, in nanoseconds for each of {@code calls}, after one that warms up. */
    private static double time(int calls, Work work) throws Exception {
        work.run();
        long[] taken = new long[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            long begin = System.nanoTime();
            work.run();
            taken[round] = System.nanoTime() - begin;
        }
        Arrays.sort(taken);
        return (double) taken[ROUNDS / 2] / calls;
    }

    @Test
    void whatCallsCost() throws Exception {
        try (Secret secret = Secret.keyFile(Secret.newKeyFile());
                Vault vault = Vault.create(place.resolve("vault"), new VaultOptions().withoutRecords(), secret)) {
            for (Path folder : new Path[] {Files.createDirectory(place.resolve("disk")), vault.path("/")}) {
                measure(folder == vault.path("/") || folder instanceof VaultPath ? "vault" : "disk ", folder);
            }
        }
    }

    private static void measure(String name, Path folder) throws Exception {
        Path file = folder.resolve("file");
        ByteBuffer large = ByteBuffer.wrap(new byte[1 << 20]);
        try (FileChannel channel = FileChannel.open(
                file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            for (int at = 0; at < BYTES; at += large.capacity()) {
                Arrays.fill(large.array(), (byte) at);
                large.array()[at >> 20] = 1;
                channel.write(large.clear());
            }
            channel.force(true);
            ByteBuffer small = ByteBuffer.wrap(new byte[4096]);
            show(name, "read 4 KiB", time(20_000, () -> {
                for (int call = 0; call < 20_000; call++) {
                    assertEquals(4096, channel.read(small.clear(), (call & 255) * 4096L));
                }
            }));
            show(name, "read 1 MiB", time(256, () -> {
                for (int call = 0; call < 256; call++) {
                    assertEquals(1 << 20, channel.read(large.clear(), (long) call << 20));
                }
            }));
            show(name, "size", time(20_000, () -> {
                for (int call = 0; call < 20_000; call++) {
                    channel.size();
                }
            }));
        }
        show(name, "stat", time(20_000, () -> {
            for (int call = 0; call < 20_000; call++) {
                Files.getLastModifiedTime(file);
            }
        }));
        show(name, "stat of nothing", time(20_000, () -> {
            Path none = folder.resolve("none");
            for (int call = 0; call < 20_000; call++) {
                Files.exists(none);
            }
        }));
    }

    private static void show(String name, String what, double ns) {
        System.out.println(String.format(Locale.ROOT, "%s  %-16s %12.0f ns", name, what, ns));
    }
}
