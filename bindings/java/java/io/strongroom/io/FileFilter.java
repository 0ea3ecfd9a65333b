package io.strongroom.io;

/** Which files to list. */
@FunctionalInterface
public interface FileFilter {
    /** Whether to list {@code pathname}. */
    boolean accept(File pathname);
}
