package io.strongroom;

/** Hears how far a call is, in the thread that made the call. What it throws stops the call, and comes out of it. */
@FunctionalInterface
public interface Progress {
    /**
     * Called now and then; {@code total} may grow.
     *
     * @param done bytes so far
     * @param total bytes in all, as far as they are known
     * @return whether to go on
     */
    boolean at(long done, long total);
}
