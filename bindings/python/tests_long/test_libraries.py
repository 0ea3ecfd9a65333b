"""pandas, pyarrow, zarr and DuckDB write into a vault, and read the same data back."""

import numpy
import pandas
import pytest


@pytest.fixture
def frame():
    generator = numpy.random.default_rng(seed=7)
    return pandas.DataFrame(
        {
            "number": numpy.arange(10_000),
            "value": generator.normal(size=10_000),
            "word": generator.choice(["fern", "moss", "ü漢"], 10_000),
            "time": pandas.date_range("2026-01-01", periods=10_000, freq="min"),
        }
    )


# ---- pandas


def test_pandas_by_file_objects(vault, frame):
    with vault.open("/a.csv", "w", newline="") as file:
        frame.to_csv(file, index=False)
    with vault.open("/a.csv", newline="") as file:
        pandas.testing.assert_frame_equal(pandas.read_csv(file, parse_dates=["time"]), frame, check_dtype=False)
    with vault.open("/a.parquet", "wb") as file:
        frame.to_parquet(file)
    with vault.open("/a.parquet", "rb") as file:
        pandas.testing.assert_frame_equal(pandas.read_parquet(file), frame)
    with vault.open("/a.pickle", "wb") as file:
        frame.to_pickle(file)
    with vault.open("/a.pickle", "rb") as file:
        pandas.testing.assert_frame_equal(pandas.read_pickle(file), frame)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "feather", "pickle"])
def test_pandas_by_urls(frame, options, kind):
    url = f"strongroom:///a.{kind}"
    write = {"csv": {"index": False}, "json": {"date_unit": "ns", "date_format": "iso"}}.get(kind, {})
    read = {"csv": {"parse_dates": ["time"]}}.get(kind, {})
    getattr(frame, f"to_{kind}")(url, storage_options=options, **write)
    found = getattr(pandas, f"read_{kind}")(url, storage_options=options, **read)
    if kind == "json":  # it has no times
        found["time"] = pandas.to_datetime(found["time"]).dt.tz_localize(None)
    pandas.testing.assert_frame_equal(found, frame, check_dtype=False, check_index_type=False)


def test_pandas_reads_a_part_of_the_columns(frame, options):
    frame.to_parquet("strongroom:///a.parquet", storage_options=options, row_group_size=500)
    found = pandas.read_parquet(
        "strongroom:///a.parquet", storage_options=options, columns=["number"], filters=[("number", ">", 9_990)]
    )
    assert list(found["number"]) == list(range(9_991, 10_000))


def test_compressed_text(frame, options):
    frame.to_csv("strongroom:///a.csv.gz", storage_options=options, index=False)
    found = pandas.read_csv("strongroom:///a.csv.gz", storage_options=options)
    assert list(found["word"]) == list(frame["word"])


# ---- pyarrow


def test_pyarrow_datasets(fs, frame):
    import pyarrow
    import pyarrow.dataset
    import pyarrow.fs

    table = pyarrow.Table.from_pandas(frame)
    pyarrow.dataset.write_dataset(
        table, "/data", filesystem=fs, format="parquet", partitioning=["word"], partitioning_flavor="hive"
    )
    assert len(fs.ls("/data")) == 3
    dataset = pyarrow.dataset.dataset("/data", filesystem=fs, format="parquet", partitioning="hive")
    assert dataset.count_rows() == 10_000
    fern = dataset.to_table(filter=pyarrow.dataset.field("word") == "fern", columns=["number"])
    assert sorted(fern["number"].to_pylist()) == list(frame[frame["word"] == "fern"]["number"])
    wrapped = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    infos = wrapped.get_file_info(pyarrow.fs.FileSelector("/data", recursive=True))
    assert sum(info.is_file for info in infos) >= 3
    with wrapped.open_output_stream("/direct") as stream:
        stream.write(b"0123456789")
    with wrapped.open_input_file("/direct") as file:
        assert file.read_at(3, 5) == b"567"
    wrapped.copy_file("/direct", "/copy")
    wrapped.move("/copy", "/moved")
    wrapped.delete_file("/moved")
    wrapped.delete_dir("/data")
    assert [info.path for info in wrapped.get_file_info(pyarrow.fs.FileSelector("/"))] == ["/direct"]


def test_pyarrow_files_of_its_own_kinds(vault, frame):
    import pyarrow
    import pyarrow.csv
    import pyarrow.ipc
    import pyarrow.parquet

    table = pyarrow.Table.from_pandas(frame)
    with vault.open("/a.arrow", "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with vault.open("/a.arrow", "rb") as file, pyarrow.ipc.open_file(file) as reader:
        assert reader.read_all().equals(table)
    with vault.open("/a.parquet", "wb") as file:
        pyarrow.parquet.write_table(table, file, row_group_size=1000)
    with vault.open("/a.parquet", "rb") as file:
        opened = pyarrow.parquet.ParquetFile(file)
        assert opened.num_row_groups == 10
        assert opened.read_row_group(3, columns=["number"])["number"].to_pylist() == list(range(3000, 4000))


# ---- zarr


def test_zarr_arrays_and_groups(options):
    import zarr

    # zarr writes as to an object store, which has no directories.
    options = {**options, "auto_mkdir": True}
    data = numpy.arange(1_000_000, dtype="int32").reshape(1000, 1000)
    group = zarr.open_group("strongroom:///store.zarr", mode="w", storage_options=options)
    array = group.create_array("a", shape=data.shape, chunks=(100, 250), dtype=data.dtype)
    array[:] = data
    array.attrs["unit"] = "ml"
    array[5, 7] = -1
    again = zarr.open_group("strongroom:///store.zarr", mode="r", storage_options=options)["a"]
    assert again.attrs["unit"] == "ml" and again[5, 7] == -1 and again.chunks == (100, 250)
    numpy.testing.assert_array_equal(again[500:520, ::3], data[500:520, ::3])
    array.resize((1100, 1000))
    larger = zarr.open_array("strongroom:///store.zarr/a", mode="r", storage_options=options)
    assert larger.shape == (1100, 1000)


# ---- DuckDB


def test_duckdb_reads_and_writes(fs, frame):
    import duckdb

    connection = duckdb.connect()
    connection.register_filesystem(fs)
    connection.register("frame", frame)
    connection.execute("COPY (SELECT * FROM frame) TO 'strongroom:///a.parquet' (FORMAT parquet)")
    connection.execute("COPY (SELECT number, word FROM frame) TO 'strongroom:///a.csv' (HEADER)")
    assert connection.sql("SELECT count(*), sum(number) FROM 'strongroom:///a.parquet'").fetchall() == [(10_000, 49_995_000)]
    assert connection.sql("SELECT word, count(*) FROM 'strongroom:///a.csv' GROUP BY word ORDER BY word").fetchall() == sorted(
        frame.groupby("word").size().items()
    )
    fs.makedirs("/parts")
    for part in range(3):
        frame[part::3].to_parquet(f"/parts/{part}.parquet", filesystem=fs)
    assert connection.sql("SELECT count(*) FROM 'strongroom:///parts/*.parquet'").fetchall() == [(10_000,)]
    with pytest.raises(duckdb.Error):
        connection.sql("SELECT * FROM 'strongroom:///none.parquet'").fetchall()


# ---- all of them, from many threads


def test_parquet_files_are_written_by_many_threads(fs, frame):
    from concurrent.futures import ThreadPoolExecutor

    def work(number):
        path = f"/{number}.parquet"
        frame.assign(number=number).to_parquet(path, filesystem=fs)
        return int(pandas.read_parquet(path, filesystem=fs)["number"].sum())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == [number * 10_000 for number in range(16)]


def test_the_example_runs(tmp_path):
    import pathlib
    import subprocess
    import sys

    example = pathlib.Path(__file__).parents[1] / "examples" / "encrypted_dataset.py"
    ended = subprocess.run([sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "readings of 140 or more" in ended.stdout and "the mean of October moved by" in ended.stdout
    # What a look at the disk finds: no table, no patient.
    found = [path for path in tmp_path.rglob("*") if path.is_file() and b"P007" in path.read_bytes()]
    assert found == []
