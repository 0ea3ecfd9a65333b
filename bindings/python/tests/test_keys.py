"""Key slots, remotes, and vaults on other devices."""

import os
import stat

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
    report = vault.push("stick", lambda done, total: heard.append((done, total)))
    assert report.objects > 0 and report.bytes > 0 and heard
    (remote,) = vault.remotes()
    assert remote.name == "stick" and remote.url.endswith("stick") and not remote.keeps
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
