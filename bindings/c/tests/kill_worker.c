/*
 * One of the programs that use a vault at once, and are killed, in tools/bindings_kill.py: that says what they write and what they note.
 *
 *   kill_worker FOLDER KEY_FILE JOURNAL NAME INCARNATION SEED STOP
 *
 * It writes into the directory NAME of the vault, and reads those of all programs, until the file STOP exists.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <strongroom.h>

#define MIB (1u << 20)
#define HEAD_BYTES 64
#define RECORD_BYTES 200
#define STATE_BYTES 1000
#define SMALL_BYTES_MAX 20000
#define RECORDS_MAX 500
#define RECORDS_OF_SERIAL 1000000u
#define OWN_MAX 200
#define BURST_MAX 16
#define PAUSE_MS_MIN 50
#define PAUSE_MS_MAX 250
#define SETTLE_MS 500
#define NAME_BYTES 256
#define PATH_BYTES 512

static const char *const PROGRAMS[] = { "c", "python", "java", "mount", "command" };

static const char *folder, *me, *stop_file;
static sr_secret secret;
static unsigned incarnation;
static int journal;
static uint64_t random_state;

static sr_vault vault;
static bool vault_is_open;
static sr_file log_file;
static bool log_is_open;
/* Of the log and of the state that are written now; a new one begins after each error. */
static unsigned serial = 1;
static unsigned records;
static unsigned counter;

/* Its files that are there. */
static char own[OWN_MAX][NAME_BYTES];
static unsigned own_count;

static uint8_t table[2 * MIB];
static uint8_t content[MIB];

/* ---- content: a function of who wrote it, in which incarnation, as which of its contents, and of its size */

static void make_table(void)
{
    uint64_t state = 88172645463325252u;
    for (size_t at = 0; at < sizeof table; at += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        for (unsigned byte = 0; byte < 8; byte++)
            table[at + byte] = (uint8_t)(state >> (8 * byte));
    }
}

static void make_content(const char *writer, unsigned of_incarnation, uint64_t number, size_t bytes)
{
    uint64_t start = (of_incarnation * (uint64_t)7919 + number * 104729) % MIB;
    char head[HEAD_BYTES + 1];
    snprintf(head, sizeof head, "%s %u %llu %zu", writer, of_incarnation, (unsigned long long)number, bytes);
    size_t len = strlen(head);
    memset(head + len, ' ', HEAD_BYTES - 1 - len);
    head[HEAD_BYTES - 1] = '\n';
    memcpy(content, head, HEAD_BYTES);
    memcpy(content + HEAD_BYTES, table + start, bytes - HEAD_BYTES);
}

static bool is_content(const uint8_t *data, uint64_t len, const char *writer, unsigned of_incarnation, uint64_t number, size_t bytes)
{
    if (len != bytes)
        return false;
    make_content(writer, of_incarnation, number, bytes);
    return memcmp(data, content, bytes) == 0;
}

static bool is_log(const uint8_t *data, uint64_t len, const char *writer, unsigned of_incarnation, unsigned of_serial)
{
    uint64_t number = of_serial * (uint64_t)RECORDS_OF_SERIAL;
    for (uint64_t at = 0; at < len; at += RECORD_BYTES, number++) {
        size_t part = len - at < RECORD_BYTES ? len - at : RECORD_BYTES;
        make_content(writer, of_incarnation, number, RECORD_BYTES);
        if (memcmp(data + at, content, part) != 0)
            return false;
    }
    return true;
}

/* Whether a file holds what its name says. Of a log that grows meanwhile, it is the beginning. */
static bool is_right(const char *writer, const char *name, const sr_bytes *found)
{
    unsigned of_incarnation, of_serial;
    unsigned long long number;
    size_t bytes;
    if (sscanf(name, "f-%u-%llu-%zu", &of_incarnation, &number, &bytes) == 3)
        return bytes >= HEAD_BYTES && bytes <= MIB && is_content(found->data, found->len, writer, of_incarnation, number, bytes);
    if (sscanf(name, "log-%u-%u", &of_incarnation, &of_serial) == 2)
        return is_log(found->data, found->len, writer, of_incarnation, of_serial);
    if (sscanf(name, "state-%u-%u", &of_incarnation, &of_serial) != 2)
        return false;
    /* Which of its contents it is, the content itself says. */
    return sscanf((const char *)found->data, "%*s %*u %llu", &number) == 1
        && is_content(found->data, found->len, writer, of_incarnation, number, STATE_BYTES);
}

/* ---- chance, and the journal */

static unsigned below(unsigned bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 20) % bound);
}

/* Writes a line into the journal, in one call. */
static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    for (char *letter = line; *letter; letter++)
        if (*letter == '\n')
            *letter = ' ';
    size_t len = strlen(line);
    line[len] = '\n';
    if (write(journal, line, len + 1) != (ssize_t)(len + 1)) {
        perror("kill_worker: writing the journal");
        exit(2);
    }
}

/* Notes an error, and gives it. */
static int failed(const char *what, const char *name, int64_t result)
{
    note("error %s %s %d - %s", what, name, (int)-result, sr_error_message());
    return (int)result;
}

static bool is_to_stop(void)
{
    return access(stop_file, F_OK) == 0;
}

static void pause_ms(unsigned ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&time, NULL);
}

/* ---- opening and closing */

static void open_vault(void)
{
    while (!vault_is_open && !is_to_stop()) {
        int result = sr_open(folder, &secret, NULL, &vault);
        vault_is_open = result == 0;
        if (result < 0) {
            failed("open", "vault", result);
            pause_ms(100);
        }
    }
}

static void close_vault(void)
{
    if (!vault_is_open)
        return;
    vault_is_open = false;
    int result = sr_close(vault);
    if (result < 0)
        failed("close", "vault", result);
}

static void close_log(void)
{
    if (!log_is_open)
        return;
    log_is_open = false;
    int result = sr_file_close(log_file);
    if (result < 0)
        failed("close", "log", result);
}

/* An owner does not: closing waits for those who use the vault through it. */
static void reopen_as_client(void)
{
    if (!vault_is_open || sr_is_owner(vault) != 0)
        return;
    close_vault();
    open_vault();
}

/* ---- what it does; each gives 0, or an error that is noted */

static void path_of(char *path, const char *writer, const char *name)
{
    snprintf(path, PATH_BYTES, "/%s/%s", writer, name);
}

static int write_durably(const char *path, size_t bytes)
{
    sr_file file;
    int64_t result = sr_file_open(vault, path, SR_WRITE | SR_CREATE | SR_TRUNCATE, 0600, &file);
    if (result < 0)
        return (int)result;
    result = sr_pwrite(file, content, bytes, 0);
    if (result >= 0)
        result = sr_file_sync(file);
    if (result < 0) {
        sr_file_close(file);
        return (int)result;
    }
    return sr_file_close(file);
}

static int make_file(size_t bytes)
{
    char name[NAME_BYTES], temporary[NAME_BYTES], path[PATH_BYTES], temporary_path[PATH_BYTES];
    unsigned number = counter++;
    snprintf(name, sizeof name, "f-%04u-%06u-%zu", incarnation, number, bytes);
    snprintf(temporary, sizeof temporary, "t-%04u-%06u", incarnation, number);
    path_of(path, me, name);
    path_of(temporary_path, me, temporary);
    make_content(me, incarnation, number, bytes);
    note("begin new %s", name);
    int result = write_durably(temporary_path, bytes);
    if (result == 0)
        result = sr_rename(vault, temporary_path, path, SR_RENAME_REPLACE);
    if (result == 0)
        result = sr_sync(vault);
    if (result < 0)
        return failed("new", name, result);
    note("done new %s", name);
    strcpy(own[own_count++], name);
    return 0;
}

static int remove_file(void)
{
    char name[NAME_BYTES], path[PATH_BYTES];
    unsigned which = below(own_count);
    strcpy(name, own[which]);
    /* After an error nobody knows whether it is there: it is left alone. */
    memmove(own[which], own[--own_count], NAME_BYTES);
    path_of(path, me, name);
    note("begin remove %s", name);
    int result = sr_remove(vault, path);
    if (result == 0)
        result = sr_sync(vault);
    if (result < 0)
        return failed("remove", name, result);
    note("done remove %s", name);
    return 0;
}

static int append_record(void)
{
    char name[NAME_BYTES], path[PATH_BYTES];
    int64_t result = 0;
    snprintf(name, sizeof name, "log-%04u-%04u", incarnation, serial);
    path_of(path, me, name);
    make_content(me, incarnation, serial * (uint64_t)RECORDS_OF_SERIAL + records, RECORD_BYTES);
    note("begin append %s %u", name, records);
    if (!log_is_open) {
        result = sr_file_open(vault, path, SR_APPEND | SR_CREATE, 0600, &log_file);
        log_is_open = result == 0;
    }
    if (result >= 0)
        result = sr_write(log_file, content, RECORD_BYTES);
    if (result >= 0)
        result = sr_file_sync(log_file);
    if (result < 0)
        return failed("append", name, result);
    note("done append %s %u", name, records);
    if (++records == RECORDS_MAX) {
        close_log();
        serial++;
        records = 0;
    }
    return 0;
}

static int replace_state(void)
{
    char name[NAME_BYTES], path[PATH_BYTES];
    unsigned number = counter++;
    snprintf(name, sizeof name, "state-%04u-%04u", incarnation, serial);
    path_of(path, me, name);
    make_content(me, incarnation, number, STATE_BYTES);
    note("begin replace %s %u", name, number);
    int result = sr_replace_file(vault, path, content, STATE_BYTES, SR_DURABLE);
    if (result < 0)
        return failed("replace", name, result);
    note("done replace %s %u", name, number);
    return 0;
}

static bool is_finished(const char *name)
{
    return !strncmp(name, "f-", 2) || !strncmp(name, "log-", 4) || !strncmp(name, "state-", 6);
}

/* Calls `take` for each entry of the directory of `writer`. */
static int list(const char *writer, void (*take)(const char *name, void *context), void *context)
{
    char path[PATH_BYTES];
    sr_directory directory;
    sr_entry entry;
    snprintf(path, sizeof path, "/%s", writer);
    int result = sr_directory_open(vault, path, &directory);
    if (result < 0)
        return failed("list", writer, result);
    while ((result = sr_directory_next(directory, &entry)) == 1)
        take(entry.name, context);
    if (result < 0)
        failed("list", writer, result);
    sr_directory_close(directory);
    return result;
}

struct choice {
    char name[NAME_BYTES];
    unsigned count;
};

static void choose(const char *name, void *context)
{
    struct choice *choice = context;
    if (is_finished(name) && below(++choice->count) == 0)
        strcpy(choice->name, name);
}

static int read_file(void)
{
    const char *writer = PROGRAMS[below(sizeof PROGRAMS / sizeof *PROGRAMS)];
    struct choice choice = { "", 0 };
    char path[PATH_BYTES];
    sr_bytes found;
    int result = list(writer, choose, &choice);
    if (result < 0 || choice.count == 0)
        return result;
    path_of(path, writer, choice.name);
    result = sr_read_file(vault, path, &found);
    if (result == -ENOENT) {
        note("missing %s/%s", writer, choice.name);
        return 0;
    }
    if (result < 0) {
        char whole[PATH_BYTES];
        snprintf(whole, sizeof whole, "%s/%s", writer, choice.name);
        return failed("read", whole, result);
    }
    if (is_right(writer, choice.name, &found))
        note("read %s/%s", writer, choice.name);
    else
        note("wrong %s/%s of %llu bytes", writer, choice.name, (unsigned long long)found.len);
    sr_bytes_free(&found);
    return 0;
}

static int do_one(void)
{
    unsigned chance = below(100);
    if (chance < 35)
        return append_record();
    if (chance < 45)
        return replace_state();
    if (chance < 60)
        return read_file();
    if (own_count == OWN_MAX || (chance < 75 && own_count > 0))
        return remove_file();
    return make_file(chance < 97 ? HEAD_BYTES + below(SMALL_BYTES_MAX) : MIB);
}

/* ---- its life */

static void adopt(const char *name, void *context)
{
    (void)context;
    if (!strncmp(name, "f-", 2) && own_count < OWN_MAX)
        strcpy(own[own_count++], name);
}

static void work(void)
{
    unsigned count = 1 + below(BURST_MAX);
    for (unsigned done = 0; done < count && !is_to_stop(); done++) {
        if (do_one() < 0) {
            serial++;
            records = 0;
            close_log();
            reopen_as_client();
            break;
        }
    }
    /* With a file open, no owner can leave the vault to a mount. */
    close_log();
    if (below(20) == 0)
        reopen_as_client();
}

static void *read_key(const char *path, size_t *len)
{
    static char key[4096];
    FILE *file = fopen(path, "r");
    if (!file || (*len = fread(key, 1, sizeof key, file)) == 0) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return key;
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return 2;
    folder = argv[1];
    me = argv[4];
    incarnation = (unsigned)strtoul(argv[5], NULL, 10);
    random_state = strtoull(argv[6], NULL, 10) * 0x9E3779B97F4A7C15u | 1;
    stop_file = argv[7];
    size_t len;
    secret.kind = SR_KEY_FILE;
    secret.data = read_key(argv[2], &len);
    secret.len = len;
    journal = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal < 0) {
        perror(argv[3]);
        return 2;
    }
    make_table();
    open_vault();
    /* What the one before asked last is carried out by then, so that no file goes that was seen. */
    pause_ms(SETTLE_MS);
    if (vault_is_open)
        list(me, adopt, NULL);
    while (vault_is_open && !is_to_stop()) {
        work();
        pause_ms(PAUSE_MS_MIN + below(PAUSE_MS_MAX - PAUSE_MS_MIN));
    }
    close_log();
    close_vault();
    return 0;
}
