package io.strongroom;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * A secret that opens a vault, or will open it. It holds a copy of what it was made from: wipe the original at any time, and close this to
 * wipe the copy. It is never shown.
 */
public final class Secret implements AutoCloseable {
    /** As the library numbers them. */
    private static final int PASSPHRASE = 1;

    private static final int KEY_FILE = 2;
    private static final int RECOVERY_CODE = 3;
    private static final int IDENTITY = 4;
    private static final int RECIPIENT = 5;

    private final int kind;
    private final byte[] bytes;
    private final byte[] inner;
    private volatile boolean closed;

    private Secret(int kind, byte[] bytes, byte[] inner) {
        this.kind = kind;
        this.bytes = bytes;
        this.inner = inner;
    }

    /** A passphrase. */
    public static Secret passphrase(char[] passphrase) {
        return new Secret(PASSPHRASE, Text.wipeable(passphrase), null);
    }

    /** A passphrase in UTF-8. */
    public static Secret passphrase(byte[] passphrase) {
        return new Secret(PASSPHRASE, passphrase.clone(), null);
    }

    /** The content of a key file. */
    public static Secret keyFile(byte[] content) {
        return new Secret(KEY_FILE, content.clone(), null);
    }

    /** A key file of this machine. */
    public static Secret keyFile(Path file) throws IOException {
        return new Secret(KEY_FILE, Files.readAllBytes(file), null);
    }

    /** A recovery code, as {@link Vault#recoveryCode} gave it. */
    public static Secret recoveryCode(char[] code) {
        return new Secret(RECOVERY_CODE, Text.wipeable(code), null);
    }

    /** The content of an age identity file or of an SSH private key; {@code passphrase} is that of the SSH key, or null. */
    public static Secret identity(byte[] content, char[] passphrase) {
        return new Secret(IDENTITY, content.clone(), passphrase == null ? null : Text.wipeable(passphrase));
    }

    /** An age recipient, or a line of an SSH public key file: a key is added with it, it opens nothing. */
    public static Secret recipient(String recipient) {
        return new Secret(RECIPIENT, Text.bytes(recipient), null);
    }

    /** The content of a new key file, to be kept on another medium. Wipe it when it is written. */
    public static byte[] newKeyFile() {
        Reader answer = new Reader(Native.newKeyFile());
        byte[] content = answer.bytes();
        answer.wipe();
        return content;
    }

    int kind() {
        return kind;
    }

    byte[] bytes() {
        if (closed) {
            throw new IllegalStateException("the secret is closed");
        }
        return bytes;
    }

    byte[] inner() {
        return inner;
    }

    /** Wipes it. */
    @Override
    public void close() {
        closed = true;
        Arrays.fill(bytes, (byte) 0);
        if (inner != null) {
            Arrays.fill(inner, (byte) 0);
        }
    }

    @Override
    public String toString() {
        return "Secret";
    }
}
