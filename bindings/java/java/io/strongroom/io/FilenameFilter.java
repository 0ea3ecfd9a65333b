package io.strongroom.io;

/** Decides which files are listed. */
@FunctionalInterface
public interface FilenameFilter {
    /** Whether to list the file {@code filename} in {@code directory}. */
    boolean accept(File directory, String filename);
}
