package io.strongroom;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.nio.file.Path;

/** Converts between paths and their URIs: {@code strongroom:///home/me/vault!/notes.txt}, with the vault folder before the first {@code !/}. */
final class VaultUri {
    private static final String PLAIN = "-._~/@:$&'()*+,;=";

    private final Path folder;
    private final byte[] path;

    private VaultUri(Path folder, byte[] path) {
        this.folder = folder;
        this.path = path;
    }

    /** Reads a URI; without {@code !/} it names a vault alone. */
    static VaultUri parse(URI uri) {
        if (!VaultFileSystemProvider.SCHEME.equalsIgnoreCase(uri.getScheme())) {
            throw new IllegalArgumentException(uri + " is not the URI of a vault: it does not begin with strongroom:");
        }
        String raw = uri.getRawPath();
        if (raw == null || uri.getRawAuthority() != null || uri.getRawQuery() != null || uri.getRawFragment() != null) {
            throw new IllegalArgumentException(uri + " is not the URI of a vault, which is like strongroom:///folder!/path");
        }
        int end = raw.indexOf("!/");
        String folder = end < 0 ? raw : raw.substring(0, end);
        String path = end < 0 ? "/" : raw.substring(end + 1);
        return new VaultUri(Path.of(Text.shown(decode(folder))), decode(path));
    }

    Path folder() {
        return folder;
    }

    byte[] path() {
        return path;
    }

    static URI of(Path folder, byte[] path) {
        return URI.create("strongroom://" + encode(Text.bytes(folder.toString())) + "!" + encode(path));
    }

    private static String encode(byte[] bytes) {
        StringBuilder encoded = new StringBuilder();
        for (byte one : bytes) {
            int code = one & 0xff;
            boolean isPlain = code < 128 && (Character.isLetterOrDigit(code) || PLAIN.indexOf(code) >= 0);
            if (isPlain) {
                encoded.append((char) code);
            } else {
                encoded.append(String.format("%%%02X", code));
            }
        }
        return encoded.toString();
    }

    /** {@code raw} comes from a URI, which has two hexadecimal digits after each {@code %}. */
    private static byte[] decode(String raw) {
        ByteArrayOutputStream decoded = new ByteArrayOutputStream();
        byte[] bytes = Text.bytes(raw);
        for (int at = 0; at < bytes.length; at++) {
            if (bytes[at] == '%') {
                decoded.write(Character.digit(bytes[at + 1], 16) << 4 | Character.digit(bytes[at + 2], 16));
                at += 2;
            } else {
                decoded.write(bytes[at]);
            }
        }
        return decoded.toByteArray();
    }
}
