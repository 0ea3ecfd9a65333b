package io.strongroom;

/** Between the library, which calls it from a thread of its own, and the listener of a program. It lives as long as the sync. */
final class SyncEvents {
    private final SyncListener listener;
    private ContinuousSync sync;
    private boolean ended;

    SyncEvents(SyncListener listener) {
        this.listener = listener;
    }

    /** Called by the library. It throws nothing: nobody is above it in that thread. */
    @SuppressWarnings("unused")
    private void heard(byte[] event) {
        if (isEnded()) {
            return;
        }
        try {
            if (!listener.heard(new SyncEvent(new Reader(event)))) {
                end();
            }
        } catch (Throwable thrown) {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
        }
    }

    private void end() {
        ContinuousSync begun;
        synchronized (this) {
            ended = true;
            begun = sync;
        }
        if (begun != null) {
            begun.close();
        }
    }

    /** Nothing is heard from now on. */
    synchronized void ended() {
        ended = true;
    }

    private synchronized boolean isEnded() {
        return ended;
    }

    /** Keeps the sync, so that one that nobody keeps goes on; gives whether its first event has ended it already. */
    synchronized boolean begun(ContinuousSync begun) {
        sync = begun;
        return ended;
    }
}
