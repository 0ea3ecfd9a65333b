/*
 * Measures what calls cost in C, on a vault and on the plain file system. The head of measure.rs says how all of these programs are
 * used, and what they print.
 *
 *     measure vault|plain FOLDER calls|pieces|files NUMBER ROUNDS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <strongroom.h>

enum {
    PAGE_BYTES = 4096,
    MIB = 1 << 20,
    PAGES = 256,
    MIBS = 16,
    SMALL_READS_PER_LARGE = 50,
    FILE_BYTES = 5000,
    STAMP_BYTES = 8,
    PATH_BYTES = 4096,
};

static bool on_vault;
static const char *folder;
static sr_vault vault;
/* What is measured now: a file of either kind, where it is on the disk, and what is read into. */
static sr_file file;
static int descriptor;
static char content_path[PATH_BYTES];
static _Alignas(PAGE_BYTES) uint8_t buffer[MIB];
static const char *separator = "{";

static void fail(const char *what)
{
    fprintf(stderr, "measure: %s: %s\n", what, on_vault ? sr_error_message() : strerror(errno));
    exit(1);
}

static void refuse(const char *what)
{
    fprintf(stderr, "measure: %s\n", what);
    exit(1);
}

static void *allocated(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL)
        refuse("no memory");
    return memory;
}

static void disk_path(char *path, const char *name)
{
    if (snprintf(path, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
        refuse("the path is too long");
}

/* ---- numbers at the beginning of pages and files, as measure.rs writes them */

static void stamp(uint8_t *content, uint64_t number)
{
    for (int byte = 0; byte < STAMP_BYTES; byte++)
        content[byte] = (uint8_t)(number >> (8 * byte));
}

static void check(const uint8_t *content, uint64_t number)
{
    uint8_t wanted[STAMP_BYTES];
    stamp(wanted, number);
    if (memcmp(content, wanted, STAMP_BYTES) != 0)
        refuse("a page or a file is not what was written");
}

/* ---- time */

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void print(const char *name, const double *taken, uint64_t rounds)
{
    printf("%s\"%s\": [", separator, name);
    for (uint64_t round = 0; round < rounds; round++)
        printf("%s%.1f", round == 0 ? "" : ", ", taken[round]);
    printf("]");
    separator = ", ";
}

/* Prints the nanoseconds of one of `count` calls in each round, after a round that warms up. Each call must give `wanted`. */
static void print_timed(const char *name, int64_t (*call)(uint64_t), int64_t wanted, uint64_t count, uint64_t rounds)
{
    double *taken = allocated((rounds + 1) * sizeof *taken);
    for (uint64_t round = 0; round <= rounds; round++) {
        double start = now_ns();
        for (uint64_t number = 0; number < count; number++) {
            if (call(number) != wanted)
                fail(name);
        }
        taken[round] = (now_ns() - start) / (double)count;
    }
    print(name, taken + 1, rounds);
    free(taken);
}

/* ---- calls */

static int64_t read_of_vault(uint64_t bytes, uint64_t offset)
{
    return sr_pread(file, buffer, bytes, offset);
}

static int64_t read_of_disk(uint64_t bytes, uint64_t offset)
{
    return pread(descriptor, buffer, bytes, (off_t)offset);
}

static int64_t small_of_vault(uint64_t number)
{
    return read_of_vault(PAGE_BYTES, number % PAGES * PAGE_BYTES);
}

static int64_t small_of_disk(uint64_t number)
{
    return read_of_disk(PAGE_BYTES, number % PAGES * PAGE_BYTES);
}

static int64_t large_of_vault(uint64_t number)
{
    return read_of_vault(MIB, number % MIBS * MIB);
}

static int64_t large_of_disk(uint64_t number)
{
    return read_of_disk(MIB, number % MIBS * MIB);
}

static int64_t stat_of_vault(uint64_t number)
{
    sr_stat found;
    (void)number;
    return sr_get_stat(vault, "/content", SR_FOLLOW, &found);
}

static int64_t stat_of_disk(uint64_t number)
{
    struct stat found;
    (void)number;
    return stat(content_path, &found);
}

static void open_content(void)
{
    if (on_vault) {
        if (sr_file_open(vault, "/content", SR_READ, 0, &file) < 0)
            fail("opening the file");
    } else {
        descriptor = open(content_path, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            fail("opening the file");
    }
}

static void close_content(void)
{
    if ((on_vault ? sr_file_close(file) : close(descriptor)) < 0)
        fail("closing the file");
}

static void calls(uint64_t count, uint64_t rounds)
{
    open_content();
    for (uint64_t number = 0; number < (uint64_t)MIBS * MIB / PAGE_BYTES; number++) {
        uint64_t offset = number * PAGE_BYTES;
        int64_t found = on_vault ? read_of_vault(PAGE_BYTES, offset) : read_of_disk(PAGE_BYTES, offset);
        if (found != PAGE_BYTES)
            fail("reading");
        check(buffer, number);
    }
    print_timed("read_4k", on_vault ? small_of_vault : small_of_disk, PAGE_BYTES, count, rounds);
    print_timed("read_1m", on_vault ? large_of_vault : large_of_disk, MIB, count / SMALL_READS_PER_LARGE, rounds);
    print_timed("stat", on_vault ? stat_of_vault : stat_of_disk, 0, count, rounds);
    close_content();
}

/* ---- the large file */

static int64_t read_pieces(uint64_t number)
{
    uint64_t at = 0;
    (void)number;
    open_content();
    for (;;) {
        int64_t found = on_vault ? sr_read(file, buffer, MIB) : read(descriptor, buffer, MIB);
        if (found < 0)
            fail("reading");
        if (found == 0)
            break;
        if (at % PAGE_BYTES == 0)
            check(buffer, at / PAGE_BYTES);
        at += (uint64_t)found;
    }
    close_content();
    return (int64_t)at;
}

/* ---- many small files */

static void name_of(char *path, uint64_t number)
{
    char name[64];
    snprintf(name, sizeof name, "files/%06llu", (unsigned long long)number);
    if (on_vault)
        snprintf(path, PATH_BYTES, "/%s", name);
    else
        disk_path(path, name);
}

static void write_small(const char *path, const uint8_t *content)
{
    if (on_vault) {
        if (sr_write_file(vault, path, content, FILE_BYTES) < 0)
            fail("writing a file");
        return;
    }
    int opened = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (opened < 0 || write(opened, content, FILE_BYTES) != FILE_BYTES || close(opened) < 0)
        fail("writing a file");
}

static void read_small(const char *path, uint64_t number)
{
    if (on_vault) {
        sr_bytes found;
        if (sr_read_file(vault, path, &found) < 0)
            fail("reading a file");
        if (found.len != FILE_BYTES)
            refuse("a file has another length");
        check(found.data, number);
        sr_bytes_free(&found);
        return;
    }
    struct stat size;
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0 || fstat(opened, &size) < 0)
        fail("reading a file");
    if (size.st_size != FILE_BYTES)
        refuse("a file has another length");
    uint8_t *found = allocated((size_t)size.st_size);
    if (read(opened, found, (size_t)size.st_size) != size.st_size || close(opened) < 0)
        fail("reading a file");
    check(found, number);
    free(found);
}

static void sync_all(void)
{
    if (on_vault) {
        if (sr_sync(vault) < 0)
            fail("syncing");
        return;
    }
    int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0 || syncfs(opened) < 0 || close(opened) < 0)
        fail("syncing");
}

static void files(uint64_t count, uint64_t rounds)
{
    double *written = allocated(3 * rounds * sizeof *written);
    double *read = written + rounds, *removed = read + rounds;
    uint8_t content[FILE_BYTES];
    char directory[PATH_BYTES], path[PATH_BYTES];
    memset(content, 'x', sizeof content);
    if (on_vault)
        strcpy(directory, "/files");
    else
        disk_path(directory, "files");

    for (uint64_t round = 0; round < rounds; round++) {
        if ((on_vault ? sr_make_directory(vault, directory, 0755) : mkdir(directory, 0755)) < 0)
            fail("making a directory");
        double start = now_ns();
        for (uint64_t number = 0; number < count; number++) {
            stamp(content, number);
            name_of(path, number);
            write_small(path, content);
        }
        sync_all();
        written[round] = now_ns() - start;

        start = now_ns();
        for (uint64_t number = 0; number < count; number++) {
            name_of(path, number);
            read_small(path, number);
        }
        read[round] = now_ns() - start;

        start = now_ns();
        for (uint64_t number = 0; number < count; number++) {
            name_of(path, number);
            if ((on_vault ? sr_remove(vault, path) : unlink(path)) < 0)
                fail("removing a file");
        }
        if ((on_vault ? sr_remove_directory(vault, directory) : rmdir(directory)) < 0)
            fail("removing a directory");
        sync_all();
        removed[round] = now_ns() - start;
    }
    print("written", written, rounds);
    print("read", read, rounds);
    print("removed", removed, rounds);
    free(written);
}

/* ---- the beginning and the end */

static void open_vault(void)
{
    char key_path[PATH_BYTES], key[1024];
    if (snprintf(key_path, sizeof key_path, "%s.key", folder) >= PATH_BYTES)
        refuse("the path is too long");
    FILE *key_file = fopen(key_path, "rb");
    if (key_file == NULL)
        refuse("there is no key beside the vault");
    size_t len = fread(key, 1, sizeof key, key_file);
    fclose(key_file);
    sr_secret secret = { SR_KEY_FILE, key, len };
    sr_options options = SR_OPTIONS_INIT;
    options.flags = SR_OWN | SR_NO_RECORDS;
    if (sr_open(folder, &secret, &options, &vault) < 0)
        fail("opening the vault");
}

int main(int argc, char **argv)
{
    if (argc != 6)
        refuse("measure vault|plain FOLDER calls|pieces|files NUMBER ROUNDS");
    const char *part = argv[3];
    uint64_t number = strtoull(argv[4], NULL, 10), rounds = strtoull(argv[5], NULL, 10);
    on_vault = strcmp(argv[1], "vault") == 0;
    folder = argv[2];
    if (on_vault)
        open_vault();
    else
        disk_path(content_path, "content");

    if (strcmp(part, "calls") == 0)
        calls(number, rounds);
    else if (strcmp(part, "pieces") == 0)
        print_timed("pieces", read_pieces, (int64_t)number, 1, rounds);
    else if (strcmp(part, "files") == 0)
        files(number, rounds);
    else
        refuse("measure vault|plain FOLDER calls|pieces|files NUMBER ROUNDS");

    if (on_vault && sr_close(vault) < 0)
        fail("closing the vault");
    printf("}\n");
    return 0;
}
