package io.strongroom;

/** What {@link Vault#bringBack} and {@link Vault#pin} brought. */
public final class BringBackReport {
    /** Segments that came. */
    public final long segments;
    /** Their bytes. */
    public final long bytes;
    /** Segments that no remote has any more: {@link Vault#verify} names the files that this costs. */
    public final long lost;
    /** Their bytes. */
    public final long lostBytes;
    /** Whether the listener stopped it; what came stays. */
    public final boolean isStopped;

    BringBackReport(Reader answer) {
        segments = answer.number();
        bytes = answer.number();
        lost = answer.number();
        lostBytes = answer.number();
        isStopped = answer.flag();
    }
}
