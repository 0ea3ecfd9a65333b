"""Key slots, remotes, and vaults on other devices."""

import gc
import os
import stat
import sys
import threading

import pytest

import strongroom


def test_a_key_file_is_for_this_user_and_made_once(tmp_path):
    path = tmp_path / "k"
    strongroom.write_key_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        strongroom.write_key_file(path)


def test_keys_are_added_and_removed(tmp_path, key_file):
    folder = tmp_path / "v"
    strongroom.Vault.create(folder, key_file=key_file, remember=False).close()
    other = tmp_path / "other.key"
    strongroom.write_key_file(other)
    with strongroom.Keys(folder, key_file=key_file, remember=False) as keys:
        keys.add_key_file(other, "second")
        code = keys.add_recovery_code("printed")
        assert [slot.kind for slot in keys.slots()] == ["key_file", "recovery_code", "key_file", "recovery_code"]
        with pytest.raises(ValueError):
            keys.remove("no id")
        with pytest.raises(strongroom.VaultError):
            keys.remove("00" * 8)
        first = keys.slots()[0]
    assert [slot.label for slot in strongroom.key_slots(folder)][2:] == ["second", "printed"]
    with pytest.raises(ValueError, match="closed"):
        keys.slots()
    with strongroom.Vault(folder, key_file=other, remember=False) as vault, strongroom.Keys(
        folder, recovery_code=code, remember=False
    ) as keys:
        before = vault.information().epoch
        keys.remove(first)
        keys.rotate()
        assert vault.information().epoch > before
    with pytest.raises(strongroom.WrongSecretError):
        strongroom.Vault(folder, key_file=key_file, remember=False)
    strongroom.Vault(folder, key_file=other, remember=False).close()


def test_a_passphrase_is_changed(tmp_path):
    folder = tmp_path / "v"
    strongroom.Vault.create(folder, passphrase=bytearray(b"old"), remember=False).close()
    with strongroom.Keys(folder, passphrase="old", remember=False) as keys:
        keys.change_passphrase(keys.slots()[0], b"new")
        keys.add_passphrase("third", "another")
    with pytest.raises(strongroom.WrongSecretError):
        strongroom.Keys(folder, passphrase="old", remember=False)
    strongroom.Vault(folder, passphrase=lambda: "new", remember=False).close()


@pytest.mark.parametrize("odd", [1234, 0, 1.5, ["sesame"], [1, 2], lambda: 7, lambda: None], ids=str)
def test_what_is_no_passphrase_is_refused(tmp_path, odd):
    """Failed before: a number made a passphrase of so many zeros."""
    with pytest.raises(TypeError, match="a passphrase is text or bytes"):
        strongroom.Vault.create(tmp_path / "v", passphrase=odd, remember=False)
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("odd", [0, True, 1.5, ["vault.key"], bytearray(b"vault.key")], ids=str)
def test_what_is_no_key_file_is_refused(tmp_path, odd):
    """Failed before: the content of a key file was read from the descriptor of that number."""
    with pytest.raises(TypeError, match="a file is its path, or bytes"):
        strongroom.Vault.create(tmp_path / "v", key_file=odd, remember=False)
    assert not (tmp_path / "v").exists()


def test_an_exception_about_a_secret_does_not_hold_it(tmp_path):
    """Failed before: Python's own exception for text that UTF-8 cannot encode has the text."""
    with pytest.raises(ValueError) as error:
        strongroom.Vault.create(tmp_path / "v", passphrase="sesame-7391\udcff", remember=False)
    assert "sesame" not in repr(error.value) + repr(vars(error.value)) and error.value.__context__ is None
    assert not isinstance(error.value, UnicodeError) and not (tmp_path / "v").exists()


def test_no_secret_shows_in_what_is_printed(tmp_path):
    secret = "sesame-7391"
    with strongroom.Vault.create(tmp_path / "v", passphrase=secret, remember=False) as vault:
        texts = [repr(vault), str(vault), repr(vault.information()), repr(vars(vault))]
        code = vault.recovery_code
        assert secret not in "".join(texts) and code not in repr(vault)
    with pytest.raises(strongroom.WrongSecretError) as error:
        strongroom.Vault(tmp_path / "v", passphrase=secret + "x", remember=False)
    assert secret not in str(error.value) and secret not in repr(error.value)


@pytest.fixture
def stick(tmp_path):
    place = tmp_path / "stick"
    place.mkdir()
    return f"folder:{place}"


def test_two_devices_share_a_vault(vault, tmp_path, key_file, stick):
    vault.write_text("/a", "from one")
    vault.add_remote("stick", stick)
    heard = []
    status = vault.remote_status("stick")
    assert status.is_waiting and status.waiting_files == 1 and status.newest == ()
    report = vault.push("stick", lambda done, total: heard.append((done, total)))
    assert report.objects > 0 and report.bytes > 0 and report.publications > 0 and heard
    assert vault.push("stick") == strongroom.PushReport(0, 0, 0)
    (remote,) = vault.remotes()
    assert remote.name == "stick" and remote.url.endswith("stick") and not remote.keeps
    assert len(remote.code) == 24 and remote.publications > 0 and remote.objects > 0
    status = vault.remote_status("stick")
    assert not status.is_waiting and (status.waiting_files, status.away_bytes, status.alone_bytes) == (0, 0, 0)
    (newest,) = status.newest
    assert newest.is_this and newest.number == remote.publications and newest.time_s > 0 and status.contact_s > 0
    fingerprint = strongroom.clone(stick, tmp_path / "two", key_file=key_file, remember=False)
    assert fingerprint == vault.information().fingerprint
    with strongroom.Vault(tmp_path / "two", key_file=key_file, remember=False) as other:
        assert other.read_text("/a") == "from one"
        other.write_text("/b", "from two")
        assert other.sync_with("origin").pushed.publications > 0
        report = vault.pull("stick")
        assert report.names == 1 and vault.read_text("/b") == "from two"
        vault.write_bytes("/a", b"\0one")
        other.write_bytes("/a", b"\0two")
        vault.sync_with("stick")
        report = other.sync_with("origin").pulled
        assert report.conflicts == 1 and len(report.conflict_paths) == 1
        (conflict,) = other.conflicts()
        assert conflict.path == report.conflict_paths[0] and conflict.beside == "/a" and conflict.is_published
        with pytest.raises(ValueError, match="mine"):
            other.settle_conflict(conflict.path, "whatever")
        assert other.settle_conflict(conflict.path, "mine") == "/a"
        assert other.conflicts() == [] and other.read_bytes("/a") == b"\0two"
        other.sync_with("origin")
    assert vault.pull("stick").publications > 0
    assert vault.check_remote("stick", deep=True) == []
    vault.remove_remote("stick")
    assert vault.remotes() == []


def test_a_sync_says_what_it_erased_and_merged(vault, tmp_path, key_file, stick):
    content = os.urandom(400_000)
    vault.write_bytes("/secret", content)
    vault.write_text("/text", "a\nb\nc\nd\ne\nf\ng\nh\n")
    vault.take_snapshot("with it", ("with",))
    vault.add_remote("stick", stick)
    vault.sync_with("stick")
    strongroom.clone(stick, tmp_path / "two", key_file=key_file, remember=False)
    with strongroom.Vault(tmp_path / "two", key_file=key_file, remember=False) as other:
        other.sync_with("origin")
        vault.sync_with("stick")
        vault.remove("/secret")
        assert vault.erase("/secret").bytes >= len(content)
        vault.write_text("/text", "one\nb\nc\nd\ne\nf\ng\nh\n")
        other.write_text("/text", "a\nb\nc\nd\ne\nf\ng\ntwo\n")
        vault.sync_with("stick")
        report = other.sync_with("origin")
        assert report.pulled.erased_bytes >= len(content)
        assert report.pulled.unerased_bytes == 0 and report.pulled.erase_problems == ()
        assert (report.pulled.merged, report.pulled.merged_paths) == (1, ("/text",))
        assert (report.evicted_segments, report.evicted_bytes) == (0, 0)
        with other.at("t:with") as state, pytest.raises(OSError) as error:
            state.read_bytes("/secret")
        assert error.value.errno == 61


def test_what_is_wrong_with_a_remote_is_a_remote_error(vault, stick, tmp_path):
    for call in (
        lambda: vault.push("none"),
        lambda: vault.add_remote("bad name!", stick),
        lambda: vault.add_remote("x", "nonsense://y"),
        lambda: vault.add_remote("x", f"folder:{tmp_path / 'missing'}"),
    ):
        with pytest.raises(strongroom.RemoteError) as error:
            call()
        assert error.value.errno
    vault.add_remote("stick", stick, keep=True)
    assert vault.remotes()[0].keeps
    with pytest.raises(strongroom.RemoteError):
        vault.add_remote("stick", stick)


def test_a_transfer_is_stopped_by_its_listener(vault, stick):
    vault.write_bytes("/a", os.urandom(100_000))
    vault.add_remote("stick", stick)
    with pytest.raises(strongroom.StoppedError) as error:
        vault.push("stick", lambda done, total: False)
    assert error.value.errno == 125
    with pytest.raises(KeyError):
        vault.push("stick", lambda done, total: {}["raised in the listener"])
    assert vault.push("stick").publications > 0
    vault.limit_remotes(up=10**9, down=None)


def test_a_continuous_sync_brings_things_there(vault, stick, tmp_path, key_file):
    vault.add_remote("stick", stick)
    events = []
    with vault.keep_in_sync(1.0, events.append) as syncing:
        vault.write_text("/a", "by itself")
    syncing.finish()
    syncing.close()
    strongroom.clone(stick, tmp_path / "two", key_file=key_file, remember=False)
    with strongroom.Vault(tmp_path / "two", key_file=key_file, remember=False) as other:
        assert other.read_text("/a") == "by itself"
    assert {event["kind"] for event in events} <= {"moving", "synced", "failed", "recovered"}


def test_a_continuous_sync_ends_with_its_vault(vault, stick):
    vault.add_remote("stick", stick)
    vault.keep_in_sync(3600)
    vault.close()


class Listener:
    """Hears of a continuous sync; ``synced`` is set whenever something went up."""

    def __init__(self, does=lambda: None):
        self.does = does
        self.synced = threading.Event()
        self.syncing = None
        self.known = threading.Event()

    def __call__(self, event):
        if event["kind"] == "synced" and event["report"]["pushed"]["objects"]:
            try:
                self.does()
            finally:
                self.synced.set()

    def begin(self, vault):
        self.syncing = vault.keep_in_sync(1.0, self)
        self.known.set()
        assert self.synced.wait(60)


def test_a_continuous_sync_may_be_closed_by_what_hears_of_it(vault, stick):
    vault.add_remote("stick", stick)
    for end in ("close", "finish"):

        def close(end=end):
            assert listener.known.wait(60)
            getattr(listener.syncing, end)()
            getattr(listener.syncing, end)()

        vault.write_text(f"/{end}", "something new")
        listener = Listener(close)
        listener.begin(vault)
        listener.syncing.close()
        listener.syncing.finish()
    vault.push("stick")


def test_a_continuous_sync_may_be_closed_in_a_progress_function(vault, stick):
    vault.add_remote("stick", stick)
    vault.write_bytes("/a", os.urandom(100_000))
    ended = []

    def progress(done, total):
        # The first look of a sync waits for the push, which waits for this function.
        for end in ("close", "finish"):
            getattr(vault.keep_in_sync(1.0), end)()
            ended.append(end)

    vault.push("stick", progress)
    assert ended
    vault.push("stick")


def test_what_a_listener_raises_is_shown_and_ends_nothing(vault, stick, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: shown.append(told.exc_type))
    vault.add_remote("stick", stick)
    vault.write_text("/a", "one")
    listener = Listener(lambda: {}["raised in the listener"])
    listener.begin(vault)
    listener.synced.clear()
    vault.write_text("/a", "two")
    assert listener.synced.wait(60)
    listener.syncing.close()
    assert len(shown) >= 2 and set(shown) == {KeyError}


def test_a_continuous_sync_that_nobody_keeps_goes_on_until_its_vault_is_closed(vault, stick):
    vault.add_remote("stick", stick)
    vault.write_text("/a", "one")
    listener = Listener()
    listener.begin(vault)
    listener.syncing = None
    gc.collect()
    listener.synced.clear()
    vault.write_text("/a", "two")
    assert listener.synced.wait(60)
    vault.close()


def test_a_forked_child_leaves_the_continuous_sync_of_its_parent_alone(program, tmp_path):
    stick = tmp_path / "stick"
    stick.mkdir()
    program(
        """
        import threading
        vault = open_vault()
        vault.add_remote("stick", "folder:" + sys.argv[1])
        vault.write_text("/a", "x" * 1000)
        synced = threading.Event()
        syncing = vault.keep_in_sync(1.0, lambda event: synced.set() if event["kind"] == "synced" else None)
        assert synced.wait(60)
        child = os.fork()
        if child == 0:
            syncing.close()
            syncing.finish()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        synced.clear()
        vault.write_text("/a", "y" * 1000)
        assert synced.wait(60)
        syncing.close()
        vault.close()
        """,
        str(stick),
    )


def test_content_is_evicted_and_pinned(vault, stick):
    content = os.urandom(9 << 20)
    vault.write_bytes("/a", content)
    vault.add_remote("stick", stick)
    assert vault.evict().segments == 0
    vault.push("stick")
    stopped = vault.evict(progress=lambda done, total: False)
    assert stopped.is_stopped and stopped.segments == 0
    with pytest.raises(KeyError):
        vault.evict(progress=lambda done, total: {}["raised in the listener"])
    report = vault.evict("/a")
    assert report.segments > 0 and report.bytes > 8 << 20 and report.problems == () and not report.is_stopped
    assert vault.information().away_bytes > 8 << 20
    assert vault.read_bytes("/a") == content
    assert vault.information().away_bytes == 0
    assert vault.pin("/a").segments == 0 and vault.pins() == ["/a"]
    report = vault.evict()
    assert report.segments == 0 and report.pinned > 0
    assert vault.unpin("/a") and not vault.unpin("/a") and vault.pins() == []
    vault.evict()
    assert vault.bring_back("/a").segments > 0
    with pytest.raises(FileNotFoundError) as error:
        vault.pin("/none")
    assert error.value.filename == "/none"


def test_a_sync_keeps_the_limit_of_the_device(vault, stick):
    content = os.urandom(9 << 20)
    vault.write_bytes("/a", content)
    vault.add_remote("stick", stick)
    vault.push("stick")
    assert vault.keep_at_most() is None
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            vault.set_keep_at_most(wrong)
    vault.set_keep_at_most(1)
    report = vault.sync_with("stick")
    assert vault.keep_at_most() == 1 and report.evicted_segments > 0 and report.evicted_bytes > 8 << 20
    assert vault.information().away_bytes > 8 << 20
    vault.set_keep_at_most(None)
    assert vault.keep_at_most() is None and vault.read_bytes("/a") == content


def test_what_is_above_the_limit_is_evicted_at_once(vault, stick):
    content = os.urandom(9 << 20)
    vault.write_bytes("/a", content)
    vault.add_remote("stick", stick)
    vault.push("stick")
    assert vault.evict_to_limit().segments == 0
    vault.set_keep_at_most(1)
    stopped = vault.evict_to_limit(lambda done, total: False)
    assert stopped.is_stopped and stopped.segments == 0
    with pytest.raises(KeyError):
        vault.evict_to_limit(lambda done, total: {}["raised in the listener"])
    report = vault.evict_to_limit()
    assert report.segments > 0 and report.bytes > 8 << 20 and report.problems == () and not report.is_stopped
    assert (report.kept, report.pinned) == (0, 0) and vault.information().away_bytes > 8 << 20
    assert vault.read_bytes("/a") == content


def test_a_remote_is_pruned(vault, stick):
    vault.add_remote("stick", stick)
    vault.write_bytes("/a", os.urandom(1 << 20))
    vault.push("stick")
    vault.remove("/a")
    vault.push("stick")
    assert vault.unused_at_remote("stick").objects == 0
    vault.prune_remote("stick")
    vault.prune_remote("stick", grace=0, progress=lambda done, total: True)
    assert vault.check_remote("stick") == []
    with pytest.raises(ValueError):
        vault.prune_remote("stick", grace=-1)
    vault.remove_remote("stick")
    vault.add_remote("kept", stick, keep=True)
    with pytest.raises(strongroom.RemoteError) as error:
        vault.prune_remote("kept")
    assert error.value.errno == 13


def test_a_clone_on_demand_reads_from_the_remote(vault, stick, tmp_path, key_file):
    content = os.urandom(9 << 20)
    vault.write_bytes("/a", content)
    vault.add_remote("stick", stick)
    vault.push("stick")
    strongroom.clone(stick, tmp_path / "two", key_file=key_file, on_demand=True, remember=False)
    with strongroom.Vault(tmp_path / "two", key_file=key_file, remember=False) as other:
        assert other.information().away_bytes > 8 << 20
        assert other.read_bytes("/a") == content


def wrong(code):
    return code[:-1] + ("1" if code[-1] == "0" else "0")


def test_a_device_is_let_in_by_a_code(vault, stick, tmp_path, key_file):
    vault.write_text("/a", "for both")
    vault.add_remote("stick", stick)
    vault.push("stick")
    own = tmp_path / "laptop.key"
    strongroom.write_key_file(own)
    with pytest.raises(OSError) as error:
        strongroom.NewDevice(stick, "", key_file=own)
    assert error.value.errno == 22
    keys = strongroom.Keys(vault.folder, key_file=key_file, remember=False)
    with keys, vault.invite("stick") as invitation, strongroom.NewDevice(stick, "laptop", key_file=own) as device:
        assert invitation.look() is None
        with pytest.raises(ValueError):
            device.look()
        with pytest.raises(ValueError):
            device.clone(tmp_path / "laptop")
        with pytest.raises(ValueError):
            device.ask("no code")
        device.ask(wrong(invitation.code))
        assert invitation.look() is None and not device.look() and invitation.tries_left == 5
        assert invitation.look() is None and invitation.tries_left == 4
        with pytest.raises(OSError) as error:
            device.look()
        assert error.value.errno == 13
        device.ask(invitation.code)
        assert invitation.look() is None and not device.look()
        candidate = invitation.look()
        assert candidate.name == "laptop" and candidate.fingerprint == device.fingerprint
        strongroom.Vault.create(tmp_path / "stranger", key_file=key_file, remember=False).close()
        with strongroom.Keys(tmp_path / "stranger", key_file=key_file, remember=False) as foreign:
            with pytest.raises(OSError) as error:
                invitation.admit(foreign, candidate)
            # The key file and the recovery code, as before.
            assert error.value.errno == 22 and len(foreign.slots()) == 2
        invitation.admit(keys, candidate)
        assert device.look() and device.look()
        assert keys.slots()
        # What is closed while a call uses it is closed when that call has ended.
        device.clone(tmp_path / "laptop", remember=False, progress=lambda *_: device.close())
        with pytest.raises(ValueError):
            device.look()
    invitation.close()
    device.close()
    with pytest.raises(ValueError):
        invitation.look()
    with pytest.raises(ValueError):
        device.look()
    with strongroom.Vault(tmp_path / "laptop", key_file=own, remember=False) as joined:
        assert joined.read_text("/a") == "for both"
        joined.sync_with("origin")


def test_a_device_is_refused(vault, stick, tmp_path):
    vault.add_remote("stick", stick)
    vault.push("stick")
    invitation = vault.invite("stick")
    own = tmp_path / "laptop.key"
    strongroom.write_key_file(own)
    device = strongroom.NewDevice(stick, "laptop", key_file=own)
    device.ask(invitation.code)
    assert invitation.look() is None and not device.look()
    invitation.refuse(invitation.look())
    with pytest.raises(OSError) as error:
        device.look()
    assert error.value.errno == 13
    vault.close()
    with pytest.raises(ValueError):
        invitation.look()
