/**
 * The classes of {@code java.io} that open files, on a vault: a program moves over by changing its imports. {@link
 * io.strongroom.io.VirtualFileSystem} says which vault.
 *
 * <p>A {@link io.strongroom.io.File} is no {@code java.io.File}: what takes one of those would write to the disk, in the clear, what belongs into
 * the vault, and nobody would notice.
 */
package io.strongroom.io;
