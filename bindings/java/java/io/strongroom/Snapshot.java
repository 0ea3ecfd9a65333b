package io.strongroom;

import java.io.IOException;
import java.time.Instant;
import java.util.List;

/** One state of a vault, for reading only: {@link java.nio.file.Files} works with its paths, and nothing in it changes. */
public final class Snapshot extends Tree {
    private final Vault vault;

    Snapshot(Vault vault, long number) {
        super(number, false, tree -> new VaultFileSystem(tree, true));
        this.vault = vault;
    }

    @Override
    Vault vault() {
        return vault;
    }

    /** Gives it back: a state that was taken to be read goes then. */
    @Override
    public void close() throws IOException {
        files().closed();
        handle().close();
    }

    /** What is known of a snapshot that is kept. */
    public static final class Info {
        /** 64 hexadecimal digits; it is a selector, as is a beginning of it. */
        public final String id;
        /** When it was taken. */
        public final Instant time;
        /** What somebody said about it. */
        public final String message;
        /** Its tags. */
        public final List<String> tags;

        Info(Reader answer) {
            id = answer.text();
            time = NodeAttributes.time(answer.number()).toInstant();
            message = answer.text();
            tags = answer.texts();
        }

        @Override
        public String toString() {
            return id.substring(0, 12) + " " + time + " " + message;
        }
    }
}
