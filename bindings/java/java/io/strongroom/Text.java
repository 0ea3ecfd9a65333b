package io.strongroom;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetEncoder;
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

    /**
     * The bytes of text of which no copy may stay. Half a character is refused, in an exception that does not hold the text: two passphrases
     * that differ in one only would be the same otherwise.
     */
    static byte[] wipeable(char[] text) {
        CharsetEncoder encoder = StandardCharsets.UTF_8.newEncoder();
        // As much as there can be: an encoder that has to take more memory leaves behind what it had.
        byte[] bytes = new byte[Math.multiplyExact(text.length, (int) Math.ceil(encoder.maxBytesPerChar()))];
        ByteBuffer encoded = ByteBuffer.wrap(bytes);
        try {
            if (encoder.encode(CharBuffer.wrap(text), encoded, true).isError()) {
                throw new IllegalArgumentException("the secret has half of a surrogate pair, which UTF-8 cannot encode");
            }
            return Arrays.copyOf(bytes, encoded.position());
        } finally {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    /** As it is shown to people; null for null. */
    static String shown(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
