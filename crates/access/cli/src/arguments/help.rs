//! The longer texts of `--help` and of the manual; the shorter ones are at the commands.

use crate::terminal::exit_code::ExitCode;

/// What `put` and `get` keep of a file.
const KEPT: &str = "\
Copies keep content and its holes, symbolic links, hard links between files of the same command, pipes, sockets and devices, modes, times and \
user.* attributes. Copies by root also keep owner, group, capabilities and trusted.* attributes; --no-owner leaves them out. \
What could not be kept is listed at the end.

A file appears under its name only once it is complete. An interrupted command leaves no partial file. A command killed with -9 leaves at \
most one partial file, named .strongroom-*, which may be removed.";

/// Which files `put` and `get` skip.
const AGAIN: &str = "\
A file is skipped if the copy has one with the same size and modification time; only its mode and owner are brought up to date. \
--checksum reads both sides instead, and copies again what differs or cannot be read. So it also mends a file whose stored \
content is damaged. --delete removes from the copy of a directory what the source does not have";

const RIGHTS: &str = "\
Somebody else may have filled the vault. So, for root too, files are copied without set-user-id and set-group-id bits, \
capabilities and trusted.* attributes, and devices are left out, unless --special is given. At the end it prints how many files \
and devices this concerned; the exit code is 0. A mount ignores set-user-id bits, capabilities and devices as well.";

fn example(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("\n  {line}"));
    format!("Example:{}", lines.collect::<String>())
}

/// The text after the list of all commands.
pub(crate) fn all() -> String {
    format!(
        "VAULT[:PATH] names a place in a vault: the vault's folder, a colon, and a path from the vault's root. \
         The path begins after the first colon that follows an existing vault folder.\n\n\
         The environment variable STRONGROOM_PROVIDERS chooses the library for an algorithm, as in \
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
         2 MiB together with the previous log; `strongroom info` names the file. In the foreground it logs to \
         standard error. -v and -vv log more. No log names a file of the vault.\n\n\
         With --sync, changes go to the remotes of the vault within seconds, and what other devices push shows in the mount; the log says \
         what moved. `umount` waits until the last changes are at the remotes that can be reached. In /etc/fstab the option is \
         sync-remotes.\n\n{}",
        example(&[
            "strongroom mount photos ~/photos",
            "strongroom mount --sync photos ~/photos",
            "strongroom mount -o ro,allow-other photos /mnt",
        ])
    )
}

pub(crate) fn umount() -> String {
    format!(
        "When it returns with 0, everything is stored, the process behind the mount is gone, and the disk that holds the vault can be unmounted. \
         After a second it says what it waits for.\n\n\
         Exit code 7: processes use the mount; they are named as far as permitted, and the vault stays mounted. \
         Exit code 7 has two more causes: the mount is gone here, but after 10 seconds a container (another mount namespace) \
         still has it; or there was no progress for 10 minutes. In both cases, and after Ctrl-C, the mount continues to end in the background. Exit code 13: \
         the process behind the mount had died; the mount has been removed.\n\n{}",
        example(&[
            "strongroom umount ~/photos",
            "strongroom umount ~/photos && umount /media/stick"
        ])
    )
}

pub(crate) fn backup() -> String {
    format!(
        "The folder gets the same sealed bytes, in the state of one moment, and is itself a vault that opens with the same keys. \
         Run again, the command copies only what the folder lacks. The command reads back what it copied; `strongroom verify \
         FOLDER` reads the whole backup. If it is interrupted, the earlier backup stays good. Leave the folder to this command: a \
         folder that was ever used as a vault for writing is refused as a backup target. docs/guide/backup.md says how other tools copy \
         it, and how a backup is put back.\n\n{}",
        example(&["strongroom backup photos /media/stick/photos"])
    )
}

pub(crate) fn remote_add() -> String {
    format!(
        "A remote keeps the same sealed bytes as the vault folder and can read none of them. The URL of an S3 server that is not Amazon's \
         names it: ?endpoint=https://host&region=name. Credentials are taken from the environment, as the tools of each store do \
         (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3), or from the URL, s3://KEY:SECRET@BUCKET/PATH; the vault keeps the URL \
         encrypted, and no command shows the credentials in it.\n\n{}",
        example(&[
            "strongroom remote add photos stick folder:/media/stick/photos",
            "strongroom remote add photos cloud 's3://bucket/photos?region=eu-central-1'",
            "strongroom remote add --keep photos locked 's3://locked/photos?region=eu-central-1'",
        ])
    )
}

pub(crate) fn remote_guessable() -> String {
    format!(
        "It holds for all remotes and devices of the vault, and remotes hear of it with the next push. With no, which is how a vault begins, no passphrase opens \
         the vault at a remote: `strongroom clone` needs the recovery code, a key file, an age or SSH key, or a device that lets the new one in \
         (`strongroom device add`). Passphrases open the vault on every device as before. What a remote had once it may have kept: after a \
         change from yes to no, change the passphrases too (`strongroom key change`).\n\n{}",
        example(&[
            "strongroom remote guessable photos no",
            "strongroom remote guessable photos yes",
        ])
    )
}

pub(crate) fn remote_prune() -> String {
    format!(
        "A push does this by itself about once a week, unless the remote was added with --keep. What nothing refers to any more is retired first; the push that finds it \
         still unused a week later removes it. With --now it is removed at once. Content that a device has evicted stays until that device \
         has synced, for 180 days at most.\n\n{}",
        example(&[
            "strongroom remote prune --dry-run photos",
            "strongroom remote prune --now photos stick",
        ])
    )
}

pub(crate) fn device_add() -> String {
    format!(
        "The new device types `strongroom clone --pair URL VAULT` and the code. It shows a fingerprint, which is the same here if nobody sits \
         between the two; answer yes only then. It becomes a device of the vault with a key of its own: a passphrase or key file that is chosen \
         there. The code is good for one device, 10 minutes and 5 tries. The code for a camera holds the URL without credentials, and the code. \
         With --json each event is a line, and the answer is read from standard input: a line `yes`, or anything else for no.\n\n{}",
        example(&[
            "strongroom device add photos",
            "strongroom device add photos stick --no-qr"
        ])
    )
}

pub(crate) fn push() -> String {
    format!(
        "It takes a snapshot if anything changed, sends what the remote lacks, and then publishes the new state in one step. Stopped at any \
         moment, the remote keeps its earlier state, and the next push sends nothing again that arrived. Others may use the vault \
         meanwhile. Files removed from the vault and from its snapshots stay at the remote for one or two weeks, sealed. If another \
         device has pushed what is not here, nothing is published: `strongroom sync` brings it here first.\n\n{}",
        example(&["strongroom push photos", "strongroom push photos stick"])
    )
}

pub(crate) fn pull() -> String {
    format!(
        "Changes of other devices are joined with what changed here, in one step. Where one side removed a file and the other changed it, \
         the change stays. Where both changed different lines of a text, the file has the lines of both. Where both changed the content of \
         a file otherwise, the published one keeps the name, and yours stays beside it under a \
         name like `letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt`. Others may use the vault meanwhile, a mount too. Stopped at any \
         moment, the vault stays as it was, and the next pull brings nothing again that arrived.\n\n{}",
        example(&["strongroom pull photos", "strongroom pull photos stick"])
    )
}

pub(crate) fn sync() -> String {
    format!(
        "Without a remote it returns when everything written is on the disk: use it for a mount, because the kernel does not pass sync(1) \
         on to it. With remotes it then does what pull and push do, for all of them or for the one that is named.\n\n\
         With --watch it goes on until it is interrupted (Ctrl-C), which ends it with exit code 0. Changes go up as soon as nothing \
         was written for 0.2 seconds; while a program goes on writing, every 2 seconds. Remotes are asked for what is new every second \
         while something moves, and less often the longer nothing does. A remote that cannot be reached is tried again after a second, \
         then after longer pauses of at most a minute. With --json each event is one line. The vault can be mounted meanwhile; \
         `mount --sync` does the same by itself.\n\n{}",
        example(&[
            "strongroom sync photos",
            "strongroom sync photos stick",
            "strongroom sync --watch photos",
        ])
    )
}

pub(crate) fn clone() -> String {
    format!(
        "The passphrase, a key file, an identity or the recovery code of the vault opens it; everything that came from the remote is \
         proven before it is used. The remote is called origin in the new vault. Run again after an interruption, it goes on. With --pair another \
         device lets this one in (`strongroom device add` there): it needs no secret of the vault, and gets a passphrase of its own, or a key \
         file, which is made if it is not there. The code is asked for, or is the first line of standard input. After an interruption \
         behind the yes on the other device, the same without --pair goes on. With --on-demand the content of files stays at the remote: everything \
         can be listed, and what is read comes in segments of up to 16 MiB and stays until `strongroom evict`. `strongroom info` says how much \
         lies only there.\n\n{}",
        example(&[
            "strongroom clone folder:/media/stick/photos photos",
            "strongroom clone --on-demand s3://bucket/photos photos",
            "strongroom clone --recovery-code - s3://bucket/photos photos",
            "strongroom clone --pair folder:/media/stick/photos photos",
        ])
    )
}

pub(crate) fn serve() -> String {
    format!(
        "It has no key and can read nothing. Devices reach it as a remote, https://TOKEN@SERVER/ACCOUNT/VAULT, and hear at once of what others \
         push. More accounts, limits and other tokens: the program `strongroom-server`, on the same folder, also while this runs. The log \
         goes to standard error, a line of JSON for each request, without tokens. Interrupted (Ctrl-C), it ends when requests under way have \
         ended, with exit code 0.\n\n{}",
        example(&[
            "strongroom serve --account anna vaults",
            "strongroom serve --listen 0.0.0.0:8443 vaults",
        ])
    )
}

pub(crate) fn put() -> String {
    let example = example(&[
        "strongroom put holiday.jpg videos/ photos:/2026/",
        "strongroom put --delete --exclude '*.tmp' --exclude /cache/ work backup:/",
        "tar c src | strongroom put - photos:/src.tar",
    ]);
    format!(
        "{KEPT}\n\n{AGAIN}; it takes a snapshot before it removes anything.\n\nWhen the disk or the quota is full, the copy stops \
         at once; run again, it continues.\n\n{example}"
    )
}

pub(crate) fn get() -> String {
    let example = example(&[
        "strongroom get photos:/2026 .",
        "strongroom get photos:/notes.txt copy.txt",
        "strongroom get --special system:/ /mnt/root",
    ]);
    format!("{KEPT}\n\n{AGAIN}. No snapshot brings local files back.\n\n{RIGHTS}\n\n{example}")
}

pub(crate) fn unlock() -> String {
    format!(
        "A process in the background holds the vault open; commands then start at once and ask for no secret, as they do while \
         the vault is mounted. Meanwhile every program of this user can use the vault, as with an unlocked ssh-agent; other users \
         cannot, except root. The keys are in locked memory of that process, and never on a disk. It ends when the time is up, at \
         `strongroom lock`, or when the vault is mounted. `strongroom info` shows it.\n\n{}",
        example(&[
            "strongroom unlock photos",
            "strongroom unlock --for 8h photos",
            "strongroom lock photos",
        ])
    )
}

/// Where names are escaped.
const NAMES: &str = "\
On a terminal, characters that could deceive a reader are shown as \\u{…}. Into a pipe or a file names are written as they are, \
for other programs; --null makes names with line breaks safe there.";

pub(crate) fn ls() -> String {
    let example = example(&[
        "strongroom ls -l photos:/2026",
        "strongroom ls --null photos:/2026 | xargs -0 -n1 echo",
    ]);
    format!("{NAMES} The lines of -l are for people and always escaped.\n\n{example}")
}

pub(crate) fn find() -> String {
    format!(
        "{NAMES}\n\n--hash and --duplicates hash every file of the vault that has no hash yet, on all cores. The vault remembers a hash until \
         the content changes. All paths of files with that content are printed. Empty files are no duplicates, and hard links are one \
         file.\n\n{}",
        example(&[
            "strongroom find photos --name '*.jpg' --type f",
            "strongroom find photos --hash 3ebb61f0",
            "strongroom find photos --duplicates --min-size 100000",
        ])
    )
}

pub(crate) fn hash() -> String {
    format!(
        "The vault remembers a hash until the content changes, so the second time nothing is read. Paths are printed from the \
         vault's root, without the first slash: `b3sum --check` can compare them in a mount or in a copy of the vault.\n\n{}",
        example(&[
            "strongroom hash photos:/2026/holiday.jpg",
            "strongroom hash -r photos > photos.b3; (cd ~/photos && b3sum --check) < photos.b3",
            "strongroom hash --sha256 --at d:yesterday photos:/notes.txt",
        ])
    )
}

pub(crate) fn info() -> String {
    format!(
        "Without a secret the values come from the header unchecked. They are checked with --unlock, or when a process has the \
         vault open. What you last saw of each vault is kept in ~/.local/state/strongroom/vaults (or in \
         $XDG_STATE_HOME), so that an older state, or another vault in its place, is refused. --forget deletes what is \
         recorded for one path.\n\n{}",
        example(&[
            "strongroom info photos",
            "strongroom info --unlock photos",
            "strongroom info --forget photos",
        ])
    )
}

pub(crate) fn rotate() -> String {
    format!(
        "New content is sealed under new keys at once. The process that has the vault open then re-seals everything that is \
         stored, snapshots included, in the background, with pauses, and removes the old keys. If no process has the vault \
         open, this command does it. After a kill or an unmount it continues when the vault is opened next. The ways to \
         unlock stay. An old copy of the vault folder still opens with the old keys.\n\n{}",
        example(&[
            "strongroom key rotate photos",
            "strongroom key rotate photos --status",
            "strongroom key rotate photos --wait",
        ])
    )
}

pub(crate) fn erase() -> String {
    format!(
        "Remove the file first. Its content is removed from all snapshots, also where the file had another name; for a directory, the content of \
         all files below it. Names, attributes and link targets stay, and so does content that other files have too. Copies of \
         the vault folder made earlier still have it: remove them.\n\n{}",
        example(&[
            "strongroom rm photos:/scan.pdf",
            "strongroom erase photos:/scan.pdf --dry-run",
            "strongroom erase photos:/scan.pdf",
        ])
    )
}

pub(crate) fn quota() -> String {
    format!(
        "The quota limits encrypted content plus the rows of the database. When the quota is used up, removing still works.\n\n{}",
        example(&[
            "strongroom quota photos",
            "strongroom quota photos 20G",
            "strongroom quota photos none",
        ])
    )
}

pub(crate) fn compression() -> String {
    format!(
        "What is written from now on is compressed, in blocks of up to 64 KiB, where that saves space. What is stored already \
         stays as it is. Anyone who sees the vault folder then learns how well each block could be compressed. Leave it off \
         if somebody can add text to a file that also has your secrets, or if the compressed lengths would give away which file \
         it is. This is a setting of this copy of the vault; a recovered vault begins without it.\n\n{}",
        example(&[
            "strongroom compression photos",
            "strongroom compression photos zstd",
            "strongroom init notes --compression zstd",
        ])
    )
}

pub(crate) fn pin() -> String {
    format!(
        "Only this copy of the vault knows what is pinned. A renamed file or directory stays pinned. Content goes and comes in segments of up to \
         16 MiB, so `strongroom evict` also leaves what lies beside it. What is moved below a pinned directory and lies only at a remote comes \
         with the next pull that brings something, or with another `pin`.\n\n{}",
        example(&[
            "strongroom pin photos:/2026",
            "strongroom pin --list photos",
        ])
    )
}

pub(crate) fn evict() -> String {
    format!(
        "First ask a remote for everything: content goes only if the remote lists it at this moment, as it was pushed. Names, sizes, times \
         and snapshots stay, so listing needs no remote. Reading a file fetches the segments that it lies in, up to 16 MiB each; they stay \
         then. If no remote can be reached, reading fails with an input/output error, and everything else goes on.\n\n\
         Content goes by segments. With a path, those go of which at least half is content at or below it. What was not pushed stays. \
         `strongroom backup` wants everything here: --undo brings it back.\n\n{}",
        example(&[
            "strongroom push photos && strongroom evict photos",
            "strongroom evict photos:/2019",
            "strongroom evict --undo photos:/2019",
        ])
    )
}

pub(crate) fn conflicts() -> String {
    format!(
        "Where this device and another changed the content of one file before either had heard of the other, and it was no text in which \
         they changed different lines, the published file keeps \
         the name, and what was here lies beside it, as `letter (conflict, DEVICE, TIME).txt`. Looks at every name in the \
         vault, which takes seconds for a million.\n\n{}",
        example(&[
            "strongroom conflicts photos",
            "strongroom conflicts keep mine 'photos:/letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt'",
        ])
    )
}

pub(crate) fn conflicts_keep() -> String {
    format!(
        "`mine` gives the copy the name of the published file, which is replaced. `theirs` removes the copy. `both` gives the copy an \
         ordinary name, as `letter (copy).txt`. What goes stays in the snapshots that have it. Nothing is done if one of the two \
         changes meanwhile, or if the published file is not there any more.\n\n{}",
        example(&[
            "strongroom conflicts keep mine 'photos:/letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt'",
            "strongroom conflicts keep both 'photos:/list (conflict, 5f2c9a01, 2026-11-23 14.03)'",
        ])
    )
}

pub(crate) fn verify() -> String {
    format!(
        "Compares every table with the others, opens every sealed block, and computes every checksum. Names what is damaged by \
         file: which bytes, and in which snapshots. Works while the vault is mounted. Ctrl-C stops it, and --resume \
         continues. --structure takes moments: it finds tables that disagree; it does not look for damaged content.\n\n{}",
        example(&[
            "strongroom verify photos",
            "strongroom verify --structure photos",
            "strongroom verify --deep --json photos",
            "strongroom verify --resume photos",
        ])
    )
}

pub(crate) fn repair() -> String {
    format!(
        "Unmount first. What is damaged or lost, and was pushed to a remote of the vault, is taken from there, once it proved to be \
         what was pushed; nothing else is fetched, and a remote that cannot be reached is named and left out. Other damaged \
         content is replaced from another copy of it, if the vault has one. Damaged snapshot records and \
         directories are rebuilt from the database where it still has them. A lost or damaged vault.json or \
         replica.json is put back from the second copy beside it. Snapshots of which only the record is left are added to the \
         database again. Content without a name goes to lost+found; segment files and \
         snapshot records that belong to nothing known are moved to the folder `unexplained` in the vault folder. A segment file \
         is deleted only if nothing in it is lost and everything has been stored again elsewhere. What stays lost is listed \
         with its exact byte ranges; reading it gives an error. Storing the same content again mends it (`put --checksum`).\n\n\
         A lost or damaged metadata.db is rebuilt from the segments, as it was in the newest snapshot that can be read; names that \
         are newer are lost, their content goes to lost+found. Before that, the command says so and asks; where it cannot \
         ask, it needs --yes. The old file is kept beside the new one. Running it twice, or killing it half-way, does no \
         harm.\n\n{}",
        example(&[
            "strongroom repair --dry-run photos",
            "strongroom repair photos",
            "strongroom repair --remote stick photos",
            "strongroom repair --rebuild photos",
        ])
    )
}

pub(crate) fn tune() -> String {
    format!(
        "Takes half a minute; let nothing else run meanwhile. All vaults of this user use the choice from their next opening \
         on. Without this command, the first use on a machine measures for 300 ms, and again when processor, cores or libraries \
         change. STRONGROOM_PROVIDERS=ALGORITHM=PROVIDER,… overrides what --prefer saved, and that overrides what was \
         measured.\n\nEach figure is a median in MiB/s, with the range of the middle half of the rounds in parentheses. All \
         providers take turns in each round. \
         The provider with the greatest median is chosen.\n\n{}",
        example(&[
            "strongroom tune",
            "strongroom tune --chart providers.svg",
            "strongroom tune --prefer AES-256-GCM=ring",
        ])
    )
}

/// The rows of `stats` about space, each with its meaning; the last one is a row for each snapshot.
pub(crate) const SPACE_ROWS: [(&str, &str); 4] = [
    (
        "space.live_bytes",
        "encrypted bytes that current files use (present value)",
    ),
    (
        "space.kept_bytes",
        "encrypted bytes that only snapshots use (present value)",
    ),
    (
        "space.waste_bytes",
        "encrypted bytes that nothing needs any more (present value)",
    ),
    (
        SPACE_SNAPSHOT,
        "encrypted bytes that this snapshot alone uses (present value)",
    ),
];

/// The name of the rows of snapshots, with the id in place of `ID`.
pub(crate) const SPACE_SNAPSHOT: &str = "space.snapshot.ID";

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
        "Rows count since the vault was opened, except those marked (present value):\n{}  {:width$}  number of kernel requests of each kind, \
         under the names in fuse(4); kinds with none are not shown\n\n{}",
        rows.collect::<String>(),
        "mount.OPCODE",
        example(&["strongroom stats photos", "strongroom stats --json photos"])
    )
}
