package io.strongroom;

/** What happened in a {@link ContinuousSync}. */
public final class SyncEvent {
    /** What it is. */
    public enum Kind {
        /** Bytes are on their way; about twice a second. */
        MOVING,
        /** Something moved, here or there. */
        SYNCED,
        /** It did not work, and is tried again; once for as long as it fails in the same way. */
        FAILED,
        /** It works again. */
        RECOVERED,
        /** The vault itself cannot be used any more; nothing follows. */
        ENDED;

        private static final Kind[] ALL = values();
    }

    /** What it is. */
    public final Kind kind;
    /** The name of the remote; null with {@link Kind#ENDED}. */
    public final String remote;
    /** With {@link Kind#MOVING}: bytes that are where they belong. */
    public final long bytes;
    /** With {@link Kind#MOVING}: bytes of all. */
    public final long bytesTotal;
    /** With {@link Kind#SYNCED}: what moved; else null. */
    public final Vault.Synced report;
    /** With {@link Kind#FAILED} and {@link Kind#ENDED}: why; else null. */
    public final VaultException error;
    /** With {@link Kind#FAILED}: after so many milliseconds it is tried again. */
    public final long againInMillis;

    SyncEvent(Reader answer) {
        kind = Kind.ALL[(int) answer.number()];
        String name = answer.text();
        remote = kind == Kind.ENDED ? null : name;
        boolean moves = kind == Kind.MOVING;
        bytes = moves ? answer.number() : 0;
        bytesTotal = moves ? answer.number() : 0;
        report = kind == Kind.SYNCED ? new Vault.Synced(answer) : null;
        error = kind == Kind.FAILED || kind == Kind.ENDED ? error(answer) : null;
        againInMillis = kind == Kind.FAILED ? answer.number() : 0;
    }

    private static VaultException error(Reader answer) {
        int errno = (int) answer.number();
        VaultException.Kind family = VaultException.Kind.of((int) answer.number());
        return new VaultException(null, null, answer.text(), errno, family);
    }

    @Override
    public String toString() {
        return kind + (remote == null ? "" : " " + remote) + (error == null ? "" : ": " + error.getReason());
    }
}
