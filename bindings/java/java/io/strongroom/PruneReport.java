package io.strongroom;

/** What {@link Vault#pruneRemote} removed. */
public final class PruneReport {
    /** Objects that were removed. */
    public final long objects;
    /** Their bytes. */
    public final long bytes;
    /** Objects to which nothing refers any more, and which stay until the grace is over. */
    public final long waiting;
    /** Their bytes. */
    public final long waitingBytes;
    /** Such objects that the remote itself keeps for some days. */
    public final long kept;
    /** Their bytes. */
    public final long keptBytes;

    PruneReport(Reader answer) {
        objects = answer.number();
        bytes = answer.number();
        waiting = answer.number();
        waitingBytes = answer.number();
        kept = answer.number();
        keptBytes = answer.number();
    }
}
