"""A vault, and a file system for it, for the libraries that are tested here."""

import os

import pytest

import strongroom
from strongroom.fsspec import StrongroomFileSystem


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory):
    """What is remembered of vaults that were seen is of this run."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "vault.key"
    strongroom.write_key_file(path)
    return path


@pytest.fixture
def vault(tmp_path, key_file):
    with strongroom.Vault.create(tmp_path / "vault", key_file=key_file, remember=False) as made:
        yield made


@pytest.fixture
def fs(vault):
    return StrongroomFileSystem(vault=vault, skip_instance_cache=True)


@pytest.fixture
def options(vault, key_file):
    """As pandas and zarr take a file system: by what it is made with. The vault is open in this process already."""
    found = {"folder": str(vault.folder), "key_file": str(key_file)}
    yield found
    StrongroomFileSystem(**found).close()
