/* Carries out the cases of bindings/conformance.toml through strongroom.h: run FOLDER, an empty folder on the disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "strongroom.h"
#include "table.h"

#define OPEN_MAX_HERE 32

/* ---- the machine that a case runs on */

struct named {
    const char *name;
    uint64_t id;
};

struct hand {
    struct named all[OPEN_MAX_HERE];
    size_t count;
};

static struct hand vaults, files, snapshots, transactions;
static sr_vault main_vault;
static const char *base;
static char folder[4096];
static const struct table_case *now;

static void stop(const char *why, ...) __attribute__((format(printf, 1, 2), noreturn));
static void stop(const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    fprintf(stderr, "%s: ", now ? now->name : "no case");
    vfprintf(stderr, why, arguments);
    fprintf(stderr, " (%s)\n", sr_error_message());
    va_end(arguments);
    exit(2);
}

static void must(int64_t result, const char *what)
{
    if (result < 0)
        stop("%s: %s", what, strerror((int)-result));
}

static void keep(struct hand *hand, const char *name, uint64_t id)
{
    if (hand->count == OPEN_MAX_HERE)
        stop("too many handles");
    hand->all[hand->count++] = (struct named){ name, id };
}

/* The newest of that name. */
static uint64_t named(const struct hand *hand, const char *name)
{
    for (size_t i = hand->count; i > 0; i--)
        if (strcmp(hand->all[i - 1].name, name) == 0)
            return hand->all[i - 1].id;
    stop("nothing is called %s", name);
}

/* ---- arguments */

static const struct value *find(const struct field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i].value;
    return NULL;
}

static const struct value *argument(const struct step *step, const char *name)
{
    return find(step->arguments, step->argument_count, name);
}

static const struct value *needed(const struct step *step, const char *name)
{
    const struct value *value = argument(step, name);
    if (!value)
        stop("%s lacks %s", step->op, name);
    return value;
}

/* The bytes of a value, with a NUL behind them; free them. */
static char *bytes_of(const struct value *value, size_t *len)
{
    size_t all = 0, at = 0;
    if (value->kind != BYTES)
        stop("a value is no bytes");
    for (size_t i = 0; i < value->count; i++)
        all += value->pieces[i].len * value->pieces[i].times;
    char *bytes = malloc(all + 1);
    if (!bytes)
        stop("no memory");
    for (size_t i = 0; i < value->count; i++)
        for (size_t j = 0; j < value->pieces[i].times; j++) {
            memcpy(bytes + at, value->pieces[i].once, value->pieces[i].len);
            at += value->pieces[i].len;
        }
    bytes[all] = 0;
    *len = all;
    return bytes;
}

/* Strings and buffers of the step under way, freed after it. */
static char *held[16];
static size_t held_count;

static char *bytes(const struct step *step, const char *name, size_t *len)
{
    char *made = bytes_of(needed(step, name), len);
    held[held_count++] = made;
    return made;
}

static char *text(const struct step *step, const char *name)
{
    size_t len;
    return bytes(step, name, &len);
}

static char *text_or(const struct step *step, const char *name, char *missing)
{
    return argument(step, name) ? text(step, name) : missing;
}

static int64_t integer_or(const struct step *step, const char *name, int64_t missing)
{
    const struct value *value = argument(step, name);
    return value ? value->integer : missing;
}

static int64_t integer(const struct step *step, const char *name)
{
    return needed(step, name)->integer;
}

struct word {
    const char *name;
    uint32_t number;
};

static uint32_t number_of(const struct word *words, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i].name, name) == 0)
            return words[i].number;
    stop("%s is no word of the table", name);
}
#define NUMBER(words, name) number_of(words, sizeof words / sizeof *words, name)

static const struct word KINDS[] = {
    { "file", SR_KIND_FILE }, { "directory", SR_KIND_DIRECTORY }, { "symlink", SR_KIND_SYMLINK },
    { "pipe", SR_KIND_PIPE }, { "socket", SR_KIND_SOCKET },
    { "character-device", SR_KIND_CHARACTER_DEVICE }, { "block-device", SR_KIND_BLOCK_DEVICE },
};
static const struct word FLAGS[] = {
    { "read", SR_READ }, { "write", SR_WRITE }, { "append", SR_APPEND },
    { "truncate", SR_TRUNCATE }, { "create", SR_CREATE }, { "create_new", SR_CREATE_NEW },
};
static const struct word LINKS[] = { { "follow", SR_FOLLOW }, { "stay", SR_STAY } };
static const struct word RENAMES[] = {
    { "replace", SR_RENAME_REPLACE }, { "no_replace", SR_RENAME_NO_REPLACE },
    { "exchange", SR_RENAME_EXCHANGE }, { "whiteout", SR_RENAME_WHITEOUT },
};
static const struct word XATTRS[] = {
    { "set", SR_XATTR_SET }, { "create", SR_XATTR_CREATE }, { "replace", SR_XATTR_REPLACE },
};
static const struct word ALLOCATIONS[] = {
    { "reserve", SR_RESERVE }, { "reserve_keep_size", SR_RESERVE_KEEP_SIZE },
    { "punch_hole", SR_PUNCH_HOLE }, { "zero", SR_ZERO }, { "zero_keep_size", SR_ZERO_KEEP_SIZE },
};
static const struct word TARGETS[] = { { "data", SR_DATA }, { "hole", SR_HOLE } };
static const struct word WHENCES[] = {
    { "start", SR_FROM_START }, { "current", SR_FROM_CURRENT }, { "end", SR_FROM_END },
};
static const struct word LOCKS[] = {
    { "shared", SR_LOCK_SHARED | SR_LOCK_TRY }, { "exclusive", SR_LOCK_EXCLUSIVE | SR_LOCK_TRY },
};

static uint32_t links(const struct step *step)
{
    return NUMBER(LINKS, text_or(step, "links", "follow"));
}

/* What a step sets. */
static sr_set set_of(const struct step *step)
{
    sr_set set = { 0 };
    const struct value *value;
    if ((value = argument(step, "mode")))
        set.what |= SR_SET_MODE, set.mode = (uint32_t)value->integer;
    if ((value = argument(step, "uid")))
        set.what |= SR_SET_UID, set.uid = (uint32_t)value->integer;
    if ((value = argument(step, "gid")))
        set.what |= SR_SET_GID, set.gid = (uint32_t)value->integer;
    if ((value = argument(step, "size")))
        set.what |= SR_SET_SIZE, set.size = (uint64_t)value->integer;
    if ((value = argument(step, "atime")))
        set.what |= SR_SET_ATIME, set.atime = value->integer;
    if ((value = argument(step, "mtime")))
        set.what |= SR_SET_MTIME, set.mtime = value->integer;
    return set;
}

static char *below_folder(const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        stop("no memory");
    held[held_count++] = path;
    return path;
}

static sr_secret secret(const struct step *step, const char *name)
{
    const struct value *value = needed(step, name);
    const struct field *field = &value->fields[0];
    size_t len;
    char *said = bytes_of(&field->value, &len);
    held[held_count++] = said;
    if (strcmp(field->name, "passphrase") == 0)
        return (sr_secret){ SR_PASSPHRASE, said, len };
    const struct value *content = find(table_key_files, table_key_file_count, said);
    if (!content)
        stop("no key file is called %s", said);
    said = bytes_of(content, &len);
    held[held_count++] = said;
    return (sr_secret){ SR_KEY_FILE, said, len };
}

/* ---- what a call gave */

struct given {
    int64_t result;
    bool has_bytes, has_names, has_stat;
    sr_bytes bytes;
    sr_names names;
    sr_stat stat;
};

static int64_t give_bytes(struct given *given, int64_t result)
{
    given->has_bytes = result >= 0;
    return result;
}

static int64_t give_names(struct given *given, int64_t result)
{
    given->has_names = result >= 0;
    return result;
}

static int64_t give_stat(struct given *given, int64_t result)
{
    given->has_stat = result >= 0;
    return result;
}

static int compare_names(const void *left, const void *right)
{
    const sr_bytes *a = left, *b = right;
    int order = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Names that a program gathered itself; they are the library's bytes in an array of this program. */
struct gathered {
    sr_bytes *items;
    size_t count;
};

static void gather(struct gathered *names, const void *data, size_t len)
{
    names->items = realloc(names->items, (names->count + 1) * sizeof(sr_bytes));
    uint8_t *copy = malloc(len + 1);
    if (!names->items || !copy)
        stop("no memory");
    memcpy(copy, data, len);
    copy[len] = 0;
    names->items[names->count++] = (sr_bytes){ copy, len };
}

static struct gathered gathered;
static bool has_gathered;

static void ungather(void)
{
    for (size_t i = 0; i < gathered.count; i++)
        free(gathered.items[i].data);
    free(gathered.items);
    gathered = (struct gathered){ 0 };
    has_gathered = false;
}

static int64_t listed(int64_t result, sr_directory directory)
{
    if (result < 0)
        return result;
    sr_entry entry;
    while ((result = sr_directory_next(directory, &entry)) > 0)
        gather(&gathered, entry.name, strlen(entry.name));
    must(sr_directory_close(directory), "closing a listing");
    if (gathered.count > 1)
        qsort(gathered.items, gathered.count, sizeof(sr_bytes), compare_names);
    has_gathered = result == 0;
    return result;
}

static int64_t walked(int64_t result, sr_walk walk)
{
    if (result < 0)
        return result;
    sr_walk_entry entry;
    while ((result = sr_walk_next(walk, &entry)) > 0) {
        gather(&gathered, entry.path.data, entry.path.len);
        sr_bytes_free(&entry.path);
    }
    must(sr_walk_close(walk), "closing a walk");
    has_gathered = result == 0;
    return result;
}

/* ---- the calls */

#define IS(name) (strcmp(step->op, name) == 0)

/* `id` is read after the call that fills it in. */
static int64_t opened(const struct step *step, int64_t result, struct hand *hand, const uint64_t *id)
{
    if (result >= 0)
        keep(hand, text(step, "as"), *id);
    return result;
}

static int64_t call_folder(const struct step *step)
{
    char *place = below_folder(text(step, "folder"));
    sr_options options = SR_OPTIONS_INIT;
    options.flags = SR_NO_RECORDS;
    if (IS("put_outside")) {
        size_t len;
        char *data = bytes(step, "data", &len);
        mkdir(place, 0700);
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", place, text(step, "name"));
        FILE *file = fopen(path, "w");
        if (!file || fwrite(data, 1, len, file) != len || fclose(file))
            stop("writing %s", path);
        return 0;
    }
    if (IS("remove_outside")) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", place, text(step, "name"));
        return unlink(path);
    }
    if (IS("backup"))
        return sr_backup((sr_vault){ named(&vaults, text_or(step, "vault", "main")) }, place, NULL, NULL);
    sr_secret key = secret(step, "secret");
    if (IS("create")) {
        sr_vault vault = { 0 };
        sr_bytes code = { 0 };
        int64_t result = sr_create(place, &key, 1, &options, &vault, &code);
        if (result >= 0)
            sr_bytes_free(&code);
        return opened(step, result, &vaults, &vault.id);
    }
    if (IS("open_vault")) {
        sr_vault vault = { 0 };
        if (integer_or(step, "read_only", 0))
            options.flags |= SR_READ_ONLY;
        if (integer_or(step, "own", 0))
            options.flags |= SR_OWN;
        return opened(step, sr_open(place, &key, &options, &vault), &vaults, &vault.id);
    }
    if (IS("clone")) {
        char url[8192];
        snprintf(url, sizeof url, "folder:%s", below_folder(text(step, "place")));
        if (integer_or(step, "on_demand", 0))
            options.flags |= SR_ON_DEMAND;
        return sr_clone(url, place, &key, &options, NULL, NULL);
    }
    sr_keys keys = { 0 };
    int64_t result = sr_keys_open(place, &key, &options, &keys);
    if (result < 0)
        return result;
    sr_slots slots = { 0 };
    must(sr_keys_list(keys, &slots), "listing keys");
    if (IS("keys")) {
        for (uint64_t i = 0; i < slots.count; i++)
            gather(&gathered, slots.items[i].label.data, slots.items[i].label.len);
        has_gathered = true;
    } else if (IS("add_key")) {
        sr_secret new_key = secret(step, "new");
        result = sr_keys_add(keys, text(step, "label"), &new_key);
    } else if (IS("remove_key")) {
        result = -ENOKEY;
        for (uint64_t i = 0; i < slots.count && result == -ENOKEY; i++)
            if (strcmp((char *)slots.items[i].label.data, text(step, "label")) == 0)
                result = sr_keys_remove(keys, slots.items[i].id);
    } else
        stop("%s is no operation on a folder", step->op);
    sr_slots_free(&slots);
    must(sr_keys_close(keys), "closing keys");
    return result;
}

static int64_t call_file(const struct step *step, struct given *given)
{
    sr_file file = { named(&files, text(step, "file")) };
    uint64_t offset = (uint64_t)integer_or(step, "offset", 0);
    uint64_t len = (uint64_t)integer_or(step, "len", 0);
    if (IS("close"))
        return sr_file_close(file);
    if (IS("name_file")) {
        sr_vault vault = { named(&vaults, text_or(step, "vault", "main")) };
        return sr_file_name(vault, file, text(step, "path"));
    }
    if (IS("pread") || IS("read")) {
        char *buffer = malloc(len + 1);
        if (!buffer)
            stop("no memory");
        int64_t result = IS("read") ? sr_read(file, buffer, len) : sr_pread(file, buffer, len, offset);
        if (result >= 0) {
            gather(&gathered, buffer, (size_t)result);
            has_gathered = true;
        }
        free(buffer);
        return result;
    }
    if (IS("pwrite") || IS("write")) {
        size_t size;
        char *data = bytes(step, "data", &size);
        int64_t result = IS("write") ? sr_write(file, data, size) : sr_pwrite(file, data, size, offset);
        if (result >= 0 && (size_t)result != size)
            stop("a part was written");
        return result;
    }
    if (IS("seek"))
        return sr_seek(file, integer(step, "to"), NUMBER(WHENCES, text_or(step, "from", "start")));
    if (IS("fstat"))
        return give_stat(given, sr_file_get_stat(file, &given->stat));
    if (IS("ftruncate"))
        return sr_file_truncate(file, (uint64_t)integer(step, "size"));
    if (IS("fchmod")) {
        sr_set set = set_of(step);
        return sr_file_set_stat(file, &set);
    }
    if (IS("fsync"))
        return sr_file_sync(file);
    if (IS("allocate"))
        return sr_file_allocate(file, NUMBER(ALLOCATIONS, text(step, "how")), offset, len);
    if (IS("find"))
        return sr_file_find(file, NUMBER(TARGETS, text(step, "target")), offset);
    if (IS("copy_range")) {
        sr_file target = { named(&files, text(step, "to")) };
        return sr_file_copy(file, offset, target, (uint64_t)integer(step, "to_offset"), len);
    }
    if (IS("try_lock"))
        return sr_file_lock(file, NUMBER(LOCKS, text_or(step, "how", "exclusive")));
    if (IS("unlock"))
        return sr_file_unlock(file);
    stop("%s is no operation on a file", step->op);
}

static int64_t call_snapshot(const struct step *step, struct given *given)
{
    sr_snapshot state = { named(&snapshots, text(step, "snapshot")) };
    if (IS("close_snapshot"))
        return sr_snapshot_close(state);
    char *path = text(step, "path");
    if (IS("read_file"))
        return give_bytes(given, sr_snapshot_read_file(state, path, &given->bytes));
    if (IS("exists"))
        return sr_snapshot_exists(state, path);
    if (IS("stat"))
        return give_stat(given, sr_snapshot_get_stat(state, path, links(step), &given->stat));
    if (IS("readlink"))
        return give_bytes(given, sr_snapshot_read_link(state, path, &given->bytes));
    if (IS("getxattr"))
        return give_bytes(given, sr_snapshot_get_xattr(state, path, links(step), text(step, "name"), &given->bytes));
    if (IS("listxattr"))
        return give_names(given, sr_snapshot_list_xattrs(state, path, links(step), &given->names));
    if (IS("list")) {
        sr_directory directory = { 0 };
        int64_t result = sr_snapshot_directory_open(state, path, &directory);
        return listed(result, directory);
    }
    if (IS("walk")) {
        sr_walk walk = { 0 };
        int64_t result = sr_snapshot_walk_open(state, path, &walk);
        return walked(result, walk);
    }
    if (IS("open")) {
        sr_file file = { 0 };
        return opened(step, sr_snapshot_file_open(state, path, &file), &files, &file.id);
    }
    stop("%s does not read a snapshot", step->op);
}

static int64_t call_transaction(const struct step *step, struct given *given)
{
    sr_transaction held_now = { named(&transactions, text(step, "transaction")) };
    if (IS("commit"))
        return sr_commit(held_now, integer_or(step, "durable", 0) ? SR_DURABLE : SR_WRITE_BEHIND);
    if (IS("roll_back"))
        return sr_roll_back(held_now);
    char *path = text(step, "path");
    size_t len;
    if (IS("read_file"))
        return give_bytes(given, sr_transaction_read_file(held_now, path, &given->bytes));
    if (IS("exists"))
        return sr_transaction_exists(held_now, path);
    if (IS("stat"))
        return give_stat(given, sr_transaction_get_stat(held_now, path, links(step), &given->stat));
    if (IS("list"))
        return give_names(given, sr_transaction_list(held_now, path, &given->names));
    if (IS("write_file")) {
        char *data = bytes(step, "data", &len);
        return sr_transaction_write_file(held_now, path, data, len);
    }
    if (IS("mkdir"))
        return sr_transaction_make_directory(held_now, path, (uint32_t)integer_or(step, "mode", 0755));
    if (IS("rename"))
        return sr_transaction_rename(held_now, path, text(step, "to"), NUMBER(RENAMES, text_or(step, "how", "replace")));
    if (IS("remove"))
        return sr_transaction_remove(held_now, path);
    if (IS("rmdir"))
        return sr_transaction_remove_directory(held_now, path);
    if (IS("symlink"))
        return sr_transaction_make_symlink(held_now, text(step, "target"), path);
    if (IS("link"))
        return sr_transaction_link(held_now, path, text(step, "to"));
    if (IS("truncate"))
        return sr_transaction_truncate(held_now, path, (uint64_t)integer(step, "size"));
    if (IS("chmod") || IS("chown") || IS("utime")) {
        sr_set set = set_of(step);
        return sr_transaction_set_stat(held_now, path, links(step), &set);
    }
    if (IS("setxattr")) {
        char *value = bytes(step, "value", &len);
        return sr_transaction_set_xattr(held_now, path, links(step), text(step, "name"), value, len,
                                        NUMBER(XATTRS, text_or(step, "how", "set")));
    }
    if (IS("removexattr"))
        return sr_transaction_remove_xattr(held_now, path, links(step), text(step, "name"));
    stop("%s is not for transactions", step->op);
}

static int64_t call_remote(const struct step *step, struct given *given, sr_vault vault)
{
    if (IS("remotes"))
        return give_names(given, sr_remotes(vault, &given->names));
    char *name = text(step, "name");
    if (IS("add_remote")) {
        char url[8192];
        snprintf(url, sizeof url, "folder:%s", below_folder(text(step, "place")));
        return sr_add_remote(vault, name, url, false);
    }
    if (IS("remove_remote"))
        return sr_remove_remote(vault, name);
    if (IS("push"))
        return sr_push(vault, name, NULL, NULL, NULL);
    if (IS("waiting")) {
        sr_remote_status status = { 0 };
        int result = sr_get_remote_status(vault, name, &status);
        sr_remote_status_free(&status);
        return result < 0 ? result : status.is_waiting;
    }
    if (IS("check_remote"))
        return sr_check_remote(vault, name, integer_or(step, "deep", 0), NULL, NULL, NULL);
    if (IS("prune"))
        return sr_prune_remote(vault, name, 0, NULL, NULL, NULL);
    sr_pulled pulled = { 0 };
    int64_t result;
    if (IS("pull"))
        result = sr_pull(vault, name, NULL, NULL, &pulled);
    else if (IS("sync_with"))
        result = sr_sync_with(vault, name, NULL, NULL, &pulled);
    else
        stop("%s is no operation on a vault", step->op);
    sr_pulled_free(&pulled);
    return result;
}

static int64_t call_rule(const struct step *step, sr_vault vault)
{
    sr_retention rule = {
        .last = (uint32_t)integer_or(step, "last", 0),
        .hourly = (uint32_t)integer_or(step, "hourly", 0),
        .daily = (uint32_t)integer_or(step, "daily", 0),
        .weekly = (uint32_t)integer_or(step, "weekly", 0),
        .monthly = (uint32_t)integer_or(step, "monthly", 0),
        .yearly = (uint32_t)integer_or(step, "yearly", 0),
        .whose = integer_or(step, "unnamed", 0) ? SR_UNNAMED : SR_SCHEDULED,
    };
    if (IS("set_retention"))
        return sr_set_retention(vault, &rule);
    bool shared = IS("shared_retention");
    int result = shared ? sr_get_shared_retention(vault, &rule) : sr_get_retention(vault, &rule);
    if (result < 0)
        return result;
    char said[128];
    int len = snprintf(said, sizeof said, "%u %u %u %u %u %u %s", rule.last, rule.hourly, rule.daily, rule.weekly,
                       rule.monthly, rule.yearly, rule.whose == SR_UNNAMED ? "unnamed" : "scheduled");
    gather(&gathered, shared && result == 0 ? "" : said, shared && result == 0 ? 0 : (size_t)len);
    has_gathered = true;
    return 0;
}

/* Whether anything went or came. */
static int64_t call_content(const struct step *step, struct given *given, sr_vault vault)
{
    char *path = text_or(step, "path", NULL);
    if (IS("evict")) {
        sr_evicted evicted = { 0 };
        int result = sr_evict(vault, path, NULL, NULL, &evicted);
        int64_t went = evicted.segments > 0;
        sr_evicted_free(&evicted);
        return result < 0 ? result : went;
    }
    if (IS("evict_to_limit")) {
        sr_evicted evicted = { 0 };
        int result = sr_evict_to_limit(vault, NULL, NULL, &evicted);
        int64_t went = evicted.segments > 0;
        sr_evicted_free(&evicted);
        return result < 0 ? result : went;
    }
    if (IS("bring_back")) {
        sr_brought brought = { 0 };
        int result = sr_bring_back(vault, path, NULL, NULL, &brought);
        return result < 0 ? result : brought.segments > 0;
    }
    if (IS("away")) {
        sr_information information = { 0 };
        int result = sr_get_information(vault, &information);
        int64_t away = information.away_bytes > 0;
        sr_information_free(&information);
        return result < 0 ? result : away;
    }
    if (IS("keep_at_most")) {
        uint64_t limit = 0;
        int result = sr_get_keep_at_most(vault, &limit);
        return result < 0 ? result : limit == SR_NO_LIMIT ? 0 : (int64_t)limit;
    }
    if (IS("set_keep_at_most"))
        return sr_set_keep_at_most(vault, argument(step, "bytes") ? (uint64_t)integer(step, "bytes") : SR_NO_LIMIT);
    if (IS("pin"))
        return sr_pin(vault, path, NULL, NULL, NULL);
    if (IS("unpin"))
        return sr_unpin(vault, path);
    return give_names(given, sr_pins(vault, &given->names));
}

static int64_t call_history(const struct step *step, struct given *given, sr_vault vault)
{
    if (IS("take_snapshot")) {
        const struct value *tags = argument(step, "tags");
        const char *names[8];
        size_t count = tags ? tags->count : 0, len;
        for (size_t i = 0; i < count; i++)
            names[i] = held[held_count++] = bytes_of(&tags->items[i], &len);
        return sr_take_snapshot(vault, text_or(step, "message", NULL), names, count,
                                integer_or(step, "only_if_changed", 0));
    }
    if (IS("snapshots")) {
        sr_snapshots all = { 0 };
        int64_t result = sr_list_snapshots(vault, &all);
        if (result < 0)
            return result;
        for (uint64_t i = 0; i < all.count; i++)
            gather(&gathered, all.items[i].message.data, all.items[i].message.len);
        has_gathered = true;
        sr_snapshots_free(&all);
        return 0;
    }
    if (IS("snapshot")) {
        sr_snapshot state = { 0 };
        return opened(step, sr_snapshot_open(vault, &state), &snapshots, &state.id);
    }
    if (IS("begin")) {
        sr_transaction begun = { 0 };
        return opened(step, sr_begin(vault, &begun), &transactions, &begun.id);
    }
    if (IS("retention") || IS("shared_retention") || IS("set_retention"))
        return call_rule(step, vault);
    if (IS("thin"))
        return sr_thin(vault, NULL);
    if (IS("usage")) {
        sr_usage usage = { 0 };
        int result = sr_get_usage(vault, &usage);
        return result < 0 ? result : usage.kept_bytes > 0;
    }
    if (!argument(step, "selector"))
        return call_remote(step, given, vault);
    char *selector = text(step, "selector");
    if (IS("at")) {
        sr_snapshot state = { 0 };
        return opened(step, sr_snapshot_at(vault, selector, &state), &snapshots, &state.id);
    }
    if (IS("remove_snapshot"))
        return sr_remove_snapshot(vault, selector);
    if (IS("restore"))
        return sr_restore(vault, selector, text(step, "path"), text(step, "to"));
    if (IS("diff"))
        return give_names(given, sr_differences(vault, selector, text_or(step, "after", NULL), text_or(step, "path", "/"),
                                                &given->names));
    stop("%s is no operation on a vault", step->op);
}

static int64_t call_vault(const struct step *step, struct given *given)
{
    sr_vault vault = { named(&vaults, text_or(step, "vault", "main")) };
    if (IS("close_vault"))
        return sr_close(vault);
    if (IS("sync"))
        return sr_sync(vault);
    if (IS("check"))
        return sr_check(vault, NULL);
    if (IS("verify")) {
        int result = sr_verify(vault, integer_or(step, "deep", 0), NULL, NULL, NULL, NULL);
        return result < 0 ? result : result == 1;
    }
    if (IS("evict") || IS("bring_back") || IS("away") || IS("pin") || IS("unpin") || IS("pins")
        || IS("keep_at_most") || IS("set_keep_at_most") || IS("evict_to_limit"))
        return call_content(step, given, vault);
    if (!argument(step, "path") || argument(step, "selector"))
        return call_history(step, given, vault);
    char *path = text(step, "path");
    size_t len;
    if (IS("read_file"))
        return give_bytes(given, sr_read_file(vault, path, &given->bytes));
    if (IS("write_file")) {
        char *data = bytes(step, "data", &len);
        return sr_write_file(vault, path, data, len);
    }
    if (IS("replace")) {
        char *data = bytes(step, "data", &len);
        return sr_replace_file(vault, path, data, len, SR_WRITE_BEHIND);
    }
    if (IS("exists"))
        return sr_exists(vault, path);
    if (IS("stat"))
        return give_stat(given, sr_get_stat(vault, path, links(step), &given->stat));
    if (IS("truncate"))
        return sr_truncate(vault, path, (uint64_t)integer(step, "size"));
    if (IS("chmod") && !argument(step, "links"))
        return sr_chmod(vault, path, (uint32_t)integer(step, "mode"));
    if (IS("chmod") || IS("chown") || IS("utime")) {
        sr_set set = set_of(step);
        return sr_set_stat(vault, path, links(step), &set);
    }
    if (IS("open")) {
        const struct value *words = needed(step, "flags");
        uint32_t flags = 0;
        for (size_t i = 0; i < words->count; i++) {
            char *word = bytes_of(&words->items[i], &len);
            flags |= NUMBER(FLAGS, word);
            free(word);
        }
        sr_file file = { 0 };
        int64_t result = sr_file_open(vault, path, flags, (uint32_t)integer_or(step, "mode", 0644), &file);
        return opened(step, result, &files, &file.id);
    }
    if (IS("unnamed")) {
        sr_file file = { 0 };
        int64_t result = sr_file_open_unnamed(vault, path, (uint32_t)integer_or(step, "mode", 0600), &file);
        return opened(step, result, &files, &file.id);
    }
    if (IS("mkdir"))
        return sr_make_directory(vault, path, (uint32_t)integer_or(step, "mode", 0755));
    if (IS("mkdir_all"))
        return sr_make_directories(vault, path, (uint32_t)integer_or(step, "mode", 0755));
    if (IS("rmdir"))
        return sr_remove_directory(vault, path);
    if (IS("remove"))
        return sr_remove(vault, path);
    if (IS("remove_all"))
        return sr_remove_tree(vault, path);
    if (IS("rename"))
        return sr_rename(vault, path, text(step, "to"), NUMBER(RENAMES, text_or(step, "how", "replace")));
    if (IS("link"))
        return sr_link(vault, path, text(step, "to"));
    if (IS("symlink"))
        return sr_make_symlink(vault, text(step, "target"), path);
    if (IS("readlink"))
        return give_bytes(given, sr_read_link(vault, path, &given->bytes));
    if (IS("mknod"))
        return sr_make_node(vault, path, NUMBER(KINDS, text(step, "kind")),
                            (uint32_t)integer_or(step, "mode", 0644), (uint64_t)integer_or(step, "rdev", 0));
    if (IS("list")) {
        sr_directory directory = { 0 };
        int64_t result = sr_directory_open(vault, path, &directory);
        return listed(result, directory);
    }
    if (IS("walk")) {
        sr_walk walk = { 0 };
        int64_t result = sr_walk_open(vault, path, &walk);
        return walked(result, walk);
    }
    if (IS("getxattr"))
        return give_bytes(given, sr_get_xattr(vault, path, links(step), text(step, "name"), &given->bytes));
    if (IS("setxattr")) {
        char *value = bytes(step, "value", &len);
        return sr_set_xattr(vault, path, links(step), text(step, "name"), value, len,
                            NUMBER(XATTRS, text_or(step, "how", "set")));
    }
    if (IS("removexattr"))
        return sr_remove_xattr(vault, path, links(step), text(step, "name"));
    if (IS("listxattr"))
        return give_names(given, sr_list_xattrs(vault, path, links(step), &given->names));
    if (IS("erase")) {
        sr_erased erased = { 0 };
        int result = sr_erase(vault, path, integer_or(step, "trial", 0), &erased);
        return result < 0 ? result : (int64_t)erased.files;
    }
    stop("%s is no operation on a path", step->op);
}

/* ---- comparison */

static bool is_bytes(const struct value *expected, const void *data, size_t len)
{
    size_t wanted;
    char *bytes = bytes_of(expected, &wanted);
    bool same = wanted == len && memcmp(bytes, data, len) == 0;
    free(bytes);
    return same;
}

static bool is_list(const struct value *expected, const sr_bytes *items, size_t count)
{
    bool same = expected->kind == LIST && expected->count == count;
    for (size_t i = 0; same && i < count; i++)
        same = is_bytes(&expected->items[i], items[i].data, items[i].len);
    return same;
}

static bool is_stat(const struct value *expected, const sr_stat *stat)
{
    for (size_t i = 0; i < expected->count; i++) {
        const char *name = expected->fields[i].name;
        const struct value *value = &expected->fields[i].value;
        int64_t found;
        if (strcmp(name, "kind") == 0) {
            size_t len;
            char *word = bytes_of(value, &len);
            bool same = NUMBER(KINDS, word) == stat->kind;
            free(word);
            if (!same)
                return false;
            continue;
        }
        if (strcmp(name, "mode") == 0) found = stat->mode;
        else if (strcmp(name, "uid") == 0) found = stat->uid;
        else if (strcmp(name, "gid") == 0) found = stat->gid;
        else if (strcmp(name, "rdev") == 0) found = (int64_t)stat->rdev;
        else if (strcmp(name, "nlink") == 0) found = stat->nlink;
        else if (strcmp(name, "size") == 0) found = (int64_t)stat->size;
        else if (strcmp(name, "atime") == 0) found = stat->atime;
        else if (strcmp(name, "mtime") == 0) found = stat->mtime;
        else stop("%s is no attribute", name);
        if (found != value->integer)
            return false;
    }
    return true;
}

static bool is_right(const struct step *step, struct given *given)
{
    const struct value *expected = &step->is;
    if (step->number)
        return given->result == -step->number;
    if (given->result < 0)
        return false;
    switch (expected->kind) {
    case NONE:
        return true;
    case BYTES:
        if (given->has_bytes)
            return is_bytes(expected, given->bytes.data, given->bytes.len);
        return has_gathered && gathered.count == 1
            && is_bytes(expected, gathered.items[0].data, gathered.items[0].len);
    case INTEGER:
        return given->result == expected->integer;
    case LIST:
        if (!given->has_names)
            return has_gathered && is_list(expected, gathered.items, gathered.count);
        if (IS("listxattr") && given->names.count > 1)
            qsort(given->names.items, given->names.count, sizeof(sr_bytes), compare_names);
        return is_list(expected, given->names.items, given->names.count);
    case FIELDS:
        return given->has_stat && is_stat(expected, &given->stat);
    }
    return false;
}

/* Does a step; false if it came to something else. */
static bool do_step(const struct step *step, size_t place)
{
    struct given given = { 0 };
    held_count = 0;
    if (argument(step, "snapshot"))
        given.result = call_snapshot(step, &given);
    else if (argument(step, "transaction"))
        given.result = call_transaction(step, &given);
    else if (argument(step, "file"))
        given.result = call_file(step, &given);
    else if (argument(step, "folder"))
        given.result = call_folder(step);
    else
        given.result = call_vault(step, &given);
    bool right = is_right(step, &given);
    if (!right)
        fprintf(stderr, "%s: step %zu, %s: gave %lld (%s), expected %s\n", now->name, place, step->op,
                (long long)given.result, given.result < 0 ? sr_error_message() : "success",
                step->number ? strerror(step->number) : "another value or success");
    if (given.has_bytes)
        sr_bytes_free(&given.bytes);
    if (given.has_names)
        sr_names_free(&given.names);
    ungather();
    return right;
}

/* ---- cases */

static void empty_main(void)
{
    sr_directory directory;
    sr_entry entry;
    int more;
    must(sr_directory_open(main_vault, "/", &directory), "listing the root");
    while ((more = sr_directory_next(directory, &entry)) > 0) {
        char path[300];
        snprintf(path, sizeof path, "/%s", entry.name);
        if (entry.stat.kind == SR_KIND_DIRECTORY)
            must(sr_remove_tree(main_vault, path), "emptying the vault");
        else
            must(sr_remove(main_vault, path), "emptying the vault");
    }
    must(more, "listing the root");
    must(sr_directory_close(directory), "closing a listing");
    sr_snapshots all;
    must(sr_list_snapshots(main_vault, &all), "listing snapshots");
    for (uint64_t i = 0; i < all.count; i++)
        must(sr_remove_snapshot(main_vault, all.items[i].id), "removing a snapshot");
    sr_snapshots_free(&all);
}

/* Names in hands live as long as the case. */
static char *names[256];
static size_t name_count;

static bool run_case(const struct table_case *one, size_t place)
{
    now = one;
    snprintf(folder, sizeof folder, "%s/%zu", base, place);
    if (mkdir(folder, 0700))
        stop("making %s", folder);
    if (!one->begins_with_folder) {
        empty_main();
        keep(&vaults, "main", main_vault.id);
    }
    bool right = true;
    for (size_t i = 0; right && i < one->step_count; i++) {
        right = do_step(&one->steps[i], i);
        for (size_t j = 0; j < held_count; j++)
            names[name_count++] = held[j];
        if (name_count > 200)
            stop("too many names");
    }
    for (size_t i = 0; i < files.count; i++)
        sr_file_close((sr_file){ files.all[i].id });
    for (size_t i = 0; i < snapshots.count; i++)
        sr_snapshot_close((sr_snapshot){ snapshots.all[i].id });
    for (size_t i = 0; i < transactions.count; i++)
        sr_roll_back((sr_transaction){ transactions.all[i].id });
    /* Clients before the owner, which waits for them. */
    for (int owner = 0; owner < 2; owner++)
        for (size_t i = 0; i < vaults.count; i++) {
            sr_vault vault = { vaults.all[i].id };
            if (vault.id != main_vault.id && sr_is_owner(vault) == owner)
                must(sr_close(vault), "closing a vault");
        }
    files.count = snapshots.count = transactions.count = vaults.count = 0;
    while (name_count > 0)
        free(names[--name_count]);
    return right;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        stop("usage: run FOLDER");
    base = argv[1];
    char path[4096];
    snprintf(path, sizeof path, "%s/main", base);
    sr_options options = SR_OPTIONS_INIT;
    options.flags = SR_NO_RECORDS;
    sr_bytes code = { 0 };
    must(sr_create(path, NULL, 0, &options, &main_vault, &code), "making the vault");
    sr_bytes_free(&code);
    size_t wrong = 0;
    for (size_t i = 0; i < table_case_count; i++)
        wrong += !run_case(&table_cases[i], i);
    must(sr_close(main_vault), "closing the vault");
    printf("%zu cases, %zu wrong\n", table_case_count, wrong);
    return wrong ? 1 : 0;
}
