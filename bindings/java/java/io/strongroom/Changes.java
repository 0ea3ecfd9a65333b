package io.strongroom;

import java.nio.file.attribute.FileTime;

/** Attributes to change; all others stay as they are. */
final class Changes {
    private static final int MODE = 1;
    private static final int UID = 2;
    private static final int GID = 4;
    private static final int SIZE = 8;
    private static final int ATIME = 16;
    private static final int MTIME = 32;

    int what;
    int mode;
    int uid;
    int gid;
    long size;
    long atime;
    long mtime;

    Changes mode(int to) {
        what |= MODE;
        mode = to;
        return this;
    }

    Changes uid(int to) {
        what |= UID;
        uid = to;
        return this;
    }

    Changes gid(int to) {
        what |= GID;
        gid = to;
        return this;
    }

    Changes size(long to) {
        what |= SIZE;
        size = to;
        return this;
    }

    Changes atime(long nanos) {
        what |= ATIME;
        atime = nanos;
        return this;
    }

    Changes mtime(long nanos) {
        what |= MTIME;
        mtime = nanos;
        return this;
    }

    /** Times that are null stay. */
    static Changes times(FileTime modified, FileTime accessed) {
        Changes changes = new Changes();
        if (modified != null) {
            changes.mtime(NodeAttributes.nanos(modified));
        }
        if (accessed != null) {
            changes.atime(NodeAttributes.nanos(accessed));
        }
        return changes;
    }
}
