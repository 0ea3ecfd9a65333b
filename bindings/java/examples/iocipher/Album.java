import info.guardianproject.iocipher.File;
import info.guardianproject.iocipher.FileInputStream;
import info.guardianproject.iocipher.FileOutputStream;
import info.guardianproject.iocipher.FileReader;
import info.guardianproject.iocipher.FileWriter;
import info.guardianproject.iocipher.IOCipherFileChannel;
import info.guardianproject.iocipher.RandomAccessFile;
import info.guardianproject.iocipher.VirtualFileSystem;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/**
 * A program written for IOCipher, in the steps of its documentation: Album CONTAINER PASSWORD PICTURE. It makes the container at its first
 * run, mounts it, puts a picture of the disk into it, and lists what it has. On a vault it runs with other imports, and no other change.
 */
public final class Album {
    private Album() {}

    public static void main(String[] arguments) throws IOException {
        String container = arguments[0];
        String password = arguments[1];
        VirtualFileSystem vfs = VirtualFileSystem.get();
        if (!new java.io.File(container).exists()) {
            vfs.createNewContainer(container, password);
        }
        vfs.mount(container, password);
        try {
            if (!new File("/album").exists()) {
                for (int year = 2025; year < 2027; year++) {
                    new File("/album/" + year + "/best").mkdirs();
                }
            }
            File picture = new File("/album/2026", new java.io.File(arguments[2]).getName());
            copy(new java.io.FileInputStream(arguments[2]), new BufferedOutputStream(new FileOutputStream(picture)));
            count(new File("/album/runs"));
            show(new File("/album"));
            System.out.println("the same content: " + isSame(arguments[2], picture));
            System.out.println("runs: " + line(new File("/album/runs")));
            System.out.println("last byte: " + last(picture));
        } finally {
            vfs.unmount();
        }
        System.out.println("mounted: " + vfs.isMounted());
    }

    private static void copy(InputStream in, OutputStream out) throws IOException {
        try {
            byte[] block = new byte[8 * 1024];
            for (int count = in.read(block); count >= 0; count = in.read(block)) {
                out.write(block, 0, count);
            }
        } finally {
            in.close();
            out.close();
        }
    }

    /** A directory in brackets, then what is in it. */
    private static void show(File file) {
        System.out.println(file.isDirectory() ? "[" + file.getPath() + "]" : file.getPath() + " " + file.length());
        File[] inside = file.listFiles();
        if (inside != null) {
            java.util.Arrays.sort(inside);
            for (File one : inside) {
                show(one);
            }
        }
    }

    private static boolean isSame(String onDisk, File inside) throws IOException {
        try (InputStream one = new BufferedInputStream(new java.io.FileInputStream(onDisk));
                InputStream other = new BufferedInputStream(new FileInputStream(inside))) {
            int read;
            do {
                read = one.read();
                if (read != other.read()) {
                    return false;
                }
            } while (read >= 0);
            return true;
        }
    }

    private static void count(File file) throws IOException {
        int before = file.exists() ? Integer.parseInt(line(file)) : 0;
        File next = new File(file.getParentFile(), "next");
        try (FileWriter writer = new FileWriter(next)) {
            writer.write(String.valueOf(before + 1));
        }
        if (!next.renameTo(file)) {
            throw new IOException("the count could not be kept");
        }
    }

    private static String line(File file) throws IOException {
        try (BufferedReader reader = new BufferedReader(new FileReader(file))) {
            return reader.readLine();
        }
    }

    private static int last(File file) throws IOException {
        try (RandomAccessFile access = new RandomAccessFile(file, "r")) {
            IOCipherFileChannel channel = access.getChannel();
            channel.position(channel.size() - 1);
            return access.read();
        }
    }
}
