package io.strongroom;

import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The locks that this program holds on files of one vault. No two of them overlap, even if they belong to different channels. */
final class LockTable {
    private final Map<Long, List<FileLock>> held = new HashMap<>();

    /** Notes a lock that is held, or waited for. */
    synchronized void add(long inode, FileLock lock) {
        List<FileLock> locks = held.computeIfAbsent(inode, none -> new ArrayList<>());
        for (FileLock one : locks) {
            if (one.overlaps(lock.position(), lock.size())) {
                throw new OverlappingFileLockException();
            }
        }
        locks.add(lock);
    }

    /** Forgets it. */
    synchronized void remove(long inode, FileLock lock) {
        List<FileLock> locks = held.get(inode);
        if (locks != null && locks.remove(lock) && locks.isEmpty()) {
            held.remove(inode);
        }
    }
}
