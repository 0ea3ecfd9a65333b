"""Snapshots, transactions, verification, backup."""

import os
import shutil

import pytest

import strongroom


def test_a_snapshot_keeps_what_was(vault):
    vault.makedirs("/d")
    vault.write_text("/d/a", "then")
    vault.symlink("a", "/d/l")
    vault.setxattr("/d/a", "user.x", b"y")
    taken = vault.take_snapshot("first", ("one",))
    assert taken.message == "first" and taken.tags == ("one",) and taken.time.year >= 2024
    vault.write_text("/d/a", "now")
    vault.write_text("/d/new", "")
    assert vault.take_snapshot(only_if_changed=True) is not None
    assert vault.take_snapshot(only_if_changed=True) is None
    with vault.at("t:one") as state:
        assert state.id == taken.id and taken.id.startswith(state.id[:8])
        assert state.read_text("/d/a") == "then" and sorted(state.listdir("/d")) == ["a", "l"]
        assert state.readlink("/d/l") == "a" and state.getxattr("/d/a", "user.x") == b"y"
        assert [entry.path for entry in state.tree("/")] == ["/d", "/d/a", "/d/l"]
        with state.open("/d/a", "rb") as file:
            assert file.read() == b"then"
        for mode in ("w", "a", "r+", "x"):
            with pytest.raises(OSError) as error:
                state.open("/d/a", mode)
            assert error.value.errno == 30
        with pytest.raises(OSError):
            state.stat("/d/../d")
        left_open = state.open("/d/a")
    assert state.closed and left_open.read() == "then"
    left_open.close()
    differences = {path: (before, after) for path, before, after in vault.differences("t:one")}
    assert set(differences) == {"/d/a", "/d/new"}
    assert differences["/d/new"] == (None, 0o100644)
    assert vault.restore("t:one", "/d/a", "/back") == 1 and vault.read_text("/back") == "then"
    assert [one.message for one in vault.snapshots()] == ["first", ""]
    assert [one.id for one in vault.snapshots("t:one")] == [taken.id]
    vault.remove_snapshot("t:one")
    with pytest.raises(strongroom.NoSuchSnapshotError) as error:
        vault.at("t:one")
    assert error.value.errno == 2
    assert vault.thin() == [] and vault.usage().live_bytes > 0


def test_the_state_of_now_goes_when_it_is_closed(vault):
    vault.write_text("/a", "x")
    with vault.snapshot() as state:
        assert len(vault.snapshots()) == 1
        vault.write_text("/a", "y")
        assert state.read_text("/a") == "x"
    assert vault.snapshots() == []


def test_content_is_erased_from_all_snapshots(vault):
    vault.write_bytes("/secret", b"x" * 100_000)
    vault.take_snapshot("with it")
    vault.remove("/secret")
    assert vault.erase("/secret", trial=True).files == 1
    erased = vault.erase("/secret")
    assert erased.files == erased.snapshots == 1 and erased.bytes >= 100_000
    assert erased.shared_bytes == 0 and erased.segments_left == 0
    with vault.at(vault.snapshots()[0].id) as state, pytest.raises(OSError) as error:
        state.read_bytes("/secret")
    assert error.value.errno == 61


def test_what_another_file_shares_is_not_erased(vault):
    vault.write_bytes("/a", b"x" * 100_000)
    with vault.open("/a", "rb", 0) as source, vault.open("/copy", "wb", 0) as target:
        assert source.copy_range(0, target, 0, 100_000) == 100_000
    vault.take_snapshot()
    vault.remove("/a")
    assert vault.erase("/a").shared_bytes >= 100_000
    assert vault.read_bytes("/copy") == b"x" * 100_000


def test_a_rule_says_which_snapshots_stay(vault):
    assert vault.retention() == strongroom.Retention(hourly=24, daily=30, monthly=12)
    assert vault.shared_retention() is None
    with pytest.raises(OSError) as error:
        vault.set_retention(strongroom.Retention(unnamed=True))
    assert error.value.errno == 22
    for wrong in (-1, 2**32):
        with pytest.raises(OverflowError):
            vault.set_retention(strongroom.Retention(daily=wrong))
    for rule in (strongroom.Retention.EVERYTHING, strongroom.Retention(last=1, weekly=2, yearly=3, unnamed=True)):
        vault.set_retention(rule)
        assert vault.retention() == rule
    vault.take_snapshot()
    vault.take_snapshot("kept")
    assert vault.thin() == []
    vault.set_retention(strongroom.Retention(last=1, unnamed=True))
    vault.take_snapshot()
    assert len(vault.thin()) == 1 and [one.message for one in vault.snapshots()] == ["kept", ""]


def test_a_transaction_happens_whole_or_not_at_all(vault):
    vault.write_text("/balance", "100")
    with vault.transaction(durable=True) as transaction:
        balance = int(transaction.read_text("/balance"))
        assert transaction.exists("/none") is False and transaction.stat("/balance").st_size == 3
        transaction.write_text("/balance", str(balance - 10))
        transaction.mkdir("/receipts")
        transaction.write_bytes("/receipts/1", b"10")
        transaction.pwrite("/receipts/1", b"!", 2)
        transaction.chmod("/receipts/1", 0o600)
        transaction.symlink("1", "/receipts/last")
        transaction.link("/receipts/1", "/receipts/copy")
        transaction.setxattr("/receipts/1", "user.x", b"y")
        transaction.utime("/receipts/1", ns=(None, 5))
        assert not vault.exists("/receipts")
    assert vault.read_text("/balance") == "90" and vault.read_text("/receipts/last") == "10!"
    with pytest.raises(KeyError), vault.transaction() as transaction:
        transaction.remove("/balance")
        raise KeyError
    assert vault.exists("/balance")
    with pytest.raises(FileNotFoundError), vault.transaction() as transaction:
        transaction.remove("/balance")
        transaction.rmdir("/none")
    assert vault.exists("/balance")
    transaction = vault.transaction()
    transaction.read_bytes("/balance")
    vault.write_text("/balance", "0")
    transaction.write_text("/balance", "80")
    with pytest.raises(strongroom.ChangedError) as error:
        transaction.commit()
    assert error.value.errno == 16 and vault.read_text("/balance") == "0"
    with pytest.raises(ValueError):
        transaction.commit()
    with pytest.raises(ValueError):
        transaction.write_text("/x", "")
    transaction.rollback()


def test_damage_is_named(tmp_path, key_file):
    folder = tmp_path / "v"
    with strongroom.Vault.create(folder, key_file=key_file, remember=False) as vault:
        vault.write_bytes("/a", os.urandom(500_000))
        vault.sync()
        report = vault.verify(deep=True)
        assert report.sound and report.finished and report.damaged == () and report.problems == ()
        assert not report.is_damaged
    (segment,) = [path for path in (folder / "segments").rglob("*") if path.is_file()]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with strongroom.Vault(folder, key_file=key_file, remember=False) as vault:
        with pytest.raises(strongroom.DamagedError) as error:
            vault.read_bytes("/a")
        assert error.value.errno == 5
        report = vault.verify()
        assert not report.sound and report.is_damaged and {damage.path for damage in report.damaged} == {"/a"}


def test_a_key_that_waits_for_a_decision_is_no_damage(tmp_path, key_file):
    folder, elsewhere = tmp_path / "v", tmp_path / "elsewhere"
    strongroom.Vault.create(folder, key_file=key_file, remember=False).close()
    shutil.copytree(folder, elsewhere)
    with strongroom.Keys(elsewhere, key_file=key_file, remember=False) as keys:
        keys.add_recovery_code("elsewhere")
    shutil.copy(elsewhere / "vault.json", folder / "vault.json")
    with strongroom.Vault(folder, key_file=key_file, remember=False) as vault:
        assert len(vault.information().unknown_records) == 1
        report = vault.verify()
        assert not report.sound and not report.is_damaged and len(report.problems) == 1
        vault.accept_records()
        assert vault.verify().sound


def test_a_backup_opens_with_the_same_key(vault, tmp_path, key_file):
    vault.write_bytes("/a", b"x" * 100_000)
    heard = []
    assert vault.backup(tmp_path / "backup", lambda done, total: heard.append((done, total))) > 0
    vault.close()
    with strongroom.Vault(tmp_path / "backup", key_file=key_file, read_only=True, remember=False) as backup:
        assert backup.read_bytes("/a") == b"x" * 100_000
