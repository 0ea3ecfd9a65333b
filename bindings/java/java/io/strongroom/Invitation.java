package io.strongroom;

import java.io.IOException;
import java.lang.ref.Reference;
import java.util.List;
import java.util.Optional;

/**
 * The offer that a new device may join a vault: good for ten minutes and five tries of a code. Show {@link #code}, then {@link #look} about once a
 * second.
 */
public final class Invitation implements AutoCloseable {
    private final Handle handle;
    private final String code;
    private volatile long triesLeft = 5;

    /** A device that has the code and asks to be let in. */
    public static final class Candidate {
        /** What it calls itself. */
        public final String name;
        /** What the new device shows too, if nobody sits between the two: let a person compare them. */
        public final String fingerprint;

        Candidate(Reader answer) {
            name = answer.text();
            fingerprint = answer.text();
        }
    }

    Invitation(Reader answer) {
        this.handle = new Handle(this, answer.number(), false);
        this.code = answer.text();
    }

    /** What a person types on the new device. */
    public String code() {
        return code;
    }

    /** How many wrong codes may still be tried; fewer than before mean that somebody tried one. */
    public long triesLeft() {
        return triesLeft;
    }

    /**
     * Looks once whether a device with the code asks. After an error of the remote it can look again.
     *
     * @throws VaultException with {@code ETIMEDOUT} after ten minutes, {@code EACCES} when every try was used up
     */
    public Optional<Candidate> look() throws IOException {
        Reader answer = new Reader(handle.ask(null, null, Native::lookForCandidate));
        triesLeft = answer.number();
        List<Candidate> found = answer.list(() -> new Candidate(answer));
        return found.stream().findFirst();
    }

    /**
     * Makes the device that was found last a member of the vault, and publishes that. {@code keys} are those of the vault. It syncs with the remote:
     * call {@link Vault#syncWith} before, to hear how far that is. The code is void then.
     */
    public void admit(Candidate candidate, Keys keys) throws IOException {
        byte[] fingerprint = Text.bytes(candidate.fingerprint);
        try {
            handle.tell(null, null, number -> Native.admit(number, fingerprint, keys.number()));
        } finally {
            Reference.reachabilityFence(keys);
        }
    }

    /** Lets the device that was found last know that it is not let in. The code is void then. */
    public void refuse(Candidate candidate) throws IOException {
        byte[] fingerprint = Text.bytes(candidate.fingerprint);
        handle.tell(null, null, number -> Native.refuse(number, fingerprint));
    }

    /** Takes the offer back, if it did not end. A second time does nothing. */
    @Override
    public void close() {
        handle.close();
    }
}
