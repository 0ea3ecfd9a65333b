/*
 * Every mistake of a program gives an error number, and never causes undefined behaviour: misuse FOLDER.
 * misuse FOLDER leave is a program that ends with everything open; misuse FOLDER return, exit or close one that ends amid calls of its threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "strongroom.h"

/* As assert, which a build may leave out. */
#define MUST(claim)                                                                             \
    do {                                                                                        \
        if (!(claim)) {                                                                         \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #claim, sr_error_message());        \
            exit(2);                                                                            \
        }                                                                                       \
    } while (0)

#define THREADS 64
#define ROUNDS 50
#define WRITERS 4
#define WRITES 20
#define ENDS 10
#define BUSY 8
#define BUSY_ENDS 12
#define BUSY_CALLS 64
/* A program that ends takes moments; one that hangs is ended by a signal. */
#define BUSY_SECONDS 60
/* So often in a row a write may say that the owner has gone; an owner that follows it takes moments. */
#define FAILURES_MAX 1000

static const char *base;
static sr_secret key;
static sr_bytes key_file;

static sr_options options(void)
{
    sr_options options = SR_OPTIONS_INIT;
    options.flags = SR_NO_RECORDS;
    return options;
}

static char *place(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

static sr_vault make(const char *name)
{
    sr_vault vault;
    sr_bytes code;
    sr_options how = options();
    MUST(sr_create(place(name), &key, 1, &how, &vault, &code) == 0);
    MUST(code.len > 30 && code.data[code.len] == 0);
    sr_bytes_free(&code);
    sr_bytes_free(&code);
    return vault;
}

static void handles(void)
{
    sr_vault vault = make("handles"), other = make("other"), none = { 0 };
    sr_file file, far;
    sr_stat stat;
    sr_directory directory;
    MUST(sr_file_open(vault, "/a", SR_WRITE | SR_CREATE, 0600, &file) == 0);
    MUST(sr_file_open(other, "/a", SR_WRITE | SR_CREATE, 0600, &far) == 0);
    MUST(sr_directory_open(vault, "/", &directory) == 0);

    /* Closed, and closed twice. */
    MUST(sr_file_close(file) == 0);
    MUST(sr_file_close(file) == -EBADF);
    MUST(sr_pwrite(file, "x", 1, 0) == -EBADF);
    MUST(strstr(sr_error_message(), "closed") != NULL);
    MUST(sr_directory_close(directory) == 0);
    MUST(sr_directory_close(directory) == -EBADF);

    /* Never opened, made up, and of another kind. */
    MUST(sr_sync(none) == -EBADF);
    for (uint64_t i = 0; i < 64; i++) {
        sr_vault guess = { UINT64_C(1) << i };
        if (guess.id != vault.id && guess.id != other.id)
            MUST(sr_sync(guess) == -EBADF);
    }
    MUST(sr_sync((sr_vault){ far.id }) == -EBADF);
    MUST(sr_file_get_stat((sr_file){ vault.id }, &stat) == -EBADF);
    MUST(sr_snapshot_close((sr_snapshot){ vault.id }) == -EBADF);
    MUST(sr_commit((sr_transaction){ vault.id }, SR_DURABLE) == -EBADF);
    MUST(sr_keys_close((sr_keys){ vault.id }) == -EBADF);
    MUST(sr_close((sr_vault){ far.id }) == -EBADF);

    /* Of another vault. */
    MUST(sr_file_name(vault, far, "/b") == -EINVAL);

    /* An old handle means nothing when its place is taken by a new one. */
    sr_file old = file;
    MUST(sr_file_open(vault, "/a", SR_READ, 0, &file) == 0);
    MUST(file.id != old.id);
    MUST(sr_file_get_stat(old, &stat) == -EBADF);

    /* What a vault opened goes with it. */
    sr_transaction transaction;
    sr_snapshot snapshot;
    sr_walk walk;
    MUST(sr_begin(vault, &transaction) == 0);
    MUST(sr_snapshot_open(vault, &snapshot) == 0);
    MUST(sr_walk_open(vault, "/", &walk) == 0);
    MUST(sr_directory_open(vault, "/", &directory) == 0);
    MUST(sr_close(vault) == 0);
    MUST(sr_close(vault) == -EBADF);
    sr_entry entry;
    sr_walk_entry met;
    MUST(sr_file_get_stat(file, &stat) == -EBADF);
    MUST(sr_directory_next(directory, &entry) == -EBADF);
    MUST(sr_walk_next(walk, &met) == -EBADF);
    MUST(sr_snapshot_exists(snapshot, "/a") == -EBADF);
    MUST(sr_roll_back(transaction) == -EBADF);
    MUST(sr_file_get_stat(far, &stat) == 0);
    MUST(sr_close(other) == 0);
}

#define PARTLY_BYTES (4 << 20)

/* Changes a byte in the third MiB of a segment. */
static int flip(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    const long where = 5 << 19;
    (void)at;
    if (kind == FTW_F && stat->st_size > where) {
        FILE *file = fopen(path, "r+b");
        int byte;
        MUST(file && fseek(file, where, SEEK_SET) == 0 && (byte = fgetc(file)) != EOF);
        MUST(fseek(file, where, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
    }
    return 0;
}

/* What was read before something failed is given, so that a program that tries again misses nothing. */
static void read_in_part(void)
{
    sr_vault vault = make("partly");
    sr_options how = options();
    sr_file file;
    char *content = malloc(PARTLY_BYTES), *found = malloc(PARTLY_BYTES);
    uint64_t random = 88172645463325252u;
    int64_t count;
    int i;
    MUST(content && found);
    for (i = 0; i < PARTLY_BYTES; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        content[i] = (char)random;
    }
    MUST(sr_write_file(vault, "/a", content, PARTLY_BYTES) == 0 && sr_close(vault) == 0);
    MUST(nftw(place("partly/segments"), flip, 8, FTW_PHYS) == 0);
    MUST(sr_open(place("partly"), &key, &how, &vault) == 0);
    MUST(sr_file_open(vault, "/a", SR_READ, 0, &file) == 0);
    count = sr_read(file, found, PARTLY_BYTES);
    MUST(count >= 2 << 20 && count < PARTLY_BYTES && memcmp(found, content, (size_t)count) == 0);
    MUST(sr_seek(file, 0, SR_FROM_CURRENT) == count);
    MUST(sr_read(file, found, PARTLY_BYTES) == -EIO && sr_seek(file, 0, SR_FROM_CURRENT) == count);
    MUST(sr_close(vault) == 0);
    free(content);
    free(found);
}

static void arguments(void)
{
    sr_vault vault = make("arguments");
    sr_file file;
    sr_bytes bytes;
    sr_stat stat;
    sr_set set = { 0 };
    sr_options how = options();
    sr_vault opened;
    char buffer[10];
    MUST(sr_read_file(vault, NULL, &bytes) == -EINVAL);
    MUST(sr_read_file(vault, "/a", NULL) == -EINVAL);
    MUST(sr_write_file(vault, "/a", NULL, 1) == -EINVAL);
    MUST(sr_write_file(vault, "/a", "x", UINT64_MAX) == -EINVAL);
    MUST(sr_write_file(vault, "/a", NULL, 0) == 0);
    MUST(sr_get_stat(vault, "/a", 7, &stat) == -EINVAL);
    MUST(sr_get_stat(vault, "/a", SR_FOLLOW, NULL) == -EINVAL);
    MUST(sr_set_stat(vault, "/a", SR_FOLLOW, NULL) == -EINVAL);
    set.what = 1 << 20;
    MUST(sr_set_stat(vault, "/a", SR_FOLLOW, &set) == -EINVAL);
    set.what = SR_SET_MTIME | SR_SET_MTIME_NOW;
    MUST(sr_set_stat(vault, "/a", SR_FOLLOW, &set) == -EINVAL);
    MUST(sr_file_open(vault, "/a", 1 << 10, 0, &file) == -EINVAL);
    MUST(sr_file_open(vault, "/a", 0, 0, &file) == -EINVAL);
    MUST(sr_file_open(vault, "/a", SR_READ, 0, NULL) == -EINVAL);
    MUST(sr_file_open(vault, "/a", SR_READ | SR_WRITE, 0, &file) == 0);
    MUST(sr_pread(file, buffer, sizeof buffer, UINT64_MAX) == -EINVAL);
    MUST(sr_pread(file, NULL, 1, 0) == -EINVAL);
    MUST(sr_pread(file, NULL, 0, 0) == 0);
    MUST(sr_pread(file, buffer, UINT64_MAX, 0) == -EINVAL);
    MUST(sr_pwrite(file, buffer, 1, (uint64_t)-1) == -EINVAL);
    MUST(sr_pwrite(file, buffer, 1, INT64_MAX) == -EFBIG);
    MUST(sr_file_truncate(file, (uint64_t)-1) == -EINVAL);
    MUST(sr_seek(file, 0, 9) == -EINVAL);
    MUST(sr_seek(file, -1, SR_FROM_START) == -EINVAL);
    MUST(sr_file_lock(file, 9) == -EINVAL);
    MUST(sr_file_allocate(file, 9, 0, 1) == -EINVAL);
    MUST(sr_file_find(file, 9, 0) == -EINVAL);
    MUST(sr_rename(vault, "/a", "/b", 9) == -EINVAL);
    MUST(sr_set_xattr(vault, "/a", SR_FOLLOW, "user.n", "x", 1, 9) == -EINVAL);
    MUST(sr_make_node(vault, "/s", SR_KIND_SYMLINK, 0, 0) == -EINVAL);
    MUST(sr_make_node(vault, "/s", 99, 0, 0) == -EINVAL);
    MUST(sr_replace_file(vault, "/a", "x", 1, 9) == -EINVAL);
    MUST(sr_take_snapshot(vault, "m", NULL, 1, false) == -EINVAL);
    MUST(sr_take_snapshot(vault, "\xff", NULL, 0, false) == -EINVAL);
    MUST(sr_settle_conflict(vault, "/a", 9, NULL) == -EINVAL);
    MUST(sr_pin(vault, NULL, NULL, NULL, NULL) == -EINVAL);
    MUST(sr_evict(vault, "/none", NULL, NULL, NULL) == -ENOENT);
    MUST(sr_prune_remote(vault, "none", 0, NULL, NULL, NULL) == -ENOENT);
    MUST(sr_check_remote(vault, "none", false, NULL, NULL, NULL) == -ENOENT);
    MUST(sr_backup(vault, "", NULL, NULL) == -EINVAL);
    MUST(sr_erase(vault, NULL, true, NULL) == -EINVAL);
    MUST(sr_exists(vault, "/a") == 1);

    /* Secrets and options. */
    sr_secret bad = key;
    MUST(sr_open(NULL, &key, &how, &opened) == -EINVAL);
    MUST(sr_open("", &key, &how, &opened) == -EINVAL);
    MUST(sr_open(place("arguments"), NULL, &how, &opened) == -EINVAL);
    bad.kind = 99;
    MUST(sr_open(place("arguments"), &bad, &how, &opened) == -EINVAL);
    bad.kind = SR_RECIPIENT;
    MUST(sr_open(place("arguments"), &bad, &how, &opened) == -EINVAL);
    bad = (sr_secret){ SR_RECOVERY_CODE, "ABCD", 4 };
    MUST(sr_open(place("arguments"), &bad, &how, &opened) == -EINVAL);
    bad = (sr_secret){ SR_PASSPHRASE, NULL, 5 };
    MUST(sr_open(place("arguments"), &bad, &how, &opened) == -EINVAL);
    MUST(sr_create(place("nobody"), NULL, 0, &how, &opened, NULL) == -EINVAL);
    how.flags = SR_ON_DEMAND;
    MUST(sr_open(place("arguments"), &key, &how, &opened) == -EINVAL);
    how.flags = 1 << 30;
    MUST(sr_open(place("arguments"), &key, &how, &opened) == -EINVAL);
    how = options();
    how.size = 3;
    MUST(sr_open(place("arguments"), &key, &how, &opened) == -EINVAL);
    how = options();
    how.fingerprint = "0000";
    MUST(sr_open(place("arguments"), &key, &how, &opened) == -EINVAL);
    /* A program that was compiled with an earlier, shorter header. */
    how = options();
    how.size = 12;
    how.fingerprint = (const char *)1;
    MUST(sr_open(place("arguments"), &key, &how, &opened) == 0);
    MUST(sr_close(opened) == 0);
    /* One that was compiled with a later, longer header: what it asks for is refused, and not left out. */
    struct {
        sr_options known;
        uint64_t later;
    } longer = { options(), 0 };
    longer.known.size = sizeof longer;
    MUST(sr_open(place("arguments"), &key, &longer.known, &opened) == 0);
    MUST(sr_close(opened) == 0);
    longer.later = UINT64_C(1) << 63;
    MUST(sr_open(place("arguments"), &key, &longer.known, &opened) == -E2BIG);
    MUST(strstr(sr_error_message(), "later version") != NULL);
    longer.known.size = UINT64_MAX;
    MUST(sr_open(place("arguments"), &key, &longer.known, &opened) == -E2BIG);

    /* A folder that the system cannot name. */
    size_t long_len = strlen(base) + 4200;
    char *endless = malloc(long_len + 1);
    MUST(endless);
    strcpy(endless, base);
    for (size_t i = strlen(base); i < long_len; i++)
        endless[i] = i % 100 == strlen(base) % 100 ? '/' : 'x';
    endless[long_len] = 0;
    how = options();
    MUST(sr_open(endless, &key, &how, &opened) < 0);
    MUST(sr_create(endless, &key, 1, &how, &opened, NULL) < 0);
    free(endless);

    /* The fingerprint that is meant, and another one. */
    sr_vault twin = make("twin");
    sr_bytes mine, theirs;
    MUST(sr_fingerprint(vault, &mine) == 0 && sr_fingerprint(twin, &theirs) == 0);
    MUST(sr_close(twin) == 0 && sr_close(vault) == 0);
    how = options();
    how.fingerprint = (const char *)theirs.data;
    MUST(sr_open(place("arguments"), &key, &how, &opened) == -EBADMSG);
    how.fingerprint = (const char *)mine.data;
    MUST(sr_open(place("arguments"), &key, &how, &opened) == 0);
    MUST(sr_close(opened) == 0);
    sr_bytes_free(&mine);
    sr_bytes_free(&theirs);

    /* Nothing to free is fine. */
    sr_bytes nothing = { 0 };
    sr_names no_names = { 0 };
    sr_bytes_free(NULL), sr_bytes_free(&nothing);
    sr_names_free(NULL), sr_names_free(&no_names);
    sr_slots_free(NULL), sr_snapshots_free(NULL), sr_pulled_free(NULL);
    sr_evicted_free(NULL), sr_information_free(NULL), sr_candidate_free(NULL);
}

static void recovery(void)
{
    sr_vault vault;
    sr_bytes code;
    sr_options how = options();
    MUST(sr_create(place("recovery"), NULL, 0, &how, &vault, &code) == 0);
    MUST(sr_close(vault) == 0);
    sr_secret spelled = { SR_RECOVERY_CODE, code.data, code.len };
    MUST(sr_open(place("recovery"), &spelled, &how, &vault) == 0);
    MUST(sr_is_owner(vault) == 1);
    MUST(sr_close(vault) == 0);
    sr_keys keys;
    sr_bytes slot;
    MUST(sr_keys_open(place("recovery"), &spelled, &how, &keys) == 0);
    MUST(sr_keys_unlocked_by(keys, &slot) == 0 && slot.len == 16);
    MUST(sr_keys_remove(keys, "0123456789abcdef") == -EINVAL);
    MUST(sr_keys_remove(keys, "x") == -EINVAL);
    MUST(sr_keys_remove(keys, (char *)slot.data) == -EINVAL);
    MUST(sr_keys_close(keys) == 0);
    sr_bytes_free(&slot);
    sr_bytes_free(&code);
}

/* ---- an owner that is killed */

/* First, while this process has nothing open. */
static void owners(void)
{
    int ready[2], status;
    char byte, kept[4];
    sr_vault vault;
    sr_file file, unsynced, gone;
    sr_options how = options();
    MUST(pipe(ready) == 0);
    pid_t owner = fork();
    MUST(owner >= 0);
    if (owner == 0) {
        vault = make("owners");
        MUST(sr_write_file(vault, "/a", "kept", 4) == 0 && sr_sync(vault) == 0);
        MUST(write(ready[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    MUST(read(ready[0], &byte, 1) == 1);
    how.flags |= SR_OWN;
    MUST(sr_open(place("owners"), &key, &how, &vault) == -EBUSY);
    how = options();
    MUST(sr_open(place("owners"), &key, &how, &vault) == 0);
    MUST(sr_is_owner(vault) == 0);
    MUST(sr_file_open(vault, "/a", SR_READ, 0, &file) == 0);
    MUST(sr_write_file(vault, "/gone", "x", 1) == 0);
    MUST(sr_file_open(vault, "/gone", SR_READ, 0, &gone) == 0);
    MUST(sr_remove(vault, "/gone") == 0 && sr_sync(vault) == 0);
    MUST(sr_file_open(vault, "/b", SR_READ | SR_WRITE | SR_CREATE, 0600, &unsynced) == 0);
    MUST(sr_file_sync(unsynced) == 0);
    MUST(sr_pwrite(unsynced, "lost?", 5, 0) == 5);
    MUST(kill(owner, SIGKILL) == 0 && waitpid(owner, &status, 0) == owner);
    MUST(sr_pread(file, kept, 4, 0) == 4 && memcmp(kept, "kept", 4) == 0);
    MUST(sr_is_owner(vault) == 1);
    MUST(sr_pread(gone, kept, 1, 0) == -ESTALE && sr_pread(gone, kept, 1, 0) == -ESTALE);
    MUST(sr_file_close(gone) == 0);
    MUST(sr_pread(unsynced, kept, 4, 0) == -ECONNABORTED);
    MUST(strstr(sr_error_message(), "has ended") != NULL);
    MUST(sr_file_close(unsynced) == 0);
    MUST(sr_check(vault, NULL) == 1);
    /* What the vault wrote may be lost, too; it is closed all the same. */
    MUST(sr_close(vault) == -ECONNABORTED);
    MUST(sr_check(vault, NULL) == -EBADF);
    MUST(close(ready[0]) == 0 && close(ready[1]) == 0);
}

/* ---- an owner that is killed in the middle of calls */

static sr_vault amid_vault;
static atomic_int acknowledged[WRITERS];
static atomic_bool amid_ends;

/* Writes one number after the other, each until it is acknowledged. */
static void *writes_numbers(void *number)
{
    char path[32], text[32];
    int me = (int)(intptr_t)number, failures = 0;
    snprintf(path, sizeof path, "/number-%d", me);
    while (!atomic_load(&amid_ends)) {
        int len = snprintf(text, sizeof text, "%d", atomic_load(&acknowledged[me]) + 1);
        int result = sr_replace_file(amid_vault, path, text, (uint64_t)len, SR_DURABLE);
        if (result == 0) {
            atomic_fetch_add(&acknowledged[me], 1);
            failures = 0;
        } else {
            MUST(result == -ECONNABORTED && ++failures < FAILURES_MAX);
        }
    }
    return NULL;
}

/* Until each writer has written so much more. */
static void wait_for_writes(void)
{
    int before[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        before[i] = atomic_load(&acknowledged[i]);
    for (int i = 0; i < WRITERS; i++)
        while (atomic_load(&acknowledged[i]) < before[i] + WRITES)
            sched_yield();
}

/* What was acknowledged as durable is there: the last number, or the one after it. */
static void owner_killed_amid_calls(void)
{
    int ready[2], status;
    char byte;
    pthread_t writers[WRITERS];
    sr_options how = options();
    MUST(pipe(ready) == 0);
    pid_t owner = fork();
    MUST(owner >= 0);
    if (owner == 0) {
        make("amid");
        MUST(write(ready[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    MUST(read(ready[0], &byte, 1) == 1);
    MUST(sr_open(place("amid"), &key, &how, &amid_vault) == 0 && sr_is_owner(amid_vault) == 0);
    for (intptr_t i = 0; i < WRITERS; i++)
        MUST(pthread_create(&writers[i], NULL, writes_numbers, (void *)i) == 0);
    wait_for_writes();
    MUST(kill(owner, SIGKILL) == 0 && waitpid(owner, &status, 0) == owner);
    wait_for_writes();
    atomic_store(&amid_ends, true);
    for (int i = 0; i < WRITERS; i++)
        MUST(pthread_join(writers[i], NULL) == 0);
    for (int i = 0; i < WRITERS; i++) {
        char path[32];
        sr_bytes found;
        snprintf(path, sizeof path, "/number-%d", i);
        MUST(sr_read_file(amid_vault, path, &found) == 0);
        long last = atomic_load(&acknowledged[i]), there = strtol((char *)found.data, NULL, 10);
        MUST(there == last || there == last + 1);
        sr_bytes_free(&found);
    }
    MUST(sr_is_owner(amid_vault) == 1 && sr_check(amid_vault, NULL) == 1);
    int result = sr_sync(amid_vault);
    MUST(result == 0 || result == -ECONNABORTED);
    MUST(sr_close(amid_vault) == 0);
    MUST(close(ready[0]) == 0 && close(ready[1]) == 0);
}

/* ---- progress */

struct heard {
    sr_vault vault;
    int calls;
    int stop;
    int inner;
};

static int hears(void *context, uint64_t bytes, uint64_t bytes_total)
{
    struct heard *heard = context;
    MUST(bytes <= bytes_total);
    heard->calls++;
    /* Files may be used; a remote would wait for itself. */
    MUST(sr_exists(heard->vault, "/a") == 1);
    heard->inner = sr_push(heard->vault, "stick", NULL, NULL, NULL);
    return heard->stop;
}

static void progress(void)
{
    sr_vault vault = make("progress");
    struct heard heard = { vault, 0, 0, 0 };
    char url[4200];
    char *content = calloc(1, 3 << 20);
    MUST(content);
    for (size_t i = 0; i < 3 << 20; i++)
        content[i] = (char)(i * 2654435761u >> 13);
    MUST(sr_write_file(vault, "/a", content, 3 << 20) == 0);
    free(content);
    snprintf(url, sizeof url, "folder:%s/stick", base);
    MUST(mkdir(place("stick"), 0700) == 0);
    MUST(sr_add_remote(vault, "stick", url, false) == 0);
    heard.stop = 1;
    MUST(sr_push(vault, "stick", hears, &heard, NULL) == -ECANCELED);
    MUST(heard.calls == 1 && heard.inner == -EDEADLK);
    heard = (struct heard){ vault, 0, 0, 0 };
    MUST(sr_push(vault, "stick", hears, &heard, NULL) == 0);
    MUST(heard.calls > 0 && heard.inner == -EDEADLK);
    MUST(sr_push(vault, "stick", NULL, NULL, NULL) == 0);
    sr_names damaged, problems;
    MUST(sr_verify(vault, true, NULL, NULL, &damaged, &problems) == 1);
    MUST(damaged.count == 0 && problems.count == 0);
    sr_names_free(&damaged);
    sr_names_free(&problems);
    MUST(sr_check(vault, &problems) == 1 && problems.count == 0);
    sr_names_free(&problems);
    MUST(sr_close(vault) == 0);
}

/* ---- space here and at remotes */

static int stops(void *context, uint64_t bytes, uint64_t bytes_total)
{
    (void)context, (void)bytes, (void)bytes_total;
    return 1;
}

/* Content that no compression makes small. */
static char *content_of(size_t len)
{
    char *content = malloc(len);
    uint32_t state = 1;
    MUST(content);
    for (size_t i = 0; i < len; i++) {
        state = state * 1664525u + 1013904223u;
        content[i] = (char)(state >> 24);
    }
    return content;
}

static char *remote_of(const char *name)
{
    static char url[4200];
    MUST(mkdir(place(name), 0700) == 0);
    snprintf(url, sizeof url, "folder:%s/%s", base, name);
    return url;
}

static uint64_t away(sr_vault vault)
{
    sr_information information;
    MUST(sr_get_information(vault, &information) == 0);
    uint64_t bytes = information.away_bytes;
    MUST(information.fingerprint.len > 0 && information.suite.len > 0 && !information.read_only);
    sr_information_free(&information);
    sr_information_free(&information);
    return bytes;
}

static void space(void)
{
    const size_t len = 9 << 20;
    sr_vault vault = make("space"), demanding;
    sr_evicted evicted;
    sr_brought brought;
    sr_pruned pruned;
    sr_pushed pushed;
    sr_pulled pulled;
    sr_remote remote;
    sr_remote_status status;
    sr_names names;
    uint64_t limit;
    sr_bytes found;
    char *content = content_of(len);
    MUST(sr_write_file(vault, "/a", content, len) == 0);
    char *url = remote_of("shelf");
    MUST(sr_add_remote(vault, "shelf", url, false) == 0);
    MUST(sr_get_remote(vault, "shelf", NULL) == -EINVAL && sr_get_remote(vault, "none", &remote) == -ENOENT);
    MUST(sr_get_remote(vault, "shelf", &remote) == 0 && strstr((char *)remote.url.data, "shelf") != NULL);
    MUST(remote.code.len == 0 && remote.publications == 0 && remote.objects == 0 && !remote.keeps);
    sr_remote_free(&remote);
    sr_remote_free(&remote);
    MUST(sr_get_remote_status(vault, "shelf", NULL) == -EINVAL);
    MUST(sr_get_remote_status(vault, "none", &status) == -ENOENT);
    MUST(sr_get_remote_status(vault, "shelf", &status) == 0);
    MUST(status.is_waiting && status.waiting_bytes > 8 << 20 && status.waiting_files == 1 && status.away_bytes == 0);
    MUST(status.newest == NULL && status.newest_count == 0);
    sr_remote_status_free(&status);
    MUST(sr_limit_remotes(vault, UINT64_C(1) << 40, 0) == 0);
    MUST(sr_push(vault, "shelf", NULL, NULL, &pushed) == 0);
    MUST(pushed.objects > 0 && pushed.bytes > 8 << 20 && pushed.publications > 0);
    MUST(sr_push(vault, "shelf", NULL, NULL, &pushed) == 0);
    MUST(pushed.objects == 0 && pushed.bytes == 0 && pushed.publications == 0);
    MUST(sr_get_remote(vault, "shelf", &remote) == 0);
    MUST(remote.code.len == 24 && remote.publications > 0 && remote.objects > 0);
    MUST(sr_get_remote_status(vault, "shelf", &status) == 0);
    MUST(!status.is_waiting && status.waiting_files == 0 && status.contact_s > 0);
    MUST(status.newest_count == 1 && status.newest[0].is_this && status.newest[0].number == remote.publications);
    MUST(status.newest[0].device.len == 16 && status.newest[0].name.data != NULL && status.newest[0].time_s > 0);
    sr_remote_status_free(&status);
    sr_remote_status_free(&status);
    sr_remote_free(&remote);
    MUST(sr_check_remote(vault, "shelf", true, NULL, NULL, &names) == 1 && names.count == 0);
    sr_names_free(&names);

    /* It goes, and comes back when it is read. */
    MUST(away(vault) == 0);
    MUST(sr_evict(vault, NULL, stops, NULL, &evicted) == -ECANCELED);
    MUST(sr_evict(vault, "/a", NULL, NULL, &evicted) == 0);
    MUST(evicted.segments > 0 && evicted.bytes > 0 && evicted.problems.count == 0);
    sr_evicted_free(&evicted);
    sr_evicted_free(&evicted);
    MUST(away(vault) > 0);
    MUST(sr_read_file(vault, "/a", &found) == 0);
    MUST(found.len == len && memcmp(found.data, content, len) == 0);
    sr_bytes_free(&found);
    MUST(away(vault) == 0);

    /* Or by a call. */
    MUST(sr_evict(vault, NULL, NULL, NULL, NULL) == 0 && away(vault) > 0);
    MUST(sr_bring_back(vault, NULL, stops, NULL, &brought) == -ECANCELED);
    MUST(sr_bring_back(vault, NULL, NULL, NULL, &brought) == 0);
    MUST(brought.segments > 0 && brought.lost == 0 && away(vault) == 0);

    /* What is pinned stays. */
    MUST(sr_pin(vault, "/a", NULL, NULL, &brought) == 0 && brought.segments == 0);
    MUST(sr_pins(vault, &names) == 0 && names.count == 1);
    MUST(strcmp((char *)names.items[0].data, "/a") == 0);
    sr_names_free(&names);
    MUST(sr_evict(vault, "/a", NULL, NULL, &evicted) == 0);
    MUST(evicted.pinned > 0 && away(vault) == 0);
    sr_evicted_free(&evicted);
    MUST(sr_unpin(vault, "/a") == 1 && sr_unpin(vault, "/a") == 0);
    MUST(sr_evict(vault, "/a", NULL, NULL, NULL) == 0 && away(vault) > 0);

    /* A clone that leaves content there. */
    sr_options how = options();
    how.flags |= SR_ON_DEMAND;
    MUST(sr_clone(url, place("demanding"), &key, &how, NULL, NULL) == 0);
    how = options();
    MUST(sr_open(place("demanding"), &key, &how, &demanding) == 0 && away(demanding) > 0);
    MUST(sr_sync_with(demanding, "origin", NULL, NULL, NULL) == 0);
    MUST(sr_read_file(demanding, "/a", &found) == 0);
    MUST(found.len == len && memcmp(found.data, content, len) == 0);
    sr_bytes_free(&found);
    MUST(sr_close(demanding) == 0);

    /* What nothing refers to is removed there. */
    MUST(sr_sync_with(vault, "shelf", NULL, NULL, NULL) == 0);
    MUST(sr_unused_at_remote(vault, "shelf", &pruned) == 0 && pruned.objects == 0);
    MUST(sr_prune_remote(vault, "shelf", UINT64_MAX, NULL, NULL, &pruned) == 0);
    MUST(sr_prune_remote(vault, "shelf", 0, NULL, NULL, &pruned) == 0);
    MUST(sr_check_remote(vault, "shelf", false, NULL, NULL, NULL) == 1);

    /* The limit of this device, which the next sync keeps. */
    MUST(sr_bring_back(vault, NULL, NULL, NULL, NULL) == 0 && away(vault) == 0);
    MUST(sr_get_keep_at_most(vault, NULL) == -EINVAL);
    MUST(sr_get_keep_at_most(vault, &limit) == 0 && limit == SR_NO_LIMIT);
    MUST(sr_set_keep_at_most(vault, 1) == 0);
    MUST(sr_get_keep_at_most(vault, &limit) == 0 && limit == 1);
    MUST(sr_sync_with(vault, "shelf", NULL, NULL, &pulled) == 0);
    MUST(pulled.evicted_segments > 0 && pulled.evicted_bytes > 0 && away(vault) > 0);
    sr_pulled_free(&pulled);
    MUST(sr_set_keep_at_most(vault, SR_NO_LIMIT) == 0);
    MUST(sr_get_keep_at_most(vault, &limit) == 0 && limit == SR_NO_LIMIT);

    /* Or a call at once. */
    MUST(sr_bring_back(vault, NULL, NULL, NULL, NULL) == 0 && away(vault) == 0);
    MUST(sr_evict_to_limit(vault, NULL, NULL, &evicted) == 0 && evicted.segments == 0 && away(vault) == 0);
    sr_evicted_free(&evicted);
    MUST(sr_set_keep_at_most(vault, 1) == 0);
    MUST(sr_evict_to_limit(vault, stops, NULL, NULL) == -ECANCELED && away(vault) == 0);
    MUST(sr_evict_to_limit(vault, NULL, NULL, &evicted) == 0);
    MUST(evicted.segments > 0 && evicted.bytes > 8 << 20 && evicted.problems.count == 0 && away(vault) > 0);
    sr_evicted_free(&evicted);
    MUST(sr_set_keep_at_most(vault, SR_NO_LIMIT) == 0);

    /* A copy of the folder, which is a vault. */
    MUST(sr_bring_back(vault, NULL, NULL, NULL, NULL) == 0);
    MUST(sr_remove_remote(vault, "shelf") == 0 && sr_add_remote(vault, "kept", url, true) == 0);
    MUST(sr_get_remote(vault, "kept", &remote) == 0 && remote.keeps);
    sr_remote_free(&remote);
    MUST(sr_prune_remote(vault, "kept", 0, NULL, NULL, NULL) == -EACCES);
    MUST(sr_backup(vault, place("copy"), stops, NULL) == -ECANCELED);
    MUST(sr_backup(vault, place("copy"), NULL, NULL) > 0);
    MUST(sr_accept_records(vault) == 0);
    MUST(sr_close(vault) == 0);
    free(content);
}

/* ---- the space that snapshots take, and what another device erased or wrote */

/* Whether the snapshot with the tag "with" has the content of the file that was erased. */
static bool has_secret(sr_vault vault)
{
    sr_snapshot then;
    sr_bytes found;
    MUST(sr_snapshot_at(vault, "t:with", &then) == 0);
    int result = sr_snapshot_read_file(then, "/secret", &found);
    MUST(result == 0 || result == -ENODATA);
    if (result == 0)
        sr_bytes_free(&found);
    MUST(sr_snapshot_close(then) == 0);
    return result == 0;
}

static void write_text(sr_vault vault, const char *text)
{
    MUST(sr_write_file(vault, "/text", text, strlen(text)) == 0);
}

static void thinned(sr_vault vault)
{
    sr_snapshots gone;
    MUST(sr_thin(vault, NULL) == 0);
    MUST(sr_thin(vault, &gone) == 0 && gone.count == 0);
    sr_snapshots_free(&gone);
    /* The newest of each hour stays, and one hour at most begins between these. */
    for (int i = 0; i < 3; i++)
        MUST(sr_take_snapshot(vault, "scheduled", NULL, 0, false) == 1);
    int64_t count = sr_thin(vault, &gone);
    MUST(count >= 1 && count <= 2 && gone.count == (uint64_t)count);
    MUST(strcmp((char *)gone.items[0].message.data, "scheduled") == 0 && strlen(gone.items[0].id) == 64);
    MUST(sr_remove_snapshot(vault, gone.items[0].id) == -ENOENT);
    sr_snapshots_free(&gone);
    sr_snapshots_free(&gone);
}

/* Another copy of the vault gets a key, and this one its header: nobody here made that change, and it is no damage. */
static void waiting(void)
{
    char header[4200];
    sr_vault vault = make("waiting");
    sr_options how = options();
    sr_bytes more;
    sr_keys keys;
    sr_names damaged, problems;
    MUST(sr_backup(vault, place("elsewhere"), NULL, NULL) >= 0 && sr_close(vault) == 0);
    /* From now on it is a vault of its own. */
    MUST(unlink(place("elsewhere/backup")) == 0);
    MUST(sr_make_key_file(&more) == 0);
    sr_secret added = { SR_KEY_FILE, more.data, more.len };
    MUST(sr_keys_open(place("elsewhere"), &key, &how, &keys) == 0);
    MUST(sr_keys_add(keys, "elsewhere", &added) == 0 && sr_keys_close(keys) == 0);
    sr_bytes_free(&more);
    snprintf(header, sizeof header, "%s", place("elsewhere/vault.json"));
    MUST(rename(header, place("waiting/vault.json")) == 0);
    MUST(sr_open(place("waiting"), &key, &how, &vault) == 0);
    MUST(sr_verify(vault, false, NULL, NULL, &damaged, &problems) == 2 && damaged.count == 0);
    MUST(problems.count == 1 && problems.items[0].len > 0);
    sr_names_free(&problems);
    sr_names_free(&problems);
    MUST(sr_accept_records(vault) == 0);
    MUST(sr_verify(vault, false, NULL, NULL, NULL, NULL) == 1);
    MUST(sr_verify(vault, false, NULL, NULL, NULL, &problems) == 1 && problems.count == 0);
    MUST(sr_close(vault) == 0);
}

static void ruled(void)
{
    sr_vault vault = make("ruled");
    const sr_retention nothing = { 0 }, two_days = { .daily = 2, .whose = SR_UNNAMED };
    sr_retention rule = { .daily = 1, .whose = 99 };
    MUST(sr_get_retention(vault, NULL) == -EINVAL && sr_get_shared_retention(vault, NULL) == -EINVAL);
    MUST(sr_set_retention(vault, NULL) == -EINVAL && sr_set_retention(vault, &rule) == -EINVAL);
    MUST(sr_set_retention(vault, &nothing) == -EINVAL);
    MUST(sr_get_retention(vault, &rule) == 0 && rule.hourly == 24 && rule.whose == SR_SCHEDULED);
    MUST(sr_set_retention(vault, &two_days) == 0);
    MUST(sr_get_retention(vault, &rule) == 1 && memcmp(&rule, &two_days, sizeof rule) == 0);
    /* A vault without remotes shares none. */
    MUST(sr_get_shared_retention(vault, &rule) == 0 && rule.daily == 30);
    rule = (sr_retention){ .last = SR_ALL_SNAPSHOTS };
    MUST(sr_set_retention(vault, &rule) == 0);
    MUST(sr_get_retention(vault, &rule) == 1 && rule.last == SR_ALL_SNAPSHOTS);
    MUST(sr_close(vault) == 0);
}

static void erased_and_merged(void)
{
    const size_t len = 400000;
    const char *tag = "with";
    sr_vault vault = make("erased"), other;
    sr_options how = options();
    sr_usage usage;
    sr_erased erased;
    sr_pulled pulled;
    char *content = content_of(len);
    thinned(vault);
    char *url = remote_of("archive");
    MUST(sr_add_remote(vault, "archive", url, false) == 0);
    write_text(vault, "a\nb\nc\nd\ne\nf\ng\nh\n");
    MUST(sr_write_file(vault, "/secret", content, len) == 0);
    MUST(sr_take_snapshot(vault, "with it", &tag, 1, false) == 1);
    MUST(sr_sync_with(vault, "archive", NULL, NULL, NULL) == 0);
    MUST(sr_clone(url, place("erased.two"), &key, &how, NULL, NULL) == 0);
    MUST(sr_open(place("erased.two"), &key, &how, &other) == 0);
    MUST(sr_sync_with(other, "origin", NULL, NULL, NULL) == 0);
    MUST(sr_sync_with(vault, "archive", NULL, NULL, NULL) == 0);

    /* Only what is not there any more is erased; a trial says how much that is. */
    MUST(sr_erase(vault, "/secret", true, NULL) == -EINVAL);
    MUST(sr_erase(vault, "/none", true, NULL) == -ENOENT);
    MUST(sr_get_usage(vault, NULL) == -EINVAL);
    MUST(sr_sync(vault) == 0 && sr_get_usage(vault, &usage) == 0 && usage.live_bytes >= len && usage.kept_bytes < len);
    /* Content of a removed file counts as live until its references are given back, as the trial does. */
    MUST(sr_remove(vault, "/secret") == 0);
    MUST(sr_erase(vault, "/secret", true, &erased) == 0);
    MUST(sr_get_usage(vault, &usage) == 0 && usage.live_bytes < len && usage.kept_bytes >= len);
    MUST(erased.snapshots >= 1 && erased.files >= 1 && erased.bytes >= len);
    MUST(has_secret(vault));
    MUST(sr_erase(vault, "/secret", false, &erased) == 0);
    MUST(erased.snapshots >= 1 && erased.files >= 1 && erased.bytes >= len);
    MUST(erased.shared_bytes == 0 && erased.segments_left == 0);
    MUST(!has_secret(vault));
    MUST(sr_get_usage(vault, &usage) == 0 && usage.kept_bytes < len);

    /* The next sync of another device erases it there and says so. It also says which texts have the lines of both. */
    write_text(vault, "one\nb\nc\nd\ne\nf\ng\nh\n");
    write_text(other, "a\nb\nc\nd\ne\nf\ng\ntwo\n");
    MUST(has_secret(other));
    MUST(sr_sync_with(vault, "archive", NULL, NULL, NULL) == 0);
    MUST(sr_sync_with(other, "origin", NULL, NULL, &pulled) == 0);
    MUST(pulled.objects > 0 && pulled.publications > 0 && pulled.nodes > 0 && pulled.conflicts == 0);
    MUST(pulled.erased_bytes >= len && pulled.unerased_bytes == 0 && pulled.erase_problems.count == 0);
    MUST(pulled.merged == 1 && pulled.merged_paths.count == 1);
    MUST(strcmp((char *)pulled.merged_paths.items[0].data, "/text") == 0);
    MUST(pulled.pushed.objects > 0 && pulled.pushed.bytes > 0 && pulled.pushed.publications > 0);
    MUST(pulled.evicted_segments == 0 && pulled.evicted_bytes == 0);
    sr_pulled_free(&pulled);
    sr_pulled_free(&pulled);
    MUST(!has_secret(other));
    MUST(sr_close(other) == 0 && sr_close(vault) == 0);
    free(content);
}

/* ---- continuous sync */

struct listening {
    sr_vault vault;
    sr_continuous_sync sync;
    bool ends_itself;
    int answer;
    sem_t known, done;
    atomic_bool is_over;
};

static int listens(void *context, const sr_sync_event *event)
{
    struct listening *me = context;
    MUST(!atomic_load(&me->is_over));
    if (event->kind != SR_SYNC_DONE || event->pushed_objects == 0)
        return 0;
    MUST(strcmp(event->remote, "stick") == 0 && !event->message && event->error == 0);
    MUST(event->pulled && event->pulled->conflicts == 0);
    /* Files may be used; what would wait for this thread is refused. */
    MUST(sr_exists(me->vault, "/a") == 1);
    MUST(sr_push(me->vault, "stick", NULL, NULL, NULL) == -EDEADLK);
    MUST(sr_close(me->vault) == -EDEADLK);
    if (me->ends_itself) {
        while (sem_wait(&me->known) != 0)
            MUST(errno == EINTR);
        MUST(sr_continuous_sync_finish(me->sync) == -EDEADLK);
        MUST(sr_continuous_sync_close(me->sync) == 0);
        MUST(sr_continuous_sync_close(me->sync) == -EBADF);
    }
    if (me->ends_itself || me->answer != 0)
        atomic_store(&me->is_over, true);
    MUST(sem_post(&me->done) == 0);
    return me->answer;
}

static void listen_begins(struct listening *me, bool ends_itself, int answer)
{
    me->ends_itself = ends_itself;
    me->answer = answer;
    atomic_store(&me->is_over, false);
    MUST(sem_init(&me->known, 0, 0) == 0 && sem_init(&me->done, 0, 0) == 0);
    MUST(sr_keep_in_sync(me->vault, 1000, listens, me, &me->sync) == 0);
    MUST(sem_post(&me->known) == 0);
}

static void wait_for_sync(struct listening *me)
{
    while (sem_wait(&me->done) != 0)
        MUST(errno == EINTR);
}

/* In a function that hears of another call, the sync may be what that call waits for. */
static int closes_sync(void *context, uint64_t bytes, uint64_t bytes_total)
{
    struct listening *me = context;
    (void)bytes, (void)bytes_total;
    MUST(sr_continuous_sync_close(me->sync) == -EDEADLK);
    return 0;
}

static void syncing(void)
{
    /* What the library holds while a thread of it is in a call of ours. */
    static struct listening by_hand, by_answer, by_itself, by_vault;
    sr_vault vault = make("syncing");
    by_hand.vault = by_answer.vault = by_itself.vault = by_vault.vault = vault;
    MUST(sr_write_file(vault, "/a", "one", 3) == 0);
    MUST(mkdir(place("syncing.stick"), 0700) == 0);
    char url[4200];
    snprintf(url, sizeof url, "folder:%s/syncing.stick", base);
    MUST(sr_add_remote(vault, "stick", url, false) == 0);

    /* It is ended by a call, twice. */
    listen_begins(&by_hand, false, 0);
    wait_for_sync(&by_hand);
    MUST(sr_write_file(vault, "/b", "two", 3) == 0);
    wait_for_sync(&by_hand);
    MUST(sr_verify(vault, false, closes_sync, &by_hand, NULL, NULL) == 1);
    MUST(sr_continuous_sync_finish(by_hand.sync) == 0);
    MUST(sr_continuous_sync_finish(by_hand.sync) == -EBADF);
    MUST(sr_continuous_sync_close(by_hand.sync) == -EBADF);
    atomic_store(&by_hand.is_over, true);

    /* By what its function gives: the handle stays until it is closed. */
    MUST(sr_write_file(vault, "/c", "three", 5) == 0);
    listen_begins(&by_answer, false, 1);
    wait_for_sync(&by_answer);
    MUST(sr_write_file(vault, "/d", "four", 4) == 0);
    MUST(sr_continuous_sync_close(by_answer.sync) == 0);
    MUST(sr_continuous_sync_close(by_answer.sync) == -EBADF);

    /* By its function itself. */
    listen_begins(&by_itself, true, 0);
    wait_for_sync(&by_itself);
    MUST(sr_continuous_sync_close(by_itself.sync) == -EBADF);

    /* Not by a child that was forked; and with its vault. */
    sr_continuous_sync silent;
    MUST(sr_write_file(vault, "/e", "five", 4) == 0);
    listen_begins(&by_vault, false, 0);
    wait_for_sync(&by_vault);
    MUST(sr_keep_in_sync(vault, 0, NULL, NULL, &silent) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(sr_continuous_sync_close(by_vault.sync) == -EBADF
              && sr_continuous_sync_finish(silent) == -EBADF ? 0 : 3);
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(sr_close(vault) == 0);
    atomic_store(&by_vault.is_over, true);
    MUST(sr_continuous_sync_close(by_vault.sync) == -EBADF);
    MUST(sr_continuous_sync_close(silent) == -EBADF);
}

/* ---- pairing */

struct meeting {
    sr_new_device device;
    sr_keys keys;
    int calls;
};

/* What another thread may hold while it waits for a remote is refused; the device may be asked, and nobody waits for himself. */
static int meets(void *context, uint64_t bytes, uint64_t bytes_total)
{
    struct meeting *me = context;
    sr_bytes shown;
    sr_slots slots;
    (void)bytes, (void)bytes_total;
    MUST(sr_new_device_fingerprint(me->device, &shown) == 0);
    sr_bytes_free(&shown);
    MUST(sr_keys_list(me->keys, &slots) == -EDEADLK);
    MUST(sr_invitation_tries_left((sr_invitation){ 0 }) == -EDEADLK);
    me->calls++;
    return 0;
}

static void pairing(void)
{
    sr_vault vault = make("pairing"), joined;
    sr_invitation invitation;
    sr_new_device device;
    sr_candidate candidate;
    sr_bytes code, shown, own;
    sr_keys keys;
    sr_options how = options();
    MUST(sr_write_file(vault, "/a", "for both", 8) == 0);
    char *url = remote_of("meeting");
    MUST(sr_invite(vault, "meeting", &invitation, &code) == -ENOENT);
    MUST(sr_add_remote(vault, "meeting", url, false) == 0);
    MUST(sr_push(vault, "meeting", NULL, NULL, NULL) == 0);
    MUST(sr_invite(vault, "meeting", &invitation, &code) == 0);
    MUST(sr_keys_open(place("pairing"), &key, &how, &keys) == 0);
    MUST(sr_invitation_look(invitation, &candidate) == 0);
    MUST(sr_invitation_admit(invitation, "", keys) == -EINVAL);
    MUST(sr_invitation_refuse(invitation, "") == -EINVAL);

    MUST(sr_make_key_file(&own) == 0);
    sr_secret secret = { SR_KEY_FILE, own.data, own.len };
    MUST(sr_new_device_make(url, &secret, "", &device) == -EINVAL);
    MUST(sr_new_device_make(url, &secret, "laptop", &device) == 0);
    MUST(sr_new_device_look(device) == -EINVAL);
    MUST(sr_new_device_clone(device, place("laptop"), &how, NULL, NULL) == -EINVAL);
    MUST(sr_new_device_ask(device, "no code") == -EINVAL);

    /* Another code: both hear of it, and the next try is good. */
    char *last = (char *)code.data + code.len - 1;
    char right = *last;
    *last = right == '0' ? '1' : '0';
    MUST(sr_new_device_ask(device, (char *)code.data) == 0);
    *last = right;
    MUST(sr_invitation_look(invitation, &candidate) == 0);
    MUST(sr_new_device_look(device) == 0);
    MUST(sr_invitation_tries_left(invitation) == 5);
    MUST(sr_invitation_look(invitation, &candidate) == 0);
    MUST(sr_invitation_tries_left(invitation) == 4);
    MUST(sr_new_device_look(device) == -EACCES);

    MUST(sr_new_device_ask(device, (char *)code.data) == 0);
    MUST(sr_invitation_look(invitation, &candidate) == 0);
    MUST(sr_new_device_look(device) == 0);
    MUST(sr_invitation_look(invitation, &candidate) == 1);
    MUST(sr_new_device_fingerprint(device, &shown) == 0);
    MUST(strcmp((char *)candidate.name.data, "laptop") == 0);
    MUST(strcmp((char *)candidate.fingerprint.data, (char *)shown.data) == 0);
    sr_candidate_free(&candidate);
    sr_candidate_free(&candidate);
    MUST(sr_invitation_admit(invitation, "another", keys) == -EINVAL);
    sr_vault stranger = make("stranger");
    sr_keys foreign;
    MUST(sr_keys_open(place("stranger"), &key, &how, &foreign) == 0);
    MUST(sr_invitation_admit(invitation, (char *)shown.data, foreign) == -EINVAL);
    MUST(sr_keys_close(foreign) == 0 && sr_close(stranger) == 0);
    MUST(sr_invitation_admit(invitation, (char *)shown.data, keys) == 0);
    MUST(sr_new_device_look(device) == 1 && sr_new_device_look(device) == 1);
    MUST(sr_invitation_look(invitation, &candidate) == -EINVAL);
    MUST(sr_invitation_close(invitation) == 0 && sr_invitation_close(invitation) == -EBADF);
    struct meeting meeting = { device, keys, 0 };
    MUST(sr_new_device_clone(device, place("laptop"), &how, meets, &meeting) == 0 && meeting.calls > 0);
    MUST(sr_new_device_close(device) == 0 && sr_new_device_close(device) == -EBADF);
    MUST(sr_open(place("laptop"), &secret, &how, &joined) == 0);
    MUST(sr_exists(joined, "/a") == 1);
    MUST(sr_sync_with(joined, "origin", NULL, NULL, NULL) == 0);
    MUST(sr_close(joined) == 0);

    /* An offer goes with its vault. */
    sr_bytes_free(&code);
    MUST(sr_invite(vault, "meeting", &invitation, &code) == 0);
    MUST(sr_close(vault) == 0 && sr_keys_close(keys) == 0);
    MUST(sr_invitation_close(invitation) == -EBADF);
    sr_bytes_free(&code), sr_bytes_free(&shown), sr_bytes_free(&own);
}

/* ---- threads and signals */

static sr_vault shared_vault;
static sr_file shared_file;
static volatile sig_atomic_t ticks;

static void tick(int number)
{
    (void)number;
    ticks++;
}

static void *works(void *number)
{
    char path[32], text[32], found[32];
    int me = (int)(intptr_t)number;
    snprintf(path, sizeof path, "/thread-%d", me);
    for (int i = 0; i < ROUNDS; i++) {
        sr_file own;
        sr_stat stat;
        int len = snprintf(text, sizeof text, "%d of %d", i, me);
        MUST(sr_write_file(shared_vault, path, text, (uint64_t)len) == 0);
        MUST(sr_file_open(shared_vault, path, SR_READ, 0, &own) == 0);
        MUST(sr_pread(own, found, sizeof found, 0) == len && memcmp(found, text, (size_t)len) == 0);
        MUST(sr_file_close(own) == 0);
        MUST(sr_pwrite(shared_file, text, 1, (uint64_t)me) == 1);
        MUST(sr_get_stat(shared_vault, "/none", SR_FOLLOW, &stat) == -ENOENT);
        MUST(strstr(sr_error_message(), "no such file") != NULL);
    }
    return NULL;
}

static void *closes(void *nothing)
{
    (void)nothing;
    return (void *)(intptr_t)sr_close(shared_vault);
}

static void *reads_until_closed(void *nothing)
{
    char byte;
    int64_t result;
    (void)nothing;
    while ((result = sr_pread(shared_file, &byte, 1, 0)) == 1)
        ;
    return (void *)(intptr_t)result;
}

static void threads(void)
{
    pthread_t all[THREADS];
    struct sigaction action = { .sa_handler = tick };
    struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
    shared_vault = make("threads");
    MUST(sr_file_open(shared_vault, "/shared", SR_READ | SR_WRITE | SR_CREATE, 0600, &shared_file) == 0);
    /* Without SA_RESTART, so that every system call of the library may be interrupted. */
    MUST(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (intptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&all[i], NULL, works, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(all[i], NULL) == 0);
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
    MUST(sr_check(shared_vault, NULL) == 1);

    /* Closed by one thread while others read. */
    for (int i = 0; i < 8; i++)
        MUST(pthread_create(&all[i], NULL, reads_until_closed, NULL) == 0);
    MUST(pthread_create(&all[8], NULL, closes, NULL) == 0);
    for (int i = 0; i < 9; i++) {
        void *result;
        MUST(pthread_join(all[i], &result) == 0);
        MUST((intptr_t)result == (i < 8 ? -EBADF : 0));
    }
}

/* ---- fork */

static void forks(void)
{
    sr_vault vault = make("forks"), other;
    sr_file file;
    sr_options how = options();
    MUST(sr_file_open(vault, "/a", SR_READ | SR_WRITE | SR_CREATE, 0600, &file) == 0);
    MUST(sr_pwrite(file, "parent", 6, 0) == 6);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        char byte;
        int good = sr_pread(file, &byte, 1, 0) == -EBADF && sr_sync(vault) == -EBADF
            && sr_close(vault) == -EBADF && sr_file_close(file) == -EBADF
            && sr_open(place("other"), &key, &how, &other) == -EOPNOTSUPP;
        /* Not exit: what the parent registered for its own end is not for this process. */
        _exit(good ? 0 : 3);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char found[6];
    MUST(sr_pread(file, found, 6, 0) == 6 && memcmp(found, "parent", 6) == 0);
    MUST(sr_close(vault) == 0);
    /* Nothing is open: a child may begin. */
    child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(sr_open(place("forks"), &key, &how, &other) == 0 && sr_exists(other, "/a") == 1
              && sr_close(other) == 0 ? 0 : 3);
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A program that is started keeps neither the lock of a vault nor its files. */
static void started(void)
{
    int input[2], status;
    sr_vault vault = make("started");
    sr_file file;
    sr_options own = options();
    own.flags |= SR_OWN;
    MUST(sr_file_open(vault, "/a", SR_WRITE | SR_CREATE, 0600, &file) == 0);
    MUST(sr_file_lock(file, SR_LOCK_EXCLUSIVE) == 0);
    MUST(pipe(input) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        dup2(input[0], 0);
        close(input[0]);
        close(input[1]);
        execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    MUST(sr_close(vault) == 0);
    MUST(sr_open(place("started"), &key, &own, &vault) == 0);
    MUST(waitpid(child, &status, WNOHANG) == 0);
    MUST(sr_close(vault) == 0);
    MUST(close(input[0]) == 0 && close(input[1]) == 0);
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- a program that ends with everything open */

static void keep_key(void)
{
    FILE *kept = fopen(place("leave.key"), "wb");
    MUST(kept && fwrite(key_file.data, 1, key_file.len, kept) == key_file.len && fclose(kept) == 0);
}

static void take_key(void)
{
    static char kept[4096];
    FILE *file = fopen(place("leave.key"), "rb");
    MUST(file);
    key = (sr_secret){ SR_KEY_FILE, kept, fread(kept, 1, sizeof kept, file) };
    MUST(fclose(file) == 0);
}

static int leave(void)
{
    take_key();
    static sr_vault vault;
    static sr_file open_file;
    static sr_transaction transaction;
    static sr_snapshot snapshot;
    static sr_walk walk;
    sr_options how = options();
    MUST(sr_open(place("leave"), &key, &how, &vault) == 0);
    MUST(sr_file_open(vault, "/open", SR_WRITE | SR_CREATE, 0600, &open_file) == 0);
    MUST(sr_pwrite(open_file, "unsynced", 8, 0) == 8);
    MUST(sr_replace_file(vault, "/kept", "durable", 7, SR_DURABLE) == 0);
    MUST(sr_begin(vault, &transaction) == 0);
    MUST(sr_snapshot_open(vault, &snapshot) == 0);
    MUST(sr_walk_open(vault, "/", &walk) == 0);
    return 0;
}

static void ends(const char *program)
{
    sr_vault vault = make("leave");
    sr_options own = options();
    own.flags |= SR_OWN;
    keep_key();
    MUST(sr_close(vault) == 0);
    for (int i = 0; i < ENDS; i++) {
        int status;
        sr_bytes kept;
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            execl(program, program, base, "leave", (char *)NULL);
            _exit(127);
        }
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        MUST(sr_open(place("leave"), &key, &own, &vault) == 0);
        MUST(sr_read_file(vault, "/kept", &kept) == 0 && kept.len == 7);
        sr_bytes_free(&kept);
        MUST(sr_check(vault, NULL) == 1);
        MUST(sr_close(vault) == 0);
    }
}

/* ---- a program that ends while its threads are in the middle of calls */

static sr_vault busy_vault;
static sem_t busy_calls, busy_kept;
static atomic_bool busy_ends;
/* For each thread that writes the number that was in its file when its last durable write had returned. */
static int busy_file;

/* Whether the thread goes on: calls may fail once the program ends, and not before. */
static bool busy_went(int result)
{
    if (result == 0) {
        MUST(sem_post(&busy_calls) == 0);
        return true;
    }
    if (!atomic_load(&busy_ends)) {
        fprintf(stderr, "%d: %s\n", result, sr_error_message());
        _exit(3);
    }
    return false;
}

static void *busy_writes(void *number)
{
    char path[32];
    uint64_t count;
    off_t place_of_count = (off_t)sizeof count * (off_t)(intptr_t)number;
    snprintf(path, sizeof path, "/own-%d", (int)(intptr_t)number);
    if (pread(busy_file, &count, sizeof count, place_of_count) != (ssize_t)sizeof count)
        _exit(4);
    for (;;) {
        count++;
        if (!busy_went(sr_replace_file(busy_vault, path, &count, sizeof count, SR_DURABLE)))
            return NULL;
        if (pwrite(busy_file, &count, sizeof count, place_of_count) != (ssize_t)sizeof count)
            _exit(4);
        sem_post(&busy_kept);
    }
}

static void *busy_reads(void *number)
{
    char path[32];
    static char content[100000];
    snprintf(path, sizeof path, "/loose-%d", (int)(intptr_t)number);
    for (;;) {
        sr_bytes found;
        sr_stat stat;
        if (!busy_went(sr_write_file(busy_vault, path, content, sizeof content))
            || !busy_went(sr_get_stat(busy_vault, path, SR_FOLLOW, &stat))
            || !busy_went(sr_read_file(busy_vault, path, &found)))
            return NULL;
        sr_bytes_free(&found);
    }
}

static void *busy_exits(void *nothing)
{
    (void)nothing;
    exit(0);
}

/* What it gives is not looked at: it was registered before the vault was opened, so the library ends before it. */
static void busy_closes(void)
{
    sr_close(busy_vault);
}

static int busy(const char *way)
{
    pthread_t thread;
    sr_options own = options();
    own.flags |= SR_OWN;
    alarm(BUSY_SECONDS);
    take_key();
    if (strcmp(way, "close") == 0)
        MUST(atexit(busy_closes) == 0);
    busy_file = open(place("acknowledged"), O_RDWR);
    MUST(busy_file >= 0 && sem_init(&busy_calls, 0, 0) == 0 && sem_init(&busy_kept, 0, 0) == 0);
    MUST(sr_open(place("busy"), &key, &own, &busy_vault) == 0);
    for (intptr_t i = 0; i < BUSY; i++)
        MUST(pthread_create(&thread, NULL, i % 2 ? busy_reads : busy_writes, (void *)i) == 0);
    for (int i = 0; i < BUSY_CALLS; i++)
        while (sem_wait(&busy_calls) != 0)
            MUST(errno == EINTR);
    /* The calls may all have been those of readers. */
    while (sem_wait(&busy_kept) != 0)
        MUST(errno == EINTR);
    atomic_store(&busy_ends, true);
    if (strcmp(way, "exit") == 0) {
        MUST(pthread_create(&thread, NULL, busy_exits, NULL) == 0);
        for (;;)
            pause();
    }
    return 0;
}

static void ends_amid_calls(const char *program)
{
    static const char *const ways[] = { "return", "exit", "close" };
    uint64_t counts[BUSY] = { 0 }, found;
    sr_options own = options();
    own.flags |= SR_OWN;
    sr_vault vault = make("busy");
    MUST(sr_close(vault) == 0);
    keep_key();
    int file = open(place("acknowledged"), O_RDWR | O_CREAT, 0600);
    MUST(file >= 0 && pwrite(file, counts, sizeof counts, 0) == (ssize_t)sizeof counts);
    for (int i = 0; i < BUSY_ENDS; i++) {
        int status;
        sr_bytes kept;
        sr_names damaged;
        uint64_t before = counts[0];
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            execl(program, program, base, ways[i % 3], (char *)NULL);
            _exit(127);
        }
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        MUST(pread(file, counts, sizeof counts, 0) == (ssize_t)sizeof counts);
        MUST(sr_open(place("busy"), &key, &own, &vault) == 0);
        for (int writer = 0; writer < BUSY; writer += 2) {
            char path[32];
            snprintf(path, sizeof path, "/own-%d", writer);
            if (counts[writer] == 0)
                continue;
            MUST(sr_read_file(vault, path, &kept) == 0 && kept.len == sizeof found);
            memcpy(&found, kept.data, sizeof found);
            sr_bytes_free(&kept);
            MUST(found >= counts[writer]);
        }
        MUST(sr_verify(vault, true, NULL, NULL, &damaged, NULL) == 1 && damaged.count == 0);
        sr_names_free(&damaged);
        MUST(sr_close(vault) == 0);
        MUST(counts[0] >= before);
    }
    /* Each round had durable writes, so this tried something. */
    MUST(counts[0] + counts[2] + counts[4] + counts[6] >= BUSY_ENDS);
    MUST(close(file) == 0);
}

int main(int argc, char **argv)
{
    MUST(argc == 2 || argc == 3);
    base = argv[1];
    if (argc == 3)
        return strcmp(argv[2], "leave") == 0 ? leave() : busy(argv[2]);
    MUST(sr_abi() == SR_ABI && strlen(sr_version()) > 4);
    MUST(sr_make_key_file(&key_file) == 0);
    key = (sr_secret){ SR_KEY_FILE, key_file.data, key_file.len };
    owners();
    owner_killed_amid_calls();
    handles();
    read_in_part();
    arguments();
    recovery();
    progress();
    space();
    waiting();
    ruled();
    erased_and_merged();
    syncing();
    pairing();
    threads();
    forks();
    started();
    ends(argv[0]);
    ends_amid_calls(argv[0]);
    sr_bytes_free(&key_file);
    printf("all refused, nothing broken\n");
    return 0;
}
