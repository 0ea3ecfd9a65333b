//! The longer texts of `--help` and of the manual; the shorter ones are at the commands.

use crate::terminal::exit_code::ExitCode;

/// What both `put` and `get` keep of a file.
const KEPT: &str = "\
A copy keeps content, holes, modes, times and user.* attributes. It keeps symbolic links, pipes and sockets, and hard links \
between files that one command copies.";

/// What becomes of a copy that does not keep everything, or is interrupted.
const COMPLETE: &str = "\
At the end the command lists what it could not keep.

A file appears under its name only when it is complete. An interrupted command leaves no partial file. A command killed with -9 leaves at \
most one partial file, named .strongroom-*, which you may delete.";

/// Which files `put` and `get` skip.
const AGAIN: &str = "\
A file is skipped if the target already has a file of that name with the same size and modification time; only its mode and owner are \
updated. With --checksum, the command compares the content of files of the same name and size, whatever their times, and copies a file \
again if its content differs";

const DELETE: &str = "In copied directories, --delete deletes what the source does not have";

const RIGHTS: &str = "\
Somebody else may have written the files in the vault. Therefore, even for root, `get` copies things that can give rights (set-user-id bits, \
capabilities, devices) only if --special is given. At the end the command prints how many files it copied without such rights, and how many devices \
it skipped; the exit code is 0. A mount ignores set-user-id bits, capabilities and devices as well.";

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
         AES-256-GCM=ring,BLAKE3=simd; `strongroom info VAULT` shows the libraries in use.\n\n{}\n{}",
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
        "A mount in the background logs to ~/.local/state/strongroom/strongroom.log (or in $XDG_STATE_HOME). This log and the \
         previous one have at most 2 MiB together; `strongroom info` shows the path. A mount in the foreground logs to \
         standard error. -v and -vv log more. No log contains the name of a file in the vault.\n\n\
         With --sync, the mount pushes changes to the remotes of the vault within seconds, and shows what other devices push. The log reports \
         every transfer. `umount` waits until the last changes are at every remote that can be reached. In /etc/fstab the option is called \
         sync-remotes. --limit-up needs --sync.\n\n{}",
        example(&[
            "strongroom mount photos ~/photos",
            "strongroom mount --sync photos ~/photos",
            "strongroom mount -o ro,allow-other photos /mnt",
        ])
    )
}

pub(crate) fn umount() -> String {
    format!(
        "Exit code 0 means that everything is stored, the process of the mount has ended, and the disk that holds the vault can be unmounted. \
         If the command has to wait for longer than a second, it prints why.\n\n\
         Exit code 7 has three causes. (1) Programs use the mount; the command lists them as far as permitted, and the vault stays mounted. \
         (2) The mount is gone here, but a container (another mount namespace) still has it after 10 seconds. (3) Nothing progressed for \
         10 minutes. In cases 2 and 3, and after Ctrl-C, unmounting continues in the background. Exit code 13 means that \
         unmounting failed, or that it is not certain that everything is stored, for example because the process of the mount had died; \
         the message says which.\n\n{}",
        example(&[
            "strongroom umount ~/photos",
            "strongroom umount ~/photos && umount /media/stick"
        ])
    )
}

pub(crate) fn backup() -> String {
    format!(
        "The backup has the encrypted content of the vault at one moment, and is itself a vault that opens with the same keys. \
         A repeated backup copies only what the folder lacks. The command reads back what it copied; `strongroom verify \
         FOLDER` reads the whole backup. If a backup is interrupted, the earlier backup stays good. Let nothing else change \
         the folder: once it is used as a vault, `backup` refuses it as a target. docs/guide/backup.md explains how other tools \
         can copy a backup, and how to restore one.\n\n{}",
        example(&["strongroom backup photos /media/stick/photos"])
    )
}

pub(crate) fn remote_add() -> String {
    format!(
        "A remote stores the encrypted vault and cannot read any of it. For an S3 server that is not Amazon's, the URL contains the address of \
         the server: ?endpoint=https://host&region=name. Credentials come from the environment variables that the tools of each store use \
         (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3), or from the URL: s3://KEY:SECRET@BUCKET/PATH. The vault stores the URL \
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
        "The setting holds for all remotes and devices of the vault; remotes get it with the next push. A vault begins with `no`: then \
         `strongroom clone` needs the recovery code, a key file, an age or SSH key, or another device that adds the new one \
         (`strongroom device add`). On every device that has the vault, passphrases open it as before. A remote may keep a copy of \
         what it once had: after a change from `yes` to `no`, change the passphrases too (`strongroom key change`).\n\n{}",
        example(&[
            "strongroom remote guessable photos no",
            "strongroom remote guessable photos yes",
        ])
    )
}

pub(crate) fn remote_prune() -> String {
    format!(
        "A push also prunes, about once a week, unless the remote was added with --keep. Pruning first marks unused objects as retired; a \
         push at least a week later deletes those that are still unused. With --now this command deletes them at once. If a device has evicted \
         content, objects that become unused stay at the remote until that device has synced, but for at most 180 days. The operator of a \
         server can let it keep removed objects for some days. Then it keeps each object for these days after a device first asked to delete it.\n\n{}",
        example(&[
            "strongroom remote prune --dry-run photos",
            "strongroom remote prune --now photos stick",
        ])
    )
}

pub(crate) fn inbox_add() -> String {
    format!(
        "The remote must be a Strongroom server (`strongroom serve`). The URL that this command prints is all that a depositor needs. Whoever \
         has it can deposit files, and do nothing else: they cannot list, read or change anything, not even their own deposits. Only \
         devices of the vault can decrypt what was deposited. The next `pull` or `sync` of any device, or a mount with --sync, puts each \
         file once into the directory /Inbox of the vault.\n\n\
         Give each depositor an address of its own: then you can withdraw one without the others. After the keys of the vault were changed \
         (`key rotate`, `key remove`, `device remove`), all addresses are withdrawn at the next sync; make new ones with the same labels.\n\n{}",
        example(&[
            "strongroom inbox add photos scanner",
            "strongroom inbox add photos 'tax office' home",
        ])
    )
}

pub(crate) fn inbox_remove() -> String {
    format!(
        "The command syncs with the server, and takes what was deposited until now into /Inbox.\n\n{}",
        example(&["strongroom inbox remove photos scanner"])
    )
}

pub(crate) fn inbox_discard() -> String {
    example(&[
        "strongroom inbox discard photos 5f2c9a0113de4c7b8a90ee21c4d7b663",
        "strongroom inbox discard --set-aside photos",
    ])
}

pub(crate) fn deposit() -> String {
    format!(
        "The files are encrypted on this machine, for the vault. Before that, the command checks that the key which the server shows \
         belongs to the URL. A file may have at most 1 GiB. If the command is interrupted, nothing of the unfinished file comes into the vault; run it \
         again. With --id, a file that is already there is not deposited twice.\n\n\
         Guard the URL like the key of a letter box: whoever has it can fill the inbox. Other users of this machine see the arguments \
         of a command; the part of the URL before the @ can come from the environment variable STRONGROOM_TOKEN instead.\n\n{}",
        example(&[
            "strongroom deposit 'https://sra-…@server/anna/photos' scan.pdf",
            "tar -c letters | strongroom deposit \"$INBOX\" - --name letters.tar --from 'the office'",
        ])
    )
}

pub(crate) fn device_add() -> String {
    format!(
        "On the new device, run `strongroom clone --pair URL VAULT` and type the code. Both devices then show a fingerprint of the new device. \
         Answer yes only if the two are equal: otherwise somebody intercepts the connection. The new device has its own passphrase or key \
         file, which you choose there. The code is good for one device, 10 minutes and 5 tries. The QR code contains the code and the URL, \
         without credentials. With --json each event is a line, and the answer is read from standard input: a line `yes`, or anything else \
         for no.\n\n{}",
        example(&[
            "strongroom device add photos",
            "strongroom device add photos stick --no-qr"
        ])
    )
}

pub(crate) fn device_remove() -> String {
    format!(
        "Without ID, or with the ID of this copy's own device, this copy gets new device keys, and the old ones stop working.\n\n\
         With an older copy of the vault folder, a removed device can still open what was stored before the removal. If it was added by \
         pairing, its passphrase or key file still unlocks the vault: remove that too, with `strongroom key remove`.\n\n{}",
        example(&[
            "strongroom device list photos",
            "strongroom device remove photos 3fa2",
        ])
    )
}

pub(crate) fn device_compare() -> String {
    format!(
        "First run `strongroom sync` on both devices until nothing new comes. Then run this command on both. If the number of the last publication is \
         not the same, one device has not seen what the other one has: sync it again. If the numbers are the same and the codes differ, \
         the remote has shown the two devices different histories. Then remove the remote on one of them, add it again and sync: files \
         that differ are kept twice. A device compares histories by itself too, but notices a difference only when the remote shows it \
         what the other device pushed.\n\n{}",
        example(&["strongroom device compare photos"])
    )
}

pub(crate) fn push() -> String {
    format!(
        "A push takes a snapshot if anything changed, sends what the remote lacks, and then publishes the new state in one step. If it is \
         interrupted, the remote keeps its earlier state, and the next push does not send again what has arrived. Other programs may use \
         the vault meanwhile. Files removed from the vault and from its snapshots stay at the remote, encrypted, for one or two weeks. If \
         another device has pushed changes that this device lacks, nothing is published; `strongroom sync` pulls them first.\n\n{}",
        example(&["strongroom push photos", "strongroom push photos stick"])
    )
}

pub(crate) fn pull() -> String {
    format!(
        "A pull joins the changes of other devices with the changes of this device, in one step. If one device removed a file and another \
         changed it, the changed file stays. If two devices changed different lines of a text file, the result has the lines of both. If both \
         changed the content and the changes cannot be joined line by line, the version that was pushed first keeps the name, and yours is kept \
         beside it under a name like `letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt`. Other programs may use the vault meanwhile, also through a \
         mount. If a pull is interrupted, the vault stays as it was, and the next pull does not fetch again what has arrived. A pull also takes in \
         what others deposited (`strongroom inbox`).\n\n{}",
        example(&["strongroom pull photos", "strongroom pull photos stick"])
    )
}

pub(crate) fn sync() -> String {
    format!(
        "The command first writes everything to the disk. (Use it for a mount instead of sync(1), which does not reach a mount.) If the \
         vault has remotes, it then pulls and pushes: with the named remote, or with all of them. If one of them fails, the command \
         continues with the others, and exits with the code of the first failure.\n\n\
         With --watch the command runs until Ctrl-C, and then exits with code 0. It pushes changes as soon as nothing was written for \
         0.2 seconds; while a program writes without a pause, every 2 seconds. It checks remotes for changes every second while something \
         changes, then less and less often (see --every). If a remote cannot be reached, the command tries again after a second, then after \
         longer pauses of at most a minute. With --json each event is one line. The vault can be mounted meanwhile; `mount --sync` does the \
         same by itself.\n\n{}",
        example(&[
            "strongroom sync photos",
            "strongroom sync photos stick",
            "strongroom sync --watch photos",
        ])
    )
}

pub(crate) fn clone() -> String {
    format!(
        "To open the vault, give --recovery-code, --key-file, or --identity with an age or SSH private key. A passphrase opens it only after \
         `strongroom remote guessable VAULT yes` and a push. Everything from the remote is verified before it is used. The new vault calls \
         the remote `origin`. After an interruption, run the command again: it continues.\n\n\
         With --pair another device adds this one (run `strongroom device add` there), so the command needs no secret of the vault. This \
         device gets its own passphrase, or its own key file with --key-file FILE, which is created if it does not exist. The command asks \
         for the code, or reads it from the first line of standard input. If it is interrupted while it fetches, run it again without --pair: \
         it continues.\n\n\
         With --on-demand the content of files stays at the remote. Everything can be listed. Reading a file fetches its segments, which have \
         up to 16 MiB each and stay here until `strongroom evict`. `strongroom info` shows how much content is only at the remote.\n\n{}",
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
        "The server has no key of a vault, and cannot read the vaults. Devices add it as a remote, https://TOKEN@SERVER/ACCOUNT/VAULT, and learn \
         at once when another device pushes. For more accounts, for quotas and for new tokens, use the program `strongroom-server` on the \
         same folder, also while this command runs. The log on standard error has a line of JSON for each request, without tokens. After \
         Ctrl-C the server finishes the requests under way, and exits with code 0.\n\n{}",
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
        "{KEPT} A copy by root also keeps devices and, unless --no-owner is given, owner, group, capabilities and trusted.* attributes. \
         {COMPLETE}\n\n{AGAIN}, or if the content in the vault cannot be read. So it also replaces a file whose stored content is \
         damaged. {DELETE}; it takes a snapshot before it removes anything.\n\nIf the disk or the quota is full, the command stops \
         at once; run it again later, and it continues.\n\n{example}"
    )
}

pub(crate) fn get() -> String {
    let example = example(&[
        "strongroom get photos:/2026 .",
        "strongroom get photos:/notes.txt copy.txt",
        "strongroom get --special system:/ /mnt/root",
    ]);
    format!(
        "{KEPT} A copy by root also keeps owner and group, unless --no-owner is given. With --special, a copy that has the owner and \
         group of the original also keeps the set-user-id and set-group-id bits. With --special, a copy by root also keeps devices and, \
         unless --no-owner is given, capabilities and trusted.* attributes. {COMPLETE}\n\n\
         {AGAIN}. {DELETE}. Local files that it deletes are lost. `get` never deletes the folder of the vault.\n\n{RIGHTS}\n\n{example}"
    )
}

pub(crate) fn unlock() -> String {
    format!(
        "A process in the background keeps the vault open. Until it ends, most commands start at once and ask for no passphrase or key, just \
         as they do while the vault is mounted. Commands that change keys or devices still ask: `key add`, `key remove`, `key change`, \
         `key rotate`, `device add` and `device remove`. So do `remote guessable` and `remote add --guessable`. `mount` and `repair` end the \
         process, and ask too.\n\n\
         While the process runs, every program of this user can use the vault, as with an unlocked ssh-agent; other users cannot, except root. The keys are in locked memory of that process, as far as the system permits it, so that they do not reach \
         a disk. The process ends when the time is up, or when `strongroom lock`, `mount` or `repair` ends it. `strongroom info` shows it.\n\n{}",
        example(&[
            "strongroom unlock photos",
            "strongroom unlock --for 8h photos",
            "strongroom lock photos",
        ])
    )
}

/// Where names are escaped.
const NAMES: &str = "\
On a terminal, characters that could deceive a reader are shown as \\u{…}. In a pipe or a file, names are written unchanged \
for other programs; use --null there, because names may contain line breaks.";

pub(crate) fn ls() -> String {
    let example = example(&[
        "strongroom ls -l photos:/2026",
        "strongroom ls --null photos:/2026 | xargs -0 -n1 echo",
    ]);
    format!("{NAMES} With -l, names are always shown as on a terminal.\n\n{example}")
}

pub(crate) fn find() -> String {
    format!(
        "{NAMES}\n\n--hash and --duplicates compute the hash of every file that has none yet, on all cores. The vault stores a hash until \
         the content changes. Both options print every hard link of a file. --duplicates skips empty files, and counts the hard links of a \
         file as one file.\n\n{}",
        example(&[
            "strongroom find photos --name '*.jpg' --type f",
            "strongroom find photos --hash 3ebb61f0",
            "strongroom find photos --duplicates --min-size 100000",
        ])
    )
}

pub(crate) fn hash() -> String {
    format!(
        "The vault stores a hash until the content changes, so a second run reads nothing. Paths are relative to the root of the vault: \
         `b3sum --check` can compare the hashes with a mount or a copy of the vault.\n\n{}",
        example(&[
            "strongroom hash photos:/2026/holiday.jpg",
            "strongroom hash -r photos > photos.b3; (cd ~/photos && b3sum --check) < photos.b3",
            "strongroom hash --sha256 --at d:yesterday photos:/notes.txt",
        ])
    )
}

pub(crate) fn info() -> String {
    format!(
        "Without a secret the values are read from the header (vault.json) and not verified. They are verified with --unlock, or if a process \
         has the vault open. Commands record the last state that they saw of each vault in ~/.local/state/strongroom/vaults (or in \
         $XDG_STATE_HOME), and refuse an older state, or another vault at the same path. --forget deletes the record of \
         one path.\n\n{}",
        example(&[
            "strongroom info photos",
            "strongroom info --unlock photos",
            "strongroom info --forget photos",
        ])
    )
}

pub(crate) fn key_remove() -> String {
    format!(
        "With an older copy of the vault folder, the secret still opens what was stored before the removal. Until `strongroom key rotate` has \
         re-sealed everything, the secret opens that content with just an old copy of vault.json and the present vault folder.\n\n{}",
        example(&[
            "strongroom key list photos",
            "strongroom key remove photos 3fa2",
        ])
    )
}

pub(crate) fn rotate() -> String {
    format!(
        "New content is sealed (encrypted) under new keys at once. The process that has the vault open then re-seals everything that is \
         stored, including what only snapshots use, in the background; then it deletes the old keys. If no process has the vault \
         open, this command re-seals everything. After a kill or an unmount, re-sealing continues when the vault is opened next. All \
         passphrases and keys that unlock the vault stay valid. Old copies of the vault folder contain the old keys and can still be opened.\n\n{}",
        example(&[
            "strongroom key rotate photos",
            "strongroom key rotate photos --status",
            "strongroom key rotate photos --wait",
        ])
    )
}

pub(crate) fn erase() -> String {
    format!(
        "First remove the file with `strongroom rm`. This command then removes its content from all snapshots, also where the file had another \
         name. For a directory, it removes the content of all files below it. Names, attributes and link targets stay in the snapshots, and so does \
         content that other files have too. The next `strongroom push` or `strongroom sync` with a remote deletes the content there, and the next sync \
         of another device erases it on that device. Earlier copies of the vault folder still have the content: delete them.\n\n{}",
        example(&[
            "strongroom rm photos:/scan.pdf",
            "strongroom erase photos:/scan.pdf --dry-run",
            "strongroom erase photos:/scan.pdf",
        ])
    )
}

pub(crate) fn quota() -> String {
    format!(
        "The quota counts encrypted content and the rows of the database. When the quota is used up, you can still remove files.\n\n{}",
        example(&[
            "strongroom quota photos",
            "strongroom quota photos 20G",
            "strongroom quota photos none",
        ])
    )
}

pub(crate) fn compression() -> String {
    format!(
        "With zstd, new content is compressed in blocks of up to 64 KiB. A block is stored compressed only if it becomes at least an eighth shorter. \
         Content that is already stored stays as it is. Anyone who sees the vault folder then learns how well content could be compressed; \
         anyone who watches the folder closely learns this block by block. Keep compression off if \
         somebody can add text to a file that also has your secrets, or if nobody may be able to recognize a known file by the \
         compressed lengths of its blocks. The setting belongs to this copy of the vault; a rebuilt or cloned vault begins without it.\n\n{}",
        example(&[
            "strongroom compression photos",
            "strongroom compression photos zstd",
            "strongroom init notes --compression zstd",
        ])
    )
}

pub(crate) fn pin() -> String {
    format!(
        "Pins belong to this copy of the vault, and other devices do not see them. A renamed file or directory stays pinned. `strongroom evict` \
         deletes whole segments (files of up to 16 MiB), so it also keeps other content in the segments of a pinned file. If you move a file \
         into a pinned directory and its content is only at a remote, the next `pin` fetches it, and so does a pull that brings changes.\n\n{}",
        example(&[
            "strongroom pin photos:/2026",
            "strongroom pin --list photos",
        ])
    )
}

pub(crate) fn evict() -> String {
    format!(
        "The command first asks the remotes which segments they have. It deletes content only if a remote lists its segment with the full length. Names, sizes, times and snapshots \
         stay, so listing needs no remote. Reading a file fetches the segments (files of up to 16 MiB) that contain it, and keeps them. If no \
         remote can be reached, reading fails with an input/output error, and everything else works.\n\n\
         The command deletes only whole segments. With a path, it deletes each segment in which at least half of the content in use \
         belongs to that path or to files below it. Content that was not pushed stays. `strongroom backup` needs all content here: --undo \
         fetches it.\n\n\
         --keep-at-most sets a limit for this device. If the device has more than that, this command, and later each `strongroom sync` and every mount \
         with --sync, evict what was least recently read. Pinned content, content that was not pushed, and the last segments that were read stay, even \
         above the limit, so a limit below 256M is of little use. Names and attributes do not count. Other devices do not have the limit. \
         `strongroom info` shows it.\n\n{}",
        example(&[
            "strongroom push photos && strongroom evict photos",
            "strongroom evict --keep-at-most 20G photos",
            "strongroom evict photos:/2019",
            "strongroom evict --undo photos:/2019",
        ])
    )
}

pub(crate) fn conflicts() -> String {
    format!(
        "A conflict arises if two devices change one file before either has the change of the other, unless they change different lines of a \
         text. The published file (pushed first) then keeps the name, and the other version is kept beside it as a conflict copy: \
         `letter (conflict, DEVICE, TIME).txt`. The command reads every name in the vault, which takes seconds for a million.\n\n{}",
        example(&[
            "strongroom conflicts photos",
            "strongroom conflicts keep mine 'photos:/letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt'",
        ])
    )
}

pub(crate) fn conflicts_keep() -> String {
    format!(
        "`mine` replaces the published file with the conflict copy. `theirs` removes the conflict copy. `both` gives the conflict copy an \
         ordinary name, as `letter (copy).txt`. Snapshots that have the removed file keep it. Nothing is done if one of the two files \
         changes meanwhile, or if the published file no longer exists.\n\n{}",
        example(&[
            "strongroom conflicts keep mine 'photos:/letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt'",
            "strongroom conflicts keep both 'photos:/list (conflict, 5f2c9a01, 2026-11-23 14.03)'",
        ])
    )
}

pub(crate) fn verify() -> String {
    format!(
        "The command compares the tables of the database with each other, opens (decrypts) every sealed block, and computes every checksum. \
         For each damaged file it prints which bytes are damaged, and in which snapshots. It works while the vault is mounted. Ctrl-C stops \
         it, and --resume continues. --structure takes moments: it finds tables that disagree, and reads no content. Content that is only at \
         remotes is never read; its size is printed. Changes of keys or devices that you have not accepted are no damage: the exit code is 16.\n\n{}",
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
        "Unmount first. Damaged or lost content that was pushed to a remote is fetched from there, and used only if it is exactly what was \
         pushed. Nothing else is fetched; a remote that cannot be reached is reported and skipped. Other damaged \
         content is replaced from another copy in the vault, if there is one. Damaged records of snapshots (their files in the vault folder) and \
         damaged trees of snapshots are rebuilt from the database, as far as it still has them. A lost or damaged vault.json or replica.json is \
         restored from the second copy beside it. If the database has lost a snapshot whose record still exists, the snapshot is added to the \
         database again. Content without a name is moved to lost+found. If the vault does not know what a segment file or a snapshot record belongs to, that file \
         is moved to the folder `unexplained` in the vault folder. A segment file is deleted only if everything in it that files or snapshots use has been stored \
         again elsewhere. The command lists the exact byte ranges that stay lost; reading them gives an error. Storing the same content \
         again repairs them (`put --checksum`).\n\n\
         A lost or damaged metadata.db is rebuilt from the segments, as it was in the newest snapshot that can be read. Names that \
         are newer are lost, and their content is moved to lost+found. The command asks before that; where it cannot \
         ask, it needs --yes. It keeps the old file beside the new one. Running the command twice, or killing it half-way, does no \
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
        "This takes half a minute; run nothing else meanwhile. All vaults of this user use the result when they are next opened. Without this \
         command, Strongroom measures for 300 ms at its first use on a machine, and again when the processor, the cores or the libraries change. \
         A preference saved with --prefer takes precedence over the measurement. The environment variable STRONGROOM_PROVIDERS \
         (ALGORITHM=PROVIDER,…) takes precedence over both.\n\nEach figure is the median of the rounds in MiB/s, with the 25th and 75th percentiles \
         in parentheses. Each round measures all providers (libraries) in turn. For each algorithm, the provider with the greatest median is \
         chosen.\n\n{}",
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
        "Rows count from the moment the vault was opened, except those marked (present value):\n{}  {:width$}  number of kernel requests of each \
         kind, under the names in fuse(4); kinds without requests are not shown\n\n{}",
        rows.collect::<String>(),
        "mount.OPCODE",
        example(&["strongroom stats photos", "strongroom stats --json photos"])
    )
}
