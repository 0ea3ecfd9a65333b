package io.strongroom;

import java.io.IOException;
import java.nio.file.ClosedWatchServiceException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.nio.file.Watchable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Watches directories by reading them once a second. So it sees the changes of all programs, but only the last change of a file in that second. */
final class VaultWatchService implements WatchService {
    private static final long LOOK_EVERY_MS = 1000;

    /** The most events that wait for one key; then it says that there were more. */
    private static final int EVENTS_MAX = 512;

    private final VaultFileSystem fileSystem;
    private final long lookEveryMs;
    private final Map<Path, Key> keys = new HashMap<>();
    private final BlockingQueue<Key> signalled = new LinkedBlockingQueue<>();
    /** What wakes those who wait when it is closed. */
    private final Key last = new Key(null, Set.of());

    private Thread looks;
    private volatile boolean open = true;

    VaultWatchService(VaultFileSystem fileSystem) {
        this(fileSystem, LOOK_EVERY_MS);
    }

    /** One that looks every {@code lookEveryMs}, in milliseconds. */
    VaultWatchService(VaultFileSystem fileSystem, long lookEveryMs) {
        this.fileSystem = fileSystem;
        this.lookEveryMs = lookEveryMs;
    }

    WatchKey register(VaultPath directory, WatchEvent.Kind<?>[] events) throws IOException {
        checkOpen();
        if (directory.getFileSystem() != fileSystem) {
            throw new java.nio.file.ProviderMismatchException("it watches another vault");
        }
        Set<WatchEvent.Kind<?>> kinds = new HashSet<>();
        for (WatchEvent.Kind<?> kind : events) {
            if (kind == StandardWatchEventKinds.ENTRY_CREATE
                    || kind == StandardWatchEventKinds.ENTRY_DELETE
                    || kind == StandardWatchEventKinds.ENTRY_MODIFY) {
                kinds.add(kind);
            } else if (kind == null) {
                throw new NullPointerException("an event is null");
            } else if (kind != StandardWatchEventKinds.OVERFLOW) {
                throw new UnsupportedOperationException("a vault has no events of the kind " + kind);
            }
        }
        if (kinds.isEmpty()) {
            throw new IllegalArgumentException("no events to watch for");
        }
        if (!directory.tree().stat(directory.absolute(), true).isDirectory()) {
            throw new NotDirectoryException(directory.toString());
        }
        Key key = new Key(directory, kinds);
        key.seen = key.look();
        synchronized (keys) {
            Key before = keys.get(directory);
            if (before != null && before.valid) {
                before.kinds = kinds;
                return before;
            }
            keys.put(directory, key);
            if (looks == null) {
                looks = new Thread(this::run, "strongroom-watch");
                looks.setDaemon(true);
                looks.start();
            }
        }
        return key;
    }

    private void run() {
        while (open) {
            try {
                TimeUnit.MILLISECONDS.sleep(lookEveryMs);
            } catch (InterruptedException closed) {
                return;
            }
            look();
        }
    }

    /** Looks at all directories once. */
    void look() {
        List<Key> all;
        synchronized (keys) {
            all = new ArrayList<>(keys.values());
        }
        for (Key key : all) {
            key.compare();
        }
    }

    @Override
    public WatchKey poll() {
        checkOpen();
        return given(signalled.poll());
    }

    @Override
    public WatchKey poll(long timeout, TimeUnit unit) throws InterruptedException {
        checkOpen();
        return given(signalled.poll(timeout, unit));
    }

    @Override
    public WatchKey take() throws InterruptedException {
        checkOpen();
        return given(signalled.take());
    }

    private WatchKey given(Key key) {
        if (key == last) {
            // For the next one who waits.
            signalled.add(last);
        }
        checkOpen();
        return key;
    }

    private void checkOpen() {
        if (!open) {
            throw new ClosedWatchServiceException();
        }
    }

    @Override
    public void close() {
        open = false;
        synchronized (keys) {
            keys.values().forEach(key -> key.valid = false);
            keys.clear();
            if (looks != null) {
                looks.interrupt();
            }
        }
        signalled.add(last);
    }

    /** An event. */
    private static final class Event<T> implements WatchEvent<T> {
        private final Kind<T> kind;
        private final T context;
        private int count = 1;

        Event(Kind<T> kind, T context) {
            this.kind = kind;
            this.context = context;
        }

        @Override
        public Kind<T> kind() {
            return kind;
        }

        @Override
        public int count() {
            return count;
        }

        @Override
        public T context() {
            return context;
        }
    }

    /** A directory that is watched. */
    private final class Key implements WatchKey {
        private final VaultPath directory;
        private volatile Set<WatchEvent.Kind<?>> kinds;
        private volatile boolean valid = true;
        private boolean isSignalled;
        private List<WatchEvent<?>> events = new ArrayList<>();
        /** What each name meant at the last look. */
        private Map<Path, List<Long>> seen = Map.of();

        Key(VaultPath directory, Set<WatchEvent.Kind<?>> kinds) {
            this.directory = directory;
            this.kinds = kinds;
        }

        private Map<Path, List<Long>> look() throws IOException {
            Map<Path, List<Long>> found = new HashMap<>();
            try (Listing listing = directory.tree().list(directory.absolute(), false)) {
                for (Listing.Entry entry = listing.next(); entry != null; entry = listing.next()) {
                    NodeAttributes node = entry.attributes;
                    List<Long> marks = List.of(node.inode(), node.modifiedTimeNanos(), node.changeTime().to(TimeUnit.NANOSECONDS), node.size());
                    found.put(fileSystem.pathOf(entry.name), marks);
                }
            }
            return found;
        }

        /** Compares what is there with what was seen. */
        void compare() {
            if (!valid) {
                return;
            }
            Map<Path, List<Long>> now;
            try {
                now = look();
            } catch (IOException | RuntimeException gone) {
                cancel();
                synchronized (this) {
                    signal();
                }
                return;
            }
            synchronized (this) {
                now.forEach((name, marks) -> {
                    List<Long> before = seen.get(name);
                    if (before == null) {
                        add(StandardWatchEventKinds.ENTRY_CREATE, name);
                    } else if (!before.equals(marks)) {
                        add(StandardWatchEventKinds.ENTRY_MODIFY, name);
                    }
                });
                seen.keySet().stream()
                        .filter(name -> !now.containsKey(name))
                        .forEach(name -> add(StandardWatchEventKinds.ENTRY_DELETE, name));
                seen = now;
            }
        }

        private void add(WatchEvent.Kind<Path> kind, Path name) {
            if (!kinds.contains(kind)) {
                return;
            }
            if (!events.isEmpty()) {
                Event<?> newest = (Event<?>) events.get(events.size() - 1);
                if (newest.kind == StandardWatchEventKinds.OVERFLOW || newest.kind == kind && name.equals(newest.context)) {
                    newest.count++;
                    signal();
                    return;
                }
            }
            if (events.size() < EVENTS_MAX) {
                events.add(new Event<>(kind, name));
            } else {
                events.add(new Event<>(StandardWatchEventKinds.OVERFLOW, null));
            }
            signal();
        }

        private void signal() {
            if (!isSignalled) {
                isSignalled = true;
                signalled.add(this);
            }
        }

        @Override
        public boolean isValid() {
            return valid;
        }

        @Override
        public synchronized List<WatchEvent<?>> pollEvents() {
            List<WatchEvent<?>> given = events;
            events = new ArrayList<>();
            return given;
        }

        @Override
        public synchronized boolean reset() {
            if (isSignalled && valid) {
                isSignalled = false;
                if (!events.isEmpty()) {
                    signal();
                }
            }
            return valid;
        }

        @Override
        public void cancel() {
            valid = false;
            synchronized (keys) {
                keys.remove(directory, this);
            }
        }

        @Override
        public Watchable watchable() {
            return directory;
        }
    }
}
