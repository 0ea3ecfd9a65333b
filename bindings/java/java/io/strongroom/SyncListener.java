package io.strongroom;

/**
 * Hears of a {@link ContinuousSync}, in a thread of the library. What it throws goes to the handler of uncaught exceptions of that thread, and the
 * sync goes on. Files may be used in it; keys and invitations fail with {@code EDEADLK}, and so does what waits for remotes while bytes are on their
 * way.
 */
@FunctionalInterface
public interface SyncListener {
    /**
     * Called for each event.
     *
     * @param event what happened
     * @return whether to go on; if not, the sync ends
     */
    boolean heard(SyncEvent event);
}
