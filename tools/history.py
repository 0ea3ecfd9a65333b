#!/usr/bin/env python3
"""Checks out the last commits of a git repository into a mount, takes a snapshot of each, and compares every snapshot with its checkout.

    tools/history.py [REPOSITORY] [COMMITS] [none|zstd]    defaults: this project's own repository, 200 commits, zstd

Each snapshot is compared file by file through `.history`: names, kinds, modes, sizes, times, link targets, content. Then
the size of the vault is compared with that of a restic repository for the same trees. Needs git,
restic (Debian: apt-get install restic), root and /dev/fuse.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kill import BINARY, ROOT, Vault, run


def git(repository, *args, **options):
    return subprocess.run(["git", "-C", str(repository), *args], check=True, capture_output=True, **options).stdout


def commits(repository, count):
    """The last commits of the first parents, oldest first."""
    listed = git(repository, "rev-list", "--first-parent", f"--max-count={count}", "HEAD", text=True).split()
    if len(listed) < count:
        # Merges bring whole branches at once; with their commits there are more.
        listed = git(repository, "rev-list", "--topo-order", f"--max-count={count}", "HEAD", text=True).split()
    return listed[::-1]


def checkout(repository, commit, tree):
    """Makes `tree` what `commit` says, changing only what differs, with times of the commit's own."""
    environment = {**os.environ, "GIT_INDEX_FILE": str(tree.parent / "index")}
    subprocess.run(
        ["git", "-C", str(repository), f"--work-tree={tree}", "checkout", "--force", "--quiet", commit, "--", "."],
        check=True,
        env=environment,
    )
    wanted = set(git(repository, "ls-tree", "-r", "-z", "--name-only", commit).decode(errors="surrogateescape").split("\0")) - {""}
    for folder, names, files in os.walk(tree, topdown=False):
        for name in files + [name for name in names if (Path(folder) / name).is_symlink()]:
            path = Path(folder) / name
            if str(path.relative_to(tree)) not in wanted:
                path.unlink()
        if folder != str(tree) and not os.listdir(folder):
            os.rmdir(folder)


def attributes(path):
    at = path.lstat()
    return at.st_mode, at.st_mtime_ns


def mirror(source, target):
    """Makes `target` what `source` is, writing only files that differ, as `git checkout` does."""
    wanted = {str(path.relative_to(source)) for path in source.rglob("*")}
    for path in sorted(target.rglob("*"), reverse=True):
        if str(path.relative_to(target)) not in wanted:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for name in sorted(wanted):
        one, other = source / name, target / name
        if one.is_symlink():
            if not other.is_symlink() or os.readlink(one) != os.readlink(other):
                other.unlink(missing_ok=True)
                os.symlink(os.readlink(one), other)
        elif one.is_dir():
            if other.is_symlink() or other.is_file():
                other.unlink()
            other.mkdir(exist_ok=True)
        elif other.is_symlink() or not other.is_file() or other.read_bytes() != one.read_bytes():
            other.unlink(missing_ok=True)
            other.write_bytes(one.read_bytes())
        if attributes(one) != attributes(other):
            shutil.copystat(one, other, follow_symlinks=False)


def describe(top):
    """Everything below `top`: path, and what stat and the content say."""
    found = {}
    for folder, names, files in os.walk(top):
        for name in sorted(names + files):
            path = Path(folder) / name
            at = path.lstat()
            told = (stat.S_IFMT(at.st_mode), stat.S_IMODE(at.st_mode), at.st_uid, at.st_gid, at.st_nlink)
            if stat.S_ISLNK(at.st_mode):
                told += (os.readlink(path), at.st_mtime_ns)
            elif stat.S_ISREG(at.st_mode):
                told += (at.st_size, at.st_mtime_ns, hashlib.blake2b(path.read_bytes()).hexdigest())
            else:
                # A directory's link count and time are those of its file system.
                told = told[:4]
            found[str(path.relative_to(top))] = told
    return found


def size(folder):
    return sum(path.stat().st_blocks * 512 for path in Path(folder).rglob("*") if path.is_file())


def apparent(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


class Restic:
    def __init__(self, folder, compression):
        self.repository = folder / f"restic-{compression}"
        self.environment = {**os.environ, "RESTIC_PASSWORD": "history", "RESTIC_CACHE_DIR": str(folder / "cache")}
        self.compression = compression
        self.call("init", *(["--repository-version", "2"]))

    def call(self, *args):
        subprocess.run(
            ["restic", "-q", "-r", str(self.repository), "--compression", self.compression, *args],
            check=True,
            env=self.environment,
        )

    def backup(self, tree):
        self.call("backup", str(tree))


def main():
    repository = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    chosen = commits(repository, count)
    compression = sys.argv[3] if len(sys.argv) > 3 else "zstd"
    print(f"{len(chosen)} commits of {repository.resolve().name}, {chosen[0][:10]} to {chosen[-1][:10]}; vault with compression {compression}")
    with tempfile.TemporaryDirectory(prefix="strongroom-history.") as folder:
        # What is seen of the vaults is remembered here, and not of this user.
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        folder = Path(folder)
        vault = Vault(folder)
        run(BINARY, "compression", vault.vault, compression, "--passphrase-file", vault.passphrase)
        vault.start()
        try:
            replay(vault, folder, repository, chosen)
        finally:
            if vault.daemon.poll() is None:
                run(BINARY, "umount", "--lazy", vault.mount)
                vault.daemon.wait()


def replay(vault, folder, repository, chosen):
    tree, states = folder / "tree", []
    tree.mkdir()
    compressions = ["off", "auto"] if shutil.which("restic") else []
    restics = [Restic(folder, compression) for compression in compressions]
    snapshot_s, bytes_of_states = 0.0, 0
    for commit in chosen:
        checkout(repository, commit, tree)
        mirror(tree, vault.mount)
        states.append((commit, describe(tree)))
        bytes_of_states += sum(one[5] for one in states[-1][1].values() if len(one) > 7)
        began = time.monotonic()
        run(BINARY, "snapshot", "create", vault.vault, "--tag", commit[:12])
        snapshot_s += time.monotonic() - began
        for restic in restics:
            restic.backup(tree)
    files = len(states[-1][1])
    print(f"{len(states)} snapshots, {1000 * snapshot_s / len(states):.0f} ms each with the command's own start; {files} paths in the last")
    wrong = 0
    began = time.monotonic()
    for commit, wanted in states:
        found = describe(vault.mount / ".history" / f"t:{commit[:12]}")
        if found != wanted:
            wrong += 1
            differ = [path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)]
            print(f"DIFFERENT {commit[:12]}: {len(differ)} paths, {differ[0]}: {wanted.get(differ[0])} {found.get(differ[0])}")
    print(f"{len(states) - wrong} of {len(states)} states equal their checkouts ({time.monotonic() - began:.0f} s)")
    restored(vault, folder, states)
    usage = run(BINARY, "snapshot", "list", vault.vault, "--size").stdout.splitlines()[-1]
    vault.stop()
    told = run(BINARY, "compact", vault.vault, "--passphrase-file", vault.passphrase).stdout.strip()
    print(f"{usage}; compacted: {told}")
    ours = apparent(vault.vault / "segments") + apparent(vault.vault / "revisions") + (vault.vault / "metadata.db").stat().st_size
    segments = apparent(vault.vault / "segments")
    print(f"the states without sharing: {bytes_of_states >> 20} MiB; vault: {ours / 2**20:.1f} MiB ({segments / 2**20:.1f} in segments)")
    for restic in restics:
        theirs = apparent(restic.repository)
        print(f"restic, compression {restic.compression}: {theirs / 2**20:.1f} MiB; the vault takes {ours / theirs:.2f} times that")
    if wrong:
        sys.exit(1)


def restored(vault, folder, states):
    """`restore` of the whole first state brings it back; `diff` of two neighbours names what differs between them."""
    first, wanted = states[0]
    run(BINARY, "restore", vault.vault, f"t:{first[:12]}", "--no-snapshot")
    found = describe(vault.mount)
    same = {path: one for path, one in found.items()} == wanted
    (one, before), (other, after) = states[-2], states[-1]
    told = json.loads(run(BINARY, "diff", vault.vault, f"t:{one[:12]}", f"t:{other[:12]}", "--json").stdout)
    paths = {entry["path"].lstrip("/") for entry in told}
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    missing = changed - paths
    print(f"the first state restored: {'equal' if same else 'DIFFERENT'}; diff of the last two names {len(paths)} paths, {len(missing)} missing")
    if not same or missing:
        sys.exit(1)


if __name__ == "__main__":
    main()
