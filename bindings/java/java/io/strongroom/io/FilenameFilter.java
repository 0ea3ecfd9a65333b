package io.strongroom.io;

/** Which files to list. */
@FunctionalInterface
public interface FilenameFilter {
    /** Whether to list the file {@code filename} in {@code directory}. */
    boolean accept(File directory, String filename);
}
