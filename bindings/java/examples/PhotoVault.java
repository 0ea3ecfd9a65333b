import io.strongroom.NodeAttributes;
import io.strongroom.Secret;
import io.strongroom.Snapshot;
import io.strongroom.Transaction;
import io.strongroom.Vault;
import io.strongroom.VaultException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Photos in a vault, in a directory for each month.
 *
 * <pre>
 * java PhotoVault.java new    VAULT KEYFILE
 * java PhotoVault.java add    VAULT KEYFILE PHOTO…      adds photos, with an entry for each in the album's list: all or none
 * java PhotoVault.java list   VAULT KEYFILE
 * java PhotoVault.java take   VAULT KEYFILE FOLDER      copies all photos to FOLDER
 * java PhotoVault.java keep   VAULT KEYFILE NAME        keeps the current album as a snapshot
 * java PhotoVault.java before VAULT KEYFILE NAME        lists the photos of that snapshot
 * </pre>
 */
public final class PhotoVault {
    private PhotoVault() {}

    /** See above. */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length < 3) {
            System.err.println("PhotoVault new|add|list|take|keep|before VAULT KEYFILE …");
            System.exit(2);
        }
        Path folder = Path.of(arguments[1]);
        Path keyFile = Path.of(arguments[2]);
        List<String> rest = Arrays.asList(arguments).subList(3, arguments.length);
        if (arguments[0].equals("new")) {
            create(folder, keyFile);
            return;
        }
        try (Secret secret = Secret.keyFile(keyFile); Vault vault = Vault.open(folder, secret)) {
            switch (arguments[0]) {
                case "add":
                    add(vault, rest.stream().map(Path::of).collect(Collectors.toList()));
                    break;
                case "list":
                    list(vault.path("/"));
                    break;
                case "take":
                    take(vault, Path.of(rest.get(0)));
                    break;
                case "keep":
                    vault.takeSnapshot("the album", rest.get(0));
                    break;
                case "before":
                    try (Snapshot then = vault.at("t:" + rest.get(0))) {
                        list(then.path("/"));
                    }
                    break;
                default:
                    throw new IllegalArgumentException("no command " + arguments[0]);
            }
        }
    }

    private static void create(Path folder, Path keyFile) throws IOException {
        byte[] key = Secret.newKeyFile();
        Files.write(keyFile, key, java.nio.file.StandardOpenOption.CREATE_NEW);
        Arrays.fill(key, (byte) 0);
        try (Secret secret = Secret.keyFile(keyFile); Vault vault = Vault.create(folder, secret)) {
            System.out.println("Write this down; it opens the album when the key file is lost:");
            System.out.println(vault.recoveryCode().orElseThrow());
        }
    }

    private static void add(Vault vault, List<Path> photos) throws IOException {
        Path album = vault.path("/album.txt");
        while (true) {
            try (Transaction transaction = vault.begin()) {
                StringBuilder entries = new StringBuilder();
                if (transaction.exists(album)) {
                    entries.append(new String(transaction.read(album), StandardCharsets.UTF_8));
                }
                for (Path photo : photos) {
                    LocalDate day = LocalDate.ofInstant(
                            Files.readAttributes(photo, BasicFileAttributes.class).lastModifiedTime().toInstant(), ZoneOffset.UTC);
                    Path month = vault.path(String.format("/%d-%02d", day.getYear(), day.getMonthValue()));
                    Files.createDirectories(month);
                    Path to = month.resolve(photo.getFileName().toString());
                    transaction.write(to, Files.readAllBytes(photo));
                    entries.append(day).append(' ').append(to).append('\n');
                }
                transaction.write(album, entries.toString().getBytes(StandardCharsets.UTF_8));
                transaction.commit(true);
                return;
            } catch (VaultException error) {
                // Another program put photos in at the same time: once more, with its entries.
                if (error.kind() != VaultException.Kind.CHANGED) {
                    throw error;
                }
            }
        }
    }

    private static void list(Path root) throws IOException {
        try (Stream<Path> all = Files.walk(root)) {
            for (Path one : (Iterable<Path>) all.filter(Files::isRegularFile).sorted()::iterator) {
                System.out.println(one + " " + Files.readAttributes(one, NodeAttributes.class).size());
            }
        }
    }

    private static void take(Vault vault, Path folder) throws IOException {
        Path root = vault.path("/");
        try (Stream<Path> all = Files.walk(root)) {
            for (Path one : (Iterable<Path>) all.filter(Files::isRegularFile)::iterator) {
                Path to = folder.resolve(root.relativize(one).toString());
                Files.createDirectories(to.getParent());
                Files.copy(one, to);
            }
        }
    }
}
