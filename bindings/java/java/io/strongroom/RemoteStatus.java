package io.strongroom;

import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** What waits for a remote, and which devices published there, as this device knows it. */
public final class RemoteStatus {
    /** Whether a push would publish something: also a removal or another name, for which no file waits. */
    public final boolean isWaiting;
    /** Sealed bytes on this disk that the remote does not have, of all snapshots. Some of them may wait for the next change. */
    public final long waitingBytes;
    /** Files, symlinks and special files that were made, changed or moved since the state that the remote has; empty if that is not known. */
    public final OptionalLong waitingFiles;
    /** Sealed bytes of content that is not on this disk and that the remote has. */
    public final long awayBytes;
    /** Those of them that no other remote has. */
    public final long aloneBytes;
    /** When the remote answered last; empty if that is not known. */
    public final Optional<Instant> contact;
    /** The newest publication of each device, newest first. */
    public final List<DevicePublication> newest;

    RemoteStatus(Reader answer) {
        isWaiting = answer.flag();
        waitingBytes = answer.number();
        long files = answer.number();
        waitingFiles = files < 0 ? OptionalLong.empty() : OptionalLong.of(files);
        awayBytes = answer.number();
        aloneBytes = answer.number();
        long seconds = answer.number();
        contact = seconds < 0 ? Optional.empty() : Optional.of(Instant.ofEpochSecond(seconds));
        newest = answer.list(() -> new DevicePublication(answer));
    }

    /** The newest publication of a device at a remote. */
    public static final class DevicePublication {
        /** The id of the device. */
        public final String device;
        /** What people call it; empty if it has no name. */
        public final String name;
        /** Whether it is the device that this copy of the vault acts as. */
        public final boolean isThis;
        /** The number of the publication. */
        public final long number;
        /** When it was made, by the clock of that device. */
        public final Instant time;

        DevicePublication(Reader answer) {
            device = answer.text();
            name = answer.text();
            isThis = answer.flag();
            number = answer.number();
            time = Instant.ofEpochSecond(answer.number());
        }
    }
}
