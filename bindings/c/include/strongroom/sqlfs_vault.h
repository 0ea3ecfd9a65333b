/*
 * A part of sqlfs.h, which says how it is used: what opens, closes and shares a vault, and changes its keys.
 */
#ifndef STRONGROOM_SQLFS_VAULT_H
#define STRONGROOM_SQLFS_VAULT_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../strongroom.h"

#define SQLFS_CALL static inline __attribute__((unused))

/* The length of a raw key. */
#ifndef REQUIRED_KEY_LENGTH
#define REQUIRED_KEY_LENGTH 32
#endif

/* A vault, open. */
typedef struct {
    sr_vault vault;
} sqlfs_t;

/* What sqlfs_init… opened, or 0; and how many vaults are open. One each in a program, however many of its files include this one. */
__attribute__((weak)) uint64_t sqlfs_shared_;
__attribute__((weak)) int sqlfs_instances_;

/* The vault, for the calls of strongroom.h. */
SQLFS_CALL sr_vault sqlfs_vault(sqlfs_t *sqlfs)
{
    sr_vault vault;
    vault.id = sqlfs ? sqlfs->vault.id : __atomic_load_n(&sqlfs_shared_, __ATOMIC_ACQUIRE);
    return vault;
}

SQLFS_CALL void sqlfs_counted_(int more)
{
    __atomic_add_fetch(&sqlfs_instances_, more, __ATOMIC_RELAXED);
}

/* How many vaults are open by these calls. */
SQLFS_CALL int sqlfs_instance_count(void)
{
    return __atomic_load_n(&sqlfs_instances_, __ATOMIC_RELAXED);
}

/* ---- results */

SQLFS_CALL int sqlfs_result_(int64_t result)
{
    if (result < 0)
        errno = (int)-result;
    return (int)result;
}

SQLFS_CALL int sqlfs_failed_(int number)
{
    errno = number;
    return -number;
}

/* ---- open and close: 1 or 0 */

SQLFS_CALL int sqlfs_open_secret_(const char *folder, const sr_secret *secret, sqlfs_t **sqlfs)
{
    sqlfs_t *opened;
    sr_bytes code;
    int result;
    *sqlfs = NULL;
    opened = (sqlfs_t *)malloc(sizeof *opened);
    if (!opened)
        return 0;
    result = sr_open(folder, secret, NULL, &opened->vault);
    /* As libsqlfs: what is not there is made. A program that shows the recovery code to its user makes the vault with sr_create first. */
    if (result == -ENOENT) {
        result = sr_create(folder, secret, 1, NULL, &opened->vault, &code);
        if (result == 0)
            sr_bytes_free(&code);
    }
    if (result < 0) {
        free(opened);
        sqlfs_result_(result);
        return 0;
    }
    sqlfs_counted_(1);
    *sqlfs = opened;
    return 1;
}

SQLFS_CALL int sqlfs_open_password(const char *folder, const char *password, sqlfs_t **sqlfs)
{
    sr_secret secret = { SR_PASSPHRASE, password, strlen(password) };
    return sqlfs_open_secret_(folder, &secret, sqlfs);
}

/* What `key` is: a raw one, whose digits go into `digits`, or the content of a key file, as sr_make_key_file makes it. */
SQLFS_CALL sr_secret sqlfs_key_(const void *key, size_t len, char digits[2 * REQUIRED_KEY_LENGTH])
{
    const uint8_t *raw = (const uint8_t *)key;
    sr_secret secret = { SR_KEY_FILE, key, len };
    size_t i;
    if (!raw || len != REQUIRED_KEY_LENGTH)
        return secret;
    for (i = 0; i < len; i++) {
        digits[2 * i] = "0123456789abcdef"[raw[i] >> 4];
        digits[2 * i + 1] = "0123456789abcdef"[raw[i] & 15];
    }
    secret.kind = SR_PASSPHRASE;
    secret.data = digits;
    secret.len = 2 * REQUIRED_KEY_LENGTH;
    return secret;
}

/* Not memset, which a compiler leaves out where nobody reads the memory again. */
SQLFS_CALL void sqlfs_wipe_(char *digits)
{
    volatile char *place = digits;
    size_t i;
    for (i = 0; i < 2 * REQUIRED_KEY_LENGTH; i++)
        place[i] = 0;
}

/* `key`: 32 raw bytes, or the content of a key file. */
SQLFS_CALL int sqlfs_open_key(const char *folder, const uint8_t *key, size_t len, sqlfs_t **sqlfs)
{
    char digits[2 * REQUIRED_KEY_LENGTH];
    sr_secret secret = sqlfs_key_(key, len, digits);
    int is_open = sqlfs_open_secret_(folder, &secret, sqlfs);
    sqlfs_wipe_(digits);
    return is_open;
}

/* Has NULL mean the vault `next`, and closes the one that it meant, whichever thread opened that. */
SQLFS_CALL int sqlfs_share_(uint64_t next)
{
    sr_vault before;
    int result = 0;
    before.id = __atomic_exchange_n(&sqlfs_shared_, next, __ATOMIC_ACQ_REL);
    if (before.id != 0) {
        result = sr_close(before);
        sqlfs_counted_(-1);
    }
    sqlfs_result_(result);
    return result < 0;
}

/* The vault that NULL means: 0 or 1, as sqlfs_init… below. */
SQLFS_CALL int sqlfs_destroy(void)
{
    return sqlfs_share_(0);
}

SQLFS_CALL int sqlfs_close(sqlfs_t *sqlfs)
{
    int result;
    if (!sqlfs)
        return sqlfs_destroy() == 0;
    result = sr_close(sqlfs->vault);
    free(sqlfs);
    sqlfs_counted_(-1);
    sqlfs_result_(result);
    return result == 0;
}

/* ---- one vault for the whole process, which NULL means: 0 or 1 */

SQLFS_CALL int sqlfs_init_secret_(const char *folder, const sr_secret *secret)
{
    sqlfs_t *opened;
    uint64_t vault;
    if (sqlfs_destroy() != 0 || !sqlfs_open_secret_(folder, secret, &opened))
        return 1;
    vault = opened->vault.id;
    free(opened);
    /* Another thread can have been here meanwhile. Of the vaults of both the later one stays, and what the close of the other says is not lost. */
    return sqlfs_share_(vault);
}

SQLFS_CALL int sqlfs_init_password(const char *folder, const char *password)
{
    sr_secret secret = { SR_PASSPHRASE, password, strlen(password) };
    return sqlfs_init_secret_(folder, &secret);
}

SQLFS_CALL int sqlfs_init_key(const char *folder, const uint8_t *key, size_t len)
{
    char digits[2 * REQUIRED_KEY_LENGTH];
    sr_secret secret = sqlfs_key_(key, len, digits);
    int result = sqlfs_init_secret_(folder, &secret);
    sqlfs_wipe_(digits);
    return result;
}

/* Nothing: a thread holds nothing of a vault. */
SQLFS_CALL void sqlfs_detach_thread(void)
{
}

/* ---- keys: 1 or 0 */

/* The new one is there before the old one goes: whatever happens, one of them opens the vault. */
SQLFS_CALL int sqlfs_change_(const char *folder, const sr_secret *old_secret, const sr_secret *new_secret)
{
    sr_keys keys;
    sr_bytes slot;
    int result = sr_keys_open(folder, old_secret, NULL, &keys);
    if (result < 0) {
        sqlfs_result_(result);
        return 0;
    }
    result = sr_keys_unlocked_by(keys, &slot);
    if (result == 0) {
        result = sr_keys_add(keys, "", new_secret);
        if (result == 0)
            result = sr_keys_remove(keys, (const char *)slot.data);
        sr_bytes_free(&slot);
    }
    sr_keys_close(keys);
    sqlfs_result_(result);
    return result == 0;
}

SQLFS_CALL int sqlfs_change_password(const char *folder, const char *old_password, const char *new_password)
{
    sr_secret old_secret = { SR_PASSPHRASE, old_password, strlen(old_password) };
    sr_secret new_secret = { SR_PASSPHRASE, new_password, strlen(new_password) };
    return sqlfs_change_(folder, &old_secret, &new_secret);
}

SQLFS_CALL int sqlfs_rekey(const char *folder, const uint8_t *old_key, size_t old_len, const void *new_key, size_t new_len)
{
    char old_digits[2 * REQUIRED_KEY_LENGTH], new_digits[2 * REQUIRED_KEY_LENGTH];
    sr_secret old_secret = sqlfs_key_(old_key, old_len, old_digits);
    sr_secret new_secret = sqlfs_key_(new_key, new_len, new_digits);
    int is_changed = sqlfs_change_(folder, &old_secret, &new_secret);
    sqlfs_wipe_(old_digits);
    sqlfs_wipe_(new_digits);
    return is_changed;
}

#endif
