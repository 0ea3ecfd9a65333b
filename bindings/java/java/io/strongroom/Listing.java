package io.strongroom;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Queue;

/** Reads the names in a directory, or the paths of everything below it, page by page. Not for several threads at once. */
final class Listing implements AutoCloseable {
    private final Vault vault;
    private final byte[] path;
    private final Handle handle;
    private final Queue<Entry> page = new ArrayDeque<>();
    private boolean ended;

    /** A name or a path, and what {@code stat} shows, of a symlink itself. */
    static final class Entry {
        final byte[] name;
        final NodeAttributes attributes;

        Entry(byte[] name, NodeAttributes attributes) {
            this.name = name;
            this.attributes = attributes;
        }
    }

    Listing(Vault vault, byte[] path, long number) {
        this.vault = vault;
        this.path = path;
        this.handle = new Handle(this, number, false);
    }

    /** The next one; null at the end. */
    Entry next() throws IOException {
        if (page.isEmpty() && !ended) {
            Reader answer = new Reader(handle.ask(path, null, Native::page));
            page.addAll(answer.list(() -> new Entry(answer.bytes(), NodeAttributes.read(vault.identity(), answer))));
            ended = page.isEmpty();
        }
        return page.poll();
    }

    @Override
    public void close() {
        ended = true;
        page.clear();
        handle.close();
    }
}
