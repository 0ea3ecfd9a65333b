package io.strongroom;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.function.LongFunction;

/** The number of an open object in the library. The object is closed at the latest when the owner of the handle is garbage-collected. */
final class Handle {
    private static final Cleaner CLEANER = Cleaner.create();

    /** A call keeps its handle, and so what must not be collected, and closed, in the middle of the last call. */
    private final Object owner;

    private final long number;
    private final Cleaner.Cleanable cleanable;

    /** What closes it; it must not keep the owner. */
    private static final class Release implements Runnable {
        private final long number;
        private final boolean isVault;

        Release(long number, boolean isVault) {
            this.number = number;
            this.isVault = isVault;
        }

        @Override
        public void run() {
            try {
                if (isVault) {
                    Native.closeVault(number);
                } else {
                    Native.close(number);
                }
            } catch (Failure nobodyHears) {
                // Whoever wants to know closes it himself.
            }
        }
    }

    Handle(Object owner, long number, boolean isVault) {
        this.owner = owner;
        this.number = number;
        this.cleanable = CLEANER.register(owner, new Release(number, isVault));
    }

    long number() {
        return number;
    }

    /** Closes it; a second time does nothing. */
    void close() {
        cleanable.clean();
    }

    /** Asks the library about paths, each of which may be null. */
    <T> T ask(byte[] path, byte[] other, LongFunction<T> call) throws IOException {
        try {
            return call.apply(number);
        } catch (Failure failure) {
            throw failure.about(Text.shown(path), Text.shown(other));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The same of what gives nothing. */
    void tell(byte[] path, byte[] other, LongCall call) throws IOException {
        ask(path, other, number -> {
            call.make(number);
            return null;
        });
    }

    /** A call that gives nothing. */
    interface LongCall {
        void make(long number);
    }
}
