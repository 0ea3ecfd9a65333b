package io.strongroom.io;

/** Decides which files are listed. */
@FunctionalInterface
public interface FileFilter {
    /** Whether to list {@code pathname}. */
    boolean accept(File pathname);
}
