package io.strongroom;

import java.util.List;

/** What {@link Vault#evict} or {@link Vault#evictToLimit} did. Content goes in segments of up to 16 MiB. */
public final class EvictReport {
    /** Segments that went from this disk. */
    public final long segments;
    /** Their bytes. */
    public final long bytes;
    /** Segments that stayed, because no remote has shown that it has them. */
    public final long kept;
    /** Their bytes. */
    public final long keptBytes;
    /** Segments that stayed, because content of something pinned lies in them. */
    public final long pinned;
    /** Their bytes. */
    public final long pinnedBytes;
    /** Why remotes were not asked, a line each. */
    public final List<String> problems;
    /** Whether the listener stopped it; what went stays away. */
    public final boolean isStopped;

    EvictReport(Reader answer) {
        segments = answer.number();
        bytes = answer.number();
        kept = answer.number();
        keptBytes = answer.number();
        pinned = answer.number();
        pinnedBytes = answer.number();
        problems = answer.texts();
        isStopped = answer.flag();
    }
}
