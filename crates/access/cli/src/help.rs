//! The longer texts of `--help` and the manual; the shorter ones stand with the commands.

use crate::commands::SPACE_ROWS;
use crate::exit_code::ExitCode;

/// What `put` and `get` keep.
const KEPT: &str = "\
Kept: content and its holes, symbolic links, several names of one file within one command, pipes, sockets and devices, \
modes, times, extended attributes (user.*). The superuser's copies also keep owner, group, capabilities and trusted.*; \
--no-owner leaves them out. What could not be kept is listed at the end.

A file gets its name when it is whole. Interrupted, the command leaves no part of a file; killed with -9, at most one \
named .strongroom-*, which may be removed.";

/// What need not be copied, and what is not.
const AGAIN: &str = "\
A file that is there with the same size and modification time is passed by without being opened; only its mode and owner are \
brought up to date. --checksum reads both sides instead, and copies again what differs or cannot be read: so it also mends a \
file whose stored content is damaged. --delete makes the copy of a directory have nothing that the source has not";

const RIGHTS: &str = "\
Who filled a vault need not be who empties it. So, for the superuser too, files come out without their set-user-id and \
set-group-id bits, without capabilities and trusted.*, and devices do not come out at all, unless --special is given; how \
many there were is said at the end, and the exit code is 0. A mount treats them the same way.";

fn example(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("\n  {line}"));
    format!("Example:{}", lines.collect::<String>())
}

/// Of the command itself.
pub(crate) fn all() -> String {
    format!(
        "VAULT[:PATH] names a place in a vault: the vault's folder, a colon, and a path from the vault's root. \
         It is cut at the first colon behind a vault folder.\n\n\
         STRONGROOM_PROVIDERS in the environment names the library that computes an algorithm, as in \
         AES-256-GCM=ring,BLAKE3=simd; `strongroom info VAULT` shows those in use.\n\n{}\n{}",
        ExitCode::table(),
        example(&[
            "strongroom init photos",
            "strongroom put holiday.jpg photos:/2026/",
            "strongroom mount photos ~/photos",
        ])
    )
}

pub(crate) fn mount() -> String {
    format!(
        "A mount in the background logs to ~/.local/state/strongroom/strongroom.log (or in $XDG_STATE_HOME), at most \
         2 MiB with the older one beside it; `strongroom info` names the file. In the foreground the log goes to \
         standard error. -v and -vv tell more. No log names a file of the vault.\n\n{}",
        example(&[
            "strongroom mount photos ~/photos",
            "strongroom mount -o ro,allow-other photos /mnt",
        ])
    )
}

pub(crate) fn umount() -> String {
    format!(
        "When it returns with 0, everything is stored, the process behind the mount is gone, and the disk below can be unmounted. \
         After a second it says what it waits for. It names who uses the mount if it may look at them, and leaves it mounted \
         then (exit code 7). Where processes with a mount namespace of their own still have it, it returns with 7 after 10 seconds; if nothing moves for 10 \
         minutes, too: the mount goes on ending by itself, as after an interrupt. With --lazy it does not wait at all. If \
         the process has died, the mount is removed, and the exit code is 13.\n\n{}",
        example(&[
            "strongroom umount ~/photos",
            "strongroom umount ~/photos && umount /media/stick"
        ])
    )
}

pub(crate) fn backup() -> String {
    format!(
        "The folder holds the same sealed bytes with the state of one moment, and is itself a vault: it opens with the same keys. \
         Made again into the same folder, it copies only what is missing there. What is copied is read back; `strongroom \
         verify` on the folder reads all of it. Interrupted, the earlier backup is as good as before. Leave the folder to \
         this command: once it was mounted or written to as a vault, no further backup goes there. docs/guide/backup.md says how \
         other tools take it from there, and how a backup is put back.\n\n{}",
        example(&["strongroom backup photos /media/stick/photos"])
    )
}

pub(crate) fn put() -> String {
    let example = example(&[
        "strongroom put holiday.jpg videos/ photos:/2026/",
        "strongroom put --delete --exclude '*.tmp' --exclude /cache/ work backup:/",
        "tar c src | strongroom put - photos:/src.tar",
    ]);
    format!(
        "{KEPT}\n\n{AGAIN}; before the first thing goes, a snapshot is taken.\n\nWhen the disk or the quota is full, the copy stops \
         at once; run again, it goes on.\n\n{example}"
    )
}

pub(crate) fn get() -> String {
    let example = example(&[
        "strongroom get photos:/2026 .",
        "strongroom get photos:/notes.txt copy.txt",
        "strongroom get --special system:/ /mnt/root",
    ]);
    format!("{KEPT}\n\n{AGAIN}: no snapshot brings local files back.\n\n{RIGHTS}\n\n{example}")
}

pub(crate) fn unlock() -> String {
    format!(
        "A process in the background holds the vault open; commands reach it without a secret and at once, as they reach a \
         mount. Whatever runs as this user can use the vault meanwhile, as with a mount or an unlocked ssh-agent; no other user can \
         but the superuser. The keys are in locked memory of that process, and never on a disk. It ends when the time is up, by \
         `strongroom lock`, or when the vault is mounted. `strongroom info` shows it.\n\n{}",
        example(&[
            "strongroom unlock photos",
            "strongroom unlock --for 8h photos",
            "strongroom lock photos",
        ])
    )
}

/// Where names go as they are.
const NAMES: &str = "\
On a terminal what could fool a reader is shown as \\u{…}; into a pipe or a file names go as they are, so that another program \
can use them. --null makes names with line breaks safe there.";

pub(crate) fn ls() -> String {
    let example = example(&[
        "strongroom ls -l photos:/2026",
        "strongroom ls --null photos:/2026 | xargs -0 -n1 echo",
    ]);
    format!("{NAMES} Lines of -l are for people, wherever they go.\n\n{example}")
}

pub(crate) fn find() -> String {
    format!(
        "{NAMES}\n\n--hash and --duplicates hash every file of the vault that has no hash yet, on all cores; the vault remembers hashes until \
         a content changes. Of a content, every path is found. Files without content are no duplicates, and several names of one \
         file are one file.\n\n{}",
        example(&[
            "strongroom find photos --name '*.jpg' --type f",
            "strongroom find photos --hash 3ebb61f0",
            "strongroom find photos --duplicates --min-size 100000",
        ])
    )
}

pub(crate) fn hash() -> String {
    format!(
        "The vault remembers a hash until the content changes, so a second time nothing is read. Paths are printed from the \
         vault's root, without its slash: in the mount, or in a copy of the whole vault, b3sum --check compares them.\n\n{}",
        example(&[
            "strongroom hash photos:/2026/holiday.jpg",
            "strongroom hash -r photos > photos.b3; (cd ~/photos && b3sum --check) < photos.b3",
            "strongroom hash --sha256 --at d:yesterday photos:/notes.txt",
        ])
    )
}

pub(crate) fn info() -> String {
    format!(
        "Without a secret it shows what the header says, for which nobody vouches. A process that has the vault open \
         vouches, and so does unlocking it. What you last saw of each vault is kept in ~/.local/state/strongroom/vaults (or in \
         $XDG_STATE_HOME), so that an older state or another vault in its place is refused; --forget forgets it for one path.\n\n{}",
        example(&[
            "strongroom info photos",
            "strongroom info --unlock photos",
            "strongroom info --forget photos",
        ])
    )
}

pub(crate) fn rotate() -> String {
    format!(
        "Everything new is sealed under new keys at once. What is stored, snapshots included, is sealed anew bit by bit \
         by the process that has the vault open, under half of its time; then the old keys go. A vault that nobody has \
         open is sealed anew by this command. Killed or unmounted in between, it goes on when the vault is opened next. \
         The ways to unlock stay. Who kept an old copy of the whole vault folder can still read that copy.\n\n{}",
        example(&[
            "strongroom key rotate photos",
            "strongroom key rotate photos --status",
            "strongroom key rotate photos --wait",
        ])
    )
}

pub(crate) fn erase() -> String {
    format!(
        "Whatever names the file had in snapshots, its content leaves all of them; of a directory, that of all files below it. \
         Names, attributes and link targets stay, and so does content that other files have too. Remove what is there now first. \
         Copies of the vault folder that were made before are not reached: rotate the keys then, and remove the copies.\n\n{}",
        example(&[
            "strongroom erase photos:/scan.pdf --dry-run",
            "strongroom rm photos:/scan.pdf",
            "strongroom erase photos:/scan.pdf",
        ])
    )
}

pub(crate) fn quota() -> String {
    format!(
        "Counted are sealed content and the rows of the database. Under a quota that is used up already, removing \
         still works.\n\n{}",
        example(&[
            "strongroom quota photos",
            "strongroom quota photos 20G",
            "strongroom quota photos none",
        ])
    )
}

pub(crate) fn compression() -> String {
    format!(
        "What is sealed already stays as it is, and readable; what is written from now on is compressed in blocks of up to \
         64 KiB, and only where that pays. Whoever sees the files of the vault learns how well each block could be \
         compressed: leave it off where others can put content of their own beside secret content, in one file, and \
         where such lengths would tell what a file is. Holds for this copy of the vault; a vault that was recovered \
         begins without.\n\n{}",
        example(&[
            "strongroom compression photos",
            "strongroom compression photos zstd",
            "strongroom init notes --compression zstd",
        ])
    )
}

pub(crate) fn verify() -> String {
    format!(
        "Every table is compared with every other, every sealed block opens under its name, every checksum of every file \
         fits. What does not is told by file: which bytes, and in which kept states. Works while the vault is mounted. \
         Ctrl-C stops it, and --resume goes on.\n\n{}",
        example(&[
            "strongroom verify photos",
            "strongroom verify --deep --json photos",
            "strongroom verify --resume photos",
        ])
    )
}

pub(crate) fn repair() -> String {
    format!(
        "Blocks that do not open are mended from other copies of them, lost header, replica file and database as by \
         `strongroom recover`, records and nodes of kept states from the database. Kept states that the database does \
         not know are kept again; content that nothing names goes to lost+found, files that nobody can explain to the \
         folder `unexplained` in the vault folder. Nothing is deleted but copies. What stays lost is listed byte by byte, and \
         reads as errors; storing the same content again mends it (`put --checksum`). Unmount first.\n\n{}",
        example(&[
            "strongroom repair --dry-run photos",
            "strongroom repair photos"
        ])
    )
}

pub(crate) fn recover() -> String {
    format!(
        "A lost or damaged vault.json or replica.json is put back from its second copy beside it. A lost or damaged \
         metadata.db is rebuilt from what lies in the segments, in the state of the newest kept state that can be read; \
         the old one is kept beside it. Content that no kept state names goes to lost+found. Bytes that are lost are \
         listed, and read as errors. Doing it twice, or killing it half-way, does no harm.\n\n{}",
        example(&[
            "strongroom recover photos",
            "strongroom recover --rebuild photos"
        ])
    )
}

pub(crate) fn tune() -> String {
    format!(
        "Takes half a minute; let nothing else run meanwhile. Every vault of this user computes with the choice from then on; a \
         mount that runs, from the next mount on. Without this command the first use on a machine measures in 300 ms, and again \
         when processor, cores or libraries change. The variable STRONGROOM_PROVIDERS=ALGORITHM=PROVIDER,… ranks above the \
         saved wishes, which rank above what was measured.\n\nMiB/s are medians; beside them the middle half of the rounds, in \
         which all providers take turns. The provider with the greatest median is chosen.\n\n{}",
        example(&[
            "strongroom tune",
            "strongroom tune --chart providers.svg",
            "strongroom tune --prefer AES-256-GCM=ring",
        ])
    )
}

/// A line for each row that `stats` prints.
pub(crate) fn stats() -> String {
    let counters = strongroom::COUNTERS.iter();
    let counters = counters.map(|counter| (counter.name, counter.meaning));
    let counters: Vec<(&str, &str)> = counters.chain(SPACE_ROWS).collect();
    let width = counters.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    let rows = counters
        .iter()
        .map(|(name, meaning)| format!("  {name:width$}  {meaning}\n"));
    format!(
        "Rows:\n{}  {:width$}  requests of the kernel, by its names for them (fuse(4)); only those that occurred\n\n{}",
        rows.collect::<String>(),
        "mount.OPCODE",
        example(&["strongroom stats photos", "strongroom stats --json photos"])
    )
}
