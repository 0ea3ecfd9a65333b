package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Random;
import org.apache.commons.compress.archivers.examples.Archiver;
import org.apache.commons.compress.archivers.examples.Expander;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarFile;
import org.apache.commons.io.file.PathUtils;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.CheckIndex;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.LockObtainFailedException;
import org.apache.lucene.store.NIOFSDirectory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Libraries that do not know vaults work on one. */
class LibrariesTest {
    private static final int DOCUMENTS = 10_000;

    @TempDir
    Path place;

    private Vault vault;

    @BeforeEach
    void make() throws Exception {
        try (Secret secret = Secret.keyFile(Secret.newKeyFile())) {
            vault = Vault.create(place.resolve("vault"), new VaultOptions().withoutRecords(), secret);
        }
    }

    @AfterEach
    void close() throws Exception {
        vault.close();
    }

    @Test
    void luceneIndexesAndSearches() throws Exception {
        try (NIOFSDirectory directory = new NIOFSDirectory(vault.path("/index"))) {
            IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
            try (IndexWriter writer = new IndexWriter(directory, config)) {
                Random random = new Random(1);
                for (int number = 0; number < DOCUMENTS; number++) {
                    Document document = new Document();
                    document.add(new StringField("id", String.valueOf(number), Field.Store.YES));
                    document.add(new TextField("text", "word" + number % 100 + " noise" + random.nextInt(1000), Field.Store.YES));
                    writer.addDocument(document);
                    if (number % 1000 == 999) {
                        writer.commit();
                    }
                }
                Assertions.assertThrows(
                        LockObtainFailedException.class,
                        () -> new IndexWriter(directory, new IndexWriterConfig(new StandardAnalyzer())));
                writer.deleteDocuments(new Term("id", "5"));
                writer.forceMerge(1);
            }
            try (DirectoryReader reader = DirectoryReader.open(directory)) {
                assertEquals(DOCUMENTS - 1, reader.numDocs());
                IndexSearcher searcher = new IndexSearcher(reader);
                assertEquals(DOCUMENTS / 100, searcher.count(new TermQuery(new Term("text", "word7"))));
                assertEquals(DOCUMENTS / 100 - 1, searcher.count(new TermQuery(new Term("text", "word5"))));
            }
            try (CheckIndex check = new CheckIndex(directory)) {
                assertTrue(check.checkIndex().clean);
            }
        }
        assertTrue(vault.verify(true, null).sound);
    }

    @Test
    void commonsIoCopiesAndDeletesTrees() throws Exception {
        Path disk = Files.createDirectories(place.resolve("tree/deep"));
        byte[] data = new byte[300_000];
        new Random(2).nextBytes(data);
        Files.write(disk.resolve("data"), data);
        Files.writeString(disk.resolveSibling("text"), "x");
        PathUtils.copyDirectory(place.resolve("tree"), vault.path("/tree"));
        assertArrayEquals(data, Files.readAllBytes(vault.path("/tree/deep/data")));
        assertTrue(PathUtils.fileContentEquals(disk.resolve("data"), vault.path("/tree/deep/data")));
        assertEquals(300_001, PathUtils.sizeOfDirectory(vault.path("/tree")));
        PathUtils.copyDirectory(vault.path("/tree"), vault.path("/again"));
        assertTrue(PathUtils.directoryAndFileContentEquals(vault.path("/tree"), vault.path("/again")));
        assertEquals(2, PathUtils.countDirectory(vault.path("/tree")).getFileCounter().get());
        PathUtils.deleteDirectory(vault.path("/tree"));
        assertTrue(Files.notExists(vault.path("/tree")));
    }

    /** Through streams and seekable channels, and by the attributes that tar keeps. */
    @Test
    void commonsCompressPacksAndUnpacksTrees() throws Exception {
        Path tree = Files.createDirectories(vault.path("/tree/deep"));
        byte[] data = new byte[300_000];
        new Random(3).nextBytes(data);
        Files.write(tree.resolve("data"), data);
        Files.setLastModifiedTime(tree.resolve("data"), FileTime.fromMillis(1_777_000_000_000L));
        Files.writeString(vault.path("/tree/text"), "x".repeat(5000));
        for (String format : new String[] {"zip", "tar"}) {
            Path archive = vault.path("/tree." + format);
            new Archiver().create(format, archive, vault.path("/tree"));
            new Expander().expand(format, archive, vault.path("/out-" + format));
            assertTrue(PathUtils.directoryAndFileContentEquals(vault.path("/tree"), vault.path("/out-" + format)), format);
        }
        try (TarFile tar = new TarFile(vault.path("/tree.tar"))) {
            TarArchiveEntry entry = tar.getEntries().stream().filter(one -> one.getName().equals("deep/data")).findFirst().orElseThrow();
            assertEquals(300_000, entry.getSize());
            assertEquals(FileTime.fromMillis(1_777_000_000_000L), entry.getLastModifiedTime());
            assertEquals((int) Files.getAttribute(tree.resolve("data"), "unix:uid"), entry.getLongUserId());
        }
    }
}
