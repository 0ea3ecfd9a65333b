package io.strongroom;

/** Gets the progress of a call, in the thread that made the call. If it throws, the call stops and throws the same exception. */
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
