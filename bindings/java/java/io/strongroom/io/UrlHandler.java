package io.strongroom.io;

import io.strongroom.VaultFileSystemProvider;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.nio.file.FileSystemNotFoundException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads the files that URLs of vaults name, as long as the vault is open in this program. It changes nothing. */
final class UrlHandler extends URLStreamHandler {
    @Override
    protected URLConnection openConnection(URL url) throws IOException {
        try {
            return new Connection(url, new VaultFileSystemProvider().getPath(URI.create(url.toExternalForm())));
        } catch (IllegalArgumentException | FileSystemNotFoundException none) {
            throw new IOException(none.getMessage(), none);
        }
    }

    private static final class Connection extends URLConnection {
        private final Path file;

        Connection(URL url, Path file) {
            super(url);
            this.file = file;
        }

        /** Nothing is held open between this and the first read. */
        @Override
        public void connect() {
            connected = true;
        }

        @Override
        public InputStream getInputStream() throws IOException {
            connect();
            return Files.newInputStream(file);
        }

        @Override
        public long getContentLengthLong() {
            try {
                return Files.size(file);
            } catch (IOException unknown) {
                return -1;
            }
        }

        @Override
        public long getLastModified() {
            try {
                return Files.getLastModifiedTime(file).toMillis();
            } catch (IOException unknown) {
                return 0;
            }
        }
    }
}
