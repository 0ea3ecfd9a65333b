package io.strongroom;

/** What {@link Vault#erase} took out of snapshots, or would. */
public final class Erased {
    /** Snapshots that had something at the path. */
    public final long snapshots;
    /** Files whose content it was, over all of them. */
    public final long files;
    /** Sealed bytes that are gone. */
    public final long bytes;
    /** Sealed bytes that stay, because other files have the same content. */
    public final long sharedBytes;
    /** Files of the vault folder that still hold some of it, because other content in them is damaged. */
    public final long segmentsLeft;

    Erased(Reader answer) {
        snapshots = answer.number();
        files = answer.number();
        bytes = answer.number();
        sharedBytes = answer.number();
        segmentsLeft = answer.number();
    }
}
