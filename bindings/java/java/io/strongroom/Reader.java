package io.strongroom;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;

/** Reads an answer of the library, in the order in which {@code src/answer.rs} wrote it. */
final class Reader {
    private final ByteBuffer answer;

    Reader(byte[] answer) {
        this.answer = ByteBuffer.wrap(answer);
    }

    long number() {
        return answer.getLong();
    }

    boolean flag() {
        return number() != 0;
    }

    byte[] bytes() {
        byte[] bytes = new byte[Math.toIntExact(number())];
        answer.get(bytes);
        return bytes;
    }

    String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    /** As many as the count says, each read by {@code one}. */
    <T> List<T> list(Supplier<T> one) {
        int count = Math.toIntExact(number());
        List<T> items = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            items.add(one.get());
        }
        return items;
    }

    List<String> texts() {
        return list(this::text);
    }

    List<byte[]> names() {
        return list(this::bytes);
    }

    /** Overwrites the answer, which held a secret. */
    void wipe() {
        Arrays.fill(answer.array(), (byte) 0);
    }
}
