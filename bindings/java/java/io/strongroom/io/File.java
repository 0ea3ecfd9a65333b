package io.strongroom.io;

import io.strongroom.NodeAttributes;
import io.strongroom.Vault;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.net.MalformedURLException;
import java.net.URI;
import java.net.URL;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/** Like {@code java.io.File}, but in a vault. */
public class File implements Serializable, Comparable<File> {
    private static final long serialVersionUID = 1;

    /** What separates names. */
    public static final char separatorChar = '/';
    /** The same. */
    public static final String separator = "/";
    /** What separates paths in a list. */
    public static final char pathSeparatorChar = ':';
    /** The same. */
    public static final String pathSeparator = ":";

    private static final int MADE_UP_TRIES = 1000;

    private final String path;
    /** Null for {@link VirtualFileSystem#get}, as it is after a file was read from elsewhere. */
    private final transient VirtualFileSystem fileSystem;

    /** A file of the vault that is mounted. */
    public File(String path) {
        this((VirtualFileSystem) null, path);
    }

    /** A file of another vault. */
    public File(VirtualFileSystem fileSystem, String path) {
        this.fileSystem = fileSystem;
        this.path = normal(path);
    }

    /** A file in a directory. */
    public File(File directory, String name) {
        this(directory == null ? null : directory.fileSystem, directory == null ? name : join(directory.path, name));
    }

    /** A file in a directory. */
    public File(String directory, String name) {
        this((VirtualFileSystem) null, directory == null ? name : join(directory, name));
    }

    /** A file by what {@link #toURI} gave. */
    public File(URI uri) {
        this((VirtualFileSystem) null, Path.of(uri).toString());
    }

    private static String join(String directory, String name) {
        return directory.isEmpty() ? "/" + name : directory + "/" + name;
    }

    private static String normal(String path) {
        StringBuilder normal = new StringBuilder();
        for (int at = 0; at < path.length(); at++) {
            char one = path.charAt(at);
            if (one != '/' || normal.length() == 0 || normal.charAt(normal.length() - 1) != '/') {
                normal.append(one);
            }
        }
        if (normal.length() > 1 && normal.charAt(normal.length() - 1) == '/') {
            normal.setLength(normal.length() - 1);
        }
        return normal.toString();
    }

    private Vault vault() {
        return (fileSystem == null ? VirtualFileSystem.get() : fileSystem).vault();
    }

    private File of(Path found) {
        return new File(fileSystem, found.toString());
    }

    /** As a path for {@link Files}. */
    public Path toPath() {
        return vault().path(path);
    }

    /** The same, of what is opened; a path that is none is a file that is not there. */
    Path opened() throws FileNotFoundException {
        try {
            return toPath();
        } catch (InvalidPathException none) {
            throw new FileNotFoundException(none.getMessage());
        }
    }

    /** What something comes to; {@code otherwise} if it fails, as these methods have it. */
    private <T> T ask(T otherwise, Question<T> question) {
        try {
            return path.isEmpty() ? otherwise : question.of(toPath());
        } catch (IOException | InvalidPathException failed) {
            return otherwise;
        }
    }

    private interface Question<T> {
        T of(Path path) throws IOException;
    }

    private boolean done(Deed deed) {
        return ask(false, path -> {
            deed.on(path);
            return true;
        });
    }

    private interface Deed {
        void on(Path path) throws IOException;
    }

    // ---- its path

    /** The last name. */
    public String getName() {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    /** The path of the directory; null if there is none in this path. */
    public String getParent() {
        int last = path.lastIndexOf('/');
        if (last < 0 || path.length() == 1) {
            return null;
        }
        return last == 0 ? "/" : path.substring(0, last);
    }

    /** The directory; null if there is none in this path. */
    public File getParentFile() {
        String parent = getParent();
        return parent == null ? null : new File(fileSystem, parent);
    }

    /** The path as it was given. */
    public String getPath() {
        return path;
    }

    /** Whether it begins with {@code /}. */
    public boolean isAbsolute() {
        return path.startsWith("/");
    }

    /** The path from the root, which is where all paths begin. */
    public String getAbsolutePath() {
        return isAbsolute() ? path : "/" + path;
    }

    /** The same as a file. */
    public File getAbsoluteFile() {
        return new File(fileSystem, getAbsolutePath());
    }

    /** The path without symlinks, {@code .} and {@code ..}. */
    public String getCanonicalPath() throws IOException {
        Path absolute = vault().path(getAbsolutePath());
        for (Path there = absolute; there != null; there = there.getParent()) {
            if (Files.exists(there)) {
                Path rest = there.relativize(absolute);
                return there.toRealPath().resolve(rest).normalize().toString();
            }
        }
        return absolute.normalize().toString();
    }

    /** The same as a file. */
    public File getCanonicalFile() throws IOException {
        return new File(fileSystem, getCanonicalPath());
    }

    /** Its URI. */
    public URI toURI() {
        return toPath().toUri();
    }

    /** The same as a URL, which reads the file as long as its vault is mounted: no handler of {@code strongroom:} needs to be installed. */
    public URL toURL() throws MalformedURLException {
        return new URL(null, toURI().toString(), new UrlHandler());
    }

    // ---- what is there

    /** Whether it is there. */
    public boolean exists() {
        return ask(false, Files::exists);
    }

    /** Whether it is a file. */
    public boolean isFile() {
        return ask(false, Files::isRegularFile);
    }

    /** Whether it is a directory. */
    public boolean isDirectory() {
        return ask(false, Files::isDirectory);
    }

    /** Whether its name begins with a dot. */
    public boolean isHidden() {
        return getName().startsWith(".");
    }

    /** Its size. */
    public long length() {
        return ask(0L, Files::size);
    }

    /** When its content was last changed, in milliseconds since 1970. */
    public long lastModified() {
        return ask(0L, path -> Files.getLastModifiedTime(path).toMillis());
    }

    /** Whether it can be read. */
    public boolean canRead() {
        return ask(false, Files::isReadable);
    }

    /** Whether it can be written. */
    public boolean canWrite() {
        return ask(false, path -> Files.isWritable(path) && mode(path, 0222));
    }

    /** Whether it is marked as a program. */
    public boolean canExecute() {
        return ask(false, Files::isExecutable);
    }

    private static boolean mode(Path path, int bits) throws IOException {
        return (Files.readAttributes(path, NodeAttributes.class).mode() & bits) != 0;
    }

    /** All of the disk. */
    public long getTotalSpace() {
        return ask(0L, path -> Files.getFileStore(path).getTotalSpace());
    }

    /** What can still be written. */
    public long getFreeSpace() {
        return ask(0L, path -> Files.getFileStore(path).getUnallocatedSpace());
    }

    /** The same. */
    public long getUsableSpace() {
        return ask(0L, path -> Files.getFileStore(path).getUsableSpace());
    }

    // ---- what a directory has

    /** The names; null if it is no directory. */
    public String[] list() {
        return list(null);
    }

    /** The names that a filter accepts. */
    public String[] list(FilenameFilter filter) {
        List<File> found = found(file -> filter == null || filter.accept(this, file.getName()));
        return found == null ? null : found.stream().map(File::getName).toArray(String[]::new);
    }

    /** The files; null if it is no directory. */
    public File[] listFiles() {
        return listFiles((FileFilter) null);
    }

    /** The files that a filter accepts. */
    public File[] listFiles(FileFilter filter) {
        List<File> found = found(file -> filter == null || filter.accept(file));
        return found == null ? null : found.toArray(new File[0]);
    }

    /** The files that a filter accepts. */
    public File[] listFiles(FilenameFilter filter) {
        return listFiles((FileFilter) file -> filter == null || filter.accept(this, file.getName()));
    }

    private List<File> found(FileFilter filter) {
        return ask(null, path -> {
            List<File> found = new ArrayList<>();
            try (DirectoryStream<Path> names = Files.newDirectoryStream(path)) {
                for (Path one : names) {
                    File file = of(one);
                    if (filter.accept(file)) {
                        found.add(file);
                    }
                }
            } catch (java.nio.file.DirectoryIteratorException error) {
                throw error.getCause();
            }
            return found;
        });
    }

    // ---- changes

    /** Makes an empty file; false if something is there. */
    public boolean createNewFile() throws IOException {
        try {
            Files.createFile(toPath());
            return true;
        } catch (FileAlreadyExistsException there) {
            return false;
        }
    }

    /** Makes an empty file with a name that nobody has, in the root. */
    public static File createTempFile(String prefix, String suffix) throws IOException {
        return createTempFile(prefix, suffix, null);
    }

    /** Makes an empty file with a name that nobody has. */
    public static File createTempFile(String prefix, String suffix, File directory) throws IOException {
        if (prefix.length() < 3) {
            throw new IllegalArgumentException("the prefix has fewer than three characters");
        }
        File where = directory == null ? new File("/") : directory;
        for (int tries = 0; tries < MADE_UP_TRIES; tries++) {
            String number = Long.toUnsignedString(ThreadLocalRandom.current().nextLong());
            File made = new File(where, prefix + number + Objects.requireNonNullElse(suffix, ".tmp"));
            if (made.createNewFile()) {
                return made;
            }
        }
        throw new IOException("no name was free in " + where);
    }

    /** Makes a directory; whether that was done. */
    public boolean mkdir() {
        return done(Files::createDirectory);
    }

    /** Makes a directory and all that are missing on the way; whether it was missing too. */
    public boolean mkdirs() {
        return !exists() && done(Files::createDirectories);
    }

    /** Removes a file or an empty directory; whether that was done. */
    public boolean delete() {
        return done(Files::delete);
    }

    /** Has it removed when the program ends, if its vault is still mounted then. */
    public void deleteOnExit() {
        vault().deleteAtExit(toPath());
    }

    /** Moves it, in the place of what is at {@code to}; whether that was done. */
    public boolean renameTo(File to) {
        return done(path -> Files.move(path, to.toPath(), StandardCopyOption.ATOMIC_MOVE));
    }

    /** Sets when its content was last changed; whether that was done. */
    public boolean setLastModified(long millis) {
        if (millis < 0) {
            throw new IllegalArgumentException("a time before 1970");
        }
        return done(path -> Files.setLastModifiedTime(path, FileTime.fromMillis(millis)));
    }

    /** Lets nobody write it; whether that was done. It is a mark for programs: whoever has the key can write. */
    public boolean setReadOnly() {
        return setWritable(false, false);
    }

    /** Marks it; whether that was done. */
    public boolean setReadable(boolean readable) {
        return setReadable(readable, true);
    }

    /** Marks it; whether that was done. */
    public boolean setReadable(boolean readable, boolean ownerOnly) {
        return mark(readable, ownerOnly, "READ");
    }

    /** Marks it; whether that was done. */
    public boolean setWritable(boolean writable) {
        return setWritable(writable, true);
    }

    /** Marks it; whether that was done. */
    public boolean setWritable(boolean writable, boolean ownerOnly) {
        return mark(writable, ownerOnly, "WRITE");
    }

    /** Marks it; whether that was done. */
    public boolean setExecutable(boolean executable) {
        return setExecutable(executable, true);
    }

    /** Marks it; whether that was done. */
    public boolean setExecutable(boolean executable, boolean ownerOnly) {
        return mark(executable, ownerOnly, "EXECUTE");
    }

    private boolean mark(boolean on, boolean ownerOnly, String what) {
        return done(path -> {
            Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(path);
            for (String who : ownerOnly ? List.of("OWNER") : List.of("OWNER", "GROUP", "OTHERS")) {
                PosixFilePermission one = PosixFilePermission.valueOf(who + "_" + what);
                if (on) {
                    permissions.add(one);
                } else {
                    permissions.remove(one);
                }
            }
            Files.setPosixFilePermissions(path, permissions);
        });
    }

    /** Whether it is a symlink. */
    public boolean isSymbolicLink() {
        return ask(false, path -> Files.readAttributes(path, NodeAttributes.class, LinkOption.NOFOLLOW_LINKS).isSymbolicLink());
    }

    // ---- as any object

    @Override
    public int compareTo(File other) {
        return path.compareTo(other.path);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof File && ((File) other).path.equals(path) && ((File) other).fileSystem == fileSystem;
    }

    @Override
    public int hashCode() {
        return path.hashCode() ^ 1234321;
    }

    @Override
    public String toString() {
        return path;
    }
}
