package io.strongroom;

/** The numbers of Linux's {@code errno.h} that this package distinguishes. */
final class Errno {
    static final int ENOENT = 2;
    static final int EBADF = 9;
    static final int EACCES = 13;
    static final int EEXIST = 17;
    static final int ENOTDIR = 20;
    static final int EISDIR = 21;
    static final int EINVAL = 22;
    static final int ENOTEMPTY = 39;
    static final int ELOOP = 40;
    static final int ENODATA = 61;

    private Errno() {}
}
