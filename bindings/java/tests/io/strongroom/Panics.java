package io.strongroom;

/** What {@code src/panics.rs} implements, in a library that is built for tests. */
final class Panics {
    private Panics() {}

    /** Tells {@code told}, which may be null, and panics with {@code message}. */
    static native int panics(byte[] message, Progress told);
}
