/*
 * A realistic program in C: it keeps notes in a vault, where nobody else can read them.
 *
 *   notes FOLDER add TITLE         adds a note from standard input; replaces a note with that title
 *   notes FOLDER show TITLE [SELECTOR]    shows the current note, or the one in a snapshot: t:before, d:yesterday
 *   notes FOLDER list
 *   notes FOLDER remove TITLE
 *   notes FOLDER keep TAG          takes a snapshot of all notes
 *
 * The passphrase comes from the environment variable NOTES_PASSPHRASE; a program with windows would ask for it. A missing vault is created.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <strongroom.h>

static int failed(const char *what)
{
    fprintf(stderr, "notes: %s: %s\n", what, sr_error_message());
    return 1;
}

/* Titles are names of files: a slash would be a folder. */
static int path_of(char *path, size_t size, const char *title)
{
    if (strchr(title, '/') || (size_t)snprintf(path, size, "/notes/%s.txt", title) >= size) {
        fprintf(stderr, "notes: a title has no slash, and at most 200 letters\n");
        return 1;
    }
    return 0;
}

static int open_vault(const char *folder, sr_vault *vault)
{
    const char *passphrase = getenv("NOTES_PASSPHRASE");
    if (!passphrase) {
        fprintf(stderr, "notes: set NOTES_PASSPHRASE\n");
        return 1;
    }
    sr_secret secret = { SR_PASSPHRASE, passphrase, strlen(passphrase) };
    int result = sr_open(folder, &secret, NULL, vault);
    if (result == -ENOENT) {
        sr_bytes code;
        if (sr_create(folder, &secret, 1, NULL, vault, &code) < 0)
            return failed("making the vault");
        fprintf(stderr, "notes: a new vault. Write down its recovery code: %s\n", (char *)code.data);
        sr_bytes_free(&code);
    } else if (result < 0) {
        return failed("opening the vault");
    }
    if (sr_make_directories(*vault, "/notes", 0700) < 0)
        return failed("making the folder of notes");
    return 0;
}

/* All of standard input; free it. */
static char *read_input(size_t *len)
{
    size_t room = 4096;
    char *text = malloc(room);
    *len = 0;
    while (text) {
        size_t count = fread(text + *len, 1, room - *len, stdin);
        *len += count;
        if (count == 0)
            return text;
        if (*len == room) {
            char *more = realloc(text, room *= 2);
            if (!more)
                free(text);
            text = more;
        }
    }
    return NULL;
}

/* Two things at once, whatever happens in between: the note, and a line in the log of changes. */
static int add(sr_vault vault, const char *title, const char *path, const char *note, size_t len)
{
    for (;;) {
        sr_transaction change;
        sr_bytes log;
        if (sr_begin(vault, &change) < 0)
            return failed("beginning");
        int result = sr_transaction_exists(change, "/log");
        if (result == 1)
            result = sr_transaction_read_file(change, "/log", &log);
        else if (result == 0)
            log = (sr_bytes){ NULL, 0 };
        if (result < 0)
            return failed("reading the log");
        size_t size = log.len + strlen(title) + 8;
        char *text = malloc(size);
        if (!text)
            return 1;
        memcpy(text, log.len ? (char *)log.data : "", log.len);
        int line = snprintf(text + log.len, size - log.len, "wrote %s\n", title);
        sr_transaction_write_file(change, path, note, len);
        sr_transaction_write_file(change, "/log", text, log.len + (size_t)line);
        free(text);
        sr_bytes_free(&log);
        result = sr_commit(change, SR_DURABLE);
        if (result == 0)
            return 0;
        /* Somebody else wrote the log meanwhile: look again. */
        if (result != -EBUSY)
            return failed("writing the note");
    }
}

static int show(sr_vault vault, const char *path, const char *selector)
{
    sr_bytes note;
    int result;
    if (selector) {
        sr_snapshot then;
        if (sr_snapshot_at(vault, selector, &then) < 0)
            return failed("finding the snapshot");
        result = sr_snapshot_read_file(then, path, &note);
        sr_snapshot_close(then);
    } else {
        result = sr_read_file(vault, path, &note);
    }
    if (result < 0)
        return failed("reading the note");
    fwrite(note.data, 1, note.len, stdout);
    sr_bytes_free(&note);
    return 0;
}

static int list(sr_vault vault)
{
    sr_walk walk;
    sr_walk_entry entry;
    int more;
    if (sr_walk_open(vault, "/notes", &walk) < 0)
        return failed("listing");
    while ((more = sr_walk_next(walk, &entry)) > 0) {
        printf("%6llu  %s\n", (unsigned long long)entry.stat.size, (char *)entry.path.data);
        sr_bytes_free(&entry.path);
    }
    sr_walk_close(walk);
    return more < 0 ? failed("listing") : 0;
}

static int run(sr_vault vault, const char *command, const char *argument, const char *selector)
{
    char path[300];
    if (strcmp(command, "list") == 0)
        return list(vault);
    if (!argument)
        return 2;
    if (strcmp(command, "keep") == 0)
        return sr_take_snapshot(vault, "notes", &argument, 1, false) < 0 ? failed("taking the snapshot") : 0;
    if (path_of(path, sizeof path, argument))
        return 1;
    if (strcmp(command, "add") == 0) {
        size_t len;
        char *note = read_input(&len);
        int status = note ? add(vault, argument, path, note, len) : 1;
        free(note);
        return status;
    }
    if (strcmp(command, "show") == 0)
        return show(vault, path, selector);
    if (strcmp(command, "remove") == 0)
        return sr_remove(vault, path) < 0 ? failed("removing the note") : 0;
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: notes FOLDER add|show|list|remove|keep [TITLE|TAG] [SELECTOR]\n");
        return 2;
    }
    sr_vault vault;
    if (open_vault(argv[1], &vault))
        return 1;
    int status = run(vault, argv[2], argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL);
    if (sr_close(vault) < 0)
        return failed("closing the vault");
    return status;
}
