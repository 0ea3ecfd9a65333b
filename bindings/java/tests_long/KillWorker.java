import io.strongroom.Secret;
import io.strongroom.Vault;
import io.strongroom.VaultException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/**
 * One of the programs that use a vault at once, and are killed, in {@code tools/bindings_kill.py}: that says what they write and what they note.
 *
 * <p>{@code KillWorker FOLDER KEY_FILE JOURNAL NAME INCARNATION SEED STOP}: it writes into the directory NAME of the vault, and reads those of all
 * programs, until the file STOP exists.
 */
public final class KillWorker {
    private static final int MIB = 1 << 20;
    private static final int HEAD_BYTES = 64;
    private static final int RECORD_BYTES = 200;
    private static final int STATE_BYTES = 1000;
    private static final int SMALL_BYTES_MAX = 20_000;
    private static final int RECORDS_MAX = 500;
    private static final long RECORDS_OF_SERIAL = 1_000_000;
    private static final int OWN_MAX = 200;
    private static final int BURST_MAX = 16;
    private static final int PAUSE_MS_MIN = 50;
    private static final int PAUSE_MS_MAX = 250;
    private static final int SETTLE_MS = 500;
    private static final List<String> PROGRAMS = List.of("c", "python", "java", "mount", "command");
    private static final byte[] TABLE = table();

    private final Path folder;
    private final Secret secret;
    private final FileChannel journal;
    private final String me;
    private final int incarnation;
    private final Random random;
    private final Path stop;

    private Vault vault;
    private FileChannel log;
    /** Of the log and of the state that are written now; a new one begins after each error. */
    private int serial = 1;
    private int records;
    private int counter;
    /** Its files that are there. */
    private final List<String> own = new ArrayList<>();
    /** What an error is about. */
    private String what = "open";
    private String about = "vault";

    private KillWorker(String[] arguments) throws IOException {
        folder = Path.of(arguments[0]);
        secret = Secret.keyFile(Path.of(arguments[1]));
        journal = FileChannel.open(Path.of(arguments[2]), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        me = arguments[3];
        incarnation = Integer.parseInt(arguments[4]);
        random = new Random(Long.parseLong(arguments[5]));
        stop = Path.of(arguments[6]);
    }

    // ---- content: a function of who wrote it, in which incarnation, as which of its contents, and of its size

    private static byte[] table() {
        byte[] made = new byte[2 * MIB];
        long state = 88172645463325252L;
        for (int at = 0; at < made.length; at += 8) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            for (int index = 0; index < 8; index++) {
                made[at + index] = (byte) (state >>> (8 * index));
            }
        }
        return made;
    }

    private static byte[] content(String writer, long incarnation, long number, int bytes) {
        int start = (int) ((incarnation * 7919 + number * 104729) % MIB);
        byte[] made = new byte[bytes];
        Arrays.fill(made, 0, HEAD_BYTES - 1, (byte) ' ');
        made[HEAD_BYTES - 1] = '\n';
        byte[] head = (writer + " " + incarnation + " " + number + " " + bytes).getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(head, 0, made, 0, head.length);
        System.arraycopy(TABLE, start, made, HEAD_BYTES, bytes - HEAD_BYTES);
        return made;
    }

    /** Whether a file holds what its name says. Of a log that grows meanwhile, it is the beginning. */
    private static boolean isRight(String writer, String name, byte[] found) {
        String[] parts = name.split("-");
        long of = Long.parseLong(parts[1]);
        long number = Long.parseLong(parts[2]);
        switch (parts[0]) {
            case "f":
                return Arrays.equals(found, content(writer, of, number, Integer.parseInt(parts[3])));
            case "log":
                return isLog(writer, of, number, found);
            default:
                // Which of its contents it is, the content itself says.
                String head = new String(found, 0, Math.min(found.length, HEAD_BYTES), StandardCharsets.US_ASCII);
                String[] words = head.trim().split(" ");
                return words.length == 4
                        && words[2].matches("[0-9]{1,9}")
                        && Arrays.equals(found, content(writer, of, Long.parseLong(words[2]), STATE_BYTES));
        }
    }

    private static boolean isLog(String writer, long of, long serial, byte[] found) {
        long number = serial * RECORDS_OF_SERIAL;
        for (int at = 0; at < found.length; at += RECORD_BYTES) {
            int part = Math.min(RECORD_BYTES, found.length - at);
            byte[] wanted = content(writer, of, number, RECORD_BYTES);
            if (!Arrays.equals(found, at, at + part, wanted, 0, part)) {
                return false;
            }
            number++;
        }
        return true;
    }

    // ---- the journal

    /** Writes a line into the journal, in one call. */
    private void note(String line) throws IOException {
        journal.write(ByteBuffer.wrap((line.replace('\n', ' ') + "\n").getBytes(StandardCharsets.UTF_8)));
    }

    private void begin(String change, String name, String more) throws IOException {
        what = change;
        about = name;
        note("begin " + change + " " + name + more);
    }

    private void done(String more) throws IOException {
        note("done " + what + " " + about + more);
    }

    private void failed(Exception error) throws IOException {
        String kind = error instanceof VaultException ? ((VaultException) error).kind().name() : error.getClass().getSimpleName();
        note("error " + what + " " + about + " " + VaultException.errnoOf(error) + " " + kind + " " + error.getMessage());
    }

    private boolean isToStop() {
        return Files.exists(stop);
    }

    // ---- opening and closing

    private void open() throws IOException, InterruptedException {
        while (vault == null && !isToStop()) {
            try {
                vault = Vault.open(folder, secret);
            } catch (IOException | RuntimeException error) {
                what = "open";
                about = "vault";
                failed(error);
                Thread.sleep(100);
            }
        }
    }

    private void close() throws IOException {
        Vault open = vault;
        vault = null;
        if (open == null) {
            return;
        }
        try {
            open.close();
        } catch (IOException | RuntimeException error) {
            what = "close";
            about = "vault";
            failed(error);
        }
    }

    private void closeLog() throws IOException {
        FileChannel open = log;
        log = null;
        if (open != null) {
            open.close();
        }
    }

    /** An owner does not: closing waits for those who use the vault through it. */
    private void reopenAsClient() throws IOException, InterruptedException {
        if (vault != null && !vault.isOwner()) {
            close();
            open();
        }
    }

    // ---- what it does

    private Path path(String writer, String name) {
        return vault.path("/" + writer + "/" + name);
    }

    private void makeFile(int bytes) throws IOException {
        int number = counter++;
        String name = String.format("f-%04d-%06d-%d", incarnation, number, bytes);
        Path temporary = path(me, String.format("t-%04d-%06d", incarnation, number));
        begin("new", name, "");
        try (FileChannel file = FileChannel.open(
                temporary, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
            file.write(ByteBuffer.wrap(content(me, incarnation, number, bytes)));
            file.force(true);
        }
        Files.move(temporary, path(me, name), StandardCopyOption.ATOMIC_MOVE);
        vault.sync();
        done("");
        own.add(name);
    }

    private void removeFile() throws IOException {
        // After an error nobody knows whether it is there: it is left alone.
        String name = own.remove(random.nextInt(own.size()));
        begin("remove", name, "");
        Files.delete(path(me, name));
        vault.sync();
        done("");
    }

    private void appendRecord() throws IOException {
        String name = String.format("log-%04d-%04d", incarnation, serial);
        String more = " " + records;
        begin("append", name, more);
        if (log == null) {
            log = FileChannel.open(path(me, name), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
        log.write(ByteBuffer.wrap(content(me, incarnation, serial * RECORDS_OF_SERIAL + records, RECORD_BYTES)));
        log.force(true);
        done(more);
        if (++records == RECORDS_MAX) {
            closeLog();
            serial++;
            records = 0;
        }
    }

    private void replaceState() throws IOException {
        int number = counter++;
        String name = String.format("state-%04d-%04d", incarnation, serial);
        String more = " " + number;
        begin("replace", name, more);
        vault.replace(path(me, name), content(me, incarnation, number, STATE_BYTES), true);
        done(more);
    }

    /** The names in the directory of a program. */
    private List<String> names(String writer) throws IOException {
        what = "list";
        about = writer;
        List<String> names = new ArrayList<>();
        try (DirectoryStream<Path> paths = Files.newDirectoryStream(vault.path("/" + writer))) {
            for (Path path : paths) {
                names.add(path.getFileName().toString());
            }
        } catch (DirectoryIteratorException error) {
            throw error.getCause();
        }
        return names;
    }

    private void readFile() throws IOException {
        String writer = PROGRAMS.get(random.nextInt(PROGRAMS.size()));
        List<String> names = names(writer);
        names.removeIf(name -> !name.startsWith("f-") && !name.startsWith("log-") && !name.startsWith("state-"));
        if (names.isEmpty()) {
            return;
        }
        String name = names.get(random.nextInt(names.size()));
        what = "read";
        about = writer + "/" + name;
        byte[] found;
        try {
            found = Files.readAllBytes(path(writer, name));
        } catch (NoSuchFileException gone) {
            note("missing " + about);
            return;
        }
        note(isRight(writer, name, found) ? "read " + about : "wrong " + about + " of " + found.length + " bytes");
    }

    private void doOne() throws IOException {
        int chance = random.nextInt(100);
        if (chance < 35) {
            appendRecord();
        } else if (chance < 45) {
            replaceState();
        } else if (chance < 60) {
            readFile();
        } else if (own.size() == OWN_MAX || (chance < 75 && !own.isEmpty())) {
            removeFile();
        } else {
            makeFile(chance < 97 ? HEAD_BYTES + random.nextInt(SMALL_BYTES_MAX) : MIB);
        }
    }

    // ---- its life

    private void adopt() throws IOException {
        try {
            for (String name : names(me)) {
                if (name.startsWith("f-") && own.size() < OWN_MAX) {
                    own.add(name);
                }
            }
        } catch (IOException | RuntimeException error) {
            failed(error);
        }
    }

    private void work() throws IOException, InterruptedException {
        int count = 1 + random.nextInt(BURST_MAX);
        for (int done = 0; done < count && !isToStop(); done++) {
            try {
                doOne();
            } catch (IOException | RuntimeException error) {
                failed(error);
                serial++;
                records = 0;
                closeLog();
                reopenAsClient();
                break;
            }
        }
        // With a file open, no owner can leave the vault to a mount.
        closeLog();
        if (random.nextInt(20) == 0) {
            reopenAsClient();
        }
    }

    private void live() throws IOException, InterruptedException {
        open();
        // What the one before asked last is carried out by then, so that no file goes that was seen.
        Thread.sleep(SETTLE_MS);
        if (vault != null) {
            adopt();
        }
        while (vault != null && !isToStop()) {
            work();
            Thread.sleep(PAUSE_MS_MIN + random.nextInt(PAUSE_MS_MAX - PAUSE_MS_MIN));
        }
        closeLog();
        close();
    }

    /** Runs it. */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        new KillWorker(arguments).live();
    }
}
