package io.strongroom.io;

import io.strongroom.Secret;
import io.strongroom.Vault;
import io.strongroom.VaultException;
import io.strongroom.VaultOptions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import javax.crypto.SecretKey;

/**
 * A vault that the classes of this package use. {@link #get} is the default one; others are made with {@code new} and passed to {@link
 * File#File(VirtualFileSystem, String)}. A container is a vault folder.
 */
public final class VirtualFileSystem {
    /** The length of a raw key. */
    private static final int KEY_BYTES = 32;

    private static final VirtualFileSystem OF_ALL = new VirtualFileSystem();

    private final VaultOptions options;
    private Path container;
    private volatile Vault vault;

    /** One of several. */
    public VirtualFileSystem() {
        this(new VaultOptions());
    }

    /** The same, with options. */
    public VirtualFileSystem(VaultOptions options) {
        this.options = options;
    }

    /** That of all files that name none. */
    public static VirtualFileSystem get() {
        return OF_ALL;
    }

    // ---- the container

    /** Says where the container is. */
    public synchronized void setContainerPath(String path) {
        if (isMounted()) {
            throw new IllegalStateException("the container is mounted; unmount it first");
        }
        container = Path.of(path);
    }

    /** Where the container is. */
    public synchronized String getContainerPath() {
        return folder().toString();
    }

    private Path folder() {
        if (container == null) {
            throw new IllegalStateException("call setContainerPath first");
        }
        return container;
    }

    /** Makes a container that a passphrase opens. A {@code String} cannot be wiped: prefer {@code char[]}. */
    public void createNewContainer(String passphrase) {
        createNewContainer(passphrase.toCharArray());
    }

    /** The same, elsewhere. */
    public void createNewContainer(String path, String passphrase) {
        setContainerPath(path);
        createNewContainer(passphrase);
    }

    /** Makes a container that a passphrase opens. */
    public void createNewContainer(char[] passphrase) {
        try (Secret secret = Secret.passphrase(passphrase)) {
            create(secret);
        }
    }

    /** Makes a container that a raw key of 32 bytes opens. */
    public void createNewContainer(byte[] key) {
        try (Secret secret = secret(key)) {
            create(secret);
        }
    }

    /** The same, elsewhere. */
    public void createNewContainer(String path, byte[] key) {
        setContainerPath(path);
        createNewContainer(key);
    }

    /** The same of a key of 32 bytes. */
    public void createNewContainer(SecretKey key) {
        createNewContainer(key.getEncoded());
    }

    /** The same, elsewhere. */
    public void createNewContainer(String path, SecretKey key) {
        setContainerPath(path);
        createNewContainer(key);
    }

    /** Makes a container that any secret opens; gives its recovery code, to be shown once, on paper. */
    public synchronized char[] create(Secret secret) {
        try (Vault made = Vault.create(folder(), options, secret)) {
            return made.recoveryCode().orElseThrow();
        } catch (IOException error) {
            throw refused(error);
        }
    }

    /** Removes the container with everything in it. */
    public synchronized void deleteContainer() {
        if (isMounted()) {
            throw new IllegalStateException("the container is mounted; unmount it first");
        }
        Path folder = folder();
        if (!Files.exists(folder.resolve("vault.json"))) {
            throw new IllegalArgumentException(folder + " is not a container");
        }
        try {
            // A walk that begins at a link would remove the link and leave the container.
            Files.walkFileTree(folder.toRealPath(), new SimpleFileVisitor<Path>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                    Files.delete(file);
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path directory, IOException error) throws IOException {
                    if (error != null) {
                        throw error;
                    }
                    Files.delete(directory);
                    return FileVisitResult.CONTINUE;
                }
            });
            Files.deleteIfExists(folder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The same, elsewhere. */
    public void deleteContainer(String path) {
        setContainerPath(path);
        deleteContainer();
    }

    // ---- mounted

    /** Opens the container with a passphrase. A {@code String} cannot be wiped: prefer {@code char[]}. */
    public void mount(String passphrase) {
        mount(passphrase.toCharArray());
    }

    /** The same, elsewhere. */
    public void mount(String path, String passphrase) {
        setContainerPath(path);
        mount(passphrase);
    }

    /** Opens the container with a passphrase. */
    public void mount(char[] passphrase) {
        try (Secret secret = Secret.passphrase(passphrase)) {
            mount(secret);
        }
    }

    /** Opens the container with a raw key of 32 bytes. */
    public void mount(byte[] key) {
        try (Secret secret = secret(key)) {
            mount(secret);
        }
    }

    /** The same, elsewhere. */
    public void mount(String path, byte[] key) {
        setContainerPath(path);
        mount(key);
    }

    /** The same with a key of 32 bytes. */
    public void mount(SecretKey key) {
        mount(key.getEncoded());
    }

    /** The same, elsewhere. */
    public void mount(String path, SecretKey key) {
        setContainerPath(path);
        mount(key);
    }

    /**
     * Opens the container with any secret.
     *
     * @throws IllegalArgumentException if there is none, or the secret does not open it
     * @throws IllegalStateException if it is mounted already
     */
    public synchronized void mount(Secret secret) {
        if (isMounted()) {
            throw new IllegalStateException("a container is already mounted");
        }
        try {
            vault = Vault.open(folder(), secret, options);
        } catch (IOException error) {
            throw refused(error);
        }
    }

    private static RuntimeException refused(IOException error) {
        if (error instanceof VaultException) {
            switch (((VaultException) error).kind()) {
                case NOT_A_VAULT:
                case VAULT_EXISTS:
                case WRONG_SECRET:
                    return new IllegalArgumentException(error.getMessage(), error);
                case SYSTEM:
                    if (((VaultException) error).errno() == 22) {
                        return new IllegalArgumentException(error.getMessage(), error);
                    }
                    break;
                default:
            }
        }
        return new UncheckedIOException(error);
    }

    /** A raw key has no form of its own in a vault: it is the passphrase that its hexadecimal digits are. */
    private static Secret secret(byte[] key) {
        if (key.length != KEY_BYTES) {
            throw new IllegalArgumentException("a key has " + KEY_BYTES + " bytes, not " + key.length);
        }
        char[] digits = new char[2 * KEY_BYTES];
        for (int index = 0; index < KEY_BYTES; index++) {
            digits[2 * index] = Character.forDigit(key[index] >> 4 & 15, 16);
            digits[2 * index + 1] = Character.forDigit(key[index] & 15, 16);
        }
        try {
            return Secret.passphrase(digits);
        } finally {
            java.util.Arrays.fill(digits, '0');
        }
    }

    /**
     * Closes the container with all files that are open; everything is durable then.
     *
     * @throws IllegalStateException if none is mounted
     */
    public synchronized void unmount() {
        Vault open = vault();
        vault = null;
        try {
            open.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Whether a container is mounted. */
    public boolean isMounted() {
        Vault open = vault;
        return open != null && open.fileSystem().isOpen();
    }

    /** The vault of the container, for all that these classes have no word for: snapshots, transactions, remotes. */
    public Vault vault() {
        Vault open = vault;
        if (open == null || !open.fileSystem().isOpen()) {
            throw new IllegalStateException("no container is mounted");
        }
        return open;
    }

    /** Nothing: a thread holds nothing of a vault. */
    public void detachThread() {}

    /** Nothing: a vault gathers changes anyway. What must happen whole or not at all is a {@link io.strongroom.Transaction}. */
    public void beginTransaction() {
        vault();
    }

    /** Makes everything that was done so far durable. */
    public void completeTransaction() {
        try {
            vault().sync();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
