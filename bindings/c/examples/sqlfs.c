/* A program written for libsqlfs, running on a vault: sqlfs FOLDER. It includes "sqlfs.h" and no other header of Strongroom. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sqlfs.h"

static int found;

static int count_names(void *buf, const char *name, const struct stat *stat, off_t offset)
{
    (void)stat;
    (void)offset;
    found += strcmp(name, (const char *)buf) == 0;
    return 0;
}

/* Writes by the path alone, as programs of libsqlfs do. */
static int make_file(sqlfs_t *sqlfs, const char *path, const char *text)
{
    struct fuse_file_info fi = { 0 };
    fi.flags = O_RDWR | O_CREAT;
    return sqlfs_proc_write(sqlfs, path, text, strlen(text), 0, &fi);
}

int main(int argc, char **argv)
{
    sqlfs_t *sqlfs = NULL;
    struct fuse_file_info fi = { 0 };
    struct stat stat;
    struct statvfs space;
    struct utimbuf times = { 1000, 2000 };
    char buf[100];

    if (argc != 2)
        return 2;

    /* Made when it is opened for the first time, and opened with the same password only. */
    assert(sqlfs_open_password(argv[1], "First Password", &sqlfs));
    assert(sqlfs_close(sqlfs));
    assert(!sqlfs_open_password(argv[1], "fakesecret", &sqlfs) && sqlfs == NULL && errno == EACCES);
    assert(sqlfs_open_password(argv[1], "First Password", &sqlfs));

    /* Directories. */
    assert(sqlfs_proc_mkdir(sqlfs, "/test", 0777) == 0 && sqlfs_is_dir(sqlfs, "/test"));
    assert(sqlfs_proc_mkdir(sqlfs, "/a/b/c", 0777) == -ENOENT && !sqlfs_is_dir(sqlfs, "/a/b/c"));
    assert(sqlfs_proc_mkdir(sqlfs, "/gone", 0777) == 0 && sqlfs_proc_rmdir(sqlfs, "/gone") == 0);

    /* Content, with and without opening. */
    assert(make_file(sqlfs, "/test/file", "this is a string") == 16);
    assert(sqlfs_proc_read(sqlfs, "/test/file", buf, sizeof buf, 0, &fi) == 16);
    assert(memcmp(buf, "this is a string", 16) == 0);
    assert(sqlfs_proc_read(sqlfs, "/test/file", buf, 6, 10, NULL) == 6 && memcmp(buf, "string", 6) == 0);
    assert(sqlfs_proc_read(sqlfs, "/none", buf, 1, 0, &fi) == -ENOENT);
    fi.flags = O_WRONLY | O_APPEND;
    assert(sqlfs_proc_open(sqlfs, "/test/file", &fi) == 0);
    assert(sqlfs_proc_write(sqlfs, "/test/file", " and more", 9, 0, &fi) == 9);
    assert(sqlfs_proc_fsync(sqlfs, "/test/file", 0, &fi) == 0);
    assert(sqlfs_proc_release(sqlfs, "/test/file", &fi) == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/test/file", &stat) == 0 && stat.st_size == 25 && S_ISREG(stat.st_mode));
    fi.flags = O_WRONLY | O_CREAT | O_TRUNC;
    assert(sqlfs_proc_open(sqlfs, "/test/file", &fi) == 0);
    assert(sqlfs_proc_release(sqlfs, "/test/file", &fi) == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/test/file", &stat) == 0 && stat.st_size == 0);
    assert(sqlfs_proc_truncate(sqlfs, "/test/file", 100000) == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/test/file", &stat) == 0 && stat.st_size == 100000);
    fi.fh = 0;
    assert(sqlfs_proc_create(sqlfs, "/made", 0100640, &fi) == 0);
    assert(sqlfs_proc_release(sqlfs, "/made", &fi) == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/made", &stat) == 0 && (stat.st_mode & 07777) == 0640);

    /* Names, links, attributes. */
    assert(sqlfs_proc_rename(sqlfs, "/made", "/moved") == 0);
    assert(sqlfs_proc_link(sqlfs, "/moved", "/test/twin") == 0);
    assert(sqlfs_proc_symlink(sqlfs, "test/twin", "/pointer") == 0);
    assert(sqlfs_proc_readlink(sqlfs, "/pointer", buf, sizeof buf) == 0 && strcmp(buf, "test/twin") == 0);
    assert(sqlfs_proc_readlink(sqlfs, "/pointer", buf, 5) == 0 && strcmp(buf, "test") == 0);
    assert(sqlfs_proc_mknod(sqlfs, "/pipe", S_IFIFO | 0600, 0) == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/pipe", &stat) == 0 && S_ISFIFO(stat.st_mode));
    assert(sqlfs_proc_chmod(sqlfs, "/moved", 0755) == 0 && sqlfs_proc_access(sqlfs, "/moved", X_OK) == 0);
    assert(sqlfs_proc_access(sqlfs, "/test/file", X_OK) == -EACCES);
    assert(sqlfs_proc_chown(sqlfs, "/moved", 7, (gid_t)-1) == 0);
    assert(sqlfs_proc_utime(sqlfs, "/moved", &times) == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/moved", &stat) == 0);
    assert(stat.st_uid == 7 && stat.st_atime == 1000 && stat.st_mtime == 2000 && stat.st_nlink == 2);
    assert(sqlfs_proc_readdir(sqlfs, "/test", (void *)"twin", count_names, 0, NULL) == 0 && found == 1);
    assert(sqlfs_proc_unlink(sqlfs, "/pointer") == 0);
    assert(sqlfs_proc_getattr(sqlfs, "/pointer", &stat) == -ENOENT && errno == ENOENT);
    assert(sqlfs_proc_statfs(sqlfs, "/", &space) == 0 && space.f_bfree > 0);

    /* Extended attributes. */
    assert(sqlfs_proc_setxattr(sqlfs, "/moved", "user.note", "hello", 5, 0) == 0);
    assert(sqlfs_proc_getxattr(sqlfs, "/moved", "user.note", NULL, 0) == 5);
    assert(sqlfs_proc_getxattr(sqlfs, "/moved", "user.note", buf, 2) == -ERANGE);
    assert(sqlfs_proc_getxattr(sqlfs, "/moved", "user.note", buf, sizeof buf) == 5 && memcmp(buf, "hello", 5) == 0);
    assert(sqlfs_proc_listxattr(sqlfs, "/moved", buf, sizeof buf) == 10 && strcmp(buf, "user.note") == 0);
    assert(sqlfs_proc_removexattr(sqlfs, "/moved", "user.note") == 0);

    assert(sqlfs_begin_transaction(sqlfs) && sqlfs_complete_transaction(sqlfs, 1));
    assert(!sqlfs_break_transaction(sqlfs));
    assert(sqlfs_del_tree(sqlfs, "/test") == 0 && !sqlfs_is_dir(sqlfs, "/test"));

    /* The password changes while the vault is open. */
    assert(sqlfs_change_password(argv[1], "First Password", "New Password"));
    assert(sqlfs_close(sqlfs));
    assert(!sqlfs_open_password(argv[1], "First Password", &sqlfs));
    assert(sqlfs_open_password(argv[1], "New Password", &sqlfs));
    assert(sqlfs_close(sqlfs));
    printf("all as with libsqlfs\n");
    return 0;
}
