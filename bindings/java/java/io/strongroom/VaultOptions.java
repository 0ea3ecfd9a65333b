package io.strongroom;

/** Options for creating or opening a vault. Each method changes an option and returns the same object: {@code new VaultOptions().readOnly()}. */
public final class VaultOptions {
    /** As the library numbers them. */
    private static final int READ_ONLY = 1;

    private static final int OWN = 2;
    private static final int ACCEPT_OLDER = 4;
    private static final int NO_RECORDS = 8;
    private static final int ON_DEMAND = 16;

    /** The algorithms of a new vault. */
    public enum Suite {
        /** AES-256-GCM with BLAKE3: for all machines with instructions for AES. */
        AES_256_GCM,
        /** ChaCha20-Poly1305 with BLAKE3: for machines without. */
        CHACHA20_POLY1305,
        /** AEGIS-256 with BLAKE3: the fastest where there are instructions for AES. */
        AEGIS_256
    }

    private int flags;
    private String fingerprint;
    private Suite suite = Suite.AES_256_GCM;

    /** To read and write, through whoever has the vault open, with records of what was seen. */
    public VaultOptions() {}

    /** For reading only. */
    public VaultOptions readOnly() {
        flags |= READ_ONLY;
        return this;
    }

    /** As the only one that opens it. Without it, a vault that another process has open is used through that one. */
    public VaultOptions exclusive() {
        flags |= OWN;
        return this;
    }

    /** Also if the folder is older than what was seen of the vault, as after a backup was put back. */
    public VaultOptions acceptOlder() {
        flags |= ACCEPT_OLDER;
        return this;
    }

    /** Nothing is recorded of the vault in the user's folder, and an older folder is not noticed. */
    public VaultOptions withoutRecords() {
        flags |= NO_RECORDS;
        return this;
    }

    /** Of a clone: the content of files stays at the remote until it is read. */
    public VaultOptions onDemand() {
        flags |= ON_DEMAND;
        return this;
    }

    /** The only vault that may be meant, by its fingerprint. */
    public VaultOptions fingerprint(String expected) {
        fingerprint = expected;
        return this;
    }

    /** The algorithms of a new vault. */
    public VaultOptions suite(Suite chosen) {
        suite = chosen;
        return this;
    }

    int flags() {
        return flags;
    }

    boolean isReadOnly() {
        return (flags & READ_ONLY) != 0;
    }

    byte[] expected() {
        return Text.optional(fingerprint);
    }

    int suiteNumber() {
        return suite.ordinal() + 1;
    }
}
