package io.strongroom;

import java.io.IOException;
import java.nio.file.Path;

/** This device, when it has no key of a vault and asks another one to let it in, by the code that the other one shows. */
public final class NewDevice implements AutoCloseable {
    private final Handle handle;
    private final String fingerprint;

    /**
     * Begins at the remote of that URL. {@code secret}: a passphrase or a key file of its own, which opens the vault here later. {@code name}: what
     * the other device shows. Takes about a second with a passphrase.
     */
    public NewDevice(String url, Secret secret, String name) throws IOException {
        byte[] made;
        try {
            made = Native.newDevice(Text.bytes(url), secret.kind(), secret.bytes(), Text.bytes(name));
        } catch (Failure failure) {
            throw failure.about(null, null);
        }
        Reader answer = new Reader(made);
        handle = new Handle(this, answer.number(), false);
        fingerprint = answer.text();
    }

    /** What the other device shows too: let a person compare them. */
    public String fingerprint() {
        return fingerprint;
    }

    /** Asks the device that shows {@code code} to let this one in; up to five times, with another code. Then {@link #look} about once a second. */
    public void ask(String code) throws IOException {
        byte[] typed = Text.bytes(code);
        handle.tell(null, null, number -> Native.askToJoin(number, typed));
    }

    /**
     * Looks once whether the other device has let this one in. After an error of the remote it can look again.
     *
     * @throws VaultException with {@code EACCES} if the code was another one, then ask again, or the person said no
     */
    public boolean look() throws IOException {
        return handle.ask(null, null, Native::isAdmitted);
    }

    /** Makes a vault in {@code folder} as the device that was let in, as {@link Vault#cloneRemote} does; gives its fingerprint. */
    public String cloneInto(Path folder, VaultOptions options, Progress progress) throws IOException {
        byte[] where = Vault.machine(folder.toAbsolutePath());
        return Text.shown(handle.ask(null, null, number ->
                Native.cloneAsAdmitted(number, where, options.flags(), options.expected(), progress)));
    }

    /** Gives up to join, or ends what has joined. A second time does nothing. */
    @Override
    public void close() {
        handle.close();
    }
}
