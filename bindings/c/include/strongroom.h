// Strongroom: an end-to-end encrypted file system inside your program.
//
// RESULTS. A function that gives an int gives 0, or a negative number of <errno.h>: -ENOENT, -EEXIST and so on. One that gives an int64_t
// gives a count, or such a number. sr_error_message() says in a sentence what happened and what to do. These stand for more than their
// names say:
//   -EBADF     the handle is closed, was never opened, or is of another kind; or the file was not opened for this
//   -EINVAL    an argument is none: a pointer that is NULL, an unknown flag, an offset above 2^63 - 1 (a negative one)
//   -EACCES    the secret opens nothing here
//   -EBUSY     the vault is open elsewhere, or what a transaction has read was changed
//   -EBADMSG   something stored is not as it was written: damage or tampering
//   -EIO       a disk failed, content is damaged, or this library has a bug (the message says which)
//   -ESTALE    the process that had the vault open has gone, and the open file with it: it had no name left, or was made and not synced
//   -ECONNABORTED  that process was killed: the call may or may not have been carried out, or something that was not synced may be lost
//
// HANDLES are numbers in a struct, given by value. One that was closed stays invalid for ever, also when others are opened: using it is
// -EBADF. One of all zeros is never valid. Closing a vault closes everything that was opened through it.
//
// MEMORY. What you give is read during the call only and stays yours. Strings end with NUL; a path begins with `/` and is bytes of any
// encoding. What a function fills in that has a pointer inside (sr_bytes, sr_names and so on) is yours: give it back with the function
// that its type names. It is filled in only on success.
//
// THREADS. Every function may be called from every thread, also with the same handle. A handle that one thread closes fails in others
// from then on; a call that is under way ends first. sr_error_message() is of the calling thread.
//
// FORK. A process that was forked while a vault was open cannot use this library: every call fails with -EBADF or -EOPNOTSUPP. Fork first,
// or exec.
//
// SIGNALS interrupt nothing. A panic inside never crosses into your program: it becomes -EIO, and one line on standard error says where in
// the library it happened. What the panic says is printed nowhere, because it could contain a secret.


#ifndef STRONGROOM_H
#define STRONGROOM_H

#include <stdint.h>
#include <stdbool.h>

// An interface of another number is another library: see sr_abi().
#define SR_ABI 1

// What sr_options begins as: sr_options options = SR_OPTIONS_INIT;
#define SR_OPTIONS_INIT { sizeof (sr_options), 0, 0, 0 }


// sr_secret.kind: a passphrase, in UTF-8.
#define SR_PASSPHRASE 1

// sr_secret.kind: the content of a key file.
#define SR_KEY_FILE 2

// sr_secret.kind: a recovery code, as sr_create gave it.
#define SR_RECOVERY_CODE 3

// sr_secret.kind: an age identity file, or an SSH private key without a passphrase. It opens; it is not what a key is added with.
#define SR_IDENTITY 4

// sr_secret.kind: an age recipient, or a line of an SSH public key file. A key is added with it; it opens nothing.
#define SR_RECIPIENT 5

// sr_options.flags: for reading only.
#define SR_READ_ONLY 1

// sr_options.flags: as the only one that opens it. Without it, a vault that another process has open is used through that one.
#define SR_OWN 2

// sr_options.flags: also if the folder is older than what was seen of the vault, as after a backup was put back.
#define SR_ACCEPT_OLDER 4

// sr_options.flags: nothing is recorded of the vault in the user's folder, and an older folder is not noticed.
#define SR_NO_RECORDS 8

// sr_options.flags, of a clone only: the content of files stays at the remote until it is read.
#define SR_ON_DEMAND 16

// sr_stat.kind: a file.
#define SR_KIND_FILE 1

// sr_stat.kind: a directory.
#define SR_KIND_DIRECTORY 2

// sr_stat.kind: a symbolic link.
#define SR_KIND_SYMLINK 3

// sr_stat.kind: a named pipe.
#define SR_KIND_PIPE 4

// sr_stat.kind: a socket.
#define SR_KIND_SOCKET 5

// sr_stat.kind: a character device.
#define SR_KIND_CHARACTER_DEVICE 6

// sr_stat.kind: a block device.
#define SR_KIND_BLOCK_DEVICE 7

// sr_set.what: the mode.
#define SR_SET_MODE 1

// sr_set.what: the owner.
#define SR_SET_UID 2

// sr_set.what: the group.
#define SR_SET_GID 4

// sr_set.what: the size.
#define SR_SET_SIZE 8

// sr_set.what: the time of last access.
#define SR_SET_ATIME 16

// sr_set.what: the time of last change of content.
#define SR_SET_MTIME 32

// sr_set.what: the time of last access, to now.
#define SR_SET_ATIME_NOW 64

// sr_set.what: the time of last change of content, to now.
#define SR_SET_MTIME_NOW 128

// sr_retention.last: all snapshots stay.
#define SR_ALL_SNAPSHOTS UINT32_MAX

// sr_retention.whose: snapshots that a schedule took, or a command as a precaution, and that have no tag.
#define SR_SCHEDULED 0

// sr_retention.whose: those too that have neither message nor tag.
#define SR_UNNAMED 1

// links: go on to what a symlink at the end of the path points to.
#define SR_FOLLOW 0

// links: mean a symlink at the end of the path itself.
#define SR_STAY 1

// To read.
#define SR_READ 1

// To write.
#define SR_WRITE 2

// To write at the end only.
#define SR_APPEND 4

// To empty it first; with SR_WRITE.
#define SR_TRUNCATE 8

// To make it if it does not exist.
#define SR_CREATE 16

// To make it, and fail if it exists.
#define SR_CREATE_NEW 32

// whence: from the start.
#define SR_FROM_START 0

// whence: from the position now.
#define SR_FROM_CURRENT 1

// whence: from the end.
#define SR_FROM_END 2

// target: bytes that were written.
#define SR_DATA 0

// target: a hole; the end of the file counts as one.
#define SR_HOLE 1

// how: reserve room, extend the size.
#define SR_RESERVE 0

// how: reserve room, leave the size.
#define SR_RESERVE_KEEP_SIZE 1

// how: make a hole, leave the size.
#define SR_PUNCH_HOLE 2

// how: make zeros, extend the size.
#define SR_ZERO 3

// how: make zeros, leave the size.
#define SR_ZERO_KEEP_SIZE 4

// how: a lock that others may share.
#define SR_LOCK_SHARED 0

// how: a lock that nobody has beside it.
#define SR_LOCK_EXCLUSIVE 1

// how, joined by |: do not wait, fail with -EAGAIN.
#define SR_LOCK_TRY 2

// how: replace what has the new name.
#define SR_RENAME_REPLACE 0

// how: fail with -EEXIST if something has the new name.
#define SR_RENAME_NO_REPLACE 1

// how: swap the two.
#define SR_RENAME_EXCHANGE 2

// how: replace, and leave a whiteout at the old name, as overlay file systems use it.
#define SR_RENAME_WHITEOUT 3

// how: make or replace the attribute.
#define SR_XATTR_SET 0

// how: fail with -EEXIST if it is there.
#define SR_XATTR_CREATE 1

// how: fail with -ENODATA if it is not there.
#define SR_XATTR_REPLACE 2

// durability: the next commit, a moment later, makes it durable.
#define SR_WRITE_BEHIND 0

// durability: durable on return.
#define SR_DURABLE 1

// keep: the copy, under the name of the published one, which goes.
#define SR_KEEP_MINE 0

// keep: the published one; the copy goes.
#define SR_KEEP_THEIRS 1

// keep: both; the copy gets an ordinary name.
#define SR_KEEP_BOTH 2

// A limit that is none: this device keeps all that comes.
#define SR_NO_LIMIT UINT64_MAX

// sr_sync_event.kind: bytes are on their way; about twice a second.
#define SR_SYNC_MOVING 1

// sr_sync_event.kind: something moved, here or there.
#define SR_SYNC_DONE 2

// sr_sync_event.kind: it did not work, and is tried again; once for as long as it fails in the same way.
#define SR_SYNC_FAILED 3

// sr_sync_event.kind: it works again.
#define SR_SYNC_RECOVERED 4

// sr_sync_event.kind: the vault itself cannot be used any more; nothing follows.
#define SR_SYNC_ENDED 5

// Bytes that the library gave. Give them back with sr_bytes_free, which wipes them.
typedef struct {
  // The bytes, and a NUL behind them that does not count. Never NULL.
  uint8_t *data;
  // How many. Do not change it.
  uint64_t len;
} sr_bytes;

// Names or paths that the library gave. Give them back with sr_names_free.
typedef struct {
  // The names; NULL if there is none.
  sr_bytes *items;
  // How many. Do not change it.
  uint64_t count;
} sr_names;

// What opens a vault, or shall open it.
typedef struct {
  // SR_PASSPHRASE, SR_KEY_FILE, SR_RECOVERY_CODE, SR_IDENTITY or SR_RECIPIENT.
  uint32_t kind;
  // The bytes. The library keeps no pointer to them: wipe them after the call.
  const void *data;
  // How many.
  uint64_t len;
} sr_secret;

// How a vault is made or opened. Begin with SR_OPTIONS_INIT, so that fields which you do not know are right.
//
// Fields of a later header, which this library does not know, must be 0: else, or with a size above 4096, a call fails with -E2BIG.
typedef struct {
  // sizeof (sr_options), as SR_OPTIONS_INIT sets it.
  uint64_t size;
  // Flags, joined by |.
  uint32_t flags;
  // The only vault that may be meant, by its fingerprint; NULL for any.
  const char *fingerprint;
  // The folder of the machine where it is recorded what was seen of vaults; NULL for that of the user.
  const char *records_folder;
} sr_options;

// An open vault. Close it with sr_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_vault;

// What a vault is. Give it back with sr_information_free.
typedef struct {
  // What tells this vault from any other.
  sr_bytes fingerprint;
  // Its algorithms, by name.
  sr_bytes suite;
  // How new content is compressed.
  sr_bytes compression;
  // How often its header has changed.
  uint64_t generation;
  // Sealed bytes of content that is only at remotes.
  uint64_t away_bytes;
  // The newest epoch of keys.
  uint32_t epoch;
  // The process that has the vault open.
  uint32_t owner_pid;
  // Whether that process opened it for reading only.
  bool read_only;
  // Changes of devices and keys that nobody here made or accepted, a line each.
  sr_names unknown_records;
} sr_information;

// How full the disk is, or the quota.
typedef struct {
  // Of the disk, or the quota if that is less.
  uint64_t total_bytes;
  // What can still be written.
  uint64_t free_bytes;
  // Nodes in the vault.
  uint64_t inodes;
} sr_space;

// Hears how far a call is: `context` is yours; `bytes_total` may grow. What it gives other than 0 stops the call, which fails with -ECANCELED or says so in its
// report. It is called by the thread that made the call; in it, functions on files may be used; those on remotes and keys, sr_verify and sr_close fail with -EDEADLK.
typedef int (*sr_told)(void *context, uint64_t bytes, uint64_t bytes_total);

// The keys of a vault. Close it with sr_keys_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_keys;

// One way to unlock a vault.
typedef struct {
  // Its name: 16 hexadecimal digits and NUL.
  char id[17];
  // SR_PASSPHRASE, SR_KEY_FILE, SR_RECOVERY_CODE, or SR_IDENTITY for an age or SSH key.
  uint32_t kind;
  // When it was made, in seconds since 1970, as that device had it.
  uint64_t created_s;
  // What somebody called it. Public.
  sr_bytes label;
} sr_slot;

// All ways to unlock a vault. Give them back with sr_slots_free.
typedef struct {
  // The slots; never none.
  sr_slot *items;
  // How many. Do not change it.
  uint64_t count;
} sr_slots;

// What stat(2) shows of a node. Times are nanoseconds since 1970, negative before.
typedef struct {
  // Its number.
  uint64_t inode;
  // Bytes of content.
  uint64_t size;
  // Units of 512 bytes that it takes.
  uint64_t blocks;
  // The number of a device, else 0.
  uint64_t rdev;
  // Last access.
  int64_t atime;
  // Last change of content.
  int64_t mtime;
  // Last change of anything.
  int64_t ctime;
  // When it was made.
  int64_t btime;
  // SR_KIND_FILE and so on.
  uint32_t kind;
  // The low 12 bits of the mode.
  uint32_t mode;
  // Owner.
  uint32_t uid;
  // Group.
  uint32_t gid;
  // How many names it has.
  uint32_t nlink;
} sr_stat;

// Which attributes to change, and to what.
typedef struct {
  // SR_SET_MODE and so on, joined by |; all others stay.
  uint32_t what;
  // The low 12 bits of the mode.
  uint32_t mode;
  // Owner.
  uint32_t uid;
  // Group.
  uint32_t gid;
  // Bytes of content.
  uint64_t size;
  // Last access, in nanoseconds since 1970.
  int64_t atime;
  // Last change of content.
  int64_t mtime;
} sr_set;

// An open file. Close it with sr_file_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_file;

// A listing. Close it with sr_directory_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_directory;

// One name of a directory.
typedef struct {
  // What stat shows of the node, of a symlink itself.
  sr_stat stat;
  // 1 to 255 bytes, and NUL.
  char name[256];
} sr_entry;

// A walk over a tree. Close it with sr_walk_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_walk;

// One node that a walk met.
typedef struct {
  // What stat shows of the node, of a symlink itself.
  sr_stat stat;
  // How many names below the directory that was given: 1 for what lies in it.
  uint64_t depth;
  // Its path: that of the directory that was given, and the names below it. Give it back with sr_bytes_free.
  sr_bytes path;
} sr_walk_entry;

// A snapshot that is kept.
typedef struct {
  // Its name: 64 hexadecimal digits and NUL. It is a selector, as is a beginning of it.
  char id[65];
  // When it was taken, in nanoseconds since 1970.
  int64_t time;
  // What somebody said about it.
  sr_bytes message;
  // Its tags.
  sr_names tags;
} sr_snapshot_info;

// Snapshots, oldest first. Give them back with sr_snapshots_free.
typedef struct {
  // The snapshots; NULL if there is none.
  sr_snapshot_info *items;
  // How many. Do not change it.
  uint64_t count;
} sr_snapshots;

// Which snapshots stay: of each of the last so many periods in which there is one, the newest. All that `whose` does not mean stay too.
typedef struct {
  // The last ones, whenever they were taken; or SR_ALL_SNAPSHOTS.
  uint32_t last;
  // Hours.
  uint32_t hourly;
  // Days, in UTC as all of these.
  uint32_t daily;
  // Weeks, which begin on Monday.
  uint32_t weekly;
  // Months.
  uint32_t monthly;
  // Years.
  uint32_t yearly;
  // Which snapshots it is about: SR_SCHEDULED or SR_UNNAMED.
  uint32_t whose;
} sr_retention;

// What stored content is for, in sealed bytes.
typedef struct {
  // What files name now, whether or not snapshots name it too.
  uint64_t live_bytes;
  // What only snapshots hold.
  uint64_t kept_bytes;
  // What nothing names any more: sr_compact gives it back.
  uint64_t waste_bytes;
} sr_usage;

// What sr_erase took out of snapshots, or would.
typedef struct {
  // Snapshots that had something at the path.
  uint64_t snapshots;
  // Files whose content it was, over all of them.
  uint64_t files;
  // Sealed bytes that are gone.
  uint64_t bytes;
  // Sealed bytes that stay, because other files have the same content.
  uint64_t shared_bytes;
  // Files of the vault folder that still hold some of it, because other content in them is damaged.
  uint64_t segments_left;
} sr_erased;

// One state of a vault, to be read. Close it with sr_snapshot_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_snapshot;

// Changes that happen all or not at all. It ends with sr_commit or sr_roll_back.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_transaction;

// What went to a remote.
typedef struct {
  // Objects that went up, but for publications.
  uint64_t objects;
  // Their bytes.
  uint64_t bytes;
  // Publications that were made; 0: there was nothing new.
  uint64_t publications;
} sr_pushed;

// What came from a remote. Give it back with sr_pulled_free.
typedef struct {
  // Objects that came down, but for publications.
  uint64_t objects;
  // Their bytes.
  uint64_t bytes;
  // Publications that were taken in; 0: there was nothing new.
  uint64_t publications;
  // Names that came, went or mean another file now.
  uint64_t names;
  // Files, directories and others that are new or were changed.
  uint64_t nodes;
  // Changes here and there that could not be joined.
  uint64_t conflicts;
  // The paths of their copies, as far as they fit; sr_conflicts gives all.
  sr_names conflict_paths;
  // Texts that both sides changed in different lines: they have the lines of both.
  uint64_t merged;
  // The paths of the first thousand of them.
  sr_names merged_paths;
  // Sealed bytes of content that another device erased, and that were erased here, too.
  uint64_t erased_bytes;
  // Sealed bytes that stay, because a file here has that content now, or another file has it in a snapshot.
  uint64_t unerased_bytes;
  // Why such content was not erased, a line each; it is tried again later.
  sr_names erase_problems;
  // Deposits that came into /Inbox.
  uint64_t received;
  // The paths of the first thousand of them.
  sr_names received_paths;
  // Deposits that did not come, with the reason, a line each.
  sr_names deposit_problems;
  // Of a sync: what went up.
  sr_pushed pushed;
  // Of a sync: segments that went from this disk for the limit of this device.
  uint64_t evicted_segments;
  // Their bytes.
  uint64_t evicted_bytes;
} sr_pulled;

// A remote of a vault. Give it back with sr_remote_free.
typedef struct {
  // Where it is, without credentials.
  sr_bytes url;
  // What people compare on two devices: where `publications` are equal and these differ, the remote has shown them different histories.
  // Empty before the first publication.
  sr_bytes code;
  // Publications that this vault made there or read.
  uint64_t publications;
  // Segments and snapshots that it has.
  uint64_t objects;
  // Whether this device removes nothing there.
  bool keeps;
} sr_remote;

// The newest publication of a device at a remote.
typedef struct {
  // The id of the device: 16 hexadecimal digits.
  sr_bytes device;
  // What people call it; empty if it has no name.
  sr_bytes name;
  // The number of the publication.
  uint64_t number;
  // When it was made, in seconds since 1970, by the clock of that device.
  uint64_t time_s;
  // Whether it is the device that this copy of the vault acts as.
  bool is_this;
} sr_publication;

// What waits for a remote, and which devices published there. Give it back with sr_remote_status_free.
typedef struct {
  // Sealed bytes on this disk that the remote does not have, of all snapshots. Some of them may wait for the next change.
  uint64_t waiting_bytes;
  // Files, symlinks and special files that were made, changed or moved since the state that the remote has; -1 if that is not known.
  int64_t waiting_files;
  // Sealed bytes of content that is not on this disk and that the remote has.
  uint64_t away_bytes;
  // Those of them that no other remote has.
  uint64_t alone_bytes;
  // When the remote answered last, in seconds since 1970; 0 if that is not known.
  uint64_t contact_s;
  // Whether a push would publish something: also a removal or another name, for which no file waits.
  bool is_waiting;
  // The newest publication of each device, newest first; NULL if there is none.
  sr_publication *newest;
  // How many. Do not change it.
  uint64_t newest_count;
} sr_remote_status;

// What an eviction did. Give it back with sr_evicted_free.
typedef struct {
  // Segments that went from this disk.
  uint64_t segments;
  // Their bytes.
  uint64_t bytes;
  // Segments that stayed, because no remote has shown that it has them.
  uint64_t kept;
  // Their bytes.
  uint64_t kept_bytes;
  // Segments that stayed, because content of something pinned lies in them.
  uint64_t pinned;
  // Their bytes.
  uint64_t pinned_bytes;
  // Why remotes were not asked, a line each.
  sr_names problems;
} sr_evicted;

// What came back from remotes.
typedef struct {
  // Segments that came.
  uint64_t segments;
  // Their bytes.
  uint64_t bytes;
  // Segments that no remote has any more: sr_verify names the files that this costs.
  uint64_t lost;
  // Their bytes.
  uint64_t lost_bytes;
} sr_brought;

// What was removed from a remote.
typedef struct {
  // Objects that were removed.
  uint64_t objects;
  // Their bytes.
  uint64_t bytes;
  // Objects to which nothing refers any more, and which stay until the grace is over.
  uint64_t waiting;
  // Their bytes.
  uint64_t waiting_bytes;
  // Such objects that the remote itself keeps for some days.
  uint64_t kept;
  // Their bytes.
  uint64_t kept_bytes;
} sr_pruned;

// What happened in a continuous sync. It is the library's, and gone after the call.
typedef struct {
  // SR_SYNC_MOVING and so on; ignore one that you do not know.
  uint32_t kind;
  // With SR_SYNC_FAILED and SR_SYNC_ENDED: why, as a negative number of errno.h.
  int error;
  // With them: why, as a sentence; else NULL.
  const char *message;
  // The name of the remote; NULL with SR_SYNC_ENDED.
  const char *remote;
  // With SR_SYNC_MOVING: bytes that are where they belong.
  uint64_t bytes;
  // With SR_SYNC_MOVING: bytes of all.
  uint64_t bytes_total;
  // With SR_SYNC_DONE: objects that went up.
  uint64_t pushed_objects;
  // With SR_SYNC_DONE: their bytes.
  uint64_t pushed_bytes;
  // With SR_SYNC_DONE: what came; else NULL. Do not give it back.
  const sr_pulled *pulled;
  // With SR_SYNC_FAILED: after so many milliseconds it is tried again.
  uint64_t again_in_ms;
} sr_sync_event;

// Hears what happens in a continuous sync: `context` is yours. What it gives other than 0 ends the sync. It is called by the thread of the sync:
// in it, functions on files may be used, and sr_continuous_sync_close; those on remotes and keys, sr_verify and sr_close fail with -EDEADLK.
typedef int (*sr_heard)(void *context, const sr_sync_event *event);

// A continuous sync. It ends with sr_continuous_sync_finish or sr_continuous_sync_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_continuous_sync;

// A device that has the code and asks to be let in. Give it back with sr_candidate_free.
typedef struct {
  // What it calls itself.
  sr_bytes name;
  // What the new device shows too, if nobody sits between the two: a person compares them before sr_invitation_admit.
  sr_bytes fingerprint;
} sr_candidate;

// The offer that a new device may join. Close it with sr_invitation_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_invitation;

// A device that wants to join a vault. Close it with sr_new_device_close.
typedef struct {
  // Only for the library.
  uint64_t id;
} sr_new_device;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What the last call of this thread that failed says: one sentence, what happened and what to do. Never NULL.
//
// It is the library's, and stays as it is until the next call of this thread fails.
const char *sr_error_message(void);

// Wipes and frees what a function filled in. Does nothing for NULL, and for one that was freed already.
void sr_bytes_free(sr_bytes *bytes);

// The same for names.
void sr_names_free(sr_names *names);

// SR_ABI of the library: compare it with that of the header if you load the library yourself.
uint32_t sr_abi(void);

// The version of the library, as "0.1.0". It is the library's.
const char *sr_version(void);

// Makes the content of a new key file, to be kept on another medium.
int sr_make_key_file(sr_bytes *content);

// Makes a vault in the folder `folder` of the machine, which must not exist or be empty, and opens it.
//
// `secrets`: `count` keys that shall open it. `recovery_code`: shown this once; it opens the vault when all else is lost, so let the user
// write it down. It may be NULL only if `count` is 1 or more. Takes about two seconds for each passphrase.
//
// Fails with -EEXIST if there is a vault, -ENOTEMPTY if there is anything else, -ENOENT if the parent is missing, -ENOSPC.
int sr_create(const char *folder,
              const sr_secret *secrets,
              uint64_t count,
              const sr_options *options,
              sr_vault *vault,
              sr_bytes *recovery_code);

// Opens the vault in `folder`: through the process that has it open, if there is one, so that several programs, a mount and the command
// line use it at once; else as the one that others go through. `options` may be NULL. Takes about a second with a passphrase.
//
// If that process goes, the next call has this one take its place; the library keeps the secret for that, in locked memory.
//
// Fails with -ENOENT if there is no vault, -EACCES for a wrong secret (it is not looked at if another process has the vault open), -EBUSY
// with SR_OWN if another has it open, -EBADMSG for damage.
int sr_open(const char *folder,
            const sr_secret *secret,
            const sr_options *options,
            sr_vault *vault);

// Closes a vault with everything that was opened through it, and makes all durable. The handle is invalid then, also on failure, which
// says that something may not be durable. Waits for other programs that use the vault through this one. In a function that the library
// calls it fails with -EDEADLK, and the vault stays open.
int sr_close(sr_vault vault);

// Makes everything that was done so far durable.
//
// Fails with -ECONNABORTED, once, if a process that had the vault open for this one was killed before that: look what is there.
int sr_sync(sr_vault vault);

// Gives the fingerprint: what tells this vault from any other.
int sr_fingerprint(sr_vault vault, sr_bytes *fingerprint);

// Gives back what sr_get_information filled in.
void sr_information_free(sr_information *information);

// Gives what the vault is.
int sr_get_information(sr_vault vault, sr_information *information);

// Accepts the unknown records of sr_get_information: devices and keys that others added, and that are yours.
int sr_accept_records(sr_vault vault);

// Whether this process is the one that others go through: 1 or 0.
int sr_is_owner(sr_vault vault);

// Gives how full the disk is.
int sr_get_space(sr_vault vault, sr_space *space);

// Gives the space of removed content back now, instead of when the vault is idle.
int sr_compact(sr_vault vault);

// Compares the tables of the vault with one another: 1 if all is sound, 0 if not; then `problems`, unless it is NULL, says what does not
// agree, a line each.
int sr_check(sr_vault vault,
             sr_names *problems);

// Reads everything in the vault folder: 1 if all is as it was written, 0 if something is damaged, 2 if nothing is, but a device or key waits
// for a decision, as those in `unknown_records` of sr_get_information do. `damaged`, unless it is NULL, names the files that lost something;
// `problems`, unless it is NULL, says what is wrong with files of the vault folder, which tables do not agree, and what waits, a line each.
// `deep`: also compute the names of blocks again, and go over every snapshot. `told` may be NULL; if it stops the call, that fails with
// -ECANCELED.
int sr_verify(sr_vault vault,
              bool deep,
              sr_told told,
              void *context,
              sr_names *damaged,
              sr_names *problems);

// Makes the folder `target` of the machine a copy of the vault folder while others use the vault; gives how many bytes were copied. A later
// backup into the same folder copies only what is new. `told` may be NULL; a backup that was stopped is continued by the next one.
int64_t sr_backup(sr_vault vault,
                  const char *target,
                  sr_told told,
                  void *context);

// Unlocks the keys of the vault in `folder`, to show and change them, whether or not a process has it open. `options` may be NULL; of its
// flags only SR_ACCEPT_OLDER and SR_NO_RECORDS count.
//
// Fails as sr_open; here a wrong secret is -EACCES always.
int sr_keys_open(const char *folder,
                 const sr_secret *secret,
                 const sr_options *options,
                 sr_keys *keys);

// Closes the keys.
int sr_keys_close(sr_keys keys);

// Gives all key slots, proved.
int sr_keys_list(sr_keys keys, sr_slots *slots);

// Gives the name of the slot that the secret opened.
int sr_keys_unlocked_by(sr_keys keys, sr_bytes *slot);

// Gives back what sr_keys_list filled in.
void sr_slots_free(sr_slots *slots);

// Adds a key. `label` is public, and may be empty.
//
// Fails with -EINVAL for a label that could deceive, or with too many keys; with -EROFS if the process that has the vault open only reads.
int sr_keys_add(sr_keys keys,
                const char *label,
                const sr_secret *secret);

// Removes the key of the slot `slot`, by its name. What is stored from now on it can never open.
//
// Fails with -EINVAL if there is no such slot, or it is the last one.
int sr_keys_remove(sr_keys keys, const char *slot);

// Gives the whole content of a file.
int sr_read_file(sr_vault vault, const char *path, sr_bytes *content);

// Makes or empties a file and writes `len` bytes. Not at once: sr_replace_file is.
int sr_write_file(sr_vault vault, const char *path, const void *data, uint64_t len);

// Makes a file, or puts `len` bytes in the place of its content at once: whoever looks, also after a power cut, finds all of the old or
// all of the new. Mode, owner and other names of the file stay. `durability`: SR_DURABLE or SR_WRITE_BEHIND.
int sr_replace_file(sr_vault vault,
                    const char *path,
                    const void *data,
                    uint64_t len,
                    uint32_t durability);

// Whether something is at `path`: 1 or 0. A dangling symlink is not.
int sr_exists(sr_vault vault, const char *path);

// Gives the attributes of a node. `links`: SR_FOLLOW or SR_STAY.
int sr_get_stat(sr_vault vault, const char *path, uint32_t links, sr_stat *stat);

// Changes the attributes of a node that `set` names, all at once.
int sr_set_stat(sr_vault vault, const char *path, uint32_t links, const sr_set *set);

// Cuts a file, or extends it by zeros, to `size` bytes.
int sr_truncate(sr_vault vault, const char *path, uint64_t size);

// Changes the low 12 bits of the mode.
int sr_chmod(sr_vault vault, const char *path, uint32_t mode);

// Opens a file. `flags`: SR_READ, SR_WRITE and so on, joined by |. `mode`: the low 12 bits of the mode of a new file; no umask is applied.
//
// Fails with -EISDIR for a directory, with -EOPNOTSUPP for pipes, sockets and devices.
int sr_file_open(sr_vault vault,
                 const char *path,
                 uint32_t flags,
                 uint32_t mode,
                 sr_file *file);

// Opens a new file without a name in the directory `path`, to read and write. It is gone when it is closed, unless sr_file_name names it.
int sr_file_open_unnamed(sr_vault vault,
                         const char *path,
                         uint32_t mode,
                         sr_file *file);

// Gives an open file of the vault a further name; an unnamed one, its first.
int sr_file_name(sr_vault vault, sr_file file, const char *path);

// Closes a file. What was written is not durable before sr_file_sync, sr_sync or sr_close.
int sr_file_close(sr_file file);

// Reads from `offset` on, as far as the file goes, at most `len` bytes; gives how many.
int64_t sr_pread(sr_file file, void *data, uint64_t len, uint64_t offset);

// Writes all `len` bytes at `offset`; gives `len`. On failure a part may be written.
int64_t sr_pwrite(sr_file file, const void *data, uint64_t len, uint64_t offset);

// Reads at the position of the file, which moves on; gives how many bytes, 0 at the end. They are fewer than `len` at the end, or if
// something fails behind those: the next call gives the error.
int64_t sr_read(sr_file file,
                void *data,
                uint64_t len);

// Writes all `len` bytes at the position of the file, which moves on; an appending file at its end. Gives `len`.
int64_t sr_write(sr_file file,
                 const void *data,
                 uint64_t len);

// Moves the position of the file by `by` bytes from `whence`, SR_FROM_START and so on; gives the new one.
int64_t sr_seek(sr_file file, int64_t by, uint32_t whence);

// Gives the attributes of an open file.
int sr_file_get_stat(sr_file file, sr_stat *stat);

// Changes attributes of an open file.
int sr_file_set_stat(sr_file file, const sr_set *set);

// Cuts an open file, or extends it by zeros, to `size` bytes.
int sr_file_truncate(sr_file file, uint64_t size);

// Makes content, attributes and name of a file durable.
int sr_file_sync(sr_file file);

// Reserves, punches or zeroes a range. `how`: SR_RESERVE and so on.
int sr_file_allocate(sr_file file, uint32_t how, uint64_t offset, uint64_t len);

// Gives where the next data or hole begins, at or behind `offset`. `target`: SR_DATA or SR_HOLE. Fails with -ENXIO if there is none.
int64_t sr_file_find(sr_file file,
                     uint32_t target,
                     uint64_t offset);

// Copies a range into `target`, a file of the same vault, without moving content; gives how many bytes: fewer than `len` at the
// end, or if something fails behind those. The next call, which begins there, gives the error.
int64_t sr_file_copy(sr_file file,
                     uint64_t offset,
                     sr_file target,
                     uint64_t target_offset,
                     uint64_t len);

// Locks a file as a whole against others who lock it, in this program and others. `how`: SR_LOCK_SHARED or SR_LOCK_EXCLUSIVE, with
// | SR_LOCK_TRY to fail with -EAGAIN instead of waiting. The lock is that of this open file, and goes when that is closed.
int sr_file_lock(sr_file file,
                 uint32_t how);

// Gives the lock back; does nothing without one.
int sr_file_unlock(sr_file file);

// Makes a directory with the low 12 bits of `mode`.
int sr_make_directory(sr_vault vault, const char *path, uint32_t mode);

// Makes a directory and all that are missing on the way to it. One that is there is left as it is.
int sr_make_directories(sr_vault vault, const char *path, uint32_t mode);

// Removes an empty directory.
int sr_remove_directory(sr_vault vault, const char *path);

// Removes a directory and all below it. Not at once: whoever looks meanwhile, and a power cut, may find a part.
int sr_remove_tree(sr_vault vault,
                   const char *path);

// Begins to list a directory.
int sr_directory_open(sr_vault vault, const char *path, sr_directory *directory);

// Gives the next entry: 1, or 0 at the end. `.` and `..` are none; the order is that in which they were made.
int sr_directory_next(sr_directory directory, sr_entry *entry);

// Ends a listing.
int sr_directory_close(sr_directory directory);

// Begins to go over everything below a directory, sorted, a directory before what lies in it. Symlinks are given and not followed.
int sr_walk_open(sr_vault vault,
                 const char *path,
                 sr_walk *walk);

// Gives the next node: 1, or 0 at the end. After a failure the walk continues behind the directory that it is about.
int sr_walk_next(sr_walk walk,
                 sr_walk_entry *entry);

// Ends a walk.
int sr_walk_close(sr_walk walk);

// Moves a name, at once. `how`: SR_RENAME_REPLACE and so on.
int sr_rename(sr_vault vault, const char *path, const char *new_path, uint32_t how);

// Removes the name of anything but a directory.
int sr_remove(sr_vault vault, const char *path);

// Gives the node at `path`, a symlink itself included, the further name `new_path`. Fails with -EPERM for directories.
int sr_link(sr_vault vault,
            const char *path,
            const char *new_path);

// Makes a symbolic link at `path` that points to `target`, which need not exist.
int sr_make_symlink(sr_vault vault, const char *target, const char *path);

// Gives where a symlink points. Fails with -EINVAL if it is none.
int sr_read_link(sr_vault vault, const char *path, sr_bytes *target);

// Makes a node of any kind but a symlink: an empty file, a directory, a pipe, a socket, a device. `rdev`: the number of a device, else 0.
int sr_make_node(sr_vault vault,
                 const char *path,
                 uint32_t kind,
                 uint32_t mode,
                 uint64_t rdev);

// Gives the value of an extended attribute. Fails with -ENODATA if there is none.
int sr_get_xattr(sr_vault vault, const char *path, uint32_t links, const char *name, sr_bytes *value);

// Sets an extended attribute to `len` bytes. `how`: SR_XATTR_SET and so on.
int sr_set_xattr(sr_vault vault,
                 const char *path,
                 uint32_t links,
                 const char *name,
                 const void *value,
                 uint64_t len,
                 uint32_t how);

// Removes an extended attribute.
int sr_remove_xattr(sr_vault vault, const char *path, uint32_t links, const char *name);

// Gives the names of all extended attributes.
int sr_list_xattrs(sr_vault vault, const char *path, uint32_t links, sr_names *names);

// Takes a snapshot of everything, durable on return: 1, or 0 if `only_if_changed` and nothing changed since the newest. `message` may be
// NULL; `tags`: `tag_count` names that select it, as "t:NAME".
//
// Fails with -EEXIST if another snapshot has one of the tags, -EINVAL for what is no tag or a message above 16 KiB.
int sr_take_snapshot(sr_vault vault,
                     const char *message,
                     const char *const *tags,
                     uint64_t tag_count,
                     bool only_if_changed);

// Gives all snapshots.
int sr_list_snapshots(sr_vault vault, sr_snapshots *snapshots);

// Gives back what sr_list_snapshots or sr_thin filled in.
void sr_snapshots_free(sr_snapshots *snapshots);

// Removes the snapshot that `selector` means: a tag "t:…", a date "d:…", the beginning of an id. Its space comes back in the background.
//
// Fails with -ENOENT if it means none or several.
int sr_remove_snapshot(sr_vault vault,
                       const char *selector);

// Brings back what the snapshot that `selector` means had at `path`, to the path `to`; gives how many nodes. What is at `to` is replaced at
// once. Files below a directory whose content was erased are left out.
int64_t sr_restore(sr_vault vault,
                   const char *selector,
                   const char *path,
                   const char *to);

// Gives the paths at and below `path` that differ between the snapshots that `before` and `after` mean, a directory before what lies in it.
// `after` is NULL for now.
int sr_differences(sr_vault vault,
                   const char *before,
                   const char *after,
                   const char *path,
                   sr_names *paths);

// Gives the rule of the vault for its snapshots, by which sr_thin goes: 1, or 0 if none was set, and `rule` is the default one. It is the
// shared rule; where a rule was set on this device, it keeps what either of both keeps.
int sr_get_retention(sr_vault vault,
                     sr_retention *rule);

// Gives the rule that was set last, on whichever device of a vault with remotes, as far as this device has synced: 1, or 0 if none was set,
// and `rule` is the default one.
int sr_get_shared_retention(sr_vault vault,
                            sr_retention *rule);

// Sets the rule of the vault for its snapshots, also for the other devices; durable on return. Nothing goes before sr_thin is called or a
// schedule takes the next snapshot.
//
// Fails with -EINVAL for a rule that keeps nothing.
int sr_set_retention(sr_vault vault,
                     const sr_retention *rule);

// Removes the snapshots that the rule of sr_get_retention lets go; gives how many. `gone` may be NULL.
// Their space comes back in the background.
int64_t sr_thin(sr_vault vault, sr_snapshots *gone);

// Gives what the stored content is for.
int sr_get_usage(sr_vault vault, sr_usage *usage);

// Takes the content of what was at `path`, with all below a directory, out of every snapshot, for good: here, and on the other devices when
// they have synced. Names and attributes stay there. With `trial` nothing is done. `erased` may be NULL.
//
// Fails with -EINVAL if something is at `path` now: remove it first; -ENOENT if no snapshot has anything there.
int sr_erase(sr_vault vault,
             const char *path,
             bool trial,
             sr_erased *erased);

// Opens the state of now, to be read in many calls while others write. It goes when it is closed.
int sr_snapshot_open(sr_vault vault, sr_snapshot *snapshot);

// Opens the snapshot that `selector` means, to be read.
int sr_snapshot_at(sr_vault vault, const char *selector, sr_snapshot *snapshot);

// Closes a state. Files and listings that were opened through it stay open.
int sr_snapshot_close(sr_snapshot snapshot);

// As sr_read_file.
int sr_snapshot_read_file(sr_snapshot snapshot, const char *path, sr_bytes *content);

// As sr_exists.
int sr_snapshot_exists(sr_snapshot snapshot, const char *path);

// As sr_get_stat.
int sr_snapshot_get_stat(sr_snapshot snapshot, const char *path, uint32_t links, sr_stat *stat);

// As sr_read_link.
int sr_snapshot_read_link(sr_snapshot snapshot, const char *path, sr_bytes *target);

// As sr_get_xattr.
int sr_snapshot_get_xattr(sr_snapshot snapshot,
                          const char *path,
                          uint32_t links,
                          const char *name,
                          sr_bytes *value);

// As sr_list_xattrs.
int sr_snapshot_list_xattrs(sr_snapshot snapshot, const char *path, uint32_t links, sr_names *names);

// As sr_file_open with SR_READ.
int sr_snapshot_file_open(sr_snapshot snapshot, const char *path, sr_file *file);

// As sr_directory_open.
int sr_snapshot_directory_open(sr_snapshot snapshot, const char *path, sr_directory *directory);

// As sr_walk_open; the paths are those of the state.
int sr_snapshot_walk_open(sr_snapshot snapshot, const char *path, sr_walk *walk);

// Begins a transaction. Nothing is locked: what it reads is noted, what it changes is gathered, and sr_commit does it all or nothing. What
// it gathers is held in memory.
int sr_begin(sr_vault vault,
             sr_transaction *transaction);

// Carries out what was gathered, in order. The handle is invalid then, also on failure. `durability`: SR_DURABLE or SR_WRITE_BEHIND.
//
// Fails with -EBUSY if something that was read is another by now: begin again. Otherwise with the number of the change that failed, and
// -E2BIG above 1024 changes and reads, 1 MiB of paths, names and values, or 1 GiB of content. Nothing has happened then.
int sr_commit(sr_transaction transaction,
              uint32_t durability);

// Ends a transaction without a change.
int sr_roll_back(sr_transaction transaction);

// Gives the whole content of a file.
int sr_transaction_read_file(sr_transaction transaction, const char *path, sr_bytes *content);

// Whether something is at `path`: 1 or 0.
int sr_transaction_exists(sr_transaction transaction, const char *path);

// Gives the attributes of a node.
int sr_transaction_get_stat(sr_transaction transaction, const char *path, uint32_t links, sr_stat *stat);

// Gives the names in a directory, sorted.
int sr_transaction_list(sr_transaction transaction, const char *path, sr_names *names);

// Makes a file with `len` bytes, or replaces the content of the one that is there.
int sr_transaction_write_file(sr_transaction transaction, const char *path, const void *data, uint64_t len);

// Writes `len` bytes into an existing file, from `at` on.
int sr_transaction_write_at(sr_transaction transaction,
                            const char *path,
                            const void *data,
                            uint64_t len,
                            uint64_t at);

// Cuts a file, or extends it by zeros.
int sr_transaction_truncate(sr_transaction transaction, const char *path, uint64_t size);

// Makes a directory.
int sr_transaction_make_directory(sr_transaction transaction, const char *path, uint32_t mode);

// Makes a symbolic link.
int sr_transaction_make_symlink(sr_transaction transaction, const char *target, const char *path);

// Gives a node a further name.
int sr_transaction_link(sr_transaction transaction, const char *path, const char *new_path);

// Moves a name.
int sr_transaction_rename(sr_transaction transaction, const char *path, const char *new_path, uint32_t how);

// Removes the name of anything but a directory.
int sr_transaction_remove(sr_transaction transaction, const char *path);

// Removes an empty directory.
int sr_transaction_remove_directory(sr_transaction transaction, const char *path);

// Changes the attributes that `set` names.
int sr_transaction_set_stat(sr_transaction transaction, const char *path, uint32_t links, const sr_set *set);

// Sets an extended attribute to `len` bytes.
int sr_transaction_set_xattr(sr_transaction transaction,
                             const char *path,
                             uint32_t links,
                             const char *name,
                             const void *value,
                             uint64_t len,
                             uint32_t how);

// Removes an extended attribute.
int sr_transaction_remove_xattr(sr_transaction transaction,
                                const char *path,
                                uint32_t links,
                                const char *name);

// Gives back what sr_pull or sr_sync_with filled in.
void sr_pulled_free(sr_pulled *pulled);

// Adds a remote: `url` as "folder:/path", "s3://bucket/prefix" and so on. An empty place becomes this vault's. `keep`: this device removes
// nothing there, also with sr_prune_remote.
//
// Fails with -EEXIST if the name is taken or the place is another vault's, -EINVAL for what is no name or URL, -EHOSTUNREACH, -EACCES.
int sr_add_remote(sr_vault vault,
                  const char *name,
                  const char *url,
                  bool keep);

// Gives the names of all remotes, in the order in which they were added.
int sr_remotes(sr_vault vault, sr_names *names);

// Gives back what sr_get_remote filled in.
void sr_remote_free(sr_remote *remote);

// Gives what this device knows of a remote. Fails with -ENOENT if none has that name.
int sr_get_remote(sr_vault vault, const char *name, sr_remote *remote);

// Gives back what sr_get_remote_status filled in.
void sr_remote_status_free(sr_remote_status *status);

// Gives the state of a remote as this device knows it, and asks no remote. Everything that was done so far is durable then. It takes time in
// proportion to what changed since the last push.
//
// Fails with -ENOENT if no remote has that name.
int sr_get_remote_status(sr_vault vault,
                         const char *name,
                         sr_remote_status *status);

// Forgets a remote. What is there stays there.
int sr_remove_remote(sr_vault vault, const char *name);

// Compares a remote with what its publications say that it has: 1 if all is there, 0 if not; then `problems`, unless it is NULL, says what is
// missing or not as it was written, a line each. `deep`: also read every byte. `told` may be NULL.
int sr_check_remote(sr_vault vault,
                    const char *name,
                    bool deep,
                    sr_told told,
                    void *context,
                    sr_names *problems);

// From now on uses all remotes together at most so fast, in bytes per second; 0: as fast as the line is. An object, up to 16 MiB, goes up in
// one request, and the next one waits.
int sr_limit_remotes(sr_vault vault,
                     uint64_t up,
                     uint64_t down);

// Brings the remote to the state of the vault. `told` and `pushed` may be NULL. A push that was stopped is continued by the next one.
//
// Fails with -EBUSY if the remote has changes of another device: use sr_sync_with.
int sr_push(sr_vault vault,
            const char *name,
            sr_told told,
            void *context,
            sr_pushed *pushed);

// Brings what others pushed into the vault, and joins it with what changed here. `told` and `pulled` may be NULL.
int sr_pull(sr_vault vault,
            const char *name,
            sr_told told,
            void *context,
            sr_pulled *pulled);

// Pulls, then pushes, until this device and the remote have the same; gives how many conflicts there were. `told` and `pulled` may be NULL.
int64_t sr_sync_with(sr_vault vault,
                     const char *name,
                     sr_told told,
                     void *context,
                     sr_pulled *pulled);

// Makes a vault in `folder` of the machine out of the remote at `url`, where it is called "origin". Open it then, and sync it once, so that
// the other devices know it. `options` and `told` may be NULL; with SR_ON_DEMAND the content of files stays there until it is read.
// Interrupted at any moment, the same call continues.
//
// Fails with -ENOENT if there is no vault, -EACCES for a wrong secret, and as sr_create for the folder.
int sr_clone(const char *url,
             const char *folder,
             const sr_secret *secret,
             const sr_options *options,
             sr_told told,
             void *context);

// Gives the paths of all conflict copies: what one device had where another had published something else.
int sr_conflicts(sr_vault vault, sr_names *paths);

// Ends a conflict. `path`: that of the copy. `kept`, unless NULL: the path of what stays, or with SR_KEEP_BOTH of the copy.
int sr_settle_conflict(sr_vault vault,
                       const char *path,
                       uint32_t keep,
                       sr_bytes *kept);

// Gives back what sr_evict or sr_evict_to_limit filled in.
void sr_evicted_free(sr_evicted *evicted);

// Removes content from this disk that remotes have, to free space: of files at or below `path`, or of all for NULL. What is read later
// comes back by itself. `told` and `evicted` may be NULL; if `told` stops the call, that fails with -ECANCELED, and what went stays away.
//
// What is wrong with a remote is in `evicted`: then the content stays here.
int sr_evict(sr_vault vault,
             const char *path,
             sr_told told,
             void *context,
             sr_evicted *evicted);

// Brings evicted content back: that of files at or below `path`, or all for NULL. `told` and `brought` may be NULL; if `told` stops the
// call, that fails with -ECANCELED, and what came stays.
int sr_bring_back(sr_vault vault,
                  const char *path,
                  sr_told told,
                  void *context,
                  sr_brought *brought);

// Brings the content of what is at `path` here, with all below a directory, and keeps it here: sr_evict leaves it. Only this copy of the
// vault knows that. `told` and `brought` as in sr_bring_back; a call that was stopped has pinned it all the same.
int sr_pin(sr_vault vault,
           const char *path,
           sr_told told,
           void *context,
           sr_brought *brought);

// Lets sr_evict take the content of what is at `path` again: 1 if it was pinned, 0 if not.
int sr_unpin(sr_vault vault, const char *path);

// Gives the paths of what is pinned.
int sr_pins(sr_vault vault, sr_names *paths);

// Gives how many bytes of segments this device keeps at most; SR_NO_LIMIT if it keeps all that comes.
int sr_get_keep_at_most(sr_vault vault, uint64_t *bytes);

// Limits the bytes of segments that this device keeps, or ends that with SR_NO_LIMIT; durable on return. Only this copy of the vault knows
// of it. Every sync then evicts what was least recently read, down to nine tenths of the limit, as far as its remote shows that it has it;
// sr_pulled says how much. What is pinned, was not pushed or was just read stays.
int sr_set_keep_at_most(sr_vault vault,
                        uint64_t bytes);

// Evicts at once what a sync would evict for the limit of sr_set_keep_at_most; nothing if there is none. `told` and `evicted` may be NULL; if
// `told` stops the call, that fails with -ECANCELED, and what went stays away.
//
// What is wrong with a remote is in `evicted`; what stayed is not counted there.
int sr_evict_to_limit(sr_vault vault,
                      sr_told told,
                      void *context,
                      sr_evicted *evicted);

// Removes from a remote what nothing has referred to for `grace_s` seconds. Devices do this by themselves with 604800, a week: with less, a
// device that is reading there now may have to begin again. First it pushes. `told` and `pruned` may be NULL.
//
// Fails with -EACCES if this device may remove nothing there.
int sr_prune_remote(sr_vault vault,
                    const char *name,
                    uint64_t grace_s,
                    sr_told told,
                    void *context,
                    sr_pruned *pruned);

// Says what sr_prune_remote may remove from a remote sooner or later, and removes nothing: it is what waits.
int sr_unused_at_remote(sr_vault vault, const char *name, sr_pruned *unused);

// From now on brings what changes here to all remotes, and what others push there into the vault, in a thread of the library. Remotes are
// asked each second while something moves, and less often the longer nothing does, down to every `every_ms` milliseconds.
//
// `heard` and `context` may be NULL. Both must stay valid until the sync was closed by another thread than its own, or its vault was. If
// `heard` closes the sync itself, nobody waits for it: then both must stay valid until it has returned.
int sr_keep_in_sync(sr_vault vault,
                    uint64_t every_ms,
                    sr_heard heard,
                    void *context,
                    sr_continuous_sync *sync);

// Ends a continuous sync when what waits has gone to the remotes that work. The handle is invalid then. Its own function cannot wait for
// that: there it fails with -EDEADLK.
int sr_continuous_sync_finish(sr_continuous_sync sync);

// Ends a continuous sync at once. The handle is invalid then, and its function is not called any more. In its own function this is allowed:
// then the sync ends when that function returns. In another function that the library calls it fails with -EDEADLK.
int sr_continuous_sync_close(sr_continuous_sync sync);

// Gives back what sr_invitation_look filled in.
void sr_candidate_free(sr_candidate *candidate);

// Offers a new device to join through the remote `name`, for ten minutes. `code`: what a person types on the new device. Look then, about
// once a second. Give the invitation back with sr_invitation_close; the code is void then.
int sr_invite(sr_vault vault,
              const char *name,
              sr_invitation *invitation,
              sr_bytes *code);

// Looks once whether somebody came: 1 if a device with the code asks, which fills in `candidate`; 0 if not. After an error of the remote it
// can look again.
//
// Fails with -ETIMEDOUT after ten minutes, -EACCES when every try was used up.
int sr_invitation_look(sr_invitation invitation,
                       sr_candidate *candidate);

// Gives how many wrong codes may still be tried: fewer than before mean that somebody tried one.
int64_t sr_invitation_tries_left(sr_invitation invitation);

// Makes the device that sr_invitation_look found last a member of the vault, and publishes that. `fingerprint`: that of the candidate, which a
// person compared. `keys`: of this vault. It syncs with the remote: call sr_sync_with before, to hear how far that is. The code is void then.
//
// Fails with -EINVAL if no such device asked, -ECONNABORTED if it does not wait any more; nothing was changed then.
int sr_invitation_admit(sr_invitation invitation,
                        const char *fingerprint,
                        sr_keys keys);

// Lets the device that sr_invitation_look found last know that it is not let in. `fingerprint`: that of the candidate. The code is void then.
int sr_invitation_refuse(sr_invitation invitation,
                         const char *fingerprint);

// Takes the offer back, if it did not end.
int sr_invitation_close(sr_invitation invitation);

// Begins as a device called `name` that wants to join the vault at the remote `url`. `secret`: a passphrase or a key file of its own, which
// opens the vault here later. Takes about a second with a passphrase. Give it back with sr_new_device_close.
//
// Fails with -EINVAL for another secret or what is no name, -ENOENT if there is no vault, -EHOSTUNREACH, -EACCES.
int sr_new_device_make(const char *url,
                       const sr_secret *secret,
                       const char *name,
                       sr_new_device *device);

// Gives what a person compares with what the other device shows.
int sr_new_device_fingerprint(sr_new_device device, sr_bytes *fingerprint);

// Asks the device that shows `code` to let this one in; up to five times, with another code. Look for the answer about once a second.
//
// Fails with -EINVAL for what is no code, -ENOENT if no device waits for one that begins so, -EACCES if it has asked five times.
int sr_new_device_ask(sr_new_device device,
                      const char *code);

// Looks once whether the other device has answered: 1 if it has let this one in, 0 if it has not answered yet. After an error of the
// remote it can look again.
//
// Fails with -EACCES if the code was another one (ask again) or the person said no, -ECONNABORTED if the other device does not wait any
// more, -ETIMEDOUT after ten minutes.
int sr_new_device_look(sr_new_device device);

// Makes a vault in `folder` of the machine as sr_clone does, as the device that was let in. `options` and `told` may be NULL. Interrupted,
// sr_clone with the same secret continues.
//
// Fails with -EINVAL if the device was not let in yet, and as sr_clone.
int sr_new_device_clone(sr_new_device device,
                        const char *folder,
                        const sr_options *options,
                        sr_told told,
                        void *context);

// Gives up to join, or ends what has joined.
int sr_new_device_close(sr_new_device device);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STRONGROOM_H */
