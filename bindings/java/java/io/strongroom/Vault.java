package io.strongroom;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * An open vault: an encrypted file system in a folder.
 *
 * <p>{@link #path} gives paths for {@link java.nio.file.Files}. The first process that opens a vault owns it, and other processes use it through
 * the owner. When the owner ends, the next call of another process makes that one the owner. May be used by many threads at once.
 */
public final class Vault extends Tree {
    /** What if something has the new name. */
    public enum Rename {
        /** It is replaced. */
        REPLACE,
        /** It fails. */
        NO_REPLACE,
        /** The two are swapped. */
        EXCHANGE,
        /** It is replaced, and a whiteout is left at the old name, as overlay file systems use it. */
        WHITEOUT
    }

    /** Which of two contents stays when a conflict ends. */
    public enum Keep {
        /** That of this device. */
        MINE,
        /** That of the other one. */
        THEIRS,
        /** Both, under two names. */
        BOTH
    }

    private final Path folder;
    private final boolean readOnly;
    private byte[] recoveryCode;

    private Vault(Path folder, long number, boolean readOnly) {
        super(number, true, tree -> new VaultFileSystem(tree, readOnly));
        this.folder = folder;
        this.readOnly = readOnly;
        AtExit.watch(this);
        VaultFileSystemProvider.opened(folder, files());
    }

    // ---- made, opened, closed

    /** Makes a vault in a folder, which must not exist or be empty; see {@link #create(Path, VaultOptions, Secret...)}. */
    public static Vault create(Path folder, Secret... secrets) throws IOException {
        return create(folder, new VaultOptions(), secrets);
    }

    /**
     * Makes a vault in a folder, which must not exist or be empty, and opens it. Takes about two seconds for each passphrase.
     *
     * <p>Show {@link #recoveryCode} once, on paper: it opens the vault when all else is lost. Without secrets it is the only key.
     *
     * @throws VaultException {@link VaultException.Kind#VAULT_EXISTS} if the folder holds a vault or anything else
     */
    public static Vault create(Path folder, VaultOptions options, Secret... secrets) throws IOException {
        if (options.isReadOnly() || options.expected() != null) {
            throw new IllegalArgumentException("a new vault takes neither read-only access nor an expected fingerprint");
        }
        Path where = folder.toAbsolutePath();
        int[] kinds = new int[secrets.length];
        byte[][] keys = new byte[secrets.length][];
        for (int index = 0; index < secrets.length; index++) {
            kinds[index] = secrets[index].kind();
            keys[index] = secrets[index].bytes();
        }
        Reader answer = new Reader(of(where, () ->
                Native.create(machine(where), kinds, keys, options.suiteNumber(), options.flags())));
        Vault made = new Vault(where, answer.number(), false);
        made.recoveryCode = answer.bytes();
        answer.wipe();
        return made;
    }

    /** Opens the vault in a folder, to read and write. */
    public static Vault open(Path folder, Secret secret) throws IOException {
        return open(folder, secret, new VaultOptions());
    }

    /**
     * Opens the vault in a folder: through the process that has it open, if there is one, else as the one that others go through. The secret may
     * be closed afterwards; the library keeps its own in locked memory, for the case that this process takes another's place.
     *
     * @throws VaultException {@link VaultException.Kind#NOT_A_VAULT}, {@link VaultException.Kind#WRONG_SECRET},
     *     {@link VaultException.Kind#IN_USE}, {@link VaultException.Kind#UNTRUSTED}
     */
    public static Vault open(Path folder, Secret secret, VaultOptions options) throws IOException {
        Path where = folder.toAbsolutePath();
        long number = of(where, () -> Native.open(
                machine(where), secret.kind(), secret.bytes(), secret.inner(), options.flags(), options.expected()));
        return new Vault(where, number, options.isReadOnly());
    }

    /**
     * Makes a vault in {@code folder} out of the remote at {@code url}; gives its fingerprint. Open it then. {@code progress} may be null.
     */
    public static String cloneRemote(String url, Path folder, Secret secret, VaultOptions options, Progress progress)
            throws IOException {
        Path where = folder.toAbsolutePath();
        return Text.shown(of(where, () -> Native.cloneRemote(
                Text.bytes(url), machine(where), secret.kind(), secret.bytes(), secret.inner(), options.flags(),
                options.expected(), progress)));
    }

    /** Asks the library about a folder of the machine. */
    static <T> T of(Path folder, java.util.function.Supplier<T> call) throws IOException {
        try {
            return call.get();
        } catch (Failure failure) {
            // That of a vault, not of a file: a program must not take a missing vault for a missing file of it.
            throw new VaultException(folder.toString(), null, failure.getMessage(), failure.errno(), failure.kind());
        }
    }

    static byte[] machine(Path folder) {
        return Text.bytes(folder.toString());
    }

    /** Closes it with everything that was opened through it, and makes all durable. Waits for other programs that use it through this one. */
    @Override
    public void close() throws IOException {
        AtExit.forget(this);
        VaultFileSystemProvider.closed(folder, files());
        files().closed();
        try {
            handle().tell(null, null, Native::closeVault);
        } finally {
            handle().close();
        }
    }

    /** What opens a new vault when all else is lost: to be shown once, on paper. Only of a vault that was made with this object, and once. */
    public Optional<char[]> recoveryCode() {
        byte[] code = recoveryCode;
        recoveryCode = null;
        if (code == null) {
            return Optional.empty();
        }
        char[] shown = new char[code.length];
        for (int index = 0; index < code.length; index++) {
            shown[index] = (char) code[index];
        }
        Arrays.fill(code, (byte) 0);
        return Optional.of(shown);
    }

    /** The vault folder, on this machine. */
    public Path folder() {
        return folder;
    }

    /** Whether it was opened for reading only. */
    public boolean isReadOnly() {
        return readOnly;
    }

    /** Whether this process is the one that others go through. */
    public boolean isOwner() throws IOException {
        return handle().ask(null, null, Native::isOwner);
    }

    @Override
    Vault vault() {
        return this;
    }

    // ---- what concerns all of it

    /** Makes everything that was done so far durable. */
    public void sync() throws IOException {
        handle().tell(null, null, Native::sync);
    }

    /** How full the disk is. */
    public static final class Space {
        /** Of the disk, or the quota if that is less. */
        public final long totalBytes;
        /** What can still be written. */
        public final long freeBytes;
        /** Nodes in the vault. */
        public final long nodes;

        Space(Reader answer) {
            totalBytes = answer.number();
            freeBytes = answer.number();
            nodes = answer.number();
        }
    }

    /** How full the disk is. */
    public Space space() throws IOException {
        return new Space(new Reader(handle().ask(null, null, Native::space)));
    }

    /** What a vault is. */
    public static final class Information {
        /** What tells it from any other. */
        public final String fingerprint;
        /** Its algorithms. */
        public final String suite;
        /** How often its keys changed. */
        public final long generation;
        /** How often new keys began to seal. */
        public final long epoch;
        /** The process that owns it. */
        public final long ownerPid;
        /** Whether that one opened it for reading only. */
        public final boolean readOnly;
        /** Content that is at a remote and not here. */
        public final long awayBytes;
        /** Membership records that nobody here made; see {@link #acceptRecords}. */
        public final List<String> unknownRecords;

        Information(Reader answer) {
            fingerprint = answer.text();
            suite = answer.text();
            generation = answer.number();
            epoch = answer.number();
            ownerPid = answer.number();
            readOnly = answer.flag();
            awayBytes = answer.number();
            unknownRecords = answer.texts();
        }
    }

    /** What the vault is. */
    public Information information() throws IOException {
        return new Information(new Reader(handle().ask(null, null, Native::information)));
    }

    /** Accepts the membership records that nobody here made. */
    public void acceptRecords() throws IOException {
        handle().tell(null, null, Native::acceptRecords);
    }

    /** How far the re-sealing under new keys is. */
    public static final class Rotation {
        /** Whether it runs. */
        public final boolean isRunning;
        /** What is still under old keys. */
        public final long bytesLeft;
        /** Why it does not go on; empty if it does. */
        public final String trouble;

        Rotation(Reader answer) {
            isRunning = answer.flag();
            bytesLeft = answer.number();
            trouble = answer.text();
        }
    }

    /** How far the re-sealing under new keys is. */
    public Rotation rotation() throws IOException {
        return new Rotation(new Reader(handle().ask(null, null, Native::rotation)));
    }

    /** Compares the tables of the vault with one another; gives what does not agree, a sentence each. */
    public List<String> check() throws IOException {
        return new Reader(handle().ask(null, null, Native::check)).texts();
    }

    /** What a verification found. */
    public static final class Verified {
        /** Whether all is as it was written, and no device or key waits for a decision. */
        public final boolean sound;
        /** Whether something is not as it was written. A device or key that nobody here accepted is no damage; {@link #problems} names it. */
        public final boolean isDamaged;
        /** Whether it came to its end. */
        public final boolean finished;
        /** How much was read. */
        public final long bytes;
        /** Blocks that were opened, or not. */
        public final long blocks;
        /** What is wrong with the files of the vault folder, and what waits for a decision, a sentence each. */
        public final List<String> problems;
        /** The files of the vault that lost something. */
        public final List<String> damaged;

        Verified(Reader answer) {
            sound = answer.flag();
            isDamaged = answer.flag();
            finished = answer.flag();
            bytes = answer.number();
            blocks = answer.number();
            problems = answer.texts();
            damaged = answer.texts();
        }
    }

    /**
     * Reads everything in the vault folder. {@code deep}: also computes the names of blocks again, and goes over every snapshot.
     * {@code progress} may be null.
     */
    public Verified verify(boolean deep, Progress progress) throws IOException {
        return new Verified(new Reader(handle().ask(null, null, vault -> Native.verify(vault, deep, progress))));
    }

    /** Makes {@code target} a copy of the vault folder while others use the vault; gives how many bytes of segments were copied. */
    public long backup(Path target, Progress progress) throws IOException {
        byte[] to = machine(target.toAbsolutePath());
        return handle().ask(null, null, vault -> Native.backup(vault, to, progress));
    }

    // ---- files: what java.nio.file has no word for

    /** Makes a file, or puts the content in the place of what it holds, at once: all of the old or all of the new, also after a power cut. */
    public void replace(Path path, byte[] content, boolean durable) throws IOException {
        replace(bytes(path), content, durable);
    }

    void replace(byte[] path, byte[] content, boolean durable) throws IOException {
        handle().tell(path, null, vault -> Native.replace(vault, path, content, durable));
    }

    /** Opens a file; {@code flags} are those of {@link VaultFile}, {@code mode} is that of a new one. */
    public VaultFile openFile(Path path, int flags, int mode) throws IOException {
        return open(bytes(path), flags, mode);
    }

    /** Makes a file without a name in a directory, to read and write: it goes when it is closed, unless {@link VaultFile#name} named it. */
    public VaultFile openUnnamed(Path directory, int mode) throws IOException {
        return openUnnamed(bytes(directory), mode);
    }

    VaultFile openUnnamed(byte[] path, int mode) throws IOException {
        return new VaultFile(this, handle().ask(path, null, vault -> Native.unnamedFile(vault, path, mode)));
    }

    /** Moves a name. */
    public void rename(Path path, Path newPath, Rename how) throws IOException {
        rename(bytes(path), bytes(newPath), how.ordinal());
    }

    /** Makes a pipe, a socket, a device or an empty file, which programs on a mount see. */
    public void makeNode(Path path, NodeAttributes.Kind kind, int mode, long device) throws IOException {
        makeNode(bytes(path), kind.ordinal() + 1, mode, device);
    }

    void makeNode(byte[] path, int kind, int mode, long device) throws IOException {
        handle().tell(path, null, vault -> Native.makeNode(vault, path, kind, mode, device));
    }

    void makeDirectories(byte[] path, int mode) throws IOException {
        handle().tell(path, null, vault -> Native.makeDirectories(vault, path, mode));
    }

    /** Removes a directory with everything below it. */
    public void deleteTree(Path path) throws IOException {
        removeTree(bytes(path));
    }

    void removeTree(byte[] path) throws IOException {
        handle().tell(path, null, vault -> Native.removeTree(vault, path));
    }

    /** Has a file or an empty directory removed when the program ends, if the vault is still open then; the newest first. */
    public void deleteAtExit(Path path) {
        files().deleteAtExit(bytes(path));
    }

    /** Begins changes that happen all or not at all. */
    public Transaction begin() throws IOException {
        return new Transaction(this, handle().ask(null, null, Native::begin));
    }

    // ---- snapshots

    /** Takes a snapshot. */
    public Snapshot.Info takeSnapshot(String message, String... tags) throws IOException {
        return takeSnapshot(message, false, tags).get(0);
    }

    /** Takes a snapshot if anything changed since the last one; empty if not. */
    public Optional<Snapshot.Info> takeSnapshotIfChanged(String message, String... tags) throws IOException {
        return takeSnapshot(message, true, tags).stream().findFirst();
    }

    private List<Snapshot.Info> takeSnapshot(String message, boolean onlyIfChanged, String... tags) throws IOException {
        byte[] said = Text.bytes(message);
        byte[][] names = Arrays.stream(tags).map(Text::bytes).toArray(byte[][]::new);
        return infos(handle().ask(null, null, vault -> Native.takeSnapshot(vault, said, names, onlyIfChanged)));
    }

    /** All snapshots, oldest first. */
    public List<Snapshot.Info> snapshots() throws IOException {
        return snapshots(null);
    }

    /** The snapshots that a selector means, as {@code t:TAG} or {@code d:yesterday}; oldest first. */
    public List<Snapshot.Info> snapshots(String selector) throws IOException {
        byte[] which = Text.optional(selector);
        return infos(handle().ask(null, null, vault -> Native.snapshots(vault, which)));
    }

    private static List<Snapshot.Info> infos(byte[] bytes) {
        Reader answer = new Reader(bytes);
        return answer.list(() -> new Snapshot.Info(answer));
    }

    /** Removes the one snapshot that a selector means. */
    public void removeSnapshot(String selector) throws IOException {
        byte[] which = Text.bytes(selector);
        handle().tell(null, null, vault -> Native.removeSnapshot(vault, which));
    }

    /** The state of now, for many reads while others write. */
    public Snapshot snapshot() throws IOException {
        return new Snapshot(this, handle().ask(null, null, vault -> Native.readSnapshot(vault, null)));
    }

    /** The state that a selector means. */
    public Snapshot at(String selector) throws IOException {
        byte[] which = Text.bytes(selector);
        return new Snapshot(this, handle().ask(null, null, vault -> Native.readSnapshot(vault, which)));
    }

    /**
     * Brings back what a snapshot had at {@code path}, to the path {@code to}; gives how many nodes. Files below a directory whose content was
     * erased are left out.
     */
    public long restore(String selector, Path path, Path to) throws IOException {
        return restore(selector, bytes(path), bytes(to));
    }

    long restore(String selector, byte[] path, byte[] to) throws IOException {
        byte[] which = Text.bytes(selector);
        return handle().ask(path, to, vault -> Native.restore(vault, which, path, to));
    }

    /** The paths at and below {@code path} that differ between two snapshots; {@code after} is null for now. */
    public List<Path> differences(String before, String after, Path path) throws IOException {
        List<Path> found = new java.util.ArrayList<>();
        for (byte[] one : differences(before, after, bytes(path))) {
            found.add(files().pathOf(one));
        }
        return found;
    }

    List<byte[]> differences(String before, String after, byte[] path) throws IOException {
        byte[] from = Text.bytes(before);
        byte[] to = Text.optional(after);
        return new Reader(handle().ask(path, null, vault -> Native.differences(vault, from, to, path))).names();
    }

    /**
     * The rule by which {@link #thin} goes: the shared rule, or the default one if none was set. Where a rule was set on this device, it keeps what
     * either of both keeps.
     */
    public Retention retention() throws IOException {
        return new Retention(new Reader(handle().ask(null, null, Native::retention)));
    }

    /** The rule that was set last, on whichever device of a vault with remotes, as far as this device has synced; empty if none was. */
    public Optional<Retention> sharedRetention() throws IOException {
        Reader answer = new Reader(handle().ask(null, null, Native::sharedRetention));
        return answer.list(() -> new Retention(answer)).stream().findFirst();
    }

    /**
     * Sets the rule for snapshots, also for the other devices; durable on return. One that keeps nothing is refused. Nothing goes before
     * {@link #thin} is called or a schedule takes the next snapshot.
     */
    public void setRetention(Retention rule) throws IOException {
        handle().tell(null, null, vault -> Native.setRetention(
                vault, rule.last, rule.hourly, rule.daily, rule.weekly, rule.monthly, rule.yearly, rule.unnamed));
    }

    /** Removes the snapshots that the rule of {@link #retention} lets go; gives them. */
    public List<Snapshot.Info> thin() throws IOException {
        return infos(handle().ask(null, null, Native::thin));
    }

    /** What stored content is for: files of now, snapshots, nothing. */
    public Usage usage() throws IOException {
        return new Usage(new Reader(handle().ask(null, null, Native::usage)));
    }

    /** Takes the content of what was at {@code path} out of every snapshot, for good. Nothing may be there now. With {@code trial} nothing is done. */
    public Erased erase(Path path, boolean trial) throws IOException {
        byte[] at = bytes(path);
        return new Erased(new Reader(handle().ask(at, null, vault -> Native.erase(vault, at, trial))));
    }

    // ---- remotes

    /** A remote. */
    public static final class Remote {
        /** Its name here. */
        public final String name;
        /** Where it is, without credentials. */
        public final String url;
        /** Publications that this vault made there or read. */
        public final long publications;
        /**
         * What people compare on two devices: where {@link #publications} are equal and these differ, the remote has shown them different
         * histories. Empty before the first publication.
         */
        public final String code;
        /** Segments and snapshots that it has. */
        public final long objects;
        /** Whether this device removes nothing there. */
        public final boolean keeps;

        Remote(Reader answer) {
            name = answer.text();
            url = answer.text();
            publications = answer.number();
            code = answer.text();
            objects = answer.number();
            keeps = answer.flag();
        }
    }

    /** What a push did. */
    public static final class Pushed {
        /** Objects that went up. */
        public final long objects;
        /** Their bytes. */
        public final long bytes;
        /** Publications. */
        public final long publications;

        Pushed(Reader answer) {
            objects = answer.number();
            bytes = answer.number();
            publications = answer.number();
        }
    }

    /** What a pull did. */
    public static final class Pulled {
        /** Objects that came down. */
        public final long objects;
        /** Their bytes. */
        public final long bytes;
        /** Publications. */
        public final long publications;
        /** Names that came, went or mean another file now. */
        public final long names;
        /** Files, directories and others that are new or were changed. */
        public final long nodes;
        /** How many conflicts there were. */
        public final long conflicts;
        /** The conflict copies that were made. */
        public final List<String> conflictPaths;
        /** Texts that both sides changed in different lines: they have the lines of both. */
        public final long merged;
        /** The paths of the first thousand of them. */
        public final List<String> mergedPaths;
        /** Sealed bytes of content that another device erased, and that were erased here, too. */
        public final long erasedBytes;
        /** Sealed bytes that stay, because a file here has that content now, or another file has it in a snapshot. */
        public final long unerasedBytes;
        /** Why such content was not erased, a line each; it is tried again later. */
        public final List<String> eraseProblems;
        /** Deposits that came into {@code /Inbox}. */
        public final long received;
        /** The paths of the first thousand of them. */
        public final List<String> receivedPaths;
        /** Deposits that did not come, with the reason. */
        public final List<String> depositProblems;

        Pulled(Reader answer) {
            objects = answer.number();
            bytes = answer.number();
            publications = answer.number();
            names = answer.number();
            nodes = answer.number();
            conflicts = answer.number();
            conflictPaths = answer.texts();
            merged = answer.number();
            mergedPaths = answer.texts();
            erasedBytes = answer.number();
            unerasedBytes = answer.number();
            eraseProblems = answer.texts();
            received = answer.number();
            receivedPaths = answer.texts();
            depositProblems = answer.texts();
        }
    }

    /** What a sync did. */
    public static final class Synced {
        /** First. */
        public final Pulled pulled;
        /** Then. */
        public final Pushed pushed;
        /** Segments that went from this disk for the limit of this device. */
        public final long evictedSegments;
        /** Their bytes. */
        public final long evictedBytes;

        Synced(Reader answer) {
            pulled = new Pulled(answer);
            pushed = new Pushed(answer);
            evictedSegments = answer.number();
            evictedBytes = answer.number();
        }
    }

    /** A conflict copy. */
    public static final class Conflict {
        /** Where it is. */
        public final Path path;
        /** The path that it was a change of. */
        public final Path beside;
        /** The device that made it. */
        public final String device;
        /** When. */
        public final String time;
        /** Whether something still has the path {@link #beside}. */
        public final boolean isPublished;

        Conflict(VaultFileSystem files, Reader answer) {
            path = files.pathOf(answer.bytes());
            beside = files.pathOf(answer.bytes());
            device = answer.text();
            time = answer.text();
            isPublished = answer.flag();
        }
    }

    /** Adds a remote: {@code folder:/path}, {@code s3://bucket/prefix} and the like. {@code keep}: this device removes nothing there. */
    public void addRemote(String name, String url, boolean keep) throws IOException {
        byte[] called = Text.bytes(name);
        byte[] where = Text.bytes(url);
        handle().tell(null, null, vault -> Native.addRemote(vault, called, where, keep));
    }

    /** The remotes, in the order in which they were added. */
    public List<Remote> remotes() throws IOException {
        Reader answer = new Reader(handle().ask(null, null, Native::remotes));
        return answer.list(() -> new Remote(answer));
    }

    /**
     * What waits for a remote, and which devices published there, as this device knows it; asks no remote. Everything done so far is durable on
     * return. Takes time in proportion to what changed since the last push.
     */
    public RemoteStatus remoteStatus(String name) throws IOException {
        byte[] called = Text.bytes(name);
        return new RemoteStatus(new Reader(handle().ask(null, null, vault -> Native.remoteStatus(vault, called))));
    }

    /** Forgets a remote. */
    public void removeRemote(String name) throws IOException {
        byte[] called = Text.bytes(name);
        handle().tell(null, null, vault -> Native.removeRemote(vault, called));
    }

    /** Brings a remote what it lacks, and publishes it. {@code progress} may be null, here and below. */
    public Pushed push(String name, Progress progress) throws IOException {
        byte[] called = Text.bytes(name);
        return new Pushed(new Reader(handle().ask(null, null, vault -> Native.push(vault, called, progress))));
    }

    /** Brings here what others published, and joins it. */
    public Pulled pull(String name, Progress progress) throws IOException {
        byte[] called = Text.bytes(name);
        return new Pulled(new Reader(handle().ask(null, null, vault -> Native.pull(vault, called, progress))));
    }

    /** Both. */
    public Synced syncWith(String name, Progress progress) throws IOException {
        byte[] called = Text.bytes(name);
        return new Synced(new Reader(handle().ask(null, null, vault -> Native.syncWith(vault, called, progress))));
    }

    /** What is missing at a remote or not as it was written, a line each. */
    public List<String> checkRemote(String name, boolean deep, Progress progress) throws IOException {
        byte[] called = Text.bytes(name);
        return new Reader(handle().ask(null, null, vault -> Native.checkRemote(vault, called, deep, progress))).texts();
    }

    /** From now on uses all remotes together at most so fast, in bytes per second; 0: as fast as the line is. */
    public void limitRemotes(long up, long down) throws IOException {
        handle().tell(null, null, vault -> Native.limitRemotes(vault, up, down));
    }

    /**
     * Removes from a remote what nothing has referred to for so many seconds. First it pushes. With less than a week, a device that is reading there
     * now may have to begin again.
     */
    public PruneReport pruneRemote(String name, long graceSeconds, Progress progress) throws IOException {
        byte[] called = Text.bytes(name);
        return new PruneReport(new Reader(
                handle().ask(null, null, vault -> Native.pruneRemote(vault, called, graceSeconds, progress))));
    }

    /** What {@link #pruneRemote} may remove sooner or later, as what waits. Nothing is removed. */
    public PruneReport unusedAtRemote(String name) throws IOException {
        byte[] called = Text.bytes(name);
        return new PruneReport(new Reader(handle().ask(null, null, vault -> Native.unusedAtRemote(vault, called))));
    }

    /** From now on syncs with all remotes by itself, asking them every so many milliseconds at least. */
    public ContinuousSync keepInSync(long everyMillis, SyncListener listener) throws IOException {
        SyncEvents events = new SyncEvents(Objects.requireNonNull(listener));
        return new ContinuousSync(this, handle().ask(null, null, vault -> Native.keepInSync(vault, everyMillis, events)), events);
    }

    /** Offers a new device, which has no key of the vault, to join through the remote of that name: by a code. */
    public Invitation invite(String name) throws IOException {
        byte[] called = Text.bytes(name);
        return new Invitation(new Reader(handle().ask(null, null, vault -> Native.invite(vault, called))));
    }

    // ---- content that only remotes have

    /**
     * Removes content from this disk that remotes have: of files at or below {@code path}, or of all for null. What is read later comes back by
     * itself.
     */
    public EvictReport evict(Path path, Progress progress) throws IOException {
        byte[] at = path == null ? null : bytes(path);
        return new EvictReport(new Reader(handle().ask(at, null, vault -> Native.evict(vault, at, progress))));
    }

    /** Brings evicted content back: of files at or below {@code path}, or all for null. */
    public BringBackReport bringBack(Path path, Progress progress) throws IOException {
        byte[] at = path == null ? null : bytes(path);
        return new BringBackReport(new Reader(handle().ask(at, null, vault -> Native.bringBack(vault, at, progress))));
    }

    /** Brings the content of what is at {@code path} here, with all below a directory, and keeps it here: {@link #evict} leaves it. */
    public BringBackReport pin(Path path, Progress progress) throws IOException {
        byte[] at = bytes(path);
        return new BringBackReport(new Reader(handle().ask(at, null, vault -> Native.pin(vault, at, progress))));
    }

    /** Lets {@link #evict} take the content of what is at {@code path} again; gives whether it was pinned. */
    public boolean unpin(Path path) throws IOException {
        byte[] at = bytes(path);
        return handle().ask(at, null, vault -> Native.unpin(vault, at));
    }

    /** The paths of what is pinned. */
    public List<Path> pins() throws IOException {
        List<Path> found = new java.util.ArrayList<>();
        for (byte[] one : new Reader(handle().ask(null, null, Native::pins)).names()) {
            found.add(files().pathOf(one));
        }
        return found;
    }

    /** How many bytes of segments this device keeps at most; empty if it keeps all that comes. */
    public OptionalLong keepAtMost() throws IOException {
        long bytes = handle().ask(null, null, Native::keepAtMost);
        return bytes < 0 ? OptionalLong.empty() : OptionalLong.of(bytes);
    }

    /**
     * Limits the bytes of segments that this device keeps, or ends that if it is empty; durable on return. Only this copy of the vault knows of it.
     * Every sync then evicts what was least recently read, down to nine tenths of the limit, as far as its remote shows that it has it. What is
     * pinned, was not pushed or was just read stays.
     */
    public void setKeepAtMost(OptionalLong bytes) throws IOException {
        handle().tell(null, null, vault -> Native.setKeepAtMost(vault, bytes.isPresent(), bytes.orElse(0)));
    }

    /**
     * Evicts at once what a sync would evict for the limit of {@link #keepAtMost}; nothing if there is none. What stayed is not counted: the report
     * has 0 for it.
     */
    public EvictReport evictToLimit(Progress progress) throws IOException {
        return new EvictReport(new Reader(handle().ask(null, null, vault -> Native.evictToLimit(vault, progress))));
    }

    /** All conflict copies, in the order of their paths. */
    public List<Conflict> conflicts() throws IOException {
        Reader answer = new Reader(handle().ask(null, null, Native::conflicts));
        return answer.list(() -> new Conflict(files(), answer));
    }

    /** Ends a conflict; gives the path that the content has then. */
    public Path settleConflict(Path path, Keep keep) throws IOException {
        byte[] at = bytes(path);
        return files().pathOf(handle().ask(at, null, vault -> Native.settleConflict(vault, at, keep.ordinal())));
    }

    private byte[] bytes(Path path) {
        return VaultPath.bytesOf(this, path);
    }

    @Override
    public String toString() {
        return "Vault[" + folder + "]";
    }
}
