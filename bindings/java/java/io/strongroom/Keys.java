package io.strongroom;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;

/** The unlocked keys of a vault, for changing them. The vault may be open at the same time, here or in another process. */
public final class Keys implements AutoCloseable {
    private final Path folder;
    private final Handle handle;

    /** One way to unlock a vault. */
    public static final class Slot {
        /** What it is. */
        public enum Kind {
            /** A passphrase. */
            PASSPHRASE,
            /** A key file. */
            KEY_FILE,
            /** A recovery code. */
            RECOVERY_CODE,
            /** An age identity. */
            AGE,
            /** An SSH key. */
            SSH;

            private static final Kind[] ALL = values();
        }

        private final long id;
        /** What it is. */
        public final Kind kind;
        /** What somebody called it. */
        public final String label;
        /** When it was added. */
        public final Instant created;

        Slot(Reader answer) {
            id = answer.number();
            kind = Kind.ALL[(int) answer.number()];
            label = answer.text();
            created = Instant.ofEpochSecond(answer.number());
        }

        /** 16 hexadecimal digits. */
        public String id() {
            return String.format("%016x", id);
        }
    }

    private Keys(Path folder, long number) {
        this.folder = folder;
        this.handle = new Handle(this, number, false);
    }

    /** What everybody may know about the key slots of the vault in a folder. */
    public static List<Slot> slotsOf(Path folder) throws IOException {
        Path where = folder.toAbsolutePath();
        Reader answer = new Reader(Vault.of(where, () -> Native.slotsOfFolder(Vault.machine(where))));
        return answer.list(() -> new Slot(answer));
    }

    /** Unlocks the keys of the vault in a folder. */
    public static Keys open(Path folder, Secret secret, VaultOptions options) throws IOException {
        Path where = folder.toAbsolutePath();
        return new Keys(where, Vault.of(where, () -> Native.openKeys(
                Vault.machine(where), secret.kind(), secret.bytes(), secret.inner(), options.flags(), options.expected())));
    }

    /** The key slots, proved. */
    public List<Slot> slots() throws IOException {
        Reader answer = new Reader(ask(Native::slots));
        return answer.list(() -> new Slot(answer));
    }

    /** Adds a key. */
    public void add(Secret key, String label) throws IOException {
        byte[] called = Text.bytes(label);
        tell(keys -> Native.addKey(keys, called, key.kind(), key.bytes()));
    }

    /** A new recovery code, which is added: to be shown once, on paper. */
    public char[] addRecoveryCode(String label) throws IOException {
        Reader answer = new Reader(Native.newRecoveryCode());
        byte[] code = answer.bytes();
        answer.wipe();
        char[] shown = new char[code.length];
        for (int index = 0; index < code.length; index++) {
            shown[index] = (char) code[index];
            code[index] = 0;
        }
        try (Secret key = Secret.recoveryCode(shown)) {
            add(key, label);
        }
        return shown;
    }

    /** Removes a key. What is stored from then on, it never opens. */
    public void remove(Slot slot) throws IOException {
        tell(keys -> Native.removeKey(keys, slot.id));
    }

    /** Replaces a passphrase by another one. */
    public void changePassphrase(Slot slot, Secret passphrase) throws IOException {
        tell(keys -> Native.changePassphrase(keys, slot.id, passphrase.kind(), passphrase.bytes()));
    }

    /** Has new keys seal everything from now on. */
    public void rotate() throws IOException {
        tell(Native::rotateKeys);
    }

    long number() {
        return handle.number();
    }

    private <T> T ask(java.util.function.LongFunction<T> call) throws IOException {
        try {
            return Vault.of(folder, () -> call.apply(handle.number()));
        } finally {
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    private void tell(Handle.LongCall call) throws IOException {
        ask(keys -> {
            call.make(keys);
            return null;
        });
    }

    /** Wipes them. */
    @Override
    public void close() {
        handle.close();
    }
}
