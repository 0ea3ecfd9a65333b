package io.strongroom;

import java.io.IOException;

/**
 * A continuous sync, until it or its vault is closed: what changes here goes to all remotes of the vault, and what others push there comes into the
 * vault, in a thread of the library. It goes on when the program keeps no reference to it, and keeps its vault open.
 *
 * <p>Its listener may close it too, and so may a {@link Progress}: then nothing is waited for there, and it ends when the listener has returned,
 * or before the call of the progress returns.
 */
public final class ContinuousSync implements AutoCloseable {
    private final Vault vault;
    private final Handle handle;
    private final SyncEvents events;

    ContinuousSync(Vault vault, long number, SyncEvents events) {
        this.vault = vault;
        this.handle = new Handle(this, number, false);
        this.events = events;
        if (events.begun(this)) {
            close();
        }
    }

    /** The vault that is synced. */
    public Vault vault() {
        return vault;
    }

    /** Ends it when what waits has gone to the remotes that work. A second time does nothing. */
    public void finish() throws IOException {
        handle.tell(null, null, Native::finishSync);
        close();
    }

    /** Ends it at once. A second time does nothing. */
    @Override
    public void close() {
        events.ended();
        handle.close();
    }
}
