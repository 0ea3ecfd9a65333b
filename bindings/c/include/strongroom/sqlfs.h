/*
 * For programs written for libsqlfs: its calls, carried out on a vault of Strongroom.
 *
 * Compile with -I…/include/strongroom and link with strongroom instead of sqlfs: `#include "sqlfs.h"` finds this file. What libsqlfs calls a
 * database file is a vault folder here; a file that libsqlfs made is not read.
 *
 * As there: sqlfs_open…, sqlfs_close and what changes keys give 1 or 0; sqlfs_init… and sqlfs_destroy give 0 or 1; sqlfs_proc_… and
 * sqlfs_del_tree give 0 or a count, or a negative number of <errno.h>, and set errno; a write makes the file if it is missing; `fi` may be
 * zeros; NULL for `sqlfs` is what sqlfs_init… opened.
 *
 * Otherwise than there: there is no `db` in sqlfs_t, and no store without a key, so neither sqlfs_open nor sqlfs_init. sqlfs_init_password
 * and sqlfs_init_key open the vault at once, for all threads, instead of for each thread at its first call; a second one closes the first,
 * also if two threads call at once, and gives 1 if closing it fails, for example because what it had was not stored; what sqlfs_open… gives
 * is never what NULL means. A raw key of 32 bytes is the passphrase that its hexadecimal digits are, as io.strongroom.io has it in Java: to
 * open a vault with it takes as long as with any passphrase. sqlfs_change_password and sqlfs_rekey replace what unlocks a vault, whether or
 * not it is open; nothing is written again, so they are quick, and whoever has both the old key and an older copy of the folder still reads
 * that copy. A transaction groups nothing, since each call is all or nothing by itself: sqlfs_complete_transaction makes everything
 * durable, sqlfs_break_transaction takes nothing back and gives 0. Use sr_begin of strongroom.h for changes that happen together;
 * sqlfs_vault gives what it needs.
 */
#ifndef STRONGROOM_SQLFS_H
#define STRONGROOM_SQLFS_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>
#include <utime.h>

#ifdef HAVE_LIBFUSE
#include "fuse.h"
#else
/* The fields of FUSE's struct that programs of libsqlfs use. */
struct fuse_file_info {
    int flags;
    unsigned int direct_io : 1;
    unsigned int keep_cache : 1;
    uint64_t fh;
};

typedef int (*fuse_fill_dir_t)(void *buf, const char *name, const struct stat *stat, off_t offset);
#endif

#include "sqlfs_vault.h"

/* ---- transactions: see above */

SQLFS_CALL int sqlfs_begin_transaction(sqlfs_t *sqlfs)
{
    return sr_exists(sqlfs_vault(sqlfs), "/") == 1;
}

SQLFS_CALL int sqlfs_complete_transaction(sqlfs_t *sqlfs, int count)
{
    (void)count;
    return sqlfs_result_(sr_sync(sqlfs_vault(sqlfs))) == 0;
}

SQLFS_CALL int sqlfs_break_transaction(sqlfs_t *sqlfs)
{
    (void)sqlfs;
    errno = ENOTSUP;
    return 0;
}

/* ---- attributes */

SQLFS_CALL mode_t sqlfs_type_(uint32_t kind)
{
    switch (kind) {
    case SR_KIND_DIRECTORY: return S_IFDIR;
    case SR_KIND_SYMLINK: return S_IFLNK;
    case SR_KIND_PIPE: return S_IFIFO;
    case SR_KIND_SOCKET: return S_IFSOCK;
    case SR_KIND_CHARACTER_DEVICE: return S_IFCHR;
    case SR_KIND_BLOCK_DEVICE: return S_IFBLK;
    default: return S_IFREG;
    }
}

SQLFS_CALL struct timespec sqlfs_time_(int64_t nanoseconds)
{
    struct timespec time;
    time.tv_sec = (time_t)(nanoseconds / 1000000000);
    time.tv_nsec = (long)(nanoseconds % 1000000000);
    if (time.tv_nsec < 0) {
        time.tv_nsec += 1000000000;
        time.tv_sec -= 1;
    }
    return time;
}

SQLFS_CALL void sqlfs_stat_(const sr_stat *node, struct stat *stat)
{
    memset(stat, 0, sizeof *stat);
    stat->st_ino = (ino_t)node->inode;
    stat->st_mode = sqlfs_type_(node->kind) | (mode_t)node->mode;
    stat->st_nlink = (nlink_t)node->nlink;
    stat->st_uid = (uid_t)node->uid;
    stat->st_gid = (gid_t)node->gid;
    stat->st_rdev = (dev_t)node->rdev;
    stat->st_size = (off_t)node->size;
    stat->st_blksize = 65536;
    stat->st_blocks = (blkcnt_t)node->blocks;
    stat->st_atim = sqlfs_time_(node->atime);
    stat->st_mtim = sqlfs_time_(node->mtime);
    stat->st_ctim = sqlfs_time_(node->ctime);
}

SQLFS_CALL int sqlfs_proc_getattr(sqlfs_t *sqlfs, const char *path, struct stat *stat)
{
    sr_stat node;
    int result = sr_get_stat(sqlfs_vault(sqlfs), path, SR_STAY, &node);
    if (result == 0)
        sqlfs_stat_(&node, stat);
    return sqlfs_result_(result);
}

SQLFS_CALL int sqlfs_is_dir(sqlfs_t *sqlfs, const char *path)
{
    sr_stat node;
    return sr_get_stat(sqlfs_vault(sqlfs), path, SR_STAY, &node) == 0 && node.kind == SR_KIND_DIRECTORY;
}

/* Who has the vault open may do everything in it, but start what has no x. */
SQLFS_CALL int sqlfs_proc_access(sqlfs_t *sqlfs, const char *path, int mask)
{
    sr_stat node;
    int result = sr_get_stat(sqlfs_vault(sqlfs), path, SR_FOLLOW, &node);
    if (result == 0 && (mask & X_OK) && node.kind == SR_KIND_FILE && !(node.mode & 0111))
        return sqlfs_failed_(EACCES);
    return sqlfs_result_(result);
}

SQLFS_CALL int sqlfs_proc_chmod(sqlfs_t *sqlfs, const char *path, mode_t mode)
{
    return sqlfs_result_(sr_chmod(sqlfs_vault(sqlfs), path, mode & 07777));
}

SQLFS_CALL int sqlfs_proc_chown(sqlfs_t *sqlfs, const char *path, uid_t uid, gid_t gid)
{
    sr_set set;
    memset(&set, 0, sizeof set);
    if (uid != (uid_t)-1)
        set.what |= SR_SET_UID;
    if (gid != (gid_t)-1)
        set.what |= SR_SET_GID;
    set.uid = (uint32_t)uid;
    set.gid = (uint32_t)gid;
    return sqlfs_result_(sr_set_stat(sqlfs_vault(sqlfs), path, SR_STAY, &set));
}

SQLFS_CALL int sqlfs_proc_truncate(sqlfs_t *sqlfs, const char *path, off_t size)
{
    return sqlfs_result_(sr_truncate(sqlfs_vault(sqlfs), path, (uint64_t)size));
}

SQLFS_CALL int sqlfs_proc_utime(sqlfs_t *sqlfs, const char *path, struct utimbuf *times)
{
    sr_set set;
    memset(&set, 0, sizeof set);
    if (times) {
        set.what = SR_SET_ATIME | SR_SET_MTIME;
        set.atime = (int64_t)times->actime * 1000000000;
        set.mtime = (int64_t)times->modtime * 1000000000;
    } else {
        set.what = SR_SET_ATIME_NOW | SR_SET_MTIME_NOW;
    }
    return sqlfs_result_(sr_set_stat(sqlfs_vault(sqlfs), path, SR_FOLLOW, &set));
}

SQLFS_CALL int sqlfs_proc_statfs(sqlfs_t *sqlfs, const char *path, struct statvfs *stat)
{
    sr_space space;
    int result = sr_get_space(sqlfs_vault(sqlfs), &space);
    (void)path;
    if (result == 0) {
        memset(stat, 0, sizeof *stat);
        stat->f_bsize = stat->f_frsize = 4096;
        stat->f_blocks = (fsblkcnt_t)(space.total_bytes / 4096);
        stat->f_bfree = stat->f_bavail = (fsblkcnt_t)(space.free_bytes / 4096);
        stat->f_files = (fsfilcnt_t)space.inodes;
        stat->f_namemax = 255;
    }
    return sqlfs_result_(result);
}

/* ---- names */

SQLFS_CALL int sqlfs_proc_mkdir(sqlfs_t *sqlfs, const char *path, mode_t mode)
{
    return sqlfs_result_(sr_make_directory(sqlfs_vault(sqlfs), path, mode & 07777));
}

SQLFS_CALL int sqlfs_proc_mknod(sqlfs_t *sqlfs, const char *path, mode_t mode, dev_t rdev)
{
    uint32_t kind = SR_KIND_FILE;
    if (S_ISFIFO(mode))
        kind = SR_KIND_PIPE;
    else if (S_ISSOCK(mode))
        kind = SR_KIND_SOCKET;
    else if (S_ISCHR(mode))
        kind = SR_KIND_CHARACTER_DEVICE;
    else if (S_ISBLK(mode))
        kind = SR_KIND_BLOCK_DEVICE;
    return sqlfs_result_(sr_make_node(sqlfs_vault(sqlfs), path, kind, mode & 07777, (uint64_t)rdev));
}

SQLFS_CALL int sqlfs_proc_unlink(sqlfs_t *sqlfs, const char *path)
{
    return sqlfs_result_(sr_remove(sqlfs_vault(sqlfs), path));
}

SQLFS_CALL int sqlfs_proc_rmdir(sqlfs_t *sqlfs, const char *path)
{
    return sqlfs_result_(sr_remove_directory(sqlfs_vault(sqlfs), path));
}

SQLFS_CALL int sqlfs_proc_rename(sqlfs_t *sqlfs, const char *from, const char *to)
{
    return sqlfs_result_(sr_rename(sqlfs_vault(sqlfs), from, to, SR_RENAME_REPLACE));
}

SQLFS_CALL int sqlfs_proc_link(sqlfs_t *sqlfs, const char *from, const char *to)
{
    return sqlfs_result_(sr_link(sqlfs_vault(sqlfs), from, to));
}

SQLFS_CALL int sqlfs_proc_symlink(sqlfs_t *sqlfs, const char *target, const char *path)
{
    return sqlfs_result_(sr_make_symlink(sqlfs_vault(sqlfs), target, path));
}

SQLFS_CALL int sqlfs_proc_readlink(sqlfs_t *sqlfs, const char *path, char *buf, size_t size)
{
    sr_bytes target;
    int result = sr_read_link(sqlfs_vault(sqlfs), path, &target);
    if (result < 0)
        return sqlfs_result_(result);
    if (size > 0) {
        size_t len = target.len < size ? (size_t)target.len : size - 1;
        memcpy(buf, target.data, len);
        buf[len] = 0;
    }
    sr_bytes_free(&target);
    return 0;
}

SQLFS_CALL int sqlfs_proc_readdir(sqlfs_t *sqlfs, const char *path, void *buf, fuse_fill_dir_t filler, off_t offset,
                                  struct fuse_file_info *fi)
{
    sr_directory directory;
    sr_entry entry;
    struct stat stat;
    int is_full, result = sr_directory_open(sqlfs_vault(sqlfs), path, &directory);
    (void)offset;
    (void)fi;
    if (result < 0)
        return sqlfs_result_(result);
    is_full = filler(buf, ".", NULL, 0) || filler(buf, "..", NULL, 0);
    while (!is_full && (result = sr_directory_next(directory, &entry)) > 0) {
        sqlfs_stat_(&entry.stat, &stat);
        is_full = filler(buf, entry.name, &stat, 0);
    }
    sr_directory_close(directory);
    return result < 0 ? sqlfs_result_(result) : 0;
}

SQLFS_CALL int sqlfs_del_tree(sqlfs_t *sqlfs, const char *path)
{
    int result = sr_remove_tree(sqlfs_vault(sqlfs), path);
    if (result == -ENOTDIR)
        result = sr_remove(sqlfs_vault(sqlfs), path);
    return sqlfs_result_(result);
}

/* ---- content */

SQLFS_CALL int sqlfs_flags_(int flags)
{
    int made = flags & O_EXCL ? SR_CREATE_NEW : SR_CREATE;
    int ours = 0;
    switch (flags & O_ACCMODE) {
    case O_RDONLY: ours = SR_READ; break;
    case O_WRONLY: ours = SR_WRITE; break;
    default: ours = SR_READ | SR_WRITE; break;
    }
    if (flags & O_APPEND)
        ours |= SR_APPEND;
    if (flags & O_TRUNC)
        ours |= SR_TRUNCATE | SR_WRITE;
    if (flags & O_CREAT)
        ours |= made | SR_WRITE;
    return ours;
}

SQLFS_CALL int sqlfs_proc_open(sqlfs_t *sqlfs, const char *path, struct fuse_file_info *fi)
{
    sr_file file;
    int result = sr_file_open(sqlfs_vault(sqlfs), path, (uint32_t)sqlfs_flags_(fi->flags), 0644, &file);
    if (result == 0)
        fi->fh = file.id;
    return sqlfs_result_(result);
}

SQLFS_CALL int sqlfs_proc_create(sqlfs_t *sqlfs, const char *path, mode_t mode, struct fuse_file_info *fi)
{
    sr_file file;
    int made = fi->flags & O_EXCL ? SR_CREATE_NEW : SR_CREATE;
    int ours = SR_READ | SR_WRITE | made | (fi->flags & O_APPEND ? SR_APPEND : 0) | (fi->flags & O_TRUNC ? SR_TRUNCATE : 0);
    int result = sr_file_open(sqlfs_vault(sqlfs), path, (uint32_t)ours, mode & 07777, &file);
    if (result == 0)
        fi->fh = file.id;
    return sqlfs_result_(result);
}

SQLFS_CALL int sqlfs_proc_release(sqlfs_t *sqlfs, const char *path, struct fuse_file_info *fi)
{
    sr_file file;
    (void)sqlfs;
    (void)path;
    file.id = fi->fh;
    fi->fh = 0;
    if (file.id != 0)
        sr_file_close(file);
    return 0;
}

/* How many bytes an int can count. */
SQLFS_CALL uint64_t sqlfs_count_(size_t size)
{
    return size > 0x7fffffff ? 0x7fffffff : size;
}

SQLFS_CALL int sqlfs_proc_read(sqlfs_t *sqlfs, const char *path, char *buf, size_t size, off_t offset,
                               struct fuse_file_info *fi)
{
    sr_file file;
    int64_t result = -EBADF;
    file.id = fi ? fi->fh : 0;
    if (file.id != 0)
        result = sr_pread(file, buf, sqlfs_count_(size), (uint64_t)offset);
    /* Not open, or open for something else: by the path, as libsqlfs. */
    if (result == -EBADF) {
        result = sr_file_open(sqlfs_vault(sqlfs), path, SR_READ, 0, &file);
        if (result == 0) {
            result = sr_pread(file, buf, sqlfs_count_(size), (uint64_t)offset);
            sr_file_close(file);
        }
    }
    return sqlfs_result_(result);
}

SQLFS_CALL int sqlfs_proc_write(sqlfs_t *sqlfs, const char *path, const char *buf, size_t size, off_t offset,
                                struct fuse_file_info *fi)
{
    sr_file file;
    int64_t result = -EBADF;
    file.id = fi ? fi->fh : 0;
    if (file.id != 0)
        result = sr_pwrite(file, buf, sqlfs_count_(size), (uint64_t)offset);
    if (result == -EBADF) {
        uint32_t flags = SR_WRITE | SR_CREATE | (fi && (fi->flags & O_APPEND) ? SR_APPEND : 0);
        result = sr_file_open(sqlfs_vault(sqlfs), path, flags, 0644, &file);
        if (result == 0) {
            result = sr_pwrite(file, buf, sqlfs_count_(size), (uint64_t)offset);
            sr_file_close(file);
        }
    }
    return sqlfs_result_(result);
}

SQLFS_CALL int sqlfs_proc_fsync(sqlfs_t *sqlfs, const char *path, int isfdatasync, struct fuse_file_info *fi)
{
    sr_file file;
    int result = -EBADF;
    (void)path;
    (void)isfdatasync;
    file.id = fi ? fi->fh : 0;
    if (file.id != 0)
        result = sr_file_sync(file);
    if (result == -EBADF)
        result = sr_sync(sqlfs_vault(sqlfs));
    return sqlfs_result_(result);
}

/* ---- extended attributes */

SQLFS_CALL int sqlfs_proc_setxattr(sqlfs_t *sqlfs, const char *path, const char *name, const char *value, size_t size,
                                   int flags)
{
    /* XATTR_CREATE is 1 and XATTR_REPLACE is 2, as here. */
    return sqlfs_result_(sr_set_xattr(sqlfs_vault(sqlfs), path, SR_STAY, name, value, size, (uint32_t)flags));
}

/* Puts `len` bytes into a buffer as getxattr(2) does. */
SQLFS_CALL int sqlfs_fill_(const void *data, uint64_t len, char *buf, size_t size)
{
    if (size == 0)
        return (int)len;
    if (len > size)
        return sqlfs_failed_(ERANGE);
    memcpy(buf, data, (size_t)len);
    return (int)len;
}

SQLFS_CALL int sqlfs_proc_getxattr(sqlfs_t *sqlfs, const char *path, const char *name, char *value, size_t size)
{
    sr_bytes found;
    int result = sr_get_xattr(sqlfs_vault(sqlfs), path, SR_STAY, name, &found);
    if (result < 0)
        return sqlfs_result_(result);
    result = sqlfs_fill_(found.data, found.len, value, size);
    sr_bytes_free(&found);
    return result;
}

SQLFS_CALL int sqlfs_proc_listxattr(sqlfs_t *sqlfs, const char *path, char *list, size_t size)
{
    sr_names names;
    uint64_t place;
    size_t len = 0;
    int result = sr_list_xattrs(sqlfs_vault(sqlfs), path, SR_STAY, &names);
    if (result < 0)
        return sqlfs_result_(result);
    for (place = 0; place < names.count && result == 0; place++) {
        size_t with_end = (size_t)names.items[place].len + 1;
        if (size > 0 && len + with_end > size)
            result = sqlfs_failed_(ERANGE);
        else if (size > 0)
            memcpy(list + len, names.items[place].data, with_end);
        len += with_end;
    }
    sr_names_free(&names);
    return result < 0 ? result : (int)len;
}

SQLFS_CALL int sqlfs_proc_removexattr(sqlfs_t *sqlfs, const char *path, const char *name)
{
    return sqlfs_result_(sr_remove_xattr(sqlfs_vault(sqlfs), path, SR_STAY, name));
}

#endif
