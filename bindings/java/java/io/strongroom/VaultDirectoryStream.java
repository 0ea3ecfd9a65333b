package io.strongroom;

import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.NoSuchElementException;

/** The paths of the entries in a directory. */
final class VaultDirectoryStream implements DirectoryStream<Path> {
    private final VaultPath directory;
    private final Listing listing;
    private final Filter<? super Path> filter;
    private boolean isGiven;
    private boolean isClosed;

    VaultDirectoryStream(VaultPath directory, Listing listing, Filter<? super Path> filter) {
        this.directory = directory;
        this.listing = listing;
        this.filter = filter;
    }

    @Override
    public synchronized Iterator<Path> iterator() {
        if (isClosed || isGiven) {
            throw new IllegalStateException(isClosed ? "the directory is closed" : "it gives one iterator only");
        }
        isGiven = true;
        return new Names();
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        listing.close();
    }

    /** The next path that the filter accepts; null at the end, and when it is closed. */
    private synchronized Path next() {
        try {
            for (Listing.Entry entry = isClosed ? null : listing.next(); entry != null; entry = listing.next()) {
                Path path = directory.child(entry.name);
                if (filter == null || filter.accept(path)) {
                    return path;
                }
            }
            return null;
        } catch (IOException error) {
            throw new DirectoryIteratorException(error);
        }
    }

    private final class Names implements Iterator<Path> {
        private Path ahead;

        @Override
        public boolean hasNext() {
            if (ahead == null) {
                ahead = VaultDirectoryStream.this.next();
            }
            return ahead != null;
        }

        @Override
        public Path next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            Path given = ahead;
            ahead = null;
            return given;
        }
    }
}
