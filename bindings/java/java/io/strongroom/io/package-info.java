/**
 * The classes of {@code java.io} that open files, but in a vault: a program only changes its imports to use them. {@link
 * io.strongroom.io.VirtualFileSystem} chooses the vault.
 *
 * <p>A {@link io.strongroom.io.File} is not a {@code java.io.File}. Otherwise code that expects a {@code java.io.File} would write data of the
 * vault to the disk in the clear, and nobody would notice.
 */
package io.strongroom.io;
