package io.strongroom;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;

/** Carries out the steps of {@code bindings/conformance.toml}, whose head explains each line. Holds the state of one case. */
final class Machine implements AutoCloseable {
    private static final Map<String, Integer> ERRNO = new HashMap<>();

    static {
        String[] names = {
            "EPERM 1", "ENOENT 2", "ENXIO 6", "E2BIG 7", "EBADF 9", "EAGAIN 11", "EACCES 13", "EBUSY 16", "EEXIST 17", "ENOTDIR 20",
            "EISDIR 21", "EINVAL 22", "EFBIG 27", "EROFS 30", "ERANGE 34", "ENAMETOOLONG 36", "ENOTEMPTY 39", "ELOOP 40", "ENODATA 61",
            "EBADMSG 74", "EILSEQ 84", "EOPNOTSUPP 95"
        };
        for (String one : names) {
            ERRNO.put(one.split(" ")[0], Integer.valueOf(one.split(" ")[1]));
        }
    }

    private static final List<String> RENAME = List.of("replace", "no_replace", "exchange", "whiteout");
    private static final List<String> XATTR = List.of("set", "create", "replace");
    private static final List<String> KINDS =
            List.of("file", "directory", "symlink", "pipe", "socket", "character-device", "block-device");

    private final Vault main;
    private final Path folder;
    private final JsonNode keyFiles;
    private final Map<String, Vault> vaults = new HashMap<>();
    private final Map<String, VaultFile> files = new HashMap<>();
    private final Map<String, Snapshot> snapshots = new HashMap<>();
    private final Map<String, Transaction> transactions = new HashMap<>();
    private final List<AutoCloseable> older = new ArrayList<>();

    Machine(Vault main, Path folder, JsonNode keyFiles) {
        this.main = main;
        this.folder = folder;
        this.keyFiles = keyFiles;
        if (main != null) {
            vaults.put("main", main);
        }
    }

    @Override
    public void close() throws Exception {
        for (AutoCloseable one : older) {
            one.close();
        }
        for (VaultFile one : files.values()) {
            one.close();
        }
        for (Snapshot one : snapshots.values()) {
            one.close();
        }
        for (Transaction one : transactions.values()) {
            one.close();
        }
        // Clients before the owner, which waits for them.
        List<Vault> owners = new ArrayList<>();
        for (Vault one : vaults.values()) {
            if (one != main && one.fileSystem().isOpen()) {
                if (one.isOwner()) {
                    owners.add(one);
                } else {
                    one.close();
                }
            }
        }
        for (Vault one : owners) {
            one.close();
        }
    }

    private <T extends AutoCloseable> void keep(Map<String, T> kind, JsonNode step, T opened) {
        T before = kind.put(step.get("as").asText(), opened);
        if (before != null) {
            older.add(before);
        }
    }

    // ---- values

    static int errno(String name) {
        return ERRNO.get(name);
    }

    /** BYTES of the table. */
    static byte[] bytes(JsonNode value) {
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        if (value.isTextual()) {
            joined.writeBytes(value.asText().getBytes(StandardCharsets.UTF_8));
        } else if (value.isArray()) {
            value.forEach(piece -> joined.writeBytes(bytes(piece)));
        } else {
            byte[] once = value.has("hex") ? hex(value.get("hex").asText()) : bytes(value.get("text"));
            for (int times = value.path("times").asInt(1); times > 0; times--) {
                joined.writeBytes(once);
            }
        }
        return joined.toByteArray();
    }

    private static byte[] hex(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(digits.substring(2 * index, 2 * index + 2), 16);
        }
        return bytes;
    }

    /** A number, a truth or a text. */
    static Object value(JsonNode value) {
        if (value.isBoolean()) {
            return value.asBoolean();
        }
        return value.isTextual() ? value.asText() : (Object) value.asLong();
    }

    static Object attribute(NodeAttributes node, String name) {
        switch (name) {
            case "kind":
                return KINDS.get(node.kind().ordinal());
            case "mode":
                return (long) node.mode();
            case "uid":
                return node.uid();
            case "gid":
                return node.gid();
            case "rdev":
                return node.device();
            case "nlink":
                return node.linkCount();
            case "size":
                return node.size();
            case "atime":
                return node.accessTimeNanos();
            case "mtime":
                return node.modifiedTimeNanos();
            default:
                throw new IllegalStateException(name + " is no attribute");
        }
    }

    private static byte[] path(JsonNode step) {
        return bytes(step.get("path"));
    }

    private static String text(JsonNode step, String name, String otherwise) {
        return step.has(name) ? new String(bytes(step.get(name)), StandardCharsets.UTF_8) : otherwise;
    }

    private static boolean follows(JsonNode step) {
        return step.path("links").asText("follow").equals("follow");
    }

    private static int mode(JsonNode step, int otherwise) {
        return step.path("mode").asInt(otherwise);
    }

    private Path machine(JsonNode step) {
        return folder.resolve(step.get("folder").asText());
    }

    private String url(JsonNode step) {
        return "folder:" + folder.resolve(step.get("place").asText());
    }

    private Secret secret(JsonNode given) {
        if (given.has("passphrase")) {
            return Secret.passphrase(bytes(given.get("passphrase")));
        }
        return Secret.keyFile(keyFiles.get(given.get("key_file").asText()).asText().getBytes(StandardCharsets.UTF_8));
    }

    private static VaultOptions options() {
        return new VaultOptions().withoutRecords();
    }

    private static List<byte[]> sorted(List<byte[]> names) {
        names.sort(Arrays::compareUnsigned);
        return names;
    }

    // ---- steps

    /** Does a step; gives what the call gave. */
    Object step(JsonNode step) throws Exception {
        if (step.has("file")) {
            return ofFile(step, files.get(step.get("file").asText()));
        }
        if (step.has("transaction")) {
            return ofTransaction(step, transactions.get(step.get("transaction").asText()));
        }
        Vault vault = vaults.get(step.path("vault").asText("main"));
        Tree tree = step.has("snapshot") ? snapshots.get(step.get("snapshot").asText()) : vault;
        switch (step.get("op").asText()) {
            case "create":
            case "open_vault":
            case "add_key":
            case "keys":
            case "remove_key":
            case "put_outside":
            case "remove_outside":
            case "clone":
            case "backup":
                return ofFolder(step);
            case "close_snapshot":
                tree.close();
                return null;
            case "read_file":
            case "exists":
            case "stat":
            case "readlink":
            case "getxattr":
            case "listxattr":
            case "list":
            case "walk":
            case "open":
                return ofTree(step, tree);
            default:
        }
        Object given = ofNames(step, vault);
        return given == this ? ofVault(step, vault) : given;
    }

    private Object ofFolder(JsonNode step) throws Exception {
        switch (step.get("op").asText()) {
            case "create":
                try (Secret secret = secret(step.get("secret"))) {
                    keep(vaults, step, Vault.create(machine(step), options(), secret));
                }
                return null;
            case "open_vault":
                VaultOptions options = options();
                if (step.path("read_only").asBoolean()) {
                    options.readOnly();
                }
                if (step.path("own").asBoolean()) {
                    options.exclusive();
                }
                try (Secret secret = secret(step.get("secret"))) {
                    keep(vaults, step, Vault.open(machine(step), secret, options));
                }
                return null;
            case "put_outside":
                Files.createDirectories(machine(step));
                Files.write(machine(step).resolve(step.get("name").asText()), bytes(step.get("data")));
                return null;
            case "remove_outside":
                Files.delete(machine(step).resolve(step.get("name").asText()));
                return null;
            case "clone":
                try (Secret secret = secret(step.get("secret"))) {
                    VaultOptions how = options();
                    if (step.path("on_demand").asBoolean()) {
                        how.onDemand();
                    }
                    Vault.cloneRemote(url(step), machine(step), secret, how, null);
                }
                return null;
            case "backup":
                vaults.get(step.path("vault").asText("main")).backup(machine(step), null);
                return null;
            default:
        }
        try (Secret secret = secret(step.get("secret")); Keys keys = Keys.open(machine(step), secret, options())) {
            switch (step.get("op").asText()) {
                case "keys":
                    List<byte[]> labels = new ArrayList<>();
                    keys.slots().forEach(slot -> labels.add(slot.label.getBytes(StandardCharsets.UTF_8)));
                    return labels;
                case "add_key":
                    try (Secret added = secret(step.get("new"))) {
                        keys.add(added, step.get("label").asText());
                    }
                    return null;
                default:
                    String label = step.get("label").asText();
                    keys.remove(keys.slots().stream().filter(slot -> slot.label.equals(label)).findFirst().orElseThrow());
                    return null;
            }
        }
    }

    private Object ofTree(JsonNode step, Tree tree) throws IOException {
        switch (step.get("op").asText()) {
            case "read_file":
                return tree.read(path(step));
            case "exists":
                try {
                    tree.stat(path(step), true);
                    return true;
                } catch (NoSuchFileException nothing) {
                    return false;
                }
            case "stat":
                return tree.stat(path(step), follows(step));
            case "readlink":
                return tree.readLink(path(step));
            case "getxattr":
                return tree.getXattr(path(step), follows(step), bytes(step.get("name")));
            case "listxattr":
                return sorted(tree.listXattrs(path(step), follows(step)));
            case "open":
                int flags = 0;
                for (JsonNode flag : step.path("flags")) {
                    flags |= flag(flag.asText());
                }
                keep(files, step, tree.open(path(step), step.has("flags") ? flags : VaultFile.READ, mode(step, 0644)));
                return null;
            default:
                boolean deep = step.get("op").asText().equals("walk");
                List<byte[]> names = new ArrayList<>();
                try (Listing listing = tree.list(path(step), deep)) {
                    for (Listing.Entry entry = listing.next(); entry != null; entry = listing.next()) {
                        names.add(entry.name);
                    }
                }
                return deep ? names : sorted(names);
        }
    }

    private static int flag(String name) {
        switch (name) {
            case "read":
                return VaultFile.READ;
            case "write":
                return VaultFile.WRITE;
            case "append":
                return VaultFile.APPEND;
            case "truncate":
                return VaultFile.TRUNCATE;
            case "create":
                return VaultFile.CREATE;
            case "create_new":
                return VaultFile.CREATE_NEW;
            default:
                throw new IllegalStateException(name + " is no flag");
        }
    }

    /** What a step sets. */
    private static Changes changes(JsonNode step) {
        Changes changes = new Changes();
        if (step.has("mode")) {
            changes.mode(step.get("mode").asInt());
        }
        if (step.has("uid")) {
            changes.uid((int) step.get("uid").asLong());
        }
        if (step.has("gid")) {
            changes.gid((int) step.get("gid").asLong());
        }
        if (step.has("size")) {
            changes.size(step.get("size").asLong());
        }
        if (step.has("atime")) {
            changes.atime(step.get("atime").asLong());
        }
        if (step.has("mtime")) {
            changes.mtime(step.get("mtime").asLong());
        }
        return changes;
    }

    /** What changes names and attributes; this object itself for other operations. */
    private Object ofNames(JsonNode step, Vault vault) throws IOException {
        switch (step.get("op").asText()) {
            case "write_file":
                vault.write(path(step), bytes(step.get("data")));
                return null;
            case "replace":
                vault.replace(path(step), bytes(step.get("data")), false);
                return null;
            case "truncate":
            case "chmod":
            case "chown":
            case "utime":
                vault.set(path(step), follows(step), changes(step));
                return null;
            case "unnamed":
                keep(files, step, vault.openUnnamed(path(step), mode(step, 0600)));
                return null;
            case "mkdir":
                vault.makeDirectory(path(step), mode(step, 0755));
                return null;
            case "mkdir_all":
                vault.makeDirectories(path(step), mode(step, 0755));
                return null;
            case "rmdir":
                vault.removeDirectory(path(step));
                return null;
            case "remove":
                vault.removeFile(path(step));
                return null;
            case "remove_all":
                vault.removeTree(path(step));
                return null;
            case "rename":
                vault.rename(path(step), bytes(step.get("to")), RENAME.indexOf(step.path("how").asText("replace")));
                return null;
            case "link":
                vault.link(path(step), bytes(step.get("to")));
                return null;
            case "symlink":
                vault.makeSymlink(bytes(step.get("target")), path(step));
                return null;
            case "mknod":
                vault.makeNode(path(step), KINDS.indexOf(step.get("kind").asText()) + 1, mode(step, 0644), step.path("rdev").asLong());
                return null;
            case "setxattr":
                int how = XATTR.indexOf(step.path("how").asText("set"));
                vault.setXattr(path(step), follows(step), bytes(step.get("name")), bytes(step.get("value")), how);
                return null;
            case "removexattr":
                vault.removeXattr(path(step), follows(step), bytes(step.get("name")));
                return null;
            default:
                return this;
        }
    }

    private Object ofVault(JsonNode step, Vault vault) throws IOException {
        String selector = step.path("selector").asText();
        String name = step.path("name").asText();
        switch (step.get("op").asText()) {
            case "close_vault":
                vault.close();
                return null;
            case "sync":
                vault.sync();
                return null;
            case "check":
                return vault.check().isEmpty();
            case "verify":
                return vault.verify(step.path("deep").asBoolean(), null).sound;
            case "take_snapshot":
                List<String> tags = new ArrayList<>();
                step.path("tags").forEach(tag -> tags.add(tag.asText()));
                String message = text(step, "message", "");
                if (step.path("only_if_changed").asBoolean()) {
                    return vault.takeSnapshotIfChanged(message, tags.toArray(new String[0])).isPresent();
                }
                vault.takeSnapshot(message, tags.toArray(new String[0]));
                return true;
            case "snapshots":
                List<byte[]> messages = new ArrayList<>();
                vault.snapshots().forEach(one -> messages.add(one.message.getBytes(StandardCharsets.UTF_8)));
                return messages;
            case "remove_snapshot":
                vault.removeSnapshot(selector);
                return null;
            case "snapshot":
                keep(snapshots, step, vault.snapshot());
                return null;
            case "at":
                keep(snapshots, step, vault.at(selector));
                return null;
            case "restore":
                return vault.restore(selector, path(step), bytes(step.get("to")));
            case "diff":
                return vault.differences(selector, text(step, "after", null), step.has("path") ? path(step) : new byte[] {'/'});
            case "set_retention":
                vault.setRetention(new Retention(
                        step.path("last").asLong(),
                        step.path("hourly").asLong(),
                        step.path("daily").asLong(),
                        step.path("weekly").asLong(),
                        step.path("monthly").asLong(),
                        step.path("yearly").asLong(),
                        step.path("unnamed").asBoolean()));
                return null;
            case "retention":
                return vault.retention().toString();
            case "shared_retention":
                return vault.sharedRetention().map(Retention::toString).orElse("");
            case "thin":
                return (long) vault.thin().size();
            case "usage":
                return vault.usage().keptBytes > 0;
            case "erase":
                return vault.erase(vault.files().pathOf(path(step)), step.path("trial").asBoolean()).files;
            case "begin":
                keep(transactions, step, vault.begin());
                return null;
            case "add_remote":
                vault.addRemote(name, url(step), false);
                return null;
            case "remotes":
                List<byte[]> names = new ArrayList<>();
                vault.remotes().forEach(one -> names.add(one.name.getBytes(StandardCharsets.UTF_8)));
                return names;
            case "remove_remote":
                vault.removeRemote(name);
                return null;
            case "push":
                vault.push(name, null);
                return null;
            case "pull":
                vault.pull(name, null);
                return null;
            case "sync_with":
                return vault.syncWith(name, null).pulled.conflicts;
            case "waiting":
                return vault.remoteStatus(name).isWaiting;
            case "check_remote":
                return vault.checkRemote(name, step.path("deep").asBoolean(), null).isEmpty();
            case "prune":
                vault.pruneRemote(name, 0, null);
                return null;
            default:
                return ofContent(step, vault);
        }
    }

    /** Content that only remotes have. */
    private Object ofContent(JsonNode step, Vault vault) throws IOException {
        Path path = step.has("path") ? vault.files().pathOf(path(step)) : null;
        switch (step.get("op").asText()) {
            case "evict":
                return vault.evict(path, null).segments > 0;
            case "evict_to_limit":
                return vault.evictToLimit(null).segments > 0;
            case "bring_back":
                return vault.bringBack(path, null).segments > 0;
            case "set_keep_at_most":
                vault.setKeepAtMost(step.has("bytes") ? OptionalLong.of(step.get("bytes").asLong()) : OptionalLong.empty());
                return null;
            case "keep_at_most":
                return vault.keepAtMost().orElse(0);
            case "away":
                return vault.information().awayBytes > 0;
            case "pin":
                vault.pin(path, null);
                return null;
            case "unpin":
                return vault.unpin(path);
            case "pins":
                List<byte[]> pinned = new ArrayList<>();
                vault.pins().forEach(one -> pinned.add(VaultPath.bytesOf(vault, one)));
                return pinned;
            default:
                throw new IllegalStateException(step.get("op").asText() + " is no operation");
        }
    }

    private Object ofFile(JsonNode step, VaultFile file) throws IOException {
        long offset = step.path("offset").asLong();
        byte[] data = step.has("data") ? bytes(step.get("data")) : new byte[step.path("len").isInt() ? Math.max(0, step.get("len").asInt()) : 0];
        switch (step.get("op").asText()) {
            case "name_file":
                file.name(path(step));
                return null;
            case "close":
                file.close();
                return null;
            case "pread":
                return Arrays.copyOf(data, file.readAt(offset, data, 0, data.length));
            case "pwrite":
                file.writeAt(offset, data, 0, data.length);
                return null;
            case "read":
                return Arrays.copyOf(data, file.read(data, 0, data.length));
            case "write":
                file.write(data, 0, data.length);
                return null;
            case "seek":
                String from = step.path("from").asText("start").toUpperCase(Locale.ROOT);
                return file.seek(step.get("to").asLong(), VaultFile.From.valueOf(from));
            case "fstat":
                return file.attributes();
            case "ftruncate":
            case "fchmod":
                file.set(changes(step));
                return null;
            case "fsync":
                file.sync();
                return null;
            case "allocate":
                String how = step.get("how").asText().toUpperCase(Locale.ROOT);
                file.allocate(VaultFile.Allocate.valueOf(how), offset, step.get("len").asLong());
                return null;
            case "find":
                return step.get("target").asText().equals("data") ? file.findData(offset) : file.findHole(offset);
            case "copy_range":
                VaultFile to = files.get(step.get("to").asText());
                return file.copyRange(offset, to, step.get("to_offset").asLong(), step.get("len").asLong());
            case "try_lock":
                file.tryLock(step.path("how").asText("exclusive").equals("shared"));
                return null;
            case "unlock":
                file.unlock();
                return null;
            default:
                throw new IllegalStateException(step.get("op").asText() + " is no operation on files");
        }
    }

    private Object ofTransaction(JsonNode step, Transaction transaction) throws IOException {
        byte[] path = step.has("path") ? path(step) : null;
        switch (step.get("op").asText()) {
            case "commit":
                transaction.commit(step.path("durable").asBoolean());
                return null;
            case "roll_back":
                transaction.close();
                return null;
            case "read_file":
                return transaction.read(path);
            case "exists":
                return transaction.exists(path);
            case "stat":
                return transaction.stat(path, follows(step));
            case "list":
                return sorted(transaction.names(path));
            case "truncate":
            case "chmod":
            case "chown":
            case "utime":
                transaction.set(path, follows(step), changes(step));
                return null;
            default:
        }
        byte[] to = step.has("to") ? bytes(step.get("to")) : null;
        transaction.add(number -> {
            switch (step.get("op").asText()) {
                case "write_file":
                    Native.write(number, path, bytes(step.get("data")));
                    break;
                case "mkdir":
                    Native.makeDirectory(number, path, mode(step, 0755));
                    break;
                case "rename":
                    Native.rename(number, path, to, RENAME.indexOf(step.path("how").asText("replace")));
                    break;
                case "remove":
                    Native.removeFile(number, path);
                    break;
                case "rmdir":
                    Native.removeDirectory(number, path);
                    break;
                case "symlink":
                    Native.makeSymlink(number, bytes(step.get("target")), path);
                    break;
                case "link":
                    Native.link(number, path, to);
                    break;
                case "setxattr":
                    int how = XATTR.indexOf(step.path("how").asText("set"));
                    Native.setXattr(number, path, follows(step), bytes(step.get("name")), bytes(step.get("value")), how);
                    break;
                case "removexattr":
                    Native.removeXattr(number, path, follows(step), bytes(step.get("name")));
                    break;
                default:
                    throw new IllegalStateException(step.get("op").asText() + " is no operation of transactions");
            }
        });
        return null;
    }
}
