/* What the tests of libsqlfs do, with its calls and at its sizes, on a vault: libsqlfs FOLDER. No other header of Strongroom is included. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlfs.h"

#define SIZE_MAX_TRIED 1000000
#define PLACES 1000

/* Threads that open a vault at once, and how often. */
#define THREADS 4
#define ROUNDS 5

/* In libsqlfs_shared.c. */
int is_dir_for_another_file(const char *path);

static char content[SIZE_MAX_TRIED + 1], found[SIZE_MAX_TRIED + 1];

static char letter(int place)
{
    return (char)(place % 90 + 32);
}

/* With every flag set, as its tests have it. */
static void make(sqlfs_t *sqlfs, const char *path, int size)
{
    struct fuse_file_info fi = { 0 };
    fi.flags |= ~0;
    assert(sqlfs_proc_write(sqlfs, path, content, (size_t)size, 0, &fi) == size);
}

static long size_of(sqlfs_t *sqlfs, const char *path)
{
    struct stat stat;
    assert(sqlfs_proc_getattr(sqlfs, path, &stat) == 0);
    return (long)stat.st_size;
}

static void directories(sqlfs_t *sqlfs)
{
    assert(sqlfs_proc_mkdir(sqlfs, "/one", 0777) == 0 && sqlfs_is_dir(sqlfs, "/one"));
    sqlfs_proc_mkdir(sqlfs, "/a/b/c/d", 0777);
    assert(!sqlfs_is_dir(sqlfs, "/a/b/c/d"));
    sqlfs_proc_mkdir(sqlfs, "/one/two", 0777);
    sqlfs_proc_mkdir(sqlfs, "/one/two/three", 0777);
    assert(sqlfs_is_dir(sqlfs, "/one/two/three"));
    assert(sqlfs_proc_rmdir(sqlfs, "/one/two/three") == 0 && !sqlfs_is_dir(sqlfs, "/one/two/three"));
}

static void made_and_cut(sqlfs_t *sqlfs)
{
    const char *paths[] = { "/first", "/second", "/third" };
    struct fuse_file_info fi = { 0 };
    struct stat stat;
    int i;
    for (i = 0; i < 3; i++) {
        sqlfs_proc_getattr(sqlfs, paths[i], &stat);
        assert(errno == ENOENT);
        sqlfs_proc_create(sqlfs, paths[i], 0100644, &fi);
        assert(size_of(sqlfs, paths[i]) == 0);
        sqlfs_proc_release(sqlfs, paths[i], &fi);
    }
    sqlfs_proc_truncate(sqlfs, "/first", 0);
    assert(size_of(sqlfs, "/first") == 0);
    sqlfs_proc_truncate(sqlfs, "/first", 100000);
    assert(size_of(sqlfs, "/first") == 100000);
    sqlfs_proc_truncate(sqlfs, "/first", 0);
    assert(size_of(sqlfs, "/first") == 0);
}

/* A write at the start, and one far behind it. */
static void skipped(sqlfs_t *sqlfs)
{
    const char *near = "at the start", *far = "far behind it";
    int near_len = (int)strlen(near), far_len = (int)strlen(far), offset;
    struct fuse_file_info fi = { 0 };
    fi.flags |= O_RDWR | O_CREAT;
    for (offset = 100; offset <= SIZE_MAX_TRIED; offset *= 100) {
        assert(sqlfs_proc_write(sqlfs, "/skipped", near, (size_t)near_len, 0, &fi) == near_len);
        assert(sqlfs_proc_write(sqlfs, "/skipped", far, (size_t)far_len, offset, &fi) == far_len);
        assert(size_of(sqlfs, "/skipped") == offset + far_len);
        assert(sqlfs_proc_read(sqlfs, "/skipped", found, (size_t)near_len, 0, &fi) == near_len);
        assert(memcmp(found, near, (size_t)near_len) == 0);
        assert(sqlfs_proc_read(sqlfs, "/skipped", found, (size_t)far_len, offset, &fi) == far_len);
        assert(memcmp(found, far, (size_t)far_len) == 0);
    }
}

/* Around its blocks of 8 KiB. */
static void boundaries(sqlfs_t *sqlfs)
{
    int blocks, more;
    struct fuse_file_info fi = { 0 };
    fi.flags |= O_RDWR | O_CREAT;
    for (blocks = 1; blocks < 5; blocks++) {
        for (more = -1; more <= 1; more++) {
            char path[40];
            int size = blocks * 8192 + more;
            snprintf(path, sizeof path, "/boundary-%d", size);
            assert(sqlfs_proc_write(sqlfs, path, content, (size_t)size, 0, &fi) == size);
            assert(size_of(sqlfs, path) == size);
            assert(sqlfs_proc_read(sqlfs, path, found, (size_t)size, 0, &fi) == size);
            assert(memcmp(found, content, (size_t)size) == 0);
        }
    }
}

static void appended(sqlfs_t *sqlfs)
{
    struct fuse_file_info appends, reads = { 0 };
    make(sqlfs, "/appended", 200);
    /* As its tests: the rest is whatever was there. */
    memset(&appends, 0x55, sizeof appends);
    appends.flags = O_WRONLY | O_APPEND;
    appends.direct_io = 0;
    assert(sqlfs_proc_open(sqlfs, "/appended", &appends) == 0);
    assert(sqlfs_proc_write(sqlfs, "/appended", content, 200, 0, &appends) == 200);
    assert(size_of(sqlfs, "/appended") == 400);
    assert(sqlfs_proc_read(sqlfs, "/appended", found, 200, 200, &reads) == 200);
    assert(memcmp(found, content, 200) == 0);
    assert(sqlfs_proc_release(sqlfs, "/appended", &appends) == 0);
}

/* What is there is not opened in place of a new file, what is created to be appended to is appended to, and O_TRUNC empties. */
static void created(sqlfs_t *sqlfs)
{
    struct fuse_file_info fi = { 0 };
    make(sqlfs, "/there", 200);
    fi.flags = O_WRONLY | O_CREAT | O_EXCL;
    assert(sqlfs_proc_create(sqlfs, "/there", 0100644, &fi) == -EEXIST && errno == EEXIST && fi.fh == 0);
    assert(sqlfs_proc_create(sqlfs, "/created", 0100644, &fi) == 0);
    assert(sqlfs_proc_release(sqlfs, "/created", &fi) == 0);
    fi.flags = O_WRONLY | O_CREAT | O_APPEND;
    assert(sqlfs_proc_create(sqlfs, "/there", 0100644, &fi) == 0);
    assert(sqlfs_proc_write(sqlfs, "/there", "more", 4, 0, &fi) == 4);
    assert(sqlfs_proc_release(sqlfs, "/there", &fi) == 0);
    assert(size_of(sqlfs, "/there") == 204);
    assert(sqlfs_proc_read(sqlfs, "/there", found, 204, 0, &fi) == 204);
    assert(memcmp(found, content, 200) == 0 && memcmp(found + 200, "more", 4) == 0);
    fi.flags = O_WRONLY | O_CREAT | O_TRUNC;
    assert(sqlfs_proc_create(sqlfs, "/there", 0100644, &fi) == 0);
    assert(sqlfs_proc_write(sqlfs, "/there", "less", 4, 0, &fi) == 4);
    assert(sqlfs_proc_release(sqlfs, "/there", &fi) == 0);
    assert(size_of(sqlfs, "/there") == 4);
}

/* 0, or the number of what went wrong: not 1 or 0. */
static void trees(sqlfs_t *sqlfs)
{
    assert(sqlfs_proc_mkdir(sqlfs, "/tree", 0777) == 0);
    make(sqlfs, "/tree/leaf", 10);
    make(sqlfs, "/leaf", 10);
    assert(sqlfs_del_tree(sqlfs, "/tree") == 0 && !sqlfs_is_dir(sqlfs, "/tree"));
    assert(sqlfs_del_tree(sqlfs, "/leaf") == 0);
    errno = 0;
    assert(sqlfs_del_tree(sqlfs, "/tree") == -ENOENT && errno == ENOENT);
}

static void of_size(sqlfs_t *sqlfs, int size)
{
    struct fuse_file_info fi = { 0 };
    char path[40];
    int i;
    snprintf(path, sizeof path, "/size-%d", size);
    make(sqlfs, path, size);
    assert(sqlfs_proc_read(sqlfs, path, found, (size_t)size + 1, 0, &fi) == size);
    assert(memcmp(found, content, (size_t)size) == 0);
    fi.flags |= ~0;
    for (i = 0; i < PLACES; i++) {
        int place = (int)((long)i * 7919 % size);
        assert(sqlfs_proc_read(sqlfs, path, found, 1, place, &fi) == 1 && found[0] == letter(place));
    }
    sqlfs_proc_truncate(sqlfs, path, 0);
    assert(size_of(sqlfs, path) == 0);
    make(sqlfs, path, size);
    memset(&fi, 0x55, sizeof fi);
    fi.flags = O_WRONLY | O_CREAT | O_TRUNC;
    fi.direct_io = 0;
    assert(sqlfs_proc_open(sqlfs, path, &fi) == 0);
    assert(size_of(sqlfs, path) == 0);
    assert(sqlfs_proc_release(sqlfs, path, &fi) == 0);
}

static void files(sqlfs_t *sqlfs)
{
    int size;
    directories(sqlfs);
    made_and_cut(sqlfs);
    skipped(sqlfs);
    boundaries(sqlfs);
    appended(sqlfs);
    created(sqlfs);
    trees(sqlfs);
    for (size = 10; size <= SIZE_MAX_TRIED; size *= 10)
        of_size(sqlfs, size);
}

static void passwords(const char *folder)
{
    sqlfs_t *sqlfs = NULL;
    char endless[600];
    memset(endless, 'A', sizeof endless);
    endless[sizeof endless - 1] = 0;
    assert(sqlfs_open_password(folder, "First Password", &sqlfs) && sqlfs_close(sqlfs));
    assert(!sqlfs_open_password(folder, endless, &sqlfs) && sqlfs == NULL);
    assert(!sqlfs_open_password(folder, "fakesecret", &sqlfs) && sqlfs == NULL);
    assert(sqlfs_open_password(folder, "First Password", &sqlfs));
    files(sqlfs);
    assert(sqlfs_change_password(folder, "First Password", "New Password"));
    assert(sqlfs_close(sqlfs));
    assert(!sqlfs_open_password(folder, "First Password", &sqlfs));
    assert(sqlfs_open_password(folder, "New Password", &sqlfs));
    assert(size_of(sqlfs, "/appended") == 400);
    assert(sqlfs_close(sqlfs));
}

/* A key that is in a key file. */
static void keys(const char *folder)
{
    sqlfs_t *sqlfs = NULL;
    sr_bytes key, other;
    assert(sr_make_key_file(&key) == 0 && sr_make_key_file(&other) == 0);
    assert(sqlfs_open_key(folder, key.data, (size_t)key.len, &sqlfs) && sqlfs_close(sqlfs));
    assert(!sqlfs_open_key(folder, key.data, (size_t)key.len / 2, &sqlfs) && sqlfs == NULL);
    assert(!sqlfs_open_key(folder, other.data, (size_t)other.len, &sqlfs) && sqlfs == NULL && errno == EACCES);
    assert(!sqlfs_open_key(folder, (const uint8_t *)content, 32, &sqlfs) && sqlfs == NULL);
    assert(sqlfs_open_key(folder, key.data, (size_t)key.len, &sqlfs));
    make(sqlfs, "/by-key", 100);
    assert(sqlfs_close(sqlfs));
    sr_bytes_free(&key);
    sr_bytes_free(&other);
}

/* Raw keys, as libsqlfs has them. */
static void raw_keys(const char *folder)
{
    sqlfs_t *sqlfs = NULL;
    uint8_t first[REQUIRED_KEY_LENGTH], second[REQUIRED_KEY_LENGTH];
    char digits[2 * REQUIRED_KEY_LENGTH + 1];
    int i;
    for (i = 0; i < REQUIRED_KEY_LENGTH; i++) {
        first[i] = (uint8_t)(7 * i);
        second[i] = (uint8_t)(255 - i);
        snprintf(digits + 2 * i, 3, "%02x", second[i]);
    }
    assert(!sqlfs_open_key(folder, first, sizeof first - 1, &sqlfs) && sqlfs == NULL && errno == EINVAL);
    assert(!sqlfs_open_key(folder, NULL, sizeof first, &sqlfs) && sqlfs == NULL && errno == EINVAL);
    assert(sqlfs_open_key(folder, first, sizeof first, &sqlfs));
    make(sqlfs, "/by-raw-key", 100);
    assert(sqlfs_close(sqlfs));
    assert(!sqlfs_open_key(folder, second, sizeof second, &sqlfs) && sqlfs == NULL && errno == EACCES);

    assert(!sqlfs_rekey(folder, second, sizeof second, first, sizeof first) && errno == EACCES);
    assert(!sqlfs_rekey(folder, first, sizeof first, second, sizeof second - 1) && errno == EINVAL);
    assert(sqlfs_rekey(folder, first, sizeof first, second, sizeof second));
    assert(!sqlfs_open_key(folder, first, sizeof first, &sqlfs) && sqlfs == NULL && errno == EACCES);
    assert(sqlfs_open_key(folder, second, sizeof second, &sqlfs));
    assert(size_of(sqlfs, "/by-raw-key") == 100 && sqlfs_close(sqlfs));

    /* In every language a raw key is the passphrase of its digits. */
    assert(sqlfs_open_password(folder, digits, &sqlfs) && sqlfs_close(sqlfs));

    assert(sqlfs_init_key(folder, second, sizeof second - 1) == 1 && errno == EINVAL);
    assert(sqlfs_init_key(folder, second, sizeof second) == 0);
    assert(size_of(NULL, "/by-raw-key") == 100);
    assert(sqlfs_destroy() == 0);
}

static void *in_a_thread(void *path)
{
    make(NULL, (const char *)path, 100);
    sqlfs_detach_thread();
    return NULL;
}

/* One store for the whole process, which NULL means. */
static void shared(const char *folder)
{
    static char by_thread[] = "/by-thread";
    sqlfs_t *sqlfs = NULL;
    pthread_t thread;
    assert(sqlfs_instance_count() == 0);
    assert(sqlfs_proc_mkdir(NULL, "/early", 0777) == -EBADF && sqlfs_destroy() == 0);
    assert(sqlfs_init_password(folder, "First Password") == 0 && sqlfs_instance_count() == 1);
    directories(NULL);
    made_and_cut(NULL);
    boundaries(NULL);
    appended(NULL);
    assert(pthread_create(&thread, NULL, in_a_thread, by_thread) == 0 && pthread_join(thread, NULL) == 0);
    assert(size_of(NULL, by_thread) == 100);
    assert(is_dir_for_another_file("/one") && !is_dir_for_another_file(by_thread));
    assert(sqlfs_begin_transaction(NULL) && sqlfs_complete_transaction(NULL, 1));

    /* A handle beside it is another one. */
    assert(sqlfs_open_password(folder, "First Password", &sqlfs) && sqlfs_instance_count() == 2);
    assert(sqlfs_vault(sqlfs).id != sqlfs_vault(NULL).id && size_of(sqlfs, by_thread) == 100);
    assert(sqlfs_close(sqlfs) && size_of(NULL, by_thread) == 100);

    /* A second one takes its place, and a wrong one leaves none. */
    assert(sqlfs_init_password(folder, "First Password") == 0 && sqlfs_instance_count() == 1);
    assert(size_of(NULL, by_thread) == 100);
    assert(sqlfs_init_password(folder, "fakesecret") == 1 && errno == EACCES);
    assert(sqlfs_instance_count() == 0 && sqlfs_proc_mkdir(NULL, "/late", 0777) == -EBADF);
    assert(sqlfs_destroy() == 0);

    assert(sqlfs_init_password(folder, "First Password") == 0 && sqlfs_close(NULL));
    assert(sqlfs_instance_count() == 0 && sqlfs_proc_mkdir(NULL, "/late", 0777) == -EBADF);
}

struct init {
    const char *folder;
    sr_bytes key;
    pthread_barrier_t all;
    int opened;
};

static void *inits(void *given)
{
    struct init *init = (struct init *)given;
    pthread_barrier_wait(&init->all);
    if (sqlfs_init_key(init->folder, init->key.data, (size_t)init->key.len) == 0)
        __atomic_add_fetch(&init->opened, 1, __ATOMIC_RELAXED);
    else
        assert(errno == EBUSY); /* what another thread closes meanwhile takes longer than an opener waits */
    return NULL;
}

/* Threads that call sqlfs_init… at once: the vault of one stays at most, and those of the others are closed. */
static void shared_at_once(const char *folder)
{
    struct init init = { .folder = folder };
    pthread_t threads[THREADS];
    int round, i;
    assert(sr_make_key_file(&init.key) == 0 && pthread_barrier_init(&init.all, NULL, THREADS) == 0);
    assert(sqlfs_init_key(folder, init.key.data, (size_t)init.key.len) == 0 && sqlfs_destroy() == 0);
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < THREADS; i++)
            assert(pthread_create(&threads[i], NULL, inits, &init) == 0);
        for (i = 0; i < THREADS; i++)
            assert(pthread_join(threads[i], NULL) == 0);
        assert(sqlfs_instance_count() == (sqlfs_vault(NULL).id != 0));
        assert(sqlfs_destroy() == 0 && sqlfs_instance_count() == 0);
    }
    assert(init.opened > 0);
    assert(pthread_barrier_destroy(&init.all) == 0);
    sr_bytes_free(&init.key);
}

int main(int argc, char **argv)
{
    char folder[4096];
    int i;
    if (argc != 2)
        return 2;
    for (i = 0; i < SIZE_MAX_TRIED; i++)
        content[i] = letter(i);
    snprintf(folder, sizeof folder, "%s/passwords", argv[1]);
    passwords(folder);
    snprintf(folder, sizeof folder, "%s/keys", argv[1]);
    keys(folder);
    snprintf(folder, sizeof folder, "%s/raw", argv[1]);
    raw_keys(folder);
    snprintf(folder, sizeof folder, "%s/shared", argv[1]);
    shared(folder);
    snprintf(folder, sizeof folder, "%s/at-once", argv[1]);
    shared_at_once(folder);
    printf("all as in its own tests\n");
    return 0;
}
