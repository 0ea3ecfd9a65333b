package io.strongroom.io;

import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.charset.Charset;

/** Like {@code java.io.FileWriter}, for a file in a vault. */
public class FileWriter extends OutputStreamWriter {
    /** Makes or empties a text with the charset of this machine. */
    public FileWriter(String path) throws IOException {
        super(new FileOutputStream(path));
    }

    /** Makes a text, or empties it unless {@code append}, with the charset of this machine. */
    public FileWriter(String path, boolean append) throws IOException {
        super(new FileOutputStream(path, append));
    }

    /** Makes or empties a text with the charset of this machine. */
    public FileWriter(File file) throws IOException {
        super(new FileOutputStream(file));
    }

    /** Makes a text, or empties it unless {@code append}, with the charset of this machine. */
    public FileWriter(File file, boolean append) throws IOException {
        super(new FileOutputStream(file, append));
    }

    /** Makes a text, or empties it unless {@code append}. */
    public FileWriter(String path, Charset charset, boolean append) throws IOException {
        super(new FileOutputStream(path, append), charset);
    }

    /** Makes a text, or empties it unless {@code append}. */
    public FileWriter(File file, Charset charset, boolean append) throws IOException {
        super(new FileOutputStream(file, append), charset);
    }
}
