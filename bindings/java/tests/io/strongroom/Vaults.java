package io.strongroom;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** One vault for all tests of a class, because creating a vault takes longer than most tests. */
final class Vaults {
    private Vaults() {}

    static VaultOptions options() {
        return new VaultOptions().withoutRecords();
    }

    /** A vault that a new key file opens, which is beside it. */
    static Vault make(Path folder) throws IOException {
        Path file = folder.resolveSibling(folder.getFileName() + ".key");
        Files.write(file, Secret.newKeyFile());
        try (Secret secret = Secret.keyFile(file)) {
            return Vault.create(folder, options(), secret);
        }
    }

    /** Another opening of it. */
    static Vault open(Path folder, VaultOptions options) throws IOException {
        try (Secret secret = Secret.keyFile(folder.resolveSibling(folder.getFileName() + ".key"))) {
            return Vault.open(folder, secret, options);
        }
    }

    /** Removes all that is in it. */
    static void empty(Vault vault) throws IOException {
        try (DirectoryStream<Path> names = Files.newDirectoryStream(vault.path("/"))) {
            for (Path one : names) {
                try (Stream<Path> tree = Files.walk(one)) {
                    for (Path path : (Iterable<Path>) tree.sorted(Comparator.reverseOrder())::iterator) {
                        Files.delete(path);
                    }
                }
            }
        }
    }
}
