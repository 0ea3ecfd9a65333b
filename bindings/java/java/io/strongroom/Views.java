package io.strongroom;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileOwnerAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/** The attribute views of one path, and attributes by their names. */
final class Views {
    private static final Map<String, Function<NodeAttributes, Object>> BASIC = new LinkedHashMap<>();
    private static final Map<String, Function<NodeAttributes, Object>> POSIX = new LinkedHashMap<>();
    private static final Map<String, Function<NodeAttributes, Object>> UNIX = new LinkedHashMap<>();
    private static final Map<String, Function<NodeAttributes, Object>> OWNER = Map.of("owner", NodeAttributes::owner);

    static {
        BASIC.put("lastModifiedTime", NodeAttributes::lastModifiedTime);
        BASIC.put("lastAccessTime", NodeAttributes::lastAccessTime);
        BASIC.put("creationTime", NodeAttributes::creationTime);
        BASIC.put("size", NodeAttributes::size);
        BASIC.put("isRegularFile", NodeAttributes::isRegularFile);
        BASIC.put("isDirectory", NodeAttributes::isDirectory);
        BASIC.put("isSymbolicLink", NodeAttributes::isSymbolicLink);
        BASIC.put("isOther", NodeAttributes::isOther);
        BASIC.put("fileKey", NodeAttributes::fileKey);
        POSIX.putAll(BASIC);
        POSIX.put("permissions", NodeAttributes::permissions);
        POSIX.put("owner", NodeAttributes::owner);
        POSIX.put("group", NodeAttributes::group);
        UNIX.putAll(POSIX);
        UNIX.put("mode", node -> node.mode() | kindBits(node.kind()));
        UNIX.put("ino", NodeAttributes::inode);
        UNIX.put("rdev", NodeAttributes::device);
        UNIX.put("nlink", node -> (int) node.linkCount());
        UNIX.put("uid", node -> (int) node.uid());
        UNIX.put("gid", node -> (int) node.gid());
        UNIX.put("ctime", NodeAttributes::changeTime);
    }

    private Views() {}

    /** The bits that name a kind in a mode, as {@code stat(2)} has them. */
    private static int kindBits(NodeAttributes.Kind kind) {
        switch (kind) {
            case DIRECTORY:
                return 0040000;
            case SYMLINK:
                return 0120000;
            case PIPE:
                return 0010000;
            case SOCKET:
                return 0140000;
            case CHARACTER_DEVICE:
                return 0020000;
            case BLOCK_DEVICE:
                return 0060000;
            default:
                return 0100000;
        }
    }

    private static Map<String, Function<NodeAttributes, Object>> known(String view) {
        switch (view) {
            case "basic":
                return BASIC;
            case "posix":
                return POSIX;
            case "unix":
                return UNIX;
            case "owner":
                return OWNER;
            default:
                throw new UnsupportedOperationException("a vault has no attribute view " + view);
        }
    }

    /** Attributes by {@code [view:]name,…}. */
    static Map<String, Object> read(VaultPath path, String names, boolean follow) throws IOException {
        int colon = names.indexOf(':');
        String view = colon < 0 ? "basic" : names.substring(0, colon);
        String[] wanted = names.substring(colon + 1).split(",", -1);
        Map<String, Object> found = new LinkedHashMap<>();
        if (view.equals("user")) {
            User user = new User(path, follow);
            for (String one : wanted) {
                List<String> all = one.equals("*") ? user.list() : List.of(one);
                for (String name : all) {
                    found.put(name, user.value(name));
                }
            }
            return found;
        }
        Map<String, Function<NodeAttributes, Object>> known = known(view);
        NodeAttributes node = path.tree().stat(path.absolute(), follow);
        for (String one : wanted) {
            if (one.equals("*")) {
                known.forEach((name, get) -> found.put(name, get.apply(node)));
            } else if (known.containsKey(one)) {
                found.put(one, known.get(one).apply(node));
            } else {
                throw new IllegalArgumentException("the view " + view + " has no attribute " + one);
            }
        }
        return found;
    }

    /** Sets one attribute, {@code [view:]name}. */
    @SuppressWarnings("unchecked")
    static void set(VaultPath path, String attribute, Object value, boolean follow) throws IOException {
        int colon = attribute.indexOf(':');
        String view = colon < 0 ? "basic" : attribute.substring(0, colon);
        String name = attribute.substring(colon + 1);
        if (view.equals("user")) {
            ByteBuffer bytes = value instanceof byte[] ? ByteBuffer.wrap((byte[]) value) : (ByteBuffer) value;
            new User(path, follow).write(name, bytes);
            return;
        }
        if (!known(view).containsKey(name)) {
            throw new IllegalArgumentException("the view " + view + " has no attribute " + name);
        }
        Posix posix = new Posix(path, follow);
        switch (name) {
            case "lastModifiedTime":
                posix.setTimes((FileTime) value, null, null);
                break;
            case "lastAccessTime":
                posix.setTimes(null, (FileTime) value, null);
                break;
            case "creationTime":
                posix.setTimes(null, null, (FileTime) value);
                break;
            case "permissions":
                posix.setPermissions((Set<PosixFilePermission>) value);
                break;
            case "owner":
                posix.setOwner((UserPrincipal) value);
                break;
            case "group":
                posix.setGroup((GroupPrincipal) value);
                break;
            case "mode":
                posix.set(new Changes().mode((Integer) value & 07777));
                break;
            case "uid":
                posix.set(new Changes().uid((Integer) value));
                break;
            case "gid":
                posix.set(new Changes().gid((Integer) value));
                break;
            default:
                throw new IllegalArgumentException("the attribute " + name + " cannot be set");
        }
    }

    /** The view of a class; null if there is none. */
    static <V extends FileAttributeView> V of(VaultPath path, Class<V> type, boolean follow) {
        if (type == BasicFileAttributeView.class) {
            return type.cast(new Basic(path, follow));
        }
        if (type == PosixFileAttributeView.class) {
            return type.cast(new Posix(path, follow));
        }
        if (type == FileOwnerAttributeView.class) {
            return type.cast(new Owner(path, follow));
        }
        if (type == UserDefinedFileAttributeView.class) {
            return type.cast(new User(path, follow));
        }
        return null;
    }

    private static class Basic implements BasicFileAttributeView {
        final VaultPath path;
        final boolean follow;

        Basic(VaultPath path, boolean follow) {
            this.path = path;
            this.follow = follow;
        }

        @Override
        public String name() {
            return "basic";
        }

        @Override
        public NodeAttributes readAttributes() throws IOException {
            return path.tree().stat(path.absolute(), follow);
        }

        /** A vault keeps the time of creation as it was: {@code create} is taken as a wish. */
        @Override
        public void setTimes(FileTime modified, FileTime accessed, FileTime create) throws IOException {
            set(Changes.times(modified, accessed));
        }

        void set(Changes to) throws IOException {
            path.checkWritable();
            if (to.what != 0) {
                path.tree().set(path.absolute(), follow, to);
            }
        }
    }

    private static final class Owner implements FileOwnerAttributeView {
        private final Posix posix;

        Owner(VaultPath path, boolean follow) {
            posix = new Posix(path, follow);
        }

        @Override
        public String name() {
            return "owner";
        }

        @Override
        public UserPrincipal getOwner() throws IOException {
            return posix.getOwner();
        }

        @Override
        public void setOwner(UserPrincipal owner) throws IOException {
            posix.setOwner(owner);
        }
    }

    private static final class Posix extends Basic implements PosixFileAttributeView {
        Posix(VaultPath path, boolean follow) {
            super(path, follow);
        }

        @Override
        public String name() {
            return "posix";
        }

        @Override
        public UserPrincipal getOwner() throws IOException {
            return readAttributes().owner();
        }

        @Override
        public void setOwner(UserPrincipal owner) throws IOException {
            set(new Changes().uid(Principal.numberOf(owner)));
        }

        @Override
        public void setGroup(GroupPrincipal group) throws IOException {
            set(new Changes().gid(Principal.numberOf(group)));
        }

        @Override
        public void setPermissions(Set<PosixFilePermission> permissions) throws IOException {
            set(new Changes().mode(NodeAttributes.modeOf(permissions)));
        }
    }

    /** Extended attributes whose names begin with {@code user.}, which is left out here. */
    private static final class User implements UserDefinedFileAttributeView {
        private static final String PREFIX = "user.";

        private final VaultPath path;
        private final boolean follow;

        User(VaultPath path, boolean follow) {
            this.path = path;
            this.follow = follow;
        }

        private static byte[] full(String name) {
            return Text.bytes(PREFIX + name);
        }

        byte[] value(String name) throws IOException {
            return path.tree().getXattr(path.absolute(), follow, full(name));
        }

        @Override
        public String name() {
            return "user";
        }

        @Override
        public List<String> list() throws IOException {
            List<String> names = new ArrayList<>();
            for (byte[] one : path.tree().listXattrs(path.absolute(), follow)) {
                String name = Text.shown(one);
                if (name.startsWith(PREFIX)) {
                    names.add(name.substring(PREFIX.length()));
                }
            }
            return names;
        }

        @Override
        public int size(String name) throws IOException {
            return value(name).length;
        }

        @Override
        public int read(String name, ByteBuffer to) throws IOException {
            byte[] value = value(name);
            if (value.length > to.remaining()) {
                throw new java.nio.file.FileSystemException(
                        path.toString(), null, "the attribute " + name + " is longer than the space in the buffer");
            }
            to.put(value);
            return value.length;
        }

        @Override
        public int write(String name, ByteBuffer from) throws IOException {
            path.checkWritable();
            byte[] value = new byte[from.remaining()];
            from.get(value);
            path.tree().setXattr(path.absolute(), follow, full(name), value, 0);
            return value.length;
        }

        @Override
        public void delete(String name) throws IOException {
            path.checkWritable();
            path.tree().removeXattr(path.absolute(), follow, full(name));
        }
    }
}
