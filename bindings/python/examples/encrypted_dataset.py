# %% [markdown]
# # An encrypted dataset
#
# Blood pressure readings of patients: no part of them may be on this disk in the clear, not even in a cache. The vault holds the raw
# files, the tables made from them and the state of every import; pandas, pyarrow and DuckDB use it like any other storage.
#
# Open this file as a notebook (Jupyter with jupytext, VS Code), or run it: `python encrypted_dataset.py FOLDER`.

# %%
import io
import pathlib
import sys

import duckdb
import numpy
import pandas
import pyarrow.dataset
import strongroom
from strongroom.fsspec import StrongroomFileSystem

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
key_file = folder / "study.key"  # keep it on another medium
strongroom.write_key_file(key_file)
vault = strongroom.Vault.create(folder / "study", key_file=key_file)
print("Write this down:", vault.recovery_code)
files = StrongroomFileSystem(vault=vault)

# %% [markdown]
# ## Raw files come in
# They are written once, and every import is a snapshot: what an analysis was made from can be read again.

# %%
generator = numpy.random.default_rng(seed=1)


def import_readings(month: str) -> None:
    """What a clinic sent, straight from the line into the vault."""
    patients = [f"P{number:03}" for number in range(40)]
    readings = pandas.DataFrame(
        {
            "patient": numpy.repeat(patients, 25),
            "day": numpy.tile(numpy.arange(1, 26), 40),
            "systolic": generator.normal(128, 14, 1000).round().astype(int),
        }
    )
    received = io.StringIO()
    readings.to_csv(received, index=False)
    vault.makedirs("/raw", exist_ok=True)
    vault.replace_content(f"/raw/{month}.csv", received.getvalue())
    vault.take_snapshot(f"import of {month}")


import_readings("2026-09")
import_readings("2026-10")

# %% [markdown]
# ## Tables
# A partitioned Parquet dataset, written and read through the vault.

# %%
files.makedirs("/tables")
for path in vault.path("/raw").glob("*.csv"):
    with path.open(newline="") as file:
        table = pandas.read_csv(file).assign(month=path.stem)
    table.to_parquet(f"/tables/{path.stem}.parquet", filesystem=files)

dataset = pyarrow.dataset.dataset("/tables", filesystem=files, format="parquet")
high = dataset.to_table(filter=pyarrow.dataset.field("systolic") >= 140).to_pandas()
print(len(high), "readings of 140 or more")

# %%
database = duckdb.connect()
database.register_filesystem(files)
by_month = database.sql(
    "SELECT month, count(*) AS readings, avg(systolic) AS mean FROM 'strongroom:///tables/*.parquet' GROUP BY month ORDER BY month"
).df()
print(by_month)

# %% [markdown]
# ## A correction, and what it changed
# The clinic sends a month again. The earlier state is still there to compare with.

# %%
import_readings("2026-10")
first = vault.snapshots()[1]
with vault.at(first.id) as before, before.open("/raw/2026-10.csv") as old, vault.open("/raw/2026-10.csv") as new:
    change = pandas.read_csv(new)["systolic"].mean() - pandas.read_csv(old)["systolic"].mean()
print(f"the mean of October moved by {change:+.2f}")
print([path for path, _, _ in vault.differences(first.id, path="/raw")])

# %% [markdown]
# ## A patient withdraws
# What the study must forget goes from the tables, and from every snapshot.

# %%
for path in vault.path("/raw").glob("*.csv"):
    kept = pandas.read_csv(io.StringIO(path.read_text())).query("patient != 'P007'")
    vault.remove(path)
    assert vault.erase(path).files > 0
    vault.replace_content(path, kept.to_csv(index=False))
for path in vault.path("/tables").glob("*.parquet"):
    kept = pandas.read_parquet(str(path), filesystem=files).query("patient != 'P007'")
    kept.to_parquet(str(path), filesystem=files)
vault.take_snapshot("without P007")
for path in vault.path("/raw").glob("*.csv"):
    assert "P007" not in path.read_text()

# %%
assert vault.verify().sound
vault.close()
