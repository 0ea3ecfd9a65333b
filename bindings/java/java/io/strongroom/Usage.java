package io.strongroom;

/** What stored content is for, in sealed bytes. */
public final class Usage {
    /** What files have now, whether or not snapshots have it too. */
    public final long liveBytes;
    /** What only snapshots have. */
    public final long keptBytes;
    /** What nothing refers to any more; it comes back in the background. */
    public final long wasteBytes;

    Usage(Reader answer) {
        liveBytes = answer.number();
        keptBytes = answer.number();
        wasteBytes = answer.number();
    }
}
