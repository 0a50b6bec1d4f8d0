"""Read an export with other libraries: `python export_readers.py NAME FOLDER` prints its rows as JSON."""

import glob
import json
import sys


def with_pyarrow(folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(f"{folder}/data").to_table().to_pylist()


def with_duckdb(folder):
    import duckdb

    reader = "read_parquet" if glob.glob(f"{folder}/data/*.parquet") else "read_json"
    relation = duckdb.sql(f"select * from {reader}('{folder}/data/train-*')")
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def with_pandas(folder):
    import pandas

    if glob.glob(f"{folder}/data/*.parquet"):
        frame = pandas.read_parquet(f"{folder}/data")
    else:
        files = sorted(glob.glob(f"{folder}/data/*"))
        frame = pandas.concat([pandas.read_json(file, lines=True, convert_dates=False) for file in files])
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def with_polars(folder):
    import polars

    if glob.glob(f"{folder}/data/*.parquet"):
        return polars.read_parquet(f"{folder}/data/*.parquet").to_dicts()
    files = sorted(glob.glob(f"{folder}/data/*"))
    return [row for file in files for row in polars.read_ndjson(file, infer_schema_length=None).to_dicts()]


def with_datasets(folder):
    import tempfile

    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        return datasets.load_dataset(folder, split="train", cache_dir=cache).to_list()


def with_mlcroissant(folder):
    """Validate an export with the reference library of the format; for a single file, also read it."""
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=f"{folder}/croissant.json")
    assert not dataset.metadata.issues.errors
    rows = []
    for record in dataset.records("documents"):
        named = {name.removeprefix("documents/"): value for name, value in record.items()}
        rows.append({name: value.decode() if isinstance(value, bytes) else value for name, value in named.items()})
    return rows


def read(name, folder):
    rows = globals()[f"with_{name}"](str(folder))
    return json.loads(json.dumps(rows, default=lambda value: str(value).replace("T", " ")))


if __name__ == "__main__":
    json.dump(read(*sys.argv[1:]), sys.stdout)
