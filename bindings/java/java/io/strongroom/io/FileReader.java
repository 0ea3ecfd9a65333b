package io.strongroom.io;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.Charset;

/** Like {@code java.io.FileReader}, for a file in a vault. */
public class FileReader extends InputStreamReader {
    /** Opens a text with the charset of this machine. */
    public FileReader(String path) throws FileNotFoundException {
        super(new FileInputStream(path));
    }

    /** Opens a text with the charset of this machine. */
    public FileReader(File file) throws FileNotFoundException {
        super(new FileInputStream(file));
    }

    /** Opens a text. */
    public FileReader(String path, Charset charset) throws IOException {
        super(new FileInputStream(path), charset);
    }

    /** Opens a text. */
    public FileReader(File file, Charset charset) throws IOException {
        super(new FileInputStream(file), charset);
    }
}
