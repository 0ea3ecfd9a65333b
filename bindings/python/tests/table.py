"""Carries out the steps of ``bindings/conformance.toml`` with the package; the head of that file explains each line."""

import errno
import io
import os
import pathlib
import stat

import strongroom

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character-device",
    stat.S_IFBLK: "block-device",
}
FLAGS = {"set": 0, "create": os.XATTR_CREATE, "replace": os.XATTR_REPLACE}
WHENCE = {"start": 0, "current": 1, "end": 2}
# Their names are text.
REMOTES = ("add_remote", "remove_remote", "waiting", "push", "pull", "sync_with", "check_remote", "prune")


def octets(value):
    """BYTES of the table."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        piece = bytes.fromhex(value["hex"]) if "hex" in value else value["text"].encode()
        return piece * value.get("times", 1)
    return b"".join(octets(piece) for piece in value)


def expected(value):
    """What ``is`` stands for, when a list may be bytes or a list of bytes: both are given, and one must fit."""
    if isinstance(value, list):
        return [octets(value) if value else b"", [octets(one) for one in value]]
    return [octets(value)] if isinstance(value, str) else [value]


def number(error):
    """The errno of an exception, or ``None`` if the table has no word for it."""
    if isinstance(error, io.UnsupportedOperation):
        return errno.EBADF  # not opened for this
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, ValueError) and "closed" in str(error):
        return errno.EBADF
    return None


def shown(rule):
    """A rule for snapshots, as the table shows it."""
    counts = (rule.last, rule.hourly, rule.daily, rule.weekly, rule.monthly, rule.yearly)
    return " ".join([*map(str, counts), "unnamed" if rule.unnamed else "scheduled"]).encode()


class Machine:
    """What a case has in its hands."""

    def __init__(self, main, folder, key_files):
        self.vaults = {"main": main} if main is not None else {}
        self.main = main
        self.folder = pathlib.Path(folder)
        self.key_files = key_files
        self.files = {}
        self.snapshots = {}
        self.transactions = {}
        self.seen = {}
        self.older = []

    def end(self):
        for one in [*self.older, *self.files.values(), *self.snapshots.values()]:
            one.close()
        mine = [vault for vault in self.vaults.values() if vault is not self.main and not vault.closed]
        # Clients before the owner, which waits for them.
        for vault in sorted(mine, key=lambda vault: vault.is_owner):
            vault.close()

    def keep(self, kind, name, value):
        if name in kind and hasattr(kind[name], "close"):
            self.older.append(kind[name])
        kind[name] = value

    def secret(self, secret):
        ((kind, value),) = secret.items()
        return {kind: octets(value) if kind == "passphrase" else self.key_files[value].encode()}

    def step(self, step):
        """Does a step; gives what the call gave."""
        arguments = {name: value for name, value in step.items() if name not in ("op", "is", "errno")}
        for name in ("path", "data", "target", "name", "value"):
            if name in arguments and step["op"] not in ("find", *REMOTES):
                arguments[name] = octets(arguments[name])
        if "to" in arguments and step["op"] not in ("seek", "copy_range"):
            arguments["to"] = octets(arguments["to"])
        vault = self.vaults.get(arguments.pop("vault", "main"))
        if "transaction" in arguments:
            transaction = self.transactions[arguments.pop("transaction")]
            return getattr(self, "do_" + step["op"])(transaction, **arguments)
        tree = self.snapshots[arguments.pop("snapshot")] if "snapshot" in arguments else vault
        if "file" in arguments:
            return getattr(self, "file_" + step["op"])(vault, self.files[arguments.pop("file")], **arguments)
        if "folder" in arguments:
            arguments["folder"] = self.folder / arguments["folder"]
            if step["op"] == "backup":
                return self.do_backup(vault, **arguments)
            return getattr(self, "folder_" + step["op"])(**arguments)
        return getattr(self, "do_" + step["op"])(tree, **arguments)

    def is_right(self, step, given):
        """Whether a step gave what the table says."""
        wanted = step["is"]
        if isinstance(given, os.stat_result):
            shown = {
                "kind": KINDS[stat.S_IFMT(given.st_mode)],
                "mode": stat.S_IMODE(given.st_mode),
                "uid": given.st_uid,
                "gid": given.st_gid,
                "rdev": given.st_rdev,
                "nlink": given.st_nlink,
                "size": given.st_size,
                "atime": given.st_atime_ns,
                "mtime": given.st_mtime_ns,
            }
            return all(shown[name] == value for name, value in wanted.items())
        return any(given == one and type(given) is type(one) for one in expected(wanted))

    # ---- vaults

    def folder_create(self, folder, secret, **names):
        self.keep(self.vaults, names["as"], strongroom.Vault.create(folder, remember=False, **self.secret(secret)))

    def folder_open_vault(self, folder, secret, read_only=False, own=False, **names):
        opened = strongroom.Vault(
            folder, read_only=read_only, exclusive=own, remember=False, **self.secret(secret)
        )
        self.keep(self.vaults, names["as"], opened)

    def do_close_vault(self, vault):
        vault.close()

    def do_sync(self, vault):
        vault.sync()

    def do_check(self, vault):
        return vault.check() == []

    def do_verify(self, vault, deep=False):
        return vault.verify(deep=deep).sound

    def folder_add_key(self, folder, secret, new, label):
        ((kind, value),) = self.secret(new).items()
        with strongroom.Keys(folder, remember=False, **self.secret(secret)) as keys:
            if kind == "passphrase":
                keys.add_passphrase(value, label)
            else:
                keys.add_key_file(value, label)

    def folder_keys(self, folder, secret):
        with strongroom.Keys(folder, remember=False, **self.secret(secret)) as keys:
            return [slot.label.encode() for slot in keys.slots()]

    def folder_remove_key(self, folder, secret, label):
        with strongroom.Keys(folder, remember=False, **self.secret(secret)) as keys:
            keys.remove(next(slot for slot in keys.slots() if slot.label == label))

    def folder_put_outside(self, folder, name, data):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / os.fsdecode(name)).write_bytes(data)

    def folder_remove_outside(self, folder, name):
        (folder / os.fsdecode(name)).unlink()

    # ---- files by path

    def do_read_file(self, tree, path):
        return tree.read_bytes(path)

    def do_write_file(self, tree, path, data):
        tree.write_bytes(path, data)

    def do_replace(self, vault, path, data):
        vault.replace_content(path, data, durable=False)

    def do_truncate(self, tree, path, size):
        tree.truncate(path, size)

    def do_exists(self, tree, path):
        # `exists` of Python is false wherever nothing can be; the table tells why there is nothing.
        try:
            tree.stat(path)
        except FileNotFoundError as error:
            if isinstance(error, strongroom.VaultError):
                raise
            assert isinstance(tree, strongroom.Transaction) or not tree.exists(path)
            return False
        return True

    def do_stat(self, tree, path, links="follow", **names):
        return tree.stat(path, follow_symlinks=links == "follow")

    def do_chmod(self, tree, path, mode, links="follow"):
        tree.chmod(path, mode, follow_symlinks=links == "follow")

    def do_chown(self, tree, path, uid, gid, links="follow"):
        tree.chown(path, uid, gid, follow_symlinks=links == "follow")

    def do_utime(self, tree, path, atime=None, mtime=None, links="follow"):
        tree.utime(path, ns=(atime, mtime), follow_symlinks=links == "follow")

    # ---- open files

    def do_open(self, tree, path, flags=("read",), mode=0o644, **names):
        self.keep(self.files, names["as"], tree.open_raw(path, flags, mode))

    def do_unnamed(self, vault, path, mode=0o600, **names):
        self.keep(self.files, names["as"], vault.unnamed_file(path, mode))

    def file_name_file(self, vault, file, path):
        vault.name_file(file, path)

    def file_close(self, vault, file):
        file.close()

    def file_pread(self, vault, file, offset, len):
        return file.pread(len, offset)

    def file_pwrite(self, vault, file, offset, data):
        assert file.pwrite(data, offset) == len(data)

    def file_read(self, vault, file, len):
        return file.read(len)

    def file_write(self, vault, file, data):
        assert file.write(data) == len(data)

    def file_seek(self, vault, file, to, **place):
        return file.seek(to, WHENCE[place.get("from", "start")])

    def file_fstat(self, vault, file):
        return file.stat()

    def file_ftruncate(self, vault, file, size):
        file.truncate(size)

    def file_fchmod(self, vault, file, mode):
        file.chmod(mode)

    def file_fsync(self, vault, file):
        file.sync()

    def file_allocate(self, vault, file, how, offset, len):
        file.allocate(how, offset, len)

    def file_find(self, vault, file, target, offset):
        return file.seek(offset, os.SEEK_DATA if target == "data" else os.SEEK_HOLE)

    def file_copy_range(self, vault, file, offset, to, to_offset, len):
        return file.copy_range(offset, self.files[to], to_offset, len)

    def file_try_lock(self, vault, file, how="exclusive"):
        file.lock(shared=how == "shared", blocking=False)

    def file_unlock(self, vault, file):
        file.unlock()

    # ---- directories and names

    def do_mkdir(self, tree, path, mode=0o755):
        tree.mkdir(path, mode)

    def do_mkdir_all(self, vault, path, mode=0o755):
        vault.makedirs(path, mode, exist_ok=True)

    def do_rmdir(self, tree, path):
        tree.rmdir(path)

    def do_remove(self, tree, path):
        tree.remove(path)

    def do_remove_all(self, vault, path):
        vault.rmtree(path)

    def do_rename(self, tree, path, to, how="replace"):
        tree.rename(path, to, how=how)

    def do_link(self, tree, path, to):
        tree.link(path, to)

    def do_symlink(self, tree, target, path):
        tree.symlink(target, path)

    def do_readlink(self, tree, path):
        return tree.readlink(path)

    def do_mknod(self, vault, path, kind, mode=0o644, rdev=0):
        bits = next(bits for bits, name in KINDS.items() if name == kind)
        vault.mknod(path, bits | mode, rdev)

    def do_list(self, tree, path):
        return sorted(tree.listdir(path))

    def do_walk(self, tree, path):
        return [entry.path for entry in tree.tree(path)]

    # ---- extended attributes

    def do_getxattr(self, tree, path, name, links="follow"):
        return tree.getxattr(path, name, follow_symlinks=links == "follow")

    def do_setxattr(self, tree, path, name, value, how="set", links="follow"):
        tree.setxattr(path, name, value, FLAGS[how], follow_symlinks=links == "follow")

    def do_removexattr(self, tree, path, name, links="follow"):
        tree.removexattr(path, name, follow_symlinks=links == "follow")

    def do_listxattr(self, tree, path, links="follow"):
        return sorted(os.fsencode(name) for name in tree.listxattr(path, follow_symlinks=links == "follow"))

    # ---- snapshots

    def do_take_snapshot(self, vault, message="", tags=(), only_if_changed=False):
        message = octets(message).decode()
        return vault.take_snapshot(message, tuple(tags), only_if_changed=only_if_changed) is not None

    def do_snapshots(self, vault):
        return [one.message.encode() for one in vault.snapshots()]

    def do_remove_snapshot(self, vault, selector):
        vault.remove_snapshot(selector)

    def do_snapshot(self, vault, **names):
        self.keep(self.snapshots, names["as"], vault.snapshot())

    def do_at(self, vault, selector, **names):
        self.keep(self.snapshots, names["as"], vault.at(selector))

    def do_close_snapshot(self, snapshot):
        snapshot.close()

    def do_restore(self, vault, selector, path, to):
        return vault.restore(selector, path, to)

    def do_diff(self, vault, selector, after=None, path=b"/"):
        return [name for name, _, _ in vault.differences(selector, after, path)]

    def do_set_retention(self, vault, **rule):
        vault.set_retention(strongroom.Retention(**rule))

    def do_retention(self, vault):
        return shown(vault.retention())

    def do_shared_retention(self, vault):
        rule = vault.shared_retention()
        return b"" if rule is None else shown(rule)

    def do_thin(self, vault):
        return len(vault.thin())

    def do_usage(self, vault):
        return vault.usage().kept_bytes > 0

    def do_erase(self, vault, path, trial=False):
        return vault.erase(path, trial=trial).files

    # ---- transactions

    def do_begin(self, vault, **names):
        self.keep(self.transactions, names["as"], vault.transaction())

    def do_commit(self, transaction, durable=False):
        transaction.commit(durable=durable)

    def do_roll_back(self, transaction):
        transaction.rollback()

    # ---- remotes

    def url(self, place):
        return f"folder:{self.folder / place}"

    def do_add_remote(self, vault, name, place):
        vault.add_remote(name, self.url(place))

    def do_remotes(self, vault):
        return [remote.name.encode() for remote in vault.remotes()]

    def do_remove_remote(self, vault, name):
        vault.remove_remote(name)

    def do_push(self, vault, name):
        vault.push(name)

    def do_pull(self, vault, name):
        vault.pull(name)

    def do_sync_with(self, vault, name):
        return vault.sync_with(name).pulled.conflicts

    def folder_clone(self, folder, place, secret, on_demand=False):
        strongroom.clone(self.url(place), folder, on_demand=on_demand, remember=False, **self.secret(secret))

    def do_waiting(self, vault, name):
        return vault.remote_status(name).is_waiting

    def do_check_remote(self, vault, name, deep=False):
        return vault.check_remote(name, deep=deep) == []

    def do_prune(self, vault, name):
        vault.prune_remote(name, grace=0)

    def do_backup(self, vault, folder):
        vault.backup(folder)

    # ---- content that only remotes have

    def do_set_keep_at_most(self, vault, bytes=None):
        vault.set_keep_at_most(bytes)

    def do_keep_at_most(self, vault):
        return vault.keep_at_most() or 0

    def do_evict(self, vault, path=None):
        return vault.evict(path).segments > 0

    def do_evict_to_limit(self, vault):
        return vault.evict_to_limit().segments > 0

    def do_bring_back(self, vault, path=None):
        return vault.bring_back(path).segments > 0

    def do_away(self, vault):
        return vault.information().away_bytes > 0

    def do_pin(self, vault, path):
        vault.pin(path)

    def do_unpin(self, vault, path):
        return vault.unpin(path)

    def do_pins(self, vault):
        return [os.fsencode(path) for path in vault.pins()]
