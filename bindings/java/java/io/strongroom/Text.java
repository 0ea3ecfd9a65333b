package io.strongroom;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.util.Arrays;

/** Converts between Java strings and bytes in UTF-8. */
final class Text {
    private Text() {}

    /** The bytes of a text. Half a character, which UTF-8 cannot say, is refused. */
    static byte[] bytes(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOfRange(encoded.array(), encoded.position(), encoded.limit());
        } catch (CharacterCodingException half) {
            throw new InvalidPathException(text, "it has half of a surrogate pair, which UTF-8 cannot encode");
        }
    }

    /** The same; null for null. */
    static byte[] optional(String text) {
        return text == null ? null : bytes(text);
    }

    /** The bytes of text of which no copy may stay. */
    static byte[] wipeable(char[] text) {
        ByteBuffer encoded = StandardCharsets.UTF_8.encode(CharBuffer.wrap(text));
        byte[] bytes = new byte[encoded.remaining()];
        encoded.get(bytes);
        Arrays.fill(encoded.array(), (byte) 0);
        return bytes;
    }

    /** As it is shown to people; null for null. */
    static String shown(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
