package io.strongroom;

/** What {@link Vault#erase} took out of snapshots, or would. */
public final class Erased {
    /** Files whose content it was, over all snapshots. */
    public final long files;
    /** Their sealed bytes. */
    public final long bytes;

    Erased(Reader answer) {
        files = answer.number();
        bytes = answer.number();
    }
}
