/**
 * An end-to-end encrypted file system inside a program: {@link io.strongroom.Vault} gives paths for {@link java.nio.file.Files}.
 */
package io.strongroom;
